//! Files that lead to others by what their sections say, which is whatever their makers wanted.

use crate::common::{long, mapped, short};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use syscollect_fixtures::xz::crc32;
use syscollect_model::{BuildId, SymbolTable};
use syscollect_symbolize::{
    ModuleRequest, NamingMemory, Options, PinnedFiles, Symbolizer, build_id_of,
};

/// Far less than a hang.
const SOON: Duration = Duration::from_secs(60);

/// libc, and where a function of it lies.
pub struct Libc {
    pub bytes: Vec<u8>,
    pub build_id: BuildId,
    pub offset: u64,
}

impl Libc {
    /// Its bytes, with a note of another kind where its build id is.
    pub fn without_build_id(&self) -> Vec<u8> {
        let mut anonymous = self.bytes.clone();
        anonymous[self.place_of_build_id() - 8] = 0x55;
        anonymous
    }

    /// Where it has its build id.
    pub fn place_of_build_id(&self) -> usize {
        let id = self.build_id.as_bytes();
        self.bytes.windows(id.len()).position(|bytes| bytes == id).unwrap()
    }

    pub fn read() -> Self {
        let address = libc::getpid as *const () as u64;
        let mapped = mapped(address);
        let build_id = build_id_of(&File::open(&mapped.path).unwrap()).unwrap();
        Self { bytes: fs::read(&mapped.path).unwrap(), build_id, offset: mapped.offset(address) }
    }

    /// The same without names, which leads to another file by a section.
    pub fn leading(&self, section: &str, contents: &[u8]) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        for own in
            [b".dynsym\0".as_slice(), b".symtab\0", b".gnu_debuglink\0", b".gnu_debugaltlink\0"]
        {
            let offsets: Vec<usize> =
                (0..bytes.len() - own.len()).filter(|at| bytes[*at..].starts_with(own)).collect();
            offsets.iter().for_each(|at| bytes[at + 1] = b'-');
        }
        with_section(bytes, section, contents)
    }

    /// Names the function in the file at `path`.
    pub fn name(&self, path: &Path, debug_dirs: &[PathBuf]) -> SymbolTable {
        let options = Options { debug_dirs: debug_dirs.to_vec(), ..Options::default() };
        let before = Instant::now();
        let mut symbolizer = Symbolizer::with_options(PinnedFiles::new(), options);
        let table = symbolizer.name_module(path.to_str().unwrap(), &self.build_id, &[self.offset]);
        assert!(before.elapsed() < SOON, "{}", table.note);
        table
    }
}

/// Adds a section to a 64-bit file: its bytes, a table of names and a table of sections come at the
/// end.
fn with_section(mut bytes: Vec<u8>, name: &str, contents: &[u8]) -> Vec<u8> {
    let (table, count, names) = (long(&bytes, 40), short(&bytes, 60), short(&bytes, 62));
    let mut rows = bytes[table..table + count * 64].to_vec();
    let old_names =
        long(&rows, names * 64 + 24)..long(&rows, names * 64 + 24) + long(&rows, names * 64 + 32);
    let mut all_names = bytes[old_names].to_vec();
    let mut row = vec![0; 64];
    row[..4].copy_from_slice(&(all_names.len() as u32).to_le_bytes());
    row[4] = 1;
    all_names.extend(name.bytes().chain([0]));
    append(&mut bytes, &mut row, contents);
    append(&mut bytes, &mut rows[names * 64..][..64], &all_names);
    rows.extend(row);
    bytes.resize(bytes.len().next_multiple_of(64), 0);
    let place = bytes.len() as u64;
    bytes[40..48].copy_from_slice(&place.to_le_bytes());
    bytes[60..62].copy_from_slice(&(count as u16 + 1).to_le_bytes());
    bytes.extend(rows);
    bytes
}

/// Adds what a section holds, of which its row in the table tells.
fn append(bytes: &mut Vec<u8>, row: &mut [u8], data: &[u8]) {
    bytes.resize(bytes.len().next_multiple_of(64), 0);
    row[24..32].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
    row[32..40].copy_from_slice(&(data.len() as u64).to_le_bytes());
    bytes.extend(data);
}

fn debug_link(name: &str, sum: u32) -> Vec<u8> {
    let mut section = name.as_bytes().to_vec();
    section.push(0);
    section.resize(section.len().next_multiple_of(4), 0);
    section.extend(sum.to_le_bytes());
    section
}

pub fn fifo(path: &Path) {
    let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: `name` is a C string that lives through the call.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o666) }, 0);
}

pub fn has_the_name(table: &SymbolTable) -> bool {
    table.symbols.iter().any(|s| s.frames.iter().any(|frame| frame.function.contains("getpid")))
}

/// A folder as the kernel would name it.
pub fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap();
    (folder, path)
}

#[test]
fn a_debug_link_leads_to_a_file_beside_below_and_in_the_folders_of_debug_files() {
    let (libc, (_kept, folder)) = (Libc::read(), folder());
    let (path, dirs) = (folder.join("lib.so"), folder.join("debug"));
    fs::write(&path, libc.leading(".gnu_debuglink", &debug_link("lib.debug", 0))).unwrap();
    let kept = dirs.join(folder.strip_prefix("/").unwrap());
    fs::create_dir_all(folder.join(".debug")).unwrap();
    fs::create_dir_all(&kept).unwrap();
    let dirs = [dirs];
    assert!(!has_the_name(&libc.name(&path, &dirs)), "it has no names of its own");
    let paths = [folder.join("lib.debug"), folder.join(".debug/lib.debug"), kept.join("lib.debug")];
    for place in paths.iter().chain([&dirs[0].join("lib.debug")]) {
        fs::write(place, &libc.bytes).unwrap();
        let table = libc.name(&path, &dirs);
        assert!(has_the_name(&table) && table.note.is_empty(), "{}: {table:?}", place.display());
        fs::remove_file(place).unwrap();
    }
}

#[test]
fn where_no_build_id_was_recorded_a_debug_file_is_found_by_that_of_the_file() {
    let (libc, (_kept, folder)) = (Libc::read(), folder());
    let (path, dirs) = (folder.join("lib.so"), folder.join("debug"));
    fs::write(&path, libc.leading(".leads.nowhere", &[0])).unwrap();
    let digits = libc.build_id.to_string();
    let debug = dirs.join(format!(".build-id/{}/{}.debug", &digits[..2], &digits[2..]));
    fs::create_dir_all(debug.parent().unwrap()).unwrap();
    let unrecorded = Libc { build_id: BuildId::default(), ..libc };
    let dirs = [dirs];
    assert!(!has_the_name(&unrecorded.name(&path, &dirs)), "it has no names of its own");
    fs::write(debug, &unrecorded.bytes).unwrap();
    assert!(has_the_name(&unrecorded.name(&path, &dirs)));
}

#[test]
fn what_a_debug_link_leads_to_must_be_what_it_means() {
    let (libc, (_kept, folder)) = (Libc::read(), folder());
    let path = folder.join("lib.so");
    // Without a build id there is only the sum over all its bytes.
    let anonymous = libc.without_build_id();
    let mut other = libc.bytes.clone();
    other[libc.place_of_build_id()] ^= 1;
    for (bytes, sum, is_named, why) in [
        (&anonymous, crc32(&anonymous), true, "the same sum"),
        (&anonymous, !crc32(&anonymous), false, "another sum"),
        (&other, crc32(&other), false, "another build id, whatever its sum"),
    ] {
        fs::write(&path, libc.leading(".gnu_debuglink", &debug_link("lib.debug", sum))).unwrap();
        fs::write(folder.join("lib.debug"), bytes).unwrap();
        assert_eq!(has_the_name(&libc.name(&path, &[])), is_named, "{why}");
    }
}

#[test]
fn a_debug_link_leads_neither_to_fifos_nor_out_of_its_folder() {
    let (libc, (_kept, root)) = (Libc::read(), folder());
    let (folder, debug, secret) = (root.join("folder"), root.join("debug"), root.join("lib.debug"));
    fs::create_dir_all(folder.join("sub")).unwrap();
    fs::create_dir_all(&debug).unwrap();
    fs::write(&secret, &libc.bytes).unwrap();
    let path = folder.join("lib.so");
    let pipe = root.join("fifo");
    fifo(&pipe);
    fifo(&folder.join("fifo.debug"));
    fifo(&debug.join("fifo.debug"));
    symlink(&secret, folder.join("link.debug")).unwrap();
    symlink(&secret, debug.join("out.debug")).unwrap();
    symlink("/dev/zero", folder.join("zero.debug")).unwrap();
    let names = [
        secret.to_str().unwrap(),
        pipe.to_str().unwrap(),
        "../lib.debug",
        "sub/../../lib.debug",
        "..",
        "/dev/zero",
    ];
    for name in names.into_iter().chain([
        "fifo.debug",
        "link.debug",
        "out.debug",
        "zero.debug",
        "lib.so",
        "sub",
    ]) {
        fs::write(&path, libc.leading(".gnu_debuglink", &debug_link(name, 0))).unwrap();
        let table = libc.name(&path, std::slice::from_ref(&debug));
        assert!(!table.has_names(), "{name}: {table:?}");
        assert!(!table.note.is_empty(), "{name}");
    }
}

#[test]
fn an_alternate_link_leads_only_to_a_file_of_its_build_id() {
    let (libc, (_kept, root)) = (Libc::read(), folder());
    let (folder, debug) = (root.join("folder"), root.join("debug"));
    fs::create_dir_all(&folder).unwrap();
    fs::create_dir_all(debug.join(".dwz")).unwrap();
    let (path, link) = (folder.join("lib.so"), folder.join("lib.debug"));
    fs::write(&path, libc.leading(".gnu_debuglink", &debug_link("lib.debug", 0))).unwrap();
    fifo(&root.join("fifo"));
    fifo(&folder.join("fifo.dwz"));
    fs::write(debug.join(".dwz/lib"), &libc.bytes).unwrap();
    let id = libc.build_id.as_bytes();
    let fifo = root.join("fifo");
    let links = [
        fifo.to_str().unwrap(),
        "fifo.dwz",
        "../fifo",
        "/dev/zero",
        "/elsewhere/debug/.dwz/lib",
        "lib.so",
        "",
    ];
    for alternate in links {
        for id in [id, &[9; 20], &[]] {
            let section = [alternate.as_bytes(), &[0], id].concat();
            fs::write(&link, with_section(libc.bytes.clone(), ".gnu_debugaltlink", &section))
                .unwrap();
            let table = libc.name(&path, std::slice::from_ref(&debug));
            assert!(has_the_name(&table) && table.note.is_empty(), "{alternate}: {table:?}");
        }
    }
}

#[test]
fn a_file_that_is_cut_off_while_it_is_named_ends_nothing() {
    let (_kept, folder) = folder();
    let own = std::env::current_exe().unwrap();
    let whole = fs::read(&own).unwrap();
    let path = folder.join("program");
    fs::write(&path, &whole).unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    let code =
        mapped(a_file_that_is_cut_off_while_it_is_named_ends_nothing as fn() as usize as u64);
    let offset =
        code.offset(a_file_that_is_cut_off_while_it_is_named_ends_nothing as fn() as usize as u64);
    let over = AtomicBool::new(false);
    let tables = std::thread::scope(|scope| {
        scope.spawn(|| {
            let lengths = [whole.len() as u64, 4096, whole.len() as u64 / 2, 70_000];
            for length in lengths.iter().cycle().take_while(|_| !over.load(Ordering::Relaxed)) {
                file.set_len(*length).unwrap();
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let mut symbolizer = Symbolizer::new(PinnedFiles::new());
        let tables: Vec<SymbolTable> = (0..40)
            .map(|_| symbolizer.name_module(path.to_str().unwrap(), &BuildId::default(), &[offset]))
            .collect();
        over.store(true, Ordering::Relaxed);
        tables
    });
    assert!(tables.iter().all(|table| !table.symbols.is_empty() || !table.note.is_empty()));
    assert!(
        tables.iter().any(|table| table.note.contains("damaged") || table.note.contains("read")),
        "it was cut off"
    );
}

#[test]
fn naming_ends_when_its_time_is_over_or_nobody_wants_it_and_says_so() {
    let address = a_file_that_is_cut_off_while_it_is_named_ends_nothing as fn() as usize as u64;
    let module = mapped(address);
    let offsets = vec![module.offset(address)];
    let request = ModuleRequest { path: module.path, offsets, ..ModuleRequest::default() };
    let requests = [request.clone(), request.clone(), request];
    let late = name_unless(
        &requests,
        Options { module_time: Duration::ZERO, ..Options::default() },
        false,
    );
    assert!(has_note(&late, "took longer than 0ns"), "{late:?}");
    let all =
        name_unless(&requests, Options { all_time: Duration::ZERO, ..Options::default() }, false);
    assert!(has_note(&all, "all modules took too long"), "{all:?}");
    assert!(
        late.iter().chain(&all).all(Option::is_some),
        "everything has a table: {late:?} {all:?}"
    );
    let unwanted = name_unless(&requests, Options::default(), true);
    assert!(unwanted.iter().any(Option::is_none), "nobody waited for it: {unwanted:?}");
}

fn name_unless(
    requests: &[ModuleRequest],
    options: Options,
    unwanted: bool,
) -> Vec<Option<SymbolTable>> {
    Symbolizer::with_options(PinnedFiles::new(), options)
        .name_modules_unless(requests, &|| unwanted)
}

fn has_note(tables: &[Option<SymbolTable>], note: &str) -> bool {
    tables.iter().flatten().any(|table| table.symbols.is_empty() && table.note.contains(note))
}

#[test]
fn without_memory_for_lines_there_are_names_and_without_any_a_note() {
    let address = a_file_that_is_cut_off_while_it_is_named_ends_nothing as fn() as usize as u64;
    let module = mapped(address);
    // Root's own file would need no copy.
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&fs::read(&module.path).unwrap()).unwrap();
    fs::set_permissions(file.path(), std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    let path = file.path().canonicalize().unwrap();
    // All of it, the symbols of this program alone, and nothing.
    let [all, some, none] = [1 << 30, 8 << 20, 1 << 10].map(|bytes| {
        let options = Options { memory: NamingMemory::new(bytes), ..Options::default() };
        let mut symbolizer = Symbolizer::with_options(PinnedFiles::new(), options);
        symbolizer.name_module(
            path.to_str().unwrap(),
            &BuildId::default(),
            &[module.offset(address)],
        )
    });
    assert!(all.symbols[0].frames[0].line > 0);
    assert!(
        some.note.contains("no inlined functions and lines: no memory for a copy"),
        "{}",
        some.note
    );
    assert_eq!(some.symbols[0].frames.last().unwrap().line, 0);
    assert!(none.symbols.is_empty() && none.note.contains("not named: no memory"), "{}", none.note);
}

/// Functions whose names are how C++ abbreviates types.
mod abbreviations {
    macro_rules! functions {
        ($($name:ident)+) => { $(#[unsafe(no_mangle)] extern "C" fn $name() -> u32 { line!() })+ };
    }
    functions!(t d f i PKc);
    pub(super) const ALL: [(&str, extern "C" fn() -> u32); 5] =
        [("t", t), ("d", d), ("f", f), ("i", i), ("PKc", PKc)];
}

#[test]
fn plain_names_of_c_stay_as_they_are() {
    for lines in [false, true] {
        let mut symbolizer =
            Symbolizer::with_options(PinnedFiles::new(), Options { lines, ..Options::default() });
        for (name, function) in abbreviations::ALL {
            let address = function as usize as u64;
            let module = mapped(address);
            let table = symbolizer.name_module(
                &module.path,
                &BuildId::default(),
                &[module.offset(address)],
            );
            assert_eq!(table.symbols[0].frames[0].function, name, "{table:?}");
        }
    }
}
