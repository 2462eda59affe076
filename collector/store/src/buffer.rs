//! Between the lanes and the disk: a bounded amount of chunks.

use crate::kept_stacks::KeptStacks;
use crate::shares::{Producer, Shares};
use crate::{CaptureWriter, Chunk, ChunkHeader, LaneEnd, StoreError};
use std::collections::{BTreeMap, VecDeque};
use std::io::Write;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use syscollect_model::{Lane, LaneClock, LaneKind, LossCause, Retention, Ticks};

/// Bytes that definitions may take beyond the buffer's size, and beyond half of it, but never less
/// than the least. They are few, and events without them are worth nothing; yet memory has a bound.
const DEFINITION_ALLOWANCE: usize = 16 << 20;
const LEAST_ALLOWANCE: usize = 2 << 20;

/// The part of the buffer that stacks may have: one in so many bytes.
///
/// They are larger than the events that refer to them, and a program can make new ones without end:
/// beyond their part they are lost, and not the events of the whole machine.
const PART_OF_STACKS: usize = 2;

/// When overwriting, the programs are to forget what they sent when one byte in so many of the part
/// of stacks came since they last did: the oldest can go then before others have to.
const PART_OF_GENERATION: usize = 2;

/// What happens to events when a [`TraceBuffer`] is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferMode {
    /// New events are dropped; what is there goes to disk meanwhile.
    Discard,
    /// The oldest events are dropped; events stay here until the end.
    Overwrite,
}

/// Makes less of the definitions that a recording holds that overwrites: of
/// what happened before the oldest event only the state is needed that it left.
///
/// Runs on the writer's thread, while others push.
pub trait Fold: Send {
    /// Of `chunks`, in the order in which they came, what events from `oldest`
    /// on can need. Chunks of a lane are numbered so that nothing is missing
    /// behind them that was not missing before.
    fn fold(&mut self, chunks: Vec<Chunk>, oldest: Ticks) -> Vec<Chunk>;
}

/// Who runs a process; `None` where it has ended, or nobody knows.
pub type UserOf = fn(u32) -> Option<u32>;

/// What [`TraceBuffer::pop`] gives.
#[derive(Debug)]
pub enum Popped {
    /// The next chunk for the disk.
    Chunk(Chunk),
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
/// a room of their own of half the buffer (2 to 16 MiB): they are folded
/// ([`Fold`]), and the oldest give way where that is not enough. Stacks stay
/// here as well; those go that no event needs, for which the programs are made to
/// forget what they have sent ([`Self::wants_stacks_anew`]), and where these are
/// not enough the oldest of the process that has most, of the user who has most.
pub struct TraceBuffer {
    limit: usize,
    mode: BufferMode,
    /// When overwriting: what came longer ago gives way, too.
    span: Option<Duration>,
    fold: Option<Mutex<Box<dyn Fold>>>,
    user_of: Option<UserOf>,
    state: Mutex<BufferState>,
    changed: Condvar,
}

#[derive(Default)]
struct BufferState {
    events: VecDeque<Event>,
    definitions: VecDeque<Chunk>,
    buffered: usize,
    /// Bytes of `definitions` that are stacks.
    held_stacks: usize,
    /// Bytes of `events` that are hits of probes.
    held_hits: usize,
    /// Stacks that wait for the end, when overwriting.
    stacks: KeptStacks,
    /// The generation of stacks that events refer to which come now.
    generation: u64,
    shares: Shares,
    kept: KeptDefinitions,
    /// Whether events gave way before their time, because there was no room.
    is_short: bool,
    /// Ticks of the newest record that was pushed, as far as kernel programs stamp it.
    newest: Ticks,
    closed: bool,
    losses: BTreeMap<(Lane, LossCause), u64>,
    ends: BTreeMap<Lane, LaneEnd>,
}

/// A chunk of events, and who wrote it; `None` where the kernel did.
struct Event {
    producer: Option<Producer>,
    came: Instant,
    /// The oldest generation of stacks that it may refer to.
    generation: u64,
    chunk: Chunk,
}

impl Event {
    fn is_of_hits(&self) -> bool {
        self.chunk.header.lane.kind == LaneKind::Probe
    }
}

/// Definitions that wait for the end, when overwriting.
#[derive(Default)]
struct KeptDefinitions {
    chunks: VecDeque<Chunk>,
    bytes: usize,
    /// Bytes that came since they were folded last.
    unfolded: usize,
}

impl TraceBuffer {
    /// A buffer that holds up to `bytes` of chunks.
    pub fn new(bytes: usize, mode: BufferMode) -> Self {
        Self {
            limit: bytes,
            mode,
            span: None,
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
        Self { fold: Some(Mutex::new(fold)), ..self }
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

    /// Bytes of memory that a buffer of `bytes` may take with all definitions.
    pub fn most_memory(bytes: usize, mode: BufferMode) -> usize {
        match mode {
            BufferMode::Discard => bytes.saturating_add(allowance(bytes)),
            // Those that go to the disk, those that wait, and as many that come while these are
            // folded.
            BufferMode::Overwrite => bytes.saturating_add(3 * allowance(bytes)),
        }
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
            || (state.held_hits <= self.limit / 4 && state.taken() <= self.limit - self.limit / 8)
    }

    /// Takes a definition that tells of a task: when overwriting it stays here
    /// and is folded, as the lanes of tasks are.
    pub fn push_of_task(&self, chunk: Chunk) {
        self.take_in(chunk, None, true);
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
            state.keep(chunk, allowance(self.limit));
            if state.is_fold_due(self.limit) {
                self.changed.notify_one();
            }
        } else if chunk.header.lane.kind.is_stack() && self.mode == BufferMode::Overwrite {
            state.keep_stacks(&chunk, self.limit);
        } else if chunk.header.lane.kind.is_definition() {
            state.push_definition(chunk, self.limit, self.mode);
            self.changed.notify_one();
        } else {
            let generation = state.generation;
            let event = Event { producer, came: Instant::now(), generation, chunk };
            if let Some(span) = self.span {
                state.expire(event.came, span);
            }
            state.push_event(event, self.limit, self.mode);
            if self.mode == BufferMode::Discard {
                self.changed.notify_one();
            }
        }
    }

    /// Whether the programs should forget which stacks they have sent: so many came when
    /// overwriting that others may have to give way, or some gave way that will not come again.
    pub fn wants_stacks_anew(&self) -> bool {
        let state = self.lock();
        let part = self.limit / PART_OF_STACKS / PART_OF_GENERATION;
        self.mode == BufferMode::Overwrite
            && (state.stacks.came() > part || state.stacks.lacks_some())
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
    fn find_owners(&self) {
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

    /// Folds the definitions that wait, if they became many or all is at its end.
    fn fold(&self) {
        let Some(fold) = &self.fold else { return };
        let (chunks, oldest) = {
            let mut state = self.lock();
            if !state.is_fold_due(self.limit) {
                return;
            }
            let chunks = Vec::from(std::mem::take(&mut state.kept).chunks);
            (chunks, state.oldest())
        };
        let before = records_by_lane(&chunks);
        let chunks = fold.lock().unwrap_or_else(PoisonError::into_inner).fold(chunks, oldest);
        let after = records_by_lane(&chunks);
        let mut state = self.lock();
        for (lane, records) in before {
            let folded = records.saturating_sub(after.get(&lane).copied().unwrap_or(0));
            if folded > 0 && lane.kind != LaneKind::Definition {
                *state.losses.entry((lane, LossCause::Overwritten)).or_default() += folded;
            }
        }
        state.give_back(chunks, allowance(self.limit));
    }

    /// The next chunk for the disk; waits up to `wait` for one. When
    /// overwriting, events come only after [`Self::close`].
    pub fn pop(&self, wait: Duration) -> Popped {
        let deadline = Instant::now() + wait;
        let mut state = self.lock();
        loop {
            if self.fold.is_some() && state.is_fold_due(self.limit) {
                return Popped::Empty;
            }
            let events = self.mode == BufferMode::Discard || state.closed;
            if let Some(chunk) = state.take(events) {
                return Popped::Chunk(chunk);
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

    /// Records lost here and, by [`drain_to`], on the disk, by lane and cause.
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
        let oldest = state.events.front().map_or(Duration::ZERO, |event| event.came.elapsed());
        (state.is_short && self.span.is_some_and(|span| oldest < span)).then_some(oldest)
    }

    /// Bytes held now.
    pub fn buffered(&self) -> usize {
        let state = self.lock();
        state.taken() + state.kept.bytes
    }

    fn lose(&self, header: &ChunkHeader, cause: LossCause) {
        self.lock().lose(header, cause);
    }

    fn lock(&self) -> MutexGuard<'_, BufferState> {
        // The state is whole between any two statements that can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BufferState {
    /// Bytes of the buffer's size that are taken.
    fn taken(&self) -> usize {
        self.buffered + self.stacks.bytes()
    }

    /// What came longer than `span` before `now` gives way.
    fn expire(&mut self, now: Instant, span: Duration) {
        while self
            .events
            .front()
            .is_some_and(|event| now.saturating_duration_since(event.came) > span)
            && let Some(oldest) = self.pop_oldest()
        {
            self.lose(&oldest.header, LossCause::Overwritten);
        }
    }

    fn push_event(&mut self, event: Event, limit: usize, mode: BufferMode) {
        let size = size_of_chunk(&event.chunk);
        if mode == BufferMode::Overwrite && size <= limit {
            while self.taken() + size > limit
                && let Some(victim) = self.pop_for_event(limit)
            {
                self.is_short = true;
                self.lose(&victim.header, LossCause::Overwritten);
            }
        }
        if self.taken() + size > limit
            || event.producer.is_some_and(|producer| {
                mode == BufferMode::Discard && !self.is_within_share(producer, size, limit)
            })
        {
            let cause = if mode == BufferMode::Overwrite {
                LossCause::Overwritten
            } else {
                LossCause::BufferFull
            };
            return self.lose(&event.chunk.header, cause);
        }
        self.buffered += size;
        self.held_hits += if event.is_of_hits() { size } else { 0 };
        self.shares.add(event.producer, size);
        self.events.push_back(event);
    }

    /// Whether so much more of that program may be in here: no user has more than is still free,
    /// and no program more than its user may still have, so that those that write without end leave
    /// room for the others.
    fn is_within_share(&self, producer: Producer, size: usize, limit: usize) -> bool {
        let free = (limit - limit / 8).saturating_sub(self.taken());
        let left_to_user = free.saturating_sub(self.shares.of_user(producer.user));
        self.shares.of_program(producer) + size <= left_to_user
    }

    /// What makes room for an event when overwriting.
    fn pop_for_event(&mut self, limit: usize) -> Option<Chunk> {
        let most = self.shares.largest().filter(|_| self.shares.of_all > limit / 2);
        match most
            .and_then(|most| self.events.iter().position(|event| event.producer == Some(most)))
        {
            Some(place) => self.events.remove(place).map(|event| self.give_up(event)),
            None => self.pop_oldest(),
        }
    }

    fn pop_oldest(&mut self) -> Option<Chunk> {
        let event = self.events.pop_front()?;
        Some(self.give_up(event))
    }

    /// What makes room for a definition: the newest chunk of the program that has most in here, if
    /// there is one, else the newest of all.
    fn pop_for_definition(&mut self) -> Option<Chunk> {
        let most = self.shares.largest();
        let event =
            match self.events.iter().rposition(|event| most.is_some() && event.producer == most) {
                Some(place) => self.events.remove(place)?,
                None => self.events.pop_back()?,
            };
        Some(self.give_up(event))
    }

    /// An event's chunk is no longer in here.
    fn give_up(&mut self, event: Event) -> Chunk {
        let size = size_of_chunk(&event.chunk);
        self.buffered -= size;
        self.held_hits -= if event.is_of_hits() { size } else { 0 };
        self.shares.remove(event.producer, size);
        event.chunk
    }

    /// Definitions make room for themselves: events yield as for any other chunk.
    fn push_definition(&mut self, chunk: Chunk, limit: usize, mode: BufferMode) {
        let size = size_of_chunk(&chunk);
        let is_stack = chunk.header.lane.kind.is_stack();
        if is_stack && self.held_stacks + size > limit / PART_OF_STACKS {
            return self.lose(&chunk.header, LossCause::BufferFull);
        }
        while self.taken() + size > limit {
            let (victim, cause) = match mode {
                BufferMode::Discard => (self.pop_for_definition(), LossCause::BufferFull),
                BufferMode::Overwrite => (self.pop_oldest(), LossCause::Overwritten),
            };
            let Some(victim) = victim else { break };
            self.is_short = true;
            self.lose(&victim.header, cause);
        }
        if self.taken() + size > limit.saturating_add(allowance(limit)) {
            return self.lose(&chunk.header, LossCause::BufferFull);
        }
        self.buffered += size;
        self.held_stacks += if is_stack { size } else { 0 };
        self.definitions.push_back(chunk);
    }

    /// Keeps stacks for the end: those give way that no event needs, then others, then events.
    fn keep_stacks(&mut self, chunk: &Chunk, limit: usize) {
        let lane = chunk.header.lane;
        let unreadable = self.stacks.add(chunk);
        self.lose_records(lane, LossCause::Damaged, unreadable);
        let part = limit / PART_OF_STACKS;
        if self.stacks.bytes() > part {
            let needed = self.events.front().map_or(self.generation, |event| event.generation);
            for gone in self.stacks.drop_before(needed) {
                self.lose_records(gone.lane, LossCause::Overwritten, gone.records);
            }
        }
        while self.stacks.bytes() > part
            && let Some(gone) = self.stacks.give_way()
        {
            self.lose_records(gone.lane, LossCause::Overwritten, gone.records);
        }
        while self.taken() > limit
            && let Some(victim) = self.pop_oldest()
        {
            self.is_short = true;
            self.lose(&victim.header, LossCause::Overwritten);
        }
    }

    fn take(&mut self, events: bool) -> Option<Chunk> {
        if let Some(chunk) = self.definitions.pop_front() {
            let size = size_of_chunk(&chunk);
            self.buffered -= size;
            self.held_stacks -= if chunk.header.lane.kind.is_stack() { size } else { 0 };
            return Some(chunk);
        }
        if self.closed
            && let Some(chunk) = self.kept.pop().or_else(|| self.stacks.next_chunk())
        {
            return Some(chunk);
        }
        if events { self.pop_oldest() } else { None }
    }

    /// Keeps a definition for the end; the oldest give way.
    fn keep(&mut self, chunk: Chunk, limit: usize) {
        self.kept.unfolded += size_of_chunk(&chunk);
        self.kept.push(chunk);
        self.limit_kept(limit);
    }

    /// What was folded goes before what came meanwhile.
    fn give_back(&mut self, chunks: Vec<Chunk>, limit: usize) {
        let later = std::mem::take(&mut self.kept);
        chunks.into_iter().for_each(|chunk| self.kept.push(chunk));
        self.kept.unfolded = later.bytes;
        later.chunks.into_iter().for_each(|chunk| self.kept.push(chunk));
        self.limit_kept(limit);
    }

    fn limit_kept(&mut self, limit: usize) {
        while self.kept.bytes > limit
            && let Some(oldest) = self.kept.pop()
        {
            self.lose(&oldest.header, LossCause::Overwritten);
        }
    }

    fn is_fold_due(&self, limit: usize) -> bool {
        self.kept.unfolded > if self.closed { 0 } else { allowance(limit) / 4 }
    }

    /// Ticks before which no event is held. What programs stamp does not count.
    fn oldest(&self) -> Ticks {
        let headers = self.events.iter().map(|event| &event.chunk.header);
        headers
            .filter(|header| header.lane.kind.traits().clock != LaneClock::Program)
            .map(|header| header.first)
            .min()
            .unwrap_or(self.newest)
    }

    fn lose(&mut self, header: &ChunkHeader, cause: LossCause) {
        *self.losses.entry((header.lane, cause)).or_default() += u64::from(header.records);
    }

    fn lose_records(&mut self, lane: Lane, cause: LossCause, records: u32) {
        if records > 0 {
            *self.losses.entry((lane, cause)).or_default() += u64::from(records);
        }
    }
}

impl KeptDefinitions {
    fn push(&mut self, chunk: Chunk) {
        self.bytes += size_of_chunk(&chunk);
        self.chunks.push_back(chunk);
    }

    fn pop(&mut self) -> Option<Chunk> {
        let chunk = self.chunks.pop_front()?;
        self.bytes -= size_of_chunk(&chunk);
        Some(chunk)
    }
}

/// Bytes that definitions may take on top of a buffer of so many.
fn allowance(bytes: usize) -> usize {
    (bytes / 2).clamp(LEAST_ALLOWANCE, DEFINITION_ALLOWANCE)
}

fn records_by_lane(chunks: &[Chunk]) -> BTreeMap<Lane, u64> {
    let mut records = BTreeMap::new();
    for chunk in chunks {
        *records.entry(chunk.header.lane).or_default() += u64::from(chunk.header.records);
    }
    records
}

/// Bytes that a held chunk takes.
fn size_of_chunk(chunk: &Chunk) -> usize {
    size_of::<Chunk>() + chunk.data.capacity()
}

/// The writer thread: writes what the buffer holds until it is closed.
///
/// After the output failed (a full disk), it takes chunks on and counts their
/// records as [`LossCause::DiskFull`], so that the recording ends in its usual
/// way; what is on disk stays readable. A chunk that cannot be written for a
/// reason of its own (its size) is counted the same way, and the rest goes on.
///
/// Before each chunk `longest_wait` is asked how long to wait for it at most.
///
/// # Errors
///
/// The first error of the writer, once the buffer is closed and empty.
pub fn drain_to<W: Write>(
    buffer: &TraceBuffer,
    writer: &mut CaptureWriter<W>,
    longest_wait: &mut dyn FnMut() -> Duration,
) -> Result<(), StoreError> {
    let mut first_error = None;
    let mut output_failed = false;
    loop {
        buffer.fold();
        buffer.find_owners();
        let chunk = match buffer.pop(longest_wait()) {
            Popped::Chunk(chunk) => chunk,
            Popped::Empty => continue,
            Popped::Closed => break,
        };
        let result = if output_failed { None } else { Some(writer.write(&chunk)) };
        match result {
            Some(Ok(())) => continue,
            Some(Err(error)) => {
                output_failed |= matches!(error, StoreError::Write { .. });
                first_error = first_error.or(Some(error));
            }
            None => {}
        }
        buffer.lose(&chunk.header, LossCause::DiskFull);
    }
    for end in buffer.ends() {
        writer.note_end(end);
    }
    first_error.map_or(Ok(()), Err)
}
