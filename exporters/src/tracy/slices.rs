//! Slices by track, until it is known which of them nest on their thread.

use super::frames::Frames;
use super::rows::{RowOwner, Rows};
use super::strings::FileStrings;
use super::zones::{ZoneTables, Zones};
use rustc_hash::FxHashMap;
use syscollect_model::{Scope, Slice, SliceUpdate, Tables, TrackId, TrackKind, TrackRole};

/// All slices.
#[derive(Default)]
pub(crate) struct Slices {
    zones: FxHashMap<TrackId, Zones>,
    pub(crate) shared: ZoneTables,
    pub(crate) frames: Frames,
    /// Slices too deep.
    pub(crate) deep: u64,
}

impl Slices {
    pub(crate) fn begin(
        &mut self,
        track: TrackId,
        (time, slice): (i64, &Slice),
        strings: &mut FileStrings,
        tables: &Tables,
    ) {
        if let TrackKind::Frames { continuous, .. } = tables.track(track).kind {
            return self.frames.begin((track, continuous), time, slice.number);
        }
        let zones = self.zones.entry(track).or_default();
        self.deep += u64::from(!zones.begin((time, slice), &mut self.shared, strings, tables));
    }

    pub(crate) fn update(
        &mut self,
        track: TrackId,
        update: &SliceUpdate,
        strings: &mut FileStrings,
        tables: &Tables,
    ) {
        if let Some(zones) = self.zones.get_mut(&track) {
            zones.update(update, strings, tables);
        }
    }

    pub(crate) fn end(
        &mut self,
        track: TrackId,
        time: i64,
        strings: &mut FileStrings,
        tables: &Tables,
    ) {
        match self.zones.get_mut(&track) {
            Some(zones) => zones.end(time, &mut self.shared, strings, tables),
            None => self.frames.end(track, time),
        }
    }

    /// Puts the zones on rows: those of a thread on its own, as long as they
    /// nest; what does not, and what has no thread, on rows of their own.
    pub(crate) fn place_on_rows(
        &mut self,
        rows: &mut Rows,
        strings: &mut FileStrings,
        tables: &Tables,
    ) {
        let mut tracks: Vec<(TrackId, Zones)> = self.zones.drain().collect();
        let zones = TrackKind::Slices(TrackRole::Zones);
        tracks.sort_by_key(|(id, _)| (tables.track(*id).kind != zones, *id));
        for (id, mut zones) in tracks {
            zones.finish(&mut self.shared, strings, tables);
            if zones.is_empty() {
                continue;
            }
            let thread = match tables.track(id).scope {
                Scope::Thread(thread) if thread != Tables::IDLE_THREAD => Some(thread),
                _ => None,
            };
            if thread.is_some_and(|thread| rows.is_left_out(thread)) {
                zones.uncount(&mut self.shared.locations);
                continue;
            }
            if let Some(row) = thread.and_then(|thread| rows.thread(thread)) {
                match rows.get(row).zones.nest(zones) {
                    Ok(()) => continue,
                    Err(overlaps) => zones = overlaps,
                }
            }
            let row = rows.other(RowOwner::Track(id));
            let row = rows.get(row);
            row.elsewhere += zones.len() as u64;
            row.zones = zones;
        }
    }
}
