//! A Perfetto trace of some processes alone.

use crate::decode::{Fields, packets};
use crate::replay::{Replay, UNRECORDED, replay};
use crate::scenario::{self, IDLE, Scenario};
use std::collections::BTreeSet;
use syscollect_exporters::{PerfettoExporter, ProcessFilter};
use syscollect_model::SleepState;

fn file(scenario: &Scenario, process: ProcessFilter) -> Vec<u8> {
    let mut exporter = PerfettoExporter::new(Vec::new()).only(Some(process));
    scenario
        .play(&mut exporter, &scenario::session(), &scenario::losses(), Some(&scenario::summary()))
        .unwrap();
    exporter.finish().unwrap()
}

/// The processes that the trace names.
fn processes(file: &[u8]) -> BTreeSet<u64> {
    let packets = packets(file);
    let trees = packets.iter().flat_map(|packet| Fields::parse(packet).message(2).messages(1));
    trees.filter_map(|process| process.number(1)).collect()
}

/// Every thread that comes onto a CPU.
fn runs(reported: &Replay) -> BTreeSet<u64> {
    reported.switches.values().flatten().map(|(_, _, next)| *next).collect()
}

#[test]
fn only_the_process_runs_is_sampled_and_has_tracks() {
    let all = {
        let mut exporter = PerfettoExporter::new(Vec::new());
        scenario::scenario()
            .play(
                &mut exporter,
                &scenario::session(),
                &scenario::losses(),
                Some(&scenario::summary()),
            )
            .unwrap();
        replay(&exporter.finish().unwrap())
    };
    let file = file(&scenario::scenario(), ProcessFilter::Pid(100));
    let reported = replay(&file);
    assert!(runs(&all).len() > 3, "the scenario has more threads than these: {:?}", runs(&all));
    assert!(
        runs(&reported).is_subset(&BTreeSet::from([0, 100, UNRECORDED])),
        "{:?}",
        runs(&reported)
    );
    assert!(runs(&reported).contains(&100));
    assert!(reported.wakeups.iter().all(|(_, wakee)| *wakee == 100), "{:?}", reported.wakeups);
    assert!(
        !all.slices.is_empty()
            && reported.slices.iter().all(|slice| !slice.track.contains("process 200"))
    );
    assert_eq!(reported.lost, all.lost, "losses are the machine's");
}

#[test]
fn who_wakes_the_process_is_named_but_his_stacks_are_his_own() {
    let mut scenario = Scenario::new();
    let (_, waker) = scenario.process(10, 1, "waker", &["/bin/waker"]);
    let (_, sleeper) = scenario.process(20, 1, "sleeper", &["/bin/sleeper"]);
    let (_, _) = scenario.process(30, 1, "bystander", &["/bin/bystander"]);
    let frame = scenario.frame(None, 0x1000, Some("futex_wake"));
    let stack = scenario.tables.intern_stack(&[frame]);
    scenario.switch(0, IDLE, scenario::off(SleepState::Runnable), waker);
    scenario.wakeup(0, waker, sleeper, Some(stack));
    scenario.switch(0, waker, scenario::off(SleepState::Interruptible), sleeper);
    scenario.switch(0, sleeper, scenario::off(SleepState::Interruptible), IDLE);
    let file = file(&scenario, ProcessFilter::Name("sleeper".into()));
    let reported = replay(&file);
    assert_eq!(processes(&file), BTreeSet::from([10, 20]));
    assert_eq!((reported.wakeups.len(), reported.samples.len()), (1, 0));
    assert_eq!(runs(&reported), BTreeSet::from([0, 20]));
}

#[test]
fn a_cpu_that_runs_others_only_is_idle_and_says_so_once() {
    let mut scenario = Scenario::new();
    let others = [10, 11, 12].map(|pid| scenario.process(pid, 1, "other", &["/bin/other"]).1);
    let (_, own) = scenario.process(20, 1, "own", &["/bin/own"]);
    scenario.switch(0, IDLE, scenario::off(SleepState::Runnable), others[0]);
    for round in 0..30 {
        scenario.switch(
            0,
            others[round % 3],
            scenario::off(SleepState::Interruptible),
            others[(round + 1) % 3],
        );
    }
    scenario.switch(0, others[0], scenario::off(SleepState::Interruptible), own);
    scenario.switch(0, own, scenario::off(SleepState::Interruptible), others[0]);
    let reported = replay(&file(&scenario, ProcessFilter::Pid(20)));
    let switches: Vec<_> =
        reported.switches[&0].iter().map(|(_, previous, next)| (*previous, *next)).collect();
    assert_eq!(switches, [(0, 0), (0, 20), (20, 0)]);
}
