//! Scenarios of instrumented programs and of probes, told again as text.
#![allow(clippy::unwrap_used, reason = "the helpers of the tests may panic as the tests do")]

mod balance;
mod gpu;
mod images;
mod loops;
mod probes;
mod programs;
mod random;
mod zones;
