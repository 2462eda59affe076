//! What programs say of themselves, summed up.

use super::*;
use crate::scenario::game;
use syscollect_exporters::ProcessFilter;
use syscollect_exporters::report::SliceRow;
use syscollect_model::{Location, LocationId, Scope, Slice};

fn slice<'a>(report: &'a Report, name: &str) -> Vec<&'a SliceRow> {
    report.slices.rows.iter().filter(|row| row.name == name).collect()
}

#[test]
fn a_zone_that_waits_tells_how_long_and_in_what() {
    let (mut scenario, a, b) = two_programs();
    let zones = scenario.zones(a);
    let [outer, inner, other, futex] =
        ["outer", "inner", "other", "futex_wait"].map(|name| scenario.name(name));
    let sleeps = OffCpu { state: SLEEPS, blocked_in: Some(futex), ..off() };
    scenario.switches(0, 0, ThreadId(0), SleepState::Runnable, a);
    scenario.at(10, Event::SliceBegin(zones, outer.into()));
    scenario.at(20, Event::SliceBegin(zones, inner.into()));
    scenario.switches_off(30, 0, a, sleeps, b);
    scenario.wakes(70, 0, b, a);
    scenario.switches(75, 0, b, SLEEPS, a);
    scenario.at(80, Event::SliceEnd(zones));
    scenario.at(90, Event::SliceBegin(zones, other.into()));
    scenario.at(95, Event::SliceEnd(zones));
    scenario.at(100, Event::SliceEnd(zones));
    let report = report(&scenario);
    let found = ["outer", "inner", "other"].map(|name| {
        let row = slice(&report, name)[0];
        (row.thread, row.blocked_in.as_ref().and_then(|reason| reason.function.clone()))
    });
    let futex = Some("futex_wait".to_owned());
    assert_eq!(
        found,
        [
            (times(45, 5, 40, 0), futex.clone()),
            (times(15, 5, 40, 0), futex),
            (times(5, 0, 0, 0), None)
        ]
    );
    assert!(report.text(100).contains("outer; 40.0 us in futex_wait"));
}

#[test]
fn names_are_told_apart_by_place_and_not_by_number() {
    let (mut scenario, a, _) = two_programs();
    let zones = scenario.zones(a);
    let (name, file) = (scenario.name("load"), scenario.name("/src/a.rs"));
    scenario.tables.locations =
        [1, 2].map(|line| Location { function: name, file, line }).into_iter().collect();
    for (number, place) in [(1, 0), (2, 0), (1, 1)] {
        let slice =
            Slice { number: Some(number), location: Some(LocationId(place)), ..Slice::named(name) };
        scenario.at(number, Event::SliceBegin(zones, slice));
        scenario.at(number, Event::SliceEnd(zones));
    }
    let report = report(&scenario);
    let found = slice(&report, "load");
    let lines = found.iter().map(|row| (row.location.as_ref().unwrap().line, row.durations.count));
    assert_eq!(lines.collect::<Vec<_>>(), [(1, 2), (2, 1)]);
}

#[test]
fn what_other_programs_say_is_left_out_of_a_report_on_one() {
    assert_eq!(sizes(&report_of("game")), [4, 2, 1, 2, 2, 1, 1]);
    assert_eq!(sizes(&report_of("other")), [0; 7]);
    assert_eq!(report_of("other").events.locks, 11, "events are of the whole machine");
}

fn report_of(name: &str) -> Report {
    report_with(&game(), of_process(name), &session(), &[])
}

fn of_process(name: &str) -> ReportOptions {
    ReportOptions {
        process: Some(ProcessFilter::Name(name.into())),
        rows: 8,
        ..ReportOptions::default()
    }
}

fn sizes(report: &Report) -> [usize; 7] {
    let Report { slices, instants, frames, locks, memory, crashes, counters, .. } = report;
    [
        slices.total,
        instants.total,
        frames.total,
        locks.total,
        memory.total,
        crashes.total,
        counters.total,
    ]
}

#[test]
fn the_first_line_of_counts_is_headed_whatever_it_counts() {
    let (mut scenario, a, _) = two_programs();
    let track = scenario.track(Scope::Thread(a), "Marks", None);
    let mark = scenario.name("mark");
    scenario.at(10, Event::Instant(track, mark.into()));
    assert!(report(&scenario).text(100).contains("Events     1 instant"));
}

#[test]
fn what_a_snapshot_was_taken_for_happened_once_though_two_tracks_show_it() {
    let (mut scenario, a, _) = two_programs();
    let name = scenario.name("trigger stall");
    for scope in [Scope::Thread(a), Scope::Machine(syscollect_model::MachineId::FIRST)] {
        let track = scenario.track(scope, "Snapshot", None);
        scenario.at(10, Event::Instant(track, name.into()));
    }
    let report = report(&scenario);
    let counts: Vec<_> = report.instants.rows.iter().map(|row| row.count).collect();
    assert_eq!(counts, [1]);
}
