//! Threads that were asleep before the recording began.

use super::*;
use crate::scenario::IDLE;
use syscollect_exporters::report::{Part, WaitClass};

/// In `futex_do_wait`, without a stack.
fn in_futex(scenario: &mut Scenario) -> OffCpu {
    OffCpu { blocked_in: Some(scenario.tables.strings.intern("futex_do_wait")), ..off() }
}

#[test]
fn who_is_never_woken_sleeps_from_beginning_to_end_and_has_a_table_of_its_own() {
    let (mut scenario, a, b) = two_programs();
    let futex = in_futex(&mut scenario);
    let second = scenario.thread(21, scenario.tables.thread(b).process, "second");
    scenario.switches(0, 0, IDLE, SleepState::Runnable, a);
    scenario.at(20, Event::Asleep(b, futex));
    scenario.at(21, Event::Asleep(second, futex));
    scenario.switches(100, 0, a, SLEEPS, IDLE);
    let report = report(&scenario);
    assert_eq!(thread(&report, 20).times, times(0, 0, 100, 0), "since before the recording");
    assert_eq!(process(&report, 20).threads, 2);
    let off_cpu = &report.off_cpu;
    assert_eq!(off_cpu.blocked_ns, 0, "no sleep of them began or ended");
    assert_eq!((off_cpu.asleep_throughout.threads, off_cpu.asleep_throughout.idle_threads), (2, 0));
    let [row] = &off_cpu.asleep_throughout.rows.rows[..] else { panic!("{off_cpu:?}") };
    assert_eq!((row.threads, row.pid, row.processes), (2, 20, 1));
    assert_eq!(
        (row.blocked_in.as_deref(), row.class),
        (Some("futex_do_wait"), WaitClass::Undecided)
    );
    let text = report.text(120);
    assert!(
        text.contains("Asleep from beginning to end, not in the times above: 2 threads"),
        "{text}"
    );
}

#[test]
fn a_recording_without_one_switch_tells_who_slept() {
    let (mut scenario, a, b) = two_programs();
    let futex = in_futex(&mut scenario);
    scenario.at(0, Event::Asleep(a, futex));
    scenario.at(1, Event::Asleep(b, futex));
    scenario.at(100, Event::ThreadName(a, scenario.tables.thread(a).name));
    let report = report(&scenario);
    assert_eq!(thread(&report, 10).times, times(0, 0, 100, 0));
    assert!(report.text(120).contains("2 threads"));
}

#[test]
fn who_is_woken_late_was_asleep_until_then() {
    let (mut scenario, a, b) = two_programs();
    let futex = in_futex(&mut scenario);
    scenario.switches(0, 0, IDLE, SleepState::Runnable, a);
    scenario.at(5, Event::Asleep(b, futex));
    scenario.wakes(60, 0, a, b);
    scenario.switches(70, 0, a, SLEEPS, b);
    scenario.switches(100, 0, b, SLEEPS, IDLE);
    let options = ReportOptions { worst: 5, ..ReportOptions::default() };
    let report = report_with(&scenario, options, &session(), &[]);
    assert_eq!(thread(&report, 20).times, times(30, 10, 60, 0));
    assert_eq!(report.off_cpu.asleep_throughout.threads, 0);
    let futex = report.off_cpu.reasons.rows.iter().find(|row| row.blocked_in.is_some()).unwrap();
    assert_eq!((futex.count, futex.blocked_ns), (1, 60_000));
    let longest: Vec<_> = report.worst.blocked.rows.iter().map(|row| row.waiter.tid).collect();
    assert!(!longest.contains(&20), "when it fell asleep is not known: {longest:?}");
}

#[test]
fn what_events_told_before_is_more_certain_than_what_was_read() {
    let (mut scenario, a, b) = two_programs();
    let futex = in_futex(&mut scenario);
    scenario.switches(0, 0, IDLE, SleepState::Runnable, a);
    scenario.wakes(10, 0, a, b);
    scenario.at(20, Event::Asleep(b, futex));
    scenario.at(20, Event::Asleep(a, futex));
    scenario.switches(50, 0, a, SLEEPS, b);
    scenario.switches(100, 0, b, SLEEPS, IDLE);
    let report = report(&scenario);
    assert_eq!(thread(&report, 10).times, times(50, 0, 50, 0));
    assert_eq!(thread(&report, 20).times, times(50, 40, 0, 10));
}

#[test]
fn where_records_are_missing_a_sleeper_is_unknown() {
    let (mut scenario, a, b) = two_programs();
    let futex = in_futex(&mut scenario);
    scenario.switches(0, 0, IDLE, SleepState::Runnable, a);
    scenario.at(5, Event::Asleep(b, futex));
    scenario.loses(60, 0, 40);
    scenario.at(100, Event::ThreadName(a, scenario.tables.thread(a).name));
    let report = report(&scenario);
    assert_eq!(thread(&report, 20).times, times(0, 0, 80, 20));
}

#[test]
fn who_slept_before_what_was_overwritten_is_unknown_since_then() {
    let (mut scenario, a, b) = two_programs();
    let futex = in_futex(&mut scenario);
    scenario.at(5, Event::Asleep(b, futex));
    let lost = Loss { cause: syscollect_model::LossCause::Overwritten, ..loss(0, 0, 1_000) };
    scenario.at(1_000, Event::Loss(lost));
    scenario.switches(1_000, 0, IDLE, SleepState::Runnable, a);
    scenario.switches(1_100, 0, a, SLEEPS, IDLE);
    let report = report(&scenario);
    assert_eq!(report.off_cpu.asleep_throughout.threads, 0, "it may have slept elsewhere since");
    let asleep = report.threads.rows.iter().find(|thread| thread.tid == 20);
    assert_eq!(asleep.map_or(0, |thread| thread.times.blocked_ns), 0);
}

#[test]
fn in_a_part_of_a_recording_a_sleeper_sleeps_from_its_beginning() {
    let (mut scenario, a, b) = two_programs();
    let futex = in_futex(&mut scenario);
    scenario.switches(0, 0, IDLE, SleepState::Runnable, a);
    scenario.at(5, Event::Asleep(b, futex));
    scenario.switches(90, 0, a, SLEEPS, IDLE);
    scenario.wakes(100, 0, a, a);
    let part = Some(Part { from: Some(Time(START + 50_000)), to: None });
    let report = part::report_of_part(&scenario, 50, ReportOptions { part, ..Default::default() });
    assert_eq!(thread(&report, 20).times, times(0, 0, 50, 0));
    assert_eq!(report.off_cpu.asleep_throughout.threads, 1);
}
