//! Unwind tables for the kernel programs, made while a recording goes on: of the files that are
//! mapped as code, and of these the pages in which a walk came by.
//!
//! A thread of its own, which nothing waits for. It looks now and then whether walks have asked for
//! more; nobody wakes it for that. The memory of the tables is bounded: while it is short, time is
//! counted in epochs ([`Tables`]), and what was not used lately gives way.

mod memory;
mod programs;
mod runs;
mod tables;
mod words;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use object::ReadCache;
use syscollect_cpython::{interpreter, may_hold_interpreter};
use syscollect_records::python::{FILES_MAX, PythonFile};
use syscollect_records::unwind::{PAGE_BYTES, UnwindRow};
use syscollect_symbolize::own_vdso;
use syscollect_untrusted_files::{FileData, OpenedFile, payer};
use syscollect_unwind::UnwindFile;

use crate::mapped_map::MappedWords;
use crate::priority::{go_before_most, go_behind_others};
use crate::shares::Pool;
pub use memory::{HeldStack, StacksInMemory};
pub(crate) use memory::{StackMemoryRing, ring_bytes};
pub(crate) use programs::UnwindPrograms;
use programs::{FileNames, HeldCode};
use tables::{Tables, WantedPages};
use words::FileId;

/// How long an epoch is at least.
const EPOCH: Duration = Duration::from_secs(1);
/// How often files are looked for that have no name any more.
const NAMELESS_INTERVAL: Duration = Duration::from_secs(2);
/// Files that wait for a number.
const WITHOUT_NUMBER_MAX: u64 = 256;
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

/// Rows that have room in so many bytes.
pub(crate) fn rows_of(bytes: u64) -> u32 {
    u32::try_from(bytes / UnwindRow::SIZE as u64).unwrap_or(u32::MAX)
}

/// What was made of tables so far.
#[derive(Debug, Default)]
pub(crate) struct UnwindCounts {
    files: AtomicU64,
    pages: AtomicU64,
    /// Rows in use, and for how many there is room.
    rows: AtomicU64,
    rows_max: AtomicU64,
    /// Files and pages for which there was no room, and files that cannot be read as what they are.
    refused: AtomicU64,
    damaged: AtomicU64,
    /// Pages that gave way to others, and files that nobody had mapped any more.
    evicted: AtomicU64,
    files_let_go: AtomicU64,
    /// Files with a Python interpreter, and those with one that is not known.
    python_files: AtomicU64,
    python_unknown: AtomicU64,
    /// Nanoseconds of CPU time.
    time_ns: AtomicU64,
}

impl UnwindCounts {
    /// All of them by name.
    pub(crate) fn named(&self) -> [(&'static str, u64); 11] {
        [
            ("unwind_files", &self.files),
            ("unwind_pages", &self.pages),
            ("unwind_rows", &self.rows),
            ("unwind_rows_max", &self.rows_max),
            ("unwind_refused", &self.refused),
            ("unwind_damaged", &self.damaged),
            ("unwind_pages_evicted", &self.evicted),
            ("unwind_files_let_go", &self.files_let_go),
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
    /// There was no number for it, which is counted.
    was_refused: bool,
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
    let_go: Arc<LetGo>,
}

/// Files that were let go: whoever notices that they are mapped again has to say so.
#[derive(Debug, Default)]
struct LetGo {
    files: Mutex<Vec<FileData>>,
    /// How many there are, so that nobody asks in vain.
    count: AtomicU64,
}

impl LetGo {
    fn add(&self, file: FileData) {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).push(file);
        self.count.fetch_add(1, Ordering::Release);
    }

    fn take(&self) -> Vec<FileData> {
        if self.is_empty() {
            return Vec::new();
        }
        let taken = std::mem::take(&mut *self.files.lock().unwrap_or_else(PoisonError::into_inner));
        self.count.fetch_sub(taken.len() as u64, Ordering::Release);
        taken
    }

    fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }
}

impl UnwindTables {
    /// Starts the thread.
    pub(crate) fn start(programs: UnwindPrograms, counts: Arc<UnwindCounts>) -> io::Result<Self> {
        let (files, received) = sync_channel(WAITING_MAX);
        let let_go = Arc::<LetGo>::default();
        let mut maker = TableMaker::new(programs, counts.clone(), let_go.clone());
        std::thread::Builder::new().name("unwind-tables".into()).spawn(move || {
            maker.add_vdso();
            maker.follow(&received);
        })?;
        Ok(Self { files, counts, let_go })
    }

    /// A program of this user has mapped a file as code. Does not wait.
    pub(crate) fn mapped(&self, file: OpenedFile, path: &str, user: Option<u32>) {
        let (path, user) = (path.to_owned(), user.unwrap_or(NOBODY));
        let mapped = MappedFile { file, path, user, was_refused: false };
        if self.files.try_send(Told::Mapped(mapped)).is_err() {
            self.counts.refused.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Files that are not known any more: they are [`mapped`](Self::mapped) anew when that is seen.
    pub(crate) fn take_let_go(&self) -> Vec<FileData> {
        self.let_go.take()
    }

    /// How many pages gave way so far, which may be asked for again.
    fn evicted(&self) -> u64 {
        self.counts.evicted.load(Ordering::Relaxed)
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
    /// By what their files are called in the tables.
    files: BTreeMap<FileId, CodeFile>,
    inodes: HashMap<u64, FileId>,
    /// Files that walks do not know any more: soon they are let go, if nobody maps them meanwhile.
    leaving: Vec<FileId>,
    nameless_looked_for: Instant,
    let_go: Arc<LetGo>,
    /// Files for which there was no number; and how many of them a user may have.
    without_number: VecDeque<MappedFile>,
    free_without_number: Pool,
    epoch_began: Instant,
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
    /// What the file is held by; `None` for what is no file.
    held: Option<HeldFile>,
    /// Whose place for an interpreter it has, if it has one.
    interpreter_of: Option<u32>,
}

/// A file as it is held.
struct HeldFile {
    code: HeldCode,
    inode: u64,
    file: OpenedFile,
}

impl TableMaker {
    fn new(programs: UnwindPrograms, counts: Arc<UnwindCounts>, let_go: Arc<LetGo>) -> Self {
        let UnwindPrograms { rows, pages, files, words, inodes, interpreters, identify } = programs;
        let tables = Tables::new(rows, pages, files);
        counts.rows_max.store(tables.rows_max(), Ordering::Relaxed);
        Self {
            names: FileNames::new(words, inodes, interpreters, identify),
            tables,
            files: BTreeMap::new(),
            inodes: HashMap::new(),
            leaving: Vec::new(),
            nameless_looked_for: Instant::now(),
            let_go,
            without_number: VecDeque::new(),
            free_without_number: Pool::new(WITHOUT_NUMBER_MAX),
            epoch_began: Instant::now(),
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
                    Told::Mapped(file) => self.add(file),
                    Told::Wanted(wanted) => {
                        self.tables.ask(&wanted);
                        self.is_unfinished = true;
                    }
                }
            }
            has_worked |= self.make_wanted();
            self.follow_epochs();
            sleep = if has_worked { SHORTEST_SLEEP } else { (sleep * 2).min(LONGEST_SLEEP) };
            hurry.follow();
            self.counts.time_ns.store(hurry.cpu_time().as_nanos() as u64, Ordering::Relaxed);
        }
    }

    /// Tells the programs of a file. Without tables, too: they look for them at every walk else.
    fn add(&mut self, mapped: MappedFile) {
        let MappedFile { ref file, ref path, user, was_refused: _ } = mapped;
        // Mapping one asks its file system, which may be a program of a user's.
        if file.is_of_a_users_mount(None) {
            return self.count(&self.counts.refused);
        }
        let Ok(code) = HeldCode::map(file.file()) else { return self.count(&self.counts.refused) };
        let Ok(inode) = self.names.inode(&code) else { return self.count(&self.counts.refused) };
        if let Some(id) = self.inodes.get(&inode).copied() {
            return self.stay(id);
        }
        let unwind = UnwindFile::read(file.reader());
        if unwind.is_err() {
            self.count(&self.counts.damaged);
        }
        let Some(id) = self.give_number(unwind.as_ref().ok(), user) else {
            return self.wait_for_number(mapped);
        };
        let python = self.interpreter(file, path);
        let held = Some(HeldFile { code, inode, file: file.clone() });
        let file = CodeFile { unwind: unwind.ok(), held, interpreter_of: None };
        self.put(id, inode, file, python, user);
    }

    /// A number for a file that a user's program has mapped, if there is one.
    fn give_number(&mut self, unwind: Option<&UnwindFile>, user: u32) -> Option<FileId> {
        let code = unwind.map_or(&[][..], UnwindFile::code);
        let end = code.iter().map(|range| range.end).max().unwrap_or(0);
        let pages = u32::try_from(end.div_ceil(PAGE_BYTES)).unwrap_or(u32::MAX);
        self.tables.add(pages, user)
    }

    /// There may be a number for the file later.
    fn wait_for_number(&mut self, mut mapped: MappedFile) {
        if !std::mem::replace(&mut mapped.was_refused, true) {
            self.count(&self.counts.refused);
        }
        if self.free_without_number.take(mapped.user, 1) {
            self.without_number.push_back(mapped);
        } else {
            // When it is mapped once more, there may be.
            self.let_go.add(*mapped.file.data());
        }
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
        match self.give_number(unwind.as_ref(), 0) {
            Some(id) => {
                let file = CodeFile { unwind, held: None, interpreter_of: None };
                self.put(id, programs::VDSO, file, None, 0);
            }
            None => self.count(&self.counts.refused),
        }
    }

    fn put(
        &mut self,
        id: FileId,
        inode: u64,
        mut file: CodeFile,
        python: Option<PythonFile>,
        user: u32,
    ) {
        // Before the file is known: rows that walks remember say whether they are the loop's.
        let python = python.filter(|python| self.put_interpreter(id, python, user));
        file.interpreter_of = python.map(|_| user);
        self.files.insert(id, file);
        self.inodes.insert(inode, id);
        match self.names.set(inode, id) {
            Ok(()) => self.count(&self.counts.files),
            Err(_) => self.count(&self.counts.refused),
        }
        if let Some(python) = python {
            // Python frames are read where a walk has come to the interpreter's loop, so it should
            // from the first moment on. In its user's turn: anybody can make such a file.
            self.tables.ask(&WantedPages { file: id, user, pages: pages_of_loop(&python) });
            self.is_unfinished = true;
        }
    }

    /// Tells the programs where the interpreter in a file has its structures; whether there was room.
    fn put_interpreter(&mut self, id: FileId, python: &PythonFile, user: u32) -> bool {
        let has_room = self.free_interpreters.take(user, 1);
        let is_put = has_room
            && self.names.set_interpreter(id, python).is_ok()
            && self.tables.mark_interpreter(id);
        if has_room && !is_put {
            self.free_interpreters.give_back(user, 1);
        }
        self.count(if is_put { &self.counts.python_files } else { &self.counts.refused });
        is_put
    }

    /// Begins an epoch where room is short; lets files go that nobody has mapped any more.
    fn follow_epochs(&mut self) {
        if self.epoch_began.elapsed() < EPOCH {
            return;
        }
        self.let_leaving_go();
        if self.nameless_looked_for.elapsed() >= NAMELESS_INTERVAL {
            self.nameless_looked_for = Instant::now();
            self.find_nameless();
        }
        if !self.tables.is_short() {
            return;
        }
        self.epoch_began = Instant::now();
        self.names.set_epoch(self.tables.begin_epoch());
        // Those that were refused are asked for again.
        self.is_unfinished = true;
        if self.tables.is_short_of_files() || !self.without_number.is_empty() {
            self.find_leaving();
        }
        self.add_without_number();
    }

    /// Walks do not know files any more that were not used lately and that nobody has mapped; and
    /// whoever notes mappings is told. What is mapped meanwhile is noticed by one or the other.
    fn find_leaving(&mut self) {
        self.tables.idle_files().into_iter().for_each(|id| self.begin_to_leave(id));
    }

    /// The same of files to which no name leads any more: nothing but their being held here keeps
    /// them from being freed.
    fn find_nameless(&mut self) {
        let is_nameless = |file: &CodeFile| {
            let held = file.held.as_ref();
            held.is_some_and(|held| held.file.bytes_without_name().is_ok_and(|bytes| bytes > 0))
        };
        let nameless = self.files.iter().filter(|(_, file)| is_nameless(file));
        let nameless: Vec<FileId> = nameless.map(|(id, _)| *id).collect();
        nameless.into_iter().for_each(|id| self.begin_to_leave(id));
    }

    /// Walks do not know the file any more, if nobody has it mapped.
    fn begin_to_leave(&mut self, id: FileId) {
        let held = self.files.get(&id).and_then(|file| file.held.as_ref());
        let Some(held) = held.filter(|held| self.names.is_unmapped(&held.code)) else { return };
        if self.leaving.contains(&id) || self.names.forget(held.inode).is_err() {
            return;
        }
        self.let_go.add(*held.file.data());
        self.leaving.push(id);
    }

    fn let_leaving_go(&mut self) {
        // Else a mapping of a moment ago may not be told of.
        if self.leaving.is_empty() || !self.let_go.is_empty() {
            return;
        }
        for id in std::mem::take(&mut self.leaving) {
            let Some(held) = self.files.get(&id).and_then(|file| file.held.as_ref()) else {
                continue;
            };
            if !self.names.is_unmapped(&held.code) {
                // If that fails its stacks end there until it is mapped once more.
                let _ = self.names.set(held.inode, id);
                continue;
            }
            self.remove(id);
        }
    }

    /// A file that was to be let go is mapped again.
    fn stay(&mut self, id: FileId) {
        let Some(place) = self.leaving.iter().position(|leaving| *leaving == id) else { return };
        self.leaving.swap_remove(place);
        let held = self.files.get(&id).and_then(|file| file.held.as_ref());
        let _ = held.map(|held| self.names.set(held.inode, id));
    }

    fn remove(&mut self, id: FileId) {
        // Before anything can be another file's.
        self.tables.remove(id);
        let Some(file) = self.files.remove(&id) else { return };
        if let Some(user) = file.interpreter_of {
            let _ = self.names.forget_interpreter(id);
            self.free_interpreters.give_back(user, 1);
        }
        if let Some(held) = file.held {
            self.inodes.remove(&held.inode);
        }
        self.count(&self.counts.files_let_go);
    }

    /// Tries once more to give numbers to files that there were none for.
    fn add_without_number(&mut self) {
        for file in std::mem::take(&mut self.without_number) {
            self.free_without_number.give_back(file.user, 1);
            self.add(file);
        }
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

    fn make(&mut self, wanted: &WantedPages) {
        let WantedPages { file, user, ref pages } = *wanted;
        if !self.tables.has_room(user) {
            for page in pages {
                self.tables.refuse(file, *page, user);
                self.count(&self.counts.refused);
            }
            return;
        }
        let unwind = self.files.get(&file).and_then(|file| file.unwind.as_ref());
        if let Some(Ok(tables)) = unwind.map(|unwind| unwind.pages(pages)) {
            tables.iter().for_each(|(page, rows)| self.publish(file, *page, rows, user));
            return;
        }
        // Nobody asks for them again.
        pages.iter().for_each(|page| self.publish(file, *page, &[], user));
        self.count(&self.counts.damaged);
    }

    fn publish(&mut self, file: FileId, page: u32, rows: &[UnwindRow], user: u32) {
        let fits = self.tables.publish(file, page, rows, user);
        self.count(if fits { &self.counts.pages } else { &self.counts.refused });
        self.counts.rows.store(self.tables.rows(), Ordering::Relaxed);
        self.counts.evicted.store(self.tables.evicted(), Ordering::Relaxed);
    }

    fn count(&self, what: &AtomicU64) {
        what.fetch_add(1, Ordering::Relaxed);
    }
}
