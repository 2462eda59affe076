//! Frames of displays: from vertical blanks, and from what is told to programs that flip buffers.

use syscollect_model::{Event, Scope, Slice, TrackKind};

use super::record::Reading;
use crate::play::Player;
use syscollect_playback::Stopped;

impl Player<'_> {
    /// A vertical blank ends a frame and begins the next; so does what is told to programs that
    /// flip buffers.
    pub(super) fn crtc_frame(
        &mut self,
        suffix: &str,
        kind: &'static str,
        reading: &Reading<'_>,
    ) -> Result<(), Stopped> {
        let Some(crtc) = reading.number("crtc") else { return self.plain(reading) };
        let known = self.gpu.frames.get(&(crtc, kind)).copied();
        let track = known.unwrap_or_else(|| {
            let name = self.tables.strings.intern(&format!("CRTC {crtc}{suffix}"));
            self.track(Scope::Machine, name, TrackKind::Frames { continuous: true }, 0)
        });
        if known.is_some() {
            self.emit(&Event::SliceEnd(track))?;
        }
        self.gpu.frames.insert((crtc, kind), track);
        let mut slice = Slice::named(self.tables.strings.intern(kind));
        // Where a driver has no vertical blanks for its displays, flips are told with 0.
        slice.number = reading.number("seq").filter(|number| *number > 0);
        self.emit(&Event::SliceBegin(track, slice))
    }
}
