//! The standard library's locks, reported.

use super::{Access, LockKind, Reporter};
use core::fmt;
use core::ops::{Deref, DerefMut};
use core::panic::Location;
use core::time::Duration;
use std::sync::{self, LockResult, PoisonError, TryLockError, TryLockResult};

pub use std::sync::WaitTimeoutResult;

/// Reports the release when dropped. In guards it stands before the lock's own
/// guard, since fields are dropped in their order.
struct HeldLock<'a> {
    reporter: &'a Reporter,
    access: Access,
    place: &'static Location<'static>,
}

impl Drop for HeldLock<'_> {
    #[inline]
    fn drop(&mut self) {
        self.reporter.release(self.access, Some(self.place));
    }
}

/// A result of the standard library with another guard; poison is kept.
fn wrapped<Inner, Guard>(
    result: LockResult<Inner>,
    wrap: impl FnOnce(Inner) -> Guard,
) -> LockResult<Guard> {
    match result {
        Ok(inner) => Ok(wrap(inner)),
        Err(poisoned) => Err(PoisonError::new(wrap(poisoned.into_inner()))),
    }
}

/// The lock, poisoned or not; nothing if somebody has it.
fn attempted<Inner>(result: TryLockResult<Inner>) -> Option<LockResult<Inner>> {
    match result {
        Ok(inner) => Some(Ok(inner)),
        Err(TryLockError::Poisoned(poisoned)) => Some(Err(poisoned)),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// The result of a try, from what [`attempted`] made of the standard library's.
fn tried<Guard>(taken: Option<LockResult<Guard>>) -> TryLockResult<Guard> {
    match taken {
        Some(result) => Ok(result?),
        None => Err(TryLockError::WouldBlock),
    }
}

/// [`std::sync::Mutex`], reported.
///
/// ```
/// use syscollect_usdt_client::lock::Mutex;
///
/// let queue = Mutex::named("queue", vec![1, 2]);
/// queue.lock().unwrap().push(3);
/// ```
pub struct Mutex<T: ?Sized> {
    reporter: Reporter,
    inner: sync::Mutex<T>,
}

/// The right to a [`Mutex`]'s value; gives it back when dropped.
#[must_use = "the lock is released when its guard is dropped"]
pub struct MutexGuard<'a, T: ?Sized> {
    held: HeldLock<'a>,
    inner: sync::MutexGuard<'a, T>,
}

impl<T> Mutex<T> {
    /// A lock that is known by the place where it is made.
    #[track_caller]
    pub const fn new(value: T) -> Self {
        Self::named("", value)
    }

    /// A lock with a name.
    #[track_caller]
    pub const fn named(name: &'static str, value: T) -> Self {
        let reporter = Reporter::new(name, LockKind::Mutex, Some(Location::caller()));
        Self { reporter, inner: sync::Mutex::new(value) }
    }

    /// The value, without the lock.
    ///
    /// # Errors
    /// The mutex is poisoned.
    pub fn into_inner(self) -> LockResult<T> {
        self.inner.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits for the lock.
    ///
    /// # Errors
    /// The mutex is poisoned; the error has the guard.
    #[inline]
    #[track_caller]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        let result = self.reporter.take(
            Access::Exclusive,
            || attempted(self.inner.try_lock()),
            |_| (),
            || self.inner.lock(),
            |_| true,
        );
        self.guarded(result, Location::caller())
    }

    /// Takes the lock if nobody has it.
    ///
    /// # Errors
    /// Somebody has it, or the mutex is poisoned.
    #[inline]
    #[track_caller]
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        let place = Location::caller();
        let taken =
            self.reporter.try_take(Access::Exclusive, || attempted(self.inner.try_lock()), |_| ());
        tried(taken.map(|result| self.guarded(result, place)))
    }

    fn guarded<'a>(
        &'a self,
        result: LockResult<sync::MutexGuard<'a, T>>,
        place: &'static Location<'static>,
    ) -> LockResult<MutexGuard<'a, T>> {
        let held = HeldLock { reporter: &self.reporter, access: Access::Exclusive, place };
        wrapped(result, |inner| MutexGuard { held, inner })
    }

    /// Whether a thread panicked while it had the lock.
    pub fn is_poisoned(&self) -> bool {
        self.inner.is_poisoned()
    }

    /// Says that the value is in order again.
    pub fn clear_poison(&self) {
        self.inner.clear_poison();
    }

    /// The value; no lock is needed, since nobody else has a reference.
    ///
    /// # Errors
    /// The mutex is poisoned.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.inner.get_mut()
    }
}

/// [`std::sync::RwLock`], reported.
pub struct RwLock<T: ?Sized> {
    reporter: Reporter,
    inner: sync::RwLock<T>,
}

/// The right to read; gives it back when dropped.
#[must_use = "the lock is released when its guard is dropped"]
pub struct RwLockReadGuard<'a, T: ?Sized> {
    _held: HeldLock<'a>,
    inner: sync::RwLockReadGuard<'a, T>,
}

/// The right to write; gives it back when dropped.
#[must_use = "the lock is released when its guard is dropped"]
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    _held: HeldLock<'a>,
    inner: sync::RwLockWriteGuard<'a, T>,
}

impl<T> RwLock<T> {
    /// A lock that is known by the place where it is made.
    #[track_caller]
    pub const fn new(value: T) -> Self {
        Self::named("", value)
    }

    /// A lock with a name.
    #[track_caller]
    pub const fn named(name: &'static str, value: T) -> Self {
        let reporter = Reporter::new(name, LockKind::Readers, Some(Location::caller()));
        Self { reporter, inner: sync::RwLock::new(value) }
    }

    /// The value, without the lock.
    ///
    /// # Errors
    /// The lock is poisoned.
    pub fn into_inner(self) -> LockResult<T> {
        self.inner.into_inner()
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until nobody writes.
    ///
    /// # Errors
    /// The lock is poisoned; the error has the guard.
    #[inline]
    #[track_caller]
    pub fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        let result = self.reporter.take(
            Access::Shared,
            || attempted(self.inner.try_read()),
            |known| self.alone(known),
            || self.inner.read(),
            |_| true,
        );
        let _held = self.held(Access::Shared, Location::caller());
        wrapped(result, |inner| RwLockReadGuard { _held, inner })
    }

    /// Reads if nobody writes.
    ///
    /// # Errors
    /// Somebody writes, or the lock is poisoned.
    #[inline]
    #[track_caller]
    pub fn try_read(&self) -> TryLockResult<RwLockReadGuard<'_, T>> {
        let place = Location::caller();
        let taken = self.reporter.try_take(
            Access::Shared,
            || attempted(self.inner.try_read()),
            |known| self.alone(known),
        );
        tried(taken.map(|result| {
            wrapped(result, |inner| RwLockReadGuard {
                _held: self.held(Access::Shared, place),
                inner,
            })
        }))
    }

    /// Waits until nobody reads or writes.
    ///
    /// # Errors
    /// The lock is poisoned; the error has the guard.
    #[inline]
    #[track_caller]
    pub fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        let result = self.reporter.take(
            Access::Exclusive,
            || attempted(self.inner.try_write()),
            |_| (),
            || self.inner.write(),
            |_| true,
        );
        let _held = self.held(Access::Exclusive, Location::caller());
        wrapped(result, |inner| RwLockWriteGuard { _held, inner })
    }

    /// Writes if nobody reads or writes.
    ///
    /// # Errors
    /// Somebody does, or the lock is poisoned.
    #[inline]
    #[track_caller]
    pub fn try_write(&self) -> TryLockResult<RwLockWriteGuard<'_, T>> {
        let place = Location::caller();
        let taken =
            self.reporter.try_take(Access::Exclusive, || attempted(self.inner.try_write()), |_| ());
        tried(taken.map(|result| {
            wrapped(result, |inner| RwLockWriteGuard {
                _held: self.held(Access::Exclusive, place),
                inner,
            })
        }))
    }

    fn held(&self, access: Access, place: &'static Location<'static>) -> HeldLock<'_> {
        HeldLock { reporter: &self.reporter, access, place }
    }

    /// Calls `known` while this thread alone has the lock, if that can be had at once.
    fn alone(&self, known: &dyn Fn()) {
        let alone = attempted(self.inner.try_write());
        if alone.is_some() {
            known();
        }
    }

    /// Whether a thread panicked while it wrote.
    pub fn is_poisoned(&self) -> bool {
        self.inner.is_poisoned()
    }

    /// Says that the value is in order again.
    pub fn clear_poison(&self) {
        self.inner.clear_poison();
    }

    /// The value; no lock is needed, since nobody else has a reference.
    ///
    /// # Errors
    /// The lock is poisoned.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.inner.get_mut()
    }
}

/// [`std::sync::Condvar`] for [`Mutex`]: the mutex is reported as released while a thread waits.
#[derive(Debug, Default)]
pub struct Condvar {
    inner: sync::Condvar,
}

impl Condvar {
    /// A condition variable.
    pub const fn new() -> Self {
        Self { inner: sync::Condvar::new() }
    }

    /// Waits to be notified.
    ///
    /// # Errors
    /// The mutex is poisoned; the error has the guard.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        let (held, inner) = guard.release();
        wrapped(self.inner.wait(inner), |inner| held.again(inner))
    }

    /// Waits while the condition holds.
    ///
    /// # Errors
    /// The mutex is poisoned; the error has the guard.
    pub fn wait_while<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<MutexGuard<'a, T>> {
        let (held, inner) = guard.release();
        wrapped(self.inner.wait_while(inner, condition), |inner| held.again(inner))
    }

    /// Waits to be notified, for some time.
    ///
    /// # Errors
    /// The mutex is poisoned; the error has the guard.
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        time: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let (held, inner) = guard.release();
        wrapped(self.inner.wait_timeout(inner, time), |(inner, result)| (held.again(inner), result))
    }

    /// Wakes one that waits.
    pub fn notify_one(&self) {
        self.inner.notify_one();
    }

    /// Wakes all that wait.
    pub fn notify_all(&self) {
        self.inner.notify_all();
    }
}

/// A mutex that a waiting thread will have again.
struct ReleasedMutex<'a> {
    reporter: &'a Reporter,
    place: &'static Location<'static>,
}

impl<'a> ReleasedMutex<'a> {
    fn again<T: ?Sized>(self, inner: sync::MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.reporter.obtained_again(Access::Exclusive, self.place);
        let held =
            HeldLock { reporter: self.reporter, access: Access::Exclusive, place: self.place };
        MutexGuard { held, inner }
    }
}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    /// Reports the release; the lock itself is still had.
    fn release(self) -> (ReleasedMutex<'a>, sync::MutexGuard<'a, T>) {
        let Self { held, inner } = self;
        (ReleasedMutex { reporter: held.reporter, place: held.place }, inner)
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

macro_rules! shown_as_the_inner {
    ($($lock:ident),*) => {$(
        impl<T: ?Sized + fmt::Debug> fmt::Debug for $lock<T> {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.inner.fmt(formatter)
            }
        }

        impl<T: Default> Default for $lock<T> {
            #[track_caller]
            fn default() -> Self {
                Self::new(T::default())
            }
        }

        impl<T> From<T> for $lock<T> {
            #[track_caller]
            fn from(value: T) -> Self {
                Self::new(value)
            }
        }
    )*};
}
shown_as_the_inner!(Mutex, RwLock);

macro_rules! guard_shown_as_its_value {
    ($($guard:ident),*) => {$(
        impl<T: ?Sized + fmt::Debug> fmt::Debug for $guard<'_, T> {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                (**self).fmt(formatter)
            }
        }
    )*};
}
guard_shown_as_its_value!(MutexGuard, RwLockReadGuard, RwLockWriteGuard);
