//! The registers that a kernel keeps at a probe, and their names.

use std::fmt;

/// A general register, or the instruction pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Register {
    /// `rax`
    Rax,
    /// `rbx`
    Rbx,
    /// `rcx`
    Rcx,
    /// `rdx`
    Rdx,
    /// `rsi`
    Rsi,
    /// `rdi`
    Rdi,
    /// `rbp`
    Rbp,
    /// `rsp`
    Rsp,
    /// `r8`
    R8,
    /// `r9`
    R9,
    /// `r10`
    R10,
    /// `r11`
    R11,
    /// `r12`
    R12,
    /// `r13`
    R13,
    /// `r14`
    R14,
    /// `r15`
    R15,
    /// `rip`: the address of the probe's site while it is hit.
    Rip,
}

/// A register under one of its names, which choose how much of it is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) register: Register,
    /// Bytes: 1, 2, 4 or 8.
    pub(crate) width: u8,
    /// Bits below the part that is meant: 8 for `ah` and its like, else 0.
    pub(crate) shift: u8,
}

/// Names of the whole register, its low 4, 2 and 1 bytes, and of its second byte; and where it
/// lies in `struct pt_regs`.
const NAMES: [(Register, [&str; 4], &str, u16); 17] = [
    (Register::Rax, ["rax", "eax", "ax", "al"], "ah", 80),
    (Register::Rbx, ["rbx", "ebx", "bx", "bl"], "bh", 40),
    (Register::Rcx, ["rcx", "ecx", "cx", "cl"], "ch", 88),
    (Register::Rdx, ["rdx", "edx", "dx", "dl"], "dh", 96),
    (Register::Rsi, ["rsi", "esi", "si", "sil"], "", 104),
    (Register::Rdi, ["rdi", "edi", "di", "dil"], "", 112),
    (Register::Rbp, ["rbp", "ebp", "bp", "bpl"], "", 32),
    (Register::Rsp, ["rsp", "esp", "sp", "spl"], "", 152),
    (Register::R8, ["r8", "r8d", "r8w", "r8b"], "", 72),
    (Register::R9, ["r9", "r9d", "r9w", "r9b"], "", 64),
    (Register::R10, ["r10", "r10d", "r10w", "r10b"], "", 56),
    (Register::R11, ["r11", "r11d", "r11w", "r11b"], "", 48),
    (Register::R12, ["r12", "r12d", "r12w", "r12b"], "", 24),
    (Register::R13, ["r13", "r13d", "r13w", "r13b"], "", 16),
    (Register::R14, ["r14", "r14d", "r14w", "r14b"], "", 8),
    (Register::R15, ["r15", "r15d", "r15w", "r15b"], "", 0),
    (Register::Rip, ["rip", "", "", ""], "", 128),
];

/// Widths of the four names, in their order.
const WIDTHS: [u8; 4] = [8, 4, 2, 1];

impl Register {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        NAMES.iter().map(|(register, ..)| *register)
    }

    /// Where the register lies in the kernel's x86-64 `struct pt_regs`, in bytes.
    ///
    /// ```
    /// use syscollect_probes::Register;
    /// assert_eq!(Register::R15.pt_regs_offset(), 0);
    /// assert_eq!(Register::Rsp.pt_regs_offset(), 152);
    /// ```
    pub fn pt_regs_offset(self) -> u16 {
        self.row().3
    }

    /// The register's name, or that of a part: `width` bytes that begin `shift` bits up.
    pub(crate) fn name(self, width: u8, shift: u8) -> &'static str {
        let (_, names, second_byte, _) = self.row();
        if shift == 8 && !second_byte.is_empty() {
            return second_byte;
        }
        let chosen = WIDTHS.iter().position(|w| *w == width).map_or("", |at| names[at]);
        if chosen.is_empty() { names[0] } else { chosen }
    }

    fn row(self) -> &'static (Self, [&'static str; 4], &'static str, u16) {
        // The rows stand in the order of the variants, which a test checks.
        &NAMES[self as usize]
    }
}

impl Named {
    /// The register that `name` (without `%`) means.
    pub(crate) fn find(name: &str) -> Option<Self> {
        NAMES.iter().filter(|_| !name.is_empty()).find_map(|&(register, names, second_byte, _)| {
            let (width, shift) = match names.iter().position(|n| *n == name) {
                Some(at) => (WIDTHS[at], 0),
                None if second_byte == name => (1, 8),
                None => return None,
            };
            Some(Self { register, width, shift })
        })
    }
}

impl fmt::Display for Register {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name(8, 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_register_has_the_row_of_its_own_number_and_a_place_of_its_own() {
        let mut offsets: Vec<_> = Register::all().map(Register::pt_regs_offset).collect();
        for (number, register) in Register::all().enumerate() {
            assert_eq!(register as usize, number);
        }
        offsets.sort_unstable();
        offsets.dedup();
        assert_eq!(offsets.len(), 17);
        assert!(offsets.iter().all(|offset| offset % 8 == 0 && *offset < 168));
    }

    #[test]
    fn a_name_is_found_with_its_width_and_shift_and_printed_again() {
        for name in
            ["rax", "eax", "ax", "al", "ah", "dh", "sil", "bpl", "r8d", "r10w", "r15b", "rip"]
        {
            let named = Named::find(name).unwrap();
            assert_eq!(named.register.name(named.width, named.shift), name);
        }
        assert_eq!(Named::find("ah"), Some(Named { register: Register::Rax, width: 1, shift: 8 }));
        for unknown in ["", "xmm0", "eip", "RAX", "r16", "%rax"] {
            assert_eq!(Named::find(unknown), None, "{unknown}");
        }
    }
}
