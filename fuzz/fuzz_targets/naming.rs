//! Whatever a program's file holds, naming ends, in bounded memory and stack, without a panic that
//! gets out, and what is named is what was asked for.
//!
//! An input is a file, or the sections of one: a search from nothing does not get to headers that
//! agree with what lies behind them, and most of what can go wrong lies in DWARF.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::fs::File;
use std::panic;
use std::sync::LazyLock;
use syscollect_model::SymbolTable;
use syscollect_symbolize::{Options, PinnedFiles, Symbolizer, kept_again};
use syscollect_untrusted_files::MemoryFile;

/// Sections that an input may have, by the number that stands for them.
const SECTIONS: [&str; 21] = [
    ".debug_info",
    ".debug_abbrev",
    ".debug_line",
    ".debug_str",
    ".debug_line_str",
    ".debug_str_offsets",
    ".debug_addr",
    ".debug_aranges",
    ".debug_ranges",
    ".debug_rnglists",
    ".symtab",
    ".strtab",
    ".debug_types",
    ".gnu_debuglink",
    ".gnu_debugaltlink",
    ".debug_sup",
    ".eh_frame",
    ".eh_frame_hdr",
    ".gnu_debugdata",
    ".gopclntab",
    ".go.module",
];
/// Bytes of code that a file of sections has.
const CODE: u64 = 0x1_0000;

static SYMBOLIZER: LazyLock<Symbolizer> = LazyLock::new(|| {
    // Panics of the reader of DWARF are caught, and no findings: the fuzzer's hook would end the
    // program.
    panic::set_hook(Box::new(|_| ()));
    let options =
        Options { debug_dirs: Vec::new(), debug_bytes_max: 4 << 20, ..Options::default() };
    Symbolizer::with_options(PinnedFiles::new(), options)
});

fuzz_target!(|bytes: &[u8]| {
    let symbolizer = &*SYMBOLIZER;
    let Some((kind, rest)) = bytes.split_first() else { return };
    let file = match kind {
        0 => rest.to_vec(),
        _ => of_sections(rest),
    };
    let Ok(file) = in_memory(&file) else { return };
    let offsets: Vec<u64> =
        (0..32).chain((0..CODE).step_by(0x400)).chain([CODE - 1, u64::MAX]).collect();
    // What a capture keeps of it is named elsewhere.
    let kept = kept_again(&file);
    for file in [Some(file), kept].into_iter().flatten() {
        check(&symbolizer.name_file(&file, &offsets), &offsets);
    }
});

fn check(table: &SymbolTable, offsets: &[u64]) {
    for symbol in &table.symbols {
        assert!(offsets.contains(&symbol.offset) && !symbol.frames.is_empty(), "{symbol:?}");
        assert!(!symbol.range_only || (symbol.size > 0 && symbol.frames.len() == 1), "{symbol:?}");
    }
}

fn in_memory(bytes: &[u8]) -> std::io::Result<File> {
    let file = MemoryFile::new("fuzz", bytes.len() as u64)?;
    file.write_at(bytes, 0)?;
    file.seal()
}

/// A 64-bit file of sections, each with a byte that says which, two of length, and its bytes.
fn of_sections(mut bytes: &[u8]) -> Vec<u8> {
    let mut sections: Vec<(usize, &[u8])> = Vec::new();
    while let [which, low, high, rest @ ..] = bytes {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
        sections.push((usize::from(*which) % SECTIONS.len(), &rest[..length]));
        bytes = &rest[length..];
    }
    let mut file = header();
    let (mut names, mut rows) = (vec![0], vec![0; 64]);
    let strings = sections
        .iter()
        .position(|(which, _)| SECTIONS[*which] == ".strtab")
        .map_or(0, |at| at as u32 + 1);
    for (which, contents) in &sections {
        let symbols = SECTIONS[*which] == ".symtab";
        let kind = match SECTIONS[*which] {
            ".symtab" => 2,
            ".strtab" => 3,
            _ => 1,
        };
        let entry = if symbols { 24 } else { 0 };
        file.resize(file.len().next_multiple_of(16), 0);
        if SECTIONS[*which] == ".eh_frame_hdr" {
            let place = file.len();
            // PT_GNU_EH_FRAME
            put_segment(&mut file, 1, 0x6474_e550, (place, contents.len()));
        }
        rows.extend(row(names.len(), kind, (file.len(), contents.len()), (strings, entry)));
        file.extend_from_slice(contents);
        names.extend(SECTIONS[*which].bytes().chain([0]));
    }
    rows.extend(row(0, 3, (file.len(), names.len()), (0, 0)));
    file.extend(&names);
    file.resize(file.len().next_multiple_of(16), 0);
    let place = file.len() as u64;
    file[40..48].copy_from_slice(&place.to_le_bytes());
    file[60..62].copy_from_slice(&(rows.len() as u16 / 64).to_le_bytes());
    file[62..64].copy_from_slice(&(rows.len() as u16 / 64 - 1).to_le_bytes());
    file.extend(rows);
    file
}

/// A header, one segment of code that begins at 0, and room for another.
fn header() -> Vec<u8> {
    let mut header = b"\x7fELF\x02\x01\x01".to_vec();
    header.resize(64, 0);
    header[16] = 3;
    header[18] = 62;
    header[20] = 1;
    header[32] = 64;
    header[52] = 64;
    header[54] = 56;
    header[56] = 2;
    header[58] = 64;
    header.resize(64 + 2 * 56, 0);
    put_segment(&mut header, 0, 1 | 5 << 32, (0, CODE as usize));
    header
}

/// A segment that is loaded at the address that is its place in the file.
fn put_segment(file: &mut [u8], number: usize, kind: u64, (place, length): (usize, usize)) {
    let (place, length) = (place as u64, length as u64);
    let words = [kind, place, place, place, length, length, 1];
    let bytes: Vec<u8> = words.iter().flat_map(|word: &u64| word.to_le_bytes()).collect();
    file[64 + number * 56..][..56].copy_from_slice(&bytes);
}

fn row(
    name: usize,
    kind: u32,
    (place, length): (usize, usize),
    (link, entry): (u32, u64),
) -> Vec<u8> {
    let words = [0, place as u64, place as u64, length as u64, u64::from(link), 1, entry];
    let first = [(name as u32).to_le_bytes(), kind.to_le_bytes()].concat();
    first.into_iter().chain(words.iter().flat_map(|word: &u64| word.to_le_bytes())).collect()
}
