//! Threads that were seen asleep: who is not woken while the recording goes on has no event that
//! tells it.

use std::collections::BTreeMap;
use syscollect_model::{OffCpu, SleepState, Strings, ThreadId};
use syscollect_store::KnownSleep;

/// A thread that was seen asleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sleeper {
    /// When, ticks.
    pub(crate) seen_at: u64,
    pub(crate) tid: u32,
    pub(crate) thread: ThreadId,
    /// Without its stack, which lies in the lane of sleepers' stacks.
    pub(crate) off_cpu: OffCpu,
    /// Its id there.
    pub(crate) user_stack: u32,
    /// That of the kernel's part.
    pub(crate) kernel_stack: u32,
}

impl Sleeper {
    /// What was read of a thread; `None` where that is no sleep.
    pub(crate) fn new(
        seen_at: u64,
        tid: u32,
        thread: ThreadId,
        sleep: &KnownSleep,
        strings: &mut Strings,
    ) -> Option<Self> {
        let name = &sleep.blocked_in;
        let off_cpu = OffCpu {
            state: sleep_state(sleep.state)?,
            preempted: false,
            io_wait: sleep.io_wait,
            blocked_in: (!name.is_empty()).then(|| strings.intern(name)),
            stack: None,
        };
        let KnownSleep { user_stack, kernel_stack, .. } = *sleep;
        Some(Self { seen_at, tid, thread, off_cpu, user_stack, kernel_stack })
    }
}

/// A letter of proc_pid_stat(5); `None` for those of threads that run or have ended.
fn sleep_state(letter: char) -> Option<SleepState> {
    Some(match letter {
        'S' => SleepState::Interruptible,
        'D' => SleepState::Uninterruptible,
        'I' => SleepState::Idle,
        'T' => SleepState::Stopped,
        't' => SleepState::Traced,
        'P' => SleepState::Parked,
        _ => return None,
    })
}

/// Those of which nothing was told yet.
#[derive(Debug, Default)]
pub(crate) struct Sleepers {
    /// By when they were seen, and their ids.
    waiting: BTreeMap<(u64, u32), Sleeper>,
}

impl Sleepers {
    pub(crate) fn add(&mut self, sleeper: Sleeper) {
        self.waiting.insert((sleeper.seen_at, sleeper.tid), sleeper);
    }

    /// The next one that was seen by then.
    pub(crate) fn next(&mut self, ticks: u64) -> Option<Sleeper> {
        let first = self.waiting.first_entry()?;
        (first.get().seen_at <= ticks).then(|| first.remove())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleepers_come_in_the_order_in_which_they_were_seen() {
        let mut strings = Strings::default();
        let mut sleepers = Sleepers::default();
        for (at, tid) in [(20, 2), (10, 1), (30, 3)] {
            let sleep =
                KnownSleep { state: 'D', blocked_in: "io_schedule".into(), ..Default::default() };
            sleepers.add(Sleeper::new(at, tid, ThreadId(tid), &sleep, &mut strings).unwrap());
        }
        let first = sleepers.next(20).unwrap();
        assert_eq!((first.tid, first.off_cpu.state), (1, SleepState::Uninterruptible));
        assert_eq!(first.off_cpu.blocked_in, Some(strings.intern("io_schedule")));
        assert_eq!(sleepers.next(20).map(|sleeper| sleeper.tid), Some(2));
        assert_eq!(sleepers.next(20), None);
    }

    #[test]
    fn who_runs_or_has_ended_does_not_sleep() {
        assert_eq!("RZXx?".chars().find_map(sleep_state), None);
        let sleep = KnownSleep { state: 'S', ..KnownSleep::default() };
        let sleeper = Sleeper::new(1, 1, ThreadId(1), &sleep, &mut Strings::default()).unwrap();
        assert_eq!(sleeper.off_cpu.blocked_in, None);
    }
}
