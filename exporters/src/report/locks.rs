//! How long locks were waited for and held.

use super::capped::Capped;
use crate::locks::{Locks, Step};
use syscollect_model::{LocationId, LockEvent, LockId, ProcessId, StringId, Tables, ThreadId, Time};

/// Locks that are told apart.
const MAX_LOCKS: usize = 1 << 14;
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
pub(super) struct Spans {
    pub(super) count: u64,
    pub(super) total: u64,
    pub(super) longest: u64,
}

impl Spans {
    fn add(&mut self, nanoseconds: u64) {
        self.count += 1;
        self.total = self.total.saturating_add(nanoseconds);
        self.longest = self.longest.max(nanoseconds);
    }
}

/// Locks of one row.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LockTotals {
    pub(super) waits: Spans,
    pub(super) holds: Spans,
    /// Waits that began while another thread held the lock.
    pub(super) contended: u64,
    /// Waits that ended without the lock.
    pub(super) given_up: u64,
}

/// All locks.
#[derive(Debug)]
pub(super) struct LockBooks {
    locks: Locks,
    pub(super) rows: Capped<LockKey, LockTotals>,
    pub(super) holders: Capped<(LockKey, ThreadId), Spans>,
}

impl Default for LockBooks {
    fn default() -> Self {
        Self { locks: Locks::default(), rows: Capped::new(MAX_LOCKS), holders: Capped::new(MAX_HOLDERS) }
    }
}

impl LockBooks {
    pub(super) fn event(&mut self, now: u64, event: &LockEvent, tables: &Tables) {
        for step in self.locks.event(Time(now), event) {
            book(&mut self.rows, &mut self.holders, now, step, tables);
        }
    }

    pub(super) fn thread_ended(&mut self, now: u64, thread: ThreadId, tables: &Tables) {
        for step in self.locks.thread_ended(thread) {
            book(&mut self.rows, &mut self.holders, now, step, tables);
        }
    }
}

fn book(
    rows: &mut Capped<LockKey, LockTotals>,
    holders: &mut Capped<(LockKey, ThreadId), Spans>,
    now: u64,
    step: &Step,
    tables: &Tables,
) {
    let key = |lock: LockId| {
        let row = tables.lock(lock);
        LockKey { process: row.process, name: row.name, location: row.location }
    };
    match *step {
        Step::WaitBegins { lock, holder, .. } => rows.row(key(lock)).contended += u64::from(holder.is_some()),
        Step::WaitEnds { lock, since, obtained, .. } => {
            let row = rows.row(key(lock));
            row.waits.add(now.saturating_sub(since.0));
            row.given_up += u64::from(!obtained);
        }
        Step::HoldBegins { .. } => {}
        Step::HoldEnds { lock, thread, since, .. } => {
            let held = now.saturating_sub(since.0);
            rows.row(key(lock)).holds.add(held);
            holders.row((key(lock), thread)).add(held);
        }
    }
}
