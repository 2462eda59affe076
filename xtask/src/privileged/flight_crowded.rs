//! A flight recorder on a machine without a CPU to spare, with a trigger that fires without end:
//! what is rare has its snapshot all the same, of its own moment.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use syscollect_store::{CaptureReader, Definition};

use super::context::{Context, NOBODY, number, until};
use super::flight::{Flight, checked_whole};
use super::flight_busy::busy_loops;

/// What fires without end, and what does it: a shell that sends itself signals.
const OFTEN: &str = "often: tracepoint signal:signal_generate, pause 0s";
const SIGNALS: &str = "while :; do kill -CONT $$; done";
/// What is rare, and its program.
const RARE: &str = "rare: exit rarely-fails code 3";
const RARE_PROGRAM: &str = "rarely-fails";

/// Both, beside loops on all CPUs.
pub(crate) fn crowded(context: &Context) -> Result<String> {
    let (socket, folder) = (context.path("crowded-socket"), context.path("flight-crowded"));
    fs::create_dir(&folder)?;
    let recorded = ["--tracepoint", "signal:signal_generate"];
    let options = [["--most", "64"], ["--trigger", OFTEN], ["--trigger", RARE], recorded].concat();
    let flight = Flight::start_with(context, &socket, &folder, &options)?;
    let mut loops = busy_loops()?;
    loops.start_shell(&["/bin/sh"], SIGNALS, NOBODY)?;
    loops.start(context, &["ping-pong", "100000000", "0"], NOBODY)?;
    // As many snapshots as may be are written by then, and are named behind the loops.
    std::thread::sleep(Duration::from_secs(3));
    let program = context.path(RARE_PROGRAM);
    fs::copy("/bin/sh", &program)?;
    let status = Command::new(&program).args(["-c", "exit 3"]).stdin(Stdio::null()).status()?;
    ensure!(status.code() == Some(3), "the program ended with {status}");
    let taken = until("the snapshot of what is rare", || taken_by(&folder, "rare"))?;
    let status = flight.status()?;
    drop(loops);
    flight.stop()?;

    let info = checked_whole(context, &taken)?;
    let missing = info.pointer("/recorder/missing").and_then(Value::as_array);
    let missing = missing.context("info does not say what is missing")?;
    let is_of_snapshot =
        |why: &&Value| why.as_str().is_some_and(|why| why.contains("its own moment"));
    let late = missing.iter().find(is_of_snapshot);
    ensure!(late.is_none(), "it does not hold its own moment: {late:?}");
    let often = &status["triggers"]["triggers"][0];
    let [events, crowded] = [number(often, "events")?, number(often, "crowded")?];
    ensure!(events > 1_000 && crowded > 0, "the other trigger fired {events} times: {often}");
    let written = fs::read_dir(&folder)?.count();
    Ok(format!(
        "beside a trigger that fired {events} times, of which {crowded} found no place, and with \
         {written} snapshots in all, the rare one has its moment"
    ))
}

/// The complete snapshot that this trigger took, if it is there.
pub(super) fn taken_by(folder: &Path, trigger: &str) -> Option<PathBuf> {
    let files = fs::read_dir(folder).ok()?.flatten().map(|file| file.path());
    let mut captures = files.filter(|path| path.extension().is_some_and(|end| end == "syscap"));
    captures.find(|path| {
        let Ok(reader) = CaptureReader::open(path) else { return false };
        let marks = reader.definitions().filter_map(|definition| match definition {
            Ok(Definition::Session(session)) => session.snapshot,
            _ => None,
        });
        marks.last().is_some_and(|mark| mark.trigger == trigger)
    })
}
