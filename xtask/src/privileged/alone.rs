//! Instrumented programs that cannot share memory: their zones come through probes.
//!
//! Compared with what the programs say that they did, on the timeline that all
//! exporters get.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use syscollect_merge::Session;
use syscollect_model::{
    Event, Exporter, LaneKind, Loss, RecorderSummary, Scope, Tables, Time, TrackId,
};
use syscollect_playback::Recording;
use syscollect_store::{CaptureReader, Definition};

use super::context::{Context, number};
use super::probes::ways;

const THREADS: u64 = 2;
/// A system call that fails, as in a sandbox, and a limit on files.
const REFUSED: [&str; 2] = ["memfd", "files"];

/// Every zone of a program to which memory is refused, by each way of refusing and of attaching.
pub(crate) fn alone(context: &Context) -> Result<String> {
    let zones = context.times(20_000);
    let ways = ways(context);
    for refused in REFUSED {
        for way in &ways {
            let name = format!("alone-{refused}-{way}");
            one(context, &name, way, refused, zones)
                .with_context(|| format!("{refused} refused, {way}"))?;
        }
    }
    Ok(format!(
        "{zones} zones on each of {THREADS} threads, all of them, {} ways to attach",
        ways.len()
    ))
}

fn one(context: &Context, name: &str, way: &str, refused: &str, zones: u64) -> Result<()> {
    let capture = context.path(&format!("{name}.syscap"));
    let (threads, count) = (THREADS.to_string(), zones.to_string());
    let reported = context.record_by(way, &capture, &[], &["alone", refused, &threads, &count])?;
    ensure!(reported.len() as u64 == THREADS, "{} threads reported what they did", reported.len());
    let reader = CaptureReader::open(&capture)?;
    let is_shared = reader.definitions().any(
        |definition| matches!(definition, Ok(Definition::Clients(clients)) if !clients.is_empty()),
    );
    ensure!(!is_shared, "memory was shared all the same");
    let recorded = Zones::of(&capture)?;
    ensure!(recorded.losses.is_empty(), "lost: {:?}", recorded.losses);
    for line in reported {
        let tid = number(&line, "tid")? as u32;
        let (begun, ended) = recorded.threads.get(&tid).copied().unwrap_or_default();
        ensure!(
            begun == zones && ended == zones,
            "thread {tid}: {begun} zones began and {ended} ended of {zones}"
        );
    }
    let reported = recorded.notes.iter().any(|note| note.contains("could not share memory"));
    ensure!(reported, "nothing says that the marks came through probes: {:?}", recorded.notes);
    Ok(())
}

/// Zones of this load by thread: begun and ended.
#[derive(Default)]
struct Zones {
    threads: BTreeMap<u32, (u64, u64)>,
    losses: Vec<String>,
    notes: Vec<String>,
}

impl Zones {
    fn of(capture: &Path) -> Result<Self> {
        let mut zones = Self::default();
        Session::open(CaptureReader::open(capture)?)?.play(&mut zones)?;
        Ok(zones)
    }

    fn thread(&mut self, track: TrackId, tables: &Tables) -> Option<&mut (u64, u64)> {
        let Scope::Thread(thread) = tables.track(track).scope else { return None };
        Some(self.threads.entry(tables.thread(thread).tid).or_default())
    }
}

impl Exporter for Zones {
    type Error = std::convert::Infallible;

    fn event(&mut self, _: Time, event: &Event, tables: &Tables) -> Result<(), Self::Error> {
        match event {
            Event::SliceBegin(track, slice) if tables.strings.get(slice.name) == "alone" => {
                self.thread(*track, tables).into_iter().for_each(|(begun, _)| *begun += 1);
            }
            Event::SliceEnd(track) => {
                self.thread(*track, tables).into_iter().for_each(|(_, ended)| *ended += 1);
            }
            _ => {}
        }
        Ok(())
    }

    fn end(
        &mut self,
        losses: &[Loss],
        recorder: Option<&RecorderSummary>,
        _: &Tables,
    ) -> Result<(), Self::Error> {
        let of_probes =
            losses.iter().filter(|loss| loss.origin == LaneKind::Probe.into() && loss.count > 0);
        self.losses.extend(of_probes.map(|loss| format!("{loss:?}")));
        self.notes
            .extend(recorder.into_iter().flat_map(|recorder| recorder.missing.iter().cloned()));
        Ok(())
    }
}
