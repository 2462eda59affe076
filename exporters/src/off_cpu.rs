//! For how long threads are blocked, and where they left off.

use crate::gaps::Gaps;
use crate::report::off_cpu::Reason;
use rustc_hash::FxHashMap;
use syscollect_model::{
    CpuId, OffCpu, SchedulingGap, SleepState, StackId, Switch, Tables, ThreadId, Time,
};

/// A time from blocking until running again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OffCpuInterval {
    pub(crate) thread: ThreadId,
    /// Where it left off.
    pub(crate) stack: Option<StackId>,
    /// What the switch says of why.
    pub(crate) reason: Reason,
    /// The CPU that it left.
    pub(crate) cpu: CpuId,
    pub(crate) since: Time,
    pub(crate) until: Time,
    /// Its length, less the times of which it is not known what ran. Nanoseconds.
    pub(crate) blocked_ns: u64,
    /// No switch told of it: the thread was seen asleep.
    seen_asleep: bool,
}

/// Threads that blocked and have not run since.
#[derive(Debug, Default)]
pub(crate) struct Blocked {
    threads: FxHashMap<ThreadId, OffCpuInterval>,
    /// Some of these were only seen asleep.
    has_seen_asleep: bool,
    gaps: Gaps,
}

impl Blocked {
    /// The stay that a switch ends.
    #[inline]
    pub(crate) fn switch(&mut self, time: Time, switch: &Switch) -> Option<OffCpuInterval> {
        if let Some(previous) = switch.previous.filter(|id| *id != Tables::IDLE_THREAD) {
            let (stack, cpu) = (switch.off_cpu.stack, switch.cpu);
            let (reason, since, until) = (Reason::of(&switch.off_cpu), time, time);
            let stay = OffCpuInterval {
                thread: previous,
                stack,
                reason,
                cpu,
                since,
                until,
                blocked_ns: 0,
                seen_asleep: false,
            };
            match blocks(&switch.off_cpu) {
                true => self.threads.insert(previous, stay),
                // Also where the switch before, onto a CPU, was lost: how long it was off is not
                // known.
                false => self.threads.remove(&previous),
            };
        }
        let stay = self.threads.remove(&switch.next)?;
        Some(self.ended(stay, time))
    }

    /// The thread was seen asleep: where no switch has told since when, it has been since `first`.
    pub(crate) fn asleep(&mut self, first: Time, thread: ThreadId, off_cpu: &OffCpu) {
        self.has_seen_asleep = true;
        self.threads.entry(thread).or_insert_with(|| {
            let (stack, reason) = (off_cpu.stack, Reason::of(off_cpu));
            // Which CPU it left was before.
            let cpu = CpuId::default();
            OffCpuInterval {
                thread,
                stack,
                reason,
                cpu,
                since: first,
                until: first,
                blocked_ns: 0,
                seen_asleep: true,
            }
        });
    }

    /// Switches are missing: who is blocked may have run meanwhile.
    pub(crate) fn gap(&mut self, now: Time, gap: SchedulingGap) {
        // Who was only seen asleep may have slept elsewhere since.
        if std::mem::take(&mut self.has_seen_asleep) {
            self.threads.retain(|_, stay| !stay.seen_asleep);
        }
        self.gaps.add(gap.since.unwrap_or_default().0, now.0);
    }

    /// The stays of these threads that last when their recording ends, by thread.
    pub(crate) fn finish(
        &mut self,
        last: Time,
        of: impl Fn(ThreadId) -> bool,
    ) -> Vec<OffCpuInterval> {
        let ending = self.threads.extract_if(|thread, _| of(*thread));
        let mut stays: Vec<_> = ending.map(|(_, stay)| stay).collect();
        stays.sort_unstable_by_key(|stay| stay.thread);
        stays.into_iter().map(|stay| self.ended(stay, last)).collect()
    }

    #[inline]
    fn ended(&self, stay: OffCpuInterval, until: Time) -> OffCpuInterval {
        let missing = self.gaps.missing(stay.since.0, until.0);
        OffCpuInterval {
            until,
            blocked_ns: until.0.saturating_sub(stay.since.0).saturating_sub(missing),
            ..stay
        }
    }
}

/// Whether a thread waits for something, and is not only pushed aside or gone.
fn blocks(off_cpu: &OffCpu) -> bool {
    !off_cpu.preempted
        && !matches!(off_cpu.state, SleepState::Runnable | SleepState::Dead | SleepState::Zombie)
}
