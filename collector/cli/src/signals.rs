//! What ends a recording or an export from outside.
//!
//! While recording, the first SIGINT, SIGTERM or SIGHUP stops it. After that,
//! SIGINT abandons what is still being written; another one ends the program
//! at once, for the case that it hangs.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
#[cfg(unix)]
pub(crate) use unix::watch;
#[cfg(windows)]
pub(crate) use windows::watch;

/// Something that a recording waits for.
#[derive(Debug)]
pub(crate) enum Happening {
    /// A signal asks to stop.
    Signal(Stop),
    /// The launched command ended, or could not be started or waited for.
    CommandEnded(std::io::Result<std::process::ExitStatus>),
}

/// The signals that stop a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Ctrl-C.
    Interrupt,
    /// `kill`.
    Terminate,
    /// The terminal went away.
    HangUp,
}

impl Stop {
    /// The name that a capture keeps.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Interrupt => "interrupt",
            Self::Terminate => "terminate",
            Self::HangUp => "hangup",
        }
    }
}

const RECORDING: u8 = 0;
const WRITING: u8 = 1;
const ONLY_WRITING: u8 = 2;

/// Says whether the user wants the rest to be left undone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Abandon {
    wanted: Arc<AtomicBool>,
    phase: Arc<AtomicU8>,
}

impl Abandon {
    /// Whether to give up.
    pub(crate) fn wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed)
    }

    /// From now on Ctrl-C means giving up, not stopping.
    pub(crate) fn writing(&self) {
        self.phase.store(WRITING, Ordering::Relaxed);
    }

    /// There was no recording to stop: every signal means giving up.
    pub(crate) fn writing_only(&self) {
        self.phase.store(ONLY_WRITING, Ordering::Relaxed);
    }

    /// What a signal means now: a stop to pass on, or nothing.
    fn signal(&self, signal: Stop) -> Option<Stop> {
        let phase = self.phase.load(Ordering::Relaxed);
        if phase == RECORDING {
            return Some(signal);
        }
        // After a recording, what is being written is the clean end that SIGTERM asks for.
        let abandons = signal == Stop::Interrupt || phase == ONLY_WRITING;
        if abandons && self.wanted.swap(true, Ordering::Relaxed) {
            say!("syscollect: ended at once; unfinished files end in .partial");
            std::process::exit(1);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signal_stops_a_recording_and_only_ctrl_c_abandons_an_export() {
        let abandon = Abandon::default();
        assert_eq!(abandon.signal(Stop::HangUp), Some(Stop::HangUp));
        assert_eq!(abandon.signal(Stop::Interrupt), Some(Stop::Interrupt));
        assert!(!abandon.wanted());

        abandon.writing();
        assert_eq!(abandon.signal(Stop::Terminate), None);
        assert!(!abandon.wanted(), "SIGTERM waits for the clean end");
        assert_eq!(abandon.signal(Stop::Interrupt), None);
        assert!(abandon.wanted());
    }
}
