//! What is read of an ELF file before a symbolizer may have it.
//!
//! Files come from processes of any user, so every size here is checked before
//! memory is set aside for it.

use object::elf::{self, FileHeader32, FileHeader64};
use object::read::elf::{
    CompressionHeader, FileHeader, NoteIterator, ProgramHeader, SectionHeader,
};
use object::{Endianness, ReadCache, ReadRef};
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use syscollect_model::BuildId;
use syscollect_untrusted_files::Reader;

/// No linker writes a larger table of notes; larger ones are not read.
const NOTES_MAX: u64 = 64 << 10;
/// Nor more tables than this.
const NOTE_TABLES_MAX: usize = 32;
/// As the kernel has it (BUILD_ID_SIZE_MAX, include/linux/buildid.h): longer ones are none.
pub(crate) const BUILD_ID_MAX: usize = 20;
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
/// Where each function begins and ends, for unwinders.
const EH_FRAME: &[u8] = b".eh_frame";
/// Other sections that have to do with names.
const OF_NAMES: [&[u8]; 7] =
    [b".symtab", b".strtab", b".dynsym", b".dynstr", DEBUG_LINK, DEBUG_ALT_LINK, MINI_DEBUG];

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ElfError {
    #[error("it is not an ELF file, or a damaged one: {0}")]
    Damaged(#[from] object::Error),
    #[error("its ELF headers count more than an executable has")]
    TooMany,
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] io::Error),
}

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
    let class = class(&reader);
    let data = ReadCache::new(reader);
    match class? {
        elf::ELFCLASS32 => build_id::<FileHeader32<Endianness>, _>(&data),
        elf::ELFCLASS64 => build_id::<FileHeader64<Endianness>, _>(&data),
        _ => None,
    }
}

/// The parts of a file that decide where its code lies and whether it is safe to parse.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    segments: Vec<Segment>,
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
    /// Its numbers have the last byte first, as those of this machine do.
    pub(crate) little_endian: bool,
    /// Those of its sections that have to do with names, by their place in the table.
    pub(crate) sections: Vec<Section>,
    /// Sections in its table.
    pub(crate) section_count: usize,
    /// The sorted index of what is in `unwind_entries` (`.eh_frame_hdr`).
    pub(crate) unwind_index: Option<LoadedPart>,
    /// What unwinders read of each function (`.eh_frame`), as the table of sections has it.
    pub(crate) unwind_entries: Option<LoadedPart>,
    /// It has sections of code, but not their bytes: a debug file.
    pub(crate) code_is_elsewhere: bool,
}

/// A part of the file that is loaded: where, and its bytes in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoadedPart {
    pub(crate) address: u64,
    pub(crate) bytes: Range<u64>,
}

impl LoadedPart {
    fn new(address: u64, offset: u64, size: u64) -> Option<Self> {
        Some(Self { address, bytes: offset..offset.checked_add(size)? })
    }
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

/// A loaded part of the file.
#[derive(Debug)]
struct Segment {
    offset: u64,
    address: u64,
    /// Bytes in the file.
    size: u64,
    /// Bytes when it is loaded.
    loaded_size: u64,
    code: bool,
}

/// Bytes of a page, by which files are mapped.
const PAGE: u64 = 4096;

impl Segment {
    /// What is mapped for it, as virtual addresses.
    fn pages(&self) -> Option<Range<u64>> {
        let end = self.address.checked_add(self.loaded_size)?.checked_next_multiple_of(PAGE)?;
        Some(self.address / PAGE * PAGE..end)
    }
}

impl Layout {
    /// Reads the layout of `file`.
    pub(crate) fn read(reader: Reader) -> Result<Self, ElfError> {
        let class = class(&reader);
        let data = ReadCache::new(reader);
        match class {
            Some(elf::ELFCLASS32) => layout::<FileHeader32<Endianness>, _>(&data),
            _ => layout::<FileHeader64<Endianness>, _>(&data),
        }
    }

    /// Of a file that has nothing but this code.
    #[cfg(test)]
    pub(crate) fn of_code(addresses: Range<u64>) -> Self {
        Self { code_sections: vec![addresses], little_endian: true, ..Self::default() }
    }

    /// The virtual address at which the code at the file's byte `offset` is meant to be loaded;
    /// `None` for data.
    pub(crate) fn code_address(&self, offset: u64) -> Option<u64> {
        let holds =
            |s: &&Segment| s.code && offset.checked_sub(s.offset).is_some_and(|at| at < s.size);
        let segment = self.segments.iter().find(holds)?;
        segment.address.checked_add(offset - segment.offset)
    }

    /// Says where code lies in the file that was mapped, if this is a debug file that does not: the
    /// tool that made it (`objcopy --only-keep-debug`) left out where segments lay. `mapped` are
    /// the parts of the file that were mapped for execution. `false` if they do not tell.
    pub(crate) fn place_code(&mut self, mapped: &[Range<u64>]) -> bool {
        if !self.code_is_elsewhere {
            return true;
        }
        let mut placed = Vec::new();
        let is_lost = |segment: &&mut Segment| segment.code && segment.size < segment.loaded_size;
        for segment in self.segments.iter_mut().filter(is_lost) {
            if segment.offset == 0 && segment.size > 0 {
                // The file's own header is kept, and what it begins lay at the same place.
                segment.size = segment.loaded_size;
                continue;
            }
            let Some(pages) = segment.pages() else { return false };
            let length = pages.end - pages.start;
            let fits = |part: &&Range<u64>| part.end.checked_sub(part.start) == Some(length);
            let mut starts: Vec<u64> = mapped.iter().filter(fits).map(|part| part.start).collect();
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
        !self.code_is_elsewhere && self.segments.iter().any(|part| part.code && part.size > 0)
    }

    /// Whether no border of sections lies between two addresses of code.
    pub(crate) fn in_one_section(&self, one: u64, other: u64) -> bool {
        self.code_sections.iter().any(|section| section.contains(&one) && section.contains(&other))
    }

    /// Where the code that lies at `address` ends at the latest: with its section, or its segment
    /// in a file without sections; `None` if no code lies there.
    pub(crate) fn code_end(&self, address: u64) -> Option<u64> {
        if !self.code_sections.is_empty() {
            let holds = |section: &&Range<u64>| section.contains(&address);
            return self.code_sections.iter().find(holds).map(|section| section.end);
        }
        let segment = self.segments.iter().filter(|segment| segment.code);
        segment
            .map(|segment| segment.address..segment.address.saturating_add(segment.size))
            .find(|addresses| addresses.contains(&address))
            .map(|addresses| addresses.end)
    }

    /// What is loaded at `address` and behind it, to the end of its segment.
    pub(crate) fn loaded_from(&self, address: u64) -> Option<LoadedPart> {
        let holds = |s: &&Segment| address.checked_sub(s.address).is_some_and(|at| at < s.size);
        let segment = self.segments.iter().find(holds)?;
        let skipped = address - segment.address;
        LoadedPart::new(address, segment.offset.checked_add(skipped)?, segment.size - skipped)
    }

    /// Bytes of an address.
    pub(crate) fn address_size(&self) -> u8 {
        if self.header.len() == size_of::<FileHeader32<Endianness>>() { 4 } else { 8 }
    }

    /// The reverse of [`code_address`](Self::code_address).
    pub(crate) fn code_offset(&self, address: u64) -> Option<u64> {
        let holds =
            |s: &&Segment| s.code && address.checked_sub(s.address).is_some_and(|at| at < s.size);
        let segment = self.segments.iter().find(holds)?;
        segment.offset.checked_add(address - segment.address)
    }
}

fn class(reader: &Reader) -> Option<elf::FileClass> {
    let mut ident = [0u8; 5];
    reader.clone().read_exact(&mut ident).ok()?;
    (ident[..4] == elf::ELFMAG).then_some(elf::FileClass(ident[4]))
}

fn header<'d, H: FileHeader<Endian = Endianness>, R: ReadRef<'d>>(
    data: R,
) -> Result<(&'d H, Endianness), ElfError> {
    let header = H::parse(data)?;
    let endian = header.endian()?;
    // Counts that do not fit the header are kept in section 0; no executable needs that.
    if header.e_phnum(endian) == elf::PN_XNUM {
        return Err(ElfError::TooMany);
    }
    Ok((header, endian))
}

fn sections<'d, H: FileHeader<Endian = Endianness>, R: ReadRef<'d>>(
    header: &H,
    endian: Endianness,
    data: R,
) -> Result<&'d [H::SectionHeader], ElfError> {
    // 0 stands for "none" and for "too many to count here".
    if header.e_shnum(endian) == 0 {
        return Ok(&[]);
    }
    Ok(header.section_headers(endian, data)?)
}

fn build_id<'d, H: FileHeader<Endian = Endianness>, R: ReadRef<'d>>(data: R) -> Option<BuildId> {
    let (header, endian) = header::<H, R>(data).ok()?;
    let segments = header.program_headers(endian, data).ok()?;
    let in_segments = segments
        .iter()
        .filter(|s| s.p_type(endian) == elf::PT_NOTE && s.p_filesz(endian).into() <= NOTES_MAX)
        .take(NOTE_TABLES_MAX)
        .find_map(|s| gnu_build_id(s.notes(endian, data).ok()??, endian));
    // Separate debug files have the section, but no segment with contents.
    in_segments.or_else(|| {
        sections::<H, R>(header, endian, data)
            .ok()?
            .iter()
            .filter(|s| s.sh_type(endian) == elf::SHT_NOTE && s.sh_size(endian).into() <= NOTES_MAX)
            .take(NOTE_TABLES_MAX)
            .find_map(|s| gnu_build_id(s.notes(endian, data).ok()??, endian))
    })
}

fn gnu_build_id<H: FileHeader<Endian = Endianness>>(
    mut notes: NoteIterator<'_, H>,
    endian: Endianness,
) -> Option<BuildId> {
    while let Ok(Some(note)) = notes.next() {
        if note.n_type(endian) == elf::NT_GNU_BUILD_ID && note.name() == elf::ELF_NOTE_GNU {
            let id = note.desc();
            return (1..=BUILD_ID_MAX).contains(&id.len()).then(|| BuildId::from_bytes(id));
        }
    }
    None
}

fn layout<'d, H: FileHeader<Endian = Endianness>, R: ReadRef<'d>>(
    data: R,
) -> Result<Layout, ElfError> {
    let (header, endian) = header::<H, R>(data)?;
    let mut layout = Layout {
        header: object::pod::bytes_of(header).to_vec(),
        little_endian: endian == Endianness::Little,
        ..Layout::default()
    };
    for segment in header.program_headers(endian, data)? {
        if segment.p_type(endian) == elf::PT_LOAD {
            layout.segments.push(Segment {
                offset: segment.p_offset(endian).into(),
                address: segment.p_vaddr(endian).into(),
                size: segment.p_filesz(endian).into(),
                loaded_size: segment.p_memsz(endian).into(),
                code: segment.p_flags(endian).contains(elf::PF_X),
            });
        } else if segment.p_type(endian) == elf::PT_GNU_EH_FRAME {
            let (address, offset) = (segment.p_vaddr(endian), segment.p_offset(endian));
            let size = segment.p_filesz(endian);
            layout.unwind_index = LoadedPart::new(address.into(), offset.into(), size.into());
        }
    }
    if header.e_shnum(endian) == 0 {
        return Ok(layout);
    }
    let table = header.sections(endian, data)?;
    layout.section_count = table.len();
    for (index, section) in table.iter().enumerate() {
        let name = table.section_name(endian, section).unwrap_or_default();
        let debug = name.starts_with(DEBUG);
        let inflated: Option<u64> =
            section.compression(endian, data)?.map(|(header, ..)| header.ch_size(endian).into());
        let size = inflated.unwrap_or_else(|| section.sh_size(endian).into());
        if section.sh_flags(endian).contains(elf::SHF_EXECINSTR) {
            let start = section.sh_addr(endian).into();
            layout.code_sections.push(start..start.saturating_add(section.sh_size(endian).into()));
            layout.code_is_elsewhere |= section.sh_type(endian) == elf::SHT_NOBITS;
        }
        let kind = section.sh_type(endian);
        // Separate debug files have the section, but not its bytes.
        if name == EH_FRAME && kind != elf::SHT_NOBITS {
            let (address, offset) = (section.sh_addr(endian), section.sh_offset(endian));
            let size = section.sh_size(endian);
            layout.unwind_entries = LoadedPart::new(address.into(), offset.into(), size.into());
        }
        let note = kind == elf::SHT_NOTE && section.sh_size(endian).into() <= NOTES_MAX;
        if debug || note || OF_NAMES.contains(&name) {
            let length = if kind == elf::SHT_NOBITS { 0 } else { section.sh_size(endian).into() };
            let start: u64 = section.sh_offset(endian).into();
            layout.sections.push(Section {
                index,
                name: name.to_vec(),
                row: object::pod::bytes_of(section).to_vec(),
                bytes: start..start.checked_add(length).ok_or(ElfError::TooMany)?,
            });
        }
        match kind {
            elf::SHT_SYMTAB | elf::SHT_DYNSYM => {
                layout.symbol_bytes = layout.symbol_bytes.saturating_add(size);
            }
            elf::SHT_NOBITS => continue,
            _ if debug => {
                let cost = if inflated.is_some() { size.saturating_mul(4) } else { size };
                layout.debug_bytes = layout.debug_bytes.saturating_add(cost);
            }
            _ => {}
        }
        layout.odd_compression |= inflated.is_some() && !debug;
    }
    Ok(layout)
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
    placed.then(|| offsets.iter().map(|offset| layout.code_address(*offset)).collect())
}

/// The build id in a run of ELF notes, such as `/sys/kernel/notes`.
pub(crate) fn build_id_in_notes(notes: &[u8]) -> Option<BuildId> {
    let endian = Endianness::default();
    let notes = NoteIterator::<FileHeader64<Endianness>>::new(endian, 4, notes).ok()?;
    gnu_build_id(notes, endian)
}
