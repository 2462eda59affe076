//! Stacks that the kernel programs send as they lie in memory, because a table was not made yet
//! (`bpf/include/stack_memory.h`). They are held until the recording stops: a stack is the
//! program's memory, which does not belong into a capture.

use std::fmt;

use aya::maps::{MapData, RingBuf};
use rustc_hash::FxHashSet;
use syscollect_records::unwind::{PAGE_BYTES, StackMemoryHeader};

use super::UnwindTables;
use super::held::{StackCopies, StacksInMemory};
use super::tables::WantedPages;
use super::words::FileId;

/// Bytes of the ring, and of what is held; smaller where memory is short.
const RING_BYTES: u32 = 4 << 20;
const RING_BYTES_SHORT: u32 = 256 << 10;
const HELD_BYTES: u64 = 32 << 20;
const HELD_BYTES_SHORT: u64 = 2 << 20;

/// Pages that are remembered as asked for; when they are more, they are asked for again.
const ASKED_MAX: usize = 1 << 16;
/// What is packed at one look at the ring, where what is held begins to fill.
const PACKED_AT_ONCE: usize = 256 << 10;
/// The ring looks so many times as full as it is: how full it is says how soon it is looked at
/// again, and each stack in it waits for tables.
const URGENCY: f64 = 16.0;

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
        self.held.pack(PACKED_AT_ONCE);
        drained as f64 * URGENCY / f64::from(self.bytes)
    }

    /// What came since this was last asked.
    pub(crate) fn take(&mut self) -> StacksInMemory {
        self.drain();
        self.held.take()
    }

    /// Stacks that were not held, or not to their end: their users had their share.
    pub(crate) fn refused(&self) -> u64 {
        self.held.refused()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unwind::held::testing::part;

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
}
