//! Lanes of fixed-size records as cursors.

use crate::chunk_queue::{ChunkQueue, Decode, LaneGap, Resume};
use syscollect_model::{Lane, LaneKind};
use syscollect_playback::order::{Cursor, RunEnd};
use syscollect_records::{
    CounterRecord, RecordKind, SampleRecord, SchedRecord, SchedStackRecord, Stamp, TaskRecord,
};

/// What a lane gives.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Record {
    /// Comes before the first record of every chunk.
    Chunk(ChunkStart),
    /// A scheduling event; ids are 0 where the lane carries no stacks.
    Sched(SchedStackRecord),
    /// A CPU sample.
    Sample(SampleRecord),
    /// A value of a counter.
    Counter(CounterRecord),
    /// Fork, exec, exit or rename; rare, and so large that it is boxed.
    Task(Box<TaskRecord>),
    /// A record of no kind that belongs to this lane.
    Unknown,
}

/// What a chunk restates, and what is missing before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkStart {
    /// The task that is current before the first record.
    pub(crate) current_tid: u32,
    /// What the lane produced between the last readable chunk and this one.
    pub(crate) missing: LaneGap,
}

/// The records of one lane, in the order they were written.
pub(crate) struct LaneCursor {
    lane: Lane,
    queue: ChunkQueue,
    /// First ticks of the chunk.
    first: u64,
    data: Vec<u8>,
    /// Start of the next record in `data`.
    at: usize,
    /// Bytes of each record, at least what its kind needs.
    stride: usize,
    /// Ticks of the next record; while it waits, the least that these may be.
    head: Option<u64>,
    waiting: bool,
    start: Option<ChunkStart>,
    undecodable: u64,
}

impl LaneCursor {
    pub(crate) fn new(lane: Lane) -> Self {
        Self {
            lane,
            queue: ChunkQueue::default(),
            first: 0,
            data: Vec::new(),
            at: 0,
            stride: 0,
            head: Some(0),
            waiting: true,
            start: None,
            undecodable: 0,
        }
    }

    /// Goes to the next chunk that holds a record; those so far were of up to `last`.
    #[cold]
    fn next_chunk(&mut self, last: u64) {
        self.waiting = false;
        while let Some((header, missing)) = self.queue.take(&mut self.data) {
            (self.at, self.first, self.stride) = (0, header.first.0, header.stride as usize);
            if self.stride < least_stride(self.lane.kind) {
                self.undecodable += u64::from(header.records);
                continue;
            }
            self.find_head();
            if self.head.is_some() {
                self.start = Some(ChunkStart { current_tid: header.current_tid, missing });
                return;
            }
        }
        (self.data, self.at) = (Vec::new(), 0);
        self.waiting = !self.queue.is_at_end();
        self.head = self.waiting.then(|| last.max(self.queue.not_before()));
    }

    #[inline]
    fn find_head(&mut self) {
        let record = self.data.get(self.at..self.at + self.stride);
        self.head = record.and_then(stamp).map(|stamp| stamp.ticks_near(self.first));
    }

    /// Takes the scheduling events that are [before](RunEnd::is_behind) that end, up to the next
    /// chunk; none of a lane that has others.
    #[inline]
    pub(crate) fn take_sched(
        &mut self,
        end: RunEnd<u64>,
        mut on: impl FnMut(u64, &SchedStackRecord),
    ) {
        if self.lane.kind != LaneKind::Sched || self.waiting || self.start.is_some() {
            return;
        }
        while let Some(ticks) = self.head.filter(|ticks| end.is_behind(ticks)) {
            let Some(record) = self.sched() else { return };
            on(ticks, &record);
            self.at += self.stride;
            self.find_head();
            if self.head.is_none() {
                return self.next_chunk(ticks);
            }
        }
    }

    /// The next record of a lane of scheduling.
    #[inline]
    fn sched(&self) -> Option<SchedStackRecord> {
        let record = &self.data[self.at..];
        if self.stride >= SchedStackRecord::SIZE {
            return SchedStackRecord::from_bytes(record);
        }
        let event = SchedRecord::from_bytes(record)?;
        Some(SchedStackRecord { event, user_stack: 0, kernel_stack: 0 })
    }

    #[inline]
    fn decode(&self) -> Option<Record> {
        let record = &self.data[self.at..];
        let (_, kind) = stamp(record)?.split();
        match self.lane.kind {
            LaneKind::Sched => self.sched().map(Record::Sched),
            LaneKind::Sample if kind == RecordKind::Sample as u8 => {
                SampleRecord::from_bytes(record).map(Record::Sample)
            }
            LaneKind::Counter if kind == RecordKind::Counter as u8 => {
                CounterRecord::from_bytes(record).map(Record::Counter)
            }
            LaneKind::Task => {
                TaskRecord::from_bytes(record).map(|task| Record::Task(Box::new(task)))
            }
            _ => None,
        }
    }
}

impl Decode for LaneCursor {
    fn lane(&self) -> Lane {
        self.lane
    }

    fn queue(&self) -> &ChunkQueue {
        &self.queue
    }

    fn queue_mut(&mut self) -> &mut ChunkQueue {
        &mut self.queue
    }

    fn undecodable(&self) -> u64 {
        self.undecodable
    }
}

impl Resume for LaneCursor {
    type Context<'c> = ();

    fn resume(&mut self, (): ()) {
        if self.waiting {
            self.next_chunk(self.head.unwrap_or_default());
        }
    }
}

impl Cursor for LaneCursor {
    type Key = u64;
    /// Ticks, and what happened.
    type Item = (u64, Record);

    #[inline]
    fn key(&self) -> Option<u64> {
        self.head
    }

    #[inline]
    fn is_waiting(&self) -> bool {
        self.waiting
    }

    #[inline]
    fn take(&mut self) -> (u64, Record) {
        let ticks = self.head.unwrap_or(u64::MAX);
        if let Some(start) = self.start.take() {
            return (ticks, Record::Chunk(start));
        }
        let record = self.decode().unwrap_or(Record::Unknown);
        self.at += self.stride;
        self.find_head();
        if self.head.is_none() {
            self.next_chunk(ticks);
        }
        (ticks, record)
    }
}

/// Bytes that the records of a lane have at least.
fn least_stride(kind: LaneKind) -> usize {
    match kind {
        LaneKind::Sched => SchedRecord::SIZE,
        LaneKind::Sample => SampleRecord::SIZE,
        LaneKind::Counter => CounterRecord::SIZE,
        LaneKind::Task => TaskRecord::SIZE,
        // Records of sizes of their own are not read here.
        _ => usize::MAX,
    }
}

#[inline]
fn stamp(record: &[u8]) -> Option<Stamp> {
    Some(Stamp(u64::from_ne_bytes(*record.first_chunk()?)))
}
