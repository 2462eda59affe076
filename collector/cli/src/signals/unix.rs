//! Signals.

use super::{Abandon, Happening, Stop};
use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals as SignalIterator;
use std::sync::mpsc::Sender;

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
            crate::confine::to_waiting();
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
    fn a_signal_that_the_starter_ignores_is_told_apart() {
        // SAFETY: nothing in the tests waits for this signal.
        unsafe { libc::signal(libc::SIGURG, libc::SIG_IGN) };
        assert!(is_ignored(libc::SIGURG));
        assert!(!is_ignored(libc::SIGWINCH));
    }
}
