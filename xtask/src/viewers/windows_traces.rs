//! Real Windows traces in the viewers' own engines: as much is shown as `info` and `report` count.
//!
//! The traces are no part of this repository; where they are not there, nothing is compared.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;
use syscollect_tests::etl;

use super::Files;
use super::firefox::ProfilerCli;
use super::perfetto::SAMPLES;
use crate::engine::Engine;
use crate::process::{on_all_cpus, output_of};

/// Traces that hold something that is shown.
const TRACES: [&str; 4] = [etl::SYNTHETIC, etl::PERFVIEW, etl::GPUVIS, etl::AIRBUS];

/// Kinds of events as `info` names them, and how they are found in Perfetto.
const KINDS: [(&str, &str); 9] = [
    ("switch", "select count(*) from sched"),
    ("waking", "select count(*) from ftrace_event where name = 'sched_waking'"),
    ("dpc", ON_TRACKS_OF_CPUS),
    ("isr", ON_TRACKS_OF_CPUS),
    (
        "disk-io",
        "select count(*) from slice join track on track.id = track_id where track.name glob 'Disk \
         *'",
    ),
    (
        "hard-fault",
        "select count(*) from slice join track on track.id = track_id where track.name = 'Hard \
         faults'",
    ),
    (
        "gpu-job",
        "select count(*) from slice join track on track.id = track_id where track.name in (QUEUES)",
    ),
    (
        "vsync",
        "select count(*) from slice join track on track.id = track_id where track.name glob '* \
         VSync'",
    ),
    ("thread-end", "select count(*) from thread where end_ts is not null"),
];
const ON_TRACKS_OF_CPUS: &str = "select count(*) from slice join track on track.id = track_id \
    join track as group_of on group_of.id = track.parent_id where group_of.name = upper('KIND')";

/// What `info` and `report` say of a trace.
struct CountedByProgram {
    kinds: BTreeMap<String, u64>,
    lost: u64,
    /// Jobs of GPUs by their queue.
    queues: BTreeMap<String, u64>,
}

impl CountedByProgram {
    fn of(files: &Files) -> Result<Self> {
        let info: Value =
            serde_json::from_slice(&output_of(files.command("info").arg("--json"))?.stdout)?;
        let report: Value =
            serde_json::from_slice(&output_of(files.command("report").arg("--json"))?.stdout)?;
        let kinds = info["events_by_type"].as_object().context("info tells no events by type")?;
        let kinds = kinds
            .iter()
            .filter_map(|(kind, count)| Some((kind.clone(), count.as_u64()?)))
            .collect();
        let mut queues = BTreeMap::new();
        for row in report["gpu"]["rows"].as_array().context("the report tells nothing of GPUs")? {
            let queue = row["queue"].as_str().context("a queue without a name")?.to_owned();
            *queues.entry(queue).or_default() +=
                row["jobs"].as_u64().context("a queue without jobs")?;
        }
        Ok(Self { kinds, lost: info["lost"].as_u64().context("info tells no losses")?, queues })
    }

    fn count(&self, kind: &str) -> u64 {
        self.kinds.get(kind).copied().unwrap_or(0)
    }
}

/// What came of the traces: how many were compared, and a line for each figure that differs.
#[derive(Default)]
pub(super) struct Compared {
    pub(super) traces: usize,
    pub(super) figures: usize,
    pub(super) wrong: Vec<String>,
}

impl Compared {
    fn figure(&mut self, what: &str, shown: u64, reported: u64) {
        self.figures += 1;
        if shown != reported {
            self.wrong.push(format!("{what}: {shown} shown, {reported} told"));
        }
    }
}

/// Shows every trace, if they are there, in the engines that are there.
pub(super) fn compare() -> Result<Compared> {
    let mut all = Compared::default();
    if syscollect_fixtures::folder().is_none() {
        return Ok(all);
    }
    for compared in on_all_cpus(&TRACES, |name| compare_trace(name)) {
        let Compared { traces, figures, wrong } = compared?;
        all.traces += traces;
        all.figures += figures;
        all.wrong.extend(wrong);
    }
    Ok(all)
}

fn compare_trace(name: &str) -> Result<Compared> {
    let mut compared = Compared { traces: 1, ..Compared::default() };
    let files = Files::named("x.etl", &etl::fixture(name))?;
    let reported = CountedByProgram::of(&files)?;
    if let Ok(engine) = Engine::find() {
        let trace = files.export("pftrace", &[])?;
        perfetto(&engine, &trace, (name, &reported), &mut compared)
            .with_context(|| format!("{name} in Perfetto"))?;
    }
    firefox(&files, (name, &reported), &mut compared)
        .with_context(|| format!("{name} in the Firefox Profiler"))?;
    Ok(compared)
}

fn perfetto(
    engine: &Engine,
    trace: &Path,
    (name, reported): (&str, &CountedByProgram),
    compared: &mut Compared,
) -> Result<()> {
    let queues: Vec<String> =
        reported.queues.keys().map(|queue| format!("'{}'", queue.replace('\'', "''"))).collect();
    let mut queries: Vec<String> = KINDS
        .into_iter()
        .map(|(kind, query)| query.replace("KIND", kind).replace("QUEUES", &queues.join(", ")))
        .collect();
    queries.push(format!("select count(*) from perf_sample where {SAMPLES}"));
    queries
        .push("select coalesce(sum(value), 0) from stats where severity = 'data_loss'".to_owned());
    queries.push(
        "select track.name, count(*) from slice join track on track.id = track_id \
                  where track.name glob 'GPU *' group by 1"
            .to_owned(),
    );
    let queries: Vec<&str> = queries.iter().map(String::as_str).collect();
    let tables = engine.query(trace, &queries)?;
    let told_counts = KINDS.map(|(kind, _)| (kind, reported.count(kind)));
    let told_counts = told_counts
        .into_iter()
        .chain([("sample", reported.count("sample")), ("lost", reported.lost)]);
    for ((kind, reported), rows) in told_counts.zip(&tables) {
        let shown = rows.first().and_then(|row| row.first()).context("no row")?.parse()?;
        compared.figure(&format!("{name}: Perfetto: {kind}"), shown, reported);
    }
    let shown: BTreeMap<&str, u64> = tables
        .last()
        .into_iter()
        .flatten()
        .map(|row| {
            Ok((row.first().context("no name")?.as_str(), row.get(1).context("no count")?.parse()?))
        })
        .collect::<Result<_>>()?;
    for (queue, jobs) in &reported.queues {
        compared.figure(
            &format!("{name}: Perfetto: jobs of {queue}"),
            shown.get(&**queue).copied().unwrap_or(0),
            *jobs,
        );
    }
    compared.wrong.extend(
        engine.errors(trace)?.into_iter().map(|error| format!("{name}: Perfetto: {error}")),
    );
    Ok(())
}

/// Samples and wakeups are summed over the profile's threads.
fn firefox(
    files: &Files,
    (name, reported): (&str, &CountedByProgram),
    compared: &mut Compared,
) -> Result<()> {
    let Ok(profile) = ProfilerCli::load(&files.export("json.gz", &["--sched-markers"])?) else {
        return Ok(());
    };
    // The engine is asked thread by thread, so only for what is there.
    if reported.count("sample") > 0 {
        compared.figure(
            &format!("{name}: Firefox: sample"),
            profile.samples()?,
            reported.count("sample"),
        );
    }
    if reported.count("waking") > 0 {
        compared.figure(
            &format!("{name}: Firefox: waking"),
            profile.wakeups()?,
            reported.count("waking"),
        );
    }
    Ok(())
}
