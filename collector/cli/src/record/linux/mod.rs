//! Recording on Linux: kernel programs that write a capture, which is named and exported when the
//! recording has ended.

mod bundle;
mod checks;
pub(super) mod command;
pub(super) mod files;
mod finish;
pub(crate) mod flight;
pub(super) mod options;
mod recorder;
mod series;
mod unwinding;

use super::files::OutputFiles;
use super::options::Options;
use super::watch::{RecordingEnd, Watchable};
use super::{RecordingFinish, RecordingResult, RecordingStart};
use crate::output::DraftFile;
use crate::signals::Abandon;
use crate::summary::{self, Outcome};
use crate::terminal::Progress;
use anyhow::Result;
use command::Gated;
use finish::{Finish, FinishedRecording, Read};
use recorder::{KernelRecorders, Recorder, Recorders};
use series::{EarlierFiles, FileCompletion, Series};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::time::Duration;
use syscollect_capture::{Machine, Recorded, RecordingFiles};
use syscollect_model::{RecorderSummary, RecorderWork, StopReason, WorkCost};
use syscollect_store::BufferMode;

/// How often processes and progress are looked at.
pub(super) const TICK: Duration = Duration::from_millis(100);
/// Most lines about what turned out to be missing.
const MOST_LEARNED: usize = 8;

/// What records here.
pub(super) struct System {
    recorders: Box<dyn Recorders>,
}

impl System {
    /// The kernel's own events.
    pub(super) fn this() -> Self {
        Self { recorders: Box::new(KernelRecorders) }
    }

    /// Whether a recording can work at all.
    ///
    /// # Errors
    ///
    /// A message that says what to do instead.
    pub(super) fn may_record(&self, options: &Options) -> Result<()> {
        let machine = Machine::this();
        checks::may_record(&machine)?;
        checks::processes_exist(&machine, &options.system.subject.pids)
    }

    /// Begins to record: when it returns, events are recorded.
    ///
    /// # Errors
    ///
    /// What keeps it from recording; nothing is left then.
    pub(super) fn begin(&self, beginning: &RecordingStart<'_>) -> Result<Running> {
        let RecordingStart { options, files, command, abandon, program_start } = *beginning;
        let (mut drafted, recording_files) = DraftOutput::begin(files, options, abandon)?;
        let first_file = recording_files.first.try_clone()?;
        let only = command.filter(|_| options.system.only).map(Gated::pid);
        let mut settings = options.settings(only, program_start);
        settings.stop_asked = abandon.stop_asked();
        let recorder = match self.recorders.start(settings, recording_files) {
            Ok(recorder) => recorder,
            Err(error) => {
                drafted.discard();
                return Err(error);
            }
        };
        drafted.show(files)?;
        let missing = recorder.missing().to_vec();
        missing.iter().for_each(|note| eprint_line!("syscollect: {note}"));
        Ok(Running {
            recorder,
            drafted,
            missing,
            first_file,
            watches_processes: !options.system.subject.pids.is_empty() && command.is_none(),
            stop_at: options.system.stop_at,
            overwrites: options.system.mode == BufferMode::Overwrite,
        })
    }
}

/// A recording that runs.
pub(super) struct Running {
    recorder: Box<dyn Recorder>,
    drafted: DraftOutput,
    /// What was reported as missing already.
    missing: Vec<String>,
    /// For asking how much room there is.
    first_file: File,
    /// Whether the recording ends with the processes it is limited to.
    watches_processes: bool,
    /// The recording ends when so many bytes are written or wait for that.
    stop_at: Option<u64>,
    /// Whether the newest events are kept in memory instead of being written.
    overwrites: bool,
}

impl Watchable for Running {
    fn limit(&self) -> Option<StopReason> {
        if self.watches_processes && !self.recorder.pids_alive() {
            return Some(StopReason::ProcessesEnded);
        }
        let most = self.stop_at?;
        let reached = self.recorder.progress();
        (reached.written_in_all + reached.buffered >= most).then_some(StopReason::MaxSize)
    }

    fn has_limits(&self) -> bool {
        self.watches_processes || self.stop_at.is_some()
    }

    fn progress(&self) -> Progress {
        let reached = self.recorder.progress();
        Progress {
            events: Some(reached.records),
            bytes: reached.written_in_all,
            lost: reached.lost,
            disk_free: free_beside(&self.first_file),
            kept: self.overwrites.then_some(reached.buffered),
        }
    }
}

impl Running {
    /// Stops a recording of which there is nothing to keep.
    pub(super) fn discard(self) {
        // Why it is discarded is what the user hears of.
        let _ = self.recorder.stop(StopReason::Failed);
        self.drafted.discard();
    }

    /// Stops, names, exports, and says what came of it.
    ///
    /// # Errors
    ///
    /// What kept the files from being finished; what there is of the recording stays.
    pub(super) fn finish(
        self,
        ended: &RecordingEnd,
        finishing: RecordingFinish<'_>,
    ) -> Result<RecordingResult> {
        let recorded = match self.recorder.stop(reason(ended)) {
            Ok(recorded) => recorded,
            Err(error) => {
                let path = self.drafted.keep();
                return Err(error.context(format!(
                    "the recording broke off; what it has is in {}",
                    path.display()
                )));
            }
        };
        finishing.timings.end("stopping");
        let learned = learned(&self.missing, &recorded.summary.missing);
        learned.iter().for_each(|note| eprint_line!("syscollect: {note}"));
        conclude(self.drafted, recorded, finishing)
    }
}

/// The reason as the capture keeps it.
fn reason(ended: &RecordingEnd) -> StopReason {
    match ended {
        RecordingEnd::Signal(stop) => stop.reason(),
        RecordingEnd::Duration => StopReason::Duration,
        RecordingEnd::Command(_) => StopReason::Command,
        RecordingEnd::Limit(reason) => reason.clone(),
        RecordingEnd::Failed(_) => StopReason::Failed,
    }
}

/// The files of a recording under their draft names.
enum DraftOutput {
    One(DraftFile),
    Several(Series),
}

impl DraftOutput {
    /// Makes the first file, with what the recorder writes into.
    fn begin(
        files: &OutputFiles,
        options: &Options,
        abandon: &Abandon,
    ) -> Result<(Self, RecordingFiles)> {
        let Some(rotate) = options.system.rotate else {
            let draft = files.capture_draft()?;
            let file = draft.file().try_clone()?;
            return Ok((Self::One(draft), file.into()));
        };
        // Reading costs time that a machine in production has for other things.
        let read = if options.fail_on_loss { Read::All } else { Read::Nothing };
        let each = FileCompletion { read, bundling: options.system.bundling };
        let (series, recording_files) = Series::begin(files, rotate, each, abandon.clone())?;
        Ok((Self::Several(series), recording_files))
    }

    /// The recording has begun: its file takes its name. Each of several does so by itself.
    fn show(&mut self, files: &OutputFiles) -> Result<()> {
        match self {
            Self::One(draft) => files.show_capture(draft),
            Self::Several(_) => Ok(()),
        }
    }

    /// Removes what there is.
    fn discard(self) {
        match self {
            Self::One(draft) => drop(draft),
            Self::Several(series) => series.discard(),
        }
    }

    /// Keeps what there is under its draft name, and says where.
    fn keep(self) -> PathBuf {
        match self {
            Self::One(draft) => draft.keep(),
            Self::Several(series) => series.keep(),
        }
    }
}

/// What turned out to be missing while the recording went on: a program whose
/// zones another recorder has, say. Each program may have its own.
fn learned(reported: &[String], missing: &[String]) -> Vec<String> {
    let new: Vec<_> = missing.iter().filter(|note| !reported.contains(note)).collect();
    let mut lines: Vec<_> = new.iter().take(MOST_LEARNED).map(|note| (*note).clone()).collect();
    if let Some(more) = new.len().checked_sub(MOST_LEARNED).filter(|more| *more > 0) {
        lines.push(format!(
            "and {more} more: `syscollect info` tells them of the raw capture (--keep-capture)"
        ));
    }
    lines
}

/// Names, exports, and says what came of it.
fn conclude(
    drafted: DraftOutput,
    recorded: Recorded,
    finishing: RecordingFinish<'_>,
) -> Result<RecordingResult> {
    let RecordingFinish { options, files, abandon, terminal, timings } = finishing;
    let error = recorded.error.clone();
    if let Some(error) = &error {
        eprint_line!("syscollect: the recording is incomplete: {error}");
    }
    let (files, draft, before) = match drafted {
        DraftOutput::One(draft) => (files.clone(), draft, None),
        DraftOutput::Several(series) => {
            let (files, draft, before) = series.end()?;
            (files, draft, Some(before))
        }
    };
    let (summary, duration) = (recorded.summary.clone(), recorded.duration);
    let attaching = recorded.attaching;
    let counted = [recorded.losses.clone(), recorded.losses_before.clone()].concat();
    let finish = Finish {
        files: &files,
        abandon,
        terminal,
        read: if options.fail_on_loss { Read::All } else { Read::Quick },
        longest_naming: None,
        bundling: options.system.bundling,
        is_accounted: true,
    };
    let has_other_files = before.as_ref().is_some_and(EarlierFiles::has_files);
    let mut finished = match has_other_files && files::is_empty(draft.file()) {
        // Dropping the draft removes it.
        true => FinishedRecording::without_file(&recorded),
        false => finish.finish(draft, recorded, timings)?,
    };
    let series = before.map(|before| before.and(files, &mut finished));
    let outcome = Outcome {
        output: finished.output,
        bytes: finished.bytes,
        capture: finished.capture,
        events: finished.events,
        recorder: whole(summary, finished.costs, duration),
        attaching,
        lost: finished.lost,
        counted,
        buffer_bytes: options.buffer_bytes,
        max_size: options.system.stop_at,
        series,
    };
    let style = terminal.style();
    eprint_styled!(style, "{}", summary::text(&outcome, style));
    Ok(RecordingResult {
        events: outcome.events,
        is_lossy: outcome.lost.is_lossy(),
        is_incomplete: error.is_some(),
    })
}

/// What the recorder says of itself, of all files.
fn whole(last: RecorderSummary, costs: Vec<WorkCost>, duration: Duration) -> RecorderSummary {
    let recording = costs.iter().find(|cost| cost.work == RecorderWork::Recording);
    RecorderSummary {
        recorder_cpu_ns: recording.map_or(last.recorder_cpu_ns, |cost| cost.cpu_ns),
        duration_ns: duration.as_nanos() as u64,
        costs,
        ..last
    }
}

/// Bytes that an ordinary user may still write where this file lies.
fn free_beside(file: &File) -> Option<u64> {
    let mut room = std::mem::MaybeUninit::<libc::statvfs>::zeroed();
    // SAFETY: the descriptor is open, and the structure, of which zero bytes are valid, outlives
    // the call.
    let room = unsafe {
        if libc::fstatvfs(file.as_raw_fd(), room.as_mut_ptr()) != 0 {
            return None;
        }
        room.assume_init()
    };
    Some(room.f_bavail.saturating_mul(room.f_frsize))
}

#[cfg(test)]
mod tests;
