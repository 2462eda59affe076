//! Instrumented programs as a source: what the watcher has found is drained here, on
//! the collector thread.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};

use rustc_hash::{FxHashMap, FxHashSet};
use syscollect_model::{ClockSource, LaneKind, LossCause, ProgramTicks, SessionInfo, Ticks};
use syscollect_records::RecordKind;
use syscollect_store::{Chunk, ClientDefinition, Definition, LaneLoss, LostRecord, Producer};

use super::ZoneNotice;
use super::client::{Client, Output, Start};
use super::definitions::DefinitionShares;
use super::lanes::{Lanes, LogLane};
use super::losses::{Losses, LossesOfUsers};
use super::refusals::{Refusals, UserNote};
use super::turn::{TurnBudget, VisitOrder, VisitOutcome};
use super::watch::{Handle, WatchEvent};
use crate::clock::ticks_now;
use crate::error::CaptureError;
use crate::options::RecordOptions;
use crate::shares::UserRateLimits;
use crate::source::{Drained, ProgramChunks, Source};
use crate::stage::{CHUNK_BYTES, Flush};

/// A thread can write 100 MB a second, and its ring has 1 MiB: rings are
/// emptied when they are less full than lanes.
const HASTE: f64 = 4.0;
/// Of the trace buffer's bytes lanes together may hold back one part in so many, and each as little
/// as this.
const STAGED_PART: usize = 8;
const SMALLEST_CHUNK: usize = 1 << 10;
/// Bytes of items that are taken from a user's programs in a second, in the long run: two to four
/// million zones. They cost time of two threads, and the disk. Root has no such bound, nor has who
/// asked for the recording.
const USER_BYTES_PER_SECOND: u64 = 64 << 20;

/// The zones of instrumented programs.
pub(crate) struct ZoneSource {
    found: Receiver<WatchEvent>,
    watcher: Option<Handle>,
    follower: Follower,
}

/// What is drained.
pub(super) struct Follower {
    clients: FxHashMap<u32, Client>,
    order: VisitOrder,
    lanes: Lanes,
    log: LogLane,
    shares: DefinitionShares,
    scratch: Vec<u64>,
    /// Bytes that all lanes together may hold back.
    staging: usize,
    pace: UserRateLimits,
    /// Users whose programs may write as much as there is room for.
    unpaced: [u32; 2],
    /// Users whose programs had to wait because they write too much.
    held_back: FxHashSet<u32>,
    /// Those of them of whom that is told, because their rings were full then.
    blamed: FxHashSet<u32>,
    start: Start,
    /// Losses of programs that are gone.
    before: LossesOfUsers,
    counts: Counts,
    refusals: Refusals,
    new_notes: Vec<UserNote>,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    programs: u64,
    threads: u64,
    items: u64,
    held: u64,
}

impl ZoneSource {
    /// Begins to watch for instrumented programs. Comes before the probes are
    /// attached: what is older than this call is left out. Where notices go,
    /// with their times by `clock`, comes with it. What waits here, and what
    /// programs define, is bounded by the bytes of the trace buffer.
    pub(crate) fn start(
        clock: ClockSource,
        options: &RecordOptions,
    ) -> io::Result<(Self, Sender<ZoneNotice>)> {
        let (send, found) = channel();
        let watcher = Handle::start(Path::new("/"), clock, send)?;
        let notices = watcher.notices();
        let follower = Follower {
            unpaced: [0, options.asked_by.unwrap_or(0)],
            ..Follower::new(options.buffer_bytes)
        };
        Ok((Self { found, watcher: Some(watcher), follower }, notices))
    }
}

impl Source for ZoneSource {
    fn attach(&mut self, _cpus: &[u32]) -> Result<(), CaptureError> {
        Ok(())
    }

    fn add_cpu(&mut self, _cpu: u32) -> Result<(), CaptureError> {
        Ok(())
    }

    fn drain(&mut self, now: Ticks, flush: Flush, out: &mut Drained<'_>) -> f64 {
        for found in self.found.try_iter() {
            self.follower.found(found, now, out.chunk);
        }
        self.follower.drain(flush, out.of_programs)
    }

    fn file_began(&mut self) {
        self.follower.file_began();
    }

    /// What was announced until now is still taken over.
    fn detach(&mut self, _cpus: &[u32]) {
        if let Some(watcher) = self.watcher.take() {
            watcher.stop();
        }
    }

    fn losses(&self) -> Vec<LaneLoss> {
        self.follower.losses()
    }

    fn statistics(&self) -> BTreeMap<String, u64> {
        self.follower.statistics()
    }

    fn describe(&self, _session: &mut SessionInfo) {}

    fn missing(&self) -> &[String] {
        self.follower.refusals.notes()
    }
}

impl Follower {
    /// Nobody is followed yet; the recording begins now, through a trace buffer of so many bytes.
    pub(super) fn new(buffer_bytes: usize) -> Self {
        Self {
            clients: FxHashMap::default(),
            order: VisitOrder::default(),
            lanes: Lanes::default(),
            log: LogLane::default(),
            shares: DefinitionShares::new(buffer_bytes),
            scratch: Vec::new(),
            pace: UserRateLimits::new(USER_BYTES_PER_SECOND),
            unpaced: [0; 2],
            held_back: FxHashSet::default(),
            blamed: FxHashSet::default(),
            staging: (buffer_bytes / STAGED_PART).max(CHUNK_BYTES),
            start: Start {
                tsc: ticks_now(ClockSource::Tsc).0,
                monotonic: ticks_now(ClockSource::Monotonic).0,
            },
            before: LossesOfUsers::default(),
            counts: Counts::default(),
            refusals: Refusals::default(),
            new_notes: Vec::new(),
        }
    }

    /// What programs have open is to be stated: its beginnings are in the file before.
    pub(super) fn file_began(&mut self) {
        self.clients.values_mut().for_each(Client::request_restatement);
    }

    /// Takes in what the watcher found.
    pub(super) fn found(&mut self, found: WatchEvent, now: Ticks, sink: &mut dyn FnMut(Chunk)) {
        match found {
            WatchEvent::Client { number, arena, subject } => {
                let client = Client::new(number, &arena, *subject, self.start);
                self.counts.programs += 1;
                self.counts.held += u64::from(arena.was_held);
                Definition::Clients(vec![define(&client, now)])
                    .chunks()
                    .into_iter()
                    .for_each(&mut *sink);
                self.order.add(client.user(), number);
                self.clients.insert(number, client);
            }
            WatchEvent::Ring { client, ring } => {
                self.of(client, |client| client.add_ring(ring));
                self.order.wake(client);
            }
            WatchEvent::Thread { client, ring, owner, tid } => {
                let mut new = false;
                self.of(client, |client| new = client.set_ring_owner(ring, owner, tid));
                self.counts.threads += u64::from(new);
            }
            WatchEvent::Gone { client } => {
                self.of(client, Client::end);
                self.order.wake(client);
            }
            WatchEvent::NotTaken { user, why } => {
                self.refusals.count(user);
                self.refusals.note(user, &why);
            }
        }
    }

    fn of(&mut self, number: u32, act: impl FnOnce(&mut Client)) {
        if let Some(client) = self.clients.get_mut(&number) {
            act(client);
        }
    }

    /// Drains the clients, as much as a turn may cost; returns how full the fullest ring was, for
    /// the pace.
    pub(super) fn drain(&mut self, flush: Flush, sink: &mut dyn ProgramChunks) -> f64 {
        let (mut fullest, mut done) = (0.0, Vec::new());
        self.shares.refill();
        if flush.is_all() {
            self.clients.values_mut().for_each(Client::begin_again);
        }
        let mut turn = TurnBudget::new(flush);
        turn.room = (self.staging / self.lanes.used().max(1)).clamp(SMALLEST_CHUNK, CHUNK_BYTES);
        self.pace.refill(turn.now);
        let Self {
            clients,
            order,
            lanes,
            log,
            shares,
            scratch,
            new_notes,
            pace,
            unpaced,
            held_back,
            blamed,
            ..
        } = self;
        order.run(&mut turn, |number, turn| {
            let client = clients.get_mut(&number)?;
            let producer = Producer { user: client.user(), program: number };
            let is_paced = !unpaced.contains(&producer.user);
            let may_go_on =
                sink.has_room_for(producer) && (!is_paced || pace.allows(producer.user));
            turn.is_held_back = !flush.is_all() && !may_go_on;
            if turn.is_held_back {
                held_back.insert(producer.user);
            }
            let copied = turn.copied();
            let mut notes = Vec::new();
            let mut out = Output {
                lanes,
                log,
                shares,
                scratch,
                chunk: &mut |chunk| sink.push(producer, chunk),
                notes: &mut notes,
            };
            let visit = client.visit(turn, &mut fullest, &mut out);
            let user = producer.user;
            new_notes.extend(notes.into_iter().map(|note| UserNote { user, note }));
            // One that only had to wait has lost nothing.
            if held_back.contains(&user) && client.has_lost_items() && blamed.insert(user) {
                new_notes.push(UserNote { user, note: held_back_note() });
            }
            pace.took(producer.user, (turn.copied() - copied) as u64);
            if client.is_gone() && matches!(visit, VisitOutcome::Finished | VisitOutcome::Idle) {
                done.push(number);
                return None;
            }
            Some(visit)
        });
        if flush.is_all() {
            clients.values_mut().for_each(Client::give_up_unfinished);
        }
        for client in done.iter().filter_map(|number| self.clients.remove(number)) {
            sink.ended(client.number());
            self.counts.items += client.items();
            let user = client.user();
            self.before.add(user, &client.close(&mut self.lanes));
        }
        for UserNote { user, note } in std::mem::take(&mut self.new_notes) {
            self.refusals.note(user, &note);
        }
        (fullest * HASTE).min(1.0)
    }

    /// What was lost so far.
    pub(super) fn losses(&self) -> Vec<LaneLoss> {
        let mut of_users = self.before.clone();
        self.clients.values().for_each(|client| of_users.add(client.user(), &client.losses()));
        let all = of_users.iter().flat_map(|(user, losses)| {
            losses_of(losses).map(move |loss| LaneLoss { user, ..loss })
        });
        let not_taken = self.refusals.not_taken().map(|(user, count)| LaneLoss {
            user,
            ..loss(LaneKind::Zone, LostRecord::Kind(RecordKind::Ring), LossCause::NotTaken, count)
        });
        all.chain(not_taken).filter(|loss| loss.count > 0).collect()
    }

    /// Counts of what was done; none where no program was instrumented.
    pub(super) fn statistics(&self) -> BTreeMap<String, u64> {
        let items = self.counts.items + self.clients.values().map(Client::items).sum::<u64>();
        let counts = [
            ("instrumented_programs", self.counts.programs),
            ("instrumented_programs_of_other_recorders", self.counts.held),
            ("instrumented_threads", self.counts.threads),
            ("zone_items", items),
        ];
        counts
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .map(|(name, count)| (name.to_owned(), count))
            .collect()
    }
}

#[cfg(test)]
impl Follower {
    /// What was said.
    pub(super) fn notes_for_tests(&self) -> &[String] {
        self.refusals.notes()
    }

    /// Lanes that threads have.
    pub(super) fn lanes_in_use(&self) -> usize {
        self.lanes.used()
    }
}

/// What was lost, each by its kind and cause.
fn losses_of(of: &Losses) -> impl Iterator<Item = LaneLoss> + use<> {
    let (zones, log) = (LaneKind::Zone, LaneKind::ZoneLog);
    let ring = LostRecord::Kind(RecordKind::Ring);
    let all = [
        loss(zones, LostRecord::ZoneItem, LossCause::LaneFull, of.ring_full),
        loss(zones, LostRecord::ItemWithoutRing, LossCause::LaneFull, of.without_ring),
        loss(zones, LostRecord::ItemUnread, LossCause::NotTaken, of.unread),
        loss(log, LostRecord::ZoneDefinition, LossCause::LaneFull, of.definitions),
        loss(
            log,
            LostRecord::ZoneDefinitionBeyondShare,
            LossCause::NotTaken,
            of.excess_definitions,
        ),
        loss(zones, LostRecord::ZoneLaneAtEnd, LossCause::NotTaken, of.unfinished),
        loss(zones, ring.clone(), LossCause::Undecodable, of.broken),
        loss(zones, LostRecord::ItemOfUnknownThread, LossCause::NotTaken, of.nobodys),
        loss(zones, ring, LossCause::NotTaken, of.gaps),
        loss(zones, LostRecord::UnbelievableClaim, LossCause::Undecodable, of.unbelievable),
    ];
    all.into_iter()
}

fn loss(lane: LaneKind, record: LostRecord, cause: LossCause, count: u64) -> LaneLoss {
    LaneLoss { origin: lane.into(), cpu: None, record, cause, user: None, count }
}

fn held_back_note() -> String {
    format!(
        "its programs write more zones than their share of --buffer, or of the recorder's time ({} \
         MB a second); what found no room is counted",
        USER_BYTES_PER_SECOND / 1_000_000
    )
}

fn define(client: &Client, since: Ticks) -> ClientDefinition {
    let clock = match client.clock() {
        ClockSource::Tsc => ProgramTicks::Tsc,
        _ => ProgramTicks::Monotonic,
    };
    let user = Some(client.user());
    ClientDefinition { client: client.number(), pid: client.pid(), clock, since, user }
}
