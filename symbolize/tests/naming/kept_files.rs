//! What is kept of files for machines that lack them: it gives the names that the files give.

use crate::common::{long, mapped, short};
use crate::links::{Libc, folder, has_the_name};
use proptest::prelude::*;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use syscollect_elf::{Elf, SymbolLimits, abi};
use syscollect_fixtures::elf::debug_file;
use syscollect_fixtures::xz;
use syscollect_model::{BuildId, SymbolTable};
use syscollect_symbolize::{
    FileParts, KeptFileError, KeptFiles, KeptModule, ModuleRequest, Options, PinnedFiles,
    Symbolizer, build_id_of, parts_of_module,
};

/// What is recorded of the file at `path`: where all functions begin, and a place in each.
fn request(path: &Path, build_id: &BuildId) -> ModuleRequest {
    let bytes = fs::read(path).unwrap();
    let elf = Elf::open(&bytes[..]).unwrap();
    let sections = elf.sections().unwrap();
    let limits = SymbolLimits { table: 1 << 30, names: 1 << 30 };
    let mut offsets = Vec::new();
    for kind in [abi::SHT_SYMTAB, abi::SHT_DYNSYM] {
        let Some(symbols) = sections.symbols(kind, &limits).unwrap() else { continue };
        for symbol in symbols.iter().filter(|symbol| symbol.size > 0) {
            let offset = elf.code_offset(symbol.address);
            offsets.extend(offset.into_iter().flat_map(|at| [at, at + symbol.size / 2]));
        }
    }
    offsets.sort_unstable();
    offsets.dedup();
    ModuleRequest {
        path: path.to_str().unwrap().into(),
        build_id: build_id.clone(),
        offsets,
        ..ModuleRequest::default()
    }
}

fn options() -> Options {
    Options { lines: false, debug_dirs: Vec::new(), ..Options::default() }
}

fn parts(request: &ModuleRequest, options: &Options) -> Vec<FileParts> {
    parts_of_module(&PinnedFiles::new(), options, request).unwrap()
}

fn read(parts: &FileParts) -> Vec<(u64, Vec<u8>)> {
    let mut all = Vec::new();
    parts
        .read(|offset: u64, bytes: &[u8]| {
            all.push((offset, bytes.to_vec()));
            Ok::<_, io::Error>(true)
        })
        .unwrap();
    all
}

fn add(
    kept: &mut KeptFiles,
    request: &ModuleRequest,
    (debug, length): (bool, u64),
    parts: Vec<(u64, Vec<u8>)>,
) -> Result<(), KeptFileError> {
    let ModuleRequest { path, build_id, .. } = request;
    kept.add(KeptModule { path, build_id, debug, length }, parts.into_iter().map(Ok))
}

/// What a capture would have of the module.
fn kept(request: &ModuleRequest, of: &Options) -> KeptFiles {
    let mut kept = KeptFiles::default();
    for parts in parts(request, of) {
        add(&mut kept, request, (parts.is_debug(), parts.length()), read(&parts)).unwrap();
    }
    kept
}

fn name(request: &ModuleRequest, kept_files: KeptFiles) -> SymbolTable {
    let options = Options { kept_files, ..options() };
    let mut symbolizer = Symbolizer::with_options(PinnedFiles::new(), options);
    symbolizer.name_modules(std::slice::from_ref(request)).remove(0)
}

/// Names all functions of a file, keeps it, deletes it, and names them again.
fn named_before_and_after(path: &Path, build_id: &BuildId) -> (SymbolTable, SymbolTable) {
    let request = request(path, build_id);
    let before = name(&request, KeptFiles::default());
    let kept = kept(&request, &options());
    fs::remove_file(path).unwrap();
    assert!(!name(&request, KeptFiles::default()).has_names(), "the file is gone");
    let after = name(&request, kept);
    (before, after)
}

#[test]
fn what_is_kept_of_this_program_and_of_libc_names_each_function_as_they_do() {
    let own = std::env::current_exe().unwrap();
    let libc = mapped(libc::getpid as *const () as u64).path;
    for source in [own.to_str().unwrap(), &libc] {
        let (_kept, folder) = folder();
        let path = folder.join("program");
        fs::copy(source, &path).unwrap();
        let build_id = build_id_of(&File::open(&path).unwrap()).unwrap();
        let (before, after) = named_before_and_after(&path, &build_id);
        assert!(before.symbols.len() > 1000, "{}: {}", source, before.symbols.len());
        assert_eq!(before, after, "{source}");
    }
}

#[test]
fn what_is_kept_is_symbols_and_no_code() {
    let (_kept, folder) = folder();
    let path = folder.join("program");
    fs::copy(std::env::current_exe().unwrap(), &path).unwrap();
    let build_id = build_id_of(&File::open(&path).unwrap()).unwrap();
    let request = request(&path, &build_id);
    let [parts] = &parts(&request, &options())[..] else { panic!("one file") };
    let (read, length) = (read(parts), fs::metadata(&path).unwrap().len());
    let bytes: u64 = read.iter().map(|(_, bytes)| bytes.len() as u64).sum();
    assert_eq!((parts.bytes(), parts.length()), (bytes, length));
    let whole = fs::read(&path).unwrap();
    let elf = Elf::open(&whole[..]).unwrap();
    let sections = elf.sections().unwrap();
    for section in sections.iter().filter(|section| section.file_size() > 0) {
        let name = String::from_utf8_lossy(sections.name(section));
        let is_kept = [".symtab", ".strtab", ".dynsym", ".dynstr", ".eh_frame", ".eh_frame_hdr"];
        let is_left = [".text", ".rodata", ".data", ".debug_info", ".debug_line", ".debug_str"];
        if is_kept.contains(&&*name) {
            assert!(is_there(&read, section.offset + section.size - 1), "{name}");
        } else if is_left.contains(&&*name) {
            assert!(!is_there(&read, section.offset + section.size / 2), "{name}");
        }
    }
}

fn is_there(parts: &[(u64, Vec<u8>)], at: u64) -> bool {
    parts.iter().any(|(start, bytes)| (*start..start + bytes.len() as u64).contains(&at))
}

#[test]
fn a_stripped_file_is_known_by_its_compressed_symbols_and_by_ranges() {
    let libc = Libc::read();
    for (section, has_names) in [(xz::stream(&libc.bytes), true), (Vec::new(), false)] {
        let (_kept, folder) = folder();
        let path = folder.join("lib.so");
        fs::write(&path, libc.leading(".gnu_debugdata", &section)).unwrap();
        let request = ModuleRequest {
            path: path.to_str().unwrap().into(),
            build_id: libc.build_id.clone(),
            offsets: vec![libc.offset],
            ..ModuleRequest::default()
        };
        let (before, kept) = (name(&request, KeptFiles::default()), kept(&request, &options()));
        fs::remove_file(&path).unwrap();
        let after = name(&request, kept);
        assert_eq!(before, after);
        assert_eq!((has_the_name(&after), after.has_ranges_only()), (has_names, !has_names));
    }
}

#[test]
fn a_debug_file_that_the_recorded_machine_has_is_kept_beside_the_stripped_one() {
    let (libc, (_kept, folder)) = (Libc::read(), folder());
    let (path, digits) = (folder.join("lib.so"), libc.build_id.to_string());
    fs::write(&path, libc.leading(".none", b"")).unwrap();
    let dirs = folder.join("debug");
    let debug = dirs.join(format!(".build-id/{}/{}.debug", &digits[..2], &digits[2..]));
    fs::create_dir_all(debug.parent().unwrap()).unwrap();
    fs::write(&debug, debug_file(&libc.bytes)).unwrap();
    let request = ModuleRequest {
        path: path.to_str().unwrap().into(),
        build_id: libc.build_id.clone(),
        offsets: vec![libc.offset],
        ..ModuleRequest::default()
    };
    let there = Options { debug_dirs: vec![dirs.clone()], ..options() };
    let kept = kept(&request, &there);
    assert_eq!(kept.len(), 1, "one module, of two files");
    fs::remove_file(&path).unwrap();
    fs::remove_dir_all(&dirs).unwrap();
    assert!(has_the_name(&name(&request, kept)));
}

#[test]
fn a_file_without_a_build_id_is_the_captures_and_not_what_lies_at_its_path() {
    let (libc, (_kept, folder)) = (Libc::read(), folder());
    let path = folder.join("lib.so");
    let anonymous = libc.without_build_id();
    fs::write(&path, &anonymous).unwrap();
    let request = ModuleRequest {
        path: path.to_str().unwrap().into(),
        offsets: vec![libc.offset],
        ..ModuleRequest::default()
    };
    let kept = kept(&request, &options());
    // On the other machine another program has this path.
    fs::copy(std::env::current_exe().unwrap(), &path).unwrap();
    assert!(!has_the_name(&name(&request, KeptFiles::default())));
    assert!(has_the_name(&name(&request, kept)));
}

#[test]
fn a_file_that_lies_about_its_sections_is_kept_as_far_as_it_goes() {
    let (libc, (_kept, folder)) = (Libc::read(), folder());
    let path = folder.join("lib.so");
    let mut bytes = libc.bytes.clone();
    // All sections claim to begin at the file's begin and to have gigabytes.
    let (table, count) = (long(&libc.bytes, 40), short(&libc.bytes, 60));
    for row in 1..count - 1 {
        let at = table + row * 64;
        bytes[at + 24..at + 32].fill(0);
        bytes[at + 32..at + 40].copy_from_slice(&(8_u64 << 30).to_le_bytes());
    }
    fs::write(&path, &bytes).unwrap();
    let request = ModuleRequest {
        path: path.to_str().unwrap().into(),
        build_id: libc.build_id.clone(),
        offsets: vec![libc.offset],
        ..ModuleRequest::default()
    };
    for parts in parts(&request, &options()) {
        assert!(parts.bytes() <= 2 * bytes.len() as u64, "each byte once");
        let read: usize = read(&parts).iter().map(|(_, bytes)| bytes.len()).sum();
        assert_eq!(read as u64, parts.bytes());
    }
}

#[test]
fn code_without_a_file_has_nothing_to_keep_and_a_file_that_is_gone_says_so() {
    for without in ["/memfd:x", "[anonymous]", "//anon", "[vdso]", "/dev/dri/card0"] {
        assert_eq!(parts_of(without), Ok(0), "{without}");
    }
    let error = parts_of("/not/here/program").unwrap_err();
    assert!(error.contains("cannot be opened"), "{error}");
}

fn parts_of(path: &str) -> Result<usize, String> {
    let request = ModuleRequest { path: path.into(), ..ModuleRequest::default() };
    parts_of_module(&PinnedFiles::new(), &options(), &request).map(|parts| parts.len())
}

#[test]
fn a_file_that_shrinks_meanwhile_is_an_error() {
    let (libc, (_kept, folder)) = (Libc::read(), folder());
    let path = folder.join("lib.so");
    fs::write(&path, &libc.bytes).unwrap();
    let request = request(&path, &libc.build_id);
    let parts = parts(&request, &options()).remove(0);
    File::options().write(true).open(&path).unwrap().set_len(4096).unwrap();
    let read = parts.read(|_, _| Ok::<_, io::Error>(true));
    assert_eq!(read.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
}

#[test]
fn what_a_capture_claims_of_a_file_is_checked_and_bounded() {
    let (libc, (_kept, folder)) = (Libc::read(), folder());
    let path = folder.join("lib.so");
    fs::write(&path, &libc.bytes).unwrap();
    let request = request(&path, &libc.build_id);
    let parts = parts(&request, &options()).remove(0);
    let (all, length) = (read(&parts), parts.length());
    let mut kept = KeptFiles::within(64 << 20);
    let outside =
        [(100, all.clone()), (u64::MAX, all.clone()), (length, vec![(u64::MAX, vec![0; 8])])];
    for (length, parts) in outside {
        let error = add(&mut kept, &request, (false, length), parts).unwrap_err();
        assert!(matches!(error, KeptFileError::Outside(_)), "{error}");
    }
    // A hole costs nothing, and bytes here and there cost the pages that they lie in.
    let scattered = (0..1 << 15).map(|page| (page * 4096, vec![1])).collect();
    // What was refused is paid for: a capture may claim any number of such files.
    for (length, parts) in [(1 << 40, scattered), (length, all.clone())] {
        let error = add(&mut kept, &request, (false, length), parts).unwrap_err();
        assert!(matches!(error, KeptFileError::TooLarge(_)), "{error}");
    }
    let mut kept = KeptFiles::within(64 << 20);
    let another = ModuleRequest { build_id: BuildId::from_bytes(&[7; 20]), ..request.clone() };
    let error = add(&mut kept, &another, (false, length), all.clone()).unwrap_err();
    assert!(matches!(error, KeptFileError::AnotherBuild { .. }), "{error}");
    assert!(kept.is_empty());
    add(&mut kept, &request, (false, length), all).unwrap();
    assert_eq!(kept.len(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn whatever_a_capture_has_of_a_file_it_names_that_or_nothing(
        changes in prop::collection::vec((0_usize..64, any::<prop::sample::Index>(), any::<u8>()), 0..24),
        left_out in prop::collection::vec(0_usize..16, 0..3),
    ) {
        let (libc, (_kept, folder)) = (Libc::read(), folder());
        let path = folder.join("lib.so");
        fs::write(&path, &libc.bytes).unwrap();
        let request = ModuleRequest {
            path: path.to_str().unwrap().into(),
            build_id: libc.build_id.clone(),
            offsets: (libc.offset..libc.offset + 0x4000).step_by(61).collect(),
            ..ModuleRequest::default()
        };
        let parts = parts(&request, &options()).remove(0);
        let (mut all, length) = (read(&parts), parts.length());
        for (part, at, byte) in changes {
            let part = part % all.len();
            let bytes = &mut all[part].1;
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        for part in left_out {
            all.remove(part % all.len());
        }
        fs::remove_file(&path).unwrap();
        let mut kept = KeptFiles::default();
        if add(&mut kept, &request, (false, length), all).is_ok() {
            let table = name(&request, kept);
            for symbol in &table.symbols {
                prop_assert!(request.offsets.contains(&symbol.offset) && !symbol.frames.is_empty());
            }
        }
    }
}
