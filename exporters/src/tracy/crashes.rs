//! The crash that a file has room for. What the kernel says counts for more than what a program
//! claims: a program that claims crashes without end takes the place of nobody's.

use super::rows::RowId;
use rustc_hash::FxHashMap;
use syscollect_model::{ProcessId, StackId};

/// Processes that live and have told of a crash.
const MOST_PROCESSES: usize = 1 << 12;

/// Crashes of a process that come so soon after each other are one: a handler that was there before
/// says what it found and aborts. Nanoseconds.
const ONE_CRASH: i64 = 1_000_000_000;

/// A crash: when, and its thread, message and stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowCrash {
    pub(super) time: i64,
    pub(super) row: RowId,
    pub(super) text: u32,
    pub(super) stack: Option<StackId>,
}

/// All of them, of which one is chosen.
#[derive(Debug, Default)]
pub(super) struct FileCrash {
    /// The first that a program told of.
    first: Option<RowCrash>,
    /// The last that each process told of, or what it began with.
    last: FxHashMap<ProcessId, RowCrash>,
    /// The first that ended its process.
    confirmed: Option<RowCrash>,
}

impl FileCrash {
    /// A program tells of one.
    pub(super) fn tell(&mut self, process: ProcessId, crash: RowCrash) {
        self.first.get_or_insert(crash);
        let before = self.last.get(&process);
        let is_another =
            before.map_or(self.last.len() < MOST_PROCESSES, |it| crash.time - it.time > ONE_CRASH);
        if is_another {
            self.last.insert(process, crash);
        }
    }

    /// A process crashed; `end` is what is known where it did not tell.
    pub(super) fn confirm(&mut self, process: ProcessId, end: RowCrash) {
        let crash = self.last.get(&process).copied().unwrap_or(end);
        self.confirmed.get_or_insert(crash);
    }

    /// A process has ended.
    pub(super) fn process_ended(&mut self, process: ProcessId) {
        self.last.remove(&process);
    }

    /// The one that is written.
    pub(super) fn chosen(&self) -> Option<RowCrash> {
        self.confirmed.or(self.first)
    }
}
