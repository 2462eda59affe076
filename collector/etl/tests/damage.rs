//! Whatever a file holds: an error, or fewer records; never a panic, a hang, or
//! more memory than the file warrants.

use proptest::prelude::*;
use std::sync::LazyLock;
use syscollect_etl::file::{Statistics, Trace};
use syscollect_tests::etl::{FIXTURES, FakeTrace, event, fixture, perf_info};

/// The fixtures, unpacked once: name, records, bytes.
static WHOLE: LazyLock<Vec<(&str, u64, Vec<u8>)>> =
    LazyLock::new(|| FIXTURES.iter().map(|(name, total)| (*name, *total, fixture(name))).collect());

/// Reads all of it in both orders, and everything a record offers.
fn read(bytes: Vec<u8>) -> Option<Statistics> {
    let length = bytes.len() as u64;
    let trace = Trace::from_bytes(vec![bytes]).ok()?;
    let mut bytes_seen = 0;
    let scanned = trace.scan(|_, record| {
        bytes_seen +=
            record.payload.len() + record.extended.map(|item| item.data.len()).sum::<usize>();
    });
    let mut merged = trace.merged();
    let mut count = 0;
    while merged.next().is_some() {
        count += 1;
    }
    assert_eq!(merged.statistics(), scanned);
    assert_eq!(count, scanned.records);
    assert!(scanned.stray_bytes + scanned.unused_bytes + scanned.buffers * 0x48 <= length);
    Some(scanned)
}

fn small() -> Vec<u8> {
    let mut trace = FakeTrace::new(3);
    for time in 0..200 {
        trace.is_compressed = time > 100;
        let at = FakeTrace::START + time;
        trace.record((time % 3) as u16, &perf_info(at, 5, 36, 4, &[7; 24]));
        trace.record((time % 3) as u16, &event(at, (1, 2), [3; 16], (175, 1), &[9; 40]));
    }
    trace.finish()
}

/// Bits flipped at places that are fractions of the file, so that they fit every file.
fn flips() -> impl Strategy<Value = Vec<(f64, u8)>> {
    prop::collection::vec((0.0..1.0, 0..8_u8), 1..20)
}

fn flip(bytes: &mut [u8], flips: &[(f64, u8)]) {
    let length = bytes.len() as f64;
    for (place, bit) in flips {
        bytes[(place * length) as usize] ^= 1 << bit;
    }
}

#[syscollect_fixtures::test]
fn every_fixture_cut_off_anywhere_gives_fewer_records_and_no_panic() {
    for (name, total, whole) in WHOLE.iter() {
        // In the first half of each lies a record; a buffer's end may hold none.
        for part in [1, 3, 7, 11, 15] {
            let cut = whole.len() * part / 16 + part;
            let Some(statistics) = read(whole[..cut].to_vec()) else { continue };
            assert!(statistics.records < *total + u64::from(part > 7), "{name} up to {cut}");
        }
    }
}

#[test]
fn a_file_whose_first_bytes_are_anything_ends() {
    let whole = small();
    for length in 0..1024 {
        read(whole[..length].to_vec());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[syscollect_fixtures::test]
    fn every_fixture_with_flipped_bits_reads_to_its_end(flips in flips()) {
        for (name, total, whole) in WHOLE.iter() {
            let mut bytes = whole.clone();
            flip(&mut bytes, &flips);
            if let Some(statistics) = read(bytes) {
                // A flipped size can make two records of one, never many.
                prop_assert!(statistics.records < *total * 2 + 1000, "{}", name);
            }
        }
    }
}

proptest! {
    #[test]
    fn a_small_file_with_flipped_bits_reads_to_its_end(flips in flips(), cut in 0.5..1.0) {
        let mut bytes = small();
        flip(&mut bytes, &flips);
        bytes.truncate((bytes.len() as f64 * cut) as usize);
        read(bytes);
    }

    #[test]
    fn anything_behind_a_header_reads_to_its_end(
        bytes in prop::collection::vec(any::<u8>(), 0..8192),
    ) {
        let mut file = FakeTrace::new(1).finish();
        file.extend(&bytes);
        read(file);
    }

    #[test]
    fn anything_in_a_buffer_reads_to_its_end(
        records in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..64), 0..40),
        kind in 0..32_u8,
        is_compressed: bool,
    ) {
        let mut trace = FakeTrace::new(1);
        trace.is_compressed = is_compressed;
        for mut record in records {
            if let Some(header) = record.first_chunk_mut::<4>() {
                header[2..].copy_from_slice(&[kind, 0xc0]);
            }
            trace.record(0, &record);
        }
        read(trace.finish());
    }

    #[test]
    fn anything_at_all_is_an_error_or_a_file(bytes in prop::collection::vec(any::<u8>(), 0..2048)) {
        read(bytes);
    }
}

/// A random number below a limit, and the next state.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit.max(1)
    }
}

/// Whether these bytes lack a record of the whole file, and what is said of it; `None` where they
/// are no file.
fn lacks(bytes: Vec<u8>, total: u64) -> Option<(bool, Statistics)> {
    let trace = Trace::from_bytes(vec![bytes]).ok()?;
    let statistics = trace.scan(|_, _| ());
    Some((statistics.records < total, statistics))
}

#[syscollect_fixtures::test]
fn a_fixture_that_ends_early_is_never_complete() {
    let mut random = Random(1);
    for (name, total, whole) in WHOLE.iter() {
        for _ in 0..12 {
            let cut = random.below(whole.len());
            let Some((lacks, statistics)) = lacks(whole[..cut].to_vec(), *total) else { continue };
            assert!(!lacks || !statistics.is_complete(), "{name} cut at {cut}: {statistics:?}");
        }
    }
}

/// The length of the buffer that begins there.
fn stride(trace: &[u8], at: usize) -> usize {
    u32::from_le_bytes(*trace[at..].first_chunk().expect("a header")) as usize
}

#[syscollect_fixtures::test]
fn a_fixture_cut_between_two_buffers_says_how_many_are_missing() {
    for (name, _, whole) in WHOLE.iter() {
        let Ok(trace) = Trace::from_bytes(vec![whole.clone()]) else { panic!("{name}") };
        assert_eq!((trace.extents()[0].missing, trace.extents()[0].unwritten), (0, 0), "{name}");
        let starts: Vec<usize> = std::iter::successors(Some(0), |at| {
            Some(at + stride(whole, *at)).filter(|at| *at < whole.len())
        })
        .collect();
        for kept in [1, 2, starts.len() / 2, starts.len() - 1] {
            let cut = starts.get(kept).copied().unwrap_or(whole.len());
            let trace = Trace::from_bytes(vec![whole[..cut].to_vec()]).expect("it has its header");
            let extent = &trace.extents()[0];
            let expected = (starts.len() - kept.min(starts.len())) as u64;
            assert_eq!(
                (extent.missing, extent.unwritten),
                (expected, 0),
                "{name}: {kept} of {}",
                starts.len()
            );
        }
    }
}

#[syscollect_fixtures::test]
fn a_fixture_with_zeros_in_it_is_never_complete() {
    let mut random = Random(2);
    for (name, total, whole) in WHOLE.iter() {
        for round in 0..12 {
            // Sectors, pages, and what a file system gives at once.
            let unit = [512, 4096, 65_536][round % 3];
            let first = random.below(whole.len().div_ceil(unit)).max(1) * unit;
            let last = (first + unit * (1 + random.below(4))).min(whole.len());
            let mut bytes = whole.clone();
            bytes[first.min(last)..last].fill(0);
            let Some((lacks, statistics)) = lacks(bytes, *total) else { continue };
            assert!(
                !lacks || !statistics.is_complete(),
                "{name} zero from {first} to {last}: {statistics:?}"
            );
        }
    }
}

#[syscollect_fixtures::test]
fn a_fixture_that_lacks_a_buffer_in_its_middle_says_so() {
    for (name, _, whole) in WHOLE.iter() {
        let first = stride(whole, 0);
        let second = first + stride(whole, first);
        let without = [&whole[..first], &whole[second.min(whole.len())..]].concat();
        let trace = Trace::from_bytes(vec![without]).expect("it has its header");
        assert_eq!(trace.extents()[0].missing, 1, "{name}");
    }
}
