//! Emptying a ring whose writer is not trusted.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use syscollect_zone_protocol::MAX_ITEM_WORDS;
use syscollect_zone_protocol::arena::{RING_BYTES, RingHeader, RingState};

use super::items::{Piece, pieces, stale_words};
use super::memory::ArenaMemory;

/// Words that are copied at a time: what a ring claims to hold costs no more, until it has shown
/// that it does.
const READ_WORDS: usize = READ_BYTES / 8;
pub(super) const READ_BYTES: usize = 64 << 10;

/// A ring and where the collector stands in it.
pub(super) struct RingReader {
    memory: Arc<ArenaMemory>,
    number: u32,
    tail: u64,
    /// Items older than these ticks are left out; `None` once one was not.
    skip_before: Option<u64>,
    /// Lost items as last read.
    lost: u64,
}

/// Why a ring is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum RingError {
    /// Its positions cannot be.
    #[error("its positions cannot be")]
    Positions,
    /// What lies there is no item.
    #[error("it holds what is no item")]
    Item,
    /// There is no such state.
    #[error("its state is unknown")]
    State,
    /// The system does not give what lies there.
    #[error("it cannot be read")]
    Unreadable,
}

/// What a ring holds before it is emptied.
#[derive(Clone, Copy, Debug)]
pub(super) struct RingContent {
    /// A thread's last items: nothing follows.
    pub(super) ended: bool,
    /// Bytes.
    pub(super) bytes: u64,
    /// Which of the ring's threads wrote them.
    pub(super) owner: u32,
    head: u64,
}

impl RingReader {
    /// Begins where an earlier reader stopped; items older than `start` are left out.
    pub(super) fn new(memory: Arc<ArenaMemory>, number: u32, start: u64, had_reader: bool) -> Self {
        let header = memory.ring(number);
        let tail = header.tail.load(Ordering::Acquire);
        // A ring that somebody has read before: its losses are not this recording's.
        let lost = if tail == 0 || !had_reader { 0 } else { header.lost.load(Ordering::Relaxed) };
        Self { memory, number, tail, skip_before: Some(start), lost }
    }

    fn header(&self) -> &RingHeader {
        self.memory.ring(self.number)
    }

    /// What is there. The state is read first: what is there at the end of a
    /// thread is everything. The owner is read last: it was written before the
    /// items, and does not change before the ring is given back.
    pub(super) fn waiting(&self) -> Result<RingContent, RingError> {
        let header = self.header();
        let state = header.state.load(Ordering::Acquire);
        let head = header.head.load(Ordering::Acquire);
        let owner = header.owner.load(Ordering::Relaxed);
        if state > RingState::Ended as u32 {
            return Err(RingError::State);
        }
        let bytes = head
            .checked_sub(self.tail)
            .filter(|bytes| *bytes <= RING_BYTES as u64)
            .ok_or(RingError::Positions)?;
        if !head.is_multiple_of(8) || !self.tail.is_multiple_of(8) {
            return Err(RingError::Positions);
        }
        Ok(RingContent { ended: state == RingState::Ended as u32, bytes, owner, head })
    }

    /// Hands everything that is waiting to `sink` and gives its room back.
    pub(super) fn take(
        &mut self,
        waiting: RingContent,
        scratch: &mut Vec<u64>,
        sink: &mut dyn FnMut(Piece<'_>),
    ) -> Result<(), RingError> {
        while self.tail < waiting.head {
            let start = (self.tail % RING_BYTES as u64) as usize;
            let available = ((waiting.head - self.tail) / 8) as usize;
            // Items begin before the limit, and the last may run over it.
            let limit = ((RING_BYTES - start) / 8).min(READ_WORDS);
            scratch.resize(READ_WORDS + MAX_ITEM_WORDS, 0);
            let read = &mut scratch[..available.min(limit + MAX_ITEM_WORDS - 1)];
            self.memory.read_items(self.number, start, read).map_err(|_| RingError::Unreadable)?;
            let skipped = self.skip_stale(read, limit);
            let (_, fresh) = read.split_at(skipped);
            let taken = pieces(fresh, limit.saturating_sub(skipped), &mut *sink);
            let taken = skipped + taken.map_err(|_| RingError::Item)?;
            if taken == 0 {
                return Err(RingError::Item);
            }
            self.tail += taken as u64 * 8;
            // Release: the copy above comes before the writer's next use of the room.
            self.header().tail.store(self.tail, Ordering::Release);
        }
        Ok(())
    }

    /// Words at the beginning that are older than the recording. What was lost
    /// until then is not this recording's either.
    fn skip_stale(&mut self, words: &[u64], limit: usize) -> usize {
        let Some(start) = self.skip_before else { return 0 };
        let stale = stale_words(words, limit, start);
        if stale > 0 {
            self.lost = self.header().lost.load(Ordering::Relaxed);
        }
        if stale < limit.min(words.len()) {
            self.skip_before = None;
        }
        stale
    }

    /// Items that were lost since the last call because the ring was full.
    pub(super) fn newly_lost(&mut self) -> u64 {
        let lost = self.header().lost.load(Ordering::Relaxed);
        let before = std::mem::replace(&mut self.lost, lost);
        lost.saturating_sub(before)
    }

    /// Gives an empty ring of a thread that has ended to the next one.
    pub(super) fn free(&self) {
        self.header().state.store(RingState::Free as u32, Ordering::Release);
    }
}
