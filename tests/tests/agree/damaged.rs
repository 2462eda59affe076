//! Captures without events, and captures of which a part is damaged.

use crate::exported;
use std::collections::BTreeMap;
use syscollect_tests::reference_capture::{self, Figures};
use syscollect_tests::shown::{self, Profile, Viewer, differences};
use syscollect_tests::{FakeMachine, tracy_reader};

#[test]
fn a_capture_without_events_is_a_whole_file_of_each_format_with_nothing_in_it() {
    let capture = FakeMachine::new(2).finish();
    let trace = exported::read_tracy(&capture);
    assert_eq!((trace.threads.len(), trace.switches.len(), trace.cpu_samples()), (0, 0, 0));
    let profile = exported::read_firefox(&capture);
    let threads: Vec<&str> =
        profile.threads().iter().filter_map(|thread| thread["name"].as_str()).collect();
    assert_eq!(threads, ["idle"], "the machine itself, which is always there");
    assert_eq!(profile.rows(&profile.threads()[0]).unwrap(), []);
    assert_eq!(profile.markers(&profile.threads()[0]).unwrap(), []);
    let report = exported::report(exported::open(&capture));
    assert_eq!((report.events.switches, report.events.samples, report.threads.total), (0, 0, 0));
    assert!(report.text(100).contains("nothing"), "{}", report.text(100));
    assert_eq!(exported::folded(exported::open(&capture)), "");
    assert_eq!(shown::pprof(&exported::pprof(exported::open(&capture))).unwrap(), Figures::new());
    assert!(!exported::perfetto(exported::open(&capture)).is_empty(), "what the machine is");
}

/// Losses by lane.
type Lost = BTreeMap<String, u64>;

/// A line "LANE of CPU 0: CAUSE", with the count that stands beside it.
fn add(lost: &mut Lost, line: &str, count: u64) {
    let lane = line.split(" of CPU").next().and_then(|rest| rest.split(':').next()).unwrap();
    *lost.entry(lane.to_owned()).or_default() += count;
}

/// As messages: "12 records lost from sched of CPU 0: damaged".
fn told_by_tracy(file: &[u8]) -> Lost {
    let mut lost = Lost::new();
    for message in &tracy_reader::read(file).unwrap().messages {
        if let Some((count, rest)) = message.text.split_once(" records lost from ") {
            add(&mut lost, rest, count.parse().unwrap());
        }
    }
    lost
}

/// In the panel about the profile.
fn told_by_firefox(file: &[u8]) -> Lost {
    let mut lost = Lost::new();
    let profile = Profile::read(file).unwrap();
    let sections = profile.json()["meta"]["extra"].as_array().unwrap();
    for section in sections.iter().filter(|section| section["label"] == "Lost records") {
        for entry in section["entries"].as_array().unwrap() {
            add(&mut lost, entry["label"].as_str().unwrap(), entry["value"].as_u64().unwrap());
        }
    }
    lost
}

/// What switches and wakeups have no part in.
fn of_no_switch() -> Figures {
    let mut plan = reference_capture::figures();
    plan.retain(|name, _| {
        !["runs", "switches", "wakeups"].iter().any(|begin| name.starts_with(begin))
    });
    plan
}

/// As many as it takes for damage in chunks of every lane.
const PARTS: usize = 61;

/// What came of damage in some parts.
#[derive(Default)]
struct Damaged {
    /// In how many of them something of a lane was lost.
    hit: Lost,
    /// In how many nothing but switches was.
    switches_alone: u64,
}

#[test]
fn a_damaged_chunk_is_told_and_everything_else_is_shown() {
    let capture = reference_capture::capture();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut all = Damaged::default();
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|first| {
                let capture = &capture;
                scope.spawn(move || {
                    let mut damaged = Damaged::default();
                    (first..PARTS)
                        .step_by(threads)
                        .for_each(|part| damage(capture, part, &mut damaged));
                    damaged
                })
            })
            .collect();
        for thread in running {
            let Damaged { hit, switches_alone } = thread.join().unwrap();
            hit.into_iter().for_each(|(lane, count)| *all.hit.entry(lane).or_default() += count);
            all.switches_alone += switches_alone;
        }
    });
    let lanes = ["sched", "samples", "zones", "tracepoints"];
    assert!(
        lanes.iter().all(|lane| all.hit.contains_key(*lane)) && all.switches_alone > 0,
        "not damaged enough: {:?}",
        all.hit
    );
}

/// Damages one part of a capture.
fn damage(capture: &[u8], part: usize, found: &mut Damaged) {
    let mut damaged = capture.to_vec();
    damaged[capture.len() * part / PARTS + 7] ^= 0x55;
    let tracy = exported::tracy(exported::open(&damaged));
    let firefox = exported::firefox(exported::open(&damaged));
    let report = exported::report(exported::open(&damaged));
    let mut lost = Lost::new();
    report.losses.iter().for_each(|loss| add(&mut lost, loss.origin.name(), loss.count));
    let reported = (told_by_tracy(&tracy), told_by_firefox(&firefox));
    assert_eq!(reported, (lost.clone(), lost.clone()), "part {part}");

    let [missing, missing_samples] =
        ["sched", "samples"].map(|lane| lost.get(lane).copied().unwrap_or(0));
    let records = report.events.switches + report.events.wakeups + missing;
    assert_eq!(records, 620 + 310, "part {part}: {lost:?}");
    let report = serde_json::to_vec(&report).unwrap();
    let shown = [
        (Viewer::Tracy, shown::tracy(&tracy).unwrap()),
        (Viewer::Firefox, shown::firefox(&firefox).unwrap()),
        (Viewer::Report, shown::report(&report).unwrap()),
    ];
    for (viewer, figures) in shown {
        let samples = figures["samples"] + missing_samples;
        assert_eq!(samples, 407, "part {part} in {}: {lost:?}", viewer.name());
        if lost.keys().eq(["sched"]) {
            assert_eq!(differences(viewer, &of_no_switch(), &figures), [""; 0], "part {part}");
            found.switches_alone += 1;
        }
    }
    lost.into_keys().for_each(|lane| *found.hit.entry(lane).or_default() += 1);
}
