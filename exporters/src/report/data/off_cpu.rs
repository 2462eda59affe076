//! Time off the CPU as data, a part of the report's JSON. All times are nanoseconds.

use crate::report::data::{AsleepThroughout, StackLabels, Table, TruncatedRow};
use crate::report::wait_for::WaitFor;
use serde::{Deserialize, Serialize};

/// Why threads were blocked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OffCpuReport {
    /// Time blocked in all; time waiting for a CPU is not in it.
    pub blocked_ns: u64,
    /// By what was waited for.
    pub reasons: Table<ReasonRow>,
    /// Of the time blocked, how much has no stack.
    pub without_stack_ns: u64,
    /// How many sleeps have a stack.
    #[serde(default)]
    pub with_stack: u64,
    /// Of these, how many lack its outer frames.
    #[serde(default)]
    pub truncated: u64,
    /// Of these, why and in which module.
    #[serde(default)]
    pub truncated_in: Table<TruncatedRow>,
    /// By process and stack.
    pub stacks: Table<StackRow>,
    /// What was blocked: locks, I/O, children and the like, which held a thread up.
    #[serde(default)]
    pub blocked: WaitsOfClass,
    /// Where a program was blocked the longest: other ones than threads of the kernel and the
    /// recorder, and in something else than a wait for the end of a child process or of a thread,
    /// which have reasons of their own.
    #[serde(default)]
    pub longest_blocked: Option<LongestBlocked>,
    /// What may have waited for work, or for an answer: nothing that was recorded says which.
    #[serde(default)]
    pub undecided: WaitsOfClass,
    /// What had nothing to do: event loops, sleeps, idle workers and threads of the kernel.
    #[serde(default)]
    pub idle: WaitsOfClass,
    /// Who slept from beginning to end: time blocked of processes and threads, which is in none of
    /// the times above.
    #[serde(default)]
    pub asleep_throughout: AsleepThroughout,
}

/// What threads waited for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReasonRow {
    /// The kernel function they slept in; `None` where it is not known.
    pub blocked_in: Option<String>,
    /// The kind of sleep: `interruptible`, `uninterruptible`, `idle`, `stopped`, `traced`,
    /// `parked`.
    pub state: String,
    /// They waited for I/O.
    pub io_wait: bool,
    /// How often.
    pub count: u64,
    /// How long in all.
    pub blocked_ns: u64,
    /// The longest time.
    pub max_ns: u64,
    /// What most of it was spent waiting for, as in [`WaitRow::waits_for`].
    #[serde(default)]
    pub waits_for: String,
    /// Of `blocked_ns`, what was not idle for sure and not blocked for sure.
    #[serde(default)]
    pub undecided_ns: u64,
    /// Of `blocked_ns`, what was idle.
    #[serde(default)]
    pub idle_ns: u64,
}

/// Where a process's threads were blocked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackRow {
    /// The process's id; of several, that of the first.
    pub pid: u32,
    /// How many processes of this name, where they are together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<usize>,
    /// The process's last name.
    pub process: String,
    /// How often.
    pub count: u64,
    /// How long in all.
    pub blocked_ns: u64,
    /// The longest time.
    pub max_ns: u64,
    /// Where they left the CPU.
    #[serde(flatten)]
    pub stack: StackLabels,
    /// What most of it was spent waiting for, as in [`WaitRow::waits_for`].
    #[serde(default)]
    pub waits_for: String,
    /// Whether that is work.
    #[serde(default)]
    pub class: WaitClass,
}

/// What a program was blocked in, wherever the library or the kernel slept then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LongestBlocked {
    /// The process's id; of several, that of the first.
    pub pid: u32,
    /// How many processes of this name.
    pub processes: usize,
    /// The process's last name.
    pub process: String,
    /// What it waited for, as in [`WaitRow::waits_for`].
    pub waits_for: WaitFor,
    /// The innermost function of the program's own; `None` where its stacks have none.
    pub function: Option<String>,
    /// What that called; `None` where it is the kernel, or an interpreter's.
    pub called: Option<String>,
    /// How often.
    pub count: u64,
    /// How long in all.
    pub blocked_ns: u64,
}

/// Whether who waits has something to do.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum WaitClass {
    /// Something holds it up.
    Blocked,
    /// It waits for work or for an answer; nothing that was recorded says which.
    #[default]
    Undecided,
    /// It waits for work.
    Idle,
}

/// Time off the CPU of one class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WaitsOfClass {
    /// How long in all; the three classes add up to [`OffCpuReport::blocked_ns`].
    pub blocked_ns: u64,
    /// Of how many threads.
    pub threads: usize,
    /// By what was waited for, all of them, the longest first.
    pub kinds: Vec<WaitRow>,
    /// By what was waited for and the function of the kernel.
    pub reasons: Table<ReasonRow>,
    /// By process and stack.
    pub stacks: Table<StackRow>,
    /// By program and stack: processes of one name together.
    #[serde(default)]
    pub program_stacks: Table<StackRow>,
}

/// Threads that waited for the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitRow {
    /// What it is: `lock`, `I/O`, `events (epoll, poll, select)` and so on.
    pub waits_for: String,
    /// How many threads.
    pub threads: usize,
    /// How often.
    pub count: u64,
    /// How long in all.
    pub blocked_ns: u64,
    /// The longest time.
    pub max_ns: u64,
}
