//! Locks: who waits for them, who holds them.
//!
//! The viewer follows a lock's events with a counter of who holds it and a set
//! of who waits, and checks nothing. So a lock's history is written as one that
//! can have happened: nobody obtains without waiting, or releases what nobody
//! holds, whatever was lost of it.

use super::rows::RowId;
use super::strings::FileStrings;
use super::threads::Threads;
use super::wire::Payload;
use crate::tracy::locations::{LocationRow, Locations};
use std::collections::BTreeMap;
use std::io::{self, Write};
use syscollect_model::{LockAction, LockEvent, LockId, Tables};

/// The viewer keeps sets of threads in 64 bits.
const MAX_THREADS: usize = 64;
/// The viewer counts in 8 bits how often a lock is held.
const MAX_HELD: u32 = 200;

/// The kind of an entry, as the file numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LockEventType {
    Wait = 0,
    Obtain = 1,
    Release = 2,
    WaitShared = 3,
    ObtainShared = 4,
    ReleaseShared = 5,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LockHistoryEntry {
    time: i64,
    /// Index of the source location; 0 is none.
    location: i16,
    thread: u8,
    kind: LockEventType,
    /// The wait that this was led to nothing.
    void: bool,
}

/// A thread of a lock's set: what it waits for, and what it holds.
#[derive(Debug)]
struct LockThread {
    row: RowId,
    /// The entries with which it waits, to hold the lock alone or with others.
    waits: [Option<usize>; 2],
    /// How often it holds the lock together with others.
    reads: u32,
}

/// The history of one lock.
#[derive(Debug, Default)]
struct History {
    shared: bool,
    threads: Vec<LockThread>,
    entries: Vec<LockHistoryEntry>,
    /// Who holds it alone, and how often.
    owner: Option<(u8, u32)>,
}

/// All locks.
#[derive(Default)]
pub(crate) struct Locks {
    histories: BTreeMap<LockId, History>,
    /// Events of threads that found no room in a lock's set.
    pub(crate) refused: u64,
}

impl Locks {
    /// Adds an event of a lock. Gives the time since when the thread waited, if it gave up.
    pub(crate) fn add(
        &mut self,
        time: i64,
        event: &LockEvent,
        row: RowId,
        location: Option<LocationRow>,
    ) -> Option<i64> {
        let history = self.histories.entry(event.lock).or_default();
        history.shared |= event.shared;
        let Some(thread) = history.thread(row) else {
            self.refused += 1;
            return None;
        };
        let at = (time, location.map_or(0, LocationRow::index));
        match (event.action, event.shared) {
            (LockAction::Wait, shared) => history.wait(at, thread, shared),
            (LockAction::Obtain, false) => history.obtain(at, thread),
            (LockAction::Obtain, true) => history.obtain_shared(at, thread),
            (LockAction::Release, false) => history.release(at),
            (LockAction::Release, true) => history.release_shared(at, thread),
            (LockAction::GiveUp, shared) => return history.give_up(thread, shared),
        }
        None
    }

    /// The locks with their names and source locations.
    pub(crate) fn named<'a>(
        &'a self,
        locations: &mut Locations,
        strings: &mut FileStrings,
        tables: &Tables,
    ) -> Vec<NamedLock<'a>> {
        self.histories
            .iter()
            .filter(|(_, history)| !history.entries.is_empty())
            .map(|(id, history)| {
                let lock = tables.lock(*id);
                let name = match tables.strings.get(lock.name) {
                    "" => None,
                    name => Some(strings.intern_short(name)),
                };
                let location = locations.location(lock.location, strings, tables);
                NamedLock {
                    id: id.0,
                    name,
                    location,
                    shared: lock.shared || history.shared,
                    history,
                }
            })
            .collect()
    }
}

impl History {
    /// The number of a thread among those of the lock.
    fn thread(&mut self, row: RowId) -> Option<u8> {
        let known = self.threads.iter().position(|lock_thread| lock_thread.row == row);
        let index = known.or_else(|| {
            let room = self.threads.len() < MAX_THREADS;
            room.then(|| self.threads.push(LockThread { row, waits: [None; 2], reads: 0 }));
            room.then(|| self.threads.len() - 1)
        });
        index.map(|index| index as u8)
    }

    fn push(&mut self, (time, location): (i64, i16), thread: u8, kind: LockEventType) {
        self.entries.push(LockHistoryEntry { time, location, thread, kind, void: false });
    }

    fn wait(&mut self, at: (i64, i16), thread: u8, shared: bool) {
        let lock_thread = &mut self.threads[usize::from(thread)];
        // Who reads already does not wait to read.
        if lock_thread.waits[usize::from(shared)].is_none() && !(shared && lock_thread.reads > 0) {
            lock_thread.waits[usize::from(shared)] = Some(self.entries.len());
            self.push(
                at,
                thread,
                if shared { LockEventType::WaitShared } else { LockEventType::Wait },
            );
        }
    }

    fn obtain(&mut self, at: (i64, i16), thread: u8) {
        let before = match self.owner {
            Some((owner, times)) if owner != thread => {
                // How that one let go is lost.
                (0..times.min(MAX_HELD))
                    .for_each(|_| self.push((at.0, 0), owner, LockEventType::Release));
                0
            }
            owner => owner.map_or(0, |(_, times)| times),
        };
        self.owner = Some((thread, before.saturating_add(1)));
        self.wait(at, thread, false);
        self.threads[usize::from(thread)].waits[0] = None;
        if before < MAX_HELD {
            self.push(at, thread, LockEventType::Obtain);
        }
    }

    fn release(&mut self, at: (i64, i16)) {
        let Some((owner, times)) = self.owner else { return };
        self.owner = (times > 1).then(|| (owner, times - 1));
        if times <= MAX_HELD {
            self.push(at, owner, LockEventType::Release);
        }
    }

    fn obtain_shared(&mut self, at: (i64, i16), thread: u8) {
        self.wait(at, thread, true);
        let lock_thread = &mut self.threads[usize::from(thread)];
        lock_thread.waits[1] = None;
        lock_thread.reads = lock_thread.reads.saturating_add(1);
        if lock_thread.reads == 1 {
            self.push(at, thread, LockEventType::ObtainShared);
        }
    }

    fn release_shared(&mut self, at: (i64, i16), thread: u8) {
        let lock_thread = &mut self.threads[usize::from(thread)];
        let before = lock_thread.reads;
        lock_thread.reads = before.saturating_sub(1);
        if before == 1 {
            self.push(at, thread, LockEventType::ReleaseShared);
        }
    }

    /// The format knows no end of a wait but to obtain.
    fn give_up(&mut self, thread: u8, shared: bool) -> Option<i64> {
        let wait = self.threads[usize::from(thread)].waits[usize::from(shared)].take()?;
        let entry = &mut self.entries[wait];
        entry.void = true;
        Some(entry.time)
    }
}

/// A lock with what the file says of it.
pub(crate) struct NamedLock<'a> {
    id: u32,
    name: Option<u32>,
    location: LocationRow,
    shared: bool,
    history: &'a History,
}

/// Writes all locks.
pub(crate) fn write<W: Write>(
    out: &mut Payload<W>,
    locks: &[NamedLock<'_>],
    threads: &Threads,
) -> io::Result<()> {
    let locks: Vec<_> = locks
        .iter()
        .map(|lock| (lock, entries(lock)))
        .filter(|(_, list)| !list.is_empty())
        .collect();
    out.count(locks.len())?;
    for (lock, entries) in locks {
        out.u32(lock.id)?;
        out.optional_string_index(lock.name)?;
        out.i16(lock.location.index())?;
        out.u8(lock.shared.into())?;
        out.u8(1)?; // valid
        // When it was made is not known; the viewer then takes its first and last event.
        out.i64(0)?;
        out.i64(0)?;
        out.count(lock.history.threads.len())?;
        lock.history
            .threads
            .iter()
            .try_for_each(|lock_thread| out.u64(threads.of(lock_thread.row).number))?;
        out.count(entries.len())?;
        let mut reference = 0;
        for entry in entries {
            out.i64(entry.time - reference)?;
            reference = entry.time;
            out.i16(entry.location)?;
            out.u8(entry.thread)?;
            out.u8(entry.kind as u8)?;
        }
    }
    Ok(())
}

fn entries(lock: &NamedLock<'_>) -> Vec<LockHistoryEntry> {
    lock.history.entries.iter().filter(|entry| !entry.void).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays actions of threads, one a nanosecond; the entries that are written.
    fn entries_of(actions: &[(u32, LockAction, bool)]) -> Vec<(i64, u8, LockEventType)> {
        let mut locks = Locks::default();
        for (time, (thread, action, shared)) in (1..).zip(actions) {
            let (lock, thread_id) = (LockId(0), syscollect_model::ThreadId(*thread));
            let event = LockEvent {
                lock,
                thread: thread_id,
                action: *action,
                shared: *shared,
                location: None,
            };
            locks.add(time, &event, RowId(*thread), None);
        }
        let entries = locks.histories[&LockId(0)].entries.iter().filter(|entry| !entry.void);
        entries.map(|entry| (entry.time, entry.thread, entry.kind)).collect()
    }

    use LockAction::{GiveUp, Obtain, Release, Wait};

    #[test]
    fn who_obtains_has_waited_and_who_releases_has_held() {
        let reported = entries_of(&[
            (1, Release, false),
            (1, Obtain, false),
            (1, Release, false),
            (1, Release, false),
        ]);
        assert_eq!(
            reported,
            [
                (2, 0, LockEventType::Wait),
                (2, 0, LockEventType::Obtain),
                (3, 0, LockEventType::Release)
            ]
        );
    }

    #[test]
    fn a_release_that_is_lost_is_made_up_when_another_obtains() {
        let reported = entries_of(&[
            (1, Obtain, false),
            (2, Wait, false),
            (2, Obtain, false),
            (2, Release, false),
        ]);
        let own = [
            (1, 0, LockEventType::Wait),
            (1, 0, LockEventType::Obtain),
            (2, 1, LockEventType::Wait),
            (3, 0, LockEventType::Release),
        ];
        assert_eq!(
            reported,
            [&own[..], &[(3, 1, LockEventType::Obtain), (4, 1, LockEventType::Release)]].concat()
        );
    }

    #[test]
    fn readers_hold_it_together_and_each_once() {
        let twice = [
            (1, Obtain, true),
            (2, Obtain, true),
            (1, Obtain, true),
            (1, Release, true),
            (1, Release, true),
        ];
        let (wait, obtain) = (LockEventType::WaitShared, LockEventType::ObtainShared);
        let expected = [
            (1, 0, wait),
            (1, 0, obtain),
            (2, 1, wait),
            (2, 1, obtain),
            (5, 0, LockEventType::ReleaseShared),
        ];
        assert_eq!(entries_of(&twice), expected);
    }

    #[test]
    fn a_wait_that_is_given_up_leaves_the_lock_as_it_was() {
        let reported = entries_of(&[
            (1, Obtain, false),
            (2, Wait, false),
            (2, GiveUp, false),
            (2, GiveUp, false),
        ]);
        assert_eq!(reported, [(1, 0, LockEventType::Wait), (1, 0, LockEventType::Obtain)]);
    }

    #[test]
    fn a_lock_has_64_threads() {
        let many: Vec<_> = (0..70).map(|thread| (thread, Wait, false)).collect();
        assert_eq!(entries_of(&many).len(), 64);
    }

    #[test]
    fn a_lock_that_is_taken_a_thousand_times_is_let_go_as_often() {
        let mut many = vec![(1, Obtain, false); 1_000];
        many.extend([(1, Release, false)].repeat(1_000));
        let reported = entries_of(&many);
        for wanted in [LockEventType::Obtain, LockEventType::Release] {
            assert_eq!(reported.iter().filter(|(_, _, kind)| *kind == wanted).count(), 200);
        }
    }
}
