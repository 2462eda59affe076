//! Code of many pages that runs in turns, beside a chain that runs all the time.
//!
//! The code is that of files whose functions all do the same: each is 64 bytes long, keeps no frame
//! pointer, and calls what it is given. A page's functions are called for a while, then the next
//! one's; a file is mapped for as long as it is visited.

use std::ffi::c_void;
use std::fs::{self, File};
use std::hint::black_box;
use std::os::fd::AsRawFd;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::fuse::u32_at;
use crate::hostile_files::word;

/// Bytes of code that have a list of rows of their own.
const PAGE: usize = 64 << 10;
/// How long a page is visited: several times as long as it takes until its rows are there.
const VISIT: Duration = Duration::from_millis(250);
/// Where ELF files of 64 bits have their program headers, how long these are, how many; of a header
/// its type and rights, and offset and size in the file. Linkers write the first at 64.
const HEADER_COUNT: usize = 56;
const HEADERS: usize = 64;
const HEADER_BYTES: usize = 56;
/// A segment that is loaded, and executed.
const LOADED: u32 = 1;
const EXECUTED: u32 = 1;

type Visited = extern "C" fn(extern "C" fn());

/// Visits the files of a folder in turns for so many seconds; prints its id, how many pages it has
/// visited, and how many of these more than once. Meanwhile `unwound` runs and prints its own.
pub(crate) fn run(folder: &str, seconds: u64) -> Result<()> {
    let mut files: Vec<_> =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    files.sort();
    ensure!(!files.is_empty(), "there are no files in {folder}");
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut chain = start_chain(seconds)?;
    let (mut pages, mut first_round) = (0_u64, 0);
    'rounds: loop {
        for path in &files {
            let code = Code::map(&File::open(path)?)
                .with_context(|| format!("cannot map {}", path.display()))?;
            for page in 0..code.pages() {
                if Instant::now() >= end {
                    break 'rounds;
                }
                black_box(visit(code.function(page), Instant::now() + VISIT));
                pages += 1;
            }
        }
        if first_round == 0 {
            first_round = pages;
        }
    }
    ensure!(chain.wait()?.success(), "the chain failed");
    let again = if first_round == 0 { 0 } else { pages - first_round };
    println!("{{\"visitor\":{},\"pages\":{pages},\"again\":{again}}}", std::process::id());
    Ok(())
}

fn start_chain(seconds: u64) -> Result<Child> {
    let program = std::env::current_exe()?;
    Command::new(program).args(["unwound", &seconds.to_string()]).spawn().context("no chain")
}

/// Calls a function, which calls back, until the time has come; how often.
#[inline(never)]
fn visit(function: Visited, end: Instant) -> u64 {
    let mut calls = 0;
    while Instant::now() < end {
        function(visited_back);
        calls += 1;
    }
    calls
}

#[unsafe(no_mangle)]
extern "C" fn visited_back() {
    std::thread::sleep(Duration::from_millis(1));
    black_box(());
}

/// A file's code, mapped.
struct Code {
    start: *mut c_void,
    bytes: usize,
}

impl Code {
    fn map(file: &File) -> Result<Self> {
        use std::os::unix::fs::FileExt;
        let mut head = [0; 4096];
        file.read_exact_at(&mut head, 0)?;
        let headers = (0..word(&head, HEADER_COUNT, 2)?.min(32))
            .map(|number| &head[HEADERS + number * HEADER_BYTES..][..HEADER_BYTES]);
        let code = { headers }
            .find(|header| {
                u32_at(header, 0) == Some(LOADED)
                    && u32_at(header, 4).is_some_and(|rights| rights & EXECUTED != 0)
            })
            .context("it has no code")?;
        let (offset, bytes) = (word(code, 8, 8)? as libc::off_t, word(code, 32, 8)?);
        let rights = libc::PROT_READ | libc::PROT_EXEC;
        let anywhere = std::ptr::null_mut();
        // SAFETY: a new mapping of a file that nobody changes.
        let start = unsafe {
            libc::mmap(anywhere, bytes, rights, libc::MAP_PRIVATE, file.as_raw_fd(), offset)
        };
        ensure!(start != libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
        Ok(Self { start, bytes })
    }

    /// Whole pages of it.
    fn pages(&self) -> usize {
        self.bytes / PAGE
    }

    /// The first function of a page.
    fn function(&self, page: usize) -> Visited {
        assert!(page < self.pages());
        // SAFETY: functions of this kind begin at all multiples of 64 bytes of the code; it is
        // mapped for longer than it is visited.
        unsafe { std::mem::transmute::<*mut c_void, Visited>(self.start.byte_add(page * PAGE)) }
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        // SAFETY: exactly what was mapped; no function of it runs any more.
        unsafe { libc::munmap(self.start, self.bytes) };
    }
}
