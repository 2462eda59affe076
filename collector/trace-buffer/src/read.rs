//! Reading: packets come out and are gone.

use crate::buffer::TraceBuffer;
use crate::header::{Extent, StoredFlags};
use crate::packet::Packet;
use crate::sequences::Slot;
use crate::take::{Pace, Taken};

/// How much one batch may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLimit {
    /// Packets at most.
    pub packets: u64,
    /// Bytes of content after which no packet is begun: the last one may go beyond it.
    pub bytes: u64,
}

impl BatchLimit {
    /// All that is there.
    pub const NONE: Self = Self { packets: u64::MAX, bytes: u64::MAX };

    /// So many packets at most.
    pub const fn packets(packets: u64) -> Self {
        Self { packets, ..Self::NONE }
    }

    /// About so many bytes of content.
    pub const fn bytes(bytes: u64) -> Self {
        Self { bytes, ..Self::NONE }
    }
}

/// A batch of packets in reading. What it gave is gone from the buffer, what it did not give is
/// there for the next one, which begins with the oldest again.
///
/// Chunks are visited in the order in which they lie in the buffer, and each together with the
/// older ones of its sequence. A sequence that has to wait is left out.
#[derive(Debug)]
pub struct Batch<'a> {
    buffer: &'a mut TraceBuffer,
    limit: BatchLimit,
    /// The next extent to visit.
    at: usize,
    /// Bytes of extents that were not visited, from `at` on and round.
    left: usize,
    /// Padding that ends at `at`.
    padding_at: Option<usize>,
    /// The chunk that is being read up to.
    target: Option<(Slot, u32)>,
}

impl TraceBuffer {
    /// Begins to read a batch.
    pub fn read(&mut self, limit: BatchLimit) -> Batch<'_> {
        let at = self.oldest();
        let left = if self.live == 0 { 0 } else { self.used };
        Batch { limit, at, left, padding_at: None, target: None, buffer: self }
    }
}

impl Batch<'_> {
    /// The next packet; `None` if nothing more can be read now, or the limit is reached
    /// ([`Self::is_limited`]).
    #[inline]
    pub fn next_packet(&mut self) -> Option<Packet<'_>> {
        if self.is_limited() {
            return None;
        }
        let (slot, taken) = self.advance()?;
        let buffer = &mut *self.buffer;
        let bytes = taken.bytes as u64;
        self.limit.packets -= 1;
        self.limit.bytes = self.limit.bytes.saturating_sub(bytes);
        buffer.statistics.packets_read += 1;
        buffer.statistics.bytes_read += bytes;
        let sequence = buffer.sequences.get_mut(slot);
        let lost = std::mem::take(&mut sequence.undelivered);
        let id = sequence.id;
        Some(Packet::new(buffer, slot, id, lost, taken))
    }

    /// Whether the batch ended, or ends, because of its limit, so that there may be more.
    pub fn is_limited(&self) -> bool {
        self.limit.packets == 0 || self.limit.bytes == 0
    }

    #[inline]
    fn advance(&mut self) -> Option<(Slot, Taken)> {
        loop {
            if let Some((slot, target)) = self.target {
                if let Some(taken) = self.buffer.take(slot, target, Pace::Wait) {
                    return Some((slot, taken));
                }
                self.target = None;
                self.step();
            }
            if self.left == 0 || self.buffer.live == 0 {
                return None;
            }
            self.target = self.visit();
            if self.target.is_none() {
                self.step();
            }
        }
    }

    /// The chunk at `at` if there is one whose sequence does not wait.
    fn visit(&self) -> Option<(Slot, u32)> {
        let at = self.at as u32;
        if self.buffer.block.extent(at).is_padding() {
            return None;
        }
        let header = self.buffer.block.header(at);
        let slot = self.buffer.sequences.find(header.sequence)?;
        if self.buffer.sequences.get(slot).is_stalled {
            return None;
        }
        self.buffer.block.approach(at, header, header.read);
        Some((slot, at))
    }

    /// Goes to the next extent. Padding beside padding becomes one, so that a buffer that was read
    /// is soon walked through.
    fn step(&mut self) {
        let extent = self.buffer.block.extent(self.at as u32);
        let end = self.at + extent.bytes();
        self.left = self.left.saturating_sub(extent.bytes());
        self.padding_at = extent.is_padding().then(|| self.join_padding(end));
        self.at = end;
        if end >= self.buffer.used {
            (self.at, self.padding_at) = (0, None);
        }
    }

    /// Where the padding begins that ends at `end`, with what lies before it as far as one extent
    /// can be that long.
    fn join_padding(&mut self, end: usize) -> usize {
        let before = self.padding_at.filter(|before| end - before <= Extent::LONGEST);
        let begin = before.unwrap_or(self.at);
        if before.is_some() {
            self.buffer.block.set_extent(begin as u32, Extent::padding(end - begin));
        }
        debug_assert!(self.buffer.block.extent(begin as u32).flags == StoredFlags::PADDING);
        begin
    }
}
