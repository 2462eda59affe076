//! Stacks as they lay in memory, held until a recording stops. Where they begin to fill what they
//! may have, they are packed: that takes time, which few recordings need to spend.

use std::collections::VecDeque;
use std::sync::Arc;

use lz4_flex::block::{compress_prepend_size, decompress_size_prepended};
use rustc_hash::FxHashMap;
use syscollect_model::{Lane, LaneKind};
use syscollect_records::unwind::{StackMemoryHeader, memory_of};
use syscollect_unwind::{FrameReached, Registers, StackMemory, StackPieces};

use crate::shares::Pool;

/// What a stack takes besides its bytes, about.
const STACK_BYTES: u64 = 128;
/// What is packed counts for one of so many at least, however well it packs: it is unpacked and
/// walked in the end.
const PACKED_AT_LEAST: usize = 8;

/// Stacks as they lay in memory, by the lane of their definition and its id there. Snapshots share
/// them: each is as large as what it holds.
pub type StacksInMemory = FxHashMap<(Lane, u32), Arc<StackCopy>>;

/// A stack as it lay in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackCopy {
    /// Whose program's.
    pub user: u32,
    /// What is packed, and where that lay; all below what is not.
    packed: Vec<(u64, Vec<u8>)>,
    plain: StackMemory,
}

impl StackCopy {
    pub(crate) fn new(user: u32, memory: StackMemory) -> Self {
        Self { user, packed: Vec::new(), plain: memory }
    }

    /// The stack.
    pub fn memory(&self) -> StackMemory {
        let Self { packed, plain, .. } = self;
        if packed.is_empty() {
            return plain.clone();
        }
        let mut stack = StackPieces::default();
        for (start, bytes) in packed {
            // What was packed here can be unpacked.
            let bytes = decompress_size_prepended(bytes).unwrap_or_default();
            stack.add(*start, &bytes);
        }
        for (start, bytes) in plain.stack.pieces() {
            stack.add(start, bytes);
        }
        StackMemory { stack, ..*plain }
    }

    /// Packs what is not; how many bytes that freed.
    fn pack(&mut self) -> u64 {
        let mut freed = 0;
        for (start, bytes) in std::mem::take(&mut self.plain.stack).pieces() {
            let packed = compress_prepend_size(bytes);
            freed += bytes.len().saturating_sub(packed.len().max(bytes.len() / PACKED_AT_LEAST));
            self.packed.push((start, packed));
        }
        freed as u64
    }
}

/// Stacks that came in parts.
#[derive(Debug)]
pub(super) struct StackCopies {
    stacks: FxHashMap<(Lane, u32), StackCopy>,
    /// Those that are not packed, the oldest first.
    plain: VecDeque<(Lane, u32)>,
    total: u64,
    free: Pool,
    refused: u64,
}

impl StackCopies {
    pub(super) fn new(bytes: u64) -> Self {
        Self {
            stacks: FxHashMap::default(),
            plain: VecDeque::new(),
            total: bytes,
            free: Pool::spared_by_root(bytes),
            refused: 0,
        }
    }

    /// Adds a part to its stack. Parts come in the order of their addresses, and some are missing;
    /// without the first, which has the last frame, the others are of no use.
    pub(super) fn add(&mut self, header: &StackMemoryHeader, bytes: &[u8]) {
        let kind = match header.of {
            memory_of::SCHED => LaneKind::SchedStack,
            memory_of::SAMPLE => LaneKind::SampleStack,
            memory_of::PROBE => LaneKind::ProbeStack,
            _ => return,
        };
        let Ok(cpu) = u16::try_from(header.cpu) else { return };
        let Some(bytes) = bytes.get(..header.bytes as usize) else { return };
        let key = (Lane::new(kind, cpu), header.id);
        let is_new = !self.stacks.contains_key(&key);
        if is_new && header.start != header.sp {
            return;
        }
        let own = if is_new { STACK_BYTES } else { 0 };
        if !self.free.take(header.uid, own + bytes.len() as u64) {
            self.refused += 1;
            return;
        }
        let stack = self.stacks.entry(key).or_insert_with(|| {
            let memory = StackMemory {
                registers: Registers { ip: header.ip, sp: header.sp, bp: header.bp },
                reached: FrameReached::of(header),
                stack: StackPieces::default(),
            };
            StackCopy::new(header.uid, memory)
        });
        if is_new {
            self.plain.push_back(key);
        }
        stack.plain.stack.add(header.start, bytes);
    }

    /// Packs so many bytes of what is held, if it begins to fill.
    pub(super) fn pack(&mut self, bytes: usize) {
        let mut left = bytes;
        while left > 0 && self.free.room(0) < self.total / 2 {
            let Some(key) = self.plain.pop_front() else { return };
            let Some(stack) = self.stacks.get_mut(&key) else { continue };
            left = left.saturating_sub(stack.plain.stack.len().max(1));
            self.free.give_back(stack.user, stack.pack());
        }
    }

    /// Parts that were not held: their users had their share.
    pub(super) fn refused(&self) -> u64 {
        self.refused
    }

    pub(super) fn take(&mut self) -> StacksInMemory {
        self.plain.clear();
        self.free = Pool::spared_by_root(self.total);
        self.stacks.drain().map(|(key, stack)| (key, Arc::new(stack))).collect()
    }
}

#[cfg(test)]
pub(super) mod testing {
    use super::*;

    /// 16 bytes of the stack of that id, as the programs send them.
    pub(in crate::unwind) fn part(id: u32, uid: u32, start: u64) -> StackMemoryHeader {
        StackMemoryHeader {
            id,
            uid,
            start,
            cpu: 1,
            of: memory_of::SAMPLE,
            ip: 0x1234,
            sp: 0x7000,
            bytes: 16,
            ..StackMemoryHeader::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::part;
    use super::*;

    fn of(stacks: &StacksInMemory, id: u32) -> Option<StackMemory> {
        stacks.get(&(Lane::new(LaneKind::SampleStack, 1), id)).map(|stack| stack.memory())
    }

    #[test]
    fn parts_of_a_stack_are_joined() {
        let mut held = StackCopies::new(1 << 20);
        held.add(&part(7, 0, 0x7000), &[1; 2048]);
        held.add(&part(8, 0, 0x7000), &[2; 2048]);
        held.add(&part(7, 0, 0x7010), &[3; 2048]);
        let stacks = held.take();
        let stack = of(&stacks, 7).unwrap();
        assert_eq!(stack.stack, StackPieces::from(0x7000, [[1; 16], [3; 16]].concat()));
        assert_eq!((stack.registers.ip, stack.registers.sp), (0x1234, 0x7000));
        assert_eq!(of(&stacks, 8).unwrap().stack, StackPieces::from(0x7000, vec![2; 16]));
        assert!(held.take().is_empty());
    }

    #[test]
    fn what_lies_behind_a_gap_stays_where_it_lay() {
        let mut held = StackCopies::new(1 << 20);
        held.add(&part(7, 0, 0x7000), &[1; 2048]);
        held.add(&part(7, 0, 0x7020), &[3; 2048]);
        held.add(&part(9, 0, 0x7010), &[3; 2048]);
        let stacks = held.take();
        let stack = of(&stacks, 7).unwrap().stack;
        let word = u64::from_ne_bytes;
        assert_eq!(
            (stack.word(0x7008), stack.word(0x7020)),
            (Some(word([1; 8])), Some(word([3; 8])))
        );
        assert_eq!((stack.word(0x7018), stack.len()), (None, 32));
        assert!(of(&stacks, 9).is_none(), "its beginning is not there");
    }

    #[test]
    fn a_user_whose_programs_send_without_end_leaves_room_for_others() {
        let mut held = StackCopies::new(100 * (STACK_BYTES + 16));
        (0..1000).for_each(|id| held.add(&part(id, 1001, 0x7000), &[0; 2048]));
        assert_eq!((held.stacks.len(), held.refused), (50, 950));
        held.add(&part(5000, 1002, 0x7000), &[0; 2048]);
        let (lying, short) = (StackMemoryHeader { bytes: 99, ..part(1, 0, 0x7000) }, [0; 50]);
        held.add(&lying, &short);
        let stacks = held.take();
        assert!(of(&stacks, 5000).is_some());
        assert!(of(&stacks, 1).is_some_and(|stack| stack.stack.len() == 16), "it lies");
    }

    #[test]
    fn what_is_held_is_packed_where_it_begins_to_fill_and_is_the_same_in_the_end() {
        let mut held = StackCopies::new(64 << 10);
        let bytes: Vec<u8> = (0..2048_u32).map(|at| (at / 100) as u8).collect();
        let send = |held: &mut StackCopies, id, start| {
            held.add(&StackMemoryHeader { bytes: 2048, ..part(id, 0, start) }, &bytes);
        };
        // A stack with a gap, before there is need to pack anything.
        send(&mut held, 1, 0x7000);
        send(&mut held, 1, 0x9000);
        held.pack(1 << 20);
        assert!(held.stacks.values().all(|stack| stack.packed.is_empty()));
        // More than could be held as it is.
        for id in 2..100 {
            send(&mut held, id, 0x7000);
            held.pack(4096);
        }
        assert_eq!(held.refused(), 0);
        send(&mut held, 1, 0xb000);
        let stacks = held.take();
        assert!(stacks.values().filter(|stack| !stack.packed.is_empty()).count() > 70);
        for id in 2..100 {
            assert_eq!(of(&stacks, id).unwrap().stack, StackPieces::from(0x7000, bytes.clone()));
        }
        let mut with_gaps = StackPieces::from(0x7000, bytes.clone());
        assert!(with_gaps.add(0x9000, &bytes) && with_gaps.add(0xb000, &bytes));
        assert_eq!(of(&stacks, 1).unwrap().stack, with_gaps);
    }

    #[test]
    fn what_packs_to_nothing_counts_all_the_same() {
        let mut stack = StackCopy::default();
        assert!(stack.plain.stack.add(0x7000, &[0; 16_384]));
        assert_eq!((stack.pack(), stack.pack()), (16_384 - 2048, 0));
        assert_eq!(stack.memory().stack, StackPieces::from(0x7000, vec![0; 16_384]));
    }
}
