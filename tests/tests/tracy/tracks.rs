//! Slices, instants, counters, losses.

use crate::scenario::Scenario;
use syscollect_model::{CpuId, Event, LaneKind, Loss, LossCause, LossOrigin, MachineId, Scope};
use syscollect_tests::tracy_reader::{Plot, SourceLocation, TracyFile, Zone};

fn zone(name: &str, start: i64, end: i64, children: Vec<Zone>) -> Zone {
    let location = SourceLocation { name: Some(name.into()), ..SourceLocation::default() };
    Zone { name: name.into(), start, end, location, children, ..Zone::default() }
}

fn messages(trace: &TracyFile) -> Vec<(i64, &str, &str)> {
    trace
        .messages
        .iter()
        .map(|message| {
            (message.time, trace.thread_names[&message.thread].as_str(), message.text.as_str())
        })
        .collect()
}

#[test]
fn slices_are_zones_that_nest() {
    let mut scenario = Scenario::new(1);
    let thread = scenario.task(5, "app");
    let (own, second) = (
        scenario.track(Scope::Thread(thread), "calls"),
        scenario.track(Scope::Thread(thread), "locks"),
    );
    let cpu = scenario.track(Scope::Cpu(CpuId::new(3)), "irq");
    let [a, b, c] = ["a", "b", "c"].map(|text| name(&mut scenario, text));
    scenario.at(1, Event::SliceEnd(own));
    scenario.at(2, Event::SliceBegin(own, a.into()));
    scenario.at(3, Event::SliceBegin(own, b.into()));
    scenario.at(4, Event::SliceBegin(second, c.into()));
    scenario.at(5, Event::SliceEnd(own));
    scenario.at(6, Event::SliceBegin(own, b.into()));
    scenario.at(7, Event::SliceEnd(own));
    scenario.at(8, Event::SliceEnd(own));
    scenario.at(9, Event::SliceEnd(second));
    scenario.at(10, Event::SliceBegin(own, c.into()));
    scenario.at(11, Event::SliceBegin(own, a.into()));
    scenario.at(12, Event::SliceEnd(own));
    scenario.at(13, Event::SliceBegin(cpu, a.into()));
    let trace = scenario.read();

    let inside = vec![zone("b", 3, 5, vec![]), zone("b", 6, 7, vec![])];
    let open = zone("c", 10, -1, vec![zone("a", 11, 12, vec![])]);
    assert_eq!(trace.thread("app / app").unwrap().zones, [zone("a", 2, 8, inside), open]);
    assert_eq!(
        trace.thread("app / app locks").unwrap().zones,
        [zone("c", 4, 9, vec![])],
        "it does not nest"
    );
    assert_eq!(trace.thread("machine / CPU 3 irq").unwrap().zones, [zone("a", 13, -1, vec![])]);
    assert_eq!(trace.pids.values().copied().collect::<Vec<_>>(), [5, 5], "a CPU has no process");
}

fn name(scenario: &mut Scenario, text: &str) -> syscollect_model::StringId {
    scenario.tables.strings.intern(text)
}

#[test]
fn instants_are_messages_of_their_thread() {
    let mut scenario = Scenario::new(1);
    let process = scenario.process(5, "app");
    let thread = scenario.thread(process, 5, "main");
    let scopes = [
        (Scope::Machine(MachineId::FIRST), "boot"),
        (Scope::Process(process), "gc"),
        (Scope::Thread(thread), "log"),
    ];
    for (at, (scope, name)) in (1..).zip(scopes) {
        let (track, text) =
            (scenario.track(scope, name), scenario.tables.strings.intern(&format!("{name}!")));
        scenario.at(at, Event::Instant(track, text.into()));
    }
    let trace = scenario.read();
    let expected =
        [(1, "machine / boot", "boot!"), (2, "app / gc", "gc!"), (3, "app / main", "log!")];
    assert_eq!(messages(&trace), expected);
    assert!(trace.messages.iter().all(|message| message.color == 0xffff_ffff));
}

#[test]
fn what_happens_to_threads_is_told_by_them() {
    let mut scenario = Scenario::new(1);
    let process = scenario.process(5, "make");
    let thread = scenario.thread(process, 5, "make");
    let [cc, worker] = ["cc", "worker"].map(|text| scenario.tables.strings.intern(text));
    scenario.at(1, Event::ProcessStart(process));
    scenario.at(1, Event::ThreadStart(thread));
    scenario.at(2, Event::ProcessExec(process, cc));
    scenario.at(3, Event::ThreadName(thread, worker));
    scenario.at(4, Event::ThreadEnd(thread));
    scenario.at(4, Event::ProcessEnd(process));
    let trace = scenario.read();
    let shown: Vec<_> = messages(&trace).iter().map(|(time, _, text)| (*time, *text)).collect();
    assert_eq!(shown, [(1, "starts"), (2, "runs cc"), (3, "is named worker"), (4, "ends")]);
}

#[test]
fn every_loss_is_told_once() {
    let mut scenario = Scenario::new(1);
    let other = Loss {
        origin: LossOrigin::Unknown("file".into()),
        cpu: None,
        cause: LossCause::DiskFull,
        user: None,
        count: 9,
        between: None,
    };
    scenario.at(1, Event::Loss(loss(3, LossCause::LaneFull)));
    scenario.at(7, Event::Loss(loss(4, LossCause::LaneFull)));
    scenario.losses = vec![loss(7, LossCause::LaneFull), loss(2, LossCause::Nested), other];
    let trace = scenario.read();
    let reported: Vec<_> = messages(&trace).iter().map(|(time, _, text)| (*time, *text)).collect();
    let expected = [
        (1, "3 records lost from sched of CPU 1: lane-full"),
        (7, "4 records lost from sched of CPU 1: lane-full"),
        (7, "2 records lost from sched of CPU 1: nested, at some time"),
        (7, "9 records lost from file: disk-full, at some time"),
    ];
    assert_eq!(reported, expected);
    assert!(messages(&trace).iter().all(|(_, thread, _)| *thread == "syscollect / losses"));
}

fn loss(count: u64, cause: LossCause) -> Loss {
    Loss {
        origin: LaneKind::Sched.into(),
        cpu: Some(CpuId::new(1)),
        cause,
        user: None,
        count,
        between: None,
    }
}

#[test]
fn counters_are_plots_and_units_that_the_viewer_lacks_are_in_their_names() {
    let mut scenario = Scenario::new(1);
    let thread = scenario.task(5, "app");
    let process = scenario.tables.thread(thread).process;
    let tracks = [
        scenario.counter(Scope::Cpu(CpuId::new(1)), "frequency", "kHz"),
        scenario.counter(Scope::Machine(MachineId::FIRST), "memory", "bytes"),
        scenario.counter(Scope::Process(process), "share", "%"),
        scenario.counter(Scope::Machine(MachineId::FIRST), "package", "W"),
        scenario.counter(Scope::Machine(MachineId::FIRST), "things", ""),
        scenario.counter(Scope::Machine(MachineId::FIRST), "never", "bytes"),
    ];
    for (at, value) in [(1, 5.0), (2, -1.5), (3, f64::NAN)] {
        tracks[..5].iter().for_each(|track| scenario.at(at, Event::Counter(*track, value)));
    }
    scenario.at(4, Event::Counter(tracks[5], f64::INFINITY));
    let expected = [
        plot("CPU 1 frequency (kHz)", 0),
        plot("memory", 1),
        plot("app (5) share", 2),
        plot("package", 3),
        plot("things", 0),
    ];
    assert_eq!(scenario.read().plots, expected);
}

fn plot(name: &str, format: u8) -> Plot {
    Plot { name: name.into(), kind: 0, format, steps: true, values: vec![(1, 5.0), (2, -1.5)] }
}

#[test]
fn the_load_of_all_cpus_is_a_plot() {
    let mut scenario = Scenario::new(2);
    let thread = scenario.task(5, "app");
    let idle = syscollect_model::Tables::IDLE_THREAD;
    for (ms, cpu, from, to) in
        [(0, 0, idle, thread), (150, 0, thread, idle), (310, 1, idle, thread)]
    {
        scenario.switch(ms * 1_000_000 + 1, cpu, Some(from), crate::scenario::sleeps(), to);
    }
    let trace = scenario.read();
    let usage = trace.plots.iter().find(|plot| plot.kind == 2).unwrap();
    assert_eq!((&*usage.name, usage.format), ("CPU usage", 2));
    let rounded: Vec<_> =
        usage.values.iter().map(|(time, value)| (*time, (value * 100.0).round() / 100.0)).collect();
    assert_eq!(rounded, [(100_000_000, 50.0), (200_000_000, 25.0), (300_000_000, 0.0)]);
}
