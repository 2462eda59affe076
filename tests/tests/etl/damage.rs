//! Damaged traces: an error or fewer events, in bounded time.

use super::checked::Checked;
use super::etl;
use super::every_kind;
use std::time::{Duration, Instant};
use syscollect_etl::session::Session;
use syscollect_exporters::{FirefoxExporter, FirefoxOptions, PerfettoExporter};
use syscollect_playback::Recording;

/// Bytes of each fixture that are played: enough for every kind of record, and
/// few enough for many damages.
const PART: usize = 768 << 10;
/// Far more than one play of a part takes in the slowest build.
const PATIENCE: Duration = Duration::from_secs(60);

fn part(name: &str) -> Vec<u8> {
    let mut bytes = etl::fixture(name);
    bytes.truncate(PART);
    bytes
}

/// Plays it into what checks and into a viewers' files; how many records came.
fn play(bytes: Vec<u8>) -> u64 {
    let begin = Instant::now();
    let Ok(mut session) = Session::from_bytes(vec![bytes]) else { return 0 };
    let Ok(played) = session.play(&mut Checked::default());
    let mut firefox = FirefoxExporter::new(std::io::sink(), FirefoxOptions::default());
    session.play(&mut firefox).unwrap();
    firefox.finish().unwrap();
    session.play(&mut PerfettoExporter::new(std::io::sink())).unwrap();
    assert!(begin.elapsed() < PATIENCE, "{:?}", begin.elapsed());
    played.records
}

/// Cut anywhere it has fewer records.
fn cut(name: &str, bytes: &[u8]) {
    let whole = play(bytes.to_vec());
    for cut in [0, 1, 71, 72, 200, 1000, bytes.len() / 3, bytes.len() / 2, bytes.len() - 1] {
        let records = play(bytes[..cut.min(bytes.len())].to_vec());
        assert!(records <= whole, "{name} cut at {cut}: {records} of {whole}");
    }
}

/// Plays it with bits flipped: one in the headers at first, then one in every few hundred bytes.
fn flip(bytes: &[u8], rounds: u32) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for round in 0..rounds {
        let mut damaged = bytes.to_vec();
        let flips = if round < 3 { 1 } else { bytes.len() / 300 };
        for _ in 0..flips {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let at = (state >> 33) as usize
                % if round < 3 { bytes.len().min(2000) } else { bytes.len() };
            damaged[at] ^= 1 << (state & 7);
        }
        play(damaged);
    }
}

#[test]
fn a_trace_of_every_kind_cut_anywhere_has_fewer_records() {
    let bytes = every_kind::trace().finish();
    assert!(play(bytes.clone()) > 80);
    cut("every kind", &bytes);
    (0..bytes.len()).step_by(97).for_each(|length| {
        play(bytes[..length].to_vec());
    });
}

#[test]
fn flipped_bits_in_a_trace_of_every_kind_are_neither_a_panic_nor_a_hang() {
    flip(&every_kind::trace().finish(), 200);
}

#[syscollect_fixtures::test]
fn a_real_trace_cut_anywhere_has_fewer_records() {
    for (name, _) in etl::FIXTURES {
        cut(name, &part(name));
    }
}

#[syscollect_fixtures::test]
fn flipped_bits_in_a_real_trace_are_neither_a_panic_nor_a_hang() {
    for (name, _) in etl::FIXTURES {
        flip(&part(name), 8);
    }
}
