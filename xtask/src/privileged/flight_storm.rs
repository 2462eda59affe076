//! A flight recorder while an ordinary user begins threads and programs without end: what it holds
//! of another user's programs keeps its names, and memory stays what it was.

use std::collections::BTreeMap;
use std::fs;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Result, ensure};
use syscollect_model::LaneKind;
use syscollect_store::CaptureReader;

use super::attacked::MIB;
use super::context::{Context, NOBODY, finish, number, text, wait};
use super::flight::Flight;
use super::hostile_tasks::{Programs, SHORT_PROGRAMS, ShortPrograms, start_short_programs};
use super::named_events::NamedEvents;

/// On a fast machine 24 MiB held 14 s of it.
const BUFFER: &str = "48M";
/// Until what is kept of lifetimes has been full for a while, and how long the storm goes on behind
/// the honest user's programs: longer than the storm needs to fill what is kept of it once more.
const FILLING: Duration = Duration::from_secs(6);
const GOES_ON: Duration = Duration::from_secs(10);
/// Of ten minutes.
const LONG_FILLING: Duration = Duration::from_secs(600);
/// All that the recorder may have: 48 MiB of events take 124 with all that belongs to them.
const MEMORY: u64 = 400 * MIB;
/// A program that begins others, one after the other.
const SHELL_LOOP: &str = "while :; do /bin/true; done";

/// Runs it for as long as the whole check has time.
pub(crate) fn storm(context: &Context) -> Result<String> {
    run(context, FILLING)
}

/// The same for ten minutes, or as long as is asked for.
pub(crate) fn long(context: &Context) -> Result<String> {
    run(context, context.length(LONG_FILLING))
}

fn run(context: &Context, filling: Duration) -> Result<String> {
    let (socket, folder) = (context.path("storm-socket"), context.path("flight-storm"));
    fs::create_dir(&folder)?;
    let memory = MEMORY.to_string();
    let options = ["--buffer", BUFFER, "--memory", &memory];
    let flight = Flight::start_with(context, &socket, &folder, &options)?;
    let seconds = (filling + GOES_ON).as_secs() + 60;
    let mut storm = Programs(Vec::new());
    storm.start(context, &["hostile-tasks", "threads", &seconds.to_string()], NOBODY)?;
    for _ in 0..2 {
        storm.start_shell(&["/bin/sh"], SHELL_LOOP, NOBODY)?;
    }
    std::thread::sleep(filling);
    let before = number(&flight.status()?, "peak_bytes")?;
    start_short_programs(context, "flight-storm-short")?;
    std::thread::sleep(GOES_ON);
    let status = flight.status()?;
    let reach = number(&status, "reach_ns")?;
    let capture = context.path("flight-storm.syscap");
    let other = context.path("flight-storm-other.syscap");
    let mut second = flight.ask(&["snapshot", "--last", "5s", "-o", text(&other)?]);
    let second = second.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let taken = finish(&mut flight.ask(&["snapshot", "-o", text(&capture)?]))?;
    ensure!(taken.status.success(), "no snapshot: {}", taken.stderr);
    let second = wait(second)?;
    ensure!(second.status.success(), "no second snapshot at the same time");
    // With the snapshots, and names for them.
    let status = flight.status()?;
    let peak = number(&status, "peak_bytes")?;
    drop(storm);
    flight.stop()?;
    ensure!(number(&status, "memory_bytes")? == MEMORY, "{status}");

    let short = ShortPrograms::read(&capture)?;
    let named = NamedEvents::read(&capture)?.threads;
    let reach = Duration::from_nanos(reach);
    let words = format!(
        "{} and {} of {SHORT_PROGRAMS} programs begin and end, {named} threads of events have names, \
         events reach back {reach:.1?} and are {:.0} % of what is held, {} MiB of memory \
         ({} before)",
        short.begun.len(),
        short.ended.len(),
        share_of_events(&CaptureReader::open(&capture)?) * 100.0,
        peak / MIB,
        before / MIB,
    );
    ensure!(reach > GOES_ON, "the buffer is too small to tell anything: {words}");
    ensure!([short.begun.len(), short.ended.len()] == [SHORT_PROGRAMS; 2], "{words}");
    ensure!(peak <= MEMORY, "{words}");
    Ok(words)
}

/// How much of a snapshot is events, of what a buffer holds.
pub(super) fn share_of_events(reader: &CaptureReader) -> f64 {
    let mut bytes = BTreeMap::<bool, u64>::new();
    for kind in LaneKind::ALL {
        if kind == LaneKind::Definition {
            continue;
        }
        let of_kind = reader.lanes().into_iter().filter(|lane| lane.kind == kind);
        let chunks = of_kind.flat_map(|lane| reader.chunks(lane));
        let stored: u64 = chunks.map(|chunk| u64::from(chunk.stored)).sum();
        *bytes.entry(kind.is_definition()).or_default() += stored;
    }
    let [events, others] = [false, true].map(|kind| bytes.get(&kind).copied().unwrap_or(0) as f64);
    events / (events + others).max(1.0)
}
