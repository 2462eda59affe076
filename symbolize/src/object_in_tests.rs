//! An object file with one function, as tests of readers have it.

use object::write::{Object, StandardSection, Symbol, SymbolSection};
use object::{
    Architecture, BinaryFormat, Endianness, SectionFlags, SectionKind, SymbolFlags, SymbolKind,
    SymbolScope, elf,
};

/// A lambda's symbol, and what debug information calls it.
pub(crate) const SYMBOL: &str = "_ZZ4mainENKUliE_clEi";
pub(crate) const BARE: &[u8] = b"operator()";
/// Where the function lies.
pub(crate) const START: u64 = 0x10;
const SIZE: u64 = 0x20;

/// Tags, attributes and forms (DWARF 4, 7.5): a unit with a name, a range and lines, a function
/// with a name and a range, and one that is inlined, with others in it.
const ABBREVIATIONS: &[u8] = &[
    1, 0x11, 1, 0x03, 0x08, 0x11, 0x01, 0x12, 0x07, 0x10, 0x17, 0, 0, //
    2, 0x2e, 1, 0x03, 0x08, 0x11, 0x01, 0x12, 0x07, 0, 0, //
    3, 0x1d, 1, 0x03, 0x08, 0x11, 0x01, 0x12, 0x07, 0, 0, //
    0,
];

fn entry(abbreviation: u8, name: &[u8]) -> Vec<u8> {
    [&[abbreviation], name, &[0], &START.to_le_bytes(), &SIZE.to_le_bytes()].concat()
}

/// An object with one function, in which so many are inlined, each in the one before.
pub(crate) fn object(inlined: usize) -> Vec<u8> {
    build(inlined).write().unwrap()
}

/// One with strings that are compressed, of which there are `claimed` bytes as they say.
pub(crate) fn object_with_compressed(claimed: u64, stream: &[u8]) -> Vec<u8> {
    let mut file = build(0);
    // ELFCOMPRESS_ZLIB, size, alignment.
    let header = [1, claimed, 1];
    let bytes: Vec<u8> = header.iter().flat_map(|word| word.to_le_bytes()).collect();
    let section = file.add_section(Vec::new(), b".debug_str".to_vec(), SectionKind::Debug);
    file.append_section_data(section, &[&bytes, stream].concat(), 8);
    let flags = SectionFlags::Elf { sh_type: elf::SHT_PROGBITS, sh_flags: elf::SHF_COMPRESSED };
    file.section_mut(section).flags = flags;
    file.write().unwrap()
}

fn build(inlined: usize) -> Object<'static> {
    let mut file = Object::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
    let text = file.section_id(StandardSection::Text);
    file.append_section_data(text, &[0x90; 0x40], 16);
    file.add_symbol(Symbol {
        name: SYMBOL.into(),
        value: START,
        size: SIZE,
        kind: SymbolKind::Text,
        scope: SymbolScope::Compilation,
        weak: false,
        section: SymbolSection::Section(text),
        flags: SymbolFlags::None,
    });
    let functions = [entry(2, BARE), entry(3, b"inlined").repeat(inlined)].concat();
    // Version 4, abbreviations at 0, addresses of 8 bytes; at the end no more in each.
    let head = [4, 0, 0, 0, 0, 0, 8];
    let ends = vec![0; inlined + 2];
    let lines_at = [0; 4];
    let unit = [&head[..], &entry(1, b"x.cpp"), &lines_at, &functions, &ends].concat();
    let info = [&(unit.len() as u32).to_le_bytes()[..], &unit].concat();
    let lines = lines();
    let sections =
        [(".debug_abbrev", ABBREVIATIONS), (".debug_info", &info), (".debug_line", &lines)];
    for (name, data) in sections {
        let section = file.add_section(Vec::new(), name.into(), SectionKind::Debug);
        file.append_section_data(section, data, 1);
    }
    file
}

/// A line program (DWARF 4, 6.2): the first line from the function's start to its end.
fn lines() -> Vec<u8> {
    // Bytes and operations of an instruction, statements, lines from -5 on, 14 of them; lengths of
    // the standard opcodes; no folders, one file.
    let header = [1, 1, 1, 0xfb, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1, 0];
    let header = [&header[..], b"x.cpp\0", &[0, 0, 0, 0]].concat();
    // The address, a row, the end behind the function.
    let program = [&[0, 9, 2][..], &START.to_le_bytes(), &[1, 2, SIZE as u8, 0, 1, 1]].concat();
    let header_length = (header.len() as u32).to_le_bytes();
    let unit = [&[4, 0][..], &header_length, &header, &program].concat();
    [&(unit.len() as u32).to_le_bytes()[..], &unit].concat()
}
