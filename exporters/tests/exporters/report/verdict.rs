//! What the first lines of a report say.

use super::*;
use crate::scenario::IDLE;
use std::str::FromStr;
use syscollect_exporters::report::{Family, Part, ProcessFilter};

/// One CPU for 100 us: 10 us of a, 60 of b that keeps a waiting for 50, 20 of a, 10 idle.
fn scenario() -> Scenario {
    let (mut scenario, a, b) = two_programs();
    scenario.switches(0, 0, IDLE, SleepState::Runnable, a);
    scenario.switches(10, 0, a, SLEEPS, b);
    scenario.wakes(20, 0, b, a);
    scenario.switches(70, 0, b, SLEEPS, a);
    scenario.switches(90, 0, a, SLEEPS, IDLE);
    scenario.interrupt_wakes(100, 0, IDLE, b);
    scenario
}

fn told(options: ReportOptions, session: &SessionInfo, losses: &[Loss]) -> String {
    let text = report_with(&scenario(), options, session, losses).text(1000);
    text.lines().next().unwrap().to_owned()
}

#[test]
fn the_first_sentences_say_how_long_how_busy_who_ran_who_waited_and_what_was_lost() {
    let one_cpu = SessionInfo { cpus: session().cpus[..1].to_vec(), ..session() };
    let part = ReportOptions { part: Some(Part::default()), ..ReportOptions::default() };
    assert_eq!(
        told(part, &one_cpu, &[]),
        "In 100 us, 1 CPU was 90.0 % busy. Most CPU time, 60.0 us (60.0 % of one CPU), went to b \
         (20). The longest wait for a CPU was 50.0 us, of a (10), at 0.000020s. Nothing was lost."
    );
}

#[test]
fn of_a_whole_recording_the_length_is_what_the_recorder_says() {
    let report = report(&scenario());
    assert_eq!((report.duration_ns, report.recorded_ns), (100_000, Some(5_000_000_000)));
    let text = |recorded| Report { recorded_ns: Some(recorded), ..report.clone() }.text(100);
    for (recorded, length) in [(100_500, "100 us"), (101_000, "101 us"), (96_000, "96.0 us")] {
        let text = text(recorded);
        assert!(text.starts_with(&format!("In {length},")), "{text}");
        assert!(text.contains(&format!("Duration   {length}\n")), "{text}");
    }
    let text = text(5_000_000_000);
    assert!(text.starts_with("In 100 us,"), "{text}");
    assert!(text.contains("Duration   100 us, of a recording of 5.00 s\n"), "{text}");
}

#[test]
fn of_a_recording_of_some_processes_the_cpus_are_not_judged() {
    let some = SessionInfo { filter_pids: vec![10], ..session() };
    let family = Some(ProcessFilter::Family(Family::new(vec![10])));
    let options = ReportOptions { process: family, ..ReportOptions::default() };
    let told = told(options, &some, &[]);
    assert!(told.starts_with("This is 100 us on 2 CPUs. Most CPU time, 30.0 us"), "{told}");
}

#[test]
fn a_loss_is_told_at_once() {
    let told = told(ReportOptions::default(), &session(), &[loss(0, 0, 10)]);
    assert!(told.contains("lost. ***") && !told.contains("Nothing was lost"), "{told}");
}

#[test]
fn whether_children_are_meant_is_said() {
    let text = |filter| {
        let options = ReportOptions { process: Some(filter), ..ReportOptions::default() };
        report_with(&scenario(), options, &session(), &[]).text(100)
    };
    let alone = text(ProcessFilter::from_str("a").unwrap());
    assert!(alone.contains("only a, without its children, but for CPUs"), "{alone}");
    let family = text(ProcessFilter::Family(Family::new(vec![10])));
    assert!(family.contains("only 10 and its children, but for CPUs"), "{family}");
    let server = text(ProcessFilter::Family(Family::new((10..110).collect())));
    let few = "only 10, 11, 12, 13, 14, 15, 94 more and their children, but for CPUs";
    assert!(server.contains(few), "{server}");
}
