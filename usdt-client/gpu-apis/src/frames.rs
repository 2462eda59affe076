//! Which queries are in use where values come by whole frames: books only, of any interface.
#![cfg_attr(not(feature = "wgpu"), allow(dead_code, reason = "its tests need a part of it"))]

use std::sync::Arc;
use std::sync::atomic::AtomicU8;
use syscollect_usdt_client::gpu::GpuZoneId;

/// States of a buffer that is being mapped.
pub(crate) const PENDING: u8 = 0;
pub(crate) const MAPPED: u8 = 1;
pub(crate) const FAILED: u8 = 2;

/// Which queries are in use.
#[derive(Debug)]
pub(crate) struct FrameBooks {
    pub(crate) frames: Vec<FrameState>,
    /// The frame whose zones are encoded now.
    encoding: Option<usize>,
    /// Frames that were begun.
    begun: u64,
    pub(crate) refused: u64,
}

/// Where a frame is on its way.
#[derive(Debug)]
pub(crate) enum FrameState {
    Free,
    /// Zones are encoded, with numbers in order.
    Encoding(Vec<EncodedZone>),
    /// Its values are copied by what is submitted next.
    Resolved(Vec<GpuZoneId>),
    /// Its buffer is mapped when they are there.
    Submitted {
        zones: Vec<GpuZoneId>,
        mapped: Arc<AtomicU8>,
    },
}

/// A zone of a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EncodedZone {
    pub(crate) id: GpuZoneId,
    /// Both of its queries are written.
    ended: bool,
}

/// Where a zone has its queries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ZonePlace {
    pub(crate) frame: usize,
    /// Of all frames: another one may have this place later.
    begun: u64,
    zone: usize,
}

impl ZonePlace {
    /// Those of its beginning and end.
    pub(crate) fn queries(self) -> [u32; 2] {
        let first = self.zone as u32 * 2;
        [first, first + 1]
    }
}

impl FrameBooks {
    pub(crate) fn new(frames: usize) -> Self {
        let frames = (0..frames).map(|_| FrameState::Free).collect();
        Self { frames, encoding: None, begun: 0, refused: 0 }
    }

    /// A place in the frame that is encoded, or in a free one that begins now.
    pub(crate) fn place(&mut self, id: GpuZoneId, most: usize) -> Option<ZonePlace> {
        let found = self.encoding.or_else(|| {
            self.frames.iter().position(|state| matches!(state, FrameState::Free)).inspect(
                |frame| {
                    self.frames[*frame] = FrameState::Encoding(Vec::with_capacity(most));
                    self.begun += 1;
                },
            )
        });
        self.encoding = found;
        match found.map(|frame| &mut self.frames[frame]) {
            Some(FrameState::Encoding(zones)) if zones.len() < most => {
                zones.push(EncodedZone { id, ended: false });
                let (frame, zone) = (found?, zones.len() - 1);
                Some(ZonePlace { frame, begun: self.begun, zone })
            }
            _ => {
                self.refused += 1;
                None
            }
        }
    }

    /// The queries of a zone are written; `false` where its frame is over already.
    pub(crate) fn end(&mut self, place: ZonePlace) -> bool {
        match &mut self.frames[place.frame] {
            FrameState::Encoding(zones) if place.begun == self.begun => {
                zones[place.zone].ended = true;
                true
            }
            _ => false,
        }
    }

    /// Ends the frame that is encoded: the values of its first zones can be read. Of a zone that is
    /// not ended, and of those that began after it, it is told that they have none. `None` where
    /// there is nothing to read.
    pub(crate) fn finish(&mut self, mut without: impl FnMut(GpuZoneId)) -> Option<FinishedFrame> {
        let number = self.encoding.take()?;
        let FrameState::Encoding(zones) = &self.frames[number] else { return None };
        let written = zones.iter().take_while(|zone| zone.ended).count();
        zones[written..].iter().for_each(|zone| without(zone.id));
        let read: Vec<_> = zones[..written].iter().map(|zone| zone.id).collect();
        let frame = (written > 0).then_some(FinishedFrame { number, zones: written });
        self.frames[number] = match frame {
            Some(_) => FrameState::Resolved(read),
            None => FrameState::Free,
        };
        frame
    }
}

/// A frame whose values can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FinishedFrame {
    /// Which of the frames in flight.
    pub(crate) number: usize,
    /// Zones, from the first on.
    pub(crate) zones: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: GpuZoneId = GpuZoneId::INACTIVE;

    fn place(books: &mut FrameBooks) -> Option<ZonePlace> {
        books.place(ID, 2)
    }

    #[test]
    fn frames_in_flight_and_their_zones_are_bounded() {
        let mut books = FrameBooks::new(2);
        for number in 0..2 {
            let places = [(); 3].map(|()| place(&mut books));
            assert!(places[2].is_none());
            for (zone, found) in places.into_iter().flatten().enumerate() {
                assert_eq!(found.queries(), [zone as u32 * 2, zone as u32 * 2 + 1]);
                assert!(books.end(found));
            }
            let finished = books.finish(|_| panic!("all are ended"));
            assert_eq!(finished, Some(FinishedFrame { number, zones: 2 }));
        }
        assert!(place(&mut books).is_none(), "both frames are in flight");
        assert_eq!(books.refused, 3);
        assert!(books.finish(|_| panic!("there is none")).is_none());
        books.frames[1] = FrameState::Free;
        assert_eq!(place(&mut books).map(|place| place.frame), Some(1));
    }

    #[test]
    fn a_zone_that_ends_too_late_writes_nothing_and_hides_those_after_it() {
        let mut books = FrameBooks::new(1);
        let open = place(&mut books).expect("a place");
        let ended = place(&mut books).expect("a place");
        assert!(books.end(ended));
        let mut without = 0;
        assert!(books.finish(|_| without += 1).is_none());
        assert_eq!(without, 2);
        assert!(!books.end(open), "its frame is over");
        let next = place(&mut books).expect("the frame is free again");
        assert!(!books.end(open), "its place is another zone's");
        assert!(books.end(next));
    }
}
