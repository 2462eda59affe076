//! Maps of kernel programs in the collector's memory.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// A map in memory. Dropping it unmaps; the kernel keeps the map as long.
#[derive(Debug)]
pub(crate) struct MappedMap {
    base: NonNull<u8>,
    length: usize,
}

// SAFETY: plain memory that only this value unmaps.
unsafe impl Send for MappedMap {}

impl Drop for MappedMap {
    fn drop(&mut self) {
        // SAFETY: exactly what was mapped; what points into it is dropped with whoever has this.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.length) };
    }
}

impl MappedMap {
    /// Maps the first `length` bytes of a map that was made with BPF_F_MMAPABLE.
    pub(crate) fn new(map: BorrowedFd<'_>, length: usize) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping; the kernel checks that the length is not more than the map's.
        let base = unsafe {
            let anywhere = std::ptr::null_mut();
            libc::mmap(anywhere, length, access, libc::MAP_SHARED, map.as_raw_fd(), 0)
        };
        match NonNull::new(base.cast::<u8>()) {
            Some(base) if base.as_ptr().cast::<libc::c_void>() != libc::MAP_FAILED => {
                Ok(Self { base, length })
            }
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Where it lies; page-aligned.
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Bytes.
    pub(crate) fn length(&self) -> usize {
        self.length
    }
}

/// A map of 64-bit words in memory, which programs read and write meanwhile.
#[derive(Debug)]
pub(crate) struct MappedWords {
    map: MappedMap,
}

impl MappedWords {
    /// Maps an array of so many values of 8 bytes.
    pub(crate) fn new(map: BorrowedFd<'_>, words: usize) -> io::Result<Self> {
        Ok(Self { map: MappedMap::new(map, words * size_of::<u64>())? })
    }

    /// All of them.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        let count = self.map.length() / size_of::<u64>();
        // SAFETY: the mapping is aligned to pages, has so many words, lives as long as `self`, and
        // what this side reads while kernel programs write are whole words of it; what they write
        // in smaller pieces is read when they have returned.
        unsafe { std::slice::from_raw_parts(self.map.base().as_ptr().cast(), count) }
    }
}
