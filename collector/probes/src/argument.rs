//! An argument of a probe: where its value lies while the probe is hit.

use crate::arch::Register;
use std::fmt;

/// No note has more arguments than this; `sys/sdt.h` writes up to 12.
pub const ARGUMENTS_MAX: usize = 32;

/// An argument of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Bytes of the value: 1, 2, 4 or 8. Never more than the register has that holds it.
    pub size: u8,
    /// The value is a signed number: its word is extended by its sign.
    pub signed: bool,
    /// The value is an IEEE number of `size` bytes, which are 4 or 8.
    pub float: bool,
    /// Where the value lies.
    pub place: ArgumentLocation,
}

/// Where the value of an argument lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArgumentLocation {
    /// It is always this.
    Constant(i64),
    /// The low `size` bytes of a register, after `shift` bits are dropped.
    Register {
        /// Which.
        register: Register,
        /// 8 for `ah`, `bh`, `ch` and `dh`, else 0.
        shift: u8,
    },
    /// `size` bytes of memory at `base + index * scale + offset`, with wrapping 64-bit arithmetic.
    ///
    /// A variable of the file (`name(%rip)`) is here too: its `base` is [`Register::Rip`], which
    /// at a hit is the site's own address, and `offset` the way from there to the variable.
    Memory {
        /// A register that is added.
        base: Option<Register>,
        /// Another one, and what it is multiplied with: 1, 2, 4 or 8.
        index: Option<(Register, u8)>,
        /// Bytes.
        offset: i64,
    },
    /// Nothing that can be read at a hit; the operand as the note has it.
    Unsupported(String),
}

/// The value was not there to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the argument cannot be read")]
pub struct Unreadable;

/// The word that a hit yields for `argument`, as the kernel program must compute it.
///
/// The word holds `size` bytes, extended to 8 by the sign where the argument is
/// signed and by zeros otherwise; of a float, its bits. `read_memory` fills the
/// bytes from an address on, or answers `false`.
///
/// # Errors
///
/// When the place is unsupported or its memory cannot be read.
///
/// ```
/// use syscollect_probes::{Argument, Register, evaluate};
/// let argument: Argument = "-4@112(%rsp)".parse().unwrap();
/// fn registers(register: Register) -> u64 {
///     if register == Register::Rsp { 0x1000 } else { 0 }
/// }
/// let word = evaluate(&argument, registers, |address, bytes| {
///     bytes.fill(0xff);
///     address == 0x1070
/// });
/// assert_eq!(word, Ok(-1i64 as u64));
/// ```
pub fn evaluate(
    argument: &Argument,
    registers: impl Fn(Register) -> u64,
    read_memory: impl FnOnce(u64, &mut [u8]) -> bool,
) -> Result<u64, Unreadable> {
    let raw = match &argument.place {
        ArgumentLocation::Constant(value) => *value as u64,
        ArgumentLocation::Register { register, shift } => registers(*register) >> shift,
        ArgumentLocation::Memory { base, index, offset } => {
            let base = base.map_or(0, &registers);
            let index =
                index.map_or(0, |(register, scale)| registers(register).wrapping_mul(scale.into()));
            let mut bytes = [0; 8];
            let length = usize::from(argument.size).min(bytes.len());
            let address = base.wrapping_add(index).wrapping_add_signed(*offset);
            if !read_memory(address, &mut bytes[..length]) {
                return Err(Unreadable);
            }
            u64::from_le_bytes(bytes)
        }
        ArgumentLocation::Unsupported(_) => return Err(Unreadable),
    };
    let unused_bits = 64 - 8 * u32::from(argument.size.clamp(1, 8));
    let left = raw << unused_bits;
    Ok(if argument.signed { ((left as i64) >> unused_bits) as u64 } else { left >> unused_bits })
}

impl Argument {
    /// Whether its value can be read at a hit.
    pub fn is_supported(&self) -> bool {
        !matches!(self.place, ArgumentLocation::Unsupported(_))
    }

    /// The type and place in a short form for people: `i32 [rsp+112]`, `u64 rdi`, `u8 5`.
    pub fn describe(&self) -> String {
        let letter = match self {
            Self { float: true, .. } => 'f',
            Self { signed: true, .. } => 'i',
            _ => 'u',
        };
        let bits = u32::from(self.size) * 8;
        match &self.place {
            ArgumentLocation::Constant(value) => format!("{letter}{bits} {value}"),
            ArgumentLocation::Register { register, shift } => {
                format!("{letter}{bits} {}", register.name(self.size, *shift))
            }
            ArgumentLocation::Memory { base, index, offset } => {
                format!("{letter}{bits} {}", brackets(*base, *index, *offset))
            }
            ArgumentLocation::Unsupported(operand) => {
                format!("{letter}{bits} {operand} (cannot be read)")
            }
        }
    }
}

/// An address as `[rax+rbx*4-8]`.
fn brackets(base: Option<Register>, index: Option<(Register, u8)>, offset: i64) -> String {
    let base = base.map(|register| register.to_string());
    let index = index.map(|(register, scale)| format!("{register}*{scale}"));
    let registers: Vec<String> = base.into_iter().chain(index).collect();
    match (registers.is_empty(), offset) {
        (true, offset) => format!("[{:#x}]", offset as u64),
        (false, 0) => format!("[{}]", registers.join("+")),
        (false, offset) => format!("[{}{offset:+}]", registers.join("+")),
    }
}

/// The form that notes have: `-4@112(%rsp)`. Parsing it yields the same argument.
impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.signed { "-" } else { "" };
        let float = if self.float { "f" } else { "" };
        write!(f, "{sign}{}{float}@", self.size)?;
        match &self.place {
            ArgumentLocation::Constant(value) => write!(f, "${value}"),
            ArgumentLocation::Register { register, shift } => {
                write!(f, "%{}", register.name(self.size, *shift))
            }
            ArgumentLocation::Memory { base: None, index: None, offset } => write!(f, "{offset}"),
            ArgumentLocation::Memory { base, index, offset } => {
                write!(f, "{offset}(")?;
                base.map_or(Ok(()), |register| write!(f, "%{register}"))?;
                index.map_or(Ok(()), |(register, scale)| write!(f, ",%{register},{scale}"))?;
                f.write_str(")")
            }
            ArgumentLocation::Unsupported(operand) => f.write_str(operand),
        }
    }
}
