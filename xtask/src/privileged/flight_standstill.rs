//! A service that stands still for a minute: what a trigger's snapshot holds of it, where the
//! flight recorder reaches back to its beginning and where it does not.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use syscollect_merge::Session;
use syscollect_model::{Event, Exporter, Tables, Ticks, Time, Value as FieldValue};
use syscollect_playback::Recording;
use syscollect_store::CaptureReader;

use super::context::{Context, json_lines, number, until, wait};
use super::flight::{Flight, checked_whole};
use super::flight_crowded::taken_by;

/// What the load calls the thread that sleeps, and its zone.
const THREAD: &str = "stands-still";
const ZONE: &str = "request";
/// How long it stands still, and how much of that fires.
const STANDSTILL: Duration = Duration::from_secs(60);
const PART: f64 = 0.8;
/// What one of two recorders keeps.
const KEPT: Duration = Duration::from_secs(5);
/// How far what is found may lie from what the load says, nanoseconds.
const FARTHEST: f64 = 1e8;
/// What a snapshot says that has no beginning.
const WITHOUT: &str = "the beginning of what it was taken for";

/// Two recorders with the same triggers, of which one keeps less than the standstill takes.
pub(crate) fn standstill(context: &Context) -> Result<String> {
    let length = context.length(STANDSTILL);
    let longest = length.mul_f64(PART).as_millis();
    let triggers = [
        format!("asleep: blocked {THREAD} > {longest}ms"),
        format!("slow: zone {ZONE} > {longest}ms"),
    ];
    let kept = format!("{}s", KEPT.as_secs());
    let mut recorders = Vec::new();
    for (name, more) in [("all", &[][..]), ("little", &["--keep", &kept])] {
        let socket = context.path(&format!("standstill-socket-{name}"));
        let folder = context.path(&format!("standstill-{name}"));
        fs::create_dir(&folder)?;
        let triggers = triggers.each_ref().map(|trigger| ["--trigger", trigger]).concat();
        let options = [&triggers[..], more].concat();
        recorders.push((Flight::start_with(context, &socket, &folder, &options)?, folder));
    }
    let mut begun = Vec::new();
    for what in ["blocked", "zone"] {
        let mut load = Command::new(&context.load);
        load.args(["stall", what, &length.as_millis().to_string(), THREAD]);
        begun.push(load.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?);
    }
    // `wait` ends what takes three minutes.
    std::thread::sleep(length);
    let mut said = Vec::new();
    for load in begun {
        let output = wait(load)?;
        let line = json_lines(&output.stdout)?.pop();
        said.push(line.with_context(|| format!("the load did nothing: {}", output.stderr))?);
    }
    let mut taken = Vec::new();
    for (_, folder) in &recorders {
        for trigger in ["asleep", "slow"] {
            taken.push(until(&format!("{trigger}'s snapshot"), || taken_by(folder, trigger))?);
        }
    }
    for (flight, _) in recorders {
        flight.stop()?;
    }
    let [asleep, slow, asleep_of_little, slow_of_little] = taken.as_slice() else {
        bail!("{taken:?}");
    };
    let [sleeper, zone] = said.as_slice() else { bail!("{said:?}") };
    for (capture, done) in [(asleep, sleeper), (slow, zone)] {
        let found = Beginnings::read(context, capture, done)?;
        ensure!(found.lacks.is_none(), "{}: {:?}", capture.display(), found.lacks);
        let is_there = if capture == asleep { found.falls_asleep } else { found.zone_begins };
        ensure!(is_there, "{} does not hold how it began", capture.display());
    }
    let mut told = Vec::new();
    for (capture, done) in [(asleep_of_little, sleeper), (slow_of_little, zone)] {
        let found = Beginnings::read(context, capture, done)?;
        ensure!(!found.falls_asleep && !found.zone_begins, "what {kept} keep began before");
        let what = if capture == asleep_of_little { found.asleep } else { found.open_before };
        ensure!(what, "{} does not show that it goes on", capture.display());
        told.push(found.lacks.with_context(|| {
            format!("{} does not say that it lacks its beginning", capture.display())
        })?);
    }
    Ok(format!("held where there is room; where {kept} are kept it lacks {}", told.join(" and ")))
}

/// How a snapshot shows what the load did.
#[derive(Debug, Default)]
struct Beginnings {
    tid: u32,
    /// When it began, in the snapshot's time.
    began: Time,
    /// The thread leaves its CPU then.
    falls_asleep: bool,
    /// It is said to have been asleep from before.
    asleep: bool,
    /// The zone begins then.
    zone_begins: bool,
    /// It is open at the snapshot's beginning.
    open_before: bool,
    /// What the snapshot says that it lacks of the beginning.
    lacks: Option<String>,
}

impl Beginnings {
    fn read(context: &Context, capture: &Path, done: &Value) -> Result<Self> {
        let info = checked_whole(context, capture)?;
        let missing = info.pointer("/recorder/missing").and_then(Value::as_array);
        let mut lacks = missing.into_iter().flatten().filter_map(Value::as_str);
        let lacks = lacks.find(|why| why.starts_with(WITHOUT)).map(str::to_owned);
        let mut session = Session::open(CaptureReader::open(capture)?)?;
        let began = session.clock().time(Ticks(number(done, "began")?));
        let tid = number(done, "tid")? as u32;
        let mut found = Self { tid, began, lacks, ..Self::default() };
        session.play(&mut found)?;
        Ok(found)
    }

    fn is_then(&self, at: Time) -> bool {
        (at.0 as f64 - self.began.0 as f64).abs() < FARTHEST
    }
}

impl Exporter for Beginnings {
    type Error = anyhow::Error;

    fn event(&mut self, at: Time, event: &Event, tables: &Tables) -> Result<()> {
        match event {
            Event::Switch(switch) => {
                let leaves = switch.previous.is_some_and(|it| tables.thread(it).tid == self.tid);
                self.falls_asleep |= leaves && self.is_then(at);
            }
            Event::Asleep(thread, _) => self.asleep |= tables.thread(*thread).tid == self.tid,
            Event::SliceBegin(_, slice) if tables.strings.get(slice.name) == ZONE => {
                let is_duration = |value| matches!(value, &FieldValue::Duration(_));
                let is_before = slice.fields.iter().any(|field| is_duration(&field.value));
                self.zone_begins |= !is_before && self.is_then(at);
                self.open_before |= is_before;
            }
            _ => {}
        }
        Ok(())
    }
}
