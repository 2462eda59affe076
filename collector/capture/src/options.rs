//! What to record.

use std::path::PathBuf;
use std::time::Instant;

use syscollect_probes::Spec;
use syscollect_store::BufferMode;

/// Finished options of a recording.
#[derive(Clone, Debug)]
pub struct RecordOptions {
    /// Only these processes and their children; empty for the whole machine.
    pub pids: Vec<u32>,
    /// Samples per second and CPU; 0 for none.
    pub sample_rate_hz: u32,
    /// Which events carry stacks.
    pub stacks: Stacks,
    /// Bytes of the trace buffer between the lanes and the disk.
    pub buffer_bytes: usize,
    /// What gives way when the buffer is full.
    pub mode: BufferMode,
    /// Check every so many cached kernel stacks against a walk; 0 for never.
    pub cross_check_every: u32,
    /// Probes in user programs; the paths in them are absolute.
    pub probes: Vec<Spec>,
    /// What GPU drivers do.
    pub gpu: bool,
    /// The program that will be launched once the recording has begun, as the
    /// user names it, so that its probes are attached before.
    pub launch: Option<PathBuf>,
    /// When the program started, for the summary.
    pub program_start: Instant,
    /// The program's own arguments, for the capture.
    pub command_line: Vec<String>,
}

/// Which events carry stacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stacks {
    /// CPU samples.
    pub samples: bool,
    /// Switches of tasks that block.
    pub offcpu: bool,
    /// Wakeups: the waker's stack.
    pub wakers: bool,
}

impl Stacks {
    /// Whether scheduling records are the long ones.
    pub(crate) fn any_sched(self) -> bool {
        self.offcpu || self.wakers
    }

    /// The names that the capture keeps.
    pub(crate) fn names(self) -> Vec<String> {
        let all = [("samples", self.samples), ("offcpu", self.offcpu), ("wakers", self.wakers)];
        all.iter().filter(|(_, on)| *on).map(|(name, _)| (*name).to_owned()).collect()
    }
}
