//! Shared libraries written by hand, as no linker makes them: tables of which one page has tens of
//! thousands of rows, names of functions that are not there, debug information that covers all.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;

use anyhow::{Context, Result};

/// Bytes of a page of code, as unwind tables count them (`PAGE_BYTES` of `bpf/records`).
pub(crate) const PAGE: u64 = 1 << 16;
/// Types of sections (elf(5)).
pub(crate) const PROGRAM_DATA: u32 = 1;
pub(crate) const NOTE: u32 = 7;
const SYMBOLS: u32 = 2;
const DYNAMIC_SYMBOLS: u32 = 11;
const STRINGS: u32 = 3;

/// What a library is to have. Addresses are offsets in its file, all of which is loaded as code.
#[derive(Clone, Debug, Default)]
pub(crate) struct Library {
    /// Pages of code; the first one begins at [`PAGE`].
    pub(crate) pages: u64,
    /// What each page begins with; the rest of it takes no room on the disk.
    pub(crate) code: Vec<u8>,
    /// Where it begins as a program; 0 for none.
    pub(crate) entry: u64,
    /// Rows in each page's unwind table; without any there are no tables.
    pub(crate) rows: u64,
    /// Name, address and size of functions.
    pub(crate) functions: Vec<(&'static str, u64, u64)>,
    /// Name, type and contents of sections.
    pub(crate) sections: Vec<(&'static str, u32, Vec<u8>)>,
}

/// A row of the table of sections.
#[derive(Clone, Copy, Debug, Default)]
struct Section {
    name: u32,
    kind: u32,
    offset: u64,
    size: u64,
    link: u32,
    entry: u64,
}

impl Library {
    /// Writes it, for all to map.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        let file = File::create(path).with_context(|| format!("cannot make {}", path.display()))?;
        for page in 1..=self.pages {
            file.write_all_at(&self.code, page * PAGE)?;
        }
        let start = PAGE * (1 + self.pages);
        let mut tail = Vec::new();
        let header = self.unwind_tables(start, &mut tail);
        let (table, count) = self.tables_of_sections(start, &mut tail);
        file.write_all_at(&tail, start)?;
        let end = start + tail.len() as u64;
        file.write_all_at(&elf_header(self.entry, table, count, end, header), 0)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
        Ok(())
    }

    /// `.eh_frame_hdr` and `.eh_frame` at `start`; where the former lies, and its size. In each
    /// page's rows the stack has another size every other byte.
    fn unwind_tables(&self, start: u64, tail: &mut Vec<u8>) -> Option<(u64, u64)> {
        if self.rows == 0 {
            return None;
        }
        let header_bytes = 12 + 8 * self.pages;
        let frames = start + header_bytes.next_multiple_of(8);
        // Version 1, addresses of 4 bytes from where they stand, the table's from its beginning.
        tail.extend([1, 0x1b, 3, 0x3b]);
        tail.extend(distance(start + 4, frames));
        tail.extend((self.pages as u32).to_le_bytes());
        let table_at = tail.len();
        tail.resize((frames - start) as usize, 0);
        // A CIE: "zR", the stack at rsp + 8, the return address below.
        let mut cie = vec![0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1];
        cie.resize(cie.len().next_multiple_of(4), 0);
        tail.extend((cie.len() as u32).to_le_bytes());
        tail.extend(cie);
        // Two bytes on, the stack at rsp + 16 or rsp + 8.
        let rows: Vec<u8> = (0..self.rows)
            .flat_map(|row| [0x42, 0x0e, if row % 2 == 0 { 16 } else { 8 }])
            .collect();
        for page in 0..self.pages {
            let (code, at) = (PAGE * (1 + page), start + tail.len() as u64);
            let entry = [distance(start, code), distance(start, at)].concat();
            tail[table_at + 8 * page as usize..][..8].copy_from_slice(&entry);
            let length = (4 + 4 + 4 + 1 + rows.len()).next_multiple_of(4);
            let fde_end = tail.len() + 4 + length;
            tail.extend((length as u32).to_le_bytes());
            tail.extend(distance(frames, at + 4));
            tail.extend(distance(at + 8, code));
            tail.extend((PAGE as u32).to_le_bytes());
            tail.push(0);
            tail.extend(&rows);
            tail.resize(fde_end, 0);
        }
        tail.extend([0; 4]);
        Some((start, header_bytes))
    }

    /// The contents of sections, and their table; where that lies, and how long it is.
    fn tables_of_sections(&self, start: u64, tail: &mut Vec<u8>) -> (u64, u16) {
        let mut table = SectionTable { start, names: vec![0], sections: vec![Section::default()] };
        let (mut strings, mut symbols) = (vec![0], vec![0; 24]);
        for (name, address, size) in &self.functions {
            symbols.extend((strings.len() as u32).to_le_bytes());
            // A global function, in some section.
            symbols.extend([0x12, 0, 1, 0]);
            symbols.extend([*address, *size].map(u64::to_le_bytes).concat());
            strings.extend(name.bytes().chain([0]));
        }
        table.put(".strtab", STRINGS, &strings, tail);
        table.put(".symtab", SYMBOLS, &symbols, tail);
        for (name, kind, contents) in &self.sections {
            table.put(name, *kind, contents, tail);
        }
        table.put(".shstrtab", STRINGS, &[], tail);
        let SectionTable { names, mut sections, .. } = table;
        (sections[2].link, sections[2].entry) = (1, 24);
        if let Some(last) = sections.last_mut() {
            last.size = names.len() as u64;
        }
        tail.extend(names);
        tail.resize(tail.len().next_multiple_of(8), 0);
        let table = start + tail.len() as u64;
        sections.iter().for_each(|section| tail.extend(section.to_bytes()));
        (table, sections.len() as u16)
    }
}

/// Sections whose contents lie in a file from `start` on.
struct SectionTable {
    start: u64,
    /// The contents of the section of names.
    names: Vec<u8>,
    sections: Vec<Section>,
}

impl SectionTable {
    /// Adds a section, and its contents to the end of the file.
    fn put(&mut self, name: &str, kind: u32, contents: &[u8], tail: &mut Vec<u8>) {
        tail.resize(tail.len().next_multiple_of(8), 0);
        self.sections.push(Section {
            name: self.names.len() as u32,
            kind,
            offset: self.start + tail.len() as u64,
            size: contents.len() as u64,
            ..Section::default()
        });
        self.names.extend(name.bytes().chain([0]));
        tail.extend(contents);
    }
}

impl Section {
    fn to_bytes(self) -> Vec<u8> {
        let Self { name, kind, offset, size, link, entry } = self;
        let mut bytes = [name, kind].map(u32::to_le_bytes).concat();
        bytes.extend([0, 0, offset, size].map(u64::to_le_bytes).concat());
        bytes.extend([link, 1].map(u32::to_le_bytes).concat());
        bytes.extend([1, entry].map(u64::to_le_bytes).concat());
        bytes
    }
}

/// The header and the table of segments of a library that is `end` bytes long, of which the last
/// section holds the sections' names.
fn elf_header(entry: u64, table: u64, count: u16, end: u64, unwind: Option<(u64, u64)>) -> Vec<u8> {
    let segments = 1 + u16::from(unwind.is_some());
    let mut bytes = identity();
    bytes.extend([entry, 64, table].map(u64::to_le_bytes).concat());
    bytes.extend(0u32.to_le_bytes());
    bytes.extend([64, 56, segments, 64, count, count - 1].map(u16::to_le_bytes).concat());
    bytes.extend(segment(1, 5, 0, end));
    if let Some((at, size)) = unwind {
        bytes.extend(segment(0x6474_e550, 4, at, size));
    }
    bytes
}

/// How far it is from one place to another, as tables have it.
fn distance(from: u64, to: u64) -> [u8; 4] {
    (to.wrapping_sub(from) as u32).to_le_bytes()
}

/// The first 24 bytes of a shared library of x86-64.
fn identity() -> Vec<u8> {
    let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
    bytes.resize(16, 0);
    bytes.extend([3u16, 62].map(u16::to_le_bytes).concat());
    bytes.extend(1u32.to_le_bytes());
    bytes
}

fn segment(kind: u32, flags: u32, at: u64, size: u64) -> Vec<u8> {
    let mut bytes = [kind, flags].map(u32::to_le_bytes).concat();
    bytes.extend([at, at, at, size, size, PAGE].map(u64::to_le_bytes).concat());
    bytes
}

/// Makes a library whose two tables of symbols, and their names, have `bytes` bytes each and no
/// contents.
pub(crate) fn write_symbols(path: &Path, bytes: u64) -> Result<()> {
    let file = File::create(path).with_context(|| format!("cannot make {}", path.display()))?;
    file.set_len(PAGE + bytes)?;
    let names = Section { kind: STRINGS, offset: PAGE, size: bytes, link: 3, ..Section::default() };
    let symbols = Section { kind: SYMBOLS, entry: 24, ..names };
    let dynamic_symbols = Section { kind: DYNAMIC_SYMBOLS, ..symbols };
    let sections = [Section::default(), dynamic_symbols, symbols, names];
    let mut header = elf_header(0, 64 + 56, sections.len() as u16, PAGE, None);
    sections.iter().for_each(|section| header.extend(section.to_bytes()));
    file.write_all_at(&header, 0)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// Makes a file of `bytes` bytes without contents, whose first section says that the table of
/// sections is all of it.
pub(crate) fn write_sparse(path: &Path, bytes: u64) -> Result<()> {
    let file = File::create(path).with_context(|| format!("cannot make {}", path.display()))?;
    file.set_len(bytes)?;
    let table = 64 + 56;
    let mut header = identity();
    header.extend([0u64, 64, table].map(u64::to_le_bytes).concat());
    header.extend(0u32.to_le_bytes());
    // No number of sections, and none that has their names: the first section has both.
    header.extend([64u16, 56, 1, 64, 0, 0xffff].map(u16::to_le_bytes).concat());
    header.extend(segment(1, 5, 0, bytes));
    let first = Section { size: (bytes - table) / 64, link: 1, ..Section::default() };
    header.extend(first.to_bytes());
    file.write_all_at(&header, 0)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    Ok(())
}
