//! All sequences of a buffer, by id, and which of those without chunks are forgotten.

use crate::chunk::SequenceId;
use crate::sequence::Sequence;
use rustc_hash::FxHashMap;

/// Sequences without a chunk whose state is kept, those that had one last.
pub const KEPT_EMPTY: usize = 1024;

/// Sequences that a buffer of any size has room for: all writers of one producer, and some.
const LEAST_MOST: usize = 65_536 + KEPT_EMPTY;

/// One sequence more may be known for so many bytes of the buffer.
const BYTES_PER_SEQUENCE: usize = 1024;

const NO_SLOT: u32 = u32::MAX;

/// Where a sequence lies in [`Sequences`], as long as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(u32);

/// Sequences in slots. Those without chunks are linked, the one that has been so for longest first.
#[derive(Clone, Debug)]
pub(crate) struct Sequences {
    slots: Vec<SlotState>,
    by_key: FxHashMap<u32, u32>,
    free: Vec<u32>,
    most: usize,
    oldest_empty: u32,
    newest_empty: u32,
    empty: usize,
}

#[derive(Clone, Debug)]
struct SlotState {
    sequence: Sequence,
    /// Neighbours among those without chunks.
    older: u32,
    newer: u32,
    is_linked: bool,
    /// It is being written to, and not to be forgotten.
    is_held: bool,
}

impl Sequences {
    pub(crate) fn new(bytes: usize) -> Self {
        Self {
            slots: Vec::new(),
            by_key: FxHashMap::default(),
            free: Vec::new(),
            most: LEAST_MOST.max(bytes / BYTES_PER_SEQUENCE),
            oldest_empty: NO_SLOT,
            newest_empty: NO_SLOT,
            empty: 0,
        }
    }

    #[inline]
    pub(crate) fn find(&self, id: SequenceId) -> Option<Slot> {
        self.by_key.get(&id.key()).map(|&slot| Slot(slot))
    }

    /// The sequence, which is not forgotten before [`Self::release`]; `None` if there are too many.
    pub(crate) fn hold(&mut self, id: SequenceId) -> Option<Slot> {
        if let Some(slot) = self.find(id) {
            self.unlink(slot.0);
            self.slots[slot.0 as usize].is_held = true;
            return Some(slot);
        }
        if self.by_key.len() >= self.most {
            if self.empty == 0 {
                return None;
            }
            self.forget_oldest();
        }
        let state = SlotState {
            sequence: Sequence::new(id),
            older: NO_SLOT,
            newer: NO_SLOT,
            is_linked: false,
            is_held: true,
        };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = state;
                slot
            }
            None => {
                self.slots.push(state);
                (self.slots.len() - 1) as u32
            }
        };
        self.by_key.insert(id.key(), slot);
        Some(Slot(slot))
    }

    /// The end of what [`Self::hold`] began.
    pub(crate) fn release(&mut self, slot: Slot) {
        self.slots[slot.0 as usize].is_held = false;
        self.settle(slot);
    }

    /// A sequence that has no chunk now is forgotten after [`KEPT_EMPTY`] others, unless it is held.
    pub(crate) fn settle(&mut self, slot: Slot) {
        let state = &mut self.slots[slot.0 as usize];
        if state.is_linked || state.is_held || !state.sequence.chunks.is_empty() {
            return;
        }
        (state.is_linked, state.older, state.newer) = (true, self.newest_empty, NO_SLOT);
        match self.newest_empty {
            NO_SLOT => self.oldest_empty = slot.0,
            newest => self.slots[newest as usize].newer = slot.0,
        }
        self.newest_empty = slot.0;
        self.empty += 1;
        if self.empty > KEPT_EMPTY {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let slot = self.oldest_empty;
        self.unlink(slot);
        let sequence = &mut self.slots[slot as usize].sequence;
        self.by_key.remove(&sequence.id.key());
        sequence.chunks.shrink_to_fit();
        self.free.push(slot);
    }

    fn unlink(&mut self, slot: u32) {
        let state = &mut self.slots[slot as usize];
        if !state.is_linked {
            return;
        }
        state.is_linked = false;
        let (older, newer) = (state.older, state.newer);
        match older {
            NO_SLOT => self.oldest_empty = newer,
            older => self.slots[older as usize].newer = newer,
        }
        match newer {
            NO_SLOT => self.newest_empty = older,
            newer => self.slots[newer as usize].older = older,
        }
        self.empty -= 1;
    }

    #[inline]
    pub(crate) fn get(&self, slot: Slot) -> &Sequence {
        &self.slots[slot.0 as usize].sequence
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, slot: Slot) -> &mut Sequence {
        &mut self.slots[slot.0 as usize].sequence
    }

    /// All that are known, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Sequence> {
        self.by_key.values().map(|&slot| &self.slots[slot as usize].sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_empty_ones_are_kept_and_slots_are_used_again() {
        let mut sequences = Sequences::new(0);
        for writer in 0..3000 {
            let slot = sequences.hold(SequenceId::new(1, writer)).expect("room");
            sequences.release(slot);
        }
        assert_eq!(sequences.iter().count(), KEPT_EMPTY);
        assert_eq!(sequences.slots.len(), KEPT_EMPTY + 1);
        assert!(sequences.find(SequenceId::new(1, 3000 - KEPT_EMPTY as u16 - 1)).is_none());
        assert!(sequences.find(SequenceId::new(1, 3000 - KEPT_EMPTY as u16)).is_some());
    }

    #[test]
    fn one_that_is_held_is_not_forgotten() {
        let mut sequences = Sequences::new(0);
        let held = sequences.hold(SequenceId::new(9, 9)).expect("room");
        for writer in 0..3000 {
            let slot = sequences.hold(SequenceId::new(1, writer)).expect("room");
            sequences.release(slot);
        }
        assert_eq!(sequences.find(SequenceId::new(9, 9)), Some(held));
    }

    #[test]
    fn a_sequence_takes_what_the_documentation_says() {
        // Beside it up to 16 offsets, and a key and a slot in a table that is half empty at worst.
        assert!(size_of::<SlotState>() + 16 * 4 + 2 * 9 <= 250, "{}", size_of::<SlotState>());
    }

    #[test]
    fn there_is_a_most() {
        let mut sequences = Sequences::new(0);
        let held = (0..=u16::MAX).flat_map(|writer| (1..=2).map(move |p| (p, writer)));
        let held =
            held.filter_map(|(producer, writer)| sequences.hold(SequenceId::new(producer, writer)));
        assert_eq!(held.count(), LEAST_MOST);
    }
}
