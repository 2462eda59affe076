//! One process alone.

use crate::story::{Story, off, sleeps};
use syscollect_model::{Event, Scope, SleepState, Tables};
use syscollect_tests::tracy_reader::CpuTime;

#[test]
fn one_process_is_shown_with_the_machine_and_without_others() {
    let mut story = Story::new(2);
    let [app, other] = [(5, "app"), (6, "other")].map(|(pid, name)| story.task(pid, name));
    let name = story.name("zone");
    for (thread, at) in [(app, 2), (other, 3)] {
        let track = story.zones(thread);
        story.at(at, Event::SliceBegin(track, name.into()));
        story.at(at, Event::SliceEnd(track));
    }
    let counters = [Scope::Machine, Scope::Process(story.tables.thread(other).process)];
    for scope in counters {
        let track = story.counter(scope, "memory", "bytes");
        story.at(4, Event::Counter(track, 5.0));
    }
    story.switch(10, 0, Some(Tables::IDLE_THREAD), sleeps(), app);
    let blocked = Some(story.stack(&["read"]));
    story.switch(20, 0, Some(app), sleeps(), other);
    story.switch(
        30,
        0,
        Some(other),
        syscollect_model::OffCpu { stack: blocked, ..off(SleepState::Idle) },
        app,
    );
    story.switch(40, 0, Some(app), sleeps(), Tables::IDLE_THREAD);
    story.wake(41, other);
    story.sample(42, other, None);
    story.sample(43, Tables::IDLE_THREAD, None);
    let trace = story.read_only("app");

    let names: Vec<&str> =
        trace.threads.iter().map(|thread| &*trace.thread_names[&thread.id]).collect();
    assert_eq!(names, ["app / app"]);
    // The first event that is left, the zone, is at the file's time 1.
    let ran = |start, end| CpuTime { start, end, thread: 5 };
    assert_eq!(trace.cpus[0], [ran(9, 19), ran(29, 39)]);
    assert_eq!(trace.threads[0].zones.len(), 1);
    let plots: Vec<&str> = trace.plots.iter().map(|plot| &*plot.name).collect();
    assert_eq!(plots, ["memory"]);
    assert!(trace.app_info.contains(&"Only the process app is shown".to_owned()));
}
