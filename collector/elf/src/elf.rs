//! A file's headers.

use crate::{ElfError, LoadedPart, LoadedSegments, Sections, Segment};
use object::elf::{self, FileClass, FileHeader32, FileHeader64, FileType, ProgramType};
use object::read::elf::FileHeader;
use object::{LittleEndian, ReadRef};
use std::ops::Range;

pub(crate) const ENDIAN: LittleEndian = LittleEndian;
/// Programs have up to a dozen, and each address is looked for in all.
const LOADED_MAX: usize = 128;

/// An ELF file's headers, and its bytes behind them.
///
/// `R` is a slice of its bytes, or an `&`[`ReadCache`](crate::ReadCache), which reads only what is
/// needed. The header and the table of segments are read when it is opened: less than 8 MiB.
#[derive(Debug)]
pub struct Elf<'data, R> {
    pub(crate) data: R,
    length: u64,
    header: &'data [u8],
    /// Where the table of segments lies.
    segments: Range<u64>,
    kind: FileType,
    entry: u64,
    loaded: LoadedSegments,
    /// All others; they may be parts of those.
    others: Vec<Segment>,
}

/// The header as the file has it.
pub(crate) fn header_in<'data, H: FileHeader>(
    data: impl ReadRef<'data>,
) -> Result<&'data H, ElfError> {
    data.read_at(0).map_err(|()| ElfError::Damaged { part: "header", at: 0 })
}

impl<'data, R: ReadRef<'data>> Elf<'data, R> {
    /// Reads the headers of a file of any machine whose numbers have the last byte first, with 32
    /// or 64 bits.
    ///
    /// # Errors
    ///
    /// When it is no such file, or one whose segments lie outside of it, are more than any linker
    /// makes, or end where no address is.
    pub fn open(data: R) -> Result<Self, ElfError> {
        Self::read(data, false)
    }

    /// As [`open`](Self::open), of a program or library for x86-64.
    ///
    /// # Errors
    ///
    /// As there, and when it is for another machine.
    pub fn of_x86_64(data: R) -> Result<Self, ElfError> {
        Self::read(data, true)
    }

    fn read(data: R, is_x86_64: bool) -> Result<Self, ElfError> {
        let ident = data.read_bytes_at(0, 5).map_err(|()| ElfError::NotElf)?;
        match ident.strip_prefix(&elf::ELFMAG).and_then(<[u8]>::first).copied().map(FileClass) {
            Some(elf::ELFCLASS32) => Self::read_as::<FileHeader32<LittleEndian>>(data, is_x86_64),
            Some(elf::ELFCLASS64) => Self::read_as::<FileHeader64<LittleEndian>>(data, is_x86_64),
            Some(FileClass(class)) => Err(ElfError::OtherMachine { class, machine: 0, kind: 0 }),
            None => Err(ElfError::NotElf),
        }
    }

    fn read_as<H: FileHeader<Endian = LittleEndian>>(
        data: R,
        is_x86_64: bool,
    ) -> Result<Self, ElfError> {
        let header: &H = header_in(data)?;
        let (machine, kind) = (header.e_machine(ENDIAN), header.e_type(ENDIAN));
        let is_ours = header.is_class_64()
            && machine == elf::EM_X86_64
            && [elf::ET_EXEC, elf::ET_DYN].contains(&kind);
        let is_known = header.is_supported() && header.is_little_endian();
        if !is_known || (is_x86_64 && !is_ours) {
            let class = header.e_ident().class.0;
            return Err(ElfError::OtherMachine { class, machine: machine.0, kind: kind.0 });
        }
        let (part, at) = ("table of segments", header.e_phoff(ENDIAN).into());
        // Counts that do not fit the header are kept in section 0, and may be any; no program has.
        if header.e_phnum(ENDIAN) == elf::PN_XNUM {
            return Err(ElfError::TooLarge { part, at, limit: u64::from(elf::PN_XNUM) - 1 });
        }
        let table =
            header.program_headers(ENDIAN, data).map_err(|_| ElfError::Damaged { part, at })?;
        let rows = table.iter().map(Segment::of);
        let (loaded, others): (Vec<_>, Vec<_>) =
            rows.partition(|segment| segment.kind == elf::PT_LOAD);
        if loaded.len() > LOADED_MAX {
            let (part, limit) = ("number of loaded segments", LOADED_MAX as u64);
            return Err(ElfError::TooLarge { part, at, limit });
        }
        if let Some(number) = loaded.iter().position(|segment| segment.part().is_none()) {
            return Err(ElfError::BadSegment { number });
        }
        let length = data.len().map_err(|()| ElfError::NotElf)?;
        let segments = at..at.saturating_add(size_of_val(table) as u64);
        let entry = header.e_entry(ENDIAN).into();
        let (header, loaded) = (object::pod::bytes_of(header), LoadedSegments(loaded));
        Ok(Self { data, length, header, segments, kind, entry, loaded, others })
    }

    /// Where the table of segments lies in the file.
    pub fn segment_table(&self) -> Range<u64> {
        self.segments.clone()
    }

    /// The bytes of its header, of which there are 64, or 52 in a file of 32 bits.
    pub fn header_bytes(&self) -> &'data [u8] {
        self.header
    }

    pub(crate) fn is_64(&self) -> bool {
        self.header.len() == size_of::<FileHeader64<LittleEndian>>()
    }

    /// Whether it is always loaded where its addresses say.
    pub fn is_fixed(&self) -> bool {
        self.kind == elf::ET_EXEC
    }

    /// Where the program begins, by its own addresses; 0 in most libraries.
    pub fn entry(&self) -> u64 {
        self.entry
    }

    /// The segments that are loaded.
    pub fn loaded(&self) -> &LoadedSegments {
        &self.loaded
    }

    /// The segments of a type other than those that are loaded.
    pub fn segments_of(&self, kind: ProgramType) -> impl Iterator<Item = &Segment> {
        self.others.iter().filter(move |segment| segment.kind == kind)
    }

    /// Reads the table of sections, and at most 1 MiB of their names.
    ///
    /// There are none in a file that was stripped of them, or that has so many that the header does
    /// not count them, which no linker does.
    ///
    /// # Errors
    ///
    /// When the table or its names lie outside of the file.
    pub fn sections(&self) -> Result<Sections<'_, 'data, R>, ElfError> {
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
        if size > limit {
            return Err(ElfError::TooLarge { part, at, limit });
        }
        self.data.read_bytes_at(at, size).map_err(|()| ElfError::Damaged { part, at })
    }

    /// Bytes of the file from `at` on, up to `size` or its end.
    pub fn bytes_up_to(&self, at: u64, size: u64) -> &'data [u8] {
        let end = self.length.min(at.saturating_add(size));
        end.checked_sub(at).and_then(|size| self.data.read_bytes_at(at, size).ok()).unwrap_or(&[])
    }

    /// What is loaded at an address: up to `size` bytes, or to the end of the segment; `None` if
    /// the file lacks them.
    pub fn loaded_bytes(&self, address: u64, size: u64) -> Option<&'data [u8]> {
        let part = self.loaded.part_from(address)?;
        self.data.read_bytes_at(part.offset, size.min(part.size)).ok()
    }

    /// The lowest address of code.
    pub fn code_start(&self) -> Option<u64> {
        self.loaded.code().map(|segment| segment.address).min()
    }

    /// Where code lies in the file, and by how much its addresses differ from that.
    pub fn code(&self) -> impl Iterator<Item = (Range<u64>, u64)> {
        self.loaded.code().map(|segment| {
            let end = segment.offset.saturating_add(segment.size).min(self.length);
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
        (offset.checked_add(size)? <= self.length).then_some(offset)
    }

    /// Where the index of its tables for unwinding lies (`.eh_frame_hdr`), by the program header
    /// that leads to it: that is left where there are no sections. [`FrameIndex`] says what is in
    /// it.
    ///
    /// [`FrameIndex`]: crate::FrameIndex
    pub fn frame_index(&self) -> Option<LoadedPart> {
        let parts = self.segments_of(elf::PT_GNU_EH_FRAME).filter(|segment| segment.size > 0);
        // Of several the loader's own search takes the last.
        parts.last()?.part()
    }
}
