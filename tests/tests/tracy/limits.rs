//! What the format has no room for is cut, counted and said.

use crate::scenario::{Scenario, sleeps};
use syscollect_model::{Event, Scope, Tables};

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

#[test]
fn threads_beyond_the_index_are_told() {
    let mut scenario = Scenario::new(1);
    for tid in 1..=65_540 {
        let thread = scenario.task(tid, "many");
        scenario.sample(1, thread, None);
    }
    let (trace, cuts) = scenario.read_cut();
    assert_eq!(trace.threads.len(), 65_535);
    assert!(cuts[0].starts_with("5 events of threads beyond the first 65,535"), "{cuts:?}");
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
