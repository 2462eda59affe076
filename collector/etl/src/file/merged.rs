//! All records of all files in the order of their time stamps.

use super::buffer::Buffer;
use super::index::BufferPosition;
use super::record::Head;
use super::statistics::Statistics;
use super::trace::{Trace, TraceFile};
use crate::Record;
use std::slice;
use syscollect_playback::order::{Cursor, Merge};

/// All records of a trace in the order of their raw time stamps: a k-way merge
/// of the buffers of every CPU in every file.
///
/// Of equal time stamps the one of the file named first comes first, then the
/// one of the lower CPU; a CPU's records never change their order among each
/// other. A record whose time stamp steps back comes as soon as it is seen.
pub struct Merged<'t> {
    merge: Merge<StreamCursor<'t>>,
    found: Statistics,
}

impl<'t> Merged<'t> {
    pub(super) fn new(trace: &'t Trace) -> Self {
        let cursors = trace.streams.iter().map(|stream| {
            StreamCursor::new(stream.file, &trace.files[stream.file], &stream.entries)
        });
        Self { merge: Merge::new(cursors.collect()), found: trace.found.clone() }
    }

    /// The next record and the index of its file; it has to be done with before the one after it.
    #[inline]
    #[allow(
        clippy::should_implement_trait,
        reason = "what is given lives in a buffer that is used again"
    )]
    pub fn next(&mut self) -> Option<(usize, Record<'_>)> {
        let (lane, taken) = loop {
            if let (lane, Some(taken)) = self.merge.next()? {
                break (lane, taken);
            }
        };
        let stream = &self.merge.lanes()[lane];
        let record =
            taken.head.record(stream.buffer.from(taken.at), stream.buffer.cpu(), taken.timestamp);
        Some((stream.file_index, record))
    }

    /// What was read so far.
    pub fn statistics(&self) -> Statistics {
        let mut all = self.found.clone();
        self.merge.lanes().iter().for_each(|stream| all.add(&stream.statistics));
        all
    }
}

/// A record that was taken: it lies in its stream's buffer until the next is taken.
struct TakenRecord {
    at: usize,
    head: Head,
    timestamp: u64,
}

/// The records of one CPU in one file.
///
/// A buffer is loaded when its first record is taken, not before: until then the
/// index says that record's time stamp. So a record that was taken stays where
/// it is until the next is taken, and one buffer is enough.
struct StreamCursor<'t> {
    file: &'t TraceFile,
    file_index: usize,
    entries: slice::Iter<'t, BufferPosition>,
    buffer: Buffer,
    head: Option<TakenRecord>,
    /// The time stamp of the last record that had one.
    last: u64,
    statistics: Statistics,
}

impl<'t> StreamCursor<'t> {
    fn new(file_index: usize, file: &'t TraceFile, entries: &'t [BufferPosition]) -> Self {
        Self {
            file,
            file_index,
            entries: entries.iter(),
            buffer: file.buffer(),
            head: None,
            last: 0,
            statistics: Statistics::default(),
        }
    }

    #[inline]
    fn find_head(&mut self) {
        self.head = self.buffer.next(&mut self.statistics).map(|(at, head)| {
            self.last = head.timestamp.unwrap_or(self.last);
            TakenRecord { at, head, timestamp: self.last }
        });
    }

    #[cold]
    fn load(&mut self) {
        let Some(entry) = self.entries.next() else { return };
        self.last = entry.first;
        self.buffer.load(
            &self.file.source,
            entry.offset,
            self.file.expansion,
            &mut self.statistics,
        );
        self.find_head();
    }
}

impl Cursor for StreamCursor<'_> {
    type Key = u64;
    /// `None` where a buffer holds no record.
    type Item = Option<TakenRecord>;

    #[inline]
    fn key(&self) -> Option<u64> {
        match &self.head {
            Some(head) => Some(head.timestamp),
            None => self.entries.as_slice().first().map(|entry| entry.first),
        }
    }

    #[inline]
    fn take(&mut self) -> Option<TakenRecord> {
        if self.head.is_none() {
            self.load();
        }
        let taken = self.head.take()?;
        self.find_head();
        Some(taken)
    }
}
