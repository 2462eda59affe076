//! Counters that are sampled: `struct syscollect_counter`.

use super::text;
use crate::counter;
use crate::log::CachedNumber;
use core::ffi::c_char;
use core::sync::atomic::AtomicI64;

/// `struct syscollect_counter`.
#[repr(C)]
pub struct CCounter {
    value: AtomicI64,
    name: *const c_char,
    unit: *const c_char,
    number: CachedNumber,
}

/// Tells the collector where the counter's value lies, once.
///
/// # Safety
/// Null, or a counter that lasts as long as the program, as its texts do.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscollect_counter_recorded(counter: *const CCounter) {
    // SAFETY: as the caller says.
    if let Some(counter) = unsafe { counter.as_ref() } {
        // SAFETY: as the caller says.
        let (name, unit) = unsafe { (text(counter.name), text(counter.unit)) };
        counter::announce(&counter.number, counter.value.as_ptr() as u64, name, unit);
    }
}
