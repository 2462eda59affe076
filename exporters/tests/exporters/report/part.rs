//! A part of a session: what came before it tells the states that it begins with.

use super::*;
use crate::scenario::IDLE;
use syscollect_exporters::report::ReportRange;
use syscollect_model::{CpuId, Exporter, Sample};

/// The report of what the scenario tells from this microsecond on.
fn report_from(scenario: &Scenario, from: u64) -> Report {
    let part = Some(ReportRange { from: Some(Time(START + from * 1_000)), to: None });
    let options = ReportOptions { part, worst: 5, ..ReportOptions::default() };
    report_of_part(scenario, from, options)
}

/// The report, with these options, of a part that begins there, and ends where they say.
pub(super) fn report_of_part(scenario: &Scenario, from: u64, options: ReportOptions) -> Report {
    let to = options.part.and_then(|part| part.to).unwrap_or(Time(u64::MAX));
    let mut exporter = ReportExporter::new(options);
    let mut tables = scenario.tables.clone();
    tables.machines = vec![session()];
    let Ok(()) = exporter.begin(&tables);
    for (time, event) in &scenario.events {
        let Ok(()) = match *time < Time(START + from * 1_000) {
            true => exporter.before(*time, event, &tables),
            false if *time >= to => exporter.after(*time, event, &tables),
            false => exporter.event(*time, event, &tables),
        };
    }
    let Ok(()) = exporter.end(&[], Some(&summary()), &tables);
    exporter.finish()
}

/// A sample shows that a thread runs.
fn sample(cpu: u32, thread: ThreadId) -> Event {
    Event::Sample(Sample { cpu: CpuId::new(cpu), thread, stack: None, in_kernel: false })
}

#[test]
fn who_ran_before_a_part_runs_on_in_it_and_only_what_is_in_it_counts() {
    let (mut scenario, a, b) = two_programs();
    scenario.switches(0, 0, IDLE, SleepState::Runnable, a);
    let (_, c) = scenario.process(30, 1, "c", &["/bin/c"]);
    scenario.switches(0, 1, c, SLEEPS, IDLE);
    scenario.switches(10, 0, a, SLEEPS, b);
    // The part begins with an event of another CPU, 40 us before the first of this one.
    scenario.at(50, sample(1, IDLE));
    scenario.wakes(90, 0, b, a);
    scenario.switches_off(95, 0, b, preempted(), a);
    scenario.switches(100, 0, a, SLEEPS, b);
    let report = report_from(&scenario, 50);
    assert_eq!(report.duration_ns, 50_000);
    let cpus: Vec<_> = report
        .cpus
        .iter()
        .map(|cpu| (cpu.busy_ns, cpu.idle_ns, cpu.unknown_ns, cpu.switches))
        .collect();
    assert_eq!(cpus, [(50_000, 0, 0, 2), (0, 50_000, 0, 0)]);
    assert_eq!(thread(&report, 10).activity.times, times(5, 5, 40, 0));
    assert_eq!(thread(&report, 20).activity.times, times(45, 5, 0, 0));
    assert_eq!((report.events.switches, report.events.wakeups), (2, 1));
    assert_eq!(thread(&report, 10).activity.counts.switches, 1);
    assert_eq!(report.off_cpu.blocked_ns, 40_000 + 50_000, "of the part alone: a and c");
    let blocked: Vec<_> = report
        .worst
        .blocked
        .rows
        .iter()
        .map(|row| (row.waiter.tid, row.waiter.waited_ns, row.waiter.at_ns, row.goes_on))
        .collect();
    assert_eq!(blocked, [(30, 100_000, 0, true), (10, 80_000, 10_000, false)], "all of it");
}

#[test]
fn a_wait_that_began_before_a_part_is_told_whole_and_is_no_latency_of_it() {
    let (mut scenario, a, b) = two_programs();
    scenario.switches(0, 0, IDLE, SleepState::Runnable, b);
    scenario.wakes(10, 0, b, a);
    scenario.at(50, sample(0, b));
    scenario.switches_off(70, 0, b, preempted(), a);
    scenario.switches(80, 0, a, SLEEPS, b);
    let report = report_from(&scenario, 50);
    assert_eq!(thread(&report, 10).activity.times, times(10, 20, 0, 0));
    assert_eq!((report.run_queue.all.count, report.run_queue.all.max_ns), (1, 10_000));
    let longest = report.longest_wait.unwrap();
    assert_eq!((longest.tid, longest.waited_ns, longest.at_ns), (10, 60_000, 10_000));
    let worst = &report.worst.for_cpu.rows[0].waiter;
    assert_eq!((worst.tid, worst.waited_ns, worst.at_ns), (10, 60_000, 10_000));
}

#[test]
fn a_part_without_a_switch_has_the_states_that_last() {
    let (mut scenario, a, b) = two_programs();
    scenario.switches(0, 0, IDLE, SleepState::Runnable, a);
    scenario.wakes(10, 0, a, b);
    scenario.at(60, sample(0, a));
    // Asked for from 50 us on, it begins there and not with its first event.
    let report = report_from(&scenario, 50);
    assert_eq!((report.duration_ns, report.cpus[0].busy_ns), (10_000, 10_000));
    assert_eq!(thread(&report, 10).activity.times, times(10, 0, 0, 0));
    assert_eq!(thread(&report, 20).activity.times, times(0, 10, 0, 0));
}

#[test]
fn what_ended_before_a_part_is_not_in_it() {
    let (mut scenario, a, b) = two_programs();
    scenario.switches(0, 0, IDLE, SleepState::Runnable, a);
    scenario.at(10, Event::ThreadEnd(a));
    scenario.switches(11, 0, a, SleepState::Dead, b);
    scenario.switches(60, 0, b, SLEEPS, IDLE);
    scenario.switches(70, 0, IDLE, SleepState::Runnable, b);
    let report = report_from(&scenario, 50);
    assert_eq!((report.threads.total, report.processes.total), (1, 1));
    assert_eq!(thread(&report, 20).activity.times, times(10, 0, 10, 0));
}
