//! Unwind tables for the kernel programs, made while a recording goes on: of the files that are
//! mapped as code, and of these the pages in which a walk came by.
//!
//! A thread of its own, which nothing waits for. It looks now and then whether walks have asked for
//! more; nobody wakes it for that. The memory of the tables is bounded: while it is short, time is
//! counted in epochs ([`Tables`]), and what was not used lately gives way.

mod ahead;
mod boost;
mod held;
mod interpreters;
mod memory;
mod programs;
mod refused;
mod runs;
mod tables;
mod waiting;
mod words;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt::Display;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use syscollect_elf::ReadCache;
use syscollect_records::python::FILES_MAX;
use syscollect_records::unwind::{PAGE_BYTES, UnwindRow};
use syscollect_symbolize::own_vdso;
use syscollect_untrusted_files::{FileData, OpenedFile};
use syscollect_unwind::UnwindFile;

use crate::fair_queue::ProcessUser;
use crate::shares::Pool;
use crate::usage::thread_cpu_time;
use ahead::TimeAhead;
use boost::SharedBoost;
pub use held::{StackCopy, StacksInMemory};
use interpreters::{Interpreter, InterpreterKind};
pub(crate) use memory::{StackMemoryRing, ring_bytes};
use programs::{FileNames, Names, PinnedPage};
pub(crate) use programs::{InterpreterMaps, UnwindPrograms};
pub(crate) use refused::RefusedTables;
use tables::{Tables, WantedPages};
use waiting::{Added, MappedFile, WaitingFiles};
use words::{FileId, Words};

/// How long an epoch is at least.
const EPOCH: Duration = Duration::from_secs(1);
/// How often files are looked for that have no name any more, here and among those that are held for
/// naming.
pub(crate) const NAMELESS_INTERVAL: Duration = Duration::from_secs(2);
/// Files that wait for a number.
const WITHOUT_NUMBER_MAX: u64 = 256;
/// Stacks of which it was not heard yet which pages they lack.
const WANTED_MAX: usize = 1024;
/// How often to look for pages that walks ask for: soon after some were, and later less often.
const SHORTEST_SLEEP: Duration = Duration::from_millis(4);
const LONGEST_SLEEP: Duration = Duration::from_millis(50);

/// How long files are told to the programs before tables are made, and the other way round; and
/// pages of a file in a user's turn.
const AT_ONCE: Duration = Duration::from_millis(20);
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
    /// The same of Java virtual machines.
    jvm_files: AtomicU64,
    jvm_unknown: AtomicU64,
    /// Nanoseconds of CPU time.
    time_ns: AtomicU64,
}

impl UnwindCounts {
    /// All of them by name.
    pub(crate) fn named(&self) -> [(&'static str, u64); 13] {
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
            ("jvm_files", &self.jvm_files),
            ("jvm_unknown", &self.jvm_unknown),
            ("unwind_tables_ns", &self.time_ns),
        ]
        .map(|(name, count)| (name, count.load(Ordering::Relaxed)))
    }
}

/// What the thread that makes tables is sent.
#[derive(Debug)]
enum MakerMessage {
    /// A file waits.
    Mapped,
    Wanted(WantedPages),
}

/// Whom files of code are told to. The thread ends when this is dropped.
#[derive(Clone, Debug)]
pub(crate) struct UnwindTables {
    reported: SyncSender<MakerMessage>,
    waiting: Arc<WaitingFiles>,
    counts: Arc<UnwindCounts>,
    refused: RefusedTables,
}

impl UnwindTables {
    /// Starts the thread. The user who asked for the recording has no share of its time.
    pub(crate) fn start(
        programs: UnwindPrograms,
        counts: Arc<UnwindCounts>,
        asked_by: Option<u32>,
    ) -> io::Result<Self> {
        let (reported, received) = sync_channel(WANTED_MAX);
        let waiting = Arc::new(WaitingFiles::new(asked_by));
        let UnwindPrograms { rows, pages, files, words, inodes, interpreters, identify } = programs;
        let names = FileNames::new(words, inodes, interpreters, identify);
        let tables = Tables::new(rows, pages, files);
        let refused = RefusedTables::default();
        let shared = (counts.clone(), refused.clone());
        let mut maker = TableMaker::new(names, tables, shared, waiting.clone());
        std::thread::Builder::new().name("unwind-tables".into()).spawn(move || {
            maker.add_vdso();
            maker.follow(&received);
        })?;
        Ok(Self { reported, waiting, counts, refused })
    }

    /// A program of this user has mapped a file as code. Does not wait.
    pub(crate) fn mapped(&self, file: OpenedFile, path: &str, whose: ProcessUser) {
        let mapped = MappedFile { file, path: path.to_owned(), whose, was_refused: false };
        match self.waiting.add(mapped, Instant::now()) {
            // Where there is no room, the thread has not heard of others yet, and finds it with them.
            Added::WakeNeeded => drop(self.reported.try_send(MakerMessage::Mapped)),
            Added::WakeSent => {}
            Added::NoRoom => {
                self.counts.refused.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Files that are not known any more: they are [`mapped`](Self::mapped) anew when that is seen.
    pub(crate) fn take_let_go(&self) -> Vec<FileData> {
        self.waiting.let_go.take()
    }

    /// What to tell the user of files that were told of late, or not.
    pub(crate) fn notes(&self) -> Vec<String> {
        self.waiting.notes(Instant::now())
    }

    /// Of which files there is no table.
    pub(crate) fn refused(&self) -> &RefusedTables {
        &self.refused
    }

    /// How many pages gave way so far, which may be asked for again.
    fn evicted(&self) -> u64 {
        self.counts.evicted.load(Ordering::Relaxed)
    }

    /// Walks will come by these pages. Does not wait.
    fn wanted(&self, wanted: WantedPages) {
        // Where there is no room for it, walks ask themselves.
        let _ = self.reported.try_send(MakerMessage::Wanted(wanted));
    }
}

/// Makes tables.
struct TableMaker<N, W> {
    names: N,
    tables: Tables<W>,
    /// By what their files are called in the tables.
    files: BTreeMap<FileId, CodeFile>,
    inodes: HashMap<u64, FileId>,
    /// Files that walks do not know any more: soon they are let go, if nobody maps them meanwhile.
    leaving: Vec<FileId>,
    nameless_looked_for: Instant,
    /// Files that the programs do not know yet.
    waiting: Arc<WaitingFiles>,
    /// Files for which there was no number; and how many of them a user may have.
    without_number: VecDeque<MappedFile>,
    free_without_number: Pool,
    epoch_began: Instant,
    counts: Arc<UnwindCounts>,
    refused: RefusedTables,
    /// What walks had asked for when that was last looked at.
    asked: u64,
    /// Not all of that is made.
    is_unfinished: bool,
    /// Room for files with an interpreter.
    free_interpreters: Pool,
    /// For what nobody has asked for yet.
    ahead: TimeAhead,
}

/// A file that the programs know.
struct CodeFile {
    /// As it was mapped.
    path: String,
    /// `None` if it has nothing to unwind by.
    unwind: Option<UnwindFile>,
    /// What the file is held by; `None` for what is no file.
    held: Option<PinnedCodeFile>,
    /// Whose place for an interpreter it has, if it has one.
    interpreter_of: Option<u32>,
}

/// A file as it is held.
struct PinnedCodeFile {
    code: PinnedPage,
    inode: u64,
    file: OpenedFile,
}

impl<N: Names, W: Words> TableMaker<N, W> {
    fn new(
        names: N,
        tables: Tables<W>,
        (counts, refused): (Arc<UnwindCounts>, RefusedTables),
        waiting: Arc<WaitingFiles>,
    ) -> Self {
        counts.rows_max.store(tables.rows_max(), Ordering::Relaxed);
        Self {
            names,
            tables,
            files: BTreeMap::new(),
            inodes: HashMap::new(),
            leaving: Vec::new(),
            nameless_looked_for: Instant::now(),
            waiting,
            without_number: VecDeque::new(),
            free_without_number: Pool::new(WITHOUT_NUMBER_MAX),
            epoch_began: Instant::now(),
            counts,
            refused,
            asked: 0,
            is_unfinished: false,
            free_interpreters: Pool::new(FILES_MAX as u64),
            ahead: TimeAhead::begin(),
        }
    }

    fn follow(&mut self, reported: &Receiver<MakerMessage>) {
        let mut sleep = SHORTEST_SLEEP;
        let mut boost = SharedBoost::begin();
        let mut has_more = false;
        loop {
            let wait = if has_more { Duration::ZERO } else { sleep };
            let first = match reported.recv_timeout(wait) {
                Ok(reported) => Some(reported),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let was_told = first.is_some();
            // As many as there may be: whoever tells more than that meanwhile is heard next time.
            first.into_iter().chain(reported.try_iter()).take(WANTED_MAX).for_each(|reported| {
                if let MakerMessage::Wanted(wanted) = reported {
                    self.tables.expect(&wanted);
                    self.is_unfinished = true;
                }
            });
            let worked = self.work(&mut boost);
            self.follow_epochs();
            has_more = worked.has_more;
            let has_worked = was_told || worked.has_worked;
            sleep = if has_worked { SHORTEST_SLEEP } else { (sleep * 2).min(LONGEST_SLEEP) };
            boost.idle();
            self.counts.time_ns.store(thread_cpu_time().as_nanos() as u64, Ordering::Relaxed);
        }
    }

    /// Tells the programs of files for a while, then makes tables for a while: neither waits for all
    /// of the other.
    fn work(&mut self, boost: &mut SharedBoost) -> Worked {
        let added = self.add_waiting(boost);
        let made = self.make_wanted(boost);
        Worked {
            has_worked: added.has_worked || made.has_worked,
            has_more: added.has_more || made.has_more,
        }
    }

    /// Tells the programs of files that wait, in turns of their users.
    fn add_waiting(&mut self, boost: &mut SharedBoost) -> Worked {
        let end = Instant::now() + AT_ONCE;
        let mut worked = Worked::default();
        self.waiting.hear();
        loop {
            let began = Instant::now();
            worked.has_more = began >= end;
            if worked.has_more {
                return worked;
            }
            let Some(turn) = self.waiting.next(began) else { return worked };
            worked.has_worked = true;
            let (file, turn) = turn.take();
            boost.serve(uid_of(turn.whose));
            let is_new = self.add(file);
            self.waiting.took(&turn, began, is_new);
        }
    }

    /// Tells the programs of a file. Without tables, too: they look for them at every walk else.
    /// Whether they did not know it before.
    fn add(&mut self, mapped: MappedFile) -> bool {
        let MappedFile { ref file, ref path, whose, was_refused: _ } = mapped;
        let user = uid_of(whose);
        // Mapping one asks its file system, which may be a program of a user's.
        if file.is_of_a_users_mount(None) {
            self.refuse(path, user, &"it lies in a file system that a program of a user's may be");
            return false;
        }
        let held = PinnedPage::map(file.file());
        let (inode, code) = match held.and_then(|code| Ok((self.names.inode(&code)?, code))) {
            Ok(found) => found,
            Err(error) => {
                self.refuse(path, user, &format_args!("it cannot be held: {error}"));
                return false;
            }
        };
        if let Some(id) = self.inodes.get(&inode).copied() {
            self.stay(id);
            return false;
        }
        let unwind = UnwindFile::read(file.reader());
        if let Err(error) = &unwind {
            self.count(&self.counts.damaged);
            self.refused.add(path, user, error);
        }
        let Some(id) = self.give_number(unwind.as_ref().ok(), user) else {
            self.wait_for_number(mapped);
            return false;
        };
        let interpreter = self.interpreter(file, path, user);
        let held = Some(PinnedCodeFile { code, inode, file: file.clone() });
        let path = path.clone();
        let file = CodeFile { path, unwind: unwind.ok(), held, interpreter_of: None };
        self.put(id, inode, file, interpreter, user);
        true
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
        if self.free_without_number.take(uid_of(mapped.whose), 1) {
            self.without_number.push_back(mapped);
        } else {
            // When it is mapped once more, there may be.
            self.waiting.let_go.add(*mapped.file.data());
        }
    }

    /// The interpreter in a file, if it is one that is known. It takes a place of its user's, and
    /// who has none left has no files looked into: that takes longer than all else of a file.
    fn interpreter(&mut self, file: &OpenedFile, path: &str, user: u32) -> Option<Interpreter> {
        let kind = InterpreterKind::of_path(path)?;
        if !self.free_interpreters.take(user, 1) {
            self.count(&self.counts.refused);
            return None;
        }
        let cache = ReadCache::new(file.reader());
        let found = kind.find(&cache, path);
        if found.is_err() {
            self.count(match kind {
                InterpreterKind::Python => &self.counts.python_unknown,
                InterpreterKind::Jvm => &self.counts.jvm_unknown,
            });
        }
        let found = found.ok().flatten();
        if found.is_none() {
            self.free_interpreters.give_back(user, 1);
        }
        found
    }

    fn add_vdso(&mut self) {
        let unwind = vdso_image().and_then(|bytes| UnwindFile::from_bytes(bytes).ok());
        match self.give_number(unwind.as_ref(), 0) {
            Some(id) => {
                let path = "[vdso]".to_owned();
                let file = CodeFile { path, unwind, held: None, interpreter_of: None };
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
        interpreter: Option<Interpreter>,
        user: u32,
    ) {
        // Before the file is known: rows that walks remember say whether they are the loop's.
        let interpreter = interpreter.filter(|found| self.put_interpreter(id, found, user));
        file.interpreter_of = interpreter.as_ref().map(|_| user);
        self.files.insert(id, file);
        self.inodes.insert(inode, id);
        match self.names.set(inode, id) {
            Ok(()) => self.count(&self.counts.files),
            Err(_) => self.count(&self.counts.refused),
        }
        if let Some(Interpreter::Python(python)) = interpreter {
            // Python frames are read where a walk has come to the interpreter's loop, so it should
            // from the first moment on. In its user's turn: anybody can make such a file.
            let pages = interpreters::pages_of_loop(&python);
            self.tables.ask(&WantedPages { file: id, user, pages });
            self.is_unfinished = true;
        }
    }

    /// Tells the programs where the interpreter in a file has its structures; if they do not take
    /// that, its user has its place back.
    fn put_interpreter(&mut self, id: FileId, found: &Interpreter, user: u32) -> bool {
        let is_put =
            self.names.set_interpreter(id, found).is_ok() && self.tables.mark_interpreter(id);
        if !is_put {
            self.free_interpreters.give_back(user, 1);
        }
        self.count(match found {
            _ if !is_put => &self.counts.refused,
            Interpreter::Python(_) => &self.counts.python_files,
            Interpreter::Jvm(_) => &self.counts.jvm_files,
        });
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
        self.waiting.let_go.add(*held.file.data());
        self.leaving.push(id);
    }

    fn let_leaving_go(&mut self) {
        // Else a mapping of a moment ago may not be told of.
        if self.leaving.is_empty() || !self.waiting.let_go.is_empty() {
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

    /// Tries once more to give numbers to files that there were none for, in their users' turns.
    fn add_without_number(&mut self) {
        for file in std::mem::take(&mut self.without_number) {
            self.free_without_number.give_back(uid_of(file.whose), 1);
            // That they were refused is counted.
            self.waiting.add(file, Instant::now());
        }
    }

    /// Makes what walks have asked for, for a while.
    fn make_wanted(&mut self, boost: &mut SharedBoost) -> Worked {
        let asked = self.names.wanted();
        if asked == self.asked && !self.is_unfinished {
            return Worked::default();
        }
        (self.asked, self.is_unfinished) = (asked, false);
        let end = Instant::now() + AT_ONCE;
        while let Some(wanted) = self.next_wanted() {
            self.is_unfinished = Instant::now() >= end;
            if self.is_unfinished {
                break;
            }
            let began = Instant::now();
            boost.serve(wanted.user);
            self.make(&wanted);
            self.waiting.took_besides(whose(wanted.user), began.elapsed());
        }
        self.is_unfinished |= self.make_unasked(boost);
        Worked { has_worked: true, has_more: self.is_unfinished }
    }

    /// Makes some of what nobody has asked for yet, if nothing else is to be made; whether it did.
    fn make_unasked(&mut self, boost: &mut SharedBoost) -> bool {
        if self.is_unfinished || !self.ahead.has_some() {
            return false;
        }
        let unasked = self.tables.unasked().into_iter();
        let unasked = self.waiting.least(unasked, |unasked| whose(unasked.user));
        let Some(mut unasked) = unasked else { return false };
        unasked.pages.truncate(PAGES_AT_ONCE);
        boost.serve(unasked.user);
        let began = Instant::now();
        self.make(&unasked);
        self.waiting.took_besides(whose(unasked.user), began.elapsed());
        self.ahead.took(began.elapsed());
        true
    }

    /// Some pages for the user whose programs took the least time, files that were told of with it:
    /// who runs code that is costly waits, and nobody for them.
    fn next_wanted(&self) -> Option<WantedPages> {
        let wanted = self.tables.wanted().into_iter();
        let mut wanted = self.waiting.least(wanted, |wanted| whose(wanted.user))?;
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
        let known = self.files.get(&file);
        match known.and_then(|known| Some((known, known.unwind.as_ref()?.pages(pages)))) {
            Some((_, Ok(tables))) => {
                tables.iter().for_each(|(page, rows)| self.publish(file, *page, rows, user));
                return;
            }
            Some((known, Err(error))) => self.refused.add(&known.path, user, &error),
            None => {}
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

    /// The programs are not told of a file.
    fn refuse(&self, path: &str, user: u32, reason: &dyn Display) {
        self.count(&self.counts.refused);
        self.refused.add(path, user, reason);
    }

    fn count(&self, what: &AtomicU64) {
        what.fetch_add(1, Ordering::Relaxed);
    }
}

fn vdso_image() -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut own_vdso().ok()?, &mut bytes).ok()?;
    Some(bytes)
}

fn is_nameless(file: &CodeFile) -> bool {
    let held = file.held.as_ref();
    held.is_some_and(|held| held.file.bytes_without_name().is_ok_and(|bytes| bytes > 0))
}

/// What came of a while of work.
#[derive(Clone, Copy, Debug, Default)]
struct Worked {
    has_worked: bool,
    /// There is more that could be done now.
    has_more: bool,
}

/// A user of whom nothing is known, as the programs and shares have it.
const NOBODY: u32 = u32::MAX;

fn uid_of(whose: ProcessUser) -> u32 {
    whose.uid().unwrap_or(NOBODY)
}

fn whose(user: u32) -> ProcessUser {
    if user == NOBODY { ProcessUser::Unknown } else { ProcessUser::Of(user) }
}

#[cfg(test)]
#[path = "maker_tests.rs"]
mod tests;
