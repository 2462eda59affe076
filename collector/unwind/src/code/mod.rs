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
mod flow;
mod linked;
pub(crate) mod moving;

use std::ops::Range;

use rustc_hash::{FxHashMap, FxHashSet};

use self::decode::{
    Flow, FramePointerChange, InstructionEffects, InstructionKind, StackChange, decode,
};
use self::depths::Depths;
use self::flow::{ControlFlow, JoinedState, Role};
use crate::arch::{FRAME_POINTER, STACK_POINTER};
use crate::rule::{LOST, Rule, RuleAndOffset, SAME, cfa_at_register, saved_at_cfa};

const WORD: i64 = 8;
/// Frames are no larger; what seems to be is no code.
const DEEPEST: i64 = 1 << 20;
/// Where compilers call, the stack pointer is a multiple of it, and the return address is beneath
/// one (System V ABI, AMD64, 3.2.2).
const CALL_ALIGNMENT: i64 = 16;

/// Bytes of code before and behind what is wanted that help to understand it: functions begin and
/// end there, and jump there.
pub(crate) const CODE_AROUND: u64 = 32 << 10;
/// The same of functions that keep frame pointers.
pub(crate) const LINKED_CODE_AROUND: u64 = 4 << 10;

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
    let instructions = decode(code.bytes, code.address);
    rules_by_paths(code, instructions, &FxHashSet::default())
}

/// The same, if most of the code is functions that keep frame pointers: a tenth of the work.
pub(crate) fn linked_rules(code: &BareCode<'_>) -> Option<Vec<(u64, Rule)>> {
    if !linked::may_be_most(code.bytes) {
        return None;
    }
    let instructions = decode(code.bytes, code.address);
    let linked = linked::rules(&instructions)?;
    Some(with_rest(code, &instructions, &linked))
}

/// The rules of functions that keep frame pointers, and what can be known of the code between them.
fn with_rest(
    code: &BareCode<'_>,
    instructions: &[InstructionEffects],
    linked: &[Option<Rule>],
) -> Vec<(u64, Rule)> {
    let mut rules = Vec::new();
    let called = linked::called(instructions);
    let said = |number: usize| linked[number].is_some();
    let mut number = 0;
    while number < instructions.len() {
        let first = number;
        number += 1;
        while number < instructions.len() && said(number) == said(first) {
            number += 1;
        }
        let (start, end) = (instructions[first].at, instructions[number - 1].end());
        if said(first) {
            let of_each = instructions[first..number].iter().zip(&linked[first..number]);
            rules.extend(of_each.filter_map(|(one, rule)| rule.map(|rule| (one.at, rule))));
        } else {
            let bytes = &code.bytes[(start - code.address) as usize..][..(end - start) as usize];
            let rest = BareCode { bytes, address: start, ..code.clone() };
            let rest_of_all = instructions[first..number].to_vec();
            rules.extend(rules_by_paths(&rest, rest_of_all, &called));
        }
        let next = instructions.get(number).map_or(u64::MAX, |next| next.at);
        if next > end {
            rules.push((end, Rule::NONE));
        }
    }
    rules
}

/// The rules of these instructions, of which functions begin where `called` says, too.
fn rules_by_paths(
    code: &BareCode<'_>,
    instructions: Vec<InstructionEffects>,
    called: &FxHashSet<u64>,
) -> Vec<(u64, Rule)> {
    let first = Analysis::new(code, instructions, called, &FxHashSet::default());
    let never_return = first.flow.never_return();
    if never_return.is_empty() {
        return first.rules();
    }
    // What did not return once does not elsewhere.
    Analysis::new(code, first.flow.instructions, called, &never_return).rules()
}

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

/// Whether a function that was called has done nothing to its stack yet, nor called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entered {
    Unreached,
    Unknown,
    Untouched,
}

impl JoinedState for Entered {
    const UNREACHED: Self = Self::Unreached;
    const DISAGREED: Self = Self::Unknown;
}

impl JoinedState for FrameSource {
    const UNREACHED: Self = Self::Unreached;
    const DISAGREED: Self = Self::Unknown;
}

impl JoinedState for Saved {
    const UNREACHED: Self = Self::Unreached;
    const DISAGREED: Self = Self::Lost;
}

/// What is known of code's depths.
struct Analysis<'c> {
    code: &'c BareCode<'c>,
    flow: ControlFlow,
    depths: Depths,
}

impl<'c> Analysis<'c> {
    /// Of code in which calls of these functions do not return.
    fn new(
        code: &'c BareCode<'c>,
        instructions: Vec<InstructionEffects>,
        called: &FxHashSet<u64>,
        never_return: &FxHashSet<u64>,
    ) -> Self {
        let depths = Depths::new(instructions.len());
        let flow = ControlFlow::new(code, instructions, called, never_return);
        let mut analysis = Self { code, flow, depths };
        analysis.find_depths();
        analysis
    }

    /// Finds out what can be known of depths.
    fn find_depths(&mut self) {
        self.relate();
        self.flow.find_paths();
        let sources = self.frame_sources();
        self.relate_by_frame_pointer(&sources);
        self.fix_beginnings();
        self.relate_by_calls();
        self.flow.find_paths();
    }

    fn rules(mut self) -> Vec<(u64, Rule)> {
        let sources = self.frame_sources();
        let entered = self.entered();
        let is_known = self.known();
        let mut saved = self.saved(&is_known);
        self.fill_saved(&is_known, &mut saved);
        let mut rules = Vec::new();
        let mut end = self.code.address;
        for number in 0..self.flow.instructions.len() {
            let instruction = self.flow.instructions[number];
            if instruction.at != end {
                rules.push((end, Rule::NONE));
            }
            end = instruction.end();
            match self.flow.roles[number] {
                Role::ThreadStart => rules.push((instruction.at, Rule::END)),
                // A handler returns to its first byte, and a caller is looked up a byte before.
                Role::SignalReturn if instruction.kind == InstructionKind::SignalReturnNumber => {
                    rules.push((instruction.at.saturating_sub(1), Rule::SIGNAL));
                }
                Role::SignalReturn => {}
                // It never runs.
                Role::Ordinary if self.flow.is_gap[number] => {}
                Role::Ordinary => {
                    let rule = self.rule(number, &is_known, sources[number], saved[number]);
                    let is_entered = entered[number] == Entered::Untouched
                        && !matches!(instruction.flow, Flow::Call(_));
                    let rule = if is_entered { entry_rule(rule) } else { rule };
                    rules.push((instruction.at, rule));
                }
            }
        }
        rules.push((end, Rule::NONE));
        rules
    }

    /// Relates the depths of instructions by what they do to the stack pointer.
    fn relate(&mut self) {
        for number in 0..self.flow.instructions.len() {
            if self.flow.roles[number] != Role::Ordinary || self.flow.is_variable[number] {
                continue;
            }
            let instruction = self.flow.instructions[number];
            if self.flow.is_called[number] {
                self.depths.fix(number, 0);
            }
            if let (StackChange::By(by), Some(next)) =
                (instruction.stack, self.flow.following(number))
                && !self.flow.is_last[number]
                && !self.flow.is_variable[next]
            {
                self.depths.relate(number, next, by);
            }
            match (instruction.flow, self.flow.target(number)) {
                (Flow::Return, _) => self.depths.fix(number, 0),
                (_, Some(to))
                    if self.flow.roles[to] == Role::Ordinary && !self.flow.is_variable[to] =>
                {
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

    fn frame_sources(&self) -> Vec<FrameSource> {
        self.flow.follow(
            // What nothing calls may run in a frame of another's, as V8's handlers of byte code do.
            |number| match self.flow.is_called[number] {
                true => FrameSource::Callers,
                false => FrameSource::Unknown,
            },
            |number, before| match self.flow.instructions[number].frame_pointer {
                FramePointerChange::Kept | FramePointerChange::Stored(_) => before,
                FramePointerChange::ToStackPointer(_) => FrameSource::Set(number as u32),
                FramePointerChange::Loaded(_)
                | FramePointerChange::Left
                | FramePointerChange::Lost => FrameSource::Unknown,
            },
        )
    }

    /// By all paths from where a function begins that is called; whatever is wrong with what comes
    /// later, as where functions of V8 call with a stack of any alignment.
    fn entered(&self) -> Vec<Entered> {
        self.flow.follow(
            |number| match self.flow.is_called[number] {
                true => Entered::Untouched,
                false => Entered::Unknown,
            },
            |number, before| {
                let instruction = &self.flow.instructions[number];
                match (instruction.stack, instruction.flow) {
                    (_, Flow::Call(_)) => Entered::Unknown,
                    (StackChange::By(0), _) => before,
                    _ => Entered::Unknown,
                }
            },
        )
    }

    /// The instruction that set the frame pointer, and how much deeper than its stack pointer that
    /// leads.
    fn frame_set(&self, source: FrameSource) -> Option<(usize, i64)> {
        let FrameSource::Set(number) = source else { return None };
        match self.flow.instructions[number as usize].frame_pointer {
            FramePointerChange::ToStackPointer(above) => Some((number as usize, -above)),
            _ => None,
        }
    }

    /// Of each set of depths: where a function may begin.
    fn firsts(&mut self) -> Vec<Option<usize>> {
        let mut firsts = vec![None; self.flow.instructions.len()];
        for number in (0..self.flow.instructions.len()).rev() {
            if self.flow.may_begin(number) {
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
            if !self.flow.is_call(number) {
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

    /// Such calls do return if what follows is as deep as they are: by what is known of both, or if
    /// the code that leads to the call begins a function then. Where a function begins, the stack
    /// is as deep as at no call: so where nothing but the call's place speaks against it, they do,
    /// too, if only then the calls that follow have the stack that they must have.
    fn relate_by_calls(&mut self) {
        let (mut firsts, mut calls) = (self.firsts(), self.aligned_calls());
        let is_last_by_place = self.flow.last_by_place_alone();
        for number in (0..self.flow.instructions.len()).rev() {
            let Some(next) = self.flow.following(number).filter(|_| self.flow.is_last[number])
            else {
                continue;
            };
            let (set, next_set) = (self.depths.set_of(number), self.depths.set_of(next));
            let known = match self.depths.value(number) {
                None => firsts[set].and_then(|first| self.depths.difference(first, number)),
                known => known,
            };
            let Some(depth) = known.filter(|depth| is_depth_of_call(*depth)) else { continue };
            let returns = match (self.depths.value(next), calls[next_set]) {
                (Some(behind), _) => behind == depth,
                (None, Some(call)) if is_last_by_place[number] => {
                    let further = self.depths.difference(next, call);
                    further.is_some_and(|further| is_depth_of_call(depth + further))
                }
                (None, _) => false,
            };
            if returns {
                self.flow.is_last[number] = false;
                self.depths.relate(number, next, 0);
                let both = self.depths.set_of(next);
                firsts[both] = firsts[set].or(firsts[next_set]);
                calls[both] = calls[set].or(calls[next_set]);
            }
        }
    }

    /// Of each set of depths: one of its calls, if all of them have a stack that is aligned alike.
    fn aligned_calls(&mut self) -> Vec<Option<usize>> {
        let count = self.flow.instructions.len();
        let (mut calls, mut is_other) = (vec![None; count], vec![false; count]);
        for number in (0..count).filter(|number| self.flow.is_call(*number)) {
            let set = self.depths.set_of(number);
            let first = *calls[set].get_or_insert(number);
            let apart = self.depths.difference(first, number);
            is_other[set] |= apart.is_none_or(|apart| apart % CALL_ALIGNMENT != 0);
        }
        let aligned = calls.into_iter().zip(is_other);
        aligned.map(|(call, is_other)| call.filter(|_| !is_other)).collect()
    }

    fn relate_by_frame_pointer(&mut self, sources: &[FrameSource]) {
        for (number, source) in sources.iter().enumerate() {
            let StackChange::ToFramePointer(above) = self.flow.instructions[number].stack else {
                continue;
            };
            if let (Some((set, deeper)), Some(next)) =
                (self.frame_set(*source), self.flow.next(number))
            {
                self.depths.relate(set, next, deeper - above);
            }
        }
    }

    /// Whether the depth of each instruction is known, and believed: all that hangs together with
    /// it makes sense, and among that is where a function begins.
    fn known(&mut self) -> Vec<bool> {
        let count = self.flow.instructions.len();
        let (mut is_bad, mut has_first) = (vec![false; count], vec![false; count]);
        let mut plain = FxHashMap::default();
        for number in 0..count {
            let set = self.depths.set_of(number);
            match self.depths.value(number) {
                Some(depth) if (0..DEEPEST).contains(&depth) && depth % WORD == 0 => {
                    has_first[set] |= depth == 0 && self.flow.may_begin(number);
                    // Otherwise two functions were taken for one, the first of which calls what
                    // does not return. Assembly calls its own with any stack; these do return.
                    is_bad[set] |= self.flow.is_call(number)
                        && !is_depth_of_call(depth)
                        && !self.flow.is_call_of_plain(number, &mut plain);
                }
                _ => is_bad[set] = true,
            }
        }
        let sets: Vec<usize> = (0..count).map(|number| self.depths.set_of(number)).collect();
        sets.into_iter().map(|set| has_first[set] && !is_bad[set]).collect()
    }

    fn depth(&mut self, number: usize, is_known: &[bool]) -> Option<i64> {
        self.depths.value(number).filter(|_| is_known[number])
    }

    fn saved(&mut self, is_known: &[bool]) -> Vec<Saved> {
        let depths: Vec<Option<i64>> =
            (0..self.flow.instructions.len()).map(|number| self.depth(number, is_known)).collect();
        self.flow.follow(
            // What a table of a `switch` leads to is as what it leads to itself.
            |number| match depths[number] {
                Some(0) => Saved::Same,
                _ => Saved::Unreached,
            },
            |number, before| self.saved_after(number, before, &depths),
        )
    }

    /// What only a table leads to, as the cases of a `switch`, is within a function of which the rest
    /// is known: where its stack is deep enough to hold the caller's frame pointer, that lies where
    /// it does everywhere else at such depths.
    fn fill_saved(&mut self, is_known: &[bool], saved: &mut [Saved]) {
        let mut places = vec![Saved::Unreached; saved.len()];
        for (number, saved) in saved.iter().enumerate() {
            if let Saved::At(_) = saved {
                let place = &mut places[self.depths.set_of(number)];
                *place = place.join(*saved);
            }
        }
        for number in 0..saved.len() {
            // Elsewhere the function is as deep without having saved it, or has it back by then.
            if let (Saved::Same | Saved::Lost, Some(depth)) =
                (saved[number], self.depth(number, is_known))
            {
                let place = &mut places[self.depths.set_of(number)];
                if matches!(*place, Saved::At(at) if holds(depth, at)) {
                    *place = Saved::Lost;
                }
            }
        }
        for number in 0..saved.len() {
            if let (Saved::Unreached, Some(depth)) = (saved[number], self.depth(number, is_known))
                && let Saved::At(at) = places[self.depths.set_of(number)]
                && holds(depth, at)
            {
                saved[number] = Saved::At(at);
            }
        }
    }

    /// Where it is after an instruction, before which it is `before`.
    fn saved_after(&self, number: usize, before: Saved, depths: &[Option<i64>]) -> Saved {
        match (self.flow.instructions[number].frame_pointer, before) {
            (FramePointerChange::Stored(above), Saved::Same) => {
                depths[number].map_or(Saved::Same, |depth| Saved::At(above - depth - WORD))
            }
            (FramePointerChange::Loaded(above), Saved::At(at))
                if depths[number].map(|depth| above - depth - WORD) == Some(at) =>
            {
                Saved::Same
            }
            (FramePointerChange::Left, Saved::At(at)) => {
                let next = self.flow.next(number).and_then(|next| depths[next]);
                match next.map(|depth| -depth - 2 * WORD) == Some(at) {
                    true => Saved::Same,
                    false => before,
                }
            }
            (FramePointerChange::Kept | FramePointerChange::Stored(_), _) | (_, Saved::At(_)) => {
                before
            }
            _ => Saved::Lost,
        }
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
            let depth = self.depth(number, is_known).filter(|_| !self.flow.is_variable[number])?;
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

/// Whether a stack of such a depth has what lies at the CFA plus `at`.
fn holds(depth: i64, at: i64) -> bool {
    depth + WORD + at >= 0
}

/// Whether a function of a compiler calls with such a stack.
fn is_depth_of_call(depth: i64) -> bool {
    depth % CALL_ALIGNMENT == WORD
}

/// The rule of code that has done nothing to its stack, where nothing else is known.
fn entry_rule(rule: Rule) -> Rule {
    match cfa_at_register(STACK_POINTER, WORD) {
        Some(cfa) if rule == Rule::INEXPRESSIBLE => Rule::new(cfa, SAME),
        _ => rule,
    }
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
