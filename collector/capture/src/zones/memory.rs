//! Memory that another process writes at the same time.
//!
//! Only the headers of an arena are mapped: they are looked at often. What
//! threads write behind them is read from the file: a page that was never
//! written reads as zeros and stays absent, whereas a mapping would make it, at
//! the expense of whoever touches it first, with a page of page tables for it.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};

use syscollect_zone_protocol::arena::{
    ArenaHeader, HEADER_STRIDE, HEADERS_OFFSET, LOG_OFFSET, MAX_RINGS, RING_STRIDE, RINGS_OFFSET,
    RingHeader,
};

/// Bytes of the headers, from the arena's beginning.
const HEADERS_END: usize = HEADERS_OFFSET + MAX_RINGS * HEADER_STRIDE;

/// An arena that was opened: its headers mapped, and its file. Dropping it unmaps and closes.
///
/// Every access to the headers is an atomic one: what lies there may change at any moment.
///
/// Of several recorders one has the lock: the arena's *holder*, which alone writes into it. The
/// others are *observers*.
pub(super) struct ArenaMemory {
    base: NonNull<u8>,
    length: usize,
    file: File,
    /// Whether this recorder is the holder. It remains that until the file is closed.
    held: AtomicBool,
}

// SAFETY: plain memory that only this value unmaps, accessed by atomics alone.
unsafe impl Send for ArenaMemory {}
// SAFETY: as above.
unsafe impl Sync for ArenaMemory {}

/// What the header of a ring says of whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RingIdentity {
    /// The number of a `RingState`.
    pub(super) state: u32,
    /// The thread, as its own pid namespace numbers it.
    pub(super) tid: u32,
    /// Counts the ring's threads.
    pub(super) owner: u32,
}

impl ArenaMemory {
    /// Maps the headers. The file has an arena's size and is sealed against
    /// shrinking: pages within its size are always there.
    pub(super) fn map(file: File) -> io::Result<Self> {
        Self::map_bytes(file, HEADERS_END)
    }

    fn map_bytes(file: File, length: usize) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base = unsafe {
            libc::mmap(std::ptr::null_mut(), length, access, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        match NonNull::new(base.cast::<u8>()) {
            Some(base) if base.as_ptr().cast::<libc::c_void>() != libc::MAP_FAILED => {
                Ok(Self { base, length, file, held: AtomicBool::new(false) })
            }
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Whether this recorder is the arena's holder.
    pub(super) fn is_held(&self) -> bool {
        self.held.load(Ordering::Acquire)
    }

    /// Becomes the arena's holder, unless another recorder is. The lock is of the open file: it
    /// goes with it, however this process ends.
    pub(super) fn try_hold(&self) -> io::Result<bool> {
        // SAFETY: plain numbers, for which zero is valid: the whole file.
        let mut lock: libc::flock = unsafe { std::mem::zeroed() };
        lock.l_type = libc::F_WRLCK as libc::c_short;
        lock.l_whence = libc::SEEK_SET as libc::c_short;
        // SAFETY: the structure outlives the call.
        if unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_OFD_SETLK, &raw mut lock) } == 0 {
            self.held.store(true, Ordering::Release);
            return Ok(true);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EACCES) => Ok(false),
            _ => Err(error),
        }
    }

    /// Asks the program's threads to state what they have open, as for a recorder that comes now.
    /// An observer writes nothing, and so asks nobody.
    pub(super) fn request_restatement(&self) {
        if self.is_held() {
            let attached = &self.header().attached;
            let last = attached.load(Ordering::Acquire);
            attached.store(last.wrapping_add(1).max(1), Ordering::Release);
        }
    }

    /// The arena's header.
    pub(super) fn header(&self) -> &ArenaHeader {
        // SAFETY: long enough for all headers, aligned as mappings are; all fields are atomics, for
        // which every value is valid.
        unsafe { self.base.cast().as_ref() }
    }

    /// The header of a ring; `number` is less than `MAX_RINGS`.
    pub(super) fn ring(&self, number: u32) -> &RingHeader {
        assert!((number as usize) < MAX_RINGS);
        // SAFETY: within the headers by the assertion, aligned because their distance is their
        // alignment.
        unsafe { self.base.add(HEADERS_OFFSET + number as usize * HEADER_STRIDE).cast().as_ref() }
    }

    /// Whose the first `rings` rings are. It is read, not mapped: that makes no page of headers
    /// that were never written.
    pub(super) fn identities(&self, rings: u32) -> io::Result<Vec<RingIdentity>> {
        let mut bytes = vec![0; (rings as usize).min(MAX_RINGS) * HEADER_STRIDE];
        self.file.read_exact_at(&mut bytes, HEADERS_OFFSET as u64)?;
        Ok(bytes
            .chunks_exact(HEADER_STRIDE)
            .map(|header| RingIdentity {
                state: word(header, 0),
                tid: word(header, 4),
                owner: word(header, 8),
            })
            .collect())
    }

    /// Copies words out of the log, from an offset within it on.
    pub(super) fn read_log(&self, offset: usize, words: &mut [u64]) -> io::Result<()> {
        self.read(LOG_OFFSET + offset, words)
    }

    /// Copies words out of the items of a ring, from an offset within them on.
    pub(super) fn read_items(&self, ring: u32, offset: usize, words: &mut [u64]) -> io::Result<()> {
        self.read(RINGS_OFFSET + ring as usize * RING_STRIDE + offset, words)
    }

    fn read(&self, offset: usize, words: &mut [u64]) -> io::Result<()> {
        let length = size_of_val(words);
        // SAFETY: words have no padding, any bytes are valid words, and the slice covers exactly
        // them.
        let bytes =
            unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast::<u8>(), length) };
        // The call comes after the load that said what is there to be read, as calls do.
        self.file.read_exact_at(bytes, offset as u64)
    }
}

fn word(header: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
}

#[cfg(any(test, feature = "fuzzing"))]
impl ArenaMemory {
    /// The whole arena as the program that made it has it.
    pub(super) fn map_whole(file: File, length: usize) -> Self {
        Self::map_bytes(file, length).unwrap_or_else(|error| panic!("mmap: {error}"))
    }

    /// The word at an offset of the whole, for fake programs.
    pub(super) fn word(&self, offset: usize) -> &std::sync::atomic::AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset + 8 <= self.length);
        // SAFETY: within the mapping and aligned by the assertion.
        unsafe { std::sync::atomic::AtomicU64::from_ptr(self.base.as_ptr().add(offset).cast()) }
    }
}

impl Drop for ArenaMemory {
    fn drop(&mut self) {
        // SAFETY: exactly what was mapped, and nothing borrows from it now.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.length) };
    }
}
