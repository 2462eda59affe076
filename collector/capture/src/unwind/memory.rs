//! Stacks that the kernel programs send as they lie in memory, because a table was not made yet
//! (`bpf/include/stack_memory.h`). They are held until the recording stops: a stack is the
//! program's memory, which does not belong into a capture.

use std::fmt;

use aya::maps::{MapData, RingBuf};
use rustc_hash::{FxHashMap, FxHashSet};
use syscollect_model::{Lane, LaneKind};
use syscollect_records::unwind::{PAGE_BYTES, StackMemoryHeader, memory_of};
use syscollect_unwind::{FrameReached, Registers, StackMemory, StackPieces};

use super::UnwindTables;
use super::tables::WantedPages;
use super::words::FileId;
use crate::shares::Pool;

/// Bytes of the ring, and of what is held; smaller where memory is short.
const RING_BYTES: u32 = 4 << 20;
const RING_BYTES_SHORT: u32 = 256 << 10;
const HELD_BYTES: u64 = 32 << 20;
const HELD_BYTES_SHORT: u64 = 2 << 20;

/// Pages that are remembered as asked for; when they are more, they are asked for again.
const ASKED_MAX: usize = 1 << 16;
/// The ring looks so many times as full as it is: how full it is says how soon it is looked at
/// again, and each stack in it waits for tables.
const URGENCY: f64 = 16.0;

/// What a stack takes besides its bytes, about.
const STACK_BYTES: u64 = 128;

/// Stacks as they lay in memory, by the lane of their definition and its id there.
pub type StacksInMemory = FxHashMap<(Lane, u32), StackCopy>;

/// A stack as it lay in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackCopy {
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
    bytes: u32,
    held: StackCopies,
    /// Who makes tables, and what it was asked for.
    tables: Option<UnwindTables>,
    asked: AskedPages,
}

impl fmt::Debug for StackMemoryRing {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("StackMemoryRing").field("held", &self.held).finish_non_exhaustive()
    }
}

impl StackMemoryRing {
    pub(crate) fn new(ring: RingBuf<MapData>, memory_is_short: bool) -> Self {
        let held = StackCopies::new(if memory_is_short { HELD_BYTES_SHORT } else { HELD_BYTES });
        let (tables, asked) = (None, AskedPages::default());
        Self { ring, bytes: ring_bytes(memory_is_short), held, tables, asked }
    }

    /// From now on whoever makes tables hears which are missing.
    pub(crate) fn ask(&mut self, tables: UnwindTables) {
        self.tables = Some(tables);
    }

    /// Takes out what is there; how full it was, for when to look again.
    pub(crate) fn drain(&mut self) -> f64 {
        let mut drained = 0;
        self.asked.follow(self.tables.as_ref().map_or(0, UnwindTables::evicted));
        while let Some(record) = self.ring.next() {
            drained += record.len();
            let Some(header) = StackMemoryHeader::from_bytes(&record) else { continue };
            let bytes = &record[StackMemoryHeader::SIZE..];
            self.held.add(&header, bytes);
            if let (Some(tables), Some(wanted)) = (&self.tables, self.asked.of(&header, bytes)) {
                tables.wanted(wanted);
            }
        }
        drained as f64 * URGENCY / f64::from(self.bytes)
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

/// Which tables stacks lack whose walks ended at the first of them. The next walk would end at the
/// next, and a program that runs for a moment is over before the last is made.
#[derive(Debug, Default)]
struct AskedPages {
    /// By file, page and user: another may have room where one has not.
    asked: FxHashSet<(FileId, u32, u32)>,
    /// How many pages had given way when these were asked for.
    evicted: u64,
}

impl AskedPages {
    /// The pages that hold what may be callers in this part of a stack, but for those that were
    /// asked for: of the code whose table was missing, for which all its callers are the most
    /// likely to lack one, too.
    fn of(&mut self, header: &StackMemoryHeader, bytes: &[u8]) -> Option<WantedPages> {
        let StackMemoryHeader { uid, code_start, code_end, code_bias, .. } = *header;
        let file = FileId::of_programs(header.file)?;
        let bytes = bytes.get(..header.bytes as usize)?;
        let mut pages = Vec::new();
        for word in bytes.as_chunks().0 {
            // A call returns behind itself.
            let address = u64::from_ne_bytes(*word).wrapping_sub(1);
            if !(code_start..code_end).contains(&address) {
                continue;
            }
            let page = u32::try_from(address.wrapping_add(code_bias) / PAGE_BYTES).ok()?;
            if self.asked.insert((file, page, uid)) {
                pages.push(page);
            }
        }
        if self.asked.len() > ASKED_MAX {
            self.asked.clear();
        }
        (!pages.is_empty()).then_some(WantedPages { file, user: uid, pages })
    }

    /// So many pages have given way so far: they may be asked for again.
    fn follow(&mut self, evicted: u64) {
        if self.evicted != evicted {
            self.evicted = evicted;
            self.asked.clear();
        }
    }
}

/// Stacks that came in parts.
#[derive(Debug)]
struct StackCopies {
    stacks: StacksInMemory,
    total: u64,
    free: Pool,
    refused: u64,
}

impl StackCopies {
    fn new(bytes: u64) -> Self {
        Self {
            stacks: StacksInMemory::default(),
            total: bytes,
            free: Pool::spared_by_root(bytes),
            refused: 0,
        }
    }

    /// Adds a part to its stack. Parts come in the order of their addresses, and some are missing;
    /// without the first, which has the last frame, the others are of no use.
    fn add(&mut self, header: &StackMemoryHeader, bytes: &[u8]) {
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
        let stack = self.stacks.entry(key).or_insert_with(|| StackCopy {
            user: header.uid,
            memory: StackMemory {
                registers: Registers { ip: header.ip, sp: header.sp, bp: header.bp },
                reached: FrameReached::of(header),
                stack: StackPieces::default(),
            },
        });
        stack.memory.stack.add(header.start, bytes);
    }

    fn take(&mut self) -> StacksInMemory {
        self.free = Pool::spared_by_root(self.total);
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
            of: memory_of::SAMPLE,
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
        let stack = &of(&stacks, 7).unwrap().stack;
        let word = u64::from_ne_bytes;
        assert_eq!(
            (stack.word(0x7008), stack.word(0x7020)),
            (Some(word([1; 8])), Some(word([3; 8])))
        );
        assert_eq!((stack.word(0x7018), stack.len()), (None, 32));
        assert!(of(&stacks, 9).is_none(), "its beginning is not there");
    }

    #[test]
    fn callers_in_the_code_that_lacks_a_table_have_theirs_made_and_each_page_once() {
        let mut asked = AskedPages::default();
        // The file's code from its byte 0x1000 on is mapped at 0x40_0000.
        let id = FileId::new(3, 1);
        let (file, code_start, code_end) = (id.for_programs().into(), 0x40_0000, 0x80_0000);
        let code_bias = 0x1000_u64.wrapping_sub(code_start);
        let header = StackMemoryHeader {
            file,
            code_start,
            code_end,
            code_bias,
            bytes: 40,
            ..part(7, 1001, 0x7000)
        };
        let words = [0x40_0010_u64, 0x7f00_0000, 0x41_f001, 0x41_f000, 0x43_0000, 0x44_0000];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let wanted =
            |user, pages: &[u32]| Some(WantedPages { file: id, user, pages: pages.to_vec() });
        // What returns to a page's first byte was called from the page before; the last word is not
        // the program's.
        assert_eq!(asked.of(&header, &bytes), wanted(1001, &[0, 2, 1, 3]));
        assert_eq!(asked.of(&header, &bytes), None);
        let other = StackMemoryHeader { uid: 1002, ..header };
        assert_eq!(asked.of(&other, &bytes), wanted(1002, &[0, 2, 1, 3]));
        let unknown = StackMemoryHeader { file: 0, uid: 1003, ..header };
        assert_eq!(asked.of(&unknown, &bytes), None);
        // What has given way meanwhile is asked for again.
        asked.follow(0);
        assert_eq!(asked.of(&header, &bytes), None);
        asked.follow(1);
        assert_eq!(asked.of(&header, &bytes), wanted(1001, &[0, 2, 1, 3]));
    }

    #[test]
    fn a_user_whose_programs_send_without_end_leaves_room_for_others() {
        let mut held = StackCopies::new(100 * (STACK_BYTES + 16));
        (0..1000).for_each(|id| held.add(&part(id, 1001, 0x7000), &[0; 2048]));
        assert_eq!((held.stacks.len(), held.refused), (50, 950));
        held.add(&part(5000, 1002, 0x7000), &[0; 2048]);
        assert!(of(&held.stacks, 5000).is_some());
        let (lying, short) = (StackMemoryHeader { bytes: 99, ..part(1, 0, 0x7000) }, [0; 50]);
        held.add(&lying, &short);
        assert!(of(&held.stacks, 1).is_some_and(|stack| stack.stack.len() == 16), "it lies");
    }
}
