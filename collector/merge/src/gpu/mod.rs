//! Tracepoints of GPU drivers become jobs, waits and frames.
//!
//! **Duties.** [`record`]: the fields of a record by name, for their places change between kernels.
//! [`decoder`]: whose a record is. Jobs are of those who tell of them: [`fences`] of every driver,
//! [`scheduler`] with [`submissions`] of the drivers that use it, [`i915`], [`virtio`]. What they
//! tell comes together in [`gpu_jobs`]: jobs from their stages, told in any order, twice, or never
//! ([`jobs`]), which of them failed ([`failures`]), and the rows of their queues ([`queues`]). Who
//! waits for a fence, and who signaled it: [`waits`]. [`frames`], [`memory`]: what is no job.
//!
//! What no rule here knows is shown as it is: an instant with its fields.

pub(crate) mod decoder;
mod failures;
mod fences;
mod frames;
mod gpu_jobs;
mod i915;
mod jobs;
mod memory;
mod queues;
mod recent;
pub(crate) mod record;
mod scheduler;
mod submissions;
#[cfg(test)]
mod tests;
mod virtio;
mod waits;
