//! Whatever writers commit and patch, and however it is read and copied, the trace buffer does what
//! its slow and simple model does: the same packets, the same losses, and no panic.
//!
//! An input is a size, a mode, and steps of eight bytes each.
#![no_main]

#[path = "../../collector/trace-buffer/tests/model/mod.rs"]
#[allow(dead_code, reason = "the tests ask for more of it")]
mod model;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    model::script::run(bytes);
});
