//! The command that is launched with a recording. It starts when events are recorded.

use crate::owner::Owner;
use crate::signals::StopEvent;
use anyhow::Result;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;

/// A command that has not started yet.
pub(in crate::record) struct Gated {
    command: Vec<OsString>,
    stop_events: Sender<StopEvent>,
}

/// The command, running or ended.
pub(in crate::record) struct Launched {
    /// 0 where it could not be started.
    pid: u32,
    name: OsString,
    is_running: Arc<AtomicBool>,
}

/// Takes `command`, if there is one. How it ends goes to `stop_events`.
///
/// # Errors
///
/// Never: what cannot be started is found when that is tried.
pub(in crate::record) fn prepare(
    command: &[OsString],
    _: Option<Owner>,
    _keep_off_standard_output: bool,
    stop_events: Sender<StopEvent>,
) -> Result<Option<Gated>> {
    let gated = Gated { command: command.to_vec(), stop_events };
    Ok(Some(gated).filter(|gated| !gated.command.is_empty()))
}

impl Gated {
    /// Starts it.
    pub(in crate::record) fn start(self) -> Launched {
        let Self { command, stop_events } = self;
        let name = command[0].clone();
        let is_running = Arc::new(AtomicBool::new(true));
        let mut pid = 0;
        // Nobody listens any more when the recording has just ended.
        match Command::new(&name).args(&command[1..]).spawn() {
            Ok(mut child) => {
                pid = child.id();
                let runs = is_running.clone();
                std::thread::spawn(move || {
                    let status = child.wait();
                    runs.store(false, Ordering::Relaxed);
                    let _ = stop_events.send(StopEvent::CommandEnded(status));
                });
            }
            Err(error) => {
                is_running.store(false, Ordering::Relaxed);
                let _ = stop_events.send(StopEvent::CommandEnded(Err(error)));
            }
        }
        Launched { pid, name, is_running }
    }
}

impl Launched {
    /// The process id.
    pub(in crate::record) fn pid(&self) -> u32 {
        self.pid
    }

    /// The program.
    pub(in crate::record) fn name(&self) -> std::path::Display<'_> {
        Path::new(&self.name).display()
    }

    /// Whether it has not ended yet.
    pub(in crate::record) fn is_running(&self) -> bool {
        self.is_running.load(Ordering::Relaxed)
    }

    /// Nothing is to be done: a console that is closed ends what runs in it.
    pub(in crate::record) fn terminate(&mut self) {}
}

/// The exit code that stands for how a command ended. Those of Windows have 32 bits; what does not
/// fit is an error all the same.
pub(in crate::record) fn exit_code(status: ExitStatus) -> u8 {
    let is_success = status.success();
    status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::from(!is_success))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    fn ended(command: &[&str]) -> std::io::Result<ExitStatus> {
        let (sender, receiver) = mpsc::channel();
        let command: Vec<OsString> = command.iter().map(Into::into).collect();
        let launched = prepare(&command, None, false, sender).unwrap().unwrap().start();
        let ended = receiver.recv_timeout(Duration::from_secs(60)).unwrap();
        assert!(!launched.is_running());
        match ended {
            StopEvent::CommandEnded(status) => status,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn how_a_command_ended_is_known() {
        assert_eq!(exit_code(ended(&["cmd", "/c", "exit 7"]).unwrap()), 7);
        assert_eq!(exit_code(ended(&["cmd", "/c", "exit 0"]).unwrap()), 0);
        assert!(ended(&["no-such-program-anywhere"]).is_err());
    }
}
