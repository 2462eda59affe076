//! A file's headers.

use crate::bytes::FileBytes;
use crate::{ElfError, LoadedPart, LoadedSegments, Sections, Segment};
use object::elf::{self, FileHeader32, FileHeader64, FileType, Machine, ProgramType};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, ReadRef};
use std::ops::Range;

/// Programs have up to a dozen, and each address is looked for in all.
const LOADED_MAX: usize = 128;

/// An ELF file's headers, and its bytes behind them.
///
/// `R` is a slice of its bytes, or an `&`[`ReadCache`](crate::ReadCache), which reads only what is
/// needed. The header and the table of segments are read when it is opened: less than 4 MiB.
#[derive(Debug)]
pub struct Elf<'data, R> {
    pub(crate) header: Header<'data>,
    pub(crate) file: FileBytes<R>,
    loaded: LoadedSegments,
    /// All others; they may be parts of those.
    others: Vec<Segment>,
}

/// What the file's first bytes say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header<'data> {
    pub(crate) is_64: bool,
    pub(crate) endian: Endianness,
    pub(crate) section_names: u16,
    kind: FileType,
    machine: Machine,
    bytes: &'data [u8],
}

impl<'data> Header<'data> {
    fn read<R: ReadRef<'data>>(data: R) -> Result<Self, ElfError> {
        let ident = data.read_bytes_at(0, 5).map_err(|()| ElfError::NotElf)?;
        let class = match ident.strip_prefix(&elf::ELFMAG) {
            Some(&[class]) => elf::FileClass(class),
            _ => return Err(ElfError::NotElf),
        };
        match class {
            elf::ELFCLASS32 => Self::of::<FileHeader32<Endianness>, R>(data),
            elf::ELFCLASS64 => Self::of::<FileHeader64<Endianness>, R>(data),
            _ => Err(ElfError::OtherMachine { class: class.0, machine: 0, kind: 0 }),
        }
    }

    fn of<H: FileHeader<Endian = Endianness>, R: ReadRef<'data>>(
        data: R,
    ) -> Result<Self, ElfError> {
        let row: &H = header_in(data)?;
        let is_big = row.is_big_endian();
        let endian = if is_big { Endianness::Big } else { Endianness::Little };
        let header = Self {
            is_64: row.is_type_64(),
            endian,
            section_names: row.e_shstrndx(endian).0,
            kind: row.e_type(endian),
            machine: row.e_machine(endian),
            bytes: object::pod::bytes_of(row),
        };
        // A version, or an order of bytes, that is none.
        if row.is_supported() { Ok(header) } else { Err(header.other()) }
    }

    fn other(&self) -> ElfError {
        ElfError::OtherMachine { class: self.bytes[4], machine: self.machine.0, kind: self.kind.0 }
    }

    fn is_of_x86_64(&self) -> bool {
        self.is_64
            && self.endian == Endianness::Little
            && self.machine == elf::EM_X86_64
            && [elf::ET_EXEC, elf::ET_DYN].contains(&self.kind)
    }
}

/// The header as the file has it.
pub(crate) fn header_in<'data, H: FileHeader, R: ReadRef<'data>>(
    data: R,
) -> Result<&'data H, ElfError> {
    data.read_at(0).map_err(|()| ElfError::Damaged { part: "header", at: 0 })
}

impl<'data, R: ReadRef<'data>> Elf<'data, R> {
    /// Reads the headers of a file of any machine, with 32 or 64 bits.
    ///
    /// # Errors
    ///
    /// When it is no ELF file, or one whose segments lie outside of it, are more than any linker
    /// makes, or end where no address is.
    pub fn open(data: R) -> Result<Self, ElfError> {
        Self::with_header(Header::read(data)?, data)
    }

    /// As [`open`](Self::open), of a program or library for x86-64.
    ///
    /// # Errors
    ///
    /// As there, and when it is for another machine.
    pub fn of_x86_64(data: R) -> Result<Self, ElfError> {
        let header = Header::read(data)?;
        if !header.is_of_x86_64() {
            return Err(header.other());
        }
        Self::with_header(header, data)
    }

    fn with_header(header: Header<'data>, data: R) -> Result<Self, ElfError> {
        let length = data.len().map_err(|()| ElfError::Damaged { part: "length", at: 0 })?;
        let segments = match header.is_64 {
            true => segments::<FileHeader64<Endianness>, R>(header.endian, data)?,
            false => segments::<FileHeader32<Endianness>, R>(header.endian, data)?,
        };
        let (loaded, others): (Vec<_>, Vec<_>) =
            segments.into_iter().partition(|segment| segment.kind == elf::PT_LOAD);
        let limit = LOADED_MAX as u64;
        if loaded.len() > LOADED_MAX {
            return Err(ElfError::TooLarge { part: "number of loaded segments", at: 0, limit });
        }
        if let Some(number) = loaded.iter().position(|segment| segment.part().is_none()) {
            return Err(ElfError::BadSegment { number });
        }
        let file = FileBytes { data, length };
        Ok(Self { header, file, loaded: LoadedSegments(loaded), others })
    }

    /// The bytes of its header, of which there are 64, or 52 in a file of 32 bits.
    pub fn header_bytes(&self) -> &'data [u8] {
        self.header.bytes
    }

    /// Whether its addresses have 64 bits, not 32.
    pub fn is_64(&self) -> bool {
        self.header.is_64
    }

    /// Whether its numbers have the last byte first.
    pub fn is_little_endian(&self) -> bool {
        self.header.endian == Endianness::Little
    }

    /// Whether it is always loaded where its addresses say.
    pub fn is_fixed(&self) -> bool {
        self.header.kind == elf::ET_EXEC
    }

    /// The segments that are loaded.
    pub fn loaded(&self) -> &LoadedSegments {
        &self.loaded
    }

    /// As [`loaded`](Self::loaded), of a file that is needed no more.
    pub fn into_loaded(self) -> LoadedSegments {
        self.loaded
    }

    /// The segments of a type other than those that are loaded.
    pub fn segments_of(&self, kind: ProgramType) -> impl Iterator<Item = &Segment> {
        self.others.iter().filter(move |segment| segment.kind == kind)
    }

    /// Reads the table of sections, and their names if these have no more than 1 MiB.
    ///
    /// There are none in a file that was stripped of them, or that has so many that the header does
    /// not count them, which no linker does.
    ///
    /// # Errors
    ///
    /// When the table or its names lie outside of the file.
    pub fn sections(&self) -> Result<Sections<'data, R>, ElfError> {
        Sections::read(self)
    }

    /// Some bytes of the file, if they are all there and no more than `limit`; `part` is what an
    /// error calls them.
    ///
    /// # Errors
    ///
    /// If there are more or fewer.
    pub fn bytes(
        &self,
        at: u64,
        size: u64,
        part: &'static str,
        limit: u64,
    ) -> Result<&'data [u8], ElfError> {
        self.file.part(at, size, part, limit)
    }

    /// Bytes of the file from `at` on, up to `size` or its end.
    pub fn bytes_up_to(&self, at: u64, size: u64) -> &'data [u8] {
        self.file.up_to(at, size)
    }

    /// What is loaded at an address: up to `size` bytes, or to the end of the segment; `None` if the
    /// file lacks them.
    pub fn loaded_bytes(&self, address: u64, size: u64) -> Option<&'data [u8]> {
        let part = self.loaded.part_from(address)?;
        self.file.data.read_bytes_at(part.offset, size.min(part.size)).ok()
    }

    /// The lowest address of code.
    pub fn code_start(&self) -> Option<u64> {
        self.loaded.code().map(|segment| segment.address).min()
    }

    /// Where code lies in the file, and by how much its addresses differ from that.
    pub fn code(&self) -> impl Iterator<Item = (Range<u64>, u64)> {
        self.loaded.code().map(|segment| {
            let end = segment.offset.saturating_add(segment.size).min(self.file.length);
            (segment.offset..end, segment.address.wrapping_sub(segment.offset))
        })
    }

    /// Where the code at an address lies in the file, which has it.
    pub fn code_offset(&self, address: u64) -> Option<u64> {
        self.loaded.code().find_map(|segment| self.offset_in(segment, address, 1))
    }

    /// Where `size` bytes at an address lie in the file, which has all of them.
    pub fn data_offset(&self, address: u64, size: u64) -> Option<u64> {
        self.loaded.iter().find_map(|segment| self.offset_in(segment, address, size))
    }

    fn offset_in(&self, segment: &Segment, address: u64, size: u64) -> Option<u64> {
        let offset = segment.offset_of(address, size)?;
        (offset.checked_add(size)? <= self.file.length).then_some(offset)
    }

    /// Where the index of its tables for unwinding lies (`.eh_frame_hdr`), by the program header
    /// that leads to it: that is left where there are no sections. [`FrameIndex`] says what is in it.
    ///
    /// [`FrameIndex`]: crate::FrameIndex
    pub fn frame_index(&self) -> Option<LoadedPart> {
        let parts = self.segments_of(elf::PT_GNU_EH_FRAME).filter(|segment| segment.size > 0);
        // Of several the loader's own search takes the last.
        parts.last()?.part()
    }
}

fn segments<'data, H: FileHeader<Endian = Endianness>, R: ReadRef<'data>>(
    endian: Endianness,
    data: R,
) -> Result<Vec<Segment>, ElfError> {
    let header: &H = header_in(data)?;
    let at = header.e_phoff(endian).into();
    // Counts that do not fit the header are kept in section 0, and may be any; no program has.
    if header.e_phnum(endian) == elf::PN_XNUM {
        let limit = u64::from(elf::PN_XNUM) - 1;
        return Err(ElfError::TooLarge { part: "table of segments", at, limit });
    }
    let damaged = |_| ElfError::Damaged { part: "table of segments", at };
    let table = header.program_headers(endian, data).map_err(damaged)?;
    let segment = |header: &H::ProgramHeader| Segment {
        kind: header.p_type(endian),
        flags: header.p_flags(endian),
        offset: header.p_offset(endian).into(),
        address: header.p_vaddr(endian).into(),
        size: header.p_filesz(endian).into(),
        loaded_size: header.p_memsz(endian).into(),
        alignment: header.p_align(endian).into(),
    };
    Ok(table.iter().map(segment).collect())
}
