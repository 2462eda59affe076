//! What was waited for, by whether who waits has something to do.

use super::{Reason, Total, WaitKey};
use crate::report::data::WaitClass;
use crate::report::durations::sum_ns;
use crate::report::wait_for::WaitFor;
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;
use syscollect_model::{ProcessId, StackId, ThreadId};

/// Where a process's threads were off the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ProcessStack {
    pub(super) process: ProcessId,
    pub(super) stack: StackId,
}

/// The same, and what was waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct WaitStack {
    pub(super) wait: WaitFor,
    pub(super) at: ProcessStack,
}

/// What was waited for in one row of a table.
#[derive(Debug, Default)]
pub(super) struct WaitShares {
    by_kind: FxHashMap<WaitFor, u64>,
}

impl WaitShares {
    fn add(&mut self, wait: WaitFor, nanoseconds: u64) {
        let sum = self.by_kind.entry(wait).or_default();
        *sum = sum.saturating_add(nanoseconds);
    }

    /// What most of it was spent on.
    pub(super) fn most(&self) -> Option<WaitFor> {
        let sums = self.by_kind.iter();
        sums.map(|(wait, sum)| (Reverse(*sum), *wait)).min().map(|(_, wait)| wait)
    }

    pub(super) fn of(&self, class: WaitClass) -> u64 {
        let sums = self.by_kind.iter().filter(|(wait, _)| wait.class() == class);
        sum_ns(sums.map(|(_, sum)| *sum))
    }
}

/// Sums of what is waited for alike.
#[derive(Debug, Default)]
pub(super) struct KindSums {
    pub(super) all: Total,
    pub(super) threads: FxHashSet<ThreadId>,
}

/// Sums of one class.
#[derive(Debug, Default)]
pub(super) struct ClassSums {
    pub(super) all: Total,
    pub(super) threads: FxHashSet<ThreadId>,
    pub(super) kinds: FxHashMap<WaitFor, KindSums>,
    pub(super) reasons: FxHashMap<(WaitFor, Reason), Total>,
    pub(super) stacks: FxHashMap<WaitStack, Total>,
}

impl ClassSums {
    fn add(&mut self, wait: WaitFor, key: &WaitKey, total: &Total) {
        self.all.merge(total);
        self.threads.insert(key.thread);
        let kind = self.kinds.entry(wait).or_default();
        kind.all.merge(total);
        kind.threads.insert(key.thread);
        self.reasons.entry((wait, key.reason)).or_default().merge(total);
        if let Some(at) = key.process_stack() {
            self.stacks.entry(WaitStack { wait, at }).or_default().merge(total);
        }
    }
}

/// All that was waited for.
#[derive(Debug, Default)]
pub(super) struct ClassifiedWaits {
    pub(super) blocked: ClassSums,
    pub(super) undecided: ClassSums,
    pub(super) idle: ClassSums,
    pub(super) reasons: FxHashMap<Reason, WaitShares>,
    pub(super) stacks: FxHashMap<ProcessStack, WaitShares>,
}

impl ClassifiedWaits {
    pub(super) fn add(&mut self, wait: WaitFor, key: &WaitKey, total: &Total) {
        match wait.class() {
            WaitClass::Blocked => &mut self.blocked,
            WaitClass::Undecided => &mut self.undecided,
            WaitClass::Idle => &mut self.idle,
        }
        .add(wait, key, total);
        self.reasons.entry(key.reason).or_default().add(wait, total.sum);
        if let Some(at) = key.process_stack() {
            self.stacks.entry(at).or_default().add(wait, total.sum);
        }
    }
}
