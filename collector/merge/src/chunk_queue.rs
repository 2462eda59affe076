//! The chunks of one lane on their way to what decodes them: as a recording runs, or out of a file.

use std::collections::VecDeque;
use syscollect_model::Lane;
use syscollect_playback::order::Cursor;
use syscollect_store::{CaptureReader, Chunk, ChunkHeader, IndexEntry, ReadBuffer};

/// Records that a lane produced and that cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LaneGap {
    /// Records, as far as they were counted.
    pub(crate) records: u64,
    /// Chunks.
    pub(crate) chunks: u64,
}

impl LaneGap {
    /// How many records at least; a chunk whose records were not counted had one.
    pub(crate) fn at_least(self) -> u64 {
        if self.records > 0 { self.records } else { self.chunks }
    }
}

/// What is fed with the chunks of a lane, in the order of their sequence numbers.
pub(crate) trait Decode {
    /// The lane.
    fn lane(&self) -> Lane;

    /// What is to be decoded.
    fn queue(&self) -> &ChunkQueue;

    /// The same to feed it; [`resume`](Resume::resume) follows.
    fn queue_mut(&mut self) -> &mut ChunkQueue;

    /// Records in readable chunks that mean nothing here.
    fn undecodable(&self) -> u64;
}

/// What goes on with what its queue got.
pub(crate) trait Resume: Decode {
    /// What must be known to decode a chunk.
    type Context<'c>: Copy;

    /// Goes on, if it waited.
    fn resume(&mut self, context: Self::Context<'_>);
}

/// A chunk that was not decoded yet.
#[derive(Debug)]
struct QueuedChunk {
    chunk: Chunk,
    /// What is missing before it was left out by who feeds, and so is not lost.
    resumes: bool,
}

/// The chunks that were not decoded yet, and what is known of those to come.
#[derive(Debug, Default)]
pub(crate) struct ChunkQueue {
    chunks: VecDeque<QueuedChunk>,
    /// Where the lane stood after the last chunk that was taken: its records and chunks.
    expected: LaneGap,
    not_before: u64,
    closed: bool,
    /// A vector to use again.
    spare: Vec<u8>,
    unreadable: u64,
}

impl ChunkQueue {
    /// The next chunk has come.
    pub(crate) fn push(&mut self, chunk: Chunk) {
        self.chunks.push_back(QueuedChunk { chunk, resumes: false });
    }

    /// The next chunk has come behind others that were left out.
    pub(crate) fn push_resuming(&mut self, chunk: Chunk) {
        self.chunks.push_back(QueuedChunk { chunk, resumes: true });
    }

    /// A chunk of that many records does not verify; where they were not counted there was one.
    pub(crate) fn push_unreadable(&mut self, records: u32) {
        self.unreadable += u64::from(records.max(1));
    }

    /// No record that comes is of before these ticks.
    pub(crate) fn nothing_before(&mut self, ticks: u64) {
        self.not_before = self.not_before.max(ticks);
    }

    /// No chunk will come.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    /// A vector for the bytes of a chunk.
    pub(crate) fn spare(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.spare)
    }

    /// Takes the next chunk: its bytes, and what is missing before it.
    pub(crate) fn take(&mut self, data: &mut Vec<u8>) -> Option<(ChunkHeader, LaneGap)> {
        let QueuedChunk { chunk, resumes } = self.chunks.pop_front()?;
        let header = chunk.header;
        self.spare = std::mem::replace(data, chunk.data);
        let missing = match resumes {
            true => LaneGap::default(),
            false => LaneGap {
                records: header.records_before.saturating_sub(self.expected.records),
                chunks: header.sequence.saturating_sub(self.expected.chunks),
            },
        };
        self.expected = LaneGap {
            records: header.records_before.saturating_add(u64::from(header.records)),
            chunks: header.sequence.saturating_add(1),
        };
        Some((header, missing))
    }

    /// How many chunks wait.
    pub(crate) fn len(&self) -> usize {
        self.chunks.len()
    }

    /// Whether all chunks that came were taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Whether all chunks were taken and none will come.
    pub(crate) fn is_at_end(&self) -> bool {
        self.closed && self.chunks.is_empty()
    }

    /// The least ticks of the records to come, as far as that was said; of chunks that are there
    /// nothing was.
    pub(crate) fn not_before(&self) -> u64 {
        if self.chunks.is_empty() { self.not_before } else { 0 }
    }

    /// Records of chunks that do not verify.
    pub(crate) fn unreadable(&self) -> u64 {
        self.unreadable
    }
}

/// The chunks of a lane in a file.
pub(crate) struct LaneFile<'a> {
    reader: &'a CaptureReader,
    entries: std::slice::Iter<'a, IndexEntry>,
    buffer: ReadBuffer,
}

impl<'a> LaneFile<'a> {
    pub(crate) fn new(reader: &'a CaptureReader, lane: Lane) -> Self {
        Self { reader, entries: reader.chunks(lane).iter(), buffer: ReadBuffer::default() }
    }

    /// Feeds the next chunk that verifies, or tells that there is none.
    pub(crate) fn feed(&mut self, queue: &mut ChunkQueue) {
        let mut data = queue.spare();
        loop {
            let Some(entry) = self.entries.next() else {
                queue.close();
                break;
            };
            match self.reader.read_into(entry, &mut data, &mut self.buffer) {
                Ok(header) => {
                    queue.push(Chunk { header, data });
                    break;
                }
                Err(_) => queue.push_unreadable(entry.records),
            }
        }
    }
}

/// A lane of a file that is read for itself, one chunk in memory at a time.
pub(crate) struct FromFile<'a, C: Resume> {
    file: LaneFile<'a>,
    context: C::Context<'a>,
    pub(crate) cursor: C,
}

impl<'a, C: Resume + Cursor> FromFile<'a, C> {
    pub(crate) fn new(reader: &'a CaptureReader, cursor: C, context: C::Context<'a>) -> Self {
        let mut this = Self { file: LaneFile::new(reader, cursor.lane()), context, cursor };
        this.fill();
        this
    }

    fn fill(&mut self) {
        while self.cursor.is_waiting() {
            self.file.feed(self.cursor.queue_mut());
            self.cursor.resume(self.context);
        }
    }
}

impl<C: Resume + Cursor> Cursor for FromFile<'_, C> {
    type Key = C::Key;
    type Item = C::Item;

    fn key(&self) -> Option<C::Key> {
        self.cursor.key()
    }

    fn take(&mut self) -> C::Item {
        let item = self.cursor.take();
        self.fill();
        item
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syscollect_model::{LaneKind, Ticks};

    fn chunk(sequence: u64) -> Chunk {
        let header = ChunkHeader {
            lane: Lane::new(LaneKind::Sched, 0),
            sequence,
            first: Ticks(sequence),
            last: Ticks(sequence),
            current_tid: 0,
            stride: 16,
            records_before: sequence * 2,
            records: 2,
            length: 32,
        };
        Chunk { header, data: vec![0; 32] }
    }

    #[test]
    fn what_was_left_out_on_purpose_is_not_missing_and_what_is_lost_behind_it_is() {
        let (mut queue, mut data) = (ChunkQueue::default(), Vec::new());
        queue.push(chunk(0));
        queue.push_resuming(chunk(5));
        queue.push(chunk(6));
        queue.push(chunk(8));
        let mut missing = Vec::new();
        while let Some((_, gap)) = queue.take(&mut data) {
            missing.push((gap.records, gap.chunks));
        }
        assert_eq!(missing, [(0, 0), (0, 0), (0, 0), (2, 1)]);
    }
}
