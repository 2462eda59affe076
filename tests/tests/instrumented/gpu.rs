//! Zones of GPUs: what a program submits, and when a GPU did it.

use proptest::prelude::*;
use std::collections::BTreeMap;
use syscollect_exporters::report::{ReportExporter, ReportOptions};
use syscollect_exporters::{FirefoxExporter, FirefoxOptions, PerfettoExporter, TracyExporter};
use syscollect_merge::Session;
use syscollect_model::{
    Event, Exporter, GpuJob, GpuJobEnd, LossCause, Tables, ThreadId, Time, TrackId,
};
use syscollect_playback::Recording;
use syscollect_records::task_state;
use syscollect_store::CaptureReader;
use syscollect_tests::client::{color, text, value};
use syscollect_tests::{
    FIRST_BOOTTIME, FIRST_RAW, FakeMachine, FakeProgram, FakeThread, cuts, golden,
};
use syscollect_tests::{ticks, tracy_reader};
use syscollect_zone_protocol::{GpuEvent, GpuZoneNumber, HostClock, TextRole, Value, ZONE_VALUE};

/// A tick of the GPU's is 40 ns.
const TICK: u64 = 40_000_000;

fn machine() -> (FakeMachine, FakeProgram) {
    let mut machine = FakeMachine::new(1);
    machine.process(100, 1, "game", &[(100, "game"), (101, "render"), (102, "reads queries")]);
    let program = FakeProgram::new(&mut machine, 1, 100);
    (machine, program)
}

fn begin(context: u32, number: u32, location: u32) -> GpuEvent {
    GpuEvent::ZoneBegin { zone: GpuZoneNumber { context, number }, location }
}

fn end(context: u32, number: u32) -> GpuEvent {
    GpuEvent::ZoneEnd { zone: GpuZoneNumber { context, number } }
}

fn times(context: u32, number: u32, [began, ended]: [u64; 2]) -> GpuEvent {
    GpuEvent::Times { zone: GpuZoneNumber { context, number }, began, ended }
}

fn no_times(context: u32, number: u32) -> GpuEvent {
    GpuEvent::NoTimes { zone: GpuZoneNumber { context, number } }
}

/// The GPU's clock was this at that time, within 200 ns.
fn reading(context: u32, us: u64, gpu: u64) -> GpuEvent {
    let clock = HostClock::Ticks;
    GpuEvent::Calibration { context, clock, deviation: 200, host: ticks(us), gpu }
}

/// A GPU whose 32 bits wrap after 20 us.
fn gpu_at(us: u64) -> u64 {
    ((1_u64 << 32) - 500 + us * 25) % (1 << 32)
}

/// A thread submits a frame, in it shadows, and copies; another reads the queries.
fn scenario() -> (FakeMachine, FakeProgram) {
    let (mut machine, mut program) = machine();
    let frame = program.location("frame", "render::frame", "src/render.rs", 40, 0x33_6699);
    let shadows = program.location("shadows", "", "", 0, 0);
    let queue = program.gpu_context("graphics", TICK, 32);
    let copies = program.gpu_context("copies", 1_000_000, 64);
    let (render, reader) = (program.thread(0, 101), program.thread(1, 102));
    machine.switch(0, 4, task_state::RUNNABLE, 101);
    render.gpu(&mut machine, 5, reading(queue, 5, gpu_at(5)), &[]);
    let monotonic = FIRST_RAW + 7 + 6_000;
    let by_monotonic = GpuEvent::Calibration {
        context: copies,
        clock: HostClock::Monotonic,
        deviation: 1_000,
        host: monotonic,
        gpu: 1_000_000,
    };
    render.gpu(&mut machine, 6, by_monotonic, &[]);
    let said = [text(TextRole::ZoneText, 0, "a frame"), color(0xff_0000)];
    render.gpu(&mut machine, 10, begin(queue, 1, frame), &said);
    render.gpu(&mut machine, 11, begin(queue, 2, shadows), &[]);
    render.gpu(&mut machine, 12, end(queue, 2), &[]);
    let said = [text(TextRole::ZoneName, 0, "lights"), value(ZONE_VALUE, Value::Unsigned(7))];
    render.gpu(&mut machine, 12, begin(queue, 3, shadows), &said);
    render.gpu(&mut machine, 13, end(queue, 3), &[]);
    render.gpu(&mut machine, 14, end(queue, 1), &[]);
    render.gpu(&mut machine, 15, begin(copies, 1, shadows), &[]);
    render.gpu(&mut machine, 16, end(copies, 1), &[]);
    render.gpu(&mut machine, 17, begin(queue, 4, frame), &[]);
    render.gpu(&mut machine, 18, end(queue, 4), &[]);
    render.gpu(&mut machine, 18, begin(queue, 5, frame), &[]);
    // Late, out of order, from another thread; of one said that nobody knows, of one nothing.
    reader.gpu(&mut machine, 60, times(queue, 3, [gpu_at(25), gpu_at(30)]), &[]);
    reader.gpu(&mut machine, 60, times(queue, 1, [gpu_at(18), gpu_at(40)]), &[]);
    reader.gpu(&mut machine, 61, times(copies, 1, [1_014_000, 1_020_000]), &[]);
    reader.gpu(&mut machine, 61, times(queue, 2, [gpu_at(18), gpu_at(24)]), &[]);
    reader.gpu(&mut machine, 62, no_times(queue, 4), &[]);
    render.gpu(&mut machine, 70, reading(queue, 70, gpu_at(70)), &[]);
    program.finish(&mut machine);
    (machine, program)
}

#[test]
fn zones_of_a_gpu_come_at_its_times_with_who_submitted_them() {
    let (machine, _) = scenario();
    golden::check("gpu_zones", &mut golden::open_foreseen("gpu_zones", machine.finish()));
}

#[test]
fn in_tracy_zones_lie_in_each_other_on_a_context_for_each_queue() {
    let mut session = open(scenario().0.finish());
    let mut exporter = TracyExporter::new(Vec::new());
    session.play(&mut exporter).unwrap();
    let trace = tracy_reader::read(&exporter.finish().unwrap()).unwrap();
    let mut shown: Vec<_> = trace
        .gpus
        .iter()
        .flat_map(|gpu| {
            gpu.threads.iter().flat_map(move |(tid, zones)| {
                zones.iter().map(move |zone| {
                    let length = |(begin, end): (i64, i64)| (end - begin) / 1000;
                    let waited = (zone.gpu.0 - zone.cpu.0) / 1000;
                    let [cpu, gpu_time] = [zone.cpu, zone.gpu].map(length);
                    let (name, depth) = (zone.name(), zone.depth);
                    format!("{} {tid} {name} at {depth}: {cpu} {waited} {gpu_time}", gpu.name)
                })
            })
        })
        .collect();
    let expected = [
        "game (100) copies 101 shadows at 0: 1 5 6",
        "game (100) graphics 101 frame [without times] at 0: 0 0 0",
        "game (100) graphics 101 frame [without times] at 0: 1 1 0",
        "game (100) graphics 101 frame at 0: 4 8 22",
        "game (100) graphics 101 lights at 1: 1 13 5",
        "game (100) graphics 101 shadows at 1: 1 7 6",
    ];
    shown.sort();
    assert_eq!(shown, expected);
}

#[test]
fn every_viewer_has_the_zones_and_the_report_says_how_long_they_waited() {
    let mut session = open(scenario().0.finish());
    let mut exporter = FirefoxExporter::new(Vec::new(), FirefoxOptions::default());
    session.play(&mut exporter).unwrap();
    let firefox = String::from_utf8(exporter.finish().unwrap()).unwrap();
    assert_eq!(firefox.matches("\"type\":\"gpuJob\"").count(), 6);
    assert_eq!(firefox.matches("\"submission\":").count(), 5, "one was not seen to end");
    let mut exporter = PerfettoExporter::new(Vec::new());
    session.play(&mut exporter).unwrap();
    assert!(!exporter.finish().unwrap().is_empty());
    let mut exporter = ReportExporter::new(ReportOptions::default());
    session.play(&mut exporter).unwrap();
    let report = exporter.finish();
    let rows: Vec<_> = report
        .gpu_zones
        .rows
        .iter()
        .map(|row| {
            let (ran, waited) = (row.ran.total_ns / 1000, row.waited.max_ns / 1000);
            format!(
                "{} {} {}: {} {} {ran} {waited}",
                row.process, row.queue, row.name, row.zones, row.untimed
            )
        })
        .collect();
    assert_eq!(
        rows,
        [
            "game graphics frame: 3 2 22 8",
            "game graphics shadows: 1 0 6 7",
            "game copies shadows: 1 0 6 5",
            "game graphics lights: 1 0 5 13",
        ]
    );
    let queue = report.gpu.rows.iter().find(|row| row.queue == "graphics").unwrap();
    assert_eq!((queue.jobs, queue.untimed, queue.ran.total_ns / 1000), (3, 2, 22));
    let text = report.text(160);
    assert!(text.contains("GPU zones, and how long they waited for the GPU"), "{text}");
}

fn open(capture: Vec<u8>) -> Session {
    Session::open(CaptureReader::from_bytes(capture).unwrap()).unwrap()
}

/// Zones that come out: their tracks, their names and when the GPU began and ended, us.
#[derive(Default)]
struct Zones {
    zones: Vec<(TrackId, [u64; 2], GpuJob)>,
    threads: Vec<Option<ThreadId>>,
    lost: u64,
}

impl Exporter for Zones {
    type Error = std::convert::Infallible;

    fn event(&mut self, time: Time, event: &Event, _: &Tables) -> Result<(), Self::Error> {
        let us = |time: Time| (time.0 - FIRST_BOOTTIME) / 1000;
        match event {
            Event::GpuJob(track, job) => {
                let began = job.started.map_or(us(time), us);
                self.zones.push((*track, [began, us(job.ended(time))], (**job).clone()));
                self.threads.push(job.thread);
            }
            Event::Loss(loss) => self.lost += loss.count,
            _ => {}
        }
        Ok(())
    }
}

fn zones_of(machine: FakeMachine) -> (Zones, u64) {
    let mut session = open(machine.finish());
    let mut zones = Zones::default();
    let played = session.play(&mut zones).unwrap();
    (zones, played.lost)
}

#[test]
fn without_readings_nothing_begins_before_it_was_submitted_and_the_error_is_said() {
    let (mut machine, mut program) = machine();
    let draw = program.location("draw", "", "", 0, 0);
    let queue = program.gpu_context("", 1_000_000, 64);
    let thread = program.thread(0, 101);
    // The second begins as soon as it can; all are told 5 us after their end.
    for (number, us, latency) in [(1, 10, 8), (2, 30, 2), (3, 50, 6)] {
        thread.gpu(&mut machine, us, begin(queue, number, draw), &[]);
        thread.gpu(&mut machine, us + 1, end(queue, number), &[]);
        let began = 500_000 + (us + latency) * 1000;
        let told = us + latency + 4 + 5;
        thread.gpu(&mut machine, told, times(queue, number, [began, began + 4000]), &[]);
    }
    program.finish(&mut machine);
    let (Zones { zones, .. }, lost) = zones_of(machine);
    let spans: Vec<_> = zones.iter().map(|(_, span, _)| *span).collect();
    assert_eq!((spans, lost), (vec![[16, 20], [30, 34], [54, 58]], 0));
    // It may be as much later as the first to be told of allows: 2 us, and 5.
    let error = &zones[1].2.fields[0].value;
    assert!(matches!(error, syscollect_model::Value::Duration(6_990..7_050)), "{error:?}");
}

#[test]
fn what_makes_no_sense_is_counted_and_the_rest_is_there() {
    let (mut machine, mut program) = machine();
    let draw = program.location("draw", "", "", 0, 0);
    let queue = program.gpu_context("queue", 1_000_000, 64);
    let thread = program.thread(0, 101);
    thread.gpu(&mut machine, 5, reading(queue, 5, 5_000), &[]);
    // A clock that goes back, a context that is none, times of a zone that nobody began.
    thread.gpu(&mut machine, 6, reading(queue, 6, 4_000), &[]);
    thread.gpu(&mut machine, 6, begin(draw, 1, draw), &[]);
    thread.gpu(&mut machine, 6, times(queue, 77, [1, 2]), &[]);
    // Twice the same number, a place that is none.
    thread.gpu(&mut machine, 10, begin(queue, 1, draw), &[]);
    thread.gpu(&mut machine, 11, begin(queue, 1, draw), &[]);
    thread.gpu(&mut machine, 11, begin(queue, 2, queue), &[]);
    // Told twice; an end before the beginning; long before it was submitted; after it was told.
    thread.gpu(&mut machine, 40, times(queue, 1, [15_000, 20_000]), &[]);
    thread.gpu(&mut machine, 41, times(queue, 1, [16_000, 21_000]), &[]);
    let impossible = [(3, [45_000, 43_000]), (4, [0, 45_000]), (5, [36_000, 90_000_000])];
    for (number, _) in impossible {
        thread.gpu(&mut machine, 42, begin(queue, number, draw), &[]);
    }
    for (number, gpu) in impossible {
        thread.gpu(&mut machine, 50, times(queue, number, gpu), &[]);
    }
    program.finish(&mut machine);
    let (Zones { zones, .. }, lost) = zones_of(machine);
    let spans: Vec<_> = zones.iter().map(|(_, span, _)| *span).collect();
    assert_eq!(spans, [[15, 20], [42, 45], [45, 45], [42, 50]]);
    assert_eq!(lost, 7);
}

#[test]
fn contexts_without_end_are_refused_and_counted() {
    let (mut machine, mut program) = machine();
    let draw = program.location("draw", "", "", 0, 0);
    let thread = program.thread(0, 101);
    for _ in 0..300 {
        let queue = program.gpu_context("queue", 1_000_000, 64);
        thread.gpu(&mut machine, 10, begin(queue, 1, draw), &[]);
    }
    program.finish(&mut machine);
    let mut session = open(machine.finish());
    let note = "game (PID 100) wrote more of GPUs than one program may have: 44 items are left out";
    // Each play reads them anew, and tells of them once.
    for _ in 0..2 {
        let mut zones = Zones::default();
        let played = session.play(&mut zones).unwrap();
        assert_eq!((zones.zones.len(), played.lost), (256, 44));
        assert!(zones.zones.iter().all(|(_, _, job)| job.end == GpuJobEnd::Untimed));
        let notes = session.info().notes.iter().filter(|said| *said == note);
        assert_eq!(notes.count(), 1, "{:?}", session.info().notes);
        assert!(session.losses().iter().all(|loss| loss.cause == LossCause::BeyondShare));
    }
}

#[test]
fn a_hundred_thousand_zones_told_late_and_shuffled_are_all_there_in_order() {
    const ZONES: u32 = 25_000;
    let (mut machine, mut program) = machine();
    let draw = program.location("draw", "", "", 0, 0);
    let contexts: Vec<u32> = (0..4).map(|_| program.gpu_context("queue", 1_000_000, 36)).collect();
    let threads: Vec<FakeThread> =
        (0..3).map(|lane| program.thread(lane, 100 + u32::from(lane))).collect();
    let wrapped = |us: u64| (us * 1000 + (1 << 36) - 7_000_000) % (1 << 36);
    let mut told = Vec::new();
    for context in &contexts {
        threads[0].gpu(&mut machine, 5, reading(*context, 5, wrapped(5)), &[]);
    }
    for number in 1..=ZONES {
        let us = 10 + u64::from(number) * 4;
        for (index, context) in contexts.iter().enumerate() {
            let thread = &threads[(number as usize + index) % 2];
            thread.gpu(&mut machine, us, begin(*context, number, draw), &[]);
            thread.gpu(&mut machine, us, end(*context, number), &[]);
            let began = us + 20 + u64::from(number % 3);
            told.push(times(*context, number, [wrapped(began), wrapped(began + 2)]));
        }
    }
    // Shuffled by a generator that is the same each time.
    let mut state = 1_u64;
    for last in (1..told.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        told.swap(last, (state >> 33) as usize % (last + 1));
    }
    for event in told {
        threads[2].gpu(&mut machine, 110_000, event, &[]);
    }
    program.finish(&mut machine);
    let (Zones { zones, threads, lost: told_lost }, lost) = zones_of(machine);
    assert_eq!((zones.len(), lost, told_lost), (4 * ZONES as usize, 0, 0));
    assert!(threads.iter().all(Option::is_some));
    let unordered = zones.windows(2).filter(|two| two[0].1[1] > two[1].1[1]).count();
    assert_eq!(unordered, 0);
    let mut rows = BTreeMap::<TrackId, u64>::new();
    for (track, [began, ended], job) in &zones {
        assert_eq!((ended - began, job.end), (2, GpuJobEnd::Finished));
        let last = rows.insert(*track, *ended).unwrap_or(0);
        assert!(*began >= last, "zones of one row overlap");
    }
}

/// Zones as lines, wherever they are told.
#[derive(Default)]
struct ZoneLines(Vec<String>);

impl Exporter for ZoneLines {
    type Error = std::convert::Infallible;

    fn event(&mut self, time: Time, event: &Event, tables: &Tables) -> Result<(), Self::Error> {
        if let Event::GpuJob(track, job) = event
            && let (Some(zone), Some(thread)) = (job.zone, job.thread)
        {
            let queue = tables.strings.get(tables.track(*track).name);
            let name = tables.strings.get(job.name);
            let (tid, ended) = (tables.thread(thread).tid, job.ended(time));
            let cpu = (job.submitted, zone.submission_ended);
            let place = (zone.row, zone.depth);
            let Self(lines) = self;
            let gpu = (job.started, ended, job.end);
            lines.push(format!("{queue} {name} {tid} {cpu:?} {gpu:?} {place:?} {:?}", job.fields));
        }
        Ok(())
    }
}

/// A zone of a random program, us.
#[derive(Clone, Debug)]
struct RandomZone {
    submitted: u64,
    thread: usize,
    queue: usize,
    waits: u64,
    takes: u64,
    told_after: u64,
    has_times: bool,
}

fn random_zone() -> impl Strategy<Value = RandomZone> {
    let submitted = 10..5_000u64;
    let gpu = (1..2_000u64, 0..2_000u64, 0..100_000u64);
    (submitted, 0..2usize, 0..2usize, gpu, prop::bool::weighted(0.95)).prop_map(
        |(submitted, thread, queue, (waits, takes, told_after), has_times)| RandomZone {
            submitted,
            thread,
            queue,
            waits,
            takes,
            told_after,
            has_times,
        },
    )
}

/// What a program writes at a time.
fn random_capture(zones: &[RandomZone]) -> Vec<u8> {
    let (mut machine, mut program) = machine();
    let names = ["a", "b", "c"].map(|name| program.location(name, "", "", 0, 0));
    let queues = ["one", "two"].map(|name| program.gpu_context(name, 1_000_000, 36));
    let submit = [program.thread(0, 100), program.thread(1, 101)];
    let reader = program.thread(2, 102);
    queues.iter().for_each(|queue| reader.gpu(&mut machine, 5, reading(*queue, 5, 5_000), &[]));
    let mut events = Vec::new();
    for (zone, number) in zones.iter().zip(1..) {
        let queue = queues[zone.queue];
        let began = zone.submitted + zone.waits;
        let ended = began + zone.takes;
        let by = Some(zone.thread);
        events.push((zone.submitted, by, begin(queue, number, names[number as usize % 3])));
        events.push((zone.submitted + 1, by, end(queue, number)));
        let told = match zone.has_times {
            true => times(queue, number, [began, ended].map(|us| us * 1_000)),
            false => no_times(queue, number),
        };
        events.push((ended + 2 + zone.told_after, None, told));
    }
    events.sort_by_key(|(us, ..)| *us);
    for (us, by, event) in events {
        let thread = by.map_or(&reader, |by| &submit[by]);
        thread.gpu(&mut machine, us, event, &[]);
    }
    machine.clock(120_000);
    program.finish(&mut machine);
    machine.finish()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn what_is_told_while_recording_is_what_the_file_has(
        zones in prop::collection::vec(random_zone(), 1..120),
    ) {
        let capture = random_capture(&zones);
        let mut file = ZoneLines::default();
        open(capture.clone()).play(&mut file).unwrap();
        let mut live = ZoneLines::default();
        prop_assert!(cuts::play_live_into(&mut live, &capture, 1));
        prop_assert_eq!(file.0.len(), zones.len());
        file.0.sort();
        live.0.sort();
        prop_assert_eq!(live.0, file.0);
    }
}

#[test]
fn what_waits_for_times_is_bounded_while_recording_and_told_as_lost() {
    let (mut machine, mut program) = machine();
    let draw = program.location("draw", "", "", 0, 0);
    let queue = program.gpu_context("queue", 1_000_000, 64);
    let thread = program.thread(0, 101);
    let words = [text(TextRole::ZoneText, 0, "x".repeat(2_000))];
    // Some 80 MB of texts, where there is room for 64 MiB.
    for number in 0..40_000 {
        thread.gpu(&mut machine, 10 + u64::from(number), begin(queue, number, draw), &words);
    }
    machine.clock(60_000);
    program.finish(&mut machine);
    let mut zones = Zones::default();
    assert!(cuts::play_live_into(&mut zones, &machine.finish(), 0));
    let told = zones.zones.len() as u64;
    assert!((20_000..35_000).contains(&told), "{told}");
    assert_eq!(told + zones.lost, 40_000, "each is told or counted");
}
