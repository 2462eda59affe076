//! A flight recorder beside programs that begin, map much and end: most of what it holds is events,
//! all of them named, and its memory stays what it was.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use syscollect_store::CaptureReader;

use super::attacked::MIB;
use super::context::{Context, NOBODY, finish, number, text};
use super::flight::Flight;
use super::flight_storm::{NamedSwitches, share_of_events};
use super::hostile_tasks::Programs;

const BUFFER: &str = "64M";
/// Programs a second, and mappings of each.
const RATE: &str = "300";
const MAPPINGS: &str = "1000";
/// Ten minutes.
const LENGTH: Duration = Duration::from_secs(600);
/// Its memory is looked at from when the buffer has been full for so long: until then it grows.
const SETTLED: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Of what is held.
const LEAST_EVENTS: f64 = 0.85;
/// Of switches, to threads that have a name.
const LEAST_NAMED: f64 = 0.999;
/// How much more memory it may have at the end than when the buffer had become full.
const MOST_GROWTH: f64 = 1.1;

/// Ten minutes of it.
pub(crate) fn executions(context: &Context) -> Result<String> {
    let (socket, folder) = (context.path("executions-socket"), context.path("flight-executions"));
    fs::create_dir(&folder)?;
    let flight = Flight::start_with(context, &socket, &folder, &["--buffer", BUFFER])?;
    let seconds = LENGTH.as_secs() + 60;
    let mut storm = Programs(Vec::new());
    storm.start(context, &["executions", RATE, MAPPINGS, &seconds.to_string()], NOBODY)?;
    let (begun, mut before) = (Instant::now(), None);
    let status = loop {
        std::thread::sleep(LOOK_EVERY);
        let status = flight.status()?;
        let nanoseconds = |key| number(&status, key).map(Duration::from_nanos);
        if before.is_none() && nanoseconds("running_ns")? > nanoseconds("reach_ns")? + SETTLED {
            before = Some(memory_of(flight.recorder_id())?);
        }
        if begun.elapsed() >= LENGTH {
            break status;
        }
    };
    let after = memory_of(flight.recorder_id())?;
    let before = before.context("the buffer was not full in all that time")?;
    let capture = context.path("flight-executions.syscap");
    let taken = finish(&mut flight.ask(&["snapshot", "-o", text(&capture)?]))?;
    ensure!(taken.status.success(), "no snapshot: {}", taken.stderr);
    drop(storm);
    flight.stop()?;

    let named = NamedSwitches::read(&capture)?;
    let named_share = named.named as f64 / named.all.max(1) as f64;
    let events = share_of_events(&CaptureReader::open(&capture)?);
    let words = format!(
        "events of the last {:.1?} are {:.1} % of what is held, {:.2} % of {} switches are to \
         threads with names, {} MiB of memory ({} when the buffer had become full)",
        Duration::from_nanos(number(&status, "reach_ns")?),
        events * 100.0,
        named_share * 100.0,
        named.all,
        after / MIB,
        before / MIB,
    );
    ensure!(events >= LEAST_EVENTS && named_share >= LEAST_NAMED, "{words}");
    ensure!(after as f64 <= before as f64 * MOST_GROWTH, "{words}");
    Ok(words)
}

/// Bytes of memory that a process has now.
fn memory_of(pid: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    Ok(kilobytes.unwrap_or_default() * 1024)
}
