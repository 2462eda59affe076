//! How often each thread was seen in each stack, and for how long off the CPU.

use crate::ProcessFilter;
use crate::off_cpu::{Blocked, OffCpuInterval};
use crate::report::WaitClass;
use crate::report::off_cpu::Reason;
use crate::report::wait_for::WaitsFor;
use rustc_hash::FxHashMap;
use syscollect_model::{Event, MachineId, Scope, StackId, Tables, ThreadId, Time};

/// What is known of one thread in one stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StackTotal {
    pub(super) samples: u64,
    pub(super) off_cpu_ns: u64,
    pub(super) wakeups: u64,
    pub(super) hits: u64,
}

/// A thread and a stack; no stack where none was taken, or it was lost.
pub(super) type ThreadStack = (ThreadId, Option<StackId>);

/// Adds events up. Memory grows with the number of different stacks of each thread.
#[derive(Debug, Default)]
pub(super) struct StackTotals {
    process: Option<ProcessFilter>,
    totals: FxHashMap<ThreadStack, StackTotal>,
    /// Time off the CPU by why it was spent, too, where it matters whether there was work.
    reasons: Option<FxHashMap<(ThreadStack, Reason), u64>>,
    blocked: Blocked,
    pub(super) first: Option<Time>,
    pub(super) last: Time,
}

impl StackTotals {
    pub(super) fn new(process: Option<ProcessFilter>) -> Self {
        Self { process, ..Self::default() }
    }

    /// Of threads that had something to do, as far as that is known.
    pub(super) fn without_idle(process: Option<ProcessFilter>) -> Self {
        Self { process, reasons: Some(FxHashMap::default()), ..Self::default() }
    }

    #[inline]
    pub(super) fn event(&mut self, time: Time, event: &Event, tables: &Tables) {
        self.first.get_or_insert(time);
        self.last = time;
        match event {
            Event::Sample(sample) => {
                self.add((sample.thread, sample.stack), tables, |total| total.samples += 1);
            }
            Event::Switch(switch) => {
                if let Some(stay) = self.blocked.switch(time, switch) {
                    self.stay(stay, tables);
                }
            }
            // Of a whole machine these are most threads, and what they wait for is of no interest.
            Event::Asleep(thread, off_cpu) if self.process.is_some() => {
                let is_of_first = tables.machine_of(*thread) == MachineId::FIRST;
                let since = self.first.filter(|_| is_of_first).unwrap_or(time);
                self.blocked.asleep(since, *thread, off_cpu);
            }
            Event::Loss(loss) => {
                if let Some(gap) = loss.scheduling_gap() {
                    self.blocked.gap(time, gap);
                }
            }
            Event::RecordingEnd(machine) => {
                for stay in
                    self.blocked.finish(time, |thread| tables.machine_of(thread) == *machine)
                {
                    self.stay(stay, tables);
                }
            }
            Event::Wakeup(wakeup) => {
                if let (Some(waker), Some(_)) = (wakeup.waker, wakeup.stack) {
                    self.add((waker, wakeup.stack), tables, |total| total.wakeups += 1);
                }
            }
            Event::SliceBegin(track, slice) | Event::Instant(track, slice) => {
                if let (Scope::Thread(thread), Some(_)) = (tables.track(*track).scope, slice.stack)
                {
                    self.add((thread, slice.stack), tables, |total| total.hits += 1);
                }
            }
            _ => {}
        }
    }

    #[inline]
    fn stay(&mut self, stay: OffCpuInterval, tables: &Tables) {
        let key = (stay.thread, stay.stack);
        let add = |total: &mut StackTotal| {
            total.off_cpu_ns = total.off_cpu_ns.saturating_add(stay.blocked_ns);
        };
        if self.add(key, tables, add)
            && let Some(reasons) = &mut self.reasons
        {
            let sum = reasons.entry((key, stay.reason)).or_default();
            *sum = sum.saturating_add(stay.blocked_ns);
        }
    }

    /// Takes out what nobody lacked: samples of idle CPUs, and time of threads without work. Which
    /// that is, only names tell, which are all there at the end.
    fn leave_idle_out(&mut self, tables: &Tables) {
        let Some(reasons) = self.reasons.take() else { return };
        // Who asks for the idle process by its id or name wants it.
        let asked_for = self.process.is_some();
        self.totals.retain(|(thread, _), _| asked_for || *thread != Tables::IDLE_THREAD);
        let mut waits_for = WaitsFor::new(tables);
        for ((key, reason), nanoseconds) in reasons {
            let process = tables.thread(key.0).process;
            if waits_for.of(process, key.1, reason).class() == WaitClass::Idle
                && let Some(total) = self.totals.get_mut(&key)
            {
                total.off_cpu_ns = total.off_cpu_ns.saturating_sub(nanoseconds);
            }
        }
    }

    #[inline]
    fn add(
        &mut self,
        key: ThreadStack,
        tables: &Tables,
        change: impl FnOnce(&mut StackTotal),
    ) -> bool {
        let wanted = self
            .process
            .as_ref()
            .is_none_or(|filter| filter.matches(tables.thread(key.0).process, tables));
        if wanted {
            change(self.totals.entry(key).or_default());
        }
        wanted
    }

    /// Everything, in an order that does not change; threads that are still blocked count until the
    /// end.
    pub(super) fn finish(&mut self, tables: &Tables) -> Vec<(ThreadStack, StackTotal)> {
        for stay in self.blocked.finish(self.last, |_| true) {
            self.stay(stay, tables);
        }
        self.leave_idle_out(tables);
        let mut list: Vec<(ThreadStack, StackTotal)> = self.totals.drain().collect();
        list.sort_unstable_by_key(|(key, _)| *key);
        list
    }
}
