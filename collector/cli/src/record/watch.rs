//! Waiting for what ends a recording.

use super::command::Launched;
use crate::backend::Recorder;
use crate::signals::{Happening, Stop};
use crate::terminal::{Progress, Terminal};
use std::process::ExitStatus;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use syscollect_capture::Progress as Reached;

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
    /// The command could not be started.
    Failed(anyhow::Error),
}

impl Ended {
    /// The reason as the capture keeps it.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Signal(stop) => stop.name(),
            Self::Duration => "duration",
            Self::Command(_) => "command",
            Self::Processes => "processes-ended",
            Self::Failed(_) => "failed",
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
    pub(crate) happenings: &'a Receiver<Happening>,
    /// Where progress is shown.
    pub(crate) terminal: &'a Terminal,
    /// How long to record.
    pub(crate) duration: Option<Duration>,
    /// Whether the recording ends with the processes it is limited to.
    pub(crate) watch_processes: bool,
}

impl Watch<'_> {
    /// Returns when the recording is to stop.
    pub(crate) fn until_the_end(&self, command: Option<&Launched>) -> Ended {
        let progress = self.terminal.recording(self.duration);
        let start = Instant::now();
        let mut deadline = self.duration.and_then(|duration| start.checked_add(duration));
        let mut interrupted = None;
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return interrupted.map_or(Ended::Duration, Ended::Signal);
            }
            match self.happenings.recv_timeout(self.pause(left)) {
                Ok(Happening::Signal(Stop::Interrupt)) if command.is_some() && interrupted.is_none() => {
                    interrupted = Some(Stop::Interrupt);
                    let grace = Instant::now() + GRACE;
                    deadline = Some(deadline.map_or(grace, |deadline| deadline.min(grace)));
                }
                Ok(Happening::Signal(stop)) => return Ended::Signal(stop),
                Ok(Happening::CommandEnded(Ok(status))) => return Ended::Command(status),
                Ok(Happening::CommandEnded(Err(error))) => {
                    let name = command.map_or_else(String::new, |command| command.name().to_string());
                    return Ended::Failed(anyhow::Error::new(error).context(format!("cannot run {name}")));
                }
                Err(RecvTimeoutError::Timeout) => {}
                // The threads that send live as long as the program; without
                // them only the deadline is left.
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(self.pause(left)),
            }
            if self.watch_processes && !self.recorder.pids_alive() {
                return Ended::Processes;
            }
            let Reached { records, bytes, lost } = self.recorder.progress();
            progress.update(start.elapsed(), &Progress { events: Some(records), bytes, lost });
        }
    }

    /// How long to wait for something to happen. With nothing to look at
    /// meanwhile the recorder sleeps through.
    fn pause(&self, left: Option<Duration>) -> Duration {
        let longest = match self.watch_processes || self.terminal.is_live() {
            true => TICK,
            false => Duration::from_secs(3600),
        };
        left.map_or(longest, |left| left.min(longest))
    }
}
