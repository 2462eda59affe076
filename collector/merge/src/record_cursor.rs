//! A CPU's lane of records of sizes of their own, in order of time: hits of
//! probes, tracepoints.

use crate::chunk_queue::{ChunkQueue, Decode, LaneGap, Resume};
use std::collections::VecDeque;
use std::ops::Range;
use syscollect_model::Lane;
use syscollect_playback::order::Cursor;
use syscollect_records::{ProbeRecord, RecordKind, Stamp, TracepointRecord};

/// Records that wait for the next chunk, because one of its may be older: the
/// program that writes a record may be interrupted by another between reading
/// the clock and taking its place in the lane.
pub(crate) const WINDOW: usize = 64;

/// The shape of a lane's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// [`ProbeRecord`] with words and texts.
    Probe,
    /// [`TracepointRecord`] with the kernel's own record, or
    /// [`GpuFailureRecord`](syscollect_records::GpuFailureRecord).
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
    Missing(LaneGap),
    /// A record, in [`RecordCursor::record`].
    Record,
}

/// The records of one lane. Ticks never fall: what comes too late for the
/// window comes at the time of the record before it.
pub(crate) struct RecordCursor {
    lane: Lane,
    shape: Shape,
    queue: ChunkQueue,
    window: Window,
    chunk: Vec<u8>,
    last: u64,
    /// What is missing, and the first ticks of the chunk behind it.
    gaps: VecDeque<(u64, LaneGap)>,
    record: Vec<u8>,
    undecodable: u64,
}

/// Records that were read and not taken.
#[derive(Default)]
struct Window {
    /// Bytes of the records that wait, then those of the chunk.
    data: Vec<u8>,
    /// Ticks and place of the records, the latest first.
    records: Vec<(u64, Range<usize>)>,
    /// That many at the front wait for the next chunk.
    waiting: usize,
}

impl Window {
    /// Whether no record can be taken.
    #[inline]
    fn is_waiting(&self) -> bool {
        self.records.len() <= self.waiting
    }

    /// The next record.
    #[inline]
    fn next(&self) -> Option<&(u64, Range<usize>)> {
        self.records.last()
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

    /// Adds records whose bytes were added, in the order in which they were written.
    fn add(&mut self, mut new: Vec<(u64, Range<usize>)>) {
        // The latest are first, and of equal ticks those that were written last.
        new.reverse();
        new.append(&mut self.records);
        self.records = new;
        self.records.sort_by_key(|(ticks, _)| std::cmp::Reverse(*ticks));
    }
}

impl RecordCursor {
    pub(crate) fn new(lane: Lane, shape: Shape) -> Self {
        Self {
            lane,
            shape,
            queue: ChunkQueue::default(),
            window: Window::default(),
            chunk: Vec::new(),
            last: 0,
            gaps: VecDeque::new(),
            record: Vec::new(),
            undecodable: 0,
        }
    }

    /// The bytes of the record that was taken last.
    pub(crate) fn record(&self) -> &[u8] {
        &self.record
    }

    /// Decodes chunks until there is a record that need not wait for the next of them.
    #[cold]
    fn fill(&mut self) {
        while self.window.is_waiting() {
            let Some((header, missing)) = self.queue.take(&mut self.chunk) else { break };
            if missing != LaneGap::default() {
                self.gaps.push_back((header.first.0, missing));
            }
            self.window.keep_waiting();
            self.add_records(header.first.0);
            self.window.waiting = self.window.records.len().min(WINDOW);
        }
        if self.queue.is_at_end() {
            self.window.waiting = 0;
        }
    }

    /// The gap that is told next: before the first record of the chunk behind it.
    fn next_gap(&mut self) -> Option<LaneGap> {
        let (behind, missing) = *self.gaps.front()?;
        let next = self.window.next().map_or(u64::MAX, |(ticks, _)| *ticks);
        // Its records may all be older than the chunk's first: then it is told before the very
        // last.
        let is_last = self.window.records.len() == 1 && self.queue.is_at_end();
        if next < behind && !is_last {
            return None;
        }
        self.gaps.pop_front();
        Some(missing)
    }

    fn add_records(&mut self, first: u64) {
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
            let start = self.window.data.len();
            self.window.data.extend_from_slice(bytes);
            new.push((stamp.ticks_near(first), start..self.window.data.len()));
        }
        self.window.add(new);
    }
}

impl Decode for RecordCursor {
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

impl Resume for RecordCursor {
    type Context<'c> = ();

    fn resume(&mut self, (): ()) {
        if self.window.is_waiting() {
            self.fill();
        }
    }
}

impl Cursor for RecordCursor {
    type Key = u64;
    type Item = RecordItem;

    #[inline]
    fn key(&self) -> Option<u64> {
        if self.is_waiting() {
            return Some(self.last.max(self.queue.not_before()));
        }
        self.window.next().map(|(ticks, _)| (*ticks).max(self.last))
    }

    /// What is held back waits, unless what comes is later.
    #[inline]
    fn is_waiting(&self) -> bool {
        if !self.window.is_waiting() || self.queue.is_at_end() {
            return false;
        }
        self.window.next().is_none_or(|(ticks, _)| *ticks >= self.queue.not_before())
    }

    #[inline]
    fn take(&mut self) -> RecordItem {
        if !self.gaps.is_empty()
            && let Some(missing) = self.next_gap()
        {
            return RecordItem::Missing(missing);
        }
        if let Some((ticks, place)) = self.window.records.pop() {
            self.last = self.last.max(ticks);
            self.record.clear();
            self.record.extend_from_slice(&self.window.data[place]);
        }
        self.window.waiting = self.window.waiting.min(self.window.records.len());
        if self.window.is_waiting() {
            self.fill();
        }
        RecordItem::Record
    }
}
