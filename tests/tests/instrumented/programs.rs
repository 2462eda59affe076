//! What a program tells of itself beside zones.

use syscollect_model::{LossCause, Symbol, SymbolFrame, SymbolTable};
use syscollect_playback::Recording;
use syscollect_tests::client::{first_word, stack, tag, task_name, text, value};
use syscollect_tests::{FakeMachine, FakeProgram, golden, ticks};
use syscollect_zone_protocol::{
    FieldFormat, FramePhase, ItemKind, LockAction, MarkerPhase, TextRole, Value, ValueType,
};

fn machine() -> (FakeMachine, FakeProgram) {
    let mut machine = FakeMachine::new(1);
    machine.process(100, 1, "server", &[(100, "server"), (101, "worker")]);
    let program = FakeProgram::new(&mut machine, 1, 100);
    (machine, program)
}

#[test]
fn messages_plots_and_frames() {
    let (mut machine, mut program) = machine();
    let (queue, started, render) =
        (program.plot("queue", "jobs"), program.string("started"), program.string("Render"));
    let thread = program.thread(0, 101);
    let m = &mut machine;
    thread.item(m, 1, ItemKind::Message, &[u64::from(started) | 0x00ff00 << 32], &[]);
    thread.item(
        m,
        2,
        ItemKind::Message,
        &[0],
        &[text(TextRole::Message, 0, "one of very many different texts")],
    );
    thread.item(m, 3, ItemKind::Message, &[0], &[tag(TextRole::Message, started, 7)]);
    thread.item(
        m,
        4,
        ItemKind::Plot,
        &[first_word(queue, ValueType::Signed as u32), -5_i64 as u64],
        &[],
    );
    thread.item(
        m,
        5,
        ItemKind::Plot,
        &[first_word(queue, ValueType::Float as u32), 2.5_f64.to_bits()],
        &[],
    );
    thread.item(
        m,
        5,
        ItemKind::Plot,
        &[first_word(queue, ValueType::Float as u32), f64::NAN.to_bits()],
        &[],
    );
    for us in [10, 26, 43] {
        thread.item(m, us, ItemKind::Frame, &[(FramePhase::Mark as u64) << 32], &[]);
    }
    for (us, phase) in [
        (50, FramePhase::Begin),
        (52, FramePhase::End),
        (53, FramePhase::End),
        (60, FramePhase::Begin),
    ] {
        thread.item(m, us, ItemKind::Frame, &[first_word(render, phase as u32)], &[]);
    }
    program.finish(m);
    golden::check("messages_plots_frames", &mut golden::open(machine.finish()));
}

#[test]
fn async_zones_lie_on_the_lowest_free_row_of_their_task() {
    let (mut machine, mut program) = machine();
    let (fetch, parse) =
        (program.location("fetch", "", "", 0, 0), program.location("parse", "", "", 0, 0));
    let request = program.string("request");
    let (one, two) = (program.thread(0, 100), program.thread(1, 101));
    let m = &mut machine;
    one.item(m, 1, ItemKind::AsyncBegin, &begin(fetch, 11, 5), &[task_name(request, 5)]);
    one.item(
        m,
        2,
        ItemKind::AsyncBegin,
        &begin(parse, 12, 5),
        &[text(TextRole::AsyncText, 0, "chunk 1")],
    );
    one.item(m, 3, ItemKind::AsyncBegin, &begin(fetch, 13, 0), &[]);
    // Another thread ends the outer one before the inner.
    two.item(m, 4, ItemKind::AsyncEnd, &[11], &[text(TextRole::AsyncText, 0, "200 OK")]);
    two.item(m, 5, ItemKind::AsyncBegin, &begin(parse, 14, 5), &[]);
    two.item(m, 6, ItemKind::AsyncEnd, &[12], &[]);
    two.item(m, 7, ItemKind::AsyncEnd, &[99], &[]);
    two.item(m, 8, ItemKind::AsyncEnd, &[14], &[]);
    program.finish(m);
    let mut session = golden::open(machine.finish());
    golden::check("async_zones", &mut session);
    let tracks = session.tables().tracks.len();
    golden::check("async_zones", &mut session);
    assert_eq!(session.tables().tracks.len(), tracks, "playing again adds no track");
}

fn begin(location: u32, zone: u64, task: u64) -> [u64; 3] {
    [u64::from(location), zone, task]
}

#[test]
fn async_zones_that_were_open_before_are_told_once_on_the_row_of_their_task() {
    let (mut machine, mut program) = machine();
    let (fetch, parse) =
        (program.location("fetch", "", "", 0, 0), program.location("parse", "", "", 0, 0));
    let request = program.string("request");
    let (one, two) = (program.thread(0, 100), program.thread(1, 101));
    let m = &mut machine;
    one.item(m, 1, ItemKind::AsyncBegin, &zone(parse, 12, 5), &[task_name(request, 5)]);
    // Another thread is the first to notice the recorder.
    two.item(m, 10, ItemKind::AsyncOpen, &zone(fetch, 11, ticks(3)), &[task_name(request, 5)]);
    two.item(m, 10, ItemKind::AsyncOpen, &zone(fetch, 13, ticks(4)), &[]);
    two.item(m, 10, ItemKind::AsyncOpen, &zone(parse, 12, ticks(1)), &[task_name(request, 5)]);
    // It saw this one before its beginning was written.
    two.item(m, 10, ItemKind::AsyncOpen, &zone(parse, 14, ticks(9)), &[]);
    one.item(
        m,
        11,
        ItemKind::AsyncBegin,
        &zone(parse, 14, 0),
        &[text(TextRole::AsyncText, 0, "chunk 1")],
    );
    one.item(m, 20, ItemKind::AsyncEnd, &[11], &[]);
    one.item(m, 21, ItemKind::AsyncEnd, &[12], &[]);
    two.item(m, 22, ItemKind::AsyncEnd, &[14], &[]);
    program.finish(m);
    golden::check("async_zones_late", &mut golden::open(machine.finish()));
}

fn zone(location: u32, zone: u64, last: u64) -> [u64; 3] {
    [u64::from(location), zone, last]
}

#[test]
fn locks_memory_and_the_crash_with_its_stack() {
    let (mut machine, mut program) = machine();
    machine.mapping(100, 0x40_0000, 0x41_0000, 0, "/bin/server");
    // A return address lies behind its call; the instruction of a crash is exact.
    let symbols = vec![code(0x10f, "allocate"), code(0x20f, "main"), code(0x310, "broken")];
    machine.symbols(SymbolTable { path: "/bin/server".into(), symbols, ..SymbolTable::default() });
    let made = program.location("made", "new", "lock.rs", 3, 0);
    let (lock, pool) = (program.lock("cache", true, made), program.string("arena"));
    let (one, two) = (program.thread(0, 100), program.thread(1, 101));
    let m = &mut machine;
    for (us, thread, action) in [
        (1, &one, LockAction::Obtain),
        (2, &two, LockAction::WaitShared),
        (3, &one, LockAction::Release),
        (4, &two, LockAction::ObtainShared),
        (5, &two, LockAction::ReleaseShared),
    ] {
        let words = [first_word(lock, action as u32), made.into()];
        thread.item(m, us, ItemKind::Lock, &words, &[]);
    }
    let addresses = stack(&[0x40_0110, 0x40_0210]);
    one.item(m, 6, ItemKind::Alloc, &[0x7000, 64, 0], std::slice::from_ref(&addresses));
    two.item(m, 7, ItemKind::Free, &[0x7000, 0], &[]);
    two.item(m, 8, ItemKind::Alloc, &[0x9000, 32, pool.into()], &[]);
    let crash = [first_word(11, 1), 0xdead, 0x40_0310];
    two.item(m, 9, ItemKind::Crash, &crash, &[stack(&[0x40_0310, 0x40_0210])]);
    m.exit(0, 10, (101, 100), "worker");
    program.finish(m);
    let mut session = golden::open(machine.finish());
    assert_eq!(session.unresolved(), [], "all places of the stacks are known before playing");
    golden::check("locks_memory_crash", &mut session);
}

#[test]
fn crashes_that_are_claimed_without_end_are_told_up_to_a_share_and_of_own_threads_only() {
    let mut machine = FakeMachine::new(1);
    machine.process(100, 1, "liar", &[(100, "liar")]);
    machine.process(200, 1, "victim", &[(200, "victim"), (201, "worker")]);
    let program = FakeProgram::new(&mut machine, 1, 100);
    let m = &mut machine;
    for (us, tid) in (1..).zip((0..50).map(|number| [100, 200, 201][number % 3])) {
        let lies = stack(&[u64::MAX - us, us]);
        program.thread(0, tid).item(m, us, ItemKind::Crash, &[11, us, us], &[lies]);
    }
    // A signal by which nothing crashes.
    program.thread(0, 100).item(m, 60, ItemKind::Crash, &[15, 1, 1], &[]);
    program.finish(m);
    let mut session = golden::open(machine.finish());
    for _ in 0..2 {
        let (lines, played) = golden::text(&mut session);
        let crashes = lines.lines().filter(|line| line.contains(" crash ")).count();
        let of_liar = lines.lines().filter(|line| line.contains(" crash liar/100 ")).count();
        assert_eq!((crashes, of_liar, played.lost), (32, 32, 19), "{lines}");
    }
    let beyond = session.losses().iter().find(|loss| loss.cause == LossCause::BeyondShare);
    assert_eq!(beyond.map(|loss| loss.count), Some(19));
}

fn code(offset: u64, function: &str) -> Symbol {
    Symbol {
        offset,
        start: offset & !0xff,
        size: 0x100,
        frames: vec![SymbolFrame { function: function.into(), ..SymbolFrame::default() }],
        ..Symbol::default()
    }
}

#[test]
fn the_places_of_stacks_in_zones_can_be_asked_for_before_playing() {
    let (mut machine, program) = machine();
    machine.mapping(100, 0x40_0000, 0x41_0000, 0, "/bin/server");
    let thread = program.thread(0, 100);
    thread.item(
        &mut machine,
        1,
        ItemKind::Message,
        &[0],
        &[stack(&[0x40_0110, 0x40_0210, 0x40_0310, 0x40_0410])],
    );
    program.finish(&mut machine);
    let unresolved = golden::open(machine.finish()).unresolved();
    assert_eq!(unresolved[0].path, "/bin/server");
    assert_eq!(unresolved[0].offsets, [0x10f, 0x20f, 0x30f, 0x40f]);
}

#[test]
fn markers_have_a_schema_and_may_lie_at_another_time_and_on_another_thread() {
    let (mut machine, mut program) = machine();
    let fields = [
        ("path", FieldFormat::Text),
        ("size", FieldFormat::Bytes),
        ("took", FieldFormat::Duration),
    ];
    let read = program.schema("Read", "io", &fields);
    let thread = program.thread(0, 100);
    let m = &mut machine;
    let [instant, begins, ends] = [MarkerPhase::Instant, MarkerPhase::Begin, MarkerPhase::End]
        .map(|phase| first_word(read, phase as u32));
    let attributes = [text(TextRole::Field, 0, "/etc/passwd"), value(1, Value::Unsigned(4096))];
    thread.item(m, 10, ItemKind::Marker, &[instant], &attributes);
    thread.item(m, 20, ItemKind::Marker, &[begins], &attributes);
    thread.item(m, 30, ItemKind::Marker, &[ends], &[value(2, Value::Unsigned(10_000))]);
    // Told at 40, of things that happened at 15 and 25, on the other thread.
    let took = [value(2, Value::Unsigned(10_000))];
    thread.item(m, 40, ItemKind::MarkerAt, &[begins, ticks(15), 101], &[]);
    thread.item(m, 40, ItemKind::MarkerAt, &[ends, ticks(25), 101], &took);
    // A field, and a thread, that there is none of.
    thread.item(
        m,
        41,
        ItemKind::MarkerAt,
        &[instant, ticks(41), 4711],
        &[value(9, Value::Unsigned(1))],
    );
    program.finish(m);
    golden::check("markers", &mut golden::open_foreseen("markers", machine.finish()));
}

#[test]
fn a_marker_placed_outside_the_life_of_its_thread_lies_at_its_border() {
    let (mut machine, mut program) = machine();
    let read = program.schema("Read", "", &[]);
    let thread = program.thread(0, 102);
    let m = &mut machine;
    m.fork(0, 10, 100, (102, 100), "reader");
    thread.item(m, 15, ItemKind::MarkerAt, &[read.into(), ticks(5), 0], &[]);
    thread.item(m, 16, ItemKind::MarkerAt, &[read.into(), ticks(99), 0], &[]);
    m.exit(0, 20, (102, 100), "reader");
    m.switch(0, 120, 0, 100);
    program.finish(m);
    let (lines, _) =
        golden::text(&mut golden::open_foreseen("marker_outside_life", machine.finish()));
    assert!(!lines.contains("<102>"), "{lines}");
    let markers: Vec<&str> = lines.lines().filter(|line| line.contains("Read")).collect();
    assert_eq!(markers.len(), 2, "{lines}");
    assert!(markers.iter().all(|line| line.contains("reader/102")), "{lines}");
    let offsets = [markers[0], markers[1], "thread end"].map(|text| lines.find(text).unwrap());
    assert!(offsets.is_sorted_by(|one, next| one < next), "{lines}");
}

#[test]
fn an_entry_of_an_unknown_kind_is_counted_and_hides_no_other() {
    let (mut machine, mut program) = machine();
    program.entry(4711, &[1, 2, 3], &["of a later version"]);
    let work = program.location("work", "", "", 0, 0);
    // Its third text is missing.
    program.entry(2, &[0, 0], &["cut", "f"]);
    let last = program.string("last");
    let mut thread = program.thread(0, 100);
    thread.begin(&mut machine, 1, work, &[]);
    thread.item(&mut machine, 2, ItemKind::Message, &[last.into()], &[]);
    thread.end(&mut machine, 3);
    program.finish(&mut machine);
    let (lines, played) = golden::text(&mut golden::open(machine.finish()));
    assert_eq!((played.events, played.lost), (2, 2), "{lines}");
    assert!(
        lines.contains("* last [message]")
            && lines.contains("lost: 2 from zone definitions: undecodable"),
        "{lines}"
    );
}

#[test]
fn two_programs_in_one_process_do_not_mix_their_zones() {
    let (mut machine, mut one) = machine();
    let mut two = FakeProgram::new(&mut machine, 2, 100);
    let (a, b) = (one.location("a", "", "", 0, 0), two.location("b", "", "", 0, 0));
    let (mut first, mut second) = (one.thread(0, 101), two.thread(1, 101));
    let m = &mut machine;
    first.begin(m, 1, a, &[]);
    second.begin(m, 2, b, &[]);
    first.end(m, 3);
    second.end(m, 4);
    one.finish(m);
    two.finish(m);
    let mut session = golden::open(machine.finish());
    let (lines, _) = golden::text(&mut session);
    assert!(!lines.contains("unfinished"), "{lines}");
    assert_eq!(session.tables().tracks.len(), 2);
}

#[test]
fn a_process_that_runs_another_program_leaves_nothing_open() {
    let (mut machine, mut program) = machine();
    let work = program.location("work", "", "", 0, 0);
    let mut thread = program.thread(0, 100);
    let m = &mut machine;
    thread.begin(m, 1, work, &[]);
    thread.item(m, 2, ItemKind::AsyncBegin, &[work.into(), 1, 0], &[]);
    thread.item(m, 3, ItemKind::Frame, &[0], &[]);
    let exec = syscollect_records::TaskRecord {
        tid: 100,
        tgid: 100,
        parent_tid: 100,
        ..Default::default()
    };
    m.task(0, 5, syscollect_records::RecordKind::Exec, "other", exec);
    program.finish(m);
    let (lines, _) = golden::text(&mut golden::open(machine.finish()));
    let exec = lines.find("exec ").unwrap();
    assert_eq!(lines[..exec].matches(" END").count(), 3, "{lines}");
    assert_eq!(lines[..exec].matches("unfinished").count(), 3, "{lines}");
}
