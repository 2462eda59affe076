//! Zones of GPUs: what programs submit, and when a GPU did it.
//!
//! [`written`] collects what the threads of a program wrote of them, in the pass before playing,
//! because times come later than what they tell of. [`clock`] is a GPU's clock in the host's ticks;
//! [`placed`] makes of both zones that have times, in order of the GPU's, and [`rows`] gives
//! them rows by what lies within what. Playing emits each at its end.

pub(crate) mod clock;
pub(crate) mod placed;
mod rows;
pub(crate) mod written;
