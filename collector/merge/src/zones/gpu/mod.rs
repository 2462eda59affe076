//! Zones of GPUs: what programs submit, and when a GPU did it.
//!
//! [`written`] holds what the threads of a program wrote of them, because times come later than
//! what they tell of; [`reading`] reads that, before a recording is played. [`clock`] is a GPU's
//! clock in the host's ticks; [`placed`] makes of both zones that have times, in order of the
//! GPU's, and [`rows`] gives them rows by what lies within what. Playing emits each at its end.
//!
//! A recording that goes on knows times only when they are told: [`live`] holds what has none,
//! [`live_clock`] is the clock as far as it is known, and [`live_context`] gives rows to what
//! nothing can come before any more.

pub(crate) mod clock;
pub(crate) mod live;
mod live_clock;
mod live_context;
pub(crate) mod placed;
pub(crate) mod reading;
mod rows;
pub(crate) mod written;
