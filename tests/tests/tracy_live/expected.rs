//! What a viewer has to see, of events as they are played.

use std::collections::BTreeMap;
use syscollect_exporters::TracyLive;
use syscollect_model::{
    Event, Exporter, GpuJob, GpuJobEnd, Loss, RecorderSummary, Tables, ThreadId, Time, TrackId,
    TrackKind,
};
use syscollect_tests::tracy_viewer::ReceivedTimeline;

/// A zone: start, end, name.
pub(crate) type Zone = (i64, Option<i64>, String);

/// A zone of a GPU.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GpuZone {
    pub(crate) gpu: [i64; 2],
    pub(crate) cpu: [i64; 2],
    pub(crate) thread: u32,
    pub(crate) name: String,
    pub(crate) context: String,
}

impl GpuZone {
    /// Of a program, where it is one.
    fn of(time: Time, job: &GpuJob, tables: &Tables) -> Option<Self> {
        let zone = job.zone?;
        let nanoseconds = |time: Time| time.0 as i64;
        let ended = job.ended(time);
        let began = job.began().unwrap_or(ended);
        let submitted = job.submitted?;
        let name = tables.strings.get(job.name).to_owned();
        Some(Self {
            gpu: [began, ended].map(nanoseconds),
            cpu: [submitted, zone.submission_ended.unwrap_or(submitted)].map(nanoseconds),
            thread: tables.thread(job.thread?).tid,
            name: if job.end == GpuJobEnd::Untimed { name + " [without times]" } else { name },
            context: tables.strings.get(tables.track(zone.queue).name).to_owned(),
        })
    }
}

/// Those that a viewer saw; contexts are named by their queues alone.
pub(crate) fn gpu_zones(seen: &ReceivedTimeline) -> Vec<GpuZone> {
    let zones = seen.jobs.iter().map(|job| {
        let context = seen.contexts[&job.context].as_str();
        let context = context.split_once(") ").map_or(context, |(_, name)| name);
        GpuZone {
            gpu: job.gpu,
            cpu: job.cpu,
            thread: job.thread,
            name: seen.location_name(job.location).to_owned(),
            context: context.split(" #").next().unwrap_or_default().to_owned(),
        }
    });
    zones.collect()
}

/// What is in the events.
#[derive(Debug, Default)]
pub(crate) struct Expected {
    /// Time, CPU, who comes.
    pub(crate) switches: Vec<(i64, u8, u32)>,
    pub(crate) wakeups: Vec<(i64, u32)>,
    /// Time and frames from the innermost on.
    pub(crate) samples: Vec<(i64, Vec<String>)>,
    pub(crate) zones: Vec<Zone>,
    pub(crate) values: Vec<(i64, f64)>,
    /// Time and how it begins.
    pub(crate) messages: Vec<(i64, String)>,
    pub(crate) frames: Vec<i64>,
    /// Address and size.
    pub(crate) allocations: Vec<(u64, u64)>,
    pub(crate) jobs: Vec<i64>,
    pub(crate) gpu_zones: Vec<GpuZone>,
    pub(crate) crashes: usize,
    open: BTreeMap<TrackId, Vec<usize>>,
}

impl Expected {
    fn add(&mut self, time: Time, event: &Event, tables: &Tables) {
        let at = time.0 as i64;
        let tid = |thread: ThreadId| tables.thread(thread).tid;
        match event {
            Event::Switch(switch) => {
                self.switches.push((at, switch.cpu.number as u8, tid(switch.next)));
            }
            Event::Wakeup(wakeup) => self.wakeups.push((at, tid(wakeup.wakee))),
            Event::Sample(sample) => {
                let frames = sample.stack.map_or(&[][..], |stack| tables.stack(stack));
                let frames = frames.iter().map(|frame| tables.frame_label(*frame));
                self.samples.push((at, frames.collect()));
            }
            Event::SliceBegin(track, slice) => match tables.track(*track).kind {
                TrackKind::Frames { .. } => self.frames.push(at),
                _ => {
                    self.open.entry(*track).or_default().push(self.zones.len());
                    let name = (slice.name, slice.number);
                    self.zones.push((at, None, numbered(name, tables)));
                }
            },
            Event::SliceUpdate(track, update) => {
                let zone = self.open.get(track).and_then(|open| open.last());
                if let (Some(zone), Some(name)) = (zone, update.name) {
                    self.zones[*zone].2 = numbered(name, tables);
                }
            }
            Event::SliceEnd(track) => {
                if let Some(zone) = self.open.get_mut(track).and_then(Vec::pop) {
                    self.zones[zone].1 = Some(at);
                }
            }
            Event::Counter(_, value) => self.values.push((at, *value)),
            Event::Message(_, message) => {
                let category = tables.strings.get(message.category).to_owned();
                let text = match &message.text {
                    Some(syscollect_model::MessageText::Written(text)) => text.to_string(),
                    Some(syscollect_model::MessageText::Interned { string, number }) => {
                        numbered((*string, *number), tables)
                    }
                    None => category,
                };
                self.messages.push((at, text));
            }
            Event::Memory(memory) => {
                self.allocations.extend(memory.allocated.map(|size| (memory.address, size)));
            }
            Event::GpuJob(_, job) => {
                self.jobs.push(at);
                self.gpu_zones.extend(GpuZone::of(time, job, tables));
            }
            Event::Crash(_) => self.crashes += 1,
            _ => {}
        }
    }
}

fn numbered((name, number): (syscollect_model::StringId, Option<u64>), tables: &Tables) -> String {
    let name = tables.strings.get(name);
    number.map_or_else(|| name.to_owned(), |number| format!("{name} {number}"))
}

/// The zones that a viewer saw.
pub(crate) fn zones(seen: &ReceivedTimeline) -> Vec<Zone> {
    let zones = seen.zones.iter();
    zones.map(|zone| (zone.start, zone.end, seen.zone_name(zone).to_owned())).collect()
}

/// The functions of a sample that a viewer saw.
pub(crate) fn functions(seen: &ReceivedTimeline, stack: &[u64]) -> Vec<String> {
    let lines = stack.iter().flat_map(|address| &seen.frames[address]);
    lines.map(|(name, ..)| name.clone()).filter(|name| name != "[no stack]").collect()
}

/// Events that are told live, and noted; before some of them something is done.
pub(crate) struct Both<F> {
    pub(crate) live: TracyLive,
    pub(crate) expected: Expected,
    pub(crate) events: u64,
    pub(crate) before: F,
}

impl<F: FnMut(u64, &mut TracyLive)> Both<F> {
    pub(crate) fn new(before: F) -> Self {
        let (live, expected) = Default::default();
        Self { live, expected, events: 0, before }
    }
}

impl<F: FnMut(u64, &mut TracyLive)> Exporter for Both<F> {
    type Error = std::convert::Infallible;

    fn begin(&mut self, tables: &Tables) -> Result<(), Self::Error> {
        self.live.begin(tables)
    }

    fn event(&mut self, time: Time, event: &Event, tables: &Tables) -> Result<(), Self::Error> {
        (self.before)(self.events, &mut self.live);
        self.events += 1;
        self.expected.add(time, event, tables);
        self.live.event(time, event, tables)
    }

    fn end(
        &mut self,
        losses: &[Loss],
        recorder: Option<&RecorderSummary>,
        tables: &Tables,
    ) -> Result<(), Self::Error> {
        self.live.end(losses, recorder, tables)
    }
}
