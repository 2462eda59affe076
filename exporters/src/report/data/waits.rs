//! The longest waits as data, a part of the report's JSON. All times are nanoseconds.

use crate::report::data::{StackLabels, Table, WakerKind};
use serde::{Deserialize, Serialize};
use syscollect_model::CpuId;

/// The longest waits; those for fences of GPUs are the report's `gpu_waits`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorstWaits {
    /// Of threads that could have run, for a CPU.
    pub for_cpu: Table<CpuWaitRow>,
    /// Of blocked threads, until they were woken, or until the end; but for idle ones if these were
    /// not asked for, and for those that slept from beginning to end, which
    /// [`OffCpuReport::asleep_throughout`](super::OffCpuReport::asleep_throughout) has.
    pub blocked: Table<BlockedWaitRow>,
    /// How many times idle threads were asleep that are left out of these.
    #[serde(default)]
    pub idle_left_out: usize,
    /// Of threads for locks that programs tell of.
    pub locks: Table<LockWaitRow>,
}

/// Who waited, when and for how long.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiter {
    /// How long, as far as that is known.
    pub waited_ns: u64,
    /// For how long records are missing between its beginning and its end: it may have ended and
    /// begun again there.
    #[serde(default)]
    pub unknown_ns: u64,
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
}

/// Who made a thread runnable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WakerRow {
    /// What it is.
    pub kind: WakerKind,
    /// The thread's name; empty where it is none.
    pub thread: String,
    /// Its id; 0 where it is none.
    pub tid: u32,
    /// The CPU.
    #[serde(flatten)]
    pub cpu: CpuId,
    /// Where it did that.
    #[serde(flatten)]
    pub stack: StackLabels,
}

/// A thread could have run and did not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuWaitRow {
    /// Who and when.
    #[serde(flatten)]
    pub waiter: Waiter,
    /// It began with a preemption (or a yield), not with a wakeup.
    pub preempted: bool,
    /// Who woke it, if it began with a wakeup.
    pub woken_by: Option<WakerRow>,
    /// The CPU that it came onto; `None` where it still waited when the recording, or the part of it,
    /// ended.
    #[serde(flatten)]
    pub cpu: Option<CpuId>,
    /// It still waited then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub goes_on: bool,
    /// What that CPU ran meanwhile, the longest first.
    pub meanwhile: Vec<RanRow>,
    /// How many more threads it ran.
    pub other_threads: usize,
    /// For how long it ran those.
    pub other_threads_ns: u64,
    /// For how long it is not known what it ran: other processes than those that were recorded, or
    /// records are missing.
    #[serde(default)]
    pub meanwhile_unknown_ns: u64,
    /// It ran more, of which the report did not keep account.
    pub meanwhile_is_part: bool,
}

/// A thread that ran while another waited.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RanRow {
    /// Its id; 0 is the idle thread.
    pub tid: u32,
    /// Its name.
    pub thread: String,
    /// For how long.
    pub ran_ns: u64,
}

/// A thread was blocked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockedWaitRow {
    /// Who and when.
    #[serde(flatten)]
    pub waiter: Waiter,
    /// The kernel function it slept in; `None` where it is not known.
    pub blocked_in: Option<String>,
    /// What it waited for, as in [`ReasonRow::waits_for`](super::ReasonRow::waits_for).
    #[serde(default)]
    pub waits_for: String,
    /// The kind of sleep, as in [`ReasonRow::state`](super::ReasonRow::state).
    pub state: String,
    /// It waited for I/O.
    pub io_wait: bool,
    /// Where it left the CPU.
    #[serde(flatten)]
    pub stack: StackLabels,
    /// Who woke it; `None` where that is not known.
    pub woken_by: Option<WakerRow>,
    /// It was still blocked when the recording, or the part of it, ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub goes_on: bool,
}

/// A thread waited for a lock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockWaitRow {
    /// Who and when.
    #[serde(flatten)]
    pub waiter: Waiter,
    /// The lock's name.
    pub lock: String,
    /// The thread that held it when the wait began, its name and id, where that is known.
    pub holder: Option<String>,
    /// The thread got the lock.
    pub obtained: bool,
    /// It still waited when the recording, or the part of it, ended.
    #[serde(default)]
    pub goes_on: bool,
}
