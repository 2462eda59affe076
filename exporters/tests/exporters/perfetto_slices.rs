//! What programs say of themselves, in a trace.

use crate::decode::{Fields, packets};
use crate::replay::{Replay, Slice, replay};
use crate::scenario::{self, Scenario};
use std::collections::BTreeMap;
use syscollect_exporters::PerfettoExporter;
use syscollect_model as model;
use syscollect_model::{
    Event, Field, FrameImage, Scope, SignalExit, SleepState, SliceUpdate, Time, Track, TrackId,
    TrackKind, Value,
};

fn export(scenario: &Scenario) -> Replay {
    let mut exporter = PerfettoExporter::new(Vec::new());
    scenario.play(&mut exporter, &scenario::session(), &[], None).unwrap();
    replay(&exporter.finish().unwrap())
}

/// A program of one thread with a track for its zones.
fn program() -> (Scenario, TrackId) {
    let mut scenario = Scenario::new();
    let (_, thread) = scenario.process(10, 1, "a", &["/bin/a"]);
    let zones = scenario.zones(thread);
    (scenario, zones)
}

fn find<'a>(reported: &'a Replay, track: &str, name: &str) -> &'a Slice {
    let found: Vec<_> =
        reported.slices.iter().filter(|slice| slice.track == track && slice.name == name).collect();
    assert_eq!(found.len(), 1, "{name} on {track}: {:#?}", reported.slices);
    found[0]
}

fn arguments(slice: &Slice) -> Vec<(&str, &str)> {
    slice.arguments.iter().map(|(name, value)| (&**name, &**value)).collect()
}

#[test]
fn a_zone_lies_on_its_threads_own_track_with_all_that_was_ever_said_of_it() {
    let reported = export(&scenario::game());
    let zone = reported
        .slices
        .iter()
        .find(|slice| slice.name == "update" && slice.arguments.contains_key("name"))
        .unwrap();
    assert_eq!((&*zone.track, zone.end - zone.begin), ("thread 300", 29_000));
    let expected = [
        ("callstack", "main > parse<T> > next_token"),
        ("category", "simulation"),
        ("location", "src/game.rs:10"),
        ("name", "update of 12"),
        ("text", "level 1"),
        ("value", "7"),
    ];
    assert_eq!(arguments(zone), expected);
    assert_eq!(arguments(find(&reported, "thread 300", "left open")), [("unfinished", "1")]);
}

#[test]
fn a_message_is_its_text_and_a_marker_has_its_labels_and_units() {
    let reported = export(&scenario::game());
    let message = find(&reported, "thread 300", "loaded\t3 \u{1b}[1mlevels");
    assert_eq!(arguments(message), [("category", "message"), ("level", "-1")]);
    let expected = [
        ("At", "3735928559"),
        ("Path", "/maps/1"),
        ("Ratio", "1.5"),
        ("Share (%)", "25"),
        ("Size (bytes)", "4096"),
        ("Took (ns)", "1500"),
        ("category", "assets"),
        ("schema", "Load"),
    ];
    assert_eq!(arguments(find(&reported, "thread 300", "map")), expected);
}

#[test]
fn frames_have_their_numbers_on_a_track_of_the_process() {
    let reported = export(&scenario::game());
    let frames: Vec<_> =
        reported.slices.iter().filter(|slice| slice.track == "process 300/Frames").collect();
    let frames: Vec<_> =
        frames.iter().map(|slice| (&*slice.name, slice.end - slice.begin)).collect();
    assert_eq!(frames, [("Frame 1", 38_000), ("Frame 2", 21_000)], "the third did not end");
}

/// Two frames of a program, and an image of the first.
fn with_frame_image() -> Scenario {
    let mut scenario = Scenario::new();
    let (process, _) = scenario.process(10, 1, "a", &["/bin/a"]);
    let kind = TrackKind::Frames { continuous: true, main: true };
    let track = Track { scope: Scope::Process(process), name: scenario.name("Frames"), kind };
    scenario.tables.tracks.push(track);
    let track = TrackId(scenario.tables.tracks.len() as u32 - 1);
    let frame = scenario.name("Frame");
    let at = Time(scenario.time);
    let slice = |number| model::Slice { number: Some(number), ..model::Slice::named(frame) };
    scenario.then(Event::SliceBegin(track, slice(1)));
    scenario.wait(10);
    scenario.then(Event::SliceEnd(track));
    scenario.then(Event::SliceBegin(track, slice(2)));
    scenario.wait(5);
    let (name, width) = (scenario.name("Frame image"), scenario.name("width"));
    let fields = vec![Field::named(width, Value::Unsigned(8))];
    let image = FrameImage {
        at,
        frame: Some(1),
        width: 8,
        height: 4,
        is_flipped: false,
        blocks: [1, 2].into(),
        mark: model::Slice { number: Some(1), fields, ..model::Slice::named(name) },
    };
    scenario.then(Event::FrameImage(track, Box::new(image)));
    scenario.then(Event::SliceEnd(track));
    scenario
}

#[test]
fn an_image_is_a_mark_where_its_frame_began_though_it_is_told_later() {
    let reported = export(&with_frame_image());
    let frames: Vec<_> =
        reported.slices.iter().filter(|slice| slice.track == "process 10/Frames").collect();
    let [image, first, second] = frames[..] else { panic!("{frames:#?}") };
    assert_eq!(
        (&*first.name, &*second.name, &*image.name),
        ("Frame 1", "Frame 2", "Frame image 1")
    );
    assert_eq!((image.begin, image.end), (first.begin, first.begin));
    assert_eq!(arguments(image), [("width", "8")]);
}

#[test]
fn a_lock_shows_who_holds_it_and_a_thread_what_it_waits_for() {
    let reported = export(&scenario::game());
    // The other reader keeps the cache.
    for (track, expected) in [
        ("process 300/Locks/queue", &[("game (300)", 48, 2), ("loader (301)", 51, 3)][..]),
        ("thread 301/Waiting for locks", &[("waiting for queue", 49, 2)]),
        ("process 300/Locks/cache", &[("game (300)", 55, 2)]),
    ] {
        let slices = reported.slices.iter().filter(|slice| slice.track == track).map(|slice| {
            let length = (slice.end - slice.begin) / 1_000;
            (&*slice.name, (slice.begin - scenario::START) / 1_000, length)
        });
        assert_eq!(slices.collect::<Vec<_>>(), expected, "{track}");
    }
    let waits = reported.slices.iter().filter(|slice| slice.name == "waiting for queue");
    let holders: Vec<_> =
        waits.map(|slice| slice.arguments.get("held by").map(String::as_str)).collect();
    assert_eq!(holders, [None, Some("game (300)"), Some("loader (301)")]);
}

#[test]
fn memory_is_a_counter_of_each_pool() {
    let reported = export(&scenario::game());
    for (track, expected) in [
        ("process 300/Memory/heap", &[64.0, 164.0, 100.0, 100.0][..]),
        ("process 300/Memory/textures", &[4096.0]),
        ("process 300/queue", &[3.5]),
    ] {
        let values = reported.counters.iter().filter(|(name, ..)| name == track);
        assert_eq!(values.map(|(.., value)| *value).collect::<Vec<_>>(), expected, "{track}");
    }
}

#[test]
fn a_name_that_a_program_gives_to_its_first_thread_does_not_become_the_processs() {
    let mut scenario = Scenario::new();
    let (process, first) = scenario.process(10, 1, "server", &["/bin/server"]);
    let second = scenario.thread(11, process, "server");
    scenario.switch(0, scenario::IDLE, scenario::off(SleepState::Runnable), first);
    for (thread, name) in [(first, "main loop"), (second, "worker"), (first, "server")] {
        let name = scenario.name(name);
        scenario.then(Event::ThreadName(thread, name));
    }
    let mut exporter = PerfettoExporter::new(Vec::new());
    scenario.play(&mut exporter, &scenario::session(), &[], None).unwrap();
    let packets = packets(&exporter.finish().unwrap());
    let trees = packets.iter().map(|packet| Fields::parse(packet)).filter(|packet| {
        let processes = packet.message(2).messages(1);
        processes.iter().any(|process| process.number(1) == Some(10))
    });
    let times: Vec<_> = trees.map(|packet| packet.number(8).unwrap() - scenario::START).collect();
    assert_eq!(
        times,
        [0, 1_001],
        "at the beginning, and after the one name that is not the process's"
    );
}

#[test]
fn values_that_no_viewer_can_draw_are_left_out() {
    let mut scenario = Scenario::new();
    let (process, _) = scenario.process(10, 1, "a", &["/bin/a"]);
    let plot = scenario.track(Scope::Process(process), "plot", Some("items"));
    for value in [1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -2.0] {
        scenario.then(Event::Counter(plot, value));
    }
    let values: Vec<_> = export(&scenario).counters.iter().map(|(.., value)| *value).collect();
    assert_eq!(values, [1.0, -2.0]);
}

#[test]
fn a_crash_is_on_its_thread_and_its_process() {
    let reported = export(&scenario::game());
    for track in ["thread 301", "process 300/Crash"] {
        let crash = find(&reported, track, "SIGSEGV");
        assert_eq!(crash.arguments["stack"], "next_token < parse<T> < main");
        assert_eq!((&*crash.arguments["address"], &*crash.arguments["tid"]), ("16", "301"));
        assert_eq!(crash.arguments["code"], "SEGV_MAPERR");
    }
}

#[test]
fn a_process_that_a_signal_ended_has_a_track_that_says_so() {
    let mut scenario = Scenario::new();
    let (process, _) = scenario.process(10, 1, "a", &["/bin/a"]);
    let signal = scenario.name("SIGBUS");
    let exit = SignalExit { process, thread: None, signal, is_crash: true, has_core_dump: true };
    scenario.then(Event::SignalExit(exit));
    scenario.then(Event::ProcessEnd(process));
    let reported = export(&scenario);
    let track = "process 10/Ended by a signal";
    let end = find(&reported, track, "ended by SIGBUS, core dumped");
    assert_eq!(arguments(end), [("core dumped", "1"), ("pid", "10"), ("signal", "SIGBUS")]);
}

#[test]
fn ends_without_beginnings_are_left_out_and_slices_of_no_length_are_not() {
    let (mut scenario, zones) = program();
    let [first, second] = ["first", "second"].map(|name| scenario.name(name));
    scenario.then(Event::SliceEnd(zones));
    for name in [first, second] {
        scenario.then(Event::SliceBegin(zones, name.into()));
        scenario.then(Event::SliceEnd(zones));
        scenario.then(Event::SliceEnd(zones));
    }
    scenario.events.iter_mut().for_each(|(time, _)| *time = Time(scenario::START));
    let reported = export(&scenario);
    let names: Vec<_> =
        reported.slices.iter().map(|slice| (&*slice.name, slice.end - slice.begin)).collect();
    assert_eq!(names, [("first", 0), ("second", 0)]);
}

#[test]
fn slices_deeper_than_a_reader_takes_are_counted_in_the_deepest_one() {
    let (mut scenario, zones) = program();
    let name = scenario.name("recursion");
    (0..600).for_each(|_| scenario.then(Event::SliceBegin(zones, name.into())));
    (0..600).for_each(|_| scenario.then(Event::SliceEnd(zones)));
    let reported = export(&scenario);
    assert_eq!(reported.slices.len(), 500);
    assert_eq!(arguments(&reported.slices[0]), [("deeper slices left out", "100")]);
    assert!(reported.slices[1..].iter().all(|slice| slice.arguments.is_empty()));
    assert_eq!(reported.slices[499].end - reported.slices[499].begin, 1_199_000);
}

#[test]
fn a_slice_that_says_more_and_more_keeps_a_bounded_number_of_fields() {
    let (mut scenario, zones) = program();
    let name = scenario.name("chatty");
    scenario.then(Event::SliceBegin(zones, name.into()));
    for number in 0..1_000 {
        let name = scenario.name(&format!("field {}", number % 100));
        let field = Field::named(name, Value::Unsigned(number));
        scenario.then(Event::SliceUpdate(
            zones,
            SliceUpdate { fields: vec![field], ..SliceUpdate::default() },
        ));
    }
    scenario.then(Event::SliceEnd(zones));
    let reported = export(&scenario);
    let expected: BTreeMap<_, _> =
        (0..64).map(|n| (format!("field {n}"), format!("{}", 900 + n))).collect();
    assert_eq!(reported.slices[0].arguments, expected, "the first fields, with their last values");
}

#[test]
fn names_and_texts_of_any_length_and_letters_survive() {
    let (mut scenario, zones) = program();
    let odd = "a\u{0}b\u{1b}[31m\n\u{202e}\"\u{fffd}".to_owned() + &"n".repeat(64 << 10);
    let name = scenario.name(&odd);
    let fields = [Value::Text(odd.as_str().into()), Value::String(name)]
        .map(|value| Field::named(name, value));
    for field in fields {
        let slice = syscollect_model::Slice { fields: vec![field], ..name.into() };
        scenario.then(Event::SliceBegin(zones, slice));
        scenario.then(Event::SliceEnd(zones));
    }
    let reported = export(&scenario);
    assert_eq!(reported.slices.len(), 2);
    assert!(reported.slices.iter().all(|slice| slice.name == odd && slice.arguments[&odd] == odd));
}

#[test]
fn a_track_that_a_program_calls_zones_is_not_its_threads_own() {
    let mut scenario = Scenario::new();
    let (_, thread) = scenario.process(10, 1, "a", &["/bin/a"]);
    let (named, name) =
        (scenario.track(Scope::Thread(thread), "Zones", None), scenario.name("work"));
    scenario.then(Event::SliceBegin(named, name.into()));
    scenario.then(Event::SliceEnd(named));
    let reported = export(&scenario);
    assert!(reported.slices[0].track.ends_with("Zones"), "{}", reported.slices[0].track);
}
