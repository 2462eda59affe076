//! Slices by name and place, frames by set, instants by name.
//!
//! Slices of a thread's tracks know what the thread did meanwhile: how long it
//! was on a CPU, waited for one, was blocked, and in what. All of that includes
//! what happened in slices inside.

use super::capped::Capped;
use super::data::Times;
use super::durations::Durations;
use rustc_hash::FxHashMap;
use syscollect_model::{
    LocationId, Nesting, ProcessId, Scope, Slice, SliceUpdate, StringId, Tables, ThreadId, TrackId,
    TrackKind,
};

/// Names with durations of their own, at most 42 kB each.
const MAX_NAMES: usize = 4096;
/// Sets of frames, likewise.
const MAX_FRAME_SETS: usize = 256;
/// What slices of a name were blocked in.
const MAX_REASONS: usize = 1 << 15;
/// Slices open at one time on one track; deeper ones are not measured.
const MAX_DEPTH: usize = 4096;
/// Slices, from the outermost on, that are told what they were blocked in: a
/// bound of what a switch costs in a deep recursion.
const MAX_BLOCKED: usize = 64;
/// Digits of the percentiles.
const DIGITS: u8 = 2;

/// What makes slices one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct SliceKey {
    pub(super) name: StringId,
    pub(super) location: Option<LocationId>,
}

/// A set of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FrameKey {
    pub(super) process: Option<ProcessId>,
    pub(super) name: StringId,
}

/// Slices of one name, or frames of one set.
#[derive(Debug)]
pub(super) struct NamedDurations {
    pub(super) durations: Durations,
    /// Of the durations, those of slices in another of the row: nanoseconds that are in that one's.
    pub(super) nested_ns: u64,
    pub(super) unfinished: u64,
    /// What their threads did meanwhile; in slices in another of the row once.
    pub(super) times: Times,
}

impl Default for NamedDurations {
    fn default() -> Self {
        Self {
            durations: Durations::new(DIGITS),
            nested_ns: 0,
            unfinished: 0,
            times: Times::default(),
        }
    }
}

/// A slice that has begun.
#[derive(Debug)]
struct BegunSlice {
    key: SliceKey,
    since: u64,
    /// Another of its row is open around it.
    nested: bool,
    /// What its thread had done until then.
    times: Times,
    unfinished: bool,
}

/// Slices and instants. Times are nanoseconds.
#[derive(Debug)]
pub(super) struct Slices {
    open: FxHashMap<TrackId, Nesting<BegunSlice, MAX_DEPTH>>,
    /// The tracks of threads that have slices.
    tracks: FxHashMap<ThreadId, Vec<TrackId>>,
    pub(super) names: Capped<SliceKey, NamedDurations>,
    pub(super) reasons: Capped<(SliceKey, Option<StringId>), u64>,
    pub(super) frames: Capped<FrameKey, NamedDurations>,
    pub(super) instants: Capped<StringId, u64>,
}

impl Default for Slices {
    fn default() -> Self {
        Self {
            open: FxHashMap::default(),
            tracks: FxHashMap::default(),
            names: Capped::new(MAX_NAMES),
            reasons: Capped::new(MAX_REASONS),
            frames: Capped::new(MAX_FRAME_SETS),
            instants: Capped::new(1 << 17),
        }
    }
}

impl Slices {
    /// A slice begins; `times` is what its thread has done until now, if it is a thread's.
    pub(super) fn begin(
        &mut self,
        now: u64,
        track: TrackId,
        slice: &Slice,
        times: Option<(ThreadId, Times)>,
    ) {
        let open = self.open.entry(track).or_insert_with(|| {
            if let Some((thread, _)) = times {
                self.tracks.entry(thread).or_default().push(track);
            }
            Nesting::default()
        });
        if open.begin() {
            let key = SliceKey { name: slice.name, location: slice.location };
            let times = times.map_or_else(Times::default, |(_, times)| times);
            let nested = open.iter().any(|outer| outer.key == key);
            open.push(BegunSlice { key, since: now, nested, times, unfinished: false });
        }
    }

    pub(super) fn update(&mut self, track: TrackId, update: &SliceUpdate) {
        if let Some(slice) = self.open.get_mut(&track).and_then(Nesting::innermost) {
            slice.unfinished |= update.unfinished;
        }
    }

    /// Ends the innermost slice; one that began before the session is not counted.
    pub(super) fn end(&mut self, now: u64, track: TrackId, times: Option<&Times>, tables: &Tables) {
        let Some(slice) = self.open.get_mut(&track).and_then(Nesting::end) else { return };
        let row = self.row(track, slice.key, tables);
        if slice.unfinished {
            row.unfinished += 1;
            return;
        }
        let nanoseconds = now.saturating_sub(slice.since);
        row.durations.add(nanoseconds);
        if slice.nested {
            row.nested_ns = row.nested_ns.saturating_add(nanoseconds);
            return;
        }
        if let Some(times) = times {
            add_difference(&mut row.times.on_cpu_ns, times.on_cpu_ns, slice.times.on_cpu_ns);
            add_difference(&mut row.times.waiting_ns, times.waiting_ns, slice.times.waiting_ns);
            add_difference(&mut row.times.blocked_ns, times.blocked_ns, slice.times.blocked_ns);
            add_difference(&mut row.times.unknown_ns, times.unknown_ns, slice.times.unknown_ns);
        }
    }

    /// Where the slices of a track are counted: by set if they are frames.
    fn row(&mut self, track: TrackId, key: SliceKey, tables: &Tables) -> &mut NamedDurations {
        let track = tables.track(track);
        let process = match track.scope {
            Scope::Process(process) => Some(process),
            Scope::Thread(thread) => Some(tables.thread(thread).process),
            Scope::Machine(_) | Scope::Cpu(_) => None,
        };
        match track.kind {
            TrackKind::Frames { .. } => self.frames.row(FrameKey { process, name: track.name }),
            _ => self.names.row(key),
        }
    }

    /// A thread was blocked in a function for a time that ends now.
    pub(super) fn blocked(
        &mut self,
        thread: ThreadId,
        function: Option<StringId>,
        nanoseconds: u64,
    ) {
        for track in self.tracks.get(&thread).into_iter().flatten() {
            let open = self.open.get(track).into_iter();
            for slice in open.flat_map(|open| open.iter().take(MAX_BLOCKED)) {
                if slice.nested {
                    continue;
                }
                let sum = self.reasons.row((slice.key, function));
                *sum = sum.saturating_add(nanoseconds);
            }
        }
    }

    pub(super) fn instant(&mut self, name: StringId) {
        *self.instants.row(name) += 1;
    }

    /// The session ends.
    pub(super) fn finish(&mut self, tables: &Tables) {
        for (track, open) in std::mem::take(&mut self.open) {
            for slice in open.into_open() {
                self.row(track, slice.key, tables).unfinished += 1;
            }
        }
    }
}

/// Adds the time between two; what was lost may make the later one the smaller.
fn add_difference(sum: &mut u64, now: u64, then: u64) {
    *sum = sum.saturating_add(now.saturating_sub(then));
}
