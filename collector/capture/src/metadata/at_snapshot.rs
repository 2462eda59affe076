//! What a snapshot needs beside what was noted in the buffer: who lives, and who sleeps.
//!
//! Who has slept for longer than the buffer reaches back has no event in it, and may be the one
//! that a snapshot is about. So the kernel is asked anew, each time.

use std::path::Path;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use syscollect_model::{ClockSource, Ticks};
use syscollect_store::{Definition, KnownProcess};
use syscollect_symbolize::PinnedFiles;

use super::{MetadataRecorder, PROCESSES_AT_ONCE, SHARE, SharedState};
use crate::clock::ticks_now;
use crate::fair_queue::{FairQueue, TurnOutcome};
use crate::sleepers::UnreadSleepers;
use crate::unwind::StacksInMemory;

/// How long a snapshot waits for the turns of those who had no share yet: whoever took the least
/// comes first.
const BEFORE_SNAPSHOT: Duration = Duration::from_millis(200);
/// How long how threads sleep is read for it, and where: some thousands of them, of all users in
/// turns, of which each has a half at most. What one makes hang counts as that, and the others have
/// theirs all the same, as long as the whole does not keep the snapshot.
const LONGEST_LOOK: Duration = Duration::from_millis(300);
const LONGEST_OF_USER: Duration = Duration::from_millis(150);
const LONGEST_IN_ALL: Duration = Duration::from_millis(1500);

/// What a snapshot needs beside what was noted in the buffer.
#[derive(Default)]
pub(crate) struct MetadataSnapshot {
    /// The files that were mapped so far.
    pub(crate) pinned: PinnedFiles,
    /// Who lives now, and under which names; then who sleeps.
    pub(crate) processes: Vec<Definition>,
    /// User stacks of those who sleep, as they lie in memory.
    pub(crate) stacks: StacksInMemory,
    /// Threads of which it was not read whether they sleep: there was no time for more.
    pub(crate) unread: u64,
}

/// Who sleeps when a snapshot is taken.
#[derive(Default)]
struct AsleepNow {
    processes: Vec<KnownProcess>,
    stacks: StacksInMemory,
    unread: u64,
}

impl MetadataRecorder<'_> {
    /// Notes what waits, as far as its users have their share, and what a snapshot needs besides.
    pub(super) fn snapshot(&mut self, answer: &Sender<MetadataSnapshot>, orders: &SharedState) {
        self.look_for_perf_maps();
        self.take_all(orders, BEFORE_SNAPSHOT, |turns| turns.next(Instant::now()));
        let living = living(&self.root, self.clock);
        let AsleepNow { processes: asleep, stacks, unread } = self.asleep_of(&living);
        // With the kernel stacks of those who sleep.
        self.push_batches(Duration::ZERO);
        let (pinned, processes) =
            (self.pinned.clone(), [definitions(&living), definitions(&asleep)]);
        let snapshot = MetadataSnapshot { pinned, processes: processes.concat(), stacks, unread };
        // Whoever takes the snapshot may have given up.
        let _ = answer.send(snapshot);
    }

    /// Who sleeps now of these, as far as switches of their processes are recorded.
    fn asleep_of(&mut self, living: &[KnownProcess]) -> AsleepNow {
        let mut asleep = AsleepNow::default();
        if !self.sleepers.is_ready() {
            return asleep;
        }
        let mut may_sleep = Vec::new();
        for process in living {
            if self.records_switches_of(process) {
                may_sleep.push((self.owners.whose(process.pid), process.clone()));
            }
        }
        let kept = self.sleepers.begin_snapshot();
        let mut turns = FairQueue::<UnreadSleepers>::new(self.asked_by, SHARE);
        let began = Instant::now();
        for (whose, unread) in self.sleepers.asleep_of(may_sleep) {
            turns.add(whose, unread, began);
        }
        let mut spent = Duration::ZERO;
        while spent < LONGEST_LOOK
            && began.elapsed() < LONGEST_IN_ALL
            && let Some(turn) = turns.next_of_all()
        {
            let began = Instant::now();
            let (mut unread, turn) = turn.take();
            let had = turns.had(turn.whose.payer());
            if had >= LONGEST_OF_USER {
                asleep.unread += unread.leave_out(&mut self.sleepers, ticks_now(self.clock));
                continue;
            }
            let user = turn.whose.uid().unwrap_or_default();
            let next = unread.read_next(&mut self.sleepers, &self.root, user, self.clock);
            // Of now, when their numbers are theirs, and not of when the recording began.
            asleep.processes.extend(next.map(|next| KnownProcess {
                noted: next.states_read,
                names_read: Ticks(0),
                ..next
            }));
            if !unread.is_empty() {
                turns.go_on(&turn, unread);
            }
            let (took, outcome) = (began.elapsed(), TurnOutcome { times: 1, tells_if_late: false });
            turns.took(&turn, began, took, outcome);
            spent += took.min(LONGEST_OF_USER.saturating_sub(had));
        }
        turns.leave_out(Instant::now(), |mut unread| {
            asleep.unread += unread.leave_out(&mut self.sleepers, ticks_now(self.clock));
        });
        asleep.stacks = self.sleepers.end_snapshot(kept);
        asleep
    }
}

/// Who lives now, and under which names.
pub(super) fn names(clock: ClockSource) -> Vec<Definition> {
    definitions(&living(Path::new("/"), clock))
}

/// Without command lines, which are noted already, as far as they can be read.
fn living(root: &Path, clock: ClockSource) -> Vec<KnownProcess> {
    let noted = ticks_now(clock);
    let mut processes = crate::snapshot::processes(root);
    let names_read = ticks_now(clock);
    processes
        .iter_mut()
        .for_each(|process| (process.noted, process.names_read) = (noted, names_read));
    processes
}

fn definitions(processes: &[KnownProcess]) -> Vec<Definition> {
    let some = processes.chunks(PROCESSES_AT_ONCE);
    some.map(|processes| Definition::Processes(processes.to_vec())).collect()
}
