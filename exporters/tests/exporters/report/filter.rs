//! The report of one process of many.

use super::*;
use crate::scenario::{IDLE, scenario};
use syscollect_exporters::report::ProcessFilter;

fn report_of(scenario: &Scenario, process: &str) -> Report {
    let process = Some(process.parse::<ProcessFilter>().unwrap());
    report_with(scenario, ReportOptions { process, ..ReportOptions::default() }, &session(), &[])
}

#[test]
fn a_process_is_meant_by_its_id_its_name_or_its_program() {
    let mut scenario = Scenario::new();
    let (_, cut) =
        scenario.process(10, 1, "a-program-of-a-", &["/opt/bin/a-program-of-a-long-name"]);
    let (_, unread) = scenario.process(20, 1, "another-long-na", &[]);
    scenario.switches(0, 0, IDLE, SleepState::Runnable, cut);
    scenario.switches(10, 0, cut, SLEEPS, unread);
    for (filter, pids) in [
        ("10", vec![10]),
        ("a-program-of-a-", vec![10]),
        ("a-program-of-a-long-name", vec![10]),
        ("another-long-name", vec![20]),
        ("another", vec![]),
        ("swapper", vec![]),
    ] {
        let report = report_of(&scenario, filter);
        let found: Vec<_> = report.processes.rows.iter().map(|row| row.pid).collect();
        assert_eq!(found, pids, "{filter}");
    }
}

#[test]
fn all_tables_are_about_the_process_and_the_machine_is_whole() {
    let scenario = scenario();
    let (all, one) = (report(&scenario), report_of(&scenario, "100"));
    assert_eq!(one.events, all.events);
    assert_eq!(one.cpus, all.cpus);
    assert_eq!(
        one.threads.rows,
        all.threads.rows.iter().filter(|row| row.pid == 100).cloned().collect::<Vec<_>>()
    );
    assert_eq!(one.functions.samples, 0, "the shell was never sampled");
    assert_eq!(one.slices, all.slices, "they are on its track");
    assert!(one.run_queue.all.count > 0 && one.run_queue.all.count < all.run_queue.all.count);
    let touching =
        one.wakeups.pairs.rows.iter().all(|row| row.waker_tid == 100 || row.wakee_tid == 100);
    assert!(touching && one.wakeups.count < all.wakeups.count);
    assert_eq!(report_of(&scenario, "init").slices.total, 0);
}

#[test]
fn capital_letters_tell_programs_of_linux_apart_and_not_those_of_windows() {
    let mut scenario = Scenario::new();
    let (windows, _) = scenario.process(40, 1, "Explorer.EXE", &[]);
    let (linux, _) = scenario.process(50, 1, "Xorg", &[]);
    for (name, process, matches) in [
        ("explorer.exe", windows, true),
        ("Explorer.EXE", windows, true),
        ("Xorg", linux, true),
        ("xorg", linux, false),
    ] {
        let filter = ProcessFilter::Name(name.to_owned());
        assert_eq!(filter.matches(process, &scenario.tables), matches, "{name}");
    }
}

#[test]
fn a_name_is_also_known_as_the_report_shows_it() {
    let mut scenario = Scenario::new();
    let (odd, _) = scenario.process(40, 1, "a\nb\u{1b}[1m", &[]);
    let (plain, _) = scenario.process(50, 1, "ab", &[]);
    let filter = ProcessFilter::Name("a\\nb\\u{1b}[1m".to_owned());
    assert!(filter.matches(odd, &scenario.tables) && !filter.matches(plain, &scenario.tables));
}
