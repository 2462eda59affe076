//! A CPU's lane of records of sizes of their own, in order of time: hits of
//! probes, tracepoints.

use crate::lane::Missing;
use std::ops::Range;
use syscollect_model::Lane;
use syscollect_playback::order::Cursor;
use syscollect_records::{ProbeRecord, RecordKind, Stamp, TracepointRecord};
use syscollect_store::{CaptureReader, IndexEntry, ReadBuffer};

/// Records that wait for the next chunk, because one of its may be older: the
/// program that writes a record may be interrupted by another between reading
/// the clock and taking its place in the lane. What is missing is told before them.
pub(crate) const WINDOW: usize = 64;

/// The shape of a lane's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// [`ProbeRecord`] with words and texts.
    Probe,
    /// [`TracepointRecord`] with the kernel's own record, or [`GpuFailureRecord`](syscollect_records::GpuFailureRecord).
    Tracepoint,
}

impl Shape {
    /// Whether its lanes hold records of this kind.
    fn has(self, kind: u8) -> bool {
        match self {
            Self::Probe => kind == RecordKind::Probe as u8,
            Self::Tracepoint => {
                [RecordKind::Tracepoint as u8, RecordKind::GpuFailure as u8].contains(&kind)
            }
        }
    }

    /// Stamp and bytes of the first record; `None` where there is none.
    fn size(self, bytes: &[u8]) -> Option<(Stamp, usize)> {
        match self {
            Self::Probe => {
                let record = ProbeRecord::from_bytes(bytes)?;
                let size = usize::from(record.size);
                (size >= ProbeRecord::SIZE).then_some((record.stamp, size))
            }
            Self::Tracepoint => {
                // All kinds have their size at one place.
                let record = TracepointRecord::from_bytes(bytes)?;
                Some((
                    record.stamp,
                    TracepointRecord::SIZE + usize::from(record.bytes).next_multiple_of(8),
                ))
            }
        }
    }
}

/// What a lane gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordItem {
    /// Records are missing here.
    Missing(Missing),
    /// A record, in [`RecordCursor::record`].
    Record,
}

/// The records of one lane. Ticks never fall: what comes too late for the
/// window comes at the time of the record before it.
pub(crate) struct RecordCursor<'a> {
    reader: &'a CaptureReader,
    lane: Lane,
    shape: Shape,
    entries: std::slice::Iter<'a, IndexEntry>,
    expected: Missing,
    /// Bytes of the records that wait, then those of the chunk.
    data: Vec<u8>,
    chunk: Vec<u8>,
    buffer: ReadBuffer,
    /// Ticks and place of the records, the latest first.
    records: Vec<(u64, Range<usize>)>,
    /// That many at the front wait for the next chunk.
    waiting: usize,
    last: u64,
    missing: Option<Missing>,
    record: Vec<u8>,
    unreadable: u64,
    undecodable: u64,
}

impl<'a> RecordCursor<'a> {
    pub(crate) fn new(reader: &'a CaptureReader, lane: Lane, shape: Shape) -> Self {
        let mut cursor = Self {
            reader,
            lane,
            shape,
            entries: reader.chunks(lane).iter(),
            expected: Missing::default(),
            data: Vec::new(),
            chunk: Vec::new(),
            buffer: ReadBuffer::default(),
            records: Vec::new(),
            waiting: 0,
            last: 0,
            missing: None,
            record: Vec::new(),
            unreadable: 0,
            undecodable: 0,
        };
        cursor.fill();
        cursor
    }

    /// The lane.
    pub(crate) fn lane(&self) -> Lane {
        self.lane
    }

    /// The bytes of the record that was taken last.
    pub(crate) fn record(&self) -> &[u8] {
        &self.record
    }

    /// Records of chunks that did not verify when they were read.
    pub(crate) fn unreadable(&self) -> u64 {
        self.unreadable
    }

    /// Records of another kind.
    pub(crate) fn undecodable(&self) -> u64 {
        self.undecodable
    }

    /// Reads chunks until there is a record that need not wait.
    #[cold]
    fn fill(&mut self) {
        while self.records.len() <= self.waiting && self.waiting > 0 || self.records.is_empty() {
            if !self.next_chunk() {
                self.waiting = 0;
                return;
            }
        }
    }

    /// Adds a chunk to the records that wait; `false` at the end.
    fn next_chunk(&mut self) -> bool {
        let reader = self.reader;
        for entry in self.entries.by_ref() {
            let Ok(header) = reader.read_into(entry, &mut self.chunk, &mut self.buffer) else {
                self.unreadable += u64::from(entry.records.max(1));
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
            if missing != Missing::default() {
                let sum = self.missing.unwrap_or_default();
                self.missing = Some(Missing {
                    records: sum.records.saturating_add(missing.records),
                    chunks: sum.chunks.saturating_add(missing.chunks),
                });
            }
            self.keep_waiting();
            self.add_records(header.first.0);
            self.waiting = self.records.len().min(WINDOW);
            return true;
        }
        false
    }

    /// Moves the records that wait to the front of the data.
    fn keep_waiting(&mut self) {
        let mut kept = Vec::new();
        for (_, place) in &mut self.records {
            let start = kept.len();
            kept.extend_from_slice(&self.data[place.clone()]);
            *place = start..kept.len();
        }
        self.data = kept;
    }

    fn add_records(&mut self, first: u64) {
        // The latest are first, and of equal ticks those that were written last.
        let mut new = Vec::new();
        let mut rest = &self.chunk[..];
        while !rest.is_empty() {
            let size = self.shape.size(rest);
            let Some((stamp, bytes)) =
                size.and_then(|(stamp, size)| Some((stamp, rest.get(..size)?)))
            else {
                self.undecodable += 1;
                break;
            };
            rest = &rest[bytes.len()..];
            if !self.shape.has(stamp.split().1) {
                self.undecodable += 1;
                continue;
            }
            let start = self.data.len();
            self.data.extend_from_slice(bytes);
            new.push((stamp.ticks_near(first), start..self.data.len()));
        }
        new.reverse();
        new.append(&mut self.records);
        self.records = new;
        self.records.sort_by_key(|(ticks, _)| std::cmp::Reverse(*ticks));
    }
}

impl Cursor for RecordCursor<'_> {
    type Key = u64;
    type Item = RecordItem;

    #[inline]
    fn key(&self) -> Option<u64> {
        self.records.last().map(|(ticks, _)| (*ticks).max(self.last))
    }

    #[inline]
    fn take(&mut self) -> RecordItem {
        if let Some(missing) = self.missing.take() {
            return RecordItem::Missing(missing);
        }
        if let Some((ticks, place)) = self.records.pop() {
            self.last = self.last.max(ticks);
            self.record.clear();
            self.record.extend_from_slice(&self.data[place]);
        }
        if self.records.len() <= self.waiting {
            self.fill();
        }
        RecordItem::Record
    }
}
