//! Waiting for what ends a recording.

use super::command::Launched;
use crate::backend::Recorder;
use crate::signals::{Stop, StopEvent};
use crate::terminal::{Progress, Terminal};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::process::ExitStatus;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use syscollect_capture::Progress as Reached;
use syscollect_model::StopReason;

/// How long a command that got Ctrl-C from the terminal too may take to end,
/// so that its end is in the recording.
const GRACE: Duration = Duration::from_millis(500);
/// How often processes and progress are looked at.
const TICK: Duration = Duration::from_millis(100);

/// Why a recording ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// A signal.
    Signal(Stop),
    /// The time is over.
    Duration,
    /// The command ended.
    Command(ExitStatus),
    /// Every process that was asked for has ended.
    Processes,
    /// The file has the size that it may have.
    Size,
    /// The command could not be started.
    Failed(anyhow::Error),
}

impl Ended {
    /// The reason as the capture keeps it.
    pub(crate) fn reason(&self) -> StopReason {
        match self {
            Self::Signal(stop) => stop.reason(),
            Self::Duration => StopReason::Duration,
            Self::Command(_) => StopReason::Command,
            Self::Processes => StopReason::ProcessesEnded,
            Self::Size => StopReason::MaxSize,
            Self::Failed(_) => StopReason::Failed,
        }
    }

    /// Whether there is nothing to keep.
    pub(crate) fn is_failure(&self) -> bool {
        matches!(self, Self::Failed(_))
    }

    /// The failure.
    pub(crate) fn into_error(self) -> anyhow::Error {
        match self {
            Self::Failed(error) => error,
            other => anyhow::anyhow!("the recording ended: {}", other.reason()),
        }
    }
}

/// What is watched.
pub(crate) struct Watch<'a> {
    /// The running recording.
    pub(crate) recorder: &'a dyn Recorder,
    /// Signals and the command's end.
    pub(crate) stop_events: &'a Receiver<StopEvent>,
    /// Where progress is shown.
    pub(crate) terminal: &'a Terminal,
    /// How long to record.
    pub(crate) duration: Option<Duration>,
    /// Whether the recording ends with the processes it is limited to.
    pub(crate) watch_processes: bool,
    /// The recording ends when so many bytes are written or wait for that.
    pub(crate) stop_at: Option<u64>,
    /// Whether the newest events are kept in memory instead of being written.
    pub(crate) overwrites: bool,
    /// The file, for asking how much room there is.
    pub(crate) file: &'a File,
}

impl Watch<'_> {
    /// Returns when the recording is to stop.
    pub(crate) fn until_the_end(&self, command: Option<&Launched>) -> Ended {
        let mut progress = self.terminal.recording(self.duration);
        let start = Instant::now();
        let mut deadline = self.duration.and_then(|duration| start.checked_add(duration));
        let mut interrupted = None;
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return interrupted.map_or(Ended::Duration, Ended::Signal);
            }
            match self.stop_events.recv_timeout(self.pause(left)) {
                Ok(StopEvent::Signal(Stop::Interrupt))
                    if command.is_some() && interrupted.is_none() =>
                {
                    interrupted = Some(Stop::Interrupt);
                    let grace = Instant::now() + GRACE;
                    deadline = Some(deadline.map_or(grace, |deadline| deadline.min(grace)));
                }
                Ok(StopEvent::Signal(stop)) => return Ended::Signal(stop),
                Ok(StopEvent::CommandEnded(Ok(status))) => return Ended::Command(status),
                Ok(StopEvent::CommandEnded(Err(error))) => {
                    let name =
                        command.map_or_else(String::new, |command| command.name().to_string());
                    return Ended::Failed(
                        anyhow::Error::new(error).context(format!("cannot run {name}")),
                    );
                }
                Err(RecvTimeoutError::Timeout) => {}
                // The threads that send live as long as the program; without
                // them only the deadline is left.
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(self.pause(left)),
            }
            if self.watch_processes && !self.recorder.pids_alive() {
                return Ended::Processes;
            }
            let reached = self.recorder.progress();
            if self.stop_at.is_some_and(|most| reached.written_in_all + reached.held >= most) {
                return Ended::Size;
            }
            progress.update(start.elapsed(), &self.shown(&reached));
        }
    }

    fn shown(&self, reached: &Reached) -> Progress {
        let Reached { records, lost, written_in_all, held, .. } = *reached;
        Progress {
            events: Some(records),
            bytes: written_in_all,
            lost,
            disk_free: if self.terminal.is_live() { free_beside(self.file) } else { None },
            kept: self.overwrites.then_some(held),
        }
    }

    /// How long to wait for something to happen. With nothing to look at
    /// meanwhile the recorder sleeps through.
    fn pause(&self, left: Option<Duration>) -> Duration {
        let longest =
            match self.watch_processes || self.stop_at.is_some() || self.terminal.is_live() {
                true => TICK,
                false => Duration::from_secs(3600),
            };
        left.map_or(longest, |left| left.min(longest))
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
