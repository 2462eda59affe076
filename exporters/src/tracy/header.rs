//! What stands before the events: the machine and the recording.

use super::options::TracyLayout;
use super::strings::{FileStrings, clean, cut};
use super::wire::Payload;
use std::collections::BTreeMap;
use std::io::{self, Write};
use syscollect_model::{RecorderSummary, SessionInfo, Time};

/// Strings of the header are shorter than 1024 bytes.
const MAX_TEXT: usize = 1023;

/// The numbers of the header that the events decide.
pub(crate) struct TraceSpan {
    /// The file's zero on CLOCK_BOOTTIME, nanoseconds.
    pub(crate) origin: u64,
    /// Time of the last event.
    pub(crate) last: i64,
    /// The number of the first frame of the main set; 0 where frames have none.
    pub(crate) first_frame: u64,
}

/// Writes everything up to the CPU topology.
pub(crate) fn write<W: Write>(
    out: &mut Payload<W>,
    session: &SessionInfo,
    span: &TraceSpan,
) -> io::Result<()> {
    out.bytes(b"tracy")?;
    out.bytes(&out.layout.version())?;
    if out.layout == TracyLayout::V0_11 {
        // The delay of the profiled program's clock.
        out.u64(0)?;
    }
    // How its ticks become nanoseconds: they are nanoseconds.
    out.u64(1)?;
    out.f64(1.0)?;
    // The viewer divides by the whole: it must not be 0.
    out.i64(span.last.max(1))?;
    out.u64(span.first_frame)?;
    // No process is the profiled one, unless one alone was recorded.
    out.u64(match session.filter_pids[..] {
        [pid] => pid.into(),
        _ => 0,
    })?;
    out.i64(sampling_period(session))?;
    out.u8(architecture(&session.machine))?;
    out.u32(0)?;
    out.bytes(&vendor(&session.cpu_model))?;
    out.u8(0)?;
    out.text(&short(&format!("{} ({})", session.hostname, session.recorder)))?;
    out.text(&short(&match session.filter_pids[..] {
        [] => "whole machine".to_owned(),
        _ => format!("processes {:?}", session.filter_pids),
    }))?;
    out.u64(capture_time(session, span.origin))?;
    out.u64(0)?;
    // Its lines are drawn as lines, so it is cleaned line by line.
    out.text(cut(&host_info(session), MAX_TEXT))?;
    topology(out, session)
}

pub(crate) fn short(text: &str) -> String {
    cut(&clean(text), MAX_TEXT).to_owned()
}

/// Nanoseconds from one sample of a CPU to the next; 0 where there are none.
pub(crate) fn sampling_period(session: &SessionInfo) -> i64 {
    1_000_000_000i64.checked_div(session.sample_rate_hz.into()).unwrap_or(0)
}

/// The wall clock at the file's zero, seconds since 1970.
fn capture_time(session: &SessionInfo, origin: u64) -> u64 {
    session.wall_clock(Time(origin)).unwrap_or(0) / 1_000_000_000
}

/// `CpuArchitecture`.
pub(crate) fn architecture(machine: &str) -> u8 {
    match machine {
        "i386" | "i586" | "i686" => 1,
        "x86_64" => 2,
        "arm" | "armv6l" | "armv7l" => 3,
        "aarch64" => 4,
        _ => 0,
    }
}

/// The vendor as CPUID spells it.
pub(crate) fn vendor(cpu_model: &str) -> [u8; 12] {
    if cpu_model.contains("Intel") {
        *b"GenuineIntel"
    } else if cpu_model.contains("AMD") {
        *b"AuthenticAMD"
    } else {
        [0; 12]
    }
}

pub(crate) fn host_info(session: &SessionInfo) -> String {
    [
        line("OS", &format!("{} {}", session.os, session.kernel_release)),
        line("Kernel", &session.kernel_version),
        line("Host", &session.hostname),
        line("Arch", &session.machine),
        line("CPU", &session.cpu_model),
        line("CPU cores", &number(session.cpus.len() as u64)),
        line("RAM (MB)", &number(session.memory_bytes >> 20)),
        line("Recorder", &session.recorder),
    ]
    .concat()
}

fn line(name: &str, value: &str) -> String {
    match value.trim() {
        "" => String::new(),
        value => format!("{name}: {}\n", clean(value)),
    }
}

fn number(value: u64) -> String {
    if value == 0 { String::new() } else { value.to_string() }
}

/// Packages, the dies of newer layouts, their cores, and what the viewer calls threads: our CPUs.
fn topology<W: Write>(out: &mut Payload<W>, session: &SessionInfo) -> io::Result<()> {
    let mut packages: BTreeMap<u32, BTreeMap<u32, Vec<u32>>> = BTreeMap::new();
    for cpu in &session.cpus {
        packages.entry(cpu.package).or_default().entry(cpu.core).or_default().push(cpu.cpu);
    }
    out.count(packages.len())?;
    for (package, cores) in packages {
        out.u32(package)?;
        if out.layout >= TracyLayout::V0_13 {
            // Which die a core is on is not in the model.
            out.count(1)?;
            out.u32(0)?;
        }
        out.count(cores.len())?;
        for (core, cpus) in cores {
            out.u32(core)?;
            out.count(cpus.len())?;
            cpus.into_iter().try_for_each(|cpu| out.u32(cpu))?;
        }
    }
    Ok(())
}

/// Lines for the viewer's page on the program: how the recording came about.
pub(crate) fn notes(
    session: &SessionInfo,
    recorder: Option<&RecorderSummary>,
    cuts: &[String],
    strings: &mut FileStrings,
) -> Vec<u32> {
    note_lines(session, recorder, cuts).iter().map(|line| strings.intern(line)).collect()
}

/// The same as texts.
pub(crate) fn note_lines(
    session: &SessionInfo,
    recorder: Option<&RecorderSummary>,
    cuts: &[String],
) -> Vec<String> {
    let mut lines =
        vec![format!("Recorded by {}: {}", session.recorder, session.recorder_command.join(" "))];
    if session.sample_rate_hz > 0 {
        lines.push(format!("Samples: {} Hz of {}", session.sample_rate_hz, session.sample_event));
    }
    lines.extend(session.notes.iter().cloned());
    if let Some(summary) = recorder {
        let seconds = summary.duration_ns as f64 / 1e9;
        lines.push(format!("Recorded for {seconds:.3} s, stopped by {}", summary.stop_reason));
        lines.extend(
            summary.missing.iter().map(|missing| format!("Missing on this machine: {missing}")),
        );
    }
    lines.extend(cuts.iter().map(|cut| format!("Not in this file: {cut}")));
    lines
}
