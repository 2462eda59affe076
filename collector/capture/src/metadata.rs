//! Metadata, which would be gone later: processes and mappings that are there when the
//! recording begins, and the files that are mapped while it goes on.
//!
//! A thread of its own, because reading /proc and opening files takes its
//! time, and the lanes must be drained meanwhile. What is noted is taken in
//! turns of the users whose programs it is of ([`FairQueue`]).

mod at_snapshot;
mod code_names;
mod relisting;
mod task;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use rustc_hash::FxHashSet;
use syscollect_model::{ClockSource, Mapping};
use syscollect_store::{Definition, KnownProcess};
use syscollect_symbolize::PinnedFiles;

use crate::by_user;
use crate::chunk_sink::ChunkSink;
use crate::clock::ticks_now;
use crate::command_lines::CommandLines;
use crate::fair_queue::{
    Account, FairQueue, ProcessUser, ProcessUsers, QueuedWork, Turn, TurnOutcome,
};
use crate::jvm::JvmNames;
use crate::perf_maps::PerfMapWatch;
use crate::priority::{FirstForPart, FirstParts};
use crate::sleepers::{SleeperStacks, SleepersMemory};
use crate::source::Observed;
use crate::stage::Flush;
use crate::unwind::{StacksInMemory, UnwindTables};
use crate::worker::Worker;
pub(crate) use at_snapshot::MetadataSnapshot;
use at_snapshot::names;
use relisting::Relisting;
use task::MetadataTask;

/// Rows that are noted together at most.
const PROCESSES_AT_ONCE: usize = 256;
/// Processes that are described in one turn: some 100 microseconds each.
const DESCRIBED_AT_ONCE: usize = 32;
const MAPPINGS_AT_ONCE: usize = 4096;
/// Mappings that are noted of a process that runs when the recording begins, as many as are
/// recorded of one in a second.
const MAPPINGS_MAX: usize = 4096;
/// On a machine that is busy, this thread had 30 ms of CPU time in a second: names of programs that
/// ran long before the recording were missing to its end. A nice value counts only within a
/// session.
const FIRST: FirstParts = FirstParts {
    always: Duration::from_millis(4),
    at_first: Duration::from_millis(20),
    credit: Duration::from_millis(300),
};
/// What was noted of programs waits at most this long for others.
const LONGEST_WAIT: Duration = Duration::from_millis(500);
/// How much of a second is spent on the programs of one user: some hundred files that nobody had
/// mapped before, or programs that begin.
const SHARE: Duration = Duration::from_millis(150);
/// When to see again whether users that wait may have more.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// What was observed and is not heard yet: more than any turn lets come together; what is beyond is
/// counted. And as much is heard before the next turn.
const UNHEARD_MAX: usize = 65_536;
const HEARD_AT_ONCE: usize = 8192;
/// How long a file's end waits for the turns of those who had no share yet, and the recording's end
/// also for others: whoever took the least comes first.
const BETWEEN_FILES: Duration = Duration::from_secs(1);
const BEYOND_SHARES: Duration = Duration::from_secs(2);
/// How long the end of a recording waits for all that was observed to be noted, and then for the thread
/// to end: it may stand in a file of anybody's.
const SOON: Duration = Duration::from_secs(5);
const LONGEST_GOODBYE: Duration = Duration::from_secs(5);

/// The thread that records metadata, while there is some.
pub(crate) struct MetadataThread {
    /// `None` once it is to end.
    reported: Option<Sender<MetadataMessage>>,
    worker: Worker<RecordedMetadata>,
    orders: Arc<SharedState>,
    sleepers: SleepersMemory,
    /// How long the end waits for all to be noted.
    patience: Duration,
}

/// What the thread and whoever told it to begin share.
#[derive(Default)]
struct SharedState {
    /// What waits is left out.
    stopping: AtomicBool,
    /// Read the names of all that lives once more, at the end.
    read_names: AtomicBool,
    /// What was observed and is not heard yet.
    unheard: AtomicUsize,
    /// What was observed when too much of that was there.
    never_heard: AtomicU64,
    /// Mappings of processes that map more than any needs to.
    mapped_too_much: AtomicU64,
}

/// What the thread leaves.
#[derive(Default)]
struct RecordedMetadata {
    pinned: PinnedFiles,
    /// What to say of what is not noted.
    left_out: Vec<String>,
}

/// What the thread is told.
enum MetadataMessage {
    /// Something to note.
    Observed(Observed),
    /// Another file began: what is there is noted anew, and the files that were pinned so far go
    /// there.
    NextFile(Sender<PinnedFiles>),
    /// A snapshot is taken: what was observed is noted, and this is sent.
    Snapshot(Sender<MetadataSnapshot>),
    /// The files that are mapped are asked for.
    Pinned(Sender<PinnedFiles>),
}

/// What the recording is like.
#[derive(Debug)]
pub(crate) struct MetadataSettings {
    /// What time is read from.
    pub(crate) clock: ClockSource,
    /// The user who asked for the recording has no share of time.
    pub(crate) asked_by: Option<u32>,
    /// The processes whose switches are recorded; empty for all.
    pub(crate) pids: Vec<u32>,
    /// Threads that are blocked have stacks.
    pub(crate) blocked_stacks: bool,
    /// Java virtual machines are asked for names.
    pub(crate) jvms: Option<JvmNames>,
}

impl MetadataThread {
    /// Starts with what is there now. Who makes unwind tables is told of the files.
    pub(crate) fn start(
        sink: Arc<ChunkSink>,
        settings: MetadataSettings,
        unwind: Option<UnwindTables>,
    ) -> std::io::Result<Self> {
        let (reported, received) = channel();
        let sleepers = SleepersMemory::default();
        let memory = sleepers.clone();
        let orders = Arc::new(SharedState::default());
        let ours = Arc::clone(&orders);
        let patience = SOON + settings.jvms.as_ref().map_or(Duration::ZERO, JvmNames::longest);
        let worker = Worker::start("metadata", move || {
            let (clock, blocked_stacks) = (settings.clock, settings.blocked_stacks);
            let mut recorder = MetadataRecorder::new(&sink, settings, unwind);
            recorder.sleepers = SleeperStacks::start(memory, blocked_stacks);
            recorder.add_all();
            recorder.follow(&received, &ours);
            let noted = recorder.end(&ours);
            if ours.read_names.load(Ordering::Acquire) {
                names(clock).iter().for_each(|names| sink.define(names));
            }
            noted
        })?;
        Ok(Self { reported: Some(reported), worker, orders, sleepers, patience })
    }

    /// User stacks of threads that were asleep when the present file began.
    pub(crate) fn take_stacks_in_memory(&self) -> StacksInMemory {
        std::mem::take(&mut self.sleepers.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A file was mapped or a program begun.
    pub(crate) fn observed(&self, observed: Observed) {
        let SharedState { unheard, never_heard, .. } = &*self.orders;
        if unheard.fetch_add(1, Ordering::Relaxed) >= UNHEARD_MAX {
            unheard.fetch_sub(1, Ordering::Relaxed);
            never_heard.fetch_add(1, Ordering::Relaxed);
            return;
        }
        // The thread ends only when this sender does.
        let _ = self
            .reported
            .as_ref()
            .map(|reported| reported.send(MetadataMessage::Observed(observed)));
    }

    /// A file was mapped by a process that maps more than any needs to, and is not noted.
    pub(crate) fn mapped_too_much(&self) {
        self.orders.mapped_too_much.fetch_add(1, Ordering::Relaxed);
    }

    /// The recording goes on in another file, into whose buffer notes go now. The files that were
    /// pinned for the one before come through `pinned`.
    pub(crate) fn next_file(&self, pinned: Sender<PinnedFiles>) {
        let _ =
            self.reported.as_ref().map(|reported| reported.send(MetadataMessage::NextFile(pinned)));
    }

    /// A snapshot of the recording is taken: what was observed is noted soon, upon which the answer
    /// comes.
    pub(crate) fn snapshot(&self, answer: Sender<MetadataSnapshot>) {
        let _ =
            self.reported.as_ref().map(|reported| reported.send(MetadataMessage::Snapshot(answer)));
    }

    /// The files that are mapped are asked for.
    pub(crate) fn pinned(&self, answer: Sender<PinnedFiles>) {
        let _ =
            self.reported.as_ref().map(|reported| reported.send(MetadataMessage::Pinned(answer)));
    }

    /// Waits until everything is noted; the pinned files, and what to say of what is
    /// not noted. With `read_names` the names of all that lives are noted once more.
    pub(crate) fn finish(&mut self, read_names: bool) -> (PinnedFiles, Vec<String>) {
        self.orders.read_names.store(read_names, Ordering::Release);
        self.reported = None;
        let noted = self.worker.wait(self.patience).or_else(|_| {
            // What waits is left out from now on.
            self.orders.stopping.store(true, Ordering::Relaxed);
            self.worker.wait(LONGEST_GOODBYE)
        });
        let RecordedMetadata { pinned, mut left_out } = noted.unwrap_or_else(|_| {
            let late = "names of functions may be absent: when the recording ended, a file of code \
                        was still being opened; which others waited is not known";
            RecordedMetadata { pinned: PinnedFiles::default(), left_out: vec![late.to_owned()] }
        });
        let never_heard = self.orders.never_heard.load(Ordering::Relaxed);
        if never_heard > 0 {
            left_out.push(format!(
                "{never_heard} files of code and programs were not noted when they were mapped and \
                 begun, too many at once: names of functions and arguments of programs may be \
                 missing"
            ));
        }
        let too_much = self.orders.mapped_too_much.load(Ordering::Relaxed);
        if too_much > 0 {
            left_out.push(format!(
                "{too_much} files of code were not noted when they were mapped, of processes that \
                 map hundreds of them at once, again and again: names, unwind tables and probes of \
                 these may be missing"
            ));
        }
        (pinned, left_out)
    }
}

/// Records metadata, one task in each turn.
struct MetadataRecorder<'a> {
    /// Below which /proc is.
    root: PathBuf,
    sink: &'a ChunkSink,
    clock: ClockSource,
    /// The user who asked for the recording.
    asked_by: Option<u32>,
    /// The processes whose switches are recorded; empty for all.
    pids: Vec<u32>,
    command_lines: CommandLines,
    sleepers: SleeperStacks,
    /// Processes whose threads may be asleep, until these can be looked for.
    may_sleep: Vec<(ProcessUser, KnownProcess)>,
    /// The recording has ended.
    is_over: bool,
    pinned: PinnedFiles,
    unwind: Option<UnwindTables>,
    turns: FairQueue<MetadataTask>,
    owners: ProcessUsers,
    perf_maps: PerfMapWatch,
    jvms: Option<JvmNames>,
    /// Processes that ran when the file began and whose mappings are not read yet.
    unread: FxHashSet<u32>,
    relisting: Relisting,
    /// What ran when the file began, its mappings, and programs that began, which go to the file in
    /// batches: these compress better than each alone.
    described: Vec<KnownProcess>,
    mappings: Vec<Mapping>,
    begun: Vec<KnownProcess>,
    /// Threads that were asleep, by process, which go there in the same way.
    asleep: Vec<KnownProcess>,
    last_batch: Instant,
    /// Mappings of processes that had too many.
    beyond: u64,
    /// When files without names were last looked for, and what was released, by user.
    nameless_looked_for: Instant,
    released: BTreeMap<u32, usize>,
}

impl<'a> MetadataRecorder<'a> {
    fn new(sink: &'a ChunkSink, settings: MetadataSettings, unwind: Option<UnwindTables>) -> Self {
        Self::below(Path::new("/"), sink, settings, unwind)
    }

    /// Of what is below `root`/proc.
    fn below(
        root: &Path,
        sink: &'a ChunkSink,
        settings: MetadataSettings,
        unwind: Option<UnwindTables>,
    ) -> Self {
        let MetadataSettings { clock, asked_by, pids, jvms, .. } = settings;
        Self {
            asked_by,
            pids,
            root: root.to_path_buf(),
            owners: ProcessUsers::below(root),
            sink,
            clock,
            command_lines: CommandLines::new(),
            sleepers: SleeperStacks::without(SleepersMemory::default()),
            pinned: PinnedFiles::new(),
            unwind,
            turns: FairQueue::new(asked_by, SHARE),
            perf_maps: PerfMapWatch::default(),
            jvms,
            unread: FxHashSet::default(),
            relisting: Relisting::default(),
            described: Vec::new(),
            mappings: Vec::new(),
            begun: Vec::new(),
            asleep: Vec::new(),
            may_sleep: Vec::new(),
            is_over: false,
            last_batch: Instant::now(),
            beyond: 0,
            nameless_looked_for: Instant::now(),
            released: BTreeMap::new(),
        }
    }

    /// Has all processes noted that are there now. Each user's are described in that user's turns:
    /// 20,000 of them take longer than others can wait for their unwind tables.
    fn add_all(&mut self) {
        self.command_lines.begin_file();
        self.sleepers.begin_file();
        self.may_sleep.clear();
        for (whose, pids) in self.owners.processes() {
            self.unread.extend(&pids);
            self.turns.add(whose, MetadataTask::Running(pids), Instant::now());
        }
    }

    /// Notes what these processes are. What lies in their memory and what they have mapped waits
    /// for turns.
    fn describe(&mut self, pids: Vec<u32>) {
        // Who began another program meanwhile is described with that.
        let still_run = pids.into_iter().filter(|pid| self.unread.contains(pid));
        let mut described: Vec<_> =
            still_run.filter_map(|pid| crate::snapshot::process(&self.root, pid)).collect();
        let names_read = ticks_now(self.clock);
        let mut of_users = BTreeMap::<ProcessUser, Vec<u32>>::new();
        for process in &mut described {
            // It was there when the file began: it is not noted as of now.
            process.names_read = names_read;
            if process.kernel {
                continue;
            }
            let whose = self.owners.whose(process.pid);
            of_users.entry(whose.payer()).or_default().push(process.pid);
            if self.records_switches_of(process) {
                self.may_sleep.push((whose, process.clone()));
            }
        }
        for (whose, pids) in of_users {
            self.turns.add(whose, MetadataTask::CommandLines(pids.clone()), Instant::now());
            self.turns.add(whose, MetadataTask::Processes(pids), Instant::now());
        }
        self.described.extend(described);
    }

    /// Whether the process is one of those whose switches are recorded, and a program: what threads
    /// of the kernel wait for that nobody wakes is of no interest.
    fn records_switches_of(&self, process: &KnownProcess) -> bool {
        !process.kernel && (self.pids.is_empty() || self.pids.contains(&process.pid))
    }

    /// How threads sleep is read of processes whose switches are recorded: who is not woken has no
    /// event that tells it.
    fn add_sleepers(&mut self) {
        if self.may_sleep.is_empty() || !self.sleepers.is_ready() {
            return;
        }
        let may_sleep = std::mem::take(&mut self.may_sleep);
        for (whose, unread) in self.sleepers.asleep_of(may_sleep) {
            self.turns.add(whose, MetadataTask::Sleepers(unread), Instant::now());
        }
    }

    fn add(&mut self, pid: u32, task: MetadataTask) {
        let whose = self.owners.whose(pid);
        // What has no room is counted there.
        self.turns.add(whose, task, Instant::now());
    }

    fn add_observed(&mut self, observed: Observed) {
        match observed {
            Observed::Mapping(mapping, at) => {
                let whose = self.owners.whose(mapping.pid);
                self.jvms.iter_mut().for_each(|jvms| jvms.mapped(&mapping, at, whose));
                if mapping.is_generated() {
                    self.perf_maps.add(mapping.pid, whose, Instant::now());
                }
                if self.pinned.is_to_pin(&mapping, whose.uid()) {
                    self.add(mapping.pid, MetadataTask::Mapped(mapping));
                }
            }
            Observed::Exec { pid, at } => {
                // What it has mapped from now on is of another program.
                self.unread.remove(&pid);
                self.perf_maps.remove(pid);
                self.jvms.iter_mut().for_each(|jvms| jvms.exec(pid, at));
                self.pinned.forget_code_lists(pid);
                self.add(pid, MetadataTask::Exec(pid));
            }
            Observed::MappingsLost { .. } => self.relisting.records_lost(),
        }
    }

    /// Notes what is observed, until nothing more will be.
    fn follow(&mut self, reported: &Receiver<MetadataMessage>, orders: &SharedState) {
        let mut is_idle = false;
        let mut priority = FirstForPart::begin(FIRST);
        while !orders.stopping.load(Ordering::Relaxed) {
            // What was told comes before any turn: whose turn it is depends on who waits.
            let wait = match (is_idle, self.turns.is_empty()) {
                (false, _) => Duration::ZERO,
                (true, false) => LOOK_AGAIN,
                (true, true) => LONGEST_WAIT,
            };
            self.add_sleepers();
            let wait = if self.may_sleep.is_empty() { wait } else { wait.min(LOOK_AGAIN) };
            let wait = wait.min(self.perf_maps.next_due(Instant::now()).unwrap_or(wait));
            let wait = priority.wait().map_or(wait, |then| wait.min(then));
            let mut next = reported.recv_timeout(wait);
            priority.follow();
            for _ in 0..HEARD_AT_ONCE {
                match next {
                    Ok(MetadataMessage::Observed(observed)) => {
                        orders.unheard.fetch_sub(1, Ordering::Relaxed);
                        self.add_observed(observed);
                    }
                    Ok(MetadataMessage::NextFile(before)) => self.next_file(&before, orders),
                    Ok(MetadataMessage::Snapshot(answer)) => self.snapshot(&answer, orders),
                    // Whoever asked may have given up.
                    Ok(MetadataMessage::Pinned(answer)) => drop(answer.send(self.pinned.clone())),
                    Err(RecvTimeoutError::Timeout) => break,
                    Err(RecvTimeoutError::Disconnected) => return,
                }
                next = reported.recv_timeout(Duration::ZERO);
            }
            while let Some(pid) = self.perf_maps.due(Instant::now()) {
                self.add(pid, MetadataTask::PerfMap(pid));
            }
            for file in self.unwind.iter().flat_map(UnwindTables::take_let_go) {
                self.pinned.is_new_again(&file);
            }
            self.release_nameless();
            if self.relisting.is_due(Instant::now()) {
                self.list_again();
            }
            let turn = self.turns.next(Instant::now());
            is_idle = turn.is_none();
            turn.into_iter().for_each(|turn| self.take(turn));
            self.push_batches(LONGEST_WAIT);
        }
    }

    /// Notes something.
    fn take(&mut self, turn: Turn<MetadataTask>) {
        let began = Instant::now();
        let (task, turn) = turn.take();
        let is_noted = match task {
            MetadataTask::Running(mut pids) => {
                let next = pids.split_off(pids.len().saturating_sub(DESCRIBED_AT_ONCE));
                self.go_on(&turn, MetadataTask::Running(pids));
                self.describe(next);
                true
            }
            MetadataTask::CommandLines(pids) => {
                self.note_next(pids, &turn);
                true
            }
            MetadataTask::Processes(pids) => self.list_next(pids, &turn),
            MetadataTask::ProcessesAgain(pids) => {
                self.list_next_again(pids, &turn);
                true
            }
            MetadataTask::Mappings { mut all, next } => {
                if let Some(mapping) = all.get_mut(next) {
                    self.pin(mapping, &turn);
                }
                match all.len() > next + 1 {
                    true => self.turns.go_on(&turn, MetadataTask::Mappings { all, next: next + 1 }),
                    false => self.mappings.extend(all),
                }
                // Where its code lies is noted.
                true
            }
            MetadataTask::Mapped(mut mapping) => self.pin(&mut mapping, &turn),
            MetadataTask::Exec(pid) => self.exec(pid, &turn),
            MetadataTask::PerfMap(pid) => {
                self.pin_perf_map(pid);
                // It is looked for again in any case.
                true
            }
            // After the end of the recording nobody's wakeups are seen.
            MetadataTask::Sleepers(unread) if self.is_over => {
                self.sleepers.left_out += unread.count();
                true
            }
            MetadataTask::Sleepers(mut unread) => {
                let user = turn.whose.uid().unwrap_or_default();
                let next = unread.read_next(&mut self.sleepers, &self.root, user, self.clock);
                self.asleep.extend(next);
                self.go_on(&turn, MetadataTask::Sleepers(unread));
                true
            }
        };
        let outcome = TurnOutcome { times: 1, tells_if_late: !is_noted };
        self.turns.took(&turn, began, began.elapsed(), outcome);
    }

    /// Has the rest noted in its user's next turn, if there is one.
    fn go_on(&mut self, turn: &Turn<()>, rest: MetadataTask) {
        if !rest.is_done() {
            self.turns.go_on(turn, rest);
        }
    }

    /// Lists the mappings of the next of these processes; `false` if there are none.
    fn list_next(&mut self, mut pids: Vec<u32>, turn: &Turn<()>) -> bool {
        let pid = pids.pop();
        self.go_on(turn, MetadataTask::Processes(pids));
        let Some(pid) = pid.filter(|pid| self.unread.remove(pid)) else { return false };
        let mut all = crate::snapshot::mappings(&self.root, pid);
        self.beyond += all.len().saturating_sub(MAPPINGS_MAX) as u64;
        all.truncate(MAPPINGS_MAX);
        let is_there = !all.is_empty();
        // Before the next process.
        self.go_on(turn, MetadataTask::Mappings { all, next: 0 });
        is_there
    }

    /// Notes what comes next, for at most so long.
    fn take_all(
        &mut self,
        orders: &SharedState,
        longest: Duration,
        next: impl Fn(&mut FairQueue<MetadataTask>) -> Option<Turn<MetadataTask>>,
    ) {
        let end = Instant::now() + longest;
        while Instant::now() < end && !orders.stopping.load(Ordering::Relaxed) {
            let Some(turn) = next(&mut self.turns) else { return };
            self.take(turn);
        }
    }

    /// Notes the next command line of a user's processes.
    fn note_next(&mut self, mut pids: Vec<u32>, turn: &Turn<()>) {
        if self.command_lines.took_all(turn.whose) {
            self.turns.left_out(turn, pids.len() as u64);
            return;
        }
        let Some(pid) = pids.pop() else { return };
        let noted = ticks_now(self.clock);
        match self.command_lines.read_known(&self.root, pid, turn.whose) {
            // It has ended, or has none.
            Ok(command_line) if command_line.is_empty() => {}
            Ok(command_line) => {
                let process = KnownProcess { pid, command_line, noted, ..KnownProcess::default() };
                self.begun.push(process);
            }
            Err(_) => self.turns.left_out(turn, 1),
        }
        self.go_on(turn, MetadataTask::CommandLines(pids));
    }

    /// Notes a program that began; `false` if its process has ended.
    fn exec(&mut self, pid: u32, turn: &Turn<()>) -> bool {
        // Before it is read: a process that ends meanwhile is not to be
        // noted after its end, when its id may be another's.
        let noted = ticks_now(self.clock);
        let Some(process) = crate::snapshot::process(&self.root, pid) else { return false };
        let read = self.command_lines.read(&self.root, pid, turn.whose);
        self.turns.left_out(turn, u64::from(read.is_err()));
        let command_line = read.unwrap_or_default();
        self.begun.push(KnownProcess { noted, command_line, ..process });
        true
    }

    /// Notes what waits for the file that ended, as far as its users have their share; then what
    /// is there now, for the next.
    fn next_file(&mut self, before: &Sender<PinnedFiles>, orders: &SharedState) {
        self.look_for_perf_maps();
        self.take_all(orders, BETWEEN_FILES, |turns| turns.next(Instant::now()));
        self.leave_out();
        // What there was of it is read anew.
        self.perf_maps = PerfMapWatch::default();
        self.described.clear();
        self.mappings.clear();
        self.unread.clear();
        self.relisting = Relisting::default();
        // Whoever names that file may have given up.
        let _ = before.send(std::mem::replace(&mut self.pinned, PinnedFiles::new()));
        self.add_all();
    }

    /// Notes what waits, then for a while also of users who had their share; what to say of the
    /// rest.
    fn end(mut self, orders: &SharedState) -> RecordedMetadata {
        self.is_over = true;
        // Nothing is recorded any more: of what comes now no stack was cut.
        let without_tables: Vec<_> = self.unwind.iter().flat_map(UnwindTables::notes).collect();
        self.take_all(orders, SOON, |turns| turns.next(Instant::now()));
        if self.relisting.is_due_at_the_end(Instant::now()) {
            self.list_again();
        }
        self.look_for_perf_maps();
        self.take_all(orders, SOON, |turns| turns.next(Instant::now()));
        self.take_all(orders, BEYOND_SHARES, FairQueue::next_of_all);
        self.leave_out();
        self.push_batches(Duration::ZERO);
        let mut left_out = self.turns.notes(Instant::now(), words);
        let beyond = self.beyond;
        if beyond > 0 {
            left_out.push(format!(
                "{beyond} mappings are not noted: their processes ran when the recording began, \
                 with more than {MAPPINGS_MAX} each; code in them has no names"
            ));
        }
        left_out.extend(self.perf_maps.left_out());
        left_out.extend(self.jvms.iter().flat_map(JvmNames::notes));
        left_out.extend(self.sleepers.left_out_words());
        let released =
            self.released.iter().map(|(user, files)| (format!("of user {user}"), *files));
        left_out.extend(by_user::notes(released, code_names::released_words));
        left_out.extend(without_tables);
        RecordedMetadata { pinned: self.pinned, left_out }
    }

    /// Nothing waits any more. Where code lies is known even if its file was not opened.
    fn leave_out(&mut self) {
        let Self { turns, mappings, sleepers, .. } = self;
        turns.leave_out(Instant::now(), |task| match task {
            MetadataTask::Mappings { all, .. } => mappings.extend(all),
            MetadataTask::Sleepers(unread) => sleepers.left_out += unread.count(),
            _ => {}
        });
    }

    /// Writes what was noted, if that is much or `longest` has passed.
    fn push_batches(&mut self, longest: Duration) {
        let is_due = self.last_batch.elapsed() >= longest;
        let sink = self.sink;
        let flush = if is_due { Flush::All } else { Flush::USUAL };
        self.sleepers.flush(flush, ticks_now(self.clock), &mut |chunk| sink.push(chunk));
        if is_due {
            self.last_batch = Instant::now();
        }
        // Before what is said of them besides.
        if !self.described.is_empty() && (is_due || self.described.len() >= PROCESSES_AT_ONCE) {
            sink.define(&Definition::Processes(std::mem::take(&mut self.described)));
        }
        if !self.asleep.is_empty() && (is_due || self.asleep.len() >= PROCESSES_AT_ONCE) {
            sink.define(&Definition::Processes(std::mem::take(&mut self.asleep)));
        }
        if !self.begun.is_empty() && (is_due || self.begun.len() >= PROCESSES_AT_ONCE) {
            sink.define_of_task(&Definition::Processes(std::mem::take(&mut self.begun)));
        }
        // Of what ran when the file began it is soon all.
        let is_due = is_due || self.turns.is_empty() || self.mappings.len() >= MAPPINGS_AT_ONCE;
        if is_due && !self.mappings.is_empty() {
            sink.define(&Definition::Mappings(std::mem::take(&mut self.mappings)));
        }
    }
}

/// What was not noted in time, and of whose programs.
fn words(account: &Account, whose: &str) -> String {
    let missing = account.shortcomings("not noted");
    format!(
        "programs {whose} began, and mapped files of code, faster than these were noted: \
         {missing}; names of their functions and their arguments may be missing"
    )
}

#[cfg(test)]
#[path = "metadata_tests.rs"]
mod tests;
