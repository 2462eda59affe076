//! Slices and instants by name.

use super::capped::Capped;
use super::durations::Durations;
use rustc_hash::FxHashMap;
use syscollect_model::{StringId, TrackId};

/// Names with durations of their own, at most 42 kB each.
const MAX_NAMES: usize = 4096;
/// Slices open at one time on one track; deeper ones are not measured.
const MAX_DEPTH: usize = 4096;
/// Digits of the percentiles.
const DIGITS: u8 = 2;

/// Slices of one name.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) durations: Durations,
    pub(super) unfinished: u64,
}

impl Default for Named {
    fn default() -> Self {
        Self { durations: Durations::new(DIGITS), unfinished: 0 }
    }
}

/// The open slices of a track.
#[derive(Debug, Default)]
struct Open {
    slices: Vec<(StringId, u64)>,
    /// Slices inside that are too deep to be kept.
    deeper: u64,
}

/// Slices and instants. Times are nanoseconds.
#[derive(Debug)]
pub(super) struct Slices {
    open: FxHashMap<TrackId, Open>,
    pub(super) names: Capped<StringId, Named>,
    pub(super) instants: Capped<StringId, u64>,
}

impl Default for Slices {
    fn default() -> Self {
        Self { open: FxHashMap::default(), names: Capped::new(MAX_NAMES), instants: Capped::new(1 << 17) }
    }
}

impl Slices {
    pub(super) fn begin(&mut self, now: u64, track: TrackId, name: StringId) {
        let open = self.open.entry(track).or_default();
        if open.slices.len() < MAX_DEPTH {
            open.slices.push((name, now));
        } else {
            open.deeper += 1;
        }
    }

    /// Ends the innermost slice; one that began before the session is not counted.
    pub(super) fn end(&mut self, now: u64, track: TrackId) {
        let Some(open) = self.open.get_mut(&track) else { return };
        if open.deeper > 0 {
            open.deeper -= 1;
        } else if let Some((name, since)) = open.slices.pop() {
            self.names.row(name).durations.add(now.saturating_sub(since));
        }
    }

    pub(super) fn instant(&mut self, name: StringId) {
        *self.instants.row(name) += 1;
    }

    /// The session ends.
    pub(super) fn finish(&mut self) {
        for (name, _) in self.open.drain().flat_map(|(_, open)| open.slices) {
            self.names.row(name).unfinished += 1;
        }
    }
}
