//! Walks a stack by rows, as the kernel programs do.

use crate::UnwindRow;
use crate::arch::{
    FRAME_POINTER, GENERAL_REGISTERS, PLT_ENTRY, SIGNAL_BP, SIGNAL_IP, SIGNAL_REGISTERS, SIGNAL_SP,
};
use syscollect_records::unwind::{
    INTERRUPTED_ORDER, LOST_FRAME_POINTER, RUNNING_ORDER, SAVED_REGISTERS, WORD_BYTES, cfa_rule,
    frame_pointer_rule,
};

/// What is known of a frame's registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// rip: where the frame's code is; of a caller, where it goes on after the call.
    pub ip: u64,
    /// rsp.
    pub sp: u64,
    /// rbp; [`LOST_FRAME_POINTER`] where it is not known.
    pub bp: u64,
}

impl Registers {
    /// Those of code that runs, of which the kernel has saved all, in the order of its
    /// `struct pt_regs`, these two aside.
    pub fn running(ip: u64, sp: u64, saved: &[u64; SAVED_REGISTERS]) -> Self {
        let bp = running_registers(saved)[usize::from(FRAME_POINTER.0)];
        Self { ip, sp, bp }
    }
}

/// All general registers of code that did not call, by DWARF's numbers; rsp is 0 where they came in
/// an order that has it elsewhere.
pub type GeneralRegisters = [u64; GENERAL_REGISTERS as usize];

/// Registers as the kernel saves them, of code that runs: in the order of its `struct pt_regs`.
pub fn running_registers(saved: &[u64; SAVED_REGISTERS]) -> GeneralRegisters {
    in_order(saved, RUNNING_ORDER)
}

/// Registers as they lie in the frame of a signal.
pub fn interrupted_registers(saved: &[u64; SAVED_REGISTERS]) -> GeneralRegisters {
    in_order(saved, INTERRUPTED_ORDER)
}

fn in_order(saved: &[u64; SAVED_REGISTERS], order: u64) -> GeneralRegisters {
    std::array::from_fn(|number| {
        let place = (order >> (number * 4)) as usize & 15;
        saved.get(place).copied().unwrap_or(0)
    })
}

/// The frame that a step led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The caller's.
    pub registers: Registers,
    /// All of them, where a signal interrupted it: its ip is that of the next instruction then, and
    /// not of the one after a call. See [`lookup_address`].
    pub interrupted: Option<GeneralRegisters>,
}

/// Why a step led to no caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkEnd {
    /// There is none: the thread begins here.
    End,
    /// What is known of this code cannot be used: there is no rule that applies, or it leads to
    /// where no caller can be.
    Unusable,
    /// Words that are needed cannot be read.
    Unreadable,
}

/// The address whose row tells of a frame at `ip`.
///
/// A call may be a function's last instruction, after which the code of another begins: of a caller
/// the row before counts. Code that did not call, but runs or was interrupted, has an exact ip.
pub fn lookup_address(ip: u64, exact_ip: bool) -> u64 {
    if exact_ip { ip } else { ip.wrapping_sub(1) }
}

/// The row that holds at byte `address` of a page; `None` if the page has no rows.
pub fn row_at(rows: &[UnwindRow], address: u16) -> Option<UnwindRow> {
    let after = rows.partition_point(|row| row.address <= address);
    rows.get(after.checked_sub(1)?).copied()
}

/// No stack lies below: a lost rbp is a small number.
const LOWEST_STACK: u64 = 4096;

/// One step of a walk, from the frame with `registers` by the row that holds there.
///
/// `general` are the registers of code that did not call; of callers they are not known. `read`
/// returns the 8 bytes at an address.
///
/// # Errors
///
/// Why there is no caller, or none that can be found.
///
/// ```
/// use syscollect_records::unwind::{UnwindRow, cfa_rule};
/// use syscollect_unwind::{Caller, Registers, step};
///
/// // A function that has pushed a word: its caller's address is above it.
/// let row = UnwindRow { cfa: cfa_rule::RSP, cfa_offset: 2, ..UnwindRow::default() };
/// let here = Registers { ip: 0x1000, sp: 0x7f00, bp: 5 };
/// let caller = step(&here, row, None, |address| (address == 0x7f08).then_some(0x2000));
/// let registers = Registers { ip: 0x2000, sp: 0x7f10, bp: 5 };
/// assert_eq!(caller, Ok(Caller { registers, interrupted: None }));
/// ```
pub fn step(
    registers: &Registers,
    row: UnwindRow,
    general: Option<&GeneralRegisters>,
    mut read: impl FnMut(u64) -> Option<u64>,
) -> Result<Caller, WalkEnd> {
    match row.cfa {
        cfa_rule::END => Err(WalkEnd::End),
        cfa_rule::SIGNAL => interrupted(registers.sp, &mut read),
        _ => caller(registers, row, general, &mut read)
            .map(|registers| Caller { registers, interrupted: None }),
    }
}

fn interrupted(sp: u64, read: &mut impl FnMut(u64) -> Option<u64>) -> Result<Caller, WalkEnd> {
    // The handler may have run on a stack of its own, so that this one is anywhere.
    let registers = Registers {
        ip: word(read, sp.wrapping_add_signed(SIGNAL_IP))?,
        sp: word(read, sp.wrapping_add_signed(SIGNAL_SP))?,
        bp: word(read, sp.wrapping_add_signed(SIGNAL_BP))?,
    };
    let mut saved = [0; SAVED_REGISTERS];
    for (at, saved) in (SIGNAL_REGISTERS..).step_by(WORD_BYTES as usize).zip(&mut saved) {
        *saved = word(read, sp.wrapping_add_signed(at))?;
    }
    Ok(Caller { registers, interrupted: Some(interrupted_registers(&saved)) })
}

fn word(read: &mut impl FnMut(u64) -> Option<u64>, at: u64) -> Result<u64, WalkEnd> {
    read(at).ok_or(WalkEnd::Unreadable)
}

fn caller(
    registers: &Registers,
    row: UnwindRow,
    general: Option<&GeneralRegisters>,
    read: &mut impl FnMut(u64) -> Option<u64>,
) -> Result<Registers, WalkEnd> {
    let cfa = cfa(registers, row, general, read)?;
    let returns_by_register = row.cfa >= cfa_rule::RETURN_REGISTER;
    // Callers are further up; anything else is damaged. A function that goes to another stack, as
    // coroutines do, keeps in rbp where its caller's is, which may lie anywhere.
    let elsewhere = row.cfa == cfa_rule::RBP && registers.bp > LOWEST_STACK && cfa > registers.bp;
    let is_here = returns_by_register && cfa == registers.sp;
    if cfa <= registers.sp && !elsewhere && !is_here {
        return Err(WalkEnd::Unusable);
    }
    let ip = match returns_by_register {
        true => general_register(row, general)?,
        false => word(read, beside(cfa, -1))?,
    };
    let bp = match row.frame_pointer {
        frame_pointer_rule::SAME => registers.bp,
        frame_pointer_rule::AT_CFA => word(read, beside(cfa, row.saved_offset))?,
        frame_pointer_rule::AT_RBP => word(read, beside(registers.bp, row.saved_offset))?,
        _ => LOST_FRAME_POINTER,
    };
    Ok(Registers { ip, sp: cfa, bp })
}

/// The register that a row names, if it is known.
fn general_register(row: UnwindRow, general: Option<&GeneralRegisters>) -> Result<u64, WalkEnd> {
    let is_named = (cfa_rule::REGISTER..cfa_rule::RETURN_REGISTER + GENERAL_REGISTERS as u8)
        .contains(&row.cfa);
    let general = general.filter(|_| is_named).ok_or(WalkEnd::Unusable)?;
    Ok(general[usize::from(row.cfa % 16)])
}

/// The canonical frame address: what the stack pointer was before the call.
fn cfa(
    registers: &Registers,
    row: UnwindRow,
    general: Option<&GeneralRegisters>,
    read: &mut impl FnMut(u64) -> Option<u64>,
) -> Result<u64, WalkEnd> {
    let Registers { ip, sp, bp } = *registers;
    let words = row.cfa_offset;
    Ok(match row.cfa {
        cfa_rule::RSP => beside(sp, words),
        cfa_rule::RSP_FAR => {
            sp.wrapping_add(u64::from(words.cast_unsigned()) * 2 * WORD_BYTES as u64)
        }
        cfa_rule::RBP => beside(bp, words),
        cfa_rule::AT_RSP => word(read, beside(sp, words))?,
        cfa_rule::AT_RSP_PLUS_WORD => beside(word(read, beside(sp, words))?, 1),
        cfa_rule::AT_RBP => word(read, beside(bp, words))?,
        cfa_rule::AT_RBP_PLUS_WORD => beside(word(read, beside(bp, words))?, 1),
        cfa_rule::PLT => {
            let has_pushed = (ip % PLT_ENTRY) as i64 >= i64::from(words);
            beside(sp, 1 + i16::from(has_pushed))
        }
        rule => {
            let register = general_register(row, general)?;
            beside(if rule < cfa_rule::RETURN_REGISTER { register } else { sp }, words)
        }
    })
}

/// The address that lies `words` words beside another.
fn beside(address: u64, words: i16) -> u64 {
    address.wrapping_add_signed(i64::from(words) * WORD_BYTES)
}
