//! What depends on the CPU that a file is for.
//!
//! Files are read on any machine, so no `target_arch` decides here: `Elf::of_x86_64` refuses those
//! of other CPUs. Another one is a folder beside `x86_64` with the same names, and a choice by the
//! file's machine.

mod x86_64;

pub use x86_64::Register;
pub(crate) use x86_64::{
    CALLABLE_NOP, DecodedInstruction, Flow, PARAMETERS, RETURN_ADDRESS_BYTES, STACK_POINTER, Stack,
    decode_instructions, is_nop, is_return, parse_place,
};
