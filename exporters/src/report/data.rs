//! The report as data. Its JSON is a contract: fields are added, not changed.
//!
//! All times are nanoseconds.

mod event_loops;
mod off_cpu;
mod programs;
mod recording;
mod sleepers;
mod tree;
mod waits;

use super::durations::sum_ns;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use syscollect_model::{CpuId, Loss, LossCause, LossOrigin, MachineId, ModuleKind};

pub use super::wait_for::WaitFor;
pub use event_loops::*;
pub use off_cpu::*;
pub use programs::*;
pub use recording::*;
pub use sleepers::*;
pub use tree::*;
pub use waits::*;

/// The version of [`Report`]'s JSON; it grows when a field changes its meaning.
pub const REPORT_SCHEMA_VERSION: u32 = 1;

/// What a session amounts to.
///
/// Rows are ordered by what matters most in them, and those that are equal by
/// number and name, so that one session always makes the same report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`REPORT_SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Where and how it was recorded.
    pub recording: Recording,
    /// The process asked for, as it was asked for; `None` is the whole machine.
    pub process: Option<String>,
    /// Its children, and theirs, are meant, too.
    #[serde(default)]
    pub process_children: bool,
    /// Time of the first event, nanoseconds of the session's clock.
    pub start_ns: u64,
    /// From the first event to the last.
    pub duration_ns: u64,
    /// How long the recording was, as the recorder says; `None` where it does not, and of a part.
    #[serde(default)]
    pub recorded_ns: Option<u64>,
    /// Before `start_ns`: how long the recording ran whose events gave way to newer ones.
    #[serde(default)]
    pub overwritten_ns: u64,
    /// All of the part that was asked for gave way so: nothing is known of it.
    #[serde(skip)]
    pub is_overwritten: bool,
    /// Events of the whole machine, whatever process was asked for.
    pub events: EventCounts,
    /// CPUs by number, whatever process was asked for.
    pub cpus: Vec<CpuRow>,
    /// Processes, the most time on CPU first.
    pub processes: Table<ProcessRow>,
    /// Names that several processes had, with the sums over these, the most time on CPU first.
    #[serde(default)]
    pub processes_by_name: Table<ProcessNameRow>,
    /// Threads, the most time on CPU first.
    pub threads: Table<ThreadRow>,
    /// Functions, from samples.
    pub functions: Functions,
    /// Why threads were blocked.
    pub off_cpu: OffCpuReport,
    /// Call trees, if they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trees: Option<CallTrees>,
    /// The longest waits, as many as were asked for.
    #[serde(default)]
    pub worst: WorstWaits,
    /// The processes that were not asked for.
    #[serde(default)]
    pub others: OtherProcesses,
    /// Who woke whom.
    pub wakeups: Wakeups,
    /// How long runnable threads waited for a CPU.
    pub run_queue: RunQueueReport,
    /// The longest of these waits.
    #[serde(default)]
    pub longest_wait: Option<Waiter>,
    /// The longest of those of threads that are neither the kernel's nor the recorder's.
    #[serde(default)]
    pub longest_program_wait: Option<Waiter>,
    /// Moves from CPU to CPU, the most frequent first.
    pub migrations: Table<MigrationRow>,
    /// Slices (zones) by name, the largest total first.
    pub slices: Table<SliceRow>,
    /// Who called functions and hit probes, where they have stacks, the most frequent first.
    #[serde(default)]
    pub callers: Table<CallersRow>,
    /// Instants (messages) by name, the most frequent first.
    pub instants: Table<InstantRow>,
    /// Frames by set, those of the largest number first.
    #[serde(default)]
    pub frames: Table<FrameRow>,
    /// Locks, the longest waited for first.
    #[serde(default)]
    pub locks: Table<LockRow>,
    /// Memory by process and pool, the highest peak first.
    #[serde(default)]
    pub memory: Table<PoolRow>,
    /// Jobs of GPUs by queue, of all processes, the longest busy first.
    #[serde(default)]
    pub gpu_queues: Table<GpuRow>,
    /// Jobs of GPUs by queue and process, the longest busy first.
    #[serde(default)]
    pub gpu: Table<GpuRow>,
    /// Zones that programs marked on GPUs, by name, the longest in all first.
    #[serde(default)]
    pub gpu_zones: Table<GpuZoneRow>,
    /// Waits of threads for fences of GPUs, the longest first.
    #[serde(default)]
    pub gpu_waits: Table<FenceWaitRow>,
    /// Event loops, and when they were away from their waits.
    #[serde(default)]
    pub event_loops: EventLoopsReport,
    /// Crashes that programs told of: those that ended their processes, the first one first, then
    /// those that only programs claim.
    #[serde(default)]
    pub crashes: Table<CrashRow>,
    /// Processes that signals ended and that told of no crash: crashes first, the first one first.
    #[serde(default)]
    pub signal_exits: Table<SignalExitRow>,
    /// Counters: those of programs first, then the machine's.
    #[serde(default)]
    pub counters: Table<CounterRow>,
    /// Records lost, of the whole machine, but for those that were to be overwritten.
    pub lost: u64,
    /// Of these, items that programs wrote and that mean nothing or are beyond a program's share:
    /// nobody else lost any.
    #[serde(default)]
    pub lost_of_own_programs: u64,
    /// Records that gave way to newer ones, as `--overwrite` asks.
    #[serde(default)]
    pub overwritten: u64,
    /// How often events of a CPU contradict each other, so that some are
    /// missing between them, though no loss tells of it.
    #[serde(rename = "untold_gaps")]
    pub unreported_gaps: u64,
    /// Events that lack their stack or a part of it, as who read the recording found: an exporter
    /// is not told.
    #[serde(default)]
    pub missing_stacks: u64,
    /// The losses by lane, CPU and cause, as the session tells them.
    pub losses: Vec<LossRow>,
    /// Code without names, by module, the most samples first.
    pub unresolved: Table<UnresolvedRow>,
}

/// The first rows of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Table<T> {
    /// How many rows there are in all.
    pub total: usize,
    /// The first of them.
    pub rows: Vec<T>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { total: 0, rows: Vec::new() }
    }
}

/// Processes that did something and are in no table, because others were asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherProcesses {
    /// How many.
    pub processes: usize,
    /// For how long they were on CPU, as far as that was recorded.
    pub on_cpu_ns: u64,
}

/// One CPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuRow {
    /// Its number.
    #[serde(flatten)]
    pub cpu: CpuId,
    /// Time in which it ran threads.
    pub busy_ns: u64,
    /// Time in which it idled.
    pub idle_ns: u64,
    /// Time of which it is not known: before its first event, and where records were lost.
    pub unknown_ns: u64,
    /// Context switches.
    pub switches: u64,
}

impl CpuRow {
    /// All of its time, nanoseconds.
    pub(super) fn whole_ns(&self) -> u64 {
        sum_ns([self.busy_ns, self.idle_ns, self.unknown_ns])
    }
}

/// What time went to. The sum is the time that the thread was there, within the session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    /// On a CPU.
    pub on_cpu_ns: u64,
    /// Runnable, waiting for a CPU.
    pub waiting_ns: u64,
    /// Blocked: asleep until something wakes it.
    pub blocked_ns: u64,
    /// In a state that is not known.
    pub unknown_ns: u64,
}

/// What was counted of a thread, or of all threads of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// How often it came onto a CPU.
    pub switches: u64,
    /// How often it left the CPU though it could have run on.
    pub preemptions: u64,
    /// How often it was woken.
    pub wakeups: u64,
    /// How often it was moved to another run queue.
    pub migrations: u64,
    /// CPU samples.
    pub samples: u64,
}

/// What a thread did, or several did together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activity {
    /// What the time went to.
    #[serde(flatten)]
    pub times: Times,
    /// The longest wait for a CPU.
    pub longest_wait_ns: u64,
    /// What was counted.
    #[serde(flatten)]
    pub counts: Counts,
}

impl Activity {
    /// With that of others. The times of many threads may be more than a damaged clock's one.
    pub(super) fn add(&mut self, other: &Self) {
        let Self { times, longest_wait_ns, counts } = self;
        times.on_cpu_ns = times.on_cpu_ns.saturating_add(other.times.on_cpu_ns);
        times.waiting_ns = times.waiting_ns.saturating_add(other.times.waiting_ns);
        times.blocked_ns = times.blocked_ns.saturating_add(other.times.blocked_ns);
        times.unknown_ns = times.unknown_ns.saturating_add(other.times.unknown_ns);
        *longest_wait_ns = (*longest_wait_ns).max(other.longest_wait_ns);
        counts.switches += other.counts.switches;
        counts.preemptions += other.counts.preemptions;
        counts.wakeups += other.counts.wakeups;
        counts.migrations += other.counts.migrations;
        counts.samples += other.counts.samples;
    }

    /// The order of tables: on CPU, then waiting, then blocked, then samples, the most first.
    pub(super) fn busiest_first(&self) -> Reverse<(u64, u64, u64, u64)> {
        let Times { on_cpu_ns, waiting_ns, blocked_ns, .. } = self.times;
        Reverse((on_cpu_ns, waiting_ns, blocked_ns, self.counts.samples))
    }
}

/// A process: the sum of its threads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessRow {
    /// Its process id.
    pub pid: u32,
    /// The last name it had.
    pub name: String,
    /// Its threads that did something.
    pub threads: usize,
    /// What all its threads did.
    #[serde(flatten)]
    pub activity: Activity,
}

/// All processes of one name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessNameRow {
    /// The last name that they had.
    pub name: String,
    /// How many they are.
    pub processes: usize,
    /// Their threads that did something.
    pub threads: usize,
    /// What all these threads did.
    #[serde(flatten)]
    pub activity: Activity,
}

/// A thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ThreadRow {
    /// Its thread id.
    pub tid: u32,
    /// The last name it had.
    pub name: String,
    /// Its process's id.
    pub pid: u32,
    /// Its process's last name.
    pub process: String,
    /// What it did.
    #[serde(flatten)]
    pub activity: Activity,
}

/// A stack in words.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StackLabels {
    /// The frames, innermost first; empty where no stack was taken.
    pub frames: Vec<String>,
    /// Which of them are functions of interpreted programs: their places in `frames`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interpreted: Vec<usize>,
    /// Which of them are the program's own functions, and where it has none, those of its
    /// libraries, but for those of languages, of the C library and of the kernel.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub own: Vec<usize>,
}

impl StackLabels {
    /// The program's own function that was called last.
    pub fn innermost_own(&self) -> Option<&str> {
        self.own.first().and_then(|place| self.frames.get(*place)).map(String::as_str)
    }
}

/// Functions, from the samples of CPUs that did not idle.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Functions {
    /// Samples of threads.
    pub samples: u64,
    /// Of these, how many hit kernel code.
    pub kernel_samples: u64,
    /// Samples of idle CPUs (of the whole machine, whatever process was asked for).
    pub idle_samples: u64,
    /// Samples of threads without a stack; they are in no row.
    pub without_stack: u64,
    /// Samples whose stacks lack their outer frames: totals of functions there are too small.
    #[serde(default)]
    pub truncated: u64,
    /// Of these, why and in which module.
    #[serde(default)]
    pub truncated_in: Table<TruncatedRow>,
    /// CPython's interpreter is among all the functions, and none of a Python program is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lacks_python: bool,
    /// By samples in the function itself.
    pub by_self: Table<FunctionRow>,
    /// By samples in the function and in what it calls.
    pub by_total: Table<FunctionRow>,
}

/// Stacks that end in the same module, before their thread's first function.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TruncatedRow {
    /// Why, in words.
    pub reason: String,
    /// The module of the last frame that there is; empty for code of no file.
    pub module: String,
    /// Why there is no unwind table of that module, where its file was refused.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub without_table: String,
    /// Samples, or sleeps.
    #[serde(alias = "samples")]
    pub count: u64,
}

/// A function.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionRow {
    /// Its name; `[unnamed]` stands for all code of the module of which not even the functions are
    /// known.
    pub function: String,
    /// `function` is no name, but the module's file name and where the function begins.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub range_only: bool,
    /// Its module's path; empty where the code belongs to no file.
    pub module: String,
    /// What its module is.
    #[serde(default, skip_serializing_if = "ModuleKind::is_file")]
    pub module_kind: ModuleKind,
    /// It is kernel code.
    pub kernel: bool,
    /// Samples that hit it: it, or an inlined copy of it, is the innermost frame.
    #[serde(rename = "self")]
    pub self_samples: u64,
    /// Samples that have it anywhere in their stack, each counted once.
    pub total: u64,
}

/// Who woke whom.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Wakeups {
    /// Wakeups in all: of a process asked for, those it did and those it got.
    pub count: u64,
    /// Of these, how many interrupts did.
    pub by_interrupt: u64,
    /// By waker and woken thread, the most frequent first.
    pub pairs: Table<WakeRow>,
}

/// What made a thread runnable. Of pairs that are equally frequent, those of the first come first.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum WakerKind {
    /// An interrupt.
    Interrupt,
    /// A thread.
    Thread,
    /// Not known: what ran there was lost.
    #[default]
    Unknown,
}

/// A thread that wakes another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WakeRow {
    /// What it is.
    pub waker_kind: WakerKind,
    /// The waking thread's name; empty where it is none.
    pub waker: String,
    /// Its thread id; 0 for idle, interrupts and the unknown.
    pub waker_tid: u32,
    /// The woken thread's name.
    pub wakee: String,
    /// Its thread id.
    pub wakee_tid: u32,
    /// How often.
    pub count: u64,
}

/// How long runnable threads waited for a CPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunQueueReport {
    /// All waits that began and ended within the session, with nothing missing between.
    pub all: Distribution,
    /// Those that began with a wakeup.
    pub after_wakeup: Distribution,
    /// Those that began with a preemption (or a yield).
    pub after_preemption: Distribution,
    /// All waits, by powers of two.
    pub histogram: Vec<Bucket>,
}

/// A distribution of durations: exact, but for percentiles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Distribution {
    /// How many.
    pub count: u64,
    /// Their sum.
    pub total_ns: u64,
    /// Their mean, rounded down.
    pub mean_ns: u64,
    /// The shortest.
    pub min_ns: u64,
    /// 50 % are no longer.
    pub p50_ns: u64,
    /// 90 % are no longer.
    pub p90_ns: u64,
    /// 99 % are no longer.
    pub p99_ns: u64,
    /// 99.9 % are no longer.
    pub p999_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// A bar of a histogram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bucket {
    /// From here on.
    pub from_ns: u64,
    /// Up to here, exclusive.
    pub to_ns: u64,
    /// How many.
    pub count: u64,
}

/// Moves from one CPU to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigrationRow {
    /// Their machine.
    #[serde(default, skip_serializing_if = "MachineId::is_first")]
    pub machine: MachineId,
    /// The old CPU.
    pub from_cpu: u32,
    /// The new CPU.
    pub to_cpu: u32,
    /// How often.
    pub count: u64,
}

/// Lost records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LossRow {
    /// What the records were lost from.
    #[serde(rename = "lane")]
    pub origin: LossOrigin,
    /// Its CPU, if it has one.
    pub cpu: Option<u32>,
    /// The CPU's machine.
    #[serde(default, skip_serializing_if = "MachineId::is_first")]
    pub machine: MachineId,
    /// Why.
    pub cause: LossCause,
    /// Whose programs wrote them, where that is known: a user id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<u32>,
    /// How many.
    pub count: u64,
}

impl LossRow {
    pub(super) fn of(loss: &Loss) -> Self {
        Self {
            origin: loss.origin.clone(),
            cpu: loss.cpu.map(|cpu| cpu.number),
            machine: loss.machine(),
            cause: loss.cause,
            user: loss.user,
            count: loss.count,
        }
    }
}

/// Code of a module that has no names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnresolvedRow {
    /// The module's path; empty for code that belongs to no file.
    pub module: String,
    /// What it is.
    #[serde(default, skip_serializing_if = "ModuleKind::is_file")]
    pub module_kind: ModuleKind,
    /// The module's build id; empty where it is not known.
    pub build_id: String,
    /// Different places without a name, in the stacks of samples and of blocked threads.
    pub places: u64,
    /// Samples with at least one of them.
    pub samples: u64,
    /// Blocked time with at least one of them in its stack.
    pub blocked_ns: u64,
    /// The distribution's package that has its names, where the machine that reports knows it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub debug_package: String,
}
