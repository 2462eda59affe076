//! Tracepoints of GPU drivers become jobs, waits and frames.

mod play;
