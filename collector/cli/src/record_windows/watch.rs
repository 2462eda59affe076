//! Waiting for what ends a recording.

use crate::signals::{Happening, Stop};
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

/// Starts the command; how it ends goes to `happenings`.
pub(super) fn launch(command: &[OsString], happenings: Sender<Happening>) -> Result<()> {
    let Some((program, arguments)) = command.split_first() else { return Ok(()) };
    let child = Command::new(program).args(arguments).spawn();
    let mut child = child.with_context(|| format!("cannot run {}", program.display()))?;
    std::thread::Builder::new()
        .name("command".into())
        .spawn(move || {
            // Nobody listens any more when the recording has just ended.
            let _ = happenings.send(Happening::CommandEnded(child.wait()));
        })
        .context("cannot start the thread that waits for the command")?;
    Ok(())
}

/// Returns when the recording is to stop.
pub(super) fn until_the_end(
    (duration, has_command): (Option<Duration>, bool),
    happenings: &Receiver<Happening>,
    terminal: &Terminal,
    progress: impl Fn() -> Progress,
) -> Result<Ended> {
    let bar = terminal.recording(duration);
    let start = Instant::now();
    let mut deadline = duration.and_then(|duration| start.checked_add(duration));
    let mut interrupted = false;
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Ok(if interrupted { Ended::Interrupt } else { Ended::Duration });
        }
        match happenings.recv_timeout(left.map_or(TICK, |left| left.min(TICK))) {
            Ok(Happening::Signal(Stop::Interrupt)) if has_command && !interrupted => {
                interrupted = true;
                let grace = Instant::now() + GRACE;
                deadline = Some(deadline.map_or(grace, |deadline| deadline.min(grace)));
            }
            Ok(Happening::Signal(_)) => return Ok(Ended::Interrupt),
            Ok(Happening::CommandEnded(status)) => {
                return status.map(Ended::Command).context("cannot wait for the command");
            }
            Err(RecvTimeoutError::Timeout) => {}
            // The thread that sends lives as long as the program; without it only the deadline is left.
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(TICK),
        }
        if terminal.is_live() {
            bar.update(start.elapsed(), &progress());
        }
    }
}
