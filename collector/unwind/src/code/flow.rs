//! Which instructions follow which, and what they belong to.

use std::collections::VecDeque;

use rustc_hash::{FxHashMap, FxHashSet};

use super::BareCode;
use super::decode::{Flow, InstructionEffects, InstructionKind, StackChange};

/// Compilers let functions begin at multiples of it.
const FUNCTION_ALIGNMENT: u64 = 16;
/// Instructions from a system call to where the new thread of `clone` makes its frame pointer 0.
const NEW_THREAD_INSTRUCTIONS: usize = 3;
/// And from there to where it calls its first function, at most.
const NEW_THREAD_CALLS: usize = 6;

/// Instructions of a function that are looked at for whether it returns.
const PLAIN_MAX: usize = 256;

/// No instruction.
const NONE: u32 = u32::MAX;

/// What is known before an instruction, by all paths that lead there.
pub(super) trait JoinedState: Copy + PartialEq {
    const UNREACHED: Self;
    /// What holds where two paths disagree.
    const DISAGREED: Self;

    fn join(self, other: Self) -> Self {
        match () {
            () if self == other || other == Self::UNREACHED => self,
            () if self == Self::UNREACHED => other,
            () => Self::DISAGREED,
        }
    }
}

/// What instructions are beside what they do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Ordinary,
    /// Of the frame that the kernel makes for a signal handler.
    SignalReturn,
    /// Of the first function of a thread.
    ThreadStart,
}

/// Code as instructions that lead to each other.
pub(super) struct ControlFlow {
    pub(super) instructions: Vec<InstructionEffects>,
    /// Of the first byte, and by the place in the bytes: which instruction begins there.
    address: u64,
    at: Vec<u32>,
    pub(super) roles: Vec<Role>,
    /// Whether the instruction is a function's first, because something calls it.
    pub(super) is_called: Vec<bool>,
    /// Whether a path leads there from another instruction.
    is_reached: Vec<bool>,
    /// Whether a jump does.
    is_target: Vec<bool>,
    /// Whether it fills a gap, and nothing leads there.
    pub(super) is_gap: Vec<bool>,
    /// Whether it is a call that is taken for one that does not return.
    pub(super) is_last: Vec<bool>,
    /// Whether the stack may be deeper by what no instruction says: a path leads here from where
    /// the function made room for as much as it wanted.
    pub(super) is_variable: Vec<bool>,
}

impl ControlFlow {
    /// Of the instructions of code in which calls of these functions do not return.
    pub(super) fn new(
        code: &BareCode<'_>,
        instructions: Vec<InstructionEffects>,
        called: &FxHashSet<u64>,
        never_return: &FxHashSet<u64>,
    ) -> Self {
        let mut at = vec![NONE; code.bytes.len()];
        for (number, instruction) in instructions.iter().enumerate() {
            at[(instruction.at - code.address) as usize] = number as u32;
        }
        let count = instructions.len();
        let mut flow = Self {
            instructions,
            address: code.address,
            at,
            roles: vec![Role::Ordinary; count],
            is_called: vec![false; count],
            is_reached: vec![false; count],
            is_target: vec![false; count],
            is_gap: vec![false; count],
            is_last: vec![false; count],
            is_variable: vec![false; count],
        };
        flow.find_roles(code.entry);
        flow.find_entered(called, never_return);
        flow.find_variable();
        flow
    }

    /// The instruction at an address, if one begins there.
    fn instruction_at(&self, address: u64) -> Option<usize> {
        let place = usize::try_from(address.checked_sub(self.address)?).ok()?;
        self.at.get(place).filter(|number| **number != NONE).map(|number| *number as usize)
    }

    fn find_roles(&mut self, entry: u64) {
        for number in 0..self.instructions.len() {
            let instruction = self.instructions[number];
            let before = number.checked_sub(1).map(|before| self.instructions[before].kind);
            match instruction.kind {
                InstructionKind::SystemCall
                    if before == Some(InstructionKind::SignalReturnNumber) =>
                {
                    self.roles[number - 1..=number].fill(Role::SignalReturn);
                }
                InstructionKind::ZeroesFramePointer if self.is_new_thread(number) => {
                    self.begin_thread(number);
                }
                _ => {}
            }
        }
        // Libraries may have any number there, programs zero the frame pointer first.
        if let Some(first) = self.instruction_at(entry)
            && self.instructions[first].kind == InstructionKind::ZeroesFramePointer
        {
            self.begin_thread(first);
        }
    }

    /// Whether only the new thread of `clone` comes to the instruction: a system call, a look at
    /// what it returned, a jump of the old thread, and then a function that somebody handed over.
    fn is_new_thread(&self, number: usize) -> bool {
        let before = number
            .checked_sub(NEW_THREAD_INSTRUCTIONS)
            .map(|from| &self.instructions[from..number]);
        let is_after_clone = matches!(before, Some([call, _, jump])
            if call.kind == InstructionKind::SystemCall && matches!(jump.flow, Flow::Branch(_)));
        let mut later = self.instructions[number..].iter().take(NEW_THREAD_CALLS);
        is_after_clone && later.any(|instruction| instruction.flow == Flow::Call(None))
    }

    /// A thread begins with the instruction: no caller is above it, up to where the code ends or
    /// another function begins.
    fn begin_thread(&mut self, first: usize) {
        let mut called = None;
        for number in first..self.instructions.len() {
            let instruction = self.instructions[number];
            let is_apart = number > first && self.instructions[number - 1].end() != instruction.at;
            // What begins within another beginning ends where that ends.
            let is_begun = self.roles[number] == Role::ThreadStart;
            if is_apart || is_begun || Some(instruction.at) == called {
                break;
            }
            self.roles[number] = Role::ThreadStart;
            match instruction.flow {
                Flow::Next => {}
                Flow::Call(to) => called = to.or(called),
                _ => break,
            }
        }
    }

    /// Finds what is called, and what is jumped to.
    fn find_entered(&mut self, called: &FxHashSet<u64>, never_return: &FxHashSet<u64>) {
        for number in 0..self.instructions.len() {
            self.is_called[number] |= called.contains(&self.instructions[number].at);
            if let Flow::Call(Some(to)) = self.instructions[number].flow
                && let Some(called) = self.instruction_at(to)
            {
                self.is_called[called] = true;
            }
            if let Some(to) = self.target(number) {
                self.is_target[to] = true;
            }
        }
        let mut plain = FxHashMap::default();
        for number in 0..self.instructions.len() {
            let may_be_last = match self.instructions[number].flow {
                Flow::Call(Some(to)) if never_return.contains(&to) => true,
                _ => self.may_not_return(number),
            };
            self.is_last[number] = may_be_last && !self.is_call_of_plain(number, &mut plain);
        }
    }

    /// Finds where the stack may be of any depth: behind what makes it so, until the frame pointer
    /// says where it ends.
    fn find_variable(&mut self) {
        let mut waiting: Vec<usize> = (0..self.instructions.len())
            .filter(|number| self.instructions[*number].stack == StackChange::Lost)
            .collect();
        while let Some(number) = waiting.pop() {
            if matches!(self.instructions[number].stack, StackChange::ToFramePointer(_)) {
                continue;
            }
            for to in [self.following(number), self.target(number)].into_iter().flatten() {
                if !std::mem::replace(&mut self.is_variable[to], true) {
                    waiting.push(to);
                }
            }
        }
    }

    /// Functions that were called and did not return, as far as is known.
    pub(super) fn never_return(&self) -> FxHashSet<u64> {
        let calls = self.instructions.iter().zip(&self.is_last).filter(|(_, is_last)| **is_last);
        calls
            .filter_map(|(instruction, _)| match instruction.flow {
                Flow::Call(to) => to,
                _ => None,
            })
            .collect()
    }

    /// Finds what is reached, as far as is known of calls that do not return.
    pub(super) fn find_paths(&mut self) {
        self.is_reached.clone_from(&self.is_target);
        self.is_gap.fill(false);
        // Each one but the first is decided by the one before.
        for number in 0..self.instructions.len() {
            self.is_gap[number] = self.instructions[number].kind == InstructionKind::Padding
                && !self.is_reached[number]
                && !self.is_called[number];
            if let Some(next) = self.next(number) {
                self.is_reached[next] = true;
            }
        }
    }

    /// The next instruction, if this one leads there.
    pub(super) fn next(&self, number: usize) -> Option<usize> {
        self.following(number).filter(|_| !self.is_gap[number] && !self.is_last[number])
    }

    /// The next instruction, if this one leads there when it runs, and returns if it is a call.
    pub(super) fn following(&self, number: usize) -> Option<usize> {
        let instruction = &self.instructions[number];
        let goes_on = matches!(instruction.flow, Flow::Next | Flow::Call(_) | Flow::Branch(_));
        let next = number + 1;
        let is_next = goes_on
            && self.instructions.get(next).is_some_and(|next| next.at == instruction.end())
            && !self.is_called[next]
            && self.roles[next] == self.roles[number];
        is_next.then_some(next)
    }

    /// Where it jumps to.
    pub(super) fn target(&self, number: usize) -> Option<usize> {
        match self.instructions[number].flow {
            Flow::Branch(to) | Flow::Jump(to) => self.instruction_at(to),
            _ => None,
        }
    }

    /// Whether it is a call that may not return, as compilers may know: behind it begins what is
    /// reached in another way, or another function, perhaps after a gap.
    fn may_not_return(&self, number: usize) -> bool {
        let (instruction, next) = (&self.instructions[number], number + 1);
        matches!(instruction.flow, Flow::Call(_))
            && (instruction.end().is_multiple_of(FUNCTION_ALIGNMENT)
                || self.is_target.get(next).is_some_and(|is_target| *is_target)
                || self
                    .instructions
                    .get(next)
                    .is_some_and(|next| next.kind == InstructionKind::Padding))
    }

    /// Of each call: whether it is taken for one that does not return for where it ends only, and so
    /// is each other call of what it calls.
    pub(super) fn last_by_place_alone(&self) -> Vec<bool> {
        let is_by_place = |number: usize| {
            let next = number + 1;
            self.instructions[number].end().is_multiple_of(FUNCTION_ALIGNMENT)
                && self.is_target.get(next).is_some_and(|is_target| !is_target)
                && self.instructions[next].kind != InstructionKind::Padding
        };
        let is_last = (0..self.instructions.len()).filter(|number| self.is_last[*number]);
        let called = |number: usize| match self.instructions[number].flow {
            Flow::Call(to) => to,
            _ => None,
        };
        let others: FxHashSet<u64> =
            is_last.filter(|number| !is_by_place(*number)).filter_map(called).collect();
        (0..self.instructions.len())
            .map(|number| {
                let is_other = called(number).is_some_and(|to| others.contains(&to));
                self.is_last[number] && is_by_place(number) && !is_other
            })
            .collect()
    }

    /// Whether a function may begin with the instruction: it is called, or nothing leads there and
    /// it lies where compilers let functions begin.
    pub(super) fn may_begin(&self, number: usize) -> bool {
        let is_aligned = self.instructions[number].at.is_multiple_of(FUNCTION_ALIGNMENT);
        self.is_called[number] || (is_aligned && !self.is_reached[number] && self.is_code(number))
    }

    pub(super) fn is_call(&self, number: usize) -> bool {
        matches!(self.instructions[number].flow, Flow::Call(_)) && !self.is_variable[number]
    }

    /// Whether it calls a function here that returns and calls nothing before; `known` has what was
    /// found of functions.
    pub(super) fn is_call_of_plain(
        &self,
        number: usize,
        known: &mut FxHashMap<usize, bool>,
    ) -> bool {
        let called = match self.instructions[number].flow {
            Flow::Call(Some(to)) => self.instruction_at(to),
            _ => None,
        };
        called.is_some_and(|to| *known.entry(to).or_insert_with(|| self.is_plain(to)))
    }

    fn is_plain(&self, function: usize) -> bool {
        let (mut seen, mut waiting) = (FxHashSet::from_iter([function]), vec![function]);
        while let Some(number) = waiting.pop() {
            match self.instructions[number].flow {
                Flow::Return => return true,
                Flow::Call(_) => {}
                _ if seen.len() >= PLAIN_MAX => return false,
                _ => {
                    let next = [self.following(number), self.target(number)];
                    waiting.extend(next.into_iter().flatten().filter(|to| seen.insert(*to)));
                }
            }
        }
        false
    }

    pub(super) fn is_code(&self, number: usize) -> bool {
        self.roles[number] == Role::Ordinary
            && self.instructions[number].kind != InstructionKind::Padding
    }

    /// What is known before each instruction, if `change` says what an instruction makes of it, and
    /// `first` what holds where no path leads.
    pub(super) fn follow<T: JoinedState>(
        &self,
        first: impl Fn(usize) -> T,
        change: impl Fn(usize, T) -> T,
    ) -> Vec<T> {
        let mut known = vec![T::UNREACHED; self.instructions.len()];
        let mut waiting = VecDeque::new();
        for (number, known) in known.iter_mut().enumerate() {
            if self.is_called[number] || !self.is_reached[number] {
                *known = first(number);
                waiting.push_back(number);
            }
        }
        while let Some(number) = waiting.pop_front() {
            let after = change(number, known[number]);
            for to in [self.next(number), self.target(number)].into_iter().flatten() {
                let joined = known[to].join(after);
                if joined != known[to] {
                    known[to] = joined;
                    waiting.push_back(to);
                }
            }
        }
        known
    }
}
