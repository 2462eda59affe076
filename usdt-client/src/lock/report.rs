//! What is reported of a lock, in whatever language it is taken.

use crate::arena::Arena;
use crate::emit;
use crate::location::ZoneLocation;
use crate::log;
use crate::recording;
use core::sync::atomic::{AtomicU64, Ordering};
use syscollect_zone_protocol::log::EntryWords;
use syscollect_zone_protocol::{Event, LockAction};

/// Whether a lock has readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockKind {
    /// One holder at a time.
    Mutex,
    /// Several readers or one writer.
    Readers,
}

/// How a lock is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// By one.
    Exclusive,
    /// By several readers.
    Shared,
}

impl Access {
    fn wait(self) -> LockAction {
        if self == Self::Shared { LockAction::WaitShared } else { LockAction::Wait }
    }

    pub(super) fn obtain(self) -> LockAction {
        if self == Self::Shared { LockAction::ObtainShared } else { LockAction::Obtain }
    }

    fn release(self) -> LockAction {
        if self == Self::Shared { LockAction::ReleaseShared } else { LockAction::Release }
    }
}

/// Enters a lock in the log. Locks of the same name and place are different locks.
#[cold]
pub(crate) fn announce(kind: LockKind, name: &str, made_at: u32, arena: &Arena) -> u32 {
    log::append(EntryWords::new().lock(kind == LockKind::Readers, made_at, name), arena)
}

/// A lock that is reported. Except for [`Self::taken_quietly`], all of it is for while somebody
/// records.
///
/// Who takes the lock asks [`Self::prepare`] and tries; whoever has it then says
/// [`Self::obtained_at_once`]; who has not says [`Self::wait`], waits, and says
/// [`Self::obtained_after_wait`] or [`Self::gave_up`].
pub(crate) trait ReportedLock {
    /// The recording for which all holders are known; 0 is none. See `recording.rs`.
    fn mark(&self) -> &AtomicU64;

    /// Its number in that arena's log.
    fn number(&self, arena: &Arena) -> u32;

    /// Whether all holders are known. Where they are not, whoever gets the lock alone sets the
    /// mark.
    fn prepare(&self) -> bool {
        let is_marked = self.is_marked();
        if !is_marked {
            // A thread's first event makes the arena, without which there is no recording to mark.
            drop(emit::group(8));
        }
        is_marked
    }

    /// The calling thread has the lock and did not wait.
    fn obtained_at_once(&self, access: Access, place: Option<&dyn ZoneLocation>) {
        if access == Access::Exclusive && !self.is_marked() {
            self.set_mark();
        }
        self.report(access.obtain(), place);
    }

    /// The calling thread is about to wait; whether that was reported.
    fn wait(&self, access: Access, place: Option<&dyn ZoneLocation>) -> bool {
        self.report(access.wait(), place)
    }

    /// Somebody has the lock who had to wait; in between others may have removed the mark, or set
    /// it.
    fn obtained_after_wait(&self, access: Access, waiting: bool, place: Option<&dyn ZoneLocation>) {
        if waiting && !self.is_marked() {
            if access == Access::Shared {
                // Who else has it is not known.
                self.write(LockAction::GiveUp, place);
                return;
            }
            self.set_mark();
        }
        self.report(access.obtain(), place);
    }

    /// The calling thread waits no more and does not have the lock.
    fn gave_up(&self, waiting: bool, place: Option<&dyn ZoneLocation>) {
        if waiting {
            self.write(LockAction::GiveUp, place);
        }
    }

    /// The holder is about to let go, whether somebody records or not.
    fn released(&self, access: Access, place: Option<&dyn ZoneLocation>) {
        if crate::enabled() {
            self.report(access.release(), place);
        } else {
            self.mark().store(0, Ordering::Relaxed);
        }
    }

    /// The lock was taken while nobody recorded.
    #[inline]
    fn taken_quietly(&self) {
        if self.mark().load(Ordering::Relaxed) != 0 {
            self.mark().store(0, Ordering::Relaxed);
        }
    }

    /// Whether all holders are known to the recording that runs now.
    fn is_marked(&self) -> bool {
        let mark = self.mark().load(Ordering::Relaxed);
        mark != 0 && recording::is_of(mark, recording::now())
    }

    /// From now on all holders are known. The caller has the lock and nobody else.
    fn set_mark(&self) {
        self.mark().store(recording::now(), Ordering::Relaxed);
    }

    /// Writes the event if all holders are known, and says whether they are.
    fn report(&self, action: LockAction, place: Option<&dyn ZoneLocation>) -> bool {
        let is_reported = self.is_marked();
        if is_reported {
            self.write(action, place);
        }
        is_reported
    }

    /// Writes the event. One that is lost is counted, and the next tell what is the case.
    fn write(&self, action: LockAction, place: Option<&dyn ZoneLocation>) {
        let Ok(mut group) = emit::group(24) else { return };
        let arena = group.arena();
        let lock = self.number(arena);
        let location = place.map_or(0, |place| place.number(arena));
        if matches!(action, LockAction::Obtain | LockAction::ObtainShared) {
            after_the_lock();
        }
        group.event(Event::Lock { lock, action, location });
    }
}

/// Whoever obtains a lock must not be stamped before who released it: the
/// counter could be read ahead while the lock's memory is still on its way.
#[inline(always)]
fn after_the_lock() {
    crate::arch::load_fence();
}
