//! Every rename's stamp lies between two readings of the TSC around it.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use syscollect_model::{ClockMap, Ticks};

use super::context::{Context, finish, json_lines, number};
use super::recorded::Recorded;
use crate::report::Outcome;

/// Renames on each CPU.
const COUNT: &str = "20000";

/// What one load said of one rename.
struct Bracket {
    name: String,
    before: u64,
    after: u64,
}

fn brackets(lines: &[Value]) -> Result<Vec<Bracket>> {
    let one = |line: &Value| {
        let name = line["name"].as_str().context("a line without a name")?.to_owned();
        Ok(Bracket { name, before: number(line, "before")?, after: number(line, "after")? })
    };
    lines.iter().map(one).collect()
}

/// Every CPU in turn, checked in the capture and in the exported trace.
pub(crate) fn bracket(context: &Context) -> Result<Outcome> {
    let capture = context.path("bracket.syscap");
    let cpus = online_cpus()?;
    let mut load = vec!["bracket", COUNT];
    load.extend(cpus.iter().map(String::as_str));
    let brackets = brackets(&context.record(&capture, &[], &load)?)?;
    ensure!(brackets.len() == cpus.len() * 20_000, "the load took {} brackets", brackets.len());

    let recorded = Recorded::read(&capture)?;
    within(&brackets, |name| recorded.rename(name))?;
    let trace = context.export(&capture)?;
    let Some(engine) = context.engine() else {
        return Ok(Outcome::Skipped(format!(
            "{} stamps fit in the capture; no engine reads the trace",
            brackets.len()
        )));
    };
    let stamps = names_in_trace(engine, &trace)?;
    within_in_time(&brackets, &recorded.clock, &stamps)?;
    let width = median(brackets.iter().map(|bracket| bracket.after - bracket.before).collect());
    let width = width as f64 / recorded.clock.ticks_per_second() * 1e9;
    let count = brackets.len();
    Ok(Outcome::Passed(format!(
        "{count} of {count} on {} CPUs, capture and trace; brackets {width:.0} ns wide",
        cpus.len()
    )))
}

/// A CPU that goes away during the recording and comes back keeps the time right.
pub(crate) fn hotplug(context: &Context) -> Result<Outcome> {
    let switch = Path::new("/sys/devices/system/cpu/cpu1/online");
    if !switch.exists() {
        return Ok(Outcome::Skipped("CPU 1 cannot be switched off here".to_owned()));
    }
    let capture = context.path("hotplug.syscap");
    let recorder = context.start(&capture, &[])?;
    let work = (|| {
        fs::write(switch, "0").context("cannot switch CPU 1 off")?;
        std::thread::sleep(Duration::from_millis(700));
        fs::write(switch, "1").context("cannot switch CPU 1 on")?;
        std::thread::sleep(Duration::from_millis(700));
        finish(std::process::Command::new(&context.load).args(["bracket", "5000", "0", "1"]))
    })();
    let _ = fs::write(switch, "1");
    context.stop(recorder)?;
    let load = work?;
    let brackets = brackets(&json_lines(&load.stdout)?)?;
    ensure!(brackets.len() == 10_000, "the load took {} brackets:\n{}", brackets.len(), load.stderr);
    let recorded = Recorded::read(&capture)?;
    within(&brackets, |name| recorded.rename(name))?;
    let back = recorded.switches.iter().filter(|switch| switch.cpu == 1 && switch.ticks > brackets[0].before).count();
    ensure!(back > 0, "no switch of CPU 1 was recorded after it came back");
    Ok(Outcome::Passed("10,000 of 10,000 after CPU 1 came back".to_owned()))
}

/// Checks stamps in ticks.
fn within(brackets: &[Bracket], stamp: impl Fn(&str) -> Option<u64>) -> Result<()> {
    let mut wrong = Vec::new();
    for bracket in brackets {
        match stamp(&bracket.name) {
            Some(at) if (bracket.before..=bracket.after).contains(&at) => {}
            Some(at) => wrong.push(format!("{}: {at} is not in {}..={}", bracket.name, bracket.before, bracket.after)),
            None => wrong.push(format!("{}: not recorded", bracket.name)),
        }
    }
    complain(&wrong, brackets.len(), "capture")
}

/// Checks times of the exported trace against the brackets by the capture's clock.
fn within_in_time(brackets: &[Bracket], clock: &ClockMap, stamps: &HashMap<String, u64>) -> Result<()> {
    let mut wrong = Vec::new();
    for bracket in brackets {
        let (from, to) = (clock.time(Ticks(bracket.before)).0, clock.time(Ticks(bracket.after)).0);
        match stamps.get(&bracket.name) {
            Some(at) if (from..=to).contains(at) => {}
            Some(at) => wrong.push(format!("{}: {at} ns is not in {from}..={to}", bracket.name)),
            None => wrong.push(format!("{}: not in the trace", bracket.name)),
        }
    }
    complain(&wrong, brackets.len(), "trace")
}

fn complain(wrong: &[String], of: usize, place: &str) -> Result<()> {
    if !wrong.is_empty() {
        let shown = &wrong[..wrong.len().min(5)];
        bail!("{} of {of} stamps are wrong in the {place}, first:\n{}", wrong.len(), shown.join("\n"));
    }
    Ok(())
}

/// When each new thread name first shows in the trace, by trace_processor.
fn names_in_trace(engine: &crate::engine::Engine, trace: &Path) -> Result<HashMap<String, u64>> {
    let query =
        "select extract_arg(arg_set_id, 'newcomm'), min(ts) from ftrace_event where name = 'task_rename' group by 1";
    let tables = engine.query(trace, &[query])?;
    let row = |row: &Vec<String>| Some((row.first()?.clone(), row.get(1)?.parse().ok()?));
    Ok(tables.iter().flatten().filter_map(row).collect())
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values[values.len() / 2]
}

/// The numbers of the CPUs that are on.
pub(crate) fn online_cpus() -> Result<Vec<String>> {
    let list = fs::read_to_string("/sys/devices/system/cpu/online").context("cannot list the CPUs")?;
    let mut cpus = Vec::new();
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse()?, last.parse()?);
        cpus.extend((first..=last).map(|cpu| cpu.to_string()));
    }
    Ok(cpus)
}
