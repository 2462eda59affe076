//! The longest waits: who, when, and what ran meanwhile.

use super::*;
use crate::scenario::IDLE;
use syscollect_exporters::report::{Family, ProcessFilter, WorstWaits};
use syscollect_model::{Lock, LockAction, LockEvent, LockId};

fn worst(scenario: &Scenario, options: ReportOptions) -> Report {
    report_with(scenario, ReportOptions { worst: 2, ..options }, &session(), &[])
}

/// One waits for 60 us while others run, and is blocked for 100 us until another wakes it.
fn crowd() -> Scenario {
    let mut scenario = Scenario::new();
    let ids: Vec<_> =
        (1..=7).map(|n| scenario.process(n * 10, 1, &format!("p{n}"), &[]).1).collect();
    let [a, b, c, d, e, f, waker] = ids[..] else { unreachable!("there are seven") };
    switches(&mut scenario, 0, IDLE, b);
    scenario.wakes(10, 1, waker, a);
    switches(&mut scenario, 40, b, c);
    switches(&mut scenario, 60, c, d);
    switches(&mut scenario, 65, d, e);
    switches(&mut scenario, 67, e, f);
    switches(&mut scenario, 70, f, a);
    // Two shorter ones.
    switches(&mut scenario, 80, a, b);
    switches(&mut scenario, 84, b, a);
    let place = scenario.name("futex_wait");
    let main = scenario.frame(None, 0x10, Some("main"));
    let stack = Some(scenario.tables.intern_stack(&[main]));
    let blocks = OffCpu { state: SLEEPS, blocked_in: Some(place), stack, ..off() };
    scenario.switches_off(100, 0, a, blocks, IDLE);
    scenario.wakes(200, 1, waker, a);
    scenario.switches(201, 0, IDLE, SleepState::Runnable, a);
    // It has not ended when the recording does.
    scenario.switches_off(300, 0, a, blocks, IDLE);
    scenario.switches(900, 0, IDLE, SleepState::Runnable, b);
    scenario
}

fn switches(scenario: &mut Scenario, at: u64, previous: ThreadId, next: ThreadId) {
    scenario.switches(at, 0, previous, SleepState::Runnable, next);
}

#[test]
fn the_longest_wait_of_all_comes_first_whoever_waited() {
    let options = ReportOptions { worst: 9, ..ReportOptions::default() };
    let report = report_with(&crowd(), options, &session(), &[]);
    let rows = &report.worst.for_cpu.rows;
    let ended: Vec<_> = rows.iter().filter(|row| !row.goes_on).collect();
    let first = ended[0];
    // From its preemption to the end of the scenario.
    assert_eq!((first.waiter.tid, first.waiter.waited_ns, first.preempted), (20, 816_000, true));
    assert_eq!(first.woken_by, None);
    let ran: Vec<_> = first.meanwhile.iter().map(|ran| (ran.tid, ran.ran_ns / 1_000)).collect();
    assert_eq!(ran, [(0, 701), (10, 115)], "idle is what ran, too");
}

#[test]
fn a_wait_that_still_goes_on_at_the_end_is_as_long_as_it_lasted_until_then() {
    let report = worst(&crowd(), ReportOptions::default());
    let first = &report.worst.for_cpu.rows[0];
    // Others came between, and it never did again.
    assert_eq!(
        (first.waiter.tid, first.waiter.at_ns, first.waiter.waited_ns),
        (30, 60_000, 840_000)
    );
    assert_eq!((first.goes_on, first.cpu, first.meanwhile.len()), (true, None, 0));
    let blocked = &report.worst.blocked.rows[0];
    assert_eq!(
        (blocked.waiter.tid, blocked.waiter.waited_ns, blocked.goes_on),
        (10, 600_000, true)
    );
    let text = report.worst_text(120);
    for line in [
        "   840 us at 0.000060s  p3 (30), preempted, not over at the end\n",
        "   600 us at 0.000300s  p1 (10), unknown: futex_wait (interruptible), not over at the end\n",
    ] {
        assert!(text.contains(line), "{line:?} is not in\n{text}");
    }
    let ends = text.matches("who woke it was not recorded").count();
    assert_eq!(ends, 0, "nobody woke it yet: {text}");
}

#[test]
fn what_ran_meanwhile_is_told_by_thread() {
    let options =
        ReportOptions { process: Some(ProcessFilter::Pid(10)), ..ReportOptions::default() };
    let report = worst(&crowd(), options);
    let WorstWaits { for_cpu, blocked, .. } = &report.worst;
    let first = &for_cpu.rows[0];
    assert_eq!(
        (first.waiter.tid, first.waiter.at_ns, first.waiter.waited_ns),
        (10, 10_000, 60_000)
    );
    let waker = first.woken_by.as_ref().unwrap();
    assert_eq!(
        (
            waker.thread.as_str(),
            waker.tid,
            waker.cpu.number,
            first.cpu.unwrap().number,
            first.preempted
        ),
        ("p7", 70, 1, 0, false)
    );
    let ran: Vec<_> = first.meanwhile.iter().map(|ran| (ran.tid, ran.ran_ns / 1_000)).collect();
    assert_eq!(
        (ran, first.other_threads, first.other_threads_ns),
        (vec![(20, 30), (30, 20), (40, 5)], 2, 5_000)
    );
    assert!(!first.meanwhile_is_part);
    assert_eq!((for_cpu.total, for_cpu.rows.len()), (3, 2), "of three waits two were asked for");

    assert_eq!((blocked.total, blocked.rows.len()), (2, 2));
    assert!(blocked.rows[0].goes_on, "it has not ended when the recording does");
    let wait = &blocked.rows[1];
    assert_eq!(
        (wait.waiter.at_ns, wait.waiter.waited_ns, wait.blocked_in.as_deref()),
        (100_000, 100_000, Some("futex_wait"))
    );
    assert_eq!(
        (wait.stack.frames.clone(), wait.woken_by.as_ref().unwrap().tid),
        (vec!["main".to_owned()], 70)
    );
}

#[test]
fn the_longest_waits_read_well() {
    let options =
        ReportOptions { process: Some(ProcessFilter::Pid(10)), ..ReportOptions::default() };
    let text = worst(&crowd(), options).worst_text(120);
    for line in [
        "Longest waits for a CPU (runnable, not running): 2 of 3",
        "  60.0 us at 0.000010s  p1 (10), woken by p7 (70) on cpu1",
        "cpu0 ran meanwhile: p2 (20) 30.0 us, p3 (30) 20.0 us, p4 (40) 5.00 us, 2 other threads \
         5.00 us",
        "   100 us at 0.000100s  p1 (10), unknown: futex_wait (interruptible)",
        "woken by p7 (70) on cpu1",
    ] {
        assert!(text.contains(line), "{line:?} is not in\n{text}");
    }
}

#[test]
fn where_a_waker_did_it_is_told() {
    let (mut scenario, a, b) = two_programs();
    let names = ["try_to_wake_up", "wake_up_q", "futex_wake", "unlock", "work (w.py)"];
    let frames = names.map(|name| scenario.frame(None, 0x10, Some(name)));
    let stack = Some(scenario.tables.intern_stack(&frames));
    scenario.switches(0, 0, IDLE, SleepState::Runnable, a);
    scenario.switches(10, 0, a, SLEEPS, b);
    scenario.at(50, Event::Wakeup(Wakeup { waker: Some(b), stack, ..wakeup(0, a) }));
    scenario.switches(60, 0, b, SLEEPS, a);
    let text = worst(&scenario, ReportOptions::default()).worst_text(120);
    let says = "woken by b (20) on cpu0, in futex_wake < unlock < work (w.py)\n";
    assert!(text.contains(says), "{text}");
}

#[test]
fn a_wait_through_a_loss_is_as_long_as_is_known_of_it() {
    let (mut scenario, a, b) = two_programs();
    scenario.switches(0, 0, IDLE, SleepState::Runnable, b);
    scenario.wakes(10, 1, IDLE, a);
    scenario.loses(50, 0, 40);
    scenario.switches(60, 0, b, SleepState::Runnable, a);
    let report = worst(&scenario, ReportOptions::default());
    let waiter = &report.worst.for_cpu.rows[0].waiter;
    assert_eq!(
        (waiter.waited_ns, waiter.unknown_ns, report.run_queue.all.count),
        (40_000, 10_000, 0)
    );
}

/// One waits for 100 us; in the middle of that its CPU ran what is not known.
fn partly_known() -> (Scenario, [ThreadId; 2]) {
    let (mut scenario, a, b) = two_programs();
    scenario.switches(0, 0, IDLE, SleepState::Runnable, b);
    scenario.wakes(10, 1, IDLE, a);
    (scenario, [a, b])
}

#[test]
fn what_ran_meanwhile_and_was_not_recorded_is_told_as_that() {
    let (mut scenario, [a, b]) = partly_known();
    let (_, other) = scenario.process(30, 1, "other", &[]);
    scenario.switches(20, 0, b, SleepState::Runnable, other);
    // From whom the CPU went to whom is not recorded, until it comes back to one of these.
    let (_, last) = scenario.process(40, 1, "last", &[]);
    scenario.switches(110, 0, last, SleepState::Runnable, a);
    scenario.switches(120, 0, a, SleepState::Dead, IDLE);
    let options = ReportOptions { worst: 2, ..ReportOptions::default() };
    let only_some = SessionInfo { filter_pids: vec![10, 20], ..session() };
    let report = report_with(&scenario, options, &only_some, &[]);
    let row = &report.worst.for_cpu.rows[0];
    assert_eq!((row.waiter.waited_ns, row.meanwhile_unknown_ns), (100_000, 90_000));
    let text = report.worst_text(120);
    let line = "cpu0 ran meanwhile: b (20) 10.0 us, 90.0 us not recorded (-p)\n";
    assert!(text.contains(line), "{text}");
}

#[test]
fn what_ran_meanwhile_where_records_are_missing_is_unknown() {
    let (mut scenario, [a, b]) = partly_known();
    scenario.loses(50, 0, 40);
    scenario.switches(110, 0, b, SleepState::Runnable, a);
    let text = worst(&scenario, ReportOptions::default()).worst_text(120);
    assert!(text.contains("cpu0 ran meanwhile: b (20) 90.0 us, 10.0 us unknown\n"), "{text}");
}

#[test]
fn idle_threads_are_blocked_only_where_they_are_asked_for() {
    let (mut scenario, a, b) = two_programs();
    let polls = OffCpu { blocked_in: Some(scenario.name("do_epoll_wait")), ..off() };
    let waits = OffCpu { blocked_in: Some(scenario.name("do_wait")), ..off() };
    for (thread, at, off_cpu) in [(a, 0, polls), (b, 20, waits)] {
        scenario.switches(at, 0, IDLE, SleepState::Runnable, thread);
        let off_cpu = OffCpu { state: SLEEPS, ..off_cpu };
        scenario.switches_off(at + 10, 0, thread, off_cpu, IDLE);
    }
    for (thread, at) in [(b, 80), (a, 200)] {
        scenario.wakes(at, 1, IDLE, thread);
        scenario.switches(at + 1, 0, IDLE, SleepState::Runnable, thread);
        scenario.switches(at + 2, 0, thread, SleepState::Dead, IDLE);
    }
    let child = (20, "child process".to_owned());
    let report = worst(&scenario, ReportOptions::default());
    assert_eq!((rows(&report), report.worst.idle_left_out), (vec![child.clone()], 1));
    let text = report.worst_text(120);
    assert!(text.contains("b (20), child process: do_wait (interruptible)\n"), "{text}");
    assert!(text.contains("Idle threads were asleep 1 time: --idle shows them, too"), "{text}");
    let with_idle = ReportOptions { worst_idle: true, ..ReportOptions::default() };
    let report = worst(&scenario, with_idle);
    let epoll = (10, "events (epoll, poll, select)".to_owned());
    assert_eq!((rows(&report), report.worst.idle_left_out), (vec![epoll, child], 0));
}

fn rows(report: &Report) -> Vec<(u32, String)> {
    let blocked = &report.worst.blocked;
    let rows = blocked.rows.iter().map(|row| (row.waiter.tid, row.waits_for.clone()));
    assert_eq!(rows.len(), blocked.total);
    rows.collect()
}

#[test]
fn a_wait_for_a_lock_names_its_holder() {
    let (mut scenario, a, b) = two_programs();
    let name = scenario.name("cache");
    let process = scenario.tables.thread(a).process;
    scenario.tables.locks.push(Lock { process, name, location: None, shared: false });
    scenario.at(0, lock_event(b, LockAction::Obtain));
    scenario.at(10, lock_event(a, LockAction::Wait));
    scenario.at(50, lock_event(b, LockAction::Release));
    scenario.at(55, lock_event(a, LockAction::Obtain));
    let report = worst(&scenario, ReportOptions::default());
    let row = &report.worst.locks.rows[0];
    let shown = (
        row.waiter.tid,
        row.waiter.waited_ns,
        row.lock.as_str(),
        row.holder.as_deref(),
        row.obtained,
    );
    assert_eq!(shown, (10, 45_000, "cache", Some("b (20)"), true));
    assert!(
        report.worst_text(100).contains("a (10), for cache, held by b (20)"),
        "{}",
        report.worst_text(100)
    );
}

fn lock_event(thread: ThreadId, action: LockAction) -> Event {
    Event::Lock(LockEvent { lock: LockId(0), thread, action, shared: false, location: None })
}

#[test]
fn where_nobody_waited_that_is_said() {
    let text = worst(&Scenario::new(), ReportOptions::default()).worst_text(120);
    assert!(text.contains("No thread waited"), "{text}");
}

#[test]
fn of_a_recording_of_some_processes_the_others_are_one_line() {
    let mut scenario = Scenario::new();
    let (_, shell) = scenario.process(10, 1, "sh", &[]);
    let (_, child) = scenario.process(20, 10, "make", &[]);
    let (_, grandchild) = scenario.process(30, 20, "cc", &[]);
    let (_, other) = scenario.process(40, 1, "other", &[]);
    scenario.switches(0, 0, IDLE, SleepState::Runnable, shell);
    scenario.switches(10, 0, shell, SLEEPS, child);
    scenario.switches(20, 0, child, SLEEPS, grandchild);
    scenario.switches(30, 0, grandchild, SLEEPS, other);
    scenario.switches(40, 0, other, SLEEPS, IDLE);
    let session = SessionInfo { filter_pids: vec![10], ..session() };
    let process = Some(ProcessFilter::Family(Family::new(vec![10])));
    let report = report_with(
        &scenario,
        ReportOptions { process, ..ReportOptions::default() },
        &session,
        &[],
    );
    let shown: Vec<_> = report.processes.rows.iter().map(|row| row.pid).collect();
    assert_eq!(shown, [10, 20, 30]);
    assert_eq!((report.others.processes, report.others.on_cpu_ns), (1, 10_000));
    let text = report.text(100);
    assert!(text.contains("only 10 and its children"), "{text}");
    let others = "1 other process, as far as they concern these: --all shows that";
    assert!(text.contains(others), "{text}");
}

#[test]
fn waits_of_processes_that_were_not_recorded_are_nobodys_longest() {
    let mut scenario = Scenario::new();
    let (_, recorded) = scenario.process(10, 1, "recorded", &[]);
    let (_, other) = scenario.process(40, 1, "other", &[]);
    let wakeup_of = |wakee| Event::Wakeup(wakeup(0, wakee));
    scenario.at(0, wakeup_of(other));
    scenario.at(5, wakeup_of(recorded));
    scenario.switches(10, 0, IDLE, SleepState::Runnable, recorded);
    // It has run since, which is not recorded: this is not its first turn.
    scenario.switches(900, 0, recorded, SLEEPS, other);
    scenario.switches(910, 0, other, SLEEPS, IDLE);
    let session = SessionInfo { filter_pids: vec![10], ..session() };
    let options = ReportOptions { worst: 9, ..ReportOptions::default() };
    let report = report_with(&scenario, options, &session, &[]);
    let longest = report.longest_wait.as_ref().map(|wait| (wait.tid, wait.waited_ns));
    assert_eq!(longest, Some((10, 5_000)));
    assert_eq!(report.run_queue.all.count, 1);
    let rows: Vec<_> = report.worst.for_cpu.rows.iter().map(|row| row.waiter.tid).collect();
    assert_eq!(rows, [10]);
}
