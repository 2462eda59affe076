//! Functions of files without symbols, known by what unwinders are told of them.

use crate::common::long;
use crate::links::Libc;
use proptest::prelude::*;
use std::fs;
use syscollect_fixtures::xz;
use syscollect_model::{BuildId, Symbol, SymbolTable};
use syscollect_symbolize::{Options, PinnedFiles, Symbolizer};

/// Where the parts of a made file lie in it.
const INDEX: u64 = 0x200;
const ENTRIES: u64 = 0x400;
const CODE: u64 = 0x1000;
const CODE_END: u64 = 0x1100;
/// What addresses have more than offsets.
const BASE: u64 = 0x40_0000;
/// First byte and length of each function; the last claims what lies behind the code.
const FUNCTIONS: [(u64, u32); 4] = [(0x1000, 0x20), (0x1020, 0x30), (0x1060, 0x20), (0x10f0, 999)];

/// What a made file has.
#[derive(Clone, Copy, Debug)]
struct Shape {
    index: bool,
    sections: bool,
    /// A name for the second function.
    symbol: bool,
}

const WHOLE: Shape = Shape { index: true, sections: true, symbol: false };

/// An x86-64 program of four functions.
fn file(shape: Shape) -> Vec<u8> {
    let mut file = vec![0; CODE_END as usize];
    let (entries, rows) = entries();
    put(&mut file, ENTRIES, &entries);
    let index = index(&rows);
    put(&mut file, INDEX, &index);
    put(&mut file, 0, b"\x7fELF\x02\x01\x01");
    // ET_EXEC, EM_X86_64, and version 1.
    put(&mut file, 16, &[2, 0, 62, 0, 1]);
    put(&mut file, 32, &64_u64.to_le_bytes());
    put(&mut file, 52, &[64, 0, 56, 0, 1 + u8::from(shape.index), 0, 64]);
    let code = segment(1, 5, 0, CODE_END);
    put(&mut file, 64, &code);
    // PT_GNU_EH_FRAME
    put(&mut file, 64 + 56, &segment(0x6474_e550, 4, INDEX, index.len() as u64));
    if shape.sections {
        add_sections(&mut file, entries.len() as u64, shape.symbol);
    }
    file
}

fn put(file: &mut [u8], at: u64, bytes: &[u8]) {
    file[at as usize..][..bytes.len()].copy_from_slice(bytes);
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn segment(kind: u64, flags: u64, offset: u64, size: u64) -> Vec<u8> {
    words(&[kind | flags << 32, offset, BASE + offset, BASE + offset, size, size, 1])
}

/// `.eh_frame`: a CIE and an FDE for each function; and at which offset of the file each FDE lies.
fn entries() -> (Vec<u8>, Vec<(u64, u64)>) {
    // Addresses are relative to where they stand, 4 bytes each.
    let mut bytes = vec![20, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b];
    bytes.resize(24, 0);
    let mut rows = Vec::new();
    for (start, length) in FUNCTIONS {
        let at = ENTRIES + bytes.len() as u64;
        rows.push((start, at));
        let to_description = (bytes.len() + 4) as u32;
        let relative = start.wrapping_sub(at + 8) as u32;
        for word in [16, to_description, relative, length, 0] {
            bytes.extend(word.to_le_bytes());
        }
    }
    bytes.extend([0; 4]);
    (bytes, rows)
}

/// `.eh_frame_hdr`.
fn index(rows: &[(u64, u64)]) -> Vec<u8> {
    let mut bytes = vec![1, 0x1b, 3, 0x3b];
    bytes.extend((ENTRIES.wrapping_sub(INDEX + 4) as u32).to_le_bytes());
    bytes.extend((rows.len() as u32).to_le_bytes());
    for (start, entry) in rows {
        bytes.extend((start.wrapping_sub(INDEX) as u32).to_le_bytes());
        bytes.extend((entry.wrapping_sub(INDEX) as u32).to_le_bytes());
    }
    bytes
}

fn add_sections(file: &mut Vec<u8>, entries: u64, symbol: bool) {
    let names = b"\0.eh_frame\0.text\0.symtab\0.strtab\0second\0";
    let names_at = file.len() as u64;
    file.extend(names);
    let symbols_at = file.len() as u64;
    file.extend([0; 24]);
    // A global function, of section 2.
    file.extend(words(&[33 | 0x12 << 32 | 2 << 48, BASE + FUNCTIONS[1].0, FUNCTIONS[1].1.into()]));
    let table = file.len() as u64;
    let symbol_bytes = if symbol { 48 } else { 0 };
    let rows = [
        [0; 8],
        [1 | 1 << 32, 2, BASE + ENTRIES, ENTRIES, entries, 0, 8, 0],
        [11 | 1 << 32, 6, BASE + CODE, CODE, CODE_END - CODE, 0, 16, 0],
        [17 | 2 << 32, 0, 0, symbols_at, symbol_bytes, 4 | 1 << 32, 8, 24],
        [25 | 3 << 32, 0, 0, names_at, names.len() as u64, 0, 1, 0],
    ];
    file.extend(rows.iter().flat_map(|row| words(row)));
    put(file, 40, &words(&[table]));
    put(file, 60, &[rows.len() as u8, 0, 4]);
}

fn name(bytes: &[u8], offsets: &[u64]) -> SymbolTable {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap().join("program");
    fs::write(&path, bytes).unwrap();
    let options = Options { debug_dirs: Vec::new(), ..Options::default() };
    let mut symbolizer = Symbolizer::with_options(PinnedFiles::new(), options);
    symbolizer.name_module(path.to_str().unwrap(), &BuildId::default(), offsets)
}

/// Offset, label, start, size, and whether nothing but the range is known.
fn functions(table: &SymbolTable) -> Vec<(u64, &str, u64, u64, bool)> {
    fn row(symbol: &Symbol) -> (u64, &str, u64, u64, bool) {
        let label = symbol.frames[0].function.as_str();
        (symbol.offset, label, symbol.start, symbol.size, symbol.range_only)
    }
    table.symbols.iter().map(row).collect()
}

const OFFSETS: [u64; 8] = [0x1000, 0x101f, 0x1020, 0x1055, 0x107f, 0x1080, 0x10ff, 0x300];

#[test]
fn each_function_has_its_range_with_or_without_index_and_sections() {
    let expected = [
        (0x1000, "program+0x401000", 0x1000, 0x20, true),
        (0x101f, "program+0x401000", 0x1000, 0x20, true),
        (0x1020, "program+0x401020", 0x1020, 0x30, true),
        (0x107f, "program+0x401060", 0x1060, 0x20, true),
        (0x10ff, "program+0x4010f0", 0x10f0, 0x10, true),
    ];
    for shape in [
        WHOLE,
        Shape { index: false, ..WHOLE },
        Shape { sections: false, ..WHOLE },
        Shape { symbol: true, index: false, sections: false },
    ] {
        let table = name(&file(shape), &OFFSETS);
        if !shape.index && !shape.sections {
            assert_eq!(table.symbols, [], "nothing says where the entries are");
            continue;
        }
        assert_eq!(functions(&table), expected, "{shape:?}: {}", table.note);
        assert!(!table.has_names() && table.has_ranges_only() && !table.note.is_empty());
    }
}

#[test]
fn a_range_takes_no_names_place() {
    let table = name(&file(Shape { symbol: true, ..WHOLE }), &OFFSETS);
    let rows = functions(&table);
    assert_eq!(rows[1], (0x101f, "program+0x401000", 0x1000, 0x20, true), "{}", table.note);
    assert_eq!(rows[2], (0x1020, "second", 0x1020, 0x30, false));
    assert_eq!(rows.len(), 5);
    assert!(table.has_names() && table.has_ranges_only());
}

#[test]
fn what_lies_a_byte_before_its_symbol_has_its_name() {
    // As the C library describes where signal handlers return to, which nothing has called.
    let mut bytes = file(Shape { symbol: true, ..WHOLE });
    let symbol = words(&[BASE + FUNCTIONS[1].0, FUNCTIONS[1].1.into()]);
    let at = bytes.windows(symbol.len()).position(|window| window == symbol).unwrap() as u64;
    put(&mut bytes, at, &words(&[BASE + FUNCTIONS[1].0 + 1, u64::from(FUNCTIONS[1].1) - 1]));
    let table = name(&bytes, &[0x1020, 0x1021, 0x1060]);
    let expected = [
        (0x1020, "second", 0x1020, 0x30, false),
        (0x1021, "second", 0x1021, 0x2f, false),
        (0x1060, "program+0x401060", 0x1060, 0x20, true),
    ];
    assert_eq!(functions(&table), expected, "{}", table.note);
}

#[test]
fn what_an_index_says_is_checked() {
    let whole = file(WHOLE);
    let (row, last) = (INDEX as usize + 12, INDEX as usize + 12 + 3 * 8);
    let all = [0x1000, 0x101f, 0x1020, 0x107f, 0x10ff];
    assert_eq!(
        named_with(&whole, INDEX as usize, 0x3b03_1b02),
        all,
        "another version: walked over"
    );
    assert_eq!(named_with(&whole, INDEX as usize + 4, 8), all, "an index of something else");
    assert_eq!(named_with(&whole, INDEX as usize + 8, 0), all, "no rows");
    assert_eq!(named_with(&whole, INDEX as usize + 8, 3), all[..4], "the last row is left out");
    assert_eq!(named_with(&whole, INDEX as usize + 8, u32::MAX), [0; 0], "rows that are not there");
    assert_eq!(named_with(&whole, row + 4, 0x7fff_ffff), all[2..], "an entry behind all entries");
    assert_eq!(named_with(&whole, last + 4, 0), all[..4], "an entry before all entries");
}

/// The places that are named in a file that has this word there.
fn named_with(file: &[u8], at: usize, word: u32) -> Vec<u64> {
    let mut bytes = file.to_vec();
    bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
    name(&bytes, &OFFSETS).symbols.iter().map(|symbol| symbol.offset).collect()
}

#[test]
fn libc_without_symbols_knows_where_its_functions_begin() {
    let libc = Libc::read();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap().join("libc.so.6");
    fs::write(&path, libc.leading(".comment", b"")).unwrap();
    let table = libc.name(&path, &[]);
    let symbol = &table.symbols[0];
    assert!(symbol.range_only && symbol.size > 0, "{table:?}");
    assert_eq!(symbol.start, libc.offset, "a function's address is its start");
    assert!(symbol.frames[0].function.starts_with("libc.so.6+0x"), "{symbol:?}");
    assert!(table.note.contains("no symbols"), "{}", table.note);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn damaged_entries_are_survived_and_ranges_stay_in_code(
        changes in proptest::collection::vec((INDEX..ENTRIES + 0x80, any::<u8>()), 1..12),
        headers in proptest::collection::vec((0u64..64 + 2 * 56, any::<u8>()), 0..2),
        shape in (any::<bool>(), any::<bool>(), any::<bool>()),
    ) {
        let shape = Shape { index: shape.0, sections: shape.1, symbol: shape.2 };
        let (mut bytes, sound_headers) = (file(shape), headers.is_empty());
        for (at, value) in changes.into_iter().chain(headers) {
            bytes[at as usize] = value;
        }
        let offsets: Vec<u64> = (0..0x1200).step_by(8).collect();
        let table = name(&bytes, &offsets);
        for symbol in table.symbols.iter().filter(|symbol| symbol.range_only) {
            prop_assert!(symbol.size > 0 && symbol.frames.len() == 1, "{symbol:?}");
            let range = symbol.start..symbol.start.saturating_add(symbol.size);
            let inside = range.contains(&symbol.offset) && range.end <= CODE_END;
            prop_assert!(!sound_headers || inside, "{symbol:?}");
        }
    }
}

#[test]
fn a_debug_file_that_kept_the_header_before_its_code_says_itself_where_that_lay() {
    let mut debug = file(Shape { symbol: true, ..WHOLE });
    // What `objcopy --only-keep-debug` leaves of a program whose first segment is its code.
    put(&mut debug, 64 + 32, &0x200_u64.to_le_bytes());
    let rows = u64::from_le_bytes(*debug[40..].first_chunk().unwrap());
    put(&mut debug, rows + 2 * 64 + 4, &[8]);
    let table = name(&debug, &OFFSETS);
    assert_eq!(functions(&table), [(0x1020, "second", 0x1020, 0x30, false)], "{}", table.note);
}

#[test]
fn a_symbol_without_a_size_ends_where_a_compressed_one_begins() {
    let shape = Shape { symbol: true, ..WHOLE };
    let mini = file(shape);
    // The first function's symbol has no size, so it seems to reach to the end of the code.
    let mut own = file(shape);
    let (symbol, rows) = symbols(&own);
    put(&mut own, symbol + 8, &words(&[BASE + FUNCTIONS[0].0, 0]));
    let behind = own.len() as u64;
    let compressed = xz::stream(&mini);
    own.extend(&compressed);
    let names = own.len() as u64;
    own.extend(b"\0.gnu_debugdata\0.eh_frame\0.text\0.symtab\0.strtab\0first\0");
    let names_of_sections: &[u8] = &own[names as usize..];
    let [mini_debug, first] =
        [".gnu_debugdata", "first"].map(|name| place_of(name, names_of_sections));
    let more = [mini_debug | 1 << 32, 0, 0, behind, compressed.len() as u64, 0, 1, 0];
    let firsts =
        [".eh_frame", ".text", ".symtab", ".strtab"].map(|name| place_of(name, names_of_sections));
    let length = own.len() as u64 - names;
    let mut table = own[rows as usize..behind as usize].to_vec();
    for (number, name) in firsts.into_iter().enumerate() {
        table[(number + 1) * 64..][..4].copy_from_slice(&(name as u32).to_le_bytes());
    }
    table[4 * 64 + 24..][..16].copy_from_slice(&words(&[names, length]));
    table.extend(words(&more));
    put(&mut own, symbol, &(first as u32).to_le_bytes());
    let place = own.len() as u64;
    own.extend(table);
    put(&mut own, 40, &words(&[place]));
    put(&mut own, 60, &[6]);
    let table = name(&own, &[0x1000, 0x1020, 0x1055]);
    let expected = [
        (0x1000, "first", 0x1000, 0, false),
        (0x1020, "second", 0x1020, 0x30, false),
        (0x1055, "first", 0x1000, 0, false),
    ];
    assert_eq!(functions(&table), expected, "{}", table.note);
}

/// Where a file has its only symbol, and its table of sections.
fn symbols(file: &[u8]) -> (u64, u64) {
    let rows = long(file, 40);
    (long(file, rows + 3 * 64 + 24) as u64 + 24, rows as u64)
}

fn place_of(name: &str, names_of_sections: &[u8]) -> u64 {
    names_of_sections.windows(name.len()).position(|part| part == name.as_bytes()).unwrap() as u64
}
