//! The seam between the command line and what records: tests put a recorder
//! of their own behind it.

use anyhow::Result;
use syscollect_capture::{Progress, RecordOptions, Recorded, Recording, RecordingFiles};

/// Begins recordings.
pub(crate) trait Backend {
    /// Begins to record into `out`. When it returns, events are recorded.
    fn start(&self, options: RecordOptions, out: RecordingFiles) -> Result<Box<dyn Recorder>>;
}

/// A recording that runs.
pub(crate) trait Recorder {
    /// How far it is.
    fn progress(&self) -> Progress;
    /// What this machine lacks.
    fn missing(&self) -> &[String];
    /// Whether any of the processes asked for is there.
    fn pids_alive(&self) -> bool;
    /// Ends it.
    fn stop(self: Box<Self>, reason: &str) -> Result<Recorded>;
}

/// The kernel's own events.
pub(crate) struct KernelBackend;

impl Backend for KernelBackend {
    fn start(&self, options: RecordOptions, out: RecordingFiles) -> Result<Box<dyn Recorder>> {
        Ok(Box::new(Recording::start(options, out)?))
    }
}

impl Recorder for Recording {
    fn progress(&self) -> Progress {
        Recording::progress(self)
    }

    fn missing(&self) -> &[String] {
        Recording::missing(self)
    }

    fn pids_alive(&self) -> bool {
        Recording::pids_alive(self)
    }

    fn stop(self: Box<Self>, reason: &str) -> Result<Recorded> {
        Ok(Recording::stop(*self, reason)?)
    }
}
