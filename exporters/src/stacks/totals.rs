//! How often each thread was seen in each stack, and for how long off the CPU.

use crate::ProcessFilter;
use crate::off_cpu::{Blocked, Stay};
use rustc_hash::FxHashMap;
use syscollect_model::{Event, StackId, Tables, ThreadId, Time};

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
    blocked: Blocked,
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
            Event::Sample(sample) => {
                self.add((sample.thread, sample.stack), tables, |total| total.samples += 1);
            }
            Event::Switch(switch) => {
                if let Some(stay) = self.blocked.switch(time, switch) {
                    self.stay(stay, tables);
                }
            }
            Event::Loss(loss) => {
                if let Some(gap) = loss.scheduling_gap() {
                    self.blocked.gap(time, gap);
                }
            }
            Event::RecordingEnd(machine) => {
                let is_there = |thread| tables.machine_of(thread) == *machine;
                for stay in self.blocked.finish(time, is_there) {
                    self.stay(stay, tables);
                }
            }
            Event::Wakeup(wakeup) => {
                if let (Some(waker), Some(_)) = (wakeup.waker, wakeup.stack) {
                    self.add((waker, wakeup.stack), tables, |total| total.wakeups += 1);
                }
            }
            _ => {}
        }
    }

    #[inline]
    fn stay(&mut self, stay: Stay, tables: &Tables) {
        let add =
            |total: &mut Total| total.off_cpu_ns = total.off_cpu_ns.saturating_add(stay.blocked_ns);
        self.add((stay.thread, stay.stack), tables, add);
    }

    #[inline]
    fn add(&mut self, key: Key, tables: &Tables, change: impl FnOnce(&mut Total)) {
        let wanted = |filter: &ProcessFilter| filter.matches(tables.thread(key.0).process, tables);
        if self.process.as_ref().is_none_or(wanted) {
            change(self.totals.entry(key).or_default());
        }
    }

    /// Everything, in an order that does not change; threads that are still blocked count until the
    /// end.
    pub(super) fn finish(&mut self, tables: &Tables) -> Vec<(Key, Total)> {
        for stay in self.blocked.finish(self.last, |_| true) {
            self.stay(stay, tables);
        }
        let mut list: Vec<(Key, Total)> = self.totals.drain().collect();
        list.sort_unstable_by_key(|(key, _)| *key);
        list
    }
}
