//! Items: what a thread writes into its ring.
//!
//! An item is 1 to [`MAX_ITEM_WORDS`] words of 64 bits. The low byte of the first word is the
//! [`ItemKind`]; in a stamped item the other 56 bits are ticks. Items without a stamp are the
//! attributes of the stamped item before them; an event and its attributes are published at once.

mod attributes;
mod gpu;
mod image;

pub use gpu::{GpuEvent, GpuZoneNumber, MAX_DEVIATION};
pub use image::{FrameImage, ITEM_BLOCKS, ImageBlocks, MAX_IMAGE_BLOCKS};

use crate::numbers::numbered;
use crate::pieces::{STACK_ADDRESSES, StackPiece, TEXT_BYTES, TextPiece};
use crate::{FramePhase, LockAction, LoopPhase, MarkerPhase, StackEnding, TextRole};

/// Words of the longest item.
pub const MAX_ITEM_WORDS: usize = 4;
/// The field of an [`Attribute::Value`] that is the value of the zone itself.
pub const ZONE_VALUE: u32 = u32::MAX;

numbered! {
    /// What an item is: the low byte of its first word. Words are numbered from 0;
    /// `a | b << 32` are the halves of a word. What an item says: [`Event`], [`Attribute`].
    ItemKind: u8 {
        /// Stamped, 2 words: `location | depth << 32`.
        ZoneBegin = 0x01,
        /// 2 words: word 0 `kind | TextRole << 8 | string << 32`, word 1 the number.
        Tag = 0x03,
        /// 1 to 4 words: word 0
        /// `kind | TextRole << 8 | bytes here << 16 | more follows << 24 | field << 32`, then the
        /// bytes.
        Text = 0x04,
        /// 2 words: word 0 `kind | ValueType << 8 | field << 32`, word 1 the value.
        Value = 0x05,
        /// 1 word: `kind | 0xRRGGBB << 8`.
        Color = 0x06,
        /// Stamped, 2 words: `string | color << 32`.
        Message = 0x07,
        /// Stamped, 3 words: `plot | ValueType << 32`, the value.
        Plot = 0x08,
        /// Stamped, 2 words: `string of the frame set | FramePhase << 32`.
        Frame = 0x09,
        /// Stamped, 4 words: `location`, the zone's number, the task's number.
        AsyncBegin = 0x0a,
        /// Stamped, 2 words: the zone's number.
        AsyncEnd = 0x0b,
        /// 2 words: word 0 `kind | string << 32`, word 1 the task's number.
        TaskName = 0x0c,
        /// Stamped, 3 words: `lock | LockAction << 32`, `location`.
        Lock = 0x0d,
        /// Stamped, 4 words: address, bytes, `string of the pool`.
        Alloc = 0x0e,
        /// Stamped, 3 words: address, `string of the pool`.
        Free = 0x0f,
        /// Stamped, 2 words: `schema | MarkerPhase << 32`.
        Marker = 0x10,
        /// Stamped, 4 words: `schema | MarkerPhase << 32`, ticks of the marker, `tid | 0 << 32`.
        MarkerAt = 0x11,
        /// 2 to 4 words: word 0
        /// `kind | addresses here << 8 | more follows << 16 | StackEnding << 24`, then the
        /// addresses. The ending is that of the last one; 0 where nothing is said of it.
        Stack = 0x12,
        /// Stamped, 2 words: how many events.
        Lost = 0x13,
        /// Stamped, 3 words: `location | depth << 32`, ticks of its beginning.
        OpenZone = 0x14,
        /// Stamped, 4 words: `signal | code << 32`, faulting address, instruction.
        Crash = 0x15,
        /// Stamped, 2 words: how many zones are open.
        Attached = 0x16,
        /// Stamped, 1 word.
        ThreadEnd = 0x17,
        /// Stamped, 4 words: `location`, the zone's number, ticks of its beginning.
        AsyncOpen = 0x18,
        /// Stamped, 3 words: `context | number << 32`, `location`.
        GpuZoneBegin = 0x19,
        /// Stamped, 2 words: `context | number << 32`.
        GpuZoneEnd = 0x1a,
        /// Stamped, 4 words: `context | number << 32`, the GPU's ticks of its beginning and end.
        GpuTimes = 0x1b,
        /// Stamped, 2 words: `context | number << 32`.
        GpuNoTimes = 0x1c,
        /// Stamped, 4 words: `context | nanoseconds of deviation << 32 | HostClock << 63`, the
        /// host's clock, the GPU's ticks.
        GpuCalibration = 0x1d,
        /// Stamped, 4 words: `image | frames ago << 16 | flipped << 24`, ticks when it was taken,
        /// `width | height << 16`.
        FrameImage = 0x1e,
        /// 2 to 4 words: word 0 `kind | blocks here << 8 | image << 16 | first block << 32`, then
        /// the blocks.
        ImageBlocks = 0x1f,
        /// Stamped, 2 words: [`LoopPhase`].
        Loop = 0x20,
    }
}

/// A zone's end is one stamped word whose kind is this, with the depth it
/// leaves behind (the number of zones still open, modulo 64) in the low bits.
pub const ZONE_END: u8 = 0xc0;
/// The bits of [`ZONE_END`] that carry the depth.
pub const ZONE_END_DEPTH: u8 = 0x3f;

/// An event, or an attribute of the event before it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Item {
    /// An event.
    Stamped {
        /// The low 56 bits of the ticks when it happened, or was written down.
        ticks: u64,
        /// The event.
        event: Event,
    },
    /// More of the event before, or of what is open.
    Attribute(Attribute),
}

/// What happened on a thread, or what a collector has to know of it. Numbers of strings, locations,
/// plots, locks and schemas are those of the [log](crate::log).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// A zone begins.
    ZoneBegin {
        /// Its source location.
        location: u32,
        /// Zones of the thread that were open before it.
        depth: u32,
    },
    /// The innermost zone ends, and what else is open beyond that depth.
    ZoneEnd {
        /// Zones that are still open, modulo 64.
        depth: u8,
    },
    /// A message.
    Message {
        /// Its string; 0: the text follows as an attribute.
        string: u32,
        /// 0xRRGGBB; 0 is none.
        color: u32,
    },
    /// A plot has a value.
    Plot {
        /// The plot.
        plot: u32,
        /// Its value from now on.
        value: Value,
    },
    /// A frame begins or ends.
    Frame {
        /// String of the frame set; 0 is the main set.
        set: u32,
        /// What of the frame.
        phase: FramePhase,
    },
    /// An async zone begins.
    AsyncBegin {
        /// Its source location.
        location: u32,
        /// Its number within the process.
        zone: u64,
        /// The task's number; 0: the zone is a task of its own.
        task: u64,
    },
    /// An async zone ends, on any thread.
    AsyncEnd {
        /// Its number.
        zone: u64,
    },
    /// Something happens to a lock.
    Lock {
        /// The lock.
        lock: u32,
        /// What happens.
        action: LockAction,
        /// Where in the source; 0 is unknown.
        location: u32,
    },
    /// Memory was allocated.
    Alloc {
        /// Where it lies.
        address: u64,
        /// How much.
        bytes: u64,
        /// String of the pool; 0 is the heap.
        pool: u32,
    },
    /// Memory was given back.
    Free {
        /// Where it lay.
        address: u64,
        /// String of the pool; 0 is the heap.
        pool: u32,
    },
    /// A marker. Its fields follow as attributes.
    Marker {
        /// Its schema.
        schema: u32,
        /// What of the marker.
        phase: MarkerPhase,
    },
    /// A marker at another time, or on another thread; stamped with now. Its fields follow.
    MarkerAt {
        /// Its schema.
        schema: u32,
        /// What of the marker.
        phase: MarkerPhase,
        /// When it was, in ticks.
        at: u64,
        /// The thread as its pid namespace numbers it; 0 is the one that wrote the item.
        tid: u32,
    },
    /// Events were lost since the `Lost` before; stamped with the first event that fit again.
    /// Those that came within another event are in
    /// [`RingHeader::lost`](crate::arena::RingHeader::lost) only.
    Lost {
        /// How many.
        events: u64,
    },
    /// After `Attached`: a zone that is open; stamped with now.
    OpenZone {
        /// Its source location.
        location: u32,
        /// Zones around it.
        depth: u32,
        /// When it began, in ticks.
        began: u64,
    },
    /// The program crashes here. A stack follows.
    Crash {
        /// The signal's number.
        signal: u32,
        /// `si_code`.
        code: u32,
        /// The address that could not be accessed.
        address: u64,
        /// The instruction that failed.
        instruction: u64,
    },
    /// The first item that a collector sees of a thread, and the first after `Lost`. The thread's
    /// name (if it was given one) and `OpenZone`s (the outermost 64) follow, outermost first. It
    /// may come at any time and more than once: it repeats what the items before it said, if they
    /// were all seen.
    Attached {
        /// Zones that are open now.
        depth: u32,
    },
    /// The thread ends.
    ThreadEnd,
    /// An async zone that is open when another collector comes; stamped with now, and said once
    /// for the process, by any thread. Its task's name follows if it has one. Its `AsyncBegin` may
    /// have been seen, too.
    AsyncOpen {
        /// Its source location.
        location: u32,
        /// Its number within the process.
        zone: u64,
        /// When it began, in ticks.
        began: u64,
    },
    /// Work of a GPU.
    Gpu(GpuEvent),
    /// An event loop waits, or goes on.
    Loop {
        /// Which of them.
        phase: LoopPhase,
    },
    /// An image of a frame. Its blocks follow as attributes, of a large image in several groups,
    /// each of which begins with this.
    FrameImage(FrameImage),
}

/// More of the event before it. Of a zone, `Tag`, `Text`, `Value` and `Color` tell of the zone that
/// is the innermost at this place, and need not follow its beginning.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Attribute {
    /// A string and a number: "Frame 1234".
    Tag {
        /// What it says.
        role: TextRole,
        /// The string.
        string: u32,
        /// The number.
        number: u64,
    },
    /// A text, or a piece of a longer one.
    Text {
        /// What it says.
        role: TextRole,
        /// Of a marker's field: its place in the schema; else 0.
        field: u32,
        /// The bytes.
        piece: TextPiece,
        /// Whether the next item goes on with it.
        more: bool,
    },
    /// A value with a name.
    Value {
        /// Of a zone: the string that names it, or [`ZONE_VALUE`]; of a marker: the place in its
        /// schema.
        field: u32,
        /// The value.
        value: Value,
    },
    /// The zone's colour: 0xRRGGBB.
    Color(u32),
    /// What a task is called.
    TaskName {
        /// The string.
        string: u32,
        /// The task's number.
        task: u64,
    },
    /// Return addresses, innermost first, or a piece of a longer stack.
    Stack {
        /// The addresses.
        piece: StackPiece,
        /// Whether the next item goes on with it.
        more: bool,
        /// How the walk ended, of the last piece.
        ending: StackEnding,
    },
    /// A piece of an image.
    ImageBlocks(ImageBlocks),
}

/// A value of a plot, a zone or a marker's field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// Unsigned.
    Unsigned(u64),
    /// Signed.
    Signed(i64),
    /// An IEEE double.
    Float(f64),
    /// A string of the log.
    String(u32),
}

/// The words of one item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemWords {
    words: [u64; MAX_ITEM_WORDS],
    length: usize,
}

impl ItemWords {
    /// Those of a zone's beginning, as [`Item::encode`] makes them, which is too large to be
    /// inlined where a zone counts nanoseconds.
    #[inline(always)]
    pub fn zone_begin(ticks: u64, location: u32, depth: u32) -> Self {
        let first = ticks << 8 | ItemKind::ZoneBegin as u64;
        Self { words: [first, halves(location, depth), 0, 0], length: 2 }
    }

    /// Those of a zone's end, in the same way.
    #[inline(always)]
    pub fn zone_end(ticks: u64, depth: u8) -> Self {
        let first = ticks << 8 | u64::from(ZONE_END | depth & ZONE_END_DEPTH);
        Self { words: [first, 0, 0, 0], length: 1 }
    }
}

impl core::ops::Deref for ItemWords {
    type Target = [u64];

    #[inline(always)]
    fn deref(&self) -> &[u64] {
        &self.words[..self.length]
    }
}

/// Words of the item that begins with this one; `None` where there is no such kind.
#[inline]
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
        | ItemKind::Attached
        | ItemKind::GpuZoneEnd
        | ItemKind::GpuNoTimes
        | ItemKind::Loop => 2,
        ItemKind::Plot
        | ItemKind::Lock
        | ItemKind::Free
        | ItemKind::OpenZone
        | ItemKind::GpuZoneBegin => 3,
        ItemKind::AsyncBegin
        | ItemKind::Alloc
        | ItemKind::MarkerAt
        | ItemKind::Crash
        | ItemKind::AsyncOpen
        | ItemKind::GpuTimes
        | ItemKind::GpuCalibration
        | ItemKind::FrameImage => 4,
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
        ItemKind::ImageBlocks => match ImageBlocks::count(first) {
            Some(blocks) => 1 + blocks,
            None => return None,
        },
    };
    Some(length)
}

/// Whether the item that begins with this word is an event: the other 56 bits are ticks.
#[inline]
pub const fn is_stamped(first: u64) -> bool {
    if first as u8 >= ZONE_END {
        return true;
    }
    match ItemKind::from_number(first as u8) {
        Some(
            ItemKind::Tag
            | ItemKind::Text
            | ItemKind::Value
            | ItemKind::Color
            | ItemKind::TaskName
            | ItemKind::Stack
            | ItemKind::ImageBlocks,
        )
        | None => false,
        Some(_) => true,
    }
}

#[inline(always)]
fn halves(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

#[inline(always)]
fn low(word: u64) -> u32 {
    word as u32
}

#[inline(always)]
fn high(word: u64) -> u32 {
    (word >> 32) as u32
}

impl Item {
    /// Its words. Where the variant is known to the compiler, nothing of this is left but them.
    #[inline]
    pub fn encode(self) -> ItemWords {
        match self {
            Self::Stamped { ticks, event } => event.encode(ticks),
            Self::Attribute(attribute) => attribute.encode(),
        }
    }

    /// The item at the beginning of these words; `None` where they are none, or end too early, or
    /// hold a number that means nothing. Where the next item begins, [`item_words`] tells.
    #[inline]
    pub fn decode(words: &[u64]) -> Option<Self> {
        let first = *words.first()?;
        let item = words.get(..item_words(first)?)?;
        if is_stamped(first) {
            Some(Self::Stamped { ticks: first >> 8, event: Event::decode(item)? })
        } else {
            Attribute::decode(item).map(Self::Attribute)
        }
    }
}

impl Event {
    /// Writes each word at its place: a signal handler calls this with little stack, which a build
    /// without optimization would fill with copies.
    #[inline]
    fn encode(self, ticks: u64) -> ItemWords {
        use ItemKind as Kind;
        let mut words = [0; MAX_ITEM_WORDS];
        let (kind, length) = match self {
            Self::ZoneBegin { location, depth } => {
                words[1] = halves(location, depth);
                (Kind::ZoneBegin as u8, 2)
            }
            Self::ZoneEnd { depth } => (ZONE_END | depth & ZONE_END_DEPTH, 1),
            Self::Message { string, color } => {
                words[1] = halves(string, color);
                (Kind::Message as u8, 2)
            }
            Self::Plot { plot, value } => {
                words[1] = halves(plot, value.value_type() as u32);
                words[2] = value.bits();
                (Kind::Plot as u8, 3)
            }
            Self::Frame { set, phase } => {
                words[1] = halves(set, phase as u32);
                (Kind::Frame as u8, 2)
            }
            Self::AsyncBegin { location, zone, task } => {
                words[1] = halves(location, 0);
                words[2] = zone;
                words[3] = task;
                (Kind::AsyncBegin as u8, 4)
            }
            Self::AsyncEnd { zone } => {
                words[1] = zone;
                (Kind::AsyncEnd as u8, 2)
            }
            Self::Lock { lock, action, location } => {
                words[1] = halves(lock, action as u32);
                words[2] = halves(location, 0);
                (Kind::Lock as u8, 3)
            }
            Self::Alloc { address, bytes, pool } => {
                words[1] = address;
                words[2] = bytes;
                words[3] = halves(pool, 0);
                (Kind::Alloc as u8, 4)
            }
            Self::Free { address, pool } => {
                words[1] = address;
                words[2] = halves(pool, 0);
                (Kind::Free as u8, 3)
            }
            Self::Marker { schema, phase } => {
                words[1] = halves(schema, phase as u32);
                (Kind::Marker as u8, 2)
            }
            Self::MarkerAt { schema, phase, at, tid } => {
                words[1] = halves(schema, phase as u32);
                words[2] = at;
                words[3] = halves(tid, 0);
                (Kind::MarkerAt as u8, 4)
            }
            Self::Lost { events } => {
                words[1] = events;
                (Kind::Lost as u8, 2)
            }
            Self::OpenZone { location, depth, began } => {
                words[1] = halves(location, depth);
                words[2] = began;
                (Kind::OpenZone as u8, 3)
            }
            Self::Crash { signal, code, address, instruction } => {
                words[1] = halves(signal, code);
                words[2] = address;
                words[3] = instruction;
                (Kind::Crash as u8, 4)
            }
            Self::Attached { depth } => {
                words[1] = halves(depth, 0);
                (Kind::Attached as u8, 2)
            }
            Self::ThreadEnd => (Kind::ThreadEnd as u8, 1),
            Self::AsyncOpen { location, zone, began } => {
                words[1] = halves(location, 0);
                words[2] = zone;
                words[3] = began;
                (Kind::AsyncOpen as u8, 4)
            }
            Self::Gpu(event) => {
                let (kind, length) = event.write(&mut words);
                (kind as u8, length)
            }
            Self::Loop { phase } => {
                words[1] = phase as u64;
                (Kind::Loop as u8, 2)
            }
            Self::FrameImage(image) => {
                let (kind, length) = image.write(&mut words);
                (kind as u8, length)
            }
        };
        words[0] = ticks << 8 | u64::from(kind);
        ItemWords { words, length }
    }

    /// The event of these words, which are as many as its kind has.
    #[inline]
    fn decode(words: &[u64]) -> Option<Self> {
        let kind = *words.first()? as u8;
        if kind >= ZONE_END {
            return Some(Self::ZoneEnd { depth: kind & ZONE_END_DEPTH });
        }
        let word = |index: usize| words.get(index).copied().unwrap_or_default();
        let (a, b, c) = (word(1), word(2), word(3));
        Some(match ItemKind::from_number(kind)? {
            ItemKind::ZoneBegin => Self::ZoneBegin { location: low(a), depth: high(a) },
            ItemKind::Message => Self::Message { string: low(a), color: high(a) },
            ItemKind::Plot => Self::Plot { plot: low(a), value: Value::decode(high(a) as u8, b)? },
            ItemKind::Frame => {
                Self::Frame { set: low(a), phase: FramePhase::from_number(high(a) as u8)? }
            }
            ItemKind::AsyncBegin => Self::AsyncBegin { location: low(a), zone: b, task: c },
            ItemKind::AsyncEnd => Self::AsyncEnd { zone: a },
            ItemKind::Lock => {
                let action = LockAction::from_number(high(a) as u8)?;
                Self::Lock { lock: low(a), action, location: low(b) }
            }
            ItemKind::Alloc => Self::Alloc { address: a, bytes: b, pool: low(c) },
            ItemKind::Free => Self::Free { address: a, pool: low(b) },
            ItemKind::Marker => {
                Self::Marker { schema: low(a), phase: MarkerPhase::from_number(high(a) as u8)? }
            }
            ItemKind::MarkerAt => {
                let phase = MarkerPhase::from_number(high(a) as u8)?;
                Self::MarkerAt { schema: low(a), phase, at: b, tid: low(c) }
            }
            ItemKind::Lost => Self::Lost { events: a },
            ItemKind::OpenZone => Self::OpenZone { location: low(a), depth: high(a), began: b },
            ItemKind::Crash => {
                Self::Crash { signal: low(a), code: high(a), address: b, instruction: c }
            }
            ItemKind::Attached => Self::Attached { depth: low(a) },
            ItemKind::ThreadEnd => Self::ThreadEnd,
            ItemKind::AsyncOpen => Self::AsyncOpen { location: low(a), zone: b, began: c },
            ItemKind::Loop => Self::Loop { phase: LoopPhase::from_number(a as u8)? },
            ItemKind::FrameImage => Self::FrameImage(FrameImage::read([a, b, c])),
            kind => Self::Gpu(GpuEvent::read(kind, [a, b, c])?),
        })
    }
}

#[cfg(test)]
mod tests;
