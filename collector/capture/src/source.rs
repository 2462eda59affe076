//! What delivers records: the kernel programs, perf events, a recorded capture.

use std::collections::BTreeMap;

use syscollect_model::{Mapping, SessionInfo, Ticks};
use syscollect_store::{Chunk, LaneLoss, Producer};

use crate::error::CaptureError;
use crate::stage::Flush;
use crate::unwind::StacksInMemory;

/// A source of records. The collector drains all sources in turn, on one thread.
pub(crate) trait Source: Send {
    /// Begins to record on these CPUs.
    fn attach(&mut self, cpus: &[u32]) -> Result<(), CaptureError>;

    /// Records on a CPU that came up, too.
    fn add_cpu(&mut self, cpu: u32) -> Result<(), CaptureError>;

    /// Moves what is there into chunks, and passes on what of them `flush` says. Returns how full
    /// the fullest lane was, 0 to 1.
    fn drain(&mut self, now: Ticks, flush: Flush, out: &mut Drained<'_>) -> f64;

    /// The recording goes on in another file soon: what is said once in a while is to be said anew
    /// from now on.
    fn restate(&mut self) {}

    /// Another file began.
    fn file_began(&mut self) {}

    /// Ends recording. What was recorded before can still be drained.
    fn detach(&mut self, cpus: &[u32]);

    /// Waits a moment, at the very end, until what was detached is gone; what to tell the user if
    /// it is not.
    fn wait_until_gone(&mut self) -> Option<String> {
        None
    }

    /// Stacks that came as they lay in memory since this was last asked.
    fn take_stacks_in_memory(&mut self) -> StacksInMemory {
        StacksInMemory::default()
    }

    /// What was lost so far.
    fn losses(&self) -> Vec<LaneLoss>;

    /// Counts of what the source did, by name.
    fn statistics(&self) -> BTreeMap<String, u64>;

    /// Adds what the source knows of the session: its clock, what drives samples.
    fn describe(&self, session: &mut SessionInfo);

    /// What this machine lacks, in words, each said once.
    fn missing(&self) -> &[String];

    /// What [`missing`](Self::missing) said before and that holds no more.
    fn taken_back(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Where a source puts what it has.
pub(crate) struct Drained<'a> {
    /// Takes chunks.
    pub(crate) chunk: &'a mut dyn FnMut(Chunk),
    /// Takes those of programs, which have shares.
    pub(crate) of_programs: &'a mut dyn ProgramChunks,
    /// Takes what should be noted while its process lives.
    pub(crate) observe: &'a mut dyn FnMut(Observed),
}

/// Where chunks of instrumented programs go.
pub(crate) trait ProgramChunks {
    /// Takes a chunk that this program wrote.
    fn push(&mut self, producer: Producer, chunk: Chunk);

    /// The program of that number has ended, and all that it wrote was pushed.
    fn ended(&mut self, program: u32);

    /// Whether the program's share has room for what it wrote meanwhile.
    fn has_room_for(&self, producer: Producer) -> bool;

    /// Whether there is room for hits of programs' probes.
    fn has_room_for_hits(&self) -> bool;
}

/// Room for all.
#[cfg(any(test, feature = "fuzzing"))]
impl ProgramChunks for Vec<Chunk> {
    fn push(&mut self, _: Producer, chunk: Chunk) {
        Self::push(self, chunk);
    }

    fn ended(&mut self, _: u32) {}

    fn has_room_for(&self, _: Producer) -> bool {
        true
    }

    fn has_room_for_hits(&self) -> bool {
        true
    }
}

/// What should be noted while its process lives.
#[derive(Clone, Debug)]
pub(crate) enum Observed {
    /// A file was mapped, at that time: CLOCK_MONOTONIC_RAW in nanoseconds.
    Mapping(Mapping, u64),
    /// A process began to run another program.
    Exec {
        /// The process.
        pid: u32,
        /// When, in the same time. What it mapped then may be heard first, in an earlier round:
        /// each CPU has a ring.
        at: u64,
    },
    /// Records of such were lost.
    MappingsLost {
        /// When it was found, in the same time.
        at: u64,
    },
}

impl Observed {
    /// When: CLOCK_MONOTONIC_RAW in nanoseconds.
    pub(crate) fn at(&self) -> u64 {
        match self {
            Self::Mapping(_, at) | Self::Exec { at, .. } | Self::MappingsLost { at } => *at,
        }
    }
}
