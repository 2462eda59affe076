//! What is asked of the collector for snapshots.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use syscollect_model::{RecorderSummary, SessionInfo, Ticks};
use syscollect_store::{BufferSnapshot, LaneLoss};
use syscollect_symbolize::PinnedFiles;

use crate::metadata::MetadataSnapshot;
use crate::unwind::StacksInMemory;

/// What the collector is asked for, on its thread.
pub(crate) enum SnapshotRequest {
    /// What was observed is to be noted.
    Metadata(Sender<MetadataSnapshot>),
    /// The files that are mapped.
    Pinned(Sender<PinnedFiles>),
    /// What the buffer holds; with the time before now that is wanted of it.
    Buffer(Sender<SnapshotParts>, Option<Duration>),
    /// The programs are to send all stacks again: somebody watches that did not see them.
    StacksAnew,
}

/// What the collector hands out.
pub(crate) struct SnapshotParts {
    /// When.
    pub(crate) at: Ticks,
    pub(crate) buffer: BufferSnapshot,
    pub(crate) session: SessionInfo,
    pub(crate) summary: RecorderSummary,
    /// What was lost before the trace buffer.
    pub(crate) losses: Vec<LaneLoss>,
    pub(crate) stacks: StacksInMemory,
}

/// Requests on their way to the collector.
pub(crate) struct SnapshotRequests {
    /// Whether there are any, for a look that costs nothing.
    are_there: AtomicBool,
    /// `None` once nobody answers any more.
    queue: Mutex<Option<Vec<SnapshotRequest>>>,
}

impl Default for SnapshotRequests {
    fn default() -> Self {
        Self { are_there: AtomicBool::new(false), queue: Mutex::new(Some(Vec::new())) }
    }
}

impl SnapshotRequests {
    pub(crate) fn add(&self, request: SnapshotRequest) {
        if let Some(queue) = &mut *self.lock() {
            queue.push(request);
        }
        self.are_there.store(true, Ordering::Release);
    }

    /// Nobody answers any more, which those learn who wait.
    pub(crate) fn close(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<Vec<SnapshotRequest>>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was asked for since this was last called.
    pub(crate) fn take(&self) -> Vec<SnapshotRequest> {
        if !self.are_there.swap(false, Ordering::Acquire) {
            return Vec::new();
        }
        self.lock().as_mut().map(std::mem::take).unwrap_or_default()
    }
}
