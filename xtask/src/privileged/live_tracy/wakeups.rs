//! Wakeups that a viewer was told, beside those of the same recorder's snapshot.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};
use syscollect_tests::tracy_viewer::ReceivedTimeline;

use super::span::{KnownSpan, same};

/// A thread is made runnable by a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Wakeup {
    time: i64,
    thread: u32,
    cpu: u8,
}

/// Of a thread that is asleep the first wakeup is told, and of one that runs each: it is on its way
/// to sleep.
#[derive(Debug, Default)]
pub(super) struct Wakeups {
    told: Vec<Wakeup>,
    /// Who was woken and has not run since.
    woken: BTreeSet<u32>,
    /// Who runs, by CPU.
    running: BTreeMap<u8, u32>,
    /// When who was woken, and when who came to a CPU.
    all: BTreeMap<u32, Vec<i64>>,
    runs: BTreeMap<u32, Vec<i64>>,
}

impl Wakeups {
    /// A CPU wakes a thread.
    pub(super) fn woken(&mut self, time: i64, thread: u32, cpu: u8) {
        self.all.entry(thread).or_default().push(time);
        let runs = self.running.values().any(|running| *running == thread);
        if self.woken.insert(thread) || runs {
            self.told.push(Wakeup { time, thread, cpu });
        }
    }

    /// A thread comes to a CPU.
    pub(super) fn runs(&mut self, time: i64, thread: u32, cpu: u8) {
        self.runs.entry(thread).or_default().push(time);
        self.running.retain(|_, running| *running != thread);
        self.running.insert(cpu, thread);
        self.woken.remove(&thread);
    }

    /// What a viewer was told is what is here; how many.
    pub(super) fn compare(&self, seen: &ReceivedTimeline, span: KnownSpan) -> Result<usize> {
        let at_first = seen.wakeups.iter().filter(|(time, ..)| *time <= span.joined);
        for (_, thread, _) in at_first {
            let last = |times: &BTreeMap<u32, Vec<i64>>| {
                let times = times.get(thread)?.iter();
                times.take_while(|time| **time <= span.joined).last().copied()
            };
            let (woken, ran) = (last(&self.all), last(&self.runs));
            ensure!(
                woken > ran,
                "thread {thread} was told as woken, and ran since: {woken:?} {ran:?}"
            );
        }
        // Who was woken when the viewer came is not known before it has run.
        let mut known = BTreeMap::new();
        for switch in seen.switches.iter().filter(|switch| span.has(switch.time)) {
            known.entry(switch.new).or_insert(switch.time);
        }
        let is_known = |wakeup: &Wakeup| {
            let since = known.get(&wakeup.thread);
            span.has(wakeup.time) && since.is_some_and(|since| *since < wakeup.time)
        };
        let told = seen.wakeups.iter();
        let told =
            told.map(|(time, thread, cpu)| Wakeup { time: *time, thread: *thread, cpu: *cpu });
        let in_file = self.told.iter().copied().filter(is_known);
        same("wakeup", told.filter(is_known).collect(), in_file.collect())
    }
}
