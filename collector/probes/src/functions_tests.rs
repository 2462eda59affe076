use super::*;
use syscollect_elf::ElfError;
use syscollect_fixtures::elf::{CODE, CODE_OFFSET, DATA, File};

const FUNC: u8 = 2;
const LOCAL: u8 = 0;
const GLOBAL: u8 = 1;

fn library() -> Vec<u8> {
    File::with_symbols(&[
        ("fopen@@GLIBC_2.2.5", FUNC, GLOBAL, CODE),
        ("_IO_fopen", FUNC, GLOBAL, CODE),
        ("fclose", FUNC, GLOBAL, CODE + 0x20),
        ("init", FUNC, LOCAL, CODE + 0x40),
        ("init", FUNC, LOCAL, CODE + 0x60),
        ("_ZN3foo3barEi", FUNC, GLOBAL, CODE + 0x80),
        ("_ZN3foo3barEi.cold", FUNC, LOCAL, CODE + 0xa0),
        ("setjmp", FUNC, GLOBAL, CODE + 0xc0),
        ("memcpy@@GLIBC_2.14", 10, GLOBAL, CODE + 0xe0),
        ("environ", 1, GLOBAL, DATA),
        ("nowhere", FUNC, GLOBAL, 0x99_9999),
    ])
    .bytes()
}

fn matching(glob: &str) -> Result<Vec<Function>, ProbeError> {
    let bytes = library();
    Functions::read(&bytes[..]).unwrap().matching(&glob.parse().unwrap(), 3)
}

fn names(glob: &str) -> Vec<String> {
    matching(glob).unwrap().into_iter().map(|function| function.name).collect()
}

#[test]
fn a_function_of_several_names_is_one_and_has_its_best_name() {
    assert_eq!(names("*fopen"), ["fopen"]);
    assert_eq!(names("_IO_*"), ["_IO_fopen"], "the one that was asked for");
    let function = &matching("fopen").unwrap()[0];
    assert_eq!((function.offset, function.size), (CODE_OFFSET, 16));
}

#[test]
fn functions_of_one_name_are_all_found() {
    let offsets: Vec<u64> =
        matching("init").unwrap().iter().map(|function| function.offset).collect();
    assert_eq!(offsets, [CODE_OFFSET + 0x40, CODE_OFFSET + 0x60]);
}

#[test]
fn a_mangled_function_is_found_by_each_of_its_names() {
    for glob in ["_ZN3foo*", "foo::bar", "foo::*", "foo::bar(int)"] {
        assert_eq!(names(glob), ["foo::bar(int)"], "{glob}");
    }
}

#[test]
fn what_is_not_called_is_left_out_and_said_to_who_names_it() {
    assert!(reason("memcpy").contains("IFUNC"));
    assert!(reason("*.cold").contains("jumped to"));
    let bytes = library();
    let all: Vec<_> =
        Functions::read(&bytes[..]).unwrap().all().map(|function| function.name).collect();
    assert_eq!(all, ["fopen", "fclose", "init", "init", "foo::bar(int)", "setjmp"]);
}

fn reason(glob: &str) -> String {
    matching(glob).unwrap_err().to_string()
}

#[test]
fn a_name_whose_old_version_alone_could_be_probed_is_not_taken_for_the_one_that_is_used() {
    let versions = [
        ("memcpy@@GLIBC_2.14", 10, GLOBAL, CODE),
        ("memcpy@GLIBC_2.2.5", FUNC, GLOBAL, CODE + 0x20),
    ];
    let bytes = File::with_symbols(&versions).bytes();
    let functions = Functions::read(&bytes[..]).unwrap();
    let reason = functions.matching(&"memcpy".parse().unwrap(), 3).unwrap_err().to_string();
    assert!(reason.contains("IFUNC"), "{reason}");
    assert_eq!(functions.matching(&"mem*".parse().unwrap(), 3).unwrap().len(), 1);
}

#[test]
fn too_many_matches_are_counted_and_the_way_out_is_told() {
    let reason = matching("*").unwrap_err().to_string();
    assert_eq!(
        reason,
        "\"*\" matches 6 functions, more than 3: name fewer, or raise the limit with \
         --max-functions 6"
    );
}

#[test]
fn a_name_that_no_function_has_tells_the_nearest() {
    let reason = matching("fopem").unwrap_err().to_string();
    assert_eq!(reason, "no function matches \"fopem\"; did you mean fopen?");
}

/// How the functions of a file return, by name; its code is one instruction that is not the last,
/// again and again, but for a return at the end of the first function.
fn returns(symbols: &[(&str, u8, u8, u64)]) -> Vec<(String, Result<Returns, &'static str>)> {
    let mut bytes = File::with_symbols(symbols).bytes();
    bytes[CODE_OFFSET as usize + 15] = 0xc3;
    let functions = Functions::read(&bytes[..]).unwrap();
    functions
        .all()
        .map(|function| (function.name.clone(), functions.returns(&bytes[..], &function)))
        .collect()
}

#[test]
fn a_function_is_probed_where_it_returns_if_that_can_be_told_and_else_at_its_return_address() {
    let found = returns(&[("told", FUNC, GLOBAL, CODE), ("other", FUNC, GLOBAL, CODE + 0x20)]);
    assert_eq!(found[0], ("told".to_owned(), Ok(Returns::At(vec![CODE_OFFSET + 15]))));
    assert_eq!(found[1], ("other".to_owned(), Ok(Returns::ByAddress)));
}

#[test]
fn no_return_address_is_replaced_through_which_exceptions_pass_or_that_is_used_twice() {
    let personality = ("__gxx_personality_v0", FUNC, GLOBAL, 0);
    let found =
        returns(&[("told", FUNC, GLOBAL, CODE), ("other", FUNC, GLOBAL, CODE + 0x20), personality]);
    assert!(found[0].1.is_ok());
    assert!(found[1].1.as_ref().unwrap_err().contains("no symbol tells"), "{found:?}");
    let found = returns(&[("setjmp", FUNC, GLOBAL, CODE), ("vfork", FUNC, GLOBAL, CODE + 0x20)]);
    assert!(found[0].1.is_ok() && found[1].1.is_err(), "{found:?}");
}

#[test]
fn a_stripped_file_says_so() {
    let bytes = File::with_notes(Vec::new()).bytes();
    assert!(matches!(Functions::read(&bytes[..]), Err(ProbeError::Stripped)));
}

#[test]
fn a_go_program_is_refused_since_its_stacks_move() {
    let mut file = File::with_symbols(&[("main.main", FUNC, GLOBAL, CODE)]);
    file.sections.push((".gopclntab", 1, 0, 0, vec![0]));
    assert!(matches!(Functions::read(&file.bytes()[..]), Err(ProbeError::Go)));
}

#[test]
fn symbols_that_share_one_long_name_a_thousand_times_are_refused_not_read_for_minutes() {
    let long = "x".repeat(10_000);
    let mut file = File::with_symbols(&[(&long, FUNC, GLOBAL, CODE)]);
    let symbol = file.sections[0].4[24..].to_vec();
    for _ in 0..1000 {
        file.sections[0].4.extend(&symbol);
    }
    assert!(matches!(
        Functions::read(&file.bytes()[..]),
        Err(ProbeError::Elf(ElfError::Damaged { .. }))
    ));
}

#[test]
fn a_library_says_what_it_is_called() {
    // DT_STRTAB, DT_SONAME, DT_NULL; the names lie in the data, where the file has zeros.
    let entries = [5, DATA, 14, 3, 0, 0].iter().flat_map(|word: &u64| word.to_le_bytes()).collect();
    let mut bytes = File { segments: vec![(2, entries)], ..File::default() }.bytes();
    assert_eq!(soname(&bytes[..]).unwrap(), None);
    let at = syscollect_fixtures::elf::DATA_OFFSET as usize + 3;
    bytes[at..at + 9].copy_from_slice(b"libc.so.6");
    assert_eq!(soname(&bytes[..]).unwrap().as_deref(), Some("libc.so.6"));
}

#[test]
fn a_return_is_told_from_a_jump_that_leaves_a_function() {
    for code in [&[0xc3, 0x90][..], &[0xc2, 0x08], &[0xf3, 0xc3], &[0xf2, 0xc3]] {
        assert!(is_return(code), "{code:x?}");
    }
    for code in [&[0xff, 0x60][..], &[0xe9, 0x00], &[0xf3, 0x0f], &[0xf2, 0xff], &[]] {
        assert!(!is_return(code), "{code:x?}");
    }
}

#[test]
fn a_function_that_begins_with_a_nop_in_whose_place_linux_calls_is_probed_behind_it() {
    let mut bytes = library();
    let nop = [0x0f, 0x1f, 0x44, 0, 0];
    let at = CODE_OFFSET as usize;
    bytes[at..at + nop.len()].copy_from_slice(&nop);
    let functions = Functions::read(&bytes[..]).unwrap();
    let found = |glob: &str| functions.matching(&glob.parse().unwrap(), 3).unwrap().remove(0);
    let [moved, other] = ["fopen", "fclose"].map(|glob| found(glob).past_callable_nop(&bytes[..]));
    assert_eq!((moved.offset, moved.size), (CODE_OFFSET + 5, 11));
    assert_eq!((other.offset, other.size), (CODE_OFFSET + 0x20, 16));
    let short = Function { size: 5, ..found("fopen") };
    assert_eq!(short.clone().past_callable_nop(&bytes[..]), short, "it would be another's place");
}
