//! The semaphore that tells whether anybody records: one word for all probes.
//!
//! The kernel raises it in every process that maps this file while somebody is
//! attached to one of the crate's probes, and lowers it when they leave or die.

use core::sync::atomic::{AtomicU16, Ordering};

/// Counts who is attached. In `.probes`, where tools expect semaphores: the
/// kernel finds it by its offset in the file, which the probes' notes hold.
#[cfg_attr(not(feature = "off"), unsafe(link_section = ".probes"))]
pub(crate) static SEMAPHORE: Semaphore = Semaphore { count: AtomicU16::new(0) };

/// A count in a page of its own.
///
/// lld lets the segment that becomes read-only after relocation and the data
/// segment share a page of the file. The kernel raises the count in the first
/// writable mapping of its place in the file, which in a program that is being
/// loaded would then be the wrong one: it would never see that somebody records.
#[repr(C, align(4096))]
pub(crate) struct Semaphore {
    pub(crate) count: AtomicU16,
}

impl core::ops::Deref for Semaphore {
    type Target = AtomicU16;

    #[inline(always)]
    fn deref(&self) -> &AtomicU16 {
        &self.count
    }
}

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
