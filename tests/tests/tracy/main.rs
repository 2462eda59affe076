//! Sessions as Tracy files, read back by a reader that knows the format only.
#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test, as its body does")]

mod captures;
mod code;
mod crashes;
mod filter;
mod frames;
mod gpu;
mod layouts;
mod limits;
mod locks;
mod memory;
mod random;
mod scenario;
mod sched;
mod tracks;
mod zones;
