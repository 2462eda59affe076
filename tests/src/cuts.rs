//! Captures that are fed piece by piece: however they are cut, the same comes out.

use crate::golden;
use crate::unnamed::Unnamed;
use std::collections::BTreeMap;
use std::fmt::Debug;
use syscollect_exporters::TextExporter;
use syscollect_merge::{Live, Playing, Recordings, Session, play_live};
use syscollect_model::{Exporter, Lane, LaneClock, LaneKind, Ticks};
use syscollect_playback::{Played, Recording, Stopped};
use syscollect_store::{CaptureReader, Chunk, IndexEntry};

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
    let Some(whole) = WholeCapture::new(capture.to_vec()) else { return };
    (0..WAYS).for_each(|way| whole.check(way));
}

/// A capture, and what is told of the whole file.
pub struct WholeCapture {
    capture: Vec<u8>,
    text: String,
    played: Played,
}

impl WholeCapture {
    /// `None` if it cannot be opened.
    pub fn new(capture: Vec<u8>) -> Option<Self> {
        let (text, played) = golden::text(&mut session_of(&capture)?);
        Some(Self { capture, text, played })
    }

    /// Feeds it in pieces, cut and ordered in one of many ways.
    ///
    /// # Panics
    ///
    /// When other events come out than of the whole file.
    pub fn check(&self, way: u64) {
        let Self { capture, text, played } = self;
        let mut session = session_of(capture).expect("it was opened before");
        let reader = CaptureReader::from_bytes(capture.clone()).expect("it was opened before");
        let fed = text_of(&mut session, |playing| Pieces::new(&reader, way).feed(playing));
        assert_same(&lines(&fed.0), &lines(text), &format!("fed in pieces, way {way}"));
        assert_eq!(&fed.1, played, "fed in pieces, way {way}");
    }
}

fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect::<Vec<_>>()
}

fn session_of(capture: &[u8]) -> Option<Session> {
    Session::open(CaptureReader::from_bytes(capture.to_vec()).ok()?).ok()
}

/// Plays a capture as if it were being recorded: everything is fed, what events refer to as well.
/// The lines without names of tasks, which a file shows as they are in the end; `None` of a file
/// that is damaged.
///
/// # Panics
///
/// When it matters in what pieces and orders it is fed.
pub fn live(capture: &[u8]) -> Option<Vec<String>> {
    let first = live_in_one_way(capture, 0)?;
    for way in 1..WAYS {
        let lines = live_in_one_way(capture, way)?;
        assert_same(&lines, &first, &format!("played while it is recorded, way {way}"));
    }
    Some(first)
}

fn live_in_one_way(capture: &[u8], way: u64) -> Option<Vec<String>> {
    let mut unnamed = Unnamed::default();
    play_live_into(&mut unnamed, capture, way).then(|| unnamed.lines())
}

/// Plays a capture into an exporter as if it were being recorded, in one of several ways; `false`
/// if it is damaged.
///
/// # Panics
///
/// When the exporter fails.
pub fn play_live_into<E: Exporter<Error: Debug>>(
    exporter: &mut E,
    capture: &[u8],
    way: u64,
) -> bool {
    let Ok(reader) = CaptureReader::from_bytes(capture.to_vec()) else { return false };
    let mut entries = reader.lanes().into_iter().flat_map(|lane| reader.chunks(lane));
    if !reader.damage().is_empty() || entries.any(|entry| reader.read(entry).is_err()) {
        return false;
    }
    play_live(exporter, |live| Pieces::of_all(&reader, way).feed(live)).expect("it takes all");
    true
}

/// Checks that the same comes out of a capture while it is recorded as of the file.
///
/// # Panics
///
/// When other events come out than of the file, but for the names of tasks.
pub fn check_live(capture: &[u8]) {
    let reader = CaptureReader::from_bytes(capture.to_vec()).expect("it is a capture");
    let (Some(live), Ok(mut session)) = (live(capture), Session::open(reader)) else { return };
    let mut whole = Unnamed::default();
    session.play(&mut whole).expect("it is kept");
    assert_same(&live, &whole.lines(), "played while it is recorded");
}

/// Plays a capture as those of two machines that did the same at the same time: each event is told
/// of both, and times never decrease.
///
/// # Panics
///
/// When other events come out than twice those of the capture.
pub fn check_beside_itself(capture: &[u8]) {
    let [reader, one, other] =
        [(); 3].map(|()| CaptureReader::from_bytes(capture.to_vec()).expect("it is a capture"));
    let Ok(mut session) = Session::open(reader) else { return };
    let (alone, played) = golden::text(&mut session);
    let recordings = Recordings::open(vec![one, other], &|| false);
    let mut recordings = recordings.expect("each can be opened alone");
    let (both, played_both) = golden::text(&mut recordings);
    let times = events(&both);
    let times = times.iter().filter_map(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    assert!(times.is_sorted(), "times of two machines");
    let mut expected = events(&alone);
    expected.extend_from_within(..);
    let mut both = events(&both);
    expected.sort();
    both.sort();
    assert_same(&both, &expected, "played beside itself");
    let twice = (2 * played.events, 2 * played.records, played.lost.saturating_mul(2));
    assert_eq!((played_both.events, played_both.records, played_both.lost), twice);
}

fn events(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| line.starts_with(' '));
    // One of them ends before the other.
    lines.filter(|line| !line.contains(" recording of machine ")).map(shared).collect()
}

/// Machines' names go, and so do numbers of rows.
fn shared(line: &str) -> String {
    let line = line.replace("@1", "").replace(" of machine 1", "");
    let mut parts = line.split('#');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |line, part| line + part.trim_start_matches(|c: char| c.is_ascii_digit()))
}

fn assert_same(lines: &[String], expected: &[String], what: &str) {
    let different = lines.iter().zip(expected).find(|(line, expected)| line != expected);
    assert_eq!(different, None, "{what}");
    assert_eq!(lines.len(), expected.len(), "{what}");
}

/// What is fed.
trait FeedTarget {
    fn chunk(&mut self, chunk: Chunk) -> Result<(), Stopped>;
    fn unreadable(&mut self, lane: Lane, records: u32);
    /// Tells what can be told; nothing of before these ticks will be fed.
    fn advance(&mut self, watermark: Option<Ticks>) -> Result<(), Stopped>;
}

impl FeedTarget for Playing<'_> {
    fn chunk(&mut self, chunk: Chunk) -> Result<(), Stopped> {
        self.feed(chunk);
        Ok(())
    }

    fn unreadable(&mut self, lane: Lane, records: u32) {
        self.feed_unreadable(lane, records);
    }

    fn advance(&mut self, watermark: Option<Ticks>) -> Result<(), Stopped> {
        watermark.into_iter().for_each(|ticks| self.nothing_before(ticks));
        self.play()
    }
}

impl FeedTarget for Live<'_> {
    fn chunk(&mut self, chunk: Chunk) -> Result<(), Stopped> {
        self.feed(chunk)
    }

    fn unreadable(&mut self, lane: Lane, records: u32) {
        unreachable!("{records} records of {lane}: damaged files are not played so");
    }

    fn advance(&mut self, watermark: Option<Ticks>) -> Result<(), Stopped> {
        watermark.map_or(Ok(()), |ticks| self.advance(ticks))
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
    /// Whether what can be told is told only behind some of the pieces.
    is_lazy: bool,
}

impl<'a> Pieces<'a> {
    fn new(reader: &'a CaptureReader, way: u64) -> Self {
        let mut pieces = Self::of_all(reader, way);
        pieces.lanes.retain(|lane, _| !lane.kind.is_definition());
        pieces.is_lazy = way % 2 == 1;
        pieces
    }

    /// With what events refer to.
    fn of_all(reader: &'a CaptureReader, way: u64) -> Self {
        let lanes = reader.lanes().into_iter().map(|lane| (lane, reader.chunks(lane))).collect();
        let random = way.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        Self { reader, lanes, random, is_lazy: false }
    }

    /// A number below `below`, by xorshift: the same each time, so that a failure comes again.
    fn random(&mut self, below: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random % below.max(1) as u64) as usize
    }

    /// Feeds some chunks of some lane, and again, with what that allows told in between.
    fn feed(mut self, to: &mut impl FeedTarget) -> Result<(), Stopped> {
        while !self.lanes.is_empty() {
            // What is said once comes first: which sessions, programs and processes there are.
            let definitions = self.lanes.keys().position(|lane| lane.kind == LaneKind::Definition);
            let lane = definitions.unwrap_or_else(|| self.random(self.lanes.len()));
            let Some((&lane, &entries)) = self.lanes.iter().nth(lane) else { break };
            let (now, later) = entries.split_at(1 + self.random(entries.len()));
            self.lanes.insert(lane, later);
            self.lanes.retain(|_, entries| !entries.is_empty());
            for entry in now {
                match self.reader.read(entry) {
                    Ok(chunk) => to.chunk(chunk)?,
                    Err(_) => to.unreadable(lane, entry.records),
                }
            }
            if !self.is_lazy || self.random(3) == 0 {
                to.advance(self.low_watermark().map(Ticks))?;
            }
        }
        Ok(())
    }

    /// What all that was not fed is later than; `None` while that is not known here: the chunks of
    /// programs and of mappings have clocks of their own.
    fn low_watermark(&self) -> Option<u64> {
        let firsts = self.lanes.iter().flat_map(|(lane, entries)| {
            let clock = lane.kind.traits().clock;
            let unknown = matches!(clock, LaneClock::Program | LaneClock::Drained);
            entries.iter().map(move |entry| (!unknown).then_some(entry.first.0))
        });
        let least = firsts.collect::<Option<Vec<u64>>>()?.into_iter().min()?;
        Some(least.saturating_sub(DISORDER))
    }
}
