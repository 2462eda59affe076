//! The parts of an ELF file for x86-64 that tell where things lie in it.
//!
//! Files are untrusted: every part is checked against the file's length before it is
//! read, and is bounded besides.

use crate::error::ProbeError;
use object::elf::{self, FileHeader64, ProgramHeader64, SectionHeader64};
use object::read::elf::{FileHeader as _, ProgramHeader as _, SectionHeader as _};
use object::{LittleEndian, ReadRef};
use std::ops::Range;

pub(crate) const ENDIAN: LittleEndian = LittleEndian;
/// Names of sections take less in everything known.
const SECTION_NAMES_MAX: u64 = 1 << 20;
/// Programs have up to a dozen, and each address is looked for in all.
const LOADED_MAX: usize = 256;

type Segment = ProgramHeader64<LittleEndian>;
pub(crate) type Section = SectionHeader64<LittleEndian>;

/// An ELF file's headers, and its bytes behind them.
pub(crate) struct Elf<'data, R> {
    fixed: bool,
    segments: &'data [Segment],
    /// Those that are loaded.
    loaded: Vec<&'data Segment>,
    sections: &'data [Section],
    section_names: &'data [u8],
    length: u64,
    data: R,
}

impl<'data, R: ReadRef<'data>> Elf<'data, R> {
    pub(crate) fn parse(data: R) -> Result<Self, ProbeError> {
        let length = data.len().map_err(|()| ProbeError::NotElf)?;
        let ident = data.read_bytes_at(0, 5).map_err(|()| ProbeError::NotElf)?;
        if !ident.starts_with(&elf::ELFMAG) {
            return Err(ProbeError::NotElf);
        }
        let damaged = |what| move |_| ProbeError::Damaged { what };
        let header: &FileHeader64<LittleEndian> =
            data.read_at(0).map_err(|()| ProbeError::Damaged { what: "header" })?;
        let (machine, kind) = (header.e_machine(ENDIAN), header.e_type(ENDIAN));
        let is_ours =
            header.is_class_64() && header.is_little_endian() && machine == elf::EM_X86_64;
        if !is_ours || ![elf::ET_EXEC, elf::ET_DYN].contains(&kind) {
            return Err(ProbeError::OtherMachine {
                class: ident[4],
                machine: machine.0,
                kind: kind.0,
            });
        }
        // Counts that do not fit the header are kept in section 0, and may be any; no program has.
        if header.e_phnum(ENDIAN) == elf::PN_XNUM {
            return Err(ProbeError::TooLarge {
                what: "number of segments",
                limit: u64::from(elf::PN_XNUM) - 1,
            });
        }
        let segments =
            header.program_headers(ENDIAN, data).map_err(damaged("table of segments"))?;
        // 0 stands for "none" and for "too many to count here", which no program has.
        let sections = match header.e_shnum(ENDIAN) {
            0 => &[][..],
            _ => header.section_headers(ENDIAN, data).map_err(damaged("table of sections"))?,
        };
        let loaded: Vec<_> =
            segments.iter().filter(|segment| segment.p_type(ENDIAN) == elf::PT_LOAD).collect();
        if loaded.len() > LOADED_MAX {
            return Err(ProbeError::TooLarge {
                what: "number of loaded segments",
                limit: LOADED_MAX as u64,
            });
        }
        let mut elf = Self {
            fixed: kind == elf::ET_EXEC,
            segments,
            loaded,
            sections,
            section_names: &[],
            length,
            data,
        };
        if let Some(names) = sections.get(usize::from(header.e_shstrndx(ENDIAN).0)) {
            elf.section_names =
                elf.section_data(names, "table of section names", SECTION_NAMES_MAX)?;
        }
        Ok(elf)
    }

    /// Whether it is always loaded where its addresses say.
    pub(crate) fn is_fixed(&self) -> bool {
        self.fixed
    }

    /// The sections, none where the file has been stripped of them.
    pub(crate) fn sections(&self) -> &'data [Section] {
        self.sections
    }

    /// The sections of a name.
    pub(crate) fn sections_named(&self, name: &str) -> impl Iterator<Item = &'data Section> {
        self.sections.iter().filter(move |section| {
            let own = self.section_names.get(section.sh_name(ENDIAN) as usize..);
            let rest = own.and_then(|own| own.strip_prefix(name.as_bytes()));
            rest.is_some_and(|rest| rest.first() == Some(&0))
        })
    }

    /// What a section holds.
    pub(crate) fn section_data(
        &self,
        section: &Section,
        what: &'static str,
        limit: u64,
    ) -> Result<&'data [u8], ProbeError> {
        match section.sh_type(ENDIAN) {
            elf::SHT_NOBITS => Ok(&[]),
            _ => self.bytes(section.sh_offset(ENDIAN), section.sh_size(ENDIAN), what, limit),
        }
    }

    /// The segments of a type: where each lies in the file, and its size there.
    pub(crate) fn segments_of(&self, kind: elf::ProgramType) -> impl Iterator<Item = (u64, u64)> {
        let is_it = move |segment: &&Segment| segment.p_type(ENDIAN) == kind;
        self.segments
            .iter()
            .filter(is_it)
            .map(|segment| (segment.p_offset(ENDIAN), segment.p_filesz(ENDIAN)))
    }

    /// Bytes of the file from `at` on, up to `size` or its end.
    pub(crate) fn bytes_up_to(&self, at: u64, size: u64) -> &'data [u8] {
        let end = self.length.min(at.saturating_add(size));
        end.checked_sub(at).and_then(|size| self.data.read_bytes_at(at, size).ok()).unwrap_or(&[])
    }

    /// Some bytes of the file, if they are all there and no more than `limit`.
    pub(crate) fn bytes(
        &self,
        at: u64,
        size: u64,
        what: &'static str,
        limit: u64,
    ) -> Result<&'data [u8], ProbeError> {
        if size > limit {
            return Err(ProbeError::TooLarge { what, limit });
        }
        self.data.read_bytes_at(at, size).map_err(|()| ProbeError::Damaged { what })
    }

    /// The lowest address of code.
    pub(crate) fn code_start(&self) -> Option<u64> {
        let code = self.loaded.iter().filter(|segment| segment.p_flags(ENDIAN).contains(elf::PF_X));
        code.map(|segment| segment.p_vaddr(ENDIAN)).min()
    }

    /// Where code lies in the file, and by how much its addresses differ from that.
    pub(crate) fn code(&self) -> impl Iterator<Item = (Range<u64>, u64)> {
        let code = self.loaded.iter().filter(|segment| segment.p_flags(ENDIAN).contains(elf::PF_X));
        code.map(|segment| {
            let offset = segment.p_offset(ENDIAN);
            let end = offset.saturating_add(segment.p_filesz(ENDIAN)).min(self.length);
            (offset..end, segment.p_vaddr(ENDIAN).wrapping_sub(offset))
        })
    }

    /// Where the code at an address lies in the file.
    pub(crate) fn code_offset(&self, address: u64) -> Option<u64> {
        self.offset(address, 1, |segment| segment.p_flags(ENDIAN).contains(elf::PF_X))
    }

    /// Where `size` bytes at an address lie in the file.
    pub(crate) fn data_offset(&self, address: u64, size: u64) -> Option<u64> {
        self.offset(address, size, |_| true)
    }

    fn offset(&self, address: u64, size: u64, is_right: impl Fn(&Segment) -> bool) -> Option<u64> {
        let offset_in = |segment: &Segment| {
            let into = address.checked_sub(segment.p_vaddr(ENDIAN))?;
            (into.checked_add(size)? <= segment.p_filesz(ENDIAN)).then_some(())?;
            let offset = segment.p_offset(ENDIAN).checked_add(into)?;
            (offset.checked_add(size)? <= self.length).then_some(offset)
        };
        self.loaded
            .iter()
            .filter(|segment| is_right(segment))
            .find_map(|segment| offset_in(segment))
    }
}

/// The bytes before the first zero, or all.
pub(crate) fn until_zero(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or(bytes)
}
