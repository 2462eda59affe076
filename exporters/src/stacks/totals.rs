//! How often each thread was seen in each stack, and for how long off the CPU.

use crate::ProcessFilter;
use rustc_hash::FxHashMap;
use syscollect_model::{Event, OffCpu, SleepState, StackId, Switch, Tables, ThreadId, Time};

/// What is known of one thread in one stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Total {
    pub(super) samples: u64,
    pub(super) off_cpu_ns: u64,
    pub(super) wakeups: u64,
}

/// A thread and a stack; no stack where none was taken, or it was lost.
pub(super) type Key = (ThreadId, Option<StackId>);

/// Adds events up. Memory grows with the number of different stacks of each thread.
#[derive(Debug, Default)]
pub(super) struct Totals {
    process: Option<ProcessFilter>,
    totals: FxHashMap<Key, Total>,
    /// Threads that blocked and have not run since.
    blocked: FxHashMap<ThreadId, (Time, Option<StackId>)>,
    pub(super) first: Option<Time>,
    pub(super) last: Time,
}

impl Totals {
    pub(super) fn new(process: Option<ProcessFilter>) -> Self {
        Self { process, ..Self::default() }
    }

    #[inline]
    pub(super) fn event(&mut self, time: Time, event: &Event, tables: &Tables) {
        self.first.get_or_insert(time);
        self.last = time;
        match event {
            Event::Sample(sample) => self.add((sample.thread, sample.stack), tables, |total| total.samples += 1),
            Event::Switch(switch) => self.switch(time, switch, tables),
            Event::Wakeup(wakeup) => {
                if let (Some(waker), Some(_)) = (wakeup.waker, wakeup.stack) {
                    self.add((waker, wakeup.stack), tables, |total| total.wakeups += 1);
                }
            }
            _ => {}
        }
    }

    #[inline]
    fn switch(&mut self, time: Time, switch: &Switch, tables: &Tables) {
        if let Some(previous) = switch.previous.filter(|id| *id != Tables::IDLE_THREAD) {
            match blocks(&switch.off_cpu) {
                true => self.blocked.insert(previous, (time, switch.off_cpu.stack)),
                // Also where the switch before, onto a CPU, was lost: how long it was off is not known.
                false => self.blocked.remove(&previous),
            };
        }
        if let Some((since, stack)) = self.blocked.remove(&switch.next) {
            let spent = time.0.saturating_sub(since.0);
            self.add((switch.next, stack), tables, |total| total.off_cpu_ns = total.off_cpu_ns.saturating_add(spent));
        }
    }

    #[inline]
    fn add(&mut self, key: Key, tables: &Tables, change: impl FnOnce(&mut Total)) {
        let wanted = |filter: &ProcessFilter| filter.matches(tables.thread(key.0).process, tables);
        if self.process.as_ref().is_none_or(wanted) {
            change(self.totals.entry(key).or_default());
        }
    }

    /// Everything, in an order that does not change; threads that are still blocked count until the end.
    pub(super) fn finish(&mut self, tables: &Tables) -> Vec<(Key, Total)> {
        for (thread, (since, stack)) in std::mem::take(&mut self.blocked) {
            let spent = self.last.0.saturating_sub(since.0);
            self.add((thread, stack), tables, |total| total.off_cpu_ns = total.off_cpu_ns.saturating_add(spent));
        }
        let mut list: Vec<(Key, Total)> = self.totals.drain().collect();
        list.sort_unstable_by_key(|(key, _)| *key);
        list
    }
}

/// Whether a thread waits for something, and is not only pushed aside or gone.
fn blocks(off_cpu: &OffCpu) -> bool {
    !off_cpu.preempted && !matches!(off_cpu.state, SleepState::Runnable | SleepState::Dead | SleepState::Zombie)
}
