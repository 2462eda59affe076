//! The longest waits of threads, and what their CPUs ran meanwhile.

use super::Waker;
use super::account::Wait;
use super::data::WaitClass;
use super::durations::sum_ns;
use super::longest::Longest;
use super::off_cpu::Reason;
use super::wait_for::{SeenWaits, WaitFor};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::VecDeque;
use syscollect_model::{CpuId, OffCpu, ProcessId, StackId, Tables, ThreadId};

/// Runs that are remembered of each CPU.
const RUNS: usize = 2048;
/// Threads that are named of those that ran meanwhile.
const NAMED: usize = 3;

/// Who made a thread runnable, and how.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Woken {
    pub(super) waker: Waker,
    pub(super) cpu: CpuId,
    pub(super) stack: Option<StackId>,
}

/// A thread waited for a CPU.
#[derive(Clone, Debug)]
pub(super) struct CpuWait {
    pub(super) thread: ThreadId,
    /// Nanoseconds of it in which records are missing.
    pub(super) unknown: u64,
    pub(super) began: Wait,
    pub(super) woken: Option<Woken>,
    /// Where it ran then.
    pub(super) cpu: CpuId,
    pub(super) meanwhile: Meanwhile,
}

/// A thread was blocked.
#[derive(Clone, Debug)]
pub(super) struct BlockedWait {
    pub(super) thread: ThreadId,
    /// Nanoseconds between its beginning and its end in which records are missing.
    pub(super) unknown: u64,
    pub(super) off_cpu: OffCpu,
    pub(super) waits_for: WaitFor,
    pub(super) woken: Option<Woken>,
}

/// What a CPU ran in a time. Nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Meanwhile {
    /// The threads that ran longest.
    pub(super) most: Vec<(ThreadId, u64)>,
    /// How many more ran, and how long.
    pub(super) others: (usize, u64),
    /// Of the time that is remembered: how long it is not known what ran.
    pub(super) unknown: u64,
    /// The CPU ran more than is remembered of it.
    pub(super) is_part: bool,
}

/// The longest waits of each kind; those for locks and fences are kept with these.
#[derive(Debug)]
pub(super) struct Worst {
    pub(super) for_cpu: Longest<CpuWait>,
    pub(super) blocked: Longest<BlockedWait>,
    /// How many times threads that had nothing to do are not among the blocked ones.
    pub(super) idle_left_out: usize,
    /// They are.
    with_idle: bool,
    seen: SeenWaits,
}

impl Worst {
    pub(super) fn new(kept: usize, with_idle: bool) -> Self {
        Self {
            for_cpu: Longest::new(kept),
            blocked: Longest::new(kept),
            idle_left_out: 0,
            with_idle,
            seen: SeenWaits::default(),
        }
    }

    /// As many can be kept, and none is.
    pub(super) fn emptied(&mut self) -> Self {
        Self {
            for_cpu: self.for_cpu.emptied(),
            blocked: self.blocked.emptied(),
            idle_left_out: 0,
            with_idle: self.with_idle,
            seen: std::mem::take(&mut self.seen),
        }
    }

    /// What a thread waited for that was blocked; `None` where that is left out: it was idle.
    pub(super) fn waited_for(
        &mut self,
        process: ProcessId,
        off_cpu: &OffCpu,
        tables: &Tables,
    ) -> Option<WaitFor> {
        let wait = self.seen.of(process, off_cpu.stack, Reason::of(off_cpu), tables);
        let is_left_out = wait.class() == WaitClass::Idle && !self.with_idle;
        self.idle_left_out += usize::from(is_left_out);
        (!is_left_out).then_some(wait)
    }
}

/// What a CPU ran last: threads with the beginnings and ends of their runs.
#[derive(Debug, Default)]
pub(super) struct Runs {
    runs: VecDeque<(ThreadId, u64, u64)>,
}

impl Runs {
    pub(super) fn add(&mut self, thread: ThreadId, since: u64, until: u64) {
        if self.runs.len() >= RUNS {
            self.runs.pop_front();
        }
        self.runs.push_back((thread, since, until));
    }

    /// What ran between two times.
    pub(super) fn between(&self, since: u64, until: u64) -> Meanwhile {
        let mut times: FxHashMap<ThreadId, u64> = FxHashMap::default();
        let mut reached = false;
        for (thread, from, to) in self.runs.iter().rev() {
            if *to <= since {
                reached = true;
                break;
            }
            let ran = (*to).min(until).saturating_sub((*from).max(since));
            if ran > 0 {
                *times.entry(*thread).or_default() += ran;
            }
        }
        let first = self.runs.front().map_or(0, |(_, from, _)| *from);
        let is_part = !reached && self.runs.len() >= RUNS && first > since;
        let remembered = until.saturating_sub(if is_part { first } else { since });
        let unknown = remembered.saturating_sub(sum_ns(times.values().copied()));
        let mut most: Vec<_> = times.into_iter().collect();
        most.sort_unstable_by_key(|(thread, ran)| (Reverse(*ran), *thread));
        let rest = most.split_off(most.len().min(NAMED));
        let others = (rest.len(), sum_ns(rest.iter().map(|(_, ran)| *ran)));
        Meanwhile { most, others, unknown, is_part }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ran_in_a_time_is_the_part_of_each_run_that_lies_in_it() {
        let mut runs = Runs::default();
        for (thread, since, until) in
            [(1, 0, 10), (2, 10, 30), (1, 30, 40), (3, 40, 41), (4, 41, 43), (0, 50, 60)]
        {
            runs.add(ThreadId(thread), since, until);
        }
        let expected = Meanwhile {
            most: vec![(ThreadId(2), 20), (ThreadId(1), 15), (ThreadId(0), 2)],
            others: (2, 3),
            unknown: 7,
            is_part: false,
        };
        assert_eq!(runs.between(5, 52), expected);
        let nobody_knows = Meanwhile { unknown: 7, ..Meanwhile::default() };
        assert_eq!(runs.between(43, 50), nobody_knows);
    }

    #[test]
    fn of_a_time_that_is_not_remembered_whole_that_is_said() {
        let mut runs = Runs::default();
        (0..RUNS as u64 + 5)
            .for_each(|number| runs.add(ThreadId(1), number * 10, number * 10 + 10));
        let part = runs.between(0, 100_000);
        assert!(part.is_part && runs.runs.len() == RUNS);
        let end = (RUNS as u64 + 5) * 10;
        assert_eq!(part.unknown, 100_000 - end, "what is not remembered may have been known");
        assert!(!runs.between(60, 100_000).is_part);
    }
}
