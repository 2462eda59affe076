//! What a viewer was told, event by event, beside what the same recorder saved.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::fmt;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use syscollect_merge::Session;
use syscollect_model::{
    Event, Exporter, Loss, OffCpu, RecorderSummary, Scope, SleepState, StringId, Tables, ThreadId,
    Time, TrackId, TrackKind, TrackRole,
};
use syscollect_playback::Recording as _;
use syscollect_store::CaptureReader;
use syscollect_tests::tracy_viewer::{ReceivedSwitch, ReceivedTimeline};

use super::frames::Frames;
use super::gpu_zones::{ComparedGpuZones, GpuZones};
use super::locks::Locks;
use super::memory::Memory;
use super::messages::Messages;
use super::names::Names;
use super::samples::{ComparedSamples, SampledThread, Samples};
use super::span::{FIRST_ROW, KnownSpan, same, same_in_order};
use super::wakeups::Wakeups;

/// How a thread left its CPU is not known.
const UNKNOWN_STATE: i8 = -1;

/// A zone that has ended.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct EndedZone {
    end: i64,
    start: i64,
    thread: u32,
    name: String,
}

/// A plot has a value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PlotValue {
    time: i64,
    /// Its bits: the very same.
    value: u64,
    plot: String,
}

/// Who comes to a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ComingThread {
    time: i64,
    thread: u32,
}

/// Who comes, and who leaves and how.
#[derive(Clone, Copy, Debug)]
struct RecordedSwitch {
    coming: ComingThread,
    /// Where it is known who left.
    leaving: Option<u32>,
    /// As the viewer numbers states.
    state: i8,
}

/// What a viewer saw.
#[derive(Clone, Copy)]
pub(super) struct ToldTimeline<'a> {
    pub(super) seen: &'a ReceivedTimeline,
    /// When it came.
    pub(super) joined: i64,
    /// The recorder's process.
    pub(super) recorder: u32,
}

/// What is in a file.
#[derive(Default)]
pub(super) struct RecordedEvents {
    /// By CPU.
    switches: BTreeMap<u8, Vec<RecordedSwitch>>,
    zones: Vec<EndedZone>,
    open: BTreeMap<TrackId, Vec<EndedZone>>,
    messages: Messages,
    locks: Locks,
    values: Vec<PlotValue>,
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
        self.messages.event(time, event, tables);
        match event {
            Event::Switch(switch) => {
                let (cpu, thread) = (switch.cpu.number as u8, tid(switch.next));
                self.wakeups.runs(time, thread, cpu);
                self.switches.entry(cpu).or_default().push(RecordedSwitch {
                    coming: ComingThread { time, thread },
                    leaving: switch.previous.map(tid),
                    state: state_of(&switch.off_cpu),
                });
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
            Event::Lock(event) => self.locks.add(time, event, tables),
            Event::GpuJob(_, job) => self.gpu_zones.add(at, job, tables),
            Event::Counter(track, value) => {
                let plot = tables.strings.get(tables.track(*track).name).to_owned();
                self.values.push(PlotValue { time, value: value.to_bits(), plot });
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
pub(super) fn thread_of(track: TrackId, tables: &Tables) -> Option<u32> {
    let track = tables.track(track);
    match track.scope {
        Scope::Thread(thread) if track.kind == TrackKind::Slices(TrackRole::Zones) => {
            Some(tables.thread(thread).tid)
        }
        _ => None,
    }
}

pub(super) fn numbered(name: StringId, number: Option<u64>, tables: &Tables) -> String {
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
    gpu_zones: ComparedGpuZones,
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
        let ComparedSamples { samples, of_switches, functions, .. } = of_samples;
        let gpu_zones = gpu_zones.zones;
        write!(f, "{switches} switches, {wakeups} wakeups, {samples} samples and {of_switches} ")?;
        write!(f, "stacks of switches with {functions} functions, {zones} zones, ")?;
        write!(f, "{messages} messages, {locks} steps of locks, {values} values of plots, ")?;
        write!(f, "{frames} frames, {memory} blocks of memory, {gpu_zones} zones of GPUs ")?;
        let ComparedSamples { longer_in_file, with_recording, .. } = of_samples;
        write!(f, "and names of {names} threads ({longer_in_file} stacks go on in the file, ")?;
        write!(f, "{with_recording} begin with the recording)")
    }
}

impl ComparedCounts {
    #[cfg(test)]
    pub(super) fn gpu_zones(&self) -> usize {
        self.gpu_zones.zones
    }

    /// There was something of each other kind.
    #[cfg(test)]
    pub(super) fn has_all_but_gpu_zones(&self) -> bool {
        let ComparedSamples { samples, of_switches, functions, .. } = self.of_samples;
        let of_kernel = [self.switches, self.wakeups, samples, of_switches, functions, self.names];
        let of_programs = [self.zones, self.messages, self.locks, self.values, self.frames];
        let kinds = of_kernel.into_iter().chain(of_programs);
        kinds.chain([self.memory]).all(|count| count > 0)
    }

    /// There was enough of each kind, of a machine that does all of it.
    pub(super) fn are_enough(&self) -> Result<()> {
        let Self { switches, zones, messages, locks, values, gpu_zones, .. } = self;
        let Self { wakeups, of_samples, frames, memory, names, .. } = self;
        let ComparedSamples { samples, of_switches, functions, .. } = of_samples;
        let ComparedGpuZones { zones: gpu_zones, inside } = gpu_zones;
        ensure!(inside * 3 > *gpu_zones, "only {inside} of {gpu_zones} zones lie in others");
        let least = [
            [switches / 1_000, zones / 1_000, gpu_zones / 1_000, wakeups / 100],
            [messages / 10, locks / 100, values / 100, samples / 100],
            [of_switches / 100, functions / 1_000, frames / 1_000, memory / 1_000],
        ];
        let least = [least.concat(), vec![names / 10]].concat();
        ensure!(!least.contains(&0), "only {self} were compared");
        Ok(())
    }
}

/// Where both know all, they know the same.
pub(super) fn compare(told: &ToldTimeline<'_>, file: &RecordedEvents) -> Result<ComparedCounts> {
    let ToldTimeline { seen, joined, recorder } = *told;
    let missing = seen.messages.iter().find(|message| {
        message.own && (message.text.contains("lost") || message.text.contains("missing"))
    });
    ensure!(missing.is_none(), "the viewer was told of a loss: {missing:?}");
    // All is told in order of time.
    let until = seen.switches.last().context("it was told no switch")?.time;
    let span = KnownSpan { joined, until };
    // Threads that help the recorder's first one have a name, and no row of their own.
    let is_helper = |thread: u32| thread != recorder && seen.pids.get(&thread) == Some(&recorder);
    let named = |switch: &&ReceivedSwitch| switch.new != 0 && span.has(switch.time);
    let threads: BTreeSet<u32> = seen.switches.iter().filter(named).map(|one| one.new).collect();
    for thread in threads {
        let known = seen.threads.get(&thread);
        let name = known.map(|known| if is_helper(thread) { &known.name } else { &known.label });
        ensure!(name.is_some_and(|name| !name.is_empty()), "thread {thread} has no name");
    }
    let mut counts = ComparedCounts::default();
    for (cpu, in_file) in &file.switches {
        counts.switches += compare_switches(*cpu, in_file, span, seen)?;
    }
    let ended = file.zones.iter().filter(|zone| span.has(zone.start) && span.has(zone.end));
    counts.zones = same("zone", zones_told(seen, span), ended.cloned().collect())?;
    counts.locks = file.locks.compare(seen, span)?;
    counts.values = file.compare_values(seen, span)?;
    counts.messages = file.messages.compare(seen, span, is_helper)?;
    counts.wakeups = file.wakeups.compare(seen, span)?;
    counts.of_samples = file.samples.compare(seen, span)?;
    counts.frames = file.frames.compare(seen, span)?;
    counts.memory = file.memory.compare(seen, span)?;
    counts.names = file.names.compare(seen)?;
    counts.gpu_zones = file.gpu_zones.compare(seen, joined)?;
    Ok(counts)
}

impl RecordedEvents {
    /// The same values at the same times, of plots whose names have more than the file's tracks.
    fn compare_values(&self, seen: &ReceivedTimeline, span: KnownSpan) -> Result<usize> {
        let told = seen.plots.iter().filter(|(time, ..)| span.has(*time));
        let told = told.map(|(time, name, value)| PlotValue {
            time: *time,
            value: value.to_bits(),
            plot: seen.plot_names.get(name).cloned().unwrap_or_default(),
        });
        let mut told: Vec<PlotValue> = told.collect();
        let in_file = self.values.iter().filter(|value| span.has(value.time));
        let mut in_file: Vec<PlotValue> = in_file.cloned().collect();
        told.sort();
        in_file.sort();
        let key = |value: &PlotValue| (value.time, value.value);
        let [keys_told, keys_in_file] =
            [&told, &in_file].map(|values| values.iter().map(key).collect::<Vec<_>>());
        same_in_order("value", &keys_told, &keys_in_file)?;
        for told in &told {
            let first = in_file.partition_point(|value| key(value) < key(told));
            let mut same = in_file[first..].iter().take_while(|value| key(value) == key(told));
            // "CPU usage" of the file is "CPU 0 usage" where it is told.
            let has_words_of = |value: &PlotValue| {
                value.plot.split(' ').all(|word| told.plot.split([' ', ':']).any(|own| own == word))
            };
            let is_it = same.any(|value| told.plot.contains(&value.plot) || has_words_of(value));
            ensure!(is_it, "value {told:?} is of none of the plots in the file");
        }
        Ok(told.len())
    }
}

fn compare_switches(
    cpu: u8,
    in_file: &[RecordedSwitch],
    span: KnownSpan,
    seen: &ReceivedTimeline,
) -> Result<usize> {
    let told = seen.switches.iter().filter(|one| one.cpu == cpu && span.has(one.time));
    let told: Vec<&ReceivedSwitch> = told.collect();
    let Some(first) = told.first() else { return Ok(0) };
    // From idle to idle is no switch to the viewer.
    let mut current = None;
    let changes = in_file
        .iter()
        .filter(|one| (current.replace(one.coming.thread), one.coming.thread) != (Some(0), 0));
    let is_known = |time: i64| span.has(time) && time >= first.time;
    let changes: Vec<_> = changes.filter(|one| is_known(one.coming.time)).collect();
    let coming_told: Vec<_> =
        told.iter().map(|one| ComingThread { time: one.time, thread: one.new }).collect();
    let coming: Vec<_> = changes.iter().map(|one| one.coming).collect();
    same_in_order(&format!("switch of CPU {cpu}"), &coming_told, &coming)?;
    for (told, in_file) in told.iter().zip(&changes) {
        // How somebody leaves who was not there is not known.
        let is_known = in_file.leaving == Some(told.old);
        let state = if is_known { in_file.state } else { UNKNOWN_STATE };
        ensure!(
            told.old == 0 || told.state == state,
            "state of who leaves: {told:?} was told, the file has {in_file:?}"
        );
    }
    Ok(told.len())
}

/// The viewer's number of the state in which a thread leaves its CPU.
fn state_of(off_cpu: &OffCpu) -> i8 {
    match off_cpu.state {
        _ if off_cpu.preempted => 103,
        SleepState::Uninterruptible => 101,
        SleepState::Idle => 102,
        SleepState::Runnable => 103,
        SleepState::Interruptible => 104,
        SleepState::Stopped => 105,
        SleepState::Traced => 106,
        SleepState::Dead => 108,
        SleepState::Zombie => 109,
        SleepState::Parked => 110,
    }
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
