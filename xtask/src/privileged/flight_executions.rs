//! A flight recorder beside programs that begin, map much and end: most of what it holds is events,
//! all of them named, and its memory stays what it was.
//!
//! Compared with a recording of the same load that overwrites nothing.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use syscollect_store::CaptureReader;
use syscollect_tests::shown::Profile;
use syscollect_tests::tracy_reader;

use super::attacked::MIB;
use super::context::{Context, NOBODY, finish, number, text};
use super::flight::Flight;
use super::flight_storm::share_of_events;
use super::hostile_tasks::Programs;
use super::named_events::NamedEvents;
use crate::viewers::firefox::ProfilerCli;

/// How large a storm is.
struct Storm {
    /// Of the flight recorder.
    buffer: &'static str,
    length: Duration,
    /// The recorder's memory is looked at from when the buffer has been full for so long: until
    /// then it grows.
    settled: Duration,
}

/// Programs a second, and mappings of each.
const RATE: &str = "300";
const MAPPINGS: &str = "1000";
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Of what is held.
const LEAST_EVENTS: f64 = 0.85;
/// How much more memory it may have at the end than when the buffer had become full.
const MOST_GROWTH: f64 = 1.1;
/// How long the recording is that it is compared with.
const COMPARED: Duration = Duration::from_secs(5);
/// Parts differ by so much between any two recordings of this load.
const SPREAD: f64 = 0.02;

/// As much of it as the whole check has time for.
pub(crate) fn executions(context: &Context) -> Result<String> {
    let length = Duration::from_secs(45);
    run(context, &Storm { buffer: "16M", length, settled: Duration::from_secs(5) })
}

/// Ten minutes of it, or as long as is asked for.
pub(crate) fn long(context: &Context) -> Result<String> {
    let length = context.length(Duration::from_secs(600));
    run(context, &Storm { buffer: "64M", length, settled: length / 10 })
}

fn run(context: &Context, storm: &Storm) -> Result<String> {
    let Storm { buffer, length, settled } = *storm;
    let (socket, folder) = (context.path("executions-socket"), context.path("flight-executions"));
    fs::create_dir(&folder)?;
    let flight = Flight::start_with(context, &socket, &folder, &["--buffer", buffer])?;
    let seconds = 3 * length.as_secs() + 120;
    let mut programs = Programs(Vec::new());
    programs.start(context, &["executions", RATE, MAPPINGS, &seconds.to_string()], NOBODY)?;
    let (begun, mut before) = (Instant::now(), None);
    let status = loop {
        std::thread::sleep(LOOK_EVERY);
        let status = flight.status()?;
        let nanoseconds = |key| number(&status, key).map(Duration::from_nanos);
        if before.is_none() && nanoseconds("running_ns")? > nanoseconds("reach_ns")? + settled {
            before = Some(memory_of(flight.recorder_id())?);
        }
        // A machine that has much else to do fills it more slowly.
        if begun.elapsed() >= if before.is_some() { length } else { 3 * length } {
            break status;
        }
    };
    let after = memory_of(flight.recorder_id())?;
    let capture = context.path("flight-executions.syscap");
    let taken = finish(&mut flight.ask(&["snapshot", "-o", text(&capture)?]))?;
    ensure!(taken.status.success(), "no snapshot: {}", taken.stderr);
    flight.stop()?;
    // The same load, of which nothing is overwritten.
    let compared = context.path("executions.syscap");
    let of_time = format!("{}s", COMPARED.as_secs());
    let stacks = ["--stacks", "samples,off-cpu,wakers", "--freq", "99"];
    let record = [&["record", "-d", &of_time, "-o", text(&compared)?][..], &stacks].concat();
    context.succeed(&record)?;
    drop(programs);

    let (kept, fresh) = (NamedEvents::read(&capture)?, NamedEvents::read(&compared)?);
    let events = share_of_events(&CaptureReader::open(&capture)?);
    let words = format!(
        "events of the last {:.1?} are {:.1} % of what is held; {kept}, and of {COMPARED:.0?} that \
         nothing was overwritten of {fresh}; {} MiB of memory ({} when the buffer had become full)",
        Duration::from_nanos(number(&status, "reach_ns")?),
        events * 100.0,
        after / MIB,
        before.unwrap_or_default() / MIB,
    );
    let before =
        before.with_context(|| format!("the buffer was not full in that time: {words}"))?;
    ensure!(events >= LEAST_EVENTS, "{words}");
    let parts = |of: &NamedEvents| [of.threads, of.processes, of.stacks, of.frames];
    let lacking = kept.lacking();
    for (kept, fresh) in parts(&kept).into_iter().zip(parts(&fresh)) {
        ensure!(
            kept.part() >= fresh.part() - SPREAD,
            "{kept} where it could be {fresh}: {words}; without a stack are {lacking}"
        );
    }
    ensure!(after as f64 <= before as f64 * MOST_GROWTH, "{words}");
    Ok(format!("{words}; {}", opened(context, &capture)?))
}

/// Opens it as each viewer does, with its own engine where that is there.
fn opened(context: &Context, capture: &Path) -> Result<String> {
    let export = |extension: &str| {
        let output = capture.with_extension(extension);
        context.succeed(&["export", text(capture)?, "-o", text(&output)?, "--force"])?;
        anyhow::Ok(output)
    };
    let mut told = Vec::new();
    let trace = export("pftrace")?;
    if let Some(engine) = context.engine() {
        let tables = engine.query(&trace, &PERFETTO_QUERIES)?;
        let [errors, switches, unnamed] = tables.as_slice() else {
            bail!("Perfetto answered {tables:?}");
        };
        ensure!(errors.is_empty(), "Perfetto finds errors in it: {errors:?}");
        let of = |table: &[Vec<String>]| table.first().and_then(|row| row.first().cloned());
        ensure!(of(unnamed).as_deref() == Some("0"), "what runs has no name there: {unnamed:?}");
        told.push(format!("Perfetto shows {} switches", of(switches).unwrap_or_default()));
    }
    let tracy = tracy_reader::read(&fs::read(export("tracy")?)?)?;
    told.push(format!("a file for Tracy has {} threads", tracy.switches.len()));
    let profile = Profile::read(&fs::read(export("json")?)?)?;
    told.push(format!("one for Firefox has {} threads", profile.threads().len()));
    if let Ok(engine) = ProfilerCli::load(&capture.with_extension("json")) {
        told.push(format!("of which its engine shows {}", engine.threads()?.len()));
    }
    Ok(told.join(", "))
}

/// What it finds wrong, what was run, and what ran without a name.
const PERFETTO_QUERIES: [&str; 3] = [
    "select name, value from stats where severity = 'error' and value > 0",
    "select count(*) from sched",
    "select count(*) from sched join thread using (utid) left join process using (upid) \
     where coalesce(thread.name, process.name, '') = ''",
];

/// Bytes of memory that a process has now.
fn memory_of(pid: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    Ok(kilobytes.unwrap_or_default() * 1024)
}
