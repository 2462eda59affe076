//! From the bytes of a capture to a file, through the whole pipeline.

use syscollect_exporters::TracyExporter;
use syscollect_model::LossCause;
use syscollect_records::task_state;
use syscollect_tests::tracy_reader::{self, TracyFile};
use syscollect_tests::{FakeMachine, Stacks, golden};

/// The capture as a Tracy file, and how many switches and samples were played.
fn export(capture: Vec<u8>) -> (TracyFile, [u64; 2]) {
    let mut session = golden::open(capture);
    let mut exporter = TracyExporter::new(Vec::new());
    let played = session.play(&mut exporter).unwrap();
    assert!(exporter.cuts().is_empty());
    let count = |kind: &str| played.events_by_type.get(kind).copied().unwrap_or(0);
    let trace = tracy_reader::read(&exporter.finish().unwrap()).unwrap();
    (trace, [count("switch"), count("sample")])
}

fn busy_machine() -> FakeMachine {
    let mut machine = FakeMachine::new(2);
    machine.process(100, 1, "ping", &[]);
    machine.process(200, 1, "pong", &[(200, "pong"), (201, "helper")]);
    for round in 0..50u64 {
        let us = 10 + round * 100;
        machine.wake(0, us, 200, 1, Stacks::default());
        machine.switch(0, us + 1, task_state::RUNNABLE, 100);
        machine.switch(1, us + 2, task_state::RUNNABLE, 200);
        let user = machine.sample_stack(1, us + 3, 200, &[0x1000 + round, 0x2000]);
        machine.sample(1, us + 4, 200, Stacks { user, kernel: 0 }, 0);
        machine.switch(1, us + 50, task_state::INTERRUPTIBLE, 201);
        machine.switch(0, us + 60, task_state::UNINTERRUPTIBLE, 0);
        machine.switch(1, us + 70, task_state::INTERRUPTIBLE, 0);
    }
    machine
}

#[test]
fn every_switch_and_sample_of_a_capture_is_in_the_file() {
    let (trace, [switches, samples]) = export(busy_machine().finish());
    assert_eq!([switches, samples], [250, 50], "what the machine was told to do");
    // 100 of the switches go to idle, which is no thread of the file.
    assert_eq!(trace.switches.values().map(Vec::len).sum::<usize>(), 150);
    assert_eq!(trace.cpu_samples(), 50);
    let run = |id: u64| trace.switches[&id].iter().map(|switch| (switch.end - switch.start, switch.state));
    assert!(run(100).all(|ran| ran == (59_000, 101)));
    assert!(run(200).all(|ran| ran == (48_000, 104)));
    assert!(trace.switches[&200].iter().all(|switch| switch.start - switch.wakeup == 2_000));
    assert_eq!(trace.totals[&201].running, 50 * 20_000);
    assert_eq!(trace.thread_names[&201], "pong / helper");
}

#[test]
fn losses_of_a_capture_are_messages() {
    let mut machine = busy_machine();
    machine.lose(0, 9_000, 12, 100);
    machine.switch(0, 9_100, task_state::INTERRUPTIBLE, 0);
    machine.declare("samples", Some(1), LossCause::Nested, 4);
    let (trace, _) = export(machine.finish());
    let own = trace.thread("syscollect / losses").unwrap();
    let texts: Vec<&str> = own.messages.iter().map(|index| trace.messages[*index].text.as_str()).collect();
    let expected = [
        "12 records lost from sched of CPU 0: lane-full",
        "4 records lost from samples of CPU 1: nested, at some time",
    ];
    assert_eq!(texts, expected);
}

#[test]
fn a_capture_of_nothing_is_a_whole_file() {
    let (trace, counts) = export(FakeMachine::new(1).finish());
    assert_eq!((counts, trace.threads.len()), ([0, 0], 0));
}
