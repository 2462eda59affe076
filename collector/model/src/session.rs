//! What is known of the machine and the recording as a whole.

use crate::{OperatingSystem, RecorderWork, SampleEvent, StackOrigin, StopReason, Ticks, Time};
use serde::{Deserialize, Serialize};

/// The machine, the kernel and the way of recording, as noted at the start.
///
/// Stored as JSON in the capture; unknown fields are ignored and missing ones
/// take their default, so that old and new versions read each other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionInfo {
    /// The recorder and its version: `"syscollect 0.1.0"`.
    pub recorder: String,
    /// The recorder's own command line.
    pub recorder_command: Vec<String>,
    /// The recorder's process id.
    pub recorder_pid: u32,
    /// The operating system.
    pub os: OperatingSystem,
    /// Kernel release.
    pub kernel_release: String,
    /// Kernel version line.
    pub kernel_version: String,
    /// Machine type: `"x86_64"`.
    pub machine: String,
    /// Host name.
    pub hostname: String,
    /// Boot id, changes with every boot.
    pub boot_id: String,
    /// CPU model name.
    pub cpu_model: String,
    /// The CPUs.
    pub cpus: Vec<CpuInfo>,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Loaded kernel modules.
    pub kernel_modules: Vec<KernelModule>,
    /// The kernel's build id, hexadecimal.
    pub kernel_build_id: String,
    /// Where ticks come from.
    pub clock_source: ClockSource,
    /// Ticks per second as far as it was known at the start.
    pub tick_rate_hz: f64,
    /// The error bound of each CPU's stamps.
    pub clocks: Vec<CpuClock>,
    /// The clock readings of the whole recording, filled in when a session is
    /// played; in the capture they have definitions of their own.
    #[serde(skip)]
    pub clock_pairs: Vec<crate::ClockPair>,
    /// Sampling rate asked for, Hz; 0 is none.
    pub sample_rate_hz: u32,
    /// What drives the samples.
    pub sample_event: SampleEvent,
    /// With what stacks were asked for.
    pub stacks: Vec<StackOrigin>,
    /// Only these processes were recorded, if not empty.
    pub filter_pids: Vec<u32>,
    /// What was mapped while the recording ran was not recorded: an address
    /// outside of all mappings may still be code.
    pub mappings_unrecorded: bool,
    /// Process id namespace and others that change how ids read; empty on the host.
    pub notes: Vec<String>,
    /// Why a snapshot was taken, where it is one of a recording that goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotMark>,
    /// What the recorder said while it recorded, oldest first; the newest where that was much.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<LogEntry>,
}

/// Something that the recorder said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LogEntry {
    /// When.
    pub at: Ticks,
    /// What, in a sentence.
    pub message: String,
}

/// Why and when a snapshot of a recording was taken that goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SnapshotMark {
    /// Why: the words of who asked, or what the trigger saw.
    pub reason: String,
    /// The trigger's name; empty where somebody asked.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub trigger: String,
    /// When it was taken, or when what it is about ended; 0 in an order, which has it filled in.
    pub at: Ticks,
    /// The thread that it is about, 0 for none.
    #[serde(skip_serializing_if = "is_zero")]
    pub tid: u32,
}

impl SnapshotMark {
    /// The name of the tracks that show it: the machine's, and that of the thread.
    pub const TRACK: &str = "Snapshot";
}

fn is_zero(tid: &u32) -> bool {
    *tid == 0
}

impl SessionInfo {
    /// The names of [`Self::stacks`].
    pub fn stack_names(&self) -> Vec<&str> {
        self.stacks.iter().map(StackOrigin::name).collect()
    }

    /// What the wall clock showed then, nanoseconds since 1970, by the last reading before; `None`
    /// where the clocks were not read.
    pub fn wall_clock(&self, at: Time) -> Option<u64> {
        let before = self.clock_pairs.iter().rev().find(|pair| pair.boottime <= at.0);
        let pair = before.or(self.clock_pairs.first())?;
        let time = i128::from(pair.realtime) + i128::from(at.0) - i128::from(pair.boottime);
        u64::try_from(time).ok()
    }
}

/// One CPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CpuInfo {
    /// Its number.
    pub cpu: u32,
    /// Physical package.
    pub package: u32,
    /// Core within the package.
    pub core: u32,
    /// Highest frequency in kHz, if the kernel tells.
    pub max_frequency_khz: Option<u64>,
}

/// A loaded kernel module.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct KernelModule {
    /// Its name.
    pub name: String,
    /// Where its code begins.
    pub address: u64,
    /// Bytes.
    pub size: u64,
}

/// Where [`crate::Ticks`] come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClockSource {
    /// The CPU's invariant time stamp counter.
    #[default]
    Tsc,
    /// CLOCK_MONOTONIC in nanoseconds, read by the kernel programs.
    Monotonic,
    /// QueryPerformanceCounter (Windows).
    Qpc,
    /// The time of day, in steps of the system's timer (Windows).
    SystemTime,
}

/// The clock of one CPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CpuClock {
    /// The CPU.
    pub cpu: u32,
    /// How far a stamp may be from the true time at which it was taken, nanoseconds.
    pub error_bound_ns: f64,
    /// How that was found, in words for people.
    pub method: String,
}

/// What the recorder says of itself when it stops.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecorderSummary {
    /// Why the recording ended.
    pub stop_reason: StopReason,
    /// CPU time of the recorder itself while recording, nanoseconds, user and system.
    pub recorder_cpu_ns: u64,
    /// Run time of the kernel programs, nanoseconds, where the kernel counts it.
    pub kernel_program_ns: Option<u64>,
    /// Peak resident memory of the recorder, bytes.
    pub recorder_peak_bytes: u64,
    /// From the start of the program to the first recorded event, nanoseconds.
    pub startup_ns: u64,
    /// Duration of the recording, nanoseconds.
    pub duration_ns: u64,
    /// Sums of the kernel programs' statistics over all lanes, by name.
    pub statistics: std::collections::BTreeMap<String, u64>,
    /// What was missing on this machine, each said once.
    pub missing: Vec<String>,
    /// Files of code that stacks came through and of which there was no unwind table; so many at
    /// most as are named.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refused_tables: Vec<RefusedTable>,
    /// Lists of code that programs make while they run (perf maps, jitdumps) that were not read, or
    /// not to their ends, and why; so many at most as are named.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refused_lists: Vec<String>,
    /// What each part of the recorder's work cost, in the order of time: the start, the recording,
    /// and, where the recorder did it and the capture was kept, the naming and the export.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub costs: Vec<WorkCost>,
}

/// A file of code of which there is no unwind table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RefusedTable {
    /// The file, as it was mapped.
    pub path: String,
    /// Why.
    pub reason: String,
}

/// What a part of the recorder's work cost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkCost {
    /// Which part.
    pub work: RecorderWork,
    /// CPU time of the process meanwhile, nanoseconds, user and system.
    pub cpu_ns: u64,
    /// Most resident memory of the process meanwhile, bytes; where the kernel does not let it be
    /// measured for a part, the most since the program's start.
    pub peak_bytes: u64,
}
