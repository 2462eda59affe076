//! What a buffer holds at one moment, while the recording goes on.

use super::event::EventContent;
use super::state::Losses;
use super::{Fold, FoldBounds, PART_UNPACKED, note_folded, records_by_lane};
use crate::codec::ReadBuffer;
use crate::kept_stacks::KeptStacks;
use crate::{CaptureWriter, Chunk, LaneEnd, StoreError};
use std::collections::VecDeque;
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use syscollect_model::{Lane, LossCause, Ticks};

/// What a [`TraceBuffer`](crate::TraceBuffer) that overwrites held at one moment. Most of it is
/// shared with the buffer: taking it costs little. What the buffer gives up meanwhile stays in
/// memory until it is written, up to half of the buffer's size for all snapshots together; one that
/// is written more slowly lacks the oldest of that, which is counted.
pub struct BufferSnapshot {
    pub(super) definitions: Vec<Arc<Chunk>>,
    pub(super) kept: Vec<Chunk>,
    /// Events from before its own that leave a state.
    pub(super) overwritten: Vec<EventContent>,
    pub(super) content: Arc<SharedContent>,
    pub(super) bounds: FoldBounds,
    /// Bytes that may be left of the older events.
    pub(super) state_room: usize,
    pub(super) losses: Losses,
    pub(super) ends: Vec<LaneEnd>,
}

impl BufferSnapshot {
    /// Ticks before which it has no event, as far as kernel programs stamp them.
    pub fn oldest(&self) -> Ticks {
        self.bounds.oldest
    }

    /// Writes all of it; of lifetimes of tasks, of mappings and of older events what `fold` leaves.
    ///
    /// # Errors
    ///
    /// Those of [`CaptureWriter::write`].
    pub fn write_to<W: Write>(
        self,
        writer: &mut CaptureWriter<W>,
        fold: &mut dyn Fold,
    ) -> Result<SnapshotLosses, StoreError> {
        let Self {
            definitions,
            kept,
            overwritten,
            content,
            mut bounds,
            state_room,
            mut losses,
            ends,
        } = self;
        // First what the buffer gives up meanwhile: folding takes its time.
        while let Some(event) = content.next_event() {
            match event {
                EventContent::Raw(chunk) => writer.write(&chunk)?,
                EventContent::Encoded(chunk) => writer.write_encoded(&chunk)?,
            }
        }
        while let Some(chunk) = content.next_stacks() {
            writer.write(&chunk)?;
        }
        let mut taken_back = 0;
        for (lane, records) in content.taken_back() {
            taken_back += records;
            *losses.entry((lane, LossCause::BufferFull)).or_default() += records;
        }
        definitions.iter().try_for_each(|chunk| writer.write(chunk))?;
        let before = records_by_lane(kept.iter().map(|chunk| &chunk.header));
        let kept = fold.fold(kept, &bounds);
        note_folded(&mut losses, before, &kept);
        kept.iter().try_for_each(|chunk| writer.write(chunk))?;
        bounds.room = state_room;
        let before = records_by_lane(overwritten.iter().map(EventContent::header));
        let left = folded_in_parts(overwritten, fold, &bounds);
        note_folded(&mut losses, before, &left);
        left.iter().try_for_each(|chunk| writer.write(chunk))?;
        ends.into_iter().for_each(|end| writer.note_end(end));
        let records = losses.into_iter().map(|((lane, cause), records)| (lane, cause, records));
        Ok(SnapshotLosses { records: records.collect(), taken_back })
    }
}

/// What a snapshot lacks that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotLosses {
    /// Records, by lane and cause.
    pub records: Vec<(Lane, LossCause, u64)>,
    /// Those of them that were there when it was taken, and that it was written too slowly for.
    pub taken_back: u64,
}

/// What folding leaves of these, of which little is unpacked at a time.
fn folded_in_parts(
    contents: Vec<EventContent>,
    fold: &mut dyn Fold,
    bounds: &FoldBounds,
) -> Vec<Chunk> {
    let (mut chunks, mut bytes, mut buffer) = (Vec::new(), 0, ReadBuffer::default());
    for content in contents {
        bytes += content.header().length as usize;
        chunks.extend(content.decoded(&mut buffer));
        if bytes >= PART_UNPACKED {
            chunks = fold.fold(chunks, bounds);
            bytes = 0;
        }
    }
    fold.fold(chunks, bounds)
}

/// What is not written yet of what a snapshot shares with its buffer. The buffer may take it back.
pub(super) struct SharedContent(Mutex<Content>);

struct Content {
    stacks: KeptStacks,
    /// Bytes of stacks that the buffer has given up since.
    stacks_given_up: usize,
    events: VecDeque<SharedEvent>,
    /// Bytes of those events that the buffer has given up.
    events_given_up: usize,
    /// Records that were taken back.
    taken_back: Vec<(Lane, u64)>,
}

/// An event of the buffer, by its number there.
pub(super) struct SharedEvent {
    pub(super) number: u64,
    pub(super) content: EventContent,
    /// The buffer has it no more.
    pub(super) is_given_up: bool,
}

impl SharedContent {
    /// Of stacks, and of events in the order of their numbers.
    pub(super) fn new(stacks: KeptStacks, events: VecDeque<SharedEvent>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Content {
            stacks,
            stacks_given_up: 0,
            events,
            events_given_up: 0,
            taken_back: Vec::new(),
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Content> {
        // It is whole between any two statements that can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None` where it is being worked on.
    fn try_lock(&self) -> Option<MutexGuard<'_, Content>> {
        match self.0.try_lock() {
            Ok(content) => Some(content),
            Err(TryLockError::Poisoned(content)) => Some(content.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn next_stacks(&self) -> Option<Chunk> {
        self.lock().stacks.next_chunk()
    }

    fn next_event(&self) -> Option<EventContent> {
        self.lock().remove_event(0).map(|event| event.content)
    }

    fn taken_back(&self) -> Vec<(Lane, u64)> {
        std::mem::take(&mut self.lock().taken_back)
    }
}

impl Content {
    /// Bytes that are in memory for this snapshot only.
    fn held(&self) -> usize {
        self.events_given_up + self.stacks_given_up.min(self.stacks.unwritten_bytes())
    }

    fn remove_event(&mut self, index: usize) -> Option<SharedEvent> {
        let event = self.events.remove(index)?;
        self.events_given_up -= if event.is_given_up { event.content.size() } else { 0 };
        Some(event)
    }

    /// The buffer has that no more.
    fn give_up(&mut self, gone: GivenUp) {
        for number in gone.events {
            let index = self.events.binary_search_by_key(&number, |event| event.number);
            if let Some(event) = index.ok().and_then(|index| self.events.get_mut(index)) {
                event.is_given_up = true;
                self.events_given_up += event.content.size();
            }
        }
        self.stacks_given_up += gone.stacks;
    }

    /// What is held goes, so many bytes of it: the oldest events, and stacks where these are not
    /// enough.
    fn take_back(&mut self, bytes: usize) {
        let left = self.held().saturating_sub(bytes);
        while self.held() > left
            && let Some(index) = self.events.iter().position(|event| event.is_given_up)
            && let Some(event) = self.remove_event(index)
        {
            let header = event.content.header();
            self.taken_back.push((header.lane, u64::from(header.records)));
        }
        if self.held() > left {
            self.taken_back.extend(self.stacks.take_unwritten());
        }
    }
}

/// The snapshots that are being written, and what they may hold beside the buffer.
#[derive(Default)]
pub(super) struct OpenSnapshots(Vec<OpenSnapshot>);

struct OpenSnapshot {
    content: Weak<SharedContent>,
    /// What the buffer gave up and the content was not told yet.
    untold: GivenUp,
}

/// What a buffer gave up.
#[derive(Default)]
struct GivenUp {
    /// Events, by their numbers.
    events: Vec<u64>,
    /// Bytes of stacks.
    stacks: usize,
}

impl OpenSnapshots {
    pub(super) fn add(&mut self, content: &Arc<SharedContent>) {
        let content = Arc::downgrade(content);
        self.0.push(OpenSnapshot { content, untold: GivenUp::default() });
    }

    /// The buffer gives up the event of that number; all snapshots may hold `limit` bytes of such.
    pub(super) fn give_up_event(&mut self, number: u64, limit: usize) {
        self.give_up(limit, |untold| untold.events.push(number));
    }

    /// The same of so many bytes of stacks.
    pub(super) fn give_up_stacks(&mut self, bytes: usize, limit: usize) {
        self.give_up(limit, |untold| untold.stacks += bytes);
    }

    /// Whoever pushes into the buffer waits for no thread that writes a snapshot, which may have no
    /// CPU: to one that is at work on its content this is told the next time.
    fn give_up(&mut self, limit: usize, note: impl Fn(&mut GivenUp)) {
        self.0.retain(|snapshot| snapshot.content.strong_count() > 0);
        self.0.iter_mut().for_each(|snapshot| note(&mut snapshot.untold));
        let contents: Vec<_> = self.0.iter().map(|one| one.content.upgrade()).collect();
        let mut open = Vec::new();
        for (snapshot, content) in self.0.iter_mut().zip(&contents) {
            if let Some(mut content) = content.as_ref().and_then(|content| content.try_lock()) {
                content.give_up(std::mem::take(&mut snapshot.untold));
                open.push(content);
            }
        }
        loop {
            let excess = open.iter().map(|content| content.held()).sum::<usize>();
            let excess = excess.saturating_sub(limit);
            match open.iter_mut().max_by_key(|content| content.held()).filter(|_| excess > 0) {
                // With each turn less is held.
                Some(most) => most.take_back(excess),
                None => return,
            }
        }
    }
}
