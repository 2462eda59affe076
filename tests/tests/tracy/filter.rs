//! One process alone.

use crate::scenario::{Scenario, off, sleeps};
use syscollect_model::{Event, MachineId, Scope, SleepState, Tables};
use syscollect_tests::tracy_reader::CpuTime;

#[test]
fn one_process_is_shown_with_the_machine_and_without_others() {
    let mut scenario = Scenario::new(2);
    let [app, other] = [(5, "app"), (6, "other")].map(|(pid, name)| scenario.task(pid, name));
    let name = scenario.name("zone");
    for (thread, at) in [(app, 2), (other, 3)] {
        let track = scenario.zones(thread);
        scenario.at(at, Event::SliceBegin(track, name.into()));
        scenario.at(at, Event::SliceEnd(track));
    }
    let counters =
        [Scope::Machine(MachineId::FIRST), Scope::Process(scenario.tables.thread(other).process)];
    for scope in counters {
        let track = scenario.counter(scope, "memory", "bytes");
        scenario.at(4, Event::Counter(track, 5.0));
    }
    scenario.switch(10, 0, Some(Tables::IDLE_THREAD), sleeps(), app);
    let blocked = Some(scenario.stack(&["read"]));
    scenario.switch(20, 0, Some(app), sleeps(), other);
    scenario.switch(
        30,
        0,
        Some(other),
        syscollect_model::OffCpu { stack: blocked, ..off(SleepState::Idle) },
        app,
    );
    scenario.switch(40, 0, Some(app), sleeps(), Tables::IDLE_THREAD);
    scenario.wake(41, other);
    scenario.sample(42, other, None);
    scenario.sample(43, Tables::IDLE_THREAD, None);
    let trace = scenario.read_only("app");

    let names: Vec<&str> =
        trace.threads.iter().map(|thread| &*trace.thread_names[&thread.id]).collect();
    assert_eq!(names, ["app / app"]);
    // The first event that is left, the zone, is at the file's time 1.
    assert_eq!(trace.cpus[0], [ran(9, 19), ran(29, 39)]);
    assert_eq!(trace.threads[0].zones.len(), 1);
    let plots: Vec<&str> = trace.plots.iter().map(|plot| &*plot.name).collect();
    assert_eq!(plots, ["memory"]);
    assert!(trace.app_info.contains(&"Only the process app is shown".to_owned()));
}

fn ran(start: i64, end: i64) -> CpuTime {
    CpuTime { start, end, thread: 5 }
}
