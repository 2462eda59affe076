//! Event loops as data, a part of the report's JSON. All times are nanoseconds.

use crate::report::data::Table;
use serde::{Deserialize, Serialize};

/// Threads that come back to the same kind of wait again and again, and when they did not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EventLoopsReport {
    /// Longer stretches without such a wait are told.
    pub limit_ns: u64,
    /// How often a thread was met, or a loop ended, that is not told of: there were too many.
    pub left_out: u64,
    /// The loops, the longest stretch first.
    pub loops: Table<EventLoopRow>,
    /// Stretches over the limit, the longest first.
    pub stretches: Table<StretchRow>,
}

/// A thread that is an event loop.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventLoopRow {
    /// Its thread id.
    pub tid: u32,
    /// Its name.
    pub thread: String,
    /// Its process's id.
    pub pid: u32,
    /// Its process's name.
    pub process: String,
    /// What it waits in.
    pub waits_in: String,
    /// How often it came back to its wait, and slept.
    pub returns: u64,
    /// How often a sample found it in the kernel's function of its wait that it did not sleep in:
    /// it polls, or its work does not end.
    pub seen_awake: u64,
    /// How long it was away in all that, together.
    pub away_ns: u64,
    /// Stretches over the limit.
    pub over_limit: u64,
    /// Further ones that may be none: it polls, and too few samples tell that it did not come back.
    pub unsure: u64,
    /// Their sum.
    pub over_limit_ns: u64,
    /// The longest of these; 0 where there is none.
    pub longest_ns: u64,
    /// When that began, since the beginning of the recording, as `--from` takes it.
    pub longest_at_ns: Option<u64>,
}

/// How a stretch ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StretchEndKind {
    /// The thread was in its wait again.
    #[default]
    Returned,
    /// Records are missing from there on: it lasted at least as long.
    RecordsMissing,
    /// The thread ended.
    ThreadEnded,
    /// It lasted when the recording ended.
    RecordingEnded,
}

/// A loop did not come back to its wait.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StretchRow {
    /// For how long, as far as it is known.
    pub length_ns: u64,
    /// When it began, since the beginning of the recording, as `--from` takes it.
    pub at_ns: u64,
    /// The thread's id.
    pub tid: u32,
    /// Its name.
    pub thread: String,
    /// Its process's id.
    pub pid: u32,
    /// Its process's name.
    pub process: String,
    /// What it waits in.
    pub waits_in: String,
    /// When it began is not known: the recording began, or records are missing, before.
    pub may_be_longer: bool,
    /// It may have come back without sleeping: samples do not rule that out.
    pub may_have_returned: bool,
    /// How it ended.
    pub end: StretchEndKind,
    /// Of it: on a CPU.
    pub on_cpu_ns: u64,
    /// Runnable, waiting for a CPU.
    pub waiting_ns: u64,
    /// Asleep in something else than its wait.
    pub blocked_ns: u64,
    /// Of which nothing is known.
    pub unknown_ns: u64,
    /// Samples of the thread meanwhile.
    pub samples: u64,
    /// The program's own functions that these hit most.
    pub functions: Vec<StretchFunctionRow>,
    /// What it slept in, the longest first.
    pub blocked_in: Vec<StretchSleepRow>,
}

/// A function that samples hit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StretchFunctionRow {
    /// Its name.
    pub function: String,
    /// Samples with it as the innermost of the program's own functions.
    pub samples: u64,
}

/// What a thread slept in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StretchSleepRow {
    /// For how long.
    pub blocked_ns: u64,
    /// What, and in which function of the program, in words.
    pub what: String,
    /// What it waited for, as in [`ReasonRow::waits_for`](super::ReasonRow::waits_for).
    pub waits_for: String,
    /// The kernel function it slept in; `None` where it is not known.
    pub blocked_in: Option<String>,
}
