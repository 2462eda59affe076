//! Captures that are fed piece by piece: however they are cut, the same comes out.

use crate::golden;
use std::collections::BTreeMap;
use syscollect_exporters::TextExporter;
use syscollect_merge::{Playing, Session};
use syscollect_model::{Lane, LaneKind, Ticks};
use syscollect_playback::{Played, Stopped};
use syscollect_store::{CaptureReader, IndexEntry};

/// How much earlier than its first record a chunk's earliest may be, ticks: records of probes and
/// tracepoints lie a little out of order.
const DISORDER: u64 = crate::ticks(1_000) - crate::ticks(0);

/// Ways to cut that every capture is put through.
const WAYS: u64 = 4;

/// Feeds a capture in pieces of several sizes and orders.
///
/// # Panics
///
/// When other events come out than of the whole file, or of the same file in one piece.
pub fn check(capture: &[u8]) {
    let open = || {
        let reader = CaptureReader::from_bytes(capture.to_vec()).ok()?;
        Session::open(reader).ok()
    };
    let Some(mut session) = open() else { return };
    let whole = golden::text(&mut session);
    for way in 0..WAYS {
        let Some(mut session) = open() else { return };
        let reader = CaptureReader::from_bytes(capture.to_vec()).expect("it was opened before");
        let fed = text_of(&mut session, |playing| Pieces::new(&reader, way).feed(playing));
        let mut lines = fed.0.lines().zip(whole.0.lines());
        assert_eq!(lines.find(|(fed, whole)| fed != whole), None, "fed in pieces, way {way}");
        assert_eq!(fed.0.len(), whole.0.len(), "fed in pieces, way {way}");
        assert_eq!(fed.1, whole.1, "fed in pieces, way {way}");
    }
}

fn text_of(
    session: &mut Session,
    feed: impl FnOnce(&mut Playing<'_>) -> Result<(), Stopped>,
) -> (String, Played) {
    let mut exporter = TextExporter::new(Vec::new());
    let played = session.play_fed(&mut exporter, feed).expect("memory takes every byte");
    let bytes = exporter.finish().expect("memory takes every byte");
    (String::from_utf8(bytes).expect("lines are UTF-8"), played)
}

/// The chunks of a capture that were not fed yet.
struct Pieces<'a> {
    reader: &'a CaptureReader,
    lanes: BTreeMap<Lane, &'a [IndexEntry]>,
    random: u64,
}

impl<'a> Pieces<'a> {
    fn new(reader: &'a CaptureReader, way: u64) -> Self {
        let lanes = reader.lanes().into_iter().filter(|lane| !lane.kind.is_definition());
        let lanes = lanes.map(|lane| (lane, reader.chunks(lane))).collect();
        Self { reader, lanes, random: way.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 }
    }

    /// A number below `below`, by xorshift: the same each time, so that a failure comes again.
    fn random(&mut self, below: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random % below.max(1) as u64) as usize
    }

    /// Feeds some chunks of some lane, and again, with what that allows told in between.
    fn feed(mut self, playing: &mut Playing<'_>) -> Result<(), Stopped> {
        while !self.lanes.is_empty() {
            let lane = self.random(self.lanes.len());
            let Some((&lane, &entries)) = self.lanes.iter().nth(lane) else { break };
            let (now, later) = entries.split_at(1 + self.random(entries.len()));
            self.lanes.insert(lane, later);
            self.lanes.retain(|_, entries| !entries.is_empty());
            for entry in now {
                match self.reader.read(entry) {
                    Ok(chunk) => playing.feed(chunk),
                    Err(_) => playing.feed_unreadable(lane, entry.records),
                }
            }
            if let Some(ticks) = self.low_watermark() {
                playing.nothing_before(Ticks(ticks));
            }
            playing.play()?;
        }
        Ok(())
    }

    /// What all that was not fed is later than; `None` while that is not known here: programs'
    /// chunks have clocks of their own.
    fn low_watermark(&self) -> Option<u64> {
        let firsts = self.lanes.iter().flat_map(|(lane, entries)| {
            entries.iter().map(|entry| (lane.kind != LaneKind::Zone).then_some(entry.first.0))
        });
        let least = firsts.collect::<Option<Vec<u64>>>()?.into_iter().min()?;
        Some(least.saturating_sub(DISORDER))
    }
}
