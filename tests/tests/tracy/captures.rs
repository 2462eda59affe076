//! From the bytes of a capture to a file, through the whole pipeline.

use syscollect_exporters::TracyExporter;
use syscollect_model::LossCause;
use syscollect_playback::Recording;
use syscollect_records::task_state;
use syscollect_tests::client::{first_word, text};
use syscollect_tests::tracy_reader::{self, TracyFile};
use syscollect_tests::{FakeMachine, FakeProgram, Stacks, golden};
use syscollect_zone_protocol::{FramePhase, ItemKind, LockAction, TextRole, ValueType};

/// The capture as a Tracy file, and how many switches and samples were played.
fn export(capture: Vec<u8>) -> (TracyFile, [u64; 2]) {
    let mut session = golden::open(capture);
    let mut exporter = TracyExporter::new(Vec::new());
    let played = session.play(&mut exporter).unwrap();
    assert!(exporter.cuts().is_empty());
    let trace = tracy_reader::read(&exporter.finish().unwrap()).unwrap();
    let counts = ["switch", "sample"];
    (trace, counts.map(|kind| played.events_by_type.get(kind).copied().unwrap_or(0)))
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
    for (id, expected) in [(100, (59_000, 101)), (200, (48_000, 104))] {
        let mut ran =
            trace.switches[&id].iter().map(|switch| (switch.end - switch.start, switch.state));
        assert!(ran.all(|ran| ran == expected), "{id}");
    }
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
    let messages: Vec<&str> =
        own.messages.iter().map(|index| trace.messages[*index].text.as_str()).collect();
    let expected = [
        "12 records lost from sched of CPU 0: lane-full",
        "4 records lost from samples of CPU 1: nested, at some time",
    ];
    assert_eq!(messages, expected);
}

#[test]
fn a_capture_of_nothing_is_a_whole_file() {
    let (trace, counts) = export(FakeMachine::new(1).finish());
    assert_eq!((counts, trace.threads.len()), ([0, 0], 0));
}

#[test]
fn an_instrumented_program_has_all_that_it_reported() {
    let mut machine = FakeMachine::new(1);
    machine.process(100, 1, "server", &[(100, "server"), (101, "worker")]);
    let mut program = FakeProgram::new(&mut machine, 1, 100);
    let (work, queue) = (
        program.location("work", "run", "src/main.rs", 7, 0x10_20_30),
        program.plot("queue", "jobs"),
    );
    let (lock, started) = (program.lock("cache", false, work), program.string("started"));
    let mut thread = program.thread(0, 101);
    let m = &mut machine;
    thread.begin(m, 10, work, &[text(TextRole::ZoneText, 0, "a request")]);
    thread.item(m, 11, ItemKind::Message, &[u64::from(started) | 0xff_0000 << 32], &[]);
    for (us, action) in
        [(12, LockAction::Wait), (13, LockAction::Obtain), (14, LockAction::Release)]
    {
        thread.item(m, us, ItemKind::Lock, &[first_word(lock, action as u32), 0], &[]);
    }
    thread.item(m, 15, ItemKind::Plot, &[first_word(queue, ValueType::Unsigned as u32), 5], &[]);
    thread.item(m, 16, ItemKind::Alloc, &[0x7000, 64, 0], &[]);
    thread.end(m, 20);
    for us in [30, 46, 62] {
        thread.item(m, us, ItemKind::Frame, &[(FramePhase::Mark as u64) << 32], &[]);
    }
    program.finish(m);
    let (trace, _) = export(machine.finish());

    let worker = trace.thread("server / worker").unwrap();
    let zone = &worker.zones[0];
    assert_eq!(
        (&*zone.name, &*zone.text, zone.end - zone.start, zone.color),
        ("work", "a request", 10_000, 0x30_20_10)
    );
    assert_eq!(
        (&*zone.location.function, &*zone.location.file, zone.location.line),
        ("run", "src/main.rs", 7)
    );
    let messages: Vec<_> = worker.messages.iter().map(|index| &trace.messages[*index]).collect();
    assert_eq!((&*messages[0].text, messages[0].color), ("started", 0xff_00_00_ff));
    assert_eq!(
        trace.locks[0].events.iter().map(|event| event.thread).collect::<Vec<_>>(),
        [101; 3]
    );
    let plot = trace.plots.iter().find(|plot| plot.name == "server (100) queue (jobs)").unwrap();
    assert_eq!(plot.values[0].1, 5.0);
    assert_eq!((trace.pools[0].pieces[0].size, trace.pools[0].pieces[0].threads[0]), (64, 101));
    let main = &trace.frame_sets[0].frames;
    assert_eq!(
        main[1..].windows(2).map(|two| two[1].0 - two[0].0).collect::<Vec<_>>(),
        [16_000, 16_000]
    );
}
