//! What a trace says of itself and of its machine.

use super::names;
use super::prescan::MachineFacts;
use super::schemas::Schemas;
use super::tally::StackFacts;
use crate::file::{Clock, Extent, LogfileHeader, Statistics, Trace};
use crate::{Class, Guid};
use rustc_hash::FxHashMap;
use syscollect_model::{
    ClockSource, CpuInfo, Loss, LossCause, LossOrigin, OperatingSystem, SampleEvent, SessionInfo,
    StackOrigin,
};

/// What a trace holds, for people and for `info`.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// `"Windows 10.0.18363"`.
    pub windows: String,
    /// CPUs of the machine.
    pub cpus: u32,
    /// What time stamps count.
    pub clock: Clock,
    /// Its rate; 0 where the trace does not say it.
    pub ticks_per_second: u64,
    /// The counter is the CPU's time stamp counter divided by 1024.
    pub qpc_is_tsc: bool,
    /// Names of the sessions that wrote the files, in their order.
    pub sessions: Vec<String>,
    /// How often each event was written, by provider and id.
    pub events: Vec<EventCount>,
    /// What was read of the files.
    pub statistics: Statistics,
    /// What became of stacks; zeros until the trace was played.
    pub stacks: StackFacts,
}

impl Facts {
    pub(super) fn new(
        headers: &[LogfileHeader],
        counts: &EventCounts,
        schemas: &Schemas,
        statistics: Statistics,
    ) -> Self {
        let header = headers.first();
        Self {
            windows: header
                .map_or_else(String::new, |header| format!("Windows {}", release(header))),
            cpus: header.map_or(0, |header| header.cpus),
            clock: header.map_or(Clock::Unknown(0), |header| header.clock),
            ticks_per_second: header.and_then(LogfileHeader::ticks_per_second).unwrap_or(0),
            qpc_is_tsc: header.is_some_and(LogfileHeader::qpc_is_tsc),
            sessions: headers.iter().map(|header| header.logger_name.clone()).collect(),
            events: counts.list(schemas),
            statistics,
            stacks: StackFacts::default(),
        }
    }
}

/// How often one kind of event was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventCount {
    /// The provider's name, or its GUID where the name is not known.
    pub provider: String,
    /// The event's id, or, of classic events, its type.
    pub id: u16,
    /// What it is called, where that is known.
    pub name: Option<String>,
    /// How many.
    pub count: u64,
}

/// Counts of events by class.
#[derive(Debug)]
pub(super) struct EventCounts {
    /// By group and opcode.
    kernel: Vec<u64>,
    others: FxHashMap<(Guid, u16), u64>,
    wpp: u64,
    /// Names that events brought with them.
    pub(super) provider_names: FxHashMap<Guid, String>,
}

impl Default for EventCounts {
    fn default() -> Self {
        let (others, provider_names) = Default::default();
        Self { kernel: vec![0; 1 << 16], others, wpp: 0, provider_names }
    }
}

impl EventCounts {
    #[inline]
    pub(super) fn add(&mut self, class: &Class) {
        match *class {
            Class::Kernel { group, opcode } => {
                self.kernel[usize::from(u16::from_be_bytes([group, opcode]))] += 1;
            }
            Class::Provider { provider, id, .. } => {
                *self.others.entry((provider, id)).or_default() += 1;
            }
            Class::Classic { class, opcode } => {
                *self.others.entry((class, opcode.into())).or_default() += 1;
            }
            Class::Wpp => self.wpp += 1,
        }
    }

    /// All that occurred, by provider's name and id.
    fn list(&self, schemas: &Schemas) -> Vec<EventCount> {
        let mut named = schemas.event_names();
        let kernel = (0..=u16::MAX).zip(&self.kernel).filter(|(_, count)| **count > 0).map(
            |(number, count)| {
                let [group, opcode] = number.to_be_bytes();
                let (provider, name) = names::kernel_event(group, opcode);
                EventCount {
                    provider,
                    id: opcode.into(),
                    name: name.map(str::to_owned),
                    count: *count,
                }
            },
        );
        let others = self.others.iter().map(|((provider, id), count)| {
            let known = self.provider_names.get(provider).cloned();
            let known = known.or_else(|| schemas.provider(*provider).map(str::to_owned));
            let known = known.or_else(|| names::provider(*provider).map(str::to_owned));
            let name = named
                .remove(&(*provider, *id))
                .or_else(|| names::event(*provider, *id).map(str::to_owned));
            EventCount {
                provider: known.unwrap_or_else(|| provider.to_string()),
                id: *id,
                name,
                count: *count,
            }
        });
        let wpp = (self.wpp > 0).then(|| EventCount {
            provider: "WPP".into(),
            id: 0,
            name: None,
            count: self.wpp,
        });
        let mut all: Vec<_> = kernel.chain(others).chain(wpp).collect();
        all.sort_by(|a, b| (&a.provider, a.id).cmp(&(&b.provider, b.id)));
        all
    }
}

/// What is known of the machine and the recording.
pub(super) fn session_info(trace: &Trace, machine: &MachineFacts, has_stacks: bool) -> SessionInfo {
    let Some(header) = trace.headers().first() else { return SessionInfo::default() };
    let rate = header.ticks_per_second().unwrap_or(0);
    // What a file claims may be any number; rows for a million CPUs help nobody.
    let cpus = (0..header.cpus.min(MOST_CPUS))
        .map(|cpu| CpuInfo {
            cpu,
            max_frequency_khz: Some(u64::from(header.mhz) * 1000),
            ..CpuInfo::default()
        })
        .collect();
    let sample_rate = 10_000_000u32.checked_div(machine.sample_interval).unwrap_or(0);
    SessionInfo {
        recorder: "ETW".into(),
        os: OperatingSystem::Windows,
        kernel_release: release(header),
        kernel_version: [machine.product.as_str(), machine.build.as_str()]
            .join(" ")
            .trim()
            .to_owned(),
        cpu_model: machine.cpu_model.clone(),
        cpus,
        memory_bytes: u64::from(machine.memory_mib) << 20,
        clock_source: clock_source(header.clock),
        tick_rate_hz: rate as f64,
        sample_rate_hz: sample_rate,
        sample_event: if sample_rate > 0 { SampleEvent::CpuClock } else { SampleEvent::None },
        stacks: if has_stacks { vec![StackOrigin::Events] } else { Vec::new() },
        notes: notes(trace, machine),
        ..SessionInfo::default()
    }
}

fn clock_source(clock: Clock) -> ClockSource {
    match clock {
        Clock::CpuCycle => ClockSource::Tsc,
        Clock::SystemTime => ClockSource::SystemTime,
        Clock::Qpc | Clock::Unknown(_) => ClockSource::Qpc,
    }
}

/// CPUs that get a row each.
const MOST_CPUS: u32 = 4096;

pub(super) fn release(header: &LogfileHeader) -> String {
    let (major, minor) = header.os_version;
    format!("{major}.{minor}.{}", header.os_build)
}

fn notes(trace: &Trace, machine: &MachineFacts) -> Vec<String> {
    let (mut notes, headers) = (Vec::new(), trace.headers());
    let Some(header) = headers.first() else { return notes };
    let mhz = header.perf_freq as f64 / 1e6;
    match header.clock {
        Clock::Qpc if header.qpc_is_tsc() => {
            notes.push(format!(
                "the clock (QPC, {mhz:.6} MHz) is the CPU's time stamp counter divided by 1024"
            ));
        }
        Clock::Qpc | Clock::CpuCycle | Clock::SystemTime => {}
        Clock::Unknown(kind) => {
            notes.push(format!("the clock is of an unknown kind ({kind}), taken for a QPC"));
        }
    }
    if headers.iter().any(|header| header.end_time == 0) {
        notes.push(
            "the recording was cut off, or went on when the file was copied: its header does not \
             say when it ended"
                .into(),
        );
    }
    if machine.wide_payloads > 0 {
        notes.push(format!(
            "{} records have 64-bit payloads behind 32-bit headers, as a 32-bit program leaves \
             them that merges traces; they are read by what the payload is",
            machine.wide_payloads
        ));
    }
    notes.extend(trace.extents().iter().filter_map(incomplete));
    notes
}

/// What a file lacks, if it does.
fn incomplete(extent: &Extent) -> Option<String> {
    let Extent { path, buffers, missing, unwritten } = extent;
    let file = path
        .file_name()
        .map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned());
    match (missing, unwritten) {
        (0, 0) => None,
        (0, unwritten) => Some(format!(
            "{file} has {buffers} buffers; {unwritten} more had been begun, by their numbers, and \
             were not written"
        )),
        (missing, _) => Some(format!(
            "{file} is incomplete: it has {buffers} of {} buffers; it ends early, or holds zeros \
             where they should be",
            missing.saturating_add(*buffers)
        )),
    }
}

/// What is missing.
pub(super) fn losses(
    headers: &[LogfileHeader],
    statistics: &Statistics,
    undecodable: u64,
) -> Vec<Loss> {
    let damaged = statistics.damaged_buffers + statistics.unsupported_buffers;
    // A logger that was cut off did not come to count; its buffers say after each loss that there
    // was one.
    let events: u64 = headers.iter().map(|header| u64::from(header.events_lost)).sum();
    let events = events.max(statistics.buffers_after_lost_events);
    let buffers: u64 = headers.iter().map(|header| u64::from(header.buffers_lost)).sum();
    let buffers = buffers.max(statistics.buffers_after_lost_buffers);
    let losses = [
        (LossOrigin::Events, LossCause::LaneFull, events),
        (LossOrigin::Buffers, LossCause::BufferFull, buffers),
        (LossOrigin::Buffers, LossCause::Missing, statistics.missing_buffers),
        (LossOrigin::Buffers, LossCause::NotWritten, statistics.unwritten_buffers),
        (LossOrigin::Buffers, LossCause::Damaged, damaged),
        (LossOrigin::Events, LossCause::Undecodable, undecodable + statistics.other_records),
    ];
    let losses = losses.into_iter().filter(|(_, _, count)| *count > 0);
    losses
        .map(|(origin, cause, count)| Loss {
            origin,
            cpu: None,
            cause,
            user: None,
            count,
            between: None,
        })
        .collect()
}
