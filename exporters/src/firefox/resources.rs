//! Locks and crashes as markers, memory as counters.

use super::counters::Counter;
use super::markers::{Cause, CrashData, Data, LockData, Marker, SignalExitData, Timing};
use super::slices::location_label;
use super::tables::{Category, Shared};
use crate::heap::{Heap, PoolKey};
use crate::locks::{LockTransition, Locks};
use std::collections::BTreeMap;
use syscollect_model::{
    Crash, LocationId, LockEvent, LockId, MemoryEvent, SignalExit, Tables, ThreadId, Time,
};

/// Between two values of a pool, nanoseconds; what comes in between is told by its highest value.
const MEMORY_STEP: u64 = 100_000;

/// What is held or waited for.
#[derive(Clone, Copy, Debug)]
struct LockUse {
    thread: ThreadId,
    since: u64,
    holder: Option<ThreadId>,
    shared: bool,
    location: Option<LocationId>,
}

/// Locks of all programs.
#[derive(Default)]
pub(super) struct LockMarkers {
    locks: Locks,
    waits: BTreeMap<(ThreadId, LockId), LockUse>,
    holds: BTreeMap<(LockId, usize), LockUse>,
}

impl LockMarkers {
    /// The markers of what ends with an event.
    pub(super) fn event(
        &mut self,
        time: u64,
        event: &LockEvent,
        shared: &mut Shared,
        tables: &Tables,
    ) -> Vec<(ThreadId, Marker)> {
        let transitions = self.locks.event(Time(time), event).to_vec();
        self.markers(&transitions, (time, event.location), shared, tables)
    }

    /// A thread has ended: it waits no more.
    pub(super) fn thread_ended(
        &mut self,
        time: u64,
        thread: ThreadId,
        shared: &mut Shared,
        tables: &Tables,
    ) -> Vec<(ThreadId, Marker)> {
        let transitions = self.locks.thread_ended(thread).to_vec();
        self.markers(&transitions, (time, None), shared, tables)
    }

    fn markers(
        &mut self,
        transitions: &[LockTransition],
        (time, location): (u64, Option<LocationId>),
        shared: &mut Shared,
        tables: &Tables,
    ) -> Vec<(ThreadId, Marker)> {
        let mut markers = Vec::new();
        for transition in transitions {
            match *transition {
                LockTransition::WaitBegins { lock, thread, holder } => {
                    self.waits.insert(
                        (thread, lock),
                        LockUse { thread, since: time, holder, shared: false, location },
                    );
                }
                LockTransition::HoldBegins { lock, thread, row, shared } => {
                    self.holds.insert(
                        (lock, row),
                        LockUse { thread, since: time, holder: None, shared, location },
                    );
                }
                LockTransition::WaitEnds { lock, thread, obtained, .. } => {
                    if let Some(open) = self.waits.remove(&(thread, lock)) {
                        let obtained = if obtained { "yes" } else { "no" };
                        let timing = Timing::Interval(open.since, time);
                        markers.push(marker(
                            "Lock wait",
                            (lock, open, Some(obtained)),
                            timing,
                            shared,
                            tables,
                        ));
                    }
                }
                LockTransition::HoldEnds { lock, row, .. } => {
                    if let Some(open) = self.holds.remove(&(lock, row)) {
                        let timing = Timing::Interval(open.since, time);
                        markers.push(marker(
                            "Lock held",
                            (lock, open, None),
                            timing,
                            shared,
                            tables,
                        ));
                    }
                }
            }
        }
        markers
    }

    /// The markers of what never ends.
    pub(super) fn finish(
        &mut self,
        shared: &mut Shared,
        tables: &Tables,
    ) -> Vec<(ThreadId, Marker)> {
        let waits = std::mem::take(&mut self.waits)
            .into_iter()
            .map(|((_, lock), open)| ("Lock wait", lock, open));
        let holds = std::mem::take(&mut self.holds)
            .into_iter()
            .map(|((lock, _), open)| ("Lock held", lock, open));
        waits
            .chain(holds)
            .map(|(name, lock, open)| {
                marker(name, (lock, open, None), Timing::Start(open.since), shared, tables)
            })
            .collect()
    }
}

fn marker(
    name: &str,
    (lock, open, obtained): (LockId, LockUse, Option<&'static str>),
    timing: Timing,
    shared: &mut Shared,
    tables: &Tables,
) -> (ThreadId, Marker) {
    let row = tables.lock(lock);
    let holder = open.holder.map(|id| {
        let thread = tables.thread(id);
        shared.string(&format!("{} ({})", tables.strings.get(thread.name), thread.tid))
    });
    let data = Data::Lock(LockData {
        lock: shared.string(tables.strings.get(row.name)),
        holder,
        obtained,
        shared: open.shared.then_some("yes"),
        place: open.location.or(row.location).map(|location| location_label(location, tables)),
    });
    let name = shared.string(name);
    (open.thread, Marker { name, category: Category::Lock.index(), timing, data: data.into() })
}

/// The marker of a crash.
pub(super) fn crash(time: u64, crash: &Crash, shared: &mut Shared, tables: &Tables) -> Marker {
    let data = Data::Crash(CrashData {
        signal: tables.strings.get(crash.signal).to_owned(),
        code: tables.strings.get(crash.code).to_owned(),
        address: (crash.address != 0).then(|| format!("{:#x}", crash.address)),
        cause: crash
            .stack
            .and_then(|stack| shared.stack(stack, tables))
            .map(|stack| Cause { stack }),
    });
    let name = shared.string("Crash");
    Marker {
        name,
        category: Category::Crash.index(),
        timing: Timing::Instant(time),
        data: data.into(),
    }
}

/// The marker of a process that a signal ended.
pub(super) fn signal_exit(
    time: u64,
    exit: &SignalExit,
    shared: &mut Shared,
    tables: &Tables,
) -> Marker {
    let data = Data::SignalExit(SignalExitData {
        signal: tables.strings.get(exit.signal).to_owned(),
        core_dumped: exit.has_core_dump.then_some("yes"),
    });
    Marker {
        name: shared.string("Ended by a signal"),
        category: Category::Crash.index(),
        timing: Timing::Instant(time),
        data: data.into(),
    }
}

/// The memory that programs allocate.
#[derive(Default)]
pub(super) struct MemoryCounters {
    heap: Heap,
    pub(super) pools: BTreeMap<PoolKey, Counter>,
}

impl MemoryCounters {
    pub(super) fn event(&mut self, time: u64, event: &MemoryEvent, tables: &Tables) {
        if let Some((key, pool)) = self.heap.event(event, tables) {
            self.pools.entry(key).or_default().push_coarse(
                time,
                pool.live_bytes as f64,
                MEMORY_STEP,
            );
        }
    }
}
