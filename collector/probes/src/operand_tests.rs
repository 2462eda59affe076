use super::*;
use crate::arch::Register;
use crate::argument::evaluate;
use proptest::prelude::*;

fn argument(text: &str) -> Argument {
    text.parse().unwrap()
}

fn memory(base: Option<Register>, index: Option<(Register, u8)>, offset: i64) -> ArgumentLocation {
    ArgumentLocation::Memory { base, index, offset }
}

/// In a file whose only variable is `buffer`, at 0x3000, with the probe at 0x1000.
fn near_a_variable(text: &str, fixed: bool) -> Argument {
    parse_argument(text, &Surroundings { site: 0x1000, fixed, symbol: &symbol })
}

fn symbol(name: &str) -> Option<u64> {
    (name == "buffer").then_some(0x3000)
}

#[test]
fn sizes_tell_bytes_sign_and_float() {
    assert_eq!(shape("1@(%rax)"), (1, false, false));
    assert_eq!(shape("-2@(%rax)"), (2, true, false));
    assert_eq!(shape("4f@(%rax)"), (4, false, true));
    assert_eq!(shape("8f@(%rax)"), (8, false, true));
    assert_eq!(shape("(%rax)"), (8, false, false), "no size means 8");
}

fn shape(text: &str) -> (u8, bool, bool) {
    let Argument { size, signed, float, .. } = argument(text);
    (size, signed, float)
}

#[test]
fn a_register_that_is_smaller_than_a_float_does_not_hold_it() {
    for text in ["4f@%dil", "4f@%ax", "8f@%eax"] {
        assert!(!argument(text).is_supported(), "{text}");
        assert_eq!(argument(&argument(text).to_string()), argument(text));
    }
    assert!(argument("4f@%eax").is_supported());
}

#[test]
fn a_register_gives_no_more_bytes_than_its_name_says() {
    for (text, register, size, shift) in [
        ("8@%rdi", Register::Rdi, 8, 0),
        ("4@%rdi", Register::Rdi, 4, 0),
        ("8@%eax", Register::Rax, 4, 0),
        ("-4@%ax", Register::Rax, 2, 0),
        ("-4@%al", Register::Rax, 1, 0),
        ("1@%ah", Register::Rax, 1, 8),
        ("4@%r8d", Register::R8, 4, 0),
        ("2@%r8w", Register::R8, 2, 0),
        ("1@%r8b", Register::R8, 1, 0),
    ] {
        let found = argument(text);
        assert_eq!(
            (found.size, found.place),
            (size, ArgumentLocation::Register { register, shift }),
            "{text}"
        );
    }
}

#[test]
fn constants_are_decimal_octal_or_hexadecimal_with_a_sign() {
    for (text, value) in [
        ("4@$5", 5),
        ("-4@$-1", -1),
        ("8@$0x1f", 31),
        ("8@$-0x10", -16),
        ("8@$010", 8),
        ("8@$0", 0),
        ("8@$18446744073709551615", -1),
        ("-8@$-9223372036854775808", i64::MIN),
    ] {
        assert_eq!(argument(text).place, ArgumentLocation::Constant(value), "{text}");
    }
}

#[test]
fn memory_has_a_base_an_index_and_an_offset_each_of_which_may_be_missing() {
    use Register::{R12, R13, Rax, Rbp, Rbx, Rip, Rsp};
    for (text, place) in [
        ("-4@112(%rsp)", memory(Some(Rsp), None, 112)),
        ("8@-80(%rbx)", memory(Some(Rbx), None, -80)),
        ("8@(%r13)", memory(Some(R13), None, 0)),
        ("8@8(%rax,%rbx,4)", memory(Some(Rax), Some((Rbx, 4)), 8)),
        ("8@(%rax,%r12)", memory(Some(Rax), Some((R12, 1)), 0)),
        ("8@-8(%rax, %rbx, 2)", memory(Some(Rax), Some((Rbx, 2)), -8)),
        ("8@(,%rbp,8)", memory(None, Some((Rbp, 8)), 0)),
        ("4@16+8-4(%rsp)", memory(Some(Rsp), None, 20)),
        ("4@+4(%rsp)", memory(Some(Rsp), None, 4)),
        ("4@0x10(%rsp)", memory(Some(Rsp), None, 16)),
        ("4@4194304", memory(None, None, 0x40_0000)),
        ("4@16(%rip)", memory(Some(Rip), None, 16)),
    ] {
        assert_eq!(argument(text).place, place, "{text}");
    }
}

#[test]
fn a_variable_is_found_from_the_sites_own_address_wherever_the_file_is_loaded() {
    let place = memory(Some(Register::Rip), None, 0x2008);
    for text in ["4@buffer+8(%rip)", "4@8+buffer(%rip)", "4@buffer+8", "4@buffer+16-8(%rip)"] {
        assert_eq!(near_a_variable(text, false).place, place, "{text}");
    }
    let indexed = near_a_variable("4@buffer(,%rax,4)", true);
    assert_eq!(
        indexed.place,
        memory(None, Some((Register::Rax, 4)), 0x3000),
        "in a file that is never moved"
    );
}

#[test]
fn what_cannot_be_read_keeps_its_place_in_the_list_and_its_text() {
    let text = "8@%rdi 8f@%xmm0 4@unknown(%rip) 4@buffer(,%rax,4) 4@buffer@GOTPCREL(%rip) 8@%fs:-8 \
                8@%st(0) 8@(%eax) 8@(%rax,%rsp,1) 8@(%rax,%rbx,3) 16@%rax 8@4(%rax 8@$buffer 8@ \
                4@-buffer 8@--4(%rax) 8@$-+4 -4@$7";
    let surroundings = Surroundings { site: 0, fixed: false, symbol: &symbol };
    // The open parenthesis swallows what follows: the note says no more.
    let arguments: Vec<_> =
        parse_arguments(&text.replace("8@4(%rax ", ""), &surroundings).collect();
    assert_eq!(arguments.len(), 17);
    for unsupported in &arguments[1..16] {
        assert!(!unsupported.is_supported(), "{unsupported:?}");
        assert!(unsupported.describe().ends_with("(cannot be read)"));
    }
    assert_eq!(arguments[1].place, ArgumentLocation::Unsupported("%xmm0".to_owned()));
    assert!(arguments[0].is_supported() && arguments[16].is_supported());
    assert!(!argument("8@4(%rax").is_supported());
}

#[test]
fn a_description_reads_like_a_declaration() {
    for (text, description) in [
        ("8@%rdi", "u64 rdi"),
        ("1@%ah", "u8 ah"),
        ("4@%esi", "u32 esi"),
        ("-4@112(%rsp)", "i32 [rsp+112]"),
        ("8@-80(%rbx)", "u64 [rbx-80]"),
        ("8f@(%rax,%rbx,4)", "f64 [rax+rbx*4]"),
        ("-1@$-3", "i8 -3"),
        ("4@4096", "u32 [0x1000]"),
    ] {
        assert_eq!(argument(text).describe(), description);
    }
}

#[test]
fn values_are_cut_to_their_size_and_extended_by_their_sign() {
    for (text, word) in [
        ("8@%rax", Ok(0x1122_3344_5566_f788)),
        ("4@%eax", Ok(0x5566_f788)),
        ("1@%al", Ok(0x88)),
        ("-1@%al", Ok(0xffff_ffff_ffff_ff88)),
        ("1@%ah", Ok(0xf7)),
        ("-1@%ah", Ok(0xffff_ffff_ffff_fff7)),
        ("4@$-1", Ok(0xffff_ffff)),
        ("-4@$-1", Ok(u64::MAX)),
        ("8@%xmm0", Err(crate::Unreadable)),
        // Memory that is not there.
        ("8@(%rax)", Err(crate::Unreadable)),
    ] {
        assert_eq!(evaluate(&argument(text), rax_is_known, |_, _| false), word, "{text}");
    }
}

fn rax_is_known(register: Register) -> u64 {
    if register == Register::Rax { 0x1122_3344_5566_f788 } else { 0x10 }
}

#[test]
fn memory_is_read_where_base_index_and_offset_say_and_wraps() {
    assert_eq!(read_at("2@8(%rax,%rcx,4)", 0x508), 0x8181);
    assert_eq!(read_at("-1@(%rax,%rbx,8)", 0xf8), 0xffff_ffff_ffff_ff81);
    assert_eq!(read_at("4f@-256(%rax)", 0), 0x8181_8181);
}

fn read_at(text: &str, expected: u64) -> u64 {
    let word = evaluate(
        &argument(text),
        |register| if register == Register::Rbx { u64::MAX } else { 0x100 },
        |address, bytes| {
            bytes.fill(0x81);
            address == expected
        },
    );
    assert!(word.is_ok(), "{text}");
    word.unwrap()
}

fn any_register() -> impl Strategy<Value = Register> {
    proptest::sample::select(Register::all().collect::<Vec<_>>())
}

fn any_place() -> impl Strategy<Value = ArgumentLocation> {
    let index =
        any_register().prop_filter("an index", |r| !matches!(r, Register::Rip | Register::Rsp));
    let index = proptest::option::of((index, proptest::sample::select(vec![1u8, 2, 4, 8])));
    let in_memory = (proptest::option::of(any_register()), index, any::<i64>())
        .prop_filter("rip has no index", |(base, index, _)| {
            *base != Some(Register::Rip) || index.is_none()
        })
        .prop_map(|(base, index, offset)| memory(base, index, offset));
    let in_register =
        any_register().prop_map(|register| ArgumentLocation::Register { register, shift: 0 });
    prop_oneof![any::<i64>().prop_map(ArgumentLocation::Constant), in_register, in_memory]
}

fn any_argument() -> impl Strategy<Value = Argument> {
    let shapes: Vec<_> = ["1", "2", "4", "8", "-1", "-2", "-4", "-8", "4f", "8f"].into();
    (proptest::sample::select(shapes), any_place()).prop_map(|(shape, place)| {
        let Size { bytes, signed, float } = Size::parse(shape).unwrap();
        Argument { size: bytes, signed, float, place }
    })
}

proptest! {
    #[test]
    fn what_is_printed_reads_back_as_the_same(original in any_argument()) {
        prop_assert_eq!(argument(&original.to_string()), original);
    }

    #[test]
    fn no_text_is_a_panic_and_every_text_reads_back(text in "[-+0-9a-z%$@(),.: ]{0,24}") {
        for found in parse_arguments(
            &text,
            &Surroundings { site: 7, fixed: true, symbol: &|_| Some(u64::MAX) },
        ) {
            let _ = (found.describe(), evaluate(&found, |_| u64::MAX, |_, _| true));
            prop_assert_eq!(argument(&found.to_string()), found);
        }
    }

    #[test]
    fn any_operand_out_of_its_pieces_is_read_without_a_panic(
        pieces in proptest::collection::vec(
            proptest::sample::select(vec![
                "8@", "-4@", "(", ")", ",", "%rax", "%rbx", "%xmm1", "$", "-", "+", "4", "0x",
                "name", " ", "@",
            ]),
            0..12,
        ),
    ) {
        let text = pieces.concat();
        for found in
            parse_arguments(&text, &Surroundings { site: 0, fixed: false, symbol: &|_| Some(1) })
        {
            prop_assert!(matches!(found.size, 1 | 2 | 4 | 8));
        }
    }
}
