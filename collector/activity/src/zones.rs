//! How long zones, of GPUs too, and frames of instrumented programs took that ended in a second,
//! and which stay open.

use crate::histogram::Histogram;
use crate::interval::{SpanKind, ZoneActivity};
use crate::names::Names;
use crate::zone_names::ZoneNames;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use syscollect_merge::FollowedZones;
use syscollect_model::Lane;
use syscollect_records::ZoneChunk;
use syscollect_store::{Producer, ProducerShares, fair_level};
use syscollect_zone_protocol::{Event, FramePhase, GpuEvent, GpuZoneNumber, Item, item_words};

/// Async zones, zones of GPUs and sets of frames that are followed at a time.
const MOST_OPEN: usize = 1 << 16;
/// Places and sets of frames that are told apart in a second, of which each user's programs have a
/// share, and each program: one alone has three eighths.
const MOST_ADDRESSES: usize = 1 << 14;
/// Rows that are kept of a second.
const MOST_ROWS: usize = 256;
/// Users of whom it is said that something is missing of their programs.
const MOST_USERS: usize = 16;

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
    /// Zones of GPUs that have no times yet, which began when they were submitted.
    gpu_zones: FxHashMap<GpuZoneNumber, OpenZone>,
}

/// A place of a program's zones, of a GPU those of one queue, or a set of its frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Span {
    kind: SpanKind,
    client: u32,
    number: u32,
    queue: Option<u32>,
}

impl Span {
    fn zone(client: u32, number: u32) -> Self {
        Self { kind: SpanKind::Zone, client, number, queue: None }
    }

    fn frame(client: u32, number: u32) -> Self {
        Self { kind: SpanKind::Frame, client, number, queue: None }
    }

    fn gpu_zone(client: u32, zone: GpuZoneNumber, number: u32) -> Self {
        Self { kind: SpanKind::GpuZone, client, number, queue: Some(zone.context) }
    }
}

/// By what rows are told apart: several places of a program may have one name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct RowKey {
    pid: u32,
    queue: Option<Arc<str>>,
    name: Arc<str>,
    kind: SpanKind,
}

#[derive(Debug, Default)]
struct Durations {
    sizes: Histogram,
    total: u64,
    /// Those that are open, and since when the oldest.
    open: u64,
    oldest: u64,
}

impl Durations {
    fn add_open(&mut self, count: u64, oldest: u64) {
        self.oldest = if self.open == 0 { oldest } else { self.oldest.min(oldest) };
        self.open += count;
    }

    /// What it has of a second of so many ticks.
    fn weight(&self, ticks: u64) -> u64 {
        self.total.saturating_add(self.open.saturating_mul(ticks))
    }
}

/// What programs have open, and what ended in this second.
#[derive(Debug, Default)]
pub(crate) struct Zones {
    pub(crate) names: ZoneNames,
    writers: FxHashMap<Lane, Writer>,
    programs: FxHashMap<u32, OpenOfProgram>,
    shares: ProducerShares,
    ended: FxHashMap<Span, Durations>,
    /// Whose those are.
    ended_shares: ProducerShares,
    /// Ended, but of more places than are told apart, or of places of which no name is known.
    others: u64,
    missing: MissingZones,
    /// Threads that ended, and when: what was open on them ended with them.
    ended_threads: FxHashMap<u32, u64>,
    /// Programs of which chunks were left out that nothing tells of until then: what may end on any
    /// thread may have ended in those.
    blind: FxHashMap<u32, BlindProgram>,
}

#[derive(Clone, Copy, Debug)]
struct BlindProgram {
    user: u32,
    until: u64,
}

/// Of whose zones and frames something is missing.
#[derive(Debug, Default)]
pub(crate) struct MissingZones {
    pub(crate) is_any: bool,
    /// Users, as far as they are known, up to a bound.
    pub(crate) of_users: Vec<u32>,
}

impl MissingZones {
    fn add(&mut self, user: Option<u32>) {
        self.is_any = true;
        let user = user.filter(|user| !self.of_users.contains(user));
        self.of_users.extend(user.filter(|_| self.of_users.len() < MOST_USERS));
    }
}

/// What was in a second.
#[derive(Debug)]
pub(crate) struct ClosedZones {
    pub(crate) rows: Vec<ZoneActivity>,
    /// How many besides.
    pub(crate) others: u64,
    pub(crate) missing: MissingZones,
}

/// A row, and whose it is.
struct OwnedRow {
    user: u32,
    row: ZoneActivity,
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
            self.missing.add(self.names.user(client));
            self.close_program(client);
        }
    }

    /// Chunks of a program were left out that nothing tells of until then.
    pub(crate) fn left_out(&mut self, producer: Option<&Producer>, until: u64) {
        self.missing.add(producer.map(|producer| producer.user));
        if let Some(Producer { user, program }) = producer.copied() {
            self.blind.insert(program, BlindProgram { user, until });
            self.close_program(program);
        }
    }

    /// Whether what begins then on any thread of a program is not followed.
    fn is_blind(&self, client: u32, at: u64) -> bool {
        self.blind.get(&client).is_some_and(|blind| at < blind.until)
    }

    /// A process ended.
    pub(crate) fn ended(&mut self, pid: u32) {
        let clients = self.names.clients(pid).to_vec();
        clients.iter().for_each(|client| self.close_program(*client));
        if !clients.is_empty() {
            let writers = self.writers.values_mut();
            let of_them = writers.filter(|writer| clients.contains(&writer.of.0));
            of_them.for_each(|writer| writer.zones.clear());
        }
    }

    /// A thread ended.
    pub(crate) fn thread_ended(&mut self, tid: u32, at: u64) {
        if !self.writers.is_empty() && self.ended_threads.len() < MOST_OPEN {
            self.ended_threads.insert(tid, at);
        }
    }

    /// What is open on threads that ended is no more.
    fn close_ended(&mut self) {
        if self.ended_threads.is_empty() {
            return;
        }
        for writer in self.writers.values_mut() {
            let ended = self.ended_threads.get(&writer.of.1);
            let outermost = writer.zones.iter().next();
            if outermost.zip(ended).is_some_and(|(zone, ended)| zone.began <= *ended) {
                writer.zones.clear();
            }
        }
        self.ended_threads.clear();
    }

    /// Notes what is open since before `start`.
    fn note_open(&mut self, start: u64) {
        self.close_ended();
        let Self { names, writers, programs, ended, ended_shares, others, .. } = self;
        let mut note = |span: Span, began| {
            if began >= start {
                return;
            }
            match told_apart(ended, ended_shares, names, span) {
                Some(durations) => durations.add_open(1, began),
                None => *others += 1,
            }
        };
        for writer in writers.values() {
            let zones = writer.zones.iter();
            zones.for_each(|zone| note(Span::zone(writer.of.0, zone.place), zone.began));
        }
        for (client, program) in programs {
            for zone in program.zones.values() {
                note(Span::zone(*client, zone.place), zone.began);
            }
            for (set, began) in &program.frames {
                note(Span::frame(*client, *set), *began);
            }
            for (number, zone) in &program.gpu_zones {
                note(Span::gpu_zone(*client, *number, zone.place), zone.began);
            }
        }
    }

    fn close_program(&mut self, client: u32) {
        if let Some(program) = self.programs.remove(&client) {
            self.shares.forget(program.producer);
        }
    }

    /// A group of items of a thread. A second has so many ticks.
    pub(crate) fn on(&mut self, lane: Lane, at: u64, words: &[u64], second: u64) {
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
                    self.took(Span::zone(client, zone.place), at.saturating_sub(zone.began));
                }
            }
            // Only what began while it was looked has a known duration.
            Event::Attached { depth } => writer.zones.leave(depth),
            Event::Lost { .. } => {
                writer.zones.clear();
                self.missing.add(self.names.user(client));
            }
            Event::ThreadEnd => writer.zones.clear(),
            Event::AsyncBegin { location, zone, .. } if !self.is_blind(client, at) => {
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
                    self.took(Span::zone(client, ended.place), at.saturating_sub(ended.began));
                }
            }
            Event::Frame { set, phase } => self.frame(client, set, phase, at),
            Event::Gpu(event) => self.gpu(client, event, at, second),
            _ => {}
        }
    }

    fn frame(&mut self, client: u32, set: u32, phase: FramePhase, at: u64) {
        if phase != FramePhase::Begin {
            let program = self.programs.get_mut(&client);
            if let Some(began) = program.and_then(|program| program.frames.remove(&set)) {
                self.shares.remove(self.names.producer(client), 1);
                self.took(Span::frame(client, set), at.saturating_sub(began));
            }
        }
        if phase != FramePhase::End
            && !self.is_blind(client, at)
            && let Some(program) = self.program_with_room(client)
        {
            let before = program.frames.insert(set, at);
            self.count_opened(client, before.is_none());
        }
    }

    /// A zone of a GPU counts once its times are told.
    fn gpu(&mut self, client: u32, event: GpuEvent, at: u64, second: u64) {
        match event {
            GpuEvent::ZoneBegin { zone, location } if !self.is_blind(client, at) => {
                if let Some(program) = self.program_with_room(client) {
                    let submitted = OpenZone { place: location, began: at };
                    let before = program.gpu_zones.insert(zone, submitted);
                    self.count_opened(client, before.is_none());
                }
            }
            GpuEvent::Times { zone, began, ended } => {
                let Some(submitted) = self.take_gpu_zone(client, zone) else { return };
                match self.names.queue(client, zone.context) {
                    Some(queue) => {
                        let ticks = queue.ticks_between([began, ended], second);
                        self.took(Span::gpu_zone(client, zone, submitted.place), ticks);
                    }
                    None => self.others += 1,
                }
            }
            // Nobody knows how long it took.
            GpuEvent::NoTimes { zone } => _ = self.take_gpu_zone(client, zone),
            GpuEvent::ZoneBegin { .. }
            | GpuEvent::ZoneEnd { .. }
            | GpuEvent::Calibration { .. } => {}
        }
    }

    fn take_gpu_zone(&mut self, client: u32, zone: GpuZoneNumber) -> Option<OpenZone> {
        let submitted = self.programs.get_mut(&client)?.gpu_zones.remove(&zone)?;
        self.shares.remove(self.names.producer(client), 1);
        Some(submitted)
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
            gpu_zones: FxHashMap::default(),
        });
        Some(program)
    }

    fn count_opened(&mut self, client: u32, is_new: bool) {
        if is_new {
            self.shares.add(self.names.producer(client), 1);
        }
    }

    fn took(&mut self, span: Span, ticks: u64) {
        let Self { names, ended, ended_shares, others, .. } = self;
        let Some(durations) = told_apart(ended, ended_shares, names, span) else {
            *others += 1;
            return;
        };
        durations.sizes.add(ticks);
        durations.total = durations.total.saturating_add(ticks);
    }

    /// Ends the second from `start` to `end`: what ended in it, or was open all the time, those
    /// with most time first; how many besides, and of whose something is missing.
    pub(crate) fn close(&mut self, [start, end]: [u64; 2], threads: &Names) -> ClosedZones {
        let ticks = end.saturating_sub(start);
        self.note_open(start);
        self.ended_shares = ProducerShares::default();
        let mut named = FxHashMap::<RowKey, Durations>::default();
        let mut users = FxHashMap::<u32, u32>::default();
        for (span, durations) in self.ended.drain() {
            let Span { kind, client, number, queue } = span;
            let name = match kind {
                SpanKind::Zone | SpanKind::GpuZone => self.names.place(client, number),
                SpanKind::Frame => self.names.frames(client, number),
            };
            let queue = match queue {
                // One that is open may be of a queue that nothing tells of.
                Some(queue) => match self.names.queue(client, queue) {
                    Some(queue) => Some(Arc::clone(&queue.name)),
                    None => {
                        self.others += durations.sizes.count() + durations.open;
                        continue;
                    }
                },
                None => None,
            };
            let (Some(name), Some(pid)) = (name, self.names.process(client)) else {
                self.others += durations.sizes.count() + durations.open;
                continue;
            };
            users.insert(pid, self.names.producer(client).user);
            let all = named.entry(RowKey { pid, queue, name, kind }).or_default();
            all.sizes.merge(&durations.sizes);
            all.total = all.total.saturating_add(durations.total);
            if durations.open > 0 {
                all.add_open(durations.open, durations.oldest);
            }
        }
        let mut named: Vec<_> = named.into_iter().collect();
        named.sort_unstable_by(|(key, durations), (other_key, other)| {
            let [mine, others] = [durations, other].map(|durations| durations.weight(ticks));
            others.cmp(&mine).then_with(|| key.cmp(other_key))
        });
        let rows = named.into_iter().map(|(RowKey { pid, queue, name, kind }, durations)| {
            let Durations { sizes, total, open, oldest } = durations;
            let percentile = |percent| sizes.percentile(percent).unwrap_or(0);
            let row = ZoneActivity {
                kind,
                pid,
                name,
                queue,
                count: sizes.count(),
                total,
                p50: percentile(50.0),
                p90: percentile(90.0),
                p99: percentile(99.0),
                longest: sizes.longest(),
                process: threads.get(pid).filter(|named| named.pid == pid).map(|named| named.name),
                open,
                open_for: if open > 0 { end.saturating_sub(oldest) } else { 0 },
            };
            OwnedRow { user: users.get(&pid).copied().unwrap_or(u32::MAX), row }
        });
        let (rows, others) = share_rows(rows.collect());
        self.names.close();
        let others = others + std::mem::take(&mut self.others);
        // What was left out is missing in all seconds until then.
        self.blind.values().for_each(|blind| self.missing.add(Some(blind.user)));
        self.blind.retain(|_, blind| blind.until > end);
        ClosedZones { rows, others, missing: std::mem::take(&mut self.missing) }
    }
}

/// What is noted of that place, or set of frames; `None` where its program has its share of those
/// that are told apart.
fn told_apart<'a>(
    ended: &'a mut FxHashMap<Span, Durations>,
    shares: &mut ProducerShares,
    names: &ZoneNames,
    span: Span,
) -> Option<&'a mut Durations> {
    match ended.entry(span) {
        Entry::Occupied(known) => Some(known.into_mut()),
        Entry::Vacant(new) => {
            let producer = names.producer(span.client);
            let free = MOST_ADDRESSES.saturating_sub(shares.of_all());
            if shares.room_for(producer, free) == 0 {
                return None;
            }
            shares.add(producer, 1);
            Some(new.insert(Durations::default()))
        }
    }
}

/// The rows that are kept of those that come in their order, and how many zones are in the others.
/// Where there are too many, users have equal shares of them, and a user's processes of those of
/// the user, each its first; what nobody's share takes goes to the first of the rest.
fn share_rows(rows: Vec<OwnedRow>) -> (Vec<ZoneActivity>, u64) {
    if rows.len() <= MOST_ROWS {
        return (rows.into_iter().map(|owned| owned.row).collect(), 0);
    }
    let mut counts = BTreeMap::<u32, BTreeMap<u32, usize>>::new();
    for OwnedRow { user, row } in &rows {
        *counts.entry(*user).or_default().entry(row.pid).or_default() += 1;
    }
    let of_users = counts.values().map(|of_user| of_user.values().sum()).collect();
    let most_of_user = fair_level(of_users, MOST_ROWS);
    // What is left of each process's share.
    let mut shares = FxHashMap::<[u32; 2], usize>::default();
    for (user, of_user) in counts {
        let most = fair_level(of_user.values().copied().collect(), most_of_user);
        shares.extend(of_user.into_keys().map(|pid| ([user, pid], most)));
    }
    let mut is_kept: Vec<bool> = Vec::with_capacity(rows.len());
    is_kept.extend(rows.iter().map(|OwnedRow { user, row }| {
        let share = shares.get_mut(&[*user, row.pid]).filter(|share| **share > 0);
        share.map(|share| *share -= 1).is_some()
    }));
    let mut free = MOST_ROWS - is_kept.iter().filter(|kept| **kept).count();
    for kept in is_kept.iter_mut().filter(|kept| !**kept) {
        *kept = free > 0;
        free = free.saturating_sub(1);
    }
    let (mut kept, mut others) = (Vec::with_capacity(MOST_ROWS), 0);
    for (OwnedRow { row, .. }, is_kept) in rows.into_iter().zip(is_kept) {
        match is_kept {
            true => kept.push(row),
            false => others += row.count + row.open,
        }
    }
    (kept, others)
}
