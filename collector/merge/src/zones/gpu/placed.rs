//! Zones of GPUs that have times, and the way into the model.

use super::clock::{ClockReading, GpuClock, TickFormat, WorkBounds};
use super::rows::{NestedRow, NestedRows};
use super::written::{
    JoinedZone, NumberedContext, SubmittedZone, ToldTimes, WrittenCalibration, WrittenContext,
    WrittenGpuWork, ZONE_BYTES, join,
};
use crate::engine::Engine;
use crate::tasks::TaskHistory;
use crate::zones::attributes::{About, EventAttributes};
use crate::zones::held_shares::OwnLosses;
use crate::zones::log::{GpuContext, Logs};
use crate::zones::programs::{ProgramClock, Programs};
use crate::zones::references::ZoneReferences;
use rustc_hash::FxHashSet;
use std::cmp::Reverse;
use std::sync::Arc;
use syscollect_model::{
    ClockMap, Event, Field, GpuJob, GpuJobEnd, GpuZone, Lane, LaneKind, LossCause, Scope, Tables,
    ThreadId, Track, TrackKind, Value,
};
use syscollect_playback::{EventType, Stopped};
use syscollect_zone_protocol::HostClock;

/// Times that lie so far outside of what can be, beyond what is known of their error, are counted:
/// 1 ms.
pub(super) const TOLERANCE_SECONDS: f64 = 1e-3;

/// A zone of a GPU, at its end.
#[derive(Clone, Debug)]
pub(crate) struct PlacedGpuZone {
    /// Of its end; where it has no times, of the end of its submission.
    pub(crate) ticks: u64,
    /// The program's number.
    pub(super) client: u32,
    /// The context's number in the program's log.
    context: u32,
    /// Its own.
    pub(super) number: u32,
    location: u32,
    tid: u32,
    pub(super) row: u16,
    pub(super) depth: u16,
    /// Who submitted it, where that thread is known.
    thread: Option<ThreadId>,
    pub(super) submitted: u64,
    /// When its submission ended, where that is known.
    submission_ended: Option<u64>,
    /// When the GPU began with it.
    pub(super) began: Option<u64>,
    /// How wrong the GPU's times may be, nanoseconds.
    deviation: u64,
    pub(super) attribute_words: Box<[u64]>,
}

// What is written is bounded by what it takes here.
const _: () = assert!(size_of::<SubmittedZone>() + size_of::<PlacedGpuZone>() <= ZONE_BYTES);

/// What has to be known to give zones times.
pub(crate) struct GpuPlacing<'a> {
    pub(crate) programs: &'a Programs,
    pub(crate) logs: &'a Logs,
    pub(crate) clock: &'a Arc<ClockMap>,
}

/// When the GPU did it, in the host's ticks.
pub(super) struct HostSpan {
    pub(super) span: [u64; 2],
    /// Ticks.
    pub(super) deviation: u64,
    /// It is nothing that can be.
    pub(super) is_impossible: bool,
}

/// Zones in order of their ends, and what came to nothing.
#[derive(Debug, Default)]
pub(crate) struct PlacedGpuZones {
    pub(crate) zones: Vec<PlacedGpuZone>,
    pub(crate) losses: OwnLosses,
}

impl GpuPlacing<'_> {
    /// Gives zones times.
    pub(crate) fn place(&self, mut written: WrittenGpuWork) -> PlacedGpuZones {
        let mut zones = Vec::new();
        for NumberedContext { client, number, written: of } in written.take() {
            let Some(context) = self.logs.get(client).gpu_context(number) else {
                let items = of.zones.len() + of.times.len() + of.calibrations.len();
                written.refuse(client, items);
                continue;
            };
            let clock = self.programs.clock(client, self.clock);
            let context = ContextPlacing { placing: self, context, client, number, clock };
            let refused = context.place(of, &mut zones);
            written.refuse(client, refused);
        }
        zones.sort_unstable_by_key(PlacedGpuZone::order);
        PlacedGpuZones { zones, losses: written.into_losses() }
    }
}

/// The zones of one context.
struct ContextPlacing<'a> {
    placing: &'a GpuPlacing<'a>,
    context: GpuContext,
    client: u32,
    number: u32,
    clock: ProgramClock,
}

impl ContextPlacing<'_> {
    /// How many items mean nothing.
    fn place(&self, mut of: WrittenContext, placed: &mut Vec<PlacedGpuZone>) -> usize {
        let per_second = self.placing.clock.ticks_per_second();
        let log = self.placing.logs.get(self.client);
        let mut refused = of.sort(|location| log.location(location).is_some());
        let clock = self.gpu_clock(&of);
        refused += clock.as_ref().map_or(0, |clock| clock.refused() as usize);
        let tolerance = (TOLERANCE_SECONDS * per_second) as u64;
        let first = placed.len();
        let WrittenContext { zones, ends, times, .. } = of;
        for zone in join(zones.into_iter(), &ends, &times) {
            let span = clock.as_ref().and_then(|clock| span(clock, &zone, tolerance));
            refused += usize::from(span.as_ref().is_some_and(|span| span.is_impossible));
            placed.push(self.placed(zone, span));
        }
        // Of equal ones, what was submitted first lies around the others.
        let placed = &mut placed[first..];
        placed.sort_unstable_by_key(|zone| {
            (zone.began, Reverse(zone.ticks), zone.submitted, zone.number)
        });
        let mut rows = NestedRows::default();
        for zone in placed {
            let Some(began) = zone.began else { continue };
            let NestedRow { row, depth, span } = rows.place([began, zone.ticks]);
            (zone.began, zone.ticks) = (Some(span[0]), span[1]);
            zone.row = u16::try_from(row).unwrap_or(u16::MAX);
            zone.depth = u16::try_from(depth).unwrap_or(u16::MAX);
        }
        refused
    }

    /// By readings; where there are none, by the zones, which are sorted.
    fn gpu_clock(&self, of: &WrittenContext) -> Option<GpuClock> {
        let map = self.placing.clock;
        let format = tick_format(self.context, map);
        let readings = of.calibrations.iter().filter_map(|read| reading(*read, &self.clock, map));
        GpuClock::calibrated(format, readings.collect()).or_else(|| {
            let work = of.joined().filter_map(|zone| {
                let times = zone.times?;
                let (submitted, told) = (zone.zone.ticks, times.ticks);
                Some(WorkBounds { submitted, gpu: times.gpu?, told })
            });
            GpuClock::fitted(format, work)
        })
    }

    /// A zone that has no row yet.
    fn placed(&self, zone: JoinedZone<SubmittedZone>, span: Option<HostSpan>) -> PlacedGpuZone {
        let of = NumberedGpu { client: self.client, context: self.number };
        PlacedGpuZone::new(of, zone, span, self.placing.clock)
    }
}

/// Which context of which program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct NumberedGpu {
    /// The program's number.
    pub(super) client: u32,
    /// The context's in the program's log.
    pub(super) context: u32,
}

/// How long a context's ticks are in those of the host.
pub(super) fn tick_format(context: GpuContext, map: &ClockMap) -> TickFormat {
    let tick_seconds = context.tick_femtoseconds as f64 * 1e-15;
    TickFormat { host_ticks: tick_seconds * map.ticks_per_second(), bits: context.tick_bits }
}

/// A reading of both clocks in the host's ticks; `None` where the program's have no meaning.
pub(super) fn reading(
    read: WrittenCalibration,
    clock: &ProgramClock,
    map: &ClockMap,
) -> Option<ClockReading> {
    let host = match read.clock {
        HostClock::Ticks => clock.anywhere(read.host)?,
        HostClock::Monotonic => map.ticks_at_monotonic(read.host).0,
    };
    let deviation = (f64::from(read.deviation) * 1e-9 * map.ticks_per_second()) as u64;
    Some(ClockReading { host, gpu: read.gpu, deviation })
}

/// When the GPU did it: not before it was submitted, and not later than it was told.
pub(super) fn span(
    clock: &GpuClock,
    zone: &JoinedZone<SubmittedZone>,
    tolerance: u64,
) -> Option<HostSpan> {
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
    let tids: FxHashSet<u32> = zones.iter().map(|zone| zone.tid).collect();
    let lifetimes = history.lifetimes(&tids);
    for zone in zones {
        let Some(lives) = lifetimes.get(&zone.tid) else { continue };
        let after = lives.partition_point(|(since, _)| *since <= zone.submitted);
        let thread = after.checked_sub(1).and_then(|at| lives.get(at)).map(|(_, thread)| *thread);
        let pid = programs.pid(zone.client);
        let is_of = |thread: &ThreadId| {
            let process = tables.thread(*thread).process;
            pid.is_none_or(|pid| tables.process(process).pid == pid)
        };
        zone.thread = thread.filter(is_of);
    }
}

impl PlacedGpuZone {
    /// A zone that has no row yet.
    pub(super) fn new(
        of: NumberedGpu,
        zone: JoinedZone<SubmittedZone>,
        span: Option<HostSpan>,
        map: &ClockMap,
    ) -> Self {
        let JoinedZone { zone, submission_ended, .. } = zone;
        let deviation = span.as_ref().map_or(0, |span| span.deviation);
        Self {
            ticks: span.as_ref().map_or(submission_ended.unwrap_or(zone.ticks), |of| of.span[1]),
            client: of.client,
            context: of.context,
            number: zone.number,
            location: zone.location,
            tid: zone.tid,
            row: 0,
            depth: 0,
            thread: None,
            submitted: zone.ticks,
            submission_ended,
            began: span.map(|of| of.span[0]),
            deviation: (deviation as f64 * 1e9 / map.ticks_per_second()) as u64,
            attribute_words: zone.attribute_words,
        }
    }

    /// The same with who submitted it.
    pub(super) fn by(self, thread: ThreadId) -> Self {
        Self { thread: Some(thread), ..self }
    }

    /// In order of their ends. Of those that end together, what lies within comes first.
    pub(super) fn order(&self) -> impl Ord + use<> {
        let Self { ticks, depth, client, context, began, number, .. } = *self;
        (ticks, Reverse(depth), client, context, began, number)
    }

    /// Emits it: its end is now, or was before, where that is told `later`.
    pub(crate) fn emit(
        &self,
        engine: &mut Engine<'_>,
        references: &mut ZoneReferences,
        later: bool,
    ) -> Result<(), Stopped> {
        let client = self.client;
        let log = references.known.logs.get(client);
        let (Some(place), Some(context)) =
            (log.location(self.location), log.gpu_context(self.context))
        else {
            return Ok(());
        };
        let words = &self.attribute_words;
        let attributes =
            EventAttributes::read(words, About::Zone, log, references.names, &engine.tables);
        let (lane, user) = (Lane::new(LaneKind::Zone, 0), references.known.programs.user(client));
        engine.source.losses.of_program(lane, user, LossCause::Undecodable, attributes.unknown);
        let thread = self.thread.unwrap_or_else(|| {
            let pid = references.known.programs.pid(client);
            engine.thread_of(self.tid, pid)
        });
        let mut slice = place.slice();
        references.describe(engine, client, &mut slice, attributes);
        let error = engine.tables.strings.intern("error of its clock");
        if self.began.is_some() {
            slice.fields.push(Field::named(error, Value::Duration(self.deviation)));
        }
        let times = [Some(self.submitted), self.began];
        let [submitted, started] =
            times.map(|ticks| ticks.map(|ticks| engine.time(ticks).min(engine.now())));
        // The GPU may be done before the thread is that submits.
        let submission_ended = self.submission_ended.map(|ticks| engine.time(ticks));
        let ended = later.then(|| engine.time(self.ticks).min(engine.now()));
        let end = match self.began {
            Some(_) => GpuJobEnd::Finished,
            None => GpuJobEnd::Untimed,
        };
        let scope = Scope::Process(engine.tables.thread(thread).process);
        let track = Track { scope, name: context.name, kind: TrackKind::GpuQueue };
        // A program has fewer contexts than its log has words.
        let key = u64::from(client) << 40 ^ u64::from(self.context) << 8;
        let queue = engine.track(track.clone(), key);
        let track = engine.track(track, key | u64::from(self.row));
        let job = GpuJob {
            thread: Some(thread),
            submitted,
            started,
            end,
            fields: slice.fields,
            zone: Some(GpuZone {
                queue,
                depth: self.depth.into(),
                row: self.row.into(),
                number: slice.number,
                location: slice.location,
                color: slice.color,
                stack: slice.stack,
                clock_error: self.deviation,
                submission_ended,
                ended,
            }),
            ..GpuJob::named(slice.name)
        };
        engine.occurred(EventType::GpuJob);
        engine.emit(&Event::GpuJob(track, Box::new(job)))
    }
}
