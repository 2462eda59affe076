//! Registers as unwind tables number them.

/// How many are numbered: 16 general ones, and the instruction.
pub(crate) const COUNT: usize = 17;
/// The frame pointer.
pub(crate) const FRAME: usize = 6;
/// The stack pointer.
pub(crate) const STACK: usize = 7;
/// The instruction, and in a table's rules the return address.
pub(crate) const INSTRUCTION: usize = 16;
/// Those by which frames are found: what functions leave to their callers as it was, r10, which
/// functions that align their stack use while they make their frame, and those above.
pub(crate) const FOLLOWED: [usize; 9] = [3, FRAME, STACK, 10, 12, 13, 14, 15, INSTRUCTION];
/// Those that a function leaves to its caller as they were: rbx, rbp, and r12 to r15.
const KEPT: u32 = 1 << 3 | 1 << FRAME | 0b1111 << 12;

/// What the registers hold in a function, as far as that is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registers {
    values: [u64; COUNT],
    known: u32,
}

impl Registers {
    /// Those of the function into which this is inlined.
    #[inline(always)]
    pub(crate) fn here() -> Self {
        let mut values = [0_u64; COUNT];
        // SAFETY: writes within `values`. The address is that of the last line but one, where all
        // registers hold what they hold here.
        unsafe {
            core::arch::asm!(
                "mov [{values} + 24], rbx",
                "mov [{values} + 48], rbp",
                "mov [{values} + 56], rsp",
                "mov [{values} + 96], r12",
                "mov [{values} + 104], r13",
                "mov [{values} + 112], r14",
                "mov [{values} + 120], r15",
                "lea {address}, [rip]",
                "mov [{values} + 128], {address}",
                values = in(reg) values.as_mut_ptr(),
                address = out(reg) _,
                options(nostack, preserves_flags),
            );
        }
        Self { values, known: KEPT | 1 << STACK | 1 << INSTRUCTION }
    }

    /// Those that a signal interrupted.
    pub(crate) fn interrupted(context: &libc::ucontext_t) -> Self {
        let general = [
            libc::REG_RAX,
            libc::REG_RDX,
            libc::REG_RCX,
            libc::REG_RBX,
            libc::REG_RSI,
            libc::REG_RDI,
            libc::REG_RBP,
            libc::REG_RSP,
            libc::REG_R8,
            libc::REG_R9,
            libc::REG_R10,
            libc::REG_R11,
            libc::REG_R12,
            libc::REG_R13,
            libc::REG_R14,
            libc::REG_R15,
            libc::REG_RIP,
        ];
        let values = general.map(|register| context.uc_mcontext.gregs[register as usize] as u64);
        Self { values, known: (1 << COUNT) - 1 }
    }

    /// Becomes those of a caller, of which nothing is known but these.
    #[inline(always)]
    pub(crate) fn go_on(&mut self, instruction: u64, stack: u64, frame: Option<u64>) {
        self.values[INSTRUCTION] = instruction;
        self.values[STACK] = stack;
        self.values[FRAME] = frame.unwrap_or_default();
        self.known = 1 << INSTRUCTION | 1 << STACK | u32::from(frame.is_some()) << FRAME;
    }

    /// Of which nothing is known but these.
    #[cfg(test)]
    pub(crate) fn of_caller(instruction: u64, stack: u64, frame: u64) -> Self {
        let mut registers = Self { values: [0; COUNT], known: 0 };
        registers.go_on(instruction, stack, Some(frame));
        registers
    }

    /// Becomes what is left of them in the caller where no rule says otherwise.
    pub(crate) fn keep(&mut self) {
        self.known &= KEPT;
    }

    /// A register's value, if it is known.
    pub(crate) fn get(&self, register: usize) -> Option<u64> {
        self.values.get(register).copied().filter(|_| self.known & 1 << register != 0)
    }

    /// A register is known.
    pub(crate) fn set(&mut self, register: usize, value: u64) {
        if let Some(slot) = self.values.get_mut(register) {
            *slot = value;
            self.known |= 1 << register;
        }
    }

    /// A register is not known any more.
    pub(crate) fn forget(&mut self, register: usize) {
        self.known &= !(1_u32.checked_shl(register as u32).unwrap_or_default());
    }

    /// The instruction.
    pub(crate) fn instruction(&self) -> u64 {
        self.values[INSTRUCTION]
    }

    /// The stack pointer.
    pub(crate) fn stack(&self) -> u64 {
        self.values[STACK]
    }
}

/// Whether the eight bytes before a return address end with a call.
pub(crate) fn ends_with_call(bytes: [u8; 8]) -> bool {
    // call rel32; call r/m64 with no displacement, with a SIB byte, with 8 and with 32 bits.
    let indirect = |at: usize, modes: [u8; 2]| {
        bytes[at] == 0xff && bytes[at + 1] >> 3 & 7 == 2 && modes.contains(&(bytes[at + 1] >> 6))
    };
    bytes[3] == 0xe8
        || indirect(6, [0, 3])
        || indirect(5, [0, 1])
        || indirect(4, [1, 1])
        || indirect(2, [0, 2])
        || indirect(1, [2, 2])
}
