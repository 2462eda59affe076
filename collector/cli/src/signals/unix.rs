//! Signals.

use super::{Abandon, SignalAction, Stop, StopEvent};
use anyhow::{Context, Result};
use signal_hook::consts::{SIGALRM, SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals as SignalIterator;
use std::io;
use std::sync::mpsc::{Sender, channel};

/// So many seconds are left to end in an orderly way once everything was abandoned.
const GRACE_SECONDS: u32 = 5;

/// Begins to watch for signals; those that ask for a stop go to `stops`.
pub(crate) fn watch(stops: Sender<StopEvent>) -> Result<Abandon> {
    let (abandon, signals) = handle_all()?;
    report(&abandon, signals, stops).context("cannot start the thread that watches for signals")?;
    Ok(abandon)
}

/// The same where nothing is recorded that could be stopped: every signal means giving up.
pub(crate) fn watch_writing() -> Result<Abandon> {
    let (abandon, signals) = handle_all()?;
    abandon.writing_only();
    // What has to be done is done without the thread, which only says so: users of the machine may
    // have taken all threads.
    let _ = report(&abandon, signals, channel().0);
    Ok(abandon)
}

/// Has signals handled from now on; they can be waited for, too.
fn handle_all() -> Result<(Abandon, SignalIterator)> {
    let abandon = Abandon::default();
    let mut signals = vec![SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM];
    // nohup starts a program with SIGHUP ignored, so that it outlives its terminal.
    if !is_ignored(SIGHUP) {
        signals.push(SIGHUP);
    }
    unblock(&signals);
    for signal in signals.iter().copied() {
        let handled = abandon.clone();
        // SAFETY: the handler uses atomics and async-signal-safe calls only, and does not panic.
        unsafe { signal_hook::low_level::register(signal, move || handle(&handled, signal)) }
            .context("cannot watch for signals")?;
    }
    // Comes after the handlers, and runs after them.
    let signals = SignalIterator::new(signals).context("cannot watch for signals")?;
    Ok((abandon, signals))
}

/// Starts the thread that says what a signal did.
fn report(
    abandon: &Abandon,
    mut signals: SignalIterator,
    stops: Sender<StopEvent>,
) -> io::Result<()> {
    let watched = abandon.clone();
    let thread = std::thread::Builder::new().name("signals".into()).spawn(move || {
        crate::confine::to_waiting();
        let mut reported = false;
        for signal in signals.forever() {
            if watched.is_recording() {
                // Nobody listens any more when the recording has just ended.
                let _ = stops.send(StopEvent::Signal(stop(signal)));
            }
            if watched.wanted() && !std::mem::replace(&mut reported, true) {
                eprint_line!(
                    "syscollect: abandoned; ends within {GRACE_SECONDS} seconds, unfinished files \
                     end in .partial"
                );
            }
        }
    });
    thread.map(drop)
}

fn stop(signal: i32) -> Stop {
    match signal {
        SIGINT => Stop::Interrupt,
        SIGTERM => Stop::Terminate,
        SIGHUP => Stop::HangUp,
        SIGUSR1 => Stop::User1,
        _ => Stop::Other,
    }
}

/// The signal handler: async-signal-safe.
fn handle(abandon: &Abandon, signal: i32) {
    // The alarm is that of `end_soon`, or of somebody who ran this program with one.
    if signal == SIGALRM && abandon.wanted() {
        end_now();
    }
    match abandon.signal(stop(signal), now()) {
        SignalAction::Stop | SignalAction::Wait => {}
        SignalAction::Abandon => end_soon(),
        SignalAction::End => end_now(),
    }
}

/// Ends the program when its orderly end takes too long.
fn end_soon() {
    // SAFETY: async-signal-safe; no memory is involved.
    unsafe { libc::alarm(GRACE_SECONDS) };
}

/// Ends the program without asking any of its threads. The kernel takes back what was attached.
fn end_now() {
    const WORDS: &[u8] = b"syscollect: ended at once; unfinished files end in .partial\n";
    #[cfg(target_os = "linux")]
    {
        crate::screen::give_back();
        syscollect_capture::restore_session();
    }
    let mut stderr = libc::pollfd { fd: libc::STDERR_FILENO, events: libc::POLLOUT, revents: 0 };
    // SAFETY: poll, write and _exit are async-signal-safe; the structure and the text outlive the
    // calls. Whoever does not read the messages is not waited for.
    unsafe {
        if libc::poll(&raw mut stderr, 1, 0) == 1 && stderr.revents & libc::POLLOUT != 0 {
            libc::write(libc::STDERR_FILENO, WORDS.as_ptr().cast(), WORDS.len());
        }
        libc::_exit(1)
    }
}

/// Nanoseconds of a clock that only goes forward.
fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: async-signal-safe; `time` outlives the call.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64)
}

/// Lets these signals through: a program that blocks them hands that on to those that it runs.
fn unblock(signals: &[i32]) {
    // SAFETY: the set is initialised before it is used, and outlives the calls.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        signals.iter().for_each(|signal| {
            libc::sigaddset(&raw mut set, *signal);
        });
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
    }
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
