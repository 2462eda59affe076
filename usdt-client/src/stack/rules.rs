//! How a function's caller is found from one of its instructions: a row of an unwind table.

use super::cursor::{Cursor, encoding};
use super::module::Module;
use crate::arch::registers::{COUNT, FOLLOWED, INSTRUCTION, STACK};

/// Rows that a table's program may keep aside; compilers keep one.
const KEPT_ROWS: usize = 2;

/// Where the caller's value of a register is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Nothing is said: it is as it was, if functions leave it so.
    Unsaid,
    /// It is lost; of the return address: there is no caller.
    Undefined,
    /// It is as it was.
    Same,
    /// At the frame's address plus this.
    At(i32),
    /// It is the frame's address plus this.
    Is(i32),
    /// In another register.
    In(u8),
    /// At what an expression says; where that is, from the module's start on.
    AtExpression(u32),
    /// It is what an expression says.
    IsExpression(u32),
}

/// Where the frame is: the canonical frame address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// A register plus so much.
    Register(u8, i32),
    /// What an expression says.
    Expression(u32),
}

/// The rules at one instruction. They are few bytes, for a handler of signals may have little stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) frame: Frame,
    /// Of the [`FOLLOWED`] registers.
    rules: [Rule; FOLLOWED.len()],
    /// The function is what a signal's handler returns to: its caller was interrupted.
    pub(crate) is_signal: bool,
}

/// What all functions of a table's part have in common.
#[derive(Clone, Copy, Debug)]
struct Common {
    code_unit: u64,
    data_unit: i64,
    pointers: u8,
    has_augmentation: bool,
    is_signal: bool,
    program: Cursor,
}

/// What is at an address.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FoundRow {
    /// No table says anything of it.
    Nothing,
    /// What a table says cannot be used.
    Unusable,
    /// The row has the rules.
    Row,
}

impl Row {
    /// Of a function that has just been called, as far as nothing is said.
    pub(crate) fn new() -> Self {
        let rules = [Rule::Unsaid; FOLLOWED.len()];
        Self { frame: Frame::Register(STACK as u8, 8), rules, is_signal: false }
    }

    /// A register's rule; of one that is not followed nothing is said.
    pub(crate) fn rule(&self, register: usize) -> Rule {
        match FOLLOWED.iter().position(|known| *known == register) {
            Some(index) => self.rules[index],
            None => Rule::Unsaid,
        }
    }

    fn slot(&mut self, register: u64) -> Option<&mut Rule> {
        let index = FOLLOWED.iter().position(|known| *known as u64 == register)?;
        self.rules.get_mut(index)
    }

    /// Becomes the rules at an address of that file.
    pub(crate) fn find(&mut self, module: &Module, address: u64) -> FoundRow {
        let Some(mut function) = module.description(address) else { return FoundRow::Nothing };
        let found = (|| {
            let place = function.address();
            let back = function.u32()?;
            let common = Common::read(module.record(place.checked_sub(back.into())?)?)?;
            let start = function.pointer(common.pointers)?;
            let size = function.pointer(common.pointers & 0x0f)?;
            if !(start..start.checked_add(size)?).contains(&address) {
                return Some(FoundRow::Nothing);
            }
            if common.has_augmentation {
                let length = function.unsigned()?;
                function.part(length)?;
            }
            self.is_signal = common.is_signal;
            common.run(module, function, address - start, self)?;
            Some(FoundRow::Row)
        })();
        found.unwrap_or(FoundRow::Unusable)
    }
}

impl Common {
    /// A common information entry.
    fn read(mut entry: Cursor) -> Option<Self> {
        // Its number is 0; those of functions say where it is.
        if entry.u32()? != 0 {
            return None;
        }
        let version = entry.byte()?;
        let mut letters = [0; 8];
        let mut count = 0;
        loop {
            match entry.byte()? {
                0 => break,
                letter => *letters.get_mut(count)? = letter,
            }
            count += 1;
        }
        let (code_unit, data_unit) = (entry.unsigned()?, entry.signed()?);
        let return_address = match version {
            1 => entry.byte()?.into(),
            3 => entry.unsigned()?,
            _ => return None,
        };
        if return_address != INSTRUCTION as u64 {
            return None;
        }
        let mut common = Self {
            code_unit,
            data_unit,
            pointers: encoding::ABSOLUTE,
            has_augmentation: letters[0] == b'z',
            is_signal: false,
            program: entry,
        };
        if common.has_augmentation {
            let length = entry.unsigned()?;
            let mut augmentation = entry.part(length)?;
            for letter in &letters[1..count] {
                match letter {
                    b'R' => common.pointers = augmentation.byte()?,
                    b'L' => _ = augmentation.byte()?,
                    b'P' => {
                        let encoding = augmentation.byte()?;
                        augmentation.skip_pointer(encoding)?;
                    }
                    b'S' => common.is_signal = true,
                    _ => return None,
                }
            }
            common.program = entry;
        } else if count > 0 {
            return None;
        }
        Some(common)
    }

    /// Makes of a new row the one so many bytes behind the function's start.
    fn run(&self, module: &Module, function: Cursor, offset: u64, row: &mut Row) -> Option<()> {
        let mut run = Run {
            common: self,
            module,
            first: *row,
            row,
            kept: [const { None }; KEPT_ROWS],
            count: 0,
            at: 0,
        };
        run.program(self.program, u64::MAX)?;
        run.first = *run.row;
        run.at = 0;
        run.program(function, offset)
    }
}

/// A table's program that runs.
struct Run<'a> {
    common: &'a Common,
    module: &'a Module,
    row: &'a mut Row,
    /// What the common part says.
    first: Row,
    kept: [Option<Row>; KEPT_ROWS],
    count: usize,
    /// Bytes behind the function's start for which the row holds.
    at: u64,
}

impl Run<'_> {
    /// Runs the program until its rows are those of later instructions.
    fn program(&mut self, mut program: Cursor, until: u64) -> Option<()> {
        while program.left() > 0 {
            let operation = program.byte()?;
            let low = operation & 0x3f;
            let advance = match operation >> 6 {
                1 => u64::from(low),
                2 => {
                    let offset = program.unsigned()? as i64;
                    self.at_offset(low.into(), offset)?;
                    continue;
                }
                3 => {
                    self.restore(low.into())?;
                    continue;
                }
                _ => match low {
                    0x02 => program.byte()?.into(),
                    0x03 => program.u16()?.into(),
                    0x04 => program.u32()?.into(),
                    _ => {
                        self.operation(low, &mut program)?;
                        continue;
                    }
                },
            };
            self.at = self.at.checked_add(advance.checked_mul(self.common.code_unit)?)?;
            if self.at > until {
                break;
            }
        }
        Some(())
    }

    /// An operation that is neither an advance nor in the upper two bits of its byte.
    fn operation(&mut self, operation: u8, program: &mut Cursor) -> Option<()> {
        let register = match operation {
            // DW_CFA_nop, remember_state, restore_state, def_cfa_offset_sf, def_cfa_expression.
            0x00 | 0x0a | 0x0b | 0x13 | 0x0f => 0,
            _ => program.unsigned()?,
        };
        let operand = match operation {
            // DW_CFA_offset_extended, register, def_cfa, val_offset, GNU_negative_offset_extended.
            0x05 | 0x09 | 0x0c | 0x14 | 0x2f => program.unsigned()? as i64,
            // DW_CFA_offset_extended_sf, def_cfa_sf, def_cfa_offset_sf, val_offset_sf.
            0x11 | 0x12 | 0x13 | 0x15 => program.signed()?,
            // DW_CFA_def_cfa_expression, expression, val_expression.
            0x0f | 0x10 | 0x16 => self.expression(program)?.into(),
            _ => 0,
        };
        self.apply(operation, register, operand)
    }

    /// Applies an operation with its operands.
    fn apply(&mut self, operation: u8, register: u64, operand: i64) -> Option<()> {
        let units = operand.wrapping_mul(self.common.data_unit);
        match operation {
            // DW_CFA_nop, DW_CFA_GNU_args_size.
            0x00 | 0x2e => Some(()),
            0x05 | 0x11 => self.at_offset(register, operand),
            0x2f => self.at_offset(register, operand.wrapping_neg()),
            0x06 => self.restore(register),
            0x07 => self.set(register, Rule::Undefined),
            0x08 => self.set(register, Rule::Same),
            0x09 => self.set(register, Rule::In(operand as u8)),
            0x0a => self.keep_row(),
            0x0b => self.restore_row(),
            0x0c => self.frame(register, operand),
            0x12 => self.frame(register, units),
            // DW_CFA_def_cfa_register, def_cfa_offset and with a sign.
            0x0d | 0x0e | 0x13 => {
                let Frame::Register(before, offset) = self.row.frame else { return None };
                match operation {
                    0x0d => self.frame(register, offset.into()),
                    0x0e => self.frame(before.into(), register as i64),
                    _ => self.frame(before.into(), units),
                }
            }
            0x0f => {
                self.row.frame = Frame::Expression(operand as u32);
                Some(())
            }
            0x10 => self.set(register, Rule::AtExpression(operand as u32)),
            0x16 => self.set(register, Rule::IsExpression(operand as u32)),
            0x14 | 0x15 => self.set(register, Rule::Is(i32::try_from(units).ok()?)),
            _ => None,
        }
    }

    fn keep_row(&mut self) -> Option<()> {
        *self.kept.get_mut(self.count)? = Some(*self.row);
        self.count += 1;
        Some(())
    }

    fn restore_row(&mut self) -> Option<()> {
        self.count = self.count.checked_sub(1)?;
        *self.row = (*self.kept.get(self.count)?)?;
        Some(())
    }

    fn frame(&mut self, register: u64, offset: i64) -> Option<()> {
        if register >= COUNT as u64 {
            return None;
        }
        self.row.frame = Frame::Register(register as u8, i32::try_from(offset).ok()?);
        Some(())
    }

    fn set(&mut self, register: u64, rule: Rule) -> Option<()> {
        if let Some(slot) = self.row.slot(register) {
            *slot = rule;
        }
        Some(())
    }

    fn restore(&mut self, register: u64) -> Option<()> {
        match self.first.slot(register).copied() {
            Some(rule) => self.set(register, rule),
            None => Some(()),
        }
    }

    fn at_offset(&mut self, register: u64, units: i64) -> Option<()> {
        let offset = units.checked_mul(self.common.data_unit)?;
        self.set(register, Rule::At(i32::try_from(offset).ok()?))
    }

    /// Goes over an expression; where it is, from the module's start on.
    fn expression(&self, program: &mut Cursor) -> Option<u32> {
        let place = program.address();
        let length = program.unsigned()?;
        program.part(length)?;
        u32::try_from(self.module.offset(place)?).ok()
    }
}
