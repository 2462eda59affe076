//! One capture through every exporter: all show the same, and what was planned.
#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test, as its body does")]

mod damaged;
mod edge_cases;
mod exported;
mod figures;
mod machines;
