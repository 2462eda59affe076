//! What is known of one sequence: its chunks in order of id, how far it was read, what it lost.

use crate::chunk::SequenceId;
use crate::header::{ChunkHeader, StoredFlags};
use crate::loss::{LossCause, Losses};
use std::collections::VecDeque;

/// Ids of one sequence that are there together lie less than this apart, so that they have an order
/// though they wrap.
const HALF_OF_IDS: u32 = 1 << 31;

/// A deque that has so many times the room that it needs gives some back.
const SPARE: usize = 4;

/// How the chunk before ended, as far as the next one's first fragment is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    /// It is not known: there was a gap, or nothing yet.
    Unknown,
    /// With a whole packet.
    Ended,
    /// Within a packet that was lost and counted: its rest is not counted again.
    InLostPacket,
}

/// The chunk that was passed last, while nothing of the next one was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastChunk {
    /// Bytes of fragments that it had.
    pub(crate) payload: u16,
    /// Whether its writer still had it, so that it may come again with more.
    pub(crate) is_unfinished: bool,
}

/// How far a sequence was read or overwritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Passed {
    /// The id that comes next, or whose chunk was begun.
    pub(crate) next: u32,
    pub(crate) before: Before,
    pub(crate) last: Option<LastChunk>,
}

/// Whether a chunk may come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Its place in the sequence is still ahead.
    Ahead,
    /// It was passed while its writer had it, and has more now than the bytes that were passed.
    Extends(u16),
    /// It was passed, and has nothing new.
    Known,
    /// Its place in the sequence was passed.
    Late,
}

/// The state of one sequence. No pointers into the block: a copy is good with a copy of the block.
#[derive(Clone, Debug)]
pub(crate) struct Sequence {
    pub(crate) id: SequenceId,
    /// Where its chunks begin, in order of their ids.
    pub(crate) chunks: VecDeque<u32>,
    /// The id of the last of `chunks`; means nothing when there are none.
    pub(crate) newest: u32,
    /// No id of `chunks` comes before it, and all lie less than [`HALF_OF_IDS`] behind it.
    base: u32,
    pub(crate) passed: Option<Passed>,
    /// It waits for a patch, a recommit or another chunk, and nothing of it has changed since.
    pub(crate) is_stalled: bool,
    /// Lost since the last packet was read.
    pub(crate) undelivered: Losses,
    /// Lost since the sequence is known.
    pub(crate) losses: Losses,
}

impl Sequence {
    pub(crate) fn new(id: SequenceId) -> Self {
        Self {
            id,
            chunks: VecDeque::new(),
            newest: 0,
            base: 0,
            passed: None,
            is_stalled: false,
            undelivered: Losses::NONE,
            losses: Losses::NONE,
        }
    }

    /// Whether a chunk of this id, with so many bytes of fragments, may come in.
    pub(crate) fn admission(&self, id: u32, payload: u16) -> Admission {
        let Some(passed) = self.passed else { return Admission::Ahead };
        let ahead = id.wrapping_sub(passed.next).cast_signed();
        match passed.last {
            _ if ahead >= 0 => Admission::Ahead,
            Some(last) if ahead == -1 && payload <= last.payload => Admission::Known,
            Some(last) if ahead == -1 && last.is_unfinished => Admission::Extends(last.payload),
            _ => Admission::Late,
        }
    }

    /// Whether an id has an order with those that are there. `first` gives the id of the first chunk.
    ///
    /// `base` is looked up anew only where it has become too old to tell: the first chunk's header
    /// is mostly far from the CPU.
    pub(crate) fn is_near(&mut self, id: u32, first: impl FnOnce(u32) -> u32) -> bool {
        let Some(&offset) = self.chunks.front() else { return true };
        if self.has_order(id) {
            return true;
        }
        self.base = first(offset);
        self.has_order(id)
    }

    fn has_order(&self, id: u32) -> bool {
        id.wrapping_sub(self.base) < HALF_OF_IDS || self.newest.wrapping_sub(id) < HALF_OF_IDS
    }

    /// Where an id that is near is in the list, or where it belongs.
    pub(crate) fn position(&self, id: u32, id_of: impl Fn(u32) -> u32) -> Result<usize, usize> {
        let rank = |id: u32| id.wrapping_sub(self.base).cast_signed();
        if self.chunks.is_empty() || rank(id) > rank(self.newest) {
            return Err(self.chunks.len());
        }
        self.chunks.binary_search_by(|&offset| rank(id_of(offset)).cmp(&rank(id)))
    }

    /// Puts a chunk where [`Self::position`] says that it belongs.
    pub(crate) fn insert(&mut self, position: usize, id: u32, offset: u32) {
        if position == 0 {
            self.base = id;
        }
        if position == self.chunks.len() {
            self.newest = id;
            self.chunks.push_back(offset);
        } else {
            self.chunks.insert(position, offset);
        }
        self.is_stalled = false;
    }

    /// The reader is at a chunk, the first of those that are there: says what is missing before.
    #[inline]
    pub(crate) fn begin(&mut self, id: u32) -> Missing {
        match &mut self.passed {
            Some(Passed { next, last: None, .. }) if *next == id => Missing::NONE,
            passed => Self::begin_otherwise(passed, id),
        }
    }

    fn begin_otherwise(passed: &mut Option<Passed>, id: u32) -> Missing {
        let Some(known) = passed else {
            *passed = Some(Passed { next: id, before: Before::Unknown, last: None });
            return Missing::NONE;
        };
        let last = known.last.take();
        if last.is_some() && id == known.next.wrapping_sub(1) {
            // It came again with more.
            known.next = id;
            return Missing::NONE;
        }
        let is_rest_missing = last.is_some_and(|last| last.is_unfinished);
        if is_rest_missing {
            known.before = Before::InLostPacket;
        }
        let is_gap = known.next != id;
        if is_gap {
            known.before = Before::Unknown;
        }
        known.next = id;
        Missing { is_gap, is_rest_missing }
    }

    /// Takes the first chunk out of the list, which is the one that was begun.
    pub(crate) fn pass(&mut self, header: ChunkHeader) {
        if let Some(passed) = &mut self.passed {
            passed.next = header.id.wrapping_add(1);
            passed.last = Some(LastChunk {
                payload: header.payload,
                is_unfinished: header.has(StoredFlags::INCOMPLETE),
            });
            if header.has(StoredFlags::ON_NEXT | StoredFlags::CUT) {
                passed.before = Before::InLostPacket;
            } else if header.payload > 0 {
                passed.before = Before::Ended;
            }
        }
        self.remove_first();
    }

    /// Takes the first chunk out of the list as if it had never been there.
    pub(crate) fn remove_first(&mut self) {
        self.chunks.pop_front();
        if self.chunks.capacity() > SPARE * self.chunks.len().max(SPARE) {
            self.chunks.shrink_to(2 * self.chunks.len());
        }
    }

    #[inline]
    pub(crate) fn lose(&mut self, cause: LossCause, count: u64) {
        self.undelivered.add(cause, count);
        self.losses.add(cause, count);
    }
}

/// What was found missing before a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Missing {
    pub(crate) is_gap: bool,
    /// The last chunk was overwritten while its writer had it.
    pub(crate) is_rest_missing: bool,
}

impl Missing {
    pub(crate) const NONE: Self = Self { is_gap: false, is_rest_missing: false };
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: SequenceId = SequenceId::new(7, 7);

    fn passed(next: u32, last: Option<LastChunk>) -> Sequence {
        let mut sequence = Sequence::new(ID);
        sequence.passed = Some(Passed { next, before: Before::Ended, last });
        sequence
    }

    #[test]
    fn ids_wrap() {
        let sequence = passed(0, None);
        assert_eq!(sequence.admission(0, 1), Admission::Ahead);
        assert_eq!(sequence.admission(u32::MAX, 1), Admission::Late);
        assert_eq!(passed(u32::MAX, None).admission(3, 1), Admission::Ahead);
    }

    #[test]
    fn an_unfinished_chunk_may_come_again_with_more() {
        let sequence = passed(5, Some(LastChunk { payload: 8, is_unfinished: true }));
        assert_eq!(sequence.admission(4, 9), Admission::Extends(8));
        assert_eq!(sequence.admission(4, 8), Admission::Known);
        assert_eq!(sequence.admission(3, 9), Admission::Late);
        let finished = passed(5, Some(LastChunk { payload: 8, is_unfinished: false }));
        assert_eq!(finished.admission(4, 9), Admission::Late);
    }

    #[test]
    fn ids_that_have_no_order_are_far() {
        let mut sequence = Sequence::new(ID);
        sequence.insert(0, 5, 0);
        sequence.insert(1, 10, 100);
        let first = |_| 5;
        assert!(sequence.is_near(HALF_OF_IDS + 4, first));
        assert!(!sequence.is_near(HALF_OF_IDS + 6, first));
        assert!(sequence.is_near(HALF_OF_IDS + 11, first));
        sequence.remove_first();
        assert!(sequence.is_near(HALF_OF_IDS + 6, |_| 10));
    }

    #[test]
    fn an_id_is_found_or_where_it_belongs() {
        let mut sequence = Sequence::new(ID);
        for (position, id) in [(0, u32::MAX), (1, 2)] {
            sequence.insert(position, id, id);
        }
        let position = |id| sequence.position(id, |offset| offset);
        assert_eq!(position(u32::MAX - 1), Err(0));
        assert_eq!(position(u32::MAX), Ok(0));
        assert_eq!(position(0), Err(1));
        assert_eq!(position(2), Ok(1));
        assert_eq!(position(3), Err(2));
    }

    #[test]
    fn a_list_gives_back_what_it_does_not_need() {
        let mut sequence = Sequence::new(ID);
        sequence.chunks.extend(0..10_000);
        while !sequence.chunks.is_empty() {
            sequence.remove_first();
        }
        assert!(sequence.chunks.capacity() <= SPARE * SPARE);
    }
}
