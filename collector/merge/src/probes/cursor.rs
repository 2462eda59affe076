//! A CPU's lane of hits, in order of time.

use crate::lane::Missing;
use std::ops::Range;
use syscollect_playback::order::Cursor;
use syscollect_records::{ProbeRecord, RecordKind};
use syscollect_store::{CaptureReader, IndexEntry, Lane, ReadBuffer};

/// Hits that wait for the next chunk, because one of its may be older: the
/// program that writes a hit may be interrupted by another between reading the
/// clock and taking its place in the lane.
const WINDOW: usize = 64;

/// What a lane gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProbeItem {
    /// Records are missing here.
    Missing(Missing),
    /// A hit, in [`ProbeCursor::hit`].
    Hit,
}

/// The hits of one lane. Ticks never fall: what comes too late for the window
/// comes at the time of the hit before it.
pub(crate) struct ProbeCursor<'a> {
    reader: &'a CaptureReader,
    lane: Lane,
    entries: std::slice::Iter<'a, IndexEntry>,
    expected: Missing,
    /// Bytes of the hits that wait, then those of the chunk.
    data: Vec<u8>,
    chunk: Vec<u8>,
    buffer: ReadBuffer,
    /// Ticks and place of the hits, the latest first.
    hits: Vec<(u64, Range<usize>)>,
    /// That many at the front wait for the next chunk.
    waiting: usize,
    last: u64,
    missing: Option<Missing>,
    hit: Vec<u8>,
    unreadable: u64,
    undecodable: u64,
}

impl<'a> ProbeCursor<'a> {
    pub(crate) fn new(reader: &'a CaptureReader, lane: Lane) -> Self {
        let mut cursor = Self {
            reader,
            lane,
            entries: reader.chunks(lane).iter(),
            expected: Missing::default(),
            data: Vec::new(),
            chunk: Vec::new(),
            buffer: ReadBuffer::default(),
            hits: Vec::new(),
            waiting: 0,
            last: 0,
            missing: None,
            hit: Vec::new(),
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

    /// The bytes of the hit that was taken last.
    pub(crate) fn hit(&self) -> &[u8] {
        &self.hit
    }

    /// Hits of chunks that did not verify when they were read.
    pub(crate) fn unreadable(&self) -> u64 {
        self.unreadable
    }

    /// Records that are no hits.
    pub(crate) fn undecodable(&self) -> u64 {
        self.undecodable
    }

    /// Reads chunks until there is a hit that need not wait.
    #[cold]
    fn fill(&mut self) {
        while self.hits.len() <= self.waiting && self.waiting > 0 || self.hits.is_empty() {
            if !self.next_chunk() {
                self.waiting = 0;
                return;
            }
        }
    }

    /// Adds a chunk to the hits that wait; `false` at the end.
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
            self.add_hits(header.first.0);
            self.waiting = self.hits.len().min(WINDOW);
            return true;
        }
        false
    }

    /// Moves the hits that wait to the front of the data.
    fn keep_waiting(&mut self) {
        let mut kept = Vec::new();
        for (_, place) in &mut self.hits {
            let start = kept.len();
            kept.extend_from_slice(&self.data[place.clone()]);
            *place = start..kept.len();
        }
        self.data = kept;
    }

    fn add_hits(&mut self, first: u64) {
        // The latest are first, and of equal ticks those that were written last.
        let mut new = Vec::new();
        let mut rest = &self.chunk[..];
        while !rest.is_empty() {
            let size = ProbeRecord::from_bytes(rest).map(|record| (record, usize::from(record.size)));
            let Some((record, bytes)) = size.and_then(|(record, size)| Some((record, rest.get(..size)?))) else {
                self.undecodable += 1;
                break;
            };
            if bytes.len() < ProbeRecord::SIZE {
                self.undecodable += 1;
                break;
            }
            rest = &rest[bytes.len()..];
            if record.stamp.split().1 != RecordKind::Probe as u8 {
                self.undecodable += 1;
                continue;
            }
            let start = self.data.len();
            self.data.extend_from_slice(bytes);
            new.push((record.stamp.ticks_near(first), start..self.data.len()));
        }
        new.reverse();
        new.append(&mut self.hits);
        self.hits = new;
        self.hits.sort_by_key(|(ticks, _)| std::cmp::Reverse(*ticks));
    }
}

impl Cursor for ProbeCursor<'_> {
    type Key = u64;
    type Item = ProbeItem;

    #[inline]
    fn key(&self) -> Option<u64> {
        self.hits.last().map(|(ticks, _)| (*ticks).max(self.last))
    }

    #[inline]
    fn take(&mut self) -> ProbeItem {
        if let Some(missing) = self.missing.take() {
            return ProbeItem::Missing(missing);
        }
        if let Some((ticks, place)) = self.hits.pop() {
            self.last = self.last.max(ticks);
            self.hit.clear();
            self.hit.extend_from_slice(&self.data[place]);
        }
        if self.hits.len() <= self.waiting {
            self.fill();
        }
        ProbeItem::Hit
    }
}
