//! Where the time of threads goes while nothing is lost.

use super::*;
use crate::scenario::IDLE;
use syscollect_model::CpuId;

#[test]
fn a_thread_is_blocked_until_it_is_woken_and_waits_until_it_runs() {
    let (mut scenario, a, b) = two_programs();
    scenario.switches(0, 0, IDLE, SleepState::Runnable, a);
    scenario.switches(10, 0, a, SLEEPS, b);
    scenario.wakes(40, 0, b, a);
    scenario.switches_off(45, 0, b, preempted(), a);
    scenario.switches(60, 0, a, SLEEPS, b);
    scenario.switches(100, 0, b, SLEEPS, IDLE);
    let report = report(&scenario);
    assert_eq!(thread(&report, 10).activity.times, times(10 + 15, 5, 30 + 40, 0));
    assert_eq!(
        thread(&report, 20).activity.times,
        times(35 + 40, 15, 0, 10),
        "nothing is known before its first switch"
    );
    let counts = thread(&report, 10).activity.counts;
    assert_eq!((counts.switches, counts.preemptions, counts.wakeups), (2, 0, 1));
    assert_eq!(thread(&report, 20).activity.counts.preemptions, 1);
    assert_eq!(
        (report.duration_ns, report.cpus[0].busy_ns, report.cpus[0].unknown_ns),
        (100_000, 100_000, 0)
    );
    let waits = &report.run_queue;
    assert_eq!((waits.all.count, waits.all.total_ns), (2, 20_000));
    assert_eq!((waits.after_wakeup.count, waits.after_wakeup.max_ns), (1, 5_000));
    assert_eq!((waits.after_preemption.count, waits.after_preemption.max_ns), (1, 15_000));
    assert_eq!(thread(&report, 20).activity.longest_wait_ns, 15_000);
    assert_eq!(
        (report.off_cpu.blocked_ns, report.off_cpu.reasons.rows[0].count),
        (70_000, 3),
        "twice a, and b that begins to at the end"
    );
}

#[test]
fn what_lasts_at_the_end_counts_up_to_it() {
    let (mut scenario, a, b) = two_programs();
    scenario.switches(0, 0, IDLE, SleepState::Runnable, a);
    scenario.switches(0, 1, IDLE, SleepState::Runnable, b);
    scenario.switches(30, 1, b, SLEEPS, IDLE);
    let c = scenario.thread(11, scenario.tables.thread(a).process, "c");
    scenario.wakes(50, 0, a, c);
    scenario.wakes(90, 0, a, b);
    scenario.wakes(100, 0, a, b);
    let report = report(&scenario);
    assert_eq!(thread(&report, 10).activity.times, times(100, 0, 0, 0), "on CPU");
    assert_eq!(
        thread(&report, 20).activity.times,
        times(30, 10, 60, 0),
        "waiting; the second wakeup changes nothing"
    );
    assert_eq!(thread(&report, 11).activity.times, times(0, 50, 0, 50), "woken, so it waits");
    assert_eq!(report.run_queue.all.count, 0, "no wait has ended");
    assert_eq!(report.cpus[1].idle_ns, 70_000);
    assert_eq!(
        (process(&report, 10).threads, process(&report, 10).activity.times),
        (2, times(100, 50, 0, 50))
    );
}

#[test]
fn a_new_thread_waits_from_its_first_wakeup() {
    let (mut scenario, a, _) = two_programs();
    scenario.switches(0, 0, IDLE, SleepState::Runnable, a);
    let child = scenario.thread(11, scenario.tables.thread(a).process, "child");
    scenario.tables.threads[child.index()].start = Some(Time(START + 20_000));
    scenario.at(20, Event::ThreadStart(child));
    scenario.at(23, Event::Wakeup(Wakeup { waker: Some(a), new: true, ..wakeup(0, child) }));
    scenario.switches(31, 1, IDLE, SleepState::Runnable, child);
    scenario.switches(40, 1, child, SLEEPS, IDLE);
    let report = report(&scenario);
    assert_eq!(thread(&report, 11).activity.times, times(9, 8, 0, 3), "its time begins with it");
    assert_eq!(report.run_queue.after_wakeup.max_ns, 8_000);
}

#[test]
fn a_wakeup_that_meets_a_thread_on_its_way_off_the_cpu_makes_it_wait() {
    let (mut scenario, a, b) = two_programs();
    scenario.switches(0, 0, IDLE, SleepState::Runnable, a);
    scenario.switches(0, 1, IDLE, SleepState::Runnable, b);
    scenario.wakes(19, 1, b, a);
    scenario.switches(20, 0, a, SLEEPS, IDLE);
    scenario.switches(27, 0, IDLE, SleepState::Runnable, a);
    scenario.switches(50, 0, a, SLEEPS, IDLE);
    scenario.switches(80, 0, IDLE, SleepState::Runnable, a);
    let report = report(&scenario);
    let expected = times(20 + 23, 7, 30, 0);
    assert_eq!(
        thread(&report, 10).activity.times,
        expected,
        "the second time there was no wakeup: it was blocked"
    );
    assert_eq!(
        (report.run_queue.after_wakeup.count, report.run_queue.after_wakeup.max_ns),
        (1, 7_000)
    );
}

#[test]
fn a_dead_thread_waits_for_nothing() {
    let (mut scenario, a, b) = two_programs();
    scenario.switches(0, 0, IDLE, SleepState::Runnable, a);
    scenario.switches(0, 1, IDLE, SleepState::Runnable, b);
    scenario.at(10, Event::ThreadEnd(a));
    scenario.switches(12, 0, a, SleepState::Dead, IDLE);
    scenario.switches(20, 1, b, SLEEPS, IDLE);
    scenario.at(30, Event::ThreadEnd(b));
    scenario.at(100, Event::ThreadEnd(a));
    let report = report(&scenario);
    assert_eq!(thread(&report, 10).activity.times, times(12, 0, 0, 0));
    assert_eq!(
        thread(&report, 20).activity.times,
        times(20, 0, 0, 0),
        "its last switch is missing"
    );
}

#[test]
fn an_id_that_is_used_again_is_another_thread() {
    let (mut scenario, a, b) = two_programs();
    let (_, again) = scenario.process(10, 1, "again", &[]);
    scenario.tables.threads[again.index()].start = Some(Time(START + 50_000));
    scenario.switches(0, 0, IDLE, SleepState::Runnable, a);
    scenario.switches(30, 0, a, SleepState::Dead, b);
    scenario.switches(60, 0, b, SLEEPS, again);
    scenario.switches(80, 0, again, SLEEPS, IDLE);
    let report = report(&scenario);
    let rows: Vec<_> = report
        .threads
        .rows
        .iter()
        .map(|row| (row.tid, row.name.as_str(), row.activity.times))
        .collect();
    let expected = [
        (20, "b", times(30, 0, 20, 30)),
        (10, "a", times(30, 0, 0, 0)),
        (10, "again", times(20, 0, 0, 10)),
    ];
    assert_eq!(rows, expected);
    let pids: Vec<_> =
        report.processes.rows.iter().map(|row| (row.pid, row.name.as_str())).collect();
    assert_eq!(pids, [(20, "b"), (10, "a"), (10, "again")]);
}

#[test]
fn a_thread_that_takes_over_its_process_by_exec_runs_on() {
    let (mut scenario, a, b) = two_programs();
    let old = scenario.thread(11, scenario.tables.thread(a).process, "worker");
    let new = scenario.thread(10, scenario.tables.thread(a).process, "worker");
    scenario.tables.threads[new.index()].start = Some(Time(START + 40_000));
    scenario.switches(0, 0, IDLE, SleepState::Runnable, old);
    scenario.at(40, Event::ThreadEnd(old));
    scenario.at(40, Event::ThreadStart(new));
    scenario.switches(70, 0, new, SLEEPS, b);
    let report = report(&scenario);
    assert_eq!(thread(&report, 11).activity.times, times(40, 0, 0, 0));
    assert_eq!(thread(&report, 10).activity.times, times(30, 0, 0, 0));
    assert_eq!((report.unreported_gaps, report.cpus[0].busy_ns), (0, 70_000));
}

#[test]
fn samples_and_wakers_tell_what_ran_before_the_first_switch() {
    let (mut scenario, a, b) = two_programs();
    let sample =
        syscollect_model::Sample { cpu: CpuId::new(1), thread: b, stack: None, in_kernel: false };
    scenario.at(0, Event::Sample(sample));
    scenario.wakes(5, 0, a, b);
    scenario.switches(20, 0, a, SLEEPS, IDLE);
    let report = report(&scenario);
    assert_eq!(thread(&report, 10).activity.times, times(15, 0, 0, 5));
    assert_eq!(
        thread(&report, 20).activity.times,
        times(20, 0, 0, 0),
        "a CPU without any switch, too"
    );
    assert_eq!((report.cpus[0].busy_ns, report.cpus[0].unknown_ns), (15_000, 5_000));
}

#[test]
fn idle_is_a_cpus_time_and_no_thread() {
    let (mut scenario, a, _) = two_programs();
    scenario.switches(0, 0, a, SLEEPS, IDLE);
    scenario.interrupt_wakes(60, 0, IDLE, a);
    scenario.switches(64, 0, IDLE, SleepState::Runnable, a);
    let report = report(&scenario);
    assert_eq!(report.threads.total, 1);
    assert_eq!((report.cpus[0].idle_ns, report.cpus[0].busy_ns), (64_000, 0));
    assert_eq!(thread(&report, 10).activity.times, times(0, 4, 60, 0));
    let wake = &report.wakeups;
    assert_eq!((wake.count, wake.by_interrupt), (1, 1));
    assert_eq!(
        (wake.pairs.rows[0].waker_kind, wake.pairs.rows[0].wakee_tid),
        (WakerKind::Interrupt, 10)
    );
}

#[test]
fn processes_of_one_name_have_a_row_together_and_others_have_none() {
    let (mut scenario, a, b) = two_programs();
    let (_, first) = scenario.process(30, 1, "cc1", &[]);
    let (_, second) = scenario.process(31, 1, "cc1", &[]);
    scenario.switches(0, 0, IDLE, SleepState::Runnable, a);
    scenario.switches(10, 0, a, SLEEPS, first);
    scenario.switches(40, 0, first, SLEEPS, second);
    scenario.switches(90, 0, second, SLEEPS, b);
    scenario.switches(100, 0, b, SLEEPS, IDLE);
    let report = report(&scenario);
    let [row] = &report.processes_by_name.rows[..] else { panic!("one row") };
    assert_eq!((row.name.as_str(), row.processes, row.threads), ("cc1", 2, 2));
    assert_eq!((row.activity.times.on_cpu_ns, row.activity.counts.switches), (80_000, 2));
    let text = report.text(100);
    assert!(text.contains("Processes of one name together, by time on CPU\n"), "{text}");
    assert!(text.contains("  cc1 (2 processes)\n"), "{text}");
}
