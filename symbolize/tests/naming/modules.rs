//! Naming code of user modules: of this very program, of libc, of the vDSO.

use crate::common::{mapped, mapped_path};
use proptest::prelude::*;
use std::fs::File;
use std::path::Path;
use syscollect_model::{BuildId, Symbol, SymbolTable};
use syscollect_symbolize::{ModuleRequest, Options, PinnedFiles, Symbolizer, build_id_of};

/// The address of the code that runs here.
#[inline(always)]
fn here() -> u64 {
    let address: u64;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reads the instruction pointer and touches nothing else.
    unsafe {
        std::arch::asm!("lea {}, [rip]", out(reg) address, options(nomem, nostack));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: reads the instruction pointer and touches nothing else.
    unsafe {
        std::arch::asm!("adr {}, .", out(reg) address, options(nomem, nostack));
    }
    address
}

const INNER_LINE: u32 = line!() + 3;
#[inline(always)]
fn inner() -> u64 {
    std::hint::black_box(here())
}

const OUTER_LINE: u32 = line!() + 3;
#[inline(never)]
fn outer() -> u64 {
    std::hint::black_box(inner())
}

fn build_id(path: &str) -> BuildId {
    build_id_of(&File::open(path).unwrap()).unwrap_or_default()
}

fn name_address(symbolizer: &mut Symbolizer, address: u64) -> (SymbolTable, u64) {
    let module = mapped(address);
    let offset = module.offset(address);
    (symbolizer.name_module(&module.path, &build_id(&module.path), &[offset]), offset)
}

fn only(table: &SymbolTable) -> &Symbol {
    assert_eq!(table.symbols.len(), 1, "one offset, one symbol; note: {}", table.note);
    &table.symbols[0]
}

#[test]
fn an_inlined_function_shows_with_its_callers_and_their_lines() {
    let (table, offset) = name_address(&mut Symbolizer::new(PinnedFiles::new()), outer());
    let symbol = only(&table);
    let frames: Vec<(&str, u32)> =
        symbol.frames.iter().map(|f| (f.function.as_str(), f.line)).collect();
    assert!(frames[0].0.ends_with("modules::here"), "{frames:?}");
    assert!(frames[1].0.ends_with("modules::inner") && frames[1].1 == INNER_LINE, "{frames:?}");
    assert!(frames[2].0.ends_with("modules::outer") && frames[2].1 == OUTER_LINE, "{frames:?}");
    assert_eq!(frames.len(), 3, "{frames:?}");
    assert!(
        symbol.frames.iter().all(|frame| frame.file.ends_with("symbolize/tests/naming/modules.rs")),
        "{symbol:?}"
    );
    let start = outer as fn() -> u64 as usize as u64;
    assert_eq!(symbol.start, mapped(start).offset(start), "the start is a file offset too");
    assert!(
        (symbol.start..symbol.start + symbol.size).contains(&offset),
        "{symbol:?} at {offset:#x}"
    );
}

#[test]
fn without_lines_the_function_alone_is_named() {
    let options = Options { lines: false, ..Options::default() };
    let (table, _) =
        name_address(&mut Symbolizer::with_options(PinnedFiles::new(), options), outer());
    let [frame] = only(&table).frames.as_slice() else { panic!("one frame: {table:?}") };
    assert!(frame.function.ends_with("modules::outer") && frame.line == 0, "{frame:?}");
}

#[test]
fn too_much_debug_information_is_left_aside_and_the_note_says_so() {
    let options = Options { debug_bytes_max: 1000, ..Options::default() };
    let (table, _) =
        name_address(&mut Symbolizer::with_options(PinnedFiles::new(), options), outer());
    assert_eq!(only(&table).frames.len(), 1);
    assert!(table.note.contains("the limit is 1000"), "{}", table.note);
}

#[test]
fn libc_functions_have_names() {
    let (table, _) =
        name_address(&mut Symbolizer::new(PinnedFiles::new()), libc::getpid as *const () as u64);
    let symbol = only(&table);
    assert!(symbol.frames.iter().any(|frame| frame.function.contains("getpid")), "{symbol:?}");
    assert_eq!(symbol.start, symbol.offset, "a function's address is its start");
}

#[test]
fn the_vdso_is_named_from_a_copy() {
    let vdso = mapped_path("[vdso]");
    let mut mapping = vdso.in_process(std::process::id());
    let mut pinned = PinnedFiles::new();
    pinned.pin(&mut mapping, None);
    assert!(!mapping.build_id.is_empty(), "the vDSO has a build id");
    assert!(pinned.file("[vdso]", &mapping.build_id).is_some());
    let offsets: Vec<u64> = (0..vdso.end - vdso.start).step_by(16).collect();
    let table = Symbolizer::new(pinned).name_module("[vdso]", &mapping.build_id, &offsets);
    let mut frames = table.symbols.iter().flat_map(|symbol| &symbol.frames);
    assert!(frames.any(|frame| frame.function.contains("clock_gettime")), "{table:?}");
    let unheld =
        Symbolizer::new(PinnedFiles::new()).name_module("[vdso]", &mapping.build_id, &offsets);
    assert_eq!(unheld, table, "the running kernel's is as good, if the build id is the same");
    let other = Symbolizer::new(PinnedFiles::new()).name_module(
        "[vdso]",
        &BuildId::from_bytes(&[7; 20]),
        &offsets,
    );
    assert!(other.symbols.is_empty() && other.note.contains("build id"), "{}", other.note);
}

#[test]
fn another_build_is_never_asked() {
    let libc = mapped(libc::getpid as *const () as u64);
    let offset = libc.offset(libc::getpid as *const () as u64);
    let wrong = BuildId::from_bytes(&[0xab; 20]);
    let table = Symbolizer::new(PinnedFiles::new()).name_module(&libc.path, &wrong, &[offset]);
    assert_eq!(table.symbols, []);
    assert!(
        table.note.contains("another build") && table.note.contains(&wrong.to_string()),
        "{}",
        table.note
    );
}

#[test]
fn code_without_a_file_has_a_note_and_no_names() {
    let mut symbolizer = Symbolizer::new(PinnedFiles::new());
    for path in [
        "//anon",
        "[heap]",
        "[anon:jit]",
        "/memfd:doublemapper (deleted)",
        "anon_inode:[perf_event]",
        "",
    ] {
        let table = symbolizer.name_module(path, &BuildId::default(), &[0x1000]);
        assert_eq!(table.symbols, []);
        assert!(table.note.contains("JIT"), "{path}: {}", table.note);
    }
}

#[test]
fn a_file_that_is_gone_has_a_note() {
    let table =
        Symbolizer::new(PinnedFiles::new()).name_module("/no/such/file", &BuildId::default(), &[1]);
    assert!(table.symbols.is_empty() && table.note.contains("/no/such/file"), "{}", table.note);
}

#[test]
fn data_is_not_code() {
    let path = mapped(outer as fn() -> u64 as usize as u64).path;
    let table = Symbolizer::new(PinnedFiles::new()).name_module(
        &path,
        &build_id(&path),
        &[0, 16, u64::MAX],
    );
    assert_eq!(table.symbols, []);
}

#[test]
fn many_modules_at_once_give_what_each_gives_alone() {
    let mut symbolizer = Symbolizer::new(PinnedFiles::new());
    let mut requests = vec![request(outer()), request(libc::getpid as *const () as u64)];
    requests.push(ModuleRequest { path: "[heap]".into(), ..ModuleRequest::default() });
    let together = symbolizer.name_modules(&requests);
    let alone: Vec<SymbolTable> =
        requests.iter().map(|r| symbolizer.name_module(&r.path, &r.build_id, &r.offsets)).collect();
    assert_eq!(together, alone);
    assert_eq!(together[0].symbols.len(), 2);
    assert!(together[0].symbols[0].offset < together[0].symbols[1].offset);
    assert_eq!(symbolizer.name_modules(&[]), []);
}

fn request(address: u64) -> ModuleRequest {
    let module = mapped(address);
    let offset = module.offset(address);
    // In no order and twice: the table is in order and has each once.
    let offsets = vec![offset + 1, offset, offset + 1];
    let build_id = build_id(&module.path);
    ModuleRequest { path: module.path, build_id, offsets, ..ModuleRequest::default() }
}

#[test]
fn a_file_cut_short_gives_a_note_and_no_names() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("damaged");
    let libc = mapped(libc::getpid as *const () as u64);
    let offset = libc.offset(libc::getpid as *const () as u64);
    let whole = std::fs::read(&libc.path).unwrap();
    let mut symbolizer = without_debug_files();
    for length in [whole.len(), 0, 1, 4, 16, 63, 64, 65, 1000, 4096, whole.len() / 2] {
        std::fs::write(&path, &whole[..length]).unwrap();
        let table = symbolizer.name_module(path.to_str().unwrap(), &BuildId::default(), &[offset]);
        if length == whole.len() {
            assert_eq!(table.symbols.len(), 1, "undamaged");
        } else {
            assert_eq!(table.symbols, [], "{length} bytes");
            assert!(table.note.contains("damaged"), "{length} bytes: {}", table.note);
        }
    }
}

fn without_debug_files() -> Symbolizer {
    Symbolizer::with_options(
        PinnedFiles::new(),
        Options { debug_dirs: Vec::new(), ..Options::default() },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn damage_anywhere_in_a_file_is_survived(
        flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..30),
        keep in 64usize..8192,
    ) {
        let mut bytes = crate::build_id::VDSO.clone();
        for (place, value) in flips {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        bytes.truncate(keep);
        let mut file = tempfile::NamedTempFile::new().unwrap();
        std::io::Write::write_all(&mut file, &bytes).unwrap();
        let offsets: Vec<u64> = (0..8192).step_by(64).collect();
        let table = without_debug_files().name_module(
            file.path().to_str().unwrap(),
            &BuildId::default(),
            &offsets,
        );
        prop_assert!(
            table
                .symbols
                .iter()
                .all(|symbol| !symbol.frames.is_empty() && symbol.offset < keep as u64)
        );
    }
}

#[test]
fn a_device_or_fifo_in_the_files_place_is_not_opened() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fifo");
    let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: `name` is a C string that lives through the call.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    // Would wait for a writer forever.
    let table = Symbolizer::new(PinnedFiles::new()).name_module(
        path.to_str().unwrap(),
        &BuildId::default(),
        &[1],
    );
    assert!(table.note.contains("cannot be opened"), "{}", table.note);
    assert!(Path::new("/dev/zero").exists());
    let table =
        Symbolizer::new(PinnedFiles::new()).name_module("/dev/zero", &BuildId::default(), &[1]);
    assert!(table.symbols.is_empty() && !table.note.is_empty());
}
