//! Crashes that programs tell of, and processes that signals ended.

use super::*;
use syscollect_model::{Crash, Message, MessageText, Scope, SignalExit, TrackId};

fn tells(scenario: &mut Scenario, at: u64, thread: ThreadId, address: u64) {
    let [signal, code] = ["SIGSEGV", "SEGV_MAPERR"].map(|name| scenario.name(name));
    scenario.at(at, Event::Crash(Crash { thread, signal, code, address, stack: None }));
}

fn ends(scenario: &mut Scenario, at: u64, thread: ThreadId, signal: &str) {
    let process = scenario.tables.thread(thread).process;
    let is_crash = signal != "SIGKILL";
    let signal = scenario.name(signal);
    let exit = SignalExit { process, thread: None, signal, is_crash, has_core_dump: is_crash };
    scenario.at(at, Event::SignalExit(exit));
    scenario.at(at, Event::ProcessEnd(process));
}

fn says(scenario: &mut Scenario, at: u64, track: TrackId, text: &str) {
    let category = scenario.name("message");
    let text = Some(MessageText::Written(text.into()));
    let message = Message { category, text, color: None, stack: None, fields: Default::default() };
    scenario.at(at, Event::Message(track, message));
}

#[test]
fn a_crash_tells_what_was_open_and_what_came_before_and_how_the_process_ended() {
    let (mut scenario, a, _) = two_programs();
    let zones = scenario.zones(a);
    let [outer, inner, done] = ["outer", "inner", "done"].map(|name| scenario.name(name));
    scenario.at(0, Event::SliceBegin(zones, outer.into()));
    scenario.at(10, Event::SliceBegin(zones, done.into()));
    scenario.at(20, Event::SliceEnd(zones));
    says(&mut scenario, 30, zones, &"x".repeat(1_000));
    scenario.at(40, Event::SliceBegin(zones, inner.into()));
    tells(&mut scenario, 50, a, 0x10);
    // What a handler that was there before makes of it.
    tells(&mut scenario, 60, a, 0);
    ends(&mut scenario, 90, a, "SIGABRT");
    let report = report(&scenario);
    let row = &report.crashes.rows[0];
    assert_eq!((&*row.signal, &*row.code, row.address), ("SIGSEGV", "SEGV_MAPERR", 0x10));
    assert_eq!(row.open, ["outer", "inner"]);
    let before: Vec<_> = row.before.iter().map(|it| (it.before_ns, &*it.kind)).collect();
    assert_eq!(before, [(10_000, "zone"), (20_000, "message"), (40_000, "zone"), (50_000, "zone")]);
    assert_eq!(row.before[1].name.len(), 160, "of a long text the beginning");
    assert_eq!(row.end.as_deref(), Some("ended by SIGABRT, core dumped"));
    assert_eq!(report.crashes.rows[1].end, row.end);
    assert_eq!(report.signal_exits.total, 0, "it told itself");
    let text = report.text(200);
    assert!(text.contains("SIGSEGV (SEGV_MAPERR) at 0x10 after"), "{text}");
    assert!(text.contains("in outer > inner\n"), "{text}");
    assert!(text.contains("before: zone inner, 10.0 us; message"), "{text}");
}

#[test]
fn who_told_nothing_is_shown_as_the_kernel_tells_it() {
    let (mut scenario, a, b) = two_programs();
    ends(&mut scenario, 10, a, "SIGKILL");
    ends(&mut scenario, 20, b, "SIGBUS");
    let report = report(&scenario);
    let rows = report.signal_exits.rows.iter();
    let rows: Vec<_> = rows.map(|row| (&*row.signal, row.is_crash, row.core_dumped)).collect();
    assert_eq!(rows, [("SIGBUS", true, true), ("SIGKILL", false, false)], "crashes come first");
    let text = report.text(100);
    assert!(text.contains("Processes that signals ended\n"), "{text}");
    assert!(!text.contains("Crashes"), "{text}");
}

#[test]
fn claims_without_end_take_the_place_of_no_crash_that_was_one() {
    let mut scenario = Scenario::new();
    let liars: Vec<ThreadId> =
        (0..2_000).map(|pid| scenario.process(1_000 + pid, 1, "liar", &[]).1).collect();
    let (_, honest) = scenario.process(50, 1, "honest", &[]);
    for (at, liar) in (0..).zip(&liars[..1_000]) {
        (0..10).for_each(|_| tells(&mut scenario, at, *liar, 0xbad));
    }
    tells(&mut scenario, 1_000, honest, 0x10);
    ends(&mut scenario, 1_001, honest, "SIGSEGV");
    for (at, liar) in (2_000..).zip(&liars[1_000..]) {
        (0..10).for_each(|_| tells(&mut scenario, at, *liar, 0xbad));
    }
    let report = report(&scenario);
    assert_eq!(report.crashes.total, 20_001);
    let first = &report.crashes.rows[0];
    assert_eq!((first.pid, first.address), (50, 0x10));
    assert!(report.crashes.rows[1..].iter().all(|row| row.end.is_none() && row.pid >= 1_000));
    let mut by_process = std::collections::BTreeMap::<u32, usize>::new();
    report.crashes.rows.iter().for_each(|row| *by_process.entry(row.pid).or_default() += 1);
    assert!(by_process.values().all(|rows| *rows <= 4), "{by_process:?}");
}

#[test]
fn an_instant_on_no_threads_track_is_before_no_crash() {
    let (mut scenario, a, _) = two_programs();
    let process = scenario.tables.thread(a).process;
    let track = scenario.track(Scope::Process(process), "Marks", None);
    let mark = scenario.name("mark");
    scenario.at(10, Event::Instant(track, mark.into()));
    tells(&mut scenario, 20, a, 0);
    assert_eq!(report(&scenario).crashes.rows[0].before, []);
}
