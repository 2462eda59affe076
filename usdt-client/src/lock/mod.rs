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
//! recording that holds; whoever takes the lock without reporting it, or
//! cannot report it (a full ring), removes the mark.
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
use crate::emit::{self, Group};
use crate::identity::Identity;
use crate::location::{DynamicLocation, Place};
use crate::log::{CachedNumber, Entry};
use crate::protocol::{EntryKind, ItemKind, LockAction};
use core::panic::Location;
use core::sync::atomic::{AtomicU64, Ordering};

/// Whether a lock has readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LockKind {
    /// One holder at a time.
    Mutex = 0,
    /// Several readers or one writer.
    Readers = 1,
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

/// The attempts by which a lock is taken.
struct Attempts<Try, Probe, Block> {
    /// Takes the lock if that takes no waiting.
    attempt: Try,
    /// Whether nobody at all has the lock at this moment; called only to begin reporting.
    nobody_has_it: Probe,
    /// Takes the lock, or stops waiting for it.
    block: Block,
}

/// Reports one lock.
#[derive(Debug)]
struct Reporter {
    name: &'static str,
    kind: LockKind,
    /// Where the lock was made, if that is known.
    made_at: Option<&'static Location<'static>>,
    /// The recording for which all holders are known; 0 is none. See [`recording`].
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
    const fn new(name: &'static str, kind: LockKind, made_at: Option<&'static Location<'static>>) -> Self {
        Self { name, kind, made_at, mark: AtomicU64::new(0), number: LockNumber(CachedNumber::new()) }
    }

    /// Takes the lock, waiting if need be.
    #[inline]
    #[track_caller]
    fn take<Guard>(
        &self,
        access: Access,
        attempts: Attempts<impl FnOnce() -> Option<Guard>, impl FnOnce() -> bool, impl FnOnce() -> Guard>,
    ) -> Guard {
        if crate::enabled() {
            let block = attempts.block;
            let taken =
                self.take_reported(access, attempts.attempt, attempts.nobody_has_it, || Some(block()), Location::caller());
            // `block` above always takes it.
            return taken.unwrap_or_else(|| unreachable!("a wait without end ended without the lock"));
        }
        let guard = (attempts.block)();
        self.taken_quietly();
        guard
    }

    /// Takes the lock unless the time runs out or somebody has it.
    #[inline]
    #[track_caller]
    fn try_take<Guard>(
        &self,
        access: Access,
        attempts: Attempts<impl FnOnce() -> Option<Guard>, impl FnOnce() -> bool, impl FnOnce() -> Option<Guard>>,
    ) -> Option<Guard> {
        if crate::enabled() {
            let Attempts { attempt, nobody_has_it, block } = attempts;
            return self.take_reported(access, attempt, nobody_has_it, block, Location::caller());
        }
        let guard = (attempts.block)();
        if guard.is_some() {
            self.taken_quietly();
        }
        guard
    }

    #[cold]
    #[inline(never)]
    fn take_reported<Guard>(
        &self,
        access: Access,
        attempt: impl FnOnce() -> Option<Guard>,
        nobody_has_it: impl FnOnce() -> bool,
        block: impl FnOnce() -> Option<Guard>,
        place: &'static Location<'static>,
    ) -> Option<Guard> {
        if !self.is_marked() && (access == Access::Exclusive || nobody_has_it()) {
            return self.take_first(access, attempt, block, place);
        }
        if let Some(guard) = attempt() {
            self.report_if_marked(access.obtain(), place);
            return Some(guard);
        }
        let waiting = self.report_if_marked(access.wait(), place);
        let guard = block();
        match &guard {
            None if waiting => _ = self.report(LockAction::GiveUp, place),
            None => {}
            Some(_) => self.obtained_after_wait(access, waiting, place),
        }
        guard
    }

    /// Takes a lock that is not reported yet; reports it from now on if nobody had it.
    fn take_first<Guard>(
        &self,
        access: Access,
        attempt: impl FnOnce() -> Option<Guard>,
        block: impl FnOnce() -> Option<Guard>,
        place: &'static Location<'static>,
    ) -> Option<Guard> {
        if let Some(guard) = attempt() {
            self.begin_reporting(access.obtain(), place);
            return Some(guard);
        }
        let guard = block();
        if guard.is_some() {
            self.report_if_marked(access.obtain(), place);
        }
        guard
    }

    /// The holder whose wait was reported has the lock; in between somebody may have removed the mark.
    fn obtained_after_wait(&self, access: Access, waiting: bool, place: &'static Location<'static>) {
        if self.is_marked() {
            self.report(access.obtain(), place);
        } else if waiting && access == Access::Exclusive {
            self.begin_reporting(access.obtain(), place);
        } else if waiting {
            // Who else has it is not known.
            if let Ok(mut group) = emit::group(24) {
                self.write(&mut group, LockAction::GiveUp, place);
            }
        }
    }

    /// The holder is about to let go.
    #[inline]
    fn release(&self, access: Access, place: &'static Location<'static>) {
        if self.mark.load(Ordering::Relaxed) != 0 {
            self.release_marked(access, place);
        }
    }

    #[cold]
    #[inline(never)]
    fn release_marked(&self, access: Access, place: &'static Location<'static>) {
        if crate::enabled() {
            self.report_if_marked(access.release(), place);
        } else {
            self.mark.store(0, Ordering::Relaxed);
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
        mark != 0 && is_of(mark, recording())
    }

    fn report_if_marked(&self, action: LockAction, place: &'static Location<'static>) -> bool {
        self.is_marked() && self.report(action, place)
    }

    /// Writes the event; a lock of which one event is missing is not reported until it is found uncontended.
    fn report(&self, action: LockAction, place: &'static Location<'static>) -> bool {
        let Ok(mut group) = emit::group(24) else {
            self.mark.store(0, Ordering::Relaxed);
            return false;
        };
        self.write(&mut group, action, place);
        true
    }

    /// Reports the first event of a recording. The caller has the lock, and had it without anybody else.
    fn begin_reporting(&self, action: LockAction, place: &'static Location<'static>) {
        let Ok(mut group) = emit::group(24) else { return };
        // With the group open, the thread has seen the newest collector.
        self.mark.store(recording(), Ordering::Relaxed);
        self.write(&mut group, action, place);
    }

    fn write(&self, group: &mut Group, action: LockAction, place: &'static Location<'static>) {
        let arena = group.arena();
        let lock = self.number.0.or_define(arena, || self.announce(arena));
        let place = Caller(place).number(arena);
        group.stamped(ItemKind::Lock, [u64::from(lock) | (action as u64) << 32, u64::from(place)]);
    }

    /// Enters the lock in the log. Locks of the same name and place are different locks.
    #[cold]
    fn announce(&self, arena: &Arena) -> u32 {
        let made_at = self.made_at.map_or(0, |place| Caller(place).number(arena));
        let mut entry = Entry::new(EntryKind::Lock);
        entry.number(self.kind as u32).number(made_at).text(self.name);
        entry.append_to(arena)
    }
}

/// The recording that the calling thread writes to: its arena and the number
/// of the collector that has it. 0 before the thread's first event.
fn recording() -> u64 {
    let state = crate::thread::state();
    u64::from(state.generation.get()) << 32 | u64::from(state.current_collector())
}

/// Whether what was marked in one recording is known in the other. What was
/// written before an arena's first collector came (0) is read by that one.
fn is_of(mark: u64, now: u64) -> bool {
    mark == now || mark as u32 == 0 && mark >> 32 == now >> 32
}

/// The place of a call.
struct Caller(&'static Location<'static>);

impl Place for Caller {
    fn seen(&self) -> DynamicLocation<'_> {
        DynamicLocation { name: "", function: "", file: self.0.file(), line: self.0.line(), color: 0 }
    }

    fn number(&self, arena: &Arena) -> u32 {
        let (file, place) = (self.0.file(), core::ptr::from_ref(self.0) as usize);
        let lines = self.0.line() as usize | (self.0.column() as usize) << 32;
        Identity::of([place, file.as_ptr() as usize, file.len(), lines]).number(arena, || self.seen().number(arena))
    }
}
