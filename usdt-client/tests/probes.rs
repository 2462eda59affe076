//! The notes that tools find: read from this program's own file, checked against its code.
#![allow(clippy::unwrap_used)] // helpers of tests fail as tests do

use std::collections::BTreeMap;
use syscollect_usdt_client::semaphore;

const NOP: [u8; 1] = [0x90];

/// A probe's place, semaphore and arguments.
#[derive(Debug)]
struct Note {
    place: u64,
    semaphore: u64,
    arguments: String,
}

/// The notes of `.note.stapsdt` by name, from the bytes of a file.
fn notes(file: &[u8]) -> BTreeMap<String, Note> {
    let owner = b"\x03\0\0\0stapsdt\0";
    let mut found = BTreeMap::new();
    for at in (0..file.len() - owner.len()).filter(|at| file[*at..].starts_with(owner)) {
        let description = &file[at + owner.len()..];
        let (words, _) = description.as_chunks();
        let (place, semaphore) = (u64::from_le_bytes(words[0]), u64::from_le_bytes(words[2]));
        let mut strings =
            description[24..].split(|byte| *byte == 0).map(|text| String::from_utf8_lossy(text));
        if strings.next().as_deref() != Some("syscollect") {
            continue;
        }
        let name = strings.next().unwrap().into_owned();
        let arguments = strings.next().unwrap().into_owned();
        found.insert(name, Note { place, semaphore, arguments });
    }
    found
}

/// The code of the file that is mapped at an address. In memory a recorder that runs on this machine
/// may have put a breakpoint there.
fn code_at(file: &[u8], address: u64) -> [u8; NOP.len()] {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let offset = maps.lines().find_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let (start, end) = (number(start)?, number(end)?);
        let offset = number(rest.split(' ').nth(1)?)?;
        (start..end).contains(&address).then_some(address - start + offset)
    });
    *file[offset.unwrap() as usize..].first_chunk().unwrap()
}

#[test]
fn every_probe_is_a_nop_of_one_byte_with_a_note_and_the_one_semaphore() {
    // All probes are used, so that none is dropped by the linker.
    syscollect_usdt_client::message!("x");
    syscollect_usdt_client::plot!("x", 1);
    syscollect_usdt_client::frame_mark!();
    drop(syscollect_usdt_client::zone!("x"));
    let file = std::fs::read("/proc/self/exe").unwrap();
    let notes = notes(&file);
    let arguments: Vec<(&str, &str)> =
        notes.iter().map(|(name, note)| (name.as_str(), note.arguments.as_str())).collect();
    let expected = [
        ("frame", "8@%rdi"),
        ("message", "8@%rdi 4@%esi"),
        ("plot", "8@%rdi 8@%rsi"),
        ("ring", "-4@%edi 4@%esi 8@%rdx"),
        ("zone_begin", "8@%rdi 8@%rsi 8@%rdx 4@%ecx 4@%r8d"),
        ("zone_end", "4@%edi"),
    ];
    assert_eq!(arguments, expected);
    let semaphore = semaphore::address() as u64;
    for (name, note) in &notes {
        let bias = semaphore - note.semaphore;
        assert_eq!(bias % 4096, 0, "{name}: the note's semaphore is the one that marks look at");
        assert_eq!(code_at(&file, bias + note.place), NOP, "{name}");
    }
}
