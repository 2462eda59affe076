//! Event loops that mark their waits.

use syscollect_exporters::TextExporter;
use syscollect_exporters::report::{ReportExporter, ReportOptions};
use syscollect_merge::Session;
use syscollect_model::Exporter;
use syscollect_playback::Recording;
use syscollect_records::task_state;
use syscollect_store::CaptureReader;
use syscollect_tests::{FakeMachine, FakeProgram};
use syscollect_zone_protocol::{Event, LoopPhase};

/// A server that looks for events each millisecond, never sleeps, and works 80 ms on one of them.
fn machine() -> FakeMachine {
    let mut machine = FakeMachine::new(1);
    machine.process(100, 1, "server", &[(100, "server")]);
    let program = FakeProgram::new(&mut machine, 1, 100);
    let server = program.thread(0, 100);
    machine.switch(0, 4, task_state::RUNNABLE, 100);
    let mut us = 1_000;
    for turn in 0..5 {
        server.event(&mut machine, us, Event::Loop { phase: LoopPhase::Waits }, &[]);
        server.event(&mut machine, us + 10, Event::Loop { phase: LoopPhase::Turns }, &[]);
        us += if turn == 3 { 80_010 } else { 1_000 };
    }
    program.finish(&mut machine);
    machine
}

fn play<E: Exporter<Error: std::fmt::Debug>>(mut exporter: E) -> E {
    let mut session =
        Session::open(CaptureReader::from_bytes(machine().finish()).unwrap()).unwrap();
    session.play(&mut exporter).unwrap();
    exporter
}

#[test]
fn the_report_tells_of_a_loop_by_its_own_marks() {
    let report = play(ReportExporter::new(ReportOptions::default())).finish();
    let [row] = &report.event_loops.loops.rows[..] else { panic!("there is one loop") };
    assert_eq!((row.tid, &*row.waits_in), (100, "its own marks"));
    assert_eq!((row.returns, row.over_limit, row.longest_ns), (4, 1, 80_000_000));
    let [stretch] = &report.event_loops.stretches.rows[..] else { panic!("one is over 50 ms") };
    assert_eq!((stretch.length_ns, stretch.on_cpu_ns), (80_000_000, 80_000_000));
    assert!(!stretch.may_have_returned, "though no sample saw what it did");
}

#[test]
fn marks_read_as_lines() {
    let text = play(TextExporter::new(Vec::new())).finish().unwrap();
    let text = String::from_utf8(text).unwrap();
    let marks: Vec<_> = text.lines().filter_map(|line| line.split_once(" loop ")).collect();
    assert_eq!(marks.len(), 10, "{text}");
    assert!(marks[0].1.starts_with("waits ") && marks[1].1.starts_with("turns "));
}
