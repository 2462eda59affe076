//! What instrumented programs do: zones and frames that take too long, messages, plots.

use crate::cause::{Cause, NamePattern};
use crate::client_logs::{ClientLogs, NamedEntry};
use crate::duration_limit::TicksLimit;
use crate::found::{FoundCause, Occurrence, TriggerSet};
use crate::scopes::Scopes;
use crate::threads::Threads;
use crate::thresholds::{Thresholds, ValueSource};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;
use syscollect_merge::FollowedZones;
use syscollect_model::Lane;
use syscollect_records::ZoneChunk;
use syscollect_store::{Producer, ProducerShares};
use syscollect_zone_protocol::{Attribute, Event, FramePhase, Item, TextRole, Value, item_words};

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
    /// The triggers that found it stuck.
    stuck: TriggerSet,
}

/// An async zone that is, and the thread on which it began.
#[derive(Clone, Copy, Debug)]
struct OpenAsyncZone {
    zone: OpenZone,
    tid: u32,
}

/// A frame that has begun.
#[derive(Clone, Copy, Debug)]
struct OpenFrame {
    began: u64,
    tid: u32,
    stuck: TriggerSet,
}

/// What is open of a program and may end on any of its threads.
#[derive(Debug)]
struct OpenOfProgram {
    /// Whose it is.
    producer: Producer,
    /// By their numbers.
    async_zones: FxHashMap<u64, OpenAsyncZone>,
    /// By the number of the set.
    frames: FxHashMap<u32, OpenFrame>,
}

impl OpenOfProgram {
    fn of(producer: Producer) -> Self {
        Self { producer, async_zones: FxHashMap::default(), frames: FxHashMap::default() }
    }
}

/// Whether one more of this producer's is followed.
fn has_room(shares: &ProducerShares, producer: Producer) -> bool {
    shares.room_for(producer, MOST_OPEN.saturating_sub(shares.of_all())) > 0
}

/// Something that is open, or was until now, and what it is called.
struct OpenSpan<'a> {
    kind: &'static str,
    named: &'a NamedEntry,
    client: u32,
    began: u64,
    tid: u32,
    stuck: &'a mut TriggerSet,
}

/// Who writes to a lane, and what is open of it.
#[derive(Debug, Default)]
struct Writer {
    client: u32,
    tid: u32,
    owner: u32,
    zones: FollowedZones<OpenZone>,
}

/// What all parts of this need of others.
pub(crate) struct ZoneContext<'a> {
    pub(crate) logs: &'a ClientLogs,
    pub(crate) limits: &'a mut TicksLimits,
    pub(crate) thresholds: &'a mut Thresholds,
    pub(crate) threads: &'a Threads,
    pub(crate) scopes: &'a Scopes,
    pub(crate) found: &'a mut Vec<FoundCause>,
    /// Ticks between two looks at what is stuck.
    pub(crate) look_every: u64,
}

/// What is open of instrumented programs.
#[derive(Debug, Default)]
pub(crate) struct Zones {
    writers: FxHashMap<Lane, Writer>,
    /// What may end on any thread, by the program's number.
    programs: FxHashMap<u32, OpenOfProgram>,
    /// How much that is, by whose.
    shares: ProducerShares,
    /// Who a message has to be of, by trigger.
    senders: FxHashMap<usize, NamePattern>,
    /// Programs of which chunks were left out, and until when what may end on any of their threads
    /// may have ended in them; `None` until it is known how far the recording is.
    blind: FxHashMap<u32, Option<u64>>,
    /// Lanes of which chunks were left out, until their next one comes: what is open there may have
    /// ended.
    behind: FxHashSet<Lane>,
    /// When it is looked what is stuck.
    next_look: u64,
    /// Zones and frames that were more than are followed.
    unfollowed: u64,
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
            writer.zones.clear();
        }
        (writer.client, writer.tid, writer.owner) = (client, tid, owner);
        if is_missing {
            self.behind.remove(&lane);
            self.close(client);
        }
    }

    /// Items of that program are missing of which nothing tells yet: its frames and async zones,
    /// which may end on any thread, are not timed for a while. The lane's next chunk tells of its
    /// own zones; until then none of them is stuck.
    pub(crate) fn left_out(&mut self, lane: Lane, client: u32) {
        self.blind.insert(client, None);
        self.behind.insert(lane);
    }

    /// Forgets what is open of programs of which items are missing, before what comes is decided
    /// on. All before `decided` was; of those of which it is news, items may be missing until
    /// `latest`.
    pub(crate) fn set_blind(&mut self, decided: u64, latest: u64) {
        self.blind.retain(|_, until| decided < *until.get_or_insert(latest));
        let blind: Vec<u32> = self.blind.keys().copied().collect();
        blind.into_iter().for_each(|client| self.close(client));
    }

    /// What may end on any thread of a program is not followed any more.
    fn close(&mut self, client: u32) {
        if let Some(program) = self.programs.remove(&client) {
            self.shares.forget(program.producer);
        }
    }

    /// Programs have ended.
    pub(crate) fn forget(&mut self, is_over: impl Fn(u32) -> bool) {
        self.writers.retain(|_, writer| !is_over(writer.client));
        let over = self.programs.keys().copied().filter(|client| is_over(*client));
        let over: Vec<u32> = over.collect();
        over.into_iter().for_each(|client| self.close(client));
    }

    /// Looks what has not ended long after it should have, of programs that `runs` says run.
    pub(crate) fn look(
        &mut self,
        now: u64,
        runs: impl Fn(u32) -> bool,
        context: &mut ZoneContext<'_>,
    ) {
        if now < self.next_look {
            return;
        }
        let logs = context.logs;
        let mut next = u64::MAX;
        let mut look = |span: OpenSpan<'_>| next = next.min(context.look(now, span));
        let Self { writers, behind, .. } = self;
        let in_time = writers.iter_mut().filter(|(lane, _)| !behind.contains(lane));
        for (_, writer) in in_time.filter(|(_, writer)| runs(writer.client)) {
            let Writer { client, tid, .. } = *writer;
            for OpenZone { location, began, stuck } in writer.zones.iter_mut() {
                if let Some(named) = logs.location(client, *location) {
                    look(OpenSpan { kind: "zone", named, client, began: *began, tid, stuck });
                }
            }
        }
        for (client, program) in self.programs.iter_mut().filter(|(client, _)| runs(**client)) {
            let client = *client;
            for OpenAsyncZone { zone, tid } in program.async_zones.values_mut() {
                if let Some(named) = logs.location(client, zone.location) {
                    let (OpenZone { began, stuck, .. }, tid) = (zone, *tid);
                    look(OpenSpan { kind: "zone", named, client, began: *began, tid, stuck });
                }
            }
            for (set, OpenFrame { began, tid, stuck }) in &mut program.frames {
                if let Some(named) = logs.frames(client, *set) {
                    let (began, tid) = (*began, *tid);
                    look(OpenSpan { kind: "frame", named, client, began, tid, stuck });
                }
            }
        }
        // What begins meanwhile is not stuck before it has lasted longer than that.
        self.next_look = next.min(now.saturating_add(context.look_every));
    }

    /// Zones and frames that were more than are followed.
    pub(crate) fn unfollowed(&self) -> u64 {
        self.unfollowed
    }

    /// A group of items of a thread, behind all that was told before.
    #[inline]
    pub(crate) fn on(&mut self, lane: Lane, at: u64, words: &[u64], context: &mut ZoneContext<'_>) {
        let Some(first) = words.first() else { return };
        let (item, attributes) = words.split_at(item_words(*first).unwrap_or(0).min(words.len()));
        let Some(Item::Stamped { event, .. }) = Item::decode(item) else { return };
        let Self { writers, programs, shares, senders, blind, unfollowed, .. } = self;
        let Some(writer) = writers.get_mut(&lane) else { return };
        let (client, tid) = (writer.client, writer.tid);
        match event {
            Event::ZoneBegin { location, depth } => {
                let zone = OpenZone { location, began: at, stuck: TriggerSet::default() };
                *unfollowed += u64::from(!writer.zones.begin(depth, zone));
            }
            Event::ZoneEnd { depth } => {
                if let Some(zone) = writer.zones.end(depth) {
                    context.took(zone, client, tid, at);
                }
            }
            // Only what began while it was looked has a known duration.
            Event::Attached { depth } => writer.zones.leave(depth),
            Event::Lost { .. } | Event::ThreadEnd => writer.zones.clear(),
            Event::AsyncBegin { location, zone, .. }
                if !blind.contains_key(&client)
                    && context.logs.location(client, location).is_some() =>
            {
                let opened = OpenZone { location, began: at, stuck: TriggerSet::default() };
                let producer = context.logs.producer(client);
                if !has_room(shares, producer) {
                    *unfollowed += 1;
                    return;
                }
                let program = programs.entry(client).or_insert_with(|| OpenOfProgram::of(producer));
                let opened = OpenAsyncZone { zone: opened, tid };
                if program.async_zones.insert(zone, opened).is_none() {
                    shares.add(producer, 1);
                }
            }
            Event::AsyncEnd { zone } => {
                let program = programs.get_mut(&client);
                let ended =
                    program.and_then(|of| Some((of.producer, of.async_zones.remove(&zone)?)));
                if let Some((producer, ended)) = ended {
                    shares.remove(producer, 1);
                    context.took(ended.zone, client, tid, at);
                }
            }
            Event::Frame { set, phase } => {
                let logs = context.logs;
                let Some(named) = logs.frames(client, set) else { return };
                let producer = logs.producer(client);
                let program = programs.entry(client).or_insert_with(|| OpenOfProgram::of(producer));
                let began = match phase {
                    FramePhase::Mark | FramePhase::End => program.frames.remove(&set),
                    FramePhase::Begin => None,
                };
                if began.is_some() {
                    shares.remove(program.producer, 1);
                }
                if phase != FramePhase::End && !blind.contains_key(&client) {
                    match has_room(shares, program.producer) {
                        true => {
                            let opened = OpenFrame { began: at, tid, stuck: TriggerSet::default() };
                            if program.frames.insert(set, opened).is_none() {
                                shares.add(program.producer, 1);
                            }
                        }
                        false => *unfollowed += 1,
                    }
                }
                if let Some(OpenFrame { began, mut stuck, .. }) = began {
                    let stuck = &mut stuck;
                    let kind = "frame";
                    context.ended(&OpenSpan { kind, named, client, began, tid, stuck }, at);
                }
            }
            Event::Message { string, .. } => {
                let text = message(context.logs.message(client, string), attributes);
                let asked: Vec<usize> = context.logs.of_message(&text).collect();
                for trigger in asked {
                    if context.threads.matches(tid, senders.get(&trigger)) {
                        let (tid, payer) = (Some(tid), context.logs.payer(client));
                        let what = Occurrence::Message(text.clone());
                        context.found.push(FoundCause { trigger, at, tid, payer, what });
                    }
                }
            }
            Event::Plot { plot, value } => {
                let Some(named) = context.logs.plot(client, plot) else { return };
                let Some(value) = number(value) else { return };
                let source = ValueSource::Plot(context.logs.producer(client), plot);
                for trigger in named.triggers.iter().copied() {
                    if context.thresholds.crosses(trigger, source, value) {
                        let (name, unit) = (Arc::clone(&named.name), None);
                        let (tid, payer) = (Some(tid), context.logs.payer(client));
                        let what = Occurrence::Value { name, value, unit };
                        context.found.push(FoundCause { trigger, at, tid, payer, what });
                    }
                }
            }
            _ => {}
        }
    }
}

impl ZoneContext<'_> {
    /// Looks whether something that is open is stuck; when it will be for another trigger.
    fn look(&mut self, now: u64, span: OpenSpan<'_>) -> u64 {
        let OpenSpan { kind, named, client, began, tid, stuck } = span;
        let mut next = u64::MAX;
        let (payer, user) = self.whose(client, tid);
        let share = self.threads.payer(user);
        for trigger in named.triggers.iter().copied() {
            let limit = self.limits.get(&trigger).and_then(|limit| limit.stuck_at(share, began));
            let Some(at) = limit.filter(|_| !stuck.has(trigger)) else { continue };
            if now <= at {
                next = next.min(at + 1);
                continue;
            }
            stuck.add(&[trigger]);
            let (name, ticks) = (Arc::clone(&named.name), now.saturating_sub(began));
            if self.scopes.admit(trigger, Some(tid), user, self.threads) {
                let what = Occurrence::Stuck { kind, name, began, ticks };
                self.found.push(FoundCause { trigger, at, tid: Some(tid), payer, what });
            }
        }
        next
    }

    fn took(&mut self, zone: OpenZone, client: u32, tid: u32, at: u64) {
        let (logs, OpenZone { location, began, mut stuck }) = (self.logs, zone);
        if let Some(named) = logs.location(client, location) {
            let stuck = &mut stuck;
            self.ended(&OpenSpan { kind: "zone", named, client, began, tid, stuck }, at);
        }
    }

    /// Notes for whom it took too long, of those who have not found it stuck.
    fn ended(&mut self, span: &OpenSpan<'_>, at: u64) {
        let OpenSpan { kind, named, client, began, tid, ref stuck } = *span;
        let ticks = at.saturating_sub(began);
        let (payer, user) = self.whose(client, tid);
        let share = self.threads.payer(user);
        for trigger in named.triggers.iter().copied() {
            // What it does not ask for tells nothing of what is usual either.
            if !self.scopes.admit(trigger, Some(tid), user, self.threads) {
                continue;
            }
            let limit = self.limits.get_mut(&trigger);
            let is_exceeded = limit.is_some_and(|limit| limit.is_exceeded(share, ticks, at));
            if is_exceeded && !stuck.has(trigger) {
                let what = Occurrence::Took { kind, name: Arc::clone(&named.name), ticks };
                self.found.push(FoundCause { trigger, at, tid: Some(tid), payer, what });
            }
        }
    }

    /// Who pays for a program, where that is known, and which user's thread it is.
    fn whose(&self, client: u32, tid: u32) -> (Option<u32>, Option<u32>) {
        let payer = self.logs.payer(client);
        (payer, self.threads.user_of(Some(tid), payer))
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
