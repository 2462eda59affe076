//! What is read of an ELF file before a symbolizer may have it.
//!
//! Files come from processes of any user, so every size here is checked before
//! memory is set aside for it.

use std::fs::File;
use std::io::Read;
use std::ops::Range;
use syscollect_elf::{Elf, ElfError, LoadedPart, LoadedSegments, ReadCache, Segment, abi};
use syscollect_model::BuildId;
use syscollect_untrusted_files::Reader;

/// No linker writes a larger table of notes; larger ones are not kept.
const NOTES_MAX: u64 = 64 << 10;
/// What the names of sections with debug information begin with.
pub(crate) const DEBUG: &[u8] = b".debug_";
/// Leads to a file with the rest of the debug information.
pub(crate) const DEBUG_LINK: &[u8] = b".gnu_debuglink";
/// Leads to a file with debug information that several have in common.
pub(crate) const DEBUG_ALT_LINK: &[u8] = b".gnu_debugaltlink";
/// As that, of DWARF 5.
pub(crate) const DEBUG_SUP: &[u8] = b".debug_sup";
/// Symbols that `strip` took away, compressed.
pub(crate) const MINI_DEBUG: &[u8] = b".gnu_debugdata";
/// The table of a Go program's functions, also of one that may lie at any address.
const GO_FUNCTIONS: [&[u8]; 2] = [b".gopclntab", b".data.rel.ro.gopclntab"];
/// What a Go program (1.26 or later) says of itself: where its table is, and its code.
const GO_MODULE: &[u8] = b".go.module";
/// Other sections that have to do with names.
const OF_NAMES: [&[u8]; 7] =
    [b".symtab", b".strtab", b".dynsym", b".dynstr", DEBUG_LINK, DEBUG_ALT_LINK, MINI_DEBUG];

/// The build id that the linker wrote into `file`, if there is one.
///
/// Reads a few kilobytes at most and moves no file position.
///
/// ```
/// # let file = std::fs::File::open("/proc/self/exe").unwrap();
/// if let Some(id) = syscollect_symbolize::build_id_of(&file) {
///     assert!((1..=20).contains(&id.as_bytes().len()));
/// }
/// ```
pub fn build_id_of(file: &File) -> Option<BuildId> {
    build_id_in(Reader::of(file).ok()?)
}

/// As [`build_id_of`], of what somebody else may cut off, or keep waiting, meanwhile.
pub fn build_id_in(reader: Reader) -> Option<BuildId> {
    let data = ReadCache::new(reader);
    Some(BuildId::from_bytes(Elf::open(&data).ok()?.build_id()?))
}

/// Whether the file begins as an ELF file does.
pub(crate) fn is_elf(file: &File) -> bool {
    let mut magic = [0; 4];
    let read = Reader::of(file).and_then(|mut reader| reader.read_exact(&mut magic));
    read.is_ok() && magic == *b"\x7fELF"
}

/// The parts of a file that decide where its code lies and whether it is safe to parse.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    /// What is loaded.
    pub(crate) segments: LoadedSegments,
    /// Sections of code, by address.
    code_sections: Vec<Range<u64>>,
    /// What its DWARF costs in bytes of memory at most: inflated sections are copies,
    /// mapped ones can be dropped, so the former count four times.
    pub(crate) debug_bytes: u64,
    /// Bytes of its symbol tables.
    pub(crate) symbol_bytes: u64,
    /// Something other than debug information is compressed, which no linker does.
    pub(crate) odd_compression: bool,
    /// The first bytes of the file.
    pub(crate) header: Vec<u8>,
    /// Those of its sections that have to do with names, by their place in the table.
    pub(crate) sections: Vec<Section>,
    /// Sections in its table.
    pub(crate) section_count: usize,
    /// The sorted index of what is in `unwind_entries` (`.eh_frame_hdr`).
    pub(crate) unwind_index: Option<LoadedPart>,
    /// What unwinders read of each function (`.eh_frame`), as the table of sections has it.
    pub(crate) unwind_entries: Option<LoadedPart>,
    /// The table of a Go program's functions, if the file has its bytes.
    pub(crate) go_functions: Option<LoadedPart>,
    /// What a Go program says of itself.
    pub(crate) go_module: Option<LoadedPart>,
    /// It has sections of code, but not their bytes: a debug file.
    pub(crate) code_is_elsewhere: bool,
}

/// A section that has to do with names.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) index: usize,
    pub(crate) name: Vec<u8>,
    /// Its row in the table.
    pub(crate) row: Vec<u8>,
    /// Its bytes in the file; none if the table says that it has none there.
    pub(crate) bytes: Range<u64>,
}

/// Bytes of a page, by which files are mapped.
const PAGE: u64 = 4096;

/// What is mapped for a segment, as virtual addresses.
fn pages(segment: &Segment) -> Option<Range<u64>> {
    let end = segment.address.checked_add(segment.loaded_size)?.checked_next_multiple_of(PAGE)?;
    Some(segment.address / PAGE * PAGE..end)
}

impl Layout {
    /// Reads the layout of a file.
    pub(crate) fn read(reader: Reader) -> Result<Self, ElfError> {
        let data = ReadCache::new(reader);
        let elf = Elf::open(&data)?;
        let sections = elf.sections()?;
        let mut layout = Self {
            header: elf.header_bytes().to_vec(),
            section_count: sections.count(),
            unwind_index: elf.frame_index(),
            // Separate debug files have the section, but not its bytes.
            unwind_entries: sections.frame_entries(),
            ..Self::default()
        };
        for section in sections.iter() {
            let name = sections.name(section);
            let debug = name.starts_with(DEBUG);
            let inflated = sections.inflated_size(section)?;
            let size = inflated.unwrap_or(section.size);
            let is_there = section.kind != abi::SHT_NOBITS;
            if section.flags.contains(abi::SHF_EXECINSTR) {
                let end = section.address.saturating_add(section.size);
                layout.code_sections.push(section.address..end);
                layout.code_is_elsewhere |= !is_there;
            }
            let note = section.kind == abi::SHT_NOTE && section.size <= NOTES_MAX;
            if debug || note || OF_NAMES.contains(&name) {
                let (start, part) = (section.offset, "section");
                let end = start.checked_add(section.file_size());
                let end = end.ok_or(ElfError::Damaged { part, at: start })?;
                let row = sections.row(section).to_vec();
                let (index, name) = (section.index, name.to_vec());
                layout.sections.push(Section { index, name, row, bytes: start..end });
            }
            if is_there && inflated.is_none() {
                if GO_FUNCTIONS.contains(&name) {
                    layout.go_functions = section.part();
                } else if name == GO_MODULE {
                    layout.go_module = section.part();
                }
            }
            if [abi::SHT_SYMTAB, abi::SHT_DYNSYM].contains(&section.kind) {
                layout.symbol_bytes = layout.symbol_bytes.saturating_add(size);
            } else if debug && is_there {
                let cost = if inflated.is_some() { size.saturating_mul(4) } else { size };
                layout.debug_bytes = layout.debug_bytes.saturating_add(cost);
            }
            layout.odd_compression |= is_there && inflated.is_some() && !debug;
        }
        layout.segments = elf.loaded().clone();
        Ok(layout)
    }

    /// Of a file that has nothing but this code.
    #[cfg(test)]
    pub(crate) fn of_code(addresses: Range<u64>) -> Self {
        Self { code_sections: vec![addresses], header: vec![0; 64], ..Self::default() }
    }

    /// Says where code lies in the file that was mapped, if this is a debug file that does not: the
    /// tool that made it (`objcopy --only-keep-debug`) left out where segments lay. `mapped` are
    /// the parts of the file that were mapped for execution. `false` if they do not tell.
    pub(crate) fn place_code(&mut self, mapped: &[Range<u64>]) -> bool {
        if !self.code_is_elsewhere {
            return true;
        }
        let mut placed = Vec::new();
        for segment in self
            .segments
            .iter_mut()
            .filter(|segment| segment.is_code() && segment.size < segment.loaded_size)
        {
            if segment.offset == 0 && segment.size > 0 {
                // The file's own header is kept, and what it begins lay at the same place.
                segment.size = segment.loaded_size;
                continue;
            }
            let Some(pages) = pages(segment) else { return false };
            let length = pages.end - pages.start;
            let mut starts: Vec<u64> = mapped
                .iter()
                .filter(|part| part.end.checked_sub(part.start) == Some(length))
                .map(|part| part.start)
                .collect();
            starts.sort_unstable();
            starts.dedup();
            let [start] = starts[..] else { return false };
            let Some(offset) = start.checked_add(segment.address - pages.start) else {
                return false;
            };
            (segment.offset, segment.size) = (offset, segment.loaded_size);
            placed.push(start);
        }
        // Two parts of code do not lie at one place.
        placed.sort_unstable();
        placed.windows(2).all(|pair| pair[0] != pair[1])
    }

    /// Whether it has code, and not only what was known of it.
    pub(crate) fn has_code(&self) -> bool {
        !self.code_is_elsewhere && self.segments.code().any(|part| part.size > 0)
    }

    /// Whether no border of sections lies between two addresses of code.
    pub(crate) fn in_one_section(&self, one: u64, other: u64) -> bool {
        self.code_sections.iter().any(|section| section.contains(&one) && section.contains(&other))
    }

    /// Where the code that lies at `address` ends at the latest: with its section, or its segment
    /// in a file without sections; `None` if no code lies there.
    pub(crate) fn code_end(&self, address: u64) -> Option<u64> {
        if !self.code_sections.is_empty() {
            return self
                .code_sections
                .iter()
                .find(|section| section.contains(&address))
                .map(|section| section.end);
        }
        let segments = self.segments.code();
        segments
            .map(|segment| segment.address..segment.address.saturating_add(segment.size))
            .find(|addresses| addresses.contains(&address))
            .map(|addresses| addresses.end)
    }

    /// Bytes of an address.
    pub(crate) fn address_size(&self) -> u8 {
        // As the header's class says, which is shorter of 32 bits.
        if self.header.len() < 64 { 4 } else { 8 }
    }
}

/// For the fuzz target: at which addresses the code at `offsets` of the file is meant to lie whose
/// debug file this is; `None` if that does not tell.
#[doc(hidden)]
pub fn place_debug_file(
    file: &File,
    mapped: &[Range<u64>],
    offsets: &[u64],
) -> Option<Vec<Option<u64>>> {
    let mut layout = Layout::read(Reader::of(file).ok()?).ok()?;
    let placed = layout.place_code(mapped);
    placed.then(|| offsets.iter().map(|offset| layout.segments.code_address(*offset)).collect())
}
