//! Triggers of the flight recorder: each sees what it is for, once, and not what only comes near
//! it, and its snapshot says what happened where and to whom.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use syscollect_model::{LaneKind, SessionInfo, SnapshotMark};
use syscollect_store::{CaptureReader, Definition};

use super::context::{Context, json_lines, number, until, wait};
use super::flight::Flight;

/// How much later than its cause a snapshot may begin, on a machine whose host has other work; on a
/// quiet one it is a tenth of a second.
const LATEST: Duration = Duration::from_millis(500);
/// How long it is waited for what should not come.
const PATIENCE: Duration = Duration::from_millis(600);

/// A trigger, what it is for, and what is not enough for it.
struct Case {
    name: &'static str,
    cause: &'static str,
    /// What the load does, and how much of it.
    what: &'static str,
    near_miss: u64,
    enough: u64,
    /// What the reason says.
    said: &'static str,
    /// Whether the thread that does it says when it was over.
    is_timed: bool,
}

const CASES: [Case; 8] = [
    Case {
        name: "slow",
        cause: "zone request > 150ms",
        what: "zone",
        near_miss: 10,
        enough: 300,
        said: "request",
        is_timed: true,
    },
    Case {
        name: "call",
        cause: "function syscollect_stalls > 150ms",
        what: "function",
        near_miss: 10,
        enough: 300,
        said: "function syscollect_stalls took",
        is_timed: true,
    },
    Case {
        name: "starved",
        cause: "waiting starved > 150ms",
        what: "starved",
        near_miss: 20,
        enough: 600,
        said: "starved",
        is_timed: false,
    },
    Case {
        name: "stuck",
        cause: "blocked sleeper > 150ms",
        what: "blocked",
        near_miss: 20,
        enough: 500,
        said: "sleeper",
        is_timed: false,
    },
    Case {
        name: "failed",
        cause: "exit syscollect-load code 3",
        what: "exit",
        near_miss: 4,
        enough: 3,
        said: "3",
        is_timed: true,
    },
    Case {
        name: "crashed",
        cause: "crash syscollect-load",
        what: "abort",
        near_miss: 0,
        enough: 1,
        said: "ABRT",
        is_timed: true,
    },
    Case {
        name: "alarm",
        cause: "message \"alarm 7\"",
        what: "message",
        near_miss: 6,
        enough: 7,
        said: "alarm 7",
        is_timed: true,
    },
    Case {
        name: "queue",
        cause: "plot \"queue length\" > 100",
        what: "plot",
        near_miss: 100,
        enough: 101,
        said: "queue length",
        is_timed: true,
    },
];

/// All triggers in one recorder: near misses first, of which none takes anything, then what each is
/// for: one event of that trigger, one snapshot.
pub(crate) fn triggers(context: &Context) -> Result<String> {
    let place = tempfile::Builder::new().prefix("syscollect-triggers-").tempdir()?;
    let (socket, folder) = (place.path().join("socket"), context.path("triggers"));
    fs::create_dir(&folder)?;
    let given: Vec<String> =
        CASES.iter().map(|case| format!("{}: {}, pause 5s", case.name, case.cause)).collect();
    let mut options: Vec<&str> = given.iter().flat_map(|given| ["--trigger", given]).collect();
    let functions = ["syscollect_stalls", "syscollect_stalls_too"]
        .map(|function| format!("{}:{function}", context.load.display()));
    options.extend(functions.iter().flat_map(|function| ["--function", function]));
    let flight = Flight::start_with(context, &socket, &folder, &options)?;
    for case in &CASES {
        // What ends a program is no near miss of what does not.
        if case.what != "abort" {
            does(context, case.what, case.near_miss)?;
        }
    }
    std::thread::sleep(PATIENCE);
    let status = flight.status()?;
    for case in &CASES {
        let events = count(&status, case.name, "events")?;
        ensure!(events == 0, "{}: {events} events of what is not enough for it", case.name);
    }
    let (mut known, mut latest) = (BTreeSet::new(), Duration::ZERO);
    for case in &CASES {
        let done = does(context, case.what, case.enough)?;
        let taken = until(&format!("the snapshot of trigger {}", case.name), || {
            captures(&folder).into_iter().find(|path| !known.contains(path))
        })?;
        let late = check(&taken, case, &done).with_context(|| format!("trigger {}", case.name))?;
        latest = latest.max(late);
        known.insert(taken);
    }
    std::thread::sleep(PATIENCE);
    let status = flight.status()?;
    for case in &CASES {
        let events = count(&status, case.name, "events")?;
        let fired = count(&status, case.name, "fired")?;
        // Who starves may have the CPU for a moment, and wait too long once more.
        ensure!(
            fired == 1 && (events == 1 || !case.is_timed),
            "{}: {events} events, and {fired} snapshots",
            case.name
        );
    }
    let unwatched = status.pointer("/triggers/unwatched_chunks").and_then(Value::as_u64);
    ensure!(unwatched == Some(0), "chunks that were not watched: {unwatched:?}");
    ensure!(captures(&folder).len() == CASES.len(), "{:?}", captures(&folder));
    flight.stop()?;
    ensure!(
        context.is_emulated() || latest <= LATEST,
        "a snapshot began {} ms after its cause",
        latest.as_millis()
    );
    Ok(format!(
        "{} causes, each one event and one snapshot, begun at most {} ms later; no near miss",
        CASES.len(),
        latest.as_millis()
    ))
}

/// What the load says of what it did.
fn does(context: &Context, what: &str, size: u64) -> Result<Value> {
    let mut load = Command::new(&context.load);
    let load = load.args(["stall", what, &size.to_string()]);
    let output = wait(load.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?)?;
    let said = json_lines(&output.stdout)?.pop();
    said.with_context(|| format!("the load did not {what}: {}", output.stderr))
}

fn count(status: &Value, trigger: &str, what: &str) -> Result<u64> {
    let all = status.pointer("/triggers/triggers").and_then(Value::as_array);
    let found = all.into_iter().flatten().find(|one| one["name"] == trigger);
    number(found.with_context(|| format!("no trigger {trigger} in {status}"))?, what)
}

fn captures(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|file| file.path());
    files.filter(|path| path.extension().is_some_and(|end| end == "syscap")).collect()
}

/// The snapshot is of this trigger, about that thread; how much later than its cause it began.
fn check(capture: &Path, case: &Case, done: &Value) -> Result<Duration> {
    let reader = CaptureReader::open(capture)?;
    ensure!(reader.is_complete(), "its snapshot has no end");
    let sessions = reader.definitions().filter_map(|definition| match definition {
        Ok(Definition::Session(session)) => Some(*session),
        _ => None,
    });
    let session = sessions.last().context("it describes no session")?;
    let SnapshotMark { reason, trigger, at, tid } =
        session.snapshot.clone().context("it does not say why it was taken")?;
    ensure!(trigger == case.name && reason.contains(case.said), "{trigger}: {reason}");
    let expected = number(done, "tid")?;
    ensure!(u64::from(tid) == expected, "{reason}: thread {tid} instead of {expected}");
    if case.is_timed {
        let over = number(done, "ticks")?;
        let off = milliseconds(&session, over.abs_diff(at.0));
        ensure!(off < 20.0, "{reason}: {off} ms from where it was");
    }
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
