//! `syscollect info`: what a capture holds, and what it lost.

use crate::convert::Nowhere;
use crate::summary::{cpu_time, loss_text};
use crate::terminal::{Style, Terminal, bytes, duration, grouped, printable};
use anyhow::{Context, Result};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use syscollect_merge::Session;
use syscollect_model::{ClockSource, CpuClock, Loss, LossCause, RecorderSummary};
use syscollect_playback::{Played, Recording};
use syscollect_store::CaptureReader;

const EXAMPLES: &str = "\
Examples:
  syscollect info x.syscap
  syscollect info x.syscap.partial               what a killed recording left
  syscollect info x.syscap --json | jq .events_by_type

JSON: schema_version, records (everything decoded), events (occurrences),
events_by_type, lost, losses [{lane, cpu, cause, count}], cpus, duration_ns,
clock {source, tick_rate_hz, cpus [{cpu, error_bound_ns, method}]},
unmatched_ends (of zones of probes, where there are any), and more.";

/// The arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The capture
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The version of the JSON; it grows when a field changes its meaning.
const SCHEMA_VERSION: u32 = 1;

/// What is said of a capture; its JSON is a contract (`--help`).
#[derive(Debug, Serialize)]
struct Report {
    schema_version: u32,
    file: String,
    bytes: u64,
    /// Whether the recording came to its end.
    complete: bool,
    records: u64,
    events: u64,
    events_by_type: BTreeMap<String, u64>,
    missing_stacks: u64,
    /// Ends of zones of probes whose beginning was not seen; absent where there is none.
    #[serde(skip_serializing_if = "is_zero")]
    unmatched_ends: u64,
    lost: u64,
    losses: Vec<LossReport>,
    cpus: usize,
    duration_ns: u64,
    clock: ClockReport,
    machine: MachineReport,
    recording: RecordingReport,
    #[serde(skip_serializing_if = "Option::is_none")]
    recorder: Option<RecorderSummary>,
}

#[derive(Debug, Serialize)]
struct LossReport {
    lane: String,
    cpu: Option<u32>,
    cause: &'static str,
    count: u64,
}

#[derive(Debug, Serialize)]
struct ClockReport {
    source: ClockSource,
    tick_rate_hz: f64,
    /// How far a stamp may be from the true time, for each CPU.
    cpus: Vec<CpuClock>,
}

#[derive(Debug, Serialize)]
struct MachineReport {
    hostname: String,
    os: String,
    kernel_release: String,
    architecture: String,
    cpu_model: String,
    memory_bytes: u64,
    boot_id: String,
}

#[derive(Debug, Serialize)]
struct RecordingReport {
    recorder: String,
    command: Vec<String>,
    sample_rate_hz: u32,
    sample_event: String,
    stacks: Vec<String>,
    filter_pids: Vec<u32>,
    notes: Vec<String>,
}

/// Runs the sub-command.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let report = Report::of(&args.file)?;
    let text = match args.json {
        true => serde_json::to_string_pretty(&report)? + "\n",
        false => report.text(Terminal::stdout().style()),
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

impl Report {
    fn of(path: &Path) -> Result<Self> {
        let bytes = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
        let reader = CaptureReader::open(path)?;
        let mut session =
            Session::open(reader).with_context(|| format!("nothing in {} can be read", path.display()))?;
        let Ok(played) = session.play(&mut Nowhere);
        Ok(Self::new(path, bytes, &session, played))
    }

    fn new(path: &Path, bytes: u64, session: &Session, played: Played) -> Self {
        let info = session.info();
        let span = played.last.zip(played.first).map_or(0, |(last, first)| last.0 - first.0);
        let losses = session.losses().iter().map(LossReport::of).collect();
        Self {
            schema_version: SCHEMA_VERSION,
            file: path.display().to_string(),
            bytes,
            complete: session.is_complete(),
            records: played.records,
            events: played.events,
            events_by_type: played.events_by_type,
            missing_stacks: played.missing_stacks,
            unmatched_ends: played.unmatched_ends,
            lost: played.lost,
            losses,
            cpus: info.cpus.len(),
            duration_ns: session.summary().map_or(span, |summary| summary.duration_ns),
            clock: ClockReport {
                source: info.clock_source,
                tick_rate_hz: session.clock().ticks_per_second(),
                cpus: info.clocks.clone(),
            },
            machine: MachineReport {
                hostname: info.hostname.clone(),
                os: info.os.clone(),
                kernel_release: info.kernel_release.clone(),
                architecture: info.machine.clone(),
                cpu_model: info.cpu_model.clone(),
                memory_bytes: info.memory_bytes,
                boot_id: info.boot_id.clone(),
            },
            recording: RecordingReport {
                recorder: info.recorder.clone(),
                command: info.recorder_command.clone(),
                sample_rate_hz: info.sample_rate_hz,
                sample_event: info.sample_event.clone(),
                stacks: info.stacks.clone(),
                filter_pids: info.filter_pids.clone(),
                notes: info.notes.clone(),
            },
            recorder: session.summary().cloned(),
        }
    }

    /// For people.
    fn text(&self, style: Style) -> String {
        let mut text = String::new();
        // Writing to a String never fails.
        let mut line = |name: &str, value: String| {
            let _ = writeln!(text, "{name:<10} {}", printable(&value));
        };
        let cut = if self.complete { "" } else { ", of a recording that was cut off" };
        line("Capture", format!("{}, {}{cut}", self.file, bytes(self.bytes)));
        line("Recorder", format!("{}: {}", self.recording.recorder, self.recording.command.join(" ")));
        let MachineReport { hostname, kernel_release, cpu_model, memory_bytes, .. } = &self.machine;
        line(
            "Machine",
            format!("{hostname}, Linux {kernel_release}, {} CPUs ({cpu_model}), {}", self.cpus, bytes(*memory_bytes)),
        );
        line("Duration", duration(self.duration_ns));
        line("Events", format!("{} ({} records in all)", grouped(self.events), grouped(self.records)));
        for (name, count) in &self.events_by_type {
            line("", format!("{:>13} {name}", grouped(*count)));
        }
        line("Samples", self.sampling());
        line("Clock", self.clock.text());
        if let Some(recorder) = &self.recorder {
            line("Cost", cost(recorder));
            for missing in &recorder.missing {
                line("Without", missing.clone());
            }
        }
        let told = self.recorder.as_ref().map_or(&[][..], |recorder| &recorder.missing);
        for note in self.recording.notes.iter().filter(|note| !told.contains(note)) {
            line("Note", note.clone());
        }
        if self.missing_stacks > 0 {
            line("Stacks", format!("{} events lack their stack", grouped(self.missing_stacks)));
        }
        if self.unmatched_ends > 0 {
            let zones = if self.unmatched_ends == 1 { "zone" } else { "zones" };
            let count = grouped(self.unmatched_ends);
            line(
                "Probes",
                format!("{count} {zones} of probes ended without a beginning: before the recording, or lost"),
            );
        }
        text + &self.losses_text(style)
    }

    fn sampling(&self) -> String {
        let stacks = match self.recording.stacks.as_slice() {
            [] => "none".to_owned(),
            stacks => stacks.join(", "),
        };
        match self.recording.sample_rate_hz {
            0 => format!("none; stacks: {stacks}"),
            rate => format!("{rate} a second by {}; stacks: {stacks}", self.recording.sample_event),
        }
    }

    fn losses_text(&self, style: Style) -> String {
        let is_asked = |loss: &&LossReport| loss.cause == LossCause::Overwritten.name();
        let overwritten: u64 = self.losses.iter().filter(is_asked).map(|loss| loss.count).sum();
        let mut text = match overwritten {
            0 => String::new(),
            count => format!("{:<10} {} by newer events, as asked\n", "Overwritten", grouped(count)),
        };
        if self.lost <= overwritten {
            let _ = writeln!(text, "{:<10} {}", "Lost", style.good("nothing"));
            return text;
        }
        let lost = style.alarm(&format!("*** {} ***", grouped(self.lost - overwritten)));
        let _ = writeln!(text, "{:<10} {lost}", "Lost");
        for loss in self.losses.iter().filter(|loss| !is_asked(loss)) {
            let _ =
                writeln!(text, "{:<10} {}", "", printable(&loss_text(&loss.lane, loss.cpu, loss.cause, loss.count)));
        }
        text
    }
}

impl LossReport {
    fn of(loss: &Loss) -> Self {
        Self { lane: loss.lane.clone(), cpu: loss.cpu, cause: loss.cause.name(), count: loss.count }
    }
}

impl ClockReport {
    fn text(&self) -> String {
        let source = match self.source {
            ClockSource::Tsc => "invariant TSC",
            ClockSource::Monotonic => "CLOCK_MONOTONIC",
            ClockSource::Qpc => "QueryPerformanceCounter",
        };
        let worst = self.cpus.iter().map(|clock| clock.error_bound_ns).reduce(f64::max);
        let bound = worst.map_or(String::new(), |bound| format!(", off by at most {bound:.0} ns"));
        format!("{source}, {:.6} GHz{bound}", self.tick_rate_hz / 1e9)
    }
}

/// Serde asks for this shape.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn cost(recorder: &RecorderSummary) -> String {
    let programs = recorder
        .kernel_program_ns
        .map_or(String::new(), |time| format!(", kernel programs {} of CPU time", duration(time)));
    format!("recorder {}, {} of memory{programs}", cpu_time(recorder), bytes(recorder.recorder_peak_bytes))
}
