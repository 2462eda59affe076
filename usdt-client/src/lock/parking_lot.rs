//! Locks of `parking_lot`, reported; or any that keeps `lock_api`'s traits.
//!
//! ```
//! use syscollect_usdt_client::lock::parking_lot::{Mutex, named_mutex};
//!
//! static QUEUE: Mutex<Vec<u32>> = named_mutex("queue", Vec::new());
//! QUEUE.lock().push(3);
//! ```
//!
//! Upgradable reads and `parking_lot::Condvar` are not there.

use super::{Access, LockKind, Reporter};
use core::time::Duration;
use parking_lot::lock_api;
use std::time::Instant;

/// `parking_lot::Mutex`, reported.
pub type Mutex<T> = lock_api::Mutex<RawMutex<parking_lot::RawMutex>, T>;
/// The right to a [`Mutex`]'s value.
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMutex<parking_lot::RawMutex>, T>;
/// `parking_lot::RwLock`, reported.
pub type RwLock<T> = lock_api::RwLock<RawRwLock<parking_lot::RawRwLock>, T>;
/// The right to read.
pub type RwLockReadGuard<'a, T> =
    lock_api::RwLockReadGuard<'a, RawRwLock<parking_lot::RawRwLock>, T>;
/// The right to write.
pub type RwLockWriteGuard<'a, T> =
    lock_api::RwLockWriteGuard<'a, RawRwLock<parking_lot::RawRwLock>, T>;

/// A [`Mutex`] with a name.
#[track_caller]
pub const fn named_mutex<T>(name: &'static str, value: T) -> Mutex<T> {
    Mutex::from_raw(RawMutex::named(name), value)
}

/// An [`RwLock`] with a name.
#[track_caller]
pub const fn named_rwlock<T>(name: &'static str, value: T) -> RwLock<T> {
    RwLock::from_raw(RawRwLock::named(name), value)
}

/// A raw mutex that reports.
#[derive(Debug)]
pub struct RawMutex<R> {
    reporter: Reporter,
    raw: R,
}

impl<R: lock_api::RawMutex> RawMutex<R> {
    /// A mutex with a name.
    #[track_caller]
    pub const fn named(name: &'static str) -> Self {
        let reporter = Reporter::new(name, LockKind::Mutex, Some(core::panic::Location::caller()));
        Self { reporter, raw: R::INIT }
    }

    #[inline]
    #[track_caller]
    fn take(&self, block: impl FnOnce() -> bool) -> bool {
        self.reporter.take(
            Access::Exclusive,
            || self.raw.try_lock().then_some(true),
            |_| (),
            block,
            |took| *took,
        )
    }
}

// SAFETY: everything is done by the raw lock.
unsafe impl<R: lock_api::RawMutex> lock_api::RawMutex for RawMutex<R> {
    const INIT: Self = Self { reporter: Reporter::new("", LockKind::Mutex, None), raw: R::INIT };

    type GuardMarker = R::GuardMarker;

    #[inline]
    #[track_caller]
    fn lock(&self) {
        self.take(|| {
            self.raw.lock();
            true
        });
    }

    #[inline]
    #[track_caller]
    fn try_lock(&self) -> bool {
        self.reporter
            .try_take(Access::Exclusive, || self.raw.try_lock().then_some(()), |_| ())
            .is_some()
    }

    #[inline]
    unsafe fn unlock(&self) {
        self.reporter.release(Access::Exclusive, None);
        // SAFETY: the caller has the lock.
        unsafe { self.raw.unlock() };
    }

    fn is_locked(&self) -> bool {
        self.raw.is_locked()
    }
}

// SAFETY: everything is done by the raw lock.
unsafe impl<R: lock_api::RawMutexFair> lock_api::RawMutexFair for RawMutex<R> {
    unsafe fn unlock_fair(&self) {
        self.reporter.release(Access::Exclusive, None);
        // SAFETY: the caller has the lock.
        unsafe { self.raw.unlock_fair() };
    }
}

// SAFETY: everything is done by the raw lock.
unsafe impl<R: lock_api::RawMutexTimed<Duration = Duration, Instant = Instant>>
    lock_api::RawMutexTimed for RawMutex<R>
{
    type Duration = Duration;
    type Instant = Instant;

    #[track_caller]
    fn try_lock_for(&self, timeout: Duration) -> bool {
        self.take(|| self.raw.try_lock_for(timeout))
    }

    #[track_caller]
    fn try_lock_until(&self, timeout: Instant) -> bool {
        self.take(|| self.raw.try_lock_until(timeout))
    }
}

/// A raw lock with readers that reports.
#[derive(Debug)]
pub struct RawRwLock<R> {
    reporter: Reporter,
    raw: R,
}

impl<R: lock_api::RawRwLock> RawRwLock<R> {
    /// A lock with a name.
    #[track_caller]
    pub const fn named(name: &'static str) -> Self {
        let reporter =
            Reporter::new(name, LockKind::Readers, Some(core::panic::Location::caller()));
        Self { reporter, raw: R::INIT }
    }

    /// Calls `known` while this thread alone has the lock, if that can be had at once.
    fn alone(&self, known: &dyn Fn()) {
        if self.raw.try_lock_exclusive() {
            known();
            // SAFETY: it was taken above.
            unsafe { self.raw.unlock_exclusive() };
        }
    }

    #[inline]
    #[track_caller]
    fn take_shared(&self, block: impl FnOnce() -> bool) -> bool {
        self.reporter.take(
            Access::Shared,
            || self.raw.try_lock_shared().then_some(true),
            |known| self.alone(known),
            block,
            |took| *took,
        )
    }

    #[inline]
    #[track_caller]
    fn take_exclusive(&self, block: impl FnOnce() -> bool) -> bool {
        self.reporter.take(
            Access::Exclusive,
            || self.raw.try_lock_exclusive().then_some(true),
            |_| (),
            block,
            |took| *took,
        )
    }
}

// SAFETY: everything is done by the raw lock.
unsafe impl<R: lock_api::RawRwLock> lock_api::RawRwLock for RawRwLock<R> {
    const INIT: Self = Self { reporter: Reporter::new("", LockKind::Readers, None), raw: R::INIT };

    type GuardMarker = R::GuardMarker;

    #[inline]
    #[track_caller]
    fn lock_shared(&self) {
        self.take_shared(|| {
            self.raw.lock_shared();
            true
        });
    }

    #[inline]
    #[track_caller]
    fn try_lock_shared(&self) -> bool {
        let taken = self.reporter.try_take(
            Access::Shared,
            || self.raw.try_lock_shared().then_some(()),
            |known| self.alone(known),
        );
        taken.is_some()
    }

    #[inline]
    unsafe fn unlock_shared(&self) {
        self.reporter.release(Access::Shared, None);
        // SAFETY: the caller has the lock.
        unsafe { self.raw.unlock_shared() };
    }

    #[inline]
    #[track_caller]
    fn lock_exclusive(&self) {
        self.take_exclusive(|| {
            self.raw.lock_exclusive();
            true
        });
    }

    #[inline]
    #[track_caller]
    fn try_lock_exclusive(&self) -> bool {
        self.reporter
            .try_take(Access::Exclusive, || self.raw.try_lock_exclusive().then_some(()), |_| ())
            .is_some()
    }

    #[inline]
    unsafe fn unlock_exclusive(&self) {
        self.reporter.release(Access::Exclusive, None);
        // SAFETY: the caller has the lock.
        unsafe { self.raw.unlock_exclusive() };
    }

    fn is_locked(&self) -> bool {
        self.raw.is_locked()
    }

    fn is_locked_exclusive(&self) -> bool {
        self.raw.is_locked_exclusive()
    }
}

// SAFETY: everything is done by the raw lock.
unsafe impl<R: lock_api::RawRwLockTimed<Duration = Duration, Instant = Instant>>
    lock_api::RawRwLockTimed for RawRwLock<R>
{
    type Duration = Duration;
    type Instant = Instant;

    #[track_caller]
    fn try_lock_shared_for(&self, timeout: Duration) -> bool {
        self.take_shared(|| self.raw.try_lock_shared_for(timeout))
    }

    #[track_caller]
    fn try_lock_shared_until(&self, timeout: Instant) -> bool {
        self.take_shared(|| self.raw.try_lock_shared_until(timeout))
    }

    #[track_caller]
    fn try_lock_exclusive_for(&self, timeout: Duration) -> bool {
        self.take_exclusive(|| self.raw.try_lock_exclusive_for(timeout))
    }

    #[track_caller]
    fn try_lock_exclusive_until(&self, timeout: Instant) -> bool {
        self.take_exclusive(|| self.raw.try_lock_exclusive_until(timeout))
    }
}
