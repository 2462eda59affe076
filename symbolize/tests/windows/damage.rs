//! Damaged files: fewer names or an error, soon, and nothing else.

use crate::common::{fixtures, library};
use proptest::prelude::*;
use std::fs;
use std::io::Cursor;
use std::sync::LazyLock;
use std::time::{Duration, Instant};
use syscollect_symbolize::windows::{Image, Pdb};

static LIBRARY: LazyLock<Option<Vec<u8>>> = LazyLock::new(|| Some(fs::read(library()?.pdb).unwrap()));
static PROGRAM: LazyLock<Option<Vec<u8>>> =
    LazyLock::new(|| Some(fs::read(fixtures()?.join("perfview-CppCon.pdb")).unwrap()));
static IMAGE: LazyLock<Option<Vec<u8>>> = LazyLock::new(|| Some(fs::read(library()?.image).unwrap()));

/// Every place of the code of both fixtures.
fn offsets() -> Vec<u64> {
    (0x1000..0x4000).step_by(3).collect()
}

/// Names with what is left of a PDB; panics in there stay silent.
fn name_pdb(bytes: Vec<u8>) {
    let begin = Instant::now();
    let named = Pdb::open(Cursor::new(bytes)).and_then(|pdb| pdb.name(&offsets()));
    assert!(begin.elapsed() < Duration::from_secs(20));
    for symbol in named.iter().flat_map(|names| &names.symbols) {
        assert!(symbol.start <= symbol.offset && !symbol.frames.is_empty());
        assert!(symbol.size == 0 || symbol.offset < symbol.start + symbol.size);
    }
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn a_symbol_file_with_flipped_bits_is_an_error_or_names_less(flips in flips()) {
        for bytes in [&*LIBRARY, &*PROGRAM].into_iter().flatten() {
            name_pdb(flipped(bytes, &flips));
        }
    }

    #[test]
    fn a_symbol_file_that_was_cut_off_is_an_error(length in any::<prop::sample::Index>()) {
        for bytes in [&*LIBRARY, &*PROGRAM].into_iter().flatten() {
            name_pdb(bytes[..length.index(bytes.len())].to_vec());
        }
    }

    #[test]
    fn an_image_with_flipped_bits_or_cut_off_names_no_more_than_it_can(flips in flips(), length in any::<prop::sample::Index>()) {
        for bytes in IMAGE.iter() {
            name_image(&flipped(bytes, &flips));
            name_image(&bytes[..length.index(bytes.len())]);
        }
    }
}
