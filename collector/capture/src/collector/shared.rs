//! What a recording and its collector tell one another.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use crate::files::FileAccount;
use crate::recorder_log::RecorderLog;
use crate::snapshot_requests::SnapshotRequests;

/// What the threads tell one another.
#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) stop: AtomicBool,
    pub(crate) bytes: AtomicU64,
    pub(crate) records: AtomicU64,
    pub(crate) lost: AtomicU64,
    pub(crate) files: Arc<FileAccount>,
    /// What the recorder says.
    pub(crate) log: RecorderLog,
    /// Who asks for snapshots.
    pub(crate) snapshots: SnapshotRequests,
    /// What the collector does at its end: a [`EndingPhase`].
    pub(crate) step: AtomicU8,
}

/// What the collector does at its end, for the message if it stands still.
#[derive(Clone, Copy, Debug)]
pub(crate) enum EndingPhase {
    Detaching = 1,
    Draining,
    Noting,
}

impl Shared {
    pub(crate) fn begins(&self, step: EndingPhase) {
        self.step.store(step as u8, Ordering::Relaxed);
    }

    /// What the collector does now, in words.
    pub(crate) fn doing(&self) -> &'static str {
        match self.step.load(Ordering::Relaxed) {
            step if step == EndingPhase::Detaching as u8 => "detaching from the kernel",
            step if step == EndingPhase::Draining as u8 => "taking out the last events",
            step if step == EndingPhase::Noting as u8 => "describing programs",
            _ => "emptying the lanes",
        }
    }
}
