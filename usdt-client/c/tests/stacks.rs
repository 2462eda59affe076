//! Stacks that zones of C and C++ ask for, of programs that keep no frame pointers and know who
//! called whom.
#![allow(clippy::unwrap_used)] // helpers of tests fail as tests do

#[path = "../../tests/common/mod.rs"]
mod common;
mod compiled;

use compiled::{Language, arena_of, hide_from_recorders};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use syscollect_client as _;
use syscollect_zone_protocol::{Attribute, Item, StackEnding};

/// What a program's functions noted of one zone, and the stack that the zone has.
#[derive(Debug)]
struct Chain {
    name: String,
    /// Where callers go on, from that of the zone's function on.
    noted: Vec<u64>,
    /// The same of the stack, without the place in the zone's function.
    found: Vec<u64>,
    ending: StackEnding,
}

/// Builds a program of this folder, runs it, and compares each of its threads; nothing if there is
/// no compiler.
fn chains(language: Language, source: &str, options: &[&str]) -> Option<Vec<Chain>> {
    let folder = tempfile::tempdir().unwrap();
    let source = format!("tests/{source}");
    let program = language.build_as(folder.path(), options, &[&source])?;
    hide_from_recorders(&program);
    let mut child =
        Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let noted: Vec<_> = lines
        .take_while(|line| line != "done")
        .map(|line| {
            let mut words = line.split(' ');
            let name = words.next().unwrap().to_owned();
            let address = |word: &str| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok();
            (name, words.map(|word| address(word).expect("an address")).collect::<Vec<_>>())
        })
        .collect();
    let mut drain = arena_of(&child);
    let stacks = (0..drain.rings()).flat_map(|ring| stacks(&drain.take(ring))).collect::<Vec<_>>();
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    assert_eq!(stacks.len(), noted.len());
    let chains = noted.into_iter().zip(stacks);
    Some(
        chains
            .map(|((name, noted), (addresses, ending))| Chain {
                name,
                noted,
                found: addresses[1..].into(),
                ending,
            })
            .collect(),
    )
}

/// The stacks among a ring's items.
fn stacks(items: &[Vec<u64>]) -> Vec<(Vec<u64>, StackEnding)> {
    let (mut stacks, mut addresses) = (Vec::new(), Vec::new());
    for item in items {
        if let Some(Item::Attribute(Attribute::Stack { piece, more, ending })) = Item::decode(item)
        {
            addresses.extend_from_slice(piece.addresses());
            if !more {
                stacks.push((std::mem::take(&mut addresses), ending));
            }
        }
    }
    stacks
}

/// All that was noted is in the stack, from the first function on.
fn assert_whole(chain: &Chain) {
    let found = &chain.found[..chain.noted.len().min(chain.found.len())];
    assert_eq!(found, &chain.noted[..], "{}", chain.name);
    assert_eq!(chain.ending, StackEnding::Start, "{}", chain.name);
}

#[test]
fn a_cpp_program_without_frame_pointers_has_whole_stacks_on_each_thread() {
    for options in [&["-O2", "-fomit-frame-pointer"][..], &["-O0"], &["-O3", "-static-libgcc"]] {
        let Some(chains) = chains(Language::Cpp, "stacks.cpp", options) else { return };
        assert_eq!(chains.len(), 8);
        for thread in chains.chunks(4) {
            let [short, long, recursion, callback] = thread else { panic!("{thread:?}") };
            assert_eq!((short.noted.len(), long.noted.len()), (21, 101));
            assert_whole(short);
            assert_whole(long);
            // The innermost are there, and the stack says that there are more.
            assert_eq!((recursion.found.len(), recursion.ending), (126, StackEnding::TooDeep));
            assert_eq!(recursion.found, recursion.noted[..126]);
            // Between the two that are noted lie the C library's functions.
            assert_eq!(
                (callback.found[0], callback.ending),
                (callback.noted[0], StackEnding::Start)
            );
            assert!(callback.found.contains(&callback.noted[1]), "{callback:?}");
        }
    }
}

#[test]
fn a_c_program_without_frame_pointers_has_them_too() {
    for options in [&["-O2", "-std=c11"][..], &["-O0", "-std=c11"]] {
        let Some(chains) = chains(Language::C, "stacks.c", options) else { return };
        assert_eq!(chains.len(), 1);
        assert_whole(&chains[0]);
    }
}

#[test]
fn code_without_unwind_information_is_walked_by_its_frame_pointers_or_ends_the_stack() {
    let none = ["-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-fno-exceptions", "-O2"];
    let with = [&none[..], &["-fno-omit-frame-pointer"]].concat();
    let Some(chains) = chains(Language::C, "stacks.c", &with) else { return };
    assert_whole(&chains[0]);
    let without = [&none[..], &["-fomit-frame-pointer"]].concat();
    let Some(chains) = self::chains(Language::C, "stacks.c", &without) else { return };
    assert_eq!(
        (&chains[0].found[..], chains[0].ending),
        (&[][..], StackEnding::NoUnwindInformation)
    );
}
