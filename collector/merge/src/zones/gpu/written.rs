//! What programs wrote of their GPUs' work, before it has times.

use rustc_hash::FxHashMap;
use syscollect_model::Lane;
use syscollect_records::ZoneChunk;
use syscollect_zone_protocol::{GpuEvent, HostClock};

/// Contexts of one program that are told apart; a program may announce as many as it likes.
const MOST_CONTEXTS: usize = 256;
/// Calibrations of one context that are kept: a day's, one a second. Of more, later ones are left
/// out.
const MOST_CALIBRATIONS: usize = 100_000;

/// A group that tells of a GPU: where and when it was written, and by whom.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GpuGroup<'w> {
    pub(crate) lane: Lane,
    pub(crate) ticks: u64,
    pub(crate) owner: ZoneChunk,
    /// What is said behind the event.
    pub(crate) attribute_words: &'w [u64],
}

/// A zone as it was submitted.
#[derive(Clone, Debug)]
pub(super) struct SubmittedZone {
    pub(super) lane: Lane,
    pub(super) owner: ZoneChunk,
    pub(super) number: u32,
    /// The number of its location in the program's log.
    pub(super) location: u32,
    /// When its submission began.
    pub(super) ticks: u64,
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
    pub(super) lane: Lane,
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
    pub(super) lane: Lane,
}

/// What was written of one context.
#[derive(Debug, Default)]
pub(super) struct WrittenContext {
    pub(super) zones: Vec<SubmittedZone>,
    pub(super) ends: Vec<SubmissionEnd>,
    pub(super) times: Vec<ToldTimes>,
    pub(super) calibrations: Vec<WrittenCalibration>,
}

/// What all programs wrote of their GPUs' work.
#[derive(Debug, Default)]
pub(crate) struct WrittenGpuWork {
    programs: FxHashMap<u32, FxHashMap<u32, WrittenContext>>,
    /// Items that mean nothing, by lane.
    undecodable: FxHashMap<Lane, u64>,
}

impl WrittenGpuWork {
    /// Takes in an event.
    pub(crate) fn add(&mut self, group: GpuGroup<'_>, event: GpuEvent) {
        let GpuGroup { lane, ticks, owner, attribute_words } = group;
        let contexts = self.programs.entry(owner.client).or_default();
        let number = match event {
            GpuEvent::ZoneBegin { zone, .. }
            | GpuEvent::ZoneEnd { zone }
            | GpuEvent::Times { zone, .. }
            | GpuEvent::NoTimes { zone } => zone.context,
            GpuEvent::Calibration { context, .. } => context,
        };
        if contexts.len() >= MOST_CONTEXTS && !contexts.contains_key(&number) {
            return self.refuse(lane);
        }
        let context = contexts.entry(number).or_default();
        match event {
            GpuEvent::ZoneBegin { zone, location } => context.zones.push(SubmittedZone {
                lane,
                owner,
                number: zone.number,
                location,
                ticks,
                attribute_words: attribute_words.into(),
            }),
            GpuEvent::ZoneEnd { zone } => {
                context.ends.push(SubmissionEnd { number: zone.number, ticks });
            }
            GpuEvent::Times { zone, began, ended } => {
                let gpu = Some([began, ended]);
                context.times.push(ToldTimes { number: zone.number, gpu, ticks, lane });
            }
            GpuEvent::NoTimes { zone } => {
                context.times.push(ToldTimes { number: zone.number, gpu: None, ticks, lane });
            }
            GpuEvent::Calibration { clock, deviation, host, gpu, .. } => {
                if context.calibrations.len() >= MOST_CALIBRATIONS {
                    return self.refuse(lane);
                }
                context.calibrations.push(WrittenCalibration { clock, host, gpu, deviation, lane });
            }
        }
    }

    /// The contexts, by the program's number and their own, in that order.
    pub(super) fn take(&mut self) -> Vec<NumberedContext> {
        let programs = std::mem::take(&mut self.programs);
        let mut contexts: Vec<_> = programs
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

    /// Items that mean nothing, by lane.
    pub(crate) fn take_undecodable(&mut self) -> FxHashMap<Lane, u64> {
        std::mem::take(&mut self.undecodable)
    }

    /// An item of the lane means nothing.
    pub(super) fn refuse(&mut self, lane: Lane) {
        *self.undecodable.entry(lane).or_default() += 1;
    }
}

/// A context with its numbers.
#[derive(Debug)]
pub(super) struct NumberedContext {
    pub(super) client: u32,
    /// Of its definition in the program's log.
    pub(super) number: u32,
    pub(super) written: WrittenContext,
}
