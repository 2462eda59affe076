//! What instrumented programs do: zones and frames that take too long, messages, plots.

use crate::cause::{Cause, NamePattern};
use crate::client_logs::{ClientLogs, NamedEntry};
use crate::duration_limit::TicksLimit;
use crate::found::{FoundCause, Occurrence};
use crate::threads::Threads;
use crate::thresholds::{Thresholds, ValueSource};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use syscollect_model::Lane;
use syscollect_records::ZoneChunk;
use syscollect_zone_protocol::{Attribute, Event, FramePhase, Item, TextRole, Value, item_words};

/// Zones of a thread that are followed; those within are not.
const MOST_DEPTH: usize = 64;
/// Async zones and sets of frames that are followed at a time.
const MOST_OPEN: usize = 1 << 16;
/// Bytes of a message that are looked at.
const LONGEST_MESSAGE: usize = 4096;

/// Limits of durations, by trigger.
pub(crate) type TicksLimits = FxHashMap<usize, TicksLimit>;

/// A zone that is open.
#[derive(Clone, Copy, Debug)]
struct OpenZone {
    location: u32,
    began: u64,
}

/// Who writes to a lane, and what is open of it.
#[derive(Debug, Default)]
struct Writer {
    client: u32,
    tid: u32,
    owner: u32,
    /// The outermost first, as far as they are followed.
    open: Vec<OpenZone>,
    /// How many are open.
    depth: usize,
}

/// What all parts of this need of others.
pub(crate) struct ZoneContext<'a> {
    pub(crate) logs: &'a ClientLogs,
    pub(crate) limits: &'a mut TicksLimits,
    pub(crate) thresholds: &'a mut Thresholds,
    pub(crate) threads: &'a Threads,
    pub(crate) found: &'a mut Vec<FoundCause>,
}

/// What is open of instrumented programs.
#[derive(Debug, Default)]
pub(crate) struct Zones {
    writers: FxHashMap<Lane, Writer>,
    /// By the program's number and its own.
    async_zones: FxHashMap<(u32, u64), OpenZone>,
    /// When the frame of a set began, by the program's number and the set's.
    frames: FxHashMap<(u32, u32), u64>,
    /// Who a message has to be of, by trigger.
    senders: FxHashMap<usize, NamePattern>,
    /// What may end on any thread may have ended in what is not seen.
    is_blind: bool,
}

impl Zones {
    pub(crate) fn new<'c>(causes: impl Iterator<Item = (usize, &'c Cause)>) -> Self {
        let senders = causes.filter_map(|(trigger, cause)| match cause {
            Cause::Message(Some(who), _) => Some((trigger, who.clone())),
            _ => None,
        });
        Self { senders: senders.collect(), ..Self::default() }
    }

    /// A chunk of a thread begins; where items before it are missing, what was open may have ended.
    pub(crate) fn chunk(&mut self, lane: Lane, chunk: &ZoneChunk, is_missing: bool) {
        let ZoneChunk { client, tid, owner, .. } = *chunk;
        let writer = self.writers.entry(lane).or_default();
        if is_missing || (writer.client, writer.tid, writer.owner) != (client, tid, owner) {
            writer.clear();
        }
        if is_missing {
            self.frames.retain(|(of, _), _| *of != client);
            self.async_zones.retain(|(of, _), _| *of != client);
        }
        (writer.client, writer.tid, writer.owner) = (client, tid, owner);
    }

    /// Whether items of this time are missing that nothing tells of yet: frames and async zones,
    /// which may end on any thread, are not timed then. A thread's next chunk tells of its own.
    pub(crate) fn set_blind(&mut self, is_blind: bool) {
        self.is_blind = is_blind;
        if is_blind {
            self.frames.clear();
            self.async_zones.clear();
        }
    }

    /// Programs have ended.
    pub(crate) fn forget(&mut self, is_over: impl Fn(u32) -> bool) {
        self.writers.retain(|_, writer| !is_over(writer.client));
        self.frames.retain(|(client, _), _| !is_over(*client));
        self.async_zones.retain(|(client, _), _| !is_over(*client));
    }

    /// A group of items of a thread, behind all that was told before.
    #[inline]
    pub(crate) fn on(&mut self, lane: Lane, at: u64, words: &[u64], context: &mut ZoneContext<'_>) {
        let Some(first) = words.first() else { return };
        let (item, attributes) = words.split_at(item_words(*first).unwrap_or(0).min(words.len()));
        let Some(Item::Stamped { event, .. }) = Item::decode(item) else { return };
        let Self { writers, async_zones, frames, senders, is_blind } = self;
        let Some(writer) = writers.get_mut(&lane) else { return };
        let (client, tid) = (writer.client, writer.tid);
        match event {
            Event::ZoneBegin { location, depth } => {
                writer.begin(depth as usize, OpenZone { location, began: at });
            }
            Event::ZoneEnd { depth } => {
                if let Some(zone) = writer.end(depth) {
                    context.took(zone, client, tid, at);
                }
            }
            // Only what began while it was looked has a known duration.
            Event::Attached { depth } => {
                writer.open.truncate(depth as usize);
                writer.depth = depth as usize;
            }
            Event::Lost { .. } | Event::ThreadEnd => writer.clear(),
            Event::AsyncBegin { location, zone, .. }
                if !*is_blind
                    && async_zones.len() < MOST_OPEN
                    && context.logs.location(client, location).is_some() =>
            {
                async_zones.insert((client, zone), OpenZone { location, began: at });
            }
            Event::AsyncEnd { zone } => {
                if let Some(zone) = async_zones.remove(&(client, zone)) {
                    context.took(zone, client, tid, at);
                }
            }
            Event::Frame { set, phase } => {
                let Some(named) = context.logs.frames(client, set) else { return };
                let began = match phase {
                    FramePhase::Mark | FramePhase::End => frames.remove(&(client, set)),
                    FramePhase::Begin => None,
                };
                if phase != FramePhase::End && !*is_blind && frames.len() < MOST_OPEN {
                    frames.insert((client, set), at);
                }
                if let Some(began) = began {
                    context.exceeds("frame", &named.clone(), began, tid, at);
                }
            }
            Event::Message { string, .. } => {
                let text = message(context.logs.message(client, string), attributes);
                let asked: Vec<usize> = context.logs.of_message(&text).collect();
                for trigger in asked {
                    if context.threads.matches(tid, senders.get(&trigger)) {
                        let what = Occurrence::Message(text.clone());
                        context.found.push(FoundCause { trigger, at, tid: Some(tid), what });
                    }
                }
            }
            Event::Plot { plot, value } => {
                let Some(named) = context.logs.plot(client, plot) else { return };
                let Some(value) = number(value) else { return };
                let source = ValueSource::Plot(client, plot);
                for trigger in named.triggers.iter().copied() {
                    if context.thresholds.crosses(trigger, source, value) {
                        let what = Occurrence::Value { name: Arc::clone(&named.name), value };
                        context.found.push(FoundCause { trigger, at, tid: Some(tid), what });
                    }
                }
            }
            _ => {}
        }
    }
}

impl Writer {
    fn clear(&mut self) {
        self.open.clear();
        self.depth = 0;
    }

    fn begin(&mut self, depth: usize, zone: OpenZone) {
        self.depth = depth.saturating_add(1);
        if depth >= MOST_DEPTH {
            return;
        }
        // Those around it whose beginning was not seen.
        self.open.resize(depth, OpenZone { location: 0, began: u64::MAX });
        self.open.push(zone);
    }

    /// The innermost ends, and all beyond that depth, modulo 64: the zone that ends there.
    fn end(&mut self, depth: u8) -> Option<OpenZone> {
        let innermost = self.depth.checked_sub(1)?;
        let depth = innermost - innermost.wrapping_sub(usize::from(depth)) % 64;
        self.depth = depth;
        let zone = self.open.get(depth).copied()?;
        self.open.truncate(depth);
        (zone.began != u64::MAX).then_some(zone)
    }
}

impl ZoneContext<'_> {
    fn took(&mut self, zone: OpenZone, client: u32, tid: u32, at: u64) {
        if let Some(named) = self.logs.location(client, zone.location) {
            self.exceeds("zone", &named.clone(), zone.began, tid, at);
        }
    }

    /// Notes for whom it took too long.
    fn exceeds(&mut self, kind: &'static str, named: &NamedEntry, began: u64, tid: u32, at: u64) {
        let ticks = at.saturating_sub(began);
        for trigger in named.triggers.iter().copied() {
            if self.limits.get_mut(&trigger).is_some_and(|limit| limit.is_exceeded(ticks, at)) {
                let what = Occurrence::Took { kind, name: Arc::clone(&named.name), ticks };
                self.found.push(FoundCause { trigger, at, tid: Some(tid), what });
            }
        }
    }
}

/// The text of a message: the string that it is, or what follows it.
fn message(string: Option<&NamedEntry>, mut attributes: &[u64]) -> String {
    if let Some(string) = string {
        return string.name.to_string();
    }
    let mut text = Vec::new();
    while let Some(words) = attributes.first().and_then(|first| item_words(*first)) {
        let (item, rest) = attributes.split_at(words.min(attributes.len()));
        attributes = rest;
        if let Some(Item::Attribute(Attribute::Text { role: TextRole::Message, piece, .. })) =
            Item::decode(item)
            && text.len() < LONGEST_MESSAGE
        {
            text.extend_from_slice(piece.bytes());
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

fn number(value: Value) -> Option<f64> {
    match value {
        Value::Unsigned(value) => Some(value as f64),
        Value::Signed(value) => Some(value as f64),
        Value::Float(value) => value.is_finite().then_some(value),
        Value::String(_) => None,
    }
}
