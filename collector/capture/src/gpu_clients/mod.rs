//! GPU memory and use of processes, as drivers tell of each open device.
//!
//! **Duties.** Finding who has a GPU open ([`scan`]); reading what the driver says there
//! ([`fdinfo`]); adding that up by process, each client once ([`clients`]); a thread that asks twice a
//! second and never stands in the way of the collector ([`source`]).
//!
//! **Non-goals.** Which of several processes that share a buffer pays for it: the kernel counts it in each.

mod clients;
mod fdinfo;
mod poll;
mod scan;
mod source;

pub(crate) use fdinfo::ClientUsage;
pub(crate) use poll::open_gpus;
pub(crate) use source::GpuClients;
