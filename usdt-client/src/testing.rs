//! For tests without a collector: raises the semaphore of this process alone
//! and reads the process's own arena. No part of the stable interface.

use crate::semaphore::{SEMAPHORE, Semaphore};
use crate::{arena, clock, memory};
use core::sync::atomic::Ordering;
use syscollect_zone_protocol::arena::{
    ARENA_BYTES, ArenaHeader, ClockKind, HEADER_STRIDE, HEADERS_OFFSET, LOG_BYTES, LOG_OFFSET,
    MAX_RINGS, PAGE, RING_BYTES, RING_STRIDE, RINGS_OFFSET, RingHeader,
};
use syscollect_zone_protocol::item_words;

pub use crate::arena::LOST_BEFORE_ARENA;

/// Keeps the program from recorders that run on this machine, now or later: what they do with
/// other programs neither raises its semaphore nor reads its arena. Call it before the first event,
/// while there is one thread.
///
/// A recorder is still attached to the probes of the file, of which it hears nothing.
pub fn hide_from_recorders() {
    arena::HIDDEN.store(true, Ordering::Relaxed);
    // The kernel finds the semaphore by its place in the mapped file. Where there is no file, it
    // raises nothing, and what it has raised so far is gone.
    let page = core::ptr::from_ref(&SEMAPHORE).cast_mut();
    let (protection, flags) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
    );
    // SAFETY: the semaphore has its pages for itself, and zero is what it begins with.
    let mapped =
        unsafe { libc::mmap(page.cast(), size_of::<Semaphore>(), protection, flags, -1, 0) };
    assert_eq!(mapped, page.cast(), "the semaphore gets memory of its own");
}

/// Behaves as if a collector had attached.
pub fn raise() {
    SEMAPHORE.fetch_add(1, Ordering::Relaxed);
}

/// Behaves as if it had gone.
pub fn lower() {
    SEMAPHORE.fetch_sub(1, Ordering::Relaxed);
}

/// Behaves as if memfd_create were refused. Call it before the first event.
pub fn refuse_shared_memory() {
    arena::REFUSE_MEMORY.store(true, Ordering::Relaxed);
}

/// Behaves as if there were no invariant time stamp counter. Call it before the first event.
pub fn refuse_counter() {
    clock::force(ClockKind::Monotonic);
}

/// The descriptor of the process's arena, if it has made one.
pub fn arena_descriptor() -> Option<i32> {
    let arena = arena::existing()?;
    (!arena.is_fallback()).then(|| arena.descriptor())
}

/// Hits the probe that announces a ring, as a program may that shares memory by itself, honestly or
/// not.
pub fn announce(descriptor: i32, ring: u32) {
    crate::arch::probe_site::ring(descriptor, ring, ARENA_BYTES as u64);
}

/// Maps an arena as a collector does; the mapping stays.
pub fn map_arena(descriptor: i32) -> Option<*mut u8> {
    memory::map_shared(descriptor, ARENA_BYTES).map(core::ptr::NonNull::as_ptr)
}

/// A reader of the process's own rings.
pub struct Drain {
    base: *mut u8,
}

// SAFETY: the arena is mapped as long as the process lives, and all of it that is used here is
// atomic.
unsafe impl Send for Drain {}

impl Drain {
    /// Opens the process's arena, if it has made one.
    pub fn open() -> Option<Self> {
        Self::of(arena_descriptor()?)
    }

    /// Opens an arena by its descriptor, another process's perhaps.
    pub fn of(descriptor: i32) -> Option<Self> {
        map_arena(descriptor).map(|base| Self { base })
    }

    /// The arena's header.
    pub fn header(&self) -> &ArenaHeader {
        // SAFETY: the mapping begins with it.
        unsafe { &*self.base.cast::<ArenaHeader>() }
    }

    /// Rings that were ever used.
    pub fn rings(&self) -> usize {
        (self.header().rings.load(Ordering::Acquire) as usize).min(MAX_RINGS)
    }

    /// A ring's header.
    pub fn ring(&self, number: usize) -> &RingHeader {
        assert!(number < MAX_RINGS);
        // SAFETY: within the mapping.
        unsafe { &*self.base.add(HEADERS_OFFSET + number * HEADER_STRIDE).cast::<RingHeader>() }
    }

    /// A part of the log.
    pub fn log(&self) -> &[u8] {
        let taken = (self.header().log_taken.load(Ordering::Acquire) as usize).min(LOG_BYTES);
        // SAFETY: within the mapping; entries are complete by the time a test reads them.
        unsafe { core::slice::from_raw_parts(self.base.add(LOG_OFFSET), taken) }
    }

    /// Takes the items of a ring: a copy of the words between tail and head, without the tails of
    /// items in the slack.
    pub fn take(&mut self, number: usize) -> Vec<Vec<u64>> {
        let ring = self.ring(number);
        let head = ring.head.load(Ordering::Acquire);
        let mut position = ring.tail.load(Ordering::Relaxed);
        let mut items = Vec::new();
        while position < head {
            let words = item_words(self.word_at(number, position as usize % RING_BYTES))
                .expect("a known item");
            // The words of an item lie one behind the other, beyond the end of the data if need be.
            let start = position as usize % RING_BYTES;
            items.push((0..words).map(|index| self.word_at(number, start + index * 8)).collect());
            position += words as u64 * 8;
        }
        ring.tail.store(position, Ordering::Release);
        items
    }

    /// A word of a ring's items, at an offset below data and slack.
    pub fn word_at(&self, number: usize, offset: usize) -> u64 {
        assert!(number < MAX_RINGS && offset + 8 <= RING_BYTES + PAGE);
        // SAFETY: within the ring's data and slack.
        unsafe {
            self.base
                .add(RINGS_OFFSET + number * RING_STRIDE + offset)
                .cast::<u64>()
                .read_volatile()
        }
    }

    /// Empties all rings without looking.
    pub fn discard(&mut self) {
        for number in 0..self.rings() {
            let ring = self.ring(number);
            ring.tail.store(ring.head.load(Ordering::Acquire), Ordering::Release);
        }
    }

    /// Events that all rings have lost.
    pub fn lost(&self) -> u64 {
        (0..self.rings()).map(|number| self.ring(number).lost.load(Ordering::Relaxed)).sum()
    }
}

/// Takes the arena as a collector does, so that rings are not taken over, until the file is closed.
pub fn lock_arena() -> Option<std::fs::File> {
    let path = format!("/proc/self/fd/{}", arena_descriptor()?);
    let file = std::fs::File::options().read(true).write(true).open(path).ok()?;
    // SAFETY: plain numbers, for which zero is valid.
    let mut lock: libc::flock = unsafe { core::mem::zeroed() };
    lock.l_type = libc::F_WRLCK as libc::c_short;
    // SAFETY: `lock` is a flock.
    let locked = unsafe {
        libc::fcntl(std::os::fd::AsRawFd::as_raw_fd(&file), libc::F_OFD_SETLK, &raw mut lock)
    } == 0;
    locked.then_some(file)
}
