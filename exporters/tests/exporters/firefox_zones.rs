//! What programs say of themselves, in profiles for the Firefox Profiler.

use crate::firefox_reader::{Marker, Profile};
use crate::scenario::{self, Scenario};
use proptest::prelude::*;
use serde_json::{Value as Json, json};
use syscollect_exporters::{FirefoxExporter, FirefoxOptions};
use syscollect_model::{
    Event, Field, Location, LocationId, Lock, LockAction, LockEvent, LockId, MachineId,
    MemoryEvent, Message, MessageText, Schema, SchemaField, SchemaId, Scope, SignalExit, Slice,
    SliceUpdate, ThreadId, Track, TrackId, TrackKind, Value,
};

fn profile_with(scenario: &Scenario, options: FirefoxOptions) -> Profile {
    let mut exporter = FirefoxExporter::new(Vec::new(), options);
    scenario.play(&mut exporter, &scenario::session(), &[], None).unwrap();
    let expected = exporter.expected_bytes();
    let file = exporter.finish().unwrap();
    assert!(
        file.len() as u64 / 4 < expected && expected < file.len() as u64 * 4,
        "{expected} of {}",
        file.len()
    );
    Profile::read(&file)
}

fn profile(scenario: &Scenario) -> Profile {
    profile_with(scenario, FirefoxOptions::default())
}

/// The markers of a thread by name.
fn named<'a>(profile: &'a Profile, tid: &str, name: &str) -> Vec<Marker<'a>> {
    let markers = profile.thread_markers(profile.thread(tid));
    markers.into_iter().filter(|marker| marker.name == name).collect()
}

/// A marker's field, strings of the table as such.
fn field(profile: &Profile, marker: &Marker<'_>, key: &str) -> Json {
    let fields =
        profile.schema(marker.data["type"].as_str().unwrap())["fields"].as_array().unwrap();
    let format = &fields.iter().find(|field| field["key"] == key).unwrap()["format"];
    match &marker.data[key] {
        row if format == "unique-string" && !row.is_null() => profile.string(row).into(),
        value => value.clone(),
    }
}

fn one_thread() -> (Scenario, ThreadId, TrackId) {
    let mut scenario = Scenario::new();
    let (_, thread) = scenario.process(7, 1, "app", &[]);
    let track = scenario.zones(thread);
    (scenario, thread, track)
}

fn zone(scenario: &mut Scenario, track: TrackId, slice: Slice) {
    scenario.then(Event::SliceBegin(track, slice));
    scenario.then(Event::SliceEnd(track));
}

#[test]
fn a_zone_has_its_texts_place_colour_category_and_stack() {
    let profile = profile(&scenario::game());
    let update = named(&profile, "300", "update of");
    let [update] = update[..] else { panic!("{update:?}") };
    let values = ["text", "value", "number", "place", "function", "color"]
        .map(|key| field(&profile, &update, key));
    assert_eq!(json!(values), json!(["level 1", 7, 12, "src/game.rs:10", "update", "blue"]));
    assert_eq!((update.category, &update.data["type"]), ("simulation", &"zone".into()));
    assert_eq!(profile.stack(&update.data["cause"]["stack"])[0].function, "next_token");
    assert!(update.end.unwrap() - update.start > 0.02, "milliseconds");

    let inner = &named(&profile, "300", "update")[0];
    assert_eq!(
        (field(&profile, inner, "text"), field(&profile, inner, "place")),
        ("level 3".into(), "src/game.rs:20".into())
    );
    assert_eq!(profile.schema("zone")["isStackBased"], true);
    assert!(!named(&profile, "300", "left open")[0].data["unfinished"].is_null());
}

#[test]
fn a_message_is_its_text() {
    let profile = profile(&scenario::game());
    let messages = profile.markers("message");
    assert_eq!(messages.len(), 1);
    let data = messages[0].1;
    let expected = (&"loaded\t3 \u{1b}[1mlevels".into(), &(-1).into(), &"red".into());
    assert_eq!((&data["text"], &data["level"], &data["color"]), expected);
    assert_eq!(profile.schema("message")["tableLabel"], "{marker.data.text}");
}

#[test]
fn a_typed_marker_has_a_schema_with_the_formats_of_its_fields() {
    let profile = profile(&scenario::game());
    let marker = named(&profile, "300", "map")[0];
    assert_eq!((&marker.data["type"], marker.category), (&"Load".into(), "assets"));
    let keys = ["path", "took", "size", "share", "at", "ratio"];
    let values = keys.map(|key| field(&profile, &marker, key));
    assert_eq!(
        json!(values),
        json!(["/maps/1", 0.0015, 4_096, 0.25, "0xdeadbeef", 1.5]),
        "durations are milliseconds"
    );
    let fields = profile.schema("Load")["fields"].as_array().unwrap();
    let formats: Vec<_> =
        fields[..6].iter().map(|field| (&field["label"], &field["format"])).collect();
    let expected = json!([
        ["Path", "string"],
        ["Took", "duration"],
        ["Size", "bytes"],
        ["Share", "percentage"],
        ["At", "string"],
        ["Ratio", "decimal"],
    ]);
    assert_eq!(json!(formats), expected);
}

#[test]
fn frames_and_overlapping_tasks_lie_under_the_first_thread() {
    let profile = profile(&scenario::game());
    let frames: Vec<_> = named(&profile, "300", "Frames")
        .iter()
        .map(|frame| frame.data["number"].as_u64())
        .collect();
    assert_eq!(frames, [Some(1), Some(2), Some(3)]);
    let tasks = named(&profile, "300", "request");
    assert!(tasks[0].end > Some(tasks[1].start), "they overlap");
    assert!(tasks.iter().all(|task| task.data["type"] == "task" && field(&profile, task, "track") == "requests"));
    assert_eq!(profile.schema("task")["isStackBased"], false, "so they do not nest");
}

#[test]
fn a_plot_is_a_counter_of_its_process_with_its_unit() {
    let profile = profile(&scenario::game());
    assert_eq!(profile.counter("queue (items)").last().unwrap().1, 3.5);
    let counters = profile.json["counters"].as_array().unwrap();
    assert_eq!(
        counters.iter().find(|counter| counter["name"] == "queue (items)").unwrap()["pid"],
        "300"
    );
}

#[test]
fn who_waits_for_a_lock_and_who_holds_it_are_markers() {
    let profile = profile(&scenario::game());
    let [waits, other_waits] = ["300", "301"].map(|tid| locks(&profile, tid, "Lock wait"));
    let main = [
        ["queue".into(), "yes".into(), Json::Null],
        ["queue".into(), "no".into(), "loader (301)".into()],
    ];
    assert_eq!(waits, main);
    let other: [Json; 3] = ["queue".into(), "yes".into(), "game (300)".into()];
    assert_eq!(other_waits, [other]);
    for tid in ["300", "301"] {
        // The second of the other thread has not ended.
        assert_eq!(locks(&profile, tid, "Lock held"), [lock("queue"), lock("cache")], "{tid}");
    }
    let open = named(&profile, "301", "Lock held")[1];
    assert_eq!((open.end, &open.data["shared"], open.category), (None, &"yes".into(), "Lock"));
}

/// Lock, whether it was obtained, and who held it.
fn locks(profile: &Profile, tid: &str, name: &str) -> Vec<[Json; 3]> {
    let markers = named(profile, tid, name);
    let keys = ["lock", "obtained", "holder"];
    markers.iter().map(|marker| keys.map(|key| field(profile, marker, key))).collect()
}

fn lock(name: &str) -> [Json; 3] {
    [name.into(), Json::Null, Json::Null]
}

#[test]
fn memory_is_a_counter_of_each_pool() {
    let profile = profile(&scenario::game());
    // Of the heap 64 of 164 are freed.
    for (name, expected) in
        [("Memory: textures", &[0.0, 4_096.0][..]), ("Memory", &[0.0, 164.0, 100.0])]
    {
        let values: Vec<f64> = profile.counter(name).iter().map(|(_, value)| *value).collect();
        assert_eq!(values, expected, "{name}");
    }
    let counters = profile.json["counters"].as_array().unwrap();
    let memory = counters.iter().find(|counter| counter["name"] == "Memory").unwrap();
    assert_eq!((&memory["category"], &memory["pid"]), (&"Memory".into(), &"300".into()));
}

#[test]
fn a_crash_has_its_signal_and_stack() {
    let profile = profile(&scenario::game());
    let crash = named(&profile, "301", "Crash")[0];
    assert_eq!(
        (&crash.data["signal"], &crash.data["address"]),
        (&"SIGSEGV".into(), &"0x10".into())
    );
    assert_eq!(crash.data["code"], "SEGV_MAPERR");
    assert_eq!(profile.stack(&crash.data["cause"]["stack"])[0].function, "next_token");
}

#[test]
fn a_process_that_a_signal_ended_has_a_marker_that_says_so() {
    let (mut scenario, thread, _) = one_thread();
    let (process, signal) = (scenario.tables.thread(thread).process, scenario.name("SIGKILL"));
    let exit = SignalExit { process, thread: None, signal, is_crash: false, has_core_dump: false };
    scenario.then(Event::SignalExit(exit));
    let profile = profile(&scenario);
    let ends = named(&profile, "7", "Ended by a signal");
    assert_eq!(ends[0].data, &json!({"type": "signalExit", "signal": "SIGKILL"}));
}

#[test]
fn schemas_of_one_name_are_told_apart_and_equal_ones_are_one() {
    let (mut scenario, _, track) = one_thread();
    let [name, a, b, category] = ["Load", "a", "b", "io"].map(|text| scenario.name(text));
    for field in [a, b, a] {
        let fields = vec![SchemaField {
            name: field,
            label: field,
            format: syscollect_model::FieldFormat::Integer,
        }];
        scenario.tables.schemas.push(Schema { name, category: Some(category), fields });
    }
    for (id, field) in (0..).zip([a, b, a]) {
        let fields = vec![Field::named(field, Value::Unsigned(u64::from(id)))];
        let slice = Slice { schema: Some(SchemaId(id)), fields, ..Slice::named(name) };
        scenario.then(Event::Instant(track, slice));
    }
    let profile = profile(&scenario);
    let found: Vec<_> = named(&profile, "7", "Load")
        .iter()
        .map(|marker| (marker.data.clone(), marker.category))
        .collect();
    let expected = [
        (json!({"type": "Load", "a": 0}), "io"),
        (json!({"type": "Load (2)", "b": 1}), "io"),
        (json!({"type": "Load", "a": 2}), "io"),
    ];
    assert_eq!(found, expected);
}

#[test]
fn ten_thousand_names_of_one_place_are_few_rows_and_each_is_told() {
    let (mut scenario, _, track) = one_thread();
    let [function, file] = ["run", "script.rs"].map(|text| scenario.name(text));
    scenario.tables.locations.push(Location { function, file, line: 0 });
    for index in 0..10_000 {
        let name = scenario.name(&format!("script {index}"));
        zone(&mut scenario, track, Slice { location: Some(LocationId(0)), ..Slice::named(name) });
    }
    let profile = profile(&scenario);
    let markers = profile.thread_markers(profile.thread("7"));
    let names: std::collections::BTreeSet<&str> =
        markers.iter().map(|marker| marker.name).collect();
    assert_eq!(names.len(), 17);
    for (index, marker) in markers.iter().enumerate() {
        let reported = marker.data["name"].as_str().unwrap_or(marker.name);
        assert_eq!(reported, format!("script {index}"));
    }
}

#[test]
fn without_places_names_are_bounded_too() {
    let (mut scenario, _, track) = one_thread();
    for index in 0..5_000 {
        let name = scenario.name(&format!("zone {index}"));
        zone(&mut scenario, track, name.into());
    }
    let profile = profile(&scenario);
    let markers = profile.thread_markers(profile.thread("7"));
    assert_eq!(markers.iter().filter(|marker| marker.name == "zone").count(), 5_000 - 4_096);
    assert_eq!(
        (markers.last().unwrap().name, &markers.last().unwrap().data["name"]),
        ("zone", &"zone 4999".into())
    );
}

#[test]
fn long_and_odd_texts_come_back_as_they_were() {
    let texts = ["", "tab\tnul\0line\nquote\"back\\", "äöü 線程 🧵", &"x".repeat(1 << 20)];
    let (mut scenario, _, track) = one_thread();
    let name = scenario.name("zone");
    for text in texts {
        let fields = vec![scenario.text(text)];
        zone(&mut scenario, track, Slice { fields, ..Slice::named(name) });
    }
    let profile = profile(&scenario);
    let found: Vec<_> =
        named(&profile, "7", "zone").iter().map(|marker| marker.data["text"].clone()).collect();
    assert_eq!(found, texts.map(Json::from));
}

#[test]
fn what_ends_without_beginning_is_nothing_and_more_of_nothing_too() {
    let (mut scenario, thread, track) = one_thread();
    let process = scenario.tables.thread(thread).process;
    let name = scenario.name("lock");
    scenario.tables.locks.push(Lock { process, name, shared: false, location: None });
    scenario.then(Event::SliceUpdate(track, SliceUpdate::default()));
    scenario.then(Event::SliceEnd(track));
    for action in [LockAction::Release, LockAction::GiveUp] {
        scenario.then(Event::Lock(LockEvent {
            lock: LockId(0),
            thread,
            action,
            shared: false,
            location: None,
        }));
    }
    let profile = profile(&scenario);
    assert!(profile.threads().iter().all(|thread| profile.thread_markers(thread).is_empty()));
}

#[test]
fn a_program_that_is_left_out_leaves_no_counter_and_no_marker() {
    let options = FirefoxOptions { process: "other".parse().ok(), ..FirefoxOptions::default() };
    let profile = profile_with(&scenario::game(), options);
    assert_eq!(profile.threads().len(), 1, "the machine");
    assert!(profile.json["counters"].as_array().unwrap().is_empty());
    let strings = profile.json["shared"]["stringArray"].as_array().unwrap();
    assert!(!strings.contains(&"update".into()), "nor do its names stay behind: {strings:?}");
}

proptest! {
    #[test]
    fn whatever_programs_say_the_profile_is_sound_and_every_beginning_is_a_marker(
        steps in prop::collection::vec((0u8..9, 0usize..4, 0u64..4), 0..150),
    ) {
        let (mut scenario, thread, own) = one_thread();
        let process = scenario.tables.thread(thread).process;
        let frames = scenario.name("Frames");
        let frames = Track {
            scope: Scope::Process(process),
            name: frames,
            kind: TrackKind::Frames { continuous: true, main: true },
        };
        let tracks = [
            own,
            scenario.track(Scope::Process(process), "tasks", None),
            scenario.track(Scope::Machine(MachineId::FIRST), "all", None),
            scenario.tables.add_track(frames),
        ];
        let name = scenario.name("lock");
        scenario.tables.locks.push(Lock { process, name, shared: true, location: None });
        let (mut begun, mut instants, mut messages) = (0, 0, 0);
        for (what, which, number) in steps {
            let track = tracks[which];
            let name = scenario.name(&format!("n{number}"));
            let value = [
                Value::Unsigned(number),
                Value::Float(f64::NAN),
                Value::Text("t".into()),
                Value::Bytes(1),
            ][which]
                .clone();
            let fields = vec![Field::named(name, value)];
            let action =
                [LockAction::Wait, LockAction::Obtain, LockAction::Release, LockAction::GiveUp]
                    [which];
            let event = match what {
                0..=2 => {
                    begun += 1;
                    Event::SliceBegin(
                        track,
                        Slice { fields, number: Some(number), ..Slice::named(name) },
                    )
                }
                3 | 4 => Event::SliceEnd(track),
                5 => Event::SliceUpdate(
                    track,
                    SliceUpdate { fields, unfinished: number == 0, ..SliceUpdate::default() },
                ),
                6 if number == 0 => {
                    messages += 1;
                    let text = Some(MessageText::Interned { string: name, number: Some(number) });
                    Event::Message(
                        track,
                        Message { category: name, text, color: None, stack: None, fields },
                    )
                }
                6 => {
                    instants += 1;
                    Event::Instant(track, Slice { fields, ..Slice::named(name) })
                }
                7 => Event::Lock(LockEvent {
                    lock: LockId(0),
                    thread,
                    action,
                    shared: number == 0,
                    location: None,
                }),
                _ => {
                    let allocated = (which > 1).then_some(number);
                    Event::Memory(MemoryEvent {
                        thread,
                        pool: None,
                        address: number,
                        allocated,
                        stack: None,
                    })
                }
            };
            scenario.then(event);
        }
        let profile = profile(&scenario);
        let kinds = ["zone", "task", "frame"];
        let [zones, tasks, frames] = kinds.map(|kind| profile.markers(kind).len());
        prop_assert_eq!(zones + tasks + frames, begun);
        prop_assert_eq!(profile.markers("mark").len(), instants);
        prop_assert_eq!(profile.markers("message").len(), messages);
    }
}
