//! Where a function ends: the instructions with which control leaves it.
//!
//! A probe on a function's return replaces the return address on the stack,
//! which ends a program that looks at it: one whose exceptions pass through
//! the function. Probes on the instructions themselves change nothing that a
//! program sees. These are `ret`, and jumps to other functions in place of a
//! call that would be the last (tail calls). At each of them the stack pointer
//! is what it was at the entry: the address of the return address.
//!
//! A probe in the midst of an instruction, or on data, would break the
//! program. So the function's code is decoded from its first to its last byte,
//! and where anything does not fit (a jump into the midst of an instruction,
//! bytes that are none), nothing is said of it.
//!
//! **Indirect jumps** are those of a `switch`, or tail calls. A tail call
//! happens where the stack is as at the entry, which is followed along the
//! code: just after the frame was given back, or, where there is none, to an
//! address that was not taken from a table. The jump of a `switch` goes to a
//! sum or to an entry of a table, or is marked `notrack`. In doubt it is none of
//! the function's ends: what is missed is noticed with the next function that
//! begins or ends above it on the stack, what is too much would end it early.

use crate::arch::{DecodedInstruction, Flow, Stack, decode_instructions};
use std::ops::Range;

/// Larger functions are not looked at.
const CODE_MAX: u64 = 1 << 20;
/// Instructions from where a frame is given back to the jump that then leaves the function.
const EPILOGUE_MAX: usize = 16;
/// Parts of one function; compilers make two.
const PARTS_MAX: usize = 8;

/// Why the ends of a function cannot be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnclearExits {
    NoSize,
    TooLarge,
    NotDecoded,
    /// It ends in a jump that is not always taken.
    Conditional,
    /// It goes on elsewhere.
    Elsewhere,
    /// Nothing that leaves it was found, but it may have been overlooked.
    Overlooked,
    /// The kernel takes no probe there.
    Unprobed,
}

impl UnclearExits {
    pub(crate) fn why(self) -> &'static str {
        match self {
            Self::NoSize => {
                "the file does not say how long it is, so where it returns cannot be told"
            }
            Self::TooLarge => "it is too large to find out where it returns",
            Self::NotDecoded => "its code cannot be decoded, so where it returns cannot be told",
            Self::Conditional => {
                "it ends in a jump that is not always taken, so whether it ends there cannot be \
                 told"
            }
            Self::Elsewhere => {
                "a part of it lies where no symbol tells, so where it returns cannot be told"
            }
            Self::Overlooked => "where it returns cannot be told from its code",
            Self::Unprobed => "it returns with an instruction that the kernel does not probe",
        }
    }
}

/// Where control leaves a function that lies at `body`, ascending; nothing where it never returns.
/// `parts` are where the compiler may have put the rest of it; `around` tells what lies together
/// with a place of which no symbol tells; `code` gives the bytes.
pub(crate) fn exits<'data>(
    body: Range<u64>,
    parts: &[Range<u64>],
    around: impl Fn(u64) -> Option<Range<u64>>,
    code: impl Fn(Range<u64>) -> Option<&'data [u8]>,
) -> Result<Vec<u64>, UnclearExits> {
    if body.is_empty() {
        return Err(UnclearExits::NoSize);
    }
    let mut function = WholeFunction { entry: body.start, ..WholeFunction::default() };
    function.add(body, &code)?;
    let mut next = 0;
    loop {
        function.add_parts(&mut next, parts, &code)?;
        function.check_jumps()?;
        function.follow();
        // It takes its frame along.
        match function.elsewhere().map(&around) {
            Some(Some(part)) => function.add(part, &code)?,
            Some(None) => return Err(UnclearExits::Elsewhere),
            None => return function.exits(),
        }
    }
}

/// A function with all its parts.
#[derive(Default)]
struct WholeFunction {
    entry: u64,
    parts: Vec<Range<u64>>,
    /// In the order of the parts, in each ascending.
    instructions: Vec<DecodedInstruction>,
    /// The first instruction of each part.
    firsts: Vec<usize>,
    /// For each instruction the depth of the stack before it, if it was reached.
    reached: Vec<Option<Depth>>,
}

/// How far the stack pointer is below its place at the entry, if that can be told.
type Depth = Option<i64>;

impl WholeFunction {
    fn add<'data>(
        &mut self,
        part: Range<u64>,
        code: impl Fn(Range<u64>) -> Option<&'data [u8]>,
    ) -> Result<(), UnclearExits> {
        let size = part.end.saturating_sub(part.start);
        if size > CODE_MAX || self.parts.len() >= PARTS_MAX {
            return Err(UnclearExits::TooLarge);
        }
        let bytes = code(part.clone()).ok_or(UnclearExits::NotDecoded)?;
        let instructions = decode_instructions(bytes, part.start)
            .filter(|instructions| !instructions.is_empty())
            .ok_or(UnclearExits::NotDecoded)?;
        // What it would run into is another function.
        let last = instructions
            .iter()
            .rev()
            .find(|instruction| !instruction.is_padding)
            .map_or(Flow::Next, |instruction| instruction.flow);
        if matches!(last, Flow::Next | Flow::Branch(_)) {
            return Err(UnclearExits::Elsewhere);
        }
        self.firsts.push(self.instructions.len());
        self.parts.push(part);
        self.instructions.extend(instructions);
        Ok(())
    }

    /// Adds the parts to which those that are there jump, from the instruction `next` on.
    fn add_parts<'data>(
        &mut self,
        next: &mut usize,
        parts: &[Range<u64>],
        code: impl Fn(Range<u64>) -> Option<&'data [u8]>,
    ) -> Result<(), UnclearExits> {
        while let Some(instruction) = self.instructions.get(*next).copied() {
            *next += 1;
            let (Flow::Jump(target) | Flow::Branch(target)) = instruction.flow else { continue };
            let part = parts.iter().find(|part| part.contains(&target));
            if let Some(part) = part.filter(|_| !self.contains(target)) {
                self.add(part.clone(), &code)?;
            }
        }
        Ok(())
    }

    /// Where a jump leads that leaves all parts, but with something on the stack.
    fn elsewhere(&self) -> Option<u64> {
        self.instructions.iter().zip(&self.reached).find_map(|(instruction, reached)| {
            match (instruction.flow, (*reached)?) {
                (Flow::Jump(target), Some(1..)) if !self.contains(target) => Some(target),
                (Flow::Branch(target), None | Some(1..)) if !self.contains(target) => Some(target),
                _ => None,
            }
        })
    }

    fn contains(&self, target: u64) -> bool {
        self.parts.iter().any(|part| part.contains(&target))
    }

    /// The instruction at an address.
    fn index(&self, at: u64) -> Option<usize> {
        let part = self.parts.iter().position(|part| part.contains(&at))?;
        let end = self.firsts.get(part + 1).copied().unwrap_or(self.instructions.len());
        let own = &self.instructions[self.firsts[part]..end];
        own.binary_search_by_key(&at, |instruction| instruction.at)
            .ok()
            .map(|index| self.firsts[part] + index)
    }

    /// Whether all jumps within lead to instructions.
    fn check_jumps(&self) -> Result<(), UnclearExits> {
        if self.instructions.iter().any(|instruction| self.leads_between(instruction)) {
            Err(UnclearExits::NotDecoded)
        } else {
            Ok(())
        }
    }

    fn leads_between(&self, instruction: &DecodedInstruction) -> bool {
        match instruction.flow {
            Flow::Jump(target) | Flow::Branch(target) => {
                self.contains(target) && self.index(target).is_none()
            }
            _ => false,
        }
    }

    /// Follows the code from the entry, with the depth of the stack. What is not reached so are the
    /// cases of a `switch`, with the depth at its jump, and what handles exceptions, which nothing
    /// tells of.
    fn follow(&mut self) {
        self.reached = vec![None; self.instructions.len()];
        self.follow_from(0, Some(0));
        let switch = self
            .instructions
            .iter()
            .position(|instruction| matches!(instruction.flow, Flow::Indirect { .. }));
        if switch.is_none()
            && !self.instructions.iter().any(|instruction| instruction.flow == Flow::Call)
        {
            return;
        }
        for index in 0..self.instructions.len() {
            if self.reached[index].is_none() {
                let depth = switch.and_then(|switch| self.reached[switch]).flatten();
                self.follow_from(index, depth);
            }
        }
    }

    fn follow_from(&mut self, index: usize, depth: Depth) {
        let mut ahead = vec![(index, depth)];
        while let Some((index, depth)) = ahead.pop() {
            let Some(instruction) =
                self.instructions.get(index).copied().filter(|_| self.reached[index].is_none())
            else {
                continue;
            };
            self.reached[index] = Some(depth);
            let depth = match instruction.stack {
                Stack::By(bytes) => depth.and_then(|depth| depth.checked_add(bytes)),
                Stack::To(depth) => Some(depth),
                Stack::Lost => None,
            };
            let (one, other) = match instruction.flow {
                Flow::Next | Flow::Call => (self.index(instruction.next()), None),
                Flow::Branch(target) => (self.index(instruction.next()), self.index(target)),
                Flow::Jump(target) => (self.index(target), None),
                Flow::Indirect { .. } | Flow::Return | Flow::Stop => (None, None),
            };
            ahead.extend([one, other].into_iter().flatten().map(|index| (index, depth)));
        }
    }

    /// Whether the frame is given back just before an instruction.
    fn gives_back_before(&self, index: usize) -> bool {
        let before = self.instructions[..index]
            .iter()
            .rev()
            .take(EPILOGUE_MAX)
            .take_while(|instruction| instruction.flow == Flow::Next);
        before
            .map(|instruction| instruction.stack)
            .any(|stack| matches!(stack, Stack::By(..0) | Stack::To(_)))
    }

    fn exits(&self) -> Result<Vec<u64>, UnclearExits> {
        let mut exits = Vec::new();
        for (index, (instruction, reached)) in
            self.instructions.iter().zip(&self.reached).enumerate()
        {
            let Some(depth) = reached else { continue };
            let leaves = match instruction.flow {
                Flow::Return => true,
                // To itself: the next call begins in the place of this one.
                Flow::Jump(target) if target == self.entry => *depth == Some(0),
                Flow::Jump(target) if !self.contains(target) => true,
                Flow::Branch(target) if !self.contains(target) => {
                    return Err(UnclearExits::Conditional);
                }
                Flow::Indirect { is_table } => {
                    *depth == Some(0) && (!is_table || self.gives_back_before(index))
                }
                _ => false,
            };
            if leaves && instruction.is_unprobed {
                return Err(UnclearExits::Unprobed);
            }
            exits.extend(leaves.then_some(instruction.at));
        }
        if exits.is_empty()
            && self
                .instructions
                .iter()
                .any(|instruction| matches!(instruction.flow, Flow::Indirect { .. }))
        {
            return Err(UnclearExits::Overlooked);
        }
        exits.sort_unstable();
        Ok(exits)
    }
}

#[cfg(test)]
#[path = "exits_tests.rs"]
mod tests;
