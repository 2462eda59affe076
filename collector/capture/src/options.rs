//! What to record.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use syscollect_model::StackOrigin;
use syscollect_probes::Spec;
use syscollect_store::BufferMode;

use crate::error::CaptureError;
use crate::tee::Tee;

/// Finished options of a recording.
#[derive(Clone, Debug)]
pub struct RecordOptions {
    /// Only these processes and their children; empty for the whole machine.
    pub pids: Vec<u32>,
    /// Samples per second and CPU; 0 for none.
    pub sample_rate_hz: u32,
    /// Which events carry stacks.
    pub stacks: Stacks,
    /// How user stacks are walked.
    pub unwind: UnwindMethod,
    /// Bytes of rows of unwind tables; `None` leaves it to what memory there is.
    pub unwind_memory: Option<u64>,
    /// Bytes that this process may have in all; `None` leaves it to the machine and its control
    /// groups. A buffer of as many is as large as what fits.
    pub memory: Option<u64>,
    /// Bytes of the trace buffer between the lanes and the disk.
    pub buffer_bytes: usize,
    /// What gives way when the buffer is full.
    pub mode: BufferMode,
    /// When the newest events are kept: what came longer ago than this gives way, too.
    pub buffer_span: Option<Duration>,
    /// Snapshots of it will be taken: what they need is kept.
    pub snapshots: bool,
    /// Check every so many cached kernel stacks against a walk, and send the memory of every so
    /// many user stacks, so that they can be walked again; 0 for never.
    pub cross_check_every: u32,
    /// Probes in user programs; the paths in them are absolute.
    pub probes: Vec<Spec>,
    /// What GPU drivers do.
    pub gpu: bool,
    /// Java virtual machines are asked for the names of their compiled methods when it ends.
    pub jvm: bool,
    /// Tracepoints of the kernel that are shown as it describes them, of all processes.
    pub tracepoints: Vec<Tracepoints>,
    /// The program that will be launched once the recording has begun, as the
    /// user names it, so that its probes are attached before.
    pub launch: Option<PathBuf>,
    /// The user who asked for the recording, if that is not who runs it (`sudo`): how much this
    /// user's programs write has no bound but the buffer's.
    pub asked_by: Option<u32>,
    /// When the program started, for the summary.
    pub program_start: Instant,
    /// The program's own arguments, for the capture.
    pub command_line: Vec<String>,
    /// When this is set while the recording starts, it does not begin.
    pub stop_asked: Arc<AtomicBool>,
    /// Who is told of all that is recorded, meanwhile.
    pub tee: Option<Tee>,
}

impl RecordOptions {
    /// An error once a stop was asked for.
    pub(crate) fn go_on(&self) -> Result<(), CaptureError> {
        if self.stop_asked.load(Ordering::Relaxed) { Err(CaptureError::Stopped) } else { Ok(()) }
    }
}

impl Default for RecordOptions {
    /// The whole machine, without samples, stacks and probes, through a buffer of 64 MiB; the
    /// program starts now.
    fn default() -> Self {
        Self {
            pids: Vec::new(),
            sample_rate_hz: 0,
            stacks: Stacks::default(),
            unwind: UnwindMethod::default(),
            unwind_memory: None,
            memory: None,
            buffer_bytes: 64 << 20,
            mode: BufferMode::Discard,
            buffer_span: None,
            snapshots: false,
            cross_check_every: 0,
            probes: Vec::new(),
            gpu: false,
            jvm: false,
            tracepoints: Vec::new(),
            launch: None,
            asked_by: None,
            program_start: Instant::now(),
            command_line: Vec::new(),
            stop_asked: Arc::default(),
            tee: None,
        }
    }
}

/// A tracepoint of the kernel, or all of a subsystem: `sched:sched_wakeup`, `dma_fence`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracepoints {
    /// The subsystem.
    pub system: String,
    /// The event; `None` for all of the subsystem.
    pub name: Option<String>,
}

impl FromStr for Tracepoints {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (system, name) =
            text.split_once(':').map_or((text, None), |(system, name)| (system, Some(name)));
        if !is_name(system) || !name.is_none_or(is_name) {
            return Err(format!(
                "{text:?} is not SYSTEM or SYSTEM:NAME, as /sys/kernel/tracing/available_events \
                 has them"
            ));
        }
        Ok(Self { system: system.to_owned(), name: name.map(str::to_owned) })
    }
}

/// Whether it is a name of a folder of tracefs: nothing may lead out of it.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "_-".contains(c))
}

impl fmt::Display for Tracepoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{}:{name}", self.system),
            None => f.write_str(&self.system),
        }
    }
}

/// How user stacks are walked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnwindMethod {
    /// By unwind tables where the kernel allows it, else by frame pointers.
    #[default]
    Auto,
    /// By unwind tables; a kernel that does not allow it is an error.
    Tables,
    /// By frame pointers: right where everything is compiled with them.
    FramePointer,
    /// Not at all: only the kernel's part of stacks is recorded.
    None,
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
    /// Hits of probes, and entries of functions and zones: the user stack.
    pub probes: bool,
}

impl Stacks {
    /// Whether scheduling records are the long ones.
    pub(crate) fn any_sched(self) -> bool {
        self.offcpu || self.wakers
    }

    /// Whether anything has stacks.
    pub(crate) fn any(self) -> bool {
        self.samples || self.any_sched() || self.probes
    }

    /// The same as the capture keeps it.
    pub(crate) fn origins(self) -> Vec<StackOrigin> {
        let all = [
            (StackOrigin::Samples, self.samples),
            (StackOrigin::OffCpu, self.offcpu),
            (StackOrigin::Wakers, self.wakers),
            (StackOrigin::Probes, self.probes),
        ];
        all.into_iter().filter(|(_, on)| *on).map(|(origin, _)| origin).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tracepoints_are_named_alone_or_by_their_subsystem() {
        for text in ["sched:sched_wakeup", "dma_fence"] {
            assert_eq!(text.parse::<Tracepoints>().unwrap().to_string(), text);
        }
        for text in ["", "sched:", ":x", "a:b:c", "../../etc:passwd", "sched/sched_wakeup"] {
            assert!(text.parse::<Tracepoints>().is_err(), "{text:?}");
        }
    }
}
