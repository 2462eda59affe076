//! `syscollect info`: what a capture holds, and what it lost.

use crate::confine;
use crate::cost;
use crate::escape::{print, print_json, printable};
use crate::kept_files::{self, UnkeptFiles};
use crate::lost::loss_text;
use crate::source::{self, Source};
use crate::summary::stopped_early;
use crate::terminal::{Style, Terminal};
use crate::time_range::beginning;
use anyhow::{Result, bail};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use syscollect_etl::session::Facts;
use syscollect_exporters::OverwrittenTime;
use syscollect_model::{
    CalendarTime, ClockSource, CpuClock, Event, Exporter, Loss, LossCause, LossOrigin,
    OperatingSystem, RecorderSummary, SampleEvent, Shortfall, SnapshotMark, StackOrigin, Tables,
    Time, bytes, duration, grouped, items_of_own_programs, own_items_text, records_overwritten,
};
use syscollect_playback::{EventType, Played, Recording};
use syscollect_store::KeptFile;

const EXAMPLES: &str = "\
Examples:
  syscollect info x.syscap
  syscollect info x.syscap.partial               what a killed recording left
  syscollect info kernel.etl user.etl            a Windows recording
  syscollect info x.syscap --json | jq .events_by_type

JSON: schema_version, records (everything decoded), events (occurrences),
events_by_type, lost, overwritten (as --overwrite asks),
overwritten_ns (of which time they left nothing), losses [{lane, cpu, cause,
user (whose programs' they are, where that is known), count}],
missing_stacks (events that lack their stack or a part of it),
untold_gaps (how often a CPU ran something else than its events say), cpus, duration_ns,
first_unix_ns (the wall clock at the first event, nanoseconds since 1970),
clock {source, tick_rate_hz, cpus [{cpu, error_bound_ns, method}]},
kept_files [{path, build_id, bytes, stored, reason (why it was not kept)}] (of
--bundle), unmatched_ends (of zones of probes) and unshown_failures (of GPUs), where there
are any, windows {version, sessions, events [{provider, id, name, count}]} (of
.etl files), recording.snapshot {reason, trigger, tid, from_ns (where its mark is, as --from
counts), unix_ns}, and more.";

/// The arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The capture, or all .etl files of one Windows recording
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// List every kind of event of a Windows trace, not only the 20 most frequent; JSON has them
    /// all anyway
    #[arg(long)]
    all: bool,
}

/// Kinds of events of a Windows trace that people are shown.
const PROVIDER_EVENTS: usize = 20;

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
    #[serde(serialize_with = "by_name")]
    events_by_type: BTreeMap<EventType, u64>,
    missing_stacks: u64,
    /// Ends of zones of probes whose beginning was not seen; absent where there is none.
    #[serde(skip_serializing_if = "is_zero")]
    unmatched_ends: u64,
    /// Failures of GPUs' work that no job shows; absent where there is none.
    #[serde(skip_serializing_if = "is_zero")]
    unshown_failures: u64,
    /// Records that are missing, but for those that were to be overwritten.
    lost: u64,
    /// Records that gave way to newer ones, as `--overwrite` asks.
    overwritten: u64,
    /// How long the beginning of the recording was of which these left nothing; absent where there
    /// is none.
    #[serde(skip_serializing_if = "is_zero")]
    overwritten_ns: u64,
    #[serde(serialize_with = "loss_rows")]
    losses: Vec<Loss>,
    /// How often a CPU ran something else than its events say: some are missing, and no loss tells
    /// of them.
    untold_gaps: u64,
    cpus: usize,
    duration_ns: u64,
    /// When the first event was by the machine's wall clock, nanoseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_unix_ns: Option<u64>,
    clock: ClockReport,
    machine: MachineReport,
    recording: RecordingReport,
    /// Files of code that the capture was asked to keep parts of.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    kept_files: Vec<KeptFile>,
    #[serde(skip_serializing_if = "Option::is_none")]
    recorder: Option<RecorderSummary>,
    #[serde(skip_serializing_if = "Option::is_none")]
    windows: Option<WindowsReport>,
}

/// Finds out which part of the recording there are events of.
#[derive(Debug)]
struct EventSpan {
    began: Time,
    overwritten: OverwrittenTime,
    overwritten_ns: u64,
}

impl Exporter for EventSpan {
    type Error = Infallible;

    fn event(&mut self, time: Time, event: &Event, _: &Tables) -> Result<(), Infallible> {
        if self.overwritten.ends_with(event) {
            self.overwritten_ns = time.0.saturating_sub(self.began.0);
        }
        Ok(())
    }
}

/// What only Windows traces have.
#[derive(Debug, Serialize)]
struct WindowsReport {
    version: String,
    /// The sessions that wrote the files.
    sessions: Vec<String>,
    /// Stack records, and how many of them belong to an event.
    stacks: u64,
    stacks_matched: u64,
    events: Vec<WindowsEvents>,
}

/// How often a provider wrote an event.
#[derive(Debug, Serialize)]
struct WindowsEvents {
    provider: String,
    id: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    count: u64,
}

#[derive(Debug, Serialize)]
struct LossReport {
    #[serde(rename = "lane")]
    origin: LossOrigin,
    cpu: Option<u32>,
    cause: &'static str,
    /// Whose programs wrote what was lost; absent where that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<u32>,
    count: u64,
}

fn loss_rows<S: serde::Serializer>(losses: &[Loss], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(losses.iter().map(LossReport::of))
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
    os: OperatingSystem,
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
    sample_event: SampleEvent,
    stacks: Vec<StackOrigin>,
    filter_pids: Vec<u32>,
    /// Why it was taken, of a snapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshot: Option<SnapshotReport>,
    notes: Vec<String>,
}

#[derive(Debug, Serialize)]
struct SnapshotReport {
    #[serde(flatten)]
    mark: SnapshotMark,
    /// Where its mark is, as `--from` counts.
    from_ns: u64,
    /// The same by the machine's wall clock, nanoseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    unix_ns: Option<u64>,
}

impl SnapshotReport {
    fn of(session: &Source) -> Option<Self> {
        let mark = session.info().snapshot.clone()?;
        let time = session.clock().time(mark.at);
        let from_ns = time.0.saturating_sub(beginning(session).0);
        Some(Self { mark, from_ns, unix_ns: session.info().wall_clock(time) })
    }

    /// Why it was taken, and where that is on the timeline.
    fn lines(&self) -> Vec<String> {
        let SnapshotMark { reason, trigger, .. } = &self.mark;
        let of = match trigger.is_empty() {
            true => "of a recording that went on".to_owned(),
            false => format!("of a recording that went on, by trigger {trigger}"),
        };
        let words = if reason.is_empty() { of } else { format!("{of}: {reason}") };
        let at = self.from_ns as f64 / 1e9;
        let mut place = format!("marked {at:.3} s from the beginning, as --from and --to count");
        if let Some(unix) = self.unix_ns {
            let time = CalendarTime::of_unix(unix / 1_000_000_000);
            place.push_str(&format!(" ({time} UTC)"));
        }
        vec![words, place]
    }
}

/// Files without an unwind table that are shown.
const REFUSED: usize = 8;

/// Runs the sub-command.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    confine::to_reading(false);
    let report = Report::of(&args.files)?;
    let style = Terminal::stdout().style();
    let rows = if args.all { usize::MAX } else { PROVIDER_EVENTS };
    match args.json {
        true => print_json(&serde_json::to_string_pretty(&report)?)?,
        false => print(&report.text(style, rows), style)?,
    }
    Ok(ExitCode::SUCCESS)
}

impl Report {
    fn of(files: &[PathBuf]) -> Result<Self> {
        let mut session = Source::open(files)?;
        let files: Vec<PathBuf> = files.iter().map(|path| source::file_read(path)).collect();
        let bytes = files.iter().filter_map(|path| Some(std::fs::metadata(path).ok()?.len())).sum();
        if session.machines() > 1 {
            bail!(
                "info tells of one recording: name one capture, or ask `syscollect report` of all"
            );
        }
        let (began, overwritten) = (beginning(&session), OverwrittenTime::default());
        let mut span = EventSpan { began, overwritten, overwritten_ns: 0 };
        let Ok(played) = session.play(&mut span);
        let mut report = Self::new(source::names(&files), bytes, &session, played);
        if report.recorder.is_none() {
            let whole = report.duration_ns.saturating_add(span.overwritten_ns);
            report.duration_ns = whole;
        }
        Ok(Self { overwritten_ns: span.overwritten_ns.min(report.duration_ns), ..report })
    }

    fn new(file: String, bytes: u64, session: &Source, played: Played) -> Self {
        let info = session.info();
        let span = played.last.zip(played.first).map_or(0, |(last, first)| last.0 - first.0);
        Self {
            schema_version: SCHEMA_VERSION,
            file,
            bytes,
            complete: session.is_complete(),
            records: played.records,
            events: played.events,
            events_by_type: played.events_by_type,
            missing_stacks: played.missing_stacks,
            unmatched_ends: played.unmatched_ends,
            unshown_failures: played.unshown_failures,
            lost: played.lost,
            overwritten: records_overwritten(session.losses()),
            losses: session.losses().to_vec(),
            overwritten_ns: 0,
            untold_gaps: played.unreported_gaps,
            cpus: info.cpus.len(),
            duration_ns: session.summary().map_or(span, |summary| summary.duration_ns),
            first_unix_ns: played.first.and_then(|first| info.wall_clock(first)),
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
                snapshot: SnapshotReport::of(session),
                notes: info.notes.clone(),
            },
            kept_files: session.kept_files(),
            recorder: session.summary().cloned(),
            windows: session.windows().map(WindowsReport::of),
        }
    }

    fn duration_text(&self) -> String {
        match self.overwritten_ns {
            0 => duration(self.duration_ns),
            gone => {
                let kept = duration(self.duration_ns.saturating_sub(gone));
                format!("{kept}, the end of {}", duration(self.duration_ns))
            }
        }
    }

    /// For people; of a Windows trace so many kinds of events.
    fn text(&self, style: Style, kinds: usize) -> String {
        let mut text = String::new();
        let cut = if self.complete { "" } else { ", of a recording that was cut off" };
        add_line(&mut text, "Capture", format!("{}, {}{cut}", self.file, bytes(self.bytes)));
        match &self.windows {
            Some(windows) => add_line(&mut text, "Sessions", windows.sessions.join(", ")),
            None => add_line(
                &mut text,
                "Recorder",
                format!("{}: {}", self.recording.recorder, self.recording.command.join(" ")),
            ),
        }
        let lines = self.recording.snapshot.iter().flat_map(SnapshotReport::lines);
        for (index, line) in lines.enumerate() {
            add_line(&mut text, if index == 0 { "Snapshot" } else { "" }, line);
        }
        add_line(&mut text, "Machine", self.machine_text());
        add_line(&mut text, "Duration", self.duration_text());
        if let Some(first) = self.first_unix_ns {
            let held = CalendarTime::of_unix(first / 1_000_000_000);
            let what = match self.overwritten_ns {
                0 => "where the first event is",
                _ => "what it holds; before that only who lived",
            };
            add_line(&mut text, "From", format!("{held} UTC, {what}"));
        }
        let stopped = self.recorder.as_ref().and_then(|recorder| stopped_early(recorder, None));
        stopped.into_iter().for_each(|stopped| add_line(&mut text, "", stopped));
        add_line(
            &mut text,
            "Events",
            format!("{} ({} records in all)", grouped(self.events), grouped(self.records)),
        );
        for (name, count) in &self.events_by_type {
            add_line(&mut text, "", format!("{:>13} {name}", grouped(*count)));
        }
        add_line(&mut text, "Samples", self.sampling());
        add_line(&mut text, "Clock", self.clock.text());
        if let Some(recorder) = &self.recorder {
            add_line(&mut text, "Cost", recorder_cost(recorder));
            if let Some(around) = cost::around(&recorder.costs) {
                add_line(&mut text, "", around);
            }
            for missing in &recorder.missing {
                add_line(&mut text, "Without", missing.clone());
            }
        }
        let reported = self.recorder.as_ref().map_or(&[][..], |recorder| &recorder.missing);
        for note in self.recording.notes.iter().filter(|note| !reported.contains(note)) {
            add_line(&mut text, "Note", note.clone());
        }
        if let Some(recorder) = &self.recorder {
            for refused in refused_lines(recorder) {
                add_line(&mut text, "Without", refused);
            }
        }
        if !self.kept_files.is_empty() {
            add_line(&mut text, "Kept", kept_files::size_of_files(&self.kept_files));
            let not_kept = UnkeptFiles::of(&self.kept_files).lines(None);
            not_kept.into_iter().for_each(|not_kept| add_line(&mut text, "", not_kept));
        }
        if self.unmatched_ends > 0 {
            let zones = if self.unmatched_ends == 1 { "zone" } else { "zones" };
            let count = grouped(self.unmatched_ends);
            add_line(
                &mut text,
                "Probes",
                format!(
                    "{count} {zones} of probes ended without a beginning: before the recording, or \
                     lost"
                ),
            );
        }
        if self.unshown_failures > 0 {
            let failures = if self.unshown_failures == 1 { "failure" } else { "failures" };
            let count = grouped(self.unshown_failures);
            add_line(
                &mut text,
                "GPU",
                format!(
                    "{count} {failures} of work that is not known, or that was told to have ended \
                     before"
                ),
            );
        }
        if let Some(windows) = self.windows.as_ref().filter(|windows| windows.stacks > 0) {
            add_line(
                &mut text,
                "Stacks",
                format!(
                    "{} records, {} of them of an event",
                    grouped(windows.stacks),
                    grouped(windows.stacks_matched)
                ),
            );
        }
        if let Some(windows) = &self.windows {
            for (index, event) in windows.events.iter().take(kinds).enumerate() {
                add_line(&mut text, if index == 0 { "Records" } else { "" }, event.text());
            }
            if let Some(more) = windows.events.len().checked_sub(kinds).filter(|more| *more > 0) {
                add_line(
                    &mut text,
                    "",
                    format!("and {more} more kinds of events: --all lists them, --json has them"),
                );
            }
        }
        text + &self.losses_text(style)
    }

    /// What is known of the machine; Windows traces may tell little.
    fn machine_text(&self) -> String {
        let MachineReport { hostname, kernel_release, cpu_model, memory_bytes, .. } = &self.machine;
        let system = match &self.windows {
            Some(windows) => windows.version.clone(),
            None => format!("Linux {kernel_release}"),
        };
        let model = if cpu_model.is_empty() { String::new() } else { format!(" ({cpu_model})") };
        let memory = if *memory_bytes == 0 { String::new() } else { bytes(*memory_bytes) };
        let parts = [hostname.clone(), system, format!("{} CPUs{model}", self.cpus), memory];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
    }

    fn sampling(&self) -> String {
        let stacks = match self.recording.stacks.as_slice() {
            [] => "none".to_owned(),
            stacks => stacks.iter().map(StackOrigin::name).collect::<Vec<_>>().join(", "),
        };
        match self.recording.sample_rate_hz {
            // A Windows trace may hold samples and not say how often they were taken.
            0 if self.events_by_type.contains_key(&EventType::Sample) => {
                format!("at a rate that is not told; stacks: {stacks}")
            }
            0 => format!("none; stacks: {stacks}"),
            rate => format!("{rate} a second by {}; stacks: {stacks}", self.recording.sample_event),
        }
    }

    fn losses_text(&self, style: Style) -> String {
        let mut text = match self.overwritten {
            0 => String::new(),
            count => {
                format!("{:<10} {} older events, as asked\n", "Not kept", grouped(count))
            }
        };
        let shortfall = Shortfall { gaps: self.untold_gaps, stacks: self.missing_stacks };
        if self.lost == 0 {
            // What a logger of Windows had not yet written when its file was copied, nobody knows.
            let nothing = match self.windows.is_some() && !self.complete {
                true => format!(
                    "{} of what is in the file; what came after is not known",
                    shortfall.instead_of_losses()
                ),
                false if shortfall == Shortfall::default() => style.good("nothing"),
                false => shortfall.instead_of_losses(),
            };
            let _ = writeln!(text, "{:<10} {nothing}", "Lost");
            return text;
        }
        let own_items = items_of_own_programs(&self.losses);
        let lost = match (self.lost.saturating_sub(own_items), own_items) {
            (others, 0) => grouped(others),
            (0, own) => own_items_text(own),
            (others, own) => format!("{} and {}", grouped(others), own_items_text(own)),
        };
        let lost = style.alarm(&format!("*** {lost} ***"));
        let _ = writeln!(text, "{:<10} {lost}", "Lost");
        for loss in self.losses.iter().filter(|loss| loss.cause != LossCause::Overwritten) {
            let _ = writeln!(text, "{:<10} {}", "", printable(&loss_text(loss)));
        }
        for line in shortfall.beside_losses() {
            let _ = writeln!(text, "{:<10} {line}", "");
        }
        text
    }
}

impl WindowsReport {
    fn of(facts: &Facts) -> Self {
        let mut events: Vec<_> = facts
            .events
            .iter()
            .map(|event| WindowsEvents {
                provider: event.provider.clone(),
                id: event.id,
                name: event.name.clone(),
                count: event.count,
            })
            .collect();
        events.sort_by(|a, b| {
            b.count.cmp(&a.count).then_with(|| (&a.provider, a.id).cmp(&(&b.provider, b.id)))
        });
        Self {
            version: facts.windows.clone(),
            sessions: facts.sessions.clone(),
            stacks: facts.stacks.records,
            stacks_matched: facts.stacks.matched,
            events,
        }
    }
}

impl WindowsEvents {
    fn text(&self) -> String {
        let name = self.name.as_ref().map_or_else(String::new, |name| format!(" {name}"));
        format!("{:>13} {} {}{name}", grouped(self.count), self.provider, self.id)
    }
}

impl LossReport {
    fn of(loss: &Loss) -> Self {
        Self {
            origin: loss.origin.clone(),
            cpu: loss.cpu.map(|cpu| cpu.number),
            cause: loss.cause.name(),
            user: loss.user,
            count: loss.count,
        }
    }
}

impl ClockReport {
    fn text(&self) -> String {
        let source = match self.source {
            ClockSource::Tsc => "invariant TSC",
            ClockSource::Monotonic => "CLOCK_MONOTONIC",
            ClockSource::Qpc => "QueryPerformanceCounter",
            ClockSource::SystemTime => "system time, in steps of its timer",
        };
        let worst = self.cpus.iter().map(|clock| clock.error_bound_ns).reduce(f64::max);
        let bound = worst.map_or(String::new(), |bound| format!(", off by at most {bound:.0} ns"));
        let rate = match self.tick_rate_hz {
            hz if hz < 1e9 => format!("{:.6} MHz", hz / 1e6),
            hz => format!("{:.6} GHz", hz / 1e9),
        };
        format!("{source}, {rate}{bound}")
    }
}

/// Counts under the names of what they count.
fn by_name<S: Serializer>(
    counts: &BTreeMap<EventType, u64>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(counts.iter().map(|(kind, count)| (kind.name(), count)))
}

/// Serde asks for this shape.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Files and lists of code that were refused, a line each.
fn refused_lines(recorder: &RecorderSummary) -> Vec<String> {
    let RecorderSummary { refused_tables, refused_lists, .. } = recorder;
    let tables = refused_tables.iter().take(REFUSED);
    let mut lines: Vec<String> =
        tables.map(|file| format!("unwind table of {}: {}", file.path, file.reason)).collect();
    let others = refused_tables.len().saturating_sub(REFUSED);
    if others > 0 {
        lines.push(format!("unwind tables of {others} other files: --json has them"));
    }
    lines.extend(refused_lists.iter().cloned());
    lines
}

fn recorder_cost(recorder: &RecorderSummary) -> String {
    let programs = recorder
        .kernel_program_ns
        .map_or(String::new(), |time| format!(", kernel programs {} of CPU time", duration(time)));
    format!("recorder {}{programs}", cost::recording(recorder))
}

/// Writing to a String never fails.
fn add_line(text: &mut String, name: &str, value: String) {
    let _ = writeln!(text, "{name:<10} {}", printable(&value));
}
