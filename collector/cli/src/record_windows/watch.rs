//! Waiting for what ends a recording.

use crate::signals::{Stop, StopEvent};
use crate::terminal::{Progress, Terminal};
use anyhow::{Context, Result};
use std::ffi::OsString;
use std::process::{Command, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// How long a command that got Ctrl-C too may take to end, so that its end is in the recording.
const GRACE: Duration = Duration::from_millis(500);
/// How often progress is looked at.
const TICK: Duration = Duration::from_millis(500);

/// Why a recording ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// Ctrl-C, or the window was closed.
    Interrupt,
    /// The time is over.
    Duration,
    /// The command ended.
    Command(ExitStatus),
}

/// Starts the command; how it ends goes to `stop_events`.
pub(super) fn launch(command: &[OsString], stop_events: Sender<StopEvent>) -> Result<()> {
    let Some((program, arguments)) = command.split_first() else { return Ok(()) };
    let child = Command::new(program).args(arguments).spawn();
    let mut child = child.with_context(|| format!("cannot run {}", program.display()))?;
    std::thread::Builder::new()
        .name("command".into())
        .spawn(move || {
            // Nobody listens any more when the recording has just ended.
            let _ = stop_events.send(StopEvent::CommandEnded(child.wait()));
        })
        .context("cannot start the thread that waits for the command")?;
    Ok(())
}

/// Returns when the recording is to stop.
pub(super) fn until_the_end(
    (duration, has_command): (Option<Duration>, bool),
    stop_events: &Receiver<StopEvent>,
    terminal: &Terminal,
    progress: impl Fn() -> Progress,
) -> Result<Ended> {
    let mut bar = terminal.recording(duration);
    let start = Instant::now();
    let mut deadline = duration.and_then(|duration| start.checked_add(duration));
    let mut interrupted = false;
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Ok(if interrupted { Ended::Interrupt } else { Ended::Duration });
        }
        match stop_events.recv_timeout(left.map_or(TICK, |left| left.min(TICK))) {
            Ok(StopEvent::Signal(Stop::Interrupt)) if has_command && !interrupted => {
                interrupted = true;
                let grace = Instant::now() + GRACE;
                deadline = Some(deadline.map_or(grace, |deadline| deadline.min(grace)));
            }
            Ok(StopEvent::Signal(_)) => return Ok(Ended::Interrupt),
            Ok(StopEvent::CommandEnded(status)) => {
                return status.map(Ended::Command).context("cannot wait for the command");
            }
            Err(RecvTimeoutError::Timeout) => {}
            // The thread that sends lives as long as the program; without it only the deadline is
            // left.
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(TICK),
        }
        if terminal.is_live() {
            bar.update(start.elapsed(), &progress());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    const LONG: Duration = Duration::from_secs(60);

    fn wait(
        duration: Option<Duration>,
        has_command: bool,
        stop_events: &Receiver<StopEvent>,
    ) -> Ended {
        until_the_end((duration, has_command), stop_events, &Terminal::hidden(), Progress::default)
            .unwrap()
    }

    #[test]
    fn a_recording_ends_with_its_time_or_with_ctrl_c() {
        let (sender, stop_events) = mpsc::channel();
        assert!(matches!(
            wait(Some(Duration::from_millis(1)), false, &stop_events),
            Ended::Duration
        ));
        sender.send(StopEvent::Signal(Stop::Interrupt)).unwrap();
        assert!(matches!(wait(Some(LONG), false, &stop_events), Ended::Interrupt));
    }

    #[test]
    fn a_recording_ends_with_its_command_and_knows_how_that_ended() {
        let (sender, stop_events) = mpsc::channel();
        launch(&["cmd".into(), "/c".into(), "exit 7".into()], sender).unwrap();
        let Ended::Command(status) = wait(Some(LONG), true, &stop_events) else {
            panic!("the command ended first")
        };
        assert_eq!(status.code(), Some(7));
    }

    #[test]
    fn a_command_that_got_ctrl_c_too_has_a_moment_to_end() {
        let (sender, stop_events) = mpsc::channel();
        sender.send(StopEvent::Signal(Stop::Interrupt)).unwrap();
        let start = Instant::now();
        assert!(matches!(wait(None, true, &stop_events), Ended::Interrupt));
        assert!(start.elapsed() >= GRACE);
    }

    #[test]
    fn a_command_that_is_not_there_is_named() {
        let (sender, _happenings) = mpsc::channel();
        let error = launch(&["no-such-program-anywhere".into()], sender).unwrap_err().to_string();
        assert!(error.contains("cannot run no-such-program-anywhere"), "{error}");
    }
}
