//! One marked program: its rings, its log, its counters.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use syscollect_model::{ClockSource, Ticks};
use syscollect_store::Chunk;

use super::arena::Arena;
use super::counters::{ApplicationCounters, Subject};
use super::items::pieces;
use super::lanes::{Lanes, LogLane, ThreadLane};
use super::log::{CounterEntry, LogReader};
use super::memory::SharedMemory;
use super::ring::{Broken, RingReader, Waiting};
use crate::clock::ticks_now;
use crate::stage::CHUNK_BYTES;

/// What drains of all clients share.
pub(super) struct Output<'a> {
    pub(super) lanes: &'a mut Lanes,
    pub(super) log: &'a mut LogLane,
    pub(super) scratch: &'a mut Vec<u64>,
    pub(super) chunk: &'a mut dyn FnMut(Chunk),
    /// What should be said, in words.
    pub(super) notes: &'a mut Vec<String>,
}

/// What a program lost, and what was given up of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Losses {
    /// Items that found their ring full.
    pub(super) ring_full: u64,
    /// Events of threads that had no ring.
    pub(super) without_ring: u64,
    /// Events of threads whose rings others took before anybody came to read them.
    pub(super) unread: u64,
    /// Definitions that found the log full.
    pub(super) definitions: u64,
    /// Rings and logs that made no sense.
    pub(super) broken: u64,
    /// Items of threads that nobody knows any more.
    pub(super) nobodys: u64,
}

impl Losses {
    /// Adds up; numbers of programs may be anything.
    pub(super) fn add(&mut self, other: &Self) {
        const MOST: u64 = 1 << 48;
        let sum = |a: u64, b: u64| a.saturating_add(b).min(MOST);
        self.ring_full = sum(self.ring_full, other.ring_full);
        self.without_ring = sum(self.without_ring, other.without_ring);
        self.unread = sum(self.unread, other.unread);
        self.definitions = sum(self.definitions, other.definitions);
        self.broken = sum(self.broken, other.broken);
        self.nobodys = sum(self.nobodys, other.nobodys);
    }
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

/// A marked program that is read.
pub(super) struct Client {
    number: u32,
    subject: Subject,
    header: Arc<SharedMemory>,
    start: Start,
    rings: BTreeMap<u32, Ring>,
    log: LogReader,
    log_staged: LogStaged,
    log_broken: bool,
    counters: Option<ApplicationCounters>,
    values: Option<ThreadLane>,
    /// Whether another recorder has read the arena before.
    had_reader: bool,
    /// What an earlier recorder has counted.
    before: Losses,
    losses: Losses,
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

/// A ring and the thread whose items come out of it.
struct Ring {
    reader: RingReader,
    /// Who the watcher says has it: the owner's count and its thread, if it is known.
    told: Option<(u32, Option<u32>)>,
    /// Whose items were taken last, and where they go; no lane where nobody knows the thread.
    writer: Option<(u32, Option<ThreadLane>)>,
    broken: bool,
}

impl Client {
    /// Begins to read an arena that was taken. `start` is when the recording began.
    pub(super) fn new(number: u32, arena: &Arena, subject: Subject, start: Start) -> Self {
        Self {
            number,
            subject,
            header: arena.header.clone(),
            start,
            rings: BTreeMap::new(),
            log: LogReader::new(arena.header.clone(), arena.log.clone()),
            log_staged: LogStaged::default(),
            log_broken: false,
            counters: None,
            values: None,
            had_reader: arena.had_reader,
            before: if arena.had_reader { counted(&arena.header) } else { Losses::default() },
            losses: Losses::default(),
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
        self.subject.pid
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
    pub(super) fn add_ring(&mut self, number: u32, memory: Arc<SharedMemory>) {
        let reader = RingReader::new(memory, self.start.ticks(self.subject.clock), self.had_reader);
        self.rings.entry(number).or_insert(Ring { reader, told: None, writer: None, broken: false });
    }

    /// The thread that has this ring; `None` when nobody knows it any more.
    /// Returns whether that is news.
    pub(super) fn tell(&mut self, ring: u32, owner: u32, tid: Option<u32>) -> bool {
        let Some(ring) = self.rings.get_mut(&ring) else { return false };
        let before = ring.told.filter(|(told, _)| *told == owner);
        if before.is_none_or(|(_, known)| known.is_none()) {
            ring.told = Some((owner, tid));
        }
        before.is_none()
    }

    /// Asks its threads to state what they have open, as for a recorder that comes now.
    pub(super) fn ask_anew(&self) {
        let attached = &self.header.arena().attached;
        let last = attached.load(Ordering::Acquire);
        attached.store(last.wrapping_add(1).max(1), Ordering::Release);
    }

    /// The program has ended or runs another one: nothing more will be written.
    pub(super) fn end(&mut self) {
        self.gone = true;
    }

    /// Whether the program is gone and everything that it wrote was taken.
    pub(super) fn is_done(&self) -> bool {
        self.gone
    }

    /// What it lost so far.
    pub(super) fn losses(&self) -> Losses {
        let counted = counted(&self.header);
        // What was given up before the recording began is not missing in it.
        let is_missed = self.header.arena().unread_until.load(Ordering::Relaxed) >= self.start.monotonic;
        Losses {
            without_ring: counted.without_ring.saturating_sub(self.before.without_ring),
            unread: if is_missed { counted.unread.saturating_sub(self.before.unread) } else { 0 },
            // Those of earlier recordings are missing in this one, too.
            definitions: counted.definitions,
            ..self.losses
        }
    }

    /// Takes what is there; with `all` (or when the program is gone) nothing
    /// stays waiting for company. Returns how full the fullest ring was.
    pub(super) fn drain(&mut self, all: bool, out: &mut Output<'_>) -> f64 {
        let all = all || self.gone;
        let now = ticks_now(self.subject.clock);
        let (mut fullest, mut due) = (0.0, all);
        for (number, ring) in &mut self.rings {
            let mut account = Account { losses: &mut self.losses, items: &mut self.items };
            match ring.drain(self.number, all, now, &mut account, out) {
                Ok(fill) => fullest = f64::max(fullest, fill),
                Err(why) => {
                    ring.broken = true;
                    self.losses.broken += 1;
                    let pid = self.subject.pid;
                    out.notes.push(format!("process {pid}: its ring {number} of zones is given up: {why}"));
                }
            }
            due |= ring.lane().is_some_and(|lane| lane.is_due());
        }
        // After the rings: what their items name is in the log by now.
        self.drain_log(now, due, out);
        self.drain_counters(now, all, out);
        for lane in self.rings.values_mut().filter_map(Ring::lane) {
            if all || lane.is_due() {
                lane.flush(now, out.chunk);
            }
        }
        fullest
    }

    fn drain_log(&mut self, now: Ticks, due: bool, out: &mut Output<'_>) {
        let mut more = !self.log_broken;
        while more {
            let before = self.log.position();
            let mut counters = Vec::new();
            let staged = &mut self.log_staged;
            let taken = self.log.take(&mut staged.data, &mut staged.entries, &mut |counter| counters.push(counter));
            if let Err(why) = taken {
                self.log_broken = true;
                self.losses.broken += 1;
                out.notes.push(format!("process {}: {why}", self.subject.pid));
            }
            counters.into_iter().for_each(|counter| self.add_counter(counter, out.notes));
            more = self.log.position() > before && !self.log_broken;
            if self.log_staged.data.len() >= CHUNK_BYTES {
                self.flush_log(now, out);
            }
        }
        if due {
            self.flush_log(now, out);
        }
    }

    fn flush_log(&mut self, now: Ticks, out: &mut Output<'_>) {
        let staged = std::mem::take(&mut self.log_staged);
        if staged.entries > 0 {
            out.log.send(self.number, staged.position as u32, &staged.data, staged.entries, now, out.chunk);
        }
        self.log_staged.position = staged.position + staged.data.len();
    }

    fn add_counter(&mut self, counter: CounterEntry, notes: &mut Vec<String>) {
        if !counter.is_number() {
            return;
        }
        let pid = self.subject.pid;
        if self.counters.is_none() {
            match ApplicationCounters::start(self.subject.clone()) {
                Ok(counters) => self.counters = Some(counters),
                Err(why) => return notes.push(format!("process {pid}: its counters are not read: {why}")),
            }
        }
        if self.counters.as_ref().is_some_and(|counters| !counters.add(counter)) {
            notes.push(format!("process {pid}: it has more counters than are read"));
        }
    }

    fn drain_counters(&mut self, now: Ticks, all: bool, out: &mut Output<'_>) {
        let Some(counters) = &self.counters else { return };
        out.scratch.clear();
        counters.take(out.scratch);
        if self.values.is_none() {
            self.values = out.lanes.open(self.number, self.subject.pid);
        }
        let Some(lane) = &mut self.values else { return };
        // Our own items: they parse.
        let _ = pieces(out.scratch, usize::MAX, |piece| lane.append(piece, now, out.chunk));
        if all || lane.is_due() {
            lane.flush(now, out.chunk);
        }
    }

    /// Gives its lanes back, when all was taken; what it lost in all.
    pub(super) fn close(mut self, lanes: &mut Lanes) -> Losses {
        if self.log.is_incomplete() && !self.log_broken {
            // Its thread ended in the middle of an entry.
            self.losses.broken += 1;
        }
        let losses = self.losses();
        let writers = self.rings.into_values().filter_map(|ring| ring.writer.and_then(|(_, lane)| lane));
        writers.chain(self.values).for_each(|lane| lanes.close(lane));
        losses
    }
}

/// What the program has counted itself.
fn counted(header: &SharedMemory) -> Losses {
    let header = header.arena();
    Losses {
        without_ring: header.events_without_ring.load(Ordering::Relaxed),
        unread: header.events_unread.load(Ordering::Relaxed),
        definitions: header.definitions_lost.load(Ordering::Relaxed),
        ..Losses::default()
    }
}

/// What a drain counts.
struct Account<'a> {
    losses: &'a mut Losses,
    items: &'a mut u64,
}

impl Ring {
    fn lane(&mut self) -> Option<&mut ThreadLane> {
        self.writer.as_mut().and_then(|(_, lane)| lane.as_mut())
    }

    /// Moves what is there to the lane of its thread; returns how full the ring was.
    fn drain(
        &mut self,
        client: u32,
        all: bool,
        now: Ticks,
        account: &mut Account<'_>,
        out: &mut Output<'_>,
    ) -> Result<f64, Broken> {
        if self.broken {
            return Ok(0.0);
        }
        let waiting = self.reader.waiting()?;
        if waiting.bytes > 0 {
            if !self.follow_owner(client, &waiting, all, now, out) {
                // The watcher will tell soon whose they are.
                return Ok(waiting.fill());
            }
            let lane = self.writer.as_mut().and_then(|(_, lane)| lane.as_mut());
            Self::take(&mut self.reader, lane, waiting, now, account, out)?;
        }
        account.losses.ring_full = account.losses.ring_full.saturating_add(self.reader.newly_lost());
        if waiting.ended {
            self.let_go(now, out);
            self.reader.free();
        }
        Ok(waiting.fill())
    }

    fn take(
        reader: &mut RingReader,
        mut lane: Option<&mut ThreadLane>,
        waiting: Waiting,
        now: Ticks,
        account: &mut Account<'_>,
        out: &mut Output<'_>,
    ) -> Result<(), Broken> {
        let Output { scratch, chunk, .. } = out;
        reader.take(waiting, scratch, &mut |piece| {
            let items = u64::from(piece.items);
            match &mut lane {
                Some(lane) => {
                    *account.items += items;
                    lane.append(piece, now, *chunk);
                }
                None => account.losses.nobodys += items,
            }
        })
    }

    /// Has the lane of the thread that wrote what is waiting. `false` while
    /// it is not known; at the end (`last`) it is nobody's then.
    fn follow_owner(&mut self, client: u32, waiting: &Waiting, last: bool, now: Ticks, out: &mut Output<'_>) -> bool {
        if self.writer.as_ref().is_some_and(|(owner, _)| *owner == waiting.owner) {
            return true;
        }
        let told = self.told.filter(|(owner, _)| *owner == waiting.owner);
        let tid = match told {
            Some((_, tid)) => tid,
            None if last => None,
            None => return false,
        };
        self.let_go(now, out);
        let lane = tid.and_then(|tid| out.lanes.open(client, tid));
        self.writer = Some((waiting.owner, lane));
        true
    }

    /// The thread has ended: its lane may be another's.
    fn let_go(&mut self, now: Ticks, out: &mut Output<'_>) {
        if let Some((_, Some(mut lane))) = self.writer.take() {
            lane.flush(now, out.chunk);
            out.lanes.close(lane);
        }
    }
}
