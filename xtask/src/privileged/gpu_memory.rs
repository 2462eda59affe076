//! What a process has of a GPU, as a driver tells it: a module of these tests, whose figures are
//! known.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use syscollect_merge::Session;
use syscollect_model::{Event, Exporter, Loss, RecorderSummary, Scope, Tables, Time, TrackKind};
use syscollect_playback::Recording;
use syscollect_store::CaptureReader;

use super::context::{Context, finish, module_parameter, text};
use crate::report::Outcome;

const MODULE: &str = "syscollect_memory";

/// A shell opens the device, has it twice, hands it to children, and closes it: its memory is exact
/// as long, its engine busy half of the time, and both are 0 in the end; nobody else has anything.
pub(crate) fn memory(context: &Context) -> Result<Outcome> {
    let programs = context.syscollect.parent().context("a program without a folder")?;
    let module = programs.join(format!("{MODULE}.ko"));
    if !module.exists() {
        let why = fs::read_to_string(module.with_extension("why"));
        return Ok(Outcome::NotOffered(
            why.unwrap_or_else(|_| "`cargo xtask vm` builds a module for it".to_owned()),
        ));
    }
    let inserted = finish(Command::new("/sbin/insmod").arg(&module))?;
    ensure!(inserted.status.success(), "insmod: {}", inserted.stderr);
    let counters = record(context);
    finish(Command::new("/sbin/rmmod").arg(MODULE))?;
    let (size, counters) = counters?;
    let bytes = counters.only("GPU memory memory (syscollect_memory)")?;
    let (last, before) = bytes.split_last().context("no values")?;
    let is_size = |value: &f64| (value - size as f64).abs() < 0.5;
    let values = before.iter().filter(|value| is_size(value)).count();
    ensure!(values >= 3 && *last == 0.0, "{bytes:?} are not {size} and then 0: {counters:?}");
    ensure!(before.iter().all(|value| is_size(value) || *value == 0.0), "{bytes:?} are not {size}");
    let used = counters.only("GPU engine test (syscollect_memory)")?;
    let half = used.iter().filter(|percent| (40.0..60.0).contains(*percent)).count();
    ensure!(half >= 2 && used.iter().all(|percent| *percent < 60.0), "{used:?} are not about 50 %");
    Ok(Outcome::Passed(format!(
        "{values} times {size} bytes and {half} times 50 % of an engine, of one process"
    )))
}

/// Bytes of whoever opens the device, and what was recorded.
fn record(context: &Context) -> Result<(u64, CounterValues)> {
    let node = module_parameter(MODULE, "node")?;
    let capture = context.path("memory.syscap");
    let program = format!("exec 8<>/dev/dri/renderD{node} 9<&8; sleep 5; exec 8<&- 9<&-; sleep 3");
    context.succeed(&[
        "record",
        "-o",
        text(&capture)?,
        "--gpu",
        "--",
        "/bin/sh",
        "-c",
        &program,
    ])?;
    let mut counters = CounterValues::default();
    Session::open(CaptureReader::open(&capture)?)?.play(&mut counters)?;
    Ok((module_parameter(MODULE, "size")?, counters))
}

/// Values of counters of processes, by name and process.
#[derive(Debug, Default)]
struct CounterValues {
    values: BTreeMap<(String, u32), Vec<f64>>,
    recorder_notes: Vec<String>,
}

impl CounterValues {
    /// Of a counter that one process has.
    fn only(&self, name: &str) -> Result<&[f64]> {
        let mut found = self.values.iter().filter(|((other, _), _)| other == name);
        let (_, values) = found.next().with_context(|| format!("no counter {name}: {self:?}"))?;
        ensure!(found.next().is_none(), "more than one process has {name}: {self:?}");
        Ok(values)
    }
}

impl Exporter for CounterValues {
    type Error = std::convert::Infallible;

    fn event(&mut self, _: Time, event: &Event, tables: &Tables) -> Result<(), Self::Error> {
        if let Event::Counter(track, value) = event {
            let row = tables.track(*track);
            if let (Scope::Process(process), TrackKind::Counter { .. }) = (row.scope, row.kind) {
                let name = tables.strings.get(row.name).to_owned();
                self.values.entry((name, tables.process(process).pid)).or_default().push(*value);
            }
        }
        Ok(())
    }

    fn end(
        &mut self,
        _: &[Loss],
        recorder: Option<&RecorderSummary>,
        _: &Tables,
    ) -> Result<(), Self::Error> {
        self.recorder_notes
            .extend(recorder.into_iter().flat_map(|recorder| recorder.missing.iter().cloned()));
        Ok(())
    }
}
