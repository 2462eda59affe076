//! What is said once: the machine and its clocks before the events, losses and
//! the recorder's own figures after them.

use super::fields::{attributes, clock_snapshot, cpu_info, packet, system_info, trace_stats};
use super::packets::{BOOTTIME, Sequence};
use super::stream::Stream;
use crate::ExportError;
use crate::proto::Message;
use std::io::Write;
use syscollect_model::{ClockPair, ClockSource, MOST_CPUS, RecorderSummary, SessionInfo, Time};

// Ids of `BuiltinClock`.
const REALTIME: u64 = 1;
const MONOTONIC: u64 = 3;
const MONOTONIC_RAW: u64 = 5;
const TSC: u64 = 9;

/// The distance between clock snapshots, nanoseconds: they are there to be
/// looked at, and every time in the file is in the primary clock already.
const SNAPSHOT_DISTANCE: u64 = 100_000_000;

/// Writes what is known before the first event.
pub(crate) fn write_session<W: Write>(
    stream: &mut Stream<W>,
    sequence: &mut Sequence,
    session: &SessionInfo,
) -> Result<(), ExportError> {
    write_clocks(stream, sequence, session)?;
    stream.packet(|message| {
        sequence.head(message, None);
        message.message(packet::SYSTEM_INFO, |fields| write_system(fields, session));
    })?;
    if !session.cpus.is_empty() {
        stream.packet(|message| {
            sequence.head(message, None);
            message.message(packet::CPU_INFO, |fields| write_cpus(fields, session));
        })?;
    }
    write_attributes(stream, sequence, &session_attributes(session))
}

fn write_system(fields: &mut Message<'_>, session: &SessionInfo) {
    fields.message(system_info::UTSNAME, |fields| {
        fields.string_if(system_info::UTSNAME_SYSNAME, session.os.name());
        fields.string_if(system_info::UTSNAME_VERSION, &session.kernel_version);
        // Viewers decode thread states by the release.
        fields.string_if(system_info::UTSNAME_RELEASE, &session.kernel_release);
        fields.string_if(system_info::UTSNAME_MACHINE, &session.machine);
    });
    fields.string_if(system_info::TRACING_SERVICE_VERSION, &session.recorder);
    fields.uint(system_info::NUM_CPUS, session.cpus.len() as u64);
    if session.memory_bytes > 0 {
        fields.uint(system_info::SYSTEM_RAM_BYTES, session.memory_bytes);
    }
    fields.string_if(system_info::MACHINE_NAME, &session.hostname);
}

/// `CpuInfo` lists CPUs by position, so numbers that are missing get an empty entry.
fn write_cpus(message: &mut Message<'_>, session: &SessionInfo) {
    let count = session.cpus.iter().map(|cpu| cpu.cpu.min(MOST_CPUS - 1) + 1).max().unwrap_or(0);
    for index in 0..count {
        message.message(cpu_info::CPUS, |fields| {
            if let Some(cpu) = session.cpus.iter().find(|cpu| cpu.cpu == index) {
                fields.string_if(cpu_info::PROCESSOR, &session.cpu_model);
                if let Some(kilohertz) = cpu.max_frequency_khz {
                    fields.uint(cpu_info::FREQUENCIES, kilohertz);
                }
            }
        });
    }
}

fn write_clocks<W: Write>(
    stream: &mut Stream<W>,
    sequence: &mut Sequence,
    session: &SessionInfo,
) -> Result<(), ExportError> {
    let mut last: Option<u64> = None;
    for pair in &session.clock_pairs {
        if last.is_some_and(|last| pair.boottime < last.saturating_add(SNAPSHOT_DISTANCE)) {
            continue;
        }
        last = Some(pair.boottime);
        stream.packet(|message| {
            sequence.head(message, Some(Time(pair.boottime)));
            message.message(packet::CLOCK_SNAPSHOT, |fields| {
                write_snapshot(fields, pair, session.clock_source);
            });
        })?;
    }
    Ok(())
}

fn write_snapshot(fields: &mut Message<'_>, pair: &ClockPair, source: ClockSource) {
    let clocks = [
        (BOOTTIME, pair.boottime),
        (REALTIME, pair.realtime),
        (MONOTONIC, pair.monotonic),
        (MONOTONIC_RAW, pair.monotonic_raw),
    ];
    // Viewers take a tick for a nanosecond: the counter is a record here, no packet is in it.
    let ticks = (source == ClockSource::Tsc).then_some((TSC, pair.ticks.0));
    for (id, time) in clocks.into_iter().chain(ticks) {
        fields.message(clock_snapshot::CLOCKS, |clock| {
            clock.uint(clock_snapshot::CLOCK_ID, id);
            clock.uint(clock_snapshot::TIMESTAMP, time);
        });
    }
    fields.uint(clock_snapshot::PRIMARY_TRACE_CLOCK, BOOTTIME);
}

/// A row of the viewer's metadata; its name is shown as `trace_attribute.NAME`.
enum Attribute {
    Number(u64),
    Text(String),
}

type Attributes = Vec<(String, Attribute)>;

fn number(name: &str, value: u64) -> (String, Attribute) {
    (format!("syscollect.{name}"), Attribute::Number(value))
}

fn text(name: &str, value: impl Into<String>) -> (String, Attribute) {
    (format!("syscollect.{name}"), Attribute::Text(value.into()))
}

fn session_attributes(session: &SessionInfo) -> Attributes {
    let clock = match session.clock_source {
        ClockSource::Tsc => "tsc",
        ClockSource::Monotonic => "monotonic",
        ClockSource::Qpc => "qpc",
        ClockSource::SystemTime => "system-time",
    };
    let bound = session.clocks.iter().map(|clock| clock.error_bound_ns).fold(0.0, f64::max);
    vec![
        text("command", session.recorder_command.join(" ")),
        text("hostname", &session.hostname),
        text("boot_id", &session.boot_id),
        text("cpu_model", &session.cpu_model),
        text("kernel_build_id", &session.kernel_build_id),
        text("clock_source", clock),
        // Rounded up: it is a bound.
        number("clock_error_bound_ns", bound.ceil() as u64),
        number("sample_rate_hz", u64::from(session.sample_rate_hz)),
        text("sample_event", session.sample_event.name()),
        text("stacks", session.stack_names().join(",")),
        text("notes", session.notes.join("; ")),
    ]
}

/// The recorder's own figures, as attributes.
fn summary_attributes(summary: &RecorderSummary) -> Attributes {
    let mut list = vec![
        text("stop_reason", summary.stop_reason.name()),
        number("recorder_cpu_ns", summary.recorder_cpu_ns),
        number("recorder_peak_bytes", summary.recorder_peak_bytes),
        number("startup_ns", summary.startup_ns),
        number("duration_ns", summary.duration_ns),
        text("missing", summary.missing.join("; ")),
    ];
    list.extend(summary.kernel_program_ns.map(|value| number("kernel_program_ns", value)));
    list.extend(
        summary
            .statistics
            .iter()
            .map(|(name, value)| number(&format!("statistics.{name}"), *value)),
    );
    list
}

/// Writes the recorder's own figures.
pub(crate) fn write_summary<W: Write>(
    stream: &mut Stream<W>,
    sequence: &mut Sequence,
    summary: &RecorderSummary,
) -> Result<(), ExportError> {
    write_attributes(stream, sequence, &summary_attributes(summary))
}

fn write_attributes<W: Write>(
    stream: &mut Stream<W>,
    sequence: &mut Sequence,
    list: &Attributes,
) -> Result<(), ExportError> {
    stream.packet(|message| {
        sequence.head(message, None);
        message.message(packet::TRACE_ATTRIBUTES, |message| {
            for (name, value) in list {
                if matches!(value, Attribute::Text(text) if text.is_empty()) {
                    continue;
                }
                message.message(attributes::ATTRIBUTE, |fields| {
                    fields.string(attributes::KEY, name);
                    match value {
                        Attribute::Number(number) => {
                            fields.int(attributes::LONG_VALUE, *number as i64);
                        }
                        Attribute::Text(text) => fields.string(attributes::STRING_VALUE, text),
                    }
                });
            }
        });
    })
}

/// Writes counts of losses that belong to no CPU, one buffer each: viewers add
/// them up and show a banner. (`FtraceStats` would be an import error instead.)
/// What was overwritten, as it was asked for, is one more, which viewers do not take for a loss.
pub(crate) fn write_losses<W: Write>(
    stream: &mut Stream<W>,
    sequence: &mut Sequence,
    time: Time,
    counts: &[u64],
    overwritten: u64,
) -> Result<(), ExportError> {
    if counts.is_empty() && overwritten == 0 {
        return Ok(());
    }
    stream.packet(|message| {
        sequence.head(message, Some(time));
        message.message(packet::TRACE_STATS, |message| {
            for count in counts {
                message.message(trace_stats::BUFFER_STATS, |fields| {
                    fields.uint(trace_stats::TRACE_WRITER_PACKET_LOSS, *count);
                });
            }
            if overwritten > 0 {
                message.message(trace_stats::BUFFER_STATS, |fields| {
                    fields.uint(trace_stats::CHUNKS_OVERWRITTEN, overwritten);
                });
            }
        });
    })
}
