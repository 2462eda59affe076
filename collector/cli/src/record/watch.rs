//! Waiting for what ends a recording.

use super::backend::TICK;
use super::backend::command::Launched;
use crate::signals::{Stop, StopEvent};
use crate::terminal::{Progress, Terminal};
use anyhow::Error;
use std::process::ExitStatus;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use syscollect_model::StopReason;

/// How long a command that got Ctrl-C from the terminal too may take to end,
/// so that its end is in the recording.
const GRACE: Duration = Duration::from_millis(500);
/// How long a recorder sleeps that has nothing to look at.
const LONG: Duration = Duration::from_secs(3600);

/// Why a recording ended.
#[derive(Debug)]
pub(crate) enum RecordingEnd {
    /// A signal.
    Signal(Stop),
    /// The time is over.
    Duration,
    /// The command ended.
    Command(ExitStatus),
    /// The recorder has reached a limit of its own.
    Limit(
        #[cfg_attr(windows, allow(dead_code, reason = "a trace of Windows keeps no reason"))]
        StopReason,
    ),
    /// The command could not be started.
    Failed(Error),
}

/// A recording that runs, as far as waiting for its end needs it.
pub(crate) trait Watchable {
    /// The limit that it has reached.
    fn limit(&self) -> Option<StopReason>;
    /// Whether it has limits, which are looked at now and then.
    fn has_limits(&self) -> bool;
    /// How far it is; asked where somebody watches.
    fn progress(&self) -> Progress;
}

/// What is watched beside the recorder.
pub(crate) struct Watch<'a> {
    /// Signals and the command's end.
    pub(crate) stop_events: &'a Receiver<StopEvent>,
    /// Where progress is shown.
    pub(crate) terminal: &'a Terminal,
    /// How long to record.
    pub(crate) duration: Option<Duration>,
}

impl Watch<'_> {
    /// Returns when the recording is to stop.
    pub(crate) fn until_the_end(
        &self,
        recorder: &impl Watchable,
        command: Option<&Launched>,
    ) -> RecordingEnd {
        let mut progress = self.terminal.recording(self.duration);
        let start = Instant::now();
        let mut deadline = self.duration.and_then(|duration| start.checked_add(duration));
        let mut interrupted = None;
        // With nothing to look at meanwhile the recorder sleeps through.
        let is_looking = recorder.has_limits() || self.terminal.is_live();
        let longest = if is_looking { TICK } else { LONG };
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return interrupted.map_or(RecordingEnd::Duration, RecordingEnd::Signal);
            }
            let pause = left.map_or(longest, |left| left.min(longest));
            match self.stop_events.recv_timeout(pause) {
                Ok(StopEvent::Signal(Stop::Interrupt))
                    if command.is_some() && interrupted.is_none() =>
                {
                    interrupted = Some(Stop::Interrupt);
                    let grace = Instant::now() + GRACE;
                    deadline = Some(deadline.map_or(grace, |deadline| deadline.min(grace)));
                }
                Ok(StopEvent::Signal(stop)) => return RecordingEnd::Signal(stop),
                Ok(StopEvent::CommandEnded(Ok(status))) => return RecordingEnd::Command(status),
                Ok(StopEvent::CommandEnded(Err(error))) => {
                    let name =
                        command.map_or_else(String::new, |command| command.name().to_string());
                    return RecordingEnd::Failed(
                        Error::new(error).context(format!("cannot run {name}")),
                    );
                }
                Err(RecvTimeoutError::Timeout) => {}
                // The threads that send live as long as the program; without
                // them only the deadline is left.
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(pause),
            }
            if let Some(reason) = recorder.limit() {
                return RecordingEnd::Limit(reason);
            }
            if self.terminal.is_live() {
                progress.update(start.elapsed(), &recorder.progress());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::backend::command;
    use super::*;
    use std::sync::mpsc;

    /// A recorder that has reached this limit.
    #[derive(Default)]
    struct Fake {
        limit: Option<StopReason>,
    }

    impl Watchable for Fake {
        fn limit(&self) -> Option<StopReason> {
            self.limit.clone()
        }

        fn has_limits(&self) -> bool {
            self.limit.is_some()
        }

        fn progress(&self) -> Progress {
            Progress::default()
        }
    }

    fn wait(
        duration: Option<Duration>,
        command: Option<&Launched>,
        stop_events: &Receiver<StopEvent>,
    ) -> RecordingEnd {
        let watch = Watch { stop_events, terminal: &Terminal::hidden(), duration };
        watch.until_the_end(&Fake::default(), command)
    }

    #[test]
    fn a_recording_ends_with_its_time_with_ctrl_c_or_at_a_limit() {
        let (sender, stop_events) = mpsc::channel();
        let moment = Some(Duration::from_millis(1));
        assert!(matches!(wait(moment, None, &stop_events), RecordingEnd::Duration));
        sender.send(StopEvent::Signal(Stop::Interrupt)).unwrap();
        assert!(matches!(
            wait(Some(LONG), None, &stop_events),
            RecordingEnd::Signal(Stop::Interrupt)
        ));
        let full = Fake { limit: Some(StopReason::MaxSize) };
        let terminal = Terminal::hidden();
        let watch = Watch { stop_events: &stop_events, terminal: &terminal, duration: None };
        let ended = watch.until_the_end(&full, None);
        assert!(matches!(ended, RecordingEnd::Limit(StopReason::MaxSize)), "{ended:?}");
    }

    #[test]
    fn a_command_that_got_ctrl_c_too_has_a_moment_to_end() {
        let (sender, stop_events) = mpsc::channel();
        let longer: &[&str] = match cfg!(windows) {
            true => &["cmd", "/c", "ping -n 4 127.0.0.1"],
            false => &["sleep", "60"],
        };
        let longer: Vec<_> = longer.iter().map(Into::into).collect();
        let (ended_sender, _ended) = mpsc::channel();
        let gated = command::prepare(&longer, None, true, ended_sender).unwrap().unwrap();
        let mut launched = gated.start();
        sender.send(StopEvent::Signal(Stop::Interrupt)).unwrap();
        let start = Instant::now();
        let ended = wait(None, Some(&launched), &stop_events);
        launched.terminate();
        assert!(matches!(ended, RecordingEnd::Signal(Stop::Interrupt)));
        assert!(start.elapsed() >= GRACE);
    }
}
