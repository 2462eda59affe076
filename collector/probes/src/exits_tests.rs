use super::*;
use proptest::prelude::*;

/// Where the code of these tests begins.
const AT: u64 = 0x1000;
/// Where its cold part does.
const COLD: u64 = 0x800;

/// What an instruction's bytes are, one after another.
fn code(instructions: &[&[u8]]) -> Vec<u8> {
    instructions.concat()
}

fn of_parts(body: &[u8], cold: &[u8]) -> Result<Vec<u64>, UnclearExits> {
    let ranges = [AT..AT + body.len() as u64, COLD..COLD + cold.len() as u64];
    let exits = exits(
        ranges[0].clone(),
        &ranges[1..],
        |_| None,
        |part| {
            if part == ranges[0] { Some(body) } else { (part == ranges[1]).then_some(cold) }
        },
    )?;
    Ok(exits.iter().map(|exit| exit.wrapping_sub(AT)).collect())
}

fn of(instructions: &[&[u8]]) -> Result<Vec<u64>, UnclearExits> {
    of_parts(&code(instructions), &[])
}

const NOP: &[u8] = &[0x90];
const RET: &[u8] = &[0xc3];
const PUSH_RBX: &[u8] = &[0x53];
const POP_RBX: &[u8] = &[0x5b];
/// `test %edi,%edi`.
const TEST: &[u8] = &[0x85, 0xff];
/// `call` of something else.
const CALL: &[u8] = &[0xe8, 0, 0x10, 0, 0];
/// `jmp` to something else.
const JMP_AWAY: &[u8] = &[0xe9, 0, 0x10, 0, 0];
/// `jmp *%rax`.
const JMP_RAX: &[u8] = &[0xff, 0xe0];
/// `mov 0x18(%rdi),%rax`.
const LOAD: &[u8] = &[0x48, 0x8b, 0x47, 0x18];
/// `movslq (%rdx,%rdi,4),%rax; add %rdx,%rax`.
const ADD_ENTRY: &[u8] = &[0x48, 0x63, 0x04, 0xba, 0x48, 0x01, 0xd0];

#[test]
fn each_return_is_an_end() {
    assert_eq!(of(&[TEST, &[0x74, 1], RET, NOP, RET]), Ok(vec![4, 6]));
    assert_eq!(of(&[TEST, &[0xf3, 0xc3]]), Ok(vec![2]), "rep ret");
    assert_eq!(of(&[&[0xc2, 8, 0]]), Ok(vec![0]), "ret $8");
    assert_eq!(of(&[NOP, &[0xf2, 0xc3]]), Ok(vec![1]), "bnd ret");
}

#[test]
fn the_bytes_of_a_return_in_another_instruction_are_none() {
    // mov $0xc3,%eax; mov 0xc3(%rax),%al; ret
    assert_eq!(of(&[&[0xb8, 0xc3, 0, 0, 0], &[0x8a, 0x80, 0xc3, 0, 0, 0], RET]), Ok(vec![11]));
}

#[test]
fn a_tail_call_is_an_end_and_a_jump_within_is_none() {
    assert_eq!(of(&[TEST, &[0x75, 5], JMP_AWAY, RET]), Ok(vec![4, 9]));
    assert_eq!(of(&[&[0xeb, 1], NOP, RET]), Ok(vec![3]));
    // To itself, from a frame of its own and without one.
    assert_eq!(of(&[NOP, TEST, &[0x74, 2], &[0xeb, 0xf9], RET]), Ok(vec![5, 7]));
    assert_eq!(of(&[PUSH_RBX, TEST, &[0x75, 0xfb], POP_RBX, RET]), Ok(vec![6]), "it loops");
}

#[test]
fn an_indirect_tail_call_is_an_end_where_the_stack_is_as_at_the_entry() {
    assert_eq!(of(&[LOAD, JMP_RAX]), Ok(vec![4]));
    assert_eq!(of(&[PUSH_RBX, LOAD, POP_RBX, JMP_RAX]), Ok(vec![6]));
    assert_eq!(of(&[&[0xff, 0x67, 0x18]]), Ok(vec![0]), "jmp *0x18(%rdi)");
    assert_eq!(of(&[&[0xff, 0x25, 0, 1, 0, 0]]), Ok(vec![0]), "jmp *x(%rip)");
    // An interpreter that goes to the next instruction in a frame of its own.
    assert_eq!(of(&[PUSH_RBX, LOAD, JMP_RAX, POP_RBX, RET]), Ok(vec![8]));
}

#[test]
fn the_stack_is_followed_through_each_way_to_make_a_frame() {
    // push %rbp; mov %rsp,%rbp; sub $0x20,%rsp; mov ..; leave; jmp *%rax
    let leave =
        [&[0x55][..], &[0x48, 0x89, 0xe5], &[0x48, 0x83, 0xec, 0x20], LOAD, &[0xc9], JMP_RAX];
    assert_eq!(of(&leave), Ok(vec![13]));
    // lea 8(%rsp),%r10; and $-32,%rsp; ..; lea -8(%r10),%rsp; jmp *%rax
    let aligned: [&[u8]; 5] = [
        &[0x4c, 0x8d, 0x54, 0x24, 0x08],
        &[0x48, 0x83, 0xe4, 0xe0],
        LOAD,
        &[0x49, 0x8d, 0x62, 0xf8],
        JMP_RAX,
    ];
    assert_eq!(of(&aligned), Ok(vec![17]));
    // lea -16(%rbp),%rsp; pop; pop; pop; ret, after which a case of a switch lies in the frame
    assert_eq!(
        of(&[
            &[0x55],
            &[0x48, 0x89, 0xe5],
            &[0x48, 0x8d, 0x65, 0xf8],
            POP_RBX,
            &[0x5d],
            LOAD,
            JMP_RAX
        ]),
        Ok(vec![14])
    );
}

#[test]
fn the_jump_of_a_switch_is_no_end() {
    assert_eq!(of(&[ADD_ENTRY, JMP_RAX, RET, RET]), Ok(vec![9, 10]));
    assert_eq!(of(&[&[0x3e, 0xff, 0xe0], RET]), Ok(vec![3]), "notrack jmp *%rax");
    assert_eq!(of(&[&[0xff, 0x24, 0xfd, 0, 0x10, 0, 0], RET]), Ok(vec![7]), "jmp *table(,%rdi,8)");
    // mov (%rdx,%rdi,8),%rax; jmp *%rax
    assert_eq!(of(&[&[0x48, 0x8b, 0x04, 0xfa], JMP_RAX, RET]), Ok(vec![6]));
}

#[test]
fn after_the_frame_was_given_back_a_jump_leaves_the_function_wherever_its_target_comes_from() {
    assert_eq!(of(&[PUSH_RBX, ADD_ENTRY, POP_RBX, JMP_RAX]), Ok(vec![9]));
    // push; je over; movslq; pop; ret; and there, in the frame: add; jmp
    assert_eq!(of(&[PUSH_RBX, TEST, &[0x74, 2], POP_RBX, RET, ADD_ENTRY, JMP_RAX]), Ok(vec![6]));
    // mov (%rdi,%rcx,1),%rax, a field: jmp *%rax
    assert_eq!(of(&[&[0x48, 0x8b, 0x04, 0x0f], JMP_RAX]), Ok(vec![4]));
}

#[test]
fn a_function_of_which_only_a_doubtful_end_is_known_is_unclear() {
    assert_eq!(of(&[&[0x48, 0x8b, 0x04, 0xfa], JMP_RAX]), Err(UnclearExits::Overlooked));
}

#[test]
fn a_function_that_never_returns_has_no_end() {
    assert_eq!(of(&[NOP, &[0xeb, 0xfe]]), Ok(vec![]), "it waits for ever");
    assert_eq!(of(&[PUSH_RBX, CALL]), Ok(vec![]));
    assert_eq!(of(&[&[0x0f, 0x0b]]), Ok(vec![]));
}

#[test]
fn a_cold_part_belongs_to_the_function() {
    // je COLD; ret, and there: call; jmp back, or ret.
    let body = code(&[PUSH_RBX, TEST, &[0x0f, 0x84, 0xf7, 0xf7, 0xff, 0xff], POP_RBX, RET]);
    let back = code(&[CALL, &[0xe9, 0xff, 0x07, 0, 0]]);
    assert_eq!(of_parts(&body, &back), Ok(vec![10]));
    assert_eq!(
        of_parts(&body, &code(&[POP_RBX, RET])),
        Ok(vec![COLD.wrapping_sub(AT).wrapping_add(1), 10].into_iter().collect())
    );
    assert_eq!(of_parts(&body, &[]), Err(UnclearExits::Elsewhere), "no symbol tells of it");
    assert_eq!(of_parts(&body, &code(&[CALL, NOP, &[0xff]])), Err(UnclearExits::NotDecoded));
}

#[test]
fn a_part_without_a_symbol_belongs_to_the_function_that_jumps_there_with_its_frame() {
    // je COLD; ret, and there: call; pop; ret.
    let body = code(&[PUSH_RBX, TEST, &[0x0f, 0x84, 0xf7, 0xf7, 0xff, 0xff], POP_RBX, RET]);
    let cold = code(&[CALL, POP_RBX, RET]);
    let ranges = [AT..AT + body.len() as u64, COLD..COLD + cold.len() as u64];
    let bytes = |part: Range<u64>| Some(if part == ranges[0] { &body[..] } else { &cold[..] });
    let found = exits(
        ranges[0].clone(),
        &[],
        |place| ranges.iter().find(|part| part.contains(&place)).cloned(),
        bytes,
    );
    assert_eq!(found, Ok(vec![COLD + 6, AT + 10]));
    assert_eq!(exits(ranges[0].clone(), &[], wrong, bytes), Err(UnclearExits::TooLarge));
}

/// What lies around its target does not hold it: a forged table.
fn wrong(_: u64) -> Option<Range<u64>> {
    Some(AT + 100..AT + 107)
}

#[test]
fn a_conditional_tail_call_is_unclear_for_a_probe_on_it_is_hit_also_if_it_is_not_taken() {
    assert_eq!(of(&[TEST, &[0x0f, 0x84, 0, 0x10, 0, 0], RET]), Err(UnclearExits::Conditional));
}

#[test]
fn code_that_does_not_fit_is_not_probed() {
    assert_eq!(
        of(&[&[0xeb, 1], &[0xb8, 0, 0, 0, 0], RET]),
        Err(UnclearExits::NotDecoded),
        "into an instruction"
    );
    assert_eq!(of(&[&[0x06], RET]), Err(UnclearExits::NotDecoded), "no instruction");
    assert_eq!(of(&[RET, &[0xe8, 0]]), Err(UnclearExits::NotDecoded), "cut");
    assert_eq!(of(&[NOP]), Err(UnclearExits::Elsewhere), "only padding");
    assert_eq!(of(&[RET, TEST]), Err(UnclearExits::Elsewhere), "it runs into the next function");
    assert_eq!(
        of(&[&[0x2e, 0xc3]]),
        Err(UnclearExits::Unprobed),
        "the kernel takes none with this prefix"
    );
    assert_eq!(of(&[]), Err(UnclearExits::NoSize));
}

#[test]
fn what_nothing_leads_to_in_a_function_that_calls_nothing_is_taken_for_data() {
    assert_eq!(of(&[TEST, RET, NOP, RET]), Ok(vec![2]));
    // Behind a call there may be what handles its exceptions.
    assert_eq!(of(&[PUSH_RBX, CALL, POP_RBX, RET, POP_RBX, RET]), Ok(vec![7, 9]));
}

#[test]
fn more_than_any_function_is_not_looked_at() {
    assert_eq!(exits(AT..AT + CODE_MAX + 1, &[], |_| None, unread), Err(UnclearExits::TooLarge));
    assert_eq!(exits(AT..u64::MAX, &[], |_| None, unread), Err(UnclearExits::TooLarge));
}

fn unread(_: Range<u64>) -> Option<&'static [u8]> {
    panic!("it is read")
}

proptest! {
    #[test]
    fn any_bytes_have_ends_among_them_or_none(
        body in prop::collection::vec(any::<u8>(), 0..300),
        cold in prop::collection::vec(any::<u8>(), 0..60),
        at: u64,
    ) {
        let ranges = [at..at.saturating_add(body.len() as u64), COLD..COLD + cold.len() as u64];
        let bytes = |part: Range<u64>| {
            if part == ranges[0] {
                body.get(..(part.end - part.start) as usize)
            } else {
                Some(&cold[..])
            }
        };
        if let Ok(exits) = exits(ranges[0].clone(), &ranges[1..], |_| None, bytes) {
            prop_assert!(
                exits.is_sorted()
                    && exits.iter().all(|exit| ranges.iter().any(|range| range.contains(exit)))
            );
        }
    }

    /// Of likely instructions, so that it does not end at the first that is none.
    #[test]
    fn any_instructions_are_followed_to_an_end(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                NOP,
                RET,
                PUSH_RBX,
                POP_RBX,
                TEST,
                CALL,
                JMP_AWAY,
                JMP_RAX,
                LOAD,
                ADD_ENTRY,
                &[0xeb, 2],
                &[0x74, 0xfa],
                &[0x75, 5],
                &[0xc9],
            ]),
            0..200,
        ),
    ) {
        let body = parts.concat();
        for exit in of_parts(&body, &[]).unwrap_or_default() {
            prop_assert!([0xc3, 0xe9, 0xff, 0xeb].contains(&body[exit as usize]));
        }
    }
}

/// What has a jump on each of its bytes takes no longer for that.
#[test]
fn the_largest_function_takes_little_time_whatever_it_jumps_to() {
    let body: Vec<u8> = std::iter::repeat_n([0x75, 0xfe], CODE_MAX as usize / 2 - 1)
        .flatten()
        .chain([0xc3, 0xc3])
        .collect();
    let begin = std::time::Instant::now();
    assert_eq!(of_parts(&body, &[]), Ok(vec![CODE_MAX - 2]));
    assert!(begin.elapsed().as_secs() < 20, "{:?}", begin.elapsed());
}
