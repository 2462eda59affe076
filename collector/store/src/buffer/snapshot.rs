//! What a buffer holds at one moment, while the recording goes on.

use super::event::EventContent;
use super::state::Losses;
use super::{Fold, FoldBounds, PART_UNPACKED, note_folded, records_by_lane};
use crate::codec::ReadBuffer;
use crate::kept_stacks::KeptStacks;
use crate::{CaptureWriter, Chunk, LaneEnd, StoreError};
use std::collections::VecDeque;
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use syscollect_model::{Lane, LossCause, Ticks};

/// What a [`TraceBuffer`](crate::TraceBuffer) that overwrites held at one moment. Most of it is
/// shared with the buffer: taking it costs little. What the buffer gives up meanwhile stays in
/// memory until it is written, up to half of the buffer's size for all snapshots together; one that
/// is written more slowly loses the rest, which is counted.
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
    /// Returns the records that it lacks, by lane and cause.
    ///
    /// # Errors
    ///
    /// Those of [`CaptureWriter::write`].
    pub fn write_to<W: Write>(
        self,
        writer: &mut CaptureWriter<W>,
        fold: &mut dyn Fold,
    ) -> Result<Vec<(Lane, LossCause, u64)>, StoreError> {
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
        definitions.iter().try_for_each(|chunk| writer.write(chunk))?;
        let before = records_by_lane(kept.iter().map(|chunk| &chunk.header));
        let kept = fold.fold(kept, &bounds);
        note_folded(&mut losses, before, &kept);
        kept.iter().try_for_each(|chunk| writer.write(chunk))?;
        while let Some(chunk) = content.next_stacks() {
            writer.write(&chunk)?;
        }
        while let Some(event) = content.next_event() {
            match event {
                EventContent::Raw(chunk) => writer.write(&chunk)?,
                EventContent::Encoded(chunk) => writer.write_encoded(&chunk)?,
            }
        }
        for (lane, records) in content.taken_back() {
            *losses.entry((lane, LossCause::BufferFull)).or_default() += records;
        }
        // Last: what programs wrote takes its time, and the buffer takes back what waits meanwhile.
        bounds.room = state_room;
        let before = records_by_lane(overwritten.iter().map(EventContent::header));
        let left = folded_in_parts(overwritten, fold, &bounds);
        note_folded(&mut losses, before, &left);
        left.iter().try_for_each(|chunk| writer.write(chunk))?;
        ends.into_iter().for_each(|end| writer.note_end(end));
        Ok(losses.into_iter().map(|((lane, cause), records)| (lane, cause, records)).collect())
    }
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
    events: VecDeque<EventContent>,
    event_bytes: usize,
    /// Records that were taken back.
    taken_back: Vec<(Lane, u64)>,
}

impl SharedContent {
    pub(super) fn new(stacks: KeptStacks, events: VecDeque<EventContent>) -> Arc<Self> {
        let event_bytes = events.iter().map(EventContent::size).sum();
        Arc::new(Self(Mutex::new(Content { stacks, events, event_bytes, taken_back: Vec::new() })))
    }

    fn lock(&self) -> MutexGuard<'_, Content> {
        // It is whole between any two statements that can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_stacks(&self) -> Option<Chunk> {
        self.lock().stacks.next_chunk()
    }

    fn next_event(&self) -> Option<EventContent> {
        let mut content = self.lock();
        let event = content.events.pop_front()?;
        content.event_bytes -= event.size();
        Some(event)
    }

    fn taken_back(&self) -> Vec<(Lane, u64)> {
        std::mem::take(&mut self.lock().taken_back)
    }

    /// Bytes that are not written.
    fn bytes(&self) -> usize {
        let content = self.lock();
        content.event_bytes + content.stacks.unwritten_bytes()
    }

    /// Gives up what is not written.
    fn take_back(&self) {
        let mut content = self.lock();
        let events = std::mem::take(&mut content.events);
        let headers = events.iter().map(EventContent::header);
        let events = headers.map(|header| (header.lane, u64::from(header.records)));
        let gone = events.chain(content.stacks.take_unwritten()).collect();
        (content.event_bytes, content.taken_back) = (0, gone);
    }
}

/// The snapshots that are being written, and what they may hold beside the buffer.
#[derive(Default)]
pub(super) struct OpenSnapshots {
    open: Vec<OpenSnapshot>,
    /// Bytes that the buffer has given up.
    given_up: u64,
}

struct OpenSnapshot {
    content: Weak<SharedContent>,
    /// What the buffer had given up when it was taken.
    since: u64,
}

impl OpenSnapshots {
    pub(super) fn add(&mut self, content: &Arc<SharedContent>) {
        self.open.push(OpenSnapshot { content: Arc::downgrade(content), since: self.given_up });
    }

    /// The buffer gives up so many bytes; all snapshots may hold `limit` of such.
    pub(super) fn give_up(&mut self, bytes: usize, limit: usize) {
        self.given_up += bytes as u64;
        while !self.open.is_empty() {
            let held = self.held();
            let most = held.iter().max_by_key(|(_, bytes)| *bytes);
            match most {
                Some((most, _)) if held.iter().map(|(_, bytes)| bytes).sum::<usize>() > limit => {
                    most.take_back();
                }
                _ => return,
            }
        }
    }

    /// What each that is still being written holds at most of what the buffer has given up.
    fn held(&mut self) -> Vec<(Arc<SharedContent>, usize)> {
        let mut held = Vec::new();
        self.open.retain(|one| {
            let Some(content) = one.content.upgrade() else { return false };
            let bytes = content.bytes().min((self.given_up - one.since) as usize);
            held.push((content, bytes));
            true
        });
        held
    }
}
