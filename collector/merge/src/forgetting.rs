//! What a recording that is played while it is made lets go of: whoever has ended, and can be named
//! by no event that is still to come.

use crate::engine::LaneState;
use crate::learner::Learner;
use crate::playing::Playing;
use crate::stacks::{ANEW_SECONDS, StacksLeft};
use crate::tasks::Tasks;
use rustc_hash::FxHashSet;
use syscollect_model::{
    AddressSpaces, Forgotten, Lane, LaneKind, LossCause, ProcessId, Tables, ThreadId, Ticks, Time,
};
use syscollect_playback::Stopped;
use syscollect_store::{Producer, ProducerShares, UserOf};

/// From one time to the next, nanoseconds.
const INTERVAL: u64 = 10_000_000_000;
/// The least where there is much.
const SHORTEST_INTERVAL: u64 = 1_000_000_000;
/// Who ended so long ago is named by nothing that comes: what programs write may be ten seconds
/// late. Nanoseconds.
const LATEST: u64 = 12_000_000_000;
/// A new program's stacks may be sent so much before it is told that it runs, seconds.
const BEFORE_EXEC: f64 = 1.0;
/// Threads that ended and are kept for that; more than a machine ends in that time.
const MOST_ENDED: usize = 1 << 17;
/// Executable mappings that are kept, of some 150 bytes each.
const MOST_MAPPINGS: usize = 1 << 19;
/// Texts that may come before those go that nothing has any more.
const MOST_NEW_TEXTS: usize = 1 << 16;
/// Stacks that an event's lane remembers until then.
const MOST_REMEMBERED: usize = 1 << 14;

/// When that was done last, and what for.
#[derive(Debug)]
pub(crate) struct Forgetting {
    user_of: UserOf,
    last: Time,
    /// Rows of threads that were there then.
    threads: usize,
    texts: usize,
    /// Since when all stacks are sent anew, if that was asked for.
    anew_since: Option<Ticks>,
    /// That is still to be asked for.
    wants_stacks_anew: bool,
}

impl Default for Forgetting {
    fn default() -> Self {
        Self {
            user_of: |_| None,
            last: Time(0),
            threads: 0,
            texts: 0,
            anew_since: None,
            wants_stacks_anew: false,
        }
    }
}

impl Forgetting {
    /// Asks this for who runs a process.
    pub(crate) fn ask(&mut self, user_of: UserOf) {
        self.user_of = user_of;
    }

    /// Whether all stacks should be sent anew, said once.
    pub(crate) fn take_wants_stacks_anew(&mut self) -> bool {
        std::mem::take(&mut self.wants_stacks_anew)
    }

    fn is_due(&self, now: Time, playing: &Playing<'_>) -> bool {
        let passed = now.0.saturating_sub(self.last.0);
        passed >= INTERVAL || (passed >= SHORTEST_INTERVAL && self.has_much(playing))
    }

    fn has_much(&self, playing: &Playing<'_>) -> bool {
        let engine = &playing.engine;
        let stacks = &engine.source.resolver.stacks;
        engine.tables.threads.held() > self.threads + MOST_ENDED
            || engine.tables.strings.len() > self.texts + 4 * MOST_NEW_TEXTS
            || stacks.is_nearly_full()
    }
}

/// What is kept while recording, each in what there is of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldRows {
    /// Rows of threads.
    pub threads: usize,
    /// Rows of processes.
    pub processes: usize,
    /// Rows of tracks, locks and places in the source.
    pub objects: usize,
    /// Texts.
    pub texts: usize,
    /// What is known of ids, beginnings, ends and names.
    pub lives: usize,
    /// Mappings, and beginnings of programs.
    pub memory: usize,
    /// Stacks that were sent.
    pub stacks: usize,
    /// Frames of them.
    pub frames: usize,
}

impl HeldRows {
    pub(crate) fn of(playing: &Playing<'_>, learner: &Learner) -> Self {
        let Playing { engine, decoders, .. } = playing;
        let Tables { strings, processes, threads, tracks, locks, locations, .. } = &engine.tables;
        let resolver = &engine.source.resolver;
        let (stacks, frames) = resolver.stacks.held();
        let lifetimes = decoders.zones.references.known.lifetimes.held();
        let execs: usize = learner.execs.values().map(Vec::len).sum();
        Self {
            threads: threads.held(),
            processes: processes.held(),
            objects: tracks.held() + locks.held() + locations.held(),
            texts: strings.len(),
            lives: learner.tasks.held() + lifetimes + execs,
            memory: resolver.stacks.locator.spaces.held(),
            stacks,
            frames,
        }
    }
}

/// Who is gone, and who ended so lately that it may still be named.
#[derive(Default)]
struct EndedThreads {
    gone: Vec<ThreadId>,
    lately: Vec<(Time, ThreadId)>,
    /// Nothing has told of their end, but somebody else has their ids.
    replaced: Vec<ThreadId>,
}

impl EndedThreads {
    fn find(tasks: &Tasks, playing: &Playing<'_>, before: Time) -> Self {
        let mut ended = Self::default();
        for (number, row) in playing.engine.tables.threads.numbered() {
            let thread = ThreadId(number);
            match row.end {
                _ if thread == Tables::IDLE_THREAD => {}
                Some(end) if end < before => ended.gone.push(thread),
                Some(end) => ended.lately.push((end, thread)),
                None => {
                    let has_id = playing.engine.threads.get(row.tid) == Some(thread);
                    if !has_id && !tasks.is_living(thread, row) {
                        ended.replaced.push(thread);
                    }
                }
            }
        }
        ended
    }

    /// Where there are too many, those go that ended first; how many these are.
    fn make_room(&mut self) -> u64 {
        let beyond = self.lately.len().saturating_sub(MOST_ENDED);
        if beyond > 0 {
            self.lately.sort_unstable();
            self.gone.extend(self.lately.drain(..beyond).map(|(_, thread)| thread));
        }
        beyond as u64
    }
}

impl Forgetting {
    /// Events of before these ticks were told: lets go of what no event names that comes, now and
    /// then.
    pub(crate) fn step(
        &mut self,
        until: Ticks,
        learner: &mut Learner,
        playing: &mut Playing<'_>,
    ) -> Result<(), Stopped> {
        let now = playing.engine.time(until.0);
        if !self.is_due(now, playing) {
            return Ok(());
        }
        self.last = now;
        let before = Time(now.0.saturating_sub(LATEST));
        let latest = learner.ticks_in(LATEST as f64 / 1e9);
        let ticks_before = Ticks(until.0.saturating_sub(latest));
        let mut ended = EndedThreads::find(&learner.tasks, playing, before);
        let beyond_share = ended.make_room();
        for thread in ended.replaced {
            playing.engine.tables.threads[thread.index()].end = Some(now);
        }
        let mut forgotten = Forgotten::of_threads(ended.gone);
        find_processes([before, now], &learner.tasks, &mut playing.engine.tables, &mut forgotten);
        let mut forgotten = forgotten.with_what_is_theirs(&playing.engine.tables);
        forget_rows(ticks_before, learner, playing, &mut forgotten);
        self.forget_memory(ticks_before, learner, playing)?;
        self.forget_stacks(until, learner, playing, &mut forgotten)?;
        self.finish(forgotten, playing)?;
        say(Lane::new(LaneKind::Task, 0), beyond_share, playing)
    }

    /// What processes had mapped.
    fn forget_memory(
        &self,
        before: Ticks,
        learner: &mut Learner,
        playing: &mut Playing<'_>,
    ) -> Result<(), Stopped> {
        let Learner { tasks, execs, .. } = learner;
        execs.retain(|pid, list| {
            let last = list.partition_point(|at| *at <= before.0);
            list.drain(..last.saturating_sub(1));
            tasks.has_process(*pid)
        });
        let locator = &mut playing.engine.source.resolver.stacks.locator;
        let spaces = &mut locator.spaces;
        spaces.forget_before(before, |pid| tasks.has_process(pid));
        let beyond_share = cut_to_shares(spaces, MOST_MAPPINGS, self.user_of);
        // Epochs count anew.
        locator.forget();
        say(Lane::new(LaneKind::Mapping, 0), beyond_share, playing)
    }

    fn forget_stacks(
        &mut self,
        until: Ticks,
        learner: &Learner,
        playing: &mut Playing<'_>,
        forgotten: &mut Forgotten,
    ) -> Result<(), Stopped> {
        let [longest, slack] = [ANEW_SECONDS, BEFORE_EXEC].map(|time| learner.ticks_in(time));
        let since = self.anew_since.filter(|at| until.0 > at.0.saturating_add(longest));
        let runs_since =
            |pid: u32| learner.tasks.runs_since(pid).map(|at| Ticks(at.saturating_sub(slack)));
        let resolver = &mut playing.engine.source.resolver;
        let found = resolver.stacks.forget(&StacksLeft {
            runs_since: &runs_since,
            sent_since: since.unwrap_or(Ticks(0)),
            user_of: self.user_of,
        });
        if since.is_some() {
            self.anew_since = None;
        }
        if found.wants_anew && self.anew_since.is_none() {
            (self.anew_since, self.wants_stacks_anew) = (Some(until), true);
        }
        forgotten.code = found.moved;
        if found.moved {
            resolver.forget_code();
            playing.engine.source.lanes.iter_mut().for_each(LaneState::forget_stacks);
            playing.decoders.zones.references.forget_code();
        }
        say(Lane::new(LaneKind::SampleStack, 0), found.beyond_share, playing)
    }

    /// The exporter lets go, and then the tables do.
    fn finish(
        &mut self,
        mut forgotten: Forgotten,
        playing: &mut Playing<'_>,
    ) -> Result<(), Stopped> {
        let Playing { engine, decoders, .. } = playing;
        let (exporter, tables) = engine.exporter();
        exporter.forget(&mut forgotten, tables)?;
        decoders.zones.references.known.logs.forget_rows(&forgotten);
        let forgets_texts = tables.strings.len() > self.texts + MOST_NEW_TEXTS;
        forgotten.texts = forgets_texts;
        let tables = &mut engine.tables;
        forgotten.clear(tables);
        if forgets_texts {
            self.texts = tables.strings.len();
        }
        self.threads = tables.threads.held();
        Ok(())
    }
}

/// Says what was left out.
fn say(lane: Lane, count: u64, playing: &mut Playing<'_>) -> Result<(), Stopped> {
    if count == 0 {
        return Ok(());
    }
    let engine = &mut playing.engine;
    engine.source.losses.beyond_share(lane, count);
    engine.emit(&engine.source.losses.event(lane, LossCause::BeyondShare, count, None))
}

/// Adds processes without threads that have ended.
fn find_processes(
    [before, now]: [Time; 2],
    tasks: &Tasks,
    tables: &mut Tables,
    forgotten: &mut Forgotten,
) {
    let threads = tables.threads.numbered();
    let left = threads.filter(|(number, _)| !forgotten.threads.contains(&ThreadId(*number)));
    let has_threads: FxHashSet<ProcessId> = left.map(|(_, row)| row.process).collect();
    let mut replaced = Vec::new();
    for (number, row) in tables.processes.numbered() {
        let process = ProcessId(number);
        if process == Tables::IDLE_PROCESS || has_threads.contains(&process) {
            continue;
        }
        match row.end {
            Some(end) if end < before => _ = forgotten.processes.insert(process),
            Some(_) => {}
            None if tasks.is_current(process, row) => {}
            None => replaced.push(process),
        }
    }
    for process in replaced {
        tables.processes[process.index()].end = Some(now);
    }
}

/// What decoders and who learns keep of them.
fn forget_rows(
    before: Ticks,
    learner: &mut Learner,
    playing: &mut Playing<'_>,
    forgotten: &mut Forgotten,
) {
    let Playing { engine, decoders, .. } = playing;
    engine.threads.forget(&forgotten.threads, &engine.tables);
    engine.tracks.forget(&forgotten.tracks);
    engine.source.new_rows.forget(forgotten);
    engine.source.lanes.iter_mut().for_each(|lane| lane.forget(forgotten, MOST_REMEMBERED));
    decoders.zones.forget(forgotten);
    decoders.probes.slices.forget(forgotten);
    decoders.counters.forget(forgotten);
    decoders.tracepoints.gpu.forget(forgotten);
    learner.tasks.forget(forgotten);
    let known = &mut decoders.zones.references.known;
    let lifetimes = &known.lifetimes;
    let last_of = |pid: u32| lifetimes.last_at(pid, u64::MAX).map(|(_, lifetime)| lifetime);
    let gone = known.programs.forget_ended(before.0, last_of);
    known.logs.forget(&gone, forgotten);
    known.lifetimes.forget_before(before.0);
}

/// Where there are more mappings than so many, those of the process with most go, of the user with
/// most, the earliest first; how many these are.
fn cut_to_shares(spaces: &mut AddressSpaces, most: usize, user_of: UserOf) -> u64 {
    if spaces.held() <= most {
        return 0;
    }
    let (mut shares, mut gone) = (ProducerShares::default(), 0);
    for (pid, count) in spaces.counts() {
        shares.add(Producer { user: user_of(pid).unwrap_or(u32::MAX), program: pid }, count);
    }
    while shares.of_all() > most / 4 * 3
        && let Some(largest) = shares.largest()
    {
        let cut = spaces.forget_half(largest.program);
        if cut == 0 {
            break;
        }
        shares.remove(largest, cut);
        gone += cut as u64;
    }
    gone
}
