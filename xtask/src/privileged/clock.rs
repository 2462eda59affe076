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
const COUNT: u64 = 20_000;

/// What one load said of one rename.
struct Bracket {
    name: String,
    before: u64,
    after: u64,
}

fn brackets(lines: &[Value]) -> Result<Vec<Bracket>> {
    lines.iter().map(bracket_of).collect()
}

fn bracket_of(line: &Value) -> Result<Bracket> {
    let name = line["name"].as_str().context("a line without a name")?.to_owned();
    Ok(Bracket { name, before: number(line, "before")?, after: number(line, "after")? })
}

/// Every CPU in turn, checked in the capture and in the exported trace.
pub(crate) fn bracket(context: &Context) -> Result<Outcome> {
    let capture = context.path("bracket.syscap");
    let cpus = online_cpus()?;
    let count = context.times(COUNT);
    let brackets = recorded_brackets(context, &capture, count, &cpus)?;

    let recorded = Recorded::read(&capture)?;
    within(&brackets, |name| recorded.rename(name))?;
    let trace = context.export(&capture)?;
    let Some(engine) = context.engine() else {
        return Ok(context.without_engine(format!("{} stamps fit in the capture", brackets.len())));
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

/// Records the load on each of these CPUs.
fn recorded_brackets(
    context: &Context,
    capture: &Path,
    count: u64,
    cpus: &[String],
) -> Result<Vec<Bracket>> {
    let times = count.to_string();
    let mut load = vec!["bracket", times.as_str()];
    load.extend(cpus.iter().map(String::as_str));
    let brackets = brackets(&context.record(capture, &[], &load)?)?;
    ensure!(
        brackets.len() as u64 == count * cpus.len() as u64,
        "the load took {} brackets",
        brackets.len()
    );
    Ok(brackets)
}

/// The same while NTP slews the clocks as fast as it may.
pub(crate) fn slew(context: &Context) -> Result<Outcome> {
    const PARTS_PER_MILLION: [i64; 2] = [500, -500];
    if !context.is_emulated() {
        return Ok(Outcome::Skipped(
            "only in virtual machines: the clocks of this one are in use".to_owned(),
        ));
    }
    let cpus = online_cpus()?;
    for rate in PARTS_PER_MILLION {
        let Some(_slew) = Slew::begin(rate)? else {
            return Ok(Outcome::NotOffered("cap_sys_time: the clock may not be slewed".to_owned()));
        };
        let capture = context.path("slew.syscap");
        let brackets = recorded_brackets(context, &capture, context.times(COUNT), &cpus)?;
        let recorded = Recorded::read(&capture)?;
        let went = rate_of(&recorded.clock);
        ensure!(
            (went - rate as f64).abs() < 50.0,
            "the clock was to be off by {rate} ppm and was by {went:.0}"
        );
        within(&brackets, |name| recorded.rename(name))?;
    }
    let stamps = context.times(COUNT) * cpus.len() as u64;
    Ok(Outcome::Passed(format!(
        "{stamps} stamps fit in the capture at each of {PARTS_PER_MILLION:?} ppm"
    )))
}

/// Parts in a million by which CLOCK_MONOTONIC went faster than the clock that nobody slews.
fn rate_of(clock: &ClockMap) -> f64 {
    let (first, last) = (clock.pairs()[0], clock.pairs()[clock.pairs().len() - 1]);
    let (slewed, raw) =
        (last.monotonic - first.monotonic, last.monotonic_raw - first.monotonic_raw);
    (slewed as f64 / raw as f64 - 1.0) * 1e6
}

/// A rate of the clock that is not its own; the old one is set when this is dropped.
struct Slew(libc::timex);

impl Slew {
    /// `None` where this process may not.
    fn begin(parts_per_million: i64) -> Result<Option<Self>> {
        // SAFETY: all bytes zero is a valid timex: it asks for nothing to be changed.
        let mut before: libc::timex = unsafe { std::mem::zeroed() };
        adjust(&mut before).context("cannot read the clock's rate")?;
        let mut wanted = before;
        // adjtimex takes the frequency in 1/65536 of a part in a million.
        (wanted.modes, wanted.freq) = (libc::ADJ_FREQUENCY, parts_per_million << 16);
        match adjust(&mut wanted) {
            Ok(()) => Ok(Some(Self(before))),
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Ok(None),
            Err(error) => Err(error).context("cannot slew the clock"),
        }
    }
}

impl Drop for Slew {
    fn drop(&mut self) {
        self.0.modes = libc::ADJ_FREQUENCY;
        let _ = adjust(&mut self.0);
    }
}

fn adjust(timex: &mut libc::timex) -> std::io::Result<()> {
    // SAFETY: the pointer is to a whole timex that lives through the call.
    match unsafe { libc::adjtimex(timex) } {
        -1 => Err(std::io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// What takes CPU 1 away and gives it back, or why nothing does.
pub(super) fn switch_of_a_cpu() -> Result<&'static Path, Outcome> {
    let switch = Path::new("/sys/devices/system/cpu/cpu1/online");
    match fs::File::options().write(true).open(switch) {
        Ok(_) => Ok(switch),
        Err(_) => Err(Outcome::NotOffered(format!(
            "{} cannot be written to, which only root may: CPU 1 stays on",
            switch.display()
        ))),
    }
}

/// A CPU that goes away during the recording and comes back keeps the time right.
pub(crate) fn hotplug(context: &Context) -> Result<Outcome> {
    let switch = match switch_of_a_cpu() {
        Ok(switch) => switch,
        Err(not_offered) => return Ok(not_offered),
    };
    let capture = context.path("hotplug.syscap");
    let recorder = context.start(&capture, &[])?;
    let work = (|| {
        fs::write(switch, "0").context("cannot switch CPU 1 off")?;
        std::thread::sleep(Duration::from_millis(700));
        fs::write(switch, "1").context("cannot switch CPU 1 on")?;
        std::thread::sleep(Duration::from_millis(700));
        finish(std::process::Command::new(&context.load).args([
            "bracket",
            &context.times(5_000).to_string(),
            "0",
            "1",
        ]))
    })();
    let _ = fs::write(switch, "1");
    context.stop(recorder)?;
    let load = work?;
    let brackets = brackets(&json_lines(&load.stdout)?)?;
    ensure!(
        brackets.len() as u64 == 2 * context.times(5_000),
        "the load took {} brackets:\n{}",
        brackets.len(),
        load.stderr
    );
    let recorded = Recorded::read(&capture)?;
    within(&brackets, |name| recorded.rename(name))?;
    let back = recorded
        .switches
        .iter()
        .filter(|switch| switch.cpu == 1 && switch.ticks > brackets[0].before)
        .count();
    ensure!(back > 0, "no switch of CPU 1 was recorded after it came back");
    Ok(Outcome::Passed(format!("all {} after CPU 1 came back", brackets.len())))
}

/// Checks stamps in ticks.
fn within(brackets: &[Bracket], stamp: impl Fn(&str) -> Option<u64>) -> Result<()> {
    let mut wrong = Vec::new();
    for bracket in brackets {
        match stamp(&bracket.name) {
            Some(at) if (bracket.before..=bracket.after).contains(&at) => {}
            Some(at) => wrong.push(format!(
                "{}: {at} is not in {}..={}",
                bracket.name, bracket.before, bracket.after
            )),
            None => wrong.push(format!("{}: not recorded", bracket.name)),
        }
    }
    complain(&wrong, brackets.len(), "capture")
}

/// Checks times of the exported trace against the brackets by the capture's clock.
fn within_in_time(
    brackets: &[Bracket],
    clock: &ClockMap,
    stamps: &HashMap<String, u64>,
) -> Result<()> {
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
        bail!(
            "{} of {of} stamps are wrong in the {place}, first:\n{}",
            wrong.len(),
            shown.join("\n")
        );
    }
    Ok(())
}

/// When each new thread name first shows in the trace, by trace_processor.
fn names_in_trace(engine: &crate::engine::Engine, trace: &Path) -> Result<HashMap<String, u64>> {
    let query = "select extract_arg(arg_set_id, 'newcomm'), min(ts) from ftrace_event where name = \
                 'task_rename' group by 1";
    let tables = engine.query(trace, &[query])?;
    let rows = tables.iter().flatten();
    Ok(rows.filter_map(|row| Some((row.first()?.clone(), row.get(1)?.parse().ok()?))).collect())
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values[values.len() / 2]
}

/// The numbers of the CPUs that are on.
pub(crate) fn online_cpus() -> Result<Vec<String>> {
    let list =
        fs::read_to_string("/sys/devices/system/cpu/online").context("cannot list the CPUs")?;
    let mut cpus = Vec::new();
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse()?, last.parse()?);
        cpus.extend((first..=last).map(|cpu| cpu.to_string()));
    }
    Ok(cpus)
}

#[cfg(test)]
mod tests {
    use syscollect_model::ClockPair;

    use super::*;

    #[test]
    fn a_stamp_outside_of_its_bracket_or_none_at_all_is_a_failure() {
        let brackets = [Bracket { name: "b-0".to_owned(), before: 10, after: 20 }];
        for (stamp, fits) in
            [(Some(9), false), (Some(10), true), (Some(20), true), (Some(21), false), (None, false)]
        {
            assert_eq!(within(&brackets, |_| stamp).is_ok(), fits, "{stamp:?}");
        }
    }

    fn pair(second: u64, monotonic: u64) -> ClockPair {
        ClockPair {
            ticks: Ticks(second * 2_000_000_000),
            monotonic,
            monotonic_raw: second * 1_000_000_000,
            boottime: monotonic,
            realtime: monotonic,
            uncertainty: 0,
        }
    }

    #[test]
    fn a_clock_that_gains_half_a_millisecond_a_second_is_500_ppm_fast() {
        let clock = ClockMap::new(vec![pair(1, 1_000_000_000), pair(3, 3_001_000_000)]).unwrap();
        assert!((rate_of(&clock) - 500.0).abs() < 0.01, "{}", rate_of(&clock));
    }
}
