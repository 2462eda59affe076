//! Stripped files that have their symbols compressed in a section of their own.

use crate::links::{Libc, folder, has_the_name};
use std::fs;
use syscollect_fixtures::xz;
use syscollect_model::SymbolTable;

/// Names a function of libc, which has no names but what the section holds.
fn name(libc: &Libc, section: &[u8]) -> SymbolTable {
    let (_kept, folder) = folder();
    let path = folder.join("lib.so");
    fs::write(&path, libc.leading(".gnu_debugdata", section)).unwrap();
    libc.name(&path, &[])
}

#[test]
fn a_stripped_file_is_named_by_the_symbols_that_it_has_compressed() {
    let libc = Libc::read();
    let without = name(&libc, b"");
    assert!(!without.has_names() && without.has_ranges_only(), "{without:?}");
    let table = name(&libc, &xz::stream(&libc.bytes));
    assert!(has_the_name(&table) && table.note.is_empty(), "{table:?}");
    let symbol = &table.symbols[0];
    assert!(!symbol.range_only && symbol.start == libc.offset && symbol.size > 0, "{symbol:?}");
}

#[test]
fn compressed_symbols_of_another_build_are_not_used() {
    let libc = Libc::read();
    let id = libc.build_id.as_bytes();
    let place = libc.bytes.windows(id.len()).position(|bytes| bytes == id).unwrap();
    let mut other = libc.bytes.clone();
    other[place] ^= 1;
    let table = name(&libc, &xz::stream(&other));
    assert!(!table.has_names() && table.note.contains("another build"), "{}", table.note);
    // Those that do not say of which build they are belong to the file in which they lie.
    let mut anonymous = libc.bytes.clone();
    anonymous[place - 8] = 0x55;
    assert!(has_the_name(&name(&libc, &xz::stream(&anonymous))));
}

#[test]
fn what_is_no_xz_or_no_elf_file_or_too_much_leaves_the_ranges_and_says_so() {
    let libc = Libc::read();
    let whole = xz::stream(&libc.bytes);
    for (section, note) in [
        (b"a text that is no xz".to_vec(), "mini debug information not used: it is damaged"),
        (whole[..whole.len() / 2].to_vec(), "it ends too early"),
        (xz::stream(b"no ELF file"), "not an ELF file"),
        (xz::stream_with(&libc.bytes, 40), "it is damaged"),
        (xz::zeros(300), "more than 268435456 bytes when it is inflated"),
    ] {
        let table = name(&libc, &section);
        assert!(table.note.contains(note), "{note}: {}", table.note);
        assert!(!table.has_names() && table.has_ranges_only(), "{table:?}");
    }
}
