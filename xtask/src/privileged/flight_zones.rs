//! Zones that have been open for longer than a flight recorder reaches back.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use syscollect_merge::Session;
use syscollect_model::{Event, Exporter, Slice, Tables, Time, Value};
use syscollect_playback::Recording;
use syscollect_store::CaptureReader;

use super::context::{Context, finish, signal, text, wait};
use super::flight::Flight;
use super::zones::numbered;

/// How far back it reaches, and how long the zone is open before a snapshot is taken.
const KEPT: Duration = Duration::from_secs(2);
const OPEN: Duration = Duration::from_secs(6);
/// The zone that the load opens at its beginning.
const ZONE: &str = "whole";

/// A program says what it has open again and again, so that a snapshot has it.
pub(crate) fn open_zones(context: &Context) -> Result<String> {
    let (socket, folder) = (context.path("zones-socket"), context.path("flight-zones"));
    fs::create_dir(&folder)?;
    let keep = format!("{}s", KEPT.as_secs());
    let flight = Flight::start_with(context, &socket, &folder, &["--keep", &keep])?;
    let program = numbered(context, &context.path("flight-numbers"))?;
    std::thread::sleep(OPEN);
    let capture = context.path("flight-zones.syscap");
    let taken = finish(&mut flight.ask(&["snapshot", "-o", text(&capture)?]))?;
    signal(program.id(), libc::SIGKILL);
    wait(program)?;
    ensure!(taken.status.success(), "no snapshot: {}", taken.stderr);
    flight.stop()?;
    let before = OpenSince::read(&capture)?.with_context(|| {
        format!("the zone {ZONE:?}, which is open all the time, is not in the snapshot")
    })?;
    ensure!(before > KEPT, "it began {before:.1?} before it was told of");
    Ok(format!("a zone that began {before:.1?} earlier is there, of {keep} that are kept"))
}

/// How long before the zone was told of it had begun.
#[derive(Default)]
struct OpenSince(Option<Duration>);

impl OpenSince {
    fn read(capture: &Path) -> Result<Option<Duration>> {
        let mut read = Self::default();
        Session::open(CaptureReader::open(capture)?)?.play(&mut read)?;
        Ok(read.0)
    }
}

impl Exporter for OpenSince {
    type Error = anyhow::Error;

    fn event(&mut self, _: Time, event: &Event, tables: &Tables) -> Result<()> {
        let Event::SliceBegin(_, Slice { name, fields, .. }) = event else { return Ok(()) };
        if self.0.is_none() && tables.strings.get(*name) == ZONE {
            self.0 = fields.iter().find_map(|field| match field.value {
                Value::Duration(nanoseconds) => Some(Duration::from_nanos(nanoseconds)),
                _ => None,
            });
        }
        Ok(())
    }
}
