//! What the fixtures' symbol files say.

use crate::common::{fixtures, guid, library, library_pdb, name, path, request};
use crate::streams;
use std::fs::{self, File};
use std::io::Cursor;
use syscollect_symbolize::windows::{Image, ImageRequest, Pdb, PdbIdentity};

#[test]
fn a_place_has_the_function_file_and_line_that_its_symbol_file_states() {
    let Some(library) = library() else { return };
    let store = tempfile::tempdir().unwrap();
    fs::copy(&library.pdb, store.path().join("test_types_x64.dll.pdb")).unwrap();
    let table =
        name(path(&[store.path()]), request(Some(library_pdb()), &[0x1000, 0x1001, 0x40, 1 << 40]));
    assert_eq!(table.note, "");
    assert_eq!(table.build_id.as_bytes(), [7; 20]);
    let first = &table.symbols[0];
    assert_eq!((first.offset, first.start), (0x1000, 0x1000));
    assert!(first.size > 1);
    let frame = &first.frames[0];
    assert_eq!(
        (frame.function.as_str(), frame.line),
        ("EntryPoint(void*, unsigned long, void*)", 20)
    );
    assert!(frame.file.ends_with("test_types_main.cc"), "{}", frame.file);
    assert_eq!(
        table.symbols.iter().map(|symbol| symbol.offset).collect::<Vec<_>>(),
        [0x1000, 0x1001]
    );
}

#[test]
fn a_symbol_file_knows_its_functions_by_guid_and_age() {
    let Some(folder) = fixtures() else { return };
    let file = || File::open(folder.join("perfview-CppCon.pdb")).unwrap();
    let pdb = Pdb::open(file()).unwrap();
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

/// The symbol file without the stream of section headers, as those of precompiled .NET images are.
fn without_section_headers(mut file: Vec<u8>) -> Vec<u8> {
    const DEBUG_INFORMATION: u32 = 3;
    const HEADER: usize = 64;
    let places = streams::places(&file, DEBUG_INFORMATION);
    let word = |at: usize| {
        let bytes: Vec<u8> = places[at..at + 4].iter().map(|place| file[*place]).collect();
        u32::from_le_bytes(bytes.try_into().unwrap()) as usize
    };
    // Modules, contributions, map of sections, files, types; the further numbers of streams lie
    // behind one more part.
    let before: usize = (0..5).map(|part| word(24 + 4 * part)).sum::<usize>() + word(52);
    let number = HEADER + before + 2 * 5;
    places[number..number + 2].iter().for_each(|place| file[*place] = 0xff);
    file
}

#[test]
fn a_symbol_file_without_section_headers_names_an_image_whose_length_agrees_with_its_sections() {
    let Some(folder) = fixtures() else { return };
    for (file, image_length) in
        [("perfview-CppCon.pdb", 0x6000), ("syzygy-test_types_x64.dll.pdb", 0x8000)]
    {
        let whole = fs::read(folder.join(file)).unwrap();
        let offsets: Vec<u64> = (0..0x9000).collect();
        let name =
            |bytes: Vec<u8>, length| Pdb::open(Cursor::new(bytes)).unwrap().name(&offsets, length);
        let expected = name(whole.clone(), 0).unwrap();
        let bare = without_section_headers(whole);
        assert_ne!(expected.symbols, []);
        assert_eq!(name(bare.clone(), image_length).unwrap(), expected, "{file}");
        let reason = |length| name(bare.clone(), length).unwrap_err().to_string();
        assert!(
            reason(image_length + 0x1000).contains("no section headers"),
            "{}",
            reason(image_length + 0x1000)
        );
        assert!(reason(0).contains("does not say how long"), "{}", reason(0));
    }
}

#[test]
fn a_symbol_file_whose_code_cannot_be_placed_says_so_in_the_note() {
    let Some(library) = library() else { return };
    let store = tempfile::tempdir().unwrap();
    let bare = without_section_headers(fs::read(&library.pdb).unwrap());
    fs::write(store.path().join("test_types_x64.dll.pdb"), bare).unwrap();
    let table = name(path(&[store.path()]), request(Some(library_pdb()), &[0x1000]));
    assert_eq!(table.symbols, []);
    assert!(table.note.contains("precompiled .NET images"), "{}", table.note);
    let known = ImageRequest { image_size: 0x8000, ..request(Some(library_pdb()), &[0x1000]) };
    assert_eq!(name(path(&[store.path()]), known).symbols.len(), 1);
}

#[test]
fn an_image_says_what_it_is_known_by() {
    let Some(library) = library() else { return };
    let image = Image::read(File::open(&library.image).unwrap(), 1 << 20).unwrap();
    let PdbIdentity { guid, age, .. } = library_pdb();
    let pdb = image.pdb().unwrap();
    assert_eq!((pdb.guid, pdb.age), (guid, age));
    assert!(image.size() > 0x1000);
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
    let Some(library) = library() else { return };
    let store = tempfile::tempdir().unwrap();
    let request = without_pdb(&library);
    fs::copy(&library.image, store.path().join("test_types_x64.dll")).unwrap();
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
    let Some(library) = library() else { return };
    let store = tempfile::tempdir().unwrap();
    fs::copy(&library.image, store.path().join("test_types_x64.dll")).unwrap();
    let table = name(path(&[store.path()]), without_pdb(&library));
    assert!(table.note.contains("exports"), "{}", table.note);
    let other = ImageRequest { image_timestamp: 1, ..without_pdb(&library) };
    let table = name(path(&[store.path()]), other);
    assert!(table.symbols.is_empty() && table.note.contains("another build"), "{}", table.note);
}

#[test]
fn a_module_that_nothing_is_known_of_is_told_so() {
    let table = name(path(&[]), request(None, &[0x1000]));
    assert!(table.symbols.is_empty());
    assert!(table.note.contains("does not say which symbol file"), "{}", table.note);
}
