//! Where the time goes when records are missing: what is not known is not claimed.

use super::*;
use crate::scenario::IDLE;
use syscollect_exporters::report::ReportRange;
use syscollect_model::LaneKind;

#[test]
fn what_ran_is_unknown_while_its_cpus_records_are_missing() {
    let (mut scenario, a, b) = two_programs();
    scenario.switches(0, 0, IDLE, SleepState::Runnable, a);
    scenario.loses(60, 0, 20);
    // The first record after the loss says that b has run since.
    scenario.switches(75, 0, b, SLEEPS, IDLE);
    scenario.switches(100, 0, IDLE, SleepState::Runnable, a);
    let report = report(&scenario);
    assert_eq!(
        thread(&report, 10).activity.times,
        times(20, 0, 0, 80),
        "up to the last record before the loss"
    );
    assert_eq!(
        thread(&report, 20).activity.times,
        times(15, 0, 25, 60),
        "from the first record after it"
    );
    let cpu = &report.cpus[0];
    assert_eq!((cpu.busy_ns, cpu.idle_ns, cpu.unknown_ns), (35_000, 25_000, 40_000));
    assert_eq!(report.unreported_gaps, 0);
}

#[test]
fn who_slept_through_a_loss_slept_but_for_the_loss() {
    let (mut scenario, a, b) = two_programs();
    scenario.switches(0, 0, a, SLEEPS, IDLE);
    scenario.switches(0, 1, IDLE, SleepState::Runnable, b);
    scenario.loses(50, 1, 40);
    scenario.interrupt_wakes(90, 0, IDLE, a);
    scenario.switches(92, 0, IDLE, SleepState::Runnable, a);
    let report = report(&scenario);
    assert_eq!(thread(&report, 10).activity.times, times(0, 2, 80, 10));
    assert_eq!(report.run_queue.after_wakeup.max_ns, 2_000, "this wait is whole");
    assert_eq!(
        (report.off_cpu.blocked_ns, report.off_cpu.reasons.rows[0].max_ns),
        (80_000, 80_000)
    );
}

#[test]
fn a_wakeup_that_is_lost_leaves_the_rest_unknown() {
    let (mut scenario, a, b) = two_programs();
    scenario.switches(0, 0, a, SLEEPS, IDLE);
    scenario.switches(0, 1, IDLE, SleepState::Runnable, b);
    scenario.loses(50, 1, 40);
    scenario.switches(70, 0, IDLE, SleepState::Runnable, a);
    scenario.switches(100, 0, a, SLEEPS, IDLE);
    let report = report(&scenario);
    assert_eq!(
        thread(&report, 10).activity.times,
        times(30, 0, 40, 30),
        "blocked or waiting, nobody knows"
    );
    assert_eq!(report.run_queue.all.count, 0);
}

#[test]
fn a_wait_through_a_loss_is_no_latency() {
    let (mut scenario, a, b) = two_programs();
    scenario.switches(0, 0, IDLE, SleepState::Runnable, a);
    scenario.switches_off(10, 0, a, preempted(), b);
    scenario.loses(50, 1, 40);
    scenario.switches(70, 0, b, SLEEPS, a);
    let report = report(&scenario);
    assert_eq!(thread(&report, 10).activity.times, times(10, 50, 0, 10));
    assert_eq!(report.run_queue.all.count, 0, "it may have run on the other CPU meanwhile");
}

#[test]
fn a_wakeup_of_one_who_waits_shows_that_it_slept_in_the_loss() {
    let (mut scenario, a, b) = two_programs();
    scenario.switches(0, 0, IDLE, SleepState::Runnable, a);
    scenario.switches_off(10, 0, a, preempted(), b);
    scenario.loses(50, 1, 40);
    scenario.wakes(60, 0, b, a);
    scenario.switches(70, 0, b, SLEEPS, a);
    let report = report(&scenario);
    assert_eq!(thread(&report, 10).activity.times, times(10, 30 + 10, 0, 20));
    assert_eq!(
        (report.run_queue.after_wakeup.count, report.run_queue.after_wakeup.max_ns),
        (1, 10_000)
    );
}

#[test]
fn events_that_contradict_each_other_are_a_loss_that_nobody_told() {
    let (mut scenario, a, b) = two_programs();
    let (_, c) = scenario.process(30, 1, "c", &[]);
    scenario.switches(0, 0, IDLE, SleepState::Runnable, a);
    scenario.switches(0, 1, b, SLEEPS, IDLE);
    scenario.wakes(20, 0, a, b);
    // Between 20 and 50 CPU 0 has gone from a to c.
    scenario.wakes(50, 0, c, b);
    scenario.switches(60, 1, IDLE, SleepState::Runnable, b);
    scenario.switches(70, 0, c, SLEEPS, IDLE);
    let report = report(&scenario);
    assert_eq!(report.unreported_gaps, 1);
    assert_eq!(thread(&report, 10).activity.times, times(20, 0, 0, 50));
    assert_eq!(thread(&report, 30).activity.times, times(20, 0, 0, 50));
    assert_eq!(
        thread(&report, 20).activity.times,
        times(10, 10, 20, 30),
        "blocked, woken, unknown, woken again, on CPU"
    );
    assert_eq!(report.cpus[0].unknown_ns, 30_000);
    assert!(report.text(100).contains("once a CPU ran something else"));
}

#[test]
fn a_switch_that_is_missing_on_one_cpu_says_nothing_of_who_slept_meanwhile() {
    let (mut scenario, a, b) = two_programs();
    let (_, c) = scenario.process(30, 1, "c", &[]);
    scenario.switches(0, 0, IDLE, SleepState::Runnable, a);
    scenario.switches(0, 1, b, SLEEPS, IDLE);
    // Between 0 and 50 CPU 0 has gone from a to c.
    scenario.switches(50, 0, c, SLEEPS, IDLE);
    scenario.interrupt_wakes(80, 1, IDLE, b);
    scenario.switches(85, 1, IDLE, SleepState::Runnable, b);
    scenario.switches(90, 1, b, SLEEPS, IDLE);
    let report = report_with(
        &scenario,
        ReportOptions { worst: 3, ..ReportOptions::default() },
        &session(),
        &[],
    );
    assert_eq!(report.unreported_gaps, 1);
    assert_eq!(thread(&report, 20).activity.times.unknown_ns, 0);
    let longest = &report.worst.blocked.rows[0].waiter;
    assert_eq!((longest.tid, longest.waited_ns, longest.unknown_ns), (20, 80_000, 0));
}

#[test]
fn a_wait_in_which_records_were_lost_is_shown_with_what_is_not_known_of_it() {
    let (mut scenario, a, b) = two_programs();
    scenario.switches(0, 0, IDLE, SleepState::Runnable, a);
    scenario.switches(0, 1, b, SLEEPS, IDLE);
    scenario.loses(50, 0, 40);
    scenario.interrupt_wakes(70, 1, IDLE, b);
    scenario.switches(75, 1, IDLE, SleepState::Runnable, b);
    let report = report_with(
        &scenario,
        ReportOptions { worst: 3, ..ReportOptions::default() },
        &session(),
        &[],
    );
    let longest = &report.worst.blocked.rows[0].waiter;
    assert_eq!((longest.tid, longest.waited_ns, longest.unknown_ns), (20, 60_000, 10_000));
    let text = report.worst_text(120);
    assert!(text.contains("(and 10.0 us of which nothing is known)"), "{text}");
}

#[test]
fn events_of_others_that_a_filter_left_out_are_no_loss() {
    let (mut scenario, a, b) = two_programs();
    let session = SessionInfo { filter_pids: vec![20], ..session() };
    scenario.tables.machines[0] = session.clone();
    scenario.switches(0, 0, b, SLEEPS, a);
    // a was followed by others, of which idle wakes b.
    scenario.interrupt_wakes(40, 0, IDLE, b);
    scenario.switches(45, 0, IDLE, SleepState::Runnable, b);
    scenario.switches(60, 0, b, SLEEPS, a);
    let report = report_with(&scenario, ReportOptions::default(), &session, &[]);
    assert_eq!(report.unreported_gaps, 0);
    assert_eq!(
        thread(&report, 20).activity.times,
        times(15, 5, 40, 0),
        "of the process recorded everything is known"
    );
    assert_eq!(thread(&report, 10).activity.times, times(0, 0, 0, 60), "of others it is not");
    assert!(
        report.text(100).contains("only of process 20 everything was recorded: others are partial")
    );
}

#[test]
fn a_thread_that_comes_onto_a_second_cpu_had_left_the_first() {
    let (mut scenario, a, b) = two_programs();
    scenario.switches(0, 0, IDLE, SleepState::Runnable, a);
    scenario.switches(30, 1, b, SLEEPS, a);
    scenario.switches(50, 1, a, SLEEPS, IDLE);
    scenario.switches(60, 0, b, SLEEPS, IDLE);
    let report = report(&scenario);
    assert_eq!(thread(&report, 10).activity.times, times(20, 0, 10, 30));
    assert_eq!(report.cpus[0].unknown_ns, 60_000);
}

#[test]
fn a_loss_without_a_cpu_or_a_time_may_be_anywhere() {
    let (mut scenario, a, b) = two_programs();
    scenario.switches(0, 0, a, SLEEPS, IDLE);
    scenario.switches(0, 1, b, SLEEPS, IDLE);
    scenario.at(40, Event::Loss(Loss { cpu: None, between: None, ..loss(0, 0, 0) }));
    scenario.interrupt_wakes(50, 0, IDLE, a);
    let report = report(&scenario);
    assert_eq!(thread(&report, 10).activity.times, times(0, 0, 10, 40));
    assert_eq!(thread(&report, 20).activity.times, times(0, 0, 10, 40));
    let unknown: Vec<_> = report.cpus.iter().map(|cpu| cpu.unknown_ns).collect();
    assert_eq!(unknown, [40_000, 50_000]);
}

#[test]
fn losses_of_samples_and_of_nothing_leave_thread_states_alone() {
    let (mut scenario, a, _) = two_programs();
    scenario.switches(0, 0, IDLE, SleepState::Runnable, a);
    scenario.at(20, Event::Loss(Loss { origin: LaneKind::Sample.into(), ..loss(0, 10, 20) }));
    scenario.at(30, Event::Loss(Loss { count: 0, ..loss(0, 20, 30) }));
    scenario.switches(50, 0, a, SLEEPS, IDLE);
    let losses = [
        loss(0, 0, 0),
        Loss { origin: LaneKind::Sample.into(), cpu: None, count: 5, ..loss(0, 0, 0) },
    ];
    let report = report_with(&scenario, ReportOptions::default(), &session(), &losses);
    assert_eq!(thread(&report, 10).activity.times, times(50, 0, 0, 0));
    assert_eq!(report.lost, 12);
    let rows: Vec<_> = report
        .losses
        .iter()
        .map(|row| (row.origin.name(), row.cpu, row.cause.name(), row.count))
        .collect();
    assert_eq!(rows, [("sched", Some(0), "lane-full", 7), ("samples", None, "lane-full", 5)]);
}

#[test]
fn what_programs_wrote_wrong_is_nobody_elses_loss() {
    let (mut scenario, a, _) = two_programs();
    scenario.switches(0, 0, IDLE, SleepState::Runnable, a);
    scenario.switches(50, 0, a, SLEEPS, IDLE);
    let cause = syscollect_model::LossCause::Undecodable;
    let own = Loss { origin: LaneKind::Zone.into(), cpu: None, cause, count: 42, ..loss(0, 0, 0) };
    let of = |losses: &[Loss]| {
        report_with(&scenario, ReportOptions::default(), &session(), losses).text(1000)
    };
    let words = "42 items of programs that mean nothing or are beyond their shares";
    let text = of(std::slice::from_ref(&own));
    assert!(text.contains(&format!("Nothing was lost but {words}.")), "{text}");
    assert!(text.contains(&format!("*** {words} ***")), "{text}");
    let text = of(&[own, loss(0, 0, 0)]);
    assert!(text.contains(&format!("*** 7 records and {words} were lost. ***")), "{text}");
}

#[test]
fn a_recording_that_overwrote_its_beginning_begins_with_the_first_event_that_was_kept() {
    let (mut scenario, a, b) = two_programs();
    scenario.at(0, Event::ThreadStart(a));
    scenario.at(10, Event::ThreadStart(b));
    let overwritten = Loss { cause: LossCause::Overwritten, ..loss(0, 0, 1_000) };
    scenario.at(1_000, Event::Loss(overwritten.clone()));
    scenario.switches(1_000, 0, a, SleepState::Runnable, b);
    scenario.switches(1_030, 0, b, SleepState::Runnable, a);
    scenario.switches(1_050, 0, a, SleepState::Runnable, b);
    let report = report(&scenario);
    assert_eq!(report.start_ns, START + 1_000_000);
    assert_eq!((report.duration_ns, report.overwritten_ns), (50_000, 1_000_000));
    assert_eq!((report.cpus[0].busy_ns, report.cpus[0].unknown_ns), (50_000, 0));
    assert_eq!(thread(&report, 10).activity.times, times(20, 30, 0, 0));
    // That all of it took so long the recorder says.
    assert!(report.text(100).contains("50.0 us, the end of 5.00 s"), "{}", report.text(100));
    let says = "The first 1.00 ms were not kept, as asked. Nothing was lost.";
    assert!(report.text(1000).contains(says), "{}", report.text(1000));

    // Of a part that ended before nothing is known, whatever its processes are called.
    assert!(!report_of_part(&scenario, std::slice::from_ref(&overwritten)).is_overwritten);
    let (mut before, a, b) = two_programs();
    before.at(0, Event::ThreadStart(a));
    before.at(10, Event::ThreadStart(b));
    assert!(report_of_part(&before, std::slice::from_ref(&overwritten)).is_overwritten);
    assert!(!report_of_part(&before, &[]).is_overwritten);

    // Samples may go back further than switches.
    let (mut scenario, a, b) = two_programs();
    scenario.at(0, Event::ThreadStart(a));
    scenario.at(900, Event::Loss(Loss { origin: LaneKind::Sample.into(), ..overwritten.clone() }));
    let sample =
        syscollect_model::Sample { cpu: CpuId::new(0), thread: a, stack: None, in_kernel: false };
    scenario.at(900, Event::Sample(sample));
    scenario.at(1_000, Event::Loss(overwritten));
    scenario.switches(1_000, 0, a, SleepState::Runnable, b);
    scenario.switches(1_050, 0, b, SleepState::Runnable, a);
    let earlier = self::report(&scenario);
    assert_eq!((earlier.duration_ns, earlier.overwritten_ns), (150_000, 900_000));

    let (mut scenario, a, b) = two_programs();
    scenario.at(0, Event::ThreadStart(a));
    scenario.loses(1_000, 0, 0);
    scenario.switches(1_000, 0, a, SleepState::Runnable, b);
    let lost = self::report(&scenario);
    assert_eq!((lost.start_ns, lost.overwritten_ns), (START, 0), "what was lost is unknown");
}

fn report_of_part(scenario: &Scenario, losses: &[Loss]) -> Report {
    let options = ReportOptions { part: Some(ReportRange::default()), ..ReportOptions::default() };
    report_with(scenario, options, &session(), losses)
}
