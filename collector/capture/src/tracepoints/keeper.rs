//! A process of its own that holds the events of tracepoints.
//!
//! Closing the event of a tracepoint waits until every task of the machine was looked at
//! (`synchronize_rcu_tasks_trace` in `perf_trace_destroy` and `perf_event_detach_bpf_prog`, Linux
//! 6.18): some 20 ms, a second and more where a user begins threads without end, one tracepoint
//! after the other, for it happens under a lock. A recorder that held them could not end before.
//! Once their programs were told to stop, they write and count nothing, so that it does not matter
//! when they go. They go as well when the recorder is killed.

use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;

use crate::child_process::ChildProcess;
use crate::descriptor_passing;
use crate::privileges::{self, Stage};

const NAME: &std::ffi::CStr = c"event-keeper";
/// Answers to an event that was sent.
const HELD: u8 = 0;
const NO_ROOM: u8 = 1;

/// The process. It ends by itself, after the events were closed.
#[derive(Debug)]
pub(crate) struct EventKeeper {
    process: ChildProcess,
}

impl EventKeeper {
    /// Starts it. To be called while this process is small and has few threads: the new one is its
    /// copy.
    ///
    /// # Errors
    ///
    /// No process or no socket can be had.
    pub(crate) fn start() -> io::Result<Self> {
        Ok(Self { process: ChildProcess::start(NAME, serve)? })
    }

    /// Has it hold an event from now on.
    ///
    /// # Errors
    ///
    /// The process is gone, or may open no more files.
    pub(super) fn hold(&mut self, event: &OwnedFd) -> io::Result<()> {
        let mut answer = [NO_ROOM];
        let socket = &mut self.process.socket;
        descriptor_passing::send(socket, &[0], &[event.as_fd()])
            .and_then(|_| socket.read_exact(&mut answer))
            .map_err(|_| {
                let reason = "the process that holds tracepoints is gone";
                io::Error::new(io::ErrorKind::BrokenPipe, reason)
            })?;
        match answer {
            [HELD] => Ok(()),
            _ => Err(io::Error::from_raw_os_error(libc::EMFILE)),
        }
    }

    /// Has it close all events, and does not wait for it.
    pub(super) fn let_go(&self) {
        // It reads the end of its work.
        let _ = self.process.socket.shutdown(Shutdown::Both);
    }
}

/// Holds what it is sent until the other end is closed.
fn serve(mut socket: UnixStream) -> io::Result<()> {
    // It opens nothing.
    privileges::keep(Stage::ActingAsUser)?;
    // A sandbox may refuse filters, which the recorder says of itself.
    let _ = privileges::refuse_what_recording_never_does();
    let mut events = Vec::new();
    // An error, too, means that the recorder is gone.
    while let Ok((1.., event)) = descriptor_passing::receive(&socket, &mut [0]) {
        let answer = if event.is_empty() { NO_ROOM } else { HELD };
        events.extend(event);
        socket.write_all(&[answer])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A pipe whose reader sees the end of file when nobody holds the writer.
    #[test]
    fn an_event_is_closed_when_all_are_let_go_and_not_before() {
        let (mut reader, writer) = UnixStream::pair().unwrap();
        reader.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let mut keeper = EventKeeper::start().unwrap();
        let event = OwnedFd::from(writer);
        keeper.hold(&event).unwrap();
        drop(event);
        let is_open = reader.read(&mut [0]).unwrap_err();
        assert_eq!(is_open.kind(), io::ErrorKind::WouldBlock);

        keeper.let_go();
        reader.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
        assert!(keeper.hold(&OwnedFd::from(reader)).is_err(), "its work is over");
    }

    #[test]
    fn an_event_is_closed_when_the_recorder_goes_without_a_word() {
        let (mut reader, writer) = UnixStream::pair().unwrap();
        let mut keeper = EventKeeper::start().unwrap();
        keeper.hold(&OwnedFd::from(writer)).unwrap();
        drop(keeper);
        reader.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
    }
}
