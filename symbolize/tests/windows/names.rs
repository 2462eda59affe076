//! What symbol files and images say.

use crate::common::{image_bytes, library, library_pdb, name, path, request, symbol_bytes};
use crate::streams::without_section_headers;
use std::fs::{self, File};
use std::io::Cursor;
use syscollect_fixtures::image;
use syscollect_model::Symbol;
use syscollect_symbolize::windows::{Image, ImageRequest, Pdb, PdbIdentity};

#[test]
fn a_place_has_the_function_file_and_line_that_its_symbol_file_states() {
    let library = library();
    let store = tempfile::tempdir().unwrap();
    fs::copy(&library.pdb, store.path().join("library.pdb")).unwrap();
    let table =
        name(path(&[store.path()]), request(Some(library_pdb()), &[0x1000, 0x1001, 0x40, 1 << 40]));
    assert_eq!(table.note, "");
    assert_eq!(table.build_id.as_bytes(), [7; 20]);
    let first = &table.symbols[0];
    assert_eq!((first.offset, first.start), (0x1000, 0x1000));
    assert_eq!(first.size, 0x40);
    let frame = &first.frames[0];
    assert_eq!(
        (frame.function.as_str(), frame.line),
        ("EntryPoint(void*, unsigned long, void*)", 20)
    );
    assert_eq!(frame.file, r"d:\source\main.cc");
    assert_eq!(
        table.symbols.iter().map(|symbol| symbol.offset).collect::<Vec<_>>(),
        [0x1000, 0x1001]
    );
}

/// Innermost first: `clamp(int):5`.
fn frames(symbol: &Symbol) -> Vec<String> {
    symbol.frames.iter().map(|it| format!("{}:{}", it.function, it.line)).collect()
}

fn pdb() -> Pdb<Cursor<Vec<u8>>> {
    Pdb::open(Cursor::new(symbol_bytes())).unwrap()
}

#[test]
fn a_symbol_file_knows_its_functions_by_guid_and_age() {
    let PdbIdentity { guid, age, .. } = library_pdb();
    assert_eq!((*pdb().guid(), pdb().age()), (guid, age));
    let offsets = [0xfff, 0x103f, 0x1100, 0x111f, 0x1120, 0x112f, 0x1130, 0x117f, 0x2000];
    let names = pdb().name(&offsets, 0).unwrap();
    assert_eq!(names.note, "");
    let named: Vec<_> = names.symbols.iter().map(|it| (it.offset, it.start, frames(it))).collect();
    let entry = "EntryPoint(void*, unsigned long, void*):22";
    let (outer, inlined) = ("math::compute(int):40", "clamp(int):5");
    let expected = [
        (0x103f, 0x1000, vec![entry]),
        (0x1100, 0x1100, vec![outer]),
        (0x111f, 0x1100, vec![outer]),
        (0x1120, 0x1100, vec![inlined, outer]),
        (0x112f, 0x1100, vec![inlined, outer]),
        (0x1130, 0x1100, vec![outer]),
        (0x117f, 0x1100, vec![outer]),
    ];
    let expected = expected.map(|(offset, start, frames)| {
        (offset, start, frames.into_iter().map(str::to_owned).collect::<Vec<_>>())
    });
    assert_eq!(named, expected);
}

#[test]
fn what_only_a_public_symbol_names_has_its_undecorated_name() {
    let names = pdb().name(&[0x1300, 0x1fff], 0).unwrap();
    let found = names.symbols.iter().map(|it| (it.start, it.frames[0].function.as_str()));
    assert_eq!(found.collect::<Vec<_>>(), [(0x1300, "helper(void)"); 2]);
}

#[test]
fn a_symbol_file_without_section_headers_names_an_image_whose_length_agrees_with_its_sections() {
    let offsets: Vec<u64> = (0..0x3000).collect();
    let expected = pdb().name(&offsets, 0).unwrap();
    // A page of headers and one of code.
    assert_eq!(bare().name(&offsets, 0x2000).unwrap(), expected);
    for (length, why) in [(0x3000, "no section headers"), (0, "does not say how long")] {
        let reason = bare().name(&offsets, length).unwrap_err().to_string();
        assert!(reason.contains(why), "{reason}");
    }
}

fn bare() -> Pdb<Cursor<Vec<u8>>> {
    Pdb::open(Cursor::new(without_section_headers(symbol_bytes()))).unwrap()
}

#[test]
fn a_symbol_file_whose_code_cannot_be_placed_says_so_in_the_note() {
    let library = library();
    let store = tempfile::tempdir().unwrap();
    let bare = without_section_headers(fs::read(&library.pdb).unwrap());
    fs::write(store.path().join("library.pdb"), bare).unwrap();
    let table = name(path(&[store.path()]), request(Some(library_pdb()), &[0x1000]));
    assert_eq!(table.symbols, []);
    assert!(table.note.contains("precompiled .NET images"), "{}", table.note);
    let known = ImageRequest { image_size: 0x2000, ..request(Some(library_pdb()), &[0x1000]) };
    assert_eq!(name(path(&[store.path()]), known).symbols.len(), 1);
}

#[test]
fn an_image_says_what_it_is_known_by() {
    let library = library();
    let image = Image::read(File::open(&library.image).unwrap(), 1 << 20).unwrap();
    let PdbIdentity { guid, age, .. } = library_pdb();
    let pdb = image.pdb().unwrap();
    assert_eq!((pdb.guid, pdb.age), (guid, age));
    assert_eq!((image.size(), image.timestamp()), (image::Image::SIZE, 0x5f00_0000));
    assert!(Image::read(File::open(&library.image).unwrap(), 1000).is_err(), "it is longer");
    assert!(
        Image::read(File::open(&library.pdb).unwrap(), 1 << 20).is_err(),
        "it is something else"
    );
}

/// The trace of a recorder that reads no images: it knows their sizes and times only.
fn without_pdb(library: &crate::common::Library) -> ImageRequest {
    let image = Image::read(File::open(&library.image).unwrap(), 1 << 20).unwrap();
    ImageRequest {
        image_size: image.size(),
        image_timestamp: image.timestamp(),
        ..request(None, &[0x1000])
    }
}

#[test]
fn an_image_at_hand_leads_to_its_symbol_file_where_the_trace_does_not() {
    let library = library();
    let store = tempfile::tempdir().unwrap();
    let request = without_pdb(&library);
    fs::copy(&library.image, store.path().join("library.dll")).unwrap();
    let image = Image::read(File::open(&library.image).unwrap(), 1 << 20).unwrap();
    let pdb_name = image.pdb().unwrap().name.rsplit('\\').next().unwrap().to_owned();
    fs::copy(&library.pdb, store.path().join(pdb_name)).unwrap();
    let table = name(path(&[store.path()]), request);
    assert_eq!(
        table.symbols[0].frames[0].function, "EntryPoint(void*, unsigned long, void*)",
        "{}",
        table.note
    );
}

#[test]
fn without_a_symbol_file_an_image_of_the_same_build_has_its_exports() {
    let library = library();
    let store = tempfile::tempdir().unwrap();
    fs::copy(&library.image, store.path().join("library.dll")).unwrap();
    let table = name(path(&[store.path()]), without_pdb(&library));
    assert!(table.note.contains("exports"), "{}", table.note);
    let other = ImageRequest { image_timestamp: 1, ..without_pdb(&library) };
    let table = name(path(&[store.path()]), other);
    assert!(table.symbols.is_empty() && table.note.contains("another build"), "{}", table.note);
}

#[test]
fn an_image_of_64_and_of_32_bits_names_its_exports() {
    // Where the first of them ends is said by the table of functions, and where no padding shows
    // it, by the next export.
    let helper = (0x1300, 0xd00, "helper(void)".to_owned());
    assert_eq!(
        named_by_exports(&image_bytes()),
        [entry(0x1000, 0x40), entry(0x103f, 0x40), helper.clone()]
    );
    let exports = [
        image::Export { name: "?helper@@YAXXZ", address: 0x1300 },
        image::Export { name: "EntryPoint", address: 0x1000 },
    ];
    let narrow = image::Image { is_64_bit: false, exports: &exports, ..image::Image::default() };
    let all = [0x1000, 0x103f, 0x1040, 0x1100].map(|offset| entry(offset, 0x300));
    assert_eq!(named_by_exports(&narrow.bytes()), [&all[..], &[helper]].concat());
}

fn named_by_exports(image: &[u8]) -> Vec<(u64, u64, String)> {
    let offsets = [0xfff, 0x1000, 0x103f, 0x1040, 0x1100, 0x1300];
    let symbols = Image::read(image, 1 << 20).unwrap().name(&offsets);
    symbols.into_iter().map(|it| (it.offset, it.size, it.frames[0].function.clone())).collect()
}

fn entry(offset: u64, size: u64) -> (u64, u64, String) {
    (offset, size, "EntryPoint".to_owned())
}

#[test]
fn a_piece_of_a_function_that_lies_apart_has_its_name() {
    let exports = [image::Export { name: "EntryPoint", address: 0x1000 }];
    let piece = image::Piece { code: 0x1800..0x1810, first: 0x1000..0x1040 };
    let image = image::Image {
        exports: &exports,
        functions: &[0x1000..0x1040, 0x1100..0x1180],
        pieces: &[piece],
        ..image::Image::default()
    };
    let symbols = Image::read(&*image.bytes(), 1 << 20).unwrap().name(&[0x1808, 0x1108, 0x1811]);
    let found: Vec<_> = symbols.iter().map(|it| (it.offset, it.start, frames(it))).collect();
    assert_eq!(found, [(0x1808, 0x1000, vec!["EntryPoint:0".to_owned()])]);
}

#[test]
fn a_module_that_nothing_is_known_of_is_told_so() {
    let table = name(path(&[]), request(None, &[0x1000]));
    assert!(table.symbols.is_empty());
    assert!(table.note.contains("does not say which symbol file"), "{}", table.note);
}
