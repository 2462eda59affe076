//! What rows say of DWARF's rules, each by hand.

use crate::image::*;
use syscollect_records::unwind::{UnwindRow, cfa_rule, frame_pointer_rule};

/// The rule that is the whole of a function with these instructions.
fn rule(instructions: &[u8]) -> UnwindRow {
    let rows = Image::new(vec![function(0, 64, instructions)]).rows();
    let after = UnwindRow { address: 64, ..NONE };
    // Of what comes after nothing is said.
    assert_eq!(&rows[1..], [after]);
    rows[0]
}

/// The same, with a canonical frame address by an expression.
fn expression(operations: &[u8]) -> UnwindRow {
    rule(&[&[DEF_CFA_EXPRESSION, operations.len() as u8], operations].concat())
}

fn cfa(cfa: u8, cfa_offset: i16) -> UnwindRow {
    UnwindRow { cfa, cfa_offset, ..UnwindRow::default() }
}

const NONE: UnwindRow =
    UnwindRow { address: 0, cfa: 0, frame_pointer: 0, cfa_offset: 0, saved_offset: 0 };

/// What is said, but not in a row.
const INEXPRESSIBLE: UnwindRow = UnwindRow { cfa: cfa_rule::INEXPRESSIBLE, ..NONE };

/// Operations of expressions.
const BREG6: u8 = 0x76;
const BREG7: u8 = 0x77;
const BREG16: u8 = 0x80;
const DEREF: u8 = 0x06;
const PLUS_UCONST: u8 = 0x23;
const PLUS: u8 = 0x22;
const LIT0: u8 = 0x30;
const LIT8: u8 = 0x38;
/// -16 and 8, as expressions write them.
const MINUS_16: u8 = 0x70;

#[test]
fn a_prologue_makes_a_row_for_each_step() {
    let rows = Image::new(vec![function(
        16,
        100,
        &[
            advance(1),
            DEF_CFA_OFFSET,
            16,
            offset(RBP),
            2,
            advance(3),
            DEF_CFA_REGISTER,
            RBP,
            advance(40),
            DEF_CFA,
            RSP,
            8,
        ],
    )])
    .rows();
    let expected = [
        NONE,
        UnwindRow { address: 16, ..cfa(cfa_rule::RSP, 1) },
        saved(17, cfa_rule::RSP, 2),
        saved(20, cfa_rule::RBP, 2),
        saved(60, cfa_rule::RSP, 1),
        UnwindRow { address: 116, ..NONE },
    ];
    assert_eq!(rows, expected);
}

fn saved(address: u16, cfa: u8, cfa_offset: i16) -> UnwindRow {
    UnwindRow {
        address,
        cfa,
        frame_pointer: frame_pointer_rule::AT_CFA,
        cfa_offset,
        saved_offset: -2,
    }
}

#[test]
fn states_are_remembered_and_restored() {
    let rows = Image::new(vec![function(
        0,
        32,
        &[
            DEF_CFA_OFFSET,
            64,
            REMEMBER_STATE,
            advance(8),
            DEF_CFA_OFFSET,
            8,
            advance(1),
            RESTORE_STATE,
        ],
    )])
    .rows();
    let rules: Vec<_> = rows.iter().map(|row| (row.address, row.cfa, row.cfa_offset)).collect();
    let rsp = cfa_rule::RSP;
    assert_eq!(rules, [(0, rsp, 8), (8, rsp, 1), (9, rsp, 8), (32, 0, 0)]);
}

#[test]
fn expressions_of_functions_that_align_their_stack_are_known() {
    use cfa_rule::{AT_RBP, AT_RBP_PLUS_WORD, AT_RSP, AT_RSP_PLUS_WORD};
    assert_eq!(expression(&[BREG7, 8, DEREF]), cfa(AT_RSP, 1));
    assert_eq!(expression(&[BREG6, MINUS_16, DEREF]), cfa(AT_RBP, -2));
    assert_eq!(expression(&[BREG7, 8, DEREF, PLUS_UCONST, 8]), cfa(AT_RSP_PLUS_WORD, 1));
    assert_eq!(expression(&[BREG7, 0, DEREF, LIT8, PLUS]), cfa(AT_RSP_PLUS_WORD, 0));
    assert_eq!(expression(&[BREG6, MINUS_16, DEREF, PLUS_UCONST, 8]), cfa(AT_RBP_PLUS_WORD, -2));
    assert_eq!(expression(&[BREG6, 0, DEREF, LIT8, PLUS]), cfa(AT_RBP_PLUS_WORD, 0));
}

#[test]
fn an_entry_whose_callee_takes_its_frame_pointer_back_has_that() {
    // As SBCL says it.
    assert_eq!(expression(&[BREG6, 0, DEREF, LIT0 + 16, PLUS]), cfa(cfa_rule::RBP, 2));
    assert_eq!(expression(&[BREG6, 8, DEREF, LIT0 + 16, PLUS]), INEXPRESSIBLE);
    assert_eq!(expression(&[BREG7, 0, DEREF, LIT0 + 16, PLUS]), INEXPRESSIBLE);
}

#[test]
fn entries_of_a_procedure_linkage_table_push_a_word_at_one_of_their_bytes() {
    assert_eq!(expression(&plt(11)), cfa(cfa_rule::PLT, 11));
    assert_eq!(expression(&plt(5)), cfa(cfa_rule::PLT, 5));
    assert_eq!(expression(&plt(16)), INEXPRESSIBLE, "no byte of an entry");
    let mut other = plt(11);
    other[1] = 16;
    assert_eq!(expression(&other), INEXPRESSIBLE);
}

fn plt(threshold: u8) -> [u8; 11] {
    [BREG7, 8, BREG16, 0, LIT0 + 15, 0x1a, LIT0 + threshold, 0x2a, LIT0 + 3, 0x24, PLUS]
}

#[test]
fn what_a_row_cannot_say_is_told_from_what_nobody_says() {
    for operations in [
        &[][..],
        &[DEREF],
        &[BREG7, 4, DEREF],
        &[BREG7, 8],
        &[BREG7, 8, DEREF, DEREF],
        &[BREG7, 8, DEREF, PLUS_UCONST, 16],
        &[BREG7, 8, 0x94, 4],
        &[0x70, 8, DEREF],
        &[BREG7, 8, BREG7, 8, BREG7, 8, BREG7, 8, BREG7, 8, BREG7, 8, BREG7, 8, BREG7, 8],
        &[0xff],
        // Endless, if it were evaluated.
        &[0x2f, 0xfd, 0xff],
    ] {
        assert_eq!(expression(operations), INEXPRESSIBLE, "{operations:x?}");
    }
    assert_eq!(rule(&[DEF_CFA_OFFSET, 12]), INEXPRESSIBLE, "not a whole word");
    // 0x7fff words are 0x3fff8 bytes.
    assert_eq!(rule(&[DEF_CFA_OFFSET, 0xf8, 0xff, 0x0f]), cfa(cfa_rule::RSP, 0x7fff));
    assert_eq!(rule(&[DEF_CFA_OFFSET, 0x80, 0x80, 0x10]), far(0x4000), "one word more");
    assert_eq!(rule(&[DEF_CFA_OFFSET, 0x88, 0x80, 0x10]), INEXPRESSIBLE, "no pair of words");
    assert_eq!(rule(&[DEF_CFA_OFFSET, 0xf0, 0xff, 0x3f]), far(0xffff));
    assert_eq!(rule(&[DEF_CFA_OFFSET, 0x80, 0x80, 0x40]), INEXPRESSIBLE, "one pair more");
    assert_eq!(rule(&[DEF_CFA, RA, 8]), INEXPRESSIBLE, "not a general register");
    assert_eq!(rule(&[DEF_CFA, 0x80, 0x02, 8]), INEXPRESSIBLE, "nor this, which is 0 in 8 bits");
}

fn far(units: u16) -> UnwindRow {
    cfa(cfa_rule::RSP_FAR, units.cast_signed())
}

#[test]
fn other_registers_are_named() {
    assert_eq!(rule(&[DEF_CFA, 10, 0]), cfa(cfa_rule::REGISTER | 10, 0));
    assert_eq!(rule(&[DEF_CFA, 0, 16]), cfa(cfa_rule::REGISTER, 2));
    assert_eq!(rule(&[DEF_CFA, 15, 8]), cfa(cfa_rule::REGISTER | 15, 1));
}

#[test]
fn a_return_address_that_lies_elsewhere_is_told_and_none_is_the_end() {
    assert_eq!(rule(&[UNDEFINED, RA]), cfa(cfa_rule::END, 0));
    assert_eq!(rule(&[UNDEFINED, RA, DEF_CFA_OFFSET, 12]), cfa(cfa_rule::END, 0));
    assert_eq!(rule(&[offset(RA), 2]), INEXPRESSIBLE);
    assert_eq!(rule(&[SAME_VALUE, RA]), INEXPRESSIBLE);
    // vfork keeps it in rdi, while the stack is as it was before the call.
    assert_eq!(rule(&[REGISTER, RA, 5]), cfa(cfa_rule::RETURN_REGISTER | 5, 1));
    let popped = rule(&[DEF_CFA_OFFSET, 0, REGISTER, RA, 5]);
    assert_eq!(popped, cfa(cfa_rule::RETURN_REGISTER | 5, 0));
    assert_eq!(rule(&[REGISTER, RA, 7]), INEXPRESSIBLE, "in rsp");
    assert_eq!(rule(&[REGISTER, RA, 17]), INEXPRESSIBLE, "not a general register");
    assert_eq!(rule(&[DEF_CFA, RBP, 16, REGISTER, RA, 5]), INEXPRESSIBLE);
    assert_eq!(rule(&[EXPRESSION, RA, 2, BREG7, 8]), INEXPRESSIBLE);
}

#[test]
fn a_signal_frame_is_one_rule() {
    let mut frame = function(0, 64, &[DEF_CFA_EXPRESSION, 3, BREG7, 8, DEREF, advance(9)]);
    frame.is_signal_frame = true;
    let rows = Image::new(vec![frame]).rows();
    assert_eq!(rows, [cfa(cfa_rule::SIGNAL, 0), UnwindRow { address: 64, ..NONE }]);
}

#[test]
fn rules_of_the_frame_pointer() {
    use frame_pointer_rule::{AT_CFA, AT_RBP, LOST, SAME};
    assert_eq!(cfa_of(&[]), (SAME, 0));
    assert_eq!(cfa_of(&[SAME_VALUE, RBP]), (SAME, 0));
    assert_eq!(cfa_of(&[offset(RBP), 2]), (AT_CFA, -2));
    assert_eq!(cfa_of(&[OFFSET_EXTENDED_SF, RBP, 0x7e]), (AT_CFA, 2));
    assert_eq!(cfa_of(&[offset(RBP), 0x81, 0x80, 0x02]), (LOST, 0), "too far for a row");
    assert_eq!(cfa_of(&[EXPRESSION, RBP, 2, BREG6, 0]), (AT_RBP, 0));
    assert_eq!(cfa_of(&[EXPRESSION, RBP, 2, BREG6, MINUS_16]), (AT_RBP, -2));
    assert_eq!(cfa_of(&[EXPRESSION, RBP, 2, BREG6, 4]), (LOST, 0));
    assert_eq!(cfa_of(&[EXPRESSION, RBP, 2, BREG7, 8]), (LOST, 0));
    assert_eq!(cfa_of(&[VAL_EXPRESSION, RBP, 2, BREG6, 0]), (LOST, 0));
    assert_eq!(cfa_of(&[UNDEFINED, RBP]), (LOST, 0));
    assert_eq!(cfa_of(&[REGISTER, RBP, 3]), (LOST, 0));
}

fn cfa_of(instructions: &[u8]) -> (u8, i16) {
    let row = rule(instructions);
    assert_eq!((row.cfa, row.cfa_offset), (cfa_rule::RSP, 1));
    (row.frame_pointer, row.saved_offset)
}

#[test]
fn instructions_that_are_damaged_end_what_is_known_where_they_are() {
    let rows =
        Image::new(vec![function(0, 64, &[advance(8), DEF_CFA_OFFSET, 16, advance(8), 0x3f])]);
    let rules: Vec<_> = rows.rows().iter().map(|row| (row.address, row.cfa_offset)).collect();
    assert_eq!(rules, [(0, 1), (8, 2), (16, 0), (64, 0)]);
    assert_eq!([rows.rows()[2].cfa, rows.rows()[3].cfa], [INEXPRESSIBLE.cfa, NONE.cfa]);
    let nothing = [INEXPRESSIBLE, UnwindRow { address: 64, ..NONE }];
    // Nothing to restore, from the first instruction on.
    let rows = Image::new(vec![function(0, 64, &[RESTORE_STATE])]).rows();
    assert_eq!(rows, nothing);
    // More saved states than anything makes.
    let rows = Image::new(vec![function(0, 64, &[REMEMBER_STATE; 100])]).rows();
    assert_eq!(rows, nothing);
}
