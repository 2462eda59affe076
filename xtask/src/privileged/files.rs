//! Recordings in several files, of a bounded size, and what they say that they cost.
//!
//! The truth: the load's own count of its switches over all files, the sizes of the files, and the
//! kernel's account of the recorder as `wait4` gives it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use syscollect_model::Ticks;

use super::context::{Context, number, text};
use super::count;
use super::recorded::Recorded;

/// The files `x-0001.syscap` and so on of a recording into `x.syscap`, in order.
fn files_of(output: &Path) -> Result<Vec<PathBuf>> {
    let stem =
        output.file_stem().context("an output without a name")?.to_string_lossy().into_owned();
    let folder = output.parent().context("an output without a folder")?;
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    files.retain(|file| {
        file.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&format!("{stem}-")))
    });
    files.retain(|file| file.extension().is_some_and(|extension| extension != "pftrace"));
    files.sort();
    Ok(files)
}

fn sizes(files: &[PathBuf]) -> Result<u64> {
    files.iter().map(|file| Ok(fs::metadata(file)?.len())).sum()
}

/// Files of a second each: no event is lost between them, and each is readable alone.
pub(crate) fn rotate(context: &Context) -> Result<String> {
    let output = context.path("rotate.syscap");
    let times = context.times(1_000_000).to_string();
    let lines = context.record(
        &output,
        &["--rotate", "1s", "--freq", "99"],
        &["ping-pong", &times, "0"],
    )?;
    let files = files_of(&output)?;
    ensure!(files.len() >= 3, "only {files:?}");
    let (mut parts, mut events) = (Vec::new(), 0);
    for file in &files {
        let info = context.info(file)?;
        ensure!(
            info["complete"] == true && number(&info, "lost")? == 0,
            "{}: {}",
            file.display(),
            info["losses"]
        );
        events += number(&info, "events")?;
        let recorded = Recorded::read(file)?;
        let without =
            recorded.uses.iter().filter(|(stack, _)| !recorded.stacks.contains_key(stack)).count();
        ensure!(
            without == 0,
            "{}: {without} of {} stacks are in another file",
            file.display(),
            recorded.uses.len()
        );
        // The load's name, its processes and their functions are known in each file.
        context.export(file)?;
        context.succeed(&["report", text(file)?, "--process", "syscollect-load"])?;
        parts.push(recorded);
    }
    let switches = count::compare(&parts, &lines)?;
    Ok(format!(
        "{switches} of {switches} switches of the load in {} files, {events} events in all",
        files.len()
    ))
}

/// Of a recording that keeps the last second, the events of this second are there; where that has
/// no room, what is there is said.
pub(crate) fn last_seconds(context: &Context) -> Result<String> {
    let (info, seconds) = kept(context, "second.syscap", "1s", "none")?;
    ensure!(number(&info, "lost")? == 0 && number(&info, "overwritten")? > 0, "{}", info["losses"]);
    ensure!(number(&info, "duration_ns")? > 2_000_000_000, "the load ended too soon");
    // A chunk gives way as a whole, so that its first events may be as much older as it took to
    // fill, which is up to half a second, and as the collector came late to take it. The second
    // ends with the newest of all events, and the last switch comes some milliseconds before that.
    ensure!((0.95..2.0).contains(&seconds), "the last second is {seconds:.3} s long");
    let (info, short) = kept(context, "megabyte.syscap", "1h,1M", "none")?;
    let notes = info["recording"]["notes"].as_array().context("info has no notes")?;
    let is_reported =
        notes.iter().filter_map(Value::as_str).any(|note| note.contains("holds the last"));
    ensure!(is_reported, "{short:.2} s of an hour were kept, and nothing says so: {notes:?}");
    // Stacks wait for the end, too, and all that the last second refers to are there.
    let (info, with_stacks) = kept(context, "stacks.syscap", "1s", "off-cpu,wakers")?;
    ensure!(number(&info, "lost")? == 0, "with stacks, {with_stacks:.2} s: {}", info["losses"]);
    Ok(format!("{seconds:.2} s were kept of one, {short:.2} s in a megabyte"))
}

/// Round trips of `ping-pong` that take longer than twice what [`last_seconds`] keeps: 3.5 s on a
/// quiet machine, where a million has taken 2.0.
const LONG: u64 = 1_700_000;

/// What `info` says of an overwriting recording, and the seconds from its first switch to its last.
fn kept(context: &Context, name: &str, buffer: &str, stacks: &str) -> Result<(Value, f64)> {
    let output = context.path(name);
    let times = context.times(LONG).to_string();
    let options = ["--overwrite", "--buffer", buffer, "--stacks", stacks, "--freq", "0"];
    context.record(&output, &options, &["ping-pong", &times, "0"])?;
    let recorded = Recorded::read(&output)?;
    let ticks = recorded.switches.iter().map(|switch| switch.ticks);
    let (first, last) = ticks.clone().min().zip(ticks.max()).context("nothing was kept")?;
    let [first, last] = [first, last].map(|ticks| recorded.clock.time(Ticks(ticks)).0);
    Ok((context.info(&output)?, (last - first) as f64 / 1e9))
}

/// A recording stops at the size that it may have, and one in several files deletes its oldest.
pub(crate) fn max_size(context: &Context) -> Result<String> {
    const MOST: u64 = 4 << 20;
    // Names of functions come after the recording, so there are none here.
    let few = ["--stacks", "none", "--freq", "0", "--max-size", "4M"];
    let load = ["ping-pong", &context.times(1_200_000).to_string(), "0"].map(str::to_owned);
    let load: Vec<&str> = load.iter().map(String::as_str).collect();

    let single = context.path("size.syscap");
    context.record(&single, &few, &load)?;
    let (bytes, info) = (fs::metadata(&single)?.len(), context.info(&single)?);
    let reason = &info["recorder"]["stop_reason"];
    ensure!(reason == "max-size", "it ended with {reason}, at {bytes} bytes");
    ensure!(
        (MOST / 4..=MOST + MOST / 4).contains(&bytes),
        "{bytes} bytes where {MOST} were allowed"
    );

    let several = context.path("sizes.syscap");
    context.record(&several, &[&few[..], &["--rotate", "1s"]].concat(), &load)?;
    let files = files_of(&several)?;
    let all = sizes(&files)?;
    ensure!(files.len() >= 2, "only {files:?}");
    ensure!(!files[0].ends_with("sizes-0001.syscap"), "nothing was deleted: {files:?}");
    ensure!(all <= MOST + MOST / 4, "{all} bytes in {files:?} where {MOST} were allowed");
    for file in &files {
        ensure!(context.info(file)?["complete"] == true, "{} is not complete", file.display());
    }
    Ok(format!(
        "one file of {bytes} bytes; {} files of {all} bytes, of which the oldest were deleted",
        files.len()
    ))
}

/// What the recorder says that it cost is what the kernel counted of its process.
pub(crate) fn cost_line(context: &Context) -> Result<String> {
    let output = context.path("cost.pftrace");
    let capture = output.with_extension("syscap");
    let mut command =
        context.command(&["record", "-d", "2", "-o", text(&output)?, "--keep-capture", "--force"]);
    let stderr = context.path("cost.stderr");
    let child = command.stdout(Stdio::null()).stderr(fs::File::create(&stderr)?).spawn()?;
    let usage =
        wait_for_usage(child.id()).with_context(|| fs::read_to_string(&stderr).unwrap_or_default());
    let (cpu_ns, peak_bytes) = usage?;
    let info = context.info(&capture)?;
    let costs = info["recorder"]["costs"].as_array().context("the capture tells no costs")?;
    let work: Vec<&str> = costs.iter().filter_map(|cost| cost["work"].as_str()).collect();
    ensure!(work == ["start", "recording", "stopping", "naming", "export"], "{work:?}");
    let reported: u64 = costs.iter().map(|cost| number(cost, "cpu_ns")).sum::<Result<u64>>()?;
    let most = costs
        .iter()
        .map(|cost: &Value| number(cost, "peak_bytes"))
        .collect::<Result<Vec<u64>>>()?;
    let most = most.into_iter().max().unwrap_or(0);
    let (cpu, memory) = (reported as f64 / cpu_ns as f64, most as f64 / peak_bytes as f64);
    // What follows the account: the files get their names, and the process ends.
    let untold = Duration::from_nanos(cpu_ns.saturating_sub(reported));
    ensure!(cpu <= 1.01, "{reported} ns of CPU time are told of {cpu_ns} ns");
    ensure!(
        cpu >= 0.85 || untold <= AFTERWARDS,
        "{reported} ns of CPU time are told of {cpu_ns} ns"
    );
    // Each part's peak is begun anew (/proc/self/clear_refs), and with it what wait4 gives in the
    // end.
    ensure!(memory >= 0.9, "{most} bytes of memory are told of {peak_bytes}");
    Ok(format!(
        "{:.1} % of the CPU time and {:.1} % of the peak that wait4 gives",
        cpu * 100.0,
        memory * 100.0
    ))
}

/// What a process may take to give its memory back, on a slow machine, after it told what it used.
const AFTERWARDS: Duration = Duration::from_millis(100);

/// Waits for a child; its CPU time in nanoseconds and its peak memory in bytes, as the kernel
/// counted them.
pub(crate) fn wait_for_usage(pid: u32) -> Result<(u64, u64)> {
    let mut status = 0;
    // SAFETY: rusage is plain numbers, for which zero is valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both are valid for writing; the child is ours and was not waited for.
    let waited = unsafe { libc::wait4(pid as libc::pid_t, &raw mut status, 0, &raw mut usage) };
    ensure!(
        waited == pid as libc::pid_t && status == 0,
        "process {pid} ended with wait status {status}"
    );
    let cpu_ns = nanoseconds(usage.ru_utime) + nanoseconds(usage.ru_stime);
    Ok((cpu_ns, usage.ru_maxrss as u64 * 1024))
}

fn nanoseconds(time: libc::timeval) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000
}
