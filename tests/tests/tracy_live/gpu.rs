//! Zones of GPUs of programs, whose times come late, out of order, or never.

use crate::connection::{connect, end, exchange};
use crate::expected::{Both, GpuZone, gpu_zones};
use syscollect_exporters::TracyLive;
use syscollect_merge::Session;
use syscollect_model::TrackKind;
use syscollect_playback::Recording as _;
use syscollect_store::CaptureReader;
use syscollect_tests::tracy_viewer::StrictViewer;
use syscollect_tests::{FakeMachine, FakeProgram, FakeThread, cuts, ticks};
use syscollect_zone_protocol::{GpuEvent, GpuZoneNumber, HostClock};

/// A tick of the GPU's is a nanosecond.
const TICK: u64 = 1_000_000;

/// A program that submits from two threads; a third one reads what became of it.
struct Game {
    machine: FakeMachine,
    program: FakeProgram,
    submit: [FakeThread; 2],
    reads: FakeThread,
}

impl Game {
    fn new() -> Self {
        let mut machine = FakeMachine::new(1);
        let threads = [(100, "game"), (101, "render"), (102, "upload"), (103, "reads queries")];
        machine.process(100, 1, "game", &threads);
        let program = FakeProgram::new(&mut machine, 1, 100);
        let submit = [program.thread(0, 101), program.thread(1, 102)];
        let reads = program.thread(2, 103);
        Self { machine, program, submit, reads }
    }

    /// A queue whose clock is the host's.
    fn queue(&mut self, name: &str) -> u32 {
        let context = self.program.gpu_context(name, TICK, 64);
        let clock = HostClock::Ticks;
        let read =
            GpuEvent::Calibration { context, clock, deviation: 0, host: ticks(1), gpu: 1_000 };
        self.reads.gpu(&mut self.machine, 1, read, &[]);
        context
    }

    /// A thread submits a zone for 2 us.
    fn submit(&mut self, by: usize, us: u64, zone: GpuZoneNumber, location: u32) {
        let begin = GpuEvent::ZoneBegin { zone, location };
        self.submit[by].gpu(&mut self.machine, us, begin, &[]);
        self.submit[by].gpu(&mut self.machine, us + 2, GpuEvent::ZoneEnd { zone }, &[]);
    }

    fn told(&mut self, us: u64, zone: GpuZoneNumber, [began, ended]: [u64; 2]) {
        let times = GpuEvent::Times { zone, began: began * 1000, ended: ended * 1000 };
        self.reads.gpu(&mut self.machine, us, times, &[]);
    }

    /// The clocks of the host are read, and so time passes.
    fn reaches(&mut self, us: u64) {
        self.machine.clock(us);
        self.machine.switch(0, us, 0, 101);
    }

    fn capture(mut self) -> Vec<u8> {
        self.program.finish(&mut self.machine);
        self.machine.finish()
    }
}

fn zone(context: u32, number: u32) -> GpuZoneNumber {
    GpuZoneNumber { context, number }
}

/// Frames of which the parts are submitted by two threads, some of them told late and shuffled; two
/// never get times.
fn frames() -> Vec<u8> {
    let mut game = Game::new();
    let names = ["frame", "shadows", "lights", "copy"];
    let [frame, shadows, lights, copy] =
        names.map(|name| game.program.location(name, "draw", "draw.rs", 1, 0x33_66_99));
    let (graphics, copies) = (game.queue("graphics"), game.queue("copies"));
    // A queue of the same name is another one.
    let other = game.queue("copies");
    for round in 0..50 {
        let (us, number) = (10_000 + u64::from(round) * 1_000, round * 4);
        game.submit(0, us, zone(graphics, number), frame);
        game.submit(0, us + 10, zone(graphics, number + 1), shadows);
        game.submit(1, us + 20, zone(graphics, number + 2), lights);
        game.submit(1, us + 30, zone(copies, number), copy);
        game.submit(1, us + 33, zone(other, number), copy);
        if round == 30 {
            // Another of them was at work when it was submitted.
            game.submit(1, us + 500, zone(other, 1_000), copy);
            let lost = GpuEvent::NoTimes { zone: zone(other, 1_000) };
            game.reads.gpu(&mut game.machine, us + 600, lost, &[]);
        }
        // Of the round before: what lies within comes last.
        if let Some(number) = number.checked_sub(4) {
            let us = us - 1_000;
            game.told(us + 1_500, zone(copies, number), [us + 40, us + 700]);
            game.told(us + 1_501, zone(graphics, number), [us + 100, us + 1_050]);
            game.told(us + 1_502, zone(graphics, number + 2), [us + 400, us + 1_000]);
            game.told(us + 1_502, zone(other, number), [us + 300, us + 900]);
            if round != 20 {
                game.told(us + 1_503, zone(graphics, number + 1), [us + 100, us + 400]);
            } else {
                let lost = GpuEvent::NoTimes { zone: zone(graphics, number + 1) };
                game.reads.gpu(&mut game.machine, us + 1_503, lost, &[]);
            }
        }
    }
    game.reaches(62_000);
    game.capture()
}

/// Plays it as it is recorded, before a viewer that came in time.
fn seen(capture: &[u8], way: u64) -> (StrictViewer, Vec<GpuZone>) {
    let mut viewer = None;
    let mut both = Both::new(|_: u64, live: &mut TracyLive| {
        let viewer = viewer.get_or_insert_with(|| connect(live));
        exchange(live, viewer, 1_000);
    });
    assert!(cuts::play_live_into(&mut both, capture, way));
    let Both { mut live, expected, .. } = both;
    let mut viewer = viewer.expect("something happens");
    end(&mut live, &mut viewer);
    (viewer, expected.gpu_zones)
}

#[test]
fn zones_of_gpus_are_told_with_all_times_and_lie_in_each_other() {
    let (viewer, mut expected) = seen(&frames(), 1);
    let mut told = gpu_zones(viewer.seen());
    told.sort();
    expected.sort();
    assert_eq!(told.len(), 251);
    assert_eq!(told, expected);
    let seen = viewer.seen();
    let contexts: Vec<&str> = seen.contexts.values().map(String::as_str).collect();
    assert_eq!(contexts.len(), 3, "{contexts:?}");
    for name in ["game (100) graphics", "game (100) copies", "game (100) copies #2"] {
        assert!(contexts.contains(&name), "{contexts:?}");
    }
    let of_name = |name: &str| {
        let jobs = seen.jobs.iter().filter(|job| seen.location_name(job.location) == name);
        jobs.map(|job| (job.thread, job.depth)).collect::<Vec<_>>()
    };
    assert!(of_name("frame").iter().all(|job| *job == (101, 0)));
    assert_eq!(of_name("shadows").iter().filter(|job| **job == (101, 1)).count(), 48);
    // Another thread's have a row of their own.
    assert!(of_name("lights").iter().all(|job| *job == (102, 0)));
    // One was said to have none, the last round's were never told.
    let untimed = ["frame", "shadows", "lights", "copy"]
        .map(|name| of_name(&format!("{name} [without times]")).len());
    assert_eq!(untimed, [1, 2, 1, 3]);
    let (_, _, file, line, color) = seen.locations[&seen.jobs[0].location];
    assert_eq!((seen.texts[&file].as_str(), line, color), ("draw.rs", 1, 0x33_66_99));
}

#[test]
fn a_zone_of_four_seconds_is_told_with_what_lies_in_it_and_times_never_go_back() {
    let mut game = Game::new();
    let [epoch, step] = ["epoch", "step"].map(|name| game.program.location(name, "", "", 0, 0));
    let queue = game.queue("compute");
    // The first is waited for as long as anybody is: the others hold nothing back.
    game.submit(0, 10, zone(queue, 1), epoch);
    for second in 0..15 {
        let us = 20 + second * 100_000;
        let number = zone(queue, 10 + second as u32);
        game.submit((second % 2) as usize, us, number, step);
        game.told(us + 50_000, number, [us + 10, us + 40_000]);
    }
    game.told(1_900_000, zone(queue, 1), [15, 1_899_000]);
    game.submit(1, 1_950_000, zone(queue, 2), epoch);
    for second in 0..40 {
        let us = 2_000_000 + second * 100_000;
        let number = zone(queue, 100 + second as u32);
        game.submit((second % 2) as usize, us, number, step);
        game.told(us + 50_000, number, [us + 10, us + 40_000]);
    }
    game.told(6_100_000, zone(queue, 2), [1_960_000, 6_050_000]);
    game.reaches(6_200_000);
    let (viewer, mut expected) = seen(&game.capture(), 0);
    let mut told = gpu_zones(viewer.seen());
    told.sort();
    expected.sort();
    assert_eq!(told, expected);
    let length = |zone: &GpuZone| (zone.gpu[1] - zone.gpu[0]) / 1_000;
    let epochs = told.iter().filter(|zone| zone.name == "epoch").map(length);
    assert_eq!(epochs.collect::<Vec<_>>(), [1_898_985, 4_090_000]);
    // Who waited more than two seconds for its times has a row of its own.
    assert_eq!(viewer.seen().contexts.len(), 2);
}

#[test]
fn a_submission_may_end_after_the_gpu_is_done_and_after_its_times_are_told() {
    let mut game = Game::new();
    let names = ["told late", "told early", "never ends"];
    let [late, early, endless] = names.map(|name| game.program.location(name, "", "", 0, 0));
    let queue = game.queue("graphics");
    let begin = |game: &mut Game, us, number, location| {
        let begin = GpuEvent::ZoneBegin { zone: zone(queue, number), location };
        game.submit[0].gpu(&mut game.machine, us, begin, &[]);
    };
    let end = |game: &mut Game, us, number| {
        let end = GpuEvent::ZoneEnd { zone: zone(queue, number) };
        game.submit[0].gpu(&mut game.machine, us, end, &[]);
    };
    begin(&mut game, 100, 1, late);
    end(&mut game, 200, 1);
    // The first end counts.
    end(&mut game, 210, 1);
    game.told(250, zone(queue, 1), [110, 150]);
    begin(&mut game, 300, 2, early);
    game.told(350, zone(queue, 2), [310, 340]);
    end(&mut game, 400, 2);
    begin(&mut game, 500, 3, endless);
    game.told(550, zone(queue, 3), [510, 540]);
    // It is not waited for without end.
    game.submit(1, 3_000_000, zone(queue, 4), late);
    game.told(3_000_050, zone(queue, 4), [3_000_010, 3_000_040]);
    game.reaches(3_100_000);
    let capture = game.capture();
    let (viewer, _) = seen(&capture, 1);
    let mut of_file = Both::new(|_: u64, _: &mut TracyLive| {});
    let reader = CaptureReader::from_bytes(capture).unwrap();
    Session::open(reader).unwrap().play(&mut of_file).unwrap();
    let (mut told, mut in_file) = (gpu_zones(viewer.seen()), of_file.expected.gpu_zones);
    told.sort();
    in_file.sort();
    assert_eq!(told, in_file);
    let submitted = |zone: &GpuZone| zone.cpu[1] - zone.cpu[0];
    assert_eq!(told.iter().map(submitted).collect::<Vec<_>>(), [100_000, 100_000, 0, 2_000]);
}

#[test]
fn a_zone_that_waits_in_vain_holds_up_others_for_a_while_and_is_told_in_the_end() {
    let mut game = Game::new();
    let [lost, draw] = ["lost", "draw"].map(|name| game.program.location(name, "", "", 0, 0));
    let queue = game.queue("graphics");
    game.submit(0, 10, zone(queue, 1), lost);
    for second in 0..700 {
        let us = 20 + second * 100_000;
        let number = zone(queue, 10 + second as u32);
        game.submit(0, us, number, draw);
        game.told(us + 1_000, number, [us + 10, us + 500]);
    }
    game.reaches(70_200_000);
    let capture = game.capture();
    let (viewer, expected) = seen(&capture, 2);
    // A minute's worth before it, the rest behind.
    let at = expected.iter().position(|zone| zone.name == "lost [without times]").unwrap();
    assert!((590..=610).contains(&at), "{at}");
    assert_eq!(viewer.seen().jobs.len(), 701);
}

#[test]
fn who_comes_later_and_comes_back_hears_of_contexts_before_anything_happens() {
    let mut viewers = Vec::new();
    let mut both = Both::new(|events: u64, live: &mut TracyLive| {
        if [100, 150].contains(&events) {
            live.session().disconnect();
            let mut viewer = connect(live);
            exchange(live, &mut viewer, 10_000);
            assert!(viewer.seen().jobs.is_empty());
            assert_eq!(viewer.seen().contexts.len(), 3, "{:?}", viewer.seen().contexts);
            viewers.push(viewer);
        } else if let Some(viewer) = viewers.last_mut() {
            exchange(live, viewer, 10_000);
        }
    });
    assert!(cuts::play_live_into(&mut both, &frames(), 3));
    let Both { mut live, expected, .. } = both;
    let mut viewer = viewers.pop().unwrap();
    end(&mut live, &mut viewer);
    let mut told = gpu_zones(viewer.seen());
    assert!(told.len() > 80);
    let mut last = expected.gpu_zones[expected.gpu_zones.len() - told.len()..].to_vec();
    told.sort();
    last.sort();
    assert_eq!(told, last);
}

mod many {
    use super::*;
    use std::convert::Infallible;
    use syscollect_model::{
        Event, Exporter as _, GpuJob, GpuJobEnd, MachineId, Process, Scope, Tables, Thread, Time,
        Track, TrackId,
    };

    /// A program with as many queues as it likes.
    struct Queues {
        live: TracyLive,
        tables: Tables,
        time: u64,
    }

    impl Queues {
        fn job(&mut self, pid: u32, queue: &str) -> Result<(), Infallible> {
            let name = self.tables.strings.intern(queue);
            let known = self.tables.processes.iter().position(|process| process.pid == pid);
            let thread = match known {
                Some(process) => {
                    let of = |thread: &Thread| thread.process.index() == process;
                    self.tables.threads.iter().position(of).expect("it has one")
                }
                None => {
                    let process = Process::named(MachineId::FIRST, pid, name);
                    let process = self.tables.add_process(process);
                    self.tables.add_thread(Thread::named(pid, process, name)).index()
                }
            };
            let scope = Scope::Process(self.tables.threads[thread].process);
            let is_it = |track: &Track| track.scope == scope && track.name == name;
            let known = self.tables.tracks.iter().position(is_it);
            let track = known.unwrap_or_else(|| {
                self.tables.tracks.push(Track { scope, name, kind: TrackKind::GpuQueue });
                self.tables.tracks.len() - 1
            });
            self.time += 1_000;
            let thread = Some(syscollect_model::ThreadId(thread as u32));
            let job = GpuJob { thread, end: GpuJobEnd::Finished, ..GpuJob::named(name) };
            let event = Event::GpuJob(TrackId(track as u32), Box::new(job));
            self.live.event(Time(self.time), &event, &self.tables)
        }
    }

    #[test]
    fn who_makes_queues_without_end_takes_no_room_of_others() {
        let (live, tables) = (TracyLive::default(), Tables::default());
        let mut queues = Queues { live, tables, time: 5_000_000_000 };
        queues.live.begin(&queues.tables).unwrap();
        queues.job(20, "honest").unwrap();
        let mut viewer = connect(&mut queues.live);
        for number in 0..2_000 {
            queues.job(30, &format!("hostile {number}")).unwrap();
            exchange(&mut queues.live, &mut viewer, 1 << 20);
        }
        queues.job(20, "honest too").unwrap();
        queues.job(40, "newcomer").unwrap();
        exchange(&mut queues.live, &mut viewer, 1 << 20);
        let seen = viewer.seen();
        let has = |name: &str| seen.contexts.values().any(|context| context.ends_with(name));
        assert!(has("honest") && has("honest too") && has("newcomer"));
        assert!(seen.contexts.len() < 140, "{}", seen.contexts.len());
        let says = |text: &str| seen.messages.iter().any(|one| one.own && one.text.contains(text));
        assert!(says("contexts of GPUs find no room"), "it is said what is missing");
        assert!(says("contexts of GPUs gave way to others"));
        queues.live.session().disconnect();
        let mut viewer = connect(&mut queues.live);
        exchange(&mut queues.live, &mut viewer, 1 << 20);
        let seen = viewer.seen();
        let has = |name: &str| seen.contexts.values().any(|context| context.ends_with(name));
        assert!(has("honest") && has("honest too") && has("newcomer"));
        end(&mut queues.live, &mut viewer);
    }
}
