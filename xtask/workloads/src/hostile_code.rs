//! Code that an ordinary user maps to do harm: files that ask for unwind tables without end, that
//! say they are Python interpreters, that have probes, or whose debug information covers
//! everything.

use std::ffi::c_void;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::fuse::map_code;
use crate::hostile::in_processes;
use crate::library::{self, Library, NOTE, PAGE, PROGRAM_DATA};

/// Files, their pages of code, and rows in each page's table: three times as many rows as there is
/// room for in a recorder.
const FILES: u64 = 24;
const PAGES: u64 = 8;
const ROWS: u64 = 16_000;
/// Bytes of the file without contents.
const SPARSE_BYTES: u64 = 1_500_000_000;
/// Files whose tables of symbols are as large as is looked through, and without contents.
const SYMBOLS: u64 = 600;
const SYMBOLS_BYTES: u64 = (16 << 20) / 24 * 24;
/// Files that are mapped without end, by so many processes, and how many mappings each has at once.
const MAPPED_FILES: u64 = 50;
const MAPPING_PROCESSES: usize = 60;
const MAPPED_AT_ONCE: usize = 8_000;
const MAPPING_PAUSE: Duration = Duration::from_secs(1);
/// New files with a probe: each costs the kernel some time to attach to.
const PROBED: u64 = 10_500;
/// Descriptions of one probe in one file, no two alike.
const KINDS: usize = 140_000;
/// Mappings of a probed file whose rights change.
const CHANGING: usize = 150;

/// Makes files in `folder`, maps them, says so, and does harm with them for so long.
pub(crate) fn run(attack: &str, folder: &str, seconds: u64) -> Result<()> {
    let folder = Path::new(folder);
    let end = Instant::now() + Duration::from_secs(seconds);
    match attack {
        "tables" => tables(folder, end),
        "interpreters" => interpreters(folder, end),
        "mapped" => mapped_often(folder, end),
        "probed" => probed(folder, end),
        "rights" => rights(folder, end),
        "debug" => debug_information(folder, end),
        "deleted" => deleted(folder),
        _ => bail!("there is no attack {attack}"),
    }
}

fn ready() {
    println!(r#"{{"ready":true}}"#);
}

fn sleep_until(end: Instant) {
    std::thread::sleep(end.saturating_duration_since(Instant::now()));
}

/// Maps all of a file.
fn mapped(path: &Path) -> Result<NonNull<u8>> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    map_code(&file, file.metadata()?.len() as usize)
}

/// Sleeps in each page of files whose tables are as long as they can be.
fn tables(folder: &Path, end: Instant) -> Result<()> {
    // nanosleep(rdi, 0).
    let code = [0xb8, 35, 0, 0, 0, 0x31, 0xf6, 0x0f, 0x05, 0xc3].to_vec();
    let library = Library { pages: PAGES, code, rows: ROWS, ..Library::default() };
    let mut functions = Vec::new();
    for number in 0..FILES {
        let path = folder.join(format!("tables-{number}.so"));
        library.write(&path)?;
        let base = mapped(&path)?;
        // SAFETY: the pages lie within the mapping.
        functions.extend((1..=PAGES).map(|page| unsafe { base.add((page * PAGE) as usize) }));
    }
    ready();
    let shortest = libc::timespec { tv_sec: 0, tv_nsec: 1 };
    in_processes(2, || {
        while Instant::now() < end {
            for function in &functions {
                // SAFETY: the page begins with a function that takes a time and makes one system
                // call with it; it is mapped as long as the process lives.
                let sleep: extern "C" fn(*const libc::timespec) =
                    unsafe { std::mem::transmute(function.as_ptr().cast::<c_void>()) };
                sleep(&raw const shortest);
            }
        }
        Ok(())
    })
}

/// Maps files that say they are Python interpreters: their loops have tables as long as can be. And
/// one that says of its tables that they are as large as itself, and many that say nothing at
/// length.
fn interpreters(folder: &Path, end: Instant) -> Result<()> {
    let functions = vec![
        ("_PyEval_EvalFrameDefault", PAGE, PAGES * PAGE),
        ("_PyRuntime", 2 * PAGE, 4096),
        ("PyCode_Type", 3 * PAGE, 512),
    ];
    let library = Library { pages: PAGES, rows: ROWS, functions, ..Library::default() };
    for number in 0..FILES {
        let path = folder.join(format!("libpython3.11-{number}.so"));
        library.write(&path)?;
        mapped(&path)?;
    }
    let sparse = folder.join("libpython3.12-sparse.so");
    library::write_sparse(&sparse, SPARSE_BYTES)?;
    mapped(&sparse)?;
    for number in 0..SYMBOLS {
        let path = folder.join(format!("python-symbols-{number}"));
        library::write_symbols(&path, SYMBOLS_BYTES)?;
        mapped(&path)?;
    }
    ready();
    sleep_until(end);
    Ok(())
}

/// Maps a file as often as can be, in many processes; and files that are never the same.
fn mapped_often(folder: &Path, end: Instant) -> Result<()> {
    let library = Library { pages: 1, code: vec![0xc3], ..Library::default() };
    let paths: Vec<_> =
        (0..MAPPED_FILES).map(|number| folder.join(format!("mapped-{number}.so"))).collect();
    paths.iter().try_for_each(|path| library.write(path))?;
    let files = paths.iter().map(File::open).collect::<Result<Vec<_>, _>>()?;
    ready();
    in_processes(MAPPING_PROCESSES, || {
        while Instant::now() < end {
            let mapped: Vec<_> = files
                .iter()
                .cycle()
                .take(MAPPED_AT_ONCE)
                .map(|file| map_code(file, PAGE as usize))
                .collect::<Result<_>>()?;
            // Busy programs without end are another attack.
            std::thread::sleep(MAPPING_PAUSE);
            for at in mapped {
                // SAFETY: exactly what was mapped, which nobody reads.
                unsafe { libc::munmap(at.as_ptr().cast(), PAGE as usize) };
            }
        }
        Ok(())
    })
}

/// Makes and maps a file in which one probe is described again and again, with other types of its
/// arguments each time, and then new files with a probe of an instrumented program.
fn probed(folder: &Path, end: Instant) -> Result<()> {
    let kinds: Vec<u8> = (0..KINDS).flat_map(|kind| note("plot", &arguments_of(kind))).collect();
    let path = folder.join("kinds.so");
    library_with_notes(kinds).write(&path)?;
    mapped(&path)?;
    let library = library_with_notes(note("ring", "-4@%edi 4@%esi 8@%rdx"));
    ready();
    for number in 0..PROBED {
        if Instant::now() >= end {
            bail!("only {number} of {PROBED} files were made");
        }
        let path = folder.join(format!("probed-{number}.so"));
        library.write(&path)?;
        mapped(&path)?;
        fs::remove_file(&path)?;
    }
    println!(r#"{{"files":{PROBED}}}"#);
    sleep_until(end);
    Ok(())
}

/// A library with these notes of probes.
fn library_with_notes(notes: Vec<u8>) -> Library {
    let sections = vec![(".note.stapsdt", NOTE, notes)];
    // Places for a breakpoint, and an end.
    Library { pages: 1, code: vec![0x90, 0xc3], sections, ..Library::default() }
}

/// A note of an instrumented program's probe.
fn note(name: &str, arguments: &str) -> Vec<u8> {
    let described = [
        [PAGE, 0, 0].map(u64::to_le_bytes).concat(),
        format!("syscollect\0{name}\0{arguments}\0").into_bytes(),
    ]
    .concat();
    let mut note = [8, described.len() as u32, 3].map(u32::to_le_bytes).concat();
    note.extend(b"stapsdt\0");
    note.extend(described);
    note.resize(note.len().next_multiple_of(4), 0);
    note
}

/// Six arguments whose sizes and signs are the digits of a number.
fn arguments_of(kind: usize) -> String {
    let sizes = ["1", "-1", "2", "-2", "4", "-4", "8", "-8"];
    let arguments = (0..6).map(|digit| format!("{}@%rax", sizes[kind >> (3 * digit) & 7]));
    arguments.collect::<Vec<_>>().join(" ")
}

/// Files that are mapped for a moment and then deleted, and bytes of each.
const DELETED: u64 = 100;
const DELETED_BYTES: usize = 8 << 20;

/// Makes files, maps each for a moment, and deletes it: whoever holds them has them all.
fn deleted(folder: &Path) -> Result<()> {
    let library = Library { pages: 1, code: vec![0xc3], ..Library::default() };
    for number in 0..DELETED {
        let path = folder.join(format!("deleted-{number}.so"));
        library.write(&path)?;
        let mut file = File::options().append(true).open(&path)?;
        file.write_all(&vec![1; DELETED_BYTES])?;
        let at = mapped(&path)?;
        // Whoever looks into what is mapped has the time for it.
        std::thread::sleep(Duration::from_millis(40));
        // SAFETY: exactly what was mapped, which nobody reads.
        unsafe { libc::munmap(at.as_ptr().cast(), file.metadata()?.len() as usize) };
        fs::remove_file(&path)?;
    }
    println!(r#"{{"bytes":{}}}"#, DELETED * DELETED_BYTES as u64);
    Ok(())
}

/// Maps a probed program of its own many times, and takes and gives the right to run it without
/// end: the kernel hears of each mapping again, and whoever attaches waits for its lock.
fn rights(folder: &Path, end: Instant) -> Result<()> {
    let path = folder.join("rights");
    fs::copy("/proc/self/exe", &path).context("cannot copy this program")?;
    let bytes = fs::metadata(&path)?.len() as usize;
    let mappings = (0..CHANGING).map(|_| mapped(&path)).collect::<Result<Vec<_>>>()?;
    ready();
    while Instant::now() < end {
        for mapping in &mappings {
            for rights in [libc::PROT_READ, libc::PROT_READ | libc::PROT_EXEC] {
                // SAFETY: a mapping of that length, which nobody reads or runs.
                if unsafe { libc::mprotect(mapping.as_ptr().cast(), bytes, rights) } != 0 {
                    bail!("mprotect: {}", std::io::Error::last_os_error());
                }
            }
        }
    }
    Ok(())
}

/// Units of the debug information, functions of each, and rows of the lines that each of them has.
const UNITS: usize = 20_000;
const FUNCTIONS: usize = 20;
const LINES: usize = 60_000;
/// Instructions of the code that runs, each another address.
const INSTRUCTIONS: usize = 500;

/// Functions that are each inlined in the one before: readers go down a level for each.
const NESTED: usize = 400_000;

/// Runs code of which every unit of the debug information says that it is its own, and code in
/// which functions are inlined in functions without end.
fn debug_information(folder: &Path, end: Instant) -> Result<()> {
    let covering = code_with(&folder.join("debug.so"), units())?;
    let nested = code_with(&folder.join("nested.so"), nested())?;
    ready();
    while Instant::now() < end {
        covering();
        nested();
    }
    Ok(())
}

/// A function of a library that is written there, with that debug information.
fn code_with(path: &Path, information: Vec<u8>) -> Result<extern "C" fn()> {
    // mov ecx, 1000; inc eax, so many times; dec ecx; jnz to the first of them; ret.
    let mut code = vec![0xb9, 0xe8, 3, 0, 0];
    code.extend([0xff, 0xc0].repeat(INSTRUCTIONS));
    code.extend([0xff, 0xc9, 0x0f, 0x85]);
    code.extend((-(2 * INSTRUCTIONS as i32 + 8)).to_le_bytes());
    code.push(0xc3);
    let sections = vec![
        (".debug_abbrev", PROGRAM_DATA, abbreviations()),
        (".debug_info", PROGRAM_DATA, information),
        (".debug_line", PROGRAM_DATA, lines()),
    ];
    Library { pages: 1, code, rows: 16, sections, ..Library::default() }.write(path)?;
    let base = mapped(path)?;
    // SAFETY: the page lies within the mapping, which nobody takes away, and begins with a function
    // that takes nothing and changes two registers which a caller has not to find again.
    Ok(unsafe {
        std::mem::transmute::<*mut c_void, extern "C" fn()>(base.add(PAGE as usize).as_ptr().cast())
    })
}

/// Three kinds of entries: units with low_pc, high_pc, stmt_list and name, functions with low_pc,
/// high_pc and name, and functions that are inlined and have others in them (DWARF 4).
fn abbreviations() -> Vec<u8> {
    let unit = [1, 0x11, 1, 0x11, 1, 0x12, 7, 0x10, 0x17, 3, 8, 0, 0];
    let function = [2, 0x2e, 0, 0x11, 1, 0x12, 7, 3, 8, 0, 0];
    let with_others = [3, 0x2e, 1, 0x11, 1, 0x12, 7, 3, 8, 0, 0];
    let inlined = [4, 0x1d, 1, 0, 0];
    [&unit[..], &function, &with_others, &inlined, &[0]].concat()
}

/// Units that all have the same code and the same lines, and whose functions lie elsewhere: the
/// next unit may have the one that is looked for.
fn units() -> Vec<u8> {
    unit_of(&entry_at(2, 2 * PAGE, b"f").repeat(FUNCTIONS)).repeat(UNITS)
}

/// One unit with one function, which has all others in it.
fn nested() -> Vec<u8> {
    let inlined = [vec![4; NESTED], vec![0; NESTED]].concat();
    unit_of(&[entry_at(3, PAGE, b"f"), inlined, vec![0]].concat())
}

/// A unit of the page of code, with these entries.
fn unit_of(entries: &[u8]) -> Vec<u8> {
    let mut unit = 4u16.to_le_bytes().to_vec();
    unit.extend([0, 0, 0, 0, 8]);
    unit.extend(entry_of_unit());
    unit.extend(entries);
    unit.push(0);
    [(unit.len() as u32).to_le_bytes().to_vec(), unit].concat()
}

fn entry_of_unit() -> Vec<u8> {
    let addresses = [PAGE, PAGE].map(u64::to_le_bytes).concat();
    [&[1][..], &addresses, &[0; 4], b"u\0"].concat()
}

/// A function of a page there.
fn entry_at(kind: u8, address: u64, name: &[u8]) -> Vec<u8> {
    let addresses = [address, PAGE].map(u64::to_le_bytes).concat();
    [&[kind][..], &addresses, name, &[0]].concat()
}

/// A line for each byte of the code.
fn lines() -> Vec<u8> {
    let mut header = vec![1, 1, 1, 0xfb, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1, 0];
    header.extend(b"u.c\0\0\0\0\0");
    let mut rest = 4u16.to_le_bytes().to_vec();
    rest.extend((header.len() as u32).to_le_bytes());
    rest.extend(header);
    // The first address; a byte further, each time; the end.
    rest.extend([0, 9, 2]);
    rest.extend(PAGE.to_le_bytes());
    rest.extend([32].repeat(LINES));
    rest.extend([0, 1, 1]);
    [(rest.len() as u32).to_le_bytes().to_vec(), rest].concat()
}
