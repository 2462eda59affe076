//! A flight recorder that is stopped by SIGSTOP while others work: what they did is recorded as far
//! as lanes have room, all else is counted, and from then on nothing is missing.
//!
//! Compared with the context switches that the kernel counts for the load, and with the zones that
//! an instrumented program has numbered.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::context::{Context, DAEMON, finish, json_lines, number, signal, text, wait};
use super::flight::{Flight, checked_whole};
use super::zones::{ProcessZones, load};

/// How long it stands still, and how many context switches there are each second: lanes are full
/// after seconds.
const MINUTE: Duration = Duration::from_secs(60);
const RATE: u64 = 50_000;
/// Switches and zones afterwards.
const AFTERWARDS: u64 = 20_000;

/// A whole minute.
pub(crate) fn stopped(context: &Context) -> Result<String> {
    let (socket, folder) = (context.path("stopped-socket"), context.path("flight-stopped"));
    fs::create_dir(&folder)?;
    let flight = Flight::start_with(context, &socket, &folder, &[])?;
    let words = stand_still(context, &flight, context.length(MINUTE))?;
    flight.stop()?;
    Ok(words)
}

/// Stops the recorder for so long, and compares.
pub(super) fn stand_still(
    context: &Context,
    flight: &Flight<'_>,
    length: Duration,
) -> Result<String> {
    let lost_before = number(&flight.status()?, "lost")?;
    let daemon = DAEMON.to_string();
    let seconds = length.as_secs_f64().ceil() as u64;
    // It begins before, so that its ring is known.
    let marking = (seconds + 2).to_string();
    let marking = load(context, &["as", &daemon, "numbered", "/dev/null", &marking])?;
    let pid = marking.id();
    std::thread::sleep(Duration::from_secs(1));
    signal(flight.recorder_id(), libc::SIGSTOP);
    let rounds = context.times(seconds * RATE / 2);
    let switching = switching(context, rounds, Some(context.times(RATE)))?;
    std::thread::sleep(length);
    signal(flight.recorder_id(), libc::SIGCONT);
    let made = switches_of(&wait(switching)?.stdout)?;
    let marked = wait(marking)?;
    let marked = json_lines(&marked.stdout)?.pop();
    let marked = number(&marked.context("the instrumented program printed nothing")?, "numbers")?;

    let (taken, info) = snapshot(context, flight, "stood-still.syscap")?;
    let switches = number(&info["events_by_type"], "switch")?;
    let lost = number(&info, "lost")? - lost_before;
    let lost_switches = lost_switches(&info)?;
    ensure!(
        switches + lost_switches >= made,
        "of {made} switches {switches} are there and {lost_switches} counted as lost: {}",
        info["losses"]
    );
    let zones = ProcessZones::read(&taken, pid)?;
    let numbers = zones.numbers();
    let (found, first) = (numbers.len() as u64, numbers.first().copied());
    let first = first.context("no zone is there")?;
    // Those before are of when the program was not found yet.
    ensure!(first < marked / 4, "of {marked} zones the first that is there is {first}");
    ensure!(
        found + zones.lost() > marked - first,
        "of zones {first} to {marked} {found} are there, and {} events counted as lost",
        zones.lost()
    );

    // From then on nothing is.
    let lost_until_then = number(&flight.status()?, "lost")?;
    let later = load(context, &["as", &daemon, "numbered", "/dev/null", "2"])?;
    let pid = later.id();
    let again = switches_of(&wait(switching_as_it_can(context)?)?.stdout)?;
    let later = json_lines(&wait(later)?.stdout)?.pop().context("it printed nothing")?;
    let (taken, info) = snapshot(context, flight, "afterwards.syscap")?;
    let lost_later = number(&flight.status()?, "lost")? - lost_until_then;
    ensure!(lost_later == 0, "{lost_later} records were lost later: {}", info["losses"]);
    ensure!(
        number(&info["events_by_type"], "switch")? >= again,
        "not all later switches are there"
    );
    let (_, last) = ProcessZones::read(&taken, pid)?.numbers_in_a_row()?;
    ensure!(last == number(&later, "numbers")?, "not all later zones are there");
    Ok(format!(
        "after {length:.0?} of standing still {switches} of {made} switches and {found} of {marked} \
         zones are there, {lost} records are counted as lost, and none later"
    ))
}

fn switching(context: &Context, rounds: u64, rate: Option<u64>) -> Result<std::process::Child> {
    let mut load = Command::new(&context.load);
    load.args(["ping-pong", &rounds.to_string(), "0"]).args(rate.map(|rate| rate.to_string()));
    Ok(load.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?)
}

fn switching_as_it_can(context: &Context) -> Result<std::process::Child> {
    switching(context, context.times(AFTERWARDS / 2), None)
}

/// Context switches of both processes of the load.
pub(super) fn switches_of(printed: &str) -> Result<u64> {
    let lines = json_lines(printed)?;
    let switches: u64 = lines.iter().filter_map(|line| line["switches"].as_u64()).sum();
    ensure!(switches > 0, "the load counted no switches: {printed}");
    Ok(switches)
}

/// Scheduling events that `info` says are lost.
pub(super) fn lost_switches(info: &Value) -> Result<u64> {
    let losses = info["losses"].as_array().context("info tells of no losses")?;
    let of_events = losses.iter().filter(|loss| loss["lane"] == "sched");
    of_events.map(|loss| number(loss, "count")).sum()
}

/// A snapshot of all that is held, which has to be whole.
fn snapshot(context: &Context, flight: &Flight<'_>, name: &str) -> Result<(PathBuf, Value)> {
    let capture: PathBuf = context.path(name);
    let path: &Path = &capture;
    let taken = finish(&mut flight.ask(&["snapshot", "--force", "-o", text(path)?]))?;
    ensure!(taken.status.success(), "no snapshot: {}", taken.stderr);
    let info = checked_whole(context, path)?;
    Ok((capture, info))
}
