//! Rules for code that has no unwind information, read from the code itself: hand-written assembly,
//! and libraries that were built without (musl, x264).
//!
//! What an instruction does to the stack pointer says how much deeper the stack is behind it than
//! before it. Where a function returns, its stack pointer is at the return address, and so it is
//! where a function is called. Between the two each instruction says how deep it is, by every path
//! that leads through it; if two paths contradict each other, or the code lacks one of its ends,
//! nothing is said: a stack ends there, which is better than one that is wrong.

mod decode;
mod depths;

use std::collections::VecDeque;
use std::ops::Range;

use rustc_hash::FxHashSet;

use self::decode::{Flow, FramePointerChange, StackChange, Step, StepKind, steps};
use self::depths::Depths;
use crate::arch::{FRAME_POINTER, STACK_POINTER};
use crate::rule::{LOST, Rule, RuleAndOffset, SAME, cfa_at_register, saved_at_cfa};

const WORD: i64 = 8;
/// Frames are no larger; what seems to be is no code.
const DEEPEST: i64 = 1 << 20;
/// Where compilers call, the stack pointer is a multiple of it, and the return address is beneath one
/// (System V ABI, AMD64, 3.2.2).
const CALL_ALIGNMENT: i64 = 16;
/// Compilers let functions begin at multiples of it.
const FUNCTION_ALIGNMENT: u64 = 16;
/// Instructions from a system call to where the new thread of `clone` makes its frame pointer 0.
const NEW_THREAD_STEPS: usize = 3;
/// And from there to where it calls its first function, at most.
const NEW_THREAD_CALLS: usize = 6;

/// Bytes of code before and behind what is wanted that help to understand it: functions begin and end
/// there, and jump there.
pub(crate) const CODE_AROUND: u64 = 32 << 10;

/// Code without unwind information, or a part of it.
#[derive(Clone, Debug)]
pub(crate) struct BareCode<'a> {
    /// Its bytes, with those around it that help to understand it.
    pub(crate) bytes: &'a [u8],
    /// Of the first of them.
    pub(crate) address: u64,
    /// All code around it that has no unwind information: what jumps out of it leaves its function.
    pub(crate) without_information: Range<u64>,
    /// Where the program begins.
    pub(crate) entry: u64,
}

/// Rules of code, by ascending address; each holds up to the next one.
pub(crate) fn rules(code: &BareCode<'_>) -> Vec<(u64, Rule)> {
    let mut first = Analysis::new(code, &FxHashSet::default());
    first.find_depths();
    let never_return = first.never_return();
    if never_return.is_empty() {
        return first.rules();
    }
    // What did not return once does not elsewhere.
    let mut again = Analysis::new(code, &never_return);
    again.find_depths();
    again.rules()
}

/// No instruction.
const NONE: u32 = u32::MAX;

/// Which instruction made the frame pointer what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FrameSource {
    /// No path led here yet.
    Unreached,
    /// None that says what it is, or several.
    Unknown,
    /// None since the function began: it is the caller's, or one of further out.
    Callers,
    Set(u32),
}

/// Where the caller's frame pointer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Saved {
    Unreached,
    /// Still in rbp.
    Same,
    /// At the CFA plus so much.
    At(i64),
    Lost,
}

/// What is known before an instruction, by all paths that lead there.
trait Joined: Copy + PartialEq {
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

impl Joined for FrameSource {
    const UNREACHED: Self = Self::Unreached;
    const DISAGREED: Self = Self::Unknown;
}

impl Joined for Saved {
    const UNREACHED: Self = Self::Unreached;
    const DISAGREED: Self = Self::Lost;
}

/// What instructions are beside what they do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Ordinary,
    /// Of the frame that the kernel makes for a signal handler.
    SignalReturn,
    /// Of the first function of a thread.
    ThreadStart,
}

struct Analysis<'c> {
    code: &'c BareCode<'c>,
    steps: Vec<Step>,
    /// By the place in the bytes: which instruction begins there.
    at: Vec<u32>,
    roles: Vec<Role>,
    /// Whether the instruction is a function's first, because something calls it.
    is_called: Vec<bool>,
    /// Whether a path leads there from another instruction.
    is_reached: Vec<bool>,
    /// Whether a jump does.
    is_target: Vec<bool>,
    /// Whether it fills a gap, and nothing leads there.
    is_gap: Vec<bool>,
    /// Whether it is a call that is taken for one that does not return.
    is_last: Vec<bool>,
    /// Whether the stack may be deeper by what no instruction says: a path leads here from where the
    /// function made room for as much as it wanted.
    is_variable: Vec<bool>,
    depths: Depths,
}

impl<'c> Analysis<'c> {
    /// Of code in which calls of these functions do not return.
    fn new(code: &'c BareCode<'c>, never_return: &FxHashSet<u64>) -> Self {
        let steps = steps(code.bytes, code.address);
        let mut at = vec![NONE; code.bytes.len()];
        for (number, step) in steps.iter().enumerate() {
            at[(step.at - code.address) as usize] = number as u32;
        }
        let count = steps.len();
        let mut analysis = Self {
            code,
            at,
            roles: vec![Role::Ordinary; count],
            is_called: vec![false; count],
            is_reached: vec![false; count],
            is_target: vec![false; count],
            is_gap: vec![false; count],
            is_last: vec![false; count],
            is_variable: vec![false; count],
            depths: Depths::new(count),
            steps,
        };
        analysis.find_roles();
        analysis.find_entered(never_return);
        analysis.find_variable();
        analysis
    }

    /// The instruction at an address, if one begins there.
    fn step_at(&self, address: u64) -> Option<usize> {
        let place = usize::try_from(address.checked_sub(self.code.address)?).ok()?;
        self.at.get(place).filter(|number| **number != NONE).map(|number| *number as usize)
    }

    fn find_roles(&mut self) {
        for number in 0..self.steps.len() {
            let step = self.steps[number];
            let follows = |from: usize, kind| {
                self.steps[from..number].iter().any(|before| before.kind == kind)
            };
            match step.kind {
                StepKind::SystemCall
                    if number > 0 && follows(number - 1, StepKind::SignalReturnNumber) =>
                {
                    self.roles[number - 1..=number].fill(Role::SignalReturn);
                }
                StepKind::ZeroesFramePointer if self.is_new_thread(number) => {
                    self.begin_thread(number);
                }
                _ => {}
            }
        }
        // Libraries may have any number there, programs zero the frame pointer first.
        if let Some(first) = self.step_at(self.code.entry)
            && self.steps[first].kind == StepKind::ZeroesFramePointer
        {
            self.begin_thread(first);
        }
    }

    /// Whether only the new thread of `clone` comes to the instruction: a system call, a look at what
    /// it returned, a jump of the old thread, and then a function that somebody handed over.
    fn is_new_thread(&self, number: usize) -> bool {
        let before = number.checked_sub(NEW_THREAD_STEPS).map(|from| &self.steps[from..number]);
        let is_after_clone = matches!(before, Some([call, _, jump])
            if call.kind == StepKind::SystemCall && matches!(jump.flow, Flow::Branch(_)));
        let mut later = self.steps[number..].iter().take(NEW_THREAD_CALLS);
        is_after_clone && later.any(|step| step.flow == Flow::Call(None))
    }

    /// A thread begins with the instruction: no caller is above it, up to where the code ends or
    /// another function begins.
    fn begin_thread(&mut self, first: usize) {
        let mut called = None;
        for number in first..self.steps.len() {
            let step = self.steps[number];
            let is_apart = number > first && self.steps[number - 1].end() != step.at;
            // What begins within another beginning ends where that ends.
            let is_begun = self.roles[number] == Role::ThreadStart;
            if is_apart || is_begun || Some(step.at) == called {
                break;
            }
            self.roles[number] = Role::ThreadStart;
            match step.flow {
                Flow::Next => {}
                Flow::Call(to) => called = to.or(called),
                _ => break,
            }
        }
    }

    /// Finds what is called, and what is jumped to.
    fn find_entered(&mut self, never_return: &FxHashSet<u64>) {
        for number in 0..self.steps.len() {
            if let Flow::Call(Some(to)) = self.steps[number].flow
                && let Some(called) = self.step_at(to)
            {
                self.is_called[called] = true;
            }
            if let Some(to) = self.target(number) {
                self.is_target[to] = true;
            }
        }
        for number in 0..self.steps.len() {
            self.is_last[number] = match self.steps[number].flow {
                Flow::Call(Some(to)) if never_return.contains(&to) => true,
                _ => self.may_not_return(number),
            };
        }
    }

    /// Finds where the stack may be of any depth: behind what makes it so, until the frame pointer
    /// says where it ends.
    fn find_variable(&mut self) {
        let mut waiting: Vec<usize> = (0..self.steps.len())
            .filter(|number| self.steps[*number].stack == StackChange::Lost)
            .collect();
        while let Some(number) = waiting.pop() {
            if matches!(self.steps[number].stack, StackChange::ToFramePointer(_)) {
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
    fn never_return(&self) -> FxHashSet<u64> {
        let calls = self.steps.iter().zip(&self.is_last).filter(|(_, is_last)| **is_last);
        calls
            .filter_map(|(step, _)| match step.flow {
                Flow::Call(to) => to,
                _ => None,
            })
            .collect()
    }

    /// Finds what is reached, as far as is known of calls that do not return.
    fn find_paths(&mut self) {
        self.is_reached.clone_from(&self.is_target);
        self.is_gap.fill(false);
        // Each one but the first is decided by the one before.
        for number in 0..self.steps.len() {
            self.is_gap[number] = self.steps[number].kind == StepKind::Padding
                && !self.is_reached[number]
                && !self.is_called[number];
            if let Some(next) = self.next(number) {
                self.is_reached[next] = true;
            }
        }
    }

    /// The next instruction, if this one leads there.
    fn next(&self, number: usize) -> Option<usize> {
        self.following(number).filter(|_| !self.is_gap[number] && !self.is_last[number])
    }

    /// The next instruction, if this one leads there when it runs, and returns if it is a call.
    fn following(&self, number: usize) -> Option<usize> {
        let step = &self.steps[number];
        let goes_on = matches!(step.flow, Flow::Next | Flow::Call(_) | Flow::Branch(_));
        let next = number + 1;
        let is_next = goes_on
            && self.steps.get(next).is_some_and(|next| next.at == step.end())
            && !self.is_called[next]
            && self.roles[next] == self.roles[number];
        is_next.then_some(next)
    }

    /// Where it jumps to.
    fn target(&self, number: usize) -> Option<usize> {
        match self.steps[number].flow {
            Flow::Branch(to) | Flow::Jump(to) => self.step_at(to),
            _ => None,
        }
    }

    /// Finds out what can be known of depths.
    fn find_depths(&mut self) {
        self.relate();
        self.find_paths();
        let sources = self.frame_sources();
        self.relate_by_frame_pointer(&sources);
        self.fix_beginnings();
        self.relate_by_calls();
        self.find_paths();
    }

    fn rules(mut self) -> Vec<(u64, Rule)> {
        let sources = self.frame_sources();
        let is_known = self.known();
        let saved = self.saved(&is_known);
        let mut rules = Vec::new();
        let mut end = self.code.address;
        for number in 0..self.steps.len() {
            let step = self.steps[number];
            if step.at != end {
                rules.push((end, Rule::NONE));
            }
            end = step.end();
            match self.roles[number] {
                Role::ThreadStart => rules.push((step.at, Rule::END)),
                // A handler returns to its first byte, and a caller is looked up a byte before.
                Role::SignalReturn if step.kind == StepKind::SignalReturnNumber => {
                    rules.push((step.at.saturating_sub(1), Rule::SIGNAL));
                }
                Role::SignalReturn => {}
                // It never runs.
                Role::Ordinary if self.is_gap[number] => {}
                Role::Ordinary => {
                    let rule = self.rule(number, &is_known, sources[number], saved[number]);
                    rules.push((step.at, rule));
                }
            }
        }
        rules.push((end, Rule::NONE));
        rules
    }

    /// Relates the depths of instructions by what they do to the stack pointer.
    fn relate(&mut self) {
        for number in 0..self.steps.len() {
            if self.roles[number] != Role::Ordinary || self.is_variable[number] {
                continue;
            }
            let step = self.steps[number];
            if self.is_called[number] {
                self.depths.fix(number, 0);
            }
            if let (StackChange::By(by), Some(next)) = (step.stack, self.following(number))
                && !self.is_last[number]
                && !self.is_variable[next]
            {
                self.depths.relate(number, next, by);
            }
            match (step.flow, self.target(number)) {
                (Flow::Return, _) => self.depths.fix(number, 0),
                (_, Some(to)) if self.roles[to] == Role::Ordinary && !self.is_variable[to] => {
                    self.depths.relate(number, to, 0);
                }
                (Flow::Branch(to) | Flow::Jump(to), None)
                    if !self.code.without_information.contains(&to) =>
                {
                    self.depths.fix(number, 0);
                }
                _ => {}
            }
        }
    }

    /// What is known before each instruction, if `change` says what an instruction makes of it, and
    /// `first` what holds where no path leads.
    fn follow<T: Joined>(
        &self,
        first: impl Fn(usize) -> T,
        change: impl Fn(usize, T) -> T,
    ) -> Vec<T> {
        let mut known = vec![T::UNREACHED; self.steps.len()];
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

    fn frame_sources(&self) -> Vec<FrameSource> {
        let change = |number: usize, before| match self.steps[number].frame_pointer {
            FramePointerChange::Kept | FramePointerChange::Stored(_) => before,
            FramePointerChange::ToStackPointer(_) => FrameSource::Set(number as u32),
            FramePointerChange::Loaded(_) | FramePointerChange::Left | FramePointerChange::Lost => {
                FrameSource::Unknown
            }
        };
        // What nothing calls may run in a frame of another's, as V8's handlers of byte code do.
        let first = |number: usize| match self.is_called[number] {
            true => FrameSource::Callers,
            false => FrameSource::Unknown,
        };
        self.follow(first, change)
    }

    /// The instruction that set the frame pointer, and how much deeper than its stack pointer that
    /// leads.
    fn frame_set(&self, source: FrameSource) -> Option<(usize, i64)> {
        let FrameSource::Set(number) = source else { return None };
        match self.steps[number as usize].frame_pointer {
            FramePointerChange::ToStackPointer(above) => Some((number as usize, -above)),
            _ => None,
        }
    }

    /// Whether it is a call that may not return, as compilers may know: behind it begins what is
    /// reached in another way, or another function, perhaps after a gap.
    fn may_not_return(&self, number: usize) -> bool {
        let (step, next) = (&self.steps[number], number + 1);
        matches!(step.flow, Flow::Call(_))
            && (step.end().is_multiple_of(FUNCTION_ALIGNMENT)
                || self.is_target.get(next).is_some_and(|is_target| *is_target)
                || self.steps.get(next).is_some_and(|next| next.kind == StepKind::Padding))
    }

    /// Whether a function may begin with the instruction: it is called, or nothing leads there and it
    /// lies where compilers let functions begin.
    fn may_begin(&self, number: usize) -> bool {
        let is_aligned = self.steps[number].at.is_multiple_of(FUNCTION_ALIGNMENT);
        self.is_called[number] || (is_aligned && !self.is_reached[number] && self.is_code(number))
    }

    /// Of each set of depths: where a function may begin.
    fn firsts(&mut self) -> Vec<Option<usize>> {
        let mut firsts = vec![None; self.steps.len()];
        for number in (0..self.steps.len()).rev() {
            if self.may_begin(number) {
                firsts[self.depths.set_of(number)] = Some(number);
            }
        }
        firsts
    }

    /// A function that does not return, and that is called by its address only, begins where all
    /// that it calls has the stack that it must have.
    fn fix_beginnings(&mut self) {
        let firsts = self.firsts();
        let (mut calls, mut is_other) = (vec![false; firsts.len()], vec![false; firsts.len()]);
        for number in 0..firsts.len() {
            if !self.is_call(number) {
                continue;
            }
            let set = self.depths.set_of(number);
            let depth = firsts[set].and_then(|first| self.depths.difference(first, number));
            match depth.is_some_and(is_depth_of_call) {
                true => calls[set] = true,
                false => is_other[set] = true,
            }
        }
        for (set, first) in firsts.into_iter().enumerate() {
            if let Some(first) = first.filter(|_| calls[set] && !is_other[set])
                && self.depths.value(first).is_none()
            {
                self.depths.fix(first, 0);
            }
        }
    }

    fn is_call(&self, number: usize) -> bool {
        matches!(self.steps[number].flow, Flow::Call(_)) && !self.is_variable[number]
    }

    /// Such calls do return if what follows is as deep as they are: by what is known of both, or if
    /// the code that leads to the call begins a function then. Where a function begins, the stack is
    /// as deep as at no call.
    fn relate_by_calls(&mut self) {
        let mut firsts = self.firsts();
        for number in (0..self.steps.len()).rev() {
            let next = self.following(number).filter(|_| self.is_last[number]);
            let Some((next, depth)) = next.and_then(|next| Some((next, self.depths.value(next)?)))
            else {
                continue;
            };
            let (set, next_set) = (self.depths.set_of(number), self.depths.set_of(next));
            let known = match self.depths.value(number) {
                None => firsts[set].and_then(|first| self.depths.difference(first, number)),
                known => known,
            };
            if known == Some(depth) && is_depth_of_call(depth) {
                self.is_last[number] = false;
                self.depths.relate(number, next, 0);
                firsts[self.depths.set_of(number)] = firsts[set].or(firsts[next_set]);
            }
        }
    }

    fn relate_by_frame_pointer(&mut self, sources: &[FrameSource]) {
        for (number, source) in sources.iter().enumerate() {
            let StackChange::ToFramePointer(above) = self.steps[number].stack else { continue };
            if let (Some((set, deeper)), Some(next)) = (self.frame_set(*source), self.next(number))
            {
                self.depths.relate(set, next, deeper - above);
            }
        }
    }

    /// Whether the depth of each instruction is known, and believed: all that hangs together with
    /// it makes sense, and among that is where a function begins.
    fn known(&mut self) -> Vec<bool> {
        let count = self.steps.len();
        let (mut is_bad, mut has_first) = (vec![false; count], vec![false; count]);
        for number in 0..count {
            let set = self.depths.set_of(number);
            match self.depths.value(number) {
                Some(depth) if (0..DEEPEST).contains(&depth) && depth % WORD == 0 => {
                    has_first[set] |= depth == 0 && self.may_begin(number);
                    // Otherwise two functions were taken for one, the first of which calls what
                    // does not return.
                    is_bad[set] |= self.is_call(number) && !is_depth_of_call(depth);
                }
                _ => is_bad[set] = true,
            }
        }
        let sets: Vec<usize> = (0..count).map(|number| self.depths.set_of(number)).collect();
        sets.into_iter().map(|set| has_first[set] && !is_bad[set]).collect()
    }

    fn is_code(&self, number: usize) -> bool {
        self.roles[number] == Role::Ordinary && self.steps[number].kind != StepKind::Padding
    }

    fn depth(&mut self, number: usize, is_known: &[bool]) -> Option<i64> {
        self.depths.value(number).filter(|_| is_known[number])
    }

    fn saved(&mut self, is_known: &[bool]) -> Vec<Saved> {
        let depths: Vec<Option<i64>> =
            (0..self.steps.len()).map(|number| self.depth(number, is_known)).collect();
        // What a table of a `switch` leads to is as what it leads to itself.
        let first = |number: usize| match depths[number] {
            Some(0) => Saved::Same,
            _ => Saved::Unreached,
        };
        let change = |number: usize, before| {
            // Where the word lies that is so far above the stack pointer.
            let place = |above: i64| depths[number].map(|depth| above - depth - WORD);
            match (self.steps[number].frame_pointer, before) {
                (FramePointerChange::Stored(above), Saved::Same) => {
                    place(above).map_or(Saved::Same, Saved::At)
                }
                (FramePointerChange::Loaded(above), Saved::At(at)) if place(above) == Some(at) => {
                    Saved::Same
                }
                (FramePointerChange::Left, Saved::At(at)) => {
                    let next = self.next(number).and_then(|next| depths[next]);
                    match next.map(|depth| -depth - 2 * WORD) == Some(at) {
                        true => Saved::Same,
                        false => before,
                    }
                }
                (FramePointerChange::Kept | FramePointerChange::Stored(_), _)
                | (_, Saved::At(_)) => before,
                _ => Saved::Lost,
            }
        };
        self.follow(first, change)
    }

    fn rule(
        &mut self,
        number: usize,
        is_known: &[bool],
        source: FrameSource,
        saved: Saved,
    ) -> Rule {
        // The frame pointer first: functions of V8 take what was pushed for them off the stack.
        let by_frame_pointer = self.frame_set(source).and_then(|(set, deeper)| {
            let depth = self.depth(set, is_known)?.checked_add(deeper)?;
            cfa_at_register(FRAME_POINTER, depth + WORD)
        });
        let cfa = by_frame_pointer.or_else(|| {
            let depth = self.depth(number, is_known).filter(|_| !self.is_variable[number])?;
            cfa_at_register(STACK_POINTER, depth + WORD)
        });
        // Who goes by a frame pointer that is the caller's leaves the caller out.
        let unknown = match source {
            FrameSource::Callers => Rule::INEXPRESSIBLE,
            _ => Rule::NONE,
        };
        cfa.map_or(unknown, |cfa| Rule::new(cfa, frame_pointer(saved)))
    }
}

/// Whether a function of a compiler calls with such a stack.
fn is_depth_of_call(depth: i64) -> bool {
    depth % CALL_ALIGNMENT == WORD
}

fn frame_pointer(saved: Saved) -> RuleAndOffset {
    match saved {
        Saved::Same => SAME,
        Saved::At(at) => saved_at_cfa(at),
        Saved::Unreached | Saved::Lost => LOST,
    }
}

#[cfg(test)]
mod real_code_tests;
#[cfg(test)]
mod tests;
