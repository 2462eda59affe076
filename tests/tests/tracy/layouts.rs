//! What only newer layouts have, and what both compressions make of large files.

use crate::scenario::{Scenario, off, sleeps};
use std::collections::BTreeMap;
use syscollect_exporters::{TracyCompression, TracyExporter, TracyLayout, TracyOptions};
use syscollect_model::{
    CpuId, Crash, Event, LaneKind, Loss, LossCause, MachineId, Scope, SleepState, Slice, Switch,
    Tables, ThreadId, Time, Value,
};
use syscollect_tests::tracy_reader::{self, Compression};

const IDLE: ThreadId = Tables::IDLE_THREAD;

#[test]
fn a_switch_says_which_cpu_woke_the_thread() {
    let mut scenario = Scenario::new(300);
    let (a, b) = (scenario.task(10, "a"), scenario.task(20, "b"));
    scenario.switch(1, 2, Some(IDLE), off(SleepState::Runnable), b);
    for (at, waker) in [(10, 2), (20, 1), (30, 299)] {
        scenario.wake_from(waker, at, a);
        scenario.switch(at + 1, 0, Some(IDLE), sleeps(), a);
        scenario.switch(at + 5, 0, Some(a), sleeps(), IDLE);
    }
    scenario.switch(50, 0, Some(IDLE), sleeps(), a);
    let trace = scenario.read_layout(TracyLayout::V0_13);
    assert_eq!(trace.header.version, [0, 13, 0]);
    let reported: Vec<_> =
        trace.switches[&10].iter().map(|switch| (switch.wakeup, switch.wakeup_cpu)).collect();
    // The viewer looks up who ran there: CPU 1 ran nothing, and CPU 299 has no room.
    assert_eq!(reported, [(10, 2), (20, 0), (30, 0), (50, 0)]);
    scenario.read();
}

#[test]
fn threads_of_a_process_stand_together_below_the_machine_and_above_idle_cpus() {
    let mut scenario = Scenario::new(1);
    let process = scenario.process(5, "app");
    let threads = [
        scenario.thread(process, 5, "main"),
        scenario.task(9, "other"),
        scenario.thread(process, 6, "worker"),
    ];
    let boot = scenario.track(Scope::Machine(MachineId::FIRST), "boot");
    let started = scenario.name("started");
    for (at, thread) in (1..).zip(threads) {
        scenario.at(at, Event::ThreadStart(thread));
    }
    scenario.sample(5, IDLE, None);
    scenario.at(6, Event::Instant(boot, started.into()));
    let trace = scenario.read_layout(TracyLayout::V0_13);
    let hints: BTreeMap<&str, i32> = trace
        .threads
        .iter()
        .map(|thread| (&*trace.thread_names[&thread.id], thread.group_hint))
        .collect();
    let expected = [
        ("app / main", 1),
        ("app / worker", 1),
        ("idle / CPU 0", i32::MAX),
        ("machine / boot", 0),
        ("other / other", 2),
    ];
    assert_eq!(hints, expected.into());
    scenario.read();
}

#[test]
fn messages_say_how_much_they_matter_and_whose_they_are() {
    let mut scenario = Scenario::new(1);
    let thread = scenario.task(5, "app");
    let quiet = scenario.task(6, "quiet");
    let track = scenario.track(Scope::Thread(thread), "log");
    for (at, name, field, value) in [
        (1, "a", "severity", Value::Text("WARN".into())),
        (2, "b", "Level", Value::Text("verbose".into())),
        (3, "c", "level", Value::Signed(-1)),
        (4, "d", "text", Value::Text("error".into())),
        (5, "e", "severity", Value::Text("Critical".into())),
    ] {
        let fields = vec![scenario.field(field, value)];
        let slice = Slice { fields, ..Slice::named(scenario.name(name)) };
        scenario.at(at, Event::Instant(track, slice));
    }
    scenario.at(6, Event::ThreadEnd(thread));
    scenario.switch(7, 0, Some(IDLE), sleeps(), quiet);
    let loss = Loss {
        origin: LaneKind::Sched.into(),
        cpu: None,
        cause: LossCause::LaneFull,
        user: None,
        count: 1,
        between: None,
    };
    scenario.at(8, Event::Loss(loss.clone()));
    scenario.losses = vec![loss];
    let signal = scenario.name("SIGSEGV");
    scenario.at(9, Event::Crash(Crash { thread, signal, code: signal, address: 0, stack: None }));
    let trace = scenario.read_layout(TracyLayout::V0_14);
    let reported: Vec<_> =
        trace.messages.iter().map(|message| (message.time, message.importance.unwrap())).collect();
    let expected = [
        (1, (false, 3)),
        (2, (false, 0)),
        (3, (false, 2)),
        (4, (false, 2)),
        (5, (false, 5)),
        (6, (false, 1)),
        (7, (true, 0)),
        (8, (true, 3)),
        (9, (false, 5)),
    ];
    assert_eq!(reported, expected);
    assert_eq!(trace.header.version, [0, 14, 0]);
    assert_eq!(scenario.read_layout(TracyLayout::V0_13).messages[0].importance, None);
    scenario.read();
}

/// Many blocks on each stream; each is as good as new after the one before.
#[test]
fn a_large_file_is_the_same_in_both_compressions_and_smaller_with_zstd() {
    let mut scenario = Scenario::new(2);
    let threads = [scenario.task(10, "a"), scenario.task(20, "b")];
    let mut next = 12_345_u64;
    let mut at = 1;
    for index in 0..40_000 {
        next = next.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        at += next >> 54;
        let (previous, next) = (threads[index % 2], threads[(index + 1) % 2]);
        let switch = Switch {
            cpu: CpuId::new(0),
            previous: Some(previous),
            previous_priority: 1,
            off_cpu: sleeps(),
            next,
            next_priority: 1,
        };
        scenario.at(at, Event::Switch(switch));
    }
    let lz4 = scenario.bytes().0;
    let options = TracyOptions { compression: TracyCompression::Zstd, ..TracyOptions::default() };
    let zstd = scenario.bytes_with(options);
    assert!(zstd.len() < lz4.len() * 4 / 5, "{} of {}", zstd.len(), lz4.len());
    let mut trace = tracy_reader::read(&zstd).unwrap();
    assert_eq!((trace.compression, trace.streams), (Compression::Zstd, 4));
    assert_eq!(trace.switches.values().map(Vec::len).sum::<usize>(), 40_000);
    trace.compression = Compression::Lz4;
    assert!(tracy_reader::read(&lz4).unwrap() == trace);
}

#[test]
fn a_zstd_file_with_a_damaged_or_missing_block_is_told_from_a_whole_one() {
    let mut scenario = Scenario::new(1);
    let name = "x".repeat(200_000);
    let thread = scenario.task(1, &name);
    scenario.at(1, Event::ThreadStart(thread));
    let options = TracyOptions { compression: TracyCompression::Zstd, ..TracyOptions::default() };
    let whole = scenario.bytes_with(options);
    tracy_reader::read(&whole).unwrap();
    let first = 10 + u32::from_le_bytes(whole[6..10].try_into().unwrap()) as usize;
    assert!(
        tracy_reader::read(&[&whole[..6], &whole[first..]].concat()).is_err(),
        "the first block is missing"
    );
    assert!(tracy_reader::read(&whole[..first]).is_err(), "only the first block is there");
    let mut damaged = whole.clone();
    damaged[12] ^= 0xff;
    assert!(tracy_reader::read(&damaged).is_err());
}

#[test]
fn an_output_that_refuses_ends_a_zstd_file_with_its_cause() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    use syscollect_model::Exporter;
    let options = TracyOptions { compression: TracyCompression::Zstd, layout: TracyLayout::V0_14 };
    let mut exporter = TracyExporter::new(Full).with(options);
    let tables = Tables::default();
    exporter.begin(&tables).unwrap();
    exporter.event(Time(1), &Event::ThreadStart(IDLE), &tables).unwrap();
    assert!(exporter.end(&[], None, &tables).is_err());
}
