//! Triggers of the flight recorder: each sees what it is for, once, and not what only comes near
//! it, and its snapshot says what happened where and to whom.

mod cases;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Error, Result, bail, ensure};
use serde_json::Value;
use syscollect_model::{LaneKind, SessionInfo, SnapshotMark};
use syscollect_store::{CaptureReader, Definition};

use self::cases::{Case, Deed, MarkedAt, cases};
use super::context::{Context, json_lines, number, signal, until, wait};
use super::flight::Flight;
use super::flight_crowded::taken_by;

/// How much later than its cause a snapshot may begin, on a machine whose host has other work; on a
/// quiet one it is a tenth of a second.
const LATEST: Duration = Duration::from_millis(500);
/// How long it is waited for what should not come.
const PATIENCE: Duration = Duration::from_millis(600);
/// How far from when it was a mark may be, milliseconds: who says so may be kept from its CPU
/// before it looks at the clock.
const FARTHEST: f64 = 100.0;

/// All triggers in one recorder: near misses first, of which none takes anything, then what each is
/// for: one event of that trigger, one snapshot.
pub(crate) fn triggers(context: &Context) -> Result<String> {
    let place = tempfile::Builder::new().prefix("syscollect-triggers-").tempdir()?;
    let (socket, folder) = (place.path().join("socket"), context.path("triggers"));
    fs::create_dir(&folder)?;
    let cases = cases(memory_used()?);
    let given: Vec<String> =
        cases.iter().map(|case| format!("{}: {}, pause 5s", case.name, case.cause)).collect();
    let mut options: Vec<&str> = given.iter().flat_map(|given| ["--trigger", given]).collect();
    let load = context.load.display().to_string();
    let with = OPTIONS.map(|(option, value)| (option, value.replace("LOAD", &load)));
    let by_signal = format!("{BY_SIGNAL}: signal, limit 1, pause 0s");
    options.extend(["--trigger", &by_signal]);
    options.extend(with.iter().flat_map(|(option, value)| [*option, value]));
    let flight = Flight::start_with(context, &socket, &folder, &options)?;

    let near_misses = comes_near(context, &cases)?;
    std::thread::sleep(PATIENCE);
    let status = flight.status()?;
    let mut wrong = Vec::new();
    for case in &cases {
        let of_trigger = of_trigger(&status, case.name)?;
        let events = number(of_trigger, "events")?;
        // It was seen: its name is known, and how long it usually takes.
        let note = of_trigger["note"].as_str().unwrap_or_default();
        if events != 0 || !(note.is_empty() || note.starts_with("that is ")) {
            wrong.push(format!("{} {events} {note}", case.name));
        }
    }
    ensure!(wrong.is_empty(), "events of what is not enough, or cannot be seen: {wrong:?}");

    let latest = is_enough(context, &cases, &folder);
    std::thread::sleep(PATIENCE);
    let status = flight.status()?;
    let mut wrong = Vec::new();
    for case in &cases {
        let of_trigger = of_trigger(&status, case.name)?;
        let (events, fired) = (number(of_trigger, "events")?, number(of_trigger, "fired")?);
        if (events, fired) != (1, 1) {
            wrong.push(format!("{} {events} and {fired}", case.name));
        }
    }
    let latest = latest.with_context(|| format!("events and snapshots: {wrong:?}"))?;
    ensure!(wrong.is_empty(), "not one event and one snapshot: {wrong:?}");
    for counted in ["unwatched_chunks", "unfollowed"] {
        let count = status.pointer(&format!("/triggers/{counted}")).and_then(Value::as_u64);
        ensure!(count == Some(0), "{counted}: {count:?}");
    }
    ensure!(captures(&folder).len() == cases.len(), "{:?}", captures(&folder));
    signals(&flight, &folder)?;
    flight.stop()?;
    ensure!(
        context.is_emulated() || latest <= LATEST,
        "a snapshot began {} ms after its cause",
        latest.as_millis()
    );
    Ok(format!(
        "{} causes, each one event and one snapshot, begun at most {} ms later; {near_misses} near \
         misses",
        cases.len(),
        latest.as_millis()
    ))
}

/// The trigger for which somebody sends the recorder a signal.
const BY_SIGNAL: &str = "by-hand";

/// The trigger for a signal has seen none of those that other programs got; of two that the
/// recorder gets it may take one snapshot.
fn signals(flight: &Flight<'_>, folder: &Path) -> Result<()> {
    let events = |wanted: u64| -> Result<Value> {
        until(&format!("{wanted} signals to be seen"), || {
            let status = flight.status().ok()?;
            let of_trigger = of_trigger(&status, BY_SIGNAL).ok()?;
            (number(of_trigger, "events").ok()? >= wanted).then(|| of_trigger.clone())
        })
    };
    let before = events(0)?;
    ensure!(number(&before, "events")? == 0, "signals of others: {before}");
    for sent in 1..=2 {
        signal(flight.recorder_id(), libc::SIGUSR1);
        events(sent)?;
    }
    let after = events(2)?;
    let counts = ["events", "fired", "limited"].map(|count| number(&after, count).ok());
    ensure!(counts == [Some(2), Some(1), Some(1)], "{after}");
    until("the snapshot of a signal", || taken_by(folder, BY_SIGNAL))?;
    Ok(())
}

/// What is recorded that the triggers are about, of the load, and nothing that it takes long to name.
const OPTIONS: [(&str, &str); 11] = [
    ("--most", "64"),
    ("--unwind", "none"),
    ("--function", "LOAD:syscollect_stalls"),
    ("--function", "LOAD:syscollect_stalls_too"),
    ("--function", "LOAD:syscollect_enters*"),
    ("--zone", "LOAD:stall:request__start..request__done"),
    ("--usdt", "LOAD:stall:opened(path:str)"),
    ("--usdt", "LOAD:stall:answered(size)"),
    ("--usdt", "LOAD:stall:owed"),
    ("--tracepoint", "signal:signal_generate"),
    ("--tracepoint", "task:task_rename"),
];

/// Memory that the machine uses, in MiB; `None` where there is not enough to use more.
fn memory_used() -> Result<Option<u64>> {
    let text = fs::read_to_string("/proc/meminfo")?;
    let mebibytes = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_suffix(" kB"));
        let kilobytes = line.and_then(|number| number.trim().parse::<u64>().ok());
        Ok::<_, Error>(kilobytes.with_context(|| format!("/proc/meminfo has no {name}"))? >> 10)
    };
    let available = mebibytes("MemAvailable:")?;
    Ok((available > 3000).then_some(mebibytes("MemTotal:")? - available))
}

/// All that comes near, at once but for what keeps others from a CPU; how much that is.
fn comes_near(context: &Context, cases: &[Case]) -> Result<usize> {
    let deeds = cases.iter().flat_map(|case| &case.near_misses);
    let (alone, at_once): (Vec<&Deed>, Vec<&Deed>) =
        deeds.partition(|deed| ["starved", "memory"].contains(&deed.what));
    let begun: Vec<_> = at_once.iter().map(|deed| begin(context, deed)).collect::<Result<_>>()?;
    for (deed, load) in at_once.iter().zip(begun) {
        done(deed, load)?;
    }
    for deed in &alone {
        done(deed, begin(context, deed)?)?;
    }
    Ok(at_once.len() + alone.len())
}

/// Does what is enough for each, and checks its snapshot; how much later than its cause one began
/// at most of those whose causes came one after the other.
fn is_enough(context: &Context, cases: &[Case], folder: &Path) -> Result<Duration> {
    let (alone, at_once): (Vec<&Case>, Vec<&Case>) = cases.iter().partition(|case| case.is_alone);
    let mut known: Vec<PathBuf> = Vec::new();
    let mut latest = Duration::ZERO;
    for case in alone {
        let said = done(&case.enough, begin(context, &case.enough)?)?;
        let taken = until(&format!("the snapshot of trigger {}", case.name), || {
            captures(folder).into_iter().find(|path| !known.contains(path))
        })?;
        let late = check(&taken, &BTreeMap::from([(case.name, (case, said))]))?;
        latest = latest.max(late);
        known.push(taken);
    }
    let begun = at_once.iter().map(|case| begin(context, &case.enough));
    let begun: Vec<Child> = begun.collect::<Result<_>>()?;
    let mut said = BTreeMap::new();
    for (case, load) in at_once.into_iter().zip(begun) {
        said.insert(case.name, (case, done(&case.enough, load)?));
    }
    // Three are written at a time, and others wait.
    let all = until("the snapshots of all triggers", || {
        Some(captures(folder)).filter(|captures| captures.len() >= cases.len())
    })?;
    for taken in all.iter().filter(|path| !known.contains(path)) {
        check(taken, &said)?;
    }
    Ok(latest)
}

fn begin(context: &Context, Deed { what, size, name }: &Deed) -> Result<Child> {
    let mut load = Command::new(&context.load);
    let load = load.args(["stall", what, &size.to_string(), name]);
    Ok(load.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?)
}

/// What the load says of what it did.
fn done(Deed { what, size, name }: &Deed, load: Child) -> Result<Value> {
    let output = wait(load)?;
    let said = json_lines(&output.stdout)?.pop();
    said.with_context(|| format!("the load did not {what} {size} as {name}: {}", output.stderr))
}

fn of_trigger<'s>(status: &'s Value, trigger: &str) -> Result<&'s Value> {
    let all = status.pointer("/triggers/triggers").and_then(Value::as_array);
    let found = all.into_iter().flatten().find(|one| one["name"] == trigger);
    found.with_context(|| format!("no trigger {trigger} in {status}"))
}

fn captures(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|file| file.path());
    files.filter(|path| path.extension().is_some_and(|end| end == "syscap")).collect()
}

/// The snapshot is of one of these triggers, about the thread that did it; how much later than its
/// cause it began.
fn check(capture: &Path, done: &BTreeMap<&str, (&Case, Value)>) -> Result<Duration> {
    let reader = CaptureReader::open(capture)?;
    ensure!(reader.is_complete(), "its snapshot has no end");
    let sessions = reader.definitions().filter_map(|definition| match definition {
        Ok(Definition::Session(session)) => Some(*session),
        _ => None,
    });
    let session = sessions.last().context("it describes no session")?;
    let SnapshotMark { reason, trigger, at, tid } =
        session.snapshot.clone().context("it does not say why it was taken")?;
    let Some((case, done)) = done.get(trigger.as_str()) else {
        bail!("a snapshot of trigger {trigger}: {reason}");
    };
    ensure!(reason.contains(case.said), "{trigger}: {reason}");
    let expected = number(done, "tid")?;
    ensure!(u64::from(tid) == expected, "{trigger}: {reason}: thread {tid} instead of {expected}");
    let expected = match case.marked_at {
        MarkedAt::Anywhen => at.0 as f64,
        MarkedAt::End => number(done, "ticks")? as f64,
        MarkedAt::Beginning(after) => {
            number(done, "began")? as f64 + after as f64 * session.tick_rate_hz / 1e3
        }
    };
    let off = (expected - at.0 as f64).abs() * 1e3 / session.tick_rate_hz;
    ensure!(off < FARTHEST, "{trigger}: {reason}: {off} ms from where it was");
    let mut symbols = reader.definitions().filter_map(|definition| match definition {
        Ok(Definition::Symbols(table)) => Some(table),
        _ => None,
    });
    ensure!(
        symbols.any(|table| table.path == "[kernel.kallsyms]" && !table.symbols.is_empty()),
        "no function of the kernel has a name"
    );
    let lanes = reader.lanes().into_iter().filter(|lane| lane.kind == LaneKind::Sched);
    let last = lanes.flat_map(|lane| reader.chunks(lane)).map(|chunk| chunk.last.0).max();
    let late = last.unwrap_or(0).saturating_sub(at.0);
    Ok(Duration::from_micros((milliseconds(&session, late) * 1e3) as u64))
}

fn milliseconds(session: &SessionInfo, ticks: u64) -> f64 {
    ticks as f64 * 1e3 / session.tick_rate_hz
}
