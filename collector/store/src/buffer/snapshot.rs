//! What a buffer holds at one moment, while the recording goes on.

use super::event::EventContent;
use super::state::Losses;
use super::{Fold, note_folded, records_by_lane};
use crate::kept_stacks::KeptStacks;
use crate::{CaptureWriter, Chunk, LaneEnd, StoreError};
use std::io::Write;
use std::sync::Arc;
use syscollect_model::{Lane, LossCause, Ticks};

/// What a [`TraceBuffer`](crate::TraceBuffer) that overwrites held at one moment. Most of it is
/// shared with the buffer: taking it costs little, and what the buffer gives up meanwhile stays in
/// memory as long as this does.
pub struct BufferSnapshot {
    pub(super) definitions: Vec<Arc<Chunk>>,
    pub(super) kept: Vec<Chunk>,
    pub(super) stacks: KeptStacks,
    pub(super) events: Vec<EventContent>,
    /// Ticks before which it has no event.
    pub(super) oldest: Ticks,
    pub(super) losses: Losses,
    pub(super) ends: Vec<LaneEnd>,
}

impl BufferSnapshot {
    /// Ticks before which it has no event, as far as kernel programs stamp them.
    pub fn oldest(&self) -> Ticks {
        self.oldest
    }

    /// Writes all of it, of lifetimes of tasks and of mappings what `fold` leaves. Returns the
    /// records that it lacks, by lane and cause.
    ///
    /// # Errors
    ///
    /// Those of [`CaptureWriter::write`].
    pub fn write_to<W: Write>(
        self,
        writer: &mut CaptureWriter<W>,
        fold: &mut dyn Fold,
    ) -> Result<Vec<(Lane, LossCause, u64)>, StoreError> {
        let Self { definitions, kept, mut stacks, events, oldest, mut losses, ends } = self;
        definitions.iter().try_for_each(|chunk| writer.write(chunk))?;
        let before = records_by_lane(&kept);
        let kept = fold.fold(kept, oldest, usize::MAX);
        note_folded(&mut losses, before, &kept);
        kept.iter().try_for_each(|chunk| writer.write(chunk))?;
        while let Some(chunk) = stacks.next_chunk() {
            writer.write(&chunk)?;
        }
        for event in events {
            match event {
                EventContent::Raw(chunk) => writer.write(&chunk)?,
                EventContent::Encoded(chunk) => writer.write_encoded(&chunk)?,
            }
        }
        ends.into_iter().for_each(|end| writer.note_end(end));
        Ok(losses.into_iter().map(|((lane, cause), records)| (lane, cause, records)).collect())
    }
}
