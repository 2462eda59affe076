//! Locks: `struct syscollect_lock`.

use super::{CLocation, text};
use crate::arena::Arena;
use crate::location::ZoneLocation;
use crate::lock::{self, Access, LockKind, ReportedLock};
use crate::log::CachedNumber;
use core::ffi::c_char;
use core::sync::atomic::AtomicU64;

/// `struct syscollect_lock`.
#[repr(C)]
pub struct CLock {
    name: *const c_char,
    made_at: *const CLocation,
    /// Not 0: the lock has readers.
    readers: u32,
    mark: AtomicU64,
    number: CachedNumber,
}

impl ReportedLock for CLock {
    fn mark(&self) -> &AtomicU64 {
        &self.mark
    }

    fn number(&self, arena: &Arena) -> u32 {
        self.number.or_define(arena, || {
            let kind = if self.readers == 0 { LockKind::Mutex } else { LockKind::Readers };
            // SAFETY: whoever fills the struct says so: its parts last as long as the lock.
            let (name, made_at) = unsafe { (text(self.name), self.made_at.as_ref()) };
            let made_at = made_at.map_or(0, |place| place.number(arena));
            lock::announce(kind, name, made_at, arena)
        })
    }
}

fn access(shared: u8) -> Access {
    if shared == 0 { Access::Exclusive } else { Access::Shared }
}

/// Calls it with the lock and the place, where there is a lock.
///
/// # Safety
/// Each is null or what its type says; the place and its texts last as long as the program.
unsafe fn with<T: Default>(
    lock: *const CLock,
    place: *const CLocation,
    report: impl FnOnce(&CLock, Option<&dyn ZoneLocation>) -> T,
) -> T {
    // SAFETY: as the caller says.
    let (lock, place) = unsafe { (lock.as_ref(), place.as_ref()) };
    let place = place.map(|place| -> &dyn ZoneLocation { place });
    lock.map_or_else(T::default, |lock| report(lock, place))
}

/// Whether all who have the lock are known to the recording.
///
/// # Safety
/// Null, or a lock, whose parts last as long as it does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscollect_lock_is_known_recorded(lock: *const CLock) -> u8 {
    // SAFETY: as the caller says.
    u8::from(unsafe { with(lock, core::ptr::null(), |lock, _| lock.prepare()) })
}

/// The caller has the lock alone.
///
/// # Safety
/// As for the one above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscollect_lock_is_alone_recorded(lock: *const CLock) {
    // SAFETY: as the caller says.
    unsafe { with(lock, core::ptr::null(), |lock, _| lock.set_mark()) };
}

/// The caller is about to wait; whether that was recorded.
///
/// # Safety
/// As for the one above; the place is null or lasts as long as the program.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscollect_lock_wait_recorded(
    lock: *const CLock,
    shared: u8,
    place: *const CLocation,
) -> u8 {
    // SAFETY: as the caller says.
    u8::from(unsafe { with(lock, place, |lock, place| lock.wait(access(shared), place)) })
}

/// The caller has the lock: at once (0), after a wait that was not recorded (1) or was (2).
///
/// # Safety
/// As for the one above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscollect_lock_obtained_recorded(
    lock: *const CLock,
    shared: u8,
    waited: u8,
    place: *const CLocation,
) {
    let access = access(shared);
    // SAFETY: as the caller says.
    unsafe {
        with(lock, place, |lock, place| match waited {
            0 => lock.obtained_at_once(access, place),
            waited => lock.obtained_after_wait(access, waited == 2, place),
        });
    }
}

/// The caller waits no more and does not have the lock.
///
/// # Safety
/// As for the one above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscollect_lock_gave_up_recorded(
    lock: *const CLock,
    waited: u8,
    place: *const CLocation,
) {
    // SAFETY: as the caller says.
    unsafe { with(lock, place, |lock, place| lock.gave_up(waited == 2, place)) };
}

/// The holder is about to let go of a lock whose holders are known, perhaps to a recording that
/// is over.
///
/// # Safety
/// As for the one above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscollect_lock_release_marked(
    lock: *const CLock,
    shared: u8,
    place: *const CLocation,
) {
    // SAFETY: as the caller says.
    unsafe { with(lock, place, |lock, place| lock.released(access(shared), place)) };
}
