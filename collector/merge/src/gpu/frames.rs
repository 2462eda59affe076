//! Frames of displays: from vertical blanks, and from what is told to programs that flip buffers.

use rustc_hash::FxHashMap;
use syscollect_model::{Event, Scope, Slice, Track, TrackId, TrackKind};

use super::record::DescribedRecord;
use crate::engine::Engine;
use syscollect_playback::Stopped;

/// What ends a frame and begins the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum FrameBoundary {
    VerticalBlank,
    /// What is told to programs that flip buffers.
    Flip,
}

/// The frames that displays show, by CRTC.
#[derive(Debug, Default)]
pub(super) struct CrtcFrames {
    tracks: FxHashMap<(u64, FrameBoundary), TrackId>,
}

impl CrtcFrames {
    pub(super) fn on(
        &mut self,
        engine: &mut Engine<'_>,
        boundary: FrameBoundary,
        record: &DescribedRecord<'_>,
    ) -> Result<(), Stopped> {
        let Some(crtc) = record.number("crtc") else { return record.emit_as_instant(engine) };
        let (suffix, kind) = match boundary {
            FrameBoundary::VerticalBlank => ("", "vblank"),
            FrameBoundary::Flip => (" flips", "flip"),
        };
        let known = self.tracks.get(&(crtc, boundary)).copied();
        let track = known.unwrap_or_else(|| {
            let name = engine.tables.strings.intern(&format!("CRTC {crtc}{suffix}"));
            engine.track(
                Track {
                    scope: Scope::Machine(engine.machine),
                    name,
                    kind: TrackKind::Frames { continuous: true, main: false },
                },
                0,
            )
        });
        if known.is_some() {
            engine.emit(&Event::SliceEnd(track))?;
        }
        self.tracks.insert((crtc, boundary), track);
        let mut slice = Slice::named(engine.tables.strings.intern(kind));
        // Where a driver has no vertical blanks for its displays, flips are told with 0.
        slice.number = record.number("seq").filter(|number| *number > 0);
        engine.emit(&Event::SliceBegin(track, slice))
    }

    /// The recording is over, and its last frames with it.
    pub(super) fn close(&mut self, engine: &mut Engine<'_>) -> Result<(), Stopped> {
        let mut tracks: Vec<_> = self.tracks.drain().map(|(_, track)| track).collect();
        tracks.sort_unstable();
        tracks.into_iter().try_for_each(|track| engine.emit(&Event::SliceEnd(track)))
    }
}
