//! BPF ring buffers, one for each CPU: for records that may be written by one
//! program inside of another (probes), where lanes of our own would lose the
//! inner one. And how what is read one by one, from them or from such lanes,
//! becomes chunks.

mod counters;
mod lane;
mod ring;

pub(crate) use counters::{Counters, Counts};
pub(crate) use lane::RingLane;
pub(crate) use ring::{Mapping, Ring};

/// Memory that kernel programs write records to, one after another.
pub(crate) trait Records {
    /// How full it is, 0 to 1.
    fn fill(&self) -> f64;

    /// Hands the records that are complete to `take`, as long as it wants more.
    fn read(&mut self, take: impl FnMut(&[u8]) -> bool);
}

/// Memory of all ring buffers of a source together.
const BYTES_OF_ALL: usize = 256 << 20;

/// Bytes of each CPU's ring buffer: as wanted, or the power of two with which all stay within
/// bounds.
pub(crate) fn bytes_of_each(wanted: usize, cpus: u32) -> usize {
    let share = BYTES_OF_ALL / cpus.max(1) as usize;
    wanted.min(1 << share.max(64 << 10).ilog2())
}
