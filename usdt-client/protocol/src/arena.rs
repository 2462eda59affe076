//! Where things lie in the shared memory.
//!
//! A process that is recorded makes one **arena**: a memfd of [`ARENA_BYTES`]
//! (sparse: only touched pages exist), sealed against a change of its size.
//!
//! ```text
//! 0                ArenaHeader, a page
//! HEADERS_OFFSET   MAX_RINGS headers of rings: RingHeader, HEADER_STRIDE bytes each
//! LOG_OFFSET       definitions: strings, locations, plots, ... only ever appended
//! RINGS_OFFSET     MAX_RINGS rings of RING_STRIDE bytes each:
//!                    RING_BYTES of items | a page of slack
//! ```
//!
//! The headers lie together, so that whoever reads the arena maps them alone: little memory in one
//! mapping. What the log and the rings hold can be read from the file without mapping it.
//!
//! A thread announces its ring by hitting the USDT probe `syscollect:ring` with
//! the arena's file descriptor and the ring's number. The collector opens the
//! descriptor through /proc/PID/fd, and takes the arena by an open file
//! description lock (`F_OFD_SETLK`, write, whole file), which vanishes with it. Other collectors
//! may read the arena meanwhile, but write nothing into it.
//!
//! [Items](crate::Item) lie one behind the other; the ring's slack keeps them from wrapping:
//! position `p` is at `p % RING_BYTES`, and an item that begins before the end of the data ends in
//! the slack.
//!
//! All numbers are little endian, as x86-64 stores them.
//!
//! None of this is trusted by the collector: whoever reads it checks it.

use core::sync::atomic::{AtomicU32, AtomicU64};

/// Name of the memfd: `/proc/PID/fd/N` links to `/memfd:syscollect-zones (deleted)`.
pub const ARENA_NAME: &str = "syscollect-zones";
/// First word of an arena: "SYSCZONE".
pub const ARENA_MAGIC: u64 = u64::from_le_bytes(*b"SYSCZONE");
/// Version of this layout; another one is not read.
pub const VERSION: u32 = 2;

/// A page: headers and the slack are this large.
pub const PAGE: usize = 4096;
/// Bytes of the log of definitions.
pub const LOG_BYTES: usize = 16 << 20;
/// Where the headers of the rings begin.
pub const HEADERS_OFFSET: usize = PAGE;
/// Bytes from one ring's header to the next.
pub const HEADER_STRIDE: usize = size_of::<RingHeader>();
/// Where the log begins.
pub const LOG_OFFSET: usize = 512 << 10;
/// Where the first ring begins.
pub const RINGS_OFFSET: usize = LOG_OFFSET + LOG_BYTES;
/// Bytes of a ring's items.
pub const RING_BYTES: usize = 1 << 20;
/// Bytes that a thread writes at most before it publishes them as the ring's head: who copies items
/// that it does not hold back from being overwritten must be ahead of the head's last round by as
/// much. The largest group restates all there is to be restated: it has less than 300 KiB.
pub const MAX_GROUP_BYTES: usize = 384 << 10;
/// Bytes from one ring to the next.
pub const RING_STRIDE: usize = RING_BYTES + PAGE;
/// Most threads that have a ring at one time.
pub const MAX_RINGS: usize = 1024;
/// Bytes of an arena, most of them never touched.
pub const ARENA_BYTES: usize = RINGS_OFFSET + MAX_RINGS * RING_STRIDE;
const _: () = assert!(
    HEADERS_OFFSET + MAX_RINGS * HEADER_STRIDE <= LOG_OFFSET && size_of::<ArenaHeader>() <= PAGE
);

/// The first page of an arena. Each side writes cache lines of its own.
#[repr(C, align(64))]
pub struct ArenaHeader {
    /// [`ARENA_MAGIC`], written last.
    pub magic: AtomicU64,
    /// [`VERSION`].
    pub version: AtomicU32,
    /// The process as it sees itself (its pid namespace's id).
    pub pid: AtomicU32,
    /// What ticks are: a [`ClockKind`].
    pub clock: AtomicU32,
    /// Counts forks: 0 for the process that made the arena by itself.
    pub reserved: [AtomicU32; 11],
    /// Written by the collector alone: another number for each collector that
    /// takes the arena; 0 until the first one does. A thread that sees it
    /// change restates what it has open; the first one restates open async zones, too.
    pub attached: AtomicU32,
    /// Pads to a cache line.
    pub collector_line: [AtomicU32; 15],
    /// Rings that were ever used: the collector looks at those below.
    pub rings: AtomicU32,
    /// Threads that found no free ring, so that their events are lost.
    pub threads_without_ring: AtomicU32,
    /// Bytes of the log that are taken; may exceed [`LOG_BYTES`] when it is full.
    pub log_taken: AtomicU64,
    /// Definitions that found the log full.
    pub definitions_lost: AtomicU64,
    /// Events lost by threads without a ring.
    pub events_without_ring: AtomicU64,
    /// Events of threads that have ended, whose rings other threads took because no collector came
    /// to read them.
    pub events_unread: AtomicU64,
    /// When the last of those threads ended: CLOCK_MONOTONIC in nanoseconds.
    pub unread_until: AtomicU64,
    /// Counts up after a thread has taken a ring: who looks for rings that were taken reads one
    /// word for all of them.
    pub claims: AtomicU32,
}

/// The header of a ring. Each side writes cache lines of its own; none shares a pair of lines,
/// which processors fetch together, with the next ring.
#[repr(C, align(256))]
pub struct RingHeader {
    /// A [`RingState`].
    pub state: AtomicU32,
    /// The thread as its pid namespace numbers it.
    pub tid: AtomicU32,
    /// Counts the threads that used this ring; changes when another takes it.
    pub owner: AtomicU32,
    /// Pads to a cache line.
    pub identity: [AtomicU32; 13],
    /// Bytes written, ever; written by the thread.
    pub head: AtomicU64,
    /// Events lost because the ring was full, or because they came within another event of the
    /// thread (a signal handler's); an event is a stamped item with what belongs to it, or one
    /// thing said later of a zone. Written by the thread; counts on when another thread takes the
    /// ring after a collector, and from 0 if none came.
    pub lost: AtomicU64,
    /// When the ring's last thread ended: CLOCK_MONOTONIC in nanoseconds, written before the state.
    pub ended: AtomicU64,
    /// Pads to a cache line.
    pub thread_line: [AtomicU64; 5],
    /// Bytes taken away, ever; written by the collector.
    pub tail: AtomicU64,
    /// Events that collectors have taken away, ever; written by the collector for others, before
    /// `tail`. The program looks at neither this nor the next.
    pub taken_before: AtomicU64,
    /// The same number, written after `tail`: where both agree, they belong to the `tail` that was
    /// read between them.
    pub taken_after: AtomicU64,
    /// Pads to a cache line.
    pub collector_line: [AtomicU64; 5],
}

/// What a ring is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum RingState {
    /// Nobody's; a thread may take it.
    Free = 0,
    /// A thread writes to it.
    Used = 1,
    /// Its thread has ended; the collector takes what is there and frees it.
    Ended = 2,
}

/// What ticks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ClockKind {
    /// The invariant time stamp counter.
    Tsc = 0,
    /// CLOCK_MONOTONIC in nanoseconds.
    Monotonic = 1,
}

const _: () = {
    assert!(size_of::<ArenaHeader>() <= PAGE && size_of::<RingHeader>() <= PAGE);
    assert!(
        core::mem::offset_of!(ArenaHeader, attached) == 64
            && core::mem::offset_of!(ArenaHeader, rings) == 128
    );
    assert!(
        core::mem::offset_of!(RingHeader, head) == 64
            && core::mem::offset_of!(RingHeader, tail) == 128
    );
    assert!(RING_BYTES.is_power_of_two());
};
