//! Locks that tell who waits for them, who has them, and where.
//!
//! [`Mutex`] and [`RwLock`] have the shape of the standard library's, poisoning
//! included; with the feature `parking_lot` the module of that name has theirs.
//! While nobody records, an operation costs two loads more than the bare lock.
//!
//! # When a lock is reported
//!
//! A collector that comes while a lock is held or waited for did not see who
//! has it. So a lock is reported from when it is next found uncontended: then
//! all holders that follow are known. The reporter's mark says for which
//! recording that holds; whoever takes the lock while nobody records removes it.
//!
//! A lock that is free is reported as obtained, without a wait before it.
//! The recorder itself uses no lock at all, so wrapping any lock is safe.

#[cfg(feature = "parking_lot")]
pub mod parking_lot;
mod std_lock;

pub use std_lock::{
    Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, WaitTimeoutResult,
};

use crate::arena::Arena;
use crate::emit;
use crate::identity::Identity;
use crate::location::{DynamicLocation, ZoneLocation};
use crate::log::{self, CachedNumber};
use crate::recording;
use core::panic::Location;
use core::sync::atomic::{AtomicU64, Ordering};
use syscollect_zone_protocol::log::EntryWords;
use syscollect_zone_protocol::{Event, LockAction};

/// Whether a lock has readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LockKind {
    /// One holder at a time.
    Mutex,
    /// Several readers or one writer.
    Readers,
}

/// How a lock is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    /// By one.
    Exclusive,
    /// By several readers.
    Shared,
}

impl Access {
    fn wait(self) -> LockAction {
        if self == Self::Shared { LockAction::WaitShared } else { LockAction::Wait }
    }

    fn obtain(self) -> LockAction {
        if self == Self::Shared { LockAction::ObtainShared } else { LockAction::Obtain }
    }

    fn release(self) -> LockAction {
        if self == Self::Shared { LockAction::ReleaseShared } else { LockAction::Release }
    }
}

/// Reports one lock.
#[derive(Debug)]
struct Reporter {
    name: &'static str,
    kind: LockKind,
    /// Where the lock was made, if that is known.
    made_at: Option<&'static Location<'static>>,
    /// The recording for which all holders are known; 0 is none. See `recording.rs`.
    mark: AtomicU64,
    number: LockNumber,
}

/// The lock's number in the log.
struct LockNumber(CachedNumber);

impl core::fmt::Debug for LockNumber {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter.write_str("LockNumber")
    }
}

impl Reporter {
    const fn new(
        name: &'static str,
        kind: LockKind,
        made_at: Option<&'static Location<'static>>,
    ) -> Self {
        Self {
            name,
            kind,
            made_at,
            mark: AtomicU64::new(0),
            number: LockNumber(CachedNumber::new()),
        }
    }

    /// Takes the lock: by `attempt` if that goes without waiting, else by
    /// `block`, of whose result `took` says whether it has the lock.
    ///
    /// `alone` is for shared access: it calls what it is given while nobody can
    /// have the lock, if that can be had without waiting.
    #[inline]
    #[track_caller]
    fn take<T>(
        &self,
        access: Access,
        attempt: impl FnOnce() -> Option<T>,
        alone: impl FnOnce(&dyn Fn()),
        block: impl FnOnce() -> T,
        took: fn(&T) -> bool,
    ) -> T {
        let place = Location::caller();
        if crate::enabled() {
            return match self.attempt_reported(access, attempt, alone, place) {
                Some(taken) => taken,
                None => self.block_reported(access, block, took, place),
            };
        }
        let result = block();
        if took(&result) {
            self.taken_quietly();
        }
        result
    }

    /// Takes the lock if that goes without waiting.
    #[inline]
    #[track_caller]
    fn try_take<T>(
        &self,
        access: Access,
        attempt: impl FnOnce() -> Option<T>,
        alone: impl FnOnce(&dyn Fn()),
    ) -> Option<T> {
        if crate::enabled() {
            return self.attempt_reported(access, attempt, alone, Location::caller());
        }
        let taken = attempt();
        if taken.is_some() {
            self.taken_quietly();
        }
        taken
    }

    #[cold]
    #[inline(never)]
    fn attempt_reported<T>(
        &self,
        access: Access,
        attempt: impl FnOnce() -> Option<T>,
        alone: impl FnOnce(&dyn Fn()),
        place: &'static Location<'static>,
    ) -> Option<T> {
        if !self.is_marked() {
            // A thread's first event makes the arena, without which there is no recording to mark.
            drop(emit::group(8));
            if access == Access::Shared {
                alone(&|| self.set_mark());
            }
        }
        let taken = attempt()?;
        if access == Access::Exclusive && !self.is_marked() {
            self.set_mark();
        }
        self.report(access.obtain(), Some(place));
        Some(taken)
    }

    #[cold]
    #[inline(never)]
    fn block_reported<T>(
        &self,
        access: Access,
        block: impl FnOnce() -> T,
        took: fn(&T) -> bool,
        place: &'static Location<'static>,
    ) -> T {
        let waiting = self.report(access.wait(), Some(place));
        let result = block();
        if took(&result) {
            self.obtained_after_wait(access, waiting, place);
        } else if waiting {
            self.write(LockAction::GiveUp, Some(place));
        }
        result
    }

    /// Somebody has the lock who had to wait; in between others may have removed the mark, or set
    /// it.
    fn obtained_after_wait(
        &self,
        access: Access,
        waiting: bool,
        place: &'static Location<'static>,
    ) {
        if waiting && !self.is_marked() {
            if access == Access::Shared {
                // Who else has it is not known.
                self.write(LockAction::GiveUp, Some(place));
                return;
            }
            self.set_mark();
        }
        self.report(access.obtain(), Some(place));
    }

    /// The holder is about to let go.
    #[inline]
    fn release(&self, access: Access, place: Option<&'static Location<'static>>) {
        if self.mark.load(Ordering::Relaxed) != 0 {
            self.release_marked(access, place);
        }
    }

    #[cold]
    #[inline(never)]
    fn release_marked(&self, access: Access, place: Option<&'static Location<'static>>) {
        if crate::enabled() {
            self.report(access.release(), place);
        } else {
            self.mark.store(0, Ordering::Relaxed);
        }
    }

    /// The lock is had again after something gave it away for a while.
    #[inline]
    fn obtained_again(&self, access: Access, place: &'static Location<'static>) {
        if crate::enabled() {
            self.report(access.obtain(), Some(place));
        } else {
            self.taken_quietly();
        }
    }

    /// The lock was taken while nobody recorded.
    #[inline]
    fn taken_quietly(&self) {
        if self.mark.load(Ordering::Relaxed) != 0 {
            self.mark.store(0, Ordering::Relaxed);
        }
    }

    /// Whether all holders are known to the recording that runs now.
    fn is_marked(&self) -> bool {
        let mark = self.mark.load(Ordering::Relaxed);
        mark != 0 && recording::is_of(mark, recording::now())
    }

    /// From now on all holders are known. The caller has the lock and nobody else.
    fn set_mark(&self) {
        self.mark.store(recording::now(), Ordering::Relaxed);
    }

    /// Writes the event if all holders are known, and says whether they are.
    fn report(&self, action: LockAction, place: Option<&'static Location<'static>>) -> bool {
        let is_reported = self.is_marked();
        if is_reported {
            self.write(action, place);
        }
        is_reported
    }

    /// Writes the event. One that is lost is counted, and the next tell what is the case.
    fn write(&self, action: LockAction, place: Option<&'static Location<'static>>) {
        let Ok(mut group) = emit::group(24) else { return };
        let arena = group.arena();
        let lock = self.number.0.or_define(arena, || self.announce(arena));
        let location = place.map_or(0, |place| Caller(place).number(arena));
        if matches!(action, LockAction::Obtain | LockAction::ObtainShared) {
            after_the_lock();
        }
        group.event(Event::Lock { lock, action, location });
    }

    /// Enters the lock in the log. Locks of the same name and place are different locks.
    #[cold]
    fn announce(&self, arena: &Arena) -> u32 {
        let made_at = self.made_at.map_or(0, |place| Caller(place).number(arena));
        let is_shared = matches!(self.kind, LockKind::Readers);
        log::append(EntryWords::new().lock(is_shared, made_at, self.name), arena)
    }
}

/// Whoever obtains a lock must not be stamped before who released it: the
/// counter could be read ahead while the lock's memory is still on its way.
#[inline(always)]
fn after_the_lock() {
    crate::arch::load_fence();
}

/// The place of a call.
struct Caller(&'static Location<'static>);

impl ZoneLocation for Caller {
    fn definition(&self) -> DynamicLocation<'_> {
        DynamicLocation {
            name: "",
            function: "",
            file: self.0.file(),
            line: self.0.line(),
            color: 0,
        }
    }

    fn number(&self, arena: &Arena) -> u32 {
        let (file, place) = (self.0.file(), core::ptr::from_ref(self.0) as usize);
        let lines = self.0.line() as usize | (self.0.column() as usize) << 32;
        Identity::of([place, file.as_ptr() as usize, file.len(), lines])
            .number(arena, || self.definition().number(arena))
    }
}
