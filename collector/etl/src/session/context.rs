//! What the player gives to its parts beside a record.

use super::kinds::Kind;
use rustc_hash::FxHashMap;
use syscollect_model::{Event, Scope, StringId, Tables, ThreadId, Time, Track, TrackId, TrackKind};

/// Tracks that playing made, so that playing again finds them.
#[derive(Clone, Debug, Default)]
pub(super) struct Tracks {
    known: FxHashMap<(Scope, StringId, TrackKind, u64), TrackId>,
}

impl Tracks {
    /// The track; `row` tells apart those of one name, for what overlaps in time.
    pub(super) fn get(
        &mut self,
        tables: &mut Tables,
        (scope, name, kind): (Scope, StringId, TrackKind),
        row: u64,
    ) -> TrackId {
        *self
            .known
            .entry((scope, name, kind, row))
            .or_insert_with(|| tables.add_track(Track { scope, name, kind }))
    }
}

/// A moment of playing: when and where a record was written, and the way to
/// tell what it means.
pub(super) struct Context<'a> {
    /// When it was written.
    pub(super) now: Time,
    /// Who wrote it, where its header says so.
    pub(super) thread: Option<ThreadId>,
    /// What events point into.
    pub(super) tables: &'a mut Tables,
    pub(super) tracks: &'a mut Tracks,
    /// What comes of it.
    pub(super) told: &'a mut Vec<(Option<Kind>, Time, Event)>,
}

impl Context<'_> {
    /// Tells an event at `time`, which may lie up to half a second before the
    /// present; what is older happens as early as it still can. The kinds
    /// count occurrences: an end of a slice goes with [`Self::tell_more`].
    pub(super) fn tell(&mut self, kind: Kind, time: Time, event: Event) {
        self.told.push((Some(kind), time, event));
    }

    /// Tells an event that is no occurrence of its own.
    pub(super) fn tell_more(&mut self, time: Time, event: Event) {
        self.told.push((None, time, event));
    }

    /// A track, see [`Tracks::get`].
    pub(super) fn track(
        &mut self,
        scope: Scope,
        name: StringId,
        kind: TrackKind,
        row: u64,
    ) -> TrackId {
        self.tracks.get(self.tables, (scope, name, kind), row)
    }
}
