//! Sections.

use crate::bytes::{FileBytes, ended};
use crate::elf::{Elf, Header, header_in};
use crate::{ElfError, LoadedPart, SymbolLimits, SymbolTable};
use object::elf::{
    self, CompressionHeader32, CompressionHeader64, FileHeader32, FileHeader64, SectionFlags,
    SectionType,
};
use object::read::elf::{CompressionHeader, FileHeader, SectionHeader};
use object::{Endianness, ReadRef};

/// Names of sections take less in everything known. Where there are more bytes, as where they share
/// the table of the symbols' names, each is read alone.
const NAMES_MAX: u64 = 1 << 20;
/// Names with more bytes are none.
const NAME_MAX: u64 = 256;

/// A row of the table of sections.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// Its place in the table.
    pub index: usize,
    /// What it holds.
    pub kind: SectionType,
    /// How it is used.
    pub flags: SectionFlags,
    /// Its first virtual address; 0 if it is not loaded.
    pub address: u64,
    /// Its first byte in the file.
    pub offset: u64,
    /// Bytes, also if the file has none of them ([`file_size`](Self::file_size)).
    pub size: u64,
    /// Another section that it belongs to.
    pub link: usize,
    /// What its address is a multiple of.
    pub alignment: u64,
    name_at: u64,
}

impl Section {
    /// Bytes in the file: none of what was zero, or was taken away for a debug file.
    pub fn file_size(&self) -> u64 {
        if self.kind == elf::SHT_NOBITS { 0 } else { self.size }
    }

    /// What of it is loaded, if the file has it; `None` if it goes beyond what a number holds.
    pub fn part(&self) -> Option<LoadedPart> {
        let is_there = self.file_size() > 0 && !self.flags.contains(elf::SHF_COMPRESSED);
        is_there.then(|| LoadedPart::new(self.address, self.offset, self.size))?
    }
}

/// The sections of a file: less than 10 MiB of memory, with their names.
#[derive(Debug)]
pub struct Sections<'data, R> {
    file: FileBytes<R>,
    header: Header<'data>,
    rows: Vec<Section>,
    table: &'data [u8],
    names: Names<'data>,
}

/// Where names of sections are.
#[derive(Debug)]
enum Names<'data> {
    All(&'data [u8]),
    /// In too large a table, which is read where they are: its place in the file, and its end.
    InFile(u64, u64),
}

impl<'data, R: ReadRef<'data>> Sections<'data, R> {
    pub(crate) fn read(elf: &Elf<'data, R>) -> Result<Self, ElfError> {
        let mut sections = Self {
            file: elf.file,
            header: elf.header,
            rows: Vec::new(),
            table: &[],
            names: Names::All(&[]),
        };
        match elf.header.is_64 {
            true => sections.read_table::<FileHeader64<Endianness>>()?,
            false => sections.read_table::<FileHeader32<Endianness>>()?,
        }
        if let Some(names) = sections.get(usize::from(elf.header.section_names)) {
            let (at, size) = (names.offset, names.file_size());
            sections.names = if size > NAMES_MAX {
                Names::InFile(at, at.saturating_add(size))
            } else {
                Names::All(sections.file.part(at, size, "table of section names", NAMES_MAX)?)
            };
        }
        Ok(sections)
    }

    fn read_table<H: FileHeader<Endian = Endianness>>(&mut self) -> Result<(), ElfError> {
        let (header, endian): (&H, _) = (header_in(self.file.data)?, self.header.endian);
        // 0 stands for "none" and for "too many to count here", which no program has.
        if header.e_shnum(endian) == 0 {
            return Ok(());
        }
        let at = header.e_shoff(endian).into();
        let damaged = |_| ElfError::Damaged { part: "table of sections", at };
        let table = header.section_headers(endian, self.file.data).map_err(damaged)?;
        self.table = object::pod::bytes_of_slice(table);
        let section = |(index, row): (usize, &H::SectionHeader)| Section {
            index,
            kind: row.sh_type(endian),
            flags: row.sh_flags(endian),
            address: row.sh_addr(endian).into(),
            offset: row.sh_offset(endian).into(),
            size: row.sh_size(endian).into(),
            link: row.sh_link(endian) as usize,
            alignment: row.sh_addralign(endian).into(),
            name_at: row.sh_name(endian).into(),
        };
        self.rows = table.iter().enumerate().map(section).collect();
        Ok(())
    }

    /// All of them, in the order of the table.
    pub fn iter(&self) -> std::slice::Iter<'_, Section> {
        self.rows.iter()
    }

    /// How many there are; the first is none.
    pub fn count(&self) -> usize {
        self.rows.len()
    }

    /// The one at a place in the table.
    pub fn get(&self, index: usize) -> Option<&Section> {
        self.rows.get(index)
    }

    /// The first of a type.
    pub fn of_kind(&self, kind: SectionType) -> Option<&Section> {
        self.iter().find(|section| section.kind == kind)
    }

    /// Those of a name.
    pub fn named(&self, name: &str) -> impl Iterator<Item = &Section> {
        self.iter().filter(move |section| {
            let rest = self.bytes_at_name(section).strip_prefix(name.as_bytes());
            rest.is_some_and(|rest| rest.first() == Some(&0))
        })
    }

    /// Where the entries for unwinding lie (`.eh_frame`), if the file has them. Where it has no
    /// sections, [`FrameIndex`](crate::FrameIndex) says where they begin.
    pub fn frame_entries(&self) -> Option<LoadedPart> {
        self.named(".eh_frame").find_map(Section::part)
    }

    /// A section's name, at most 255 bytes; empty where it has none that can be read.
    pub fn name(&self, section: &Section) -> &'data [u8] {
        ended(self.bytes_at_name(section)).unwrap_or(&[])
    }

    /// Some bytes, of which the first are a section's name.
    fn bytes_at_name(&self, section: &Section) -> &'data [u8] {
        match self.names {
            Names::All(names) => {
                let rest = usize::try_from(section.name_at).ok().and_then(|at| names.get(at..));
                rest.map_or(&[], |rest| &rest[..rest.len().min(NAME_MAX as usize)])
            }
            Names::InFile(start, end) => {
                let at = start.saturating_add(section.name_at);
                self.file.up_to(at, end.saturating_sub(at).min(NAME_MAX))
            }
        }
    }

    /// A section's row in the table, as the file has it.
    pub fn row(&self, section: &Section) -> &'data [u8] {
        let size = self.table.len() / self.rows.len().max(1);
        self.table.get(section.index * size..).and_then(|rest| rest.get(..size)).unwrap_or(&[])
    }

    /// What a section holds, if the file has all of it, and no more than `limit`; `part` is what an
    /// error calls it. Nothing where it has no bytes in the file.
    ///
    /// # Errors
    ///
    /// If there are more or fewer.
    pub fn bytes(
        &self,
        section: &Section,
        part: &'static str,
        limit: u64,
    ) -> Result<&'data [u8], ElfError> {
        self.file.part(section.offset, section.file_size(), part, limit)
    }

    /// What a compressed section says that it has inflated, in bytes; `None` if it is not compressed.
    ///
    /// # Errors
    ///
    /// When it has not even so much.
    pub fn inflated_size(&self, section: &Section) -> Result<Option<u64>, ElfError> {
        if !section.flags.contains(elf::SHF_COMPRESSED) {
            return Ok(None);
        }
        let (data, endian, at) = (self.file.data, self.header.endian, section.offset);
        let damaged = |()| ElfError::Damaged { part: "compressed section", at };
        let (inflated, own) = if self.header.is_64 {
            let header: &CompressionHeader64<_> = data.read_at(at).map_err(damaged)?;
            (header.ch_size(endian), size_of_val(header))
        } else {
            let header: &CompressionHeader32<_> = data.read_at(at).map_err(damaged)?;
            (header.ch_size(endian).into(), size_of_val(header))
        };
        if section.size < own as u64 { Err(damaged(())) } else { Ok(Some(inflated)) }
    }

    /// The table of symbols that a section of this type has: that for debuggers (`SHT_SYMTAB`), or
    /// that for the loader (`SHT_DYNSYM`); `None` if there is no such section.
    ///
    /// # Errors
    ///
    /// When it, or the table of its names, is damaged or larger than `limits`.
    pub fn symbols(
        &self,
        kind: SectionType,
        limits: &SymbolLimits,
    ) -> Result<Option<SymbolTable<'data>>, ElfError> {
        let Some(section) = self.of_kind(kind) else { return Ok(None) };
        let (part, at) = ("table of symbols", section.offset);
        let names = self.get(section.link).ok_or(ElfError::Damaged { part, at })?;
        let rows = self.bytes(section, part, limits.table)?;
        let name_bytes = self.bytes(names, "table of symbols' names", limits.names)?;
        Ok(Some(SymbolTable::new(self.header, rows, name_bytes, names.offset)))
    }
}
