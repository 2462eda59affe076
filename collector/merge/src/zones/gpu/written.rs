//! What programs wrote of their GPUs' work, before it has times.
//!
//! Times come when they come, so all of it is held together, and a program may write zones without
//! end: what is held has a bound, and programs have shares of it.

use crate::zones::held_shares::{
    HeldShares, OwnLosses, first_to_give_up, give_up_last, words_size,
};
use rustc_hash::FxHashMap;
use std::borrow::Borrow;
use syscollect_records::ZoneChunk;
use syscollect_store::Producer;
use syscollect_zone_protocol::{GpuEvent, HostClock};

/// Contexts of one program that are told apart; a program may announce as many as it likes.
pub(super) const MOST_CONTEXTS: usize = 256;
/// Bytes that zones take where they take most: room for a million and more with times.
const MOST_BYTES: usize = 320 << 20;
/// What a context takes beside what is written of it, bytes.
const CONTEXT_BYTES: usize = 1024;
/// What a zone takes as it was submitted and, beside that, with its times, bytes.
pub(super) const ZONE_BYTES: usize = 144;

/// A group that tells of a GPU: when it was written, and by whom.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GpuGroup<'w> {
    pub(crate) ticks: u64,
    pub(crate) owner: ZoneChunk,
    /// Whose share it takes of what is held.
    pub(crate) producer: Producer,
    /// What is said behind the event.
    pub(crate) attribute_words: &'w [u64],
}

/// A zone as it was submitted.
#[derive(Clone, Debug)]
pub(super) struct SubmittedZone {
    /// When its submission began.
    pub(super) ticks: u64,
    pub(super) number: u32,
    /// The number of its location in the program's log.
    pub(super) location: u32,
    /// Who submitted it.
    pub(super) tid: u32,
    pub(super) attribute_words: Box<[u64]>,
}

/// What the GPU's clock was for a zone.
#[derive(Clone, Copy, Debug)]
pub(super) struct ToldTimes {
    pub(super) number: u32,
    /// Its beginning and end; `None` where it is said that nobody knows.
    pub(super) gpu: Option<[u64; 2]>,
    /// When it was told.
    pub(super) ticks: u64,
}

/// The end of a submission.
#[derive(Clone, Copy, Debug)]
pub(super) struct SubmissionEnd {
    pub(super) number: u32,
    pub(super) ticks: u64,
}

/// Two clocks that a program read together.
#[derive(Clone, Copy, Debug)]
pub(super) struct WrittenCalibration {
    pub(super) clock: HostClock,
    pub(super) host: u64,
    pub(super) gpu: u64,
    /// Nanoseconds.
    pub(super) deviation: u32,
}

/// What was written of one context.
#[derive(Debug, Default)]
pub(super) struct WrittenContext {
    pub(super) zones: Vec<SubmittedZone>,
    pub(super) ends: Vec<SubmissionEnd>,
    pub(super) times: Vec<ToldTimes>,
    pub(super) calibrations: Vec<WrittenCalibration>,
    bytes: usize,
}

/// A zone with what was written of it elsewhere.
pub(super) struct JoinedZone<Z> {
    pub(super) zone: Z,
    pub(super) submission_ended: Option<u64>,
    pub(super) times: Option<ToldTimes>,
}

/// What all programs wrote of their GPUs' work.
#[derive(Debug)]
pub(crate) struct WrittenGpuWork {
    /// By the programs' numbers and their own.
    contexts: FxHashMap<u32, FxHashMap<u32, WrittenContext>>,
    losses: OwnLosses,
    shares: HeldShares,
}

/// What was given up of a context.
#[derive(Clone, Copy, Debug, Default)]
struct CutItems {
    items: usize,
    bytes: usize,
}

impl Default for WrittenGpuWork {
    fn default() -> Self {
        Self::bounded(MOST_BYTES)
    }
}

impl WrittenGpuWork {
    /// Holds no more than so many bytes.
    pub(super) fn bounded(most_bytes: usize) -> Self {
        let (contexts, losses) = (FxHashMap::default(), OwnLosses::default());
        Self { contexts, losses, shares: HeldShares::new(most_bytes) }
    }

    /// Takes in an event.
    pub(crate) fn add(&mut self, group: GpuGroup<'_>, event: GpuEvent) {
        let number = context_of(event);
        let Self { contexts, losses, shares } = self;
        let client = group.owner.client;
        let known = contexts.get(&client);
        let is_new = known.is_none_or(|known| !known.contains_key(&number));
        let has_too_many = is_new && known.is_some_and(|known| known.len() >= MOST_CONTEXTS);
        let size = size(&group, event) + if is_new { CONTEXT_BYTES } else { 0 };
        let cut = |most: Producer| {
            let known = contexts.get_mut(&most.program);
            let largest = known.and_then(|of| of.values_mut().max_by_key(|context| context.bytes));
            let CutItems { items, bytes } = largest.map(WrittenContext::cut).unwrap_or_default();
            losses.not_held(most.program, items);
            bytes
        };
        if has_too_many || !shares.take(group.producer, size, cut) {
            return losses.not_held(client, 1);
        }
        let context = contexts.entry(client).or_default().entry(number).or_default();
        context.bytes += size;
        context.add(group, event);
    }

    /// The contexts, by the program's number and their own, in that order.
    pub(super) fn take(&mut self) -> Vec<NumberedContext> {
        let mut contexts: Vec<_> = std::mem::take(&mut self.contexts)
            .into_iter()
            .flat_map(|(client, contexts)| {
                contexts.into_iter().map(move |(number, written)| NumberedContext {
                    client,
                    number,
                    written,
                })
            })
            .collect();
        contexts.sort_unstable_by_key(|context| (context.client, context.number));
        contexts
    }

    /// Items that come to nothing.
    pub(super) fn into_losses(self) -> OwnLosses {
        self.losses
    }

    /// So many items of the program mean nothing.
    pub(super) fn refuse(&mut self, client: u32, items: usize) {
        self.losses.refuse(client, items);
    }
}

/// The number of the context that an event is of.
pub(super) fn context_of(event: GpuEvent) -> u32 {
    match event {
        GpuEvent::ZoneBegin { zone, .. }
        | GpuEvent::ZoneEnd { zone }
        | GpuEvent::Times { zone, .. }
        | GpuEvent::NoTimes { zone } => zone.context,
        GpuEvent::Calibration { context, .. } => context,
    }
}

/// What an event takes.
fn size(group: &GpuGroup<'_>, event: GpuEvent) -> usize {
    match event {
        GpuEvent::ZoneBegin { .. } => ZONE_BYTES + words_size(group.attribute_words),
        GpuEvent::ZoneEnd { .. } => size_of::<SubmissionEnd>(),
        GpuEvent::Times { .. } | GpuEvent::NoTimes { .. } => size_of::<ToldTimes>(),
        // As they are written, and as they are read.
        GpuEvent::Calibration { .. } => 4 * size_of::<WrittenCalibration>(),
    }
}

impl WrittenContext {
    fn add(&mut self, group: GpuGroup<'_>, event: GpuEvent) {
        let GpuGroup { ticks, owner, attribute_words, .. } = group;
        match event {
            GpuEvent::ZoneBegin { zone, location } => self.zones.push(SubmittedZone {
                ticks,
                number: zone.number,
                location,
                tid: owner.tid,
                attribute_words: attribute_words.into(),
            }),
            GpuEvent::ZoneEnd { zone } => {
                self.ends.push(SubmissionEnd { number: zone.number, ticks });
            }
            GpuEvent::Times { zone, began, ended } => {
                let gpu = Some([began, ended]);
                self.times.push(ToldTimes { number: zone.number, gpu, ticks });
            }
            GpuEvent::NoTimes { zone } => {
                self.times.push(ToldTimes { number: zone.number, gpu: None, ticks });
            }
            GpuEvent::Calibration { clock, deviation, host, gpu, .. } => {
                self.calibrations.push(WrittenCalibration { clock, host, gpu, deviation });
            }
        }
    }

    /// Gives up the last eighth. Readings of clocks are of use to all zones, and stay unless they
    /// are most of it.
    fn cut(&mut self) -> CutItems {
        let Self { zones, ends, times, calibrations, .. } = self;
        let words: usize = zones[first_to_give_up(zones.len())..]
            .iter()
            .map(|zone| ZONE_BYTES + words_size(&zone.attribute_words))
            .sum();
        let are_most = calibrations.len() >= zones.len() + ends.len() + times.len();
        let zones = give_up_last(zones);
        let ends = give_up_last(ends);
        let times = give_up_last(times);
        let calibrations = if are_most { give_up_last(calibrations) } else { 0 };
        let bytes = words
            + ends * size_of::<SubmissionEnd>()
            + times * size_of::<ToldTimes>()
            + calibrations * 4 * size_of::<WrittenCalibration>();
        self.bytes -= bytes.min(self.bytes);
        CutItems { items: zones + ends + times + calibrations, bytes }
    }

    /// Puts all in order of the zones' numbers, and leaves out what means nothing: where several
    /// have one number, the first one counts. How many these were.
    pub(super) fn sort(&mut self, is_location: impl Fn(u32) -> bool) -> usize {
        let Self { zones, ends, times, .. } = self;
        let written = zones.len();
        zones.retain(|zone| is_location(zone.location));
        zones.sort_unstable_by_key(|zone| (zone.number, zone.ticks));
        zones.dedup_by_key(|zone| zone.number);
        // Times of zones that began before the recording are no mistake.
        times.retain(|told| zones.binary_search_by_key(&told.number, |zone| zone.number).is_ok());
        let told = times.len();
        times.sort_unstable_by_key(|told| (told.number, told.ticks));
        times.dedup_by_key(|told| told.number);
        ends.sort_unstable_by_key(|end| (end.number, end.ticks));
        ends.dedup_by_key(|end| end.number);
        written - zones.len() + told - times.len()
    }

    /// The zones with their times. They are [sorted](Self::sort).
    pub(super) fn joined(&self) -> impl Iterator<Item = JoinedZone<&SubmittedZone>> + Clone {
        join(self.zones.iter(), &self.ends, &self.times)
    }
}

/// Zones with their ends and their times; all are in order of the zones' numbers.
pub(super) fn join<Z: Borrow<SubmittedZone>>(
    zones: impl Iterator<Item = Z> + Clone,
    mut ends: &[SubmissionEnd],
    mut times: &[ToldTimes],
) -> impl Iterator<Item = JoinedZone<Z>> + Clone {
    zones.map(move |zone| {
        let SubmittedZone { number, ticks, .. } = *zone.borrow();
        let end = of_number(&mut ends, number, |end| end.number);
        let times = of_number(&mut times, number, |told| told.number);
        let submission_ended = end.map(|end| end.ticks).filter(|end| *end >= ticks);
        JoinedZone { zone, submission_ended, times }
    })
}

/// What has this number; what has lower ones is passed over.
fn of_number<T: Copy>(sorted: &mut &[T], number: u32, key: impl Fn(&T) -> u32) -> Option<T> {
    while let Some((first, rest)) = sorted.split_first() {
        if key(first) > number {
            return None;
        }
        *sorted = rest;
        if key(first) == number {
            return Some(*first);
        }
    }
    None
}

/// A context with its numbers.
#[derive(Debug)]
pub(super) struct NumberedContext {
    pub(super) client: u32,
    /// Of its definition in the program's log.
    pub(super) number: u32,
    pub(super) written: WrittenContext,
}

#[cfg(test)]
#[path = "written_tests.rs"]
mod tests;
