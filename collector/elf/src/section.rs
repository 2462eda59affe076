//! Sections.

use crate::elf::{ENDIAN, header_in};
use crate::{Elf, ElfError, LoadedPart, SymbolLimits, SymbolTable, until_zero};
use object::elf::{
    self, CompressionHeader32, CompressionHeader64, FileHeader32, FileHeader64, SectionFlags,
    SectionType,
};
use object::read::elf::{CompressionHeader, FileHeader, SectionHeader};
use object::{LittleEndian, ReadRef};
use std::ops::Range;

/// Names of sections take less in everything known; what lies behind so many bytes is no name.
const NAMES_MAX: u64 = 1 << 20;
/// Nor is what has more bytes than this.
const NAME_MAX: usize = 256;

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
    name_at: u32,
}

impl Section {
    fn of<H: SectionHeader<Endian = LittleEndian>>((index, row): (usize, &H)) -> Self {
        Self {
            index,
            kind: row.sh_type(ENDIAN),
            flags: row.sh_flags(ENDIAN),
            address: row.sh_addr(ENDIAN).into(),
            offset: row.sh_offset(ENDIAN).into(),
            size: row.sh_size(ENDIAN).into(),
            link: row.sh_link(ENDIAN) as usize,
            alignment: row.sh_addralign(ENDIAN).into(),
            name_at: row.sh_name(ENDIAN),
        }
    }

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
pub struct Sections<'elf, 'data, R> {
    elf: &'elf Elf<'data, R>,
    rows: Vec<Section>,
    table: &'data [u8],
    table_at: u64,
    names: &'data [u8],
    names_at: u64,
}

impl<'elf, 'data, R: ReadRef<'data>> Sections<'elf, 'data, R> {
    pub(crate) fn read(elf: &'elf Elf<'data, R>) -> Result<Self, ElfError> {
        match elf.is_64() {
            true => Self::read_as::<FileHeader64<LittleEndian>>(elf),
            false => Self::read_as::<FileHeader32<LittleEndian>>(elf),
        }
    }

    fn read_as<H: FileHeader<Endian = LittleEndian>>(
        elf: &'elf Elf<'data, R>,
    ) -> Result<Self, ElfError> {
        let header: &H = header_in(elf.data)?;
        let (part, at) = ("table of sections", header.e_shoff(ENDIAN).into());
        // 0 stands for "none" and for "too many to count here", which no program has.
        let table = match header.e_shnum(ENDIAN) {
            0 => &[],
            _ => header
                .section_headers(ENDIAN, elf.data)
                .map_err(|_| ElfError::Damaged { part, at })?,
        };
        let rows: Vec<_> = table.iter().enumerate().map(Section::of).collect();
        let (names, names_at) = match rows.get(usize::from(header.e_shstrndx(ENDIAN).0)) {
            Some(names) => {
                let size = names.file_size().min(NAMES_MAX);
                let bytes = elf.bytes(names.offset, size, "table of section names", NAMES_MAX)?;
                (bytes, names.offset)
            }
            None => (&[][..], 0),
        };
        let table = object::pod::bytes_of_slice(table);
        Ok(Self { elf, rows, table, table_at: at, names, names_at })
    }

    /// The table as the file has it.
    pub fn table(&self) -> &'data [u8] {
        self.table
    }

    /// Where the table lies in the file.
    pub fn table_offset(&self) -> u64 {
        self.table_at
    }

    /// Where in the file the names lie that were read.
    pub fn names_range(&self) -> Range<u64> {
        self.names_at..self.names_at + self.names.len() as u64
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
        let bytes = self.bytes_at_name(section);
        Some(until_zero(bytes)).filter(|name| name.len() < bytes.len()).unwrap_or(&[])
    }

    /// Some bytes, of which the first are a section's name.
    fn bytes_at_name(&self, section: &Section) -> &'data [u8] {
        let rest = self.names.get(section.name_at as usize..).unwrap_or(&[]);
        &rest[..rest.len().min(NAME_MAX)]
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
        self.elf.bytes(section.offset, section.file_size(), part, limit)
    }

    /// What a compressed section says that it has inflated, in bytes; `None` if it is not
    /// compressed.
    ///
    /// # Errors
    ///
    /// When it has not even so much.
    pub fn inflated_size(&self, section: &Section) -> Result<Option<u64>, ElfError> {
        if !section.flags.contains(elf::SHF_COMPRESSED) {
            return Ok(None);
        }
        let (data, at) = (self.elf.data, section.offset);
        let header = if self.elf.is_64() {
            let header = data.read_at::<CompressionHeader64<LittleEndian>>(at);
            header.map(|header| (header.ch_size(ENDIAN), size_of_val(header)))
        } else {
            let header = data.read_at::<CompressionHeader32<LittleEndian>>(at);
            header.map(|header| (header.ch_size(ENDIAN).into(), size_of_val(header)))
        };
        match header {
            Ok((inflated, own)) if section.size >= own as u64 => Ok(Some(inflated)),
            _ => Err(ElfError::Damaged { part: "compressed section", at }),
        }
    }

    /// The table of symbols that a section of this type has: that for debuggers (`SHT_SYMTAB`), or
    /// that for the loader (`SHT_DYNSYM`). `None` if there is none, as in any file of 32 bits.
    ///
    /// # Errors
    ///
    /// When it, or the table of its names, is damaged or larger than `limits`.
    pub fn symbols(
        &self,
        kind: SectionType,
        limits: &SymbolLimits,
    ) -> Result<Option<SymbolTable<'data>>, ElfError> {
        let section = self.iter().find(|section| section.kind == kind);
        let Some(section) = section.filter(|_| self.elf.is_64()) else { return Ok(None) };
        let (part, at) = ("table of symbols", section.offset);
        let names = self.get(section.link).ok_or(ElfError::Damaged { part, at })?;
        let rows = self.bytes(section, part, limits.table)?;
        let name_bytes = self.bytes(names, "table of symbols' names", limits.names)?;
        Ok(Some(SymbolTable::new(rows, name_bytes, names.offset)))
    }
}
