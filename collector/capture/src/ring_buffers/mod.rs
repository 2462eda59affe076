//! BPF ring buffers, one for each CPU: for records that may be written by one
//! program inside of another (probes, tracepoints), where lanes of our own
//! would lose the inner one.

mod counters;
mod lane;
mod ring;

pub(crate) use counters::{Counters, Counts};
pub(crate) use lane::RingLane;
pub(crate) use ring::Ring;
