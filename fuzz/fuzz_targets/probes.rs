//! Whatever a program's file holds, listing its probes and functions ends, in bounded
//! memory and without a panic; so does reading what a user asks for.
//!
//! Every input is read four times: as a file, as the notes of a sound file, as the
//! arguments of a sound note, and as a file of probes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use syscollect_probes::{Argument, Functions, Spec, evaluate, parse_file, soname, usdt_probes};

/// Where the code of the sound file lies, both in the file and in memory.
const CODE: u64 = 64 + 2 * 56;
const CODE_BYTES: usize = 64;

fuzz_target!(|bytes: &[u8]| {
    read(bytes);
    read(&with_notes(bytes));
    let addresses = [CODE, 0, 0].iter().flat_map(|address| address.to_le_bytes());
    let description: Vec<u8> =
        addresses.chain(*b"a\0b\0").chain(bytes.iter().copied()).chain([0]).collect();
    read(&with_notes(&note(&description)));
    if let Ok(text) = std::str::from_utf8(bytes) {
        ask(text);
    }
});

/// Reads all that a file offers.
fn read(file: &[u8]) {
    if let Ok(found) = usdt_probes(file) {
        assert!(found.warnings.len() <= 21 && found.probes.len() <= file.len());
        for probe in found.probes {
            assert!(probe.offset < file.len() as u64);
            assert!(probe.semaphore.is_none_or(|at| at < file.len() as u64));
            assert_eq!(probe.argument_specs(None).len(), probe.arguments.len());
            for argument in &probe.arguments {
                check(argument);
            }
        }
    }
    if let Ok(functions) = Functions::read(file) {
        for function in functions.all().take(100) {
            assert!(function.offset < file.len() as u64);
        }
        if let Ok(glob) = "*a*".parse() {
            let _ = functions.matching(&glob, 10);
        }
    }
    let _ = soname(file);
}

fn check(argument: &Argument) {
    assert!([1, 2, 4, 8].contains(&argument.size));
    let _ = (argument.describe(), evaluate(argument, |_| u64::MAX, |_, bytes| bytes.len() <= 8));
    let Ok(again) = argument.to_string().parse::<Argument>();
    assert_eq!(*argument, again);
}

/// Reads a file of probes; what is understood is understood again as it is printed.
fn ask(text: &str) {
    let Ok(specs) = parse_file(text) else { return };
    for spec in specs {
        let line = spec.to_string();
        // A name that holds a comment or ends in a space cannot stand in a line again.
        if let Ok(again) = Spec::line(&line) {
            assert_eq!(again.to_string(), line);
        }
    }
}

/// A file without sections, with a segment of code and one of notes.
fn with_notes(notes: &[u8]) -> Vec<u8> {
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0\x01\0\0\0".to_vec();
    file.extend([CODE, 64, 0].iter().flat_map(|word: &u64| word.to_le_bytes()));
    file.extend([0; 4]);
    file.extend([64, 56, 2, 64, 0, 0].iter().flat_map(|half: &u16| half.to_le_bytes()));
    let code = (1 | 5 << 32, CODE, CODE_BYTES as u64);
    let table = (4, CODE + CODE_BYTES as u64, notes.len() as u64);
    for (kind, at, size) in [code, table] {
        file.extend(
            [kind, at, at, at, size, size, 8].iter().flat_map(|word: &u64| word.to_le_bytes()),
        );
    }
    file.resize(file.len() + CODE_BYTES, 0x90);
    file.extend(notes);
    file
}

fn note(description: &[u8]) -> Vec<u8> {
    let words = [8, description.len() as u32, 3].into_iter().flat_map(u32::to_le_bytes);
    let mut note: Vec<u8> = words.chain(*b"stapsdt\0").chain(description.iter().copied()).collect();
    note.resize(note.len().next_multiple_of(4), 0);
    note
}
