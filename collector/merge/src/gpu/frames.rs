//! Frames of displays: from vertical blanks, and from what is told to programs that flip buffers.

use syscollect_model::{Event, Scope, Slice, Track, TrackKind};

use super::decoder::Gpu;
use super::record::DescribedRecord;
use crate::engine::Engine;
use syscollect_playback::Stopped;

impl Gpu {
    /// A vertical blank ends a frame and begins the next; so does what is told to programs that
    /// flip buffers.
    pub(super) fn crtc_frame(
        &mut self,
        engine: &mut Engine<'_>,
        suffix: &str,
        kind: &'static str,
        reading: &DescribedRecord<'_>,
    ) -> Result<(), Stopped> {
        let Some(crtc) = reading.number("crtc") else { return self.plain(engine, reading) };
        let known = self.frames.get(&(crtc, kind)).copied();
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
        self.frames.insert((crtc, kind), track);
        let mut slice = Slice::named(engine.tables.strings.intern(kind));
        // Where a driver has no vertical blanks for its displays, flips are told with 0.
        slice.number = reading.number("seq").filter(|number| *number > 0);
        engine.emit(&Event::SliceBegin(track, slice))
    }
}
