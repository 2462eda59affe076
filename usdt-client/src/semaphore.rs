//! The semaphore that tells whether anybody records: one word for all probes.
//!
//! The kernel raises it in every process that maps this file while somebody is
//! attached to one of the crate's probes, and lowers it when they leave or die.

use core::sync::atomic::{AtomicU16, Ordering};

/// Counts who is attached. In `.probes`, where tools expect semaphores: the
/// kernel finds it by its offset in the file, which the probes' notes hold.
#[cfg_attr(not(feature = "off"), unsafe(link_section = ".probes"))]
pub(crate) static SEMAPHORE: AtomicU16 = AtomicU16::new(0);

/// Whether anybody records this process: one load. `false` at compile time
/// with the feature `off`.
#[inline(always)]
pub fn enabled() -> bool {
    !cfg!(feature = "off") && SEMAPHORE.load(Ordering::Relaxed) != 0
}

/// Where the semaphore is, for callers in other languages: a `uint16_t` that
/// is not 0 while somebody records.
pub fn address() -> *const u16 {
    SEMAPHORE.as_ptr()
}
