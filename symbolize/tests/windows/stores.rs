//! Where symbol files lie, and which of them are taken.

use crate::common::{library, library_pdb, name, path, request};
use std::fs;
use std::path::Path;
use syscollect_symbolize::windows::{Options, PdbIdentity};

const NAME: &str = "library.pdb";

fn put(from: &Path, to: &Path) {
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::copy(from, to).unwrap();
}

#[test]
fn stores_of_one_and_of_two_tiers_have_a_folder_for_each_build() {
    let library = library();
    let key = library_pdb().store_key();
    assert_eq!(key, "00112233445566778899AABBCCDDEEFF3");
    for place in [
        format!("{NAME}/{key}/{NAME}"),
        format!("li/{NAME}/{key}/{NAME}"),
        format!("{NAME}/{}/{NAME}", key.to_lowercase()),
    ] {
        let store = tempfile::tempdir().unwrap();
        put(&library.pdb, &store.path().join(&place));
        let table = name(path(&[store.path()]), request(Some(library_pdb()), &[0x1000]));
        assert_eq!((table.symbols.len(), table.note.as_str()), (1, ""), "{place}");
    }
}

#[test]
fn a_symbol_file_of_another_build_is_named_and_not_used() {
    let library = library();
    let store = tempfile::tempdir().unwrap();
    put(&library.pdb, &store.path().join(NAME));
    let other_age = PdbIdentity { age: 2, ..library_pdb() };
    let other_guid = PdbIdentity { guid: [7; 16], ..library_pdb() };
    for other in [other_age, other_guid] {
        let table = name(path(&[store.path()]), request(Some(other.clone()), &[0x1000]));
        assert!(table.symbols.is_empty());
        let build =
            format!("another build, {}, not {}", library_pdb().store_key(), other.store_key());
        assert!(table.note.contains(&build) && table.note.contains(NAME), "{}", table.note);
    }
}

#[test]
fn another_build_in_the_first_directory_does_not_hide_the_right_one_in_the_second() {
    let library = library();
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(first.path().join(NAME), "something else").unwrap();
    put(&library.pdb, &second.path().join(NAME));
    let table = name(path(&[first.path(), second.path()]), request(Some(library_pdb()), &[0x1000]));
    assert_eq!(table.symbols.len(), 1);
    assert!(table.note.contains(&first.path().display().to_string()), "{}", table.note);
}

#[test]
fn a_compressed_or_an_overlong_file_is_told_of() {
    let library = library();
    let store = tempfile::tempdir().unwrap();
    let folder = store.path().join(NAME).join(library_pdb().store_key());
    put(&library.pdb, &folder.join("library.pd_"));
    let table = name(path(&[store.path()]), request(Some(library_pdb()), &[0x1000]));
    assert!(table.symbols.is_empty() && table.note.contains("compressed"), "{}", table.note);
    put(&library.pdb, &folder.join(NAME));
    let options =
        Options { path: path(&[store.path()]), file_bytes_max: 1000, ..Options::default() };
    let table = crate::common::name_with(options, request(Some(library_pdb()), &[0x1000]));
    assert!(table.symbols.is_empty() && table.note.contains("the limit is 1000"), "{}", table.note);
}

#[test]
fn a_trace_names_files_and_not_the_way_to_them() {
    let library = library();
    let store = tempfile::tempdir().unwrap();
    let inner = store.path().join("inner");
    fs::create_dir(&inner).unwrap();
    put(&library.pdb, &store.path().join(NAME));
    for odd in [
        format!("..\\..\\{NAME}"),
        format!("../{NAME}"),
        store.path().join(NAME).display().to_string(),
    ] {
        let pdb = PdbIdentity { name: odd, ..library_pdb() };
        let table = name(path(&[&inner]), request(Some(pdb), &[0x1000]));
        assert!(
            table.symbols.is_empty() && table.note.contains("not in any directory"),
            "{}",
            table.note
        );
    }
    let pdb = PdbIdentity { name: "..".into(), ..library_pdb() };
    assert!(
        name(path(&[&inner]), request(Some(pdb), &[0x1000]))
            .note
            .contains("no name of a symbol file")
    );
}
