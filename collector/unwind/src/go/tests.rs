use super::*;

/// `runtime.systemstack`, `runtime.morestack` and `runtime.asmcgocall` of Go 1.19, from where they
/// go to the thread's stack on (the second from where it keeps what it came from).
const SYSTEM_STACK: &str = "4889dc 4889fa488b3fffd7 64488b0425f8ffffff 488b5830 488b83c0000000 \
                            6448890425f8ffffff 488b6038 48c7403800000000 c3";
const MORE_STACK: &str = "48896e68 48895650 488b1b 6448891c25f8ffffff 488b6338 e855470000 \
                          e8301f0000 c3";
const C_STACK: &str = "48897c2430 488b7f08 4829d7 48897c2428 4889df 4889d9 ffd0 488b7c2430 \
                       488b7708 482b742428 6448893c25f8ffffff 4889f4 89442418 c3";
const C_SAME_STACK: &str = "48c744243000000000 4889542428 4889df 4889d9 ffd0 488b742428 4889f4 \
                            89442418 c3";

fn bytes(code: &str) -> Vec<u8> {
    let digits: Vec<u8> = code.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

fn switch(place: Range<usize>, cfa: (u8, i16), saved_offset: i16) -> StackSwitch {
    let rule = Rule::new(cfa, (frame_pointer_rule::SAME, saved_offset));
    StackSwitch { place, rule }
}

#[test]
fn what_runs_on_the_threads_stack_is_found_by_how_it_comes_back() {
    let expected = switch(3..40, (cfa_rule::GO_SYSTEM_STACK, 0xc0 / 8), 0);
    assert_eq!(stack_switches(&bytes(SYSTEM_STACK)), [expected]);
    // As it is in a program that may lie anywhere.
    let elsewhere = SYSTEM_STACK
        .replace("64488b0425f8ffffff", "48c7c1f8ffffff64488b01")
        .replace("6448890425f8ffffff", "64488901");
    let expected = switch(3..37, (cfa_rule::GO_SYSTEM_STACK, 0xc0 / 8), 0);
    assert_eq!(stack_switches(&bytes(&elsewhere)), [expected]);
    assert_eq!(stack_switches(&bytes(&SYSTEM_STACK.replace("488b6038", "488b6030"))), []);
}

#[test]
fn what_makes_a_larger_stack_is_known_beside_the_other() {
    assert_eq!(stack_switches(&bytes(MORE_STACK)), [], "which goroutine it is of nothing says");
    let found = stack_switches(&bytes(&(SYSTEM_STACK.to_owned() + MORE_STACK)));
    let start = bytes(SYSTEM_STACK).len() + 24;
    let expected = switch(start..start + 10, (cfa_rule::GO_MORE_STACK, 0xc0 / 8), 0x68 / 8);
    assert_eq!(found[1..], [expected]);
    // Since Go 1.21 it takes a frame pointer from the thread, too.
    let later = MORE_STACK.replace("488b6338", "488b6338 488b6b68");
    let found = stack_switches(&bytes(&(SYSTEM_STACK.to_owned() + &later)));
    let expected = switch(start..start + 14, (cfa_rule::GO_MORE_STACK, 0xc0 / 8), 0x68 / 8);
    assert_eq!(found[1..], [expected]);
}

#[test]
fn c_is_called_on_the_threads_stack_or_on_the_same() {
    let expected = switch(23..39, (cfa_rule::GO_C_STACK, 6), 5);
    assert_eq!(stack_switches(&bytes(C_STACK)), [expected]);
    // Later versions need less room.
    let later = C_STACK.replace("488b7c2430", "488b7c2408").replace("482b742428", "482b3424");
    let expected = switch(23..38, (cfa_rule::GO_C_STACK, 1), 0);
    assert_eq!(stack_switches(&bytes(&later)), [expected]);
    let expected = switch(20..27, (cfa_rule::AT_RSP_PLUS_WORD, 5), 0);
    assert_eq!(stack_switches(&bytes(C_SAME_STACK)), [expected]);
}

#[test]
fn a_page_says_what_holds_there_and_what_it_said_holds_before_and_behind() {
    let rule = |words| Rule::new((cfa_rule::RSP, words), SAME);
    let rows = || vec![rule(1).at(0), rule(2).at(100), rule(3).at(120)];
    let with = |place| {
        let mut rows = rows();
        say_within(&mut rows, &place, rule(9));
        rows
    };
    let (first, second, third) = (rule(1).at(0), rule(2).at(100), rule(3).at(120));
    assert_eq!(with(104..110), [first, second, rule(9).at(104), rule(2).at(110), third]);
    assert_eq!(with(90..130), [first, rule(9).at(90), rule(3).at(130)]);
    assert_eq!(with(100..120), [first, rule(9).at(100), third]);
    assert_eq!(with(130..0x1_0000), [first, second, third, rule(9).at(130)]);
    assert_eq!(with(130..130), rows());
}
