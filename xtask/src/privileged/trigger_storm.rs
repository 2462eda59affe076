//! A storm of causes, 10,000 a second of four kinds: each is counted, snapshots are as many as
//! limits and pauses allow, what is rare has its own, and an honest program's zones are all there.
//!
//! Compared with what the program that causes it has counted itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use syscollect_store::{CaptureReader, Definition};

use super::attacked::{Programs, Usage};
use super::context::{Context, DAEMON, finish, json_lines, number, text, until, wait};
use super::flight::{Flight, checked_whole};
use super::flight_crowded::taken_by;
use super::zones::{ProcessZones, load};

/// Causes a second, and for how long.
const RATE: u64 = 10_000;
const SECONDS: u64 = 10;
/// What each of the triggers may take of that: by its limit, by its pause, by both, and as many as
/// there is a place for.
const LIMITED: u64 = 2;
const PAUSE: u64 = 3;
const BOTH: u64 = 3;
/// Snapshots that are kept: more than there are, so that all can be counted.
const KEPT: usize = 400;
/// What the recorder may take beside the storm, of a CPU: the thread of the triggers (1 %), and all
/// that do not write and name snapshots together (9 to 13 %).
const TRIGGERS_CPU_MAX: f64 = 0.05;
const RECORDER_CPU_MAX: f64 = 0.35;
/// The threads that write and name them.
const SNAPSHOT_THREADS: [&str; 2] = ["snapshot", "naming"];
const RARE_PROGRAM: &str = "rarely-fails";
/// What never comes.
const NEVER: &str = "never: zone \"nothing is called so\" > 1us";

/// What one trigger is for in the storm.
struct StormTrigger {
    name: &'static str,
    cause: String,
    /// What the load calls its causes.
    counted: &'static str,
    /// Snapshots that it may take; `None` where only places bound them.
    most: Option<u64>,
}

fn storm_triggers() -> [StormTrigger; 4] {
    let trigger = |name, cause: String, counted, most| StormTrigger { name, cause, counted, most };
    [
        trigger("zones", format!("zone storm > 1us, limit {BOTH}, pause 1s"), "zones", Some(BOTH)),
        trigger(
            "hits",
            format!("hit storm:hit, pause {PAUSE}s"),
            "hits",
            Some(SECONDS.div_ceil(PAUSE) + 1),
        ),
        trigger(
            "ends",
            format!("exit storming code 7, limit {LIMITED}, pause 0s"),
            "ends",
            Some(LIMITED),
        ),
        trigger(
            "signals",
            "tracepoint signal:signal_generate if sig == 47, pause 0s".into(),
            "signals",
            None,
        ),
    ]
}

/// The storm, with something rare in the middle of it.
pub(crate) fn storm(context: &Context) -> Result<String> {
    let (socket, folder) = (context.path("storm-socket"), context.path("trigger-storm"));
    fs::create_dir(&folder)?;
    let triggers = storm_triggers();
    let rare = format!("rare: exit {RARE_PROGRAM} code 3");
    let texts = triggers.each_ref().map(|trigger| format!("{}: {}", trigger.name, trigger.cause));
    let mut options: Vec<&str> = texts.iter().flat_map(|text| ["--trigger", text]).collect();
    let (kept, probe) = (KEPT.to_string(), format!("{}:storm:hit", context.load.display()));
    options.extend(["--trigger", &rare, "--trigger", NEVER]);
    options.extend(["--most", &kept, "--usdt", &probe]);
    options.extend(["--tracepoint", "signal:signal_generate", "--buffer", "64M"]);
    let flight = Flight::start_with(context, &socket, &folder, &options)?;

    let honest_seconds = (SECONDS + 3).to_string();
    let daemon = DAEMON.to_string();
    let honest = load(context, &["as", &daemon, "numbered", "/dev/null", &honest_seconds])?;
    let honest_pid = honest.id();
    let recorder = Programs::of(flight.recorder_id())?;
    let at_rest = recorder.during(Duration::from_secs(1))?;
    let storm = load(context, &["trigger-storm", &RATE.to_string(), &SECONDS.to_string()])?;
    let before = recorder.during(Duration::from_secs(SECONDS / 2))?;
    let program = context.path(RARE_PROGRAM);
    fs::copy("/bin/sh", &program)?;
    let status = Command::new(&program).args(["-c", "exit 3"]).stdin(Stdio::null()).status()?;
    ensure!(status.code() == Some(3), "the program ended with {status}");
    let during = recorder.during(Duration::from_secs(SECONDS / 2 - 1))?;
    let storm = wait(storm)?;
    let done = json_lines(&storm.stdout)?.pop();
    let done = done.with_context(|| format!("the load did nothing: {}", storm.stderr))?;
    let honest = wait(honest)?;
    let honest = json_lines(&honest.stdout)?.pop().context("the honest program printed nothing")?;

    let rare = until("the snapshot of what is rare", || taken_by(&folder, "rare"))?;
    let info = checked_whole(context, &rare)?;
    let missing = info.pointer("/recorder/missing").and_then(Value::as_array);
    let late = missing.into_iter().flatten().filter_map(Value::as_str);
    let late: Vec<&str> = late.filter(|why| why.contains("its own moment")).collect();
    ensure!(late.is_empty(), "what is rare lacks its own moment: {late:?}");

    let last = context.path("storm-last.syscap");
    let taken = finish(&mut flight.ask(&["snapshot", "-o", text(&last)?]))?;
    ensure!(taken.status.success(), "no snapshot behind the storm: {}", taken.stderr);
    let honest_zones = honest_zones(context, &last, honest_pid, number(&honest, "numbers")?)?;
    let report = until("all snapshots to be complete", || {
        let status = flight.status().ok()?;
        (number(&status, "writing").ok()? == 0 && number(&status["triggers"], "waiting").ok()? == 0)
            .then_some(status)
    })?;
    let counted = counted(&triggers, &report, &done, &folder)?;
    let said = finish(&mut flight.ask(&["status"]))?;
    for StormTrigger { name, .. } in &triggers {
        ensure!(said.stdout.contains(name), "status does not tell of {name}:\n{}", said.stdout);
    }
    flight.stop()?;
    let costs = within_bounds(&at_rest, [&before, &during])?;
    Ok(format!("{counted}; {honest_zones}; {costs}"))
}

/// All zones of the honest program are there, from before the storm until behind it.
fn honest_zones(context: &Context, capture: &Path, pid: u32, made: u64) -> Result<String> {
    let info = checked_whole(context, capture)?;
    let (first, last) = ProcessZones::read(capture, pid)?.numbers_in_a_row()?;
    ensure!(
        first < made / 4 && last == made,
        "of {made} zones of the honest program {first} to {last} are there; lost: {}",
        info["losses"]
    );
    Ok(format!("{first} to {last} of {made} zones of an honest program"))
}

/// Each cause is counted, and what was decided on it; files are as many as fired.
fn counted(
    triggers: &[StormTrigger],
    status: &Value,
    done: &Value,
    folder: &Path,
) -> Result<String> {
    let all = status.pointer("/triggers/triggers").and_then(Value::as_array);
    let all = all.context("status has no triggers")?;
    // What came too fast to be looked at would be told here.
    let untold = ["unwatched_chunks", "unfollowed"]
        .map(|name| number(&status["triggers"], name))
        .into_iter()
        .sum::<Result<u64>>()?;
    let lost = number(status, "lost")?;
    let never = all.iter().find(|one| one["name"] == "never").context("it is not there")?;
    ensure!(
        number(never, "events")? == 0 && never["note"] == "nothing is called so yet",
        "of what never comes: {never}"
    );
    let mut words = Vec::new();
    for StormTrigger { name, counted, most, .. } in triggers {
        let of_trigger = all.iter().find(|one| one["name"] == *name).context("it is not there")?;
        let made = number(done, counted)?;
        let events = number(of_trigger, "events")?;
        ensure!(
            events == made || events < made && untold + lost > 0,
            "{events} of {made} causes of {name} were seen; {lost} records lost, {untold} untold: \
             {status}"
        );
        let decided = ["fired", "paused", "limited", "crowded"];
        let [fired, paused, limited, crowded] = decided.map(|name| number(of_trigger, name));
        let (fired, crowded) = (fired?, crowded?);
        let sum = fired + paused? + limited? + crowded;
        ensure!(sum == events, "{events} causes, of which {sum} were decided on: {of_trigger}");
        let files = of_trigger_in(folder, name).len() as u64;
        ensure!(files == fired, "{name} fired {fired} times, and {files} snapshots are there");
        match most {
            Some(most) => ensure!(
                (1..=*most).contains(&fired),
                "{fired} snapshots of {name}, which may take {most}"
            ),
            None => ensure!(crowded > 0 && fired > 1, "{name} takes what there is: {of_trigger}"),
        }
        words.push(format!("{events} of {made} {counted} counted, {fired} snapshots"));
    }
    Ok(format!("{}; {lost} records lost", words.join(", ")))
}

/// The recorder's cost beside the storm.
fn within_bounds(at_rest: &Usage, storm: [&Usage; 2]) -> Result<String> {
    let mut words = Vec::new();
    for during in storm {
        let triggers = during.of_thread("triggers");
        let others = during.of_all_but(&SNAPSHOT_THREADS);
        let told = format!(
            "CPU {:.1} % without snapshots and {:.1} % with them, triggers {:.1} %, at rest {:.1} % \
             (threads: {})",
            others * 100.0,
            during.cpu * 100.0,
            triggers * 100.0,
            at_rest.cpu * 100.0,
            during.threads()
        );
        ensure!(triggers <= TRIGGERS_CPU_MAX && others <= RECORDER_CPU_MAX, "too much: {told}");
        words.push(told);
    }
    Ok(words.join(", then "))
}

/// The complete snapshots that a trigger took.
pub(super) fn of_trigger_in(folder: &Path, trigger: &str) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|file| file.path());
    let captures = files.filter(|path| path.extension().is_some_and(|end| end == "syscap"));
    let is_its = |path: &PathBuf| {
        let Ok(reader) = CaptureReader::open(path) else { return false };
        let mut marks = reader.definitions().filter_map(|definition| match definition {
            Ok(Definition::Session(session)) => session.snapshot,
            _ => None,
        });
        marks.any(|mark| mark.trigger == trigger)
    };
    captures.filter(is_its).collect()
}
