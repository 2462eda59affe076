//! Zones and what is said of them.

use crate::balance::Balance;
use syscollect_exporters::TextExporter;
use syscollect_model::{Lane, LaneKind, LossCause, ProgramTicks, Time};
use syscollect_playback::Recording;
use syscollect_records::task_state;
use syscollect_tests::client::{color, ended_stack, stack, tag, text, value};
use syscollect_tests::{FIRST_BOOTTIME, FIRST_RAW, FakeMachine, FakeProgram, golden};
use syscollect_zone_protocol::{FieldFormat, ItemKind, StackEnding, TextRole, Value, ZONE_VALUE};

/// A machine with a program of one thread, number 100.
fn machine() -> (FakeMachine, FakeProgram) {
    let mut machine = FakeMachine::new(1);
    machine.process(100, 1, "server", &[(100, "server"), (101, "worker")]);
    let program = FakeProgram::new(&mut machine, 1, 100);
    (machine, program)
}

#[test]
fn zones_lie_between_the_switches_of_their_thread() {
    let (mut machine, mut program) = machine();
    let handle = program.location("handle", "server::handle", "src/server.rs", 40, 0x33_6699);
    let query = program.location("query", "", "", 0, 0);
    let (rows, frame) = (program.string("rows"), program.string("Frame"));
    machine.switch(0, 5, task_state::RUNNABLE, 101);
    let mut worker = program.thread(0, 101);
    worker.attached(&mut machine, 8, "db worker");
    let words = [
        text(TextRole::ZoneText, 0, "GET /"),
        text(TextRole::ZoneText, 0, "a second line, which is longer"),
    ];
    worker.begin(&mut machine, 10, handle, &words);
    worker.begin(
        &mut machine,
        12,
        query,
        &[color(0xff_0000), value(ZONE_VALUE, Value::Unsigned(7))],
    );
    machine.switch(0, 13, task_state::INTERRUPTIBLE, 0);
    machine.switch(0, 17, task_state::RUNNABLE, 101);
    worker.words(&mut machine, 18, &value(rows, Value::Signed(-3)));
    worker.words(&mut machine, 18, &text(TextRole::ZoneText, 0, "said later"));
    worker.words(&mut machine, 18, &text(TextRole::ZoneText, 0, "and once more"));
    worker.words(&mut machine, 18, &tag(TextRole::ZoneName, frame, 1234));
    worker.end(&mut machine, 20);
    worker.end(&mut machine, 22);
    program.finish(&mut machine);
    golden::check("zones", &mut golden::open(machine.finish()));
}

#[test]
fn stacks_of_zones_say_how_they_ended() {
    let (mut machine, mut program) = machine();
    machine.mapping(100, 0x40_0000, 0x40_1000, 0, "/bin/server");
    let asked = program.location("asked", "", "", 0, 0);
    let mut thread = program.thread(0, 101);
    // An older client's does not say it.
    let mut stacks = vec![stack(&[0x40_0101, 0x40_0201])];
    let endings = [
        StackEnding::Start,
        StackEnding::TooDeep,
        StackEnding::NoUnwindInformation,
        StackEnding::Unreadable,
        StackEnding::UnusableInformation,
        StackEnding::Other,
    ];
    // In two items, of which the last says it.
    let addresses = [0x40_0101, 0x40_0201, 0x40_0301, 0x40_0401];
    stacks.extend(endings.map(|ending| ended_stack(&addresses, ending)));
    // What leads out of all code is cut there, whatever it says.
    stacks.push(ended_stack(&[0x40_0101, 0x1234_5678, 0x40_0301], StackEnding::Start));
    for (us, stack) in (0..).map(|index| 10 + index * 4).zip(stacks) {
        thread.begin(&mut machine, us, asked, &[stack]);
        thread.end(&mut machine, us + 2);
    }
    program.finish(&mut machine);
    golden::check("zone_stacks", &mut golden::open(machine.finish()));
}

#[test]
fn what_is_said_of_a_zone_is_not_said_of_what_came_in_between() {
    let (mut machine, mut program) = machine();
    let work = program.location("work", "", "", 0, 0);
    let schema = program.schema("Read", "", &[("size", FieldFormat::Bytes)]);
    let mut thread = program.thread(0, 101);
    let m = &mut machine;
    thread.begin(m, 1, work, &[]);
    thread.item(m, 2, ItemKind::AsyncBegin, &[work.into(), 1, 0], &[]);
    thread.words(m, 2, &value(ZONE_VALUE, Value::Unsigned(1)));
    thread.item(m, 3, ItemKind::Marker, &[schema.into()], &[value(0, Value::Unsigned(64))]);
    thread.words(m, 3, &value(ZONE_VALUE, Value::Unsigned(2)));
    thread.words(m, 3, &color(0x00_00ff));
    thread.item(m, 4, ItemKind::AsyncEnd, &[1], &[]);
    thread.end(m, 5);
    program.finish(m);
    let (lines, _) = golden::text(&mut golden::open(machine.finish()));
    assert!(lines.contains("worker/101 Zones   + value=1"), "{lines}");
    assert!(lines.contains("worker/101 Zones   + value=2 #0000ff"), "{lines}");
    assert!(lines.contains("work BEGIN work\n") && lines.contains("<Read> size=64B\n"), "{lines}");
}

#[test]
fn a_recording_that_starts_late_is_told_which_zones_are_open_and_a_thread_that_ends_closes_them() {
    let (mut machine, mut program) = machine();
    let (outer, inner) = (
        program.location("outer", "f", "a.rs", 1, 0),
        program.location("inner", "g", "a.rs", 2, 0),
    );
    let mut thread = program.thread(0, 101);
    thread.depth = 2;
    thread.attached(&mut machine, 10, "late");
    thread.open_zone(&mut machine, 10, outer, 0, 4);
    thread.open_zone(&mut machine, 10, inner, 1, 9);
    thread.end(&mut machine, 15);
    thread.begin(&mut machine, 16, inner, &[]);
    machine.exit(0, 20, (101, 100), "worker");
    program.finish(&mut machine);
    golden::check("zones_late", &mut golden::open(machine.finish()));
}

#[test]
fn after_a_loss_the_thread_says_again_what_is_open() {
    let (mut machine, mut program) = machine();
    let names = ["a", "b", "c"].map(|name| program.location(name, "", "", 0, 0));
    let mut thread = program.thread(0, 101);
    thread.attached(&mut machine, 1, "");
    thread.begin(&mut machine, 2, names[0], &[]);
    thread.begin(&mut machine, 3, names[1], &[]);
    // Lost: the end of b and the beginning of c.
    thread.item(&mut machine, 10, ItemKind::Lost, &[2], &[]);
    thread.attached(&mut machine, 10, "");
    thread.open_zone(&mut machine, 10, names[0], 0, 2);
    thread.open_zone(&mut machine, 10, names[2], 1, 7);
    thread.end(&mut machine, 12);
    thread.end(&mut machine, 13);
    machine.declare("zones", None, LossCause::LaneFull, 2);
    program.finish(&mut machine);
    golden::check("zones_lost", &mut golden::open(machine.finish()));
}

#[test]
fn zones_that_are_known_go_on_when_they_are_said_again() {
    let (mut machine, mut program) = machine();
    let names = ["a", "b", "c"].map(|name| program.location(name, "", "", 0, 0));
    let mut thread = program.thread(0, 101);
    (1..).zip(names).for_each(|(us, name)| thread.begin(&mut machine, us, name, &[]));
    thread.attached(&mut machine, 10, "");
    (0..).zip(names).for_each(|(depth, name)| {
        thread.open_zone(&mut machine, 10, name, depth, u64::from(depth) + 1);
    });
    (11..14).for_each(|us| thread.end(&mut machine, us));
    program.finish(&mut machine);
    let (lines, played) = golden::text(&mut golden::open(machine.finish()));
    assert_eq!((lines.matches("BEGIN").count(), played.events), (3, 3), "{lines}");
    assert!(!lines.contains("unfinished") && !lines.contains("began_before"), "{lines}");
}

#[test]
fn a_chunk_that_is_missing_leaves_no_zone_open_for_longer_than_it_was() {
    let (mut machine, mut program) = machine();
    let names = ["a", "b", "c"].map(|name| program.location(name, "", "", 0, 0));
    let mut thread = program.thread(3, 101);
    thread.begin(&mut machine, 1, names[0], &[]);
    thread.begin(&mut machine, 2, names[1], &[]);
    machine.end_chunk(thread.to());
    thread.end(&mut machine, 3);
    thread.end(&mut machine, 4);
    thread.begin(&mut machine, 5, names[2], &[]);
    assert_eq!(machine.drop_chunk(thread.to()), 3);
    thread.end(&mut machine, 9);
    thread.begin(&mut machine, 10, names[1], &[]);
    thread.end(&mut machine, 11);
    machine.declare("zones", None, LossCause::BufferFull, 3);
    program.finish(&mut machine);
    golden::check("zones_missing_chunk", &mut golden::open(machine.finish()));
}

#[test]
fn a_ring_that_goes_to_another_thread_closes_the_zones_of_the_first() {
    let (mut machine, mut program) = machine();
    let work = program.location("work", "", "", 0, 0);
    let (mut first, mut second) = (program.thread(0, 100), program.thread(0, 101));
    second.chunk.owner = 2;
    first.begin(&mut machine, 1, work, &[]);
    second.begin(&mut machine, 5, work, &[]);
    second.end(&mut machine, 6);
    program.finish(&mut machine);
    let (lines, _) = golden::text(&mut golden::open(machine.finish()));
    let zones: Vec<&str> =
        lines.lines().filter(|line| line.contains("Zones")).map(|line| &line[14..]).collect();
    assert_eq!(zones.len(), 5, "{lines}");
    assert!(zones[2].starts_with("server/100 Zones END"), "{lines}");
    assert!(zones[3].starts_with("worker/101 Zones BEGIN work"), "{lines}");
}

#[test]
fn a_program_without_an_invariant_counter_is_placed_by_its_nanoseconds() {
    let mut machine = FakeMachine::new(1);
    machine.process(100, 1, "server", &[]);
    let mut program = FakeProgram::with_clock(&mut machine, 1, 100, ProgramTicks::Monotonic);
    let work = program.location("work", "", "", 0, 0);
    let thread = program.thread(0, 100);
    machine.switch(0, 49, task_state::RUNNABLE, 100);
    machine.switch(0, 52, task_state::INTERRUPTIBLE, 0);
    thread.words(&mut machine, 50, &[raw_at(50) << 8 | ItemKind::ZoneBegin as u64, work.into()]);
    thread.words(&mut machine, 51, &[raw_at(51) << 8 | 0xc0]);
    program.finish(&mut machine);
    let (lines, _) = golden::text(&mut golden::open(machine.finish()));
    let times: Vec<&str> = lines.lines().skip(1).take(4).map(|line| line[..13].trim()).collect();
    assert_eq!(times, ["0.000", "1.000", "2.000", "3.000"], "{lines}");
}

/// The machine's CLOCK_MONOTONIC is 7 ns ahead of its CLOCK_MONOTONIC_RAW.
fn raw_at(us: u64) -> u64 {
    FIRST_RAW + us * 1_000 + 7
}

#[test]
fn what_no_program_can_have_done_is_counted_and_the_rest_is_played() {
    let (mut machine, mut program) = machine();
    let work = program.location("work", "", "", 0, 0);
    let mut thread = program.thread(0, 101);
    thread.begin(&mut machine, 10, work, &[]);
    // An hour before the recording, and an hour after it.
    let hour = 3_600_000_000 * syscollect_tests::TICKS_PER_US;
    for odd in [syscollect_tests::ticks(0) - hour, syscollect_tests::ticks(0) + hour] {
        thread.words(&mut machine, 11, &[odd << 8 | ItemKind::ZoneBegin as u64, work.into()]);
    }
    // A location, a plot and a string that nobody defined.
    thread.item(&mut machine, 12, ItemKind::ZoneBegin, &[999 | 1 << 32], &[]);
    thread.item(&mut machine, 13, ItemKind::Plot, &[work.into(), 0], &[]);
    thread.item(&mut machine, 14, ItemKind::Message, &[999], &[]);
    // Time that goes back stands still.
    thread.item(&mut machine, 9, ItemKind::Message, &[0], &[text(TextRole::Message, 0, "hello")]);
    thread.end(&mut machine, 15);
    // No item: the rest of the chunk cannot be found.
    thread.words(&mut machine, 16, &[0x99]);
    thread.end(&mut machine, 17);
    program.finish(&mut machine);
    golden::check("zones_hostile", &mut golden::open(machine.finish()));
}

/// The lines about the thread 101, which has the lane after a thread that claims to be ahead of
/// time.
fn after_a_liar(liar_ends: bool) -> Vec<String> {
    let (mut machine, mut program) = machine();
    let work = program.location("work", "", "", 0, 0);
    let (mut liar, mut next) = (program.thread(0, 102), program.thread(0, 101));
    next.chunk.owner = 2;
    let m = &mut machine;
    m.fork(0, 5, 100, (102, 100), "liar");
    liar.begin(m, 10, work, &[]);
    // Half a second ahead: a clock may be off, so that is not refused.
    let ahead = syscollect_tests::ticks(500_000);
    liar.words(m, 11, &[ahead << 8 | ItemKind::Message as u64, 0]);
    if liar_ends {
        m.exit(0, 20, (102, 100), "liar");
    }
    next.begin(m, 30, work, &[]);
    next.end(m, 40);
    m.switch(0, 50, 0, 100);
    program.finish(m);
    let (lines, played) = golden::text(&mut golden::open_foreseen(
        &format!("thread_ahead_{liar_ends}"),
        machine.finish(),
    ));
    assert_eq!(played.events_by_type["message"], 1, "{lines}");
    lines
        .lines()
        .filter(|line| line.contains("worker/101 Zones"))
        .map(|line| line[..13].trim().to_owned())
        .collect()
}

#[test]
fn a_message_without_a_text_says_so() {
    let (mut machine, mut program) = machine();
    let nothing = program.string("");
    let thread = program.thread(0, 101);
    thread.item(&mut machine, 10, ItemKind::Message, &[0], &[text(TextRole::Message, 0, "")]);
    thread.item(&mut machine, 11, ItemKind::Message, &[nothing.into()], &[]);
    program.finish(&mut machine);
    let (lines, _) = golden::text(&mut golden::open(machine.finish()));
    assert_eq!(lines.matches("(empty)").count(), 2, "{lines}");
}

#[test]
fn a_thread_that_is_ahead_of_time_does_not_hold_up_who_has_its_lane_after_it() {
    // Microseconds since the first event, which is the fork.
    assert_eq!(after_a_liar(true), ["25.000", "35.000"]);
    assert_eq!(after_a_liar(false), ["25.000", "35.000"], "also if the end of the thread was lost");
}

#[test]
fn a_part_of_the_time_begins_with_the_zones_that_are_open_then() {
    let (mut machine, mut program) = machine();
    let (outer, inner) =
        (program.location("outer", "", "", 0, 0), program.location("inner", "", "", 0, 0));
    let mut thread = program.thread(0, 101);
    thread.attached(&mut machine, 1, "worker");
    thread.begin(&mut machine, 10, outer, &[]);
    thread.words(&mut machine, 11, &text(TextRole::ZoneText, 0, "said before"));
    thread.begin(&mut machine, 20, inner, &[]);
    thread.end(&mut machine, 30);
    thread.begin(&mut machine, 40, inner, &[]);
    thread.end(&mut machine, 60);
    thread.end(&mut machine, 70);
    program.finish(&mut machine);
    let capture = machine.finish();
    let some = [
        "0.000 worker/101 Zones BEGIN outer text=\"said before\" began_before=15000ns",
        "0.000 worker/101 Zones   BEGIN inner began_before=5000ns",
        "5.000 worker/101 Zones   END",
        "15.000 worker/101 Zones   BEGIN inner",
        "25.000 worker/101 Zones   END",
        "25.000 worker/101 Zones END",
    ];
    // Nothing happens between the second two times.
    let outer = [
        "0.000 worker/101 Zones BEGIN outer text=\"said before\" began_before=22000ns",
        "6.000 worker/101 Zones END",
    ];
    for (from, to, expected) in [(25, 50, &some[..]), (32, 38, &outer), (80, 90, &[])] {
        let mut session = golden::open(capture.clone());
        let mut balance = Balance::new(TextExporter::new(Vec::new()));
        session.play_range(&mut balance, at(from), at(to)).unwrap();
        let lines = String::from_utf8(balance.into_inner().finish().unwrap()).unwrap();
        let zones = lines.lines().filter(|line| line.contains("Zones"));
        let zones = zones.map(|line| format!("{} {}", line[..13].trim(), line[14..].trim()));
        assert_eq!(zones.collect::<Vec<_>>(), expected, "{from} to {to}");
    }
}

fn at(us: u64) -> Option<Time> {
    Some(Time(FIRST_BOOTTIME + us * 1_000))
}

#[test]
fn the_lanes_of_zones_have_no_cpu() {
    let (mut machine, mut program) = machine();
    let work = program.location("work", "", "", 0, 0);
    let mut thread = program.thread(7, 101);
    thread.begin(&mut machine, 1, work, &[]);
    machine.drop_chunk(Lane::new(LaneKind::Zone, 7));
    thread.end(&mut machine, 2);
    program.finish(&mut machine);
    let mut session = golden::open(machine.finish());
    let (lines, played) = golden::text(&mut session);
    assert_eq!(played.lost, 1);
    assert!(lines.contains("lost: 1 from zones: damaged"), "{lines}");
}
