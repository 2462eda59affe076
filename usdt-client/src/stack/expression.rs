//! Expressions of unwind tables: what has no rule of its own, as a signal's frame.

use super::cursor::Cursor;
use super::memory::Memory;
use crate::arch::registers::Registers;

/// Values that an expression may have at a time.
const DEPTH: usize = 8;
/// Operations that are run of one.
const STEPS: usize = 64;

/// The values of an expression that runs.
struct Values {
    values: [u64; DEPTH],
    count: usize,
}

impl Values {
    fn push(&mut self, value: u64) -> Option<()> {
        *self.values.get_mut(self.count)? = value;
        self.count += 1;
        Some(())
    }

    fn pop(&mut self) -> Option<u64> {
        self.count = self.count.checked_sub(1)?;
        self.values.get(self.count).copied()
    }

    /// So far below the last one.
    fn peek(&self, below: usize) -> Option<u64> {
        self.values.get(self.count.checked_sub(below + 1)?).copied()
    }

    fn two(&mut self, operation: impl Fn(u64, u64) -> u64) -> Option<()> {
        let (second, first) = (self.pop()?, self.pop()?);
        self.push(operation(first, second))
    }
}

/// Why an expression has no value.
pub(crate) enum NoValue {
    /// It reads memory that is not there.
    Unreadable,
    /// It cannot be understood.
    Unusable,
}

/// The value of an expression; `first` is on the stack when it begins.
pub(crate) fn value(
    mut expression: Cursor,
    first: Option<u64>,
    registers: &Registers,
    memory: &mut Memory,
) -> Result<u64, NoValue> {
    let mut values = Values { values: [0; DEPTH], count: 0 };
    if let Some(first) = first {
        values.push(first).ok_or(NoValue::Unusable)?;
    }
    for _ in 0..STEPS {
        if expression.left() == 0 {
            return values.pop().ok_or(NoValue::Unusable);
        }
        match operation(&mut expression, &mut values, registers).ok_or(NoValue::Unusable)? {
            None => {}
            Some(address) => {
                let word = memory.word(address).ok_or(NoValue::Unreadable)?;
                values.push(word).ok_or(NoValue::Unusable)?;
            }
        }
    }
    Err(NoValue::Unusable)
}

/// Runs one operation; returns the address that it reads, if it reads.
fn operation(
    expression: &mut Cursor,
    values: &mut Values,
    registers: &Registers,
) -> Option<Option<u64>> {
    let code = expression.byte()?;
    match code {
        // DW_OP_deref.
        0x06 => return Some(Some(values.pop()?)),
        // Constants.
        0x08 => values.push(expression.byte()?.into())?,
        0x09 => values.push(expression.byte()? as i8 as u64)?,
        0x0a => values.push(expression.u16()?.into())?,
        0x0b => values.push(expression.u16()? as i16 as u64)?,
        0x0c => values.push(expression.u32()?.into())?,
        0x0d => values.push(expression.u32()? as i32 as u64)?,
        0x0e | 0x0f => values.push(expression.u64()?)?,
        0x10 => values.push(expression.unsigned()?)?,
        0x11 => values.push(expression.signed()? as u64)?,
        0x30..=0x4f => values.push(u64::from(code - 0x30))?,
        // The stack of values: DW_OP_dup, drop, over, swap.
        0x12 => values.push(values.peek(0)?)?,
        0x13 => _ = values.pop()?,
        0x14 => values.push(values.peek(1)?)?,
        0x16 => {
            let (second, first) = (values.pop()?, values.pop()?);
            values.push(second)?;
            values.push(first)?;
        }
        // DW_OP_and, minus, mul, or, plus, plus_uconst, shl, shr.
        0x1a => values.two(|first, second| first & second)?,
        0x1c => values.two(u64::wrapping_sub)?,
        0x1e => values.two(u64::wrapping_mul)?,
        0x21 => values.two(|first, second| first | second)?,
        0x22 => values.two(u64::wrapping_add)?,
        0x23 => {
            let more = expression.unsigned()?;
            let value = values.pop()?;
            values.push(value.wrapping_add(more))?;
        }
        0x24 => values.two(|first, second| first.checked_shl(second as u32).unwrap_or(0))?,
        0x25 => values.two(|first, second| first.checked_shr(second as u32).unwrap_or(0))?,
        // DW_OP_eq, ge, gt, le, lt, ne.
        0x29 => values.two(|first, second| u64::from(first == second))?,
        0x2a => values.two(|first, second| u64::from(first as i64 >= second as i64))?,
        0x2b => values.two(|first, second| u64::from(first as i64 > second as i64))?,
        0x2c => values.two(|first, second| u64::from(first as i64 <= second as i64))?,
        0x2d => values.two(|first, second| u64::from((first as i64) < second as i64))?,
        0x2e => values.two(|first, second| u64::from(first != second))?,
        // DW_OP_breg0 to breg31, DW_OP_bregx.
        0x70..=0x8f => {
            let offset = expression.signed()?;
            let base = registers.get(usize::from(code - 0x70))?;
            values.push(base.wrapping_add_signed(offset))?;
        }
        0x92 => {
            let (register, offset) = (expression.unsigned()?, expression.signed()?);
            let base = registers.get(usize::try_from(register).ok()?)?;
            values.push(base.wrapping_add_signed(offset))?;
        }
        // DW_OP_nop.
        0x96 => {}
        _ => return None,
    }
    Some(None)
}
