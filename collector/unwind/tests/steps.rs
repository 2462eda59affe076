//! Single steps of a walk, by each rule.
#![allow(clippy::unwrap_used, reason = "tests")]

use syscollect_records::unwind::{
    LOST_FRAME_POINTER, SAVED_REGISTERS, UnwindRow, cfa_rule, frame_pointer_rule,
};
use syscollect_unwind::{
    Caller, GeneralRegisters, Registers, WalkEnd, interrupted_registers, lookup_address, row_at,
    running_registers, step,
};

const HERE: Registers = Registers { ip: 0x40_1234, sp: 0x7000, bp: 0x7100 };

/// Words of memory: their address and 0x10000.
fn word(address: u64) -> Option<u64> {
    (0x6000..0x9000).contains(&address).then_some(address + 0x1_0000)
}

fn row(cfa: u8, cfa_offset: i16) -> UnwindRow {
    UnwindRow { cfa, cfa_offset, ..UnwindRow::default() }
}

/// The caller's stack pointer and ip.
fn caller(row: UnwindRow) -> (u64, u64) {
    match step(&HERE, row, None, word) {
        Ok(Caller { registers, interrupted: None }) => (registers.sp, registers.ip),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_return_address_is_below_the_cfa() {
    assert_eq!(caller(row(cfa_rule::RSP, 2)), (0x7010, 0x1_7008));
    assert_eq!(caller(row(cfa_rule::RBP, 2)), (0x7110, 0x1_7108));
    assert_eq!(caller(row(cfa_rule::RBP, -2)), (0x70f0, 0x1_70e8));
}

#[test]
fn the_largest_frames_are_counted_in_pairs_of_words() {
    for (pairs, sp) in [(0x4000, 0x7000 + 0x4_0000), (-1, 0x7000 + 0xf_fff0)] {
        let registers = Registers { ip: sp - 8, sp, bp: HERE.bp };
        let expected = Ok(Caller { registers, interrupted: None });
        assert_eq!(step(&HERE, row(cfa_rule::RSP_FAR, pairs), None, Some), expected);
    }
}

#[test]
fn words_of_the_stack_lead_to_the_cfa() {
    for (rule, cfa) in [
        (cfa_rule::AT_RSP, 0x8000),
        (cfa_rule::AT_RSP_PLUS_WORD, 0x8008),
        (cfa_rule::AT_RBP, 0x8000),
        (cfa_rule::AT_RBP_PLUS_WORD, 0x8008),
    ] {
        let registers = Registers { ip: cfa - 8, sp: cfa, bp: HERE.bp };
        let expected = Ok(Caller { registers, interrupted: None });
        let step = step(&HERE, row(rule, 1), None, |address| {
            Some(if address < 0x7200 { 0x8000 } else { address })
        });
        assert_eq!(step, expected, "{rule}");
    }
}

#[test]
fn entries_of_a_procedure_linkage_table_have_pushed_a_word_from_a_byte_on() {
    assert_eq!(
        [at(0x1000), at(0x100a), at(0x100b), at(0x100f)].map(sp),
        [0x7008, 0x7008, 0x7010, 0x7010]
    );
}

fn at(ip: u64) -> Result<Caller, WalkEnd> {
    step(&Registers { ip, ..HERE }, row(cfa_rule::PLT, 11), None, word)
}

fn sp(step: Result<Caller, WalkEnd>) -> u64 {
    match step {
        Ok(Caller { registers, .. }) => registers.sp,
        other => panic!("{other:?}"),
    }
}

#[test]
fn other_registers_are_known_of_code_that_did_not_call() {
    let mut general = GeneralRegisters::default();
    general[10] = 0x7200;
    let ten = row(cfa_rule::REGISTER | 10, 1);
    let registers = Registers { ip: 0x1_7200, sp: 0x7208, bp: HERE.bp };
    let expected = Ok(Caller { registers, interrupted: None });
    assert_eq!(step(&HERE, ten, Some(&general), word), expected);
    assert_eq!(step(&HERE, ten, None, word), Err(WalkEnd::Unusable));
    for unknown in [row(0xff, 1), row(0x30, 1), row(cfa_rule::INEXPRESSIBLE, 1)] {
        assert_eq!(step(&HERE, unknown, Some(&general), word), Err(WalkEnd::Unusable));
    }
}

#[test]
fn a_return_address_in_a_register_may_have_left_the_stack() {
    let mut general = GeneralRegisters::default();
    general[5] = 0x1234;
    for (words, sp) in [(0, Ok(0x7000)), (1, Ok(0x7008)), (-1, Err(WalkEnd::Unusable))] {
        let registers = sp.map(|sp| Registers { ip: 0x1234, sp, bp: HERE.bp });
        let expected = registers.map(|registers| Caller { registers, interrupted: None });
        let row = row(cfa_rule::RETURN_REGISTER | 5, words);
        assert_eq!(step(&HERE, row, Some(&general), |_| None), expected);
    }
    let of_a_caller = row(cfa_rule::RETURN_REGISTER | 5, 0);
    assert_eq!(step(&HERE, of_a_caller, None, word), Err(WalkEnd::Unusable));
}

#[test]
fn registers_lie_in_the_orders_of_the_kernels_headers() {
    // arch/x86/include/asm/ptrace.h: r15 r14 r13 r12 bp bx r11 r10 r9 r8 ax cx dx si di. DWARF's:
    // ax dx cx bx si di bp sp r8 to r15.
    let saved: [u64; SAVED_REGISTERS] = std::array::from_fn(|place| 100 + place as u64);
    let [ax, dx, cx, bx, si, di, bp, sp, extended @ ..] = running_registers(&saved);
    assert_eq!([ax, dx, cx, bx, si, di, bp, sp], [110, 112, 111, 105, 113, 114, 104, 0]);
    assert_eq!(extended, [109, 108, 107, 106, 103, 102, 101, 100]);
    // arch/x86/include/uapi/asm/sigcontext.h: r8 to r15 di si bp bx dx ax cx.
    let [ax, dx, cx, bx, si, di, bp, sp, extended @ ..] = interrupted_registers(&saved);
    assert_eq!([ax, dx, cx, bx, si, di, bp, sp], [113, 112, 114, 111, 109, 108, 110, 0]);
    assert_eq!(extended, [100, 101, 102, 103, 104, 105, 106, 107]);
}

#[test]
fn the_callers_frame_pointer_is_where_the_row_says() {
    use frame_pointer_rule::{AT_CFA, AT_RBP, LOST, SAME};
    assert_eq!(bp(SAME, 0), HERE.bp);
    assert_eq!(bp(AT_CFA, -2), 0x1_7010);
    assert_eq!(bp(AT_RBP, 1), 0x1_7108);
    assert_eq!(bp(LOST, 0), LOST_FRAME_POINTER);
}

fn bp(frame_pointer: u8, saved_offset: i16) -> u64 {
    let row = UnwindRow { frame_pointer, saved_offset, ..row(cfa_rule::RSP, 4) };
    match step(&HERE, row, None, word) {
        Ok(Caller { registers, .. }) => registers.bp,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_signal_frame_has_all_registers_and_may_be_on_another_stack() {
    let registers = Registers { ip: 7, sp: 0x60, bp: 5 };
    let mut general: GeneralRegisters = std::array::from_fn(|number| match number {
        8.. => 0x7028 + (number as u64 - 8) * 8,
        _ => 0,
    });
    [general[5], general[4], general[6], general[3]] = [0x7068, 0x7070, 5, 0x7080];
    [general[1], general[0], general[2]] = [0x7088, 0x7090, 0x7098];
    let interrupted = Ok(Caller { registers, interrupted: Some(general) });
    assert_eq!(step(&HERE, row(cfa_rule::SIGNAL, 0), None, word_of_signal_frame), interrupted);
    assert_eq!(step(&HERE, row(cfa_rule::SIGNAL, 0), None, |_| None), Err(WalkEnd::Unreadable));
}

fn word_of_signal_frame(address: u64) -> Option<u64> {
    match address {
        0x7078 => Some(5),
        0x70a0 => Some(0x60),
        0x70a8 => Some(7),
        0x7028..0x70a8 => Some(address),
        _ => None,
    }
}

#[test]
fn walks_end_where_there_is_no_caller_no_rule_and_no_memory() {
    assert_eq!(step(&HERE, row(cfa_rule::END, 0), None, word), Err(WalkEnd::End));
    assert_eq!(step(&HERE, row(cfa_rule::NONE, 0), None, word), Err(WalkEnd::Unusable));
    assert_eq!(step(&HERE, row(cfa_rule::RSP, 1), None, |_| None), Err(WalkEnd::Unreadable));
    let saved = UnwindRow {
        frame_pointer: frame_pointer_rule::AT_CFA,
        saved_offset: 0x7000,
        ..row(cfa_rule::RSP, 1)
    };
    assert_eq!(step(&HERE, saved, None, word), Err(WalkEnd::Unreadable));
}

#[test]
fn a_cfa_that_is_not_further_up_ends_the_walk() {
    assert_eq!(step(&HERE, row(cfa_rule::RSP, 0), None, word), Err(WalkEnd::Unusable));
    assert_eq!(step(&HERE, row(cfa_rule::RBP, -0x20), None, word), Err(WalkEnd::Unusable));
    let lost = Registers { bp: LOST_FRAME_POINTER, ..HERE };
    assert_eq!(step(&lost, row(cfa_rule::RBP, 2), None, word), Err(WalkEnd::Unusable));
}

#[test]
fn a_function_that_went_to_another_stack_leads_back_by_rbp() {
    let elsewhere = Registers { bp: 0x6100, ..HERE };
    let registers = Registers { ip: 0x1_6108, sp: 0x6110, bp: 0x6100 };
    let caller = Ok(Caller { registers, interrupted: None });
    assert_eq!(step(&elsewhere, row(cfa_rule::RBP, 2), None, word), caller);
}

#[test]
fn of_callers_the_row_before_the_return_address_counts() {
    assert_eq!((lookup_address(0x1000, true), lookup_address(0x1000, false)), (0x1000, 0xfff));
    let rows = [row(1, 1), UnwindRow { address: 16, ..row(1, 2) }];
    let offsets = [0, 15, 16, u16::MAX].map(|address| row_at(&rows, address).unwrap().cfa_offset);
    assert_eq!(offsets, [1, 1, 2, 2]);
    assert_eq!(row_at(&[], 0), None);
}
