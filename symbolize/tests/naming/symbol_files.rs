//! Files with symbols that the user names: whatever they are called, their build id decides.

use crate::common::mapped;
use crate::links::{Libc, fifo, folder, has_the_name};
use std::collections::HashSet;
use std::fs;
use std::ops::Range;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;
use syscollect_fixtures::elf::debug_file;
use syscollect_model::{BuildId, SymbolTable};
use syscollect_symbolize::{
    ModuleRequest, Options, PinnedFiles, SearchError, SearchLimits, SymbolFiles, Symbolizer,
};

/// Where the code of libc lies in its file.
fn code_of_libc() -> Range<u64> {
    let code = mapped(libc::getpid as *const () as u64);
    code.file_offset..code.file_offset + (code.end - code.start)
}

fn search(
    path: &Path,
    wanted: &BuildId,
    limits: &SearchLimits,
) -> (SymbolFiles, Option<SearchError>) {
    let mut files = SymbolFiles::default();
    let wanted = HashSet::from_iter([wanted.clone()]);
    let error = files.search(path, &wanted, limits, &|| false).err();
    (files, error)
}

/// Names a function of libc as a machine would that has nothing of it but what lies in a folder.
fn name(libc: &Libc, path: &Path, code: &[Range<u64>]) -> SymbolTable {
    let (symbol_files, error) = search(path, &libc.build_id, &SearchLimits::default());
    assert!(error.is_none(), "{error:?}");
    let options = Options { symbol_files, debug_dirs: Vec::new(), ..Options::default() };
    let request = ModuleRequest {
        path: "/not/here/libc.so.6".into(),
        build_id: libc.build_id.clone(),
        mapped: code.to_vec(),
        offsets: vec![libc.offset],
        ..ModuleRequest::default()
    };
    let mut symbolizer = Symbolizer::with_options(PinnedFiles::new(), options);
    symbolizer.name_modules(&[request]).remove(0)
}

#[test]
fn a_file_is_found_by_its_build_id_whatever_it_is_called_and_wherever_it_lies() {
    let (libc, (_kept, folder)) = (Libc::read(), folder());
    assert!(!has_the_name(&name(&libc, &folder, &[])));
    let digits = libc.build_id.to_string();
    let paths = [
        "libc".to_owned(),
        "a/b/c d/notes.txt".to_owned(),
        format!(".build-id/{}/{}.debug", &digits[..2], &digits[2..]),
        format!("{digits}/debuginfo"),
    ];
    for place in paths {
        let path = folder.join(&place);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &libc.bytes).unwrap();
        let table = name(&libc, &folder, &[]);
        assert!(has_the_name(&table) && table.note.is_empty(), "{place}: {table:?}");
        assert!(has_the_name(&name(&libc, &path, &[])), "a file may be named itself");
        fs::remove_file(path).unwrap();
    }
}

#[test]
fn a_file_of_another_build_is_never_used() {
    let (libc, (_kept, folder)) = (Libc::read(), folder());
    let id = libc.build_id.as_bytes();
    let place = libc.bytes.windows(id.len()).position(|bytes| bytes == id).unwrap();
    let mut other = libc.bytes.clone();
    other[place] ^= 1;
    let digits = libc.build_id.to_string();
    let path = folder.join(format!(".build-id/{}/{}.debug", &digits[..2], &digits[2..]));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, &other).unwrap();
    let table = name(&libc, &folder, &[code_of_libc()]);
    assert!(table.symbols.is_empty() && !table.note.is_empty(), "{table:?}");
    // It was the right one when it was found, and is another when it is asked.
    fs::write(&path, &libc.bytes).unwrap();
    let (symbol_files, _) = search(&folder, &libc.build_id, &SearchLimits::default());
    assert!(symbol_files.has_symbols_of(&libc.build_id));
    fs::write(&path, &other).unwrap();
    let options = Options { symbol_files, debug_dirs: Vec::new(), ..Options::default() };
    let mut symbolizer = Symbolizer::with_options(PinnedFiles::new(), options);
    let table = symbolizer.name_module("/not/here/libc.so.6", &libc.build_id, &[libc.offset]);
    assert!(table.symbols.is_empty(), "{table:?}");
}

#[test]
fn a_debug_file_alone_names_code_where_the_mappings_say_where_it_lay() {
    let (libc, (_kept, folder)) = (Libc::read(), folder());
    fs::write(folder.join("libc.debug"), debug_file(&libc.bytes)).unwrap();
    let code = code_of_libc();
    let table = name(&libc, &folder, std::slice::from_ref(&code));
    assert!(has_the_name(&table) && table.note.is_empty(), "{table:?}");
    assert_eq!(table.symbols[0].start, libc.offset, "as an offset in the file that ran");
    let more = code.start..code.end + 0x10_0000;
    let moved = code.start + 0x1000..code.end + 0x1000;
    let page = code.start..code.start + 0x1000;
    for mapped in [vec![], vec![page], vec![more], vec![code.clone(), moved]] {
        let table = name(&libc, &folder, &mapped);
        assert!(table.symbols.is_empty(), "no name is better than a wrong one: {table:?}");
        assert!(table.note.contains("where its code lay"), "{}", table.note);
    }
    // With the stripped file beside it nothing has to be told.
    fs::write(folder.join("libc.stripped"), libc.leading(".comment", b"")).unwrap();
    let table = name(&libc, &folder, &[]);
    assert!(has_the_name(&table) && table.note.is_empty(), "{table:?}");
}

#[test]
fn a_search_ends_whatever_lies_there_and_leads_nowhere_else() {
    let (libc, (_kept, root)) = (Libc::read(), folder());
    let folder = root.join("folder");
    fs::create_dir_all(folder.join("a/b")).unwrap();
    fifo(&folder.join("fifo"));
    symlink("..", folder.join("a/b/again")).unwrap();
    symlink("/dev/zero", folder.join("zero")).unwrap();
    fs::write(root.join("libc"), &libc.bytes).unwrap();
    symlink("../libc", folder.join("out")).unwrap();
    assert!(!has_the_name(&name(&libc, &folder, &[])), "a link leads out of the folder");
    fs::write(folder.join("a/b/libc"), &libc.bytes).unwrap();
    assert!(has_the_name(&name(&libc, &folder, &[])));
    let limits = SearchLimits { entries: 2, ..SearchLimits::default() };
    let (_, error) = search(&folder, &libc.build_id, &limits);
    assert!(matches!(error, Some(SearchError::TooMany(2))), "{error:?}");
    let limits = SearchLimits { time: Duration::ZERO, ..SearchLimits::default() };
    let (_, error) = search(&folder, &libc.build_id, &limits);
    assert!(matches!(error, Some(SearchError::TooLong(_))), "{error:?}");
    let limits = SearchLimits { depth: 1, ..SearchLimits::default() };
    let (files, error) = search(&folder, &libc.build_id, &limits);
    assert!(error.is_none() && !files.has_symbols_of(&libc.build_id), "deeper folders are left");
    let (_, error) = search(&root.join("nowhere"), &libc.build_id, &SearchLimits::default());
    assert!(matches!(error, Some(SearchError::Unreadable(_))), "{error:?}");
    let (_, error) = search(&folder.join("fifo"), &libc.build_id, &SearchLimits::default());
    assert!(matches!(error, Some(SearchError::NotOpened(_))), "{error:?}");
}

#[test]
fn what_debug_files_have_in_common_is_looked_for_by_its_build_id() {
    let (libc, (_kept, folder)) = (Libc::read(), folder());
    let id = [9; 20];
    // A link with no build id, or with more than one has, leads nowhere.
    for id in [&[][..], &[9; 21]] {
        assert!(with_supplement(&libc, &folder, id).missing_supplements().is_empty());
    }
    let mut files = with_supplement(&libc, &folder, &id);
    let supplement = BuildId::from_bytes(&id);
    assert_eq!(files.missing_supplements(), HashSet::from_iter([supplement.clone()]));
    assert_eq!(files.missing_supplement_of(&libc.build_id), Some(supplement.clone()));
    let own = libc.build_id.as_bytes();
    let place = libc.bytes.windows(own.len()).position(|bytes| bytes == own).unwrap();
    let mut common = libc.bytes.clone();
    common[place..place + 20].copy_from_slice(&id);
    fs::write(folder.join("whatever"), common).unwrap();
    let wanted = files.missing_supplements();
    files.search(&folder, &wanted, &SearchLimits::default(), &|| false).unwrap();
    assert!(files.missing_supplements().is_empty() && files.has_symbols_of(&supplement));
}

/// The files of a folder with a debug file that leads to one with the build id `id`.
fn with_supplement(libc: &Libc, folder: &Path, id: &[u8]) -> SymbolFiles {
    let link = [b"../../elsewhere/libc.dwz\0".as_slice(), id].concat();
    fs::write(folder.join("libc.debug"), libc.leading(".gnu_debugaltlink", &link)).unwrap();
    search(folder, &libc.build_id, &SearchLimits::default()).0
}
