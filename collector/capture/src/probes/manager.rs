//! The thread that finds files and attaches to them.
//!
//! Each file is looked at once, by where it lies and not by its name. At the
//! start those that were asked for by their path, the one that will be
//! launched, and all that are mapped; later those that mapping events tell of.
//! What processes decide on waits for its turn ([`FairQueue`](crate::fair_queue::FairQueue)).

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use syscollect_model::Mapping;
use syscollect_probes::Spec;

use super::attach::Program;
use super::bounded_notes::BoundedNotes;
use super::files;
use super::keeper::UprobeKeeper;
use super::lookups::FoundFunction;
use super::mapping_tree::LoadingTree;
use super::program::ArgumentPrograms;
use super::scan::Scanner;
use super::scan_queue::ScanQueue;
use super::unattached::Unattached;
use crate::attach_method::AttachMethod;
use crate::chunk_sink::ChunkSink;
use crate::clock::raw_now;
use crate::error::CaptureError;
use crate::fair_queue::Account;
use crate::worker::{Unfinished, Worker};
use crate::zones::ZoneNotice;

/// Characters of a note: whoever names a file decides how long that is.
const NOTE_MAX: usize = 600;
/// How long a recording waits for what its user named to be attached to (a file system that a user
/// serves may keep the kernel waiting that attaches to its files), then for what runs to be looked
/// into, of which every user decides how much that is, and looks whether to go on waiting
/// meanwhile.
const LONGEST_START: Duration = Duration::from_secs(60);
const LONGEST_LOOK: Duration = Duration::from_secs(1);
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// How often to see whether somebody killed the keeper, with which all probes go.
const LOOK_AT_KEEPER: Duration = Duration::from_secs(1);
/// Messages that wait for the thread: more than any look lets come together; what is beyond is
/// counted. And those that are heard before the next look.
const MESSAGES_MAX: usize = 131_072;
const TOLD_AT_ONCE: usize = 16_384;
/// How often it is noted what was not looked at so far.
const ACCOUNT_EVERY: Duration = Duration::from_millis(250);
/// How long the end waits to be told what was not looked at.
const LONGEST_ACCOUNT: Duration = Duration::from_secs(1);
/// How long the end waits for breakpoints to be taken out: the kernel does that one by one, and
/// whoever has the files mapped decides how long each takes. The keeper needs nobody for it.
const LONGEST_GOODBYE: Duration = Duration::from_secs(2);

/// What the manager works with.
pub(super) struct AttachContext {
    pub(super) way: AttachMethod,
    pub(super) on_probe: Program,
    pub(super) on_ring: Program,
    pub(super) arguments: ArgumentPrograms,
    /// What finds who has a file mapped, until it is taken.
    pub(super) tree: Option<LoadingTree>,
    /// Processes that are recorded, by the kernel's own list; `None` for all.
    pub(super) recorded: Option<OwnedFd>,
    pub(super) specs: Vec<Spec>,
    /// Calls of GPU libraries are recorded.
    pub(super) gpu: bool,
    /// The program that will be launched.
    pub(super) launch: Option<PathBuf>,
    /// The user who asked for the recording, if that is not who runs it.
    pub(super) asked_by: Option<u32>,
    pub(super) sink: Arc<ChunkSink>,
    pub(super) zones: Sender<ZoneNotice>,
}

impl AttachContext {
    /// Whether this is root or the user who asked for the recording: what they pay for need not
    /// wait for others.
    pub(super) fn awaits(&self, user: u32) -> bool {
        user == 0 || Some(user) == self.asked_by
    }
}

/// What the thread tells.
#[derive(Default)]
pub(super) struct ManagerReport {
    notes: Mutex<BoundedNotes>,
    /// Specs that match nothing so far.
    unmatched: Mutex<Vec<String>>,
    /// Those that matched nothing in what ran at first, each with what was noted of it.
    unmatched_at_first: Mutex<Vec<(String, String)>>,
    /// Why specs will match nothing in what runs and in what they name.
    never: Mutex<Vec<String>>,
    /// What was not attached to.
    unattached: Mutex<Unattached>,
    files: AtomicU64,
    points: AtomicU64,
    pub(super) scanned: AtomicU64,
    /// Files whose mappings were counted before they were attached to: in the kernel's tree, and in
    /// lists of mappings.
    pub(super) by_tree: AtomicU64,
    pub(super) by_lists: AtomicU64,
    /// Instrumented programs that ran before their zones were recorded.
    late: AtomicU64,
    /// Files that nobody heard of.
    unheard: AtomicU64,
    /// Messages that wait for the thread. They are counted and not kept in room for as many as
    /// there may be, which would take 17 MB of every recorder.
    waiting: AtomicUsize,
    /// When the recording began, if what ran was not looked into by then.
    began: Mutex<Option<Instant>>,
    /// What was not looked at in time, once the thread is done; and as it was a moment ago.
    accounts: Mutex<Option<Accounts>>,
    accounts_so_far: Mutex<Accounts>,
    stopping: AtomicBool,
}

/// What was not looked at in time, and what to say of it.
#[derive(Clone, Default)]
struct Accounts {
    all: Account,
    notes: Vec<String>,
}

impl Accounts {
    fn of(queue: &ScanQueue<'_>) -> Self {
        Self { all: queue.account(), notes: queue.notes() }
    }
}

impl ManagerReport {
    /// Says something to the user, once, that is about no user's file.
    pub(super) fn note(&self, note: String) {
        self.kept().add(None, shortened(note));
    }

    /// Says something once of a file or a process of this user, of whom no more is said than leaves
    /// room for what is to be said of others.
    pub(super) fn note_of(&self, user: u32, note: String) {
        self.kept().add(Some(user), shortened(note));
    }

    fn kept(&self) -> MutexGuard<'_, BoundedNotes> {
        // A list of texts is whole even if a thread panicked.
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was not attached to, to add to it.
    pub(super) fn unattached(&self) -> MutexGuard<'_, Unattached> {
        // Sums are sums even if a thread panicked.
        self.unattached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// So many points of a file were attached to.
    pub(super) fn attached(&self, points: usize) {
        self.files.fetch_add(u64::from(points > 0), Ordering::Relaxed);
        self.points.fetch_add(points as u64, Ordering::Relaxed);
    }

    /// These match nothing so far.
    pub(super) fn set_unmatched(&self, unmatched: Vec<String>) {
        *self.unmatched.lock().unwrap_or_else(PoisonError::into_inner) = unmatched;
    }

    /// This matches nothing in what was looked at first, which is noted until it matches something.
    pub(super) fn note_unmatched(&self, what: String, note: String) {
        let note = shortened(note);
        let mut at_first = self.unmatched_at_first.lock().unwrap_or_else(PoisonError::into_inner);
        at_first.push((what, note.clone()));
        drop(at_first);
        self.note(note);
    }

    /// What was noted and holds no more: it matched something later.
    fn taken_back(&self) -> Vec<String> {
        let at_first = self.unmatched_at_first.lock().unwrap_or_else(PoisonError::into_inner);
        let unmatched = self.unmatched.lock().unwrap_or_else(PoisonError::into_inner);
        let matched = at_first.iter().filter(|(what, _)| !unmatched.contains(what));
        matched.map(|(_, note)| note.clone()).collect()
    }

    /// A spec will match nothing, for this reason.
    pub(super) fn never(&self, why: String) {
        if self.began().is_some() {
            // Too late to say so instead of recording.
            self.note(why.clone());
        }
        self.never.lock().unwrap_or_else(PoisonError::into_inner).push(why);
    }

    /// The recording begins now, and what runs was not looked into yet.
    fn begins_before_all(&self) {
        *self.began.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    fn began(&self) -> Option<Instant> {
        *self.began.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What ran when the recording began was looked into.
    fn first_done(&self) {
        if let Some(began) = self.began() {
            self.note(format!(
                "all that ran when the recording began was looked into {:.1} s later",
                began.elapsed().as_secs_f64()
            ));
        }
    }

    /// Nothing more will be looked at.
    fn end(&self, queue: &ScanQueue<'_>) {
        let accounts = Accounts::of(queue);
        *self.accounts.lock().unwrap_or_else(PoisonError::into_inner) = Some(accounts);
    }

    /// What is known by now: where a look takes longer than the end waits for it, whose files
    /// waited behind it is told as of then.
    fn note_accounts(&self, queue: &ScanQueue<'_>) {
        let accounts = Accounts::of(queue);
        *self.accounts_so_far.lock().unwrap_or_else(PoisonError::into_inner) = accounts;
    }

    /// All that is known of what was not looked at in time.
    fn latest_accounts(&self) -> Accounts {
        let so_far = || self.accounts_so_far.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.accounts().unwrap_or_else(so_far)
    }

    fn accounts(&self) -> Option<Accounts> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A program that nobody knew began at that time, and its zones are recorded from now on.
    pub(super) fn began_late(&self, user: u32, pid: u32, path: &str, at: u64) {
        self.late.fetch_add(1, Ordering::Relaxed);
        let milliseconds = raw_now().saturating_sub(at) as f64 / 1e6;
        let note = format!(
            "process {pid} used {path} for {milliseconds:.1} ms before its zones were recorded: a \
             program that was not seen before is found when it runs; what uses it from now on is \
             recorded from its first zone on"
        );
        self.note_of(user, note);
    }

    /// Whether nothing more is to be attached.
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Whether one more message may wait, which is sent then.
    fn takes_one(&self) -> bool {
        let has_room = self.waiting.load(Ordering::Relaxed) < MESSAGES_MAX;
        if has_room {
            self.waiting.fetch_add(1, Ordering::Relaxed);
        }
        has_room
    }

    /// One of those that waited was heard.
    fn received(&self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    fn notes(&self) -> Vec<String> {
        let (mut notes, left_out) = {
            let kept = self.kept();
            (kept.all().to_vec(), kept.left_out())
        };
        let taken_back = self.taken_back();
        notes.retain(|note| !taken_back.contains(note));
        notes.extend(self.latest_accounts().notes);
        let unheard = self.unheard.load(Ordering::Relaxed);
        let counts = [
            (left_out, "more notes of this kind are left out"),
            (unheard, "mapped files were not looked into for zones and probes: too many at once"),
        ];
        let reported = counts.into_iter().filter(|(count, _)| *count > 0);
        notes.extend(reported.map(|(count, what)| format!("{count} {what}")));
        notes
    }
}

/// A note as long as notes may be.
fn shortened(note: String) -> String {
    match note.char_indices().nth(NOTE_MAX) {
        Some((end, _)) => format!("{} ...", &note[..end]),
        None => note,
    }
}

enum Message {
    Mapped(MappedAt),
    Found(FoundFunction),
    Stop,
}

/// A file that was mapped, and when: CLOCK_MONOTONIC_RAW in nanoseconds.
pub(super) struct MappedAt {
    pub(super) mapping: Mapping,
    pub(super) at: u64,
}

/// Tells the manager of files that were mapped.
#[derive(Clone)]
pub(crate) struct MappedFiles {
    messages: Sender<Message>,
    reported: Arc<ManagerReport>,
}

impl MappedFiles {
    /// A file was mapped at that time, CLOCK_MONOTONIC_RAW in nanoseconds.
    pub(crate) fn mapped(&self, mapping: &Mapping, at: u64) {
        if files::is_file_name(&mapping.path) {
            let message = Message::Mapped(MappedAt { mapping: mapping.clone(), at });
            match self.reported.takes_one() {
                // Nobody listens after the stop.
                true => drop(self.messages.send(message)),
                false => drop(self.reported.unheard.fetch_add(1, Ordering::Relaxed)),
            }
        }
    }
}

/// What the manager is told; before it starts, it waits there.
pub(crate) struct ManagerInbox {
    messages: Sender<Message>,
    received: Receiver<Message>,
    reported: Arc<ManagerReport>,
}

impl ManagerInbox {
    pub(crate) fn new() -> Self {
        let (messages, received) = channel();
        Self { messages, received, reported: Arc::default() }
    }

    /// Where to tell of files that are mapped.
    pub(crate) fn mapped_files(&self) -> MappedFiles {
        MappedFiles { messages: self.messages.clone(), reported: Arc::clone(&self.reported) }
    }
}

/// The thread. Dropping it detaches everything.
pub(super) struct Manager {
    messages: Sender<Message>,
    first_done: Option<Receiver<()>>,
    /// Until its end has been waited for.
    worker: Option<Worker<()>>,
    reported: Arc<ManagerReport>,
    keeper: i32,
}

impl Manager {
    /// Starts the thread; it begins to attach at once.
    pub(super) fn start(
        work: AttachContext,
        keeper: UprobeKeeper,
        inbox: ManagerInbox,
    ) -> Result<Self, CaptureError> {
        let ManagerInbox { messages, received, reported } = inbox;
        let (done, first_done) = channel();
        let tell = reported.clone();
        let holder = keeper.pid();
        let worker = Worker::start("probes", move || manage(work, keeper, &received, &done, &tell))
            .map_err(CaptureError::no_thread)?;
        let (first_done, worker) = (Some(first_done), Some(worker));
        Ok(Self { messages, first_done, worker, reported, keeper: holder })
    }

    /// A program was given the address of a function.
    pub(super) fn found(&self, found: FoundFunction) {
        // Nobody listens after the stop, and of what programs ask for so often the rest is known.
        if self.reported.takes_one() {
            let _ = self.messages.send(Message::Found(found));
        }
    }

    /// Waits until what the user named is attached to, and what runs was looked into, unless a stop
    /// is asked for or it takes too long; what to tell the user.
    pub(super) fn attach_first(&mut self, stop_asked: &AtomicBool) -> Vec<String> {
        let Some(done) = self.first_done.take() else { return self.reported.notes() };
        for longest in [LONGEST_START, LONGEST_LOOK] {
            if is_late(&done, longest, stop_asked) {
                self.reported.begins_before_all();
                self.reported.note(format!(
                    "the recording began before all that runs was looked into for probes, which \
                     took longer than {} s: what is found later is recorded from then on",
                    longest.as_secs()
                ));
                break;
            }
        }
        self.reported.notes()
    }

    /// Why something that was asked for will match nothing in what runs and in what it names.
    pub(super) fn never(&self) -> Option<String> {
        self.reported.never.lock().unwrap_or_else(PoisonError::into_inner).first().cloned()
    }

    /// What matches nothing so far, as the user is told of it.
    pub(super) fn unmatched(&self) -> Vec<String> {
        self.reported.unmatched.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Everything that was told so far.
    pub(super) fn notes(&self) -> Vec<String> {
        self.reported.notes()
    }

    /// What was told at first and holds no more.
    pub(super) fn taken_back(&self) -> Vec<String> {
        self.reported.taken_back()
    }

    /// What was not attached to, or late, as the user is told of it.
    pub(super) fn unattached(&self) -> Vec<String> {
        self.reported.unattached().notes()
    }

    /// Waits a moment until what was attached is gone; what to tell the user if it is not.
    pub(super) fn wait_until_gone(&mut self) -> Option<String> {
        self.stop();
        // A panic there has been printed.
        match self.worker.take()?.wait(LONGEST_GOODBYE) {
            Err(Unfinished::Late(_)) => Some(format!(
                "what was attached to programs is still being taken out: process {} \
                 (uprobe-keeper) does that by itself and then ends; where many processes run these \
                 files, or the machine is busy, that takes a while",
                self.keeper
            )),
            _ => None,
        }
    }

    /// Begins to detach, and does not wait for it.
    pub(super) fn stop(&self) {
        self.reported.stopping.store(true, Ordering::Relaxed);
        let _ = self.messages.send(Message::Stop);
    }

    /// Waits until it is known what was not looked at.
    pub(super) fn wait_for_accounts(&self) {
        let end = Instant::now() + LONGEST_ACCOUNT;
        while self.reported.accounts().is_none() {
            if Instant::now() >= end {
                self.reported.note(
                    "when the recording ended, a file was still being looked into for probes: \
                     which others waited is known as of before it"
                        .to_owned(),
                );
                return;
            }
            std::thread::sleep(LOOK_AGAIN / 10);
        }
    }

    /// Counts of what the thread did.
    pub(super) fn statistics(&self) -> BTreeMap<String, u64> {
        let reported = &self.reported;
        let of_turns = reported.latest_accounts().all;
        let counts = [
            ("probe_files_scanned", load(&reported.scanned)),
            ("probe_files_attached", load(&reported.files)),
            ("probe_files_counted", load(&reported.by_tree) + load(&reported.by_lists)),
            ("probe_files_counted_by_lists", load(&reported.by_lists)),
            ("probe_places_attached", load(&reported.points)),
            ("instrumented_programs_begun_late", load(&reported.late)),
            ("probe_files_unattached", reported.unattached().missing()),
            (
                "mapped_files_not_looked_into",
                of_turns.left_out + of_turns.waiting + load(&reported.unheard),
            ),
            ("mapped_files_looked_into_late", of_turns.late),
        ];
        counts.map(|(name, count)| (name.to_owned(), count)).into()
    }
}

fn load(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

impl Drop for Manager {
    fn drop(&mut self) {
        // Whoever asked has been told.
        let _ = self.wait_until_gone();
    }
}

/// Whether something is not done within a time; a stop ends the wait.
fn is_late(done: &Receiver<()>, longest: Duration, stop_asked: &AtomicBool) -> bool {
    let begin = Instant::now();
    while done.recv_timeout(LOOK_AGAIN) == Err(RecvTimeoutError::Timeout) {
        if stop_asked.load(Ordering::Relaxed) {
            return false;
        }
        if begin.elapsed() >= longest {
            return true;
        }
    }
    false
}

fn manage(
    work: AttachContext,
    keeper: UprobeKeeper,
    messages: &Receiver<Message>,
    done: &Sender<()>,
    reported: &ManagerReport,
) {
    let (launch, all_at_first) = (work.launch.clone(), work.gpu || !work.specs.is_empty());
    let mut queue = ScanQueue::new(&work, reported);
    let mut scanner = Scanner::new(work, keeper, reported);
    scanner.asked_for_by_path();
    scanner.gpu_libraries();
    if let Some(launch) = launch {
        scanner.program(&launch);
    }
    // What the user named is there.
    let _ = done.send(());
    // Nobody waits for instrumented programs that run: what they did before is not recorded anyway.
    if !all_at_first {
        let _ = done.send(());
    }
    queue.add_processes();
    let mut is_first_done = false;
    let mut is_idle = false;
    let mut accounted = Instant::now();
    loop {
        // What was told comes before any scan: whose turn it is depends on who waits.
        let wait = match (is_idle, queue.is_done()) {
            (false, _) => Duration::ZERO,
            (true, false) => LOOK_AGAIN,
            (true, true) => scanner.next_turn().unwrap_or(LOOK_AT_KEEPER).min(LOOK_AT_KEEPER),
        };
        let mut next = messages.recv_timeout(wait);
        for _ in 0..TOLD_AT_ONCE {
            match next {
                Ok(Message::Mapped(at)) => queue.add_mapped(at),
                Ok(Message::Found(found)) => queue.add_found(found),
                Ok(Message::Stop) | Err(_) => break,
            }
            reported.received();
            next = messages.try_recv().map_err(|error| match error {
                TryRecvError::Empty => RecvTimeoutError::Timeout,
                TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
            });
        }
        let is_over = matches!(next, Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected));
        if is_over || reported.is_stopping() || scanner.is_detached() {
            // What nobody heard of until now is not scanned, either.
            for message in messages.try_iter().take(MESSAGES_MAX) {
                if let Message::Mapped(at) = message {
                    queue.add_mapped(at);
                }
            }
            break;
        }
        if accounted.elapsed() >= ACCOUNT_EVERY {
            accounted = Instant::now();
            reported.note_accounts(&queue);
        }
        is_idle = !queue.scan_next(&mut scanner);
        if !is_first_done && queue.is_first_done() {
            is_first_done = true;
            scanner.report_unmatched();
            reported.first_done();
            let _ = done.send(());
        }
        scanner.attach_waiting();
    }
    reported.end(&queue);
    // Detaches everything.
    drop(scanner);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_behind_a_look_that_does_not_end_is_told_as_of_before_it() {
        let reported = ManagerReport::default();
        let notes = vec!["programs of user 7 mapped files faster".to_owned()];
        *reported.accounts_so_far.lock().unwrap() = Accounts { notes, ..Accounts::default() };
        assert_eq!(reported.notes(), ["programs of user 7 mapped files faster"]);
        // It ended, and there was time for all of them.
        *reported.accounts.lock().unwrap() = Some(Accounts::default());
        assert!(reported.notes().is_empty());
    }

    #[test]
    fn a_library_that_is_loaded_later_is_not_missing_any_more() {
        let reported = ManagerReport::default();
        let (step, open) = ("function libsqlite3.so.0:sqlite3_step", "function libx.so:open");
        reported.note("something else".into());
        // As a scanner does: what is unmatched is set behind its notes.
        reported.set_unmatched(vec![step.into(), open.into()]);
        for what in [step, open] {
            reported.note_unmatched(what.into(), format!("{what} matched nothing"));
        }
        assert_eq!((reported.notes().len(), reported.taken_back().len()), (3, 0));
        reported.set_unmatched(vec![open.into()]);
        assert_eq!(reported.taken_back(), [format!("{step} matched nothing")]);
        assert_eq!(
            reported.notes(),
            ["something else".to_owned(), format!("{open} matched nothing")]
        );
    }
}
