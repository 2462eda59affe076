//! Whatever a program's file holds, making unwind tables of it ends, in bounded memory and without
//! a panic, and rows are sorted and no more than a page has room for.
//!
//! An input is a file, or what a sound file has for unwinding: a search from nothing does not get
//! to headers that lead to sections, and most of what can go wrong lies in those.
#![no_main]

use libfuzzer_sys::fuzz_target;
use syscollect_records::unwind::{PAGE_BYTES, ROWS_MAX, UnwindRow};
use syscollect_unwind::{Registers, UnwindFile, row_at, step};

/// Where the code of the sound file lies, in the file and in memory.
const CODE: u64 = 0x1000;
const CODE_BYTES: u64 = 3 * PAGE_BYTES / 2;
/// Where what is tried lies: behind the code.
const BEHIND: u64 = CODE + CODE_BYTES;
/// Types of program headers.
const LOAD: u64 = 1;
const FRAME_HEADER: u64 = 0x6474_e550;

fuzz_target!(|bytes: &[u8]| {
    let Some((kind, rest)) = bytes.split_first() else { return };
    let file = match kind % 4 {
        0 => rest.to_vec(),
        1 => by_name(rest, b"\0.eh_frame\0"),
        2 => by_name(rest, b"\0.debug_frame\0"),
        _ => by_header(rest),
    };
    let Ok(file) = UnwindFile::from_bytes(file) else { return };
    let mut pages = vec![0, 1, 2, u32::MAX];
    pages.extend(file.code().iter().take(4).map(|code| (code.start / PAGE_BYTES) as u32));
    let Ok(together) = file.pages(&pages) else { return };
    for (page, rows) in together {
        check(&rows);
        let _ = file.pages(&[page]).map(|alone| check(&alone[0].1));
    }
});

/// Checks what holds of all rows, and takes a step by some.
fn check(rows: &[UnwindRow]) {
    assert!((1..=ROWS_MAX).contains(&rows.len()) && rows[0].address == 0);
    assert!(rows.windows(2).all(|both| both[0].address < both[1].address));
    for address in (0..=u16::MAX).step_by(0x101) {
        let row = row_at(rows, address).unwrap();
        let registers = Registers { ip: u64::from(address), sp: 0x7000, bp: u64::MAX };
        let _ = step(&registers, row, Some(&[u64::MAX; 16]), Some);
    }
}

/// A file whose section of that name is `bytes`.
fn by_name(bytes: &[u8], names: &[u8]) -> Vec<u8> {
    let mut file = file((0, 0, 0), bytes);
    let names_at = file.len() as u64;
    file.extend(names);
    file.resize(file.len().next_multiple_of(8), 0);
    let table = file.len() as u64;
    let length = bytes.len() as u64;
    file.extend([0; 64]);
    for (name, kind, at, size) in [(1, 1, BEHIND, length), (0, 3, names_at, names.len() as u64)] {
        let words = [name | kind << 32, 0, at, at, size, 0, 1, 0];
        file.extend(words.iter().flat_map(|word: &u64| word.to_le_bytes()));
    }
    file[40..48].copy_from_slice(&table.to_le_bytes());
    file[60..64].copy_from_slice(&[3, 0, 2, 0]);
    file
}

/// A file whose `.eh_frame_hdr` is `bytes`, in which `.eh_frame` may lie as well.
fn by_header(bytes: &[u8]) -> Vec<u8> {
    file((FRAME_HEADER, BEHIND, bytes.len() as u64), bytes)
}

/// A file with code, `bytes` behind it, and a program header of what is in them.
fn file(header: (u64, u64, u64), bytes: &[u8]) -> Vec<u8> {
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0\x01\0\0\0".to_vec();
    file.extend([0, 64, 0].iter().flat_map(|word: &u64| word.to_le_bytes()));
    file.extend([0; 4]);
    file.extend([64, 56, 3, 64, 0, 0].iter().flat_map(|half: &u16| half.to_le_bytes()));
    let code = (LOAD | 5 << 32, CODE, CODE_BYTES);
    let behind = (LOAD | 4 << 32, BEHIND, bytes.len() as u64);
    for (kind, at, size) in [code, behind, header] {
        let words = [kind, at, at, at, size, size, 8];
        file.extend(words.iter().flat_map(|word: &u64| word.to_le_bytes()));
    }
    file.resize(BEHIND as usize, 0x90);
    file.extend(bytes);
    file
}
