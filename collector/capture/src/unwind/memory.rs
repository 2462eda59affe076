//! Stacks that the kernel programs send as they lie in memory, because a table was not made yet
//! (`bpf/include/stack_memory.h`). They are held until the recording stops: a stack is the
//! program's memory, which does not belong into a capture.

use std::fmt;

use aya::maps::{MapData, RingBuf};
use rustc_hash::FxHashMap;
use syscollect_model::{Lane, LaneKind};
use syscollect_records::unwind::StackMemoryHeader;
use syscollect_unwind::{Registers, StackMemory};

use crate::shares::Pool;

/// Bytes of the ring, and of what is held; smaller where memory is short.
const RING_BYTES: u32 = 4 << 20;
const RING_BYTES_SHORT: u32 = 256 << 10;
const HELD_BYTES: u64 = 32 << 20;
const HELD_BYTES_SHORT: u64 = 2 << 20;

/// What a stack takes besides its bytes, about.
const STACK_BYTES: u64 = 128;

/// Stacks as they lay in memory, by the lane of their definition and its id there.
pub type StacksInMemory = FxHashMap<(Lane, u32), HeldStack>;

/// A stack as it lay in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeldStack {
    /// Whose program's.
    pub user: u32,
    /// The stack.
    pub memory: StackMemory,
}

/// Bytes of the ring in which stacks come.
pub(crate) fn ring_bytes(memory_is_short: bool) -> u32 {
    if memory_is_short { RING_BYTES_SHORT } else { RING_BYTES }
}

/// The ring, and what came out of it.
pub(crate) struct StackMemoryRing {
    ring: RingBuf<MapData>,
    held: HeldStacks,
}

impl fmt::Debug for StackMemoryRing {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("StackMemoryRing").field("held", &self.held).finish_non_exhaustive()
    }
}

impl StackMemoryRing {
    pub(crate) fn new(ring: RingBuf<MapData>, memory_is_short: bool) -> Self {
        let bytes = if memory_is_short { HELD_BYTES_SHORT } else { HELD_BYTES };
        Self { ring, held: HeldStacks::new(bytes) }
    }

    /// Takes out what is there.
    pub(crate) fn drain(&mut self) {
        while let Some(record) = self.ring.next() {
            if let Some(header) = StackMemoryHeader::from_bytes(&record) {
                self.held.add(&header, &record[StackMemoryHeader::SIZE..]);
            }
        }
    }

    /// What came since this was last asked.
    pub(crate) fn take(&mut self) -> StacksInMemory {
        self.drain();
        self.held.take()
    }

    /// Stacks that were not held, or not to their end: their users had their share.
    pub(crate) fn refused(&self) -> u64 {
        self.held.refused
    }
}

/// Stacks that came in parts.
#[derive(Debug)]
struct HeldStacks {
    stacks: StacksInMemory,
    total: u64,
    free: Pool,
    refused: u64,
}

impl HeldStacks {
    fn new(bytes: u64) -> Self {
        Self { stacks: StacksInMemory::default(), total: bytes, free: Pool::new(bytes), refused: 0 }
    }

    /// Adds a part to its stack. Parts come in their order; what lies behind a gap is left out.
    fn add(&mut self, header: &StackMemoryHeader, bytes: &[u8]) {
        let kind = if header.of_sample == 0 { LaneKind::SchedStack } else { LaneKind::SampleStack };
        let Ok(cpu) = u16::try_from(header.cpu) else { return };
        let Some(bytes) = bytes.get(..header.bytes as usize) else { return };
        let key = (Lane::new(kind, cpu), header.id);
        let known = self.stacks.get(&key);
        let wanted = known
            .map_or(header.sp, |known| known.memory.registers.sp + known.memory.bytes.len() as u64);
        if header.start != wanted {
            return;
        }
        let own = if known.is_none() { STACK_BYTES } else { 0 };
        if !self.free.take(header.uid, own + bytes.len() as u64) {
            self.refused += 1;
            return;
        }
        let stack = self.stacks.entry(key).or_insert_with(|| HeldStack {
            user: header.uid,
            memory: StackMemory {
                registers: Registers { ip: header.ip, sp: header.sp, bp: header.bp },
                exact_ip: header.exact_ip != 0,
                bytes: Vec::new(),
            },
        });
        stack.memory.bytes.extend_from_slice(bytes);
    }

    fn take(&mut self) -> StacksInMemory {
        self.free = Pool::new(self.total);
        std::mem::take(&mut self.stacks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(id: u32, uid: u32, start: u64) -> StackMemoryHeader {
        StackMemoryHeader {
            id,
            uid,
            start,
            cpu: 1,
            of_sample: 1,
            ip: 0x1234,
            sp: 0x7000,
            bytes: 16,
            ..StackMemoryHeader::default()
        }
    }

    fn of(stacks: &StacksInMemory, id: u32) -> Option<&StackMemory> {
        stacks.get(&(Lane::new(LaneKind::SampleStack, 1), id)).map(|stack| &stack.memory)
    }

    #[test]
    fn parts_of_a_stack_are_joined() {
        let mut held = HeldStacks::new(1 << 20);
        held.add(&part(7, 0, 0x7000), &[1; 2048]);
        held.add(&part(8, 0, 0x7000), &[2; 2048]);
        held.add(&part(7, 0, 0x7010), &[3; 2048]);
        let stacks = held.take();
        let stack = of(&stacks, 7).unwrap();
        assert_eq!(stack.bytes, [[1; 16], [3; 16]].concat());
        assert_eq!((stack.registers.ip, stack.registers.sp), (0x1234, 0x7000));
        assert_eq!(of(&stacks, 8).unwrap().bytes, [2; 16]);
        assert!(held.take().is_empty());
    }

    #[test]
    fn what_lies_behind_a_gap_is_left_out() {
        let mut held = HeldStacks::new(1 << 20);
        held.add(&part(7, 0, 0x7000), &[1; 2048]);
        held.add(&part(7, 0, 0x7020), &[3; 2048]);
        held.add(&part(9, 0, 0x7010), &[3; 2048]);
        let stacks = held.take();
        assert_eq!(of(&stacks, 7).unwrap().bytes.len(), 16);
        assert!(of(&stacks, 9).is_none(), "its beginning is not there");
    }

    #[test]
    fn a_user_whose_programs_send_without_end_leaves_room_for_others() {
        let mut held = HeldStacks::new(100 * (STACK_BYTES + 16));
        (0..1000).for_each(|id| held.add(&part(id, 1001, 0x7000), &[0; 2048]));
        assert_eq!((held.stacks.len(), held.refused), (50, 950));
        held.add(&part(5000, 1002, 0x7000), &[0; 2048]);
        assert!(of(&held.stacks, 5000).is_some());
        let (lying, short) = (StackMemoryHeader { bytes: 99, ..part(1, 0, 0x7000) }, [0; 50]);
        held.add(&lying, &short);
        assert!(of(&held.stacks, 1).is_some_and(|stack| stack.bytes.len() == 16), "it lies");
    }
}
