//! GPU memory and use of processes, as drivers tell of each open device.
//!
//! **Duties.** Finding who has a GPU open ([`scan`]), and whose it is ([`mod@devices`]); reading
//! what the driver says there ([`fdinfo`]); adding that up by process, each client once
//! ([`clients`]); a thread that asks twice a second and never stands in the way of the collector
//! ([`source`]).
//!
//! **Non-goals.** Which of several processes that share a buffer pays for it: the kernel counts it
//! in each.

mod clients;
mod devices;
mod fdinfo;
mod poll;
mod scan;
mod source;

pub(crate) use devices::devices;
pub(crate) use fdinfo::ClientUsage;
pub(crate) use poll::{OpenGpus, open_gpus};
pub(crate) use source::GpuClients;
