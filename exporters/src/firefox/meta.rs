//! What is said of the machine and of the recording as a whole.

use super::markers::schemas;
use super::tables::{Shared, categories};
use super::{Config, VERSION};
use rustc_hash::FxHashSet;
use serde_json::{Value, json};
use syscollect_model::{ClockSource, Loss, LossCause, RecorderSummary, SessionInfo, Time};

/// The times that the file begins and ends at, nanoseconds of the session.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ProfileSpan {
    pub(super) origin: u64,
    /// Where what is shown begins.
    pub(super) begin: u64,
    pub(super) end: u64,
}

/// Milliseconds, the unit of all times in the format.
pub(super) fn milliseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e6
}

/// `kinds` are the schemas of the markers that programs brought.
pub(super) fn meta(
    config: &Config,
    span: ProfileSpan,
    (losses, summary): (&[Loss], Option<&RecorderSummary>),
    kinds: Vec<Value>,
    shared: &Shared,
) -> Value {
    let session = &config.session;
    let cores: FxHashSet<(u32, u32)> =
        session.cpus.iter().map(|cpu| (cpu.package, cpu.core)).collect();
    let product = if session.hostname.is_empty() { "machine" } else { &session.hostname };
    let system = format!("{} {} {}", session.os, session.kernel_release, session.machine);
    let mut meta = json!({
        "interval": milliseconds(config.interval),
        "startTime": start_time(session, span.origin),
        "profilingStartTime": milliseconds(span.begin - span.origin),
        // The viewer leaves out what lies at the end itself, so the end is an interval later, as
        // where it is not told.
        "profilingEndTime": milliseconds((span.end - span.origin).saturating_add(config.interval)),
        "processType": 0,
        "extensions": {"length": 0, "baseURL": [], "id": [], "name": []},
        "categories": categories(&shared.categories),
        "product": product,
        "importedFrom": session.recorder,
        "stackwalk": 1,
        "debug": false,
        "version": 24,
        "preprocessedProfileVersion": VERSION,
        "oscpu": system,
        "abi": session.machine,
        "arguments": session.recorder_command.join(" "),
        "CPUName": session.cpu_model,
        "symbolicated": true,
        "symbolicationNotSupported": true,
        "markerSchema": schemas().into_iter().chain(kinds).collect::<Vec<_>>(),
        "sampleUnits": {"time": "ms", "eventDelay": "ms", "threadCPUDelta": "ns"},
        "usesOnlyOneStackType": true,
        "sourceCodeIsNotOnSearchfox": true,
        "extra": extra(session, losses, summary),
    });
    // Unknown is said by leaving it out.
    if !session.cpus.is_empty() {
        meta["logicalCPUs"] = json!(session.cpus.len());
        meta["physicalCPUs"] = json!(cores.len());
    }
    if session.memory_bytes > 0 {
        meta["mainMemory"] = json!(session.memory_bytes);
    }
    meta
}

/// Milliseconds since 1970 at `origin`; 0 where the clocks were not read.
fn start_time(session: &SessionInfo, origin: u64) -> f64 {
    session.wall_clock(Time(origin)).map_or(0.0, |nanoseconds| nanoseconds as f64 / 1e6)
}

/// The rows of the viewer's panel about the profile, by section.
fn extra(session: &SessionInfo, losses: &[Loss], summary: Option<&RecorderSummary>) -> Vec<Value> {
    let mut sections = vec![section("Recording", recording(session))];
    for (label, overwritten) in [("Lost records", false), ("Older events, not kept as asked", true)]
    {
        let rows: Vec<Value> = losses
            .iter()
            .filter(|loss| loss.count > 0 && (loss.cause == LossCause::Overwritten) == overwritten)
            .map(|loss| row(&loss_label(loss), "integer", json!(loss.count)))
            .collect();
        if !rows.is_empty() {
            sections.push(section(label, rows));
        }
    }
    if let Some(summary) = summary {
        sections.push(section("Recorder", recorder(summary)));
    }
    sections
}

fn section(label: &str, entries: Vec<Value>) -> Value {
    json!({"label": label, "entries": entries})
}

fn row(label: &str, format: &str, value: Value) -> Value {
    json!({"label": label, "format": format, "value": value})
}

fn loss_label(loss: &Loss) -> String {
    let cpu = loss.cpu.map_or_else(String::new, |cpu| format!(" of {}", cpu.label()));
    format!("{}{cpu}: {}", loss.origin.name(), loss.cause.name())
}

fn recording(session: &SessionInfo) -> Vec<Value> {
    let clock = match session.clock_source {
        ClockSource::Tsc => "time stamp counter",
        ClockSource::Monotonic => "CLOCK_MONOTONIC",
        ClockSource::Qpc => "QueryPerformanceCounter",
        ClockSource::SystemTime => "system time, in steps of its timer",
    };
    let bound = session.clocks.iter().map(|clock| clock.error_bound_ns).fold(0.0, f64::max).ceil();
    let labeled = [
        ("Kernel", session.kernel_version.clone()),
        ("Kernel build id", session.kernel_build_id.clone()),
        ("Boot id", session.boot_id.clone()),
        ("Sampled event", session.sample_event.to_string()),
        ("Stacks", session.stack_names().join(", ")),
        ("Clock", clock.to_owned()),
        ("Notes", session.notes.join("; ")),
    ];
    let labeled = labeled.into_iter().filter(|(_, text)| !text.is_empty());
    let mut rows: Vec<Value> =
        labeled.map(|(label, text)| row(label, "string", json!(text))).collect();
    rows.push(row("Sampling rate asked for, Hz", "integer", json!(session.sample_rate_hz)));
    rows.push(row("Clock error bound", "nanoseconds", json!(bound)));
    rows
}

fn recorder(summary: &RecorderSummary) -> Vec<Value> {
    let mut rows = vec![
        row("Stopped by", "string", json!(summary.stop_reason)),
        row("Duration", "milliseconds", json!(milliseconds(summary.duration_ns))),
        row("CPU time", "milliseconds", json!(milliseconds(summary.recorder_cpu_ns))),
        row("Peak memory", "bytes", json!(summary.recorder_peak_bytes)),
    ];
    if let Some(time) = summary.kernel_program_ns {
        rows.push(row(
            "Run time of the kernel programs",
            "milliseconds",
            json!(milliseconds(time)),
        ));
    }
    if !summary.missing.is_empty() {
        rows.push(row("Missing on this machine", "string", json!(summary.missing.join("; "))));
    }
    rows
}
