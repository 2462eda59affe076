//! Kernel tracepoints of drivers, recorded as the kernel itself describes them.
//!
//! **Duties.** Finding what this kernel offers of the tracepoints that are
//! wanted ([`offer`]), each with its [`format`](mod@format); attaching a program to each
//! that copies its record, and to the ends of work one that tells its
//! [failures]; draining the records into chunks of
//! [`LaneKind::Tracepoint`](syscollect_model::LaneKind::Tracepoint).
//!
//! **Non-goals.** What records mean: names and places of fields change between
//! kernels, so they are kept in the capture and read by `syscollect-merge`.

mod cost;
mod failures;
mod format;
mod keeper;
mod kept;
mod lanes;
mod needed;
mod object;
mod offer;
mod selector;
mod source;
mod tracefs;

pub use cost::{AtTracepoint, TracepointCost};
pub(crate) use failures::{Layout as FailureLayout, NO_FENCES, NO_JOBS};
pub(crate) use format::Format;
pub(crate) use keeper::EventKeeper;
pub use offer::mount_tracepoints;
pub(crate) use offer::{Offers, offered_below};
pub(crate) use selector::GPU;
pub(crate) use source::{Setup, TracepointSource};
