//! Functions that keep frame pointers, found without following every path.
//!
//! Some large programs are built without unwind information and with frame pointers in every
//! function (Chromium, and what is made of it). Their functions all begin by saving the caller's
//! frame pointer and making their own, and until they load it again the CFA is two words above it,
//! whatever the stack pointer does. So one look at each instruction says what the whole analysis
//! would, in a tenth of the time. Whatever is not as plain as that is left to it.

use rustc_hash::FxHashSet;

use super::decode::{Flow, FramePointerChange, InstructionEffects, InstructionKind, StackChange};
use super::{FRAME_POINTER, Rule, SAME, STACK_POINTER, WORD, cfa_at_register, saved_at_cfa};

/// A function that makes a frame has about so many bytes, or fewer, on the average of code in which
/// most do.
const BYTES_OF_EACH: usize = 4096;
/// `push rbp; mov rbp, rsp`.
const MAKES_FRAME: [u8; 4] = [0x55, 0x48, 0x89, 0xe5];
/// Instructions at most from where a function loads the caller's frame pointer to where it leaves.
const LEAVING_MAX: usize = 4;

/// Whether it is worth a look.
pub(super) fn may_be_most(code: &[u8]) -> bool {
    let frames = code.windows(MAKES_FRAME.len()).filter(|bytes| *bytes == MAKES_FRAME).count();
    frames * BYTES_OF_EACH >= code.len()
}

/// Rules of instructions, `None` for those that nothing is said of; `None` altogether where such
/// functions are not most of the code.
pub(super) fn rules(instructions: &[InstructionEffects]) -> Option<Vec<Option<Rule>>> {
    let rules = all_rules(instructions);
    let said = rules.iter().filter(|rule| rule.is_some()).count();
    let padding = |one: &&InstructionEffects| one.kind == InstructionKind::Padding;
    let code = instructions.len() - instructions.iter().filter(padding).count();
    (said * 2 > code).then_some(rules)
}

/// The same, however few they are.
pub(super) fn all_rules(instructions: &[InstructionEffects]) -> Vec<Option<Rule>> {
    let functions = Functions::new(instructions);
    let mut rules = vec![None; instructions.len()];
    let mut starts = functions.starts.iter().copied().peekable();
    while let Some(start) = starts.next() {
        let end = starts.peek().copied().unwrap_or(instructions.len());
        // Where the last one ends is not known.
        if end < instructions.len() {
            functions.add(start, &mut rules[start..end]);
        }
    }
    rules
}

/// What is called by its address.
pub(super) fn called(instructions: &[InstructionEffects]) -> FxHashSet<u64> {
    let calls = instructions.iter().filter_map(|one| match one.flow {
        Flow::Call(to) => to,
        _ => None,
    });
    calls.collect()
}

struct Functions<'i> {
    instructions: &'i [InstructionEffects],
    called: FxHashSet<u64>,
    /// Which instructions begin a function that keeps a frame pointer.
    starts: Vec<usize>,
}

impl<'i> Functions<'i> {
    fn new(instructions: &'i [InstructionEffects]) -> Self {
        let mut functions = Self { instructions, called: called(instructions), starts: Vec::new() };
        functions.starts =
            (0..instructions.len()).filter(|number| functions.is_start(*number)).collect();
        functions
    }

    /// `push rbp; mov rbp, rsp`, to which the instruction before does not lead.
    fn is_start(&self, number: usize) -> bool {
        let Some([push, make]) = self.instructions.get(number..number + 2) else { return false };
        let makes_frame = push.frame_pointer == FramePointerChange::Stored(-WORD)
            && push.stack == StackChange::By(WORD)
            && make.frame_pointer == FramePointerChange::ToStackPointer(0)
            && make.at == push.end();
        let is_led_to = || {
            number.checked_sub(1).is_some_and(|before| {
                let before = &self.instructions[before];
                before.end() == push.at
                    && before.kind != InstructionKind::Padding
                    && (matches!(before.flow, Flow::Next | Flow::Branch(_))
                        || matches!(before.flow, Flow::Call(_)) && !self.called.contains(&push.at))
            })
        };
        makes_frame && !is_led_to()
    }

    /// Adds the rules of the function whose first instruction is `start`, if all of it is plain.
    fn add(&self, start: usize, rules: &mut [Option<Rule>]) {
        let function = &self.instructions[start..start + rules.len()];
        if let Some(found) = self.rules_of(function) {
            rules.copy_from_slice(&found);
        }
    }

    fn rules_of(&self, function: &[InstructionEffects]) -> Option<Vec<Option<Rule>>> {
        let saved = saved_at_cfa(-2 * WORD);
        let entry = Rule::new(cfa_at_register(STACK_POINTER, WORD)?, SAME);
        let pushed = Rule::new(cfa_at_register(STACK_POINTER, 2 * WORD)?, saved);
        let body = Rule::new(cfa_at_register(FRAME_POINTER, 2 * WORD)?, saved);
        let addresses = function.first()?.at..function.last()?.end();
        let jumped_to = function.iter().filter_map(|one| match one.flow {
            Flow::Branch(to) | Flow::Jump(to) => Some(to),
            _ => None,
        });
        let jumped_to: FxHashSet<u64> = jumped_to.collect();
        let mut rules = vec![None; function.len()];
        (rules[0], rules[1]) = (Some(entry), Some(pushed));
        // Jumps lead forward to these, and back to what was looked at.
        let (mut targets, mut bodies) = (FxHashSet::default(), FxHashSet::default());
        let (mut is_body, mut leaving) = (true, None);
        for number in 2..function.len() {
            let one = &function[number];
            let is_apart = function[number - 1].end() != one.at;
            if targets.contains(&one.at) {
                is_body = true;
                // Who jumps there has a frame, and who comes from before has none.
                if leaving.is_some() {
                    return None;
                }
            } else if is_apart || self.called.contains(&one.at) {
                is_body = false;
            } else if may_be_behind(&function[..number]) && one.kind != InstructionKind::Padding {
                is_body &= jumped_to.contains(&one.at);
            }
            // What nothing in this function leads to is another's, or a table leads there.
            if !is_body {
                leaving = None;
                continue;
            }
            if let Some(left) = leaving {
                rules[number] = Some(entry);
                leaving = Some(left + 1);
                let is_plain = one.stack == StackChange::By(0)
                    && one.frame_pointer == FramePointerChange::Kept
                    && left < LEAVING_MAX;
                match one.flow {
                    Flow::Next if is_plain => {}
                    Flow::Return | Flow::Anywhere => (is_body, leaving) = (false, None),
                    Flow::Jump(to) if !addresses.contains(&to) => {
                        (is_body, leaving) = (false, None);
                    }
                    _ => return None,
                }
                continue;
            }
            rules[number] = Some(body);
            bodies.insert(one.at);
            match one.frame_pointer {
                FramePointerChange::Kept => {}
                FramePointerChange::Loaded(0) | FramePointerChange::Left => leaving = Some(0),
                _ => return None,
            }
            match one.flow {
                Flow::Next | Flow::Call(_) => {}
                Flow::Branch(to) | Flow::Jump(to) => {
                    // A function that has a frame does not leave by a jump.
                    if !addresses.contains(&to) || (to <= one.at && !bodies.contains(&to)) {
                        return None;
                    }
                    targets.insert(to);
                    is_body = matches!(one.flow, Flow::Branch(_));
                }
                Flow::Anywhere | Flow::Stop => is_body = false,
                Flow::Return => return None,
            }
        }
        // All of them must be instructions that were looked at.
        targets.iter().all(|target| bodies.contains(target)).then_some(rules)
    }
}

/// Whether a call that does not return, and padding, are before: another function may begin.
fn may_be_behind(before: &[InstructionEffects]) -> bool {
    let mut last = before.iter().rev();
    let is_padded = last.next().is_some_and(|one| one.kind == InstructionKind::Padding);
    is_padded
        && last
            .find(|one| one.kind != InstructionKind::Padding)
            .is_some_and(|one| matches!(one.flow, Flow::Call(_)))
}

#[cfg(test)]
mod tests {
    use super::super::decode::decode;
    use super::*;

    const ADDRESS: u64 = 0x1000;
    const PUSH: &[u8] = &[0x55];
    const MAKE: &[u8] = &[0x48, 0x89, 0xe5];
    const POP: &[u8] = &[0x5d];
    const RET: &[u8] = &[0xc3];
    const CALL_RAX: &[u8] = &[0xff, 0xd0];
    const JUMP_RAX: &[u8] = &[0xff, 0xe0];
    const XOR_EAX_EAX: &[u8] = &[0x31, 0xc0];
    const XOR_EBP_EBP: &[u8] = &[0x31, 0xed];
    const JUMP_TO_NEXT: &[u8] = &[0xeb, 0];
    /// Another such function, behind which nothing is known.
    const NEXT: [&[u8]; 4] = [PUSH, MAKE, POP, RET];

    /// Which words hold the CFA of each instruction: of rsp, or of rbp.
    fn words(code: &[&[u8]]) -> Vec<Option<(bool, i16)>> {
        let bytes = [code, &NEXT].concat().concat();
        let rules = all_rules(&decode(&bytes, ADDRESS));
        let of = |rule: Rule| {
            let row = rule.at(0);
            (row.cfa == syscollect_records::unwind::cfa_rule::RBP, row.cfa_offset)
        };
        rules[..code.len()].iter().map(|rule| rule.map(of)).collect()
    }

    const ENTRY: Option<(bool, i16)> = Some((false, 1));
    const PUSHED: Option<(bool, i16)> = Some((false, 2));
    const BODY: Option<(bool, i16)> = Some((true, 2));

    #[test]
    fn a_function_is_known_by_its_frame_pointer_until_it_loads_its_callers() {
        let code = [PUSH, MAKE, XOR_EAX_EAX, CALL_RAX, POP, RET];
        assert_eq!(words(&code), [ENTRY, PUSHED, BODY, BODY, BODY, ENTRY]);
        let to_another: &[u8] = &[0xe9, 0, 0, 0x10, 0];
        let code = [PUSH, MAKE, CALL_RAX, POP, to_another];
        assert_eq!(words(&code), [ENTRY, PUSHED, BODY, BODY, ENTRY]);
    }

    #[test]
    fn what_nothing_leads_to_is_left_to_others() {
        // Behind a jump by a table; behind a return, where another function may begin.
        let code = [PUSH, MAKE, JUMP_RAX, XOR_EAX_EAX, POP, RET];
        assert_eq!(words(&code), [ENTRY, PUSHED, BODY, None, None, None]);
        let code = [PUSH, MAKE, POP, RET, XOR_EAX_EAX, RET];
        assert_eq!(words(&code), [ENTRY, PUSHED, BODY, ENTRY, None, None]);
        // What is jumped to is this function's, and so is all that follows it.
        let over_the_return: &[u8] = &[0x75, 2];
        let code = [PUSH, MAKE, over_the_return, POP, RET, CALL_RAX, POP, RET];
        assert_eq!(words(&code)[5..], [BODY, BODY, ENTRY]);
    }

    #[test]
    fn another_function_may_begin_behind_a_call_and_padding() {
        let nop: &[u8] = &[0x90];
        let code = [PUSH, MAKE, CALL_RAX, nop, XOR_EAX_EAX, RET];
        assert_eq!(words(&code)[4..], [None, None]);
        // Unless it is a loop's first instruction.
        let back: &[u8] = &[0x75, 0xfc];
        let code = [PUSH, MAKE, CALL_RAX, nop, XOR_EAX_EAX, back, POP, RET];
        assert_eq!(words(&code)[4..], [BODY, BODY, BODY, ENTRY]);
    }

    #[test]
    fn of_functions_that_are_not_plain_nothing_is_said() {
        let into_the_leaving: &[u8] = &[0x75, 1];
        let calls_its_middle: &[u8] = &[0xe8, 0xfb, 0xff, 0xff, 0xff];
        for code in [
            // It uses its frame pointer for something else, or saves it again.
            &[PUSH, MAKE, XOR_EBP_EBP, POP, RET][..],
            &[PUSH, MAKE, PUSH, POP, POP, RET],
            // It returns with its frame, or goes on without.
            &[PUSH, MAKE, RET],
            &[PUSH, MAKE, POP, JUMP_TO_NEXT, RET],
            &[PUSH, MAKE, POP, CALL_RAX, RET],
            // It is not told from what jumps there.
            &[PUSH, MAKE, into_the_leaving, POP, RET],
        ] {
            assert_eq!(words(code), vec![None; code.len()], "{code:x?}");
        }
        assert_eq!(words(&[PUSH, MAKE, calls_its_middle, RET])[2..], [None, None]);
        // Something leads to its first instruction.
        let code = [XOR_EAX_EAX, PUSH, MAKE, POP, RET];
        assert_eq!(words(&code), vec![None; code.len()]);
    }

    #[test]
    fn where_such_functions_are_few_all_is_left_to_others() {
        let plain = [PUSH, MAKE, POP, RET].concat().repeat(6);
        assert!(rules(&decode(&plain, ADDRESS)).is_some());
        let others = [XOR_EAX_EAX, RET].concat().repeat(10);
        assert_eq!(rules(&decode(&[plain, others].concat(), ADDRESS)), None);
        assert_eq!(rules(&[]), None);
    }
}
