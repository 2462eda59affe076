//! What a recording became.

use std::time::Duration;

use syscollect_model::RecorderSummary;
use syscollect_store::LaneLoss;
use syscollect_symbolize::PinnedFiles;

use crate::priority::RaisedSession;
use crate::unwind::StacksInMemory;
use crate::usage::CostAccount;

/// A recording that has ended; its capture is complete.
pub struct Recorded {
    /// Files that were mapped, still open, for naming addresses.
    pub pinned: PinnedFiles,
    /// Stacks as they lay in memory, whose tables were not made when they were recorded.
    pub stacks: StacksInMemory,
    /// What the capture says of the recorder; of several files, the last one.
    pub summary: RecorderSummary,
    /// What was lost, by lane, kind and cause; of several files, of the last one.
    pub losses: Vec<LaneLoss>,
    /// What was lost of the files before.
    pub losses_before: Vec<LaneLoss>,
    /// How long it was, all files together.
    pub duration: Duration,
    /// The part of it at its beginning in which zones and probes were not all recorded yet.
    pub attaching: Duration,
    /// Events recorded.
    pub records: u64,
    /// Why the end of the recording is not in the file (a full disk), if so.
    pub error: Option<String>,
    /// What starting and recording cost; what comes after it may be added.
    pub costs: CostAccount,
    /// To be kept until the work after the recording is done.
    pub priority: RaisedSession,
}
