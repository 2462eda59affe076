//! What sources say of slices that their programs did not end.

use syscollect_model::{Event, SliceUpdate, TrackId};

/// Ends the innermost slice of a track for a program that did not: says so, and ends it.
pub fn unfinished(track: TrackId) -> [Event; 2] {
    let update = SliceUpdate { unfinished: true, ..SliceUpdate::default() };
    [Event::SliceUpdate(track, update), Event::SliceEnd(track)]
}
