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
mod report;
mod std_lock;

pub use std_lock::{
    Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, WaitTimeoutResult,
};

use crate::arena::Arena;
use crate::identity::Identity;
use crate::location::{DynamicLocation, ZoneLocation};
use crate::log::CachedNumber;
use core::panic::Location;
use core::sync::atomic::{AtomicU64, Ordering};

pub(crate) use self::report::{Access, LockKind, ReportedLock, announce};

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
        if !self.prepare() && access == Access::Shared {
            alone(&|| self.set_mark());
        }
        let taken = attempt()?;
        self.obtained_at_once(access, Some(&Caller(place)));
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
        let place = Caller(place);
        let waiting = self.wait(access, Some(&place));
        let result = block();
        if took(&result) {
            self.obtained_after_wait(access, waiting, Some(&place));
        } else {
            self.gave_up(waiting, Some(&place));
        }
        result
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
        match place {
            Some(place) => self.released(access, Some(&Caller(place))),
            None => self.released(access, None),
        }
    }

    /// The lock is had again after something gave it away for a while.
    #[inline]
    fn obtained_again(&self, access: Access, place: &'static Location<'static>) {
        if crate::enabled() {
            self.report(access.obtain(), Some(&Caller(place)));
        } else {
            self.taken_quietly();
        }
    }
}

impl ReportedLock for Reporter {
    fn mark(&self) -> &AtomicU64 {
        &self.mark
    }

    fn number(&self, arena: &Arena) -> u32 {
        self.number.0.or_define(arena, || {
            let made_at = self.made_at.map_or(0, |place| Caller(place).number(arena));
            announce(self.kind, self.name, made_at, arena)
        })
    }
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
