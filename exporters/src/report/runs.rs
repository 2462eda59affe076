//! What a CPU ran last, as far back as there is memory for.

use super::durations::sum_ns;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::VecDeque;
use syscollect_model::ThreadId;

/// Runs that are remembered of each CPU, one by one,
const RUNS: usize = 2048;
/// and before them spans of so many, by thread: at 100,000 switches a second some five seconds.
const RUNS_OF_SPAN: usize = 512;
const SPANS: usize = 1024;
/// Threads of a span: those that ran longest.
const THREADS_OF_SPAN: usize = 16;
/// Threads that are named of those that ran meanwhile.
const NAMED: usize = 3;

/// What a CPU ran in a time. Nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CpuMeanwhile {
    /// The threads that ran longest.
    pub(super) most: Vec<(ThreadId, u64)>,
    /// How many more ran, and how long.
    pub(super) others: (usize, u64),
    /// Of the time that is remembered: how long it is not known what ran.
    pub(super) unknown: u64,
    /// The CPU ran more than is remembered of it.
    pub(super) is_part: bool,
}

/// What a CPU ran last.
#[derive(Debug, Default)]
pub(super) struct Runs {
    runs: VecDeque<Run>,
    /// What was before them.
    spans: VecDeque<RunSpan>,
    /// The span that grows.
    newest: RunSpan,
    /// There was more before.
    is_part: bool,
}

/// A thread ran, from its switch to its next one. Nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Run {
    thread: ThreadId,
    since: u64,
    until: u64,
}

/// Runs that followed one another, summed up by thread. Nanoseconds.
#[derive(Debug, Default)]
struct RunSpan {
    since: u64,
    until: u64,
    runs: usize,
    times: FxHashMap<ThreadId, u64>,
    /// Of threads that are not told apart.
    others: u64,
}

impl RunSpan {
    fn add(&mut self, Run { thread, since, until }: Run) {
        if self.runs == 0 {
            self.since = since;
        }
        self.runs += 1;
        self.until = until;
        *self.times.entry(thread).or_default() += until.saturating_sub(since);
    }

    /// Keeps the threads that ran longest.
    fn finished(self) -> Self {
        let mut all: Vec<_> = self.times.into_iter().collect();
        all.sort_unstable_by_key(|(thread, ran)| (Reverse(*ran), *thread));
        let rest = all.split_off(all.len().min(THREADS_OF_SPAN));
        let others = sum_ns(rest.iter().map(|(_, ran)| *ran));
        Self { times: all.into_iter().collect(), others, ..self }
    }
}

/// What ran in a time, while it is gone through from its end.
#[derive(Debug)]
struct RunTimes {
    since: u64,
    times: FxHashMap<ThreadId, u64>,
    others: u64,
    /// From when on it is known.
    known_from: u64,
}

impl RunTimes {
    /// Adds a span, or nothing of one that began before; whether the beginning of the time is
    /// reached.
    fn add(&mut self, span: &RunSpan) -> bool {
        if span.runs == 0 {
            return false;
        }
        if span.until <= self.since {
            self.known_from = self.since;
            return true;
        }
        if span.since < self.since {
            return true;
        }
        for (thread, ran) in &span.times {
            *self.times.entry(*thread).or_default() += ran;
        }
        self.others += span.others;
        self.known_from = span.since;
        span.since == self.since
    }
}

impl Runs {
    pub(super) fn add(&mut self, thread: ThreadId, since: u64, until: u64) {
        if self.runs.len() >= RUNS
            && let Some(oldest) = self.runs.pop_front()
        {
            self.newest.add(oldest);
        }
        if self.newest.runs >= RUNS_OF_SPAN {
            let span = std::mem::take(&mut self.newest);
            self.spans.push_back(span.finished());
        }
        if self.spans.len() > SPANS {
            self.is_part |= self.spans.pop_front().is_some();
        }
        self.runs.push_back(Run { thread, since, until });
    }

    /// What ran between two times.
    pub(super) fn between(&self, since: u64, until: u64) -> CpuMeanwhile {
        let mut sum = RunTimes { since, times: FxHashMap::default(), others: 0, known_from: until };
        let reached = self.add_runs_until(until, &mut sum)
            || self.spans_from_the_last().any(|span| sum.add(span));
        // Nothing is known to be missing before the first that ever ran.
        if !reached && !self.is_part {
            sum.known_from = since;
        }
        let known: u64 = sum_ns(sum.times.values().copied().chain([sum.others]));
        let unknown = until.saturating_sub(sum.known_from).saturating_sub(known);
        let mut most: Vec<_> = sum.times.into_iter().collect();
        most.sort_unstable_by_key(|(thread, ran)| (Reverse(*ran), *thread));
        let rest = most.split_off(most.len().min(NAMED));
        let others = sum.others + sum_ns(rest.iter().map(|(_, ran)| *ran));
        CpuMeanwhile {
            most,
            others: (rest.len(), others),
            unknown,
            is_part: sum.known_from > since,
        }
    }

    /// Adds the runs that are remembered one by one; whether the beginning of the time is reached.
    fn add_runs_until(&self, until: u64, sum: &mut RunTimes) -> bool {
        for Run { thread, since, until: end } in self.runs.iter().rev() {
            if *end <= sum.since {
                sum.known_from = sum.since;
                return true;
            }
            let ran = (*end).min(until).saturating_sub((*since).max(sum.since));
            if ran > 0 {
                *sum.times.entry(*thread).or_default() += ran;
            }
            sum.known_from = (*since).max(sum.since).min(until);
        }
        sum.known_from == sum.since
    }

    fn spans_from_the_last(&self) -> impl Iterator<Item = &RunSpan> {
        std::iter::once(&self.newest).chain(self.spans.iter().rev())
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
        let expected = CpuMeanwhile {
            most: vec![(ThreadId(2), 20), (ThreadId(1), 15), (ThreadId(0), 2)],
            others: (2, 3),
            unknown: 7,
            is_part: false,
        };
        assert_eq!(runs.between(5, 52), expected);
        let nobody_knows = CpuMeanwhile { unknown: 7, ..CpuMeanwhile::default() };
        assert_eq!(runs.between(43, 50), nobody_knows);
    }

    /// Runs of 10 ns without a pause, of threads that take turns.
    fn turns(count: usize, threads: u32) -> Runs {
        let mut runs = Runs::default();
        for number in 0..count as u64 {
            runs.add(ThreadId(number as u32 % threads), number * 10, number * 10 + 10);
        }
        runs
    }

    #[test]
    fn of_a_long_time_ago_it_is_known_who_ran_and_not_when() {
        let count = RUNS + 3 * RUNS_OF_SPAN;
        let (runs, end) = (turns(count, 4), count as u64 * 10);
        let all = runs.between(0, end);
        assert_eq!(all.most[0], (ThreadId(0), end / 4));
        assert_eq!(all.others, (1, end / 4));
        assert!(!all.is_part && all.unknown == 0);
        // A span that began before is left out, and that is said.
        let within = runs.between(5, end);
        let left_out = RUNS_OF_SPAN as u64 * 10;
        assert_eq!(within.most[0].1, (end - left_out) / 4);
        assert!(within.is_part && within.unknown == 0);
        assert!(!runs.between(left_out, end).is_part);
    }

    #[test]
    fn of_many_threads_a_span_tells_those_that_ran_longest() {
        let count = RUNS + RUNS_OF_SPAN + 1;
        let (runs, end) = (turns(count, 400), count as u64 * 10);
        let all = runs.between(0, end);
        let named = sum_ns(all.most.iter().map(|(_, ran)| *ran));
        assert_eq!(named + all.others.1, end);
        assert!(!all.is_part && all.unknown == 0);
    }

    #[test]
    fn of_a_time_that_is_not_remembered_whole_that_is_said() {
        let count = RUNS + (SPANS + 2) * RUNS_OF_SPAN;
        let (runs, end) = (turns(count, 1), count as u64 * 10);
        assert_eq!((runs.runs.len(), runs.spans.len()), (RUNS, SPANS));
        let part = runs.between(0, end + 100);
        assert!(part.is_part);
        assert_eq!(part.unknown, 100, "what is not remembered may have been known");
        assert!(!runs.between(end - 5, end + 100).is_part);
        let before_all = turns(RUNS, 1).between(0, 100_000);
        assert!(!before_all.is_part && before_all.unknown == 100_000 - RUNS as u64 * 10);
    }
}
