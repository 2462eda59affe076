//! BPF ring buffers, one for each CPU: for records that may be written by one
//! program inside of another (probes, tracepoints), where lanes of our own
//! would lose the inner one.

mod counters;
mod lane;
mod ring;

pub(crate) use counters::{Counters, Counts};
pub(crate) use lane::RingLane;
pub(crate) use ring::Ring;

/// Memory of all ring buffers of a source together.
const BYTES_OF_ALL: usize = 256 << 20;

/// Bytes of each CPU's ring buffer: as wanted, or the power of two with which all stay within bounds.
pub(crate) fn bytes_of_each(wanted: usize, cpus: u32) -> usize {
    let share = BYTES_OF_ALL / cpus.max(1) as usize;
    wanted.min(1 << share.max(64 << 10).ilog2())
}
