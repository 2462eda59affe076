//! Locks that a viewer was told of, beside those of the same recorder's snapshot.

use std::collections::BTreeSet;

use anyhow::Result;
use syscollect_model::{LockAction, LockEvent, LockId, Tables};
use syscollect_tests::tracy_viewer::ReceivedTimeline;

use super::span::{KnownSpan, same};

/// What a thread does with a lock. The viewer has the same steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum LockStep {
    Wait,
    Obtain,
    Release,
}

/// When it does that.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LockMoment {
    time: i64,
    thread: u32,
    lock: String,
    step: LockStep,
    /// As one of several readers.
    reads: bool,
}

/// Who waits for which lock, and whether to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct WaitingThread {
    lock: LockId,
    thread: u32,
    reads: bool,
}

/// All of a file.
#[derive(Debug, Default)]
pub(super) struct Locks {
    moments: Vec<LockMoment>,
    waiting: BTreeSet<WaitingThread>,
}

impl Locks {
    /// A thread does something with a lock. Who obtains one waits for it first, if only for no
    /// time; who gives up waits on, as the viewer has it.
    pub(super) fn add(&mut self, time: i64, event: &LockEvent, tables: &Tables) {
        let (lock, row) = (event.lock, tables.lock(event.lock));
        let (thread, reads) = (tables.thread(event.thread).tid, event.shared && row.shared);
        let waiting = WaitingThread { lock, thread, reads };
        let waits = self.waiting.contains(&waiting);
        let steps: &[LockStep] = match (event.action, waits) {
            (LockAction::Wait, false) => &[LockStep::Wait],
            (LockAction::Wait, true) | (LockAction::GiveUp, _) => &[],
            (LockAction::Obtain, false) => &[LockStep::Wait, LockStep::Obtain],
            (LockAction::Obtain, true) => &[LockStep::Obtain],
            (LockAction::Release, _) => &[LockStep::Release],
        };
        match event.action {
            LockAction::Wait => _ = self.waiting.insert(waiting),
            LockAction::Obtain => _ = self.waiting.remove(&waiting),
            LockAction::GiveUp | LockAction::Release => {}
        }
        let lock = tables.strings.get(row.name);
        let moment =
            |step: &LockStep| LockMoment { time, thread, lock: lock.into(), step: *step, reads };
        self.moments.extend(steps.iter().map(moment));
    }

    /// What a viewer was told is what is here; how many steps.
    pub(super) fn compare(&self, seen: &ReceivedTimeline, span: KnownSpan) -> Result<usize> {
        let told = seen.locks.iter().filter(|step| span.has(step.time));
        let told = told.map(|step| LockMoment {
            time: step.time,
            thread: step.thread,
            lock: seen.lock_names.get(&step.lock).cloned().unwrap_or_default(),
            step: match step.kind % 3 {
                0 => LockStep::Wait,
                1 => LockStep::Obtain,
                _ => LockStep::Release,
            },
            reads: step.kind >= 3,
        });
        let in_file = self.moments.iter().filter(|moment| span.has(moment.time));
        same("step of a lock", told.collect(), in_file.cloned().collect())
    }
}
