//! Lanes of fixed-size records as cursors: one chunk in memory at a time.

use syscollect_model::{Lane, LaneKind};
use syscollect_playback::order::Cursor;
use syscollect_records::{
    CounterRecord, RecordKind, SampleRecord, SchedRecord, SchedStackRecord, Stamp, TaskRecord,
};
use syscollect_store::{CaptureReader, IndexEntry, ReadBuffer};

/// What a lane gives.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Record {
    /// Comes before the first record of every chunk.
    Chunk(ChunkStart),
    /// A scheduling event; ids are 0 where the lane carries no stacks.
    Sched { event: SchedRecord, user_stack: u32, kernel_stack: u32 },
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
    pub(crate) missing: Missing,
}

/// Records that a lane produced and that cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Missing {
    /// Records, as far as they were counted.
    pub(crate) records: u64,
    /// Chunks.
    pub(crate) chunks: u64,
}

/// The records of one lane, in the order they were written.
pub(crate) struct LaneCursor<'a> {
    reader: &'a CaptureReader,
    lane: Lane,
    entries: std::slice::Iter<'a, IndexEntry>,
    /// Where the lane stood after the last chunk that was read: its records and chunks.
    expected: Missing,
    /// First ticks of the chunk.
    first: u64,
    data: Vec<u8>,
    buffer: ReadBuffer,
    /// Start of the next record in `data`.
    at: usize,
    /// Bytes of each record, at least what its kind needs.
    stride: usize,
    /// Ticks of the next record.
    head: Option<u64>,
    start: Option<ChunkStart>,
    unreadable: u64,
    undecodable: u64,
}

impl<'a> LaneCursor<'a> {
    pub(crate) fn new(reader: &'a CaptureReader, lane: Lane) -> Self {
        let entries = reader.chunks(lane);
        let mut cursor = Self {
            reader,
            lane,
            entries: entries.iter(),
            expected: Missing::default(),
            first: 0,
            data: Vec::new(),
            buffer: ReadBuffer::default(),
            at: 0,
            stride: 0,
            head: None,
            start: None,
            unreadable: 0,
            undecodable: 0,
        };
        cursor.next_chunk();
        cursor
    }

    /// The lane.
    pub(crate) fn lane(&self) -> Lane {
        self.lane
    }

    /// Records of chunks that did not verify when they were read. Of those that
    /// are followed by a readable one, the [`ChunkStart`] has told already.
    pub(crate) fn unreadable(&self) -> u64 {
        self.unreadable
    }

    /// Records in readable chunks whose layout is not known here.
    pub(crate) fn undecodable(&self) -> u64 {
        self.undecodable
    }

    /// Loads the next chunk that can be read and holds a record.
    #[cold]
    fn next_chunk(&mut self) {
        self.head = None;
        let reader = self.reader;
        while let Some(entry) = self.entries.next() {
            let Ok(header) = reader.read_into(entry, &mut self.data, &mut self.buffer) else {
                self.unreadable += u64::from(entry.records);
                continue;
            };
            let missing = Missing {
                records: header.records_before.saturating_sub(self.expected.records),
                chunks: header.sequence.saturating_sub(self.expected.chunks),
            };
            self.expected = Missing {
                records: header.records_before.saturating_add(u64::from(header.records)),
                chunks: header.sequence.saturating_add(1),
            };
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
        self.data = Vec::new();
    }

    #[inline]
    fn find_head(&mut self) {
        let record = self.data.get(self.at..self.at + self.stride);
        self.head = record.and_then(stamp).map(|stamp| stamp.ticks_near(self.first));
    }

    #[inline]
    fn decode(&self) -> Option<Record> {
        let record = &self.data[self.at..];
        let (_, kind) = stamp(record)?.split();
        match self.lane.kind {
            LaneKind::Sched if self.stride >= SchedStackRecord::SIZE => {
                let SchedStackRecord { event, user_stack, kernel_stack } =
                    SchedStackRecord::from_bytes(record)?;
                Some(Record::Sched { event, user_stack, kernel_stack })
            }
            LaneKind::Sched => Some(Record::Sched {
                event: SchedRecord::from_bytes(record)?,
                user_stack: 0,
                kernel_stack: 0,
            }),
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

impl Cursor for LaneCursor<'_> {
    type Key = u64;
    type Item = Record;

    #[inline]
    fn key(&self) -> Option<u64> {
        self.head
    }

    #[inline]
    fn take(&mut self) -> Record {
        if let Some(start) = self.start.take() {
            return Record::Chunk(start);
        }
        let record = self.decode().unwrap_or(Record::Unknown);
        self.at += self.stride;
        self.find_head();
        if self.head.is_none() {
            self.next_chunk();
        }
        record
    }
}

/// A lane that gives the ticks with each record.
pub(crate) struct Timed<'a>(pub(crate) LaneCursor<'a>);

impl Cursor for Timed<'_> {
    type Key = u64;
    type Item = (u64, Record);

    fn key(&self) -> Option<u64> {
        self.0.key()
    }

    fn take(&mut self) -> (u64, Record) {
        (self.0.key().unwrap_or(u64::MAX), self.0.take())
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
