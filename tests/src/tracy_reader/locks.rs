//! Locks.

use super::cursor::Cursor;
use super::zones::{Locations, SourceLocation};
use super::{Damage, Strings};

/// A lock.
#[derive(Clone, Debug, PartialEq)]
pub struct Lock {
    /// Its number.
    pub id: u32,
    /// Its name, if it has one of its own.
    pub name: Option<String>,
    /// Where it was made.
    pub location: SourceLocation,
    /// Whether several may hold it together.
    pub shared: bool,
    /// Numbers of the threads that use it.
    pub threads: Vec<u64>,
    /// What happened to it.
    pub events: Vec<LockEvent>,
}

/// Something that happened to a lock.
#[derive(Clone, Debug, PartialEq)]
pub struct LockEvent {
    /// When.
    pub time: i64,
    /// The thread's number.
    pub thread: u64,
    /// What.
    pub change: LockChange,
    /// Where in the source, if that is known.
    pub location: Option<SourceLocation>,
}

/// What happens to a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockChange {
    /// The thread waits to hold it alone.
    Wait,
    /// It holds it alone.
    Obtain,
    /// It lets go.
    Release,
    /// It waits to hold it with others.
    WaitShared,
    /// It holds it with others.
    ObtainShared,
    /// It lets go, others may not.
    ReleaseShared,
}

const LOCK_CHANGES: [LockChange; 6] = [
    LockChange::Wait,
    LockChange::Obtain,
    LockChange::Release,
    LockChange::WaitShared,
    LockChange::ObtainShared,
    LockChange::ReleaseShared,
];

pub(super) fn locks(
    cursor: &mut Cursor<'_>,
    strings: &Strings,
    locations: &Locations,
) -> Result<Vec<Lock>, Damage> {
    cursor.section("locks");
    let locks = cursor.list(42, |cursor| lock(cursor, strings, locations))?;
    let mut ids: Vec<u32> = locks.iter().map(|lock| lock.id).collect();
    ids.sort_unstable();
    cursor.check(ids.windows(2).all(|two| two[0] != two[1]), || "a lock is there twice".into())?;
    Ok(locks)
}

fn lock(cursor: &mut Cursor<'_>, strings: &Strings, locations: &Locations) -> Result<Lock, Damage> {
    let id = cursor.u32()?;
    let name = cursor.string_index()?;
    let name = name.map(|name| strings.index(cursor, Some(name))).transpose()?;
    // The viewer prints it into a buffer of 1024 bytes.
    cursor.check(name.as_ref().is_none_or(|name| name.len() < 1_000), || {
        "a name is too long".into()
    })?;
    let location = cursor.i16()?;
    let location = locations.get(cursor, location)?.clone();
    let (kind, valid) = (cursor.u8()?, cursor.u8()?);
    cursor
        .check(kind <= 1 && valid == 1, || format!("lock {id} is of kind {kind}, valid {valid}"))?;
    let (announced, terminated) = (cursor.i64()?, cursor.i64()?);
    cursor.check(announced >= 0 && terminated >= 0, || {
        format!("lock {id} is from {announced} to {terminated}")
    })?;
    let threads = cursor.list(8, Cursor::u64)?;
    cursor.check(threads.len() <= 64, || format!("{} threads use lock {id}", threads.len()))?;
    let mut reference = announced;
    let events = cursor.list(12, |cursor| {
        let before = reference;
        let time = cursor.time(&mut reference)?;
        cursor.check(time >= before, || {
            format!("lock {id}: an event at {time} after one at {before}")
        })?;
        let location = match cursor.i16()? {
            0 => None,
            index => Some(locations.get(cursor, index)?.clone()),
        };
        let (thread, change) = (cursor.u8()?, cursor.u8()?);
        let thread = threads.get(usize::from(thread)).copied();
        let thread =
            thread.ok_or_else(|| cursor.damage(format!("lock {id} has no such thread")))?;
        let change = LOCK_CHANGES.get(usize::from(change)).copied();
        let change = change.ok_or_else(|| cursor.damage(format!("lock {id} has no such event")))?;
        Ok(LockEvent { time, thread, change, location })
    })?;
    // The viewer looks at the first and the last.
    cursor.check(!events.is_empty(), || format!("lock {id} has no events"))?;
    let lock = Lock { id, name, location, shared: kind == 1, threads, events };
    lock.check().map_err(|what| cursor.damage(what))?;
    Ok(lock)
}

impl Lock {
    /// What the viewer counts never goes below zero or above 255, and who obtains has waited.
    fn check(&self) -> Result<(), String> {
        let (mut held, mut waits, mut waits_shared, mut reads) =
            (0u32, Vec::new(), Vec::new(), Vec::new());
        for event in &self.events {
            let thread = event.thread;
            let holds = match event.change {
                LockChange::Wait => {
                    !waits.contains(&thread) && {
                        waits.push(thread);
                        true
                    }
                }
                LockChange::WaitShared => {
                    !waits_shared.contains(&thread) && {
                        waits_shared.push(thread);
                        true
                    }
                }
                LockChange::Obtain => {
                    take(&mut waits, thread) && {
                        held += 1;
                        held < 255
                    }
                }
                LockChange::Release => {
                    held > 0 && {
                        held -= 1;
                        true
                    }
                }
                LockChange::ObtainShared => {
                    take(&mut waits_shared, thread) && !reads.contains(&thread) && {
                        reads.push(thread);
                        true
                    }
                }
                LockChange::ReleaseShared => take(&mut reads, thread),
            };
            if !holds || !self.shared && event.change as u8 > LockChange::Release as u8 {
                return Err(format!("lock {}: {event:?} cannot be", self.id));
            }
        }
        Ok(())
    }
}

fn take(list: &mut Vec<u64>, thread: u64) -> bool {
    let at = list.iter().position(|waiting| *waiting == thread);
    at.map(|at| list.remove(at)).is_some()
}
