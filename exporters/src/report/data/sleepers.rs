//! Threads that slept from beginning to end as data, a part of the report's JSON.

use crate::report::data::{StackLabels, Table, WaitClass};
use serde::{Deserialize, Serialize};
use syscollect_model::grouped;

/// Threads that were asleep when the recording began and were not woken until it ended. When they
/// fell asleep is not known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AsleepThroughout {
    /// How many there were.
    pub threads: usize,
    /// Of these, how many had nothing to do.
    pub idle_threads: usize,
    /// How many there were of each kind, the most suspicious first.
    #[serde(default)]
    pub kinds: Vec<SleeperKind>,
    /// How many of all rows are of threads that something may have held up.
    #[serde(default)]
    pub held_up_rows: usize,
    /// By program, what was waited for and stack; the most suspicious first, and last those that
    /// had nothing to do.
    pub rows: Table<SleeperRow>,
    /// The text has rows for those that had nothing to do, too.
    #[serde(skip)]
    pub with_idle: bool,
}

/// How the table of them is called, to which others point.
pub(in crate::report) const ASLEEP_TITLE: &str = "Asleep from beginning to end";

impl AsleepThroughout {
    /// How many threads slept so.
    pub fn of(&self, suspicion: Suspicion) -> usize {
        let kind = self.kinds.iter().find(|kind| kind.suspicion == suspicion);
        kind.map_or(0, |kind| kind.threads)
    }

    /// `5 slept …`: what there is where nobody was woken, and which table tells of it; `None` where
    /// nobody slept so.
    pub fn pointer(&self) -> Option<String> {
        let idle = match (self.idle_threads, self.threads) {
            (_, 0) => return None,
            (0, _) => String::new(),
            (idle, all) if idle == all => ", idle".to_owned(),
            (idle, _) => format!(", {} of them idle", grouped(idle as u64)),
        };
        let threads = grouped(self.threads as u64);
        Some(format!(
            "{threads} slept from its beginning to its end{idle}: see `{ASLEEP_TITLE}` of \
             `syscollect report`"
        ))
    }
}

/// Threads that slept from beginning to end, of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SleeperKind {
    /// Which.
    pub suspicion: Suspicion,
    /// How many.
    pub threads: usize,
}

/// How much a sleep that lasts from beginning to end looks like one of a program that hangs; the
/// most suspicious first.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Suspicion {
    /// Others wait for a lock that it holds, as their program tells.
    HoldsUpOthers,
    /// The kernel lets nothing wake it before what it waits for.
    Uninterruptible,
    /// It waits for a lock.
    Lock,
    /// It waits for a semaphore, or for a futex that nothing names: locks are made of these, and
    /// queues are, too.
    Semaphore,
    /// It waits for a lock of a file, which daemons hold for as long as they run.
    FileLock,
    /// It waits for another's doing (a pipe, a join, a future), and where is known.
    Peer,
    /// It may wait for work as well.
    #[default]
    Unclear,
    /// It waits for a child process, which sleeps or runs itself.
    Child,
    /// It had nothing to do.
    Idle,
}

/// Threads of a program that slept from beginning to end, in the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SleeperRow {
    /// How many.
    pub threads: usize,
    /// Its id, where it is one.
    #[serde(default)]
    pub tid: Option<u32>,
    /// What they are called, each name once; of many only some.
    #[serde(default)]
    pub thread_names: Vec<String>,
    /// The process's id; of several of this name, that of the first.
    pub pid: u32,
    /// Of how many processes of this name.
    pub processes: usize,
    /// The process's last name.
    pub process: String,
    /// What they waited for, as in [`WaitRow::waits_for`](super::WaitRow::waits_for).
    pub waits_for: String,
    /// Whether that is work.
    pub class: WaitClass,
    /// How much it looks like a program that hangs.
    #[serde(default)]
    pub suspicion: Suspicion,
    /// How many threads wait for locks that these hold, as their program tells.
    #[serde(default)]
    pub held_up: usize,
    /// The innermost zone that they are in.
    #[serde(default)]
    pub zone: Option<String>,
    /// The kernel function they slept in; `None` where it is not known.
    pub blocked_in: Option<String>,
    /// The kind of sleep, as in [`ReasonRow::state`](super::ReasonRow::state).
    pub state: String,
    /// They waited for I/O.
    pub io_wait: bool,
    /// Where they slept.
    #[serde(flatten)]
    pub stack: StackLabels,
}
