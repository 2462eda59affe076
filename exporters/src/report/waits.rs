//! What threads waited for: the sums, and the longest waits.

use super::account::{LongestWait, StateInterval, ThreadAccount, ThreadState, Wait};
use super::cpu::Cpus;
use super::off_cpu::{OffCpuTimes, WaitKey};
use super::row_maker::WaitSpan;
use super::run_queue::RunQueueWaits;
use super::worst::{BlockedWait, CpuWait, WorstOfEach};
use syscollect_model::{CpuId, OffCpu, StringId, Tables, ThreadId};

/// All waits that are told of.
#[derive(Debug)]
pub(super) struct Waits {
    pub(super) off_cpu: OffCpuTimes,
    pub(super) run_queue: RunQueueWaits,
    pub(super) worst: WorstOfEach,
    /// The last time that was blocked and has ended.
    ended_sleep: Option<EndedSleep>,
    /// Nanoseconds at the beginning of what is told of, of which events were overwritten.
    pub(super) overwritten_ns: u64,
}

/// A thread was blocked, and is not any more.
#[derive(Clone, Copy, Debug)]
pub(super) struct EndedSleep {
    pub(super) thread: ThreadId,
    /// In which function of the kernel.
    pub(super) blocked_in: Option<StringId>,
    pub(super) nanoseconds: u64,
}

/// A state of a thread has ended; the account has the next one.
#[derive(Clone, Copy)]
pub(super) struct EndedState<'a> {
    pub(super) thread: ThreadId,
    pub(super) account: &'a ThreadAccount,
    pub(super) interval: &'a StateInterval,
}

impl EndedState<'_> {
    /// The state went on when what is told of ended.
    #[inline]
    fn goes_on(&self) -> bool {
        self.account.state == ThreadState::Ended
    }

    /// All of it, if the report is about the thread and its beginning is known.
    #[inline]
    fn told_whole(&self) -> Option<StateInterval> {
        let is_told = self.account.chosen && !self.account.is_partial;
        // What begins with the last event has not lasted.
        let is_one = !self.goes_on() || self.interval.known > 0;
        self.interval.whole().filter(|_| is_told && is_one)
    }
}

impl Waits {
    pub(super) fn new(worst: WorstOfEach) -> Self {
        Self {
            off_cpu: OffCpuTimes::default(),
            run_queue: RunQueueWaits::default(),
            worst,
            ended_sleep: None,
            overwritten_ns: 0,
        }
    }

    /// None of those until now is told of.
    pub(super) fn forget(&mut self) {
        *self = Self::new(self.worst.emptied());
    }

    /// The last time that was blocked and has ended; once.
    #[inline]
    pub(super) fn take_ended_sleep(&mut self) -> Option<EndedSleep> {
        self.ended_sleep.take()
    }

    /// A time blocked may be among the longest. Who is idle waits for nothing that anybody lacks.
    #[inline]
    pub(super) fn keep_blocked(&mut self, ended: EndedState<'_>, off_cpu: OffCpu, tables: &Tables) {
        let ThreadAccount { process, woken, .. } = *ended.account;
        if let Some(StateInterval { since, known, unknown, .. }) = ended.told_whole()
            && let Some(waits_for) = self.worst.waited_for(process, &off_cpu, tables)
        {
            self.worst.blocked.add(known, since, || BlockedWait {
                thread: ended.thread,
                unknown,
                off_cpu,
                waits_for,
                woken,
                goes_on: ended.goes_on(),
            });
        }
    }

    /// Sums up why a thread was blocked, if it was.
    #[inline]
    pub(super) fn add_blocked(&mut self, ended: EndedState<'_>) {
        let EndedState { thread, account, interval } = ended;
        let ThreadState::Blocked(off_cpu) = &interval.state else { return };
        if !account.chosen {
            return;
        }
        if interval.earlier.slept && ended.goes_on() {
            // Where switches are missing it may have run, and slept elsewhere then. Who was seen
            // after all that was overwritten has slept so since.
            if interval.unknown <= self.overwritten_ns {
                let key = WaitKey::new(thread, account.process, off_cpu);
                self.off_cpu.asleep_throughout.push(key);
            }
        } else {
            let (blocked_in, nanoseconds) = (off_cpu.blocked_in, interval.known);
            self.off_cpu.add(thread, account.process, off_cpu, nanoseconds);
            self.ended_sleep = Some(EndedSleep { thread, blocked_in, nanoseconds });
        }
    }

    /// A wait for a CPU of which nothing is missing has ended.
    #[inline]
    pub(super) fn add_for_cpu(
        &mut self,
        thread: ThreadId,
        account: &mut ThreadAccount,
        interval: &StateInterval,
        began_with: Wait,
    ) {
        let Some(StateInterval { since, known: waited, earlier, .. }) = interval.whole() else {
            return;
        };
        // That it ran meanwhile is not recorded.
        if account.is_partial {
            return;
        }
        if waited > account.longest_wait.waited {
            account.longest_wait = LongestWait { waited, since };
        }
        if account.chosen {
            self.run_queue.add(began_with, WaitSpan { waited, since, thread }, earlier.is_cut_off);
        }
    }

    /// A wait for a CPU may be among the longest: of one that has ended, with the CPU that the thread
    /// came onto.
    #[inline]
    pub(super) fn keep_for_cpu(
        &mut self,
        ended: EndedState<'_>,
        began: Wait,
        cpu: Option<CpuId>,
        cpus: &mut Cpus,
    ) {
        let Some(StateInterval { since, known, unknown, .. }) = ended.told_whole() else { return };
        let woken = ended.account.woken.filter(|_| began == Wait::Wakeup);
        self.worst.for_cpu.add(known, since, || {
            let ran = cpu.map(|cpu| cpus.ran(cpu, since, since + known + unknown));
            let meanwhile = ran.unwrap_or_default();
            CpuWait { thread: ended.thread, unknown, began, woken, cpu, meanwhile }
        });
    }
}
