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
//!   after 48 handlers, `pthread_setspecific` after 32 keys.)
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
//! - `parking_lot`: [`lock`] has `parking_lot`'s locks, too.
//! - `c`: what `libsyscollect_client.a` exports; see `include/syscollect.h`.
//!
//! Always there: locks of the standard library that report ([`lock`]), and an allocator that does
//! ([`alloc`]).

#[cfg(not(any(all(target_os = "linux", target_arch = "x86_64"), feature = "protocol")))]
compile_error!(
    "syscollect-usdt-client marks programs on Linux on x86-64: depend on it for that target only"
);

// The macros are used in the crate's own tests, too.
extern crate self as syscollect_usdt_client;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub mod alloc;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod arena;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod clock;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod counter;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub mod crash;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod emit;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod fallback;
#[cfg(all(target_os = "linux", target_arch = "x86_64", feature = "c"))]
#[doc(hidden)]
pub mod ffi;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod fork;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod frame;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod identity;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod location;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub mod lock;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod log;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod marker;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod memory;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub mod message;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod open_async;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod plot;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod probe_site;
pub mod protocol;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod recording;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[doc(hidden)]
pub mod ring;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub mod semaphore;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod stack;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod task;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[doc(hidden)]
pub mod testing;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod text;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod thread;
#[cfg(all(target_os = "linux", target_arch = "x86_64", feature = "tracing"))]
pub mod tracing_layer;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod unread;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub mod zone;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub use clock::{ordered_ticks, ticks};
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub use counter::Counter;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub use emit::{MAX_TEXT, StaticString, Value};
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub use frame::{Frame, FrameSet};
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub use location::{DynamicLocation, Location};
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub use marker::{Field, FieldValue, MAX_FIELDS, Schema, When};
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub use message::set_thread_name;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub use plot::Plot;
pub use protocol::{FieldFormat, MarkerPhase, TextRole};
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub use semaphore::enabled;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub use task::{AsyncZone, Task, Traced};
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub use zone::{Zone, ZoneToken};

/// What the macros use.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[doc(hidden)]
pub mod __private {
    pub use crate::location::function_around;
    pub use crate::message::{CachedText, message_format};
}
