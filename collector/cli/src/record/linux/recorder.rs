//! The seam between the command line and what records on Linux: tests put a recorder
//! of their own behind it.

use crate::confine;
use anyhow::{Context, Result};
use syscollect_capture::privileges::{self, Stage};
use syscollect_capture::{Progress, RecordOptions, Recorded, Recording, RecordingFiles};
use syscollect_model::StopReason;

/// Begins recordings.
pub(crate) trait Recorders {
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
    fn stop(self: Box<Self>, reason: StopReason) -> Result<Recorded>;
}

/// Whether others may connect to the recorder, at sockets that listen before it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Connections {
    Refused,
    Accepted,
}

/// The kernel's own events.
pub(crate) struct KernelRecorders;

impl Recorders for KernelRecorders {
    fn start(&self, options: RecordOptions, out: RecordingFiles) -> Result<Box<dyn Recorder>> {
        Ok(Box::new(Self::begin(options, out)?))
    }
}

impl KernelRecorders {
    /// Begins to record, and gives up what only the beginning needs.
    pub(crate) fn begin(options: RecordOptions, out: RecordingFiles) -> Result<Recording> {
        Self::begin_with(options, out, Connections::Refused)
    }

    /// The same, for a recorder that others may connect to.
    pub(crate) fn begin_with(
        options: RecordOptions,
        out: RecordingFiles,
        connections: Connections,
    ) -> Result<Recording> {
        // A mount is the one thing that needs a right which nothing else needs.
        syscollect_capture::mount_tracepoints();
        // Before the recorder's threads are made, which have what this one has. The launched
        // command, if there is one, was forked before, with all that its user has.
        privileges::keep(Stage::Recording).context("cannot give up capabilities")?;
        let recording = Recording::start(options, out)?;
        confine::report_missing_filter(match connections {
            Connections::Refused => privileges::refuse_what_recording_never_does(),
            Connections::Accepted => privileges::refuse_all_but_connections(),
        });
        Ok(recording)
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

    fn stop(self: Box<Self>, reason: StopReason) -> Result<Recorded> {
        let recorded = Recording::stop(*self, reason)?;
        // All threads of the recorder have ended.
        confine::to_naming();
        Ok(recorded)
    }
}
