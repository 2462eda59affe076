//! x86-64: in which order the kernel keeps registers.

/// Registers that are saved beside ip and sp.
pub(crate) const SAVED_REGISTERS: usize = 15;
/// `struct pt_regs` (arch/x86/include/asm/ptrace.h). It has rsp elsewhere.
pub(crate) const RUNNING_ORDER: u64 = 0x0123_6789_f4ed_5bca;
/// `struct sigcontext`, from r8 on (arch/x86/include/uapi/asm/sigcontext.h).
pub(crate) const INTERRUPTED_ORDER: u64 = 0x7654_3210_fa89_becd;
