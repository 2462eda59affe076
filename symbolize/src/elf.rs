//! What is read of an ELF file before a symbolizer may have it.
//!
//! Files come from processes of any user, so every size here is checked before
//! memory is set aside for it.

use crate::os::read_at;
use object::elf::{self, FileHeader32, FileHeader64};
use object::read::elf::{CompressionHeader, FileHeader, NoteIterator, ProgramHeader, SectionHeader};
use object::{Endianness, ReadCache, ReadRef};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use syscollect_model::BuildId;

/// No linker writes a larger table of notes; larger ones are not read.
const NOTES_MAX: u64 = 64 << 10;
/// Nor more tables than this.
const NOTE_TABLES_MAX: usize = 32;
/// As the kernel has it (BUILD_ID_SIZE_MAX, include/linux/buildid.h): longer ones are none.
const BUILD_ID_MAX: usize = 20;

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
    let data = ReadCache::new(Positioned::new(file).ok()?);
    match class(file)? {
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
}

/// A loaded part of the file.
#[derive(Debug)]
struct Segment {
    offset: u64,
    address: u64,
    size: u64,
    code: bool,
}

impl Layout {
    /// Reads the layout of `file`.
    pub(crate) fn read(file: &File) -> Result<Self, ElfError> {
        let data = ReadCache::new(Positioned::new(file)?);
        match class(file) {
            Some(elf::ELFCLASS32) => layout::<FileHeader32<Endianness>, _>(&data),
            _ => layout::<FileHeader64<Endianness>, _>(&data),
        }
    }

    /// The virtual address at which the code at the file's byte `offset` is meant to be loaded; `None` for data.
    pub(crate) fn code_address(&self, offset: u64) -> Option<u64> {
        let holds = |s: &&Segment| s.code && offset.checked_sub(s.offset).is_some_and(|at| at < s.size);
        let segment = self.segments.iter().find(holds)?;
        segment.address.checked_add(offset - segment.offset)
    }

    /// Whether no border of sections lies between two addresses of code.
    pub(crate) fn in_one_section(&self, one: u64, other: u64) -> bool {
        self.code_sections.iter().any(|section| section.contains(&one) && section.contains(&other))
    }

    /// The reverse of [`code_address`](Self::code_address).
    pub(crate) fn code_offset(&self, address: u64) -> Option<u64> {
        let holds = |s: &&Segment| s.code && address.checked_sub(s.address).is_some_and(|at| at < s.size);
        let segment = self.segments.iter().find(holds)?;
        segment.offset.checked_add(address - segment.address)
    }
}

fn class(file: &File) -> Option<elf::FileClass> {
    let mut ident = [0u8; 5];
    Positioned::new(file).ok()?.read_exact(&mut ident).ok()?;
    (ident[..4] == elf::ELFMAG).then_some(elf::FileClass(ident[4]))
}

fn header<'d, H: FileHeader<Endian = Endianness>, R: ReadRef<'d>>(data: R) -> Result<(&'d H, Endianness), ElfError> {
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

fn layout<'d, H: FileHeader<Endian = Endianness>, R: ReadRef<'d>>(data: R) -> Result<Layout, ElfError> {
    let (header, endian) = header::<H, R>(data)?;
    let mut layout = Layout::default();
    for segment in header.program_headers(endian, data)? {
        if segment.p_type(endian) == elf::PT_LOAD {
            layout.segments.push(Segment {
                offset: segment.p_offset(endian).into(),
                address: segment.p_vaddr(endian).into(),
                size: segment.p_filesz(endian).into(),
                code: segment.p_flags(endian).contains(elf::PF_X),
            });
        }
    }
    if header.e_shnum(endian) == 0 {
        return Ok(layout);
    }
    let table = header.sections(endian, data)?;
    for section in table.iter() {
        let debug = table.section_name(endian, section).is_ok_and(|name| name.starts_with(b".debug_"));
        let inflated: Option<u64> =
            section.compression(endian, data)?.map(|(header, ..)| header.ch_size(endian).into());
        let size = inflated.unwrap_or_else(|| section.sh_size(endian).into());
        if section.sh_flags(endian).contains(elf::SHF_EXECINSTR) {
            let start = section.sh_addr(endian).into();
            layout.code_sections.push(start..start.saturating_add(section.sh_size(endian).into()));
        }
        match section.sh_type(endian) {
            elf::SHT_SYMTAB | elf::SHT_DYNSYM => layout.symbol_bytes = layout.symbol_bytes.saturating_add(size),
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

/// Reads at positions of its own: a descriptor that threads share has but one.
struct Positioned<'f> {
    file: &'f File,
    position: u64,
    length: u64,
}

impl<'f> Positioned<'f> {
    fn new(file: &'f File) -> io::Result<Self> {
        Ok(Self { file, position: 0, length: file.metadata()?.len() })
    }
}

impl Read for Positioned<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = read_at(self.file, bytes, self.position)?;
        self.position += read as u64;
        Ok(read)
    }
}

impl Seek for Positioned<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let target = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.length.checked_add_signed(by),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
        };
        self.position = target.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(self.position)
    }
}

/// The build id in a run of ELF notes, such as `/sys/kernel/notes`.
pub(crate) fn build_id_in_notes(notes: &[u8]) -> Option<BuildId> {
    let endian = Endianness::default();
    let notes = NoteIterator::<FileHeader64<Endianness>>::new(endian, 4, notes).ok()?;
    gnu_build_id(notes, endian)
}
