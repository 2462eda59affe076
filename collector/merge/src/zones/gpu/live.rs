//! Zones of GPUs of a recording that goes on, told as soon as their times are known.
//!
//! What programs hold has a bound, in which they have shares as in a file; but who waits for times
//! that never come gives way to what it writes later.

use super::clock::{ClockReading, WorkBounds};
use super::live_clock::LiveGpuClock;
use super::live_context::{GpuPatience, LiveGpuContext, PendingGpuZone};
use super::placed::{NumberedGpu, PlacedGpuZone, TOLERANCE_SECONDS, reading, span, tick_format};
use super::written::{
    JoinedZone, MOST_CONTEXTS, SubmittedZone, ToldTimes, WrittenCalibration, context_of,
};
use crate::engine::{Engine, Writer};
use crate::zones::held_shares::{HeldShares, words_size};
use crate::zones::references::ZoneReferences;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use syscollect_model::{ClockMap, Lane, LaneKind, LossCause, ProcessId};
use syscollect_playback::Stopped;
use syscollect_store::Producer;
use syscollect_zone_protocol::GpuEvent;

/// Bytes that all that is held takes: some 200,000 zones.
const MOST_BYTES: usize = 64 << 20;
/// What a context and a zone take, with all that leads to them.
const CONTEXT_BYTES: usize = 8 << 10;
const ZONE_BYTES: usize = 320;
/// Zones without times hold back others for so long, seconds.
const HOLDS_BACK_SECONDS: f64 = 2.0;
/// Then it is said that they have none.
const WAITS_SECONDS: f64 = 60.0;
/// How often it is looked who waits too long, seconds.
const LOOKS_EVERY_SECONDS: f64 = 0.1;

/// All of them.
#[derive(Debug)]
pub(crate) struct LiveGpuWork {
    contexts: FxHashMap<NumberedGpu, HeldContext>,
    /// How many of them each program has.
    counts: FxHashMap<u32, usize>,
    shares: HeldShares,
    /// When it is to be looked again who waits too long.
    due: u64,
    /// What found no room and was not told so.
    untold_losses: u64,
    /// Somebody wants to hear of zones. Clocks are followed in any case.
    is_watched: bool,
}

/// A context, and whose it is.
#[derive(Debug)]
struct HeldContext {
    process: ProcessId,
    producer: Producer,
    of: LiveGpuContext,
}

impl Default for LiveGpuWork {
    fn default() -> Self {
        Self {
            contexts: FxHashMap::default(),
            counts: FxHashMap::default(),
            shares: HeldShares::new(MOST_BYTES),
            due: u64::MAX,
            untold_losses: 0,
            is_watched: true,
        }
    }
}

fn ticks_of(seconds: f64, map: &ClockMap) -> u64 {
    (map.ticks_per_second() * seconds) as u64
}

fn patience(map: &ClockMap) -> GpuPatience {
    let holds_back = ticks_of(HOLDS_BACK_SECONDS, map);
    GpuPatience { holds_back, waits: ticks_of(WAITS_SECONDS, map) }
}

impl LiveGpuWork {
    /// Whether anybody wants to hear of zones from now on.
    pub(crate) fn watch(&mut self, is_watched: bool) {
        if std::mem::replace(&mut self.is_watched, is_watched) && !is_watched {
            let Self { contexts, shares, .. } = self;
            for HeldContext { producer, of, .. } in contexts.values_mut() {
                let bytes = of.forget_timed().iter().map(|zone| size(&zone.attribute_words)).sum();
                shares.give_back(*producer, bytes);
            }
        }
    }

    /// An event of now.
    pub(crate) fn on(
        &mut self,
        engine: &mut Engine<'_>,
        references: &mut ZoneReferences,
        writer: Writer,
        event: GpuEvent,
        attribute_words: &[u64],
    ) -> Result<(), Stopped> {
        let map = Arc::clone(engine.present.map());
        let client = writer.program.client;
        let of = NumberedGpu { client, context: context_of(event) };
        let log = references.known.logs.get(client);
        let Some(defined) = log.gpu_context(of.context) else {
            let means_nothing = !matches!(event, GpuEvent::ZoneEnd { .. });
            writer.refuse(engine, means_nothing.into());
            return Ok(());
        };
        let now = engine.present.ticks();
        if !self.contexts.contains_key(&of) {
            if !self.make_room(engine, references, writer, CONTEXT_BYTES, Some(client)) {
                return Ok(());
            }
            let per_second = map.ticks_per_second();
            let clock = LiveGpuClock::new(tick_format(defined, &map), per_second);
            let (process, of_context) = (writer.program.process, LiveGpuContext::new(clock));
            let producer = references.known.programs.producer(client);
            *self.counts.entry(client).or_default() += 1;
            self.contexts.insert(of, HeldContext { process, producer, of: of_context });
        }
        match event {
            GpuEvent::ZoneBegin { zone, location } => {
                let is_known = references.known.logs.get(client).location(location).is_some();
                let is_pending = self
                    .contexts
                    .get(&of)
                    .is_some_and(|held| held.of.pending.contains_key(&zone.number));
                if !is_known || is_pending {
                    writer.refuse(engine, 1);
                    return Ok(());
                }
                if !self.make_room(engine, references, writer, size(attribute_words), None) {
                    return Ok(());
                }
                let Some(held) = self.contexts.get_mut(&of) else { return Ok(()) };
                held.of.submit(PendingGpuZone {
                    zone: SubmittedZone {
                        ticks: now,
                        number: zone.number,
                        location,
                        tid: writer.tid,
                        attribute_words: attribute_words.into(),
                    },
                    submission_ended: None,
                    times: None,
                    thread: writer.thread,
                });
                self.due = self.due.min(now.saturating_add(patience(&map).holds_back));
                Ok(())
            }
            GpuEvent::ZoneEnd { zone } => {
                self.submission_ended(engine, references, of, zone.number)
            }
            GpuEvent::Times { zone, began, ended } => {
                let gpu = Some([began, ended]);
                let times = ToldTimes { number: zone.number, gpu, ticks: now };
                self.told(engine, references, of, times)
            }
            GpuEvent::NoTimes { zone } => {
                let times = ToldTimes { number: zone.number, gpu: None, ticks: now };
                self.told(engine, references, of, times)
            }
            GpuEvent::Calibration { clock, deviation, host, gpu, .. } => {
                let program = references.known.programs.clock(client, &map);
                let read = WrittenCalibration { clock, host, gpu, deviation };
                let read = reading(read, &program, &map);
                let clock = self.contexts.get_mut(&of).map(|held| &mut held.of.clock);
                let makes_sense = |read: ClockReading| clock.is_none_or(|clock| clock.read(read));
                if !read.is_some_and(makes_sense) {
                    writer.refuse(engine, 1);
                }
                Ok(())
            }
        }
    }

    /// The submission of a zone ends; of several ends the first counts.
    fn submission_ended(
        &mut self,
        engine: &mut Engine<'_>,
        references: &mut ZoneReferences,
        of: NumberedGpu,
        number: u32,
    ) -> Result<(), Stopped> {
        let Some(HeldContext { of: context, .. }) = self.contexts.get_mut(&of) else {
            return Ok(());
        };
        let Some(zone) = context.pending.get_mut(&number) else { return Ok(()) };
        zone.submission_ended.get_or_insert(engine.present.ticks());
        self.timed_if_complete(engine, references, of, number)
    }

    /// The times of a zone are told, of which the first count. Another thread may tell them before
    /// the one that submits it is done with that: then it is waited for.
    fn told(
        &mut self,
        engine: &mut Engine<'_>,
        references: &mut ZoneReferences,
        of: NumberedGpu,
        times: ToldTimes,
    ) -> Result<(), Stopped> {
        let Some(HeldContext { of: context, .. }) = self.contexts.get_mut(&of) else {
            return Ok(());
        };
        // Of one that began before the recording there is nothing.
        let Some(zone) = context.pending.get_mut(&times.number) else { return Ok(()) };
        if zone.times.is_some() {
            return Ok(());
        }
        zone.times = Some(times);
        if let Some(gpu) = times.gpu {
            let (submitted, told) = (zone.zone.ticks, times.ticks);
            context.clock.learn(WorkBounds { submitted, gpu, told });
        }
        self.timed_if_complete(engine, references, of, times.number)
    }

    /// A zone of which the times are known and the submission has ended is complete.
    fn timed_if_complete(
        &mut self,
        engine: &mut Engine<'_>,
        references: &mut ZoneReferences,
        of: NumberedGpu,
        number: u32,
    ) -> Result<(), Stopped> {
        let pending = self.contexts.get_mut(&of).map(|held| &mut held.of.pending);
        let complete = pending.and_then(|pending| {
            let zone = pending.get(&number)?;
            let is_complete = zone.times.is_some() && zone.submission_ended.is_some();
            is_complete.then(|| pending.remove(&number)).flatten()
        });
        match complete {
            Some(zone) => self.timed(engine, references, of, zone),
            None => Ok(()),
        }
    }

    /// All that there will be is known of a zone that has times.
    fn timed(
        &mut self,
        engine: &mut Engine<'_>,
        references: &mut ZoneReferences,
        of: NumberedGpu,
        zone: PendingGpuZone,
    ) -> Result<(), Stopped> {
        let Some(HeldContext { producer, of: context, .. }) = self.contexts.get_mut(&of) else {
            return Ok(());
        };
        let map = Arc::clone(engine.present.map());
        if !self.is_watched {
            self.shares.give_back(*producer, size(&zone.zone.attribute_words));
            return Ok(());
        }
        let PendingGpuZone { zone, submission_ended, times, thread } = zone;
        let joined = JoinedZone { zone, submission_ended, times };
        let tolerance = ticks_of(TOLERANCE_SECONDS, &map);
        let clock = context.clock.now();
        let span = clock.and_then(|clock| span(&clock, &joined, tolerance));
        if span.as_ref().is_some_and(|span| span.is_impossible) {
            let user = references.known.programs.user(of.client);
            engine.source.losses.of_program(LANE, user, LossCause::Undecodable, 1);
        }
        let placed = PlacedGpuZone::new(of, joined, span, &map);
        context.timed(placed.by(thread));
        let mut told = Vec::new();
        context.advance(engine.present.ticks(), patience(&map), &mut told);
        self.emit(engine, references, told)
    }

    /// Whether somebody has waited too long by now.
    #[inline]
    pub(crate) fn is_due(&self, now: u64) -> bool {
        now >= self.due
    }

    /// Goes on with what waits for others that have waited too long.
    #[cold]
    pub(crate) fn give_up_waiting(
        &mut self,
        engine: &mut Engine<'_>,
        references: &mut ZoneReferences,
    ) -> Result<(), Stopped> {
        let map = Arc::clone(engine.present.map());
        let (now, patience) = (engine.present.ticks(), patience(&map));
        self.tell_losses(engine)?;
        let (mut told, mut unended) = (Vec::new(), Vec::new());
        let mut earliest = u64::MAX;
        for (of, HeldContext { of: context, .. }) in &mut self.contexts {
            context.advance(now, patience, &mut told);
            unended.extend(context.take_unended(false).into_iter().map(|zone| (*of, zone)));
            let given_up = context.give_up(now, patience).into_iter();
            told.extend(given_up.map(|pending| untimed(*of, pending, &map)));
            earliest = earliest.min(context.earliest().unwrap_or(u64::MAX));
        }
        let looks_every = ticks_of(LOOKS_EVERY_SECONDS, &map);
        let next = earliest.saturating_add(patience.holds_back);
        self.due = next.max(now.saturating_add(looks_every));
        in_order(&mut told);
        self.emit(engine, references, told)?;
        unended.into_iter().try_for_each(|(of, zone)| self.timed(engine, references, of, zone))
    }

    /// The process ends, or runs another program; without a process, the recording ends: what has
    /// no times by now has none.
    pub(crate) fn close(
        &mut self,
        engine: &mut Engine<'_>,
        references: &mut ZoneReferences,
        process: Option<ProcessId>,
    ) -> Result<(), Stopped> {
        let map = Arc::clone(engine.present.map());
        let is_over = |held: &HeldContext| process.is_none_or(|process| process == held.process);
        let over = self.contexts.iter().filter(|(_, held)| is_over(held)).map(|(of, _)| *of);
        let over: Vec<NumberedGpu> = over.collect();
        for of in &over {
            let held = self.contexts.get_mut(of);
            for zone in held.map(|held| held.of.take_unended(true)).unwrap_or_default() {
                self.timed(engine, references, *of, zone)?;
            }
        }
        let mut told = Vec::new();
        for of in over {
            let Some(mut held) = self.contexts.remove(&of) else { continue };
            held.of.finish(&mut told);
            let pending = held.of.take_earliest(true).into_iter();
            told.extend(pending.map(|pending| untimed(of, pending, &map)));
            self.shares.give_back(held.producer, CONTEXT_BYTES);
            if let Some(count) = self.counts.get_mut(&of.client) {
                *count -= 1;
            }
        }
        self.counts.retain(|_, count| *count > 0);
        self.tell_losses(engine)?;
        in_order(&mut told);
        self.emit(engine, references, told)
    }

    fn emit(
        &mut self,
        engine: &mut Engine<'_>,
        references: &mut ZoneReferences,
        told: Vec<PlacedGpuZone>,
    ) -> Result<(), Stopped> {
        for zone in told {
            let producer = references.known.programs.producer(zone.client);
            self.shares.give_back(producer, size(&zone.attribute_words));
            if self.is_watched {
                zone.emit(engine, references, true)?;
            }
        }
        Ok(())
    }

    /// Finds room for what the writer wrote, or counts it as lost: that is told now and then.
    /// `context_of` is the program whose context it is for.
    fn make_room(
        &mut self,
        engine: &mut Engine<'_>,
        references: &ZoneReferences,
        writer: Writer,
        bytes: usize,
        context_of: Option<u32>,
    ) -> bool {
        let count = context_of.and_then(|client| self.counts.get(&client));
        let has_too_many = count.is_some_and(|count| *count >= MOST_CONTEXTS);
        let programs = &references.known.programs;
        let producer = programs.producer(writer.program.client);
        let mut lost: Vec<(u32, u64)> = Vec::new();
        let Self { contexts, shares, .. } = self;
        let cut = |most: Producer| {
            let of_most = contexts.iter_mut().filter(|(of, _)| of.client == most.program);
            let largest = of_most.max_by_key(|(of, held)| (held.of.pending.len(), **of));
            let gone = largest.map_or(Vec::new(), |(_, held)| held.of.take_earliest(false));
            lost.push((most.program, gone.len() as u64));
            gone.iter().map(|gone| size(&gone.zone.attribute_words)).sum()
        };
        let has_room = !has_too_many && shares.take(producer, bytes, cut);
        if !has_room {
            lost.push((writer.program.client, 1));
        }
        for (client, count) in lost {
            let (user, losses) = (programs.user(client), &mut engine.source.losses);
            losses.of_program(LANE, user, LossCause::BeyondShare, count);
            self.untold_losses += count;
        }
        if self.untold_losses > 0 {
            let looks_every = ticks_of(LOOKS_EVERY_SECONDS, engine.present.map());
            self.due = self.due.min(engine.present.ticks().saturating_add(looks_every));
        }
        has_room
    }

    /// Says what found no room.
    fn tell_losses(&mut self, engine: &mut Engine<'_>) -> Result<(), Stopped> {
        let count = std::mem::take(&mut self.untold_losses);
        if count == 0 {
            return Ok(());
        }
        let loss = engine.source.losses.event(LANE, LossCause::BeyondShare, count, None);
        engine.emit(&loss)
    }
}

/// Which of the lanes of zones it was is not told.
const LANE: Lane = Lane::new(LaneKind::Zone, 0);

/// What a zone takes with what is said of it.
fn size(attribute_words: &[u64]) -> usize {
    ZONE_BYTES + words_size(attribute_words)
}

/// A zone that has no times.
fn untimed(of: NumberedGpu, pending: PendingGpuZone, map: &ClockMap) -> PlacedGpuZone {
    let PendingGpuZone { zone, submission_ended, thread, .. } = pending;
    let joined = JoinedZone { zone, submission_ended, times: None };
    PlacedGpuZone::new(of, joined, None, map).by(thread)
}

/// What several contexts tell at once.
fn in_order(told: &mut [PlacedGpuZone]) {
    told.sort_by_key(PlacedGpuZone::order);
}
