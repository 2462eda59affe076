//! Arguments of `record`, and what they become.

use super::*;
use crate::args::Cli;
use crate::record::options::StackKinds;
use clap::Parser;

fn finish(arguments: &[&str]) -> Result<Options> {
    let cli = Cli::try_parse_from(["syscollect"].iter().chain(arguments))?;
    cli.record.finish()
}

fn is_usage_error(arguments: &[&str]) -> bool {
    finish(arguments)
        .is_err_and(|error| error.downcast_ref::<clap::Error>().is_some_and(|e| e.exit_code() == 2))
}

#[test]
fn the_defaults_are_the_whole_machine_at_999_hertz_with_sample_and_off_cpu_stacks() {
    let options = finish(&[]).unwrap();
    assert_eq!((options.output, options.export), (Output::Default, Some(Format::Pftrace)));
    assert_eq!(options.frequency, 999);
    assert_eq!(
        options.stacks,
        StackKinds { samples: true, off_cpu: true, ..StackKinds::default() }
    );
    assert_eq!((options.buffer_bytes, options.system.mode), (64 << 20, BufferMode::Discard));
    assert_eq!(
        (
            options.system.subject.pids.len(),
            options.duration,
            options.system.subject.cross_check_every
        ),
        (0, None, 0)
    );
}

#[test]
fn processes_are_named_several_times_or_in_a_list() {
    for arguments in [&["-p", "7", "-p", "5"][..], &["-p", "7,5"], &["-p", "5", "7", "5"]] {
        assert_eq!(finish(arguments).unwrap().system.subject.pids, [5, 7], "{arguments:?}");
    }
    assert!(is_usage_error(&["-p", "0"]));
    assert!(is_usage_error(&["-p", "firefox"]));
}

#[test]
fn only_needs_a_command_and_limits_the_recording_to_it() {
    assert!(is_usage_error(&["--only"]));
    let options = finish(&["--only", "--", "make", "-j8"]).unwrap();
    assert_eq!(options.command, ["make", "-j8"]);
    assert_eq!(options.settings(Some(77), Instant::now()).pids, [77]);
}

#[test]
fn the_output_tells_the_format_and_a_wrong_one_is_a_usage_error() {
    let options = finish(&["-o", "a/x.syscap"]).unwrap();
    assert_eq!((options.output, options.export), (Output::File("a/x.syscap".into()), None));
    let options = finish(&["-o", "-", "--format", "pftrace"]).unwrap();
    assert_eq!((options.output, options.export), (Output::Standard, Some(Format::Pftrace)));
    assert!(is_usage_error(&["-o", "-"]));
    assert!(is_usage_error(&["-o", "x.gz"]));
}

#[test]
fn the_buffer_either_streams_or_overwrites() {
    assert_eq!(
        finish(&["--overwrite", "--buffer", "2M"]).unwrap().system.mode,
        BufferMode::Overwrite
    );
    assert_eq!(finish(&["--discard"]).unwrap().system.mode, BufferMode::Discard);
    assert!(is_usage_error(&["--discard", "--overwrite"]));
    assert!(is_usage_error(&["--buffer", "64"]), "64 bytes are a forgotten unit");
}

#[test]
fn memory_for_unwind_tables_is_a_size_with_room_for_one() {
    assert_eq!(settings(&[]).unwind_memory, None);
    assert_eq!(settings(&["--unwind-memory", "40M"]).unwind_memory, Some(40 << 20));
    for wrong in ["64", "127K", "5G", "much"] {
        assert!(is_usage_error(&["--unwind-memory", wrong]), "{wrong}");
    }
}

fn settings(arguments: &[&str]) -> RecordOptions {
    finish(arguments).unwrap().settings(None, Instant::now())
}

#[test]
fn a_buffer_of_seconds_overwrites() {
    let options = finish(&["--overwrite", "--buffer", "30s"]).unwrap();
    assert_eq!(
        (options.buffer_bytes, options.system.buffer_span),
        (512 << 20, Some(Duration::from_secs(30)))
    );
    assert_eq!(finish(&["--overwrite", "--buffer", "30s,2G"]).unwrap().buffer_bytes, 2 << 30);
    assert!(is_usage_error(&["--buffer", "30s"]), "a buffer that streams has no age");
}

#[test]
fn a_recording_is_divided_among_raw_captures_only() {
    let rotate = finish(&["--rotate", "10m", "--keep", "6", "--max-size", "10G", "-o", "x.syscap"])
        .unwrap()
        .system
        .rotate;
    let every = Duration::from_secs(600);
    assert_eq!(rotate, Some(Rotate { every, keep: Some(6), max_bytes: Some(10 << 30) }));
    assert_eq!(finish(&["--rotate", "1h"]).unwrap().export, None);
    let options = finish(&["--max-size", "2G"]).unwrap();
    assert_eq!((options.system.rotate, options.system.stop_at), (None, Some(2 << 30)));
    for wrong in [
        &["--rotate", "10m", "-o", "x.pftrace"][..],
        &["--rotate", "10m", "-o", "-", "--format", "syscap"],
        &["--rotate", "10m", "--overwrite"],
        &["--rotate", "10ms"],
        &["--rotate", "10M"],
        &["--keep", "6"],
        &["--rotate", "10m", "--keep", "1"],
        &["--max-size", "10"],
    ] {
        assert!(is_usage_error(wrong), "{wrong:?}");
    }
}

#[test]
fn probes_come_from_options_and_from_files_and_know_their_limit() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, "# ours\nusdt bin/server:db:query(text:str)\n").unwrap();
    let zone = "python:function__entry..function__return";
    let file_name = file.path().to_str().unwrap();
    let options = [
        "--function",
        "libc.so.6:fopen*",
        "--zone",
        zone,
        "--probes",
        file_name,
        "--usdt",
        "python:line",
    ];
    let all = [&options[..], &["--max-functions", "7"]].concat();
    let probes = finish(&all).unwrap().settings(None, Instant::now()).probes;
    let lines: Vec<String> = probes.iter().map(ToString::to_string).collect();
    let folder = std::env::current_dir().unwrap();
    let from_file = format!("usdt {}/bin/server:db:query(text:str)", folder.display());
    let zone = "zone python:function__entry..python:function__return";
    assert_eq!(lines, ["usdt python:line", zone, "function libc.so.6:fopen*", &from_file]);
    assert!(matches!(&probes[2], Spec::Function(function) if function.limit == 7));
    assert!(finish(&[]).unwrap().settings(None, Instant::now()).probes.is_empty());
}

#[test]
fn tracepoints_are_named_one_by_one_or_by_their_subsystem() {
    let options = finish(&["--tracepoint", "irq", "--tracepoint", "block:block_rq_issue"]).unwrap();
    let tracepoints = options.settings(None, Instant::now()).tracepoints;
    let names: Vec<String> = tracepoints.iter().map(ToString::to_string).collect();
    assert_eq!(names, ["irq", "block:block_rq_issue"]);
    assert!(is_usage_error(&["--tracepoint", "/etc/passwd"]));
}

#[test]
fn what_is_no_probe_is_a_usage_error_that_says_where() {
    assert!(is_usage_error(&["--usdt", "python"]));
    assert!(is_usage_error(&["--zone", "python:line"]));
    assert!(is_usage_error(&["--function", "fopen"]));
    assert!(is_usage_error(&["--max-functions", "0"]));
    assert!(is_usage_error(&["--probes", "/nowhere/at/all"]));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, "usdt a:b\nusdt a\n").unwrap();
    let error = finish(&["--probes", file.path().to_str().unwrap()]).unwrap_err().to_string();
    assert!(error.contains("line 2: \"a\" is not PROVIDER:NAME"), "{error}");
}

#[test]
fn the_file_of_the_command_is_told_so_that_it_can_be_probed() {
    assert!(launched("sh").unwrap().is_absolute());
    assert_eq!(launched("/bin/sh"), Some("/bin/sh".into()));
    assert_eq!(launched("no-such-program-anywhere"), None);
}

fn launched(command: &str) -> Option<PathBuf> {
    finish(&["--", command]).unwrap().settings(None, Instant::now()).launch
}

#[test]
fn impossible_rates_are_usage_errors() {
    assert_eq!(finish(&["--freq", "0"]).unwrap().frequency, 0);
    assert!(is_usage_error(&["--freq", "100000"]));
    assert!(is_usage_error(&["-d", "0"]));
}

#[test]
fn a_bundle_has_a_bound_and_stays_in_a_raw_capture() {
    assert_eq!(finish(&[]).unwrap().system.bundling, None);
    let bundling = finish(&["--bundle"]).unwrap().system.bundling.unwrap();
    assert_eq!((bundling.most, bundling.name_later), (64 << 20, false));
    let options = finish(&["--bundle", "-o", "x.pftrace"]).unwrap();
    assert_eq!(options.keep, KeepCapture::Always, "it would be kept for nobody");
    let later = ["--bundle", "--bundle-size", "1G", "--name-later", "-o", "x.syscap"];
    let bundling = finish(&later).unwrap().system.bundling.unwrap();
    assert_eq!((bundling.most, bundling.name_later), (1 << 30, true));
    for wrong in [
        &["--name-later", "-o", "x.syscap"][..],
        &["--bundle-size", "1G"],
        &["--bundle", "--bundle-size", "64"],
        &["--bundle", "--no-capture"],
        &["--bundle", "--name-later", "-o", "x.pftrace"],
        &["--bundle", "-o", "-", "--format", "pftrace"],
    ] {
        assert!(is_usage_error(wrong), "{wrong:?}");
    }
    assert!(finish(&["--bundle", "-o", "-", "--format", "syscap"]).is_ok());
}
