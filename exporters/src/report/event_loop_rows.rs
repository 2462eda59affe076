//! Event loops and the longest times that they did not come back, as rows.

use super::data::{
    EventLoopRow, EventLoopsReport, StretchEndKind, StretchFunctionRow, StretchRow,
    StretchSleepRow, Table, Waiter,
};
use super::longest::Longest;
use super::loop_watch::{LoopWatch, StretchSleep, functions, sleeps, wait_name};
use super::row_maker::{RowMaker, WaitSpan};
use super::thread_accounts::ThreadAccounts;
use crate::event_loops::{LoopLimit, LoopSummary, Stretch, StretchEnd};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BTreeMap;
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

    #[inline]
    pub(super) fn event(
        &mut self,
        time: Time,
        event: &Event,
        accounts: &mut ThreadAccounts,
        tables: &Tables,
    ) {
        if self.watch.event(time, event, tables) {
            for stretch in self.watch.take() {
                self.add(stretch, accounts, tables);
            }
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
        let mut loops = BTreeMap::<ThreadId, LoopSummary>::new();
        for found in self.watch.loops().filter(|found| accounts[found.thread].chosen) {
            // A thread that was one loop, and another after an exec.
            let before = loops.remove(&found.thread);
            loops.insert(found.thread, before.map_or(found, |before| before.and(found)));
        }
        let rows = loops.into_values().map(|found| {
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
                seen_awake: found.seen_awake,
                away_ns: found.away,
                over_limit: over.count,
                unsure: found.unsure,
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
    let (activity, length) = (&stretch.activity, stretch.length());
    let span = WaitSpan { waited: length, since: stretch.since, thread: stretch.thread };
    let Waiter { tid, thread, pid, process, at_ns, .. } = maker.waiter(span);
    let known = activity.on_cpu + activity.waiting + activity.asleep();
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
        may_have_returned: stretch.may_have_returned,
        end: match stretch.end {
            StretchEnd::Returned => StretchEndKind::Returned,
            StretchEnd::Unknown => StretchEndKind::RecordsMissing,
            StretchEnd::ThreadEnded => StretchEndKind::ThreadEnded,
            StretchEnd::Recording => StretchEndKind::RecordingEnded,
        },
        on_cpu_ns: activity.on_cpu,
        waiting_ns: activity.waiting,
        blocked_ns: activity.asleep(),
        unknown_ns: length.saturating_sub(known),
        samples: activity.samples(),
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
