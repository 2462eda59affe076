//! Tracepoints of GPU drivers become jobs, waits and frames.
//!
//! **Duties.** [`record`]: the fields of a record by name, for their places change between kernels.
//! [`jobs`]: jobs from their stages, told in any order, twice, or never. [`decoder`]: jobs on the
//! rows of their queues. Which tracepoint tells which stage: [`fences`], [`scheduler`] with
//! [`submissions`], [`drivers`]; [`frames`], [`memory`]. Who waits for a fence, and who signaled
//! it:
//! [`waits`]. Which work failed: [`failures`].
//!
//! What no rule here knows is shown as it is: an instant with its fields.

pub(crate) mod decoder;
mod drivers;
mod failures;
mod fences;
mod frames;
mod jobs;
mod memory;
mod recent;
pub(crate) mod record;
mod scheduler;
mod submissions;
#[cfg(test)]
mod tests;
mod waits;
