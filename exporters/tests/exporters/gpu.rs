//! Jobs of GPUs in each format.

use crate::firefox_reader::Profile;
use crate::golden::compare;
use crate::replay::{Replay, Slice, replay};
use crate::scenario::{self, START, Scenario};
use syscollect_exporters::report::{FenceWaitRow, Report, ReportExporter, ReportOptions};
use syscollect_exporters::{
    FirefoxExporter, FirefoxOptions, PerfettoExporter, ProcessFilter, TextExporter,
};
use syscollect_model::{Event, MachineId, Scope, Slice as ModelSlice, Track, TrackKind};

fn played<E: syscollect_model::Exporter<Error: std::fmt::Debug>>(
    mut exporter: E,
    scenario: &Scenario,
) -> E {
    scenario.play(&mut exporter, &scenario::session(), &[], None).unwrap();
    exporter
}

fn perfetto() -> Replay {
    replay(&played(PerfettoExporter::new(Vec::new()), &scenario::gpu()).finish().unwrap())
}

fn report(process: Option<&str>) -> Report {
    let process = process.map(|name| ProcessFilter::Name(name.into()));
    played(
        ReportExporter::new(ReportOptions { process, ..ReportOptions::default() }),
        &scenario::gpu(),
    )
    .finish()
}

/// Name, begin and end in microseconds.
fn times(slice: &Slice) -> (&str, u64, u64) {
    (&slice.name, (slice.begin - START) / 1_000, (slice.end - START) / 1_000)
}

#[test]
fn a_job_is_a_slice_on_its_queue_of_the_machine_or_of_a_process() {
    let reported = perfetto();
    // What is known of the last but one of the graphics queue is its end, of the last when it was
    // queued.
    let graphics = [("Draw", 20, 45), ("Compose", 50, 60), ("Draw", 65, 65), ("Draw", 75, 90)];
    let submitted = [("submit Draw", 10, 10), ("submit Blur", 30, 30), ("submit Draw", 70, 70)];
    for (track, expected) in [
        ("GPU/gfx", &graphics[..]),
        ("process 400/GPU/compute", &[("Blur", 40, 48)]),
        ("thread 401", &submitted),
        ("thread 500", &[("submit Compose", 15, 15)]),
    ] {
        let slices = reported.slices.iter().filter(|slice| slice.track == track);
        assert_eq!(slices.map(times).collect::<Vec<_>>(), expected, "{track}");
    }
}

#[test]
fn a_job_says_its_stages_its_thread_its_fences_and_how_it_ended() {
    let reported = perfetto();
    let draw = [
        ("context", "65280"),
        ("fence", "12:1"),
        ("pid", "400"),
        ("process", "game"),
        ("queued to started (ns)", "8000"),
        ("ran (ns)", "25000"),
        ("ring", "0"),
        ("submitted to queued (ns)", "2000"),
        ("submitted to started (ns)", "10000"),
        ("thread", "render"),
        ("tid", "401"),
    ];
    assert_eq!(arguments(&reported, 20), draw);
    assert_eq!(
        arguments(&reported, 65),
        [("end", "ended before it began, or its beginning was lost")]
    );
    for (begin, argument) in [
        (50, ("waited for fences", "12:1")),
        (40, ("end", "failed")),
        (75, ("end", "not ended when the recording did, or its end was lost")),
    ] {
        assert!(arguments(&reported, begin).contains(&argument), "{argument:?}");
    }
}

#[test]
fn zones_lie_in_the_jobs_that_ran_them_and_others_on_tracks_of_their_own() {
    let trace =
        played(PerfettoExporter::new(Vec::new()), &scenario::marked_jobs()).finish().unwrap();
    let reported = replay(&trace);
    let of = |track: &str| {
        let slices = reported.slices.iter().filter(|slice| slice.track == track);
        let mut slices: Vec<_> =
            slices.map(|slice| (slice.begin, slice.depth, times(slice))).collect();
        slices.sort();
        slices.into_iter().map(|(_, depth, times)| (depth, times)).collect::<Vec<_>>()
    };
    let frames = [0, 1_000, 2_000, 3_000];
    let job = |at| {
        [
            (0, ("amdgpu", at + 30, at + 910)),
            (1, ("frame", at + 200, at + 900)),
            (2, ("shadows", at + 200, at + 300)),
        ]
    };
    assert_eq!(of("GPU/gfx"), frames.map(job).concat());
    let copies =
        frames.map(|at| [(0, ("copy", at + 350, at + 450)), (0, ("copy", at + 930, at + 960))]);
    assert_eq!(of("process 400/GPU/copies"), copies.concat(), "one of each is in no job");
    assert_eq!(of("process 400/GPU/graphics"), []);
    let into = reported.flows.values().map(|ends| &*ends[1].0);
    assert_eq!(into.filter(|track| *track == "GPU/gfx").count(), 12, "arrows lead to them");
}

/// What is said of the job that began so many microseconds after the start.
fn arguments(reported: &Replay, begin: u64) -> Vec<(&str, &str)> {
    let slice = reported
        .slices
        .iter()
        .find(|slice| slice.track.contains("GPU/") && slice.begin == START + begin * 1_000)
        .unwrap();
    slice.arguments.iter().map(|(name, value)| (&**name, &**value)).collect()
}

#[test]
fn an_arrow_leads_from_where_a_thread_submits_a_job_to_where_the_gpu_begins_with_it() {
    let reported = perfetto();
    let arrows: Vec<_> = reported
        .flows
        .values()
        .map(|ends| {
            let [(from, left, false), (to, arrived, true)] = &ends[..] else { panic!("{ends:?}") };
            (&**from, (left - START) / 1_000, &**to, (arrived - START) / 1_000)
        })
        .collect();
    let expected = [
        ("thread 401", 10, "GPU/gfx", 20),
        ("thread 401", 30, "process 400/GPU/compute", 40),
        ("thread 500", 15, "GPU/gfx", 50),
        ("thread 401", 70, "GPU/gfx", 75),
    ];
    assert_eq!(arrows, expected);
}

fn profile(process: Option<ProcessFilter>) -> Profile {
    let options = FirefoxOptions { process, ..FirefoxOptions::default() };
    Profile::read(
        &played(FirefoxExporter::new(Vec::new(), options), &scenario::gpu()).finish().unwrap(),
    )
}

/// The names of the markers of a thread.
fn names(profile: &Profile, name: &str) -> Vec<String> {
    let threads = profile.threads().iter().filter(|thread| thread["name"] == name);
    threads
        .flat_map(|thread| profile.thread_markers(thread))
        .map(|marker| marker.name.to_owned())
        .collect()
}

#[test]
fn a_queue_is_a_thread_of_the_profile_and_its_jobs_are_markers() {
    let profile = profile(None);
    assert_eq!(names(&profile, "GPU: gfx"), ["Draw", "Compose", "Draw", "Draw"]);
    assert_eq!(names(&profile, "GPU: compute"), ["Blur"]);
    assert_eq!(names(&profile, "render"), ["Submit to GPU"; 3]);
    let queue = profile.threads().iter().find(|thread| thread["name"] == "GPU: compute").unwrap();
    assert_eq!((&queue["pid"], &queue["processName"]), (&"400".into(), &"game".into()));
    let gfx = profile.threads().iter().find(|thread| thread["name"] == "GPU: gfx").unwrap();
    let draw = &profile.thread_markers(gfx)[0];
    let durations =
        ["waited", "accepted", "queued", "ran"].map(|key| draw.data[key].as_f64().unwrap());
    assert_eq!(durations, [0.01, 0.002, 0.008, 0.025], "milliseconds");
    assert_eq!(profile.string(&draw.data["thread"]), "render (401)");
    assert_eq!((&draw.data["context"], &draw.data["fence"]), (&"0xff00".into(), &"12:1".into()));
}

#[test]
fn of_one_process_there_are_its_jobs_and_on_the_machines_queues_those_of_nobody() {
    let profile = profile(Some(ProcessFilter::Name("compositor".into())));
    assert_eq!(names(&profile, "GPU: gfx"), ["Compose", "Draw"]);
    assert_eq!(names(&profile, "GPU: compute"), [""; 0]);
    let rows = report(Some("compositor")).gpu.rows;
    assert_eq!(
        rows.iter().map(|row| (&*row.queue, row.pid, row.jobs)).collect::<Vec<_>>(),
        [("gfx", Some(500), 1)]
    );
}

#[test]
fn the_report_tells_how_long_queues_were_busy_for_whom_and_how_long_jobs_waited() {
    let report = report(None);
    assert_eq!(report.events.gpu_jobs, 5);
    let rows = report.gpu.rows.iter().map(|row| {
        let (ran, waited) = (row.ran, row.waited);
        let times = (ran.total_ns, ran.max_ns, waited.count, waited.max_ns);
        let jobs = (row.jobs, row.failed, row.unfinished, row.without_beginning);
        (&*row.queue, row.pid, jobs, times)
    });
    let expected = [
        ("gfx", Some(400), (2, 0, 1, 0), (25_000, 25_000, 1, 10_000)),
        ("gfx", Some(500), (1, 0, 0, 0), (10_000, 10_000, 1, 35_000)),
        ("compute", Some(400), (1, 1, 0, 0), (8_000, 8_000, 1, 10_000)),
        ("gfx", None, (1, 0, 0, 1), (0, 0, 0, 0)),
    ];
    assert_eq!(rows.collect::<Vec<_>>(), expected);
    let text = report.text(120);
    let table: Vec<_> = text
        .lines()
        .skip_while(|line| !line.starts_with("GPU jobs by queue and process"))
        .take(6)
        .collect();
    assert!(table[2].ends_with("gfx of game (400); 1 not ended"), "{table:#?}");
    assert!(table[4].ends_with("compute of game (400); 1 failed"), "{table:#?}");
}

#[test]
fn the_report_tells_the_longest_waits_for_fences_whose_job_that_was_and_who_signaled_it() {
    let all = fence_report(None);
    // Of those of one length the first comes first.
    let expected = [
        ((30_000, 500, false), "12:1", ["an interrupt", "gfx", "render (401)"].map(Some)),
        ((30_000, 401, true), "12:7", [None; 3]),
    ];
    assert_eq!(all.gpu_waits.rows.iter().map(fence_wait).collect::<Vec<_>>(), expected);
    // Another process's job is told, too.
    let one = fence_report(Some("compositor")).gpu_waits;
    assert_eq!(one.total, 1);
    assert_eq!(one.rows.iter().map(fence_wait).collect::<Vec<_>>(), expected[..1]);
    let text = all.text(160);
    let lines: Vec<_> =
        text.lines().skip_while(|line| !line.starts_with("Longest waits")).skip(2).collect();
    let job = "compositor (500): gfx 12:1, a job of render (401), signaled by an interrupt";
    assert!(lines[0].ends_with(job), "{lines:#?}");
    let never =
        "render (401) of game (400): amdgpu gfx 12:7, not signaled when the recording ended";
    assert!(lines[1].ends_with(never), "{lines:#?}");
}

fn fence_report(process: Option<&str>) -> Report {
    let process = process.map(|name| ProcessFilter::Name(name.into()));
    played(
        ReportExporter::new(ReportOptions { process, rows: 9, ..ReportOptions::default() }),
        &scenario::fence_waits(),
    )
    .finish()
}

type FenceWait<'a> = ((u64, u32, bool), &'a str, [Option<&'a str>; 3]);

/// How long who waited, for which fence; who signaled it, and whose job that was.
fn fence_wait(row: &FenceWaitRow) -> FenceWait<'_> {
    let job = [&row.signaled_by, &row.queue, &row.submitted_by].map(Option::as_deref);
    ((row.waited_ns, row.tid, row.unfinished), &row.fence, job)
}

#[test]
fn a_queue_that_several_processes_use_is_told_as_a_whole_too() {
    let report = report(None);
    let queues: Vec<_> = report
        .gpu_queues
        .rows
        .iter()
        .map(|row| (&*row.queue, row.jobs, row.ran.total_ns))
        .collect();
    assert_eq!(queues, [("gfx", 4, 35_000), ("compute", 1, 8_000)]);
    assert!(report.text(120).contains("\nGPU jobs by queue\n"));
}

#[test]
fn frames_of_a_display_lie_below_displays() {
    let mut scenario = Scenario::new();
    let (name, vblank) = (scenario.name("CRTC 0"), scenario.name("vblank"));
    let kind = TrackKind::Frames { continuous: true, main: false };
    let track =
        scenario.tables.add_track(Track { scope: Scope::Machine(MachineId::FIRST), name, kind });
    scenario.then(Event::SliceBegin(track, ModelSlice::named(vblank)));
    scenario.wait(16);
    scenario.then(Event::SliceEnd(track));
    let reported = replay(&played(PerfettoExporter::new(Vec::new()), &scenario).finish().unwrap());
    let slices: Vec<_> =
        reported.slices.iter().map(|slice| (&*slice.track, times(slice))).collect();
    assert_eq!(slices, [("Displays/CRTC 0", ("vblank", 0, 17))]);
}

#[test]
fn jobs_read_as_lines() {
    let text = played(TextExporter::new(Vec::new()), &scenario::gpu()).finish().unwrap();
    compare("gpu.txt", &String::from_utf8(text).unwrap());
}
