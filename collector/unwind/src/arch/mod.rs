//! What depends on the CPU that a file is for.
//!
//! Files are read on any machine, so no `target_arch` decides here: `Elf::of_x86_64` refuses those
//! of other CPUs. Another one is a module beside `x86_64` with the same names, and a choice by the
//! file's machine.

mod x86_64;

pub(crate) use x86_64::{
    FRAME_POINTER, GENERAL_REGISTERS, PLT_ENTRY, RETURN_ADDRESS, SIGNAL_BP, SIGNAL_IP,
    SIGNAL_REGISTERS, SIGNAL_SP, STACK_POINTER,
};
