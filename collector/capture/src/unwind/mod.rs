//! Unwind tables for the kernel programs, made while a recording goes on: of the files that are
//! mapped as code, and of these the pages in which a walk came by.
//!
//! A thread of its own, which nothing waits for. It looks now and then whether walks have asked for
//! more; nobody wakes it for that.

mod memory;
mod programs;
mod tables;

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use object::ReadCache;
use syscollect_cpython::{interpreter, may_hold_interpreter};
use syscollect_records::python::{FILES_MAX, PythonFile};
use syscollect_records::unwind::{PAGE_BYTES, UnwindRow};
use syscollect_symbolize::own_vdso;
use syscollect_untrusted_files::{OpenedFile, payer};
use syscollect_unwind::UnwindFile;

use crate::collector::{go_before_most, go_behind_others};
use crate::mapped_map::MappedWords;
use crate::shares::Pool;
pub use memory::{HeldStack, StacksInMemory};
pub(crate) use memory::{StackMemoryRing, ring_bytes};
pub(crate) use programs::UnwindPrograms;
use programs::{FileNames, HeldCode};
use tables::{Tables, WantedPages};

/// Rows that there is room for, 8 bytes each: those of some 50 MB of code that runs.
pub(crate) const ROWS: u32 = 1 << 20;
/// And where memory is short.
pub(crate) const ROWS_SHORT: u32 = 64 << 10;
/// Files that wait to be told to the programs.
const WAITING_MAX: usize = 1024;
/// How often to look for pages that walks ask for: soon after some were, and later less often.
const SHORTEST_SLEEP: Duration = Duration::from_millis(4);
const LONGEST_SLEEP: Duration = Duration::from_millis(50);

/// Pages of an interpreter's loop that are asked for; loops have one or two.
const LOOP_PAGES_MAX: usize = 8;

/// How long tables are made before files are heard of again, and pages of a file
/// in a user's turn.
const AT_ONCE: Duration = Duration::from_millis(50);
const PAGES_AT_ONCE: usize = 8;

/// What was made of tables so far.
#[derive(Debug, Default)]
pub(crate) struct UnwindCounts {
    files: AtomicU64,
    pages: AtomicU64,
    rows: AtomicU64,
    /// Files and pages for which there was no room, and files that cannot be read as what they are.
    refused: AtomicU64,
    damaged: AtomicU64,
    /// Files with a Python interpreter, and those with one that is not known.
    python_files: AtomicU64,
    python_unknown: AtomicU64,
    /// Nanoseconds of CPU time.
    time_ns: AtomicU64,
}

impl UnwindCounts {
    /// All of them by name.
    pub(crate) fn named(&self) -> [(&'static str, u64); 8] {
        [
            ("unwind_files", &self.files),
            ("unwind_pages", &self.pages),
            ("unwind_rows", &self.rows),
            ("unwind_refused", &self.refused),
            ("unwind_damaged", &self.damaged),
            ("python_files", &self.python_files),
            ("python_unknown", &self.python_unknown),
            ("unwind_tables_ns", &self.time_ns),
        ]
        .map(|(name, count)| (name, count.load(Ordering::Relaxed)))
    }
}

/// A file that is mapped as code, where, and by whose program.
#[derive(Debug)]
struct MappedFile {
    file: OpenedFile,
    path: String,
    user: u32,
}

/// What the thread is told.
#[derive(Debug)]
enum Told {
    Mapped(MappedFile),
    Wanted(WantedPages),
}

/// A user of whom nothing is known.
const NOBODY: u32 = u32::MAX;

/// Whom files of code are told to. The thread ends when this is dropped.
#[derive(Clone, Debug)]
pub(crate) struct UnwindTables {
    files: SyncSender<Told>,
    counts: Arc<UnwindCounts>,
}

impl UnwindTables {
    /// Starts the thread.
    pub(crate) fn start(programs: UnwindPrograms, counts: Arc<UnwindCounts>) -> io::Result<Self> {
        let (files, received) = sync_channel(WAITING_MAX);
        let mut maker = TableMaker::new(programs, counts.clone());
        std::thread::Builder::new().name("unwind-tables".into()).spawn(move || {
            maker.add_vdso();
            maker.follow(&received);
        })?;
        Ok(Self { files, counts })
    }

    /// A program of this user has mapped a file as code. Does not wait.
    pub(crate) fn mapped(&self, file: OpenedFile, path: &str, user: Option<u32>) {
        let (path, user) = (path.to_owned(), user.unwrap_or(NOBODY));
        if self.files.try_send(Told::Mapped(MappedFile { file, path, user })).is_err() {
            self.counts.refused.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Walks will come by these pages. Does not wait.
    fn wanted(&self, wanted: WantedPages) {
        // Where there is no room for it, walks ask themselves.
        let _ = self.files.try_send(Told::Wanted(wanted));
    }
}

/// How much of a CPU the thread takes. Stacks are cut as long as their tables are not there, most
/// of them when a recording begins, and on a busy machine whoever goes behind others comes too
/// late. So it goes before them, but for part of the time only: whose files are costly waits.
struct Hurry {
    began: Instant,
    is_on: bool,
}

/// So much CPU time at once, and so much of each second.
const HURRY_AT_ONCE: Duration = Duration::from_millis(500);
const HURRY_SHARE: u32 = 20;

impl Hurry {
    fn begin() -> Self {
        go_before_most();
        Self { began: Instant::now(), is_on: true }
    }

    /// CPU time of this thread.
    fn cpu_time(&self) -> Duration {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
    }

    fn follow(&mut self) {
        let may = self.cpu_time() < HURRY_AT_ONCE + self.began.elapsed() / HURRY_SHARE;
        if may != self.is_on {
            let go = if may { go_before_most } else { go_behind_others };
            go();
            self.is_on = may;
        }
    }
}

/// Makes tables.
struct TableMaker {
    names: FileNames,
    tables: Tables<MappedWords>,
    /// By number less one.
    files: Vec<CodeFile>,
    inodes: HashSet<u64>,
    counts: Arc<UnwindCounts>,
    /// What walks had asked for when that was last looked at.
    asked: u64,
    /// Not all of that is made.
    is_unfinished: bool,
    /// How long making tables took, by the users whose programs asked for them.
    took: HashMap<u32, Duration>,
    /// Room for files with an interpreter.
    free_interpreters: Pool,
}

/// The pages of code in which an interpreter's loop lies.
fn pages_of_loop(python: &PythonFile) -> Vec<u32> {
    let (ranges, _) = python.loops.as_chunks::<2>();
    let ranges = ranges.iter().filter(|[first, end]| first < end);
    let pages = ranges.flat_map(|[first, end]| first / PAGE_BYTES..end.div_ceil(PAGE_BYTES));
    pages.take(LOOP_PAGES_MAX).filter_map(|page| u32::try_from(page).ok()).collect()
}

/// A file that the programs know.
struct CodeFile {
    /// `None` if it has nothing to unwind by.
    unwind: Option<UnwindFile>,
    _held: Option<HeldCode>,
}

impl TableMaker {
    fn new(programs: UnwindPrograms, counts: Arc<UnwindCounts>) -> Self {
        let UnwindPrograms { rows, pages, files, words, inodes, interpreters, identify } = programs;
        Self {
            names: FileNames::new(words, inodes, interpreters, identify),
            tables: Tables::new(rows, pages, files),
            files: Vec::new(),
            inodes: HashSet::new(),
            counts,
            asked: 0,
            is_unfinished: false,
            took: HashMap::new(),
            free_interpreters: Pool::new(FILES_MAX as u64),
        }
    }

    fn follow(&mut self, files: &Receiver<Told>) {
        let mut sleep = SHORTEST_SLEEP;
        let mut hurry = Hurry::begin();
        loop {
            let told = match files.recv_timeout(sleep) {
                Ok(file) => Some(file),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let mut has_worked = told.is_some();
            for told in told.into_iter().chain(files.try_iter()) {
                match told {
                    Told::Mapped(file) => self.add(&file),
                    Told::Wanted(wanted) => {
                        self.tables.ask(&wanted);
                        self.is_unfinished = true;
                    }
                }
            }
            has_worked |= self.make_wanted();
            sleep = if has_worked { SHORTEST_SLEEP } else { (sleep * 2).min(LONGEST_SLEEP) };
            hurry.follow();
            self.counts.time_ns.store(hurry.cpu_time().as_nanos() as u64, Ordering::Relaxed);
        }
    }

    /// Tells the programs of a file. Without tables, too: they look for them at every walk else.
    fn add(&mut self, mapped: &MappedFile) {
        let MappedFile { file, path, user } = mapped;
        // Mapping one asks its file system, which may be a program of a user's.
        if file.is_of_a_users_mount(None) {
            return self.count(&self.counts.refused);
        }
        let Ok(held) = HeldCode::map(file.file()) else { return self.count(&self.counts.refused) };
        let Ok(inode) = self.names.inode(&held) else { return self.count(&self.counts.refused) };
        if self.inodes.contains(&inode) {
            return;
        }
        let unwind = UnwindFile::read(file.reader());
        if unwind.is_err() {
            self.count(&self.counts.damaged);
        }
        let python = self.interpreter(file, path);
        self.put(inode, CodeFile { unwind: unwind.ok(), _held: Some(held) }, python, *user);
    }

    /// The Python interpreter in a file, if it is one that is known.
    fn interpreter(&self, file: &OpenedFile, path: &str) -> Option<PythonFile> {
        if !may_hold_interpreter(path) {
            return None;
        }
        let cache = ReadCache::new(file.reader());
        let found = interpreter(&cache, path);
        if found.is_err() {
            self.count(&self.counts.python_unknown);
        }
        found.ok().flatten()
    }

    fn add_vdso(&mut self) {
        let image = || -> Option<Vec<u8>> {
            let mut bytes = Vec::new();
            io::Read::read_to_end(&mut own_vdso().ok()?, &mut bytes).ok()?;
            Some(bytes)
        };
        let unwind = image().and_then(|bytes| UnwindFile::from_bytes(bytes).ok());
        self.put(programs::VDSO, CodeFile { unwind, _held: None }, None, 0);
    }

    fn put(&mut self, inode: u64, file: CodeFile, python: Option<PythonFile>, user: u32) {
        let code = file.unwind.as_ref().map_or(&[][..], UnwindFile::code);
        let end = code.iter().map(|range| range.end).max().unwrap_or(0);
        let pages = u32::try_from(end.div_ceil(PAGE_BYTES)).unwrap_or(u32::MAX);
        let Some(number) = self.tables.add(pages, user) else {
            return self.count(&self.counts.refused);
        };
        self.files.push(file);
        self.inodes.insert(inode);
        // Before the file is known: rows that walks remember say whether they are the loop's.
        let is_python = python.is_some_and(|python| self.put_interpreter(number, &python, user));
        match self.names.set(inode, number) {
            Ok(()) => self.count(&self.counts.files),
            Err(_) => self.count(&self.counts.refused),
        }
        if let Some(python) = python.filter(|_| is_python) {
            // Python frames are read where a walk has come to the interpreter's loop, so it should
            // from the first moment on. In its user's turn: anybody can make such a file.
            self.tables.ask(&WantedPages { number, user, pages: pages_of_loop(&python) });
            self.is_unfinished = true;
        }
    }

    /// Tells the programs where the interpreter in a file has its structures; whether there was room.
    fn put_interpreter(&mut self, number: u32, python: &PythonFile, user: u32) -> bool {
        let is_put = self.free_interpreters.take(user, 1)
            && self.names.set_interpreter(number, python).is_ok()
            && self.tables.mark_interpreter(number);
        self.count(if is_put { &self.counts.python_files } else { &self.counts.refused });
        is_put
    }

    /// Makes what walks have asked for, for a while; whether they had.
    fn make_wanted(&mut self) -> bool {
        let asked = self.names.wanted();
        if asked == self.asked && !self.is_unfinished {
            return false;
        }
        (self.asked, self.is_unfinished) = (asked, false);
        let end = Instant::now() + AT_ONCE;
        while let Some(wanted) = self.next_wanted() {
            self.is_unfinished = Instant::now() >= end;
            if self.is_unfinished {
                break;
            }
            let began = Instant::now();
            self.make(&wanted);
            *self.took.entry(payer(wanted.user)).or_default() += began.elapsed();
        }
        true
    }

    /// Some pages for the user whose programs took the least time: who runs code that is costly
    /// waits, and nobody for them.
    fn next_wanted(&self) -> Option<WantedPages> {
        let took = |user| self.took.get(&payer(user)).copied().unwrap_or_default();
        let mut wanted = self.tables.wanted().into_iter().min_by_key(|wanted| took(wanted.user))?;
        // Those that are refused take no time.
        if self.tables.has_room(wanted.user) {
            wanted.pages.truncate(PAGES_AT_ONCE);
        }
        Some(wanted)
    }

    fn file(&self, number: u32) -> Option<&CodeFile> {
        self.files.get((number as usize).checked_sub(1)?)
    }

    fn make(&mut self, wanted: &WantedPages) {
        let WantedPages { number, user, ref pages } = *wanted;
        if !self.tables.has_room(user) {
            for page in pages {
                self.tables.refuse(number, *page, user);
                self.count(&self.counts.refused);
            }
            return;
        }
        let unwind = self.file(number).and_then(|file| file.unwind.as_ref());
        if let Some(Ok(tables)) = unwind.map(|unwind| unwind.pages(pages)) {
            tables.iter().for_each(|(page, rows)| self.publish(number, *page, rows, user));
            return;
        }
        // Nobody asks for them again.
        pages.iter().for_each(|page| self.publish(number, *page, &[], user));
        self.count(&self.counts.damaged);
    }

    fn publish(&mut self, number: u32, page: u32, rows: &[UnwindRow], user: u32) {
        let fits = self.tables.publish(number, page, rows, user);
        self.count(if fits { &self.counts.pages } else { &self.counts.refused });
        self.counts.rows.store(self.tables.rows() as u64, Ordering::Relaxed);
    }

    fn count(&self, what: &AtomicU64) {
        what.fetch_add(1, Ordering::Relaxed);
    }
}
