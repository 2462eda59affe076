//! Files that wait to be scanned, in turns of users, and files that are known without a scan.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use rustc_hash::{FxHashMap, FxHashSet};
use syscollect_model::{BuildId, Mapping};

use super::bounded_notes::UNKNOWN;
use super::files::{self, MappedFile};
use super::known_file::KnownFile;
use super::lookups::FoundFunction;
use super::manager::{AttachContext, ManagerReport, MappedAt};
use super::scan::Scanner;
use crate::bpf_calls;
use crate::clock::raw_now;
use crate::fair_queue::{
    Account, FairQueue, ProcessUser, ProcessUsers, QueuedWork, Turn, TurnOutcome,
};
use crate::zones::ZoneNotice;

/// Files of that many names and contents are remembered to hold nothing.
const PLAIN_MAX: usize = 65_536;
/// How much of a second is spent on the files of one user. A usual scan takes a millisecond.
const SHARE: Duration = Duration::from_millis(250);
/// Listing what a process that ran when the recording began has mapped costs its user so many times
/// what it takes: most processes have mapped what others have, too, and whoever has thousands of
/// them gets no fourth of a CPU for that.
const LISTING_COSTS: u32 = 4;
/// Files of one process that ran when the recording began, as many as are scanned.
const FILES_MAX: usize = 8192;
/// Files of processes that have ended are looked for again after so long.
const GONE_HOLDS: Duration = Duration::from_secs(1);

/// What is scanned.
enum ScanTarget {
    /// Processes that ran when the recording began, the first last.
    Processes(Vec<u32>),
    /// The files of such a process, as far as they were not scanned.
    Files(Vec<MappedFile>),
    /// A file that was mapped while the recording went on.
    Mapped(MappedAt),
    /// A function whose address a program was given.
    Found(FoundFunction),
}

/// Finds what there is to scan, and has it scanned.
pub(super) struct ScanQueue<'a> {
    reported: &'a ManagerReport,
    recorded: Option<OwnedFd>,
    zones: Sender<ZoneNotice>,
    turns: FairQueue<ScanTarget>,
    owners: ProcessUsers,
    /// Paths and contents in which there is nothing to attach to: most of what is mapped is the
    /// same few libraries, again and again. `false` where that is not to be relied upon.
    plain: FxHashMap<(String, BuildId), bool>,
    /// The same of processes that had ended, since then.
    gone: (Instant, FxHashSet<(String, BuildId)>),
    /// Processes that ran when the recording began and whose files wait.
    first: usize,
}

impl<'a> ScanQueue<'a> {
    /// Nothing waits.
    pub(super) fn new(work: &AttachContext, reported: &'a ManagerReport) -> Self {
        Self {
            reported,
            recorded: work.recorded.as_ref().and_then(|map| map.try_clone().ok()),
            zones: work.zones.clone(),
            turns: FairQueue::new(work.asked_by, SHARE),
            owners: ProcessUsers::default(),
            plain: FxHashMap::default(),
            gone: (Instant::now(), FxHashSet::default()),
            first: 0,
        }
    }

    /// What runs now is to be scanned.
    pub(super) fn add_processes(&mut self) {
        for (whose, mut pids) in self.owners.processes() {
            pids.retain(|pid| self.is_recorded(*pid));
            if !pids.is_empty() {
                self.add(whose, ScanTarget::Processes(pids), Instant::now());
            }
        }
    }

    /// A file was just mapped.
    pub(super) fn add_mapped(&mut self, at: MappedAt) {
        let Mapping { pid, path, build_id, .. } = &at.mapping;
        // The key is made for the look-up alone, which is cheaper than all that would follow.
        if self.plain.get(&(path.clone(), build_id.clone())) == Some(&true)
            || !self.is_recorded(*pid)
        {
            return;
        }
        let whose = self.owners.whose(*pid);
        let now = Instant::now();
        let age = Duration::from_nanos(raw_now().saturating_sub(at.at));
        self.add(whose, ScanTarget::Mapped(at), now.checked_sub(age).unwrap_or(now));
    }

    /// A program was given the address of a function.
    pub(super) fn add_found(&mut self, found: FoundFunction) {
        let whose = self.owners.whose(found.pid);
        self.add(whose, ScanTarget::Found(found), Instant::now());
    }

    fn add(&mut self, whose: ProcessUser, target: ScanTarget, since: Instant) {
        let first = if let ScanTarget::Processes(pids) = &target { pids.len() } else { 0 };
        if self.turns.add(whose, target, since) {
            self.first += first;
        }
    }

    /// Scans one thing; `false` if there is nothing that may be scanned now.
    pub(super) fn scan_next(&mut self, scanner: &mut Scanner<'_>) -> bool {
        let began = Instant::now();
        let Some(turn) = self.turns.next(began) else { return false };
        let (what, turn) = turn.take();
        let outcome = match what {
            ScanTarget::Processes(mut pids) => {
                let files = pids.pop().map(files_of);
                if !pids.is_empty() {
                    self.turns.go_on(&turn, ScanTarget::Processes(pids));
                }
                // Before the next process.
                files.into_iter().for_each(|files| self.go_on(&turn, files));
                TurnOutcome { times: LISTING_COSTS, ..TurnOutcome::NOTHING }
            }
            ScanTarget::Files(mut files) => {
                let file = files.pop();
                self.go_on(&turn, files);
                file.map_or(TurnOutcome::NOTHING, |file| self.file(scanner, &file))
            }
            ScanTarget::Mapped(at) => self.mapped(scanner, at),
            ScanTarget::Found(found) => {
                scanner.found(&found);
                TurnOutcome::NOTHING
            }
        };
        self.turns.took(&turn, began, began.elapsed(), outcome);
        true
    }

    /// Whether nothing waits, not even for its user's time.
    pub(super) fn is_done(&self) -> bool {
        self.turns.is_empty()
    }

    /// Whether all that ran when the recording began was scanned.
    pub(super) fn is_first_done(&self) -> bool {
        self.first == 0
    }

    /// What was not scanned in time.
    pub(super) fn account(&self) -> Account {
        self.turns.account(Instant::now())
    }

    /// What to tell the user of it.
    pub(super) fn notes(&self) -> Vec<String> {
        self.turns.notes(Instant::now(), words)
    }

    /// Has the files of a process scanned, each in a turn of its own.
    fn go_on(&mut self, turn: &Turn<()>, mut files: Vec<MappedFile>) {
        let beyond = files.len().saturating_sub(FILES_MAX);
        self.turns.left_out(turn, beyond as u64);
        files.drain(..beyond);
        match files.is_empty() {
            true => self.first -= 1,
            false => self.turns.go_on(turn, ScanTarget::Files(files)),
        }
    }

    fn file(&mut self, scanner: &mut Scanner<'_>, mapped: &MappedFile) -> TurnOutcome {
        let known = scanner.mapped(mapped);
        if known.is_some_and(|known| known.is_client) {
            self.report_client(mapped.pid);
        }
        known.map_or(TurnOutcome::NOTHING, KnownFile::outcome)
    }

    fn mapped(
        &mut self,
        scanner: &mut Scanner<'_>,
        MappedAt { mapping, at }: MappedAt,
    ) -> TurnOutcome {
        let Mapping { pid, start, end, path, build_id, .. } = mapping;
        let mapped = MappedFile { pid, start, end, path };
        let Some(known) =
            scanner.mapped(&mapped).or_else(|| self.was_mapped(scanner, &mapped.path, &build_id))
        else {
            return TurnOutcome::NOTHING;
        };
        if known.is_client {
            if known.is_new {
                let user = self.owners.whose(pid).uid();
                self.reported.began_late(user.unwrap_or(UNKNOWN), pid, &mapped.path, at);
            }
            self.report_client(pid);
        } else if !known.attached && !build_id.is_empty() {
            self.remember((mapped.path, build_id), known);
        }
        known.outcome()
    }

    /// A file of a process that has ended. Programs that end at once are many, of the same few
    /// files, so each of these is looked for once in a while.
    fn was_mapped(
        &mut self,
        scanner: &mut Scanner<'_>,
        path: &str,
        build_id: &BuildId,
    ) -> Option<KnownFile> {
        let (since, gone) = &mut self.gone;
        if since.elapsed() >= GONE_HOLDS || gone.len() >= PLAIN_MAX {
            *since = Instant::now();
            gone.clear();
        }
        let is_time = gone.insert((path.to_owned(), build_id.clone()));
        is_time.then(|| scanner.was_mapped(path, build_id)).flatten()
    }

    /// Remembers that there is nothing in a file. Names and build ids are what the process shows:
    /// whoever has namespaces of their own shows what they like where another program lies. So it
    /// is root's files alone that are known by them, and only where they lie here, too.
    fn remember(&mut self, content: (String, BuildId), known: KnownFile) {
        if self.plain.contains_key(&content) {
            return;
        }
        if self.plain.len() >= PLAIN_MAX {
            self.plain.clear();
        }
        let is_safe = known.of_root && files::is_at(Path::new(&content.0), known.key);
        self.plain.insert(content, is_safe);
    }

    fn is_recorded(&self, pid: u32) -> bool {
        self.recorded.as_ref().is_none_or(|map| bpf_calls::contains(map.as_fd(), pid))
    }

    fn report_client(&mut self, pid: u32) {
        let user = self.owners.whose(pid).uid();
        // Nobody listens when zones cannot be recorded; that has been told.
        let _ = self.zones.send(ZoneNotice::ClientFile { pid, user });
    }
}

impl QueuedWork for ScanTarget {
    fn count(&self) -> u64 {
        match self {
            Self::Processes(pids) => pids.len() as u64,
            Self::Files(files) => files.len() as u64,
            Self::Mapped(_) | Self::Found(_) => 1,
        }
    }
}

/// The files of a process, each once; its program comes last, and is scanned first.
fn files_of(pid: u32) -> Vec<MappedFile> {
    let mut seen = FxHashSet::default();
    let files = files::mapped_files(Path::new("/"), pid).into_iter();
    files.rev().filter_map(|(key, mapped)| seen.insert(key).then_some(mapped)).collect()
}

/// What was not scanned in time, and whose programs mapped it.
fn words(account: &Account, whose: &str) -> String {
    let missing = account.shortcomings("not looked into");
    format!(
        "programs {whose} mapped files faster than these were looked into for zones and probes: \
         {missing}; what they mark is missing, or begins late, unless their file was known"
    )
}
