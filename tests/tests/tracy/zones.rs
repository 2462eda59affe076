//! What zones and messages say.

use crate::scenario::Scenario;
use syscollect_model::{
    Event, Field, FieldRole, Message, MessageText, Scope, Slice, SliceUpdate, ThreadId, TrackId,
    Value,
};
use syscollect_tests::tracy_reader::{SourceLocation, TracyFile, Zone};

/// A thread with its track of zones.
fn zones(scenario: &mut Scenario) -> (ThreadId, TrackId) {
    let thread = scenario.task(5, "app");
    (thread, scenario.zones(thread))
}

fn own(trace: &TracyFile) -> &[Zone] {
    &trace.thread("app / app").unwrap().zones
}

#[test]
fn a_zone_keeps_its_place_colour_and_call_stack() {
    let mut scenario = Scenario::new(1);
    let (_, track) = zones(&mut scenario);
    let (location, stack) =
        (scenario.location("load", "src/assets.rs", 40), scenario.stack(&["load", "main"]));
    let name = scenario.name("load assets");
    let slice = Slice {
        location: Some(location),
        color: Some(0xff_80_10),
        stack: Some(stack),
        ..Slice::named(name)
    };
    scenario.at(1, Event::SliceBegin(track, slice));
    scenario.at(2, Event::SliceEnd(track));
    let trace = scenario.read();

    let zone = &own(&trace)[0];
    let location = SourceLocation {
        name: Some("load assets".into()),
        function: "load".into(),
        file: "src/assets.rs".into(),
        line: 40,
        color: 0x10_80_ff,
    };
    assert_eq!((&zone.location, &*zone.name, zone.color), (&location, "load assets", 0x10_80_ff));
    assert_eq!(trace.stack_names(zone.callstack), ["load", "main"]);
}

#[test]
fn a_zone_says_its_text_first_and_then_its_fields() {
    let mut scenario = Scenario::new(1);
    let (_, track) = zones(&mut scenario);
    let fields = vec![
        Field::new(FieldRole::Value, scenario.name("value"), Value::Unsigned(7)),
        scenario.text("two\nlines\0"),
        scenario.field("took", Value::Duration(1_500_000)),
        scenario.field("at", Value::Address(0xff)),
        scenario.field("share", Value::Percentage(0.25)),
    ];
    let name = scenario.name("zone");
    scenario.at(1, Event::SliceBegin(track, Slice { fields, ..Slice::named(name) }));
    scenario.at(2, Event::SliceEnd(track));
    let text = "two\nlines\\u{0}\nvalue: 7\ntook: 1.5 ms\nat: 0xff\nshare: 25 %";
    assert_eq!(own(&scenario.read())[0].text, text);
}

#[test]
fn what_is_learned_of_a_zone_later_is_in_it() {
    let mut scenario = Scenario::new(1);
    let (_, track) = zones(&mut scenario);
    let begin = scenario.saying("request", "first");
    let (name, fields) = (scenario.name("GET"), vec![scenario.text("second")]);
    let color = Some(0);
    scenario.at(1, Event::SliceUpdate(track, SliceUpdate::default()));
    scenario.at(1, Event::SliceBegin(track, begin.clone()));
    scenario.at(2, Event::SliceBegin(track, begin));
    scenario.at(
        3,
        Event::SliceUpdate(
            track,
            SliceUpdate { name: Some((name, Some(404))), color, fields, unfinished: true },
        ),
    );
    scenario.at(4, Event::SliceEnd(track));
    let trace = scenario.read();

    let (outer, inner) = (&own(&trace)[0], &own(&trace)[0].children[0]);
    assert_eq!((&*outer.name, &*outer.text, outer.end), ("request", "first", -1));
    assert_eq!((&*inner.name, &*inner.text, inner.end), ("GET 404", "second\n[unfinished]", 4));
    assert_eq!((inner.color, &inner.location), (1, &outer.location), "black is not none");
}

#[test]
fn zones_with_numbers_share_one_location() {
    let mut scenario = Scenario::new(1);
    let (_, track) = zones(&mut scenario);
    let name = scenario.name("Job");
    for index in 0..100 {
        scenario.at(
            2 * index + 1,
            Event::SliceBegin(track, Slice { number: Some(index), ..Slice::named(name) }),
        );
        scenario.at(2 * index + 2, Event::SliceEnd(track));
    }
    let trace = scenario.read();
    assert!(own(&trace).iter().zip(0..).all(|(zone, index)| zone.name == format!("Job {index}")));
    assert!(own(&trace).iter().all(|zone| zone.location.name.as_deref() == Some("Job")));
}

#[test]
fn forty_thousand_names_of_one_place_keep_their_names_and_leave_room_for_others() {
    let mut scenario = Scenario::new(1);
    let (_, track) = zones(&mut scenario);
    let location = Some(scenario.location("run", "script.rs", 1));
    for index in 0..40_000u64 {
        let name = scenario.name(&format!("script {index}"));
        scenario
            .at(2 * index + 1, Event::SliceBegin(track, Slice { location, ..Slice::named(name) }));
        scenario.at(2 * index + 2, Event::SliceEnd(track));
    }
    let trace = scenario.read();
    assert!(
        own(&trace).iter().zip(0..).all(|(zone, index)| zone.name == format!("script {index}"))
    );
    assert!(own(&trace).iter().all(|zone| zone.location.function == "run"));
}

#[test]
fn tracks_of_one_thread_that_nest_are_one_timeline() {
    let mut scenario = Scenario::new(1);
    let (thread, zones) = zones(&mut scenario);
    let probes = scenario.track(Scope::Thread(thread), "python3");
    let [outer, call, inner] = ["outer", "call", "inner"].map(|name| scenario.name(name));
    scenario.at(1, Event::SliceBegin(probes, outer.into()));
    scenario.at(2, Event::SliceBegin(zones, call.into()));
    scenario.at(3, Event::SliceBegin(probes, inner.into()));
    scenario.at(3, Event::SliceEnd(probes));
    scenario.at(4, Event::SliceEnd(zones));
    scenario.at(5, Event::SliceEnd(probes));
    let trace = scenario.read();
    assert_eq!(trace.threads.len(), 1);
    let found = &own(&trace)[0];
    assert_eq!(
        [&*found.name, &*found.children[0].name, &*found.children[0].children[0].name],
        ["outer", "call", "inner"]
    );
}

#[test]
fn rows_of_an_async_track_are_threads_of_one_name() {
    let mut scenario = Scenario::new(1);
    let process = scenario.process(5, "app");
    scenario.thread(process, 5, "app");
    let rows = [0, 1].map(|_| scenario.track(Scope::Process(process), "requests"));
    let name = scenario.name("request");
    for (at, row) in (1..).zip(rows) {
        scenario.at(at, Event::SliceBegin(row, name.into()));
    }
    for (at, row) in (5..).zip(rows) {
        scenario.at(at, Event::SliceEnd(row));
    }
    let trace = scenario.read();
    let names: Vec<&str> =
        trace.threads.iter().map(|thread| &*trace.thread_names[&thread.id]).collect();
    assert_eq!(names, ["app / requests"; 2]);
    let times: Vec<_> =
        trace.threads.iter().map(|thread| (thread.zones[0].start, thread.zones[0].end)).collect();
    assert_eq!(times, [(1, 5), (2, 6)]);
}

#[test]
fn a_message_is_its_text_with_its_colour_and_call_stack() {
    let mut scenario = Scenario::new(1);
    let (_, track) = zones(&mut scenario);
    let message = Message {
        category: scenario.name("message"),
        text: Some(MessageText::Written("disk is full".into())),
        color: Some(0x01_02_03),
        stack: Some(scenario.stack(&["warn"])),
        fields: vec![scenario.field("size", Value::Bytes(9))],
    };
    scenario.at(1, Event::Message(track, message));
    let hit = scenario.saying("python:gc__start", "2");
    scenario.at(2, Event::Instant(track, hit));
    let trace = scenario.read();

    let [message, hit] = &trace.messages[..] else { panic!("{:?}", trace.messages) };
    assert_eq!((&*message.text, message.color), ("disk is full (size: 9 bytes)", 0xff_03_02_01));
    assert_eq!(trace.stack_names(message.callstack), ["warn"]);
    assert_eq!((&*hit.text, hit.color, hit.callstack), ("python:gc__start: 2", 0xffff_ffff, 0));
    assert_eq!(trace.thread_names[&hit.thread], "app / app");
}
