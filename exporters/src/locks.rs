//! Who holds a lock and who waits for it, from what threads say of it.
//!
//! What they say may have holes: of a thread that waits anew, the wait before
//! has ended; of a lock that somebody obtains, whoever cannot hold it at the
//! same time has let go.

use rustc_hash::FxHashMap;
use syscollect_model::{LockAction, LockEvent, LockId, ThreadId, Time};

/// Holds of one lock at one time; more are readers whose releases are missing.
const MAX_HOLDS: usize = 256;

/// What an event comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockTransition {
    /// A thread begins to wait.
    WaitBegins {
        lock: LockId,
        thread: ThreadId,
        /// Who holds the lock, if that is known: one of them.
        holder: Option<ThreadId>,
    },
    /// A thread stops waiting.
    WaitEnds { lock: LockId, thread: ThreadId, since: Time, obtained: bool },
    /// A thread has the lock.
    HoldBegins {
        lock: LockId,
        thread: ThreadId,
        /// The first number that no other hold of the lock has at this time.
        row: usize,
        shared: bool,
    },
    /// A thread lets go.
    HoldEnds {
        lock: LockId,
        thread: ThreadId,
        row: usize,
        since: Time,
        /// Somebody waits for the lock.
        awaited: bool,
    },
}

#[derive(Clone, Copy, Debug)]
struct LockHold {
    thread: ThreadId,
    since: Time,
    shared: bool,
}

#[derive(Debug, Default)]
struct LockState {
    /// By row.
    holds: Vec<Option<LockHold>>,
    waiting: usize,
}

/// The locks of all processes.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    locks: FxHashMap<LockId, LockState>,
    waits: FxHashMap<ThreadId, (LockId, Time)>,
    transitions: Vec<LockTransition>,
}

impl Locks {
    /// What the event comes to, in order.
    pub(crate) fn event(&mut self, time: Time, event: &LockEvent) -> &[LockTransition] {
        self.transitions.clear();
        let LockEvent { lock, thread, action, shared, .. } = *event;
        match action {
            LockAction::Wait => {
                self.stop_waiting(thread, None);
                self.wait(time, lock, thread);
            }
            LockAction::Obtain => {
                self.stop_waiting(thread, Some(lock));
                self.obtain(time, lock, thread, shared);
            }
            LockAction::Release => self.release(lock, |hold| hold.thread == thread, 1),
            LockAction::GiveUp => self.stop_waiting(thread, None),
        }
        &self.transitions
    }

    /// A thread has ended: it waits for nothing. What it holds stays held.
    pub(crate) fn thread_ended(&mut self, thread: ThreadId) -> &[LockTransition] {
        self.transitions.clear();
        self.stop_waiting(thread, None);
        &self.transitions
    }

    /// Who holds a lock that others wait for, and how many do.
    pub(crate) fn holding_up(&self) -> FxHashMap<ThreadId, usize> {
        let mut holding = FxHashMap::default();
        for LockState { holds, waiting } in self.locks.values().filter(|state| state.waiting > 0) {
            for hold in holds.iter().flatten() {
                *holding.entry(hold.thread).or_default() += waiting;
            }
        }
        holding
    }

    /// Nothing more comes: all that goes on ends here.
    pub(crate) fn end(&mut self) -> &[LockTransition] {
        self.transitions.clear();
        let mut waiting: Vec<ThreadId> = self.waits.keys().copied().collect();
        waiting.sort_unstable();
        waiting.into_iter().for_each(|thread| self.stop_waiting(thread, None));
        let mut locks: Vec<LockId> = self.locks.keys().copied().collect();
        locks.sort_unstable();
        locks.into_iter().for_each(|lock| self.release(lock, |_| true, usize::MAX));
        &self.transitions
    }

    fn wait(&mut self, time: Time, lock: LockId, thread: ThreadId) {
        let state = self.locks.entry(lock).or_default();
        state.waiting += 1;
        let holder =
            state.holds.iter().flatten().map(|hold| hold.thread).find(|holder| *holder != thread);
        self.waits.insert(thread, (lock, time));
        self.transitions.push(LockTransition::WaitBegins { lock, thread, holder });
    }

    fn stop_waiting(&mut self, thread: ThreadId, obtained: Option<LockId>) {
        let Some((lock, since)) = self.waits.remove(&thread) else { return };
        if let Some(state) = self.locks.get_mut(&lock) {
            state.waiting = state.waiting.saturating_sub(1);
        }
        self.transitions.push(LockTransition::WaitEnds {
            lock,
            thread,
            since,
            obtained: obtained == Some(lock),
        });
    }

    fn obtain(&mut self, time: Time, lock: LockId, thread: ThreadId, shared: bool) {
        self.release(lock, |hold| hold.thread != thread && !(shared && hold.shared), usize::MAX);
        let holds = &self.locks.entry(lock).or_default().holds;
        if holds.len() >= MAX_HOLDS && holds.iter().all(Option::is_some) {
            self.release(lock, |_| true, 1);
        }
        let holds = &mut self.locks.entry(lock).or_default().holds;
        let row = holds.iter().position(Option::is_none).unwrap_or_else(|| {
            holds.push(None);
            holds.len() - 1
        });
        holds[row] = Some(LockHold { thread, since: time, shared });
        self.transitions.push(LockTransition::HoldBegins { lock, thread, row, shared });
    }

    /// Ends the last `most` holds for which `ends` is true.
    fn release(&mut self, lock: LockId, ends: impl Fn(&LockHold) -> bool, most: usize) {
        let Some(LockState { holds, waiting }) = self.locks.get_mut(&lock) else { return };
        let ending =
            holds.iter_mut().enumerate().rev().filter(|(_, row)| row.as_ref().is_some_and(&ends));
        for (row, hold) in ending.take(most) {
            if let Some(LockHold { thread, since, .. }) = hold.take() {
                self.transitions.push(LockTransition::HoldEnds {
                    lock,
                    thread,
                    row,
                    since,
                    awaited: *waiting > 0,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LOCK: LockId = LockId(7);
    const A: ThreadId = ThreadId(1);
    const B: ThreadId = ThreadId(2);

    fn event(thread: ThreadId, action: LockAction, shared: bool) -> LockEvent {
        LockEvent { lock: LOCK, thread, action, shared, location: None }
    }

    #[test]
    fn a_thread_waits_for_the_holder_and_has_the_lock_when_it_lets_go() {
        let mut locks = Locks::default();
        let mut transitions = Vec::new();
        let actions = [
            (A, LockAction::Obtain),
            (B, LockAction::Wait),
            (A, LockAction::Release),
            (B, LockAction::Obtain),
        ];
        for (time, (thread, action)) in (1..).map(Time).zip(actions) {
            transitions.extend_from_slice(locks.event(time, &event(thread, action, false)));
        }
        let expected = [
            LockTransition::HoldBegins { lock: LOCK, thread: A, row: 0, shared: false },
            LockTransition::WaitBegins { lock: LOCK, thread: B, holder: Some(A) },
            LockTransition::HoldEnds {
                lock: LOCK,
                thread: A,
                row: 0,
                since: Time(1),
                awaited: true,
            },
            LockTransition::WaitEnds { lock: LOCK, thread: B, since: Time(2), obtained: true },
            LockTransition::HoldBegins { lock: LOCK, thread: B, row: 0, shared: false },
        ];
        assert_eq!(transitions, expected);
    }

    #[test]
    fn readers_hold_a_lock_together_and_a_writer_alone() {
        let mut locks = Locks::default();
        locks.event(Time(1), &event(A, LockAction::Obtain, true));
        let second = locks.event(Time(2), &event(B, LockAction::Obtain, true));
        assert_eq!(
            second,
            [LockTransition::HoldBegins { lock: LOCK, thread: B, row: 1, shared: true }]
        );
        let writer = locks.event(Time(3), &event(A, LockAction::Obtain, false)).to_vec();
        assert_eq!(
            writer[0],
            LockTransition::HoldEnds {
                lock: LOCK,
                thread: B,
                row: 1,
                since: Time(2),
                awaited: false
            }
        );
    }

    #[test]
    fn a_release_nobody_obtained_and_an_end_of_no_wait_are_nothing() {
        let mut locks = Locks::default();
        assert!(locks.event(Time(1), &event(A, LockAction::Release, false)).is_empty());
        assert!(locks.event(Time(2), &event(A, LockAction::GiveUp, false)).is_empty());
        assert!(locks.thread_ended(B).is_empty());
    }

    proptest! {
        #[test]
        fn what_begins_ends_once_and_rows_are_used_by_one_at_a_time(
            events in prop::collection::vec((0u32..4, 0u32..3, 0u8..4, any::<bool>()), 0..200),
        ) {
            let mut locks = Locks::default();
            let (mut holds, mut waits) =
                (std::collections::BTreeSet::new(), std::collections::BTreeSet::new());
            for (time, (thread, lock, action, shared)) in (1..).map(Time).zip(events) {
                let actions =
                    [LockAction::Wait, LockAction::Obtain, LockAction::Release, LockAction::GiveUp];
                let action = actions[usize::from(action)];
                let (thread, lock) = (ThreadId(thread), LockId(lock));
                for step in
                    locks.event(time, &LockEvent { lock, thread, action, shared, location: None })
                {
                    match *step {
                        LockTransition::WaitBegins { thread, .. } => {
                            prop_assert!(waits.insert(thread));
                        }
                        LockTransition::WaitEnds { thread, since, .. } => {
                            prop_assert!(waits.remove(&thread) && since < time);
                        }
                        LockTransition::HoldBegins { lock, row, .. } => {
                            prop_assert!(holds.insert((lock, row)));
                        }
                        LockTransition::HoldEnds { lock, row, since, .. } => {
                            prop_assert!(holds.remove(&(lock, row)) && since < time);
                        }
                    }
                }
            }
        }
    }
}
