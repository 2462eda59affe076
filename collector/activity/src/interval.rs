//! What one second of a recording was.

use crate::functions::FunctionActivity;
use crate::histogram::Histogram;
use crate::names::ThreadName;
use crate::wakers::WakerShare;
use std::sync::Arc;
use syscollect_model::Ticks;

/// One second of a recording's time. All times are ticks of the recording's clock, so that sums are
/// exact: see [`share`](Self::share) and [`nanoseconds`](Self::nanoseconds).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Interval {
    /// Which one since the first, counting from 0.
    pub number: u64,
    /// Where it begins.
    pub start: Ticks,
    /// How long it is.
    pub ticks: u64,
    /// Records are missing, here or a moment before: figures may be too small, and what they could
    /// have changed counts as not known.
    pub is_incomplete: bool,
    /// The CPUs, by their numbers.
    pub cpus: Vec<CpuActivity>,
    /// Threads that did anything but sleep, those with most time on a CPU or waiting for one first.
    pub threads: Vec<ThreadActivity>,
    /// The sum of more threads than are kept.
    pub other_threads: OtherActivity,
    /// The same of processes, of all their threads.
    pub processes: Vec<ProcessActivity>,
    /// The sum of more processes than are kept.
    pub other_processes: OtherActivity,
    /// Threads that slept all the time, or were stopped.
    pub sleeping: u64,
    /// How long threads that came to run had been runnable: run-queue latency.
    pub latency: Histogram,
    /// Context switches.
    pub switches: u64,
    /// Wakeups.
    pub wakeups: u64,
    /// Zones and frames of instrumented programs that ended, by what they are called, those with
    /// most time first.
    pub zones: Vec<ZoneActivity>,
    /// How many ended besides: more names than are kept, or of no known name.
    pub other_zones: u64,
    /// Of zones and frames something is missing: too much came of a program, or it lost some.
    pub zones_incomplete: bool,
    /// Of whose programs, as far as that is known: nothing is missing of others.
    pub zones_incomplete_users: Vec<u32>,
    /// In which functions threads ran and were blocked; `None` before that was asked for.
    pub functions: Option<Arc<FunctionActivity>>,
    /// Threads that were made.
    pub new_threads: u64,
    /// Threads that ended.
    pub ended_threads: u64,
}

impl Interval {
    /// What part of the interval that is, 0 to 1; more for sums over several CPUs or threads.
    pub fn share(&self, ticks: u64) -> f64 {
        if self.ticks == 0 { 0.0 } else { ticks as f64 / self.ticks as f64 }
    }

    /// The same in nanoseconds, of which an interval has a billion.
    pub fn nanoseconds(&self, ticks: u64) -> u64 {
        let ticks = u128::from(ticks) * 1_000_000_000;
        u64::try_from(ticks / u128::from(self.ticks.max(1))).unwrap_or(u64::MAX)
    }

    /// What it takes in memory, bytes.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.cpus.capacity() * size_of::<CpuActivity>()
            + self.threads.capacity() * size_of::<ThreadActivity>()
            + self.processes.capacity() * size_of::<ProcessActivity>()
            + self.zones.capacity() * (size_of::<ZoneActivity>() + 2 * SHORT_NAME)
            + self.zones_incomplete_users.capacity() * size_of::<u32>()
            + self.latency.heap_bytes()
            + self.functions.as_ref().map_or(0, |functions| functions.bytes())
    }
}

/// What a name takes, which several seconds share.
const SHORT_NAME: usize = 64;

/// What something is that programs say begins and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SpanKind {
    /// A zone, of a thread or async.
    Zone,
    /// A frame.
    Frame,
    /// A zone of a GPU, by the GPU's own clock.
    GpuZone,
}

/// Zones or frames of one name of a process, of a GPU also of one queue, that ended, or stay open.
/// Times are ticks of the recording's clock. A zone of a GPU ends when its times are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneActivity {
    /// What they are.
    pub kind: SpanKind,
    /// Whose.
    pub pid: u32,
    /// What the program calls them, of any kind: whoever shows it has to escape what a terminal
    /// obeys.
    pub name: Arc<str>,
    /// The queue of a GPU that they are of, as the program calls it.
    pub queue: Option<Arc<str>>,
    /// How many ended.
    pub count: u64,
    /// How long they took together; what lies within another one counts twice.
    pub total: u64,
    /// What half of them did not exceed, up to an eighth too large,
    pub p50: u64,
    /// what nine of ten,
    pub p90: u64,
    /// and what 99 of a hundred.
    pub p99: u64,
    /// The longest, exactly.
    pub longest: u64,
    /// The process's name, where that is known.
    pub process: Option<ThreadName>,
    /// How many were open all the time, and still are; of a GPU's: submitted, and without times,
    pub open: u64,
    /// and since how many ticks the oldest of them.
    pub open_for: u64,
}

/// What a CPU did. The three times together are the interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuActivity {
    /// Its number.
    pub cpu: u16,
    /// Ticks that threads had it.
    pub busy: u64,
    /// Ticks that nobody had it.
    pub idle: u64,
    /// Ticks of which it is not known: records are missing, or none came yet.
    pub unknown: u64,
    /// Context switches.
    pub switches: u64,
    /// Who had it when the interval ended; `None` where that was nobody or is not known.
    pub current: Option<u32>,
}

/// Where a thread's time went, ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskTimes {
    /// On a CPU.
    pub running: u64,
    /// Runnable, while others had the CPU.
    pub runnable: u64,
    /// Asleep so that a signal would have woken it.
    pub interruptible: u64,
    /// Asleep so that none would: mostly waiting for a disk.
    pub uninterruptible: u64,
    /// Stopped, traced, parked, or a kernel thread that has nothing to do.
    pub stopped: u64,
    /// Not known, because records are missing.
    pub unknown: u64,
}

impl TaskTimes {
    /// All together.
    pub fn sum(&self) -> u64 {
        let Self { running, runnable, interruptible, uninterruptible, stopped, unknown } = self;
        running + runnable + interruptible + uninterruptible + stopped + unknown
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.running += other.running;
        self.runnable += other.runnable;
        self.interruptible += other.interruptible;
        self.uninterruptible += other.uninterruptible;
        self.stopped += other.stopped;
        self.unknown += other.unknown;
    }

    /// By which it is decided who is kept.
    pub(crate) fn weight(&self) -> u64 {
        self.running + self.runnable + self.uninterruptible
    }
}

/// What a thread did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadActivity {
    /// Its id.
    pub tid: u32,
    /// Its process; 0 where that is not known.
    pub pid: u32,
    /// Its name, where that is known.
    pub name: Option<ThreadName>,
    /// Where its time went; those of a thread that began or ended are less than the interval.
    pub times: TaskTimes,
    /// How often it left a CPU,
    pub switches: u32,
    /// and how often of these it was preempted or yielded.
    pub preempted: u32,
    /// How often it was woken.
    pub wakeups: u32,
    /// The longest that it had waited for a CPU when it came to run, ticks.
    pub longest_wait: u64,
    /// Who woke it most.
    pub waker: Option<WakerShare>,
    /// It ended.
    pub has_ended: bool,
}

/// What the threads of a process did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessActivity {
    /// Its id; 0 for threads whose process is not known.
    pub pid: u32,
    /// The name of its first thread, or of any if that is not known.
    pub name: Option<ThreadName>,
    /// Where its threads' time went, in sum.
    pub times: TaskTimes,
    /// How many of its threads did anything but sleep.
    pub threads: u32,
    /// How often they left a CPU.
    pub switches: u64,
    /// How often they were woken.
    pub wakeups: u64,
    /// The longest that one of them had waited for a CPU, ticks.
    pub longest_wait: u64,
}

/// The sum of what is not kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OtherActivity {
    /// Of how many.
    pub count: u64,
    /// Where their time went.
    pub times: TaskTimes,
    /// How often they left a CPU.
    pub switches: u64,
    /// How often they were woken.
    pub wakeups: u64,
}
