//! The program as it is run: what it prints, leaves behind and exits with. No root needed.

// What a test cannot do without is not there: it fails, which is all it can do.
#![allow(clippy::unwrap_used)]

mod fake;
mod workplace;

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use syscollect_model::{Lane, LaneKind, LossCause, Ticks};
use syscollect_records::{ProbeRecord, RecordKind, Stamp};
use syscollect_store::{
    CaptureWriter, Chunk, ChunkHeader, Definition, LaneLoss, LostRecord, ProbeDefinition, ProbeRole,
};
use syscollect_tests::etl::{FakeTrace, event};
use workplace::Workplace;

fn loss(count: u64) -> LaneLoss {
    LaneLoss {
        origin: LaneKind::Sched.into(),
        cpu: Some(0),
        record: LostRecord::from("switch".to_owned()),
        cause: LossCause::LaneFull,
        user: None,
        count,
    }
}

#[test]
fn usage_errors_exit_with_2_and_leave_nothing_behind() {
    let place = Workplace::new();
    for arguments in [
        &["record", "--only"][..],
        &["-d", "soon"],
        &["-o", "trace.exe"],
        &["-o", "trace"],
        &["-o", "-"],
        &["--stacks", "everything"],
        &["--no-such-option"],
        &["export", "x.syscap", "-o", "y.syscap"],
        &["info"],
        &["export", "x.syscap", "-o", "-", "--format", "syscap"],
        &["flamegraph", "x.syscap", "-o", "-", "--format", "pftrace"],
        &["export", "x.syscap", "-o", "x.tracy", "--from", "soon"],
    ] {
        let message = place.fails(2, arguments);
        assert!(message.contains("error:"), "{message}");
    }
    assert!(place.fails(2, &["-o", "trace.exe"]).contains(".pftrace"), "the formats are listed");
    let message = place.fails(2, &["export", "x.syscap", "-o", "-", "--format", "syscap"]);
    assert!(
        message.contains("pb.gz") && !message.contains("values: syscap"),
        "only what is accepted is: {message}"
    );
    assert!(place.names().is_empty());
}

#[test]
fn a_usage_error_of_a_sub_command_shows_the_usage_of_that_one() {
    let place = Workplace::new();
    for (arguments, usage) in [
        (&["export", "x.syscap", "-o", "y.syscap"][..], "Usage: syscollect export "),
        (&["flamegraph", "x.syscap", "-o", "x.exe"], "Usage: syscollect flamegraph "),
        (&["report", "x.syscap", "--from", "2s", "--to", "1s"], "Usage: syscollect report "),
        (&["record", "-o", "x.exe"], "Usage: syscollect record "),
        (&["-o", "x.exe"], "Usage: syscollect [OPTIONS]"),
    ] {
        let message = place.fails(2, arguments);
        assert!(message.contains(usage), "{arguments:?}: {message}");
        assert!(message.contains("--help"), "{message}");
    }
}

#[test]
fn a_mistyped_sub_command_is_recognized_and_another_word_is_not() {
    let place = Workplace::new();
    let message = place.fails(2, &["recrod", "-d", "1"]);
    assert!(message.contains("'recrod'") && message.contains("'record'"), "{message}");
    assert!(!place.fails(2, &["make"]).contains("similar"));
}

#[test]
fn without_capabilities_the_message_says_what_to_run_and_nothing_is_left_behind() {
    let place = Workplace::new();
    let mut command = place.command(&["-d", "1", "-o", "x.pftrace"]);
    // SAFETY: prctl is async-signal-safe and no memory is involved. A root
    // without any capability in its bounding set gains none on exec; others
    // may not do this, and have none anyway.
    unsafe {
        command.pre_exec(|| {
            for capability in 0..64 {
                libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0);
            }
            Ok(())
        })
    };
    let output = command.output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{message}");
    for part in
        ["cap_bpf and cap_perfmon", "\n  Run:        sudo ", " -d 1 -o x.pftrace\n", "setcap"]
    {
        assert!(message.contains(part), "{part:?} is not in {message}");
    }
    assert!(place.names().is_empty());
}

#[test]
fn files_that_are_no_captures_get_one_clear_message() {
    let place = Workplace::new();
    fs::write(place.path("foreign.syscap"), "this is a shopping list").unwrap();
    fs::write(place.path("empty.syscap"), "").unwrap();
    for name in ["foreign.syscap", "empty.syscap"] {
        for arguments in [&["info", name][..], &["export", name, "-o", "x.pftrace"]] {
            let message = place.fails(1, arguments);
            assert!(
                message.contains(name) && message.contains("is not a syscollect capture"),
                "{message}"
            );
            assert_eq!(message.trim().lines().count(), 1, "{message}");
        }
    }
    assert!(place.fails(1, &["info", "missing.syscap"]).contains("missing.syscap"));
    assert!(!place.path("x.pftrace").exists());
}

#[test]
fn nobody_waits_for_whoever_might_write_to_a_pipe() {
    let place = Workplace::new();
    let made = Command::new("mkfifo").arg(place.path("pipe.syscap")).status().unwrap();
    assert!(made.success());
    for arguments in [&["info", "pipe.syscap"][..], &["report", "pipe.syscap"]] {
        assert!(place.fails(1, arguments).contains("pipe.syscap is a pipe"));
    }
}

#[test]
fn of_an_exported_file_its_capture_is_read_or_the_way_is_told() {
    let place = Workplace::new();
    let capture = place.capture("x.syscap", &[loss(5)]);
    place.succeeds(&["export", "x.syscap", "-o", "x.pftrace"]);
    place.succeeds(&["export", "x.syscap", "-o", "x.json.gz"]);
    for file in ["x.pftrace", "x.json.gz"] {
        for arguments in [&["report", file][..], &["info", file]] {
            let (printed, message) = place.succeeds(arguments);
            assert!(printed.contains("*** 5 ***"), "{arguments:?}: {printed}");
            assert!(message.contains("reading x.syscap, the raw capture beside"), "{message}");
        }
    }
    fs::remove_file(capture).unwrap();
    let message = place.fails(1, &["report", "x.pftrace"]);
    assert!(
        message.contains("x.syscap is not there") && message.contains("--keep-capture"),
        "{message}"
    );
}

#[test]
fn whoever_reads_the_messages_may_leave_before_the_end() {
    let work = Workplace::new();
    work.capture("x.syscap", &[]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status =
        work.command(&["export", "x.syscap", "-o", "x.tracy"]).stderr(writer).status().unwrap();
    assert_eq!(status.code(), Some(0), "the export is whole, whoever hears of it");
    assert!(work.path("x.tracy").exists());
}

#[test]
fn a_capture_is_never_replaced_by_its_export() {
    let place = Workplace::new();
    let before = fs::read(place.capture("x.syscap", &[])).unwrap();
    for output in ["x.syscap", "./x.syscap"] {
        let message =
            place.fails(1, &["export", "x.syscap", "-o", output, "--format", "pftrace", "--force"]);
        assert!(message.contains("x.syscap is what is exported"), "{message}");
    }
    assert_eq!(fs::read(place.path("x.syscap")).unwrap(), before);
}

#[test]
fn an_export_of_a_process_that_is_not_there_writes_nothing() {
    let place = Workplace::new();
    place.capture("x.syscap", &[]);
    for output in ["x.pftrace", "x.json.gz", "x.tracy", "x.svg"] {
        let message = place.fails(1, &["export", "x.syscap", "-o", output, "--process", "nobody"]);
        assert!(message.contains("no process nobody"), "{message}");
        assert!(!place.path(output).exists());
    }
    place.succeeds(&["export", "x.syscap", "-o", "x.pftrace", "--process", "worker"]);
}

#[test]
fn a_picture_of_stacks_that_nobody_recorded_is_an_error_that_names_the_way() {
    let place = Workplace::new();
    place.capture("x.syscap", &[]);
    for output in ["x.svg", "x.folded"] {
        let message = place.fails(1, &["export", "x.syscap", "-o", output]);
        assert!(
            message.contains("no CPU samples with stacks") && message.contains("record with --"),
            "{message}"
        );
    }
    let message =
        place.fails(1, &["flamegraph", "x.syscap", "-o", "wakers.svg", "--stacks", "wakers"]);
    assert!(
        message.contains("no stacks of who woke others") && message.contains("--stacks wakers"),
        "{message}"
    );
    assert_eq!(place.names(), ["x.syscap"], "nothing is left behind");
}

/// A Windows trace of one event.
fn windows_trace() -> Vec<u8> {
    let mut trace = FakeTrace::new(1);
    trace.record(0, &event(FakeTrace::START + 1, (100, 101), [7; 16], (3, 0), &[]));
    trace.finish()
}

#[test]
fn a_windows_trace_is_known_by_what_it_is_whatever_its_name() {
    let trace = windows_trace();
    let place = Workplace::new();
    for name in ["x.etl", "x.ETL", "x.etl.001", "x"] {
        fs::write(place.path(name), &trace).unwrap();
        assert!(place.succeeds(&["info", name]).0.contains("Windows 10.0.19041"));
    }
}

#[test]
fn a_file_that_is_named_twice_is_refused() {
    let trace = windows_trace();
    let place = Workplace::new();
    fs::write(place.path("x.etl"), &trace).unwrap();
    let message = place.fails(1, &["info", "x.etl", "./x.etl"]);
    assert!(message.contains("named twice"), "{message}");
}

#[test]
fn a_capture_cut_anywhere_is_read_as_far_as_it_goes_or_refused_in_one_line() {
    let place = Workplace::new();
    let whole = fs::read(place.capture("whole.syscap", &[])).unwrap();
    let mut read = 0;
    for length in (0..whole.len()).step_by(whole.len() / 40) {
        fs::write(place.path("cut.syscap"), &whole[..length]).unwrap();
        let output = place.run(&["info", "--json", "cut.syscap"]);
        let message = String::from_utf8(output.stderr).unwrap();
        match output.status.code() {
            Some(0) => read += 1,
            Some(1) => assert_eq!(message.trim().lines().count(), 1, "{message}"),
            other => panic!("{other:?} at {length}: {message}"),
        }
    }
    assert!(read > 0, "a file without its last bytes is read");
}

#[test]
fn info_tells_the_contract_in_json() {
    let place = Workplace::new();
    place.capture("x.syscap", &[loss(1_234)]);
    let (json, _) = place.succeeds(&["info", "x.syscap", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["schema_version"], 1);
    assert_eq!(json["events"], fake::SWITCHES);
    assert_eq!(json["events_by_type"]["switch"], fake::SWITCHES);
    assert!(json["records"].as_u64().unwrap() > fake::SWITCHES, "definitions are records too");
    assert_eq!(json["lost"], 1_234);
    let losses =
        serde_json::json!([{"lane": "sched", "cpu": 0, "cause": "lane-full", "count": 1_234}]);
    assert_eq!(json["losses"], losses);
    assert_eq!(json["cpus"], 1);
    assert_eq!(json["duration_ns"], 8_000_000);
    assert_eq!(json["clock"]["source"], "tsc");
    assert_eq!(json["clock"]["cpus"][0]["error_bound_ns"], 42.0);
    assert_eq!(json["complete"], true);
}

#[test]
fn info_for_people_shows_losses_first_of_all() {
    let place = Workplace::new();
    place.capture("x.syscap", &[loss(1_234)]);
    let (text, _) = place.succeeds(&["info", "x.syscap"]);
    assert!(
        text.contains("*** 1,234 ***") && text.contains("1,234 sched records of CPU 0: lane-full"),
        "{text}"
    );
    assert!(
        text.contains("4 switch")
            && text.contains("6.18.0")
            && text.contains("off by at most 42 ns"),
        "{text}"
    );
    place.capture("y.syscap", &[]);
    assert!(place.succeeds(&["info", "y.syscap"]).0.contains("nothing"));
}

/// Adds to a capture that a probe saw a function return that it did not see called.
fn add_return(capture: &Path) {
    let mut writer =
        CaptureWriter::append(File::options().append(true).open(capture).unwrap(), 100);
    let probe = ProbeDefinition {
        probe: 1,
        role: ProbeRole::FunctionReturn,
        name: "f".into(),
        ..ProbeDefinition::default()
    };
    writer.define(&Definition::Probes(vec![probe])).unwrap();
    let (ticks, size) = (4_500_000, ProbeRecord::SIZE as u16);
    let stamp = Stamp::new(ticks, RecordKind::Probe);
    let hit = ProbeRecord { stamp, tid: 70, tgid: 70, probe: 1, size, ..ProbeRecord::default() };
    let header = ChunkHeader {
        lane: Lane::new(LaneKind::Probe, 0),
        sequence: 0,
        first: Ticks(ticks),
        last: Ticks(ticks),
        current_tid: 0,
        stride: 0,
        records_before: 0,
        records: 1,
        length: size.into(),
    };
    writer.write(&Chunk { header, data: hit.as_bytes().to_vec() }).unwrap();
    writer.finish().unwrap();
}

#[test]
fn info_tells_of_returns_whose_calls_were_not_seen_if_there_are_any() {
    let place = Workplace::new();
    let capture = place.capture("x.syscap", &[]);
    let [text, json] = infos(&place);
    assert!(
        !text.contains("without a beginning") && !json.contains("unmatched_ends"),
        "{text}{json}"
    );
    add_return(&capture);
    let [text, json] = infos(&place);
    assert!(text.contains("1 zone of probes ended without a beginning"), "{text}");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&json).unwrap()["unmatched_ends"], 1);
}

/// What is told of `x.syscap`, for people and for machines.
fn infos(place: &Workplace) -> [String; 2] {
    [&["info", "x.syscap"][..], &["info", "--json", "x.syscap"]]
        .map(|arguments| place.succeeds(arguments).0)
}

#[test]
fn an_export_keeps_what_was_there_unless_it_is_forced() {
    let place = Workplace::new();
    place.capture("x.syscap", &[]);
    let (_, message) = place.succeeds(&["export", "x.syscap", "-o", "x.pftrace"]);
    assert!(
        message.contains("Wrote x.pftrace") && message.contains("ui.perfetto.dev"),
        "{message}"
    );
    let first = fs::read(place.path("x.pftrace")).unwrap();
    assert!(!first.is_empty());

    fs::write(place.path("x.pftrace"), "precious").unwrap();
    assert!(place.fails(1, &["export", "x.syscap", "-o", "x.pftrace"]).contains("--force"));
    assert_eq!(fs::read(place.path("x.pftrace")).unwrap(), b"precious");
    place.succeeds(&["export", "x.syscap", "-o", "x.pftrace", "--force"]);
    assert_eq!(
        fs::read(place.path("x.pftrace")).unwrap(),
        first,
        "the same capture makes the same file"
    );
    assert_eq!(place.names(), ["x.pftrace", "x.syscap"]);
}

#[test]
fn standard_output_receives_the_same_bytes_as_a_file() {
    let place = Workplace::new();
    place.capture("x.syscap", &[]);
    place.succeeds(&["export", "x.syscap", "-o", "x.pftrace"]);
    let output = place.run(&["export", "x.syscap", "-o", "-", "--format", "pftrace"]);
    assert_eq!(output.stdout, fs::read(place.path("x.pftrace")).unwrap());
}

#[test]
fn an_unknown_extension_is_told_all_that_are_known() {
    let place = Workplace::new();
    place.capture("x.syscap", &[]);
    for output in ["x.exe", "x"] {
        let message = place.fails(2, &["export", "x.syscap", "-o", output]);
        for known in [".pftrace", ".tracy", ".json.gz", ".json", ".pb.gz", ".svg", ".folded"] {
            assert!(message.contains(known), "{known} is not in {message}");
        }
    }
    assert_eq!(place.names(), ["x.syscap"]);
}

#[test]
fn a_part_in_which_nothing_was_recorded_is_an_error_that_tells_how_long_the_recording_is() {
    let place = Workplace::new();
    place.capture("x.syscap", &[]);
    for output in ["x.pftrace", "x.tracy", "x.json.gz", "x.pb.gz", "x.svg", "x.folded"] {
        let message = place.fails(1, &["export", "x.syscap", "-o", output, "--from", "100"]);
        assert!(
            message.contains("nothing was recorded from 100 s on: the recording has 8.00 ms"),
            "{message}"
        );
    }
    assert_eq!(place.names(), ["x.syscap"]);
    for output in ["x.pftrace", "x.tracy", "x.json.gz"] {
        let (_, message) =
            place.succeeds(&["export", "x.syscap", "-o", output, "--from", "0", "--to", "1m"]);
        assert!(message.contains("4 events"), "{message}");
    }
}

#[test]
fn a_recording_that_was_cut_off_exports_and_says_so() {
    let place = Workplace::new();
    fake::write_capture(File::create(place.path("x.syscap.partial")).unwrap(), &[], None);
    let before = fs::read(place.path("x.syscap.partial")).unwrap();
    let (_, message) = place.succeeds(&["export", "x.syscap.partial", "-o", "x.pftrace"]);
    assert!(message.contains("4 events") && message.contains("cut off"), "{message}");
    assert_eq!(
        fs::read(place.path("x.syscap.partial")).unwrap(),
        before,
        "the capture is not changed"
    );
}

#[test]
fn an_output_that_cannot_be_written_is_told_before_any_work() {
    let place = Workplace::new();
    let capture = place.capture("x.syscap", &[]);
    let message = place.fails(1, &["export", capture.to_str().unwrap(), "-o", "missing/x.pftrace"]);
    assert!(message.contains("folder missing"), "{message}");
    std::os::unix::fs::symlink(Path::new("victim"), place.path("link.pftrace")).unwrap();
    assert!(
        place
            .fails(1, &["export", "x.syscap", "-o", "link.pftrace", "--force"])
            .contains("symbolic link")
    );
    assert!(!place.path("victim").exists());
}

#[test]
fn doctor_prints_json_that_agrees_with_its_exit_code() {
    let place = Workplace::new();
    let output = place.run(&["doctor", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["can_record"].as_bool(), Some(output.status.success()));
    let names: Vec<_> = json["capabilities"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["name"].as_str().unwrap())
        .collect();
    for name in
        ["btf", "tp_btf", "raw_tracepoints", "msr_tsc", "uprobe_multi", "cap_bpf", "memory_limit"]
    {
        assert!(names.contains(&name), "{name} is not among {names:?}");
    }
}

#[test]
fn completions_and_the_manual_page_know_every_sub_command() {
    let place = Workplace::new();
    for shell in ["bash", "zsh", "fish"] {
        let (text, _) = place.succeeds(&["completions", shell]);
        assert!(text.contains("export") && text.contains("cross-check"), "{shell}");
    }
    for (command, title) in [
        (&["man"][..], ".TH syscollect "),
        (&["man", "record"], ".TH syscollect-record "),
        (&["man", "export"], ".TH syscollect-export "),
    ] {
        let (page, _) = place.succeeds(command);
        assert!(page.contains(title), "{title}");
        assert_eq!(page.matches("\n.SH NAME\n").count(), 1, "a page has one name: {command:?}");
    }
    assert!(place.fails(2, &["man", "reprot"]).contains("report"), "the commands are listed");
}

/// A pipe that nobody reads and that has no room left.
fn full_pipe() -> (std::io::PipeReader, std::io::PipeWriter) {
    use std::io::Write;
    use std::os::fd::AsRawFd;
    let (reader, writer) = std::io::pipe().unwrap();
    // SAFETY: no memory is involved.
    unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
    let block = [0u8; 4096];
    while (&writer).write(&block).is_ok() {}
    while (&writer).write(&block[..1]).is_ok() {}
    // SAFETY: as before.
    unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETFL, 0) };
    (reader, writer)
}

/// Waits until the child stands in a write to its standard output.
fn until_it_writes(child: &std::process::Child) {
    let path = format!("/proc/{}/syscall", child.id());
    for _ in 0..3_000 {
        if fs::read_to_string(&path).is_ok_and(|call| call.starts_with("1 0x1 ")) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    panic!("it never wrote");
}

#[test]
fn a_program_that_stands_still_ends_by_one_signal_after_a_while_and_by_two_at_once() {
    let place = Workplace::new();
    place.capture("x.syscap", &[]);
    for signals in
        [&[libc::SIGTERM][..], &[libc::SIGINT, libc::SIGINT], &[libc::SIGUSR1, libc::SIGUSR2]]
    {
        let (_reader, writer) = full_pipe();
        let arguments = ["export", "x.syscap", "-o", "-", "--format", "pftrace"];
        let mut child = place
            .command(&arguments)
            .stdout(writer)
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        until_it_writes(&child);
        for signal in signals {
            // SAFETY: no memory is involved; the child was not waited for, so the id is its own.
            unsafe { libc::kill(child.id() as libc::pid_t, *signal) };
            std::thread::sleep(std::time::Duration::from_millis(200));
        }
        let begin = std::time::Instant::now();
        let status = loop {
            match child.try_wait().unwrap() {
                Some(status) => break status,
                None if begin.elapsed().as_secs() > 40 => {
                    child.kill().unwrap();
                    panic!("{signals:?} did not end it");
                }
                None => std::thread::sleep(std::time::Duration::from_millis(20)),
            }
        };
        assert_eq!(status.code(), Some(1), "{signals:?}");
    }
}
