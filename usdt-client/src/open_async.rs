//! Async zones that are open, so that a collector that comes later can be told of them.
//!
//! They belong to no thread, so the process keeps them: in a table of fixed
//! size in the arena's private memory, which a forked child finds empty. A
//! slot is taken by one atomic operation and given back by a store. A zone that
//! finds no slot is recorded like any other; only a later collector is not told
//! of it.
//!
//! The first thread that notices a new collector writes what is open. It must
//! not tell of a zone whose end is stamped before that, because nothing would
//! end it any more. Who ends a zone first takes it out of the table and then
//! stamps the end, without a fence, which would cost as much as all the rest;
//! who tells stamps first, waits until such a store of any CPU must have come
//! through, and then looks into the table: once for a collector.

use crate::clock;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, compiler_fence, fence};

/// Zones that are remembered at one time.
const SLOTS: usize = 4096;
/// Slots that are looked at for one zone. Numbers count on, so mostly the first is free.
const PROBES: u64 = 8;
/// Bytes of the items that tell of one zone: `AsyncOpen` and `TaskName`.
const ITEM_BYTES: u64 = 32 + 16;
/// Room for all items.
pub(crate) const BYTES: u64 = SLOTS as u64 * ITEM_BYTES;

/// Ticks until what another CPU has stored is seen: 20 µs at 5 GHz, where some
/// cache misses are enough.
const VISIBLE: u64 = 100_000;

/// A zone that is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenAsyncZone {
    /// Its number; neither 0 nor `u64::MAX`.
    pub(crate) number: u64,
    /// The location's number in the log.
    pub(crate) location: u32,
    /// When it began.
    pub(crate) began: u64,
    /// The number of its task; 0 is none.
    pub(crate) task: u64,
    /// The task's name in the log; 0 is none.
    pub(crate) task_name: u32,
}

/// The zones of one arena. All zeros is a valid table: no zone is open, and no collector was told.
pub(crate) struct OpenAsyncZones {
    /// The value of `ArenaHeader::attached` to which they were stated.
    stated: AtomicU32,
    slots: [Slot; SLOTS],
}

/// A zone's place: half a cache line.
struct Slot {
    /// The zone's number; 0: free, [`TAKEN`]: about to be filled.
    number: AtomicU64,
    began: AtomicU64,
    task: AtomicU64,
    /// The location, and the name of the task in the upper half.
    names: AtomicU64,
}

/// The number of a slot that is being filled.
const TAKEN: u64 = u64::MAX;

impl OpenAsyncZones {
    /// Remembers a zone, if there is a slot for it.
    pub(crate) fn insert(&self, zone: OpenAsyncZone) {
        if let Some(slot) = self.slots_of(zone.number).find(|slot| slot.take()) {
            slot.fill(zone);
        }
    }

    /// Forgets a zone, which only the caller does. Who still finds it has read
    /// its ticks before the caller does after this.
    #[inline]
    pub(crate) fn remove(&self, number: u64) {
        if let Some(slot) =
            self.slots_of(number).find(|slot| slot.number.load(Ordering::Relaxed) == number)
        {
            slot.number.store(0, Ordering::Release);
        }
        compiler_fence(Ordering::SeqCst);
    }

    /// Whether the collector of that number was not told.
    pub(crate) fn is_due(&self, collector: u32) -> bool {
        self.stated.load(Ordering::Relaxed) != collector
    }

    /// Whether the calling thread is the one to tell it.
    pub(crate) fn take_turn(&self, collector: u32) -> bool {
        let stated = self.stated.load(Ordering::Relaxed);
        stated != collector
            && self
                .stated
                .compare_exchange(stated, collector, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }

    /// Zones that began before `now`, which the caller has just read: all that
    /// are given end after it.
    pub(crate) fn before(&self, now: u64) -> impl Iterator<Item = OpenAsyncZone> {
        let start = clock::ticks();
        while clock::ticks().wrapping_sub(start) < VISIBLE {
            core::hint::spin_loop();
        }
        self.slots.iter().filter_map(Slot::read).filter(move |zone| zone.began < now)
    }

    /// The slots in which that zone may be.
    fn slots_of(&self, number: u64) -> impl Iterator<Item = &Slot> {
        (0..PROBES).map(move |probe| &self.slots[number.wrapping_add(probe) as usize % SLOTS])
    }
}

impl Slot {
    /// Takes it, if it is free.
    fn take(&self) -> bool {
        self.number.load(Ordering::Relaxed) == 0
            && self.number.compare_exchange(0, TAKEN, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    fn fill(&self, zone: OpenAsyncZone) {
        // Who reads one of the following sees that the number has changed.
        fence(Ordering::Release);
        self.began.store(zone.began, Ordering::Relaxed);
        self.task.store(zone.task, Ordering::Relaxed);
        self.names
            .store(u64::from(zone.location) | u64::from(zone.task_name) << 32, Ordering::Relaxed);
        self.number.store(zone.number, Ordering::Release);
    }

    fn read(&self) -> Option<OpenAsyncZone> {
        let number = self.number.load(Ordering::Acquire);
        if number == 0 || number == TAKEN {
            return None;
        }
        let (began, task) = (self.began.load(Ordering::Relaxed), self.task.load(Ordering::Relaxed));
        let names = self.names.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        // No number comes twice: if it is the same, so is all that was read.
        let same = self.number.load(Ordering::Relaxed) == number;
        same.then_some(OpenAsyncZone {
            number,
            location: names as u32,
            began,
            task,
            task_name: (names >> 32) as u32,
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // helpers of tests fail as tests do
mod tests {
    use super::*;
    use std::collections::HashMap;
    use std::sync::Mutex;

    fn table() -> &'static OpenAsyncZones {
        let memory = crate::memory::map_private(size_of::<OpenAsyncZones>()).unwrap();
        // SAFETY: large enough, zeroed, and never unmapped.
        unsafe { memory.cast().as_ref() }
    }

    fn zone(number: u64) -> OpenAsyncZone {
        OpenAsyncZone {
            number,
            location: 7,
            began: number,
            task: number + 1,
            task_name: number as u32,
        }
    }

    #[test]
    fn zones_are_there_from_their_insertion_to_their_removal() {
        let table = table();
        let all = clock::ticks();
        (1..=5000).for_each(|number| table.insert(zone(number)));
        let open: Vec<_> = table.before(all).collect();
        assert_eq!(open.len(), SLOTS, "what does not fit is not remembered");
        assert!(open.iter().all(|open| *open == zone(open.number)));
        (1..=5000).filter(|number| *number != 17).for_each(|number| table.remove(number));
        table.remove(17 + SLOTS as u64);
        assert_eq!(table.before(18).collect::<Vec<_>>(), [zone(17)]);
        assert_eq!(table.before(17).count(), 0, "one that began later is not told");
    }

    #[test]
    fn each_collector_is_told_by_one_thread() {
        let table = table();
        assert!(!table.is_due(0) && !table.take_turn(0), "nobody came yet");
        for collector in [1, 2] {
            assert!(table.is_due(collector));
            let turns = Mutex::new(0);
            std::thread::scope(|scope| {
                (0..4).for_each(|_| {
                    scope.spawn(|| *turns.lock().unwrap() += u32::from(table.take_turn(collector)));
                });
            });
            assert_eq!(turns.into_inner().unwrap(), 1);
        }
    }

    #[test]
    fn what_is_told_is_whole_and_ends_after_it_was_told() {
        let table = table();
        let (ends, reported) = (Mutex::new(HashMap::new()), Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            for first in 1..=2_u64 {
                let ends = &ends;
                scope.spawn(move || {
                    for number in (0..20_000).map(|turn| first + turn * 2) {
                        let began = clock::ticks();
                        table.insert(OpenAsyncZone { began, ..zone(number) });
                        table.remove(number);
                        let end = clock::ticks();
                        ends.lock().unwrap().insert(number, (began, end));
                    }
                });
            }
            scope.spawn(|| {
                for _ in 0..500 {
                    let now = clock::ticks();
                    reported.lock().unwrap().extend(table.before(now).map(|zone| (now, zone)));
                }
            });
        });
        let ends = ends.into_inner().unwrap();
        for (now, open) in reported.into_inner().unwrap() {
            let (began, end) = ends[&open.number];
            assert_eq!(open, OpenAsyncZone { began, ..zone(open.number) });
            assert!(now < end, "zone {} was told at {now} and ended at {end}", open.number);
        }
    }
}
