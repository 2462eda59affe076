//! Golden exports of small traces.

use super::{etl, open};
use syscollect_exporters::{FirefoxExporter, FirefoxOptions, PerfettoExporter};
use syscollect_model::Time;
use syscollect_playback::Recording;
use syscollect_tests::golden;
use syscollect_tests::shown::Profile;

/// The first two milliseconds behind the first 50 of the generator's trace.
#[syscollect_fixtures::test]
fn two_milliseconds_of_switches_wakeups_samples_and_interrupts() {
    let mut session = open(etl::SYNTHETIC);
    let began = session.clock().pairs()[0].boottime + 50_000_000;
    golden::check_range(
        "etl_synthetic",
        &mut session,
        Some(Time(began)),
        Some(Time(began + 2_000_000)),
    );
}

#[syscollect_fixtures::test]
fn every_primitive_type_of_a_self_describing_event() {
    let mut session = open(etl::TRACELOGGING);
    golden::check("etl_tracelogging", &mut session);
}

#[syscollect_fixtures::test]
fn a_firefox_profile_shows_every_sample() {
    let mut session = open(etl::SYNTHETIC);
    let mut firefox = FirefoxExporter::new(Vec::new(), FirefoxOptions::default());
    let played = session.play(&mut firefox).unwrap();
    let profile = Profile::read(&firefox.finish().unwrap()).unwrap();
    let on_cpu =
        |thread| profile.rows(thread).unwrap().iter().filter(|row| row.on_cpu()).count() as u64;
    let shown: u64 = profile.threads().iter().map(on_cpu).sum();
    assert!(shown > 0 && shown <= played.events_by_type["sample"] * 2, "{shown}");
}

#[syscollect_fixtures::test]
fn a_perfetto_trace_is_packets_from_beginning_to_end() {
    for name in [etl::SYNTHETIC, etl::PERFVIEW, etl::GPUVIS, etl::AIRBUS] {
        let mut session = open(name);
        let mut perfetto = PerfettoExporter::new(Vec::new());
        let played = session.play(&mut perfetto).unwrap();
        let file = perfetto.finish().unwrap();
        let packets = packets(&file);
        assert!(packets > 0 && file.len() as u64 > played.events, "{name}: {packets} packets");
    }
}

/// How many packets a trace is made of; all of its bytes are.
pub(crate) fn packets(mut file: &[u8]) -> u64 {
    let mut count = 0;
    while let Some((tag, rest)) = file.split_first() {
        assert_eq!(*tag, 0x0a, "a packet begins");
        let (length, rest) = varint(rest);
        file = &rest[length..];
        count += 1;
    }
    count
}

fn varint(bytes: &[u8]) -> (usize, &[u8]) {
    let end = bytes.iter().position(|byte| byte & 0x80 == 0).unwrap() + 1;
    let value =
        bytes[..end].iter().rev().fold(0, |value, byte| value << 7 | usize::from(byte & 0x7f));
    (value, &bytes[end..])
}
