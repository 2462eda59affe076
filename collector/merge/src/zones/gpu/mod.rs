//! Zones of GPUs: what programs submit, and when a GPU did it.
//!
//! [`written`] holds what the threads of a program wrote of them, because times come later than
//! what they tell of; [`reading`] reads that, before a recording is played. [`clock`] is a GPU's
//! clock in the host's ticks; [`placed`] makes of both zones that have times, in order of the
//! GPU's, and [`rows`] gives them rows by what lies within what. Playing emits each at its end.

pub(crate) mod clock;
pub(crate) mod placed;
pub(crate) mod reading;
mod rows;
pub(crate) mod written;
