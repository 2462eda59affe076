//! What real images and symbol files say, of Microsoft's compiler and linker.

use crate::common::{guid, name, path, request};
use crate::streams::without_section_headers;
use std::fs::{self, File};
use std::io::Cursor;
use syscollect_symbolize::windows::{Image, Pdb, PdbIdentity};

pub const PROGRAM: &str = "etl/perfview-CppCon.pdb";
pub const LIBRARY: &str = "etl/syzygy-test_types_x64.dll";
pub const LIBRARY_SYMBOLS: &str = "etl/syzygy-test_types_x64.dll.pdb";

/// As the library names its symbol file.
fn library_pdb() -> PdbIdentity {
    let guid = guid(
        [0x98, 0x8a, 0x0d, 0x29],
        [0x3b, 0x0e],
        [0x42, 0xe4],
        [0x8a, 0x13, 0x9d, 0xdd, 0x7f, 0x0f, 0x2b, 0xc1],
    );
    PdbIdentity { name: r"d:\build\library.pdb".into(), guid, age: 1 }
}

#[syscollect_fixtures::test]
fn a_place_has_the_function_file_and_line_that_its_symbol_file_states() {
    let store = tempfile::tempdir().unwrap();
    let symbols = syscollect_fixtures::read(LIBRARY_SYMBOLS);
    fs::write(store.path().join("library.pdb"), symbols).unwrap();
    let table = name(path(&[store.path()]), request(Some(library_pdb()), &[0x1000]));
    let frame = &table.symbols[0].frames[0];
    assert_eq!(
        (frame.function.as_str(), frame.line),
        ("EntryPoint(void*, unsigned long, void*)", 20)
    );
    assert!(frame.file.ends_with("test_types_main.cc"), "{}", frame.file);
}

#[syscollect_fixtures::test]
fn an_image_says_what_it_is_known_by() {
    let image = Image::read(&*syscollect_fixtures::read(LIBRARY), 1 << 20).unwrap();
    let pdb = image.pdb().unwrap();
    assert_eq!((pdb.guid, pdb.age), (library_pdb().guid, 1));
    assert!(image.size() > 0x1000);
}

#[syscollect_fixtures::test]
fn a_symbol_file_knows_its_functions_by_guid_and_age() {
    let file = File::open(syscollect_fixtures::path(PROGRAM)).unwrap();
    let pdb = Pdb::open(file).unwrap();
    let expected = guid(
        [0x12, 0xdc, 0x0a, 0x4f],
        [0xbd, 0x7d],
        [0x4f, 0x2a],
        [0xa9, 0xbe, 0x26, 0x3b, 0xac, 0xae, 0xb4, 0x67],
    );
    assert_eq!((*pdb.guid(), pdb.age()), (expected, 5));
    let names = pdb.name(&(0..0x10000).collect::<Vec<_>>(), 0).unwrap();
    assert_eq!(names.note, "");
    let main = names.symbols.iter().find(|symbol| symbol.offset == 0x1000).unwrap();
    let frame = main.frames.last().unwrap();
    assert_eq!((frame.function.as_str(), frame.line), ("main()", 8));
    assert!(frame.file.ends_with("CppCon.cpp"), "{}", frame.file);
    let mut functions: Vec<u64> = names.symbols.iter().map(|symbol| symbol.start).collect();
    functions.dedup();
    // It knows 83 places: three functions without a name, and the end of the code.
    assert_eq!(functions.len(), 79);
    let longest = names.symbols.iter().map(|symbol| symbol.frames.len()).max();
    assert!(longest > Some(1), "somewhere a call is inlined");
}

#[syscollect_fixtures::test]
fn a_symbol_file_without_section_headers_names_an_image_whose_length_agrees_with_its_sections() {
    for (file, image_length) in [(PROGRAM, 0x6000), (LIBRARY_SYMBOLS, 0x8000)] {
        let whole = syscollect_fixtures::read(file);
        let offsets: Vec<u64> = (0..0x9000).collect();
        let name =
            |bytes: Vec<u8>, length| Pdb::open(Cursor::new(bytes)).unwrap().name(&offsets, length);
        let expected = name(whole.clone(), 0).unwrap();
        let bare = without_section_headers(whole);
        assert_ne!(expected.symbols, []);
        assert_eq!(name(bare.clone(), image_length).unwrap(), expected, "{file}");
        for (length, why) in
            [(image_length + 0x1000, "no section headers"), (0, "does not say how long")]
        {
            let reason = name(bare.clone(), length).unwrap_err().to_string();
            assert!(reason.contains(why), "{reason}");
        }
    }
}
