//! Files that change while they are held.

use crate::common::{Running, mapped, replace};
use std::io::Write;
use std::os::fd::FromRawFd;
use std::path::{Path, PathBuf};
use syscollect_model::{BuildId, Mapping, SymbolTable};
use syscollect_symbolize::{PinnedFiles, Symbolizer};

/// libc is everywhere, has a build id, and exports this.
fn a_function() -> (PathBuf, u64) {
    let address = libc::getpid as *const () as u64;
    let libc = mapped(address);
    (libc.path.clone().into(), libc.offset(address))
}

fn copy_to(folder: &Path) -> PathBuf {
    let path = folder.join("lib.so");
    std::fs::copy(a_function().0, &path).unwrap();
    path
}

fn name(pinned: PinnedFiles, path: &str, build_id: &BuildId) -> SymbolTable {
    Symbolizer::new(pinned).name_module(path, build_id, &[a_function().1])
}

fn has_the_name(table: &SymbolTable) -> bool {
    table.symbols.iter().any(|s| s.frames.iter().any(|frame| frame.function.contains("getpid")))
}

#[test]
fn a_file_that_is_replaced_or_deleted_is_named_from_what_is_held() {
    let folder = tempfile::tempdir().unwrap();
    let path = copy_to(folder.path());
    let mut running = Running::map(&path);
    let mut pinned = PinnedFiles::new();
    assert!(pinned.pin(&mut running.mapping, None), "{:?}", running.mapping);
    let build_id = running.mapping.build_id.clone();
    assert!(!build_id.is_empty(), "{:?}", running.mapping);
    replace(&path, b"something else");
    let unheld = name(PinnedFiles::new(), &running.mapping.path, &build_id);
    assert!(unheld.symbols.is_empty() && unheld.note.contains("another build"), "{}", unheld.note);
    std::fs::remove_file(&path).unwrap();
    let table = name(pinned, &running.mapping.path, &build_id);
    assert!(has_the_name(&table), "{table:?}");
    assert_eq!(table.note, "");
}

#[test]
fn a_file_that_was_replaced_before_it_is_held_is_found_through_its_mapping() {
    let folder = tempfile::tempdir().unwrap();
    let path = copy_to(folder.path());
    let mut running = Running::map(&path);
    std::fs::remove_file(&path).unwrap();
    let mut pinned = PinnedFiles::new();
    let is_pinned = pinned.pin(&mut running.mapping, None);
    // Without the capability to follow map_files it cannot be found, and that is said.
    let privileged = std::fs::metadata(format!("/proc/self/map_files/{}", range(&running))).is_ok();
    assert_eq!(is_pinned, privileged);
    let table = name(pinned, &running.mapping.path, &running.mapping.build_id);
    assert_eq!(has_the_name(&table), privileged, "{table:?}");
}

#[test]
fn a_program_that_lies_in_memory_alone_is_found_through_its_mapping() {
    let mut running = in_memory(&std::fs::read(a_function().0).unwrap());
    assert!(running.mapping.path.starts_with("/memfd:program"), "{:?}", running.mapping);
    let mut pinned = PinnedFiles::new();
    let is_pinned = pinned.pin(&mut running.mapping, None);
    let privileged = std::fs::metadata(format!("/proc/self/map_files/{}", range(&running))).is_ok();
    assert_eq!(is_pinned, privileged);
    let Mapping { path, build_id, .. } = &running.mapping;
    let unheld = name(PinnedFiles::new(), path, build_id);
    assert!(unheld.note.contains("memory alone"), "{}", unheld.note);
    let table = name(pinned, path, build_id);
    assert_eq!(has_the_name(&table), privileged, "{table:?}");
    // What a program makes there itself is not kept in its place.
    let mut made = in_memory(&[0x90; 4096]);
    let mut pinned = PinnedFiles::new();
    assert_eq!(pinned.pin(&mut made.mapping, None), privileged);
    assert!(pinned.file(&made.mapping.path, &BuildId::default()).is_none());
    // It is told once, so that nobody waits for tables of it.
    assert_eq!(pinned.take_new().is_some(), privileged);
    assert_eq!(pinned.pin(&mut made.mapping, None), privileged);
    assert!(pinned.take_new().is_none());
}

#[test]
fn of_a_program_that_makes_code_in_a_file_the_first_mapping_is_looked_at() {
    let mut made = in_memory(&[0x90; 4096]);
    made.mapping.path = "/memfd:vmem (deleted)".to_owned();
    let mut pinned = PinnedFiles::new();
    assert!(made.mapping.is_generated() && pinned.is_to_pin(&made.mapping, None));
    pinned.pin(&mut made.mapping, None);
    assert!(!pinned.is_to_pin(&made.mapping, None));
    // After it has run exec, it is another program.
    pinned.forget_code_lists(made.mapping.pid);
    assert!(pinned.is_to_pin(&made.mapping, None));
    let anonymous = Mapping { path: "//anon".to_owned(), ..made.mapping.clone() };
    assert!(!pinned.is_to_pin(&anonymous, None));
}

fn in_memory(bytes: &[u8]) -> Running {
    // SAFETY: the name ends with a zero byte.
    let descriptor = unsafe { libc::memfd_create(c"program".as_ptr(), libc::MFD_CLOEXEC) };
    assert!(descriptor >= 0, "{}", std::io::Error::last_os_error());
    // SAFETY: nobody else has it.
    let mut file = unsafe { std::fs::File::from_raw_fd(descriptor) };
    file.write_all(bytes).unwrap();
    Running::map(Path::new(&format!("/proc/self/fd/{descriptor}")))
}

fn range(running: &Running) -> String {
    format!("{:x}-{:x}", running.mapping.start, running.mapping.end)
}

#[test]
fn a_file_that_is_overwritten_in_place_gives_no_names() {
    let folder = tempfile::tempdir().unwrap();
    let path = copy_to(folder.path());
    let mut running = Running::map(&path);
    let mut pinned = PinnedFiles::new();
    pinned.pin(&mut running.mapping, None);
    // Same file, other bytes: this test program in libc's place.
    let other = std::fs::read("/proc/self/exe").unwrap();
    std::fs::write(&path, other).unwrap();
    let table = name(pinned, &running.mapping.path, &running.mapping.build_id);
    assert!(table.symbols.is_empty() && table.note.contains("another build"), "{table:?}");
}

#[test]
fn after_the_process_only_the_recorded_build_is_taken_from_the_path() {
    let folder = tempfile::tempdir().unwrap();
    let path = copy_to(folder.path());
    let running = Running::map(&path);
    let mut mapping_again = running.mapping.clone();
    PinnedFiles::new().pin(&mut mapping_again, None);
    let mapping = &running.mapping;
    let mut pinned = PinnedFiles::new();
    assert!(pinned.pin(&mut of_nobody(mapping, &mapping_again.build_id), None));
    assert!(
        !pinned.is_to_pin(&of_nobody(mapping, &mapping_again.build_id), None),
        "once is enough"
    );
    assert!(pinned.file(&mapping_again.path, &mapping_again.build_id).is_some());
    let anonymous = pinned.pin(&mut of_nobody(mapping, &BuildId::default()), None);
    assert!(!anonymous, "what had no build id could be any file by now");
    assert!(!pinned.pin(&mut of_nobody(mapping, &BuildId::from_bytes(&[3; 20])), None));
}

/// The mapping in a process that is gone: none has this id, the kernel's limit is lower.
fn of_nobody(mapping: &Mapping, build_id: &BuildId) -> Mapping {
    Mapping { pid: 1 << 30, build_id: build_id.clone(), ..mapping.clone() }
}

#[test]
fn two_files_of_one_path_are_told_apart_by_build_id_or_not_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lib.so");
    let whole = std::fs::read(a_function().0).unwrap();
    // The build id's note loses its type, so there is none.
    let id = build_id_in(&whole, folder.path());
    let place =
        whole.windows(id.as_bytes().len()).position(|bytes| bytes == id.as_bytes()).unwrap();
    let mut anonymous = whole.clone();
    anonymous[place - 8] = 0x55;
    let mut pinned = PinnedFiles::new();
    let longer = [anonymous.as_slice(), b"longer"].concat();
    for (bytes, expected) in
        [(whole, id.clone()), (anonymous, BuildId::default()), (longer, BuildId::default())]
    {
        replace(&path, &bytes);
        let mut running = Running::map(&path);
        pinned.pin(&mut running.mapping, None);
        assert_eq!(running.mapping.build_id, expected);
    }
    let path = path.to_str().unwrap();
    assert!(pinned.file(path, &id).is_some());
    assert!(pinned.file(path, &BuildId::default()).is_none());
    let table = name(pinned, path, &BuildId::default());
    assert!(table.symbols.is_empty() && table.note.contains("several files"), "{}", table.note);
}

fn build_id_in(bytes: &[u8], folder: &Path) -> BuildId {
    let path = folder.join("probe");
    std::fs::write(&path, bytes).unwrap();
    syscollect_symbolize::build_id_of(&std::fs::File::open(path).unwrap())
        .expect("libc has a build id")
}

#[test]
fn the_vdso_of_programs_of_other_bitness_is_not_ours() {
    let mut mapping = crate::common::mapped_path("[vdso]").in_process(std::process::id());
    (mapping.start, mapping.end) = (0xf7fc_5000, 0xf7fc_7000);
    let mut pinned = PinnedFiles::new();
    assert!(!pinned.pin(&mut mapping, None) && mapping.build_id.is_empty());
}

#[test]
fn memory_without_a_file_is_neither_held_nor_missing() {
    let mut mapping = crate::common::mapped_path("[vdso]").in_process(std::process::id());
    let mut pinned = PinnedFiles::new();
    for path in ["//anon", "[heap]", "/dev/zero"] {
        mapping.path = path.into();
        assert!(!pinned.is_to_pin(&mapping, None) && pinned.pin(&mut mapping, None), "{path}");
    }
}
