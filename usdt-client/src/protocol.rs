//! The memory that a marked program and a collector share, byte by byte.
//!
//! A process that is watched makes one **arena**: a memfd of [`ARENA_BYTES`]
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
//! description lock (`F_OFD_SETLK`, write, whole file), which vanishes with it.
//!
//! **Items** are 1 to [`MAX_ITEM_WORDS`] words of 64 bits. The low byte of the
//! first word is the [`ItemKind`]; in a stamped item the other 56 bits are
//! ticks. Items without a stamp belong to the stamped item before them; a
//! group is published at once. Items lie one behind the other; the ring's
//! slack keeps them from wrapping: position `p` is at `p % RING_BYTES`, and an
//! item that begins before the end of the data ends in the slack.
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
/// Bytes from one ring to the next.
pub const RING_STRIDE: usize = RING_BYTES + PAGE;
/// Most threads that have a ring at one time.
pub const MAX_RINGS: usize = 1024;
/// Bytes of an arena, most of them never touched.
pub const ARENA_BYTES: usize = RINGS_OFFSET + MAX_RINGS * RING_STRIDE;
const _: () = assert!(
    HEADERS_OFFSET + MAX_RINGS * HEADER_STRIDE <= LOG_OFFSET && size_of::<ArenaHeader>() <= PAGE
);
/// Words of the longest item.
pub const MAX_ITEM_WORDS: usize = 4;
/// Bytes of text in one [`ItemKind::Text`] item.
pub const TEXT_BYTES: usize = 24;
/// Addresses in one [`ItemKind::Stack`] item.
pub const STACK_ADDRESSES: usize = 3;

/// The provider of our own USDT probes.
pub const PROVIDER: &str = "syscollect";
/// The probe by which a thread announces its ring: (arena's descriptor, ring's number,
/// ARENA_BYTES).
pub const PROBE_RING: &str = "ring";

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
    /// Pads to a cache line.
    pub collector_line: [AtomicU64; 7],
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

macro_rules! numbered {
    ($(#[$meta:meta])* $name:ident: $repr:ident { $($(#[$item_meta:meta])* $item:ident = $number:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr($repr)]
        pub enum $name { $($(#[$item_meta])* $item = $number,)* }

        impl $name {
            /// The value of that number, if there is one.
            pub const fn from_number(number: $repr) -> Option<Self> {
                match number {
                    $($number => Some(Self::$item),)*
                    _ => None,
                }
            }
        }
    };
}

numbered! {
    /// What an item is: the low byte of its first word. Words are numbered from 0;
    /// `a | b << 32` are the halves of a word.
    ItemKind: u8 {
        /// Stamped, 2 words: `location | depth << 32`; depth is the number of zones open before it.
        ZoneBegin = 0x01,
        /// 2 words: word 0 `kind | TextRole << 8 | string << 32`, word 1 a number: "Frame 1234".
        Tag = 0x03,
        /// Of a zone, like `Tag`, `Value` and `Color`: it tells of the zone that is the innermost
        /// at this place, and need not follow its beginning. `field` is the place of a marker's
        /// field in its schema, else 0. 1 to 4 words: word 0
        /// `kind | TextRole << 8 | bytes here << 16 | more follows << 24 | field << 32`, then the
        /// bytes.
        Text = 0x04,
        /// 2 words: word 0 `kind | ValueType << 8 | field << 32`, word 1 the value. Of a zone,
        /// `field` is the number of the string that names it, u32::MAX for the zone's value; of a
        /// marker, the place in its schema.
        Value = 0x05,
        /// 1 word: `kind | 0xRRGGBB << 8`: the zone's colour.
        Color = 0x06,
        /// Stamped, 2 words: `string | color << 32`; string 0: the text follows. Color is 0xRRGGBB,
        /// 0 is none.
        Message = 0x07,
        /// Stamped, 3 words: `plot | ValueType << 32`, the value.
        Plot = 0x08,
        /// Stamped, 2 words: `string of the frame set | FramePhase << 32`; string 0 is the main
        /// set.
        Frame = 0x09,
        /// Stamped, 4 words: `location`, the zone's number, the task's number (0: the zone is a
        /// task of its own).
        AsyncBegin = 0x0a,
        /// Stamped, 2 words: the zone's number. On any thread.
        AsyncEnd = 0x0b,
        /// 2 words: word 0 `kind | string << 32`, word 1 the number of the task that has this name.
        TaskName = 0x0c,
        /// Stamped, 3 words: `lock | LockAction << 32`, `location`.
        Lock = 0x0d,
        /// Stamped, 4 words: address, bytes, `string of the pool` (0 is the heap).
        Alloc = 0x0e,
        /// Stamped, 3 words: address, `string of the pool`.
        Free = 0x0f,
        /// Stamped, 2 words: `schema | MarkerPhase << 32`. Fields follow.
        Marker = 0x10,
        /// Stamped with now, 4 words: `schema | MarkerPhase << 32`, ticks of the marker,
        /// `tid (0: the own) | 0 << 32`. Fields follow.
        MarkerAt = 0x11,
        /// 2 to 4 words: word 0 `kind | addresses here << 8 | more follows << 16`, then return
        /// addresses, innermost first, of the stamped item before.
        Stack = 0x12,
        /// Stamped with the first event that fit again, 2 words: how many events were lost since
        /// the `Lost` before. Those that came within another event are in `RingHeader::lost` only.
        Lost = 0x13,
        /// Stamped with now, 3 words: `location | depth << 32`, ticks of its beginning. After
        /// `Attached`.
        OpenZone = 0x14,
        /// Stamped, 4 words: `signal | code << 32`, faulting address, instruction. A stack follows.
        Crash = 0x15,
        /// Stamped, 2 words: how many zones are open now. The first item that a collector sees of a
        /// thread, and the first after `Lost`; the thread's name (if it was given one) and
        /// `OpenZone`s (the outermost 64) follow, outermost first. It may come at any time and more
        /// than once: it repeats what the items before it said, if they were all seen.
        Attached = 0x16,
        /// Stamped, 1 word: the thread ends.
        ThreadEnd = 0x17,
        /// Stamped with now, 4 words: `location`, the zone's number, ticks of its beginning. An
        /// async zone that is open when another collector comes; said once for the process, by any
        /// thread. Its task's `TaskName` follows if it has one. Its `AsyncBegin` may have been
        /// seen, too.
        AsyncOpen = 0x18,
    }
}

/// A zone's end is one stamped word whose kind is this, with the depth it
/// leaves behind (the number of zones still open, modulo 64) in the low bits.
pub const ZONE_END: u8 = 0xc0;
/// The bits of [`ZONE_END`] that carry the depth.
pub const ZONE_END_DEPTH: u8 = 0x3f;

numbered! {
    /// What a text says.
    TextRole: u8 {
        /// Words about the innermost open zone.
        ZoneText = 1,
        /// Another name for the innermost open zone.
        ZoneName = 2,
        /// The text of the message before.
        Message = 3,
        /// The name of the thread.
        ThreadName = 4,
        /// A field of the marker before.
        Field = 5,
        /// Words about the async zone before.
        AsyncText = 6,
    }
}

numbered! {
    /// How 64 bits are read.
    ValueType: u8 {
        /// Unsigned.
        Unsigned = 1,
        /// Signed.
        Signed = 2,
        /// An IEEE double.
        Float = 3,
        /// A string's number in the log.
        String = 4,
    }
}

numbered! {
    /// What of a frame.
    FramePhase: u8 {
        /// One frame ends here and the next begins.
        Mark = 0,
        /// A frame of a discontinuous set begins.
        Begin = 1,
        /// It ends.
        End = 2,
    }
}

numbered! {
    /// What of a marker.
    MarkerPhase: u8 {
        /// It has no duration.
        Instant = 0,
        /// The first half.
        Begin = 1,
        /// The second half.
        End = 2,
    }
}

numbered! {
    /// What happens to a lock.
    LockAction: u8 {
        /// A thread begins to wait.
        Wait = 0,
        /// It has the lock.
        Obtain = 1,
        /// It lets go.
        Release = 2,
        /// The same for one of several readers.
        WaitShared = 3,
        /// A reader has the lock.
        ObtainShared = 4,
        /// A reader lets go.
        ReleaseShared = 5,
        /// It stops waiting without the lock (a try that failed, a time that ran out).
        GiveUp = 6,
    }
}

numbered! {
    /// How a field is shown.
    FieldFormat: u8 {
        /// A text.
        Text = 0,
        /// A whole number.
        Integer = 1,
        /// A number with decimals.
        Decimal = 2,
        /// Nanoseconds.
        Duration = 3,
        /// Bytes.
        Bytes = 4,
        /// 0 to 1, shown as percent.
        Percentage = 5,
        /// Hexadecimal.
        Address = 6,
    }
}

numbered! {
    /// What an entry of the log is. An entry begins with [`EntryHeader`]; its
    /// position in the log, in units of 8 bytes and plus 1, is the number by
    /// which items name it (0 is "none").
    EntryKind: u32 {
        /// A text: its bytes, padded with zeros.
        String = 1,
        /// line u32, color u32 (0xRRGGBB, 0 is none), then texts: name, function, file.
        Location = 2,
        /// ValueType u32, 0 u32, then texts: name, unit.
        Plot = 3,
        /// 0 for a mutex, 1 for a lock with readers u32; location's number u32; then text: name.
        Lock = 4,
        /// fields u32, 0 u32, texts: name, category, and for each field: name, label, then a text
        /// of one byte: FieldFormat.
        Schema = 5,
        /// ValueType u32, 0 u32, address u64 of the atomic in the process, then texts: name, unit.
        Counter = 6,
    }
}

/// Begins an entry of the log. Texts within are `u16` bytes and the bytes, without padding.
#[repr(C)]
pub struct EntryHeader {
    /// Bytes of the entry with this header, a multiple of 8, at most 64 KiB;
    /// written last, 0 until then.
    pub size: AtomicU32,
    /// An [`EntryKind`].
    pub kind: AtomicU32,
}

/// Words of an item by the first word; `None` where there is no such kind.
pub const fn item_words(first: u64) -> Option<usize> {
    if first as u8 >= ZONE_END {
        return Some(1);
    }
    let Some(kind) = ItemKind::from_number(first as u8) else { return None };
    let length = match kind {
        ItemKind::Color | ItemKind::ThreadEnd => 1,
        ItemKind::ZoneBegin
        | ItemKind::Tag
        | ItemKind::Value
        | ItemKind::Message
        | ItemKind::Frame
        | ItemKind::AsyncEnd
        | ItemKind::TaskName
        | ItemKind::Marker
        | ItemKind::Lost
        | ItemKind::Attached => 2,
        ItemKind::Plot | ItemKind::Lock | ItemKind::Free | ItemKind::OpenZone => 3,
        ItemKind::AsyncBegin
        | ItemKind::Alloc
        | ItemKind::MarkerAt
        | ItemKind::Crash
        | ItemKind::AsyncOpen => 4,
        ItemKind::Text => {
            let bytes = (first >> 16) as u8 as usize;
            if bytes > TEXT_BYTES {
                return None;
            }
            1 + bytes.div_ceil(8)
        }
        ItemKind::Stack => {
            let addresses = (first >> 8) as u8 as usize;
            if addresses > STACK_ADDRESSES {
                return None;
            }
            1 + addresses
        }
    };
    Some(length)
}

/// Whether the other 56 bits of the first word are ticks.
pub const fn is_stamped(kind: u8) -> bool {
    if kind >= ZONE_END {
        return true;
    }
    match ItemKind::from_number(kind) {
        Some(
            ItemKind::Tag
            | ItemKind::Text
            | ItemKind::Value
            | ItemKind::Color
            | ItemKind::TaskName
            | ItemKind::Stack,
        )
        | None => false,
        Some(_) => true,
    }
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
