//! What is kept of what is overwritten: the state that it led to.
//!
//! Of lifetimes of tasks, of all that happened before the oldest event, that is who was alive then,
//! under which name and with which mappings. So a loop of renames or of short processes takes
//! the room of its last ones, and the names of all others stay.
//!
//! Where even that has no room, each user and each process has a share of it.

mod lives;
mod shares;
mod zones;

pub(crate) use zones::ZoneFold;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem;

use lives::{LifeOwner, ProcessLives};
use rustc_hash::FxHashMap;
use shares::{Claim, ClaimRank, LifetimeShares};
use syscollect_model::{Lane, LaneKind, Ticks};
use syscollect_records::{RecordKind, TaskRecord};
use syscollect_store::{Chunk, ChunkHeader, Definition, Fold, FoldBounds, KnownProcess, UserOf};

use crate::perf::mappings::{Change, Changed, changes};

/// Records wait in their stages before they come here, those of mappings
/// longest; what is younger than this before the oldest event is left as it
/// is. 1 to 2 s where ticks are a TSC's, 4 s where they are nanoseconds.
const MARGIN_TICKS: u64 = 1 << 32;
/// Renames and mappings of one process that are kept whenever they were, the newest.
const SHARE: usize = 4096;
/// Bytes of the chunks that remain.
const CHUNK_BYTES: usize = 256 << 10;
/// About what the note of a program takes beside its command line, and one of its threads.
const NOTE_BYTES: usize = 160;
const NOTED_THREAD_BYTES: usize = 64;

/// Folds all that a recording folds.
#[derive(Debug)]
pub(crate) struct StateFold {
    tasks: TaskFold,
    zones: ZoneFold,
}

impl StateFold {
    /// One that asks whose the processes and threads are which have much.
    pub(crate) fn new(user_of: UserOf) -> Self {
        Self { tasks: TaskFold::new(user_of), zones: ZoneFold::new(user_of) }
    }
}

impl Fold for StateFold {
    fn fold(&mut self, chunks: Vec<Chunk>, bounds: &FoldBounds) -> Vec<Chunk> {
        match chunks.first() {
            Some(chunk) if chunk.header.lane.kind == LaneKind::Zone => {
                self.zones.fold(chunks, bounds)
            }
            _ => self.tasks.fold(chunks, bounds),
        }
    }
}

/// Folds lanes of tasks and of mappings, and what was noted of programs.
#[derive(Debug)]
pub(crate) struct TaskFold {
    user_of: UserOf,
}

impl TaskFold {
    /// One that asks whose the processes are which have much.
    pub(crate) fn new(user_of: UserOf) -> Self {
        Self { user_of }
    }
}

impl Fold for TaskFold {
    fn fold(&mut self, chunks: Vec<Chunk>, bounds: &FoldBounds) -> Vec<Chunk> {
        let (oldest, room) = (bounds.oldest, bounds.room);
        let before = oldest.0.saturating_sub(MARGIN_TICKS);
        let tasks = Tasks::read(&chunks, before);
        let mappings = Mappings::read(&chunks, before);
        let folded = filter(chunks, |one| match one {
            Kept::Task(ticks, record) => tasks.needs(*ticks, record, before),
            Kept::Mapping { change, last } => mappings.needs(change, last.0 < before, &tasks),
            Kept::Process(process) => !tasks.gone.contains(&process.pid),
        });
        if folded.iter().map(|chunk| chunk.data.len()).sum::<usize>() <= room {
            return folded;
        }
        let mapped = mappings_of_ended(&folded, &tasks);
        let claim_of = |one: &Kept<'_>| tasks.claim(one, &mapped);
        let mut shares = LifetimeShares::of(&tasks.lives);
        for chunk in &folded {
            visit(chunk, |one| shares.claim(tasks.owner(one), claim_of(one), one.bytes()));
        }
        shares.divide(room, self.user_of);
        filter(folded, |one| shares.has_room(tasks.owner(one), claim_of(one)))
    }
}

/// Something that may be kept.
enum Kept<'a> {
    /// A record of a thread, and its full ticks.
    Task(u64, TaskRecord),
    /// A record of a process's mappings, and the last ticks of its chunk.
    Mapping { change: Change<'a>, last: Ticks },
    /// What was noted of a program.
    Process(&'a KnownProcess),
}

impl Kept<'_> {
    fn bytes(&self) -> usize {
        match self {
            Self::Task(..) => TaskRecord::SIZE,
            Self::Mapping { change, .. } => change.bytes.len(),
            Self::Process(process) => {
                let arguments = process.command_line.iter().map(|text| text.len() + 3);
                NOTE_BYTES + arguments.sum::<usize>() + process.threads.len() * NOTED_THREAD_BYTES
            }
        }
    }
}

/// Looks at all of a chunk.
fn visit(chunk: &Chunk, mut look: impl FnMut(&Kept<'_>)) {
    let last = chunk.header.last;
    match chunk.header.lane.kind {
        LaneKind::Task => {
            task_records(chunk).for_each(|(ticks, record)| look(&Kept::Task(ticks, record)));
        }
        LaneKind::Mapping => {
            changes(&chunk.data).for_each(|change| look(&Kept::Mapping { change, last }));
        }
        _ => noted(chunk).iter().for_each(|process| look(&Kept::Process(process))),
    }
}

/// What of `chunks` is to be kept.
fn filter(chunks: Vec<Chunk>, mut is_kept: impl FnMut(&Kept<'_>) -> bool) -> Vec<Chunk> {
    let mut folded = Folded::default();
    for chunk in chunks {
        if !matches!(chunk.header.lane.kind, LaneKind::Task | LaneKind::Mapping) {
            folded.notes.extend(filter_notes(chunk, &mut is_kept));
            continue;
        }
        let (mut data, mut records) = (Vec::new(), 0);
        visit(&chunk, |one| {
            if is_kept(one) {
                records += 1;
                match one {
                    Kept::Task(_, record) => data.extend_from_slice(record.as_bytes()),
                    Kept::Mapping { change, .. } => data.extend_from_slice(change.bytes),
                    Kept::Process(_) => {}
                }
            }
        });
        folded.add(&chunk, data, records);
    }
    folded.finish()
}

/// The programs that a note is about.
fn noted(chunk: &Chunk) -> Vec<KnownProcess> {
    match Definition::from_json(&chunk.data) {
        Ok(Some(Definition::Processes(processes))) => processes,
        _ => Vec::new(),
    }
}

/// What was noted of programs, of those that are kept.
fn filter_notes(chunk: Chunk, is_kept: &mut impl FnMut(&Kept<'_>) -> bool) -> Option<Chunk> {
    let mut processes = noted(&chunk);
    let all = processes.len();
    processes.retain(|process| is_kept(&Kept::Process(process)));
    match processes.len() {
        left if left == all => Some(chunk),
        0 => None,
        // Less than what was one chunk is one.
        _ => Definition::Processes(processes).chunks().pop(),
    }
}

/// Of each process that has ended: when it last got a mapping.
fn mappings_of_ended(chunks: &[Chunk], tasks: &Tasks) -> FxHashMap<u32, u64> {
    let mut last = FxHashMap::default();
    for change in mapping_chunks(chunks).flat_map(|chunk| changes(&chunk.data)) {
        if tasks.lives.ended(tasks.lives.last_of(change.pid)).is_some() {
            let known = last.entry(change.pid).or_default();
            *known = change.time.max(*known);
        }
    }
    last
}

fn mapping_chunks(chunks: &[Chunk]) -> impl Iterator<Item = &Chunk> {
    chunks.iter().filter(|chunk| chunk.header.lane.kind == LaneKind::Mapping)
}

/// The records of a chunk of tasks, with their full ticks.
fn task_records(chunk: &Chunk) -> impl Iterator<Item = (u64, TaskRecord)> {
    let first = chunk.header.first.0;
    let records = chunk.data.chunks_exact(TaskRecord::SIZE).filter_map(TaskRecord::from_bytes);
    records.map(move |record| (record.stamp.ticks_near(first), record))
}

fn kind(record: &TaskRecord) -> Option<RecordKind> {
    RecordKind::from_number(record.stamp.split().1)
}

/// Of each process with more than its share: the time from which on its are kept.
fn shares<I: Iterator<Item = (u32, u64)>>(times: impl Fn() -> I) -> FxHashMap<u32, u64> {
    let mut counts = FxHashMap::<u32, usize>::default();
    times().for_each(|(process, _)| *counts.entry(process).or_default() += 1);
    counts.retain(|_, count| *count > SHARE);
    let mut by_process = FxHashMap::<u32, Vec<u64>>::default();
    if !counts.is_empty() {
        let times = times().filter(|(process, _)| counts.contains_key(process));
        times.for_each(|(process, time)| by_process.entry(process).or_default().push(time));
    }
    let shares = by_process.into_iter().map(|(process, mut times)| {
        let at = times.len() - SHARE;
        (process, *times.select_nth_unstable(at).1)
    });
    shares.collect()
}

/// A thread's id and its start, which together are unique.
type LifetimeKey = (u32, u64);

/// What was seen of a thread.
#[derive(Clone, Copy, Debug, Default)]
struct TaskLifetime {
    tgid: u32,
    /// Which process forked it, if that was seen.
    parent: Option<u32>,
    /// Before the oldest event: the last exec, and the last name after that.
    exec: Option<u64>,
    named: Option<u64>,
    ended: Option<u64>,
    /// Its last record.
    last: u64,
    /// Of which process it is: the place in the [`ProcessLives`].
    life: usize,
    /// Something that lives when the oldest event happens is named or mapped by it.
    needed: bool,
}

impl TaskLifetime {
    fn lives_at(&self, ticks: u64) -> bool {
        self.ended.is_none_or(|ended| ended >= ticks)
    }
}

/// The lifetimes of all threads that records report.
#[derive(Default)]
struct Tasks {
    lifetimes: BTreeMap<LifetimeKey, TaskLifetime>,
    lives: ProcessLives,
    /// Processes whose mappings a child has that has not begun another program.
    inherited: BTreeSet<u32>,
    /// Processes that have ended before, and whose mappings nobody has.
    gone: BTreeSet<u32>,
    /// From when on renames of processes are kept that have many.
    renames: FxHashMap<u32, u64>,
}

impl Tasks {
    fn read(chunks: &[Chunk], before: u64) -> Self {
        let lanes = chunks.iter().filter(|chunk| chunk.header.lane.kind == LaneKind::Task);
        let mut records: Vec<(u64, TaskRecord)> = lanes.flat_map(task_records).collect();
        records.sort_by_key(|(ticks, _)| *ticks);
        let mut tasks = Self::default();
        for (ticks, record) in &records {
            tasks.record(*ticks, record, before);
        }
        tasks.find_needed(before);
        tasks.find_running();
        tasks.renames = shares(|| {
            let renames =
                records.iter().filter(|(_, record)| kind(record) == Some(RecordKind::Rename));
            renames.map(|(ticks, record)| (record.tgid, *ticks))
        });
        tasks
    }

    fn record(&mut self, ticks: u64, record: &TaskRecord, before: u64) {
        let TaskRecord { tid, tgid, parent_tgid, .. } = *record;
        let life = match kind(record) {
            Some(RecordKind::Fork) if tid == tgid => self.lives.begin(tgid, parent_tgid, ticks),
            _ => self.lives.go_on(tgid, ticks),
        };
        let lifetime = self.lifetimes.entry((record.tid, record.start_time)).or_default();
        lifetime.tgid = record.tgid;
        lifetime.last = ticks;
        lifetime.life = life;
        match kind(record) {
            Some(RecordKind::Fork) => lifetime.parent = Some(record.parent_tgid),
            Some(RecordKind::Exit) => lifetime.ended = Some(ticks),
            Some(RecordKind::Exec) => {
                // A thread that is not the first takes the place of the first one, whose end was
                // told.
                lifetime.ended = None;
                if ticks < before {
                    (lifetime.exec, lifetime.named) = (Some(ticks), None);
                }
                let old = record.parent_tid;
                if old != 0 && old != record.tid {
                    let same_id = self
                        .lifetimes
                        .range_mut((old, 0)..=(old, u64::MAX))
                        .map(|(_, lifetime)| lifetime);
                    same_id
                        .filter(|lifetime| lifetime.ended.is_none())
                        .for_each(|lifetime| lifetime.ended = Some(ticks));
                }
            }
            _ if ticks < before => lifetime.named = Some(ticks),
            _ => {}
        }
    }

    fn find_running(&mut self) {
        let running = self.lifetimes.values().filter(|lifetime| lifetime.ended.is_none());
        running.for_each(|lifetime| self.lives.set_running(lifetime.life));
    }

    /// Of which process that is. Mappings have times of another clock: they are the last one's that
    /// had the number.
    fn owner(&self, one: &Kept<'_>) -> LifeOwner {
        match one {
            Kept::Task(_, record) => {
                let lifetime = self.lifetimes.get(&(record.tid, record.start_time));
                lifetime.map_or(LifeOwner::Unrecorded(record.tgid), |lifetime| {
                    LifeOwner::Life(lifetime.life)
                })
            }
            Kept::Mapping { change, .. } => self.lives.last_of(change.pid),
            Kept::Process(process) => self.lives.at(process.pid, process.noted.0),
        }
    }

    /// When that is to give way; `mapped` is when processes that have ended got their last mapping.
    fn claim(&self, one: &Kept<'_>, mapped: &FxHashMap<u32, u64>) -> Claim {
        let ended = self.lives.ended(self.owner(one));
        match one {
            Kept::Task(ticks, record) => {
                let lifetime = self.lifetimes.get(&(record.tid, record.start_time));
                match (ended, lifetime.filter(|lifetime| lifetime.ended.is_some())) {
                    (Some(process), _) => Claim::new(ClaimRank::Ended, process.last),
                    (None, Some(thread)) => Claim::new(ClaimRank::Ended, thread.last),
                    (None, None) => Claim::new(ClaimRank::Running, *ticks),
                }
            }
            Kept::Mapping { change, .. } => match mapped.get(&change.pid) {
                Some(last) => Claim::new(ClaimRank::MappingOfEnded, *last),
                None => Claim::new(ClaimRank::MappingOfRunning, change.time),
            },
            Kept::Process(process) => match ended {
                Some(process) => Claim::new(ClaimRank::Ended, process.last),
                None => Claim::new(ClaimRank::Running, process.noted.0),
            },
        }
    }

    fn find_needed(&mut self, before: u64) {
        let alive = self.lifetimes.values().filter(|lifetime| lifetime.lives_at(before));
        let alive: BTreeSet<u32> = alive.map(|lifetime| lifetime.tgid).collect();
        let mut children: VecDeque<u32> = alive.iter().copied().collect();
        while let Some(process) = children.pop_front() {
            let first = self.lifetimes.range((process, 0)..=(process, u64::MAX)).next_back();
            let parent = first
                .filter(|(_, lifetime)| lifetime.exec.is_none())
                .and_then(|(_, lifetime)| lifetime.parent);
            children.extend(parent.filter(|parent| self.inherited.insert(*parent)));
        }
        for ((tid, _), lifetime) in &mut self.lifetimes {
            let is_first = *tid == lifetime.tgid;
            let of_process =
                alive.contains(&lifetime.tgid) || self.inherited.contains(&lifetime.tgid);
            lifetime.needed = lifetime.lives_at(before) || is_first && of_process;
            if is_first && !lifetime.needed {
                self.gone.insert(*tid);
            }
        }
    }

    /// Whether the record is from after the oldest event, or still tells what is true then.
    fn needs(&self, ticks: u64, record: &TaskRecord, before: u64) -> bool {
        let is_rename = kind(record) == Some(RecordKind::Rename);
        let lifetime =
            self.lifetimes.get(&(record.tid, record.start_time)).copied().unwrap_or_default();
        if ticks >= before {
            return !is_rename || self.renames.get(&record.tgid).is_none_or(|from| ticks >= *from);
        }
        match kind(record) {
            Some(RecordKind::Fork) => lifetime.needed,
            Some(RecordKind::Exec) => lifetime.needed && lifetime.exec == Some(ticks),
            // Whose birth was not seen was there at the start: that it ended must be known.
            Some(RecordKind::Exit) => lifetime.needed || lifetime.parent.is_none(),
            _ => lifetime.needed && lifetime.named == Some(ticks),
        }
    }
}

/// What is known of mappings before any is left out.
struct Mappings {
    /// The last mapping of each process at each address, and its last exec, in chunks before the
    /// oldest event.
    last: FxHashMap<(u32, u64), u64>,
    execs: FxHashMap<u32, u64>,
    /// From when on mappings of processes are kept that have many.
    shares: FxHashMap<u32, u64>,
}

impl Mappings {
    fn read(chunks: &[Chunk], before: u64) -> Self {
        let (mut last, mut execs) = (FxHashMap::default(), FxHashMap::default());
        for change in mapping_chunks(chunks)
            .filter(|chunk| chunk.header.last.0 < before)
            .flat_map(|chunk| changes(&chunk.data))
        {
            let known: &mut u64 = match change.what {
                Changed::Mapped { start } => last.entry((change.pid, start)).or_default(),
                Changed::Exec => execs.entry(change.pid).or_default(),
                Changed::Other => continue,
            };
            *known = change.time.max(*known);
        }
        let shares = shares(|| {
            let mapped = mapping_chunks(chunks).flat_map(|chunk| {
                changes(&chunk.data).map(|change| (chunk.header.last.0 < before, change))
            });
            let mapped = mapped.filter(|(old, change)| match change.what {
                // What others replaced is of no share.
                Changed::Mapped { start } => {
                    !old || last.get(&(change.pid, start)) == Some(&change.time)
                }
                _ => false,
            });
            mapped.map(|(_, change)| (change.pid, change.time))
        });
        Self { last, execs, shares }
    }

    /// Whether the record tells of something that is there after the oldest event; `old` says that
    /// it is from before.
    fn needs(&self, change: &Change<'_>, old: bool, tasks: &Tasks) -> bool {
        let Change { pid, time, .. } = *change;
        let in_share = self.shares.get(&pid).is_none_or(|from| time >= *from);
        let exec = self.execs.get(&pid).copied().filter(|_| !tasks.inherited.contains(&pid));
        let is_of_program = exec.is_none_or(|exec| time >= exec);
        match change.what {
            Changed::Mapped { start } if old => {
                let is_last = self.last.get(&(pid, start)) == Some(&time);
                in_share && is_last && is_of_program && !tasks.gone.contains(&pid)
            }
            Changed::Mapped { .. } => in_share,
            Changed::Exec => !old || is_of_program && !tasks.gone.contains(&pid),
            Changed::Other => !old,
        }
    }
}

/// What remains, by lane.
#[derive(Default)]
struct Folded {
    lanes: BTreeMap<Lane, Vec<Chunk>>,
    notes: Vec<Chunk>,
}

impl Folded {
    /// Adds what remains of a chunk: to the one before, as long as that is small.
    fn add(&mut self, chunk: &Chunk, data: Vec<u8>, records: u32) {
        let lane = self.lanes.entry(chunk.header.lane).or_default();
        let mut header = chunk.header;
        header.records = records;
        header.length = data.len() as u32;
        match lane.last_mut() {
            Some(last) if last.data.len() + data.len() <= CHUNK_BYTES || data.is_empty() => {
                last.data.extend_from_slice(&data);
                last.header.records += header.records;
                last.header.length += header.length;
                // Where the lane stands behind it is where it stood behind the chunk.
                last.header.sequence = header.sequence;
                last.header.records_before =
                    end_of(&chunk.header).saturating_sub(u64::from(last.header.records));
                last.header.last = header.last;
            }
            _ => {
                header.records_before =
                    end_of(&chunk.header).saturating_sub(u64::from(header.records));
                lane.push(Chunk { header, data });
            }
        }
    }

    /// The chunks.
    fn finish(mut self) -> Vec<Chunk> {
        let mut chunks = Vec::new();
        for mut lane in mem::take(&mut self.lanes).into_values() {
            number_backwards(&mut lane);
            lane.retain(|chunk| !chunk.data.is_empty());
            lane.iter_mut().for_each(|chunk| chunk.data.shrink_to_fit());
            chunks.append(&mut lane);
        }
        chunks.extend(mem::take(&mut self.notes));
        chunks
    }
}

/// Numbers chunks of a lane before its last one so that nothing is missing between them: what was
/// left out counts as missing before the first.
fn number_backwards(lane: &mut [Chunk]) {
    for index in (1..lane.len()).rev() {
        let [before, after] = &mut lane[index - 1..=index] else { continue };
        before.header.sequence = after.header.sequence.saturating_sub(1);
        let records = u64::from(before.header.records);
        before.header.records_before = after.header.records_before.saturating_sub(records);
    }
}

/// Records of the lane up to the chunk's end.
fn end_of(header: &ChunkHeader) -> u64 {
    header.records_before.saturating_add(u64::from(header.records))
}

#[cfg(test)]
#[path = "fold_tests.rs"]
mod tests;
