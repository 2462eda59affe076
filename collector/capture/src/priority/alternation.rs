//! A thread goes first for half of its time, however long it works between two steps.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use super::{Class, set_class};

/// How long the thread goes first at once, and then with others. Whoever shares the CPU with it
/// waits as long, not for all of its work.
const TURN: Duration = Duration::from_millis(50);
/// After so many turns of each kind the thread goes with others: five seconds in all.
const MOST_TURNS: u32 = 50;
/// Whoever turns the class of a thread goes before that thread.
const BEFORE_THE_THREAD: libc::c_int = 2;

/// While this lives, the thread that began it goes first for half of its time, by turns.
///
/// The thread itself cannot see to that: the kernel verifies a program for tens of milliseconds in
/// one call. So another thread does, which sleeps between turns.
pub(super) struct Alternation {
    end: Option<Sender<()>>,
    turner: Option<JoinHandle<()>>,
}

impl Alternation {
    /// Begins it for the calling thread; does nothing where the real-time class is not permitted.
    pub(super) fn begin() -> Self {
        // SAFETY: asks for a number; no memory is involved.
        let thread = unsafe { libc::gettid() };
        let (end, ended) = mpsc::channel();
        let turner = std::thread::Builder::new()
            .name("start-turns".to_owned())
            .spawn(move || {
                set_class(0, Class::RealTime(BEFORE_THE_THREAD));
                alternate(|class| set_class(thread, class), &ended);
            })
            .ok();
        Self { end: Some(end), turner }
    }
}

impl Drop for Alternation {
    fn drop(&mut self) {
        self.end = None;
        if let Some(turner) = self.turner.take() {
            // It ends by itself; had it panicked, the thread would go on as it is.
            let _ = turner.join();
        }
    }
}

/// Turns a thread's class until `ended` is closed, and leaves it with others.
fn alternate(mut set: impl FnMut(Class) -> bool, ended: &Receiver<()>) {
    for _ in 0..MOST_TURNS {
        if !set(Class::FIRST) {
            return;
        }
        let has_ended = ends_within_turn(ended);
        set(Class::Others);
        if has_ended || ends_within_turn(ended) {
            return;
        }
    }
}

/// Waits for one turn, or until `ended` is closed; whether it is.
fn ends_within_turn(ended: &Receiver<()>) -> bool {
    ended.recv_timeout(TURN) != Err(RecvTimeoutError::Timeout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_goes_by_turns_and_ends_with_others() {
        let (end, ended) = mpsc::channel();
        let mut end = Some(end);
        let mut classes = Vec::new();
        alternate(
            |class| {
                classes.push(class);
                if classes.len() == 5 {
                    // In its third turn.
                    end = None;
                }
                true
            },
            &ended,
        );
        let [first, others] = [Class::FIRST, Class::Others];
        assert_eq!(classes, [first, others, first, others, first, others]);
    }

    #[test]
    fn a_thread_that_may_not_go_first_is_left_alone() {
        let (_end, ended) = mpsc::channel();
        let mut asked = 0;
        alternate(
            |_| {
                asked += 1;
                false
            },
            &ended,
        );
        assert_eq!(asked, 1);
    }
}
