//! What a viewer was told, event by event, beside what the same recorder saved.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::fmt;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use syscollect_merge::Session;
use syscollect_model::{
    Event, Exporter, LockAction, Loss, MessageText, RecorderSummary, Scope, StringId, Tables,
    ThreadId, Time, TrackId, TrackKind, TrackRole,
};
use syscollect_playback::Recording as _;
use syscollect_store::CaptureReader;
use syscollect_tests::tracy_viewer::{ReceivedSwitch, ReceivedTimeline, StrictViewer};

use super::frames::Frames;
use super::gpu_zones::GpuZones;
use super::memory::Memory;
use super::names::Names;
use super::samples::{ComparedSamples, SampledThread, Samples};
use super::span::{FIRST_ROW, KnownSpan, same, same_in_order};
use super::wakeups::Wakeups;

/// The plot that the load sets.
const PLOT: &str = "turns";
/// How long names of threads may be on their way, nanoseconds.
const LONGEST_NAMING: i64 = 1_000_000_000;

/// A zone that has ended.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct EndedZone {
    end: i64,
    start: i64,
    thread: u32,
    name: String,
}

/// What a thread said, or how that begins.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SaidMessage {
    time: i64,
    thread: u32,
    text: String,
}

/// A thread has a lock, or lets go.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct HeldLock {
    time: i64,
    thread: u32,
    lock: String,
    obtains: bool,
}

/// Who comes to a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ComingThread {
    time: i64,
    thread: u32,
}

/// What is in a file.
#[derive(Default)]
pub(super) struct RecordedEvents {
    /// By CPU.
    switches: BTreeMap<u8, Vec<ComingThread>>,
    zones: Vec<EndedZone>,
    open: BTreeMap<TrackId, Vec<EndedZone>>,
    messages: Vec<SaidMessage>,
    locks: Vec<HeldLock>,
    /// Times and values of the plot.
    values: Vec<(i64, u64)>,
    gpu_zones: GpuZones,
    wakeups: Wakeups,
    samples: Samples,
    frames: Frames,
    memory: Memory,
    names: Names,
}

impl RecordedEvents {
    pub(super) fn of(path: &Path) -> Result<Self> {
        let mut events = Self::default();
        Session::open(CaptureReader::open(path)?)?.play(&mut events)?;
        Ok(events)
    }
}

impl Exporter for RecordedEvents {
    type Error = Infallible;

    fn event(&mut self, at: Time, event: &Event, tables: &Tables) -> Result<(), Infallible> {
        let time = at.0 as i64;
        let tid = |thread: ThreadId| tables.thread(thread).tid;
        self.names.event(event, tables);
        match event {
            Event::Switch(switch) => {
                let (cpu, thread) = (switch.cpu.number as u8, tid(switch.next));
                self.wakeups.runs(time, thread, cpu);
                self.switches.entry(cpu).or_default().push(ComingThread { time, thread });
                let previous = switch.previous.filter(|_| !switch.off_cpu.preempted);
                if let (Some(previous), Some(stack)) = (previous, switch.off_cpu.stack)
                    && previous != Tables::IDLE_THREAD
                {
                    let left = SampledThread { time, thread: tid(previous), leaves: true };
                    self.samples.add(left, Some(stack), tables);
                }
            }
            Event::Wakeup(wakeup) if wakeup.wakee != Tables::IDLE_THREAD => {
                self.wakeups.woken(time, tid(wakeup.wakee), wakeup.cpu.number as u8);
            }
            Event::Sample(sample) => {
                let seen = SampledThread { time, thread: tid(sample.thread), leaves: false };
                self.samples.add(seen, sample.stack, tables);
            }
            Event::Memory(event) => self.memory.add(at, event, tables),
            Event::SliceBegin(track, slice) => {
                self.frames.begin(at, *track, tables);
                if let Some(thread) = thread_of(*track, tables) {
                    let name = numbered(slice.name, slice.number, tables);
                    let zone = EndedZone { start: time, end: i64::MAX, thread, name };
                    self.open.entry(*track).or_default().push(zone);
                }
            }
            Event::SliceUpdate(track, update) => {
                let zone = self.open.get_mut(track).and_then(|open| open.last_mut());
                if let (Some(zone), Some((name, number))) = (zone, update.name) {
                    zone.name = numbered(name, number, tables);
                }
            }
            Event::SliceEnd(track) => {
                self.frames.end(at, *track);
                if let Some(zone) = self.open.get_mut(track).and_then(Vec::pop) {
                    self.zones.push(EndedZone { end: time, ..zone });
                }
            }
            Event::Message(track, message) => {
                let text = match &message.text {
                    Some(MessageText::Written(text)) => text.to_string(),
                    Some(MessageText::Interned { string, number }) => {
                        numbered(*string, *number, tables)
                    }
                    None => tables.strings.get(message.category).to_owned(),
                };
                if let Some(thread) = thread_of(*track, tables) {
                    self.messages.push(SaidMessage { time, thread, text });
                }
            }
            Event::Lock(event) => {
                let obtains = match event.action {
                    LockAction::Obtain => true,
                    LockAction::Release => false,
                    LockAction::Wait | LockAction::GiveUp => return Ok(()),
                };
                let lock = tables.strings.get(tables.lock(event.lock).name).to_owned();
                self.locks.push(HeldLock { time, thread: tid(event.thread), lock, obtains });
            }
            Event::GpuJob(_, job) => self.gpu_zones.add(at, job, tables),
            Event::Counter(track, value)
                if tables.strings.get(tables.track(*track).name) == PLOT =>
            {
                self.values.push((time, value.to_bits()));
            }
            _ => {}
        }
        Ok(())
    }

    fn end(
        &mut self,
        _: &[Loss],
        _: Option<&RecorderSummary>,
        tables: &Tables,
    ) -> Result<(), Infallible> {
        self.names.end(tables);
        Ok(())
    }
}

/// Whose a track is, if it is what a thread marks itself.
fn thread_of(track: TrackId, tables: &Tables) -> Option<u32> {
    let track = tables.track(track);
    match track.scope {
        Scope::Thread(thread) if track.kind == TrackKind::Slices(TrackRole::Zones) => {
            Some(tables.thread(thread).tid)
        }
        _ => None,
    }
}

fn numbered(name: StringId, number: Option<u64>, tables: &Tables) -> String {
    let name = tables.strings.get(name);
    number.map_or_else(|| name.to_owned(), |number| format!("{name} {number}"))
}

/// How many events were the same.
#[derive(Debug, Default)]
pub(super) struct ComparedCounts {
    switches: usize,
    zones: usize,
    messages: usize,
    locks: usize,
    values: usize,
    gpu_zones: usize,
    wakeups: usize,
    of_samples: ComparedSamples,
    frames: usize,
    memory: usize,
    names: usize,
}

impl fmt::Display for ComparedCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { switches, zones, messages, locks, values, gpu_zones, .. } = self;
        let Self { wakeups, of_samples, frames, memory, names, .. } = self;
        let ComparedSamples { samples, of_switches, functions } = of_samples;
        write!(f, "{switches} switches, {wakeups} wakeups, {samples} samples and {of_switches} ")?;
        write!(f, "stacks of switches with {functions} functions, {zones} zones, ")?;
        write!(f, "{messages} messages, {locks} steps of locks, {values} values of plots, ")?;
        write!(f, "{frames} frames, {memory} blocks of memory, {gpu_zones} zones of GPUs ")?;
        write!(f, "and names of {names} threads")
    }
}

/// Where both know all, they know the same. The recorder's process has that number.
pub(super) fn compare(
    viewer: &StrictViewer,
    file: &RecordedEvents,
    recorder: u32,
) -> Result<ComparedCounts> {
    let seen = viewer.seen();
    let joined = viewer.welcome().context("it was not welcome")?.joined;
    let missing = seen.messages.iter().find(|message| {
        message.own && (message.text.contains("lost") || message.text.contains("missing"))
    });
    ensure!(missing.is_none(), "the viewer was told of a loss: {missing:?}");
    // All is told in order of time.
    let until = seen.switches.last().context("it was told no switch")?.time;
    // Who comes last may be named when the viewer is gone.
    let span = KnownSpan { joined, until: until - LONGEST_NAMING };
    let named = |switch: &&ReceivedSwitch| switch.new != 0 && span.has(switch.time);
    let threads: BTreeSet<u32> = seen.switches.iter().filter(named).map(|one| one.new).collect();
    for thread in threads {
        // Threads that help the recorder's first one have a name, and no row of their own.
        let helps = thread != recorder && seen.pids.get(&thread) == Some(&recorder);
        let known = seen.threads.get(&thread);
        let name = known.map(|known| if helps { &known.name } else { &known.label });
        ensure!(name.is_some_and(|name| !name.is_empty()), "thread {thread} has no name");
    }
    let span = KnownSpan { joined, until };
    let mut counts = ComparedCounts::default();
    for (cpu, in_file) in &file.switches {
        counts.switches += compare_switches(*cpu, in_file, span, seen)?;
    }
    let ended = file.zones.iter().filter(|zone| span.has(zone.start) && span.has(zone.end));
    counts.zones = same("zone", zones_told(seen, span), ended.cloned().collect())?;
    let steps = file.locks.iter().filter(|step| span.has(step.time));
    counts.locks = same("step of a lock", locks_told(seen, span), steps.cloned().collect())?;
    let is_plot = |name: &u64| seen.plot_names.get(name).is_some_and(|name| name.contains(PLOT));
    let told = seen.plots.iter().filter(|(time, name, _)| span.has(*time) && is_plot(name));
    let told = told.map(|(time, _, value)| (*time, value.to_bits()));
    let values = file.values.iter().filter(|(time, _)| span.has(*time));
    counts.values = same("value", told.collect(), values.copied().collect())?;
    counts.messages = compare_messages(seen, span, file)?;
    counts.wakeups = file.wakeups.compare(seen, span)?;
    counts.of_samples = file.samples.compare(seen, span)?;
    counts.frames = file.frames.compare(seen, span)?;
    counts.memory = file.memory.compare(seen, span)?;
    counts.names = file.names.compare(seen)?;
    counts.gpu_zones = file.gpu_zones.compare(seen, joined)?;
    let ComparedCounts { switches, zones, messages, locks, values, gpu_zones, .. } = counts;
    let ComparedCounts { wakeups, of_samples, frames, memory, names, .. } = counts;
    let ComparedSamples { samples, of_switches, functions } = of_samples;
    let least = [
        [switches / 1_000, zones / 1_000, gpu_zones / 1_000, wakeups / 100],
        [messages / 10, locks / 100, values / 100, samples / 100],
        [of_switches / 100, functions / 1_000, frames / 1_000, memory / 1_000],
    ];
    let least = [least.concat(), vec![names / 10]].concat();
    ensure!(!least.contains(&0), "only {counts} were compared");
    Ok(counts)
}

fn compare_switches(
    cpu: u8,
    in_file: &[ComingThread],
    span: KnownSpan,
    seen: &ReceivedTimeline,
) -> Result<usize> {
    let told = seen.switches.iter().filter(|one| one.cpu == cpu && span.has(one.time));
    let told: Vec<_> = told.map(|one| ComingThread { time: one.time, thread: one.new }).collect();
    let Some(first) = told.first() else { return Ok(0) };
    // From idle to idle is no switch to the viewer.
    let mut current = None;
    let changes =
        in_file.iter().filter(|one| (current.replace(one.thread), one.thread) != (Some(0), 0));
    let changes = changes.filter(|one| span.has(one.time) && one.time >= first.time);
    let changes: Vec<_> = changes.copied().collect();
    same_in_order(&format!("switch of CPU {cpu}"), &told, &changes)?;
    Ok(told.len())
}

fn zones_told(seen: &ReceivedTimeline, span: KnownSpan) -> Vec<EndedZone> {
    let of_threads = seen.zones.iter().filter(|zone| zone.thread < FIRST_ROW);
    let ended = of_threads.filter_map(|zone| {
        let (end, start) = (zone.end?, zone.start);
        let name = seen.zone_name(zone).to_owned();
        let is_known = span.has(start) && span.has(end);
        is_known.then_some(EndedZone { end, start, thread: zone.thread, name })
    });
    ended.collect()
}

fn locks_told(seen: &ReceivedTimeline, span: KnownSpan) -> Vec<HeldLock> {
    let steps = seen.locks.iter().filter(|step| span.has(step.time));
    let steps = steps.filter(|step| ![0, 3].contains(&step.kind));
    let steps = steps.map(|step| HeldLock {
        time: step.time,
        thread: step.thread,
        lock: seen.lock_names.get(&step.lock).cloned().unwrap_or_default(),
        obtains: [1, 4].contains(&step.kind),
    });
    steps.collect()
}

/// What programs said was told, by who said it.
fn compare_messages(
    seen: &ReceivedTimeline,
    span: KnownSpan,
    file: &RecordedEvents,
) -> Result<usize> {
    let told = seen.messages.iter().filter(|one| !one.own && one.thread < FIRST_ROW);
    let told: BTreeMap<_, _> =
        told.map(|one| ((one.time, one.thread), one.text.as_str())).collect();
    let in_file = file.messages.iter().filter(|one| span.has(one.time));
    let mut compared = 0;
    for message in in_file {
        let told = told.get(&(message.time, message.thread));
        let is_same = told.is_some_and(|told| told.starts_with(&message.text));
        ensure!(is_same, "{message:?} was told as {told:?}");
        compared += 1;
    }
    Ok(compared)
}
