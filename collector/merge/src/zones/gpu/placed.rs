//! Zones of GPUs that have times, and the way into the model.

use super::clock::{ClockReading, GpuClock, TickFormat, WorkBounds};
use super::rows::{NestedRow, NestedRows};
use super::written::{
    NumberedContext, SubmissionEnd, SubmittedZone, ToldTimes, WrittenContext, WrittenGpuWork,
};
use crate::engine::Engine;
use crate::tasks::TaskHistory;
use crate::zones::attributes::{About, EventAttributes};
use crate::zones::log::{GpuContext, Logs};
use crate::zones::programs::{ProgramClock, Programs};
use crate::zones::references::ZoneReferences;
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;
use std::sync::Arc;
use syscollect_model::{
    ClockMap, Event, Field, GpuJob, GpuJobEnd, GpuZone, Lane, Scope, Tables, ThreadId, Track,
    TrackKind, Value,
};
use syscollect_playback::{EventType, Stopped};
use syscollect_records::ZoneChunk;
use syscollect_zone_protocol::HostClock;

/// Times that lie so far outside of what can be, beyond what is known of their error, are counted:
/// 1 ms.
const TOLERANCE_SECONDS: f64 = 1e-3;

/// A zone of a GPU, at its end.
#[derive(Clone, Debug)]
pub(crate) struct PlacedGpuZone {
    /// Of its end; where it has no times, of the end of its submission.
    pub(crate) ticks: u64,
    lane: Lane,
    owner: ZoneChunk,
    /// Who submitted it, where that thread is known.
    thread: Option<ThreadId>,
    /// The context's number in the program's log.
    context: u32,
    location: u32,
    submitted: u64,
    /// When its submission ended, where that is known.
    submission_ended: Option<u64>,
    /// When the GPU began with it.
    began: Option<u64>,
    row: u32,
    depth: u32,
    /// How wrong the GPU's times may be, nanoseconds.
    deviation: u64,
    attribute_words: Box<[u64]>,
}

/// What has to be known to give zones times.
pub(crate) struct GpuPlacing<'a> {
    pub(crate) programs: &'a Programs,
    pub(crate) logs: &'a Logs,
    pub(crate) clock: &'a Arc<ClockMap>,
}

/// A zone with its times.
struct TimedZone {
    zone: SubmittedZone,
    submission_ended: Option<u64>,
    times: Option<ToldTimes>,
}

/// When the GPU did it, in the host's ticks.
struct HostSpan {
    span: [u64; 2],
    /// Ticks.
    deviation: u64,
    /// It is nothing that can be.
    is_impossible: bool,
}

impl GpuPlacing<'_> {
    /// All zones, in order of their ends. What means nothing is counted in `written`.
    pub(crate) fn place(&self, written: &mut WrittenGpuWork) -> Vec<PlacedGpuZone> {
        let mut placed = Vec::new();
        for NumberedContext { client, number, written: of } in written.take() {
            let Some(context) = self.logs.get(client).gpu_context(number) else {
                of.zones.iter().for_each(|zone| written.refuse(zone.lane));
                of.times.iter().for_each(|times| written.refuse(times.lane));
                of.calibrations.iter().for_each(|read| written.refuse(read.lane));
                continue;
            };
            let clock = self.programs.clock(client, self.clock);
            let context = ContextPlacing { placing: self, context, number, clock };
            context.place(of, written, &mut placed);
        }
        // Of those that end together, what lies within comes first.
        placed.sort_by_key(|zone| (zone.ticks, Reverse(zone.depth)));
        placed
    }
}

/// The zones of one context.
struct ContextPlacing<'a> {
    placing: &'a GpuPlacing<'a>,
    context: GpuContext,
    number: u32,
    clock: ProgramClock,
}

impl ContextPlacing<'_> {
    fn place(
        &self,
        of: WrittenContext,
        written: &mut WrittenGpuWork,
        placed: &mut Vec<PlacedGpuZone>,
    ) {
        let WrittenContext { zones, ends, times, calibrations } = of;
        let per_second = self.placing.clock.ticks_per_second();
        let tick_seconds = self.context.tick_femtoseconds as f64 * 1e-15;
        let bits = self.context.tick_bits;
        let format = TickFormat { host_ticks: tick_seconds * per_second, bits };
        let readings = calibrations.iter().filter_map(|read| {
            let host = match read.clock {
                HostClock::Ticks => self.clock.anywhere(read.host)?,
                HostClock::Monotonic => self.placing.clock.ticks_at_monotonic(read.host).0,
            };
            let deviation = (f64::from(read.deviation) * 1e-9 * per_second) as u64;
            Some(ClockReading { host, gpu: read.gpu, deviation })
        });
        let readings: Vec<_> = readings.collect();
        let zones = self.matched(zones, times, written);
        let zones = with_ends(zones, ends);
        let clock = GpuClock::calibrated(format, readings).or_else(|| {
            let work = zones.iter().filter_map(|zone| {
                let times = zone.times?;
                let (submitted, told) = (zone.zone.ticks, times.ticks);
                Some(WorkBounds { submitted, gpu: times.gpu?, told })
            });
            GpuClock::fitted(format, work)
        });
        if let (Some(clock), Some(read)) = (&clock, calibrations.first()) {
            (0..clock.refused()).for_each(|_| written.refuse(read.lane));
        }
        let tolerance = (TOLERANCE_SECONDS * per_second) as u64;
        let mut timed = Vec::with_capacity(zones.len());
        for zone in zones {
            let span = clock.as_ref().and_then(|clock| span(clock, &zone, tolerance));
            if span.as_ref().is_some_and(|span| span.is_impossible) {
                written.refuse(zone.zone.lane);
            }
            match span {
                Some(span) => timed.push((zone, span)),
                None => placed.push(self.without_times(zone)),
            }
        }
        // Of equal ones, what was submitted first lies around the others.
        timed.sort_by_key(|(_, HostSpan { span: [began, ended], .. })| (*began, Reverse(*ended)));
        let mut rows = NestedRows::default();
        for (zone, HostSpan { span, deviation, .. }) in timed {
            let deviation = deviation as f64 * 1e9 / per_second;
            let place = rows.place(span);
            placed.push(self.with_times(zone, place, deviation as u64));
        }
    }

    /// Zones with what was told of their times, in order of their submission.
    fn matched(
        &self,
        mut zones: Vec<SubmittedZone>,
        times: Vec<ToldTimes>,
        written: &mut WrittenGpuWork,
    ) -> Vec<TimedZone> {
        zones.sort_by_key(|zone| zone.ticks);
        let mut by_number = FxHashMap::default();
        let mut matched: Vec<TimedZone> = Vec::with_capacity(zones.len());
        for zone in zones {
            let location = self.placing.logs.get(zone.owner.client).location(zone.location);
            if location.is_none() || by_number.contains_key(&zone.number) {
                written.refuse(zone.lane);
                continue;
            }
            by_number.insert(zone.number, matched.len());
            matched.push(TimedZone { zone, submission_ended: None, times: None });
        }
        for told in times {
            // Times of zones that began before the recording are no mistake.
            let Some(zone) = by_number.get(&told.number).and_then(|at| matched.get_mut(*at)) else {
                continue;
            };
            match &mut zone.times {
                None => zone.times = Some(told),
                // Each lane is read by itself: what was told first counts.
                Some(first) => {
                    written.refuse(told.lane);
                    if told.ticks < first.ticks {
                        *first = told;
                    }
                }
            }
        }
        matched
    }

    fn with_times(&self, zone: TimedZone, place: NestedRow, deviation: u64) -> PlacedGpuZone {
        let NestedRow { row, depth, span: [began, ended] } = place;
        let placed = self.without_times(zone);
        PlacedGpuZone { ticks: ended, began: Some(began), row, depth, deviation, ..placed }
    }

    fn without_times(&self, zone: TimedZone) -> PlacedGpuZone {
        let TimedZone { zone, submission_ended, .. } = zone;
        PlacedGpuZone {
            ticks: submission_ended.unwrap_or(zone.ticks),
            lane: zone.lane,
            owner: zone.owner,
            thread: None,
            context: self.number,
            location: zone.location,
            submitted: zone.ticks,
            submission_ended,
            began: None,
            row: 0,
            depth: 0,
            deviation: 0,
            attribute_words: zone.attribute_words,
        }
    }
}

/// Zones with the ends of their submission.
fn with_ends(mut zones: Vec<TimedZone>, ends: Vec<SubmissionEnd>) -> Vec<TimedZone> {
    let ends: FxHashMap<u32, u64> = ends.into_iter().map(|end| (end.number, end.ticks)).collect();
    for zone in &mut zones {
        let end = ends.get(&zone.zone.number).copied();
        zone.submission_ended = end.filter(|end| *end >= zone.zone.ticks);
    }
    zones
}

/// When the GPU did it: not before it was submitted, and not later than it was told.
fn span(clock: &GpuClock, zone: &TimedZone, tolerance: u64) -> Option<HostSpan> {
    let ToldTimes { gpu, ticks: told, .. } = zone.times?;
    let submitted = zone.zone.ticks;
    let told = told.max(submitted);
    let gpu = clock.unwrapped(gpu?, submitted);
    let [began, ended] = gpu.map(|ticks| clock.host_at(ticks));
    let deviation = began.deviation.max(ended.deviation);
    let allowed = deviation.saturating_add(tolerance);
    let is_impossible = gpu[1] < gpu[0]
        || began.ticks.saturating_add(allowed) < submitted
        || ended.ticks > told.saturating_add(allowed);
    let began = began.ticks.clamp(submitted, told);
    let span = [began, ended.ticks.clamp(began, told)];
    Some(HostSpan { span, deviation, is_impossible })
}

/// Finds the threads that submitted zones, which may have ended before the GPU is done.
pub(crate) fn find_threads(
    zones: &mut [PlacedGpuZone],
    programs: &Programs,
    history: &TaskHistory,
    tables: &Tables,
) {
    let tids: FxHashSet<u32> = zones.iter().map(|zone| zone.owner.tid).collect();
    let lifetimes = history.lifetimes(&tids);
    for zone in zones {
        let Some(lives) = lifetimes.get(&zone.owner.tid) else { continue };
        let after = lives.partition_point(|(since, _)| *since <= zone.submitted);
        let thread = after.checked_sub(1).and_then(|at| lives.get(at)).map(|(_, thread)| *thread);
        let pid = programs.pid(zone.owner.client);
        let is_of = |thread: &ThreadId| {
            let process = tables.thread(*thread).process;
            pid.is_none_or(|pid| tables.process(process).pid == pid)
        };
        zone.thread = thread.filter(is_of);
    }
}

impl PlacedGpuZone {
    /// Emits it: its end is now.
    pub(crate) fn emit(
        &self,
        engine: &mut Engine<'_>,
        references: &mut ZoneReferences,
    ) -> Result<(), Stopped> {
        let client = self.owner.client;
        let log = references.known.logs.get(client);
        let (Some(place), Some(context)) =
            (log.location(self.location), log.gpu_context(self.context))
        else {
            return Ok(());
        };
        let words = &self.attribute_words;
        let attributes =
            EventAttributes::read(words, About::Zone, log, references.names, &engine.tables);
        engine.source.losses.undecodable(self.lane, attributes.unknown);
        let thread = self.thread.unwrap_or_else(|| {
            let pid = references.known.programs.pid(client);
            engine.thread_of(self.owner.tid, pid)
        });
        let mut slice = place.slice();
        references.describe(engine, client, &mut slice, attributes);
        let error = engine.tables.strings.intern("error of its clock");
        if self.began.is_some() {
            slice.fields.push(Field::named(error, Value::Duration(self.deviation)));
        }
        let times = [Some(self.submitted), self.submission_ended, self.began];
        let [submitted, submission_ended, started] =
            times.map(|ticks| ticks.map(|ticks| engine.time(ticks).min(engine.now())));
        let end = match self.began {
            Some(_) => GpuJobEnd::Finished,
            None => GpuJobEnd::Untimed,
        };
        let job = GpuJob {
            thread: Some(thread),
            submitted,
            started,
            end,
            fields: slice.fields,
            zone: Some(GpuZone {
                depth: self.depth,
                row: self.row,
                number: slice.number,
                location: slice.location,
                color: slice.color,
                stack: slice.stack,
                submission_ended,
            }),
            ..GpuJob::named(slice.name)
        };
        let scope = Scope::Process(engine.tables.thread(thread).process);
        let track = Track { scope, name: context.name, kind: TrackKind::GpuQueue };
        // A program has fewer contexts than its log has words.
        let key = u64::from(client) << 40 ^ u64::from(self.context) << 8 | u64::from(self.row);
        let track = engine.track(track, key);
        engine.occurred(EventType::GpuJob);
        engine.emit(&Event::GpuJob(track, Box::new(job)))
    }
}
