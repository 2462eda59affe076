//! Rules of small functions, written as their bytes.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use syscollect_records::unwind::{UnwindRow, cfa_rule, frame_pointer_rule};

use super::*;

const ADDRESS: u64 = 0x1000;

fn rules_of(code: &[&[u8]]) -> Vec<(u64, Rule)> {
    let bytes = code.concat();
    let end = ADDRESS + bytes.len() as u64;
    rules(&BareCode {
        bytes: &bytes,
        address: ADDRESS,
        without_information: ADDRESS..end,
        entry: 0,
    })
}

/// The rule that holds at the `number`th instruction.
fn row(code: &[&[u8]], number: usize) -> UnwindRow {
    let before: usize = code[..number].iter().map(|instruction| instruction.len()).sum();
    let rules = rules_of(code);
    let after = rules.partition_point(|(address, _)| *address <= ADDRESS + before as u64);
    rules[after - 1].1.at(0)
}

/// Words from rsp up to the CFA.
fn words(code: &[&[u8]], number: usize) -> Option<i16> {
    let row = row(code, number);
    (row.cfa == cfa_rule::RSP).then_some(row.cfa_offset)
}

const PUSH_RBP: &[u8] = &[0x55];
const PUSH_RBX: &[u8] = &[0x53];
const POP_RBP: &[u8] = &[0x5d];
const POP_RBX: &[u8] = &[0x5b];
const POP_RDI: &[u8] = &[0x5f];
const SUB_RSP_32: &[u8] = &[0x48, 0x83, 0xec, 0x20];
const SUB_RSP_8: &[u8] = &[0x48, 0x83, 0xec, 0x08];
const ADD_RSP_8: &[u8] = &[0x48, 0x83, 0xc4, 0x08];
const MOV_RBP_RSP: &[u8] = &[0x48, 0x89, 0xe5];
const AND_RSP_32: &[u8] = &[0x48, 0x83, 0xe4, 0xe0];
const XOR_EBP_EBP: &[u8] = &[0x31, 0xed];
const XOR_EAX_EAX: &[u8] = &[0x31, 0xc0];
const TEST_EAX_EAX: &[u8] = &[0x85, 0xc0];
const MOV_EAX_15: &[u8] = &[0xb8, 15, 0, 0, 0];
const SYSCALL: &[u8] = &[0x0f, 0x05];
const CALL_ELSEWHERE: &[u8] = &[0xe8, 0, 0, 0x10, 0];
const CALL_RAX: &[u8] = &[0xff, 0xd0];
const LEAVE: &[u8] = &[0xc9];
const RET: &[u8] = &[0xc3];
const HLT: &[u8] = &[0xf4];

/// A jump, if the last comparison was not equal, over so many bytes.
const fn jne(bytes: u8) -> [u8; 2] {
    [0x75, bytes]
}

#[test]
fn assembly_may_call_its_own_functions_with_any_stack() {
    // Behind the function that it calls is one that calls something else.
    const CALL_BACK: &[u8] = &[0xe8, 0xeb, 0xff, 0xff, 0xff];
    const NOP_8: &[u8] = &[0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0];
    const NOP_5: &[u8] = &[0x0f, 0x1f, 0x44, 0, 0];
    let code = [XOR_EAX_EAX, RET, NOP_5, NOP_8, CALL_BACK, XOR_EAX_EAX, RET];
    assert_eq!(words(&code, 4), Some(1));
    assert_eq!(words(&code, 5), Some(1));
    // Also where something leads to what follows the call.
    let to_what_follows = jne(5);
    let call_back: &[u8] = &[0xe8, 0xe9, 0xff, 0xff, 0xff];
    let code: [&[u8]; 8] =
        [XOR_EAX_EAX, RET, NOP_5, NOP_8, &to_what_follows, call_back, XOR_EAX_EAX, RET];
    assert_eq!((4..8).filter_map(|number| words(&code, number)).collect::<Vec<_>>(), [1; 4]);
    let code = [CALL_RAX, RET, NOP_5, NOP_8, CALL_BACK, XOR_EAX_EAX, RET];
    assert_eq!(words(&code, 5), None);
}

#[test]
fn a_function_that_has_done_nothing_yet_returns_to_the_word_at_its_stack_pointer() {
    // Its calls have a stack that no compiler's calls have; before them that does not matter.
    let call_own: &[u8] = &[0xe8, 0, 0, 0, 0];
    let code: &[&[u8]] =
        &[call_own, TEST_EAX_EAX, &jne(1), RET, SUB_RSP_32, CALL_RAX, XOR_EAX_EAX, HLT];
    for number in 1..=4 {
        assert_eq!(words(code, number), Some(1), "{number}");
    }
    assert_eq!(words(code, 5), None);
    assert_eq!(words(code, 6), None);
}

#[test]
fn what_only_a_table_leads_to_has_the_frame_pointer_where_the_rest_of_its_function_has() {
    const JUMP_RAX: &[u8] = &[0xff, 0xe0];
    const ADD_RSP_32: &[u8] = &[0x48, 0x83, 0xc4, 0x20];
    let behind_the_case = jne(6);
    let code: &[&[u8]] = &[
        PUSH_RBP,
        SUB_RSP_32,
        XOR_EBP_EBP,
        &behind_the_case,
        JUMP_RAX,
        CALL_RAX,
        XOR_EAX_EAX,
        ADD_RSP_32,
        POP_RBP,
        RET,
    ];
    let case = row(code, 5);
    assert_eq!((case.cfa, case.cfa_offset), (cfa_rule::RSP, 6));
    assert_eq!((case.frame_pointer, case.saved_offset), (frame_pointer_rule::AT_CFA, -2));
}

#[test]
fn what_a_function_pushes_lies_between_rsp_and_the_cfa() {
    let code = [PUSH_RBX, PUSH_RBP, SUB_RSP_8, CALL_ELSEWHERE, ADD_RSP_8, POP_RBP, POP_RBX, RET];
    let found: Vec<_> = (0..code.len()).map(|number| words(&code, number)).collect();
    assert_eq!(found, [1, 2, 3, 4, 4, 3, 2, 1].map(Some));
    let [early, pushed, restored] = [1, 3, 6].map(|number| row(&code, number));
    assert_eq!((early.frame_pointer, early.saved_offset), (frame_pointer_rule::SAME, 0));
    assert_eq!((pushed.frame_pointer, pushed.saved_offset), (frame_pointer_rule::AT_CFA, -3));
    assert_eq!((restored.frame_pointer, restored.saved_offset), (frame_pointer_rule::SAME, 0));
}

#[test]
fn a_register_that_is_changed_and_not_stored_is_lost() {
    let code = [XOR_EBP_EBP, SUB_RSP_8, CALL_ELSEWHERE, ADD_RSP_8, RET];
    assert_eq!(row(&code, 2).frame_pointer, frame_pointer_rule::LOST);
}

#[test]
fn a_function_that_aligns_its_stack_is_known_by_its_frame_pointer() {
    let code = [PUSH_RBP, MOV_RBP_RSP, AND_RSP_32, SUB_RSP_32, CALL_ELSEWHERE, LEAVE, RET];
    let UnwindRow { cfa, cfa_offset, frame_pointer, saved_offset, .. } = row(&code, 4);
    assert_eq!((cfa, cfa_offset), (cfa_rule::RBP, 2));
    assert_eq!((frame_pointer, saved_offset), (frame_pointer_rule::AT_CFA, -2));
    assert_eq!(words(&code, 6), Some(1), "`leave` undoes all");
}

#[test]
fn paths_that_contradict_each_other_say_nothing() {
    let skip = jne(SUB_RSP_8.len() as u8);
    let code = [TEST_EAX_EAX, &skip, SUB_RSP_8, XOR_EAX_EAX, RET];
    assert_eq!((0..code.len()).filter_map(|number| words(&code, number)).count(), 0);
    // What comes behind is another function.
    let more = [&code[..], &[&[0x90; 5], SUB_RSP_8, CALL_ELSEWHERE, ADD_RSP_8, RET]].concat();
    assert_eq!(words(&more, code.len() + 2), Some(2));
}

#[test]
fn a_function_that_takes_more_than_it_put_there_is_none() {
    let code = [POP_RBX, CALL_RAX, RET];
    assert_eq!((0..code.len()).filter_map(|number| words(&code, number)).count(), 0);
}

#[test]
fn behind_a_call_that_does_not_return_begins_another_function() {
    const NOPS: &[u8] = &[0x90; 10];
    let code = [PUSH_RBX, CALL_ELSEWHERE, NOPS, PUSH_RBX, PUSH_RBP, POP_RBP, POP_RBX, RET];
    assert_eq!([3, 4, 5].map(|number| words(&code, number)), [1, 2, 3].map(Some));
}

#[test]
fn a_call_at_the_end_of_16_bytes_returns_if_only_then_the_next_ones_stack_is_aligned() {
    const CLC: &[u8] = &[0xf8];
    let begin = [SUB_RSP_8, XOR_EAX_EAX, XOR_EAX_EAX, XOR_EAX_EAX, CLC, CALL_ELSEWHERE];
    // As musl's first function: neither call of it is followed by a way to its end.
    let goes_on = [&begin[..], &[XOR_EAX_EAX, CALL_RAX, HLT]].concat();
    assert_eq!((words(&goes_on, 6), words(&goes_on, 7)), (Some(2), Some(2)));
    // Another function, which makes room for what it calls.
    let others = [&begin[..], &[SUB_RSP_8, CALL_RAX, HLT]].concat();
    assert_eq!((words(&others, 6), words(&others, 7)), (Some(1), Some(2)));
}

#[test]
fn a_thread_begins_where_clone_makes_its_frame_pointer_0() {
    let over = jne((XOR_EBP_EBP.len() + POP_RDI.len() + CALL_RAX.len() + HLT.len()) as u8);
    let code = [SYSCALL, TEST_EAX_EAX, &over, XOR_EBP_EBP, POP_RDI, CALL_RAX, HLT, RET];
    assert_eq!(row(&code, 5).cfa, cfa_rule::END, "the new thread");
    assert_eq!((words(&code, 2), words(&code, 7)), (Some(1), Some(1)), "who made it");
}

#[test]
fn a_signal_handler_returns_to_a_system_call() {
    let code = [RET, &[0x90], MOV_EAX_15, SYSCALL];
    let rules = rules_of(&code);
    // The frame is looked up by the byte before.
    for (offset, is_signal) in [(0, false), (1, true), (2, true), (7, true)] {
        let next = rules.partition_point(|(from, _)| *from <= ADDRESS + offset);
        assert_eq!(rules[next - 1].1 == Rule::SIGNAL, is_signal, "{offset}");
    }
}

#[test]
fn a_program_begins_at_its_entry() {
    let code = [XOR_EBP_EBP, CALL_ELSEWHERE, HLT].concat();
    let without_information = ADDRESS..ADDRESS + code.len() as u64;
    let code = BareCode { bytes: &code, address: ADDRESS, without_information, entry: ADDRESS };
    assert_eq!(rules(&code)[0], (ADDRESS, Rule::END));
}

#[test]
fn a_function_with_room_for_as_much_as_it_wants_is_known_by_its_frame_pointer_alone() {
    const SUB_RSP_RAX: &[u8] = &[0x48, 0x29, 0xc4];
    // Back to where the room is made.
    const JNE_BACK: &[u8] = &[0x75, 0xf4];
    let code =
        [PUSH_RBP, MOV_RBP_RSP, SUB_RSP_RAX, CALL_ELSEWHERE, TEST_EAX_EAX, JNE_BACK, LEAVE, RET];
    for number in 2..7 {
        let UnwindRow { cfa, cfa_offset, .. } = row(&code, number);
        assert_eq!((cfa, cfa_offset), (cfa_rule::RBP, 2), "instruction {number}");
    }
    assert_eq!(words(&code, 7), Some(1));
}

#[test]
fn two_functions_that_nothing_separates_are_not_taken_for_one() {
    // The second one's return would say how deep the first one is, whose call does not return.
    let code = [XOR_EAX_EAX, CALL_ELSEWHERE, PUSH_RBX, CALL_ELSEWHERE, POP_RBX, RET];
    assert_eq!((0..code.len()).filter_map(|number| words(&code, number)).count(), 0);
}

#[test]
fn what_is_called_and_not_understood_is_not_walked_by_the_callers_frame_pointer() {
    // It is called from its own end; its call has no stack that a compiler would give it.
    const CALL_BACK: &[u8] = &[0xe8, 0xf6, 0xff, 0xff, 0xff];
    let code = [CALL_ELSEWHERE, CALL_BACK, RET];
    assert_eq!(row(&code, 0).cfa, cfa_rule::INEXPRESSIBLE);
}

#[test]
fn a_jump_to_where_a_word_says_is_no_functions_end() {
    let code: [&[u8]; 3] = [CALL_ELSEWHERE, XOR_EAX_EAX, &[0xff, 0x25, 0, 0, 0, 0]];
    assert_eq!((0..code.len()).filter_map(|number| words(&code, number)).count(), 0);
}

#[test]
fn a_frame_pointer_that_is_0_after_a_system_call_is_no_new_thread() {
    let code = [PUSH_RBX, SYSCALL, XOR_EBP_EBP, CALL_ELSEWHERE, POP_RBX, RET];
    assert_eq!(words(&code, 3), Some(2));
}

/// Code that anybody may have made is read in time, however often it begins threads, jumps to one
/// place, or calls what follows.
#[test]
fn no_code_takes_longer_than_its_length() {
    let begin = Instant::now();
    let to_the_next: &[u8] = &[0x75, 0];
    let call_the_next: &[u8] = &[0xe8, 0, 0, 0, 0];
    let set_and_leave = [MOV_RBP_RSP, to_the_next, LEAVE].concat();
    for repeated in
        [&[SYSCALL, XOR_EBP_EBP].concat()[..], to_the_next, call_the_next, &set_and_leave]
    {
        let code = repeated.repeat((512 << 10) / repeated.len());
        assert!(!rules_of(&[&code]).is_empty());
    }
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
}

#[test]
fn a_librarys_entry_is_a_function_like_others() {
    let bytes = [PUSH_RBX, CALL_ELSEWHERE, POP_RBX, RET].concat();
    let without_information = ADDRESS..ADDRESS + bytes.len() as u64;
    let code = BareCode { bytes: &bytes, address: ADDRESS, without_information, entry: ADDRESS };
    assert!(rules(&code).iter().all(|(_, rule)| *rule != Rule::END));
}

#[test]
fn what_a_callee_takes_off_the_stack_does_not_matter_where_there_is_a_frame_pointer() {
    // As V8's functions do; by what is pushed, the stack would be two words deeper.
    let code =
        [PUSH_RBP, MOV_RBP_RSP, PUSH_RBX, PUSH_RBX, CALL_ELSEWHERE, CALL_ELSEWHERE, LEAVE, RET];
    let UnwindRow { cfa, cfa_offset, .. } = row(&code, 5);
    assert_eq!((cfa, cfa_offset), (cfa_rule::RBP, 2));
}

proptest! {
    /// Whatever bytes are taken for code, rules are in order and within them.
    #[test]
    fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let rules = rules_of(&[&bytes]);
        prop_assert!(rules.is_sorted_by_key(|(address, _)| *address));
        let end = ADDRESS + bytes.len() as u64;
        prop_assert!(rules.iter().all(|(address, _)| (ADDRESS - 1..=end).contains(address)));
    }
}
