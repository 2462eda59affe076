//! Recorded switches and on-CPU time against the kernel's own counts.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::context::{Context, finish, json_lines, number, text};
use super::recorded::Recorded;
use super::uncharged::{STEP_NS, uncharged_ns};
use crate::report::Outcome;

/// The recorded switches away from each process between the moments at which it read its own
/// counts, in all files of a recording.
pub(crate) fn compare(files: &[Recorded], lines: &[Value]) -> Result<u64> {
    let mut total = 0;
    for line in lines.iter().filter(|line| line["switches"].is_u64()) {
        let (count, truth) = (recorded_switches(files, line)?, number(line, "switches")?);
        ensure!(
            count == truth,
            "{}: {count} switches recorded, {truth} counted in /proc",
            line["name"]
        );
        total += count;
    }
    Ok(total)
}

/// Switches that these processes counted and that were not recorded, where some were lost.
pub(crate) fn missing_switches(files: &[Recorded], lines: &[Value]) -> Result<u64> {
    let mut missing = 0;
    for line in lines.iter().filter(|line| line["switches"].is_u64()) {
        let (count, truth) = (recorded_switches(files, line)?, number(line, "switches")?);
        let more = truth.checked_sub(count);
        missing += more.with_context(|| {
            format!("{}: {count} switches recorded, {truth} counted in /proc", line["name"])
        })?;
    }
    Ok(missing)
}

/// The recorded switches away from a process between the moments at which it read its own count.
fn recorded_switches(files: &[Recorded], line: &Value) -> Result<u64> {
    let (pid, begin, end) =
        (number(line, "pid")? as u32, number(line, "begin")?, number(line, "end")?);
    let leaves = files
        .iter()
        .flat_map(|file| &file.switches)
        .filter(|switch| switch.previous == pid && (begin..end).contains(&switch.ticks));
    Ok(leaves.count() as u64)
}

/// Two processes on one CPU, 100,000 times there and back.
pub(crate) fn ping_pong(context: &Context) -> Result<String> {
    let capture = context.path("count.syscap");
    let times = context.times(100_000);
    let lines = context.record(
        &capture,
        &["--stacks", "none", "--freq", "0"],
        &["ping-pong", &times.to_string(), "0"],
    )?;
    let recorded = Recorded::read(&capture)?;
    let switches = compare(&[recorded], &lines)?;
    // Who is preempted between writing and reading finds the answer there, and need not wait.
    ensure!(
        switches * 100 >= 2 * times * 99,
        "only {switches} switches in {times} times there and back"
    );
    let info = context.info(&capture)?;
    let nested = nested(&info)?;
    ensure!(number(&info, "lost")? == nested, "lost: {}", info["losses"]);
    // The kernel leaves out, and counts, what comes while the same program runs, as an interrupt
    // does where a task wakes itself. No switch is among these: their counts are equal.
    ensure!(
        nested * 1_000 <= switches,
        "{nested} of the kernel's calls within others in {switches} switches"
    );
    let bytes = fs::metadata(&capture)?.len() as f64 / number(&info, "events")? as f64;
    ensure!(bytes <= 8.0 || context.is_emulated(), "{bytes:.1} bytes of the file for each event");
    let lost = if nested == 0 {
        "none lost".to_owned()
    } else {
        format!("{nested} others lost as nested")
    };
    Ok(format!("{switches} of {switches} switches, {lost}, {bytes:.1} bytes per event"))
}

/// Records lost because they came while the kernel ran the same program.
fn nested(info: &Value) -> Result<u64> {
    let losses = info["losses"].as_array().context("info has no losses")?;
    let nested = losses.iter().filter(|loss| loss["cause"] == "nested");
    nested.map(|loss| number(loss, "count")).sum()
}

/// The same through trace_processor, with thread states for everyone who switched or woke.
pub(crate) fn through_perfetto(context: &Context) -> Result<Outcome> {
    let Some(engine) = context.engine() else {
        return Ok(Outcome::Skipped(context.engine.as_ref().err().cloned().unwrap_or_default()));
    };
    let capture = context.path("sql.syscap");
    context.record(&capture, &["--stacks", "samples,off-cpu,wakers"], &["ping-pong", "50000"])?;
    let info = context.info(&capture)?;
    let types = &info["events_by_type"];
    let trace = context.export(&capture)?;
    let errors = engine.errors(&trace)?;
    ensure!(errors.is_empty(), "stats of severity error: {errors:?}");
    let [switches, wakings, samples, stateless] = engine.numbers(
        &trace,
        [
            // Where the kernel told of no switch between two that do not fit (some virtual machines
            // hide those of their own agent), the trace has a thread that stands for whatever ran.
            "select count(*) from ftrace_event where name = 'sched_switch' \
             and extract_arg(arg_set_id, 'prev_comm') != '[not recorded]' \
             and extract_arg(arg_set_id, 'next_comm') != '[not recorded]'",
            "select count(*) from ftrace_event where name in ('sched_waking', 'sched_wakeup_new')",
            "select count(*) from perf_sample where perf_session_id in \
             (select perf_session_id from perf_counter_track where name = 'CPU samples')",
            "select count(*) from thread where not is_idle and utid not in (select utid from \
             thread_state) and (utid in (select utid from sched) or tid in (select \
             extract_arg(arg_set_id, 'pid') from ftrace_event where name in ('sched_waking', \
             'sched_wakeup_new')))",
        ],
    )?;
    let expected = (
        number(types, "switch")?,
        number(types, "waking")? + types["wakeup_new"].as_u64().unwrap_or(0),
    );
    ensure!(switches as u64 == expected.0, "{switches} switches by SQL, {} by info", expected.0);
    ensure!(wakings as u64 == expected.1, "{wakings} wakeups by SQL, {} by info", expected.1);
    let taken = number(types, "sample")?;
    ensure!(samples as u64 == taken && taken > 0, "{samples} samples by SQL, {taken} by info");
    ensure!(stateless == 0, "{stateless} threads that switched or woke have no thread_state row");
    Ok(Outcome::Passed(format!(
        "{switches} switches, {wakings} wakeups, {samples} samples by SQL as by info"
    )))
}

/// A build of a generated crate: every compiler's on-CPU time against `wait4`.
pub(crate) fn build(context: &Context) -> Result<String> {
    let folder = context.path("build");
    write_crates(&folder)?;
    let (capture, log) = (context.path("build.syscap"), context.path("build.log"));
    let wrapper = folder.join("wrapper");
    fs::write(
        &wrapper,
        format!("#!/bin/sh\nexec {} wrap {} \"$@\"\n", text(&context.load)?, text(&log)?),
    )?;
    fs::set_permissions(&wrapper, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let mut command = context.command(&[
        "record",
        "-o",
        text(&capture)?,
        "--stacks",
        "none",
        "--freq",
        "0",
        "--",
    ]);
    command.args(["cargo", "build", "--offline", "--quiet", "--release"]);
    command
        .current_dir(&folder)
        .env("RUSTC_WRAPPER", &wrapper)
        .env("CARGO_TARGET_DIR", folder.join("target"));
    let before = uncharged_ns()?;
    let output = finish(&mut command)?;
    let uncharged = uncharged_ns()? - before;
    ensure!(output.status.success(), "the build or its recording failed:\n{}", output.stderr);

    let recorded = Recorded::read(&capture)?;
    let families = recorded.families();
    let on_cpu = recorded.on_cpu_ns();
    let truths = json_lines(&fs::read_to_string(&log).context("the wrapper noted nothing")?)?;
    let (mut compared, mut worst) = (0, 0.0_f64);
    for line in &truths {
        let (pid, truth) = (number(line, "pid")? as u32, number(line, "cpu_ns")? as f64);
        // Of less, the steps in which the kernel tells what it did not charge would be too large a
        // part.
        if truth < 500e6 {
            continue;
        }
        let own = family_time(pid, &families, &on_cpu);
        worst = worst.max((own / truth - 1.0).abs());
        // A task that is on a CPU is so while an interrupt or the hypervisor has that CPU; wait4
        // leaves that time out.
        let fits = own >= truth * 0.99 && own <= truth * 1.01 + uncharged + (3 * STEP_NS) as f64;
        ensure!(
            fits,
            "process {pid}: {own:.0} ns on CPU recorded, {truth:.0} by wait4, {uncharged:.0} not \
             charged"
        );
        compared += 1;
    }
    ensure!(
        compared >= 3,
        "only {compared} of {} processes ran long enough to compare",
        truths.len()
    );
    // The rest of so short a recording is what was there when it began: processes and mappings.
    let bytes = recorded.bytes_per_switch_or_wakeup();
    ensure!(
        bytes <= 8.0 || context.is_emulated(),
        "{bytes:.1} bytes of the file for each switch or wakeup"
    );
    Ok(format!(
        "{compared} processes, worst difference {:.2} %, {bytes:.1} bytes per switch or wakeup",
        worst * 100.0
    ))
}

/// On-CPU time of a process and its descendants: `wait4` counts those too.
fn family_time(pid: u32, families: &HashMap<u32, Vec<u32>>, on_cpu: &HashMap<u32, f64>) -> f64 {
    let (mut seen, mut open, mut total) = (HashSet::new(), vec![pid], 0.0);
    while let Some(process) = open.pop() {
        if seen.insert(process) {
            total += on_cpu.get(&process).copied().unwrap_or(0.0);
            open.extend(families.get(&process).into_iter().flatten());
        }
    }
    total
}

/// Three libraries with work for the compiler, and a program.
fn write_crates(folder: &Path) -> Result<()> {
    let mut dependencies = String::new();
    for library in ["one", "two", "three"] {
        let path = folder.join(library);
        fs::create_dir_all(path.join("src"))?;
        let manifest =
            format!("[package]\nname = \"{library}\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
        fs::write(path.join("Cargo.toml"), manifest)?;
        fs::write(path.join("src/lib.rs"), source(100))?;
        dependencies += &format!("{library} = {{ path = \"{library}\" }}\n");
    }
    fs::create_dir_all(folder.join("src"))?;
    let manifest = "[package]\nname = \"program\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\
                    [workspace]\n[dependencies]\n";
    fs::write(folder.join("Cargo.toml"), format!("{manifest}{dependencies}"))?;
    fs::write(
        folder.join("src/main.rs"),
        "fn main() { println!(\"{}\", one::f0(1) + two::f0(2) + three::f0(3)); }\n",
    )?;
    Ok(())
}

fn source(functions: usize) -> String {
    (0..functions).map(function).collect()
}

fn function(index: usize) -> String {
    format!(
        "pub fn f{index}(x: u64) -> u64 {{ let mut v: Vec<u64> = (0..x + {index}).map(|i| i * \
         {index}).collect(); v.sort(); v.iter().map(|i| i.to_string()).collect::<String>().len() \
         as u64 }}\n"
    )
}
