//! What programs say of themselves, as data; see [`super`].

use crate::report::data::{Distribution, StackLabels, Table, Times};
use serde::{Deserialize, Serialize};
use syscollect_model::{Scope, Unit};

/// Slices of one name, and of one place in the source where that is told.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SliceRow {
    /// The name, without its number.
    pub name: String,
    /// Where in the source they are.
    #[serde(default)]
    pub location: Option<SourceLocation>,
    /// Whose tracks they are on.
    #[serde(default)]
    pub scope: SliceScope,
    /// Those that began and ended within the session. The total has the time of slices in another
    /// of the row once, all other figures are of each.
    #[serde(flatten)]
    pub durations: Distribution,
    /// Those that did not end; they are not in the durations.
    pub unfinished: u64,
    /// For how long these were open, as far as that was seen; nanoseconds.
    #[serde(default)]
    pub unfinished_ns: u64,
    /// Of those on tracks of threads: what their threads did from their beginnings to their ends.
    #[serde(default)]
    pub thread: Times,
    /// What they were blocked in the longest.
    #[serde(default)]
    pub blocked_in: Option<BlockedIn>,
}

/// Whose tracks slices are on.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum SliceScope {
    /// A thread's.
    #[default]
    Thread,
    /// A process's: async zones, which may begin on one thread and end on another.
    Process,
    /// A CPU's.
    Cpu,
    /// The machine's: disks and the like.
    Machine,
}

impl SliceScope {
    /// That of a track.
    pub(crate) fn of(scope: Scope) -> Self {
        match scope {
            Scope::Thread(_) => Self::Thread,
            Scope::Process(_) => Self::Process,
            Scope::Cpu(_) => Self::Cpu,
            Scope::Machine(_) => Self::Machine,
        }
    }
}

/// Who called a function, or came to a probe or zone with stacks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CallersRow {
    /// The name of the function or probe.
    pub name: String,
    /// How often with a stack.
    pub count: u64,
    /// By which stacks, the most frequent first; the first few.
    pub stacks: Table<CallerRow>,
}

/// One way to a function or probe.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallerRow {
    /// How often.
    pub count: u64,
    /// From the function or probe outwards.
    #[serde(flatten)]
    pub stack: StackLabels,
}

/// A place in the source.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SourceLocation {
    /// The file.
    pub file: String,
    /// The line, from 1; 0 where it is not known.
    pub line: u32,
    /// The function.
    pub function: String,
}

/// What a slice waited for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockedIn {
    /// The kernel function; `None` where it is not known.
    pub function: Option<String>,
    /// How long in all.
    pub blocked_ns: u64,
}

/// Frames of one set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FrameRow {
    /// The set's name.
    pub name: String,
    /// The process; `None` if the frames are of none.
    pub pid: Option<u32>,
    /// Its name.
    pub process: String,
    /// Those that began and ended within the session.
    #[serde(flatten)]
    pub durations: Distribution,
    /// Those that did not end.
    pub unfinished: u64,
    /// For how long these were open, as far as that was seen; nanoseconds.
    #[serde(default)]
    pub unfinished_ns: u64,
}

/// Instants of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstantRow {
    /// The name.
    pub name: String,
    /// How many.
    pub count: u64,
}

/// Locks of one name, made at one place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockRow {
    /// The name.
    pub name: String,
    /// The process's id.
    pub pid: u32,
    /// Its name.
    pub process: String,
    /// Where they were made.
    pub location: Option<SourceLocation>,
    /// Waits that ended within the session.
    pub waits: u64,
    /// Waits that began while another thread was known to hold the lock.
    pub contended: u64,
    /// Waits that ended without the lock.
    pub given_up: u64,
    /// How long in all.
    pub wait_ns: u64,
    /// The longest wait.
    pub longest_wait_ns: u64,
    /// Holds that ended within the session.
    pub holds: u64,
    /// How long in all; readers that hold it together count each.
    pub held_ns: u64,
    /// The longest hold.
    pub longest_hold_ns: u64,
    /// Who held it, the longest in all first; the first few.
    pub holders: Vec<HolderRow>,
}

/// A thread that held a lock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HolderRow {
    /// Its thread id.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// How often.
    pub holds: u64,
    /// How long in all.
    pub held_ns: u64,
    /// The longest hold.
    pub longest_hold_ns: u64,
}

/// Memory of one pool of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolRow {
    /// The pool's name; `None` is the heap.
    pub pool: Option<String>,
    /// The process's id.
    pub pid: u32,
    /// Its name.
    pub process: String,
    /// Allocations.
    pub allocations: u64,
    /// Frees.
    pub frees: u64,
    /// Of the frees, those of memory whose allocation is not in the session.
    pub unknown_frees: u64,
    /// Bytes allocated in all.
    pub allocated_bytes: u64,
    /// Bytes allocated within the session and not freed at its end.
    pub live_bytes: u64,
    /// Allocations not freed.
    pub live_allocations: u64,
    /// The most bytes there were at one time.
    pub peak_bytes: u64,
}

/// Jobs of a GPU: of one queue, and of one process or of all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuRow {
    /// The queue.
    pub queue: String,
    /// The id of the process that submitted them; `None` if that is not known, or they are of all.
    pub pid: Option<u32>,
    /// Its name.
    pub process: String,
    /// Jobs, whether they ended or not.
    pub jobs: u64,
    /// Jobs that the driver gave up.
    pub failed: u64,
    /// Jobs that had not ended when the recording did, or whose end is missing; they are not in
    /// `ran`.
    pub unfinished: u64,
    /// Jobs whose beginning is missing; they are not in `ran`.
    pub without_beginning: u64,
    /// Zones of which nobody told when the GPU did them; they are not in `ran`.
    #[serde(default)]
    pub untimed: u64,
    /// From when the GPU began to the end; the total is how long the queue was busy with them, and
    /// more than that where it holds several at once.
    pub ran: Distribution,
    /// The queueing delay: from submission until the GPU began, where both are known.
    pub waited: Distribution,
    /// From submission to the end, of jobs that ended; of some drivers nothing else is known.
    pub took: Distribution,
    /// How wrong the times of a GPU's own clock may be, at most; nanoseconds.
    #[serde(default)]
    pub clock_error_ns: u64,
}

/// Zones of one name that a program marked on a queue of a GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuZoneRow {
    /// What they are called.
    pub name: String,
    /// The queue, or the context.
    pub queue: String,
    /// The id of the process that submitted them.
    pub pid: Option<u32>,
    /// Its name.
    pub process: String,
    /// How many there are, with times or without.
    pub zones: u64,
    /// Those of which nobody told when the GPU did them.
    pub untimed: u64,
    /// From when the GPU began to the end, those within included.
    pub ran: Distribution,
    /// From the beginning of the submission until the GPU began.
    pub waited: Distribution,
    /// How wrong these times may be, at most: where the program never compared the clocks, as much
    /// as they may be later.
    #[serde(default)]
    pub clock_error_ns: u64,
}

/// A thread's wait for a fence of a GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FenceWaitRow {
    /// When it began, since the first event.
    pub at_ns: u64,
    /// How long it took, or had taken when the recording ended.
    pub waited_ns: u64,
    /// It had not ended when the recording did.
    pub unfinished: bool,
    /// The thread's id.
    pub tid: u32,
    /// Its name.
    pub thread: String,
    /// The process's id.
    pub pid: u32,
    /// Its name.
    pub process: String,
    /// What the driver calls the fence's timeline.
    pub timeline: String,
    /// The fence as `context:sequence`.
    pub fence: String,
    /// Who signaled it while the thread waited: a thread's name and id, or an interrupt; `None` if
    /// that is not known.
    pub signaled_by: Option<String>,
    /// The queue of the job whose end it is, where that is known.
    pub queue: Option<String>,
    /// The thread that handed that job over, its name and id.
    pub submitted_by: Option<String>,
}

/// A crash.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrashRow {
    /// When, since the first event.
    pub at_ns: u64,
    /// The thread's id.
    pub tid: u32,
    /// Its name.
    pub thread: String,
    /// The process's id.
    pub pid: u32,
    /// Its name.
    pub process: String,
    /// The signal.
    pub signal: String,
    /// Why it was sent, `SEGV_MAPERR`.
    #[serde(default)]
    pub code: String,
    /// The address it is about; 0 where it has none.
    pub address: u64,
    /// How the process ended, `ended by SIGSEGV, core dumped`; `None` where the kernel did not
    /// tell, so that the crash is only what the program says.
    #[serde(default)]
    pub end: Option<String>,
    /// Names of the zones that were open, the outermost first.
    #[serde(default)]
    pub open: Vec<String>,
    /// The last events of the thread, the last one first.
    #[serde(default)]
    pub before: Vec<EventBeforeCrash>,
    /// Where it crashed.
    #[serde(flatten)]
    pub stack: StackLabels,
}

/// Something that a thread did before it crashed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventBeforeCrash {
    /// How long before.
    pub before_ns: u64,
    /// `zone` (it began), `instant` or `message`.
    pub kind: String,
    /// Its name, or what was said.
    pub name: String,
}

/// A process that a signal ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignalExitRow {
    /// When, since the first event.
    pub at_ns: u64,
    /// The process's id.
    pub pid: u32,
    /// Its name.
    pub process: String,
    /// The signal.
    pub signal: String,
    /// It is a signal by which programs crash.
    pub is_crash: bool,
    /// The id of the thread that it struck, where the kernel told.
    #[serde(default)]
    pub tid: Option<u32>,
    /// Its name; empty where it is not known.
    #[serde(default)]
    pub thread: String,
    /// The kernel wrote its memory to a file or to a program.
    pub core_dumped: bool,
}

/// The values of a counter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CounterRow {
    /// Its name.
    pub name: String,
    /// Whose it is: `machine`, `cpu0`, or a process's or thread's name and id.
    pub owner: String,
    /// The unit of its values.
    pub unit: Unit<String>,
    /// Values.
    pub count: u64,
    /// The least.
    pub min: f64,
    /// The mean of the values, however long each lasted.
    pub mean: f64,
    /// The largest.
    pub max: f64,
    /// The last.
    pub last: f64,
}
