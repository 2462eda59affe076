//! Between the lanes and the disk: a bounded amount of chunks.

use crate::{CaptureWriter, Chunk, ChunkHeader, Lane, LaneEnd, LaneKind, StoreError};
use std::collections::{BTreeMap, VecDeque};
use std::io::Write;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use syscollect_model::LossCause;

/// Bytes that definitions may take beyond the buffer's size. They are few, and
/// events without them are worth nothing; yet memory has a bound.
const DEFINITION_ALLOWANCE: usize = 16 << 20;

/// What happens to events when a [`TraceBuffer`] is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferMode {
    /// New events are dropped; what is there goes to disk meanwhile.
    Discard,
    /// The oldest events are dropped; events stay here until the end.
    Overwrite,
}

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
/// Memory: the given bytes, or, when definitions alone need more, up to 16 MiB
/// on top; one lost beyond that is counted like any other record.
pub struct TraceBuffer {
    limit: usize,
    mode: BufferMode,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    events: VecDeque<Chunk>,
    definitions: VecDeque<Chunk>,
    held: usize,
    closed: bool,
    losses: BTreeMap<(Lane, LossCause), u64>,
    ends: BTreeMap<Lane, LaneEnd>,
}

impl TraceBuffer {
    /// A buffer that holds up to `bytes` of chunks.
    pub fn new(bytes: usize, mode: BufferMode) -> Self {
        Self { limit: bytes, mode, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Takes a chunk, or counts its records as lost. Never waits for the disk.
    pub fn push(&self, chunk: Chunk) {
        let mut state = self.lock();
        if chunk.header.lane.kind != LaneKind::Definition {
            let end = LaneEnd::after(&chunk.header);
            state.ends.entry(chunk.header.lane).and_modify(|known| known.extend(&end)).or_insert(end);
        }
        if state.closed {
            state.lose(&chunk.header, LossCause::BufferFull);
        } else if chunk.header.lane.kind.is_definition() {
            state.push_definition(chunk, self.limit, self.mode);
            self.changed.notify_one();
        } else {
            state.push_event(chunk, self.limit, self.mode);
            if self.mode == BufferMode::Discard {
                self.changed.notify_one();
            }
        }
    }

    /// The next chunk for the disk; waits up to `wait` for one. When
    /// overwriting, events come only after [`Self::close`].
    pub fn pop(&self, wait: Duration) -> Popped {
        let deadline = Instant::now() + wait;
        let mut state = self.lock();
        loop {
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
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Says that nothing more comes. What is held can still be popped.
    pub fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Records lost here and, by [`drain_to`], on the disk, by lane and cause.
    pub fn losses(&self) -> Vec<(Lane, LossCause, u64)> {
        self.lock().losses.iter().map(|((lane, cause), records)| (*lane, *cause, *records)).collect()
    }

    /// What each lane produced so far, dropped chunks included.
    pub fn ends(&self) -> Vec<LaneEnd> {
        self.lock().ends.values().copied().collect()
    }

    /// Bytes held now.
    pub fn held(&self) -> usize {
        self.lock().held
    }

    fn lose(&self, header: &ChunkHeader, cause: LossCause) {
        self.lock().lose(header, cause);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is whole between any two statements that can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn push_event(&mut self, chunk: Chunk, limit: usize, mode: BufferMode) {
        let size = size_of_chunk(&chunk);
        if mode == BufferMode::Overwrite && size <= limit {
            while self.held + size > limit
                && let Some(oldest) = self.events.pop_front()
            {
                self.held -= size_of_chunk(&oldest);
                self.lose(&oldest.header, LossCause::Overwritten);
            }
        }
        if self.held + size > limit {
            let cause = if mode == BufferMode::Overwrite { LossCause::Overwritten } else { LossCause::BufferFull };
            return self.lose(&chunk.header, cause);
        }
        self.held += size;
        self.events.push_back(chunk);
    }

    /// Definitions make room for themselves: events yield as for any other chunk.
    fn push_definition(&mut self, chunk: Chunk, limit: usize, mode: BufferMode) {
        let size = size_of_chunk(&chunk);
        while self.held + size > limit {
            let (victim, cause) = match mode {
                BufferMode::Discard => (self.events.pop_back(), LossCause::BufferFull),
                BufferMode::Overwrite => (self.events.pop_front(), LossCause::Overwritten),
            };
            let Some(victim) = victim else { break };
            self.held -= size_of_chunk(&victim);
            self.lose(&victim.header, cause);
        }
        if self.held + size > limit.saturating_add(DEFINITION_ALLOWANCE) {
            return self.lose(&chunk.header, LossCause::BufferFull);
        }
        self.held += size;
        self.definitions.push_back(chunk);
    }

    fn take(&mut self, events: bool) -> Option<Chunk> {
        let event = |state: &mut Self| if events { state.events.pop_front() } else { None };
        let chunk = self.definitions.pop_front().or_else(|| event(self))?;
        self.held -= size_of_chunk(&chunk);
        Some(chunk)
    }

    fn lose(&mut self, header: &ChunkHeader, cause: LossCause) {
        *self.losses.entry((header.lane, cause)).or_default() += u64::from(header.records);
    }
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
/// # Errors
///
/// The first error of the writer, once the buffer is closed and empty.
pub fn drain_to<W: Write>(buffer: &TraceBuffer, writer: &mut CaptureWriter<W>) -> Result<(), StoreError> {
    let mut first_error = None;
    let mut output_failed = false;
    loop {
        let chunk = match buffer.pop(Duration::from_millis(200)) {
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
