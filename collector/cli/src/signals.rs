//! What ends a recording or an export from outside.
//!
//! The first signal stops a recording: SIGINT (Ctrl-C), SIGTERM and SIGHUP, and those whose default
//! would end the program with the recording unfinished: SIGUSR1, SIGUSR2 and SIGALRM. The second
//! abandons what is still being written, and ends the program within seconds whatever its threads
//! stand in; a third ends it at once. After a recording that ended by itself, Ctrl-C abandons the
//! export, while the first of the others waits for it: it is the clean end that they ask for.
//! SIGQUIT (Ctrl-\) is left as it is: it ends the program at once.
//!
//! What must work is done in the signal handler itself, by atomics and system calls: no thread is
//! asked.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::Instant;
use syscollect_model::StopReason;
#[cfg(unix)]
pub(crate) use unix::{watch, watch_writing};
#[cfg(windows)]
pub(crate) use windows::{watch, watch_writing};

/// Something that a recording waits for.
#[derive(Debug)]
pub(crate) enum StopEvent {
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
    /// `kill -USR1`, which asks a flight recorder for a snapshot.
    User1,
    /// `kill -USR2`, and an alarm that somebody set before this program was run.
    Other,
}

impl Stop {
    /// The reason as a capture keeps it.
    pub(crate) fn reason(self) -> StopReason {
        match self {
            Self::Interrupt => StopReason::Interrupt,
            Self::Terminate => StopReason::Terminate,
            Self::HangUp => StopReason::HangUp,
            Self::User1 | Self::Other => StopReason::Signal,
        }
    }
}

const RECORDING: u8 = 0;
const WRITING: u8 = 1;
const ONLY_WRITING: u8 = 2;

/// The same signal so soon again is the same request: `timeout` sends it to the program and then to
/// its group, and a terminal that goes away is told of by the kernel and by the shell. Nanoseconds.
const ECHO_NS: u64 = 500_000_000;

/// As long for SIGINT, which `timeout -s INT` sends twice, too: nobody presses Ctrl-C again so
/// soon.
const INTERRUPT_ECHO_NS: u64 = 100_000_000;

/// What a signal means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SignalAction {
    /// The recording is to stop.
    Stop,
    /// Nothing: what was asked for is being done.
    Wait,
    /// What is being written is to be left.
    Abandon,
    /// The program is to end here and now.
    End,
}

/// Says whether the user wants the rest to be left undone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Abandon {
    state: Arc<AbandonState>,
    /// When it is given up at the latest.
    until: Option<Instant>,
    /// It is given up, too, once this is set.
    or_once: Option<Arc<AtomicBool>>,
}

#[derive(Debug, Default)]
struct AbandonState {
    /// A stop was asked for.
    stop: Arc<AtomicBool>,
    /// The rest is to be left undone.
    wanted: AtomicBool,
    phase: AtomicU8,
    /// SIGUSR1 asks for a snapshot, and stops nothing.
    snapshots: AtomicBool,
    /// Signals so far.
    signals: AtomicU32,
    /// The last of them that could be an echo, and when it came.
    last: AtomicU8,
    last_ns: AtomicU64,
}

impl Abandon {
    /// Whether to give up.
    pub(crate) fn wanted(&self) -> bool {
        self.state.wanted.load(Ordering::Relaxed)
            || self.until.is_some_and(|until| Instant::now() >= until)
            || self.or_once.as_ref().is_some_and(|is_set| is_set.load(Ordering::Relaxed))
    }

    /// The same for something that is given up even sooner.
    #[cfg(target_os = "linux")]
    pub(crate) fn at_most(&self, longest: std::time::Duration) -> Self {
        let sooner = self.after(longest);
        let until = self.until.into_iter().chain(sooner.until).min();
        Self { until, ..sooner }
    }

    /// For something that is given up, too, once that is set.
    #[cfg(target_os = "linux")]
    pub(crate) fn or_once(&self, is_set: &Arc<AtomicBool>) -> Self {
        Self { or_once: Some(Arc::clone(is_set)), ..self.clone() }
    }

    /// For something that is given up, too, when it took so long.
    #[cfg(target_os = "linux")]
    pub(crate) fn after(&self, longest: std::time::Duration) -> Self {
        Self { until: Instant::now().checked_add(longest), ..self.clone() }
    }

    /// Set once a stop was asked for, for what looks now and then.
    pub(crate) fn stop_asked(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.state.stop)
    }

    /// From now on SIGUSR1 asks for a snapshot, and stops nothing.
    #[cfg(target_os = "linux")]
    pub(crate) fn takes_snapshots(&self) {
        self.state.snapshots.store(true, Ordering::Relaxed);
    }

    /// From now on Ctrl-C means giving up, not stopping.
    pub(crate) fn writing(&self) {
        self.state.phase.store(WRITING, Ordering::Relaxed);
    }

    /// There was no recording to stop: every signal means giving up.
    fn writing_only(&self) {
        self.state.phase.store(ONLY_WRITING, Ordering::Relaxed);
    }

    /// Whether a recording goes on, or begins.
    fn is_recording(&self) -> bool {
        self.state.phase.load(Ordering::Relaxed) == RECORDING
    }

    /// Takes a signal that came at `now` (nanoseconds). Called in signal handlers: atomics only.
    fn signal(&self, signal: Stop, now: u64) -> SignalAction {
        let AbandonState { stop, wanted, phase, snapshots, signals, last, last_ns } = &*self.state;
        if signal == Stop::User1 && snapshots.load(Ordering::Relaxed) {
            return SignalAction::Wait;
        }
        let echo_ns = if signal == Stop::Interrupt { INTERRUPT_ECHO_NS } else { ECHO_NS };
        let is_same = last.swap(signal as u8, Ordering::Relaxed) == signal as u8;
        let before = last_ns.swap(now, Ordering::Relaxed);
        if is_same && before > 0 && now.saturating_sub(before) < echo_ns {
            return SignalAction::Wait;
        }
        let is_first = signals.fetch_add(1, Ordering::Relaxed) == 0;
        stop.store(true, Ordering::Relaxed);
        match phase.load(Ordering::Relaxed) {
            RECORDING if is_first => return SignalAction::Stop,
            WRITING if is_first && signal != Stop::Interrupt => return SignalAction::Wait,
            _ => {}
        }
        if wanted.swap(true, Ordering::Relaxed) { SignalAction::End } else { SignalAction::Abandon }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn the_first_signal_stops_a_recording_the_second_abandons_and_the_third_ends() {
        for signal in [Stop::Interrupt, Stop::Terminate, Stop::HangUp, Stop::Other] {
            let abandon = Abandon::default();
            assert!(!abandon.stop_asked().load(Ordering::Relaxed));
            assert_eq!(abandon.signal(signal, SECOND), SignalAction::Stop);
            assert!(abandon.stop_asked().load(Ordering::Relaxed) && !abandon.wanted());
            assert_eq!(
                abandon.signal(signal, 2 * SECOND),
                SignalAction::Abandon,
                "also while it still starts or stops"
            );
            assert!(abandon.wanted());
            assert_eq!(abandon.signal(signal, 3 * SECOND), SignalAction::End);
        }
    }

    #[test]
    fn after_a_recording_ctrl_c_abandons_and_the_others_wait_once() {
        let abandon = Abandon::default();
        abandon.writing();
        assert_eq!(
            abandon.signal(Stop::Terminate, SECOND),
            SignalAction::Wait,
            "SIGTERM waits for the clean end"
        );
        assert!(!abandon.wanted());
        assert_eq!(abandon.signal(Stop::Interrupt, SECOND), SignalAction::Abandon);

        let abandon = Abandon::default();
        abandon.writing();
        assert_eq!(abandon.signal(Stop::Interrupt, SECOND), SignalAction::Abandon);

        let abandon = Abandon::default();
        abandon.writing_only();
        assert_eq!(abandon.signal(Stop::Terminate, SECOND), SignalAction::Abandon);
    }

    #[test]
    fn a_signal_that_is_sent_twice_at_once_counts_once() {
        let abandon = Abandon::default();
        assert_eq!(abandon.signal(Stop::HangUp, SECOND), SignalAction::Stop);
        assert_eq!(abandon.signal(Stop::HangUp, SECOND + 1_000_000), SignalAction::Wait);
        assert_eq!(abandon.signal(Stop::Terminate, SECOND + 2_000_000), SignalAction::Abandon);

        let abandon = Abandon::default();
        assert_eq!(abandon.signal(Stop::Interrupt, SECOND), SignalAction::Stop);
        assert_eq!(abandon.signal(Stop::Interrupt, SECOND + 1_000_000), SignalAction::Wait);
        assert_eq!(
            abandon.signal(Stop::Interrupt, SECOND + 201_000_000),
            SignalAction::Abandon,
            "Ctrl-C pressed twice counts twice"
        );
    }
}
