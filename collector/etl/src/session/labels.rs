//! What Windows' numbers mean in the words of the model.

use crate::payload::{ThreadState, WaitReason};
use syscollect_model::{SleepState, StringId, Strings};

const PAGE_IN: WaitReason = WaitReason(2);
const WR_PAGE_IN: WaitReason = WaitReason(9);
const WAITING_FOR_PROCESS: ThreadState = ThreadState(9);

/// How a thread left its CPU, as a switch tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SwitchOut {
    pub(super) state: SleepState,
    pub(super) preempted: bool,
    pub(super) io_wait: bool,
    /// It waits for the reason.
    pub(super) waits: bool,
}

impl SwitchOut {
    /// With nothing to say but the state.
    fn with(state: SleepState) -> Self {
        Self { state, preempted: false, io_wait: false, waits: false }
    }
}

/// What a thread's new state (`KTHREAD_STATE`) and its reason come to.
///
/// A wait in kernel mode cannot be interrupted: no call into the program, not
/// even the end of the thread, gets through. So it is what Linux calls
/// uninterruptible. Where the mode is not told, waits count as interruptible.
#[inline]
pub(super) fn leaving(
    state: ThreadState,
    reason: WaitReason,
    kernel_mode: Option<bool>,
) -> SwitchOut {
    match state {
        // It could go on.
        ThreadState::READY | ThreadState::STANDBY | ThreadState::DEFERRED_READY => {
            SwitchOut { preempted: true, ..SwitchOut::with(SleepState::Runnable) }
        }
        ThreadState::TERMINATED => SwitchOut::with(SleepState::Dead),
        ThreadState::WAITING => SwitchOut {
            state: match kernel_mode {
                Some(true) => SleepState::Uninterruptible,
                _ => SleepState::Interruptible,
            },
            preempted: false,
            io_wait: matches!(reason, PAGE_IN | WR_PAGE_IN),
            waits: true,
        },
        // Its stack is not in memory.
        ThreadState::TRANSITION | WAITING_FOR_PROCESS => {
            SwitchOut::with(SleepState::Uninterruptible)
        }
        _ => SwitchOut::with(SleepState::Runnable),
    }
}

/// Names of reasons, interned.
#[derive(Clone, Debug)]
pub(super) struct Reasons(Vec<StringId>);

impl Reasons {
    pub(super) fn new(strings: &mut Strings) -> Self {
        let names = (0..=u8::MAX).map_while(|reason| WaitReason(reason).name());
        Self(names.map(|name| strings.intern(name)).collect())
    }

    /// The name of a reason, if this version knows it.
    #[inline]
    pub(super) fn name(&self, reason: WaitReason) -> Option<StringId> {
        self.0.get(usize::from(reason.0)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_could_go_on_was_preempted_and_waits_for_nothing() {
        let ready = leaving(ThreadState::READY, WaitReason(32), Some(true));
        assert_eq!(
            (ready.state, ready.preempted, ready.waits),
            (SleepState::Runnable, true, false)
        );
    }

    #[test]
    fn a_wait_in_kernel_mode_cannot_be_interrupted() {
        assert_eq!(
            [Some(true), Some(false), None].map(state),
            [SleepState::Uninterruptible, SleepState::Interruptible, SleepState::Interruptible]
        );
        assert!(leaving(ThreadState::WAITING, WR_PAGE_IN, None).io_wait);
    }

    fn state(mode: Option<bool>) -> SleepState {
        leaving(ThreadState::WAITING, WaitReason(0), mode).state
    }

    #[test]
    fn reasons_are_counted_from_executive() {
        let mut strings = Strings::default();
        let reasons = Reasons::new(&mut strings);
        for (reason, expected) in [
            (0, Some("Executive")),
            (6, Some("UserRequest")),
            (15, Some("WrQueue")),
            (37, Some("WrAlertByThreadId")),
            (99, None),
        ] {
            assert_eq!(reasons.name(WaitReason(reason)).map(|id| strings.get(id)), expected);
        }
    }
}
