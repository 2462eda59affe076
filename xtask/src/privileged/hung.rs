//! Programs that were there before the recording: what is told of them was read when it began. One
//! that hangs has no event, and one whose first thread has ended shows nothing where others do.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::context::{Context, ends_with_us, number, text};

const WAITING: u64 = 3;

/// Recorded alone, and with the whole machine, the program's threads are asleep all the time, each
/// in what it waits for.
pub(crate) fn hung(context: &Context) -> Result<String> {
    let mut program = started(context, &["hang", &WAITING.to_string()], "waiting")?;
    let pid = program.id().to_string();
    let of_program = asleep_of(context, &["-p", &pid], &pid)?;
    let of_machine = asleep_of(context, &[], &pid)?;
    drop(program.stdin.take());
    program.wait()?;
    Ok(format!("{of_program}; with the whole machine {of_machine}"))
}

/// A load that says `word` when it is ready, and ends when its standard input does.
fn started(context: &Context, arguments: &[&str], word: &str) -> Result<Child> {
    let mut command = Command::new(&context.load);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    ends_with_us(&mut command);
    let mut program = command.spawn().context("cannot start the load")?;
    let mut line = String::new();
    let output = program.stdout.take().context("the load has no output")?;
    BufReader::new(output).read_line(&mut line)?;
    ensure!(line.contains(word), "the load printed {line:?}");
    Ok(program)
}

/// A program goes on without its first thread: its functions, what its other threads wait for and
/// its zones are told as any program's.
pub(crate) fn leader_gone(context: &Context) -> Result<String> {
    let mut program = started(context, &["leaderless"], "ended")?;
    let (pid, capture) = (program.id().to_string(), context.path("leader-gone.syscap"));
    let output = text(&capture)?;
    // Long enough for a busy machine to read who sleeps.
    context.succeed(&["record", "-o", output, "-p", &pid, "-d", "3"])?;
    drop(program.stdin.take());
    program.wait()?;
    let report = report_of(context, output, &pid)?;
    let functions = report["functions"]["by_total"]["rows"].as_array();
    let functions = functions.context("a report has functions")?;
    let samples = number(&report["functions"], "samples")?;
    let row = functions.iter().find(|row| is_named(&row["function"], "leaderless_burns"));
    let row = row.with_context(|| format!("who burns is not named: {functions:?}"))?;
    let burns = number(row, "total")?;
    let by_tables = context.offered.has("unwind_tables");
    let least = if by_tables { 900 } else { 500 };
    ensure!(burns * 1000 >= samples * least, "{burns} of {samples} samples are named: {row}");
    let asleep = &report["off_cpu"]["asleep_throughout"]["rows"]["rows"];
    let waits = asleep.as_array().into_iter().flatten().find(|row| {
        let frames = row["frames"].as_array();
        frames.into_iter().flatten().any(|frame| is_named(frame, "leaderless_waits"))
    });
    // Registers of others, and tables by which their stacks are walked.
    if context.offered.has("bpf_task_pt_regs") && by_tables {
        let notes = &context.info(&capture)?["recording"]["notes"];
        ensure!(waits.is_some(), "who waits is not named: {asleep}; the notes say {notes}");
    }
    let printed = context.succeed(&["report", output, "--process", &pid])?.stdout;
    ensure!(printed.contains("leaderless zone"), "the report does not name the zones:\n{printed}");
    Ok(format!("{burns} of {samples} samples named, and who waits, and zones"))
}

/// The report of a capture, of that process.
fn report_of(context: &Context, capture: &str, pid: &str) -> Result<Value> {
    let report = context.succeed(&["report", capture, "--process", pid, "--json"])?.stdout;
    Ok(serde_json::from_str(&report)?)
}

/// Whether a snapshot tells of a process that has done nothing for longer than that reaches back:
/// one of its threads waits for a lock.
pub(super) fn check_hangs(context: &Context, snapshot: &Path, pid: u32) -> Result<()> {
    let report = report_of(context, text(snapshot)?, &pid.to_string())?;
    let asleep = &report["off_cpu"]["asleep_throughout"];
    let futex = blocked_in(asleep, "futex")
        .with_context(|| format!("nobody waits for a lock: {asleep}"))?;
    check_stack(context, futex, ["lock_contended", "start_thread"])
}

/// The row's stack has these functions, where stacks of others can be walked.
fn check_stack(context: &Context, row: &Value, functions: [&str; 2]) -> Result<()> {
    // Registers of others, and tables by which their stacks are walked.
    if context.offered.has("bpf_task_pt_regs") && context.offered.has("unwind_tables") {
        let frames = row["frames"].as_array().context("a row has frames")?;
        let has = |function: &&str| frames.iter().any(|frame| is_named(frame, function));
        ensure!(functions.iter().all(has), "this stack is not whole: {row}");
    }
    Ok(())
}

/// The row of those who are blocked in such a function.
fn blocked_in<'a>(asleep: &'a Value, function: &str) -> Option<&'a Value> {
    asleep["rows"]["rows"].as_array()?.iter().find(|row| is_named(&row["blocked_in"], function))
}

fn is_named(frame: &Value, function: &str) -> bool {
    frame.as_str().is_some_and(|it| it.contains(function))
}

/// What the report of a recording says of the program.
fn asleep_of(context: &Context, options: &[&str], pid: &str) -> Result<String> {
    let capture = context.path("hung.syscap");
    let output = text(&capture)?;
    context.succeed(&[&["record", "-o", output, "-d", "1"], options].concat())?;
    let report = report_of(context, output, pid)?;
    let threads = report["threads"]["rows"].as_array().context("a report has threads")?;
    ensure!(threads.len() as u64 == WAITING + 1, "of {} threads is told: {report}", threads.len());
    let duration = number(&report, "duration_ns")?;
    for thread in threads {
        let (blocked, unknown) = (number(thread, "blocked_ns")?, number(thread, "unknown_ns")?);
        // A machine that loses records does not know all of the time.
        let is_asleep = blocked + unknown == duration && blocked >= duration / 10 * 9;
        ensure!(is_asleep, "a thread slept {blocked} of {duration} ns: {thread}");
    }
    let asleep = &report["off_cpu"]["asleep_throughout"];
    ensure!(number(asleep, "threads")? == WAITING + 1, "who slept throughout: {asleep}");
    let futex = blocked_in(asleep, "futex")
        .with_context(|| format!("nobody waits for a lock: {asleep}"))?;
    ensure!(number(futex, "threads")? == WAITING, "who waits for the lock: {futex}");
    let pipe =
        blocked_in(asleep, "pipe").with_context(|| format!("nobody reads the pipe: {asleep}"))?;
    check_stack(context, futex, ["lock_contended", "start_thread"])?;
    check_stack(context, pipe, ["read_to_end", "_start"])?;
    Ok(format!(
        "{WAITING} threads asleep in {} for {} ms",
        futex["blocked_in"],
        duration / 1_000_000
    ))
}
