//! What the player gives to its parts beside a record.

use syscollect_model::{Event, Scope, StringId, Tables, ThreadId, Time, Track, TrackId, TrackKind};
use syscollect_playback::{EventType, Tracks};

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
    pub(super) told: &'a mut Vec<(Option<EventType>, Time, Event)>,
}

impl Context<'_> {
    /// Tells an event at `time`, which may lie up to half a second before the
    /// present; what is older happens as early as it still can. The kinds
    /// count occurrences: an end of a slice goes with [`Self::tell_more`].
    pub(super) fn tell(&mut self, kind: EventType, time: Time, event: Event) {
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
        self.tracks.get(Track { scope, name, kind }, row, self.tables)
    }
}
