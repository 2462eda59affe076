//! Threads, switches, wakeups.

use crate::scenario::{Scenario, off, sleeps};
use std::collections::BTreeMap;
use syscollect_model::{CpuId, Event, LaneKind, Loss, LossCause, OffCpu, SleepState, Tables};
use syscollect_tests::tracy_reader::{CpuTime, Switch, Totals};

const IDLE: syscollect_model::ThreadId = Tables::IDLE_THREAD;

fn ran(wakeup: i64, start: i64, end: i64, cpu: u8, state: i8) -> Switch {
    Switch {
        wakeup,
        start,
        end,
        cpu,
        wakeup_cpu: cpu,
        reason: if end < 0 { -1 } else { 100 },
        state,
    }
}

#[test]
fn an_empty_session_is_a_whole_file_with_its_machine() {
    let mut scenario = Scenario::new(6);
    let trace = scenario.read();
    assert_eq!(
        (trace.streams, trace.header.version, trace.header.timer_multiplier),
        (4, [0, 11, 0], 1.0)
    );
    assert_eq!((trace.header.sampling_period, trace.header.architecture), (1_000_000, 2));
    assert_eq!(&trace.header.vendor, b"AuthenticAMD");
    assert_eq!(
        (&*trace.header.capture, &*trace.header.program),
        ("host (scenario 1)", "whole machine")
    );
    assert!(
        trace.header.host.contains("OS: Linux 6.18.0\n")
            && trace.header.host.contains("CPU: AMD EPYC\n")
    );
    let expected: BTreeMap<u32, BTreeMap<u32, Vec<u32>>> =
        [(0, cores(&[(0, [0, 1]), (1, [2, 3])])), (1, cores(&[(2, [4, 5])]))].into();
    assert_eq!(trace.header.topology, expected);
    assert!(
        trace.threads.is_empty()
            && trace.messages.is_empty()
            && trace.cpus.iter().all(Vec::is_empty)
    );

    scenario.tables.machines[0] = Default::default();
    assert_eq!(scenario.read().header.capture_time, 0, "a machine of which nothing is known");
}

fn cores(list: &[(u32, [u32; 2])]) -> BTreeMap<u32, Vec<u32>> {
    list.iter().map(|(core, cpus)| (*core, cpus.to_vec())).collect()
}

#[test]
fn the_capture_time_is_the_wall_clock_at_the_first_event() {
    let mut scenario = Scenario::new(1);
    let thread = scenario.task(5, "a");
    scenario.wake(1, thread);
    assert_eq!(scenario.read().header.capture_time, 1_700_000_002);
}

#[test]
fn a_thread_sleeps_and_is_woken() {
    let mut scenario = Scenario::new(2);
    let (a, b) = (scenario.task(10, "a"), scenario.task(20, "b"));
    scenario.switch(1, 1, Some(IDLE), off(SleepState::Runnable), a);
    scenario.switch(50, 1, Some(a), sleeps(), b);
    scenario.wake(70, a);
    scenario.wake(75, a);
    scenario.switch(80, 0, Some(IDLE), off(SleepState::Runnable), a);
    scenario.switch(90, 1, Some(b), off(SleepState::Uninterruptible), IDLE);
    let trace = scenario.read();

    assert_eq!(
        trace.switches[&10],
        [ran(1, 1, 50, 1, 104), ran(70, 80, -1, 0, -1)],
        "the first wakeup counts"
    );
    assert_eq!(trace.switches[&20], [ran(50, 50, 90, 1, 101)], "nobody was seen to wake it");
    assert_eq!(trace.cpus[0], [CpuTime { start: 80, end: -1, thread: 10 }]);
    let b_runs = CpuTime { start: 50, end: 90, thread: 20 };
    assert_eq!(trace.cpus[1], [CpuTime { start: 1, end: 50, thread: 10 }, b_runs]);
    assert_eq!(trace.totals[&10], Totals { running: 49, regions: 1, migrations: 1 });
    assert_eq!(trace.totals[&20], Totals { running: 40, regions: 1, migrations: 0 });
    assert_eq!(trace.external_names[&20], ("b".into(), "b".into()));
    assert_eq!(trace.header.last_time, 90);
}

#[test]
fn every_state_has_its_number() {
    let states = [
        (SleepState::Runnable, 103),
        (SleepState::Interruptible, 104),
        (SleepState::Uninterruptible, 101),
        (SleepState::Idle, 102),
        (SleepState::Stopped, 105),
        (SleepState::Traced, 106),
        (SleepState::Dead, 108),
        (SleepState::Zombie, 109),
        (SleepState::Parked, 110),
    ];
    let mut scenario = Scenario::new(1);
    let thread = scenario.task(7, "t");
    for (at, (state, _)) in (1..).step_by(2).zip(states) {
        scenario.switch(at, 0, Some(IDLE), sleeps(), thread);
        scenario.switch(at + 1, 0, Some(thread), off(state), IDLE);
    }
    scenario.switch(100, 0, Some(IDLE), sleeps(), thread);
    scenario.switch(101, 0, Some(thread), OffCpu { preempted: true, ..sleeps() }, IDLE);
    let found: Vec<i8> = scenario.read().switches[&7].iter().map(|switch| switch.state).collect();
    let expected: Vec<i8> = states.iter().map(|(_, number)| *number).chain([103]).collect();
    assert_eq!(
        found, expected,
        "and a preempted thread waits for a CPU, whatever it was about to do"
    );
}

#[test]
fn a_wakeup_on_the_way_to_sleep_counts_and_an_old_one_does_not() {
    let mut scenario = Scenario::new(1);
    let thread = scenario.task(7, "t");
    scenario.switch(1, 0, Some(IDLE), sleeps(), thread);
    scenario.wake(9, thread);
    scenario.switch(10, 0, Some(thread), sleeps(), IDLE);
    scenario.switch(20, 0, Some(IDLE), sleeps(), thread);
    scenario.switch(30, 0, Some(thread), sleeps(), IDLE);
    scenario.switch(40, 0, Some(IDLE), sleeps(), thread);
    let wakeups: Vec<i64> =
        scenario.read().switches[&7].iter().map(|switch| switch.wakeup).collect();
    assert_eq!(wakeups, [1, 9, 40]);
}

#[test]
fn a_process_that_was_there_before_ran_from_the_beginning_on_and_one_that_stays_has_no_end() {
    let mut scenario = Scenario::new(2);
    let (before, after) = (scenario.task(10, "before"), scenario.task(20, "after"));
    scenario.wake(1, after);
    scenario.switch(1_000, 0, Some(before), sleeps(), after);
    let trace = scenario.read();
    assert_eq!(trace.switches[&10], [ran(1, 1, 1_000, 0, 104)]);
    assert_eq!(trace.switches[&20], [ran(1, 1_000, -1, 0, -1)]);
}

#[test]
fn what_lost_switches_leave_open_is_not_made_up() {
    let mut scenario = Scenario::new(2);
    let (a, b) = (scenario.task(10, "a"), scenario.task(20, "b"));
    scenario.at(1, Event::Loss(loss(CpuId::new(0))));
    scenario.switch(10, 0, Some(b), sleeps(), a);
    scenario.switch(20, 1, Some(IDLE), sleeps(), a);
    scenario.switch(30, 0, Some(b), sleeps(), IDLE);
    scenario.switch(40, 1, None, sleeps(), b);
    let trace = scenario.read();
    assert_eq!(
        trace.switches[&10],
        [ran(10, 10, 20, 0, -1), ran(20, 20, 40, 1, -1)],
        "nobody knows how it left"
    );
    assert_eq!(trace.switches[&20], [ran(40, 40, -1, 1, -1)], "nor when b came to CPU 0");
}

fn loss(cpu: CpuId) -> Loss {
    Loss {
        origin: LaneKind::Sched.into(),
        cpu: Some(cpu),
        cause: LossCause::LaneFull,
        user: None,
        count: 3,
        between: None,
    }
}

#[test]
fn losses_that_claim_more_than_can_be_counted_are_told() {
    let mut scenario = Scenario::new(1);
    let thread = scenario.task(10, "a");
    let loss = Loss {
        origin: LaneKind::Sample.into(),
        cpu: None,
        cause: LossCause::LaneFull,
        user: None,
        count: u64::MAX,
        between: None,
    };
    scenario.sample(1, thread, None);
    scenario.at(2, Event::Loss(loss.clone()));
    scenario.at(3, Event::Loss(loss));
    assert_eq!(scenario.read().threads[0].samples.len(), 1);
}

#[test]
fn a_thread_id_that_is_used_again_is_another_thread() {
    let mut scenario = Scenario::new(1);
    let first = scenario.task(33, "first");
    let second = scenario.task(33, "second");
    let third = scenario.task(33, "third");
    for (at, thread) in [(1, first), (10, second), (20, third)] {
        scenario.at(at, Event::ThreadStart(thread));
        scenario.switch(at + 1, 0, Some(IDLE), sleeps(), thread);
        scenario.switch(at + 5, 0, Some(thread), off(SleepState::Dead), IDLE);
        scenario.at(at + 6, Event::ThreadEnd(thread));
    }
    let trace = scenario.read();
    let numbers: Vec<u64> = trace.threads.iter().map(|thread| thread.id).collect();
    assert_eq!(numbers, [33, 33 | 1 << 32, 33 | 2 << 32]);
    for (number, name) in numbers.iter().zip(["first / first", "second / second", "third / third"])
    {
        assert_eq!(trace.thread_names[number], name);
        assert_eq!(trace.switches[number].len(), 1);
        assert_eq!(trace.pids[number], 33);
    }
    let messages: Vec<&str> = trace.messages.iter().map(|message| message.text.as_str()).collect();
    assert_eq!(messages, ["starts", "ends", "starts", "ends", "starts", "ends"]);
}

#[test]
fn odd_names_stay_one_line_and_whole() {
    let mut scenario = Scenario::new(1);
    let long = "x".repeat(64 << 10);
    let names = ["a\nb\0c", "żółw \u{1f422}", "", "replaced \u{fffd}", &long];
    for (tid, name) in (1..).zip(names) {
        let thread = scenario.task(tid, name);
        scenario.at(u64::from(tid), Event::ThreadStart(thread));
    }
    let trace = scenario.read();
    let shown = ["a\\nb\\u{0}c", "żółw \u{1f422}", "", "replaced \u{fffd}", &long];
    for (tid, name) in (1..).zip(shown) {
        assert_eq!(trace.thread_names[&tid], format!("{name} / {name}"));
    }
}

#[test]
fn a_thread_that_only_switches_says_so_and_is_shown() {
    let mut scenario = Scenario::new(1);
    let thread = scenario.task(9, "quiet");
    for at in [1_000_000, 5_000_000] {
        scenario.switch(at, 0, Some(IDLE), sleeps(), thread);
        scenario.switch(at + 500_000, 0, Some(thread), sleeps(), IDLE);
    }
    let trace = scenario.read();
    let message = &trace.messages[trace.thread("quiet / quiet").unwrap().messages[0]];
    assert_eq!(message.text, "runs 2 times, 1.000 ms in all; no stack of it was taken");
    assert_eq!(
        (message.time, message.thread),
        (1, 9),
        "where it runs first: the first event is at 1"
    );
}
