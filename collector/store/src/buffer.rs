//! Between the lanes and the disk: a bounded amount of chunks.

mod definitions;
mod event;
mod overwritten;
mod snapshot;
mod state;

pub use snapshot::{BufferSnapshot, SnapshotLosses};

use crate::codec::{Encoder, ReadBuffer};
use crate::shares::Producer;
use crate::{Chunk, ChunkHeader, EncodedChunk, LaneEnd};
use event::{EventContent, HeldEvent};
use state::{BufferState, Losses};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use syscollect_model::{Lane, LaneClock, LaneKind, LossCause, Retention, Ticks};

/// Bytes that definitions may take beyond the buffer's size, and beyond half of it, but never less
/// than the least. They are few, and events without them are worth nothing; yet memory has a bound.
const DEFINITION_ALLOWANCE: usize = 16 << 20;
const LEAST_ALLOWANCE: usize = 2 << 20;

/// Bytes that lifetimes of tasks and their mappings may take beyond the buffer's size, when
/// overwriting: a quarter of it, within these.
const LEAST_KEPT: usize = 2 << 20;
const MOST_KEPT: usize = 64 << 20;

/// Bytes that definitions may take which are kept for snapshots, beyond the buffer's size.
const LEAST_RETAINED: usize = 4 << 20;
const MOST_RETAINED: usize = 64 << 20;

/// The part of the room of lifetimes that what was folded may have: one byte in so many. The rest is
/// for what comes while that is folded.
const PART_OF_FOLDED: usize = 2;

/// Bytes that may be left of what overwritten events left open, and that such events may take until
/// they are folded, beyond the buffer's size: a 64th and an eighth of it, within these.
const LEAST_STATE: usize = 1 << 20;
const MOST_STATE: usize = 4 << 20;
const LEAST_UNFOLDED: usize = 4 << 20;
const MOST_UNFOLDED: usize = 64 << 20;

/// Bytes of these events that are unpacked at one time: equal ones pack to a hundredth.
const PART_UNPACKED: usize = 8 << 20;

/// They are folded when one byte in so many of what may wait is there.
const PART_OF_UNFOLDED: usize = 8;

/// What the buffer gave up may stay in memory for snapshots that are being written: one byte in so
/// many of its size, for all together.
const PART_OF_SNAPSHOTS: usize = 2;

/// The part of the buffer that stacks may have: one in so many bytes.
///
/// They are larger than the events that refer to them, and a program can make new ones without end:
/// beyond their part they are lost, and not the events of the whole machine.
const PART_OF_STACKS: usize = 2;

/// When overwriting, the programs are to forget what they sent when one byte in so many of the part
/// of stacks came since they last did: the oldest can go then before others have to.
const PART_OF_GENERATION: usize = 2;

/// The same where some gave way that events may need which are to come: what is sent again takes as
/// much as all that runs has, and so makes others give way.
const PART_OF_AMENDS: usize = 8;

/// What happens to events when a [`TraceBuffer`] is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferMode {
    /// New events are dropped; what is there goes to disk meanwhile.
    Discard,
    /// The oldest events are dropped; events stay here until the end.
    Overwrite,
}

/// Makes less of what a recording holds that overwrites: of what happened before the oldest event
/// only the state is needed that it left.
///
/// Runs on the writer's thread, while others push.
pub trait Fold: Send {
    /// Of `chunks`, in the order in which they came, what later events can need. They are all
    /// definitions, or all events that were overwritten and [leave a
    /// state](syscollect_model::LaneTraits::leaves_state). Chunks of a lane are numbered so that
    /// nothing is missing behind them that was not missing before.
    fn fold(&mut self, chunks: Vec<Chunk>, bounds: &FoldBounds) -> Vec<Chunk>;
}

/// What folding has to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoldBounds {
    /// Ticks before which no event is held.
    pub oldest: Ticks,
    /// Bytes that what is left may take, about.
    pub room: usize,
    /// Instrumented programs that ended before these ticks: nothing of them is open any more.
    pub ended: BTreeSet<u32>,
}

/// Who runs a process; `None` where it has ended, or nobody knows.
pub type UserOf = fn(u32) -> Option<u32>;

/// What [`TraceBuffer::pop`] gives.
#[derive(Debug)]
pub enum Popped {
    /// The next chunk for the disk.
    Chunk(Chunk),
    /// The same, which has the form of the file already.
    Encoded(Arc<EncodedChunk>),
    /// None came in time.
    Empty,
    /// None will come: the buffer is closed and empty.
    Closed,
}

/// Holds chunks in bounded memory until the writer takes them.
///
/// Shared by reference (or `Arc`): one thread pushes and never waits for the
/// disk, another pops. Definitions overtake events, since events refer to them.
/// Of these, stacks have at most half of the buffer, and are lost beyond it.
/// Memory: the given bytes, or, when definitions alone need more, half of them
/// on top (2 to 16 MiB); one lost beyond that is counted like any other record.
/// While it is not overwriting, the instrumented programs of a user have no more of it
/// than is free, and none of them more than its user may still have
/// ([`Self::push_of`]). When overwriting, they give way first where all together
/// have more than half: the oldest of the program that has most, of the user
/// who has most.
///
/// When overwriting, events may have to give way after a time, too
/// ([`Self::spanning`]); the lives of tasks and their mappings stay here, too, with
/// a room of their own of a quarter of the buffer (2 to 64 MiB): they are folded
/// ([`Fold`]) to half of it, and of what comes meanwhile the oldest give way where
/// that is not enough. Stacks stay here as well; those go that no event needs, for
/// which the programs are made to forget what they have sent
/// ([`Self::wants_stacks_anew`]), and where these are not enough those that were sent
/// least often, of the process that has most, of the user who has most.
///
/// Events of lanes that [leave a state](syscollect_model::LaneTraits::leaves_state) are folded
/// after they gave way, so that what began in them and goes on is still known. That has a
/// 64th of the buffer on top (1 to 4 MiB), and what waits for it an eighth (4 to 64 MiB).
pub struct TraceBuffer {
    limit: usize,
    mode: BufferMode,
    /// When overwriting: what came longer ago gives way, too.
    span: Option<Duration>,
    /// Whether definitions stay for snapshots.
    retains: bool,
    fold: Option<Mutex<Box<dyn Fold>>>,
    user_of: Option<UserOf>,
    state: Mutex<BufferState>,
    changed: Condvar,
}

impl TraceBuffer {
    /// A buffer that holds up to `bytes` of chunks.
    pub fn new(bytes: usize, mode: BufferMode) -> Self {
        Self {
            limit: bytes,
            mode,
            span: None,
            retains: false,
            fold: None,
            user_of: None,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// The same, of which events give way after this time when overwriting, whatever room there is.
    #[must_use]
    pub fn spanning(self, span: Option<Duration>) -> Self {
        Self { span, ..self }
    }

    /// The same, with what makes less of definitions when overwriting.
    #[must_use]
    pub fn folding(self, fold: Box<dyn Fold>) -> Self {
        self.lock().most_unfolded = Some(unfolded_bytes(self.limit));
        Self { fold: Some(Mutex::new(fold)), ..self }
    }

    /// The same, which can give [snapshots](Self::snapshot): it keeps definitions that went to the
    /// disk, too, in a quarter of its size more (4 to 64 MiB), beyond which the oldest of what
    /// programs define give way.
    #[must_use]
    pub fn retaining(self, retains: bool) -> Self {
        Self { retains, ..self }
    }

    /// The same, with whom to ask whose processes are, which is done on the writer's thread.
    #[must_use]
    pub fn asking(self, user_of: UserOf) -> Self {
        Self { user_of: Some(user_of), ..self }
    }

    /// Whether newer events take the place of older ones.
    pub fn is_overwriting(&self) -> bool {
        self.mode == BufferMode::Overwrite
    }

    /// Bytes of chunks that it may hold.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Bytes of memory that it may take, with all definitions and what snapshots need.
    pub fn most_memory(&self) -> usize {
        let bytes = self.limit;
        let kept = match self.mode {
            BufferMode::Discard => 0,
            // Those that wait, and as many that come while these are folded.
            BufferMode::Overwrite => {
                2 * (kept_bytes(bytes) + state_bytes(bytes)) + unfolded_bytes(bytes)
            }
        };
        let of_snapshots =
            if self.retains { retained_bytes(bytes) + bytes / PART_OF_SNAPSHOTS } else { 0 };
        bytes.saturating_add(allowance(bytes) + kept + of_snapshots)
    }

    /// Takes a chunk, or counts its records as lost. Never waits for the disk.
    pub fn push(&self, chunk: Chunk) {
        let keep = chunk.header.lane.kind.traits().retention == Retention::Folded;
        self.take_in(chunk, None, keep);
    }

    /// The same for what a program wrote, which is lost beyond its share. An
    /// eighth of the buffer is never theirs: the kernel's events and
    /// definitions find room there.
    pub fn push_of(&self, producer: Producer, chunk: Chunk) {
        self.take_in(chunk, Some(producer), false);
    }

    /// Whether the program's share still has room for an eighth of the buffer,
    /// which is what may be on its way here. While it has not, what the program
    /// writes is better left where it is: it can be taken later, or is lost
    /// where that costs nothing.
    pub fn has_room_for(&self, producer: Producer) -> bool {
        self.mode == BufferMode::Overwrite
            || self.lock().is_within_share(producer, self.limit / 8, self.limit)
    }

    /// Whether hits of probes have room: they have a quarter of the buffer, and nothing of the
    /// eighth that is the kernel's other events'. While they have not, hits are better left in the
    /// rings of their CPUs, in which each user has a share.
    pub fn has_room_for_hits(&self) -> bool {
        let state = self.lock();
        self.mode == BufferMode::Overwrite
            || (state.events.hit_bytes() <= self.limit / 4
                && state.taken() <= self.limit - self.limit / 8)
    }

    /// Takes a definition that tells of a task: when overwriting it stays here
    /// and is folded, as the lanes of tasks are.
    pub fn push_of_task(&self, chunk: Chunk) {
        self.take_in(chunk, None, true);
    }

    /// An instrumented program has ended, and all that it wrote was pushed.
    pub fn program_ended(&self, program: u32) {
        if self.mode == BufferMode::Overwrite {
            let mut state = self.lock();
            let at = state.newest;
            state.overwritten.program_ended(program, at);
        }
    }

    fn take_in(&self, chunk: Chunk, producer: Option<Producer>, keep: bool) {
        let mut state = self.lock();
        if chunk.header.lane.kind != LaneKind::Definition {
            let end = LaneEnd::after(&chunk.header);
            state
                .ends
                .entry(chunk.header.lane)
                .and_modify(|known| known.extend(&end))
                .or_insert(end);
        }
        match chunk.header.lane.kind.traits().clock {
            LaneClock::Recorder | LaneClock::Drained => {
                state.newest = state.newest.max(chunk.header.last);
            }
            LaneClock::Program | LaneClock::Unstamped => {}
        }
        if state.closed {
            state.lose(&chunk.header, LossCause::BufferFull);
        } else if keep && self.mode == BufferMode::Overwrite {
            state.keep(chunk, kept_bytes(self.limit));
            if self.is_fold_due(&state) {
                self.changed.notify_one();
            }
        } else if chunk.header.lane.kind.is_stack() && self.mode == BufferMode::Overwrite {
            state.keep_stacks(&chunk, self.limit);
        } else if chunk.header.lane.kind.is_definition() {
            if self.retains {
                state.retain(&chunk, retained_bytes(self.limit));
            }
            state.push_definition(chunk, self.limit, self.mode);
            self.changed.notify_one();
        } else {
            let event = HeldEvent::new(producer, state.generation, chunk);
            if let Some(span) = self.span {
                state.expire(event.came, span, self.limit);
            }
            state.push_event(event, self.limit, self.mode);
            if self.mode == BufferMode::Discard
                || self.is_encoding_due(&state)
                || self.is_fold_due(&state)
            {
                self.changed.notify_one();
            }
        }
    }

    /// Whether the programs should forget which stacks they have sent: so many came when
    /// overwriting that others may have to give way, or some gave way that will not come again.
    pub fn wants_stacks_anew(&self) -> bool {
        let state = self.lock();
        let (part, came) = (self.limit / PART_OF_STACKS, state.stacks.came());
        self.mode == BufferMode::Overwrite
            && (came > part / PART_OF_GENERATION
                || came > part / PART_OF_AMENDS && state.stacks.lacks_some())
    }

    /// The programs forget now which stacks they have sent.
    pub fn begin_stacks_anew(&self) {
        self.lock().stacks.begin_generation();
    }

    /// They have forgotten it, and all that was written before was pushed: what is pushed from now
    /// on refers to stacks that were pushed since [`Self::begin_stacks_anew`].
    pub fn stacks_begun_anew(&self) {
        let mut state = self.lock();
        state.generation = state.stacks.generation();
    }

    /// Looks up whose the processes are whose stacks are kept.
    pub(crate) fn find_owners(&self) {
        let Some(user_of) = self.user_of else { return };
        let unsettled = {
            let state = self.lock();
            if state.closed { Vec::new() } else { state.stacks.unsettled() }
        };
        for process in unsettled {
            let user = user_of(process);
            self.lock().stacks.settle(process, user);
        }
    }

    /// Folds what waits for it, if that became much or all is at its end.
    pub(crate) fn fold(&self) {
        let Some(fold) = &self.fold else { return };
        // Until it is back: what a snapshot needs is not on its way then.
        let mut fold = fold.lock().unwrap_or_else(PoisonError::into_inner);
        self.fold_definitions(&mut **fold);
        self.fold_overwritten(&mut **fold);
    }

    fn fold_definitions(&self, fold: &mut dyn Fold) {
        let (chunks, bounds) = {
            let mut state = self.lock();
            if !state.is_fold_of_definitions_due(self.limit) {
                return;
            }
            let room = kept_bytes(self.limit) / PART_OF_FOLDED;
            (state.kept.take_all(), state.fold_bounds(room))
        };
        let before = records_by_lane(chunks.iter().map(|chunk| &chunk.header));
        let chunks = fold.fold(chunks, &bounds);
        let mut state = self.lock();
        note_folded(&mut state.losses, before, &chunks);
        state.give_back(chunks, kept_bytes(self.limit));
    }

    fn fold_overwritten(&self, fold: &mut dyn Fold) {
        let (chunks, bounds) = {
            let mut state = self.lock();
            if !state.is_fold_of_overwritten_due(self.limit) {
                return;
            }
            let part = state.overwritten.take_part(PART_UNPACKED);
            (part, state.fold_bounds(state_bytes(self.limit)))
        };
        let before = records_by_lane(chunks.iter().map(EventContent::header));
        let mut buffer = ReadBuffer::default();
        let chunks = chunks.into_iter().filter_map(|content| content.decoded(&mut buffer));
        let chunks = fold.fold(chunks.collect(), &bounds);
        let mut state = self.lock();
        note_folded(&mut state.losses, before, &chunks);
        state.overwritten.give_back(chunks);
    }

    /// Gives events that stay the form of the file, which takes less room.
    pub(crate) fn encode(&self, encoder: &mut Encoder) {
        if self.mode != BufferMode::Overwrite {
            return;
        }
        loop {
            let Some((number, chunk)) = self.lock().events.next_raw() else { return };
            if let Some(encoded) = EncodedChunk::of(encoder, &chunk) {
                drop(chunk);
                self.lock().events.encoded(number, encoded);
            }
        }
    }

    fn is_fold_due(&self, state: &BufferState) -> bool {
        self.fold.is_some()
            && (state.is_fold_of_definitions_due(self.limit)
                || state.is_fold_of_overwritten_due(self.limit))
    }

    /// Whether so much is not encoded that it should not wait for the writer's next look.
    fn is_encoding_due(&self, state: &BufferState) -> bool {
        self.mode == BufferMode::Overwrite && state.events.raw_bytes() > self.limit / 8
    }

    /// What it holds now, of a buffer that overwrites and [retains](Self::retaining) definitions;
    /// with `span`, events of that time before now. Who pushes waits meanwhile: some milliseconds.
    pub fn snapshot(&self, span: Option<Duration>) -> BufferSnapshot {
        let _fold =
            self.fold.as_ref().map(|fold| fold.lock().unwrap_or_else(PoisonError::into_inner));
        self.lock().snapshot(span, self.limit)
    }

    /// The next chunk for the disk; waits up to `wait` for one. When
    /// overwriting, events come only after [`Self::close`].
    pub fn pop(&self, wait: Duration) -> Popped {
        let deadline = Instant::now() + wait;
        let mut state = self.lock();
        loop {
            if self.is_fold_due(&state) {
                return Popped::Empty;
            }
            let events = self.mode == BufferMode::Discard || state.closed;
            if let Some(popped) = state.take(events) {
                return popped;
            }
            if self.is_encoding_due(&state) {
                return Popped::Empty;
            }
            if state.closed {
                return Popped::Closed;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Popped::Empty;
            }
            state =
                self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Says that nothing more comes. What is held can still be popped.
    pub fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Records lost here and, by [`drain_to`](crate::drain_to), on the disk, by lane and cause.
    pub fn losses(&self) -> Vec<(Lane, LossCause, u64)> {
        self.lock()
            .losses
            .iter()
            .map(|((lane, cause), records)| (*lane, *cause, *records))
            .collect()
    }

    /// Stacks among these losses for which there was no room.
    pub fn stacks_lost(&self) -> u64 {
        let state = self.lock();
        let of_stacks = state
            .losses
            .iter()
            .filter(|((lane, cause), _)| lane.kind.is_stack() && *cause != LossCause::Overwritten);
        of_stacks.map(|(_, records)| records).sum()
    }

    /// What each lane produced so far, dropped chunks included.
    pub fn ends(&self) -> Vec<LaneEnd> {
        self.lock().ends.values().copied().collect()
    }

    /// How far back its events reach, if its size and not [`spanning`](Self::spanning) was what
    /// bounded them.
    pub fn short_span(&self) -> Option<Duration> {
        let state = self.lock();
        let oldest = state.events.oldest().map_or(Duration::ZERO, |event| event.came.elapsed());
        (state.is_short && self.span.is_some_and(|span| oldest < span)).then_some(oldest)
    }

    /// How far back its events reach.
    pub fn reach(&self) -> Duration {
        self.lock().events.oldest().map_or(Duration::ZERO, |event| event.came.elapsed())
    }

    /// Bytes held now.
    pub fn buffered(&self) -> usize {
        let state = self.lock();
        state.taken() + state.kept.bytes() + state.overwritten.bytes() + state.retained.bytes()
    }

    pub(crate) fn lose(&self, header: &ChunkHeader, cause: LossCause) {
        self.lock().lose(header, cause);
    }

    fn lock(&self) -> MutexGuard<'_, BufferState> {
        // The state is whole between any two statements that can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes that definitions may take on top of a buffer of so many.
fn allowance(bytes: usize) -> usize {
    (bytes / 2).clamp(LEAST_ALLOWANCE, DEFINITION_ALLOWANCE)
}

/// Bytes that lifetimes of tasks and their mappings may take.
fn kept_bytes(bytes: usize) -> usize {
    (bytes / 4).clamp(LEAST_KEPT, MOST_KEPT)
}

/// Bytes that may be left of what overwritten events left open.
fn state_bytes(bytes: usize) -> usize {
    (bytes / 64).clamp(LEAST_STATE, MOST_STATE)
}

/// Bytes that overwritten events may take until they are folded.
fn unfolded_bytes(bytes: usize) -> usize {
    (bytes / 8).clamp(LEAST_UNFOLDED, MOST_UNFOLDED)
}

/// Bytes that definitions may take which are kept for snapshots.
fn retained_bytes(bytes: usize) -> usize {
    (bytes / 4).clamp(LEAST_RETAINED, MOST_RETAINED)
}

/// Counts what folding left out of lanes.
fn note_folded(losses: &mut Losses, before: BTreeMap<Lane, u64>, chunks: &[Chunk]) {
    let after = records_by_lane(chunks.iter().map(|chunk| &chunk.header));
    for (lane, records) in before {
        let folded = records.saturating_sub(after.get(&lane).copied().unwrap_or(0));
        if folded > 0 && lane.kind != LaneKind::Definition {
            *losses.entry((lane, LossCause::Overwritten)).or_default() += folded;
        }
    }
}

fn records_by_lane<'a>(headers: impl Iterator<Item = &'a ChunkHeader>) -> BTreeMap<Lane, u64> {
    let mut records = BTreeMap::new();
    for header in headers {
        *records.entry(header.lane).or_default() += u64::from(header.records);
    }
    records
}
