//! Call stacks, by the unwind tables of the files that are loaded.
//!
//! **Duties.** From the registers of a function to the addresses that its callers go on at, and how
//! that ended. Neither a lock nor a heap is used where the C library is glibc 2.35 or newer, so it
//! may be done in handlers of signals; the stack is read so that nothing happens where it is
//! damaged. Where code has no table (it was made while the program runs), its frame pointer leads on,
//! if there was a call where it leads to.
//!
//! **Non-goals.** Exceptions. Tables that a program registers for code that it makes
//! (`__register_frame`).

mod cursor;
mod expression;
mod memory;
mod module;
mod row_cache;
mod rules;

use self::expression::NoValue;
use self::memory::Memory;
use self::module::Module;
use self::row_cache::SimpleRow;
use self::rules::{FoundRow, Frame, Row, Rule};
use crate::arch::registers::{self, FOLLOWED, FRAME, INSTRUCTION, Registers, STACK};
use syscollect_zone_protocol::StackEnding;

/// Most addresses of a stack.
pub(crate) const MAX_ADDRESSES: usize = 127;
/// A frame is at most this far above the one that it called, bytes, where frame pointers say so.
const MAX_FRAME: u64 = 1 << 20;

/// How a walk is going.
enum WalkStep {
    /// There is a caller, whose registers are the walk's now.
    Caller,
    /// The walk ends here.
    End(StackEnding),
}

/// Return addresses of a stack, innermost first.
pub(crate) struct Stack<'a> {
    addresses: &'a mut [u64; MAX_ADDRESSES],
    count: usize,
    ending: StackEnding,
}

impl<'a> Stack<'a> {
    /// The callers of the function that has these registers. What is given is overwritten.
    pub(crate) fn of_callers(
        registers: &Registers,
        addresses: &'a mut [u64; MAX_ADDRESSES],
    ) -> Self {
        let mut stack = Self { addresses, count: 0, ending: StackEnding::TooDeep };
        let mut walk = Walk::new(registers);
        stack.fill(&mut walk);
        if walk.has_forgotten && stack.ending == StackEnding::UnusableInformation {
            // A register may be needed that a walk by remembered rows does not keep.
            (walk.registers, walk.is_exact, walk.remembers) = (*registers, true, false);
            (stack.count, stack.ending) = (0, StackEnding::TooDeep);
            stack.fill(&mut walk);
        }
        stack
    }

    fn fill(&mut self, walk: &mut Walk) {
        loop {
            if let WalkStep::End(ending) = walk.step() {
                self.ending = ending;
                return;
            }
            let Some(slot) = self.addresses.get_mut(self.count) else { return };
            // Where a signal interrupted is told as if a call had been there.
            *slot = walk.registers.instruction().wrapping_add(walk.is_exact.into());
            self.count += 1;
        }
    }

    /// The addresses.
    pub(crate) fn addresses(&self) -> &[u64] {
        &self.addresses[..self.count]
    }

    /// How the walk ended.
    pub(crate) fn ending(&self) -> StackEnding {
        self.ending
    }
}

/// A walk up a stack.
struct Walk {
    registers: Registers,
    /// The instruction is not behind a call: it is where the walk begins, or where a signal
    /// interrupted.
    is_exact: bool,
    memory: Memory,
    /// The file of the last address: the next is mostly in the same.
    module: Option<Module>,
    /// Rows that are remembered are used.
    remembers: bool,
    /// One was, so that registers are not known which could be.
    has_forgotten: bool,
}

impl Walk {
    fn new(registers: &Registers) -> Self {
        Self {
            registers: *registers,
            is_exact: true,
            memory: Memory::new(),
            module: None,
            remembers: true,
            has_forgotten: false,
        }
    }

    /// Finds the caller.
    fn step(&mut self) -> WalkStep {
        let address = self.registers.instruction().wrapping_sub((!self.is_exact).into());
        if self.remembers
            && let Some(row) = row_cache::find(address)
            && self.go_on(row).is_some()
        {
            return WalkStep::Caller;
        }
        if !self.module.is_some_and(|module| module.contains(address)) {
            self.module = Module::at(address);
        }
        let Some(module) = self.module else { return self.without_table() };
        let mut row = Row::new();
        match row.find(&module, address) {
            FoundRow::Row => {
                if self.remembers
                    && let Some(row) = SimpleRow::of(&row)
                    && row_cache::is_lasting(&module)
                {
                    row_cache::remember(address, row);
                }
                self.by_row(&module, &row)
            }
            FoundRow::Unusable => WalkStep::End(StackEnding::UnusableInformation),
            FoundRow::Nothing => self.without_table(),
        }
    }

    /// Goes to the caller by a row that was remembered, if nothing is wrong with it. Called for most
    /// frames: nothing is copied.
    fn go_on(&mut self, row: SimpleRow) -> Option<()> {
        let (stack, frame_pointer) = (self.registers.stack(), self.registers.get(FRAME));
        if row.by_frame_pointer() && frame_pointer.is_none() {
            return None;
        }
        let frame = row.frame(stack, frame_pointer.unwrap_or_default());
        let instruction =
            self.memory.word(frame.wrapping_sub(8)).filter(|address| *address != 0)?;
        if frame <= stack {
            return None;
        }
        let outer = match row.saved(frame) {
            Some(address) => self.memory.word(address),
            None => frame_pointer,
        };
        self.registers.go_on(instruction, frame, outer);
        (self.has_forgotten, self.is_exact) = (true, false);
        Some(())
    }

    fn by_row(&mut self, module: &Module, row: &Row) -> WalkStep {
        let stack = self.registers.stack();
        match self.leave(module, row) {
            Ok(true) if self.registers.instruction() == 0 => WalkStep::End(StackEnding::Start),
            // Frames lie one above the other, but for a signal's, which may be elsewhere.
            Ok(true) if !row.is_signal && self.registers.stack() <= stack => {
                WalkStep::End(StackEnding::UnusableInformation)
            }
            Ok(true) => {
                self.is_exact = row.is_signal;
                WalkStep::Caller
            }
            Ok(false) => WalkStep::End(StackEnding::Start),
            Err(NoValue::Unreadable) => WalkStep::End(StackEnding::Unreadable),
            Err(NoValue::Unusable) => WalkStep::End(StackEnding::UnusableInformation),
        }
    }

    /// Goes to the caller by the rules of a table; whether there is one.
    fn leave(&mut self, module: &Module, row: &Row) -> Result<bool, NoValue> {
        let frame = match row.frame {
            Frame::Register(register, offset) => {
                let base = self.registers.get(register.into()).ok_or(NoValue::Unusable)?;
                base.wrapping_add_signed(offset.into())
            }
            Frame::Expression(place) => self.expression(module, place, None)?,
        };
        let mut caller = self.registers;
        caller.keep();
        caller.set(STACK, frame);
        for register in FOLLOWED {
            match row.rule(register) {
                Rule::Unsaid => {}
                Rule::Undefined if register == INSTRUCTION => return Ok(false),
                rule => match self.value(module, frame, register, rule)? {
                    Some(value) => caller.set(register, value),
                    None => caller.forget(register),
                },
            }
        }
        caller.get(INSTRUCTION).ok_or(NoValue::Unusable)?;
        self.registers = caller;
        Ok(true)
    }

    /// What a register was in the caller, if that is known.
    fn value(
        &mut self,
        module: &Module,
        frame: u64,
        register: usize,
        rule: Rule,
    ) -> Result<Option<u64>, NoValue> {
        let address = match rule {
            Rule::Unsaid | Rule::Undefined => return Ok(None),
            Rule::Same => return Ok(self.registers.get(register)),
            Rule::In(other) => return Ok(self.registers.get(other.into())),
            Rule::Is(offset) => return Ok(Some(frame.wrapping_add_signed(offset.into()))),
            Rule::IsExpression(place) => {
                return self.expression(module, place, Some(frame)).map(Some);
            }
            Rule::At(offset) => frame.wrapping_add_signed(offset.into()),
            Rule::AtExpression(place) => self.expression(module, place, Some(frame))?,
        };
        self.memory.word(address).map(Some).ok_or(NoValue::Unreadable)
    }

    fn expression(
        &mut self,
        module: &Module,
        place: u32,
        first: Option<u64>,
    ) -> Result<u64, NoValue> {
        let expression = module.expression(place).ok_or(NoValue::Unusable)?;
        expression::value(expression, first, &self.registers, &mut self.memory)
    }

    /// The caller of code that no table describes, by its frame pointer.
    fn without_table(&mut self) -> WalkStep {
        let stack = self.registers.stack();
        // What a signal interrupted may have no frame: what was called by a wrong pointer has none.
        if core::mem::take(&mut self.is_exact)
            && let Some(address) = self.memory.word(stack)
            && is_behind_call(address)
        {
            self.registers.keep();
            self.registers.set(INSTRUCTION, address);
            self.registers.set(STACK, stack.wrapping_add(8));
            return WalkStep::Caller;
        }
        match self.registers.get(FRAME) {
            // The first function of a thread has none, among those that have any.
            Some(0) => WalkStep::End(StackEnding::Start),
            Some(frame) if frame.wrapping_sub(stack) < MAX_FRAME => {
                let words = (self.memory.word(frame), self.memory.word(frame.wrapping_add(8)));
                match words {
                    (Some(outer), Some(address)) if is_behind_call(address) => {
                        self.registers.go_on(address, frame.wrapping_add(16), Some(outer));
                        WalkStep::Caller
                    }
                    _ => WalkStep::End(StackEnding::NoUnwindInformation),
                }
            }
            _ => WalkStep::End(StackEnding::NoUnwindInformation),
        }
    }
}

/// Whether a call lies before it. Code is elsewhere than the stack, and so is what is known of its
/// pages.
fn is_behind_call(address: u64) -> bool {
    Memory::new().bytes_before(address).is_some_and(registers::ends_with_call)
}

#[cfg(test)]
mod tests;
