//! Whole sessions through the exporters.
#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test, as its body does")]

mod decode;
mod firefox;
mod firefox_reader;
mod firefox_zones;
mod golden;
mod gpu;
mod lost_samples;
mod perfetto;
mod perfetto_slices;
mod process_filter;
mod replay;
mod report;
mod scenario;
mod stacks;
