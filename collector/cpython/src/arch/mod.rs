//! What depends on the CPU that an interpreter's file is for.
//!
//! Files are read on any machine, so no `target_arch` decides here: `Elf::of_x86_64` refuses those
//! of other CPUs. Another one is a module beside `x86_64`, a choice by the file's machine, and a
//! look at whether the structures of `versions.rs` lie there as they do on x86-64.

mod x86_64;

pub(crate) use x86_64::cold_part_of;
