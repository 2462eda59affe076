//! Triggers: what is recorded is watched while it is, and a snapshot is taken where one of them
//! says so.

use super::folder::SnapshotFolder;
use super::message::{TriggerReport, UnwatchedChunks};
use super::places::{Requester, TriggerShare};
use super::taking::Snapshots;
use crate::confine;
use crate::escape::printable;
use anyhow::{Context, Result};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use syscollect_capture::{SnapshotOrder, Tee, Teed, Watched};
use syscollect_model::{LaneKind, SnapshotMark, Ticks};
use syscollect_store::LeftOutChunks;
use syscollect_triggers::{CANNOT_FIRE, Cause, Firing, Payer, Trigger, TriggerStatus, Watcher};
use syscollect_untrusted_files::payer;

/// How often it is looked what came: nothing wakes who watches.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// How often it is noted what the triggers saw, for whoever asks.
const REPORT_EVERY: Duration = Duration::from_millis(100);

/// How long a trigger cannot fire before that is said: definitions come one after the other.
const DOUBT: Duration = Duration::from_secs(2);

/// How long snapshots that are due when the recorder ends wait for a place.
const LONGEST_END: Duration = Duration::from_secs(10);

/// How often it is told at most which triggers fired more often than snapshots may wait.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// Users whose chunks that nobody could look at are counted, and of whom that is told.
const MOST_UNWATCHED_USERS: usize = 1024;
const MOST_TOLD_USERS: usize = 16;

/// Snapshots that wait for their time, or for a place: of all triggers, and of what one user causes
/// of each.
const MOST_PENDING: usize = 64;
const MOST_PENDING_OF_SHARE: usize = 8;

/// Who had snapshots is known for so long, of so many.
const KNOWN_FOR: Duration = Duration::from_secs(60);
const MOST_KNOWN: usize = 1024;

/// Triggers that are not watched yet.
pub(super) struct Triggers {
    watcher: Watcher,
    watched: Watched,
    want_signals: bool,
}

impl Triggers {
    /// Those of a recording that is passed on to the tee; `None` where there are none.
    ///
    /// # Errors
    ///
    /// When one of them can never fire, or two have one name.
    pub(super) fn new(triggers: Vec<Trigger>) -> Result<Option<(Tee, Self)>> {
        if triggers.is_empty() {
            return Ok(None);
        }
        let want_signals = triggers.iter().any(|trigger| trigger.cause == Cause::Signal);
        let watcher = Watcher::new(triggers)?.paid_by(payer);
        let wanted: Vec<LaneKind> =
            LaneKind::ALL.into_iter().filter(|kind| watcher.wants(*kind)).collect();
        let (tee, watched) = Tee::to_watch(move |kind| wanted.contains(&kind));
        Ok(Some((tee, Self { watcher, watched, want_signals })))
    }

    /// Begins to watch.
    pub(super) fn watch(
        self,
        snapshots: Arc<Snapshots>,
        folder: SnapshotFolder,
    ) -> Result<TriggerThread> {
        let shared = Arc::new(SharedState {
            report: Mutex::new(TriggerReport {
                triggers: self.watcher.statuses(),
                ..TriggerReport::default()
            }),
            signals: AtomicU32::new(0),
            is_over: AtomicBool::new(false),
        });
        let watching = Watching {
            watcher: self.watcher,
            watched: self.watched,
            pending: PendingSnapshots::default(),
            snapshots,
            folder,
            doubtful: BTreeMap::new(),
            crowded: CrowdedTriggers::default(),
            unwatched: UnwatchedLanes::default(),
            reported: None,
            shared: Arc::clone(&shared),
        };
        let thread = std::thread::Builder::new().name("triggers".into());
        let thread = thread.spawn(move || watching.run()).context("cannot start a thread")?;
        Ok(TriggerThread { shared, thread: Some(thread), want_signals: self.want_signals })
    }
}

/// The thread that watches; it ends when this is dropped.
pub(super) struct TriggerThread {
    shared: Arc<SharedState>,
    thread: Option<JoinHandle<()>>,
    want_signals: bool,
}

impl TriggerThread {
    /// Somebody sent the recorder a signal; whether a trigger waits for one.
    pub(super) fn take_signal(&self) -> bool {
        self.shared.signals.fetch_add(u32::from(self.want_signals), Ordering::Relaxed);
        self.want_signals
    }

    /// What the triggers saw so far.
    pub(super) fn report(&self) -> TriggerReport {
        self.shared.report().clone()
    }
}

impl Drop for TriggerThread {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        if let Some(Err(_)) = self.thread.take().map(JoinHandle::join) {
            eprint_line!("syscollect: the thread that watched for triggers failed");
        }
    }
}

struct SharedState {
    report: Mutex<TriggerReport>,
    /// Signals that were not looked at.
    signals: AtomicU32,
    is_over: AtomicBool,
}

impl SharedState {
    fn report(&self) -> MutexGuard<'_, TriggerReport> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A snapshot that waits for its time, or for a place.
struct PendingSnapshot {
    firing: Firing,
    /// Since when it is only a place that it waits for.
    due_since: Option<Instant>,
}

impl PendingSnapshot {
    fn share(&self) -> TriggerShare {
        TriggerShare { trigger: self.firing.index, payer: self.firing.payer }
    }
}

/// Those that wait, of which those come first that are of whom had fewest.
#[derive(Default)]
struct PendingSnapshots {
    waiting: Vec<PendingSnapshot>,
    /// Who had snapshots a while ago.
    had: VecDeque<(Instant, TriggerShare)>,
}

impl PendingSnapshots {
    fn of_payer(&self, payer: Payer) -> usize {
        self.waiting.iter().filter(|one| one.firing.payer == payer).count()
    }

    /// One more waits; where that is more than may, the one of which nothing comes: this one, or
    /// the last of the user with most.
    fn add(&mut self, firing: Firing) -> Option<Firing> {
        let pending = PendingSnapshot { firing, due_since: None };
        let share = pending.share();
        let of_share = self.waiting.iter().filter(|one| one.share() == share).count();
        if of_share >= MOST_PENDING_OF_SHARE {
            return Some(pending.firing);
        }
        if self.waiting.len() < MOST_PENDING {
            self.waiting.push(pending);
            return None;
        }
        let of_most = self
            .waiting
            .iter()
            .enumerate()
            .max_by_key(|(index, one)| (self.of_payer(one.firing.payer), *index));
        let of_most = of_most.map(|(index, one)| (index, self.of_payer(one.firing.payer)));
        match of_most {
            Some((index, most)) if most > self.of_payer(share.payer) + 1 => {
                let left_out = std::mem::replace(&mut self.waiting[index], pending);
                Some(left_out.firing)
            }
            _ => Some(pending.firing),
        }
    }

    /// Those whose time has come wait for a place only.
    fn are_due(&mut self, now: Ticks) {
        for pending in self.waiting.iter_mut().filter(|pending| pending.firing.due <= now) {
            pending.due_since.get_or_insert_with(Instant::now);
        }
        let is_known = |at: &Instant| at.elapsed() < KNOWN_FOR;
        while self.had.len() > MOST_KNOWN || self.had.front().is_some_and(|(at, _)| !is_known(at)) {
            self.had.pop_front();
        }
    }

    /// The next that is due and has a place: what is rare must not wait behind what is not.
    fn next(&mut self, has_place: impl Fn(TriggerShare) -> bool) -> Option<PendingSnapshot> {
        let rank = |pending: &PendingSnapshot| {
            let share = pending.share();
            let had = self.had.iter().filter(|(_, had)| had.payer == share.payer);
            let of_trigger = had.clone().filter(|(_, had)| *had == share).count();
            let is_others = share.payer != Payer::User(0);
            (had.count(), is_others, of_trigger, pending.firing.due)
        };
        let due = self.waiting.iter().enumerate().filter(|(_, one)| one.due_since.is_some());
        let due = due.filter(|(_, one)| has_place(one.share()));
        let (next, _) = due.min_by_key(|(_, one)| rank(one))?;
        let pending = self.waiting.remove(next);
        self.had.push_back((Instant::now(), pending.share()));
        Some(pending)
    }
}

struct Watching {
    watcher: Watcher,
    watched: Watched,
    /// Those whose snapshot is yet to be taken.
    pending: PendingSnapshots,
    snapshots: Arc<Snapshots>,
    folder: SnapshotFolder,
    /// Since when triggers cannot fire, by their names; `None` once that was said.
    doubtful: BTreeMap<String, Option<Instant>>,
    crowded: CrowdedTriggers,
    unwatched: UnwatchedLanes,
    /// When it was last noted what the triggers saw.
    reported: Option<Instant>,
    shared: Arc<SharedState>,
}

/// Chunks that came too fast to be looked at.
#[derive(Default)]
struct UnwatchedLanes {
    all: u64,
    /// Those that programs wrote.
    of_users: BTreeMap<u32, u64>,
}

impl UnwatchedLanes {
    fn add(&mut self, left_out: &LeftOutChunks) {
        self.all += left_out.chunks;
        let user = left_out.producer.map(|producer| producer.user);
        let is_told_apart = |user: &u32| {
            self.of_users.len() < MOST_UNWATCHED_USERS || self.of_users.contains_key(user)
        };
        if let Some(user) = user.filter(is_told_apart) {
            *self.of_users.entry(user).or_default() += left_out.chunks;
        }
    }

    /// Those of the users with most.
    fn of_users(&self) -> Vec<UnwatchedChunks> {
        let all = self.of_users.iter();
        let mut all: Vec<UnwatchedChunks> =
            all.map(|(user, chunks)| UnwatchedChunks { user: *user, chunks: *chunks }).collect();
        all.sort_by_key(|of_user| std::cmp::Reverse(of_user.chunks));
        all.truncate(MOST_TOLD_USERS);
        all
    }
}

/// How often triggers fired and nothing came of it, as more snapshots waited than may.
#[derive(Default)]
struct CrowdedTriggers {
    /// In all, by their names.
    all: BTreeMap<String, u64>,
    /// Of that what was not told.
    untold: BTreeMap<String, u64>,
    told: Option<Instant>,
}

impl CrowdedTriggers {
    fn add(&mut self, trigger: String) {
        *self.all.entry(trigger.clone()).or_default() += 1;
        *self.untold.entry(trigger).or_default() += 1;
    }

    /// Tells it, if that was not done just now.
    fn tell(&mut self) {
        let is_due = self.told.is_none_or(|told| told.elapsed() >= TELL_EVERY);
        if self.untold.is_empty() || !is_due {
            return;
        }
        self.told = Some(Instant::now());
        for (trigger, count) in std::mem::take(&mut self.untold) {
            let name = printable(&trigger);
            eprint_line!("syscollect: trigger {name} fired {count} times more than may wait");
        }
    }
}

impl Watching {
    fn run(mut self) {
        // The threads that write and name snapshots begin here, and have what this one has.
        confine::to_naming_a_part();
        while !self.shared.is_over.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK_EVERY);
            self.look();
        }
        // What waits for its time has had all the time there is, and gets a place after the others.
        let end = Instant::now() + LONGEST_END;
        self.take_what_is_due(Ticks(u64::MAX));
        while !self.pending.waiting.is_empty()
            && Instant::now() < end
            && !self.snapshots.is_abandoned()
        {
            std::thread::sleep(LOOK_EVERY);
            self.take_what_is_due(Ticks(u64::MAX));
        }
        for PendingSnapshot { firing, .. } in &self.pending.waiting {
            let (name, reason) = (printable(&firing.trigger), printable(&firing.reason));
            eprint_line!("syscollect: no snapshot of trigger {name} ({reason}): the recorder ends");
        }
    }

    /// Looks at what came, and takes the snapshots that are due.
    fn look(&mut self) {
        let mut now = None;
        self.watcher.signalled(self.shared.signals.swap(0, Ordering::Relaxed));
        for teed in self.watched.take() {
            match teed {
                Teed::Chunk(chunk) | Teed::Resumes(chunk) => self.watcher.feed(chunk),
                Teed::Complete => {}
                Teed::LeftOut(left_out) => {
                    self.watcher.left_out(&left_out);
                    self.unwatched.add(&left_out);
                }
                Teed::NothingBefore(ticks) => {
                    self.watcher.nothing_before(ticks);
                    now = Some(ticks);
                }
            }
        }
        for firing in self.watcher.fired() {
            let happened = (firing.index, firing.at);
            let message = format!("trigger {}: {}", firing.trigger, firing.reason);
            let left_out = self.pending.add(firing);
            if left_out.as_ref().is_none_or(|out| (out.index, out.at) != happened) {
                self.snapshots.log(message);
            }
            left_out.into_iter().for_each(|firing| self.crowded.add(firing.trigger));
        }
        self.crowded.tell();
        if let Some(now) = now {
            self.take_what_is_due(now);
        }
        let is_due = self.reported.is_none_or(|reported| reported.elapsed() >= REPORT_EVERY);
        if is_due && (now.is_some() || self.unwatched.all > 0) {
            self.report();
        }
    }

    /// Notes what the triggers saw, and what came too fast to be looked at.
    fn report(&mut self) {
        self.reported = Some(Instant::now());
        let mut triggers = self.watcher.statuses();
        self.tell_what_cannot_fire(&triggers);
        for status in &mut triggers {
            let crowded = self.crowded.all.get(&status.name).copied().unwrap_or(0);
            status.fired -= crowded.min(status.fired);
            status.crowded += crowded;
        }
        let mut report = self.shared.report();
        report.triggers = triggers;
        report.waiting = self.pending.waiting.len() as u64;
        report.unfollowed = self.watcher.unfollowed();
        report.unwatched_chunks = self.unwatched.all;
        report.unwatched_of_users = self.unwatched.of_users();
    }

    /// Says once, of each trigger that cannot fire, why: what is recorded tells it, some time after
    /// the beginning.
    fn tell_what_cannot_fire(&mut self, triggers: &[TriggerStatus]) {
        for TriggerStatus { name, note, .. } in triggers {
            if !note.starts_with(CANNOT_FIRE) {
                self.doubtful.remove(name);
                continue;
            }
            let since = self.doubtful.entry(name.clone()).or_insert_with(|| Some(Instant::now()));
            if since.is_some_and(|since| since.elapsed() >= DOUBT) {
                *since = None;
                eprint_line!("syscollect: trigger {}: {}", printable(name), printable(note));
            }
        }
    }

    fn take_what_is_due(&mut self, now: Ticks) {
        self.pending.are_due(now);
        let has_place = |share| self.snapshots.has_place_for(Requester::Trigger(share));
        while let Some(next) = self.pending.next(has_place) {
            let requester = Requester::Trigger(next.share());
            let PendingSnapshot { firing, due_since } = next;
            let Firing { trigger, at, began, tid, reason, last, .. } = firing;
            // It reaches back to where it would have without the wait.
            let waited = due_since.map_or(Duration::ZERO, |since| since.elapsed());
            let last = last.map(|last| last + waited);
            let mark = SnapshotMark { reason, trigger, at, tid: tid.unwrap_or(0) };
            let order = SnapshotOrder { last, began: Some(began), mark };
            Arc::clone(&self.snapshots).take_into_folder(&self.folder, order, requester);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syscollect_model::Lane;
    use syscollect_store::Producer;

    #[test]
    fn whose_chunks_came_too_fast_is_counted_by_user_and_the_largest_are_told() {
        let mut unwatched = UnwatchedLanes::default();
        let mut add = |user: Option<u32>, chunks| {
            let producer = user.map(|user| Producer { user, program: 7 });
            let lane = Lane::new(LaneKind::Zone, 0);
            unwatched.add(&LeftOutChunks { lane, producer, chunks });
        };
        add(None, 5);
        (2000..7000).for_each(|user| add(Some(user), 1));
        add(Some(2001), 20);
        let told = unwatched.of_users();
        assert_eq!(told[0], UnwatchedChunks { user: 2001, chunks: 21 });
        assert_eq!((told.len(), unwatched.of_users.len()), (16, MOST_UNWATCHED_USERS));
        assert_eq!(unwatched.all, 5025);
    }

    fn firing(index: u32, user: u32, at: u64) -> Firing {
        Firing {
            trigger: index.to_string(),
            index,
            at: Ticks(at),
            began: Ticks(at),
            due: Ticks(at),
            tid: None,
            pid: None,
            user: Some(user),
            payer: Payer::User(user),
            reason: String::new(),
            last: None,
        }
    }

    fn taken(pending: &mut PendingSnapshots) -> Vec<(u32, Option<u32>)> {
        pending.are_due(Ticks(u64::MAX));
        let next = || pending.next(|_| true).map(|next| (next.firing.index, next.firing.user));
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn of_those_that_wait_the_one_comes_first_whose_user_had_fewest() {
        let mut pending = PendingSnapshots::default();
        for at in 0..3 {
            assert_eq!(pending.add(firing(0, 1001, at)), None);
        }
        pending.add(firing(1, 1001, 5));
        pending.add(firing(1, 1002, 10));
        pending.add(firing(1, 0, 11));
        let of = |index, user: u32| (index, Some(user));
        let order = [of(1, 0), of(0, 1001), of(1, 1002), of(1, 1001), of(0, 1001), of(0, 1001)];
        assert_eq!(taken(&mut pending), order);
        // Who had none since comes first the next time, too.
        pending.add(firing(1, 1001, 20));
        pending.add(firing(1, 1002, 21));
        assert_eq!(taken(&mut pending), [of(1, 1002), of(1, 1001)]);
    }

    #[test]
    fn whatever_a_user_makes_wait_there_is_room_for_anothers() {
        let mut pending = PendingSnapshots::default();
        for trigger in 0..20 {
            (0..20).for_each(|at| drop(pending.add(firing(trigger, 1001, at))));
        }
        assert_eq!(pending.waiting.len(), MOST_PENDING);
        for user in 1002..1010 {
            let left_out = pending.add(firing(0, user, 100)).expect("there is no room");
            assert_eq!(left_out.user, Some(1001));
        }
        assert_eq!(pending.waiting.len(), MOST_PENDING);
    }
}
