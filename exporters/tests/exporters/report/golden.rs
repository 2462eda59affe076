//! The scenario as a report, as it is read and as it is parsed.
//!
//! After an intended change: `BLESS=1 cargo test -p syscollect-exporters --test exporters report`.

use super::*;
use crate::golden::compare;
use crate::scenario::{game, losses, scenario};

fn scenario_report() -> Report {
    report_with(
        &scenario(),
        ReportOptions { rows: 4, ..ReportOptions::default() },
        &session(),
        &losses(),
    )
}

#[test]
fn a_compiler_run_reads_as_a_report() {
    compare("scenario.report.txt", &scenario_report().text(100));
}

fn parses_as(file: &str, report: &Report) {
    let json = serde_json::to_string_pretty(report).unwrap() + "\n";
    compare(file, &json);
    assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), *report);
}

#[test]
fn a_compiler_run_is_parsed_as_a_report() {
    parses_as("scenario.report.json", &scenario_report());
}

#[test]
fn what_a_game_says_of_itself_reads_and_is_parsed_as_a_report() {
    let report = report_with(
        &game(),
        ReportOptions { rows: 8, ..ReportOptions::default() },
        &session(),
        &[],
    );
    compare("game.report.txt", &report.text(120));
    parses_as("game.report.json", &report);
}

#[test]
fn lines_keep_to_the_width_and_names_do_nothing_to_the_terminal() {
    let mut scenario = scenario();
    let name = scenario.name(&format!("\u{1b}[2J\n{}", "long name ".repeat(20)));
    scenario.tables.threads.iter_mut().for_each(|row| row.name = name);
    scenario.tables.processes.iter_mut().for_each(|row| row.name = name);
    let report = report(&scenario);
    for width in [80, 100, 200] {
        let text = report.text(width);
        let long: Vec<_> = text.lines().filter(|line| line.chars().count() > width).collect();
        assert!(long.is_empty(), "wider than {width}: {long:#?}");
        assert!(!text.contains('\u{1b}') && text.contains("\\u{1b}[2J\\n"));
    }
    assert!(!report.text(0).is_empty());
}

#[test]
fn a_recording_that_was_cut_off_is_told_so() {
    let mut exporter = ReportExporter::new(ReportOptions::default());
    let Ok(()) = scenario().play(&mut exporter, &session(), &[], None);
    let report = exporter.finish();
    assert!(
        !report.recording.complete && report.text(80).contains("of a recording that was cut off")
    );
}

#[test]
fn a_session_without_events_is_an_empty_report() {
    let report = report(&Scenario::new());
    assert_eq!((report.duration_ns, report.threads.total, report.cpus.len()), (0, 0, 0));
    let text = report.text(80);
    assert!(text.contains("Lost       nothing"));
    assert!(
        !text.contains("Threads") && !text.contains("Functions"),
        "no tables without rows: {text}"
    );
}
