//! Damaged files: fewer names or an error, soon, and nothing else.

use crate::common::{image_bytes, symbol_bytes};
use crate::fixtures::{LIBRARY, LIBRARY_SYMBOLS, PROGRAM};
use crate::streams;
use proptest::prelude::*;
use std::io::Cursor;
use std::sync::LazyLock;
use std::time::{Duration, Instant};
use syscollect_symbolize::windows::{Image, Pdb, PdbError, PdbNames};

/// The symbol file of these tests, and the real ones where they are.
static SYMBOLS: LazyLock<Vec<Vec<u8>>> =
    LazyLock::new(|| [vec![symbol_bytes()], real(&[LIBRARY_SYMBOLS, PROGRAM])].concat());
/// The same of images.
static IMAGES: LazyLock<Vec<Vec<u8>>> =
    LazyLock::new(|| [vec![image_bytes()], real(&[LIBRARY])].concat());

fn real(names: &[&str]) -> Vec<Vec<u8>> {
    let is_there = syscollect_fixtures::folder().is_some();
    names.iter().filter(|_| is_there).map(|name| syscollect_fixtures::read(name)).collect()
}

/// Every place of the code of all files.
fn offsets() -> Vec<u64> {
    (0x1000..0x4000).step_by(3).collect()
}

/// Names with what is left of a PDB.
fn name_pdb(bytes: Vec<u8>) -> Result<PdbNames, PdbError> {
    let begin = Instant::now();
    let named = Pdb::open(Cursor::new(bytes)).and_then(|pdb| pdb.name(&offsets(), 0));
    assert!(begin.elapsed() < Duration::from_secs(20));
    for symbol in named.iter().flat_map(|names| &names.symbols) {
        assert!(symbol.start <= symbol.offset && !symbol.frames.is_empty());
        assert!(symbol.size == 0 || symbol.offset < symbol.start + symbol.size);
    }
    named
}

fn name_image(bytes: &[u8]) {
    if let Ok(image) = Image::read(bytes, 1 << 20) {
        assert!(image.name(&offsets()).iter().all(|symbol| symbol.start <= symbol.offset));
    }
}

fn flipped(bytes: &[u8], flips: &[(prop::sample::Index, u8)]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for (place, mask) in flips {
        let place = place.index(bytes.len());
        bytes[place] ^= mask;
    }
    bytes
}

fn flips() -> impl Strategy<Value = Vec<(prop::sample::Index, u8)>> {
    prop::collection::vec((any::<prop::sample::Index>(), 1..=u8::MAX), 1..200)
}

/// Streams of every PDB, and where their records begin.
const IDS: u32 = 4;
const IDS_HEADER: usize = 56;
const SYMBOLS_HEADER: usize = 4;
/// Kinds of records: functions that are inlined, and procedures.
const FUNCTION_ID: u16 = 0x1601;
const PROCEDURES: [u16; 4] = [0x110f, 0x1110, 0x1146, 0x1147];

#[test]
fn a_function_that_lies_within_itself_costs_lines_and_no_stack() {
    for intact in &*SYMBOLS {
        let mut bytes = intact.clone();
        let offsets = streams::offsets(&bytes, IDS);
        let functions = streams::records(&bytes, &offsets, IDS_HEADER);
        let functions = functions.iter().enumerate().filter(|(_, (_, kind))| *kind == FUNCTION_ID);
        let functions: Vec<_> =
            functions.map(|(index, (at, _))| (0x1000 + index as u32, *at)).collect();
        assert!(!functions.is_empty());
        functions.iter().for_each(|(id, at)| streams::write(&mut bytes, &offsets, at + 4, *id));
        let names = name_pdb(bytes).unwrap();
        assert!(names.note.contains("compilation units are damaged"), "{}", names.note);
        let whole = name_pdb(intact.clone()).unwrap();
        assert!(!names.symbols.is_empty() && names.symbols.len() <= whole.symbols.len());
    }
}

#[test]
fn a_procedure_that_ends_before_it_begins_does_not_go_round_in_circles() {
    for mut bytes in SYMBOLS.clone() {
        let mut damaged = 0;
        for stream in 5..streams::count(&bytes) {
            let offsets = streams::offsets(&bytes, stream);
            let records = streams::records(&bytes, &offsets, SYMBOLS_HEADER);
            let mut procedures =
                (0..records.len()).filter(|index| PROCEDURES.contains(&records[*index].1));
            // The first one holds all the others, which lead back to what comes behind its
            // beginning.
            let Some(first) = procedures.next() else { continue };
            streams::write(&mut bytes, &offsets, records[first].0 + 8, offsets.len() as u32);
            for other in procedures {
                streams::write(
                    &mut bytes,
                    &offsets,
                    records[other].0 + 8,
                    records[first + 1].0 as u32,
                );
                damaged += 1;
            }
        }
        assert!(damaged > 0);
        let names = name_pdb(bytes).unwrap();
        assert!(names.note.contains("compilation units are damaged"), "{}", names.note);
    }
}

#[test]
fn a_directory_that_is_longer_than_its_file_is_not_read() {
    let mut bytes = symbol_bytes();
    // The directory's length, in bytes: more of it than there is.
    bytes[44..48].copy_from_slice(&(1u32 << 30).to_le_bytes());
    assert!(name_pdb(bytes).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn a_symbol_file_with_flipped_bits_is_an_error_or_names_less(flips in flips()) {
        for bytes in &*SYMBOLS {
            let _ = name_pdb(flipped(bytes, &flips));
        }
    }

    #[test]
    fn a_symbol_file_that_was_cut_off_is_an_error(length in any::<prop::sample::Index>()) {
        for bytes in &*SYMBOLS {
            let _ = name_pdb(bytes[..length.index(bytes.len())].to_vec());
        }
    }

    #[test]
    fn an_image_with_flipped_bits_or_cut_off_names_no_more_than_it_can(
        flips in flips(),
        length in any::<prop::sample::Index>(),
    ) {
        for bytes in &*IMAGES {
            name_image(&flipped(bytes, &flips));
            name_image(&bytes[..length.index(bytes.len())]);
        }
    }
}
