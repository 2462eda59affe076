//! What the format has no room for is cut, counted and said.

use crate::scenario::{Scenario, sleeps};
use syscollect_model::{Event, GpuJob, Lane, LaneKind, LockAction, Loss, LossCause, Scope, Tables};

#[test]
fn cpus_beyond_256_are_told() {
    let mut scenario = Scenario::new(300);
    let thread = scenario.task(5, "app");
    for cpu in [255, 256, 299, u32::MAX] {
        scenario.switch(1, cpu, Some(Tables::IDLE_THREAD), sleeps(), thread);
        scenario.switch(2, cpu, Some(thread), sleeps(), Tables::IDLE_THREAD);
    }
    let (trace, cuts) = scenario.read_cut();
    assert_eq!(trace.switches[&5].len(), 1);
    assert_eq!(trace.cpus[255].len(), 1);
    assert_eq!(cuts.len(), 1);
    assert!(cuts[0].starts_with("6 switches on CPUs above number 255"), "{cuts:?}");
    assert!(
        trace.app_info.contains(&format!("Not in this file: {}", cuts[0])),
        "the file says so too"
    );
}

/// A program begins threads without end, and of each there is something of every kind; then comes
/// another that does a little more.
#[test]
fn of_too_many_threads_those_with_the_fewest_events_are_left_out() {
    let mut scenario = Scenario::new(1);
    let many = scenario.process(1, "many");
    let lock = scenario.lock(many, "lock", None);
    let zone = scenario.name("zone");
    let (queue, job) = (scenario.queue("queue"), scenario.name("job"));
    for tid in 1..=65_540 {
        let thread = scenario.thread(many, tid, "one");
        let at = u64::from(tid) * 10;
        let zones = scenario.zones(thread);
        scenario.at(at, Event::SliceBegin(zones, zone.into()));
        scenario.at(at, Event::SliceEnd(zones));
        scenario.switch(at, 0, Some(Tables::IDLE_THREAD), sleeps(), thread);
        scenario.locks(at + 1, lock, thread, (LockAction::Wait, false));
        scenario.memory(at + 2, thread, u64::from(tid), Some(1));
        scenario.memory(at + 3, thread, u64::from(tid), None);
        let job = GpuJob { thread: Some(thread), ..GpuJob::named(job) };
        scenario.at(at + 4, Event::GpuJob(queue, Box::new(job)));
        scenario.switch(at + 4, 0, Some(thread), sleeps(), Tables::IDLE_THREAD);
    }
    let app = scenario.task(100_000, "app");
    let zones = scenario.zones(app);
    for at in (700_000..700_080).step_by(10) {
        scenario.at(at, Event::SliceBegin(zones, zone.into()));
        scenario.at(at + 5, Event::SliceEnd(zones));
    }
    scenario.losses.push(lost_switches());
    let (trace, cuts) = scenario.read_cut();
    assert_eq!(trace.threads.len(), 65_535);
    assert_eq!(trace.thread("app / app").unwrap().zones.len(), 8);
    assert!(trace.thread("syscollect / losses").is_some());
    // With the threads of `app` and of losses, and the one that stands for those left out.
    let left_out = 65_540 + 3 - 65_535;
    let rest = trace.thread("syscollect / threads without a row").unwrap();
    let message = &trace.messages[rest.messages[0]].text;
    assert!(
        message.starts_with(&format!("{left_out} threads with the fewest events")),
        "{message}"
    );
    let expected = format!("{} events of the threads with the fewest", left_out * 6);
    assert!(cuts[0].starts_with(&expected), "{cuts:?}");
    // What they ran, and their jobs, are gone, what they allocated is not.
    assert_eq!(trace.cpus[0].len(), 65_540 - left_out);
    assert_eq!(trace.gpus[0].threads.len(), 65_540 - left_out);
    assert_eq!(trace.pools[0].pieces.len(), 65_540);
    assert_eq!(trace.pools[0].pieces[65_539].threads, [rest.id; 2]);
}

fn lost_switches() -> Loss {
    let lane = Lane::new(LaneKind::Sched, 0);
    Loss::of_lane(lane, LossCause::LaneFull, 7, None)
}

#[test]
fn events_after_39_hours_are_told() {
    let mut scenario = Scenario::new(1);
    let thread = scenario.task(5, "app");
    scenario.sample(1, thread, None);
    scenario.sample((1 << 47) - 2, thread, None);
    scenario.sample(1 << 47, thread, None);
    scenario.sample(u64::MAX - crate::scenario::ZERO, thread, None);
    let (trace, cuts) = scenario.read_cut();
    assert_eq!(trace.threads[0].samples.len(), 2);
    assert!(cuts[0].starts_with("2 events later than 39 hours"), "{cuts:?}");
}

#[test]
fn zones_of_too_many_names_keep_their_names() {
    let mut scenario = Scenario::new(1);
    let thread = scenario.task(5, "app");
    let track = scenario.track(Scope::Thread(thread), "calls");
    let count = 32_767 + 5;
    for index in 0..count {
        let name = scenario.tables.strings.intern(&format!("f{index}"));
        scenario.at(2 * index + 1, Event::SliceBegin(track, name.into()));
        scenario.at(2 * index + 2, Event::SliceEnd(track));
    }
    let (trace, cuts) = scenario.read_cut();
    let zones = &trace.threads[0].zones;
    assert_eq!(zones.len() as u64, count);
    assert!(zones.iter().enumerate().all(|(index, zone)| zone.name == format!("f{index}")));
    assert!(cuts[0].starts_with("6 zones have no statistics under their own names"), "{cuts:?}");
}

#[test]
fn slices_too_deep_are_told_and_the_others_nest() {
    let mut scenario = Scenario::new(1);
    let thread = scenario.task(5, "app");
    let track = scenario.track(Scope::Thread(thread), "calls");
    let name = scenario.tables.strings.intern("f");
    (1..=258).for_each(|at| scenario.at(at, Event::SliceBegin(track, name.into())));
    (2_001..=2_258).for_each(|at| scenario.at(at, Event::SliceEnd(track)));
    let (trace, cuts) = scenario.read_cut();
    let (mut zone, mut depth) = (&trace.threads[0].zones[0], 1);
    while let Some(child) = zone.children.first() {
        (zone, depth) = (child, depth + 1);
    }
    assert_eq!((depth, zone.start, zone.end), (255, 255, 2_004));
    assert!(cuts[0].starts_with("3 slices deeper than 255 levels"), "{cuts:?}");
}
