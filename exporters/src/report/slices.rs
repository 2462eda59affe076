//! Slices by name and place, frames by set.
//!
//! Slices of a thread's tracks know what the thread did meanwhile: how long it
//! was on a CPU, waited for one, was blocked, and in what. All of that includes
//! what happened in slices inside.

use super::capped::Capped;
use super::data::{BlockedIn, Distribution, FrameRow, SliceRow, SliceScope, Table, Times};
use super::durations::Durations;
use super::row_maker::{OTHERS, RowMaker};
use super::thread_accounts::ThreadTimes;
use super::waits::EndedSleep;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
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
/// Open slices that are named where a thread crashes.
const MAX_SHOWN: usize = 32;
/// Digits of the percentiles.
const DIGITS: u8 = 2;

/// What makes slices one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct SliceKey {
    name: StringId,
    location: Option<LocationId>,
    /// An async zone and what threads do of it step by step may have one name and place.
    scope: SliceScope,
}

/// A set of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct FrameKey {
    process: Option<ProcessId>,
    name: StringId,
}

/// Slices of one name, or frames of one set.
#[derive(Debug)]
struct NamedDurations {
    durations: Durations,
    /// Of the durations, those of slices in another of the row: nanoseconds that are in that one's.
    nested_ns: u64,
    unfinished: u64,
    /// For how long those were open that did not end, as far as they were seen.
    unfinished_ns: u64,
    /// What their threads did meanwhile; in slices in another of the row once.
    times: Times,
}

impl Default for NamedDurations {
    fn default() -> Self {
        Self {
            durations: Durations::new(DIGITS),
            nested_ns: 0,
            unfinished: 0,
            unfinished_ns: 0,
            times: Times::default(),
        }
    }
}

impl NamedDurations {
    /// The durations of all; the total is of those that are in no other of the row, as a function's
    /// in a call tree.
    fn outermost(&self) -> Distribution {
        let all = self.durations.distribution();
        Distribution { total_ns: all.total_ns.saturating_sub(self.nested_ns), ..all }
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

/// Slices and frames. Times are nanoseconds.
#[derive(Debug)]
pub(super) struct Slices {
    open: FxHashMap<TrackId, Nesting<BegunSlice, MAX_DEPTH>>,
    /// The tracks of threads that have slices.
    tracks: FxHashMap<ThreadId, Vec<TrackId>>,
    /// At the end, the innermost slices of threads that were open.
    pub(super) open_at_end: FxHashMap<ThreadId, StringId>,
    names: Capped<SliceKey, NamedDurations>,
    /// How long slices were blocked, by the function of the kernel.
    reasons: Capped<(SliceKey, Option<StringId>), u64>,
    frames: Capped<FrameKey, NamedDurations>,
}

impl Default for Slices {
    fn default() -> Self {
        Self {
            open: FxHashMap::default(),
            tracks: FxHashMap::default(),
            open_at_end: FxHashMap::default(),
            names: Capped::new(MAX_NAMES),
            reasons: Capped::new(MAX_REASONS),
            frames: Capped::new(MAX_FRAME_SETS),
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
        times: Option<ThreadTimes>,
        tables: &Tables,
    ) {
        let open = self.open.entry(track).or_insert_with(|| {
            if let Some(ThreadTimes { thread, .. }) = times {
                self.tracks.entry(thread).or_default().push(track);
            }
            Nesting::default()
        });
        if open.begin() {
            let scope = SliceScope::of(tables.track(track).scope);
            let key = SliceKey { name: slice.name, location: slice.location, scope };
            let times = times.map_or_else(Times::default, |of_thread| of_thread.times);
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
    pub(super) fn end(
        &mut self,
        now: u64,
        track: TrackId,
        times: Option<ThreadTimes>,
        tables: &Tables,
    ) {
        let Some(slice) = self.open.get_mut(&track).and_then(Nesting::end) else { return };
        let row = self.row(track, slice.key, tables);
        let nanoseconds = now.saturating_sub(slice.since);
        if slice.unfinished {
            row.unfinished += 1;
            row.unfinished_ns = row.unfinished_ns.saturating_add(nanoseconds);
            return;
        }
        row.durations.add(nanoseconds);
        if slice.nested {
            row.nested_ns = row.nested_ns.saturating_add(nanoseconds);
            return;
        }
        if let Some(ThreadTimes { times, .. }) = times {
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

    /// A thread was blocked for a time that ends now: it belongs to the slices that were open.
    pub(super) fn blocked(&mut self, sleep: EndedSleep) {
        for track in self.tracks.get(&sleep.thread).into_iter().flatten() {
            let open = self.open.get(track).into_iter();
            for slice in open.flat_map(|open| open.iter().take(MAX_BLOCKED)) {
                if slice.nested {
                    continue;
                }
                let sum = self.reasons.row((slice.key, sleep.blocked_in));
                *sum = sum.saturating_add(sleep.nanoseconds);
            }
        }
    }

    /// Names of what is open on a thread, the outermost first.
    pub(super) fn open_on(&self, thread: ThreadId) -> Vec<StringId> {
        let tracks = self.tracks.get(&thread).into_iter().flatten();
        let open = tracks.filter_map(|track| self.open.get(track));
        open.flat_map(Nesting::iter).take(MAX_SHOWN).map(|slice| slice.key.name).collect()
    }

    /// The session ends.
    pub(super) fn finish(&mut self, now: u64, tables: &Tables) {
        let mut open: Vec<_> = std::mem::take(&mut self.open).into_iter().collect();
        // Of a thread with several tracks the first has the last word.
        open.sort_unstable_by_key(|(track, _)| Reverse(*track));
        for (track, open) in open {
            for slice in open.into_open() {
                if let Scope::Thread(thread) = tables.track(track).scope {
                    self.open_at_end.insert(thread, slice.key.name);
                }
                let row = self.row(track, slice.key, tables);
                row.unfinished += 1;
                row.unfinished_ns =
                    row.unfinished_ns.saturating_add(now.saturating_sub(slice.since));
            }
        }
    }

    pub(super) fn rows(&self, maker: RowMaker<'_>) -> Table<SliceRow> {
        let blocked_in = self.blocked_longest_in(maker);
        let mut rows: Vec<_> = self
            .names
            .iter()
            .map(|(key, named)| SliceRow {
                location: maker.location(key.location),
                scope: key.scope,
                blocked_in: blocked_in.get(key).cloned(),
                ..slice_row(maker.string(key.name), named)
            })
            .collect();
        let others = slice_row(OTHERS.to_owned(), self.names.left_out());
        if others.durations.count + others.unfinished > 0 {
            rows.push(others);
        }
        maker.table(rows, |row| {
            (
                Reverse((
                    row.durations.total_ns.saturating_add(row.unfinished_ns),
                    row.durations.count,
                )),
                row.name.clone(),
                row.location.clone(),
                row.scope,
            )
        })
    }

    /// What slices of each name were blocked in the longest.
    fn blocked_longest_in(&self, maker: RowMaker<'_>) -> FxHashMap<SliceKey, BlockedIn> {
        let mut longest: FxHashMap<SliceKey, (u64, Reverse<Option<StringId>>)> =
            FxHashMap::default();
        for ((key, function), sum) in self.reasons.iter() {
            let candidate = (*sum, Reverse(*function));
            let row = longest.entry(*key).or_insert(candidate);
            *row = candidate.max(*row);
        }
        let rows = longest.into_iter().map(|(key, (blocked_ns, Reverse(function)))| {
            let function = function.map(|name| maker.string(name));
            (key, BlockedIn { function, blocked_ns })
        });
        rows.collect()
    }

    pub(super) fn frame_rows(&self, maker: RowMaker<'_>) -> Table<FrameRow> {
        let rows = self.frames.iter().map(|(key, named)| {
            let process = key.process.map(|id| maker.process(id));
            FrameRow {
                name: maker.string(key.name),
                pid: process.as_ref().map(|process| process.pid),
                process: process.map(|process| process.name).unwrap_or_default(),
                durations: named.durations.distribution(),
                unfinished: named.unfinished,
                unfinished_ns: named.unfinished_ns,
            }
        });
        maker.table(rows.collect(), |row| {
            (Reverse((row.durations.count, row.durations.total_ns)), row.name.clone(), row.pid)
        })
    }
}

fn slice_row(name: String, named: &NamedDurations) -> SliceRow {
    SliceRow {
        name,
        location: None,
        scope: SliceScope::default(),
        durations: named.outermost(),
        unfinished: named.unfinished,
        unfinished_ns: named.unfinished_ns,
        thread: named.times,
        blocked_in: None,
    }
}

/// Adds the time between two; what was lost may make the later one the smaller.
fn add_difference(sum: &mut u64, now: u64, then: u64) {
    *sum = sum.saturating_add(now.saturating_sub(then));
}
