//! x86-64, System V.

mod instructions;
mod operand;
mod register;

pub(crate) use instructions::{DecodedInstruction, Flow, Stack, decode_instructions};
pub(crate) use operand::parse_place;
pub use register::Register;

/// The registers of a function's first parameters.
pub(crate) const PARAMETERS: [Register; 6] =
    [Register::Rdi, Register::Rsi, Register::Rdx, Register::Rcx, Register::R8, Register::R9];
/// Above it lie the other ones,
pub(crate) const STACK_POINTER: Register = Register::Rsp;
/// behind what a call leaves there.
pub(crate) const RETURN_ADDRESS_BYTES: i64 = 8;

/// Whether an instruction begins here that does nothing: `nop`, or one of its longer forms.
pub(crate) fn is_nop(code: &[u8]) -> bool {
    let prefixes = code.iter().take_while(|byte| **byte == 0x66).count();
    matches!(code.get(prefixes..), Some([0x90, ..] | [0x0f, 0x1f, ..]))
}

/// The nop in whose place Linux puts a call once it is probed, since 6.18
/// (arch/x86/kernel/uprobes.c, `is_nop5_insn`).
pub(crate) const CALLABLE_NOP: [u8; 5] = [0x0f, 0x1f, 0x44, 0, 0];

/// Whether an instruction that begins so takes its return address off the stack, with or without a
/// prefix.
pub(crate) fn is_return(code: &[u8]) -> bool {
    matches!(code, [0xc3 | 0xc2, ..] | [0xf2 | 0xf3, 0xc3 | 0xc2, ..])
}
