//! Where and how a session was recorded, and how many events it has, as data; see [`super`].

use serde::{Deserialize, Serialize};
use syscollect_model::{
    Event, MachineId, OperatingSystem, SampleEvent, SessionInfo, SnapshotMark, StackOrigin, Tables,
    Time,
};

/// Where and how the session was recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    /// The recorder and its version.
    pub recorder: String,
    /// Host name.
    pub hostname: String,
    /// The operating system.
    #[serde(default)]
    pub os: OperatingSystem,
    /// Kernel release.
    pub kernel_release: String,
    /// CPUs of the machine.
    pub cpus: usize,
    /// Sampling rate asked for, Hz; 0 is none.
    pub sample_rate_hz: u32,
    /// What drives the samples.
    pub sample_event: SampleEvent,
    /// With what stacks were asked for.
    pub stacks: Vec<StackOrigin>,
    /// Whether the recording came to its end.
    pub complete: bool,
    /// Whether that end came because the file had the size that it might have.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reached_max_size: bool,
    /// Why it was taken, of a snapshot of a recording that went on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotMark>,
    /// Lists of code that programs made while they ran that were not read, or not to their ends, and
    /// why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused_lists: Vec<String>,
    /// Only these processes were recorded, if not empty: all figures of others are partial.
    pub filter_pids: Vec<u32>,
    /// When it began by the machine's wall clock, nanoseconds since 1970, where that was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began_unix_ns: Option<u64>,
    /// The other machines, where several were recorded: they are numbered from 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_machines: Vec<RecordedMachine>,
}

impl Recording {
    /// Of a session that is to be played, which began then.
    pub(in crate::report) fn of(tables: &Tables, began: Time) -> Self {
        let session = tables.machine(MachineId::FIRST);
        Self {
            recorder: session.recorder.clone(),
            hostname: session.hostname.clone(),
            os: session.os.clone(),
            kernel_release: session.kernel_release.clone(),
            cpus: session.cpus.len(),
            sample_rate_hz: session.sample_rate_hz,
            sample_event: session.sample_event.clone(),
            stacks: session.stacks.clone(),
            complete: false,
            reached_max_size: false,
            snapshot: session.snapshot.clone(),
            refused_lists: Vec::new(),
            filter_pids: session.filter_pids.clone(),
            began_unix_ns: session.wall_clock(began),
            other_machines: tables.machines.iter().skip(1).map(RecordedMachine::of).collect(),
        }
    }

    /// Whether only some processes of a machine were recorded.
    pub fn is_filtered(&self) -> bool {
        let others = self.other_machines.iter();
        !self.filter_pids.is_empty() || others.into_iter().any(|of| !of.filter_pids.is_empty())
    }

    /// Whether only some processes of this machine were recorded.
    pub(in crate::report) fn is_filtered_on(&self, machine: MachineId) -> bool {
        let pids = match usize::from(machine.0).checked_sub(1) {
            None => Some(&self.filter_pids),
            Some(other) => self.other_machines.get(other).map(|of| &of.filter_pids),
        };
        pids.is_some_and(|pids| !pids.is_empty())
    }

    /// The first machine.
    pub fn machine(&self) -> RecordedMachine {
        RecordedMachine {
            hostname: self.hostname.clone(),
            os: self.os.clone(),
            kernel_release: self.kernel_release.clone(),
            cpus: self.cpus,
            filter_pids: self.filter_pids.clone(),
        }
    }
}

/// A machine that was recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordedMachine {
    /// Host name.
    pub hostname: String,
    /// The operating system.
    pub os: OperatingSystem,
    /// Kernel release.
    pub kernel_release: String,
    /// Its CPUs.
    pub cpus: usize,
    /// Only these of its processes were recorded, if not empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filter_pids: Vec<u32>,
}

impl RecordedMachine {
    fn of(session: &SessionInfo) -> Self {
        let SessionInfo { hostname, os, kernel_release, cpus, filter_pids, .. } = session.clone();
        Self { hostname, os, kernel_release, cpus: cpus.len(), filter_pids }
    }
}

/// Events by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventCounts {
    /// Context switches.
    pub switches: u64,
    /// Wakeups, those of new threads included.
    pub wakeups: u64,
    /// Moves to another run queue.
    pub migrations: u64,
    /// CPU samples, those of idle CPUs included.
    pub samples: u64,
    /// Slices begun.
    pub slices: u64,
    /// Instants.
    pub instants: u64,
    /// Counter values.
    pub counters: u64,
    /// Of the instants, messages.
    #[serde(default)]
    pub messages: u64,
    /// Events of locks.
    #[serde(default)]
    pub locks: u64,
    /// Allocations and frees.
    #[serde(default)]
    pub memory: u64,
    /// Jobs of GPUs.
    #[serde(default)]
    pub gpu_jobs: u64,
}

impl EventCounts {
    #[inline]
    pub(in crate::report) fn add(&mut self, event: &Event) {
        match event {
            Event::Switch(_) => self.switches += 1,
            Event::Wakeup(_) => self.wakeups += 1,
            Event::Migration(_) => self.migrations += 1,
            Event::Sample(_) => self.samples += 1,
            Event::SliceBegin(..) => self.slices += 1,
            Event::Instant(..) | Event::FrameImage(..) => self.instants += 1,
            Event::Message(..) => {
                self.instants += 1;
                self.messages += 1;
            }
            Event::Counter(..) => self.counters += 1,
            Event::Lock(_) => self.locks += 1,
            Event::Memory(_) => self.memory += 1,
            Event::GpuJob(..) => self.gpu_jobs += 1,
            _ => {}
        }
    }
}
