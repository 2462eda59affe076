//! Captures that hold nothing, are damaged, or never saw a process begin or end, in the viewers'
//! own engines.

use anyhow::{Context, Error, Result, ensure};
use serde_json::Value;
use syscollect_tests::FakeMachine;
use syscollect_tests::reference_capture;

use super::firefox::ProfilerCli;
use super::{Comparison, Files, figures};
use crate::engine::Engine;
use crate::process::output_of;

/// What Perfetto's statistics hold of lost records: by CPU, and of no CPU.
const LOST: &str = "select coalesce(sum(value), 0) from stats \
                    where name in ('perf_cpu_lost_records', 'traced_buf_trace_writer_packet_loss')";
/// Parts of the reference capture that are damaged, one after the other, of [`PARTS`].
const DAMAGED: [usize; 4] = [10, 12, 36, 40];
const PARTS: usize = 61;

/// Shows each of them; without Perfetto's engine only the capture that holds nothing.
pub(super) fn comparisons() -> Vec<Comparison> {
    let mut comparisons: Vec<Comparison> = vec![Box::new(empty)];
    if Engine::find().is_err() {
        return comparisons;
    }
    for part in DAMAGED {
        comparisons.push(Box::new(move || {
            damaged(part).with_context(|| format!("part {part} of {PARTS} damaged"))
        }));
    }
    comparisons.push(Box::new(spanning));
    comparisons
}

/// A capture without events loads, and shows nothing.
fn empty() -> Result<Vec<String>> {
    let shown = Files::new(&FakeMachine::new(2).finish())?.engines()?;
    Ok(figures(&shown)
        .into_iter()
        .flat_map::<Vec<String>, _>(|(viewer, figures)| {
            let shown = figures.iter().filter(|(_, count)| **count > 0);
            shown
                .map(move |(name, count)| {
                    format!("an empty capture: {}: {name}: {count}", viewer.name())
                })
                .collect()
        })
        .collect())
}

/// What a damaged chunk held is lost, and both engines load the rest.
fn damaged(part: usize) -> Result<Vec<String>> {
    let engine = Engine::find().map_err(Error::msg)?;
    let mut capture = reference_capture::capture();
    let place = capture.len() * part / PARTS + 7;
    capture[place] ^= 0x55;
    let files = Files::new(&capture)?;
    let report: Value =
        serde_json::from_slice(&output_of(files.command("report").arg("--json"))?.stdout)?;
    let lost = report["lost"].as_i64().context("the report tells no losses")?;
    ensure!(lost > 0, "the damage hit nothing that counts");
    let trace = files.export("pftrace", &[])?;
    let mut wrong = Vec::new();
    let [reported] = engine.numbers(&trace, [LOST])?;
    if reported != lost {
        wrong.push(format!("damaged: Perfetto tells {reported} lost records, the report {lost}"));
    }
    wrong.extend(
        engine.errors(&trace)?.into_iter().map(|error| format!("damaged: Perfetto: {error}")),
    );
    if let Ok(profile) = ProfilerCli::load(&files.export("json.gz", &["--sched-markers"])?) {
        let shown = profile.figures()?.get("samples").copied();
        if shown != report["events"]["samples"].as_u64() {
            wrong.push(format!(
                "damaged: Firefox shows {shown:?} samples, the report {}",
                report["events"]["samples"]
            ));
        }
    }
    Ok(wrong)
}

/// A process that was there before and after has neither start nor end.
fn spanning() -> Result<Vec<String>> {
    let engine = Engine::find().map_err(Error::msg)?;
    let case =
        reference_capture::cases().into_iter().find(|case| case.name.contains("started before"));
    let case = case.context("no case of a process that was there all the time")?;
    // The folder lasts as long as this.
    let files = Files::new(&case.capture)?;
    let trace = files.export("pftrace", &[])?;
    let queries = [
        "select count(*) from process where name = 'always'",
        "select count(*) from process where name = 'always' and start_ts is null and end_ts is \
         null",
    ];
    let [all, without] = engine.numbers(&trace, queries)?;
    let wrong = (all != 1 || without != 1).then(|| {
        format!("{}: {all} processes in Perfetto, {without} without start and end", case.name)
    });
    Ok(wrong.into_iter().collect())
}
