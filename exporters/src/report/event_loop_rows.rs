//! Event loops and the longest times that they did not come back, as rows.

use super::data::{
    EventLoopRow, EventLoopsReport, StretchEndKind, StretchFunctionRow, StretchRow,
    StretchSleepRow, Table, Waiter,
};
use super::longest::Longest;
use super::loop_watch::{LoopWatch, StretchSleep, functions, sleeps, wait_name};
use super::row_maker::{RowMaker, WaitSpan};
use super::thread_accounts::ThreadAccounts;
use crate::event_loops::{LoopLimit, Stretch, StretchEnd};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use syscollect_model::{Event, Tables, ThreadId, Time};

/// Functions that are named of one stretch.
const MOST_FUNCTIONS: usize = 3;

/// Stretches over the limit of one thread.
#[derive(Clone, Copy, Debug, Default)]
struct OverLimit {
    count: u64,
    sum: u64,
    longest: u64,
    longest_since: u64,
}

/// Loops and their stretches.
#[derive(Debug)]
pub(super) struct LoopAccounts {
    watch: LoopWatch,
    over: FxHashMap<ThreadId, OverLimit>,
    longest: Longest<Stretch<StretchSleep>>,
}

impl LoopAccounts {
    /// So many of the longest stretches are told one by one.
    pub(super) fn new(limit: LoopLimit, kept: usize) -> Self {
        Self {
            watch: LoopWatch::new(limit),
            over: FxHashMap::default(),
            longest: Longest::new(kept),
        }
    }

    pub(super) fn event(
        &mut self,
        time: Time,
        event: &Event,
        accounts: &mut ThreadAccounts,
        tables: &Tables,
    ) {
        for stretch in self.watch.event(time, event, tables) {
            self.add(stretch, accounts, tables);
        }
    }

    /// What came until now is not told of.
    pub(super) fn forget(&mut self) {
        self.watch.forget();
        self.over.clear();
        self.longest = self.longest.emptied();
    }

    pub(super) fn finish(&mut self, now: u64, accounts: &mut ThreadAccounts, tables: &Tables) {
        for stretch in self.watch.finish(Time(now)) {
            self.add(stretch, accounts, tables);
        }
    }

    fn add(
        &mut self,
        stretch: Stretch<StretchSleep>,
        accounts: &mut ThreadAccounts,
        tables: &Tables,
    ) {
        if !accounts.is_chosen(stretch.thread, tables) {
            return;
        }
        let length = stretch.length();
        let over = self.over.entry(stretch.thread).or_default();
        over.count += 1;
        over.sum = over.sum.saturating_add(length);
        if length > over.longest {
            (over.longest, over.longest_since) = (length, stretch.since);
        }
        self.longest.add(length, stretch.since, || stretch);
    }

    pub(super) fn report(
        &self,
        accounts: &ThreadAccounts,
        maker: RowMaker<'_>,
    ) -> EventLoopsReport {
        let loops = self.watch.loops().filter(|found| accounts[found.thread].chosen);
        let rows = loops.map(|found| {
            let over = self.over.get(&found.thread).copied().unwrap_or_default();
            let span = WaitSpan { waited: 0, since: over.longest_since, thread: found.thread };
            let Waiter { tid, thread, pid, process, at_ns, .. } = maker.waiter(span);
            EventLoopRow {
                tid,
                thread,
                pid,
                process,
                waits_in: wait_name(found.wait).to_owned(),
                returns: found.returns,
                away_ns: found.away,
                over_limit: over.count,
                over_limit_ns: over.sum,
                longest_ns: over.longest,
                longest_at_ns: (over.count > 0).then_some(at_ns),
            }
        });
        let loops = maker.table(rows.collect(), |row: &EventLoopRow| {
            (Reverse((row.longest_ns, row.over_limit, row.returns)), row.tid)
        });
        let stretches = self.longest.sorted().into_iter().map(|(.., it)| row(it, maker)).collect();
        EventLoopsReport {
            limit_ns: self.watch.limit(),
            left_out: self.watch.left_out(),
            loops,
            stretches: Table { total: self.longest.count, rows: stretches },
        }
    }
}

fn row(stretch: &Stretch<StretchSleep>, maker: RowMaker<'_>) -> StretchRow {
    let (spent, length) = (&stretch.spent, stretch.length());
    let span = WaitSpan { waited: length, since: stretch.since, thread: stretch.thread };
    let Waiter { tid, thread, pid, process, at_ns, .. } = maker.waiter(span);
    let known = spent.on_cpu + spent.waiting + spent.asleep();
    let sampled = spent.stacks.iter().map(|stack| stack.count).sum::<u64>();
    let hit = functions(stretch, maker.tables).into_iter().take(MOST_FUNCTIONS);
    StretchRow {
        length_ns: length,
        at_ns,
        tid,
        thread,
        pid,
        process,
        waits_in: wait_name(stretch.wait).to_owned(),
        may_be_longer: stretch.may_be_longer,
        end: match stretch.end {
            StretchEnd::Returned => StretchEndKind::Returned,
            StretchEnd::Unknown => StretchEndKind::RecordsMissing,
            StretchEnd::Recording => StretchEndKind::RecordingEnded,
        },
        on_cpu_ns: spent.on_cpu,
        waiting_ns: spent.waiting,
        blocked_ns: spent.asleep(),
        unknown_ns: length.saturating_sub(known),
        samples: sampled + spent.other_samples,
        functions: hit
            .map(|hit| StretchFunctionRow { function: hit.name, samples: hit.samples })
            .collect(),
        blocked_in: sleeps(stretch, maker.tables)
            .into_iter()
            .map(|sleep| StretchSleepRow {
                blocked_ns: sleep.nanoseconds,
                what: sleep.text(),
                waits_for: sleep.waits_for.to_owned(),
                blocked_in: sleep.blocked_in,
            })
            .collect(),
    }
}
