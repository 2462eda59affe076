//! Hits of probes in programs that know nothing of it.

use syscollect_exporters::report::{ReportExporter, ReportOptions};
use syscollect_model::{Lane, LaneKind, LossCause};
use syscollect_playback::Recording;
use syscollect_records::stack_id;
use syscollect_store::{Definition, ProbeArgument, ProbeDefinition, ProbeRole};
use syscollect_tests::{FakeMachine, Hit, golden};

fn machine(probes: Vec<ProbeDefinition>) -> FakeMachine {
    let mut machine = FakeMachine::new(2);
    machine.process(100, 1, "python3", &[(100, "python3"), (101, "thread")]);
    machine.define(&Definition::Probes(probes));
    machine
}

fn argument(name: &str, size: u8, signed: bool) -> ProbeArgument {
    ProbeArgument { name: name.into(), size, signed, ..ProbeArgument::default() }
}

fn probe(
    probe: u32,
    role: ProbeRole,
    pair: u32,
    name: &str,
    arguments: Vec<ProbeArgument>,
) -> ProbeDefinition {
    ProbeDefinition {
        probe,
        role,
        pair,
        name: name.into(),
        arguments,
        ..ProbeDefinition::default()
    }
}

#[test]
fn a_hit_is_an_instant_with_its_arguments() {
    let float = ProbeArgument { float: true, ..argument("ratio", 8, false) };
    let arguments = vec![
        argument("file", 8, false),
        argument("line", 4, true),
        float,
        argument("object", 8, false),
        argument("lost", 8, false),
    ];
    let mut machine = machine(vec![probe(1, ProbeRole::Point, 0, "python:line", arguments)]);
    let hit = Hit { tid: 101, pid: 100, probe: 1, ..Hit::default() };
    let words = [0x7000, 0xffff_fffe, 0.5_f64.to_bits(), 0x5555_0000, 0];
    machine.hit(
        0,
        10,
        &Hit { arguments: &words, strings: &[(0, "main.py"), (3, "\u{1}")], unreadable: 16, ..hit },
    );
    // Nobody said what this number means.
    machine.hit(0, 11, &Hit { probe: 9, ..hit });
    golden::check("probe_points", &mut golden::open(machine.finish()));
}

#[test]
fn pairs_nest_by_themselves_and_are_named_by_an_argument() {
    let code = vec![argument("code", 4, true)];
    let mut machine = machine(vec![
        python_named(probe(
            1,
            ProbeRole::ZoneBegin,
            1,
            "python:function__entry",
            place_arguments(),
        )),
        python_named(probe(2, ProbeRole::ZoneEnd, 1, "python:function__return", place_arguments())),
        probe(3, ProbeRole::ZoneBegin, 2, "gc", Vec::new()),
        probe(4, ProbeRole::ZoneEnd, 2, "gc", code),
    ]);
    let hit_of_thread = Hit { tid: 101, pid: 100, ..Hit::default() };
    let m = &mut machine;
    python(m, 5, 2, "main", 1);
    python(m, 10, 1, "outer", 3);
    python(m, 12, 1, "inner", 7);
    m.hit(0, 13, &Hit { probe: 3, ..hit_of_thread });
    python(m, 14, 2, "inner", 8);
    m.hit(0, 15, &Hit { probe: 4, arguments: &[5], ..hit_of_thread });
    python(m, 16, 1, "never ends", 9);
    m.exit(0, 20, (101, 100), "thread");
    let mut session = golden::open(machine.finish());
    golden::check("probe_pairs", &mut session);
    let (_, played) = golden::text(&mut session);
    assert_eq!(played.unmatched_ends, 1, "the return of main");
}

fn place_arguments() -> Vec<ProbeArgument> {
    vec![argument("file", 8, false), argument("function", 8, false), argument("line", 4, true)]
}

fn python_named(mut probe: ProbeDefinition) -> ProbeDefinition {
    (probe.named_by, probe.nests, probe.track) = (Some(1), Some(true), "Python".into());
    probe
}

fn python(m: &mut FakeMachine, us: u64, probe: u32, function: &str, line: u64) {
    let strings = &[(0, "main.py"), (1, function)];
    let hit =
        Hit { tid: 101, pid: 100, probe, arguments: &[1, 2, line], strings, ..Hit::default() };
    m.hit(0, us, &hit);
}

#[test]
fn zones_that_an_integer_names_are_told_apart_by_name() {
    let mut machine = machine(vec![
        named(probe(1, ProbeRole::ZoneBegin, 1, "python:gc__start", generation())),
        probe(2, ProbeRole::ZoneEnd, 1, "python:gc__start", Vec::new()),
    ]);
    let hit = Hit { tid: 101, pid: 100, ..Hit::default() };
    for (us, generation) in [(10, 2), (20, 0), (30, u64::from(u32::MAX))] {
        machine.hit(0, us, &Hit { probe: 1, arguments: &[generation], ..hit });
        machine.hit(0, us + 5, &Hit { probe: 2, ..hit });
    }
    let mut session = golden::open(machine.finish());
    let (text, _) = golden::text(&mut session);
    for name in ["gc__start 2", "gc__start 0", "gc__start -1"] {
        assert!(text.contains(name), "{name}: {text}");
    }
    let options = ReportOptions { rows: 10, ..ReportOptions::default() };
    let mut exporter = ReportExporter::new(options);
    session.play(&mut exporter).unwrap();
    let report = exporter.finish().text(120);
    assert!(report.contains("gc__start 2"), "sums are by name: {report}");
}

fn named(mut probe: ProbeDefinition) -> ProbeDefinition {
    probe.named_by = Some(0);
    probe
}

fn generation() -> Vec<ProbeArgument> {
    vec![argument("generation", 4, true)]
}

/// A database's transactions, which one of two probes ends, and its queries.
fn database() -> FakeMachine {
    machine(vec![
        probe(1, ProbeRole::ZoneBegin, 1, "db:transaction__start", transaction()),
        probe(2, ProbeRole::ZoneEnd, 1, "db:transaction__commit", transaction()),
        probe(3, ProbeRole::ZoneEnd, 1, "db:transaction__abort", transaction()),
        probe(4, ProbeRole::ZoneBegin, 2, "db:query__start", Vec::new()),
        probe(5, ProbeRole::ZoneEnd, 2, "db:query__done", Vec::new()),
    ])
}

fn transaction() -> Vec<ProbeArgument> {
    vec![argument("transaction", 4, false)]
}

/// Tells of hits of one thread: when, of which probe, and of which transaction.
fn hits(machine: &mut FakeMachine, hits: &[(u64, u32, u64)]) {
    for (us, probe, transaction) in hits {
        let arguments: &[u64] = if *probe < 4 { &[*transaction] } else { &[] };
        machine.hit(
            0,
            *us,
            &Hit { tid: 101, pid: 100, probe: *probe, arguments, ..Hit::default() },
        );
    }
}

#[test]
fn a_zone_ends_with_whichever_end_comes_and_a_later_begin_ends_what_stayed_open() {
    let mut machine = database();
    // The second transaction aborts in its query, whose end is not seen; of the fourth no end is
    // seen at all.
    hits(&mut machine, &[(10, 1, 1), (11, 4, 0), (12, 5, 0), (13, 2, 1)]);
    hits(&mut machine, &[(20, 1, 2), (21, 4, 0), (23, 3, 2)]);
    hits(&mut machine, &[(30, 1, 3), (31, 4, 0), (32, 5, 0), (33, 2, 3)]);
    hits(&mut machine, &[(40, 1, 4), (50, 1, 5), (51, 2, 5)]);
    let mut session = golden::open(machine.finish());
    golden::check("probe_ends", &mut session);
    let (lines, played) = golden::text(&mut session);
    assert_eq!((played.events_by_type["zone"], played.unmatched_ends), (8, 0), "{lines}");
    assert_eq!(
        lines.matches("unfinished").count(),
        2,
        "the query that failed, and the fourth transaction: {lines}"
    );
}

#[test]
fn zones_of_which_two_end_in_a_row_nest_whatever_stays_open() {
    let mut machine = database();
    // Queries within queries, before and after one of whose end was not seen.
    hits(
        &mut machine,
        &[
            (10, 4, 0),
            (11, 4, 0),
            (12, 5, 0),
            (20, 4, 0),
            (21, 4, 0),
            (22, 5, 0),
            (23, 5, 0),
            (30, 5, 0),
        ],
    );
    let (lines, played) =
        golden::text(&mut golden::open_foreseen("probes_nesting", machine.finish()));
    assert_eq!((played.events_by_type["zone"], played.unmatched_ends), (4, 0), "{lines}");
    assert!(!lines.contains("unfinished"), "{lines}");
}

#[test]
fn what_the_user_says_of_nesting_counts_more_than_what_is_seen() {
    assert_eq!(begins("nesting_seen", None), (0, 0));
    assert_eq!(begins("nesting_declared", Some(true)), (0, 0));
    assert_eq!(begins("nesting_denied", Some(false)), (1, 1));
}

fn begins(name: &str, nests: Option<bool>) -> (usize, u64) {
    let mut begin = probe(1, ProbeRole::ZoneBegin, 1, "work", Vec::new());
    begin.nests = nests;
    let mut machine = machine(vec![begin, probe(2, ProbeRole::ZoneEnd, 1, "work", Vec::new())]);
    for (us, probe) in [(10, 1), (11, 1), (12, 2), (13, 2)] {
        machine.hit(0, us, &Hit { tid: 101, pid: 100, probe, ..Hit::default() });
    }
    let (lines, played) = golden::text(&mut golden::open_foreseen(name, machine.finish()));
    (lines.matches("unfinished").count(), played.unmatched_ends)
}

#[test]
fn a_begin_that_was_lost_makes_no_zones_that_nest() {
    let mut machine = machine(vec![
        probe(1, ProbeRole::ZoneBegin, 1, "work", Vec::new()),
        probe(2, ProbeRole::ZoneEnd, 1, "work", Vec::new()),
    ]);
    hit(&mut machine, 10, 1);
    hit(&mut machine, 20, 1);
    hit(&mut machine, 21, 2);
    // The begin of the next did not reach the file.
    let lane = Lane::new(LaneKind::Probe, 0);
    machine.end_chunk(lane);
    hit(&mut machine, 25, 1);
    let dropped = machine.drop_chunk(lane);
    machine.declare("probes", Some(0), LossCause::BufferFull, dropped);
    hit(&mut machine, 30, 2);
    hit(&mut machine, 40, 1);
    hit(&mut machine, 41, 2);
    let (lines, _) = golden::text(&mut golden::open(machine.finish()));
    assert_eq!(
        lines.matches("unfinished").count(),
        1,
        "the first, which the second begin ends: {lines}"
    );
}

fn hit(machine: &mut FakeMachine, us: u64, probe: u32) {
    machine.hit(0, us, &Hit { tid: 101, pid: 100, probe, ..Hit::default() });
}

#[test]
fn an_exception_leaves_no_function_open() {
    let functions = [(1, "main"), (2, "work"), (3, "fail")].map(|(number, name)| {
        [
            probe(number * 2, ProbeRole::FunctionEntry, number, name, Vec::new()),
            probe(number * 2 + 1, ProbeRole::FunctionReturn, number, name, Vec::new()),
        ]
    });
    let mut machine = machine(functions.concat());
    hits_at(&mut machine, &[(1, 2, 0x9000), (2, 4, 0x8f00), (3, 6, 0x8e00)]);
    // It throws; main catches and works again, in the same place.
    hits_at(&mut machine, &[(5, 4, 0x8f00), (6, 5, 0x8f08), (7, 3, 0x9008)]);
    golden::check("probe_functions", &mut golden::open(machine.finish()));
}

#[test]
fn hits_have_the_stacks_that_led_to_them() {
    let function = [
        probe(1, ProbeRole::FunctionEntry, 1, "work", Vec::new()),
        probe(2, ProbeRole::FunctionExit, 1, "work", Vec::new()),
        probe(3, ProbeRole::Point, 0, "python:line", vec![argument("file", 8, false)]),
    ];
    let mut machine = machine(function.to_vec());
    machine.mapping(100, 0x40_0000, 0x41_0000, 0, "/usr/bin/python3");
    let often = machine.probe_stack(0, 1, 100, &[0x40_0100, 0x40_0205, 0x40_0305]);
    let rarely = machine.probe_stack(0, 9, 100, &[0x40_0100, 0x40_0405, 0x40_0305]);
    let hit = Hit { tid: 101, pid: 100, stack_pointer: 0x9000, ..Hit::default() };
    for (us, stack) in [(2, often), (4, often), (10, rarely)] {
        machine.hit(0, us, &Hit { probe: 1, stack: Some(stack), ..hit });
        // Where it ends it has none.
        machine.hit(0, us + 1, &Hit { probe: 2, ..hit });
    }
    // Behind words and texts, and on a CPU whose stacks were lost.
    let line = Hit { probe: 3, arguments: &[0x7000], strings: &[(0, "main.py")], ..hit };
    machine.hit(0, 12, &Hit { stack: Some(often), ..line });
    machine.hit(0, 13, &Hit { stack: Some(7), ..line });
    machine.hit(1, 14, &Hit { stack: Some(often), ..line });
    machine.hit(1, 15, &Hit { stack: Some(stack_id::NONE), ..line });
    golden::check("probe_stacks", &mut golden::open(machine.finish()));
}

#[test]
fn the_report_tells_who_called_and_how_often() {
    let entry = probe(1, ProbeRole::FunctionEntry, 1, "work", Vec::new());
    let mut machine = machine(vec![entry]);
    machine.mapping(100, 0x40_0000, 0x41_0000, 0, "/usr/bin/python3");
    // Two stacks that show alike are one: nobody has a name.
    let stacks = [[0x40_0100, 0x40_0205], [0x40_0100, 0x40_0405], [0x40_0100, 0x40_0205]];
    let stacks = stacks.map(|addresses| machine.probe_stack(0, 1, 100, &addresses));
    let hit = Hit { tid: 101, pid: 100, probe: 1, ..Hit::default() };
    for (us, stack) in [(2, 0), (3, 1), (4, 2), (5, 2)] {
        let stack_pointer = 0x9000 - us * 16;
        machine.hit(0, us, &Hit { stack: Some(stacks[stack]), stack_pointer, ..hit });
    }
    machine.hit(0, 6, &Hit { stack_pointer: 0x8000, ..hit });
    let mut exporter = ReportExporter::new(ReportOptions::default());
    golden::open(machine.finish()).play(&mut exporter).unwrap();
    let report = exporter.finish();
    let [row] = &report.callers.rows[..] else { panic!("{:?}", report.callers) };
    assert_eq!((row.name.as_str(), row.count), ("work", 4), "one came without a stack");
    let counts: Vec<u64> = row.stacks.rows.iter().map(|stack| stack.count).collect();
    assert_eq!(counts, [3, 1]);
    let text = report.text(100);
    assert!(text.contains("work: 4 by 2 stacks") && text.contains("75.0 %"), "{text}");
}

#[test]
fn functions_end_where_they_return_or_call_another_in_their_place() {
    let functions = [(1, "main"), (2, "work"), (3, "last call")].map(|(number, name)| {
        let roles = [(number, ProbeRole::FunctionEntry), (number + 10, ProbeRole::FunctionExit)];
        roles.map(|(number, role)| probe(number, role, 1, name, Vec::new()))
    });
    let mut machine = machine(functions.concat());
    hits_at(&mut machine, &[(1, 1, 0x9000), (2, 2, 0x8f00), (3, 12, 0x8f00), (4, 3, 0x8f00)]);
    // It goes on in the code of another, whose end is the same.
    hits_at(&mut machine, &[(5, 12, 0x8f00)]);
    // A jump in its frame that was taken for one that leaves it.
    hits_at(&mut machine, &[(6, 11, 0x8fe0), (7, 11, 0x9000)]);
    golden::check("probe_exits", &mut golden::open(machine.finish()));
}

#[test]
fn hits_that_were_written_out_of_order_are_played_in_order() {
    let mut machine = machine(vec![
        probe(1, ProbeRole::ZoneBegin, 1, "work", Vec::new()),
        probe(2, ProbeRole::ZoneEnd, 1, "work", Vec::new()),
    ]);
    machine.chunk_bytes(100);
    // The program that wrote the first was interrupted by the one that wrote the second, chunk
    // after chunk.
    for us in (10..500).step_by(10) {
        machine.hit(0, us + 1, &hit_of(2, 100));
        machine.hit(0, us, &hit_of(1, 100));
    }
    let (lines, played) = golden::text(&mut golden::open(machine.finish()));
    assert_eq!((played.events_by_type["zone"], played.unmatched_ends), (49, 0), "{lines}");
    assert!(!lines.contains("unfinished"), "{lines}");
}

fn hit_of(probe: u32, tid: u32) -> Hit<'static> {
    Hit { tid, pid: 100, probe, ..Hit::default() }
}

#[test]
fn an_instrumented_program_without_shared_memory_reports_the_same_by_hits() {
    let roles = [
        ProbeRole::ClientZoneBegin,
        ProbeRole::ClientZoneEnd,
        ProbeRole::ClientMessage,
        ProbeRole::ClientPlot,
        ProbeRole::ClientFrame,
    ];
    let definitions =
        (1..).zip(roles).map(|(number, role)| probe(number, role, 0, "", Vec::new())).collect();
    let mut machine = machine(definitions);
    let hit = Hit { tid: 101, pid: 100, ..Hit::default() };
    let m = &mut machine;
    // Two zones were open before the recording.
    zone_begins(m, 1, "outer");
    zone_begins(m, 2, "inner");
    zone_ends(m, 3, 3);
    zone_ends(m, 4, 2);
    zone_begins(m, 5, "again");
    zone_ends(m, 6, 2);
    zone_ends(m, 7, 1);
    m.hit(0, 8, &Hit { probe: 3, arguments: &[1, 0xff], strings: &[(0, "hello")], ..hit });
    m.hit(
        1,
        9,
        &Hit { probe: 4, arguments: &[1, 1.5_f64.to_bits()], strings: &[(0, "load")], ..hit },
    );
    m.hit(1, 10, &Hit { probe: 5, arguments: &[1], strings: &[(0, "")], ..hit });
    golden::check("client_probes", &mut golden::open(machine.finish()));
}

#[test]
fn a_zone_whose_texts_could_not_be_read_is_shown_without_its_name() {
    let roles = [ProbeRole::ClientZoneBegin, ProbeRole::ClientZoneEnd];
    let definitions =
        (1..).zip(roles).map(|(number, role)| probe(number, role, 0, "", Vec::new())).collect();
    let mut machine = machine(definitions);
    let hit = Hit { tid: 101, pid: 100, ..Hit::default() };
    machine.hit(0, 1, &Hit { probe: 1, arguments: &[1, 2, 3, 17, 0], ..hit });
    machine.hit(0, 3, &Hit { probe: 2, arguments: &[0], ..hit });
    let (lines, played) = golden::text(&mut golden::open(machine.finish()));
    assert_eq!((played.events_by_type["zone"], played.unmatched_ends), (1, 0), "{lines}");
    assert!(lines.contains("(unreadable)"), "{lines}");
}

#[test]
fn a_present_begins_a_frame_once_even_if_one_library_has_another_do_it() {
    let mut machine =
        machine([present(1, "glXSwapBuffers"), present(2, "glXSwapBuffers")].concat());
    for start in [10, 20] {
        hits_at(&mut machine, &[(start, 2, 0x9000)]);
        // It is jumped to, so that both were entered at the same place.
        hits_at(&mut machine, &[(start + 1, 4, 0x9000), (start + 5, 5, 0x9008)]);
        hits_at(&mut machine, &[(start + 6, 3, 0x9008)]);
    }
    // The end of this one was lost: the next is in its place.
    hits_at(&mut machine, &[(30, 2, 0x9000), (40, 2, 0x9000), (41, 3, 0x9008)]);
    golden::check("probe_frames", &mut golden::open(machine.finish()));
}

fn present(number: u32, name: &str) -> [ProbeDefinition; 2] {
    [
        frames("GLX frames", probe(number * 2, ProbeRole::FunctionEntry, number, name, Vec::new())),
        frames("", probe(number * 2 + 1, ProbeRole::FunctionReturn, number, name, Vec::new())),
    ]
}

fn frames(frames: &str, mut probe: ProbeDefinition) -> ProbeDefinition {
    (probe.track, probe.frames) = ("GLX".into(), frames.into());
    probe
}

/// Tells of hits of one thread: when, of which probe, and with the stack up to where.
fn hits_at(machine: &mut FakeMachine, hits: &[(u64, u32, u64)]) {
    for (us, probe, stack_pointer) in hits.iter().copied() {
        let hit = Hit { tid: 101, pid: 100, probe, stack_pointer, ..Hit::default() };
        machine.hit(0, us, &hit);
    }
}

/// An instrumented program without shared memory begins a zone.
fn zone_begins(machine: &mut FakeMachine, us: u64, name: &str) {
    let strings = &[(0, name), (1, "f"), (2, "a.rs")];
    let hit = Hit { tid: 101, pid: 100, probe: 1, strings, ..Hit::default() };
    machine.hit(0, us, &Hit { arguments: &[1, 2, 3, 17, 0xff_0000], ..hit });
}

/// It ends one; so many are open before.
fn zone_ends(machine: &mut FakeMachine, us: u64, open: u64) {
    let hit = Hit { tid: 101, pid: 100, probe: 2, arguments: &[open], ..Hit::default() };
    machine.hit(0, us, &hit);
}
