//! What programs had open, and had said, for longer than a flight recorder reaches back.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use syscollect_merge::Session;
use syscollect_model::{
    Event, Exporter, LockAction, LockEvent, Scope, Slice, StringId, Tables, Time, TrackId, Value,
};
use syscollect_playback::Recording;
use syscollect_store::CaptureReader;

use super::context::{Context, finish, signal, text, wait};
use super::flight::Flight;
use super::hung::check_hangs;
use super::zones::{load, numbered};

/// How far back it reaches, and how long all is open before a snapshot is taken.
const KEPT: Duration = Duration::from_secs(2);
const OPEN: Duration = Duration::from_secs(6);
/// How long a program lives that ends well before what is kept.
const SHORT: Duration = Duration::from_secs(1);

/// A program that says nothing any more has in a snapshot what it has open, and said last; one that
/// has ended before has nothing.
pub(crate) fn open_zones(context: &Context) -> Result<String> {
    let (socket, folder) = (context.path("zones-socket"), context.path("flight-zones"));
    fs::create_dir(&folder)?;
    let keep = format!("{}s", KEPT.as_secs());
    let flight = Flight::start_with(context, &socket, &folder, &["--keep", &keep])?;
    let dead = load(context, &["silent", "60"])?;
    let silent = load(context, &["silent", "60"])?;
    let busy = numbered(context, &context.path("flight-numbers"))?;
    std::thread::sleep(SHORT);
    let (dead_pid, silent_pid, busy_pid) = (dead.id(), silent.id(), busy.id());
    signal(dead_pid, libc::SIGKILL);
    wait(dead)?;
    std::thread::sleep(OPEN);
    let snapshots = [context.path("flight-zones.syscap"), context.path("flight-zones-1s.syscap")];
    let mut answers = Vec::new();
    for (snapshot, last) in snapshots.iter().zip([&[][..], &["--last", "1s"]]) {
        let asked = [&["snapshot", "-o", text(snapshot)?][..], last].concat();
        answers.push(finish(&mut flight.ask(&asked))?);
    }
    for (program, pid) in [(silent, silent_pid), (busy, busy_pid)] {
        signal(pid, libc::SIGKILL);
        wait(program)?;
    }
    for answer in answers {
        ensure!(answer.status.success(), "no snapshot: {}", answer.stderr);
    }
    flight.stop()?;
    let mut told = Vec::new();
    for snapshot in &snapshots {
        let programs = Programs::read(snapshot)?;
        let stuck = programs.of(silent_pid).check_silent()?;
        check_hangs(context, snapshot, silent_pid)?;
        let whole = programs.of(busy_pid).open("whole")?;
        ensure!(whole > KEPT, "the zone that goes on began {whole:.1?} before");
        let gone = programs.0.get(&dead_pid);
        ensure!(gone.is_none(), "a program that has ended {OPEN:.0?} ago has {gone:?}");
        told.push(format!("{stuck:.1?}"));
    }
    Ok(format!(
        "of {keep} that are kept, and of the last second: zones that began {} earlier, their \
         lock, who waits for it and where, and a plot",
        told.join(" and ")
    ))
}

/// A recorder that is started again knows what a program that hangs has open: nobody but its memory
/// says so.
pub(crate) fn restarted(context: &Context) -> Result<String> {
    let (socket, folder) = (context.path("again-socket"), context.path("flight-again"));
    fs::create_dir(&folder)?;
    let before = Flight::start_with(context, &socket, &folder, &[])?;
    let silent = load(context, &["silent", "60"])?;
    let pid = silent.id();
    std::thread::sleep(OPEN / 2);
    before.stop()?;
    let flight = Flight::start_with(context, &socket, &folder, &[])?;
    std::thread::sleep(KEPT);
    let snapshot = context.path("flight-again.syscap");
    let answer = finish(&mut flight.ask(&["snapshot", "-o", text(&snapshot)?]))?;
    signal(pid, libc::SIGKILL);
    wait(silent)?;
    ensure!(answer.status.success(), "no snapshot: {}", answer.stderr);
    flight.stop()?;
    let open = Programs::read(&snapshot)?.of(pid);
    let (stuck, waiting) = (open.open("stuck")?, open.open("waiting")?);
    ensure!(waiting > KEPT && stuck >= waiting, "{waiting:?} and {stuck:?}");
    check_hangs(context, &snapshot, pid)?;
    Ok(format!("zones that began {stuck:.1?} and {waiting:.1?} before"))
}

/// What programs had open when the recording begins, by process.
#[derive(Default)]
struct Programs(BTreeMap<u32, OpenBefore>);

#[derive(Clone, Debug, Default)]
struct OpenBefore {
    /// How long before each zone began.
    zones: BTreeMap<String, Duration>,
    /// The first value of each plot.
    plots: BTreeMap<String, f64>,
    /// What was said of locks.
    locks: Vec<(String, LockAction)>,
}

impl Programs {
    fn read(capture: &Path) -> Result<Self> {
        let mut programs = Self::default();
        Session::open(CaptureReader::open(capture)?)?.play(&mut programs)?;
        Ok(programs)
    }

    fn of(&self, pid: u32) -> OpenBefore {
        self.0.get(&pid).cloned().unwrap_or_default()
    }

    fn of_track(&mut self, track: TrackId, tables: &Tables) -> Option<&mut OpenBefore> {
        let process = match tables.track(track).scope {
            Scope::Process(process) => process,
            Scope::Thread(thread) => tables.thread(thread).process,
            _ => return None,
        };
        Some(self.0.entry(tables.process(process).pid).or_default())
    }
}

impl OpenBefore {
    fn open(&self, zone: &str) -> Result<Duration> {
        self.zones.get(zone).copied().with_context(|| format!("{zone:?} is not open in {self:?}"))
    }

    /// Whether it has all of the load that does nothing any more; how long that has done nothing.
    fn check_silent(&self) -> Result<Duration> {
        let (stuck, waiting) = (self.open("stuck")?, self.open("waiting")?);
        ensure!(waiting > KEPT && stuck >= waiting, "{waiting:?} and {stuck:?}");
        let connections = self.plots.get("connections");
        ensure!(connections == Some(&42.0), "the plot was {connections:?}");
        let locks =
            [("holder".to_owned(), LockAction::Obtain), ("waiter".to_owned(), LockAction::Wait)];
        let has_locks = locks.iter().all(|lock| self.locks.contains(lock));
        ensure!(has_locks && self.locks.len() == 2, "of locks there are {:?}", self.locks);
        Ok(stuck)
    }
}

impl Exporter for Programs {
    type Error = anyhow::Error;

    fn event(&mut self, _: Time, event: &Event, tables: &Tables) -> Result<()> {
        let name = |name: StringId| tables.strings.get(name).to_owned();
        match event {
            Event::SliceBegin(track, Slice { name: zone, fields, .. }) => {
                let before = fields.iter().find_map(|field| match field.value {
                    Value::Duration(nanoseconds) => Some(Duration::from_nanos(nanoseconds)),
                    _ => None,
                });
                if let (Some(before), Some(program)) = (before, self.of_track(*track, tables)) {
                    program.zones.entry(name(*zone)).or_insert(before);
                }
            }
            Event::Counter(track, value) => {
                let plot = name(tables.track(*track).name);
                if plot == "connections" {
                    let program = self.of_track(*track, tables).context("a plot of no program")?;
                    program.plots.entry(plot).or_insert(*value);
                }
            }
            Event::Lock(LockEvent { thread, action, .. }) => {
                let thread = tables.thread(*thread);
                let program = self.0.entry(tables.process(thread.process).pid).or_default();
                program.locks.push((name(thread.name), *action));
            }
            _ => {}
        }
        Ok(())
    }
}
