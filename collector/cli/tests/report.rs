//! `syscollect report` as it is run. No root needed.

// What a test cannot do without is not there: it fails, which is all it can do.
#![allow(clippy::unwrap_used)]

mod fake;

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Output};
use syscollect_model::{LaneKind, LossCause, SessionInfo, SnapshotMark, StopReason, Ticks};
use syscollect_records::{SchedRecord, task_state};
use syscollect_store::{Definition, LaneLoss, LostRecord};
use syscollect_tests::{FakeMachine, Host, Stacks, TICKS_PER_US, ticks};

/// Runs the program on the capture of one worker that runs twice for a millisecond.
fn report(arguments: &[&str]) -> Output {
    report_in(arguments, &[])
}

/// The same in an environment.
fn report_in(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("x.syscap");
    let loss = LaneLoss {
        origin: LaneKind::Sample.into(),
        cpu: Some(0),
        record: LostRecord::from("sample".to_owned()),
        cause: LossCause::LaneFull,
        user: None,
        count: 5,
    };
    fake::write_capture(
        File::create(&capture).unwrap(),
        &[loss],
        Some(fake::summary(StopReason::Duration)),
    );
    fs::write(folder.path().join("stacks.syscap"), with_stacks()).unwrap();
    fs::write(folder.path().join("overwritten.syscap"), overwritten()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_syscollect"));
    command.env_remove("COLUMNS").envs(environment.iter().copied());
    command.arg("report").args(arguments).current_dir(folder.path()).output().unwrap()
}

/// A worker that is blocked for a millisecond, with a stack.
fn with_stacks() -> Vec<u8> {
    let mut machine = FakeMachine::new(1);
    machine.process(70, 1, "worker", &[(70, "worker"), (71, "helper")]);
    machine.running(0, 0);
    let user = machine.sched_stack(0, 1_000, 70, &[0x1000, 0x2000]);
    machine.switch(0, 1_000, task_state::RUNNABLE, 70);
    let asleep = SchedRecord { state: task_state::INTERRUPTIBLE, ..SchedRecord::default() };
    machine.switch_with(0, 3_000, asleep, Stacks { user, kernel: 0 });
    machine.switch(0, 4_000, task_state::RUNNABLE, 70);
    machine.switch(0, 5_000, task_state::INTERRUPTIBLE, 0);
    machine.finish()
}

fn printed(arguments: &[&str]) -> String {
    let output = report(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_capture_is_summed_up_for_people() {
    let text = printed(&["x.syscap"]);
    for part in
        ["Duration   3.00 ms", "*** 5 ***", "worker (70, 1 thread)", "samples of cpu0: lane-full"]
    {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}

#[test]
fn a_capture_is_summed_up_for_machines() {
    for filter in [&[][..], &["--process", "70"], &["--process", "worker"]] {
        let json = printed(&[&["x.syscap", "--json"][..], filter].concat());
        let report: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(report["schema_version"], 1);
        assert_eq!(report["events"]["switches"], fake::SWITCHES);
        let worker = &report["threads"]["rows"][0];
        let times = ["on_cpu_ns", "waiting_ns", "blocked_ns", "unknown_ns"]
            .map(|name| worker[name].as_u64().unwrap());
        assert_eq!((worker["tid"].as_u64(), times), (Some(70), [2_000_000, 0, 1_000_000, 0]));
        assert_eq!(
            (&report["lost"], &report["cpus"][0]["idle_ns"]),
            (&5.into(), &1_000_000.into())
        );
    }
}

#[test]
fn a_part_of_the_time_is_summed_up_as_it_is_exported() {
    let whole = printed(&["x.syscap"]);
    let part = printed(&["x.syscap", "--from", "1500us", "--to", "2500us"]);
    assert!(whole.contains("Duration   3.00 ms") && !part.contains("Duration   3.00 ms"), "{part}");
    for (wrong, code, says) in [
        (&["x.syscap", "--from", "2s", "--to", "1s"][..], 2, "later than --from"),
        (&["x.syscap", "--from", "1h"], 1, "nothing is in this part of x.syscap"),
    ] {
        let output = report(wrong);
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(code) && message.contains(says), "{message}");
    }
}

#[test]
fn the_longest_waits_are_told_one_by_one() {
    let text = printed(&["x.syscap", "--worst"]);
    assert!(text.contains("Longest times blocked") && text.contains("worker (70)"), "{text}");
    assert!(!text.contains("Threads by time"), "{text}");
    printed(&["x.syscap", "--worst", "--idle"]);
    let json = printed(&["x.syscap", "--worst", "3", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    let wait = &report["worst"]["blocked"]["rows"][0];
    assert_eq!((&wait["tid"], &wait["waited_ns"]), (&70.into(), &1_000_000.into()));
}

#[test]
fn a_process_that_is_not_there_is_an_error_that_shows_the_way() {
    let output = report(&["x.syscap", "--process", "nobody"]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        message.contains("no process nobody") && message.contains("syscollect report x.syscap"),
        "{message}"
    );
    assert!(output.stdout.is_empty());
}

#[test]
fn the_id_of_a_thread_is_told_with_its_process() {
    let output = report(&["stacks.syscap", "--process", "71"]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(message.contains("71 is a thread of process 70: use --process 70"), "{message}");
    let output = report(&["stacks.syscap", "--process", "72"]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("no process 72"), "{message}");
}

#[test]
fn call_trees_are_printed_for_people_and_for_machines() {
    for (order, says) in [
        (&["--tree"][..], "Off-CPU time, from each thread's start to what it calls: 1.00 ms"),
        (
            &["--tree", "callers", "--tree-min", "0.5%", "--tree-depth", "3", "--idle"],
            "Off-CPU time, from what was waited for to who waited: 1.00 ms",
        ),
    ] {
        let text = printed(&[&["stacks.syscap"][..], order].concat());
        assert!(text.contains(says) && !text.contains("Blocked, by"), "{text}");
        let json = printed(&[&["stacks.syscap", "--json"][..], order].concat());
        let report: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(report["trees"]["off_cpu"]["total"], 1_000_000, "{json}");
    }
    // Of a capture without stacks there are none.
    for form in [&["x.syscap", "--tree"][..], &["x.syscap", "--tree", "callers", "--json"]] {
        let output = report(form);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), output.stdout), (Some(1), vec![]), "{message}");
        assert!(message.contains("record with --stacks samples,off-cpu"), "{message}");
    }
    let plain: serde_json::Value = serde_json::from_str(&printed(&["x.syscap", "--json"])).unwrap();
    assert!(plain.get("trees").is_none(), "only where they are asked for");
    for wrong in [&["--tree-min", "2%"][..], &["--idle"], &["--tree", "--worst"]] {
        let output = report(&[&["x.syscap"][..], wrong].concat());
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn where_nobody_was_woken_call_trees_point_to_who_slept_all_the_time() {
    let folder = tempfile::tempdir().unwrap();
    let mut machine = FakeMachine::new(1);
    machine.sleeper(0, 70, "hanging", "futex_do_wait");
    machine.running(0, 0);
    fs::write(folder.path().join("x.syscap"), machine.finish()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_syscollect"));
    command.args(["report", "x.syscap", "--tree"]).current_dir(folder.path());
    let output = command.output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(
        message.contains("no thread blocked and woke in this time; 1 slept from its beginning")
            && message.contains("`Asleep from beginning to end` of `syscollect report`"),
        "{message}"
    );
}

/// A recording of process 70 alone (`-p 70`), which process 80 wakes: both have a sample with a
/// stack.
fn of_one_process() -> Vec<u8> {
    let host = Host { name: "here", booted_late: 0, filter_pids: &[70] };
    let mut machine = FakeMachine::with_host(1, host);
    machine.process(70, 1, "asked-for", &[]);
    machine.process(80, 1, "stranger", &[]);
    machine.running(0, 80);
    for (us, tid) in [(100, 80), (300, 70)] {
        let user = machine.sample_stack(0, us, tid, &[0x1000, 0x2000]);
        machine.sample(0, us, tid, Stacks { user, kernel: 0 }, 0);
        machine.switch(0, us + 100, task_state::RUNNABLE, 70);
    }
    machine.finish()
}

#[test]
fn of_a_recording_of_one_process_that_one_is_shown_unless_all_are_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("x.syscap"), of_one_process()).unwrap();
    for (all, strangers) in [(&[][..], false), (&["--all"], true)] {
        let mut shown = vec![run_in(folder.path(), &["report", "x.syscap"], all)];
        for name in ["x.json", "x.folded"] {
            run_in(folder.path(), &["export", "x.syscap", "--force", "-o", name], all);
            shown.push(text_of(&folder.path().join(name)));
        }
        run_in(folder.path(), &["flamegraph", "x.syscap", "--force", "-o", "x.svg"], all);
        shown.push(text_of(&folder.path().join("x.svg")));
        for text in shown {
            assert!(text.contains("asked-for"), "{all:?}: {text}");
            assert_eq!(text.contains("stranger"), strangers, "{all:?}: {text}");
        }
    }
}

#[test]
fn a_flame_graph_is_of_a_part_where_one_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let mut machine = FakeMachine::new(1);
    machine.process(70, 1, "worker", &[]);
    machine.running(0, 70);
    for us in [1_000, 2_000, 6_000] {
        let user = machine.sample_stack(0, us, 70, &[0x1000]);
        machine.sample(0, us, 70, Stacks { user, kernel: 0 }, 0);
    }
    fs::write(folder.path().join("x.syscap"), machine.finish()).unwrap();
    for (range, samples) in [(&[][..], 3), (&["--from", "3ms"], 1), (&["--to", "3ms"], 2)] {
        let arguments = ["flamegraph", "x.syscap", "--force", "-o", "x.folded"];
        run_in(folder.path(), &arguments, range);
        let text = text_of(&folder.path().join("x.folded"));
        let count = text.trim().rsplit(' ').next().unwrap();
        assert_eq!(count.parse::<u64>().unwrap(), samples, "{range:?}");
    }
}

#[test]
fn what_lies_around_the_moment_for_which_a_snapshot_was_taken_is_told_alone() {
    let folder = tempfile::tempdir().unwrap();
    let mut machine = FakeMachine::new(1);
    machine.process(70, 1, "worker", &[]);
    machine.running(0, 70);
    for us in [1_000, 4_000, 5_000, 9_000] {
        let user = machine.sample_stack(0, us, 70, &[0x1000]);
        machine.sample(0, us, 70, Stacks { user, kernel: 0 }, 0);
    }
    let mark = SnapshotMark { at: Ticks(ticks(4_500)), ..SnapshotMark::default() };
    let tick_rate_hz = (TICKS_PER_US * 1_000_000) as f64;
    let session = SessionInfo { snapshot: Some(mark), tick_rate_hz, ..SessionInfo::default() };
    machine.define(&Definition::Session(Box::new(session)));
    fs::write(folder.path().join("x.syscap"), machine.finish()).unwrap();
    for (around, samples) in [("1ms", 2), ("1h", 4)] {
        let json = run_in(folder.path(), &["report", "x.syscap", "--json"], &["--around", around]);
        let report: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(report["events"]["samples"], samples, "{around}");
    }
    let output = report(&["x.syscap", "--around", "1s"]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && message.contains("--from and --to"), "{message}");
}

/// What the program prints that is run in a folder with these arguments.
fn run_in(folder: &Path, arguments: &[&str], more: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_syscollect"));
    let output = command.args(arguments).args(more).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn text_of(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned()
}

/// The first events of the recording gave way to newer ones.
fn overwritten() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("overwritten.syscap");
    let loss = LaneLoss {
        origin: LaneKind::Sched.into(),
        cpu: Some(0),
        record: LostRecord::from("switch".to_owned()),
        cause: LossCause::Overwritten,
        user: None,
        count: 5,
    };
    let summary = Some(fake::summary(StopReason::Duration));
    fake::write_capture(File::create(&capture).unwrap(), &[loss], summary);
    fs::read(capture).unwrap()
}

#[test]
fn a_part_that_was_overwritten_says_so_and_where_the_rest_begins() {
    let output = report(&["overwritten.syscap", "--from", "0", "--to", "0.0005"]);
    let message = String::from_utf8_lossy(&output.stderr);
    let says = "this part of overwritten.syscap was not kept, as --overwrite and --last ask: \
                what was kept begins at 0.001s";
    assert!(!output.status.success() && message.contains(says), "{message}");
    printed(&["overwritten.syscap", "--from", "0", "--to", "1"]);
}

#[test]
fn the_columns_that_are_asked_for_are_used() {
    let narrow = report_in(&["x.syscap"], &[("COLUMNS", "50")]);
    let text = String::from_utf8(narrow.stdout).unwrap();
    assert!(text.lines().take(4).all(|line| line.chars().count() <= 50), "{text}");
    let wide = String::from_utf8(report_in(&["x.syscap"], &[("COLUMNS", "1000")]).stdout).unwrap();
    assert!(wide.lines().next().unwrap().chars().count() > 120, "{wide}");
    assert_eq!(
        report_in(&["x.syscap"], &[("COLUMNS", "none")]).stdout,
        report(&["x.syscap"]).stdout
    );
}
