//! Recordings of which the beginning was overwritten: what is held of it is who lived then.
#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test, as its body does")]

#[allow(dead_code, reason = "other tests ask for more")]
#[path = "../../exporters/tests/exporters/decode.rs"]
mod decode;
#[allow(dead_code, reason = "other tests ask for more")]
#[path = "../../exporters/tests/exporters/replay.rs"]
mod replay;

use replay::{Replay, replay};
use syscollect_exporters::report::{Report, ReportExporter, ReportOptions, ThreadRow};
use syscollect_exporters::{FirefoxExporter, FirefoxOptions, PerfettoExporter};
use syscollect_merge::{Recordings, Session};
use syscollect_model::{Lane, LaneKind, LogEntry, LossCause, SessionInfo, Ticks, Time};
use syscollect_playback::Recording;
use syscollect_records::{RecordKind, SchedRecord, TaskRecord, task_state};
use syscollect_store::{CaptureReader, Definition};
use syscollect_tests::{FIRST_BOOTTIME, FakeMachine, FakeProgram, Host, Stacks, golden, ticks};

const SCHED0: Lane = Lane::new(LaneKind::Sched, 0);

/// One whose events are held from microsecond 50 on: 60 and 62 were born before, 61 has lived and
/// ended before, and 63 is born later.
fn machine(host: Host<'_>, overwrote: bool) -> FakeMachine {
    let mut machine = FakeMachine::with_host(1, host);
    machine.process(50, 1, "sh", &[]);
    machine.fork(0, 10, 50, (60, 60), "sh");
    let exec = TaskRecord { tid: 60, tgid: 60, parent_tid: 60, ..Default::default() };
    machine.task(0, 11, RecordKind::Exec, "make", exec);
    machine.fork(0, 12, 50, (61, 61), "gone");
    machine.fork(0, 13, 60, (62, 60), "job");
    machine.exit(0, 20, (61, 61), "gone");
    machine.switch(0, 30, task_state::RUNNABLE, 50);
    if overwrote {
        let dropped = machine.drop_chunk(SCHED0);
        machine.declare("sched", Some(0), LossCause::Overwritten, dropped);
    }
    machine.switch(0, 50, task_state::RUNNABLE, 60);
    machine.fork(0, 60, 60, (63, 63), "make");
    let new = SchedRecord { tid: 63, prio: 120, ..Default::default() };
    machine.sched(0, 61, RecordKind::WakeupNew, new, Stacks::default());
    machine.switch(0, 62, task_state::INTERRUPTIBLE, 63);
    let renamed = TaskRecord { tid: 60, tgid: 60, ..Default::default() };
    machine.task(0, 65, RecordKind::Rename, "make-1", renamed);
    machine.exit(0, 70, (62, 60), "job");
    machine
}

fn session(overwrote: bool) -> Session {
    Session::open(reader(machine(Host::default(), overwrote))).unwrap()
}

fn reader(machine: FakeMachine) -> CaptureReader {
    CaptureReader::from_bytes(machine.finish()).unwrap()
}

fn at(us: u64) -> Option<Time> {
    Some(Time(FIRST_BOOTTIME + us * 1_000))
}

#[test]
fn playing_begins_with_the_oldest_event_that_is_held() {
    let mut session = session(true);
    golden::check("overwritten", &mut session);
    let (_, played) = golden::text(&mut session);
    assert_eq!((played.first, played.last), (at(50), at(70)));
    assert_eq!(played.events_by_type["fork"], 1, "the others were before");
    // Times that people name count from the beginning all the same.
    assert_eq!(session.clock().pairs()[0].boottime, FIRST_BOOTTIME);
    let whole = golden::text(&mut session).0;
    assert_eq!(golden::text_of_range(&mut session, at(5), None).0, whole);
    let (late, played) = golden::text_of_range(&mut session, at(62), None);
    assert_eq!((played.first, late.lines().count() < whole.lines().count()), (at(62), true));
}

#[test]
fn what_overwrote_nothing_begins_where_it_began() {
    let (text, played) = golden::text(&mut session(false));
    assert_eq!(played.first, at(10));
    assert!(text.contains("thread start job/62"), "{text}");
}

#[test]
fn of_what_was_before_zones_go_on_and_messages_are_left_out() {
    let mut machine = machine(Host::default(), true);
    let mut program = FakeProgram::new(&mut machine, 1, 50);
    let outer = program.location("outer", "", "a.c", 1, 0);
    let inner = program.location("inner", "", "a.c", 2, 0);
    let mut thread = program.thread(0, 50);
    thread.begin(&mut machine, 14, outer, &[]);
    thread.begin(&mut machine, 15, inner, &[]);
    thread.end(&mut machine, 16);
    thread.end(&mut machine, 55);
    program.finish(&mut machine);
    let said = |us, message: &str| LogEntry { at: Ticks(ticks(us)), message: message.into() };
    machine.define(&Definition::Session(Box::new(SessionInfo {
        log: vec![said(17, "early"), said(56, "late")],
        ..SessionInfo::default()
    })));
    let mut session = Session::open(reader(machine)).unwrap();
    let (text, played) = golden::text(&mut session);
    assert!(text.contains("late") && !text.contains("early"), "{text}");
    assert!(text.contains("outer") && !text.contains("inner"), "{text}");
    assert_eq!(played.first, at(50));
}

fn perfetto(recording: &mut impl Recording) -> Replay {
    let mut exporter = PerfettoExporter::new(Vec::new());
    recording.play(&mut exporter).unwrap();
    replay(&exporter.finish().unwrap())
}

/// `FtraceEvent.task_newtask`: it makes a thread runnable.
const NEWTASK: u32 = 235;

#[test]
fn nobody_is_runnable_in_perfetto_before_the_oldest_event() {
    assert_eq!(perfetto(&mut session(false)).events[&NEWTASK], 4);
    let trace = perfetto(&mut session(true));
    assert_eq!(trace.events[&NEWTASK], 1, "63, which was born later");
    assert_eq!(trace.switches[&0].first().map(|(time, ..)| Time(*time)), at(50));
}

#[test]
fn firefox_shows_from_the_oldest_event_on() {
    for (overwrote, begins_at) in [(false, 0.0), (true, 0.05)] {
        let mut exporter = FirefoxExporter::new(Vec::new(), FirefoxOptions::default());
        session(overwrote).play(&mut exporter).unwrap();
        let profile: serde_json::Value =
            serde_json::from_slice(&exporter.finish().unwrap()).unwrap();
        assert_eq!(profile["meta"]["profilingStartTime"], begins_at);
    }
}

fn report(recording: &mut impl Recording) -> Report {
    let mut exporter = ReportExporter::new(ReportOptions::default());
    recording.play(&mut exporter).unwrap();
    exporter.finish()
}

#[test]
fn a_report_says_how_much_was_overwritten_and_what_nobody_knows() {
    let report = report(&mut session(true));
    assert_eq!((Some(Time(report.start_ns)), report.duration_ns), (at(50), 20_000));
    assert_eq!(report.overwritten_ns, 50_000, "since the recording began");
    let mut born_before =
        report.threads.rows.iter().filter(|thread| [60, 62].contains(&thread.tid));
    let runnable = |thread: &ThreadRow| thread.activity.times.waiting_ns > 0;
    assert!(!born_before.any(runnable), "nothing says that they could run");
    assert!(report.threads.rows.iter().all(|thread| thread.tid != 61), "it is gone");
}

#[test]
fn of_several_machines_each_has_its_own_beginning() {
    let host = |name| Host { name, ..Host::default() };
    let both = |overwrote| {
        let machines = [machine(host("a"), true), machine(host("b"), overwrote)];
        Recordings::open(machines.into_iter().map(reader).collect(), &|| false).unwrap()
    };
    let (_, played) = golden::text(&mut both(true));
    assert_eq!(played.first, at(50));
    let (text, played) = golden::text(&mut both(false));
    assert_eq!(played.first, at(10), "of the one that has all");
    assert_eq!(text.matches("thread start job/62").count(), 1, "{text}");
}
