//! Tracks that playing makes.

use rustc_hash::{FxHashMap, FxHashSet};
use syscollect_model::{Tables, Track, TrackId};

/// Tracks that were made while events were played. Kept, so that playing again finds them.
#[derive(Clone, Debug, Default)]
pub struct Tracks {
    rows: FxHashMap<(Track, u64), TrackId>,
}

impl Tracks {
    /// The track, added if it is new. `row` tells apart those that are the same otherwise: rows for
    /// what overlaps in time, tracks of different sources.
    pub fn get(&mut self, track: Track, row: u64, tables: &mut Tables) -> TrackId {
        *self.rows.entry((track.clone(), row)).or_insert_with(|| tables.add_track(track))
    }

    /// Forgets tracks that are gone.
    pub fn forget(&mut self, gone: &FxHashSet<TrackId>) {
        self.rows.retain(|_, track| !gone.contains(track));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syscollect_model::{MachineId, Scope, TrackKind};

    #[test]
    fn a_track_is_there_once_for_each_row() {
        let (mut tracks, mut tables) = (Tracks::default(), Tables::default());
        let name = tables.strings.intern("disk");
        let track =
            Track { scope: Scope::Machine(MachineId::FIRST), name, kind: TrackKind::GpuQueue };
        let ids = [0, 1, 0].map(|row| tracks.get(track.clone(), row, &mut tables));
        assert_eq!((ids[0], tables.tracks.len()), (ids[2], 2));
        assert_ne!(ids[0], ids[1]);
    }
}
