//! How long locks were waited for and held.

use super::capped::Capped;
use super::data::{HolderRow, LockRow, LockWaitRow, Table};
use super::longest::Longest;
use super::row_maker::{RowMaker, WaitSpan};
use crate::locks::{LockTransition, Locks};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use syscollect_model::{
    LocationId, LockEvent, LockId, ProcessId, StringId, Tables, ThreadId, Time,
};

/// Locks that are told apart.
const MAX_LOCKS: usize = 1 << 14;
/// Holders of a lock that are told.
const HOLDERS: usize = 3;
/// Pairs of a lock and a thread that held it.
const MAX_HOLDERS: usize = 1 << 16;

/// Locks of one name, made at one place, are one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct LockKey {
    pub(super) process: ProcessId,
    pub(super) name: StringId,
    pub(super) location: Option<LocationId>,
}

/// How often, how long in all, how long at most; nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DurationTotals {
    pub(super) count: u64,
    pub(super) total: u64,
    pub(super) longest: u64,
}

impl DurationTotals {
    fn add(&mut self, nanoseconds: u64) {
        self.count += 1;
        self.total = self.total.saturating_add(nanoseconds);
        self.longest = self.longest.max(nanoseconds);
    }
}

/// Locks of one row.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LockTotals {
    pub(super) waits: DurationTotals,
    pub(super) holds: DurationTotals,
    /// Waits that began while another thread held the lock.
    pub(super) contended: u64,
    /// Waits that ended without the lock.
    pub(super) given_up: u64,
}

/// A thread waited for a lock.
#[derive(Clone, Copy, Debug)]
pub(super) struct LockWait {
    pub(super) lock: LockId,
    pub(super) thread: ThreadId,
    /// Who held it when the wait began.
    pub(super) holder: Option<ThreadId>,
    pub(super) obtained: bool,
    /// It goes on when the session ends.
    pub(super) goes_on: bool,
}

/// All locks.
#[derive(Debug)]
pub(super) struct LockAccounts {
    locks: Locks,
    books: LockCounts,
    /// At the end, who holds a lock that others wait for, and how many do.
    pub(super) holding_up: FxHashMap<ThreadId, usize>,
}

/// What is counted of them.
#[derive(Debug)]
struct LockCounts {
    rows: Capped<LockKey, LockTotals>,
    holders: Capped<(LockKey, ThreadId), DurationTotals>,
    /// Of each thread that waits, who held the lock when it began.
    awaited: FxHashMap<ThreadId, ThreadId>,
    longest: Longest<LockWait>,
    /// The session has ended: what ends now goes on.
    is_over: bool,
}

impl LockAccounts {
    /// Books that keep so many of the longest waits.
    pub(super) fn new(waits: usize) -> Self {
        let books = LockCounts {
            rows: Capped::new(MAX_LOCKS),
            holders: Capped::new(MAX_HOLDERS),
            awaited: FxHashMap::default(),
            longest: Longest::new(waits),
            is_over: false,
        };
        Self { locks: Locks::default(), books, holding_up: FxHashMap::default() }
    }

    pub(super) fn event(&mut self, now: u64, event: &LockEvent, tables: &Tables) {
        let steps = self.locks.event(Time(now), event).iter();
        steps.for_each(|step| self.books.add(now, step, tables));
    }

    /// The session ends: waits and holds that go on count up to there.
    pub(super) fn finish(&mut self, now: u64, tables: &Tables) {
        self.books.is_over = true;
        self.holding_up = self.locks.holding_up();
        self.locks.end().iter().for_each(|step| self.books.add(now, step, tables));
    }

    pub(super) fn thread_ended(&mut self, now: u64, thread: ThreadId, tables: &Tables) {
        self.locks.thread_ended(thread).iter().for_each(|step| self.books.add(now, step, tables));
    }

    pub(super) fn rows(&self, maker: RowMaker<'_>) -> Table<LockRow> {
        let mut holders: FxHashMap<LockKey, Vec<HolderRow>> = FxHashMap::default();
        for ((key, thread), spans) in self.books.holders.iter() {
            holders.entry(*key).or_default().push(HolderRow {
                tid: maker.tables.thread(*thread).tid,
                name: maker.tables.thread_name(*thread).into(),
                holds: spans.count,
                held_ns: spans.total,
                longest_hold_ns: spans.longest,
            });
        }
        let rows = self.books.rows.iter().map(|(key, totals)| {
            let process = maker.process(key.process);
            let LockTotals { waits, holds, contended, given_up } = *totals;
            let mut holders = holders.remove(key).unwrap_or_default();
            holders.sort_by_cached_key(|row| (Reverse(row.held_ns), row.tid, row.name.clone()));
            holders.truncate(HOLDERS);
            LockRow {
                name: maker.string(key.name),
                pid: process.pid,
                process: process.name,
                location: maker.location(key.location),
                waits: waits.count,
                contended,
                given_up,
                wait_ns: waits.total,
                longest_wait_ns: waits.longest,
                holds: holds.count,
                held_ns: holds.total,
                longest_hold_ns: holds.longest,
                holders,
            }
        });
        maker.table(rows.collect(), |row| {
            (
                Reverse((row.wait_ns, row.held_ns, row.holds)),
                row.name.clone(),
                row.pid,
                row.location.clone(),
            )
        })
    }

    /// As many of the longest waits as were asked for.
    pub(super) fn longest_waits(&self, maker: RowMaker<'_>) -> Table<LockWaitRow> {
        let longest = &self.books.longest;
        let rows = longest.sorted().into_iter().map(|(waited, since, wait)| LockWaitRow {
            waiter: maker.waiter(WaitSpan { waited, since, thread: wait.thread }),
            lock: maker.string(maker.tables.lock(wait.lock).name),
            holder: wait.holder.map(|holder| maker.thread_label(holder)),
            obtained: wait.obtained,
            goes_on: wait.goes_on,
        });
        Table { total: longest.count, rows: rows.collect() }
    }
}

impl LockCounts {
    fn add(&mut self, now: u64, step: &LockTransition, tables: &Tables) {
        match *step {
            LockTransition::WaitBegins { lock, thread, holder } => {
                self.rows.row(lock_key(lock, tables)).contended += u64::from(holder.is_some());
                if let Some(holder) = holder {
                    self.awaited.insert(thread, holder);
                }
            }
            LockTransition::WaitEnds { lock, thread, since, obtained } => {
                let waited = now.saturating_sub(since.0);
                let row = self.rows.row(lock_key(lock, tables));
                row.waits.add(waited);
                let goes_on = self.is_over;
                row.given_up += u64::from(!obtained && !goes_on);
                let holder = self.awaited.remove(&thread);
                let wait = || LockWait { lock, thread, holder, obtained, goes_on };
                self.longest.add(waited, since.0, wait);
            }
            LockTransition::HoldBegins { .. } => {}
            LockTransition::HoldEnds { lock, thread, since, .. } => {
                let hold = now.saturating_sub(since.0);
                self.rows.row(lock_key(lock, tables)).holds.add(hold);
                self.holders.row((lock_key(lock, tables), thread)).add(hold);
            }
        }
    }
}

fn lock_key(lock: LockId, tables: &Tables) -> LockKey {
    let row = tables.lock(lock);
    LockKey { process: row.process, name: row.name, location: row.location }
}
