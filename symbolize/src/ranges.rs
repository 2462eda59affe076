//! Functions of which only the ranges are known: what a stripped file still says for unwinders.
//!
//! `.eh_frame` has an entry (FDE) with the first address and the length of each function, or of
//! each piece of one, and `.eh_frame_hdr` an index of them, sorted by address. Both are loaded with
//! the program, so `strip` leaves them. A file's maker may have written anything there: each
//! look-up takes a bounded number of steps, a description that many entries share (CIE) is parsed
//! once, and no range leaves the section of code that it begins in.

use crate::elf::Layout;
use crate::memory::{MEMORY_PATIENCE, NamingMemory, Share};
use gimli::{
    BaseAddresses, CieOrFde, CommonInformationEntry, EhFrame, EhFrameHdr, EhFrameOffset,
    EhHdrTable, EndianSlice, FrameDescriptionEntry, LittleEndian, ParsedEhFrameHdr,
    PartialFrameDescriptionEntry, Pointer, UnwindSection,
};
use rustc_hash::FxHashMap;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use syscollect_elf::LoadedPart;
use syscollect_untrusted_files::Reader;

/// Those of browsers have 20 MiB; larger ones are no linker's work.
const BYTES_MAX: u64 = 512 << 20;
/// Bytes that are read at once.
const BLOCK: usize = 1 << 20;
/// Bytes of an index in which it says where the entries begin.
const INDEX_HEAD: u64 = 64;
/// Descriptions that are remembered; files have a few.
const DESCRIPTIONS_MAX: usize = 1 << 12;
/// Entries that are walked over between two looks at whether there is time left.
const STEP: usize = 4096;

type Bytes<'t> = EndianSlice<'t, LittleEndian>;
type Entries<'t> = EhFrame<Bytes<'t>>;
type Description<'t> = CommonInformationEntry<Bytes<'t>>;

/// Why the ranges of a file's functions cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RangesError {
    #[error("the tables for unwinding have {0} bytes")]
    TooLarge(u64),
    #[error("no memory for a copy of {0} bytes")]
    NoMemory(u64),
    #[error("the tables for unwinding cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    #[error("the file was overwritten meanwhile")]
    Overwritten,
}

/// A file's tables for unwinding, copied: the file may change meanwhile.
#[derive(Debug)]
pub(crate) struct UnwindTables {
    index: Option<Table>,
    entries: Table,
    address_size: u8,
    _memory: [Option<Share>; 2],
}

/// Bytes, and the virtual address at which they are loaded.
#[derive(Debug)]
struct Table {
    address: u64,
    bytes: Vec<u8>,
}

impl UnwindTables {
    /// Those of the file that `reader` reads and `layout` describes; `None` if it has none.
    ///
    /// # Errors
    ///
    /// They are too large, there is no memory for them, or the file shrank.
    pub(crate) fn read(
        reader: Reader,
        layout: &Layout,
        memory: &NamingMemory,
    ) -> Result<Option<Self>, RangesError> {
        let address_size = layout.address_size();
        let (index, index_memory) = match &layout.unwind_index {
            Some(part) => {
                let (table, share) = Table::read(&reader, part, memory)?;
                (Some(table), Some(share))
            }
            None => (None, None),
        };
        // Files may lack the table of sections; the index says where the entries begin, too.
        let entries = layout.unwind_entries.or_else(|| {
            let index = index.as_ref()?;
            layout.segments.part_from(index.parse(address_size)?.eh_frame_ptr().direct().ok()?)
        });
        let Some(entries) = entries else { return Ok(None) };
        let (entries, entries_memory) = Table::read(&reader, &entries, memory)?;
        let memory = [index_memory, Some(entries_memory)];
        Ok(Some(Self { index, entries, address_size, _memory: memory }))
    }
}

impl UnwindTables {
    /// Where they lie in the file.
    pub(crate) fn parts(reader: &Reader, layout: &Layout) -> Vec<Range<u64>> {
        // Only the first bytes of the index are read, which say where the entries begin.
        let entries = layout.unwind_entries.or_else(|| {
            let index = layout.unwind_index?;
            let head = LoadedPart::new(index.address, index.offset, index.size.min(INDEX_HEAD))?;
            let (head, _) = Table::read(reader, &head, &NamingMemory::new(INDEX_HEAD)).ok()?;
            layout
                .segments
                .part_from(head.parse(layout.address_size())?.eh_frame_ptr().direct().ok()?)
        });
        [layout.unwind_index, entries].into_iter().flatten().map(|part| part.offsets()).collect()
    }
}

impl Table {
    fn read(
        reader: &Reader,
        part: &LoadedPart,
        memory: &NamingMemory,
    ) -> Result<(Self, Share), RangesError> {
        let length = part.size;
        if length > BYTES_MAX {
            return Err(RangesError::TooLarge(length));
        }
        if part.offsets().end > reader.length() {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        let share = memory.take(length, MEMORY_PATIENCE).ok_or(RangesError::NoMemory(length))?;
        let (mut reader, mut bytes) = (reader.clone(), vec![0; length as usize]);
        reader.seek(SeekFrom::Start(part.offset))?;
        for block in bytes.chunks_mut(BLOCK) {
            reader.read_exact(block)?;
        }
        Ok((Self { address: part.address, bytes }, share))
    }

    /// The table as an index of entries; `None` if it is damaged.
    fn parse(&self, address_size: u8) -> Option<ParsedEhFrameHdr<Bytes<'_>>> {
        let bases = BaseAddresses::default().set_eh_frame_hdr(self.address);
        EhFrameHdr::new(&self.bytes, LittleEndian).parse(&bases, address_size).ok()
    }
}

/// The ranges of a file's functions, as virtual addresses.
#[derive(Debug)]
pub(crate) struct FunctionRanges<'t> {
    entries: EntryReader<'t>,
    order: EntrySearch<'t>,
}

/// How the entry for an address is found.
#[derive(Debug)]
enum EntrySearch<'t> {
    /// By the file's own index; the number of its rows at most.
    Indexed(ParsedEhFrameHdr<Bytes<'t>>, usize),
    /// By the ranges of all entries, sorted.
    Walked(Vec<Range<u64>>),
}

impl<'t> FunctionRanges<'t> {
    /// Those in `tables` of the file that `layout` describes. Where the file has no usable index,
    /// all entries are walked over as long as `has_time` says so.
    pub(crate) fn new(
        tables: &'t UnwindTables,
        layout: &'t Layout,
        has_time: impl Fn() -> bool,
    ) -> Self {
        let mut entries = EntryReader::new(tables, layout);
        let index = tables.index.as_ref().and_then(|index| {
            let parsed = index.parse(tables.address_size)?;
            let is_of_these = parsed.eh_frame_ptr().direct().ok()? == tables.entries.address;
            let rows = parsed.table()?.iter(&entries.bases).size_hint().0.min(index.bytes.len());
            // A row that cannot be read says that its encoding is none of an index.
            let is_readable = parsed.table()?.iter(&entries.bases).nth(0).is_ok();
            (is_of_these && is_readable).then_some((parsed, rows))
        });
        let order = match index {
            Some((index, rows)) => EntrySearch::Indexed(index, rows),
            None => EntrySearch::Walked(entries.all(has_time)),
        };
        Self { entries, order }
    }

    /// The range of the function, or of the piece of one, that holds `address`.
    pub(crate) fn find(&mut self, address: u64) -> Option<Range<u64>> {
        let found = match &self.order {
            EntrySearch::Indexed(index, rows) => {
                let entry = self.entries.indexed(index, *rows, address)?;
                self.entries.range_at(entry)?
            }
            EntrySearch::Walked(ranges) => {
                let behind = ranges.partition_point(|range| range.start <= address);
                ranges[behind.checked_sub(1)?].clone()
            }
        };
        found.contains(&address).then_some(found)
    }
}

/// Reads entries of `.eh_frame`.
#[derive(Debug)]
struct EntryReader<'t> {
    section: Entries<'t>,
    address: u64,
    bases: BaseAddresses,
    /// By their offset; `None` if it is damaged.
    descriptions: FxHashMap<usize, Option<Description<'t>>>,
    layout: &'t Layout,
}

impl<'t> EntryReader<'t> {
    fn new(tables: &'t UnwindTables, layout: &'t Layout) -> Self {
        let address = tables.entries.address;
        let mut section = EhFrame::new(&tables.entries.bytes, LittleEndian);
        section.set_address_size(tables.address_size);
        let bases = BaseAddresses::default().set_eh_frame(address);
        let bases = match &tables.index {
            Some(index) => bases.set_eh_frame_hdr(index.address),
            None => bases,
        };
        Self { section, address, bases, descriptions: FxHashMap::default(), layout }
    }

    /// The offset of the entry with the last start that is not behind `address`.
    fn indexed(
        &self,
        index: &ParsedEhFrameHdr<Bytes<'t>>,
        rows: usize,
        address: u64,
    ) -> Option<usize> {
        // gimli's own search multiplies the count of rows, whatever it is, without a check.
        let table = index.table()?;
        let (mut low, mut high) = (0, rows);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.row(&table, middle)?.0.direct().ok()? <= address {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        let (_, entry) = self.row(&table, low.checked_sub(1)?)?;
        usize::try_from(entry.direct().ok()?.checked_sub(self.address)?).ok()
    }

    /// A row of the index: where a function begins, and where its entry lies.
    fn row(&self, table: &EhHdrTable<'_, Bytes<'t>>, number: usize) -> Option<(Pointer, Pointer)> {
        table.iter(&self.bases).nth(number).ok()?
    }

    fn range_at(&mut self, offset: usize) -> Option<Range<u64>> {
        let (section, bases) = (self.section, self.bases.clone());
        let entry = section.partial_fde_from_offset(&bases, EhFrameOffset(offset)).ok()?;
        self.range(&entry)
    }

    fn range(
        &mut self,
        entry: &PartialFrameDescriptionEntry<'_, Entries<'t>, Bytes<'t>>,
    ) -> Option<Range<u64>> {
        let described = entry.parse(|section, bases, at| {
            if self.descriptions.len() >= DESCRIPTIONS_MAX {
                self.descriptions.clear();
            }
            let description = self
                .descriptions
                .entry(at.0)
                .or_insert_with(|| section.cie_from_offset(bases, at).ok());
            description.clone().ok_or(gimli::Error::NotCieId(at.0 as u64))
        });
        let entry: FrameDescriptionEntry<Bytes<'t>> = described.ok()?;
        let start = entry.initial_address();
        let end = start.checked_add(entry.len())?.min(self.layout.code_end(start)?);
        (start < end).then_some(start..end)
    }

    /// The ranges of all entries up to the first that is damaged, sorted.
    fn all(&mut self, has_time: impl Fn() -> bool) -> Vec<Range<u64>> {
        let (section, bases, mut ranges) = (self.section, self.bases.clone(), Vec::new());
        let mut entries = section.entries(&bases);
        let mut walked = 0_usize;
        while let Ok(Some(entry)) = entries.next() {
            if let CieOrFde::Fde(entry) = entry {
                ranges.extend(self.range(&entry));
            }
            walked += 1;
            if walked.is_multiple_of(STEP) && !has_time() {
                break;
            }
        }
        ranges.sort_unstable_by_key(|range| (range.start, range.end));
        ranges
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    fn layout(bytes: Range<u64>) -> Layout {
        let mut layout = Layout::of_code(0..0);
        layout.unwind_entries = LoadedPart::new(0x1000, bytes.start, bytes.end - bytes.start);
        layout
    }

    fn read(file: &File, bytes: Range<u64>) -> Result<Option<UnwindTables>, RangesError> {
        let reader = Reader::of(file).unwrap();
        UnwindTables::read(reader, &layout(bytes), &NamingMemory::new(1 << 20))
    }

    #[test]
    fn tables_are_read_within_bounds() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(BYTES_MAX + 1).unwrap();
        assert!(matches!(read(&file, 0..64), Ok(Some(_))));
        assert!(matches!(read(&file, 0..(1 << 20) + 1), Err(RangesError::NoMemory(_))));
        assert!(matches!(read(&file, 0..BYTES_MAX + 1), Err(RangesError::TooLarge(_))));
        let end = BYTES_MAX + 1;
        assert!(matches!(read(&file, end..end + 64), Err(RangesError::Unreadable(_))));
        let reader = Reader::of(&file).unwrap();
        file.set_len(32).unwrap();
        let shrunk = UnwindTables::read(reader, &layout(0..64), &NamingMemory::new(1 << 20));
        assert!(matches!(shrunk, Err(RangesError::Unreadable(_))), "{shrunk:?}");
    }

    #[test]
    fn without_time_entries_are_not_walked_to_the_end() {
        // A description of addresses as they are, and entries for 16 bytes of code each.
        let mut bytes = vec![12, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0x78, 16, 0, 0, 0];
        for number in 0..3 * STEP as u64 {
            let back = bytes.len() as u32 + 4;
            bytes.extend([20_u32, back].into_iter().flat_map(u32::to_le_bytes));
            bytes.extend([number * 16, 16].into_iter().flat_map(u64::to_le_bytes));
        }
        let entries = Table { address: 0, bytes };
        let memory = [const { None }; 2];
        let tables = UnwindTables { index: None, entries, address_size: 8, _memory: memory };
        let layout = Layout::of_code(0..u64::MAX);
        let last = 3 * STEP as u64 * 16 - 1;
        let mut whole = FunctionRanges::new(&tables, &layout, || true);
        assert_eq!(whole.find(last), Some(last - 15..last + 1));
        let mut hasty = FunctionRanges::new(&tables, &layout, || false);
        assert_eq!((hasty.find(0), hasty.find(last)), (Some(0..16), None));
    }
}
