//! x86-64, System V.

use gimli::{Register, X86_64};

/// DWARF's names of rsp,
pub(crate) const STACK_POINTER: Register = X86_64::RSP;
/// of rbp,
pub(crate) const FRAME_POINTER: Register = X86_64::RBP;
/// and of what stands for the return address.
pub(crate) const RETURN_ADDRESS: Register = X86_64::RA;
/// General registers, by DWARF's numbers.
pub(crate) const GENERAL_REGISTERS: u16 = 16;

/// Where the kernel keeps registers of interrupted code, in bytes from the stack pointer of the
/// signal handler's caller on: in `ucontext` (include/uapi/asm-generic/ucontext.h) is `sigcontext`
/// (arch/x86/include/uapi/asm/sigcontext.h), from byte 40 on.
pub(crate) const SIGNAL_REGISTERS: i64 = 40;
pub(crate) const SIGNAL_BP: i64 = 120;
pub(crate) const SIGNAL_SP: i64 = 160;
pub(crate) const SIGNAL_IP: i64 = 168;

/// Bytes of an entry of a procedure linkage table.
pub(crate) const PLT_ENTRY: u64 = 16;
