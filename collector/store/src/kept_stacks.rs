//! Stacks of a recording that overwrites: they wait in memory for its end, as its events do.
//!
//! A program of the kernel sends a stack once, so that an event of any time may refer to it. What
//! can go is known all the same, because those programs can be made to forget what they have sent:
//! a *generation* is what they sent from one forgetting to the next. Events that came after a
//! forgetting refer to no stack of before, so that a generation can go with the last event that
//! came before the next one.
//!
//! Where that is not enough, the oldest stacks of that process give way which has most, of the user
//! who has most: who makes new ones without end overwrites their own. Each process's stacks
//! therefore lie apart, in blocks, and are put together to the chunks of their lanes in the end.
//!
//! A copy shares the blocks, which are not written to any more while it does.

use crate::{Chunk, ChunkHeader};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::sync::Arc;
use syscollect_model::{Lane, Ticks};
use syscollect_records::StackHeader;

/// Bytes of a block: the first is small, for most processes have few stacks.
const FIRST_BLOCK: usize = 1 << 10;
const LARGEST_BLOCK: usize = 16 << 10;
/// What is counted for a process beside its blocks: its places in the maps.
const PROCESS: usize = 512;
/// Bytes of the chunks that come of blocks, at least.
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

/// Stacks of one process and lane that came one after the other, in one generation.
struct Block {
    lane: Lane,
    generation: u64,
    records: u32,
    /// Ticks that its records' are near to.
    near: Ticks,
    data: Vec<u8>,
}

/// What a process has.
#[derive(Clone)]
struct ProcessStacks {
    whose: StackOwner,
    /// Whose it is was looked up in this generation: its number may be another's by the next.
    is_settled: bool,
    blocks: VecDeque<Arc<Block>>,
    /// Blocks that went before the first of these.
    gone: u64,
    /// Of each lane the block that is being filled, by its number of all that the process had.
    open: BTreeMap<Lane, u64>,
    bytes: usize,
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
    processes: BTreeMap<u32, ProcessStacks>,
    ranks: UserRanks,
    bytes: usize,
    generation: u64,
    /// Bytes that came in this generation.
    came: usize,
    /// Whether some of this generation gave way.
    gave_way: bool,
    lanes: BTreeMap<Lane, Sent>,
    ending: Option<EndingLane>,
}

impl KeptStacks {
    /// Bytes that they take.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes that came since the programs forgot what they had sent.
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
            && let Some((process, length)) = next_record(rest)
        {
            let (record, behind) = rest.split_at(length);
            self.add_record((lane, first), process, record);
            rest = behind;
            added += 1;
        }
        records - added
    }

    fn add_record(&mut self, (lane, near): (Lane, Ticks), pid: u32, record: &[u8]) {
        self.came += record.len();
        let process = self.processes.entry(pid).or_insert_with(|| ProcessStacks::new(pid));
        let (whose, before) = (process.whose, process.bytes);
        process.add(lane, self.generation, near, record);
        let after = process.bytes;
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

    /// Stacks of before that generation go: no event refers to them.
    pub(crate) fn drop_before(&mut self, generation: u64) -> Vec<DroppedStacks> {
        let older = self.processes.iter().filter(|(_, process)| process.is_before(generation));
        let pids: Vec<u32> = older.map(|(pid, _)| *pid).collect();
        let mut gone = Vec::new();
        for pid in pids {
            while self.processes.get(&pid).is_some_and(|process| process.is_before(generation)) {
                gone.extend(self.pop_of(pid));
            }
        }
        gone
    }

    /// What gives way: the oldest of the process that has most, of the user who has most.
    pub(crate) fn give_way(&mut self) -> Option<DroppedStacks> {
        let pid = self.ranks.largest()?;
        self.gave_way |=
            self.processes.get(&pid).is_some_and(|process| !process.is_before(self.generation));
        self.pop_of(pid)
    }

    fn pop_of(&mut self, pid: u32) -> Option<DroppedStacks> {
        let process = self.processes.get_mut(&pid)?;
        let (whose, before) = (process.whose, process.bytes);
        let block = process.pop()?;
        let after = process.bytes;
        if after == 0 {
            self.processes.remove(&pid);
        }
        self.resized(pid, whose, before, after);
        Some(DroppedStacks { lane: block.lane, records: block.records })
    }

    /// The next chunk of what is here, to be asked for when nothing comes any more: lane by lane,
    /// each in order of time. What went counts as missing before the lane's first chunk.
    pub(crate) fn next_chunk(&mut self) -> Option<Chunk> {
        loop {
            if let Some(chunk) = self.ending.as_mut().and_then(EndingLane::next_chunk) {
                return Some(chunk);
            }
            let (lane, sent) = self.lanes.pop_first()?;
            let blocks = self.take_lane(lane);
            self.ending = Some(EndingLane::new(lane, sent, blocks));
        }
    }

    /// Bytes of what [`next_chunk`](Self::next_chunk) has not given.
    pub(crate) fn unwritten_bytes(&self) -> usize {
        self.bytes + self.ending.as_ref().map_or(0, |lane| lane.bytes - lane.taken)
    }

    /// Gives that up: records, by lane.
    pub(crate) fn take_unwritten(&mut self) -> Vec<(Lane, u64)> {
        let ending = self.ending.take();
        let ending = ending.map(|lane| (lane.lane, lane.records));
        let gone = self.drop_before(u64::MAX);
        let gone = gone.into_iter().map(|gone| (gone.lane, u64::from(gone.records)));
        self.lanes.clear();
        ending.into_iter().chain(gone).collect()
    }

    /// The blocks of a lane, of each process.
    fn take_lane(&mut self, lane: Lane) -> Vec<VecDeque<Arc<Block>>> {
        let pids: Vec<u32> = self.processes.keys().copied().collect();
        let mut taken = Vec::new();
        for pid in pids {
            let Some(process) = self.processes.get_mut(&pid) else { continue };
            let (whose, before) = (process.whose, process.bytes);
            taken.push(process.take_lane(lane));
            let after = process.bytes;
            if after == 0 {
                self.processes.remove(&pid);
            }
            self.resized(pid, whose, before, after);
        }
        taken
    }
}

impl ProcessStacks {
    fn new(pid: u32) -> Self {
        let is_kernel = pid == 0;
        Self {
            whose: if is_kernel { StackOwner::Kernel } else { StackOwner::Unknown },
            is_settled: is_kernel,
            blocks: VecDeque::new(),
            gone: 0,
            open: BTreeMap::new(),
            bytes: 0,
        }
    }

    fn add(&mut self, lane: Lane, generation: u64, near: Ticks, record: &[u8]) {
        let open = self.open.get(&lane).and_then(|number| number.checked_sub(self.gone));
        let block = open.and_then(|index| self.blocks.get_mut(index as usize));
        let capacity = block.as_ref().map_or(0, |block| block.data.capacity());
        // One that a copy shares is not written to.
        let block = block.and_then(Arc::get_mut);
        if let Some(block) = block.filter(|block| block.has_room(generation, record.len())) {
            block.add(record);
            return;
        }
        if self.blocks.is_empty() {
            self.bytes = PROCESS;
        }
        let capacity = (2 * capacity).clamp(FIRST_BLOCK, LARGEST_BLOCK).max(record.len());
        let data = Vec::with_capacity(capacity);
        let mut block = Block { lane, generation, records: 0, near, data };
        block.add(record);
        self.bytes += block.size();
        self.open.insert(lane, self.gone + self.blocks.len() as u64);
        self.blocks.push_back(Arc::new(block));
    }

    /// Whether its oldest stacks are of before that generation.
    fn is_before(&self, generation: u64) -> bool {
        self.blocks.front().is_some_and(|block| block.generation < generation)
    }

    /// Takes the oldest block.
    fn pop(&mut self) -> Option<Arc<Block>> {
        let block = self.blocks.pop_front()?;
        self.gone += 1;
        self.bytes -= block.size() + if self.blocks.is_empty() { PROCESS } else { 0 };
        Some(block)
    }

    /// Takes all blocks of a lane, when none is filled any more.
    fn take_lane(&mut self, lane: Lane) -> VecDeque<Arc<Block>> {
        self.open.clear();
        let (taken, others) = self.blocks.drain(..).partition(|block| block.lane == lane);
        self.blocks = others;
        self.bytes = self.blocks.iter().map(|block| block.size()).sum();
        self.bytes += if self.blocks.is_empty() { 0 } else { PROCESS };
        taken
    }
}

impl Block {
    fn has_room(&self, generation: u64, bytes: usize) -> bool {
        self.generation == generation && self.data.len() + bytes <= self.data.capacity()
    }

    fn add(&mut self, record: &[u8]) {
        self.data.extend_from_slice(record);
        self.records += 1;
    }

    /// Bytes that it takes.
    fn size(&self) -> usize {
        size_of::<Self>() + self.data.capacity()
    }
}

/// The process and the length of the record that begins there, if it is whole.
fn next_record(data: &[u8]) -> Option<(u32, usize)> {
    let header = StackHeader::from_bytes(data)?;
    let length = StackHeader::SIZE + usize::from(header.frames) * 8;
    (length <= data.len().min(LONGEST_RECORD)).then_some((header.tgid, length))
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
    processes: BTreeSet<(usize, u32)>,
}

impl UserRanks {
    /// A process has other bytes than before, or none.
    fn resized(&mut self, pid: u32, whose: StackOwner, before: usize, after: usize) {
        let user = self.users.entry(whose).or_default();
        self.by_bytes.remove(&(user.bytes, whose));
        user.processes.remove(&(before, pid));
        user.bytes = user.bytes - before + after;
        if after > 0 {
            user.processes.insert((after, pid));
        }
        match user.bytes {
            0 => drop(self.users.remove(&whose)),
            bytes => drop(self.by_bytes.insert((bytes, whose))),
        }
    }

    /// The process with most of the user with most.
    fn largest(&self) -> Option<u32> {
        let (_, whose) = self.by_bytes.last()?;
        let (_, pid) = self.users.get(whose)?.processes.last()?;
        Some(*pid)
    }
}

/// A lane on its way out: the stacks of its processes, put in order of time.
#[derive(Clone)]
struct EndingLane {
    lane: Lane,
    processes: Vec<EndingProcess>,
    /// When the next record of each was sent.
    next: BinaryHeap<Reverse<(Ticks, usize)>>,
    /// The lane's numbers of the next chunk.
    sequence: u64,
    records_before: u64,
    /// How many of its records are not out.
    records: u64,
    /// Bytes of all its records, and of those that are out.
    bytes: usize,
    taken: usize,
    chunk_bytes: usize,
}

/// What is left of a process's blocks of one lane.
#[derive(Clone)]
struct EndingProcess {
    blocks: VecDeque<Arc<Block>>,
    /// Where the next record of the first block begins.
    at: usize,
}

impl EndingLane {
    fn new(lane: Lane, sent: Sent, of_processes: Vec<VecDeque<Arc<Block>>>) -> Self {
        let blocks = of_processes.iter().flatten();
        let records: u64 = blocks.clone().map(|block| u64::from(block.records)).sum();
        let bytes: usize = blocks.map(|block| block.data.len()).sum();
        // No more chunks than came: their numbers end where the lane ends.
        let chunk_bytes = CHUNK_BYTES.max(bytes.div_ceil(sent.chunks.max(1) as usize));
        let chunks = 1 + bytes.saturating_sub(LONGEST_RECORD) / chunk_bytes;
        let processes: Vec<EndingProcess> =
            of_processes.into_iter().map(|blocks| EndingProcess { blocks, at: 0 }).collect();
        let next = (0..).zip(&processes).filter_map(|(index, process)| {
            process.next_ticks().map(|ticks| Reverse((ticks, index)))
        });
        Self {
            lane,
            next: next.collect(),
            processes,
            sequence: sent.chunks.saturating_sub(chunks as u64),
            records_before: sent.records.saturating_sub(records),
            records,
            bytes,
            taken: 0,
            chunk_bytes,
        }
    }

    fn next_chunk(&mut self) -> Option<Chunk> {
        let Reverse((first, _)) = *self.next.peek()?;
        let (mut data, mut last, mut records) = (Vec::new(), first, 0);
        let begun = self.taken / self.chunk_bytes;
        while let Some(Reverse((ticks, index))) = self.next.pop() {
            let process = &mut self.processes[index];
            process.take_record(&mut data);
            self.next.extend(process.next_ticks().map(|ticks| Reverse((ticks, index))));
            (last, records) = (ticks, records + 1);
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
        self.records -= u64::from(records);
        Some(Chunk { header, data })
    }
}

impl EndingProcess {
    /// When its next record was sent.
    fn next_ticks(&self) -> Option<Ticks> {
        let block = self.blocks.front()?;
        let header = StackHeader::from_bytes(block.data.get(self.at..)?)?;
        Some(Ticks(header.stamp.ticks_near(block.near.0)))
    }

    /// Moves its next record to `data`; a block that is empty is given back.
    fn take_record(&mut self, data: &mut Vec<u8>) {
        let Some(block) = self.blocks.front() else { return };
        let rest = &block.data[self.at..];
        let length = next_record(rest).map_or(rest.len(), |(_, length)| length);
        data.extend_from_slice(&rest[..length]);
        self.at += length;
        if self.at == block.data.len() {
            self.at = 0;
            self.blocks.pop_front();
        }
    }
}

#[cfg(test)]
#[path = "kept_stacks_tests.rs"]
mod tests;
