//! One instrumented program: its rings, its log, its counters.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use rustc_hash::FxHashMap;
use syscollect_model::{ClockSource, Ticks};
use syscollect_store::Chunk;
use syscollect_untrusted_files::payer;
use syscollect_zone_protocol::arena::RING_BYTES;

use super::arena::Arena;
use super::counters::{ApplicationCounters, PolledProgram};
use super::definitions::DefinitionShares;
use super::items::pieces;
use super::lanes::{Lanes, LogLane, ThreadLane};
use super::log::{CounterEntry, LogPart, LogReader};
use super::losses::Losses;
use super::memory::ArenaMemory;
use super::ring::{READ_BYTES, RingReader};
use super::thread_ring::{DrainCounts, Draining, RingOutput, ThreadRing, unbelievable_note};
use super::turn::{TurnBudget, VisitOutcome};
use crate::clock::ticks_now;
use crate::stage::CHUNK_BYTES;

/// Owners of a ring that an observer remembers: threads that have ended may have written what it
/// has not read.
const MOST_OWNERS: usize = 64;

/// What drains of all clients share.
pub(super) struct Output<'a> {
    pub(super) lanes: &'a mut Lanes,
    pub(super) log: &'a mut LogLane,
    pub(super) shares: &'a mut DefinitionShares,
    pub(super) scratch: &'a mut Vec<u64>,
    pub(super) chunk: &'a mut dyn FnMut(Chunk),
    /// What should be said, in words.
    pub(super) notes: &'a mut Vec<String>,
}

/// When the recording began, in either clock.
#[derive(Clone, Copy)]
pub(super) struct Start {
    pub(super) tsc: u64,
    /// In nanoseconds.
    pub(super) monotonic: u64,
}

impl Start {
    fn ticks(self, clock: ClockSource) -> u64 {
        if clock == ClockSource::Tsc { self.tsc } else { self.monotonic }
    }
}

/// An instrumented program that is read.
pub(super) struct Client {
    number: u32,
    user: u32,
    subject: PolledProgram,
    memory: Arc<ArenaMemory>,
    start: Start,
    rings: Vec<ThreadRing>,
    /// Where a ring lies among them, by its number.
    indices: FxHashMap<u32, usize>,
    /// The ring that is looked at next, and how many are still to be looked at in this round.
    next: usize,
    left: usize,
    /// Whether what lanes hold back is to go on when the round is over.
    due: bool,
    /// Chunks of its threads that go on when what they name has: whoever follows the recording
    /// decides on zones at once, by their names. What was read from the rings in one visit.
    outgoing: Vec<Chunk>,
    log: LogReader,
    log_staged: LogStaged,
    log_broken: bool,
    /// When there was nothing new in the log.
    log_empty_at: Option<Instant>,
    counters: Option<ApplicationCounters>,
    values: Option<ThreadLane>,
    /// Whether another recorder has read the arena before, and whether one held it when this one
    /// came.
    had_reader: bool,
    was_held: bool,
    /// How many rings had been used then.
    rings_before: u32,
    /// What an earlier recorder has counted.
    before: Losses,
    losses: Losses,
    /// It was said that it claims to have lost what cannot be.
    claims_are_told: bool,
    gone: bool,
    /// Items that were taken.
    items: u64,
}

#[derive(Default)]
struct LogStaged {
    position: usize,
    entries: u32,
    data: Vec<u8>,
}

impl Client {
    /// Begins to read an arena that was taken. `start` is when the recording began.
    pub(super) fn new(number: u32, arena: &Arena, subject: PolledProgram, start: Start) -> Self {
        Self {
            number,
            user: payer(arena.user),
            subject,
            memory: arena.memory.clone(),
            start,
            rings: Vec::new(),
            indices: FxHashMap::default(),
            next: 0,
            left: 0,
            due: false,
            outgoing: Vec::new(),
            log: LogReader::new(arena.memory.clone()),
            log_staged: LogStaged::default(),
            log_broken: false,
            log_empty_at: None,
            counters: None,
            values: None,
            had_reader: arena.had_reader,
            was_held: arena.was_held,
            rings_before: arena.rings_before,
            before: if arena.had_reader { counted(&arena.memory) } else { Losses::default() },
            losses: Losses::default(),
            claims_are_told: false,
            gone: false,
            items: 0,
        }
    }

    /// Its number.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Its process.
    pub(super) fn pid(&self) -> u32 {
        self.subject.place.pid
    }

    /// Whose shares it has a part of: who made its arena, or who may have ids in that user's place.
    pub(super) fn user(&self) -> u32 {
        self.user
    }

    /// Whether one of its rings was full, so that items are lost.
    pub(super) fn has_lost_items(&self) -> bool {
        self.losses.ring_full > 0
    }

    /// The clock of its ticks.
    pub(super) fn clock(&self) -> ClockSource {
        self.subject.clock
    }

    /// Items that were taken.
    pub(super) fn items(&self) -> u64 {
        self.items
    }

    /// Reads this ring, too.
    pub(super) fn add_ring(&mut self, number: u32) {
        if self.indices.contains_key(&number) {
            return;
        }
        let (memory, start) = (self.memory.clone(), self.start.ticks(self.subject.clock));
        let reader = if self.was_held {
            let from_start = !self.had_reader || number >= self.rings_before;
            RingReader::observe(memory, number, start, from_start)
        } else {
            RingReader::new(memory, number, start, self.had_reader)
        };
        self.indices.insert(number, self.rings.len());
        let mut ring = ThreadRing::new(number, reader, self.start.monotonic);
        if self.was_held || self.had_reader {
            ring.request_restatement();
        }
        self.rings.push(ring);
    }

    /// The thread that has this ring; `None` when nobody knows it any more.
    /// Returns whether that is news.
    pub(super) fn set_ring_owner(&mut self, ring: u32, owner: u32, tid: Option<u32>) -> bool {
        let Some(ring) = self.indices.get(&ring).and_then(|place| self.rings.get_mut(*place))
        else {
            return false;
        };
        ring.set_owner(owner, tid, if self.was_held { MOST_OWNERS } else { 1 })
    }

    /// Asks its threads to state what they have open, as for a recorder that comes now.
    pub(super) fn request_restatement(&mut self) {
        self.memory.request_restatement();
        self.rings.iter_mut().for_each(ThreadRing::request_restatement);
    }

    /// The program has ended or runs another one: nothing more will be written.
    pub(super) fn end(&mut self) {
        self.gone = true;
        self.begin_again();
    }

    /// Has all that there is looked at, also what was empty a moment ago.
    pub(super) fn begin_again(&mut self) {
        self.left = 0;
        self.log_empty_at = None;
        self.rings.iter_mut().for_each(|ring| ring.empty_at = None);
    }

    /// Whether the program is gone.
    pub(super) fn is_gone(&self) -> bool {
        self.gone
    }

    /// What it lost so far.
    pub(super) fn losses(&self) -> Losses {
        self.believable_losses().0
    }

    /// The same, and the largest of what it claims to have lost that cannot be.
    fn believable_losses(&self) -> (Losses, Option<u64>) {
        let counted = counted(&self.memory);
        // What was given up before the recording began is not missing in it.
        let is_missed =
            self.memory.header().unread_until.load(Ordering::Relaxed) >= self.start.monotonic;
        let losses = Losses {
            without_ring: counted.without_ring.saturating_sub(self.before.without_ring),
            unread: if is_missed { counted.unread.saturating_sub(self.before.unread) } else { 0 },
            // Those of earlier recordings are missing in this one, too.
            definitions: counted.definitions,
            ..self.losses
        };
        if losses.without_ring == 0 && losses.unread == 0 && losses.definitions == 0 {
            return (losses, None);
        }
        let now = ticks_now(ClockSource::Monotonic).0;
        losses.believable(now.saturating_sub(self.start.monotonic))
    }

    /// Says it once if the program claims to have lost what cannot be.
    fn note_claims(&mut self, notes: &mut Vec<String>) {
        if !self.claims_are_told
            && let (_, Some(claimed)) = self.believable_losses()
        {
            self.claims_are_told = true;
            notes.push(unbelievable_note(self.pid(), claimed));
        }
    }

    /// Looks at some rings and takes what is there, unless it is held back; in the last turn, or
    /// when the program is gone, nothing stays waiting for company. `fullest` becomes how full the
    /// fullest ring was, if that was fuller.
    pub(super) fn visit(
        &mut self,
        turn: &mut TurnBudget,
        fullest: &mut f64,
        out: &mut Output<'_>,
    ) -> VisitOutcome {
        if self.left == 0 {
            self.left = self.rings.len();
        }
        let now = ticks_now(self.subject.clock);
        if turn.is_held_back {
            // What is lost meanwhile finds its ring full, and is counted there.
            self.send_on(now, false, turn, out);
            return VisitOutcome::HeldBack;
        }
        if !self.send_on(now, false, turn, out) {
            return VisitOutcome::Unfinished;
        }
        while self.left > 0 && !turn.is_visit_over() {
            self.left -= 1;
            self.next = if self.next + 1 < self.rings.len() { self.next + 1 } else { 0 };
            let fill = self.visit_ring(self.next, now, turn, out);
            *fullest = f64::max(*fullest, fill);
        }
        let is_finished = self.left == 0;
        if is_finished {
            self.note_claims(out.notes);
        }
        let due = is_finished && self.flush_lanes(now, turn, out);
        // All that was read of the rings names what is in the log by now.
        if !self.send_on(now, due, turn, out) || !is_finished {
            VisitOutcome::Unfinished
        } else if self.rings.is_empty() && self.counters.is_none() {
            VisitOutcome::Idle
        } else {
            VisitOutcome::Finished
        }
    }

    /// Looks at one ring; returns how full it was.
    fn visit_ring(
        &mut self,
        place: usize,
        now: Ticks,
        turn: &mut TurnBudget,
        out: &mut Output<'_>,
    ) -> f64 {
        let Some(ring) = self.rings.get_mut(place).filter(|ring| !ring.broken) else { return 0.0 };
        if turn.is_time_for(ring.empty_at) {
            let all = turn.all || self.gone;
            let context = Draining { client: self.number, all, now, at: turn.now };
            let (pid, losses) = (self.subject.place.pid, &mut self.losses);
            let mut history = 0;
            let (items, history_read) = (&mut self.items, &mut history);
            let mut account = DrainCounts { pid, losses, items, history: history_read };
            let chunks = &mut self.outgoing;
            let Output { lanes, scratch, notes, .. } = out;
            let out = &mut RingOutput { lanes, scratch, chunks, notes };
            match ring.drain(&context, &mut account, out) {
                Ok(bytes) => {
                    turn.count_ring(bytes as usize + history);
                    ring.empty_at = (bytes == 0).then_some(turn.now);
                    self.due |= ring.lane().is_some_and(|lane| lane.is_due(turn));
                    return bytes as f64 / RING_BYTES as f64;
                }
                Err(why) => {
                    turn.count_ring(READ_BYTES);
                    ring.broken = true;
                    ring.let_go(&context, out);
                    self.losses.broken += 1;
                    let (pid, number) = (self.subject.place.pid, ring.number);
                    out.notes.push(format!(
                        "process {pid}: its ring {number} of zones is given up: {why}"
                    ));
                }
            }
        } else {
            self.due |= ring.lane().is_some_and(|lane| lane.is_due(turn));
        }
        0.0
    }

    /// All rings were looked at: what waited long enough for company is to go on; whether it is time
    /// for anything.
    fn flush_lanes(&mut self, now: Ticks, turn: &TurnBudget, out: &mut Output<'_>) -> bool {
        let all = turn.all || self.gone;
        let due = all || std::mem::take(&mut self.due);
        self.drain_counters(now, all, turn, out);
        if due {
            let outgoing = &mut self.outgoing;
            for lane in self.rings.iter_mut().filter_map(ThreadRing::lane) {
                if all || lane.is_due(turn) {
                    lane.flush(now, outgoing);
                }
            }
        }
        due
    }

    /// Sends what its threads wrote behind the definitions that were complete by then; `false` where
    /// more of them are left than this visit has time for.
    fn send_on(
        &mut self,
        now: Ticks,
        due: bool,
        turn: &mut TurnBudget,
        out: &mut Output<'_>,
    ) -> bool {
        let is_complete = self.drain_log(now, due || !self.outgoing.is_empty(), turn, out);
        if is_complete {
            self.outgoing.drain(..).for_each(&mut *out.chunk);
        }
        is_complete
    }

    /// Takes definitions, which go on if they are due; whether there are none left of those that were
    /// there when this began.
    fn drain_log(
        &mut self,
        now: Ticks,
        due: bool,
        turn: &mut TurnBudget,
        out: &mut Output<'_>,
    ) -> bool {
        let mut more = !self.log_broken && (due || turn.is_time_for(self.log_empty_at));
        let (mut taken, mut left, there) = (0, false, self.log.end());
        while more {
            let part = self.log.take(out.scratch).unwrap_or_else(|why| {
                self.log_broken = true;
                self.losses.broken += 1;
                out.notes.push(format!("process {}: {why}", self.subject.place.pid));
                LogPart::default()
            });
            let bytes = part.bytes.len();
            turn.count_ring(bytes);
            taken += bytes;
            self.take_definitions(part, now, out);
            if self.log_staged.data.len() >= CHUNK_BYTES {
                self.flush_log(now, out);
            }
            left = bytes > 0 && self.log.position() < there;
            more = left && (turn.all || self.gone || !turn.is_visit_over());
        }
        self.log_empty_at = (taken == 0).then_some(turn.now);
        if due {
            self.flush_log(now, out);
        }
        !left
    }

    /// Keeps what the program and its user may have of definitions; counts the rest.
    fn take_definitions(&mut self, part: LogPart, now: Ticks, out: &mut Output<'_>) {
        let LogPart { bytes, entries, counters } = part;
        if bytes.is_empty() {
            return;
        }
        let end = self.log.position();
        if !out.shares.take(self.user, self.subject.place.pid, bytes.len() as u64) {
            if self.losses.excess_definitions == 0 {
                let pid = self.subject.place.pid;
                out.notes.push(format!(
                    "process {pid}: it, or its user, defines more names than its share of \
                     --buffer; what they name is shown without them"
                ));
            }
            self.losses.excess_definitions += u64::from(entries);
            // What is taken later does not follow what waits.
            return self.flush_log(now, out);
        }
        counters.into_iter().for_each(|counter| self.add_counter(counter, out.notes));
        let staged = &mut self.log_staged;
        if staged.entries == 0 {
            staged.position = end - bytes.len();
        }
        staged.data.extend(bytes);
        staged.entries += entries;
    }

    fn flush_log(&mut self, now: Ticks, out: &mut Output<'_>) {
        let staged = std::mem::take(&mut self.log_staged);
        if staged.entries > 0 {
            out.log.send(
                self.number,
                staged.position as u32,
                &staged.data,
                staged.entries,
                now,
                out.chunk,
            );
        }
    }

    fn add_counter(&mut self, counter: CounterEntry, notes: &mut Vec<String>) {
        if !counter.is_number() {
            return;
        }
        let pid = self.subject.place.pid;
        if self.counters.is_none() {
            match ApplicationCounters::start(self.subject.clone()) {
                Ok(counters) => self.counters = Some(counters),
                Err(why) => {
                    return notes.push(format!("process {pid}: its counters are not read: {why}"));
                }
            }
        }
        if self.counters.as_ref().is_some_and(|counters| !counters.add(counter)) {
            notes.push(format!("process {pid}: it has more counters than are read"));
        }
    }

    fn drain_counters(&mut self, now: Ticks, all: bool, turn: &TurnBudget, out: &mut Output<'_>) {
        let Some(counters) = &self.counters else { return };
        let mut items = Vec::new();
        counters.take(&mut items);
        if self.values.is_none() {
            self.values = out.lanes.open(self.number, self.subject.place.pid, turn.now);
        }
        let (Some(lane), outgoing) = (&mut self.values, &mut self.outgoing) else { return };
        // Our own items: they parse.
        let _ = pieces(&items, usize::MAX, |piece| lane.append(piece, now, outgoing));
        if all || lane.is_due(turn) {
            lane.flush(now, outgoing);
        }
    }

    /// The last turn was over before all was looked at: counts the rings, and the log, that hold
    /// something.
    pub(super) fn give_up_unfinished(&mut self) {
        let left = std::mem::take(&mut self.left);
        let count = self.rings.len();
        for ahead in 1..=left {
            let ring = &self.rings[(self.next + ahead) % count];
            let holds = ring.reader.has_more();
            self.losses.unfinished += u64::from(!ring.broken && holds);
        }
        self.losses.unfinished += u64::from(!self.log_broken && self.log.has_more());
        self.losses.unfinished += std::mem::take(&mut self.outgoing).len() as u64;
    }

    /// Gives its lanes back, when all was taken; what it lost in all.
    pub(super) fn close(mut self, lanes: &mut Lanes) -> Losses {
        if self.log.is_incomplete() && !self.log_broken {
            // Its thread ended in the middle of an entry.
            self.losses.broken += 1;
        }
        let losses = self.losses();
        let writers = self.rings.into_iter().filter_map(ThreadRing::into_lane);
        let now = Instant::now();
        writers.chain(self.values).for_each(|lane| lanes.close(lane, now));
        losses
    }
}

/// What the program has counted itself.
fn counted(memory: &ArenaMemory) -> Losses {
    let header = memory.header();
    Losses {
        without_ring: header.events_without_ring.load(Ordering::Relaxed),
        unread: header.events_unread.load(Ordering::Relaxed),
        definitions: header.definitions_lost.load(Ordering::Relaxed),
        ..Losses::default()
    }
}
