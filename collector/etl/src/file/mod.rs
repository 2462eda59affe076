//! Buffers and records of the files of one recording.
//!
//! **Duties.** [`Trace`] opens the files and gives their records: unordered
//! ([`Trace::scan`]) or merged by their raw clock ([`Merged`]), each with its
//! header understood and its payload where it lies. What cannot be read is
//! counted ([`Statistics`]).
//!
//! **Non-goals.** What payloads mean, and what time it is: raw time stamps are
//! given as they are. [`LogfileHeader`] says what they count.
//!
//! A file is a row of buffers, each filled by one CPU: a header of 72 bytes and
//! records, or one compressed stream of them. Buffers of different CPUs follow
//! each other as they happened to be written; those of one CPU are in order,
//! except where a circular file begins anew, which the index puts right.

mod buffer;
mod bytes;
mod classes;
mod error;
mod extent;
mod header;
mod index;
mod merged;
mod record;
mod statistics;
mod trace;
mod wpp;
mod xpress;

pub use classes::{LOST_EVENT, group};
pub use error::FileError;
pub use extent::Extent;
pub use header::{Clock, LogfileHeader};
pub use merged::Merged;
pub use record::HeaderKind;
pub use statistics::Statistics;
pub use trace::Trace;
pub use xpress::expand as expand_xpress;
