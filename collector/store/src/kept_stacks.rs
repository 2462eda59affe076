//! Stacks of a recording that overwrites: they wait in memory for its end, as its events do.
//!
//! A program of the kernel sends a stack once, so that an event of any time may refer to it. What
//! can go is known all the same, because those programs can be made to forget what they have sent:
//! a *generation* is what they sent from one forgetting to the next. Events that came after a
//! forgetting refer to no stack of before, so that a generation can go with the last event that
//! came before the next one.
//!
//! What is sent again, by another CPU or after a forgetting, has another id and is kept once: most
//! events lead through few stacks, each of which would be here for every CPU and generation.
//!
//! Where that is not enough, those stacks of that process give way which were sent least often, and
//! of these the oldest, of the process that has most, of the user who has most: who makes new ones
//! without end overwrites their own, and not what they use again and again.
//!
//! A copy shares the stacks of each process, which are copied when one is added while it does.

use crate::{Chunk, ChunkHeader};
use rustc_hash::{FxHashMap, FxHasher};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::Hasher as _;
use std::sync::Arc;
use syscollect_model::{Lane, Ticks};
use syscollect_records::{StackHeader, Stamp};

/// What is counted for a process beside its stacks: its places in the maps.
const PROCESS: usize = 320;
/// What is counted for a stack beside its bytes: its places in the list and in the index.
const STACK: usize = size_of::<KeptStack>() + 64;
/// So many stacks of a process are looked through; where there are more, they have an index.
const FEW: usize = 16;
/// Of a process that gives way, one in so many stacks goes at a time.
const PART_OF_PROCESS: usize = 8;
/// The times that its stacks were sent again go first where they take more than one in so many
/// bytes: only the oldest events need them.
const PART_OF_REPEATED: usize = 4;
/// Bytes of the chunks that come out in the end, at least.
const CHUNK_BYTES: usize = 256 << 10;
/// No program sends a record of more bytes.
const LONGEST_RECORD: usize = 4 << 10;

/// Whose stacks are, as far as that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum StackOwner {
    /// The kernel's own.
    Kernel,
    /// A user's.
    User(u32),
    /// Of a process that has just begun, or that ended before anybody looked.
    Unknown,
}

/// One time that a stack was sent.
#[derive(Clone, Copy)]
struct Sending {
    ticks: Ticks,
    stamp: Stamp,
    generation: u64,
    id: u32,
    lane: Lane,
}

/// A stack.
#[derive(Clone)]
struct KeptStack {
    hash: u64,
    /// Its record, without what differs each time that it is sent.
    record: Arc<[u8]>,
    last: Sending,
    before: Vec<Sending>,
}

impl KeptStack {
    fn sendings(&self) -> impl Iterator<Item = &Sending> {
        self.before.iter().chain([&self.last])
    }

    /// Bytes that it takes.
    fn size(&self) -> usize {
        self.record.len() + STACK + self.before.len() * size_of::<Sending>()
    }
}

/// The stacks of a process, in no order.
#[derive(Clone, Default)]
struct ProcessStacks {
    stacks: Vec<KeptStack>,
    /// Where each is, by its hash, where they are not few.
    index: FxHashMap<u64, usize>,
}

/// What a process has.
#[derive(Clone)]
struct OwnedStacks {
    whose: StackOwner,
    /// Whose it is was looked up in this generation: its number may be another's by the next.
    is_settled: bool,
    bytes: usize,
    stacks: Arc<ProcessStacks>,
}

/// What came of a lane, whatever became of it.
#[derive(Clone, Copy, Debug, Default)]
struct Sent {
    chunks: u64,
    records: u64,
}

/// Records that went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DroppedStacks {
    pub(crate) lane: Lane,
    pub(crate) records: u32,
}

/// The stacks that are kept.
#[derive(Clone, Default)]
pub(crate) struct KeptStacks {
    processes: BTreeMap<u32, OwnedStacks>,
    ranks: UserRanks,
    bytes: usize,
    generation: u64,
    /// What was sent before that generation is not here, or not wanted.
    oldest: u64,
    /// By how much what is here grew in this generation, whatever gave way.
    came: usize,
    /// Whether some of this generation gave way.
    gave_way: bool,
    lanes: BTreeMap<Lane, Sent>,
    ending: Option<EndingLanes>,
    /// The record that is looked up.
    scratch: Vec<u8>,
}

impl KeptStacks {
    /// Bytes that they take.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes by which they grew since the programs forgot what they had sent.
    pub(crate) fn came(&self) -> usize {
        self.came
    }

    /// Whether stacks that the programs take for sent gave way.
    pub(crate) fn lacks_some(&self) -> bool {
        self.gave_way
    }

    /// The present generation.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// What comes from now on is of the next generation.
    pub(crate) fn begin_generation(&mut self) {
        self.generation += 1;
        self.came = 0;
        self.gave_way = false;
        let others =
            self.processes.values_mut().filter(|process| process.whose != StackOwner::Kernel);
        others.for_each(|process| process.is_settled = false);
    }

    /// Adds a chunk's stacks; how many of its records are none that can be read.
    pub(crate) fn add(&mut self, chunk: &Chunk) -> u32 {
        let ChunkHeader { lane, records, first, sequence, records_before, .. } = chunk.header;
        let sent = self.lanes.entry(lane).or_default();
        sent.chunks = sent.chunks.max(sequence.saturating_add(1));
        sent.records = sent.records.max(records_before.saturating_add(u64::from(records)));
        let (mut rest, mut added) = (&chunk.data[..], 0);
        while added < records
            && let Some((header, length)) = next_record(rest)
        {
            let (record, behind) = rest.split_at(length);
            let ticks = Ticks(header.stamp.ticks_near(first.0));
            let (stamp, id, generation) = (header.stamp, header.id, self.generation);
            self.add_record(&header, record, Sending { ticks, stamp, generation, id, lane });
            rest = behind;
            added += 1;
        }
        records - added
    }

    fn add_record(&mut self, header: &StackHeader, record: &[u8], sending: Sending) {
        let pid = header.tgid;
        let same_each_time = StackHeader { stamp: Stamp::default(), id: 0, ..*header };
        self.scratch.clear();
        self.scratch.extend_from_slice(same_each_time.as_bytes());
        self.scratch.extend_from_slice(&record[StackHeader::SIZE..]);
        let process = self.processes.entry(pid).or_insert_with(|| OwnedStacks::new(pid));
        let (whose, before) = (process.whose, process.bytes);
        let added = Arc::make_mut(&mut process.stacks).add(&self.scratch, sending);
        process.bytes += added + if before == 0 { PROCESS } else { 0 };
        let after = process.bytes;
        self.came += after - before;
        self.resized(pid, whose, before, after);
    }

    /// A process's stacks take other bytes than before.
    fn resized(&mut self, pid: u32, whose: StackOwner, before: usize, after: usize) {
        if before != after {
            self.bytes = self.bytes - before + after;
            self.ranks.resized(pid, whose, before, after);
        }
    }

    /// Processes of which it is to be looked up whose they are.
    pub(crate) fn unsettled(&self) -> Vec<u32> {
        let unsettled = self.processes.iter().filter(|(_, process)| !process.is_settled);
        unsettled.map(|(pid, _)| *pid).collect()
    }

    /// The process is that user's; `None` where it has ended, and is whose it was.
    pub(crate) fn settle(&mut self, pid: u32, user: Option<u32>) {
        let Some(process) = self.processes.get_mut(&pid) else { return };
        process.is_settled = true;
        let Some(whose) = user.map(StackOwner::User) else { return };
        let (before, bytes) = (std::mem::replace(&mut process.whose, whose), process.bytes);
        if before != whose {
            self.resized(pid, before, bytes, 0);
            self.resized(pid, whose, 0, bytes);
        }
    }

    /// What was sent before that generation goes: no event refers to it.
    pub(crate) fn drop_before(&mut self, generation: u64) -> Vec<DroppedStacks> {
        if generation <= self.oldest {
            return Vec::new();
        }
        self.oldest = generation;
        let is_older = |stacks: &ProcessStacks| stacks.sendings_before(generation).next().is_some();
        let older = self.processes.iter().filter(|(_, process)| is_older(&process.stacks));
        let pids: Vec<u32> = older.map(|(pid, _)| *pid).collect();
        let mut gone = DroppedByLane::default();
        for pid in pids {
            self.change(pid, |stacks| stacks.drop_before(generation, &mut gone));
        }
        gone.told()
    }

    /// What was sent before that generation is left out of what comes out; how much that is.
    pub(crate) fn leave_out_before(&mut self, generation: u64) -> Vec<DroppedStacks> {
        self.oldest = self.oldest.max(generation);
        let mut gone = DroppedByLane::default();
        for process in self.processes.values() {
            process.stacks.sendings_before(generation).for_each(|sending| gone.count(sending));
        }
        gone.told()
    }

    /// What gives way, of the process that has most, of the user who has most: a part of its
    /// stacks, those that were sent least often.
    pub(crate) fn give_way(&mut self) -> Option<Vec<DroppedStacks>> {
        let pid = self.ranks.largest()?;
        let (mut gone, mut newest) = (DroppedByLane::default(), 0);
        self.change(pid, |stacks| newest = stacks.give_way(&mut gone));
        self.gave_way |= newest == self.generation;
        Some(gone.told())
    }

    /// Takes some of a process's stacks out.
    fn change(&mut self, pid: u32, change: impl FnOnce(&mut ProcessStacks)) {
        let Some(process) = self.processes.get_mut(&pid) else { return };
        let (whose, before) = (process.whose, process.bytes);
        change(Arc::make_mut(&mut process.stacks));
        process.bytes = process.stacks.bytes();
        let after = process.bytes;
        if after == 0 {
            self.processes.remove(&pid);
        }
        self.resized(pid, whose, before, after);
    }

    /// The next chunk of what is here, to be asked for when nothing comes any more: lane by lane,
    /// each in order of time. What went counts as missing before the lane's first chunk.
    pub(crate) fn next_chunk(&mut self) -> Option<Chunk> {
        if self.ending.is_none() {
            let lanes = std::mem::take(&mut self.lanes);
            self.ending = Some(EndingLanes::new(self.oldest, lanes, &self.processes, self.bytes));
            self.forget_all();
        }
        self.ending.as_mut()?.next_chunk()
    }

    fn forget_all(&mut self) {
        self.processes.clear();
        self.ranks = UserRanks::default();
        self.bytes = 0;
    }

    /// Bytes of what [`next_chunk`](Self::next_chunk) has not given.
    pub(crate) fn unwritten_bytes(&self) -> usize {
        self.bytes + self.ending.as_ref().map_or(0, EndingLanes::held)
    }

    /// Gives that up: records, by lane.
    pub(crate) fn take_unwritten(&mut self) -> Vec<(Lane, u64)> {
        let mut gone = Vec::new();
        if let Some(ending) = self.ending.replace(EndingLanes::default()) {
            gone.extend(ending.lanes.iter().map(|lane| (lane.lane, lane.records.len() as u64)));
        }
        let of_all = self.leave_out_before(u64::MAX);
        gone.extend(of_all.into_iter().map(|gone| (gone.lane, u64::from(gone.records))));
        self.forget_all();
        self.lanes.clear();
        gone
    }
}

/// Records that went, of each lane.
#[derive(Default)]
struct DroppedByLane(BTreeMap<Lane, u32>);

impl DroppedByLane {
    fn count(&mut self, sending: &Sending) {
        *self.0.entry(sending.lane).or_default() += 1;
    }

    fn told(self) -> Vec<DroppedStacks> {
        let lanes = self.0.into_iter();
        lanes.map(|(lane, records)| DroppedStacks { lane, records }).collect()
    }
}

impl OwnedStacks {
    fn new(pid: u32) -> Self {
        let is_kernel = pid == 0;
        Self {
            whose: if is_kernel { StackOwner::Kernel } else { StackOwner::Unknown },
            is_settled: is_kernel,
            bytes: 0,
            stacks: Arc::default(),
        }
    }
}

impl ProcessStacks {
    /// Adds a record; by how many bytes that is more.
    fn add(&mut self, record: &[u8], sending: Sending) -> usize {
        let mut hasher = FxHasher::default();
        hasher.write(record);
        let hash = hasher.finish();
        if let Some(known) = self.find(hash, record) {
            let stack = &mut self.stacks[known];
            stack.before.push(std::mem::replace(&mut stack.last, sending));
            return size_of::<Sending>();
        }
        let (record, before) = (Arc::from(record), Vec::new());
        let stack = KeptStack { hash, record, last: sending, before };
        let size = stack.size();
        self.stacks.push(stack);
        match self.index.is_empty() {
            true if self.stacks.len() > FEW => self.make_index(),
            true => {}
            false => drop(self.index.insert(hash, self.stacks.len() - 1)),
        }
        size
    }

    fn find(&self, hash: u64, record: &[u8]) -> Option<usize> {
        let is_it = |stack: &KeptStack| stack.hash == hash && *stack.record == *record;
        match self.index.is_empty() {
            true => self.stacks.iter().position(is_it),
            false => self.index.get(&hash).copied().filter(|known| is_it(&self.stacks[*known])),
        }
    }

    fn make_index(&mut self) {
        self.index.clear();
        if self.stacks.len() > FEW {
            self.index.extend(self.stacks.iter().map(|stack| stack.hash).zip(0..));
        }
    }

    fn bytes(&self) -> usize {
        let stacks: usize = self.stacks.iter().map(KeptStack::size).sum();
        stacks + if self.stacks.is_empty() { 0 } else { PROCESS }
    }

    fn sendings_before(&self, generation: u64) -> impl Iterator<Item = &Sending> {
        let sendings = self.stacks.iter().flat_map(KeptStack::sendings);
        sendings.filter(move |sending| sending.generation < generation)
    }

    fn drop_before(&mut self, generation: u64, gone: &mut DroppedByLane) {
        self.sendings_before(generation).for_each(|sending| gone.count(sending));
        self.stacks.retain_mut(|stack| {
            stack.before.retain(|sending| sending.generation >= generation);
            stack.last.generation >= generation
        });
        self.make_index();
    }

    /// Those go that were sent least often, and of these not for the longest time; or, where it is
    /// that which takes much, the earlier half of the times that each was sent. Gives the
    /// generation of the newest of what goes.
    fn give_way(&mut self, gone: &mut DroppedByLane) -> u64 {
        let repeated: usize = self.stacks.iter().map(|stack| stack.before.len()).sum();
        if repeated * size_of::<Sending>() > self.bytes() / PART_OF_REPEATED {
            let mut newest = 0;
            for stack in &mut self.stacks {
                let earlier = stack.before.len().div_ceil(2);
                for sending in stack.before.drain(..earlier) {
                    newest = newest.max(sending.generation);
                    gone.count(&sending);
                }
            }
            return newest;
        }
        let many = (self.stacks.len() / PART_OF_PROCESS).max(1);
        if many < self.stacks.len() {
            // What was sent again is what runs, and most events need it.
            let use_of = |stack: &KeptStack| (stack.before.len(), stack.last.ticks);
            self.stacks.select_nth_unstable_by_key(many, use_of);
        }
        let mut newest = 0;
        for stack in self.stacks.drain(..many.min(self.stacks.len())) {
            newest = newest.max(stack.last.generation);
            stack.sendings().for_each(|sending| gone.count(sending));
        }
        self.make_index();
        newest
    }
}

/// The header and the length of the record that begins there, if it is whole.
fn next_record(data: &[u8]) -> Option<(StackHeader, usize)> {
    let header = StackHeader::from_bytes(data)?;
    let length = StackHeader::SIZE + usize::from(header.frames) * 8;
    (length <= data.len().min(LONGEST_RECORD)).then_some((header, length))
}

/// Who has how much.
#[derive(Clone, Default)]
struct UserRanks {
    users: BTreeMap<StackOwner, UserStacks>,
    by_bytes: BTreeSet<(usize, StackOwner)>,
}

#[derive(Clone, Default)]
struct UserStacks {
    bytes: usize,
    /// Of those that have as much as another the one that began first comes last.
    processes: BTreeSet<(usize, Reverse<u32>)>,
}

impl UserRanks {
    /// A process has other bytes than before, or none.
    fn resized(&mut self, pid: u32, whose: StackOwner, before: usize, after: usize) {
        let user = self.users.entry(whose).or_default();
        self.by_bytes.remove(&(user.bytes, whose));
        user.processes.remove(&(before, Reverse(pid)));
        user.bytes = user.bytes - before + after;
        if after > 0 {
            user.processes.insert((after, Reverse(pid)));
        }
        match user.bytes {
            0 => drop(self.users.remove(&whose)),
            bytes => drop(self.by_bytes.insert((bytes, whose))),
        }
    }

    /// The process with most of the user with most.
    fn largest(&self) -> Option<u32> {
        let (_, whose) = self.by_bytes.last()?;
        let (_, Reverse(pid)) = self.users.get(whose)?.processes.last()?;
        Some(*pid)
    }
}

/// What is on its way out, lane by lane.
#[derive(Clone, Default)]
struct EndingLanes {
    lanes: VecDeque<EndingLane>,
    /// Bytes that all took, and those of all records.
    held: usize,
    bytes: usize,
    taken: usize,
}

/// A lane on its way out: the stacks of all processes, in order of time.
#[derive(Clone)]
struct EndingLane {
    lane: Lane,
    records: VecDeque<EndingRecord>,
    /// The lane's numbers of the next chunk.
    sequence: u64,
    records_before: u64,
    /// Bytes of all its records, and of those that are out.
    bytes: usize,
    taken: usize,
    chunk_bytes: usize,
}

#[derive(Clone)]
struct EndingRecord {
    sending: Sending,
    record: Arc<[u8]>,
}

impl EndingLanes {
    /// What was sent from that generation on; in memory all took so many bytes.
    fn new(
        oldest: u64,
        sent: BTreeMap<Lane, Sent>,
        processes: &BTreeMap<u32, OwnedStacks>,
        held: usize,
    ) -> Self {
        let mut lanes = BTreeMap::<Lane, Vec<EndingRecord>>::new();
        for stack in processes.values().flat_map(|process| &process.stacks.stacks) {
            let wanted = stack.sendings().filter(|sending| sending.generation >= oldest);
            for sending in wanted.copied() {
                let record = Arc::clone(&stack.record);
                lanes.entry(sending.lane).or_default().push(EndingRecord { sending, record });
            }
        }
        let lanes = lanes.into_iter().map(|(lane, mut records)| {
            records.sort_unstable_by_key(|of| (of.sending.ticks, of.sending.id));
            EndingLane::new(lane, sent.get(&lane).copied().unwrap_or_default(), records.into())
        });
        let lanes: VecDeque<EndingLane> = lanes.collect();
        let bytes = lanes.iter().map(|lane| lane.bytes).sum();
        Self { lanes, held, bytes, taken: 0 }
    }

    fn next_chunk(&mut self) -> Option<Chunk> {
        loop {
            if let Some(chunk) = self.lanes.front_mut()?.next_chunk() {
                self.taken += chunk.data.len();
                return Some(chunk);
            }
            self.lanes.pop_front();
        }
    }

    /// Bytes that are still held: as great a part as of the records.
    fn held(&self) -> usize {
        let left = (self.bytes - self.taken) as u128 * self.held as u128;
        (left / self.bytes.max(1) as u128) as usize
    }
}

impl EndingLane {
    fn new(lane: Lane, sent: Sent, records: VecDeque<EndingRecord>) -> Self {
        let bytes: usize = records.iter().map(|record| record.record.len()).sum();
        // No more chunks than came: their numbers end where the lane ends.
        let chunk_bytes = CHUNK_BYTES.max(bytes.div_ceil(sent.chunks.max(1) as usize));
        let chunks = 1 + bytes.saturating_sub(LONGEST_RECORD) / chunk_bytes;
        Self {
            lane,
            sequence: sent.chunks.saturating_sub(chunks as u64),
            records_before: sent.records.saturating_sub(records.len() as u64),
            records,
            bytes,
            taken: 0,
            chunk_bytes,
        }
    }

    fn next_chunk(&mut self) -> Option<Chunk> {
        let first = self.records.front()?.sending.ticks;
        let (mut data, mut last, mut records) = (Vec::new(), first, 0);
        let begun = self.taken / self.chunk_bytes;
        while let Some(record) = self.records.pop_front() {
            record.write_to(&mut data);
            (last, records) = (record.sending.ticks, records + 1);
            // How many chunks there will be is known before: at each multiple of their size one
            // ends, but for the last, which would leave less than a record.
            let ended = (self.taken + data.len()) / self.chunk_bytes;
            if ended > begun && self.bytes - ended * self.chunk_bytes >= LONGEST_RECORD {
                break;
            }
        }
        self.taken += data.len();
        let header = ChunkHeader {
            lane: self.lane,
            sequence: self.sequence,
            first,
            last,
            current_tid: u32::MAX,
            stride: 0,
            records_before: self.records_before,
            records,
            length: data.len() as u32,
        };
        self.sequence += 1;
        self.records_before += u64::from(records);
        Some(Chunk { header, data })
    }
}

impl EndingRecord {
    fn write_to(&self, data: &mut Vec<u8>) {
        let Sending { stamp, id, .. } = self.sending;
        let header = StackHeader::from_bytes(&self.record).unwrap_or_default();
        data.extend_from_slice(StackHeader { stamp, id, ..header }.as_bytes());
        data.extend_from_slice(&self.record[StackHeader::SIZE..]);
    }
}

#[cfg(test)]
#[path = "kept_stacks_tests.rs"]
mod tests;
