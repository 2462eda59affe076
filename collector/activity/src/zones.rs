//! How long zones and frames of instrumented programs took that ended in a second.

use crate::histogram::Histogram;
use crate::interval::{SpanKind, ZoneActivity};
use crate::zone_names::ZoneNames;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::sync::Arc;
use syscollect_merge::FollowedZones;
use syscollect_model::Lane;
use syscollect_records::ZoneChunk;
use syscollect_store::{Producer, ProducerShares};
use syscollect_zone_protocol::{Event, FramePhase, Item, item_words};

/// Async zones and sets of frames that are followed at a time.
const MOST_OPEN: usize = 1 << 16;
/// Places and sets of frames that are told apart in a second.
const MOST_PLACES: usize = 4096;
/// Rows that are kept of a second.
const MOST_ROWS: usize = 256;

/// A zone that is open.
#[derive(Clone, Copy, Debug)]
struct OpenZone {
    place: u32,
    began: u64,
}

/// Who writes to a lane, and what is open of it.
#[derive(Debug, Default)]
struct Writer {
    of: (u32, u32, u32),
    zones: FollowedZones<OpenZone>,
}

/// What is open of a program and may end on any of its threads.
#[derive(Debug)]
struct OpenOfProgram {
    producer: Producer,
    zones: FxHashMap<u64, OpenZone>,
    frames: FxHashMap<u32, u64>,
}

/// A place of a program's zones, or a set of its frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Span {
    kind: SpanKind,
    client: u32,
    number: u32,
}

#[derive(Debug, Default)]
struct Durations {
    sizes: Histogram,
    total: u64,
}

/// What programs have open, and what ended in this second.
#[derive(Debug, Default)]
pub(crate) struct Zones {
    pub(crate) names: ZoneNames,
    writers: FxHashMap<Lane, Writer>,
    programs: FxHashMap<u32, OpenOfProgram>,
    shares: ProducerShares,
    ended: FxHashMap<Span, Durations>,
    /// Ended, but of more places than are told apart, or of places of which no name is known.
    others: u64,
    is_incomplete: bool,
    /// Up to then what may end on any thread may have ended in what was left out.
    blind_until: u64,
}

impl Zones {
    /// A chunk of a thread begins; where items before it are missing, what was open may have ended.
    pub(crate) fn chunk(&mut self, lane: Lane, chunk: &ZoneChunk, is_missing: bool) {
        let ZoneChunk { client, tid, owner, .. } = *chunk;
        let writer = self.writers.entry(lane).or_default();
        if is_missing || writer.of != (client, tid, owner) {
            writer.zones.clear();
            writer.of = (client, tid, owner);
        }
        if is_missing {
            self.is_incomplete = true;
            self.close_program(client);
        }
    }

    /// Chunks were left out that nothing tells of until then.
    pub(crate) fn left_out(&mut self, until: u64) {
        self.is_incomplete = true;
        self.blind_until = until;
        self.programs.clear();
        self.shares = ProducerShares::default();
    }

    /// A process ended.
    pub(crate) fn ended(&mut self, pid: u32) {
        for client in self.names.clients(pid).to_vec() {
            self.close_program(client);
        }
    }

    fn close_program(&mut self, client: u32) {
        if let Some(program) = self.programs.remove(&client) {
            self.shares.forget(program.producer);
        }
    }

    /// A group of items of a thread.
    pub(crate) fn on(&mut self, lane: Lane, at: u64, words: &[u64]) {
        let Some(first) = words.first() else { return };
        let item = &words[..item_words(*first).unwrap_or(0).min(words.len())];
        let Some(Item::Stamped { event, .. }) = Item::decode(item) else { return };
        let Some(writer) = self.writers.get_mut(&lane) else { return };
        let client = writer.of.0;
        match event {
            Event::ZoneBegin { location, depth } => {
                let zone = OpenZone { place: location, began: at };
                if !writer.zones.begin(depth, zone) {
                    self.others += 1;
                }
            }
            Event::ZoneEnd { depth } => {
                if let Some(zone) = writer.zones.end(depth) {
                    self.took(SpanKind::Zone, client, zone, at);
                }
            }
            // Only what began while it was looked has a known duration.
            Event::Attached { depth } => writer.zones.leave(depth),
            Event::Lost { .. } => {
                writer.zones.clear();
                self.is_incomplete = true;
            }
            Event::ThreadEnd => writer.zones.clear(),
            Event::AsyncBegin { location, zone, .. } if at >= self.blind_until => {
                if let Some(program) = self.program_with_room(client) {
                    let opened = OpenZone { place: location, began: at };
                    let before = program.zones.insert(zone, opened);
                    self.count_opened(client, before.is_none());
                }
            }
            Event::AsyncEnd { zone } => {
                let program = self.programs.get_mut(&client);
                if let Some(ended) = program.and_then(|program| program.zones.remove(&zone)) {
                    self.shares.remove(self.names.producer(client), 1);
                    self.took(SpanKind::Zone, client, ended, at);
                }
            }
            Event::Frame { set, phase } => self.frame(client, set, phase, at),
            _ => {}
        }
    }

    fn frame(&mut self, client: u32, set: u32, phase: FramePhase, at: u64) {
        if phase != FramePhase::Begin {
            let program = self.programs.get_mut(&client);
            if let Some(began) = program.and_then(|program| program.frames.remove(&set)) {
                self.shares.remove(self.names.producer(client), 1);
                let zone = OpenZone { place: set, began };
                self.took(SpanKind::Frame, client, zone, at);
            }
        }
        if phase != FramePhase::End
            && at >= self.blind_until
            && let Some(program) = self.program_with_room(client)
        {
            let before = program.frames.insert(set, at);
            self.count_opened(client, before.is_none());
        }
    }

    /// The program, if one more of its is followed.
    fn program_with_room(&mut self, client: u32) -> Option<&mut OpenOfProgram> {
        let producer = self.names.producer(client);
        let free = MOST_OPEN.saturating_sub(self.shares.of_all());
        if self.shares.room_for(producer, free) == 0 {
            self.others += 1;
            return None;
        }
        let program = self.programs.entry(client).or_insert_with(|| OpenOfProgram {
            producer,
            zones: FxHashMap::default(),
            frames: FxHashMap::default(),
        });
        Some(program)
    }

    fn count_opened(&mut self, client: u32, is_new: bool) {
        if is_new {
            self.shares.add(self.names.producer(client), 1);
        }
    }

    fn took(&mut self, kind: SpanKind, client: u32, zone: OpenZone, at: u64) {
        let OpenZone { place, began } = zone;
        let span = Span { kind, client, number: place };
        if self.ended.len() >= MOST_PLACES && !self.ended.contains_key(&span) {
            self.others += 1;
            return;
        }
        let ticks = at.saturating_sub(began);
        let durations = self.ended.entry(span).or_default();
        durations.sizes.add(ticks);
        durations.total = durations.total.saturating_add(ticks);
    }

    /// Ends the second: what ended in it, those with most time first; how many besides, and whether
    /// any are missing.
    pub(crate) fn close(&mut self) -> (Vec<ZoneActivity>, u64, bool) {
        // Several places of a program may have one name.
        let mut named = FxHashMap::<(SpanKind, u32, Arc<str>), Durations>::default();
        for (span, durations) in self.ended.drain() {
            let Span { kind, client, number } = span;
            let name = match kind {
                SpanKind::Zone => self.names.place(client, number),
                SpanKind::Frame => self.names.frames(client, number),
            };
            let (Some(name), Some(pid)) = (name, self.names.process(client)) else {
                self.others += durations.sizes.count();
                continue;
            };
            let all = named.entry((kind, pid, name)).or_default();
            all.sizes.merge(&durations.sizes);
            all.total = all.total.saturating_add(durations.total);
        }
        let rows = named.into_iter().map(|((kind, pid, name), Durations { sizes, total })| {
            let percentile = |percent| sizes.percentile(percent).unwrap_or(0);
            ZoneActivity {
                kind,
                pid,
                name,
                count: sizes.count(),
                total,
                p50: percentile(50.0),
                p90: percentile(90.0),
                p99: percentile(99.0),
                longest: sizes.longest(),
            }
        });
        let mut rows: Vec<ZoneActivity> = rows.collect();
        rows.sort_unstable_by_key(|row| (Reverse(row.total), row.pid, Arc::clone(&row.name)));
        let others = rows.drain(MOST_ROWS.min(rows.len())..).map(|row| row.count).sum::<u64>();
        self.names.close();
        let others = others + std::mem::take(&mut self.others);
        (rows, others, std::mem::take(&mut self.is_incomplete))
    }
}
