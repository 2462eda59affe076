//! The thread that finds files and attaches to them.
//!
//! Each file is looked at once, by where it lies and not by its name. At the
//! start those that were asked for by their path, the one that will be
//! launched, and all that are mapped; later those that mapping events tell of.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustc_hash::{FxHashMap, FxHashSet};
use syscollect_model::{BuildId, Mapping};
use syscollect_probes::Spec;

use super::attach::{Program, Way};
use super::files::{self, MapKey, MappedFile};
use super::keeper::Keeper;
use super::lookups::FoundFunction;
use super::program::ArgumentPrograms;
use super::scan::Scanner;
use super::unattached::Unattached;
use crate::bpf_calls;
use crate::clock::raw_now;
use crate::error::CaptureError;
use crate::outlet::Outlet;
use crate::worker::{Unfinished, Worker};
use crate::zones::ZoneNotice;

/// Files of that many names and contents are remembered to hold nothing.
const PLAIN_MAX: usize = 65_536;
/// Notes that are kept; more would hide the others.
const NOTES_MAX: usize = 32;
/// How long a recording waits for what is there to be attached to (a file system that a user serves
/// may keep the kernel waiting that attaches to its files), and looks whether to go on waiting
/// meanwhile.
const LONGEST_START: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// How often to see whether somebody killed the keeper, with which all probes go.
const LOOK_AT_KEEPER: Duration = Duration::from_secs(1);
/// How long the end waits for breakpoints to be taken out: the kernel does that one by one, and
/// whoever has the files mapped decides how long each takes. The keeper needs nobody for it.
const LONGEST_GOODBYE: Duration = Duration::from_secs(2);

/// What the manager works with.
pub(super) struct Work {
    pub(super) way: Way,
    pub(super) on_probe: Program,
    pub(super) on_ring: Program,
    pub(super) arguments: ArgumentPrograms,
    /// Processes that are recorded, by the kernel's own list; `None` for all.
    pub(super) recorded: Option<OwnedFd>,
    pub(super) specs: Vec<Spec>,
    /// Calls of GPU libraries are recorded.
    pub(super) gpu: bool,
    /// The program that will be launched.
    pub(super) launch: Option<PathBuf>,
    /// The user who asked for the recording, if that is not who runs it.
    pub(super) asked_by: Option<u32>,
    pub(super) buffer: Arc<Outlet>,
    pub(super) zones: Sender<ZoneNotice>,
}

/// What the thread tells.
#[derive(Default)]
pub(super) struct Told {
    notes: Mutex<Vec<String>>,
    /// Specs that match nothing so far.
    unmatched: Mutex<Vec<String>>,
    /// Why specs will match nothing in what runs and in what they name.
    never: Mutex<Vec<String>>,
    /// What was not attached to.
    unattached: Mutex<Unattached>,
    files: AtomicU64,
    places: AtomicU64,
    pub(super) scanned: AtomicU64,
    /// Marked programs that ran before their zones were recorded.
    late: AtomicU64,
    stopping: AtomicBool,
}

impl Told {
    /// Says something to the user, once.
    pub(super) fn note(&self, note: String) {
        // A list of texts is whole even if a thread panicked.
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if notes.len() < NOTES_MAX && !notes.contains(&note) {
            notes.push(note);
        }
    }

    /// What was not attached to, to add to it.
    pub(super) fn unattached(&self) -> MutexGuard<'_, Unattached> {
        // Sums are sums even if a thread panicked.
        self.unattached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// So many places of a file were attached to.
    pub(super) fn attached(&self, places: usize) {
        self.files.fetch_add(u64::from(places > 0), Ordering::Relaxed);
        self.places.fetch_add(places as u64, Ordering::Relaxed);
    }

    /// These match nothing so far.
    pub(super) fn set_unmatched(&self, unmatched: Vec<String>) {
        *self.unmatched.lock().unwrap_or_else(PoisonError::into_inner) = unmatched;
    }

    /// A spec will match nothing, for this reason.
    pub(super) fn never(&self, why: String) {
        self.never.lock().unwrap_or_else(PoisonError::into_inner).push(why);
    }

    /// A program that nobody knew began at that time, and its zones are recorded from now on.
    fn began_late(&self, pid: u32, path: &str, at: u64) {
        self.late.fetch_add(1, Ordering::Relaxed);
        let milliseconds = raw_now().saturating_sub(at) as f64 / 1e6;
        self.note(format!(
            "process {pid} ran {path} for {milliseconds:.1} ms before its zones were recorded: a program that was not \
             seen before is found when it runs; what runs it from now on is recorded from its first zone on"
        ));
    }

    /// Whether nothing more is to be attached.
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    fn notes(&self) -> Vec<String> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

enum Message {
    Mapped(MappedAt),
    Found(FoundFunction),
    Stop,
}

/// A file that was mapped, and when: CLOCK_MONOTONIC_RAW in nanoseconds.
struct MappedAt {
    mapping: Mapping,
    at: u64,
}

/// Tells the manager of files that were mapped.
#[derive(Clone)]
pub(crate) struct MappedFiles(Sender<Message>);

impl MappedFiles {
    /// A file was mapped at that time, CLOCK_MONOTONIC_RAW in nanoseconds.
    pub(crate) fn mapped(&self, mapping: &Mapping, at: u64) {
        if files::is_file_name(&mapping.path) {
            // Nobody listens after the stop.
            let _ = self.0.send(Message::Mapped(MappedAt { mapping: mapping.clone(), at }));
        }
    }
}

/// The thread. Dropping it detaches everything.
pub(super) struct Manager {
    messages: Sender<Message>,
    first_done: Option<Receiver<()>>,
    /// Until its end has been waited for.
    worker: Option<Worker<()>>,
    told: Arc<Told>,
    keeper: i32,
}

impl Manager {
    /// Starts the thread; it begins to attach at once.
    pub(super) fn start(work: Work, keeper: Keeper) -> Result<Self, CaptureError> {
        let (messages, received) = channel();
        let (done, first_done) = channel();
        let told = Arc::new(Told::default());
        let tell = told.clone();
        let holder = keeper.pid();
        let worker = Worker::start("probes", move || manage(work, keeper, &received, &done, &tell))
            .map_err(|error| CaptureError::system("cannot start a thread", error))?;
        let (first_done, worker) = (Some(first_done), Some(worker));
        Ok(Self { messages, first_done, worker, told, keeper: holder })
    }

    /// Where to tell of files that are mapped.
    pub(super) fn mapped_files(&self) -> MappedFiles {
        MappedFiles(self.messages.clone())
    }

    /// A program was given the address of a function.
    pub(super) fn found(&self, found: FoundFunction) {
        // Nobody listens after the stop.
        let _ = self.messages.send(Message::Found(found));
    }

    /// Waits until what is there is attached, unless a stop is asked for or it takes too long; what
    /// to tell the user.
    pub(super) fn attach_first(&mut self, stop_asked: &AtomicBool) -> Vec<String> {
        let Some(done) = self.first_done.take() else { return self.told.notes() };
        let begin = Instant::now();
        while done.recv_timeout(LOOK_AGAIN) == Err(RecvTimeoutError::Timeout) {
            if stop_asked.load(Ordering::Relaxed) {
                break;
            }
            if begin.elapsed() >= LONGEST_START {
                self.told.note(format!(
                    "after {} seconds files of code are still looked into for probes: those found later are recorded \
                     from then on",
                    LONGEST_START.as_secs()
                ));
                break;
            }
        }
        self.told.notes()
    }

    /// Why something that was asked for will match nothing in what runs and in what it names.
    pub(super) fn never(&self) -> Option<String> {
        self.told.never.lock().unwrap_or_else(PoisonError::into_inner).first().cloned()
    }

    /// What matches nothing so far, as the user is told of it.
    pub(super) fn unmatched(&self) -> Vec<String> {
        self.told.unmatched.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Everything that was told so far.
    pub(super) fn notes(&self) -> Vec<String> {
        self.told.notes()
    }

    /// What was not attached to, or late, as the user is told of it.
    pub(super) fn unattached(&self) -> Vec<String> {
        self.told.unattached().notes()
    }

    /// Waits a moment until what was attached is gone; what to tell the user if it is not.
    pub(super) fn wait_until_gone(&mut self) -> Option<String> {
        self.stop();
        // A panic there has been printed.
        match self.worker.take()?.wait(LONGEST_GOODBYE) {
            Err(Unfinished::Late(_)) => Some(format!(
                "what was attached to programs is still being taken out: process {} (uprobe-keeper) does that by \
                 itself and then ends, which takes as long as processes that run these files keep the kernel busy",
                self.keeper
            )),
            _ => None,
        }
    }

    /// Begins to detach, and does not wait for it.
    pub(super) fn stop(&self) {
        self.told.stopping.store(true, Ordering::Relaxed);
        let _ = self.messages.send(Message::Stop);
    }

    /// Counts of what the thread did.
    pub(super) fn statistics(&self) -> BTreeMap<String, u64> {
        let told = &self.told;
        let counts = [
            ("probe_files_scanned", &told.scanned),
            ("probe_files_attached", &told.files),
            ("probe_places_attached", &told.places),
            ("marked_programs_begun_late", &told.late),
            ("probe_files_unattached", &AtomicU64::new(told.unattached().missing())),
        ];
        counts.map(|(name, count)| (name.to_owned(), count.load(Ordering::Relaxed))).into()
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        // Whoever asked has been told.
        let _ = self.wait_until_gone();
    }
}

fn manage(
    work: Work,
    keeper: Keeper,
    messages: &Receiver<Message>,
    done: &Sender<()>,
    told: &Told,
) {
    let mut mapped = Mapped::new(&work);
    let (launch, all_at_first) = (work.launch.clone(), work.gpu || !work.specs.is_empty());
    let mut scanner = Scanner::new(work, keeper, told);
    scanner.asked_for_by_path();
    scanner.gpu_libraries();
    if let Some(launch) = launch {
        scanner.program(&launch);
    }
    // Nobody waits for marked programs that run: what they did before is not recorded anyway.
    if !all_at_first {
        let _ = done.send(());
    }
    mapped.scan_processes(&mut scanner, told);
    scanner.tell_unmatched();
    let _ = done.send(());
    loop {
        let wait = scanner.next_turn().unwrap_or(LOOK_AT_KEEPER).min(LOOK_AT_KEEPER);
        let message = messages.recv_timeout(wait);
        if told.is_stopping() || scanner.is_detached() {
            break;
        }
        match message {
            Ok(Message::Mapped(at)) => mapped.scan_mapping(&mut scanner, told, at),
            Ok(Message::Found(found)) => scanner.found(&found),
            Err(RecvTimeoutError::Timeout) => {}
            Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => break,
        }
        scanner.attach_waiting();
    }
    // Detaches everything.
    drop(scanner);
}

/// What is known of mapped files.
struct Mapped {
    recorded: Option<OwnedFd>,
    zones: Sender<ZoneNotice>,
    /// Whether the file belongs to a marked program, as /proc names files.
    known: FxHashMap<MapKey, bool>,
    /// Paths and contents in which there is nothing to attach to: most of what
    /// is mapped is the same few libraries, again and again.
    plain: FxHashSet<(String, BuildId)>,
}

impl Mapped {
    fn new(work: &Work) -> Self {
        Self {
            recorded: work.recorded.as_ref().and_then(|map| map.try_clone().ok()),
            zones: work.zones.clone(),
            known: FxHashMap::default(),
            plain: FxHashSet::default(),
        }
    }

    /// All files that run now.
    fn scan_processes(&mut self, scanner: &mut Scanner<'_>, told: &Told) {
        let root = Path::new("/");
        for pid in files::processes(root) {
            if told.is_stopping() {
                return;
            }
            if !self.is_recorded(pid) {
                continue;
            }
            let mut is_client = false;
            for (key, mapped) in files::mapped_files(root, pid) {
                is_client |= match self.known.get(&key) {
                    Some(known) => *known,
                    None => {
                        let client = scanner.mapped(&mapped).is_some_and(|known| known.is_client);
                        self.known.insert(key, client);
                        client
                    }
                };
            }
            if is_client {
                self.tell_client(pid);
            }
        }
    }

    /// A file that was just mapped.
    fn scan_mapping(
        &mut self,
        scanner: &mut Scanner<'_>,
        told: &Told,
        MappedAt { mapping, at }: MappedAt,
    ) {
        let Mapping { pid, start, end, path, build_id, .. } = mapping;
        let content = (path.clone(), build_id);
        if self.plain.contains(&content) || !self.is_recorded(pid) {
            return;
        }
        let mapped = MappedFile { pid, start, end, path };
        match scanner.mapped(&mapped).or_else(|| scanner.was_mapped(&mapped.path, &content.1)) {
            Some(known) if known.is_client => {
                if known.is_new {
                    told.began_late(pid, &content.0, at);
                }
                self.tell_client(pid);
            }
            Some(known) if !known.attached && !content.1.is_empty() => {
                if self.plain.len() >= PLAIN_MAX {
                    self.plain.clear();
                }
                self.plain.insert(content);
            }
            _ => {}
        }
    }

    fn is_recorded(&self, pid: u32) -> bool {
        self.recorded.as_ref().is_none_or(|map| bpf_calls::contains(map.as_fd(), pid))
    }

    fn tell_client(&self, pid: u32) {
        // Nobody listens when zones cannot be recorded; that has been told.
        let _ = self.zones.send(ZoneNotice::ClientFile { pid });
    }
}
