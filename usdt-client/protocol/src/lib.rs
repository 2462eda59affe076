//! The memory that an instrumented program and a collector share, byte by byte.
//!
//! **Duties.** The layout of the shared memory ([`arena`]), what a thread writes into its ring
//! ([`Item`]) and what items refer to by a number ([`log`]), each with its encoder and its decoder:
//! nobody else shifts bits. The encoders are inlined and leave nothing to do at run time but the
//! stores; the decoders trust nothing.
//!
//! **Non-goals.** No memory is mapped here and none is shared: that is the client's and the
//! collector's. No strings are looked up, no clocks converted.
//!
//! Builds on every system, without the standard library and without dependencies.
//!
//! ```
//! use syscollect_zone_protocol::{Event, Item, item_words};
//!
//! let begin = Item::Stamped { ticks: 1234, event: Event::ZoneBegin { location: 7, depth: 0 } };
//! let words = begin.encode();
//! assert_eq!(item_words(words[0]), Some(2));
//! assert_eq!(Item::decode(&words), Some(begin));
//! ```
#![no_std]

pub mod arena;
mod depth;
mod item;
pub mod log;
mod numbers;
mod pieces;

pub use depth::ended_depth;
pub use item::{
    Attribute, Event, FrameImage, GpuEvent, GpuZoneNumber, ITEM_BLOCKS, ImageBlocks, Item,
    ItemKind, ItemWords, MAX_DEVIATION, MAX_IMAGE_BLOCKS, MAX_ITEM_WORDS, Value, ZONE_END,
    ZONE_END_DEPTH, ZONE_VALUE, is_stamped, item_words,
};
pub use numbers::{
    FieldFormat, FramePhase, GpuApi, HostClock, LockAction, LoopPhase, MarkerPhase, StackEnding,
    TextRole, ValueType,
};
pub use pieces::{STACK_ADDRESSES, StackPiece, TEXT_BYTES, TextPiece, stack_words, text_words};

/// The provider of our own USDT probes.
pub const PROVIDER: &str = "syscollect";
/// The probe by which a thread announces its ring: (arena's descriptor, ring's number,
/// [`arena::ARENA_BYTES`]).
pub const PROBE_RING: &str = "ring";
