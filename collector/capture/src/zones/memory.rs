//! Memory that another process writes at the same time.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use syscollect_usdt_client::protocol::{ArenaHeader, RingHeader};

/// A mapped part of an arena. Dropping it unmaps.
///
/// Every access is an atomic one: what lies there may change at any moment, so
/// it is copied out before it is looked at.
pub(super) struct SharedMemory {
    base: NonNull<u8>,
    length: usize,
}

// SAFETY: plain memory that only this value unmaps, accessed by atomics alone.
unsafe impl Send for SharedMemory {}
// SAFETY: as above.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// Maps that part of the file. `offset` is a multiple of a page. The file
    /// is sealed against shrinking: pages within its size are always there.
    pub(super) fn map(file: BorrowedFd<'_>, offset: usize, length: usize) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base = unsafe {
            let offset = offset as libc::off_t;
            libc::mmap(std::ptr::null_mut(), length, access, libc::MAP_SHARED, file.as_raw_fd(), offset)
        };
        match NonNull::new(base.cast::<u8>()) {
            Some(base) if base.as_ptr().cast::<libc::c_void>() != libc::MAP_FAILED => Ok(Self { base, length }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// The header of the arena that begins here.
    pub(super) fn arena(&self) -> &ArenaHeader {
        assert!(size_of::<ArenaHeader>() <= self.length);
        // SAFETY: long enough by the assertion, aligned as mappings are; all
        // fields are atomics, for which every value is valid.
        unsafe { self.base.cast().as_ref() }
    }

    /// The header of the ring that begins here.
    pub(super) fn ring(&self) -> &RingHeader {
        assert!(size_of::<RingHeader>() <= self.length);
        // SAFETY: as for `arena`.
        unsafe { self.base.cast().as_ref() }
    }

    /// The 32 bits at an offset, a multiple of 4, as published by its writer; 0 beyond the end.
    pub(super) fn acquire(&self, offset: usize) -> u32 {
        if !offset.is_multiple_of(4) || offset.saturating_add(4) > self.length {
            return 0;
        }
        // SAFETY: within the mapping and aligned, as just checked.
        unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(offset).cast()) }.load(Ordering::Acquire)
    }

    /// Appends a copy of `words` words from an offset, a multiple of 8, on;
    /// fewer where the memory ends before.
    pub(super) fn copy(&self, offset: usize, words: usize, out: &mut Vec<u64>) {
        debug_assert!(offset.is_multiple_of(8));
        let words = words.min(self.length.saturating_sub(offset) / 8);
        out.extend((0..words).map(|word| {
            // SAFETY: within the mapping by the minimum above, and aligned.
            // Relaxed: whoever calls has acquired what published these words.
            unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(offset + word * 8).cast()) }.load(Ordering::Relaxed)
        }));
    }
}

#[cfg(test)]
impl SharedMemory {
    /// The word at an offset, for fake programs.
    pub(super) fn word_for_tests(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset + 8 <= self.length);
        // SAFETY: within the mapping and aligned by the assertion.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(offset).cast()) }
    }

    /// The header of the ring at an offset, for fake programs.
    pub(super) fn ring_for_tests(&self, offset: usize) -> &RingHeader {
        assert!(offset.is_multiple_of(64) && offset + size_of::<RingHeader>() <= self.length);
        // SAFETY: within the mapping and aligned by the assertion; all fields are atomics.
        unsafe { self.base.add(offset).cast().as_ref() }
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: exactly what `map` mapped, and nothing borrows from it now.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.length) };
    }
}
