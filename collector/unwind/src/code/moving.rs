//! Code that moves its stack pointer though its unwind information has one rule for all of it.
//!
//! Interpreters that are written in assembly (LuaJIT's) have one frame for all of their code and
//! say that once. Where they make that frame, leave it, or put something on the stack, this is not
//! true, and a walk would take any word for a return address: a wrong stack, or one that seems
//! whole where the word is 0.

use super::decode::{Flow, InstructionEffects, StackChange, decode};
use crate::arch::STACK_POINTER;
use crate::rule::{Rule, SAME, cfa_at_register};
use syscollect_records::unwind::{cfa_rule, frame_pointer_rule};

const WORD: i64 = 8;

/// What holds in code at `address` instead of `said`, by ascending address; each rule holds up to
/// the next one, and where `said` is true again it is among them.
pub(crate) fn rules(code: &[u8], address: u64, said: Rule) -> Vec<(u64, Rule)> {
    let (cfa, words) = said.cfa();
    let depth = i64::from(words) * WORD;
    if cfa != cfa_rule::RSP || depth < WORD {
        return Vec::new();
    }
    let instructions = decode(code, address);
    let mut rules = Vec::new();
    for stretch in instructions.split_inclusive(|one| never_goes_on(one.flow)) {
        let (Some(first), Some(last)) = (stretch.first(), stretch.last()) else { continue };
        if stretch.iter().all(|one| one.stack == StackChange::By(0)) {
            continue;
        }
        match making(stretch, depth).or_else(|| leaving(stretch, depth)) {
            Some(depths) => rules.extend(
                stretch.iter().zip(depths).map(|(one, depth)| (one.at, at_depth(said, depth))),
            ),
            None => rules.push((first.at, Rule::INEXPRESSIBLE)),
        }
        rules.push((last.end(), said));
    }
    rules
}

fn never_goes_on(flow: Flow) -> bool {
    matches!(flow, Flow::Jump(_) | Flow::Anywhere | Flow::Return | Flow::Stop)
}

/// How far below the CFA the stack pointer is before each instruction of code that makes a frame of
/// that size, and does nothing else to the stack pointer.
fn making(stretch: &[InstructionEffects], size: i64) -> Option<Vec<i64>> {
    let mut depth = WORD;
    let mut depths = Vec::new();
    for one in stretch {
        depths.push(depth);
        match one.stack {
            StackChange::By(by) if by >= 0 => depth = depth.checked_add(by)?,
            _ => return None,
        }
    }
    (depth == size).then_some(depths)
}

/// The same of code that leaves the frame and returns.
fn leaving(stretch: &[InstructionEffects], size: i64) -> Option<Vec<i64>> {
    let (end, before) = stretch.split_last()?;
    if end.flow != Flow::Return {
        return None;
    }
    let mut depth = size;
    let mut depths = Vec::new();
    for one in before {
        depths.push(depth);
        match one.stack {
            StackChange::By(by) if by <= 0 => depth = depth.checked_add(by)?,
            _ => return None,
        }
    }
    depths.push(depth);
    (depth == WORD).then_some(depths)
}

/// What is said, where the frame is there up to this depth only.
fn at_depth(said: Rule, depth: i64) -> Rule {
    let (rule, saved) = said.frame_pointer();
    let is_saved = rule != frame_pointer_rule::AT_CFA || depth >= -i64::from(saved) * WORD;
    let frame_pointer = if is_saved { (rule, saved) } else { SAME };
    let cfa = cfa_at_register(STACK_POINTER, depth);
    cfa.map_or(Rule::INEXPRESSIBLE, |cfa| Rule::new(cfa, frame_pointer))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::saved_at_cfa;

    /// Of a frame of ten words, with the caller's rbp above all else.
    fn said() -> Rule {
        at(80, true)
    }

    fn at(depth: i64, has_saved: bool) -> Rule {
        let saved = if has_saved { saved_at_cfa(-16) } else { SAME };
        Rule::new(cfa_at_register(STACK_POINTER, depth).unwrap(), saved)
    }

    #[test]
    fn a_frame_that_is_made_and_left_is_known_at_each_step() {
        // push rbp; push rbx; sub rsp, 56; jmp $
        let making = [0x55, 0x53, 0x48, 0x83, 0xec, 56, 0xeb, 0xfe];
        let made = [(0, at(8, false)), (1, at(16, true)), (2, at(24, true)), (6, at(80, true))];
        assert_eq!(rules(&making, 0, said()), [&made[..], &[(8, said())]].concat());
        // add rsp, 56; pop rbx; pop rbp; ret
        let leaving = [0x48, 0x83, 0xc4, 56, 0x5b, 0x5d, 0xc3];
        let left = [(0, at(80, true)), (4, at(24, true)), (5, at(16, true)), (6, at(8, false))];
        assert_eq!(rules(&leaving, 0, said()), [&left[..], &[(7, said())]].concat());
    }

    #[test]
    fn what_moves_the_stack_pointer_otherwise_is_not_believed() {
        // jmp $; push rax; push rcx; call $+5; pop rcx; pop rax; jmp $; nop; jmp $
        let code =
            [0xeb, 0xfe, 0x50, 0x51, 0xe8, 0, 0, 0, 0, 0x59, 0x58, 0xeb, 0xfe, 0x90, 0xeb, 0xfe];
        let only_there = [(0x1002, Rule::INEXPRESSIBLE), (0x100d, said())];
        assert_eq!(rules(&code, 0x1000, said()), only_there);
        // mov rsp, rdi; jmp rax
        let elsewhere = [0x48, 0x89, 0xfc, 0xff, 0xe0];
        assert_eq!(rules(&elsewhere, 0, said()), [(0, Rule::INEXPRESSIBLE), (5, said())]);
        // A frame of another size is none that was said.
        let other = [0x55, 0x53, 0x48, 0x83, 0xec, 48, 0xeb, 0xfe];
        assert_eq!(rules(&other, 0, said()), [(0, Rule::INEXPRESSIBLE), (8, said())]);
    }

    #[test]
    fn code_that_leaves_it_alone_is_as_said() {
        // mov rax, [rsp + 8]; call rax; jmp $; ret
        let code = [0x48, 0x8b, 0x44, 0x24, 8, 0xff, 0xd0, 0xeb, 0xfe];
        assert_eq!(rules(&code, 0, said()), []);
        let by_frame_pointer = Rule::new((cfa_rule::RBP, 2), saved_at_cfa(-16));
        assert_eq!(rules(&[0x55, 0xc3], 0, by_frame_pointer), [], "which its moves do not change");
    }
}
