//! What ends a recording or an export from outside.
//!
//! While recording, the first SIGINT, SIGTERM or SIGHUP stops it. After that,
//! SIGINT abandons what is still being written; another one ends the program
//! at once, for the case that it hangs.

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals as SignalIterator;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::mpsc::Sender;

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
            eprintln!("syscollect: ended at once; unfinished files end in .partial");
            std::process::exit(1);
        }
        None
    }
}

/// Begins to watch for signals; those that ask for a stop go to `stops`.
pub(crate) fn watch(stops: Sender<Happening>) -> Result<Abandon> {
    let abandon = Abandon::default();
    let mut signals = vec![SIGINT, SIGTERM];
    // nohup starts a program with SIGHUP ignored, so that it outlives its terminal.
    if !is_ignored(SIGHUP) {
        signals.push(SIGHUP);
    }
    let mut signals = SignalIterator::new(signals).context("cannot watch for signals")?;
    let watched = abandon.clone();
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            for signal in signals.forever() {
                let stop = match signal {
                    SIGINT => Stop::Interrupt,
                    SIGTERM => Stop::Terminate,
                    _ => Stop::HangUp,
                };
                if let Some(stop) = watched.signal(stop) {
                    // Nobody listens any more when the recording has just ended.
                    let _ = stops.send(Happening::Signal(stop));
                }
            }
        })
        .context("cannot start the thread that watches for signals")?;
    Ok(abandon)
}

/// Whether whoever started this program wants it to ignore the signal.
fn is_ignored(signal: i32) -> bool {
    // SAFETY: all zeroes is a valid sigaction, which the call overwrites; with
    // no new action it changes nothing.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a sigaction of ours; a null new action is allowed.
    let result = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    result == 0 && action.sa_sigaction == libc::SIG_IGN
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

    #[test]
    fn a_signal_that_the_starter_ignores_is_told_apart() {
        // SAFETY: nothing in the tests waits for this signal.
        unsafe { libc::signal(libc::SIGURG, libc::SIG_IGN) };
        assert!(is_ignored(libc::SIGURG));
        assert!(!is_ignored(libc::SIGWINCH));
    }
}
