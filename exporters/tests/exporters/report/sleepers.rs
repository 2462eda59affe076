//! Threads that were asleep before the recording began.

use super::*;
use crate::scenario::IDLE;
use syscollect_exporters::report::{ProcessFilter, ReportRange, WaitClass};
use syscollect_model::{Lock, LockAction, LockEvent, LockId, Slice};

/// In `futex_do_wait`, without a stack.
fn in_futex(scenario: &mut Scenario) -> OffCpu {
    OffCpu {
        state: SLEEPS,
        blocked_in: Some(scenario.tables.strings.intern("futex_do_wait")),
        ..off()
    }
}

#[test]
fn who_is_never_woken_sleeps_from_beginning_to_end_and_has_a_table_of_its_own() {
    let (mut scenario, a, b) = two_programs();
    let futex = in_futex(&mut scenario);
    let second = scenario.thread(21, scenario.tables.thread(b).process, "second");
    scenario.switches(0, 0, IDLE, SleepState::Runnable, a);
    scenario.at(20, Event::Asleep(b, futex));
    scenario.at(21, Event::Asleep(second, futex));
    scenario.switches(100, 0, a, SLEEPS, IDLE);
    let report = report(&scenario);
    assert_eq!(
        thread(&report, 20).activity.times,
        times(0, 0, 100, 0),
        "since before the recording"
    );
    assert_eq!(process(&report, 20).threads, 2);
    let off_cpu = &report.off_cpu;
    assert_eq!(off_cpu.blocked_ns, 0, "no sleep of them began or ended");
    assert_eq!((off_cpu.asleep_throughout.threads, off_cpu.asleep_throughout.idle_threads), (2, 0));
    let [row] = &off_cpu.asleep_throughout.rows.rows[..] else { panic!("{off_cpu:?}") };
    assert_eq!((row.threads, row.pid, row.processes), (2, 20, 1));
    assert_eq!(
        (row.blocked_in.as_deref(), row.class),
        (Some("futex_do_wait"), WaitClass::Undecided)
    );
    let text = report.text(120);
    assert!(
        text.contains(
            "Asleep from beginning to end: 2 threads\n  (asleep in Processes and Threads; in no \
             time of Off the CPU)\n  2 threads (b, second) of b (20), futex: futex_do_wait \
             (interruptible)\n"
        ),
        "{text}"
    );
    for (time, who) in [("200 us", "b (20, 2 threads)"), ("100 us", "second (21) of b")] {
        let row = text.lines().find(|line| line.ends_with(who));
        assert!(row.is_some_and(|row| row.contains(time)), "{who} is asleep there: {text}");
    }
}

/// How one of a kind sleeps: in a function of the kernel, with a stack or without.
struct Sleep(&'static str, SleepState, bool);

/// Programs that sleep from beginning to end, as their names say, while another runs.
fn hanging_machine() -> Scenario {
    let (mut scenario, a, _) = two_programs();
    scenario.switches(0, 0, IDLE, SleepState::Runnable, a);
    let main = scenario.frame(None, 0x10, Some("main"));
    let stack = Some(scenario.tables.intern_stack(&[main]));
    let kinds = [
        ("waits-for-child", Sleep("do_wait", SLEEPS, true)),
        ("server", Sleep("do_epoll_wait", SLEEPS, true)),
        ("says-nothing", Sleep("pipe_read", SLEEPS, false)),
        ("reader", Sleep("pipe_read", SLEEPS, true)),
        ("semaphore", Sleep("futex_do_wait", SLEEPS, true)),
        ("deadlock", Sleep("locks_lock_inode_wait", SLEEPS, true)),
        ("uninterruptible", Sleep("kernel_clone", SleepState::Uninterruptible, true)),
    ];
    for (pid, (name, Sleep(function, state, has_stack))) in (100..).zip(kinds) {
        let (_, thread) = scenario.process(pid, 1, name, &[]);
        let blocked_in = Some(scenario.name(function));
        let stack = stack.filter(|_| has_stack);
        let asleep = OffCpu { state, blocked_in, stack, ..off() };
        scenario.at(u64::from(pid) - 90, Event::Asleep(thread, asleep));
    }
    scenario.switches(100, 0, a, SLEEPS, IDLE);
    scenario
}

fn reported(scenario: &Scenario, options: ReportOptions) -> String {
    report_with(scenario, options, &session(), &[]).text(140)
}

/// Where each of these lies in the text, which must have all of them.
fn offsets(text: &str, all: &[&str]) -> Vec<usize> {
    let section = text.find("\nAsleep from beginning to end").unwrap();
    all.iter()
        .map(|part| {
            let found = text[section..].find(part);
            found.unwrap_or_else(|| panic!("{part:?} is not in\n{text}"))
        })
        .collect()
}

#[test]
fn who_hangs_comes_first_and_who_waits_for_work_is_one_line() {
    let text = reported(&hanging_machine(), ReportOptions::default());
    let offsets = offsets(
        &text,
        &[
            "Asleep from beginning to end: 7 threads, 1 of them idle",
            "  uninterruptible (106), uninterruptible sleep: kernel_clone (uninterruptible)",
            "  semaphore (104), futex: futex_do_wait",
            "  deadlock (105), file lock: locks_lock_inode_wait",
            "  reader (103), pipe data: pipe_read",
            "  says-nothing (102), pipe data: pipe_read",
            "  and 1 idle thread, 1 that waits for a child process: --rows 7 shows them, too",
        ],
    );
    assert!(offsets.is_sorted(), "{text}");
    assert!(!text.contains("server (101), events"), "{text}");
}

#[test]
fn who_waits_for_work_has_rows_where_somebody_asks_for_them() {
    let options = ReportOptions { idle_sleepers: true, ..ReportOptions::default() };
    let text = reported(&hanging_machine(), options);
    let last = ["  waits-for-child (100), child process: do_wait", "  server (101), events (epoll"];
    assert!(offsets(&text, &last).is_sorted() && !text.contains("shows them, too"), "{text}");
}

#[test]
fn as_many_rows_are_shown_as_are_asked_for() {
    let text = reported(&hanging_machine(), ReportOptions { rows: 2, ..ReportOptions::default() });
    offsets(
        &text,
        &["uninterruptible (106)", "semaphore (104)", "and 3 more rows: --rows 7 shows all"],
    );
    assert!(!text.contains("reader (103)"), "{text}");
}

#[test]
fn the_first_sentences_name_who_may_hang() {
    let text = reported(&hanging_machine(), ReportOptions::default());
    let first = text.split("\n\n").next().unwrap().replace('\n', " ");
    let says = "Asleep from beginning to end: 1 thread uninterruptibly (uninterruptible 106), \
                1 thread on a file lock (deadlock 105).";
    assert!(first.contains(says), "{first}");
    assert!(!first.contains("semaphore"), "work may be waited for so: {first}");
    let process = Some(ProcessFilter::Pid(104));
    let text = reported(&hanging_machine(), ReportOptions { process, ..ReportOptions::default() });
    let first = text.split("\n\n").next().unwrap().replace('\n', " ");
    let says = "Asleep from beginning to end: 1 thread on a semaphore or futex (semaphore 104).";
    assert!(first.contains(says) && !first.contains("deadlock"), "{first}");
    let (mut scenario, a, b) = two_programs();
    let poll = OffCpu { blocked_in: Some(scenario.name("do_epoll_wait")), ..off() };
    scenario.switches(0, 0, IDLE, SleepState::Runnable, a);
    scenario.at(5, Event::Asleep(b, poll));
    scenario.switches(100, 0, a, SLEEPS, IDLE);
    let text = reported(&scenario, ReportOptions::default());
    assert_eq!(text.matches("Asleep from beginning to end").count(), 1, "idle is no news: {text}");
    assert!(text.contains("Asleep from beginning to end: 1 thread, all idle\n"), "{text}");
}

#[test]
fn the_first_sentences_name_three_of_those_who_may_hang() {
    let (mut scenario, a, _) = two_programs();
    scenario.switches(0, 0, IDLE, SleepState::Runnable, a);
    let main = scenario.frame(None, 0x10, Some("main"));
    let stack = Some(scenario.tables.intern_stack(&[main]));
    let blocked_in = Some(scenario.name("locks_lock_inode_wait"));
    for pid in 100..104 {
        let (process, thread) = scenario.process(pid, 1, &format!("service{pid}"), &[]);
        let asleep = OffCpu { state: SLEEPS, blocked_in, stack, ..off() };
        scenario.at(5, Event::Asleep(thread, asleep));
        if pid == 103 {
            let worker = scenario.thread(200, process, "worker");
            scenario.at(6, Event::Asleep(worker, asleep));
        }
    }
    scenario.switches(100, 0, a, SLEEPS, IDLE);
    let first = |options| {
        let text = reported(&scenario, options);
        text.split("\n\n").next().unwrap().replace('\n', " ")
    };
    let all = first(ReportOptions::default());
    let named = ["service100 100", "service101 101", "service102 102", "service103 103"];
    assert!(all.contains("5 threads on a file lock (") && all.contains(" and others)"), "{all}");
    assert_eq!(named.iter().filter(|name| all.contains(**name)).count(), 3, "{all}");
    let process = Some(ProcessFilter::Pid(103));
    let of_one = first(ReportOptions { process, ..ReportOptions::default() });
    assert!(of_one.contains("2 threads on a file lock (service103 103)"), "{of_one}");
}

#[test]
fn who_holds_what_others_wait_for_is_named_before_all_and_a_daemons_file_lock_last() {
    let (mut scenario, a, b) = two_programs();
    let process = scenario.tables.thread(a).process;
    let [holder, waiter] =
        [(11, "holder"), (12, "waiter")].map(|(tid, name)| scenario.thread(tid, process, name));
    let name = scenario.name("cache");
    scenario.tables.locks.push(Lock { process, name, location: None, shared: false });
    let of_lock = |thread, action| {
        let lock = LockId(0);
        Event::Lock(LockEvent { lock, thread, action, shared: false, location: None })
    };
    let track = scenario.zones(holder);
    let slice = Slice::named(scenario.name("evict"));
    scenario.at(1, Event::SliceBegin(track, slice));
    scenario.at(2, of_lock(holder, LockAction::Obtain));
    scenario.at(3, of_lock(waiter, LockAction::Wait));
    let asleep = |scenario: &mut Scenario, function| OffCpu {
        state: SLEEPS,
        blocked_in: Some(scenario.name(function)),
        ..off()
    };
    let [file_lock, futex, sleep] = ["locks_lock_inode_wait", "futex_do_wait", "hrtimer_nanosleep"]
        .map(|function| asleep(&mut scenario, function));
    for (thread, off_cpu) in [(b, file_lock), (waiter, futex), (holder, sleep)] {
        scenario.at(5, Event::Asleep(thread, off_cpu));
    }
    scenario.switches(10, 0, IDLE, SleepState::Runnable, a);
    scenario.switches(100, 0, a, SLEEPS, IDLE);
    let text = reported(&scenario, ReportOptions::default());
    let first = text.split("\n\n").next().unwrap().replace('\n', " ");
    let says = "Asleep from beginning to end: 1 thread with a lock that others wait for (a 10), 1 \
                thread on a file lock (b 20).";
    assert!(first.contains(says), "{first}");
    let rows =
        ["  holder (11) of a (10), ", "  waiter (12) of a (10), futex", "  b (20), file lock"];
    assert!(offsets(&text, &rows).is_sorted(), "{text}");
    assert!(text.contains(", in evict; another waits for a lock that it has\n"), "{text}");
}

#[test]
fn one_thread_of_many_is_told_by_its_name_and_id() {
    let (mut scenario, a, b) = two_programs();
    let futex = in_futex(&mut scenario);
    let looker = scenario.thread(21, scenario.tables.thread(b).process, "looker");
    scenario.switches(0, 0, IDLE, SleepState::Runnable, a);
    scenario.at(5, Event::Asleep(looker, futex));
    scenario.switches(100, 0, a, SLEEPS, IDLE);
    let text = reported(&scenario, ReportOptions::default());
    assert!(text.contains("  looker (21) of b (20), futex: futex_do_wait"), "{text}");
}

#[test]
fn where_nobody_was_woken_the_longest_waits_point_to_who_slept() {
    let (mut scenario, a, b) = two_programs();
    let futex = in_futex(&mut scenario);
    scenario.at(0, Event::Asleep(a, futex));
    scenario.at(1, Event::Asleep(b, futex));
    scenario.at(100, Event::ThreadName(a, scenario.tables.thread(a).name));
    let options = ReportOptions { worst: 5, ..ReportOptions::default() };
    let report = report_with(&scenario, options, &session(), &[]);
    let says = "\nNo thread blocked and woke in this time; 2 slept from its beginning to its end: \
                see `Asleep from beginning to end` of `syscollect report`\n";
    for text in [report.worst_text(160), report.tree_text(160)] {
        assert!(text.contains(says), "{text}");
    }
}

#[test]
fn a_recording_without_one_switch_tells_who_slept() {
    let (mut scenario, a, b) = two_programs();
    let futex = in_futex(&mut scenario);
    scenario.at(0, Event::Asleep(a, futex));
    scenario.at(1, Event::Asleep(b, futex));
    scenario.at(100, Event::ThreadName(a, scenario.tables.thread(a).name));
    let report = report(&scenario);
    assert_eq!(thread(&report, 10).activity.times, times(0, 0, 100, 0));
    assert!(report.text(120).contains("2 threads"));
}

#[test]
fn who_is_woken_late_was_asleep_until_then() {
    let (mut scenario, a, b) = two_programs();
    let futex = in_futex(&mut scenario);
    scenario.switches(0, 0, IDLE, SleepState::Runnable, a);
    scenario.at(5, Event::Asleep(b, futex));
    scenario.wakes(60, 0, a, b);
    scenario.switches(70, 0, a, SLEEPS, b);
    scenario.switches(100, 0, b, SLEEPS, IDLE);
    let options = ReportOptions { worst: 5, ..ReportOptions::default() };
    let report = report_with(&scenario, options, &session(), &[]);
    assert_eq!(thread(&report, 20).activity.times, times(30, 10, 60, 0));
    assert_eq!(report.off_cpu.asleep_throughout.threads, 0);
    let futex = report.off_cpu.reasons.rows.iter().find(|row| row.blocked_in.is_some()).unwrap();
    assert_eq!((futex.count, futex.blocked_ns), (1, 60_000));
    let longest: Vec<_> = report.worst.blocked.rows.iter().map(|row| row.waiter.tid).collect();
    assert!(!longest.contains(&20), "when it fell asleep is not known: {longest:?}");
}

#[test]
fn what_events_told_before_is_more_certain_than_what_was_read() {
    let (mut scenario, a, b) = two_programs();
    let futex = in_futex(&mut scenario);
    scenario.switches(0, 0, IDLE, SleepState::Runnable, a);
    scenario.wakes(10, 0, a, b);
    scenario.at(20, Event::Asleep(b, futex));
    scenario.at(20, Event::Asleep(a, futex));
    scenario.switches(50, 0, a, SLEEPS, b);
    scenario.switches(100, 0, b, SLEEPS, IDLE);
    let report = report(&scenario);
    assert_eq!(thread(&report, 10).activity.times, times(50, 0, 50, 0));
    assert_eq!(thread(&report, 20).activity.times, times(50, 40, 0, 10));
}

#[test]
fn where_records_are_missing_a_sleeper_is_unknown() {
    let (mut scenario, a, b) = two_programs();
    let futex = in_futex(&mut scenario);
    scenario.switches(0, 0, IDLE, SleepState::Runnable, a);
    scenario.at(5, Event::Asleep(b, futex));
    scenario.loses(60, 0, 40);
    scenario.at(100, Event::ThreadName(a, scenario.tables.thread(a).name));
    let report = report(&scenario);
    assert_eq!(thread(&report, 20).activity.times, times(0, 0, 80, 20));
}

/// A thread was seen asleep, its events of a millisecond after that were overwritten, those of the
/// second CPU for 20 us more, and another thread runs for 100 us.
fn overwritten() -> (Scenario, ThreadId) {
    let (mut scenario, a, b) = two_programs();
    let futex = in_futex(&mut scenario);
    let cause = syscollect_model::LossCause::Overwritten;
    scenario.at(5, Event::Asleep(b, futex));
    scenario.at(1_000, Event::Loss(Loss { cause, ..loss(0, 0, 1_000) }));
    scenario.switches(1_000, 0, IDLE, SleepState::Runnable, a);
    scenario.at(1_020, Event::Loss(Loss { cause, ..loss(1, 0, 1_020) }));
    scenario.switches(1_100, 0, a, SLEEPS, IDLE);
    (scenario, b)
}

/// The report of the whole scenario, and of its last 50 us.
fn whole_and_part(scenario: &Scenario) -> [Report; 2] {
    let part = Some(ReportRange { from: Some(Time(START + 1_050_000)), to: None });
    let options = ReportOptions { part, ..ReportOptions::default() };
    [report(scenario), part::report_of_part(scenario, 1_050, options)]
}

#[test]
fn who_slept_before_what_was_overwritten_is_unknown_since_then() {
    let (mut scenario, _) = overwritten();
    scenario.switches(1_110, 0, IDLE, SleepState::Runnable, IDLE);
    for report in whole_and_part(&scenario) {
        assert_eq!(
            report.off_cpu.asleep_throughout.threads, 0,
            "it may have slept elsewhere since"
        );
        let asleep = report.threads.rows.iter().find(|thread| thread.tid == 20);
        assert_eq!(asleep.map_or(0, |thread| thread.activity.times.blocked_ns), 0);
    }
}

#[test]
fn who_is_asleep_when_a_snapshot_is_taken_and_of_whom_it_has_nothing_slept_throughout() {
    let (mut scenario, b) = overwritten();
    let poll = OffCpu { blocked_in: Some(scenario.name("do_epoll_wait")), ..off() };
    scenario.at(1_110, Event::Asleep(b, poll));
    let expected = [times(0, 0, 90, 20), times(0, 0, 60, 0)];
    for (report, times) in whole_and_part(&scenario).iter().zip(expected) {
        let [row] = &report.off_cpu.asleep_throughout.rows.rows[..] else { panic!("{report:?}") };
        assert_eq!((row.pid, row.blocked_in.as_deref()), (20, Some("do_epoll_wait")));
        assert_eq!(thread(report, 20).activity.times, times);
    }
}

#[test]
fn in_a_part_of_a_recording_a_sleeper_sleeps_from_its_beginning() {
    let (mut scenario, a, b) = two_programs();
    let futex = in_futex(&mut scenario);
    scenario.switches(0, 0, IDLE, SleepState::Runnable, a);
    scenario.at(5, Event::Asleep(b, futex));
    scenario.switches(90, 0, a, SLEEPS, IDLE);
    scenario.wakes(100, 0, a, a);
    let part = Some(ReportRange { from: Some(Time(START + 50_000)), to: None });
    let report = part::report_of_part(&scenario, 50, ReportOptions { part, ..Default::default() });
    assert_eq!(thread(&report, 20).activity.times, times(0, 0, 50, 0));
    assert_eq!(report.off_cpu.asleep_throughout.threads, 1);
}

/// A thread runs for 200 us, its program's events of a millisecond before were overwritten, and
/// when the snapshot was taken after 300 us the kernel was asked how others slept.
fn snapshot(meanwhile: impl FnOnce(&mut Scenario, ThreadId)) -> Report {
    let (mut scenario, a, b) = two_programs();
    let futex = in_futex(&mut scenario);
    let cause = syscollect_model::LossCause::Overwritten;
    scenario.at(1_000, Event::Loss(Loss { cause, ..loss(0, 0, 1_000) }));
    scenario.switches(1_000, 0, IDLE, SleepState::Runnable, a);
    scenario.switches(1_200, 0, a, SLEEPS, IDLE);
    meanwhile(&mut scenario, b);
    scenario.at(1_300, Event::Asleep(b, futex));
    let [from, to] = [1_050, 1_150].map(|at| Some(Time(START + at * 1_000)));
    let options = ReportOptions { part: Some(ReportRange { from, to }), ..Default::default() };
    part::report_of_part(&scenario, 1_050, options)
}

#[test]
fn in_a_part_that_ends_before_a_snapshot_who_did_nothing_up_to_there_slept_throughout() {
    let report = snapshot(|_, _| ());
    let [row] = &report.off_cpu.asleep_throughout.rows.rows[..] else { panic!("{report:?}") };
    assert_eq!((row.pid, row.blocked_in.as_deref()), (20, Some("futex_do_wait")));
    assert!(!report.text(100).contains("is told where"), "{}", report.text(100));
}

#[test]
fn who_did_something_between_the_part_and_the_snapshot_may_have_slept_elsewhere() {
    let woken = snapshot(|scenario, b| scenario.wakes(1_250, 0, IDLE, b));
    let switched = snapshot(|scenario, b| scenario.switches(1_250, 1, b, SLEEPS, IDLE));
    let begun = snapshot(|scenario, b| scenario.at(1_250, Event::ThreadStart(b)));
    let lost = snapshot(|scenario, _| scenario.loses(1_250, 1, 10));
    for (report, why) in
        [(woken, "woken"), (switched, "switched"), (begun, "begun"), (lost, "lost")]
    {
        assert_eq!(report.off_cpu.asleep_throughout.threads, 0, "{why}");
    }
}
