//! What of the records depends on the CPU that was recorded.
//!
//! Records are read on any machine, so no `target_arch` decides here. Another CPU is a module
//! beside `x86_64`, and what `cargo xtask layouts` writes for its kernel programs
//! (`bpf/include/arch.h`).

mod x86_64;

pub(crate) use x86_64::{INTERRUPTED_ORDER, RUNNING_ORDER, SAVED_REGISTERS};
