//! Jobs of GPUs.

use crate::scenario::{Scenario, ZERO};
use std::collections::BTreeMap;
use syscollect_exporters::TracyLayout;
use syscollect_model::{
    Event, Fence, Field, FieldRole, GpuJob, GpuJobEnd, Scope, StringId, ThreadId, Time, Track,
    TrackId, TrackKind, Value,
};
use syscollect_tests::tracy_reader::{GpuContext, GpuZone, SourceLocation};

fn time(at: u64) -> Option<Time> {
    Some(Time(ZERO + at))
}

/// A job of a thread: handed over, taken, begun.
fn job(name: StringId, thread: ThreadId, [submitted, queued, started]: [u64; 3]) -> GpuJob {
    let (submitted, queued, started) = (time(submitted), time(queued), time(started));
    GpuJob { thread: Some(thread), submitted, queued, started, ..GpuJob::named(name) }
}

fn at(scenario: &mut Scenario, end: u64, queue: TrackId, job: GpuJob) {
    scenario.at(end, Event::GpuJob(queue, Box::new(job)));
}

fn zone(name: &str, cpu: (i64, i64), gpu: (i64, i64)) -> GpuZone {
    let location = SourceLocation { name: Some(name.into()), ..SourceLocation::default() };
    GpuZone { depth: 0, location, cpu, gpu, thread: None, notes: BTreeMap::new() }
}

fn names(contexts: &[GpuContext]) -> Vec<&str> {
    contexts.iter().map(|context| context.name.as_str()).collect()
}

#[test]
fn a_queue_is_a_context_and_its_jobs_lie_with_who_handed_them_over() {
    let mut scenario = Scenario::new(1);
    let (game, desktop) = (scenario.task(5, "game"), scenario.task(6, "desktop"));
    let (ring, copies) = (scenario.queue("gfx"), scenario.queue("copy"));
    let [render, paging] = ["Render", "Paging"].map(|text| scenario.name(text));
    scenario.wake(1, game);
    at(&mut scenario, 30, ring, job(render, game, [2, 4, 10]));
    at(&mut scenario, 40, copies, job(paging, game, [31, 32, 33]));
    at(&mut scenario, 45, ring, job(render, desktop, [3, 5, 30]));
    at(&mut scenario, 60, ring, job(render, game, [40, 41, 45]));
    let trace = scenario.read();
    assert_eq!(names(&trace.gpus), ["gfx", "copy"]);
    let of_game = vec![zone("Render", (2, 4), (10, 30)), zone("Render", (40, 41), (45, 60))];
    assert_eq!(
        trace.gpus[0].threads,
        [(5, of_game), (6, vec![zone("Render", (3, 5), (30, 45))])].into()
    );
    assert_eq!(trace.gpus[1].threads, [(5, vec![zone("Paging", (31, 32), (33, 40))])].into());
}

#[test]
fn zones_of_a_program_lie_in_the_jobs_that_ran_them() {
    let mut scenario = Scenario::new(1);
    let game = scenario.process(5, "game");
    let [render, worker] =
        [(5, "render"), (6, "worker")].map(|(tid, name)| scenario.thread(game, tid, name));
    let [ring, context, lower] = ["gfx", "graphics", "graphics"].map(|name| scenario.queue(name));
    let [driven, frame, shadows] = ["amdgpu", "frame", "shadows"].map(|text| scenario.name(text));
    scenario.wake(1, render);
    let marked = |name, thread, depth, submitted, began| {
        let zone = syscollect_model::GpuZone {
            queue: context,
            depth,
            row: depth,
            number: None,
            location: None,
            color: None,
            stack: None,
            clock_error: 0,
            submission_ended: None,
            ended: None,
        };
        GpuJob { zone: Some(zone), ..job(name, thread, [submitted, submitted, began]) }
    };
    for begin in [0, 100, 200] {
        at(&mut scenario, begin + 50, lower, marked(shadows, worker, 1, begin + 11, begin + 40));
        at(&mut scenario, begin + 90, context, marked(frame, render, 0, begin + 10, begin + 30));
        at(
            &mut scenario,
            begin + 90,
            ring,
            job(driven, render, [begin + 20, begin + 21, begin + 30]),
        );
    }
    let trace = scenario.read();
    assert_eq!(names(&trace.gpus), ["gfx"], "nothing is left in the program's own context");
    let of_ring = &trace.gpus[0].threads[&5];
    let shown: Vec<_> =
        of_ring.iter().map(|zone| (zone.depth, zone.name(), zone.gpu, zone.thread)).collect();
    let expected = [0, 100, 200].map(|begin| {
        let whole = (begin + 30, begin + 90);
        [
            (0, "amdgpu", whole, None),
            (1, "frame", whole, None),
            (2, "shadows", (begin + 40, begin + 50), Some(6)),
        ]
    });
    assert_eq!(shown, expected.concat());
}

#[test]
fn rows_of_one_queue_are_contexts_of_numbered_names() {
    let mut scenario = Scenario::new(1);
    let game = scenario.task(5, "game");
    let (first, second) = (scenario.queue("gfx"), scenario.queue("gfx"));
    let render = scenario.name("Render");
    at(&mut scenario, 30, first, job(render, game, [1, 1, 1]));
    at(&mut scenario, 31, second, job(render, game, [1, 1, 2]));
    assert_eq!(names(&scenario.read().gpus), ["gfx", "gfx #2"]);
}

#[test]
fn what_is_not_known_of_a_job_is_the_next_that_is() {
    let mut scenario = Scenario::new(1);
    let (ring, render) = (scenario.queue("gfx"), scenario.name("Render"));
    let bare = GpuJob::named(render);
    let thread = scenario.task(5, "game");
    scenario.wake(1, thread);
    at(&mut scenario, 10, ring, GpuJob { submitted: time(2), ..bare.clone() });
    at(&mut scenario, 20, ring, GpuJob { queued: time(11), ..bare.clone() });
    at(&mut scenario, 30, ring, GpuJob { started: time(21), submitted: time(12), ..bare.clone() });
    at(&mut scenario, 40, ring, GpuJob { end: GpuJobEnd::WithoutBeginning, ..bare.clone() });
    at(
        &mut scenario,
        50,
        ring,
        GpuJob { end: GpuJobEnd::Failed, started: time(45), ..bare.clone() },
    );
    at(&mut scenario, 60, ring, GpuJob { end: GpuJobEnd::Unfinished, started: time(55), ..bare });
    let trace = scenario.read();
    let zones: Vec<_> = trace.gpus[0].threads.values().flatten().collect();
    let reported: Vec<_> = zones.iter().map(|zone| (zone.name(), zone.cpu, zone.gpu)).collect();
    let expected = [
        ("Render", (2, 2), (2, 10)),
        ("Render", (11, 11), (11, 20)),
        ("Render", (12, 12), (21, 30)),
        ("Render [without beginning]", (40, 40), (40, 40)),
        ("Render [failed]", (45, 45), (45, 50)),
        ("Render [unfinished]", (55, 55), (55, 60)),
    ];
    assert_eq!(reported, expected);
    assert_eq!(zones[4].location.color, 0x55_55ff, "what failed is red");
    let thread = trace.gpus[0].threads.keys().next().unwrap();
    assert_eq!(trace.thread_names[thread], "machine / gfx", "nobody knows who handed them over");
}

#[test]
fn a_job_that_failed_says_why_in_its_name() {
    let mut scenario = Scenario::new(1);
    let (ring, render, error) =
        (scenario.queue("gfx"), scenario.name("Render"), scenario.name("error"));
    let thread = scenario.task(5, "game");
    scenario.wake(1, thread);
    for (us, why) in
        [(10, "ETIME (-62)".to_owned()), (20, "EIO (-5)".to_owned()), (30, "x".repeat(1_000))]
    {
        let fields = vec![Field::new(FieldRole::JobError, error, Value::Text(why.into()))];
        at(
            &mut scenario,
            us,
            ring,
            GpuJob { end: GpuJobEnd::Failed, fields, ..GpuJob::named(render) },
        );
    }
    let trace = scenario.read();
    let names: Vec<_> = trace.gpus[0].threads.values().flatten().map(GpuZone::name).collect();
    assert_eq!(
        names,
        ["Render [failed: ETIME (-62)]", "Render [failed: EIO (-5)]", "Render [failed]"]
    );
}

#[test]
fn a_job_that_began_before_everything_is_there_from_the_beginning_on() {
    let mut scenario = Scenario::new(1);
    let game = scenario.task(5, "game");
    let (ring, render) = (scenario.queue("gfx"), scenario.name("Render"));
    scenario.wake(1_000, game);
    at(&mut scenario, 2_000, ring, job(render, game, [500, 600, 700]));
    assert_eq!(scenario.read().gpus[0].threads[&5], [zone("Render", (1, 1), (1, 1_001))]);

    let mut scenario = Scenario::new(1);
    let game = scenario.task(5, "game");
    let (ring, render) = (scenario.queue("gfx"), scenario.name("Render"));
    at(&mut scenario, 2_000, ring, job(render, game, [500, 600, 700]));
    let trace = scenario.read();
    assert_eq!(
        trace.gpus[0].threads[&5],
        [zone("Render", (1, 101), (201, 1_501))],
        "the first event is a job"
    );
    assert_eq!(trace.header.last_time, 1_501);
}

#[test]
fn jobs_that_a_driver_tells_wrongly_never_overlap() {
    let mut scenario = Scenario::new(1);
    let game = scenario.task(5, "game");
    let (ring, render) = (scenario.queue("gfx"), scenario.name("Render"));
    scenario.wake(1, game);
    at(&mut scenario, 20, ring, job(render, game, [15, 9, 30]));
    at(&mut scenario, 25, ring, job(render, game, [2, 3, 4]));
    let reported: Vec<_> =
        scenario.read().gpus[0].threads[&5].iter().map(|zone| (zone.cpu, zone.gpu)).collect();
    assert_eq!(reported, [((15, 15), (20, 20)), ((2, 3), (20, 25))]);
}

#[test]
fn newer_layouts_say_numbers_of_a_job() {
    let mut scenario = Scenario::new(1);
    let game = scenario.task(5, "game");
    let (ring, render) = (scenario.queue("gfx"), scenario.name("Render"));
    scenario.wake(1, game);
    let fields = vec![
        scenario.field("size", Value::Bytes(64)),
        scenario.field("engine", Value::Text("video".into())),
        scenario.field("size", Value::Bytes(65)),
    ];
    let reported = GpuJob {
        context: Some(3),
        fence: Some(fence(9)),
        waited_for: vec![fence(7), fence(8)],
        fields,
        ..job(render, game, [2, 5, 11])
    };
    at(&mut scenario, 20, ring, reported);
    at(&mut scenario, 30, ring, GpuJob { thread: Some(game), ..GpuJob::named(render) });
    for layout in [TracyLayout::V0_13, TracyLayout::V0_14] {
        let trace = scenario.read_layout(layout);
        let notes: Vec<_> = trace.gpus[0].threads[&5][0]
            .notes
            .iter()
            .map(|(name, value)| (&**name, *value))
            .collect();
        let expected = [
            ("context", 3.0),
            ("fence context", 7.0),
            ("fence sequence", 9.0),
            ("fences waited for", 2.0),
            ("queued to started (ns)", 6.0),
            ("ran (ns)", 9.0),
            ("size", 64.0),
            ("submitted to queued (ns)", 3.0),
            ("submitted to started (ns)", 9.0),
        ];
        assert_eq!(notes, expected);
        assert!(trace.gpus[0].threads[&5][1].notes.is_empty());
        assert_eq!(trace.gpus[0].kind, 7);
    }
    scenario.read();
}

fn fence(sequence: u64) -> Fence {
    Fence { context: 7, sequence }
}

#[test]
fn queues_and_notes_beyond_the_room_of_the_file_are_told() {
    let mut scenario = Scenario::new(1);
    let game = scenario.task(5, "game");
    let render = scenario.name("Render");
    for number in 0..257 {
        let ring = scenario.queue(&format!("ring {number}"));
        at(&mut scenario, number + 1, ring, job(render, game, [number + 1; 3]));
    }
    let (trace, cuts) = scenario.read_cut();
    assert_eq!(trace.gpus.len(), 255);
    assert!(
        cuts.len() == 1 && cuts[0].starts_with("2 GPU jobs on queues that have the fewest"),
        "{cuts:?}"
    );

    let mut scenario = Scenario::new(1);
    let game = scenario.task(5, "game");
    let (ring, render) = (scenario.queue("gfx"), scenario.name("Render"));
    for at_ns in 1..65_600 {
        at(&mut scenario, at_ns, ring, job(render, game, [at_ns; 3]));
    }
    let zones = &scenario.read_layout(TracyLayout::V0_13).gpus[0].threads[&5];
    assert_eq!(zones.iter().filter(|zone| zone.notes.is_empty()).count(), 65_599 - 65_535);
    assert_eq!(scenario.bytes().1, [""; 0], "the oldest layout has no notes that could be missing");
}

#[test]
fn a_process_with_queues_without_end_leaves_room_for_those_of_others() {
    let mut scenario = Scenario::new(1);
    let (hostile, game) = (scenario.task(5, "hostile"), scenario.task(6, "game"));
    let render = scenario.name("Render");
    let queue_of = |scenario: &mut Scenario, thread, name: &str| {
        let (scope, name) =
            (Scope::Process(scenario.tables.thread(thread).process), scenario.name(name));
        scenario.tables.add_track(Track { scope, name, kind: TrackKind::GpuQueue })
    };
    for number in 0..300 {
        let queue = queue_of(&mut scenario, hostile, &format!("one job {number}"));
        at(&mut scenario, number + 1, queue, job(render, hostile, [number + 1; 3]));
    }
    for (number, jobs) in [(1, 1), (2, 3), (3, 2)] {
        let queue = queue_of(&mut scenario, game, &format!("queue {number}"));
        for job_at in (number * 1000..).step_by(10).take(jobs) {
            at(&mut scenario, job_at, queue, job(render, game, [job_at; 3]));
        }
    }
    let (trace, cuts) = scenario.read_cut();
    assert_eq!(trace.gpus.len(), 255);
    let names = names(&trace.gpus);
    for number in 1..=3 {
        let queue = format!("queue {number}");
        assert!(names.iter().any(|name| name.ends_with(&queue)), "{names:?}");
    }
    assert!(cuts[0].starts_with("48 GPU jobs"), "{cuts:?}");
}

#[test]
fn a_file_of_one_process_has_its_jobs_only() {
    let mut scenario = Scenario::new(1);
    let (game, desktop) = (scenario.task(5, "game"), scenario.task(6, "desktop"));
    let (ring, render) = (scenario.queue("gfx"), scenario.name("Render"));
    at(&mut scenario, 10, ring, job(render, desktop, [1, 2, 3]));
    at(&mut scenario, 20, ring, job(render, game, [11, 12, 13]));
    at(&mut scenario, 30, ring, GpuJob { started: time(25), ..GpuJob::named(render) });
    let trace = scenario.read_only("game");
    let threads: Vec<_> =
        trace.gpus[0].threads.keys().map(|id| trace.thread_names[id].as_str()).collect();
    assert_eq!(
        threads,
        ["game / game", "machine / gfx"],
        "and those of which nobody knows whose they are"
    );
}
