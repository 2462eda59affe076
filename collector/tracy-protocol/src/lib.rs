//! The profiled side of Tracy's live protocol.
//!
//! **Duties.** What a viewer is told and asks, as bytes ([`Version`] has the numbers of each
//! version); what is open at a time, so that a viewer which joins later, comes back, or was too
//! slow is told of it; answers to its queries, from the [`Catalogue`] alone. [`Session`] is one
//! viewer after the other.
//!
//! **Non-goals.** No I/O: no sockets, no clocks, no threads. No model of ours: who records says
//! what happened as an [`Event`], with the viewer's numbers of threads and CPUs. No address of any
//! process is ever read; what the protocol calls a pointer is the number of a row.
//!
//! Every byte of a viewer is hostile, and memory for one has bounds ([`Limits`]).

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod answers;
mod catalogue;
mod event;
mod gpu;
mod gpu_contexts;
mod handshake;
mod lz4;
mod picture;
mod session;
mod version;
mod viewer;
mod wire;

pub use catalogue::{
    Catalogue, ContextId, ContextRow, CpuRow, EndedRow, FrameRow, LineRow, LocationId, LocationRow,
    LockId, LockRow, PlotId, PlotRow, SetId, SetRow, StackId, TextId, ThreadRow,
};
pub use event::{Event, Job, LockAction, Memory, Message, Switch, ZoneWords};
pub use handshake::{HELLO, HandshakeError, Host, NOT_AVAILABLE, announcement, greet};
pub use lz4::{MOST_RAW, Packing};
pub use session::{Counts, Limits, Received, Session};
pub use version::{Kind, Query, Version};
