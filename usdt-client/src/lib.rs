//! Marks zones, messages and plots in a program for `syscollect record`.
//!
//! **Duties.** While nobody records, a mark is one load and one predicted
//! branch; no thread, no socket, no memory. While somebody does, a thread writes
//! its marks to a ring in shared memory, which the collector finds by a USDT
//! probe and empties: a time stamp and a few stores each, no lock, no system
//! call, no wait. What does not fit is counted. What a thread has open, and what
//! things are called, is stated again to every collector that comes later.
//!
//! **Non-goals.** No I/O, no formats, no clock conversion: that is the collector's.
//! Linux on x86-64 only.
//!
//! ```
//! use syscollect_usdt_client::{frame_mark, message, plot, zone};
//!
//! fn load(count: u64) {
//!     let zone = zone!("load");
//!     zone.value(count);
//!     for index in 0..count {
//!         let _one = zone!("one", color = 0xff8000);
//!         plot!("index", index);
//!     }
//!     message!("loaded {count}");
//! }
//!
//! load(3);
//! frame_mark!();
//! ```
//!
//! # In somebody else's program
//!
//! - The heap of the application is never used, so marks may stand in its allocator.
//!   (Two calls into the C library, made once per process, may use C's own: `pthread_atfork`
//!   after 48 handlers, `pthread_setspecific` after 32 keys. So does the one that starts the thread
//!   of the feature `images`.)
//! - Marks in signal handlers are recorded, unless they strike in the middle of another; then they
//!   are counted as lost.
//! - Marks work before main and in destructors of thread-local values.
//! - A forked child starts afresh; nothing is left after exec.
//! - Once something was recorded: one file descriptor (close-on-exec) and 1 GiB of address space,
//!   of which memory is what was written, at most 1 MiB for each thread. Where that is refused
//!   (seccomp, `ulimit -v`, `-f` or `-n`), marks hit probes instead, which costs the program more.
//!   A program that closes descriptors which are not its own hides threads that were recorded
//!   before from collectors that come later.
//! - A library that is unloaded (dlclose) leaves its arena behind, with copies of all names.
//!   Sampled [`Counter`]s must not be in it, and no thread may be inside one of its marks.
//! - An executable and a library that both hold this crate have an arena each.
//!
//! # Features
//!
//! - `off` removes all marks at compile time.
//! - `tracing`: `tracing_layer` makes zones and messages of spans and events of `tracing`.
//! - `images`: `frame_image` shows what a frame looked like. The process's first image that is
//!   recorded maps 8 MiB and starts a thread, the only one, which stays; it is not for handlers of
//!   signals.
//! - `parking_lot`: [`lock`] has `parking_lot`'s locks, too.
//! - `c`: what `libsyscollect_client.a` exports; see `include/syscollect.h`.
//!
//! Always there: zones of GPUs ([`gpu`]), locks of the standard library that report ([`lock`]), and
//! an allocator that does ([`alloc`]).

#[cfg(not(target_os = "linux"))]
compile_error!(
    "syscollect-usdt-client instruments programs on Linux: depend on it for that target only"
);

// The macros are used in the crate's own tests, too.
extern crate self as syscollect_usdt_client;

pub mod alloc;
mod arch;
mod arena;
mod clock;
mod counter;
pub mod crash;
mod emit;
pub mod event_loop;
mod fallback;
#[cfg(feature = "c")]
#[doc(hidden)]
pub mod ffi;
mod fork;
pub mod frame;
#[cfg(feature = "images")]
mod frame_image;
pub mod gpu;
mod handler_stack;
mod identity;
mod location;
pub mod lock;
mod log;
mod marker;
mod memory;
pub mod message;
mod open_async;
pub mod plot;
mod recording;
#[doc(hidden)]
pub mod ring;
pub mod semaphore;
mod stack;
mod task;
#[doc(hidden)]
pub mod testing;
mod text;
mod thread;
mod traced;
#[cfg(feature = "tracing")]
pub mod tracing_layer;
mod unread;
pub mod zone;

pub use clock::{ordered_ticks, ticks};
pub use counter::Counter;
pub use emit::{MAX_TEXT, StaticString, Value};
pub use event_loop::{LoopWait, loop_wait};
pub use frame::{Frame, FrameSet};
#[cfg(feature = "images")]
pub use frame_image::{FrameImage, MAX_IMAGE_PIXELS, frame_image};
pub use location::{CachedLocation, DynamicLocation, Location};
pub use marker::{Field, FieldValue, MAX_FIELDS, Schema, When};
pub use message::set_thread_name;
pub use plot::Plot;
pub use semaphore::enabled;
pub use syscollect_zone_protocol::{FieldFormat, MarkerPhase, TextRole};
pub use task::{AsyncZone, Task};
pub use traced::Traced;
pub use zone::{Zone, ZoneToken};

/// What the macros use.
#[doc(hidden)]
pub mod __private {
    pub use crate::location::function_around;
    pub use crate::message::{CachedText, message_format};
}
