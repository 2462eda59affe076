//! Patches: what a writer knew only after it had committed the chunk.

use crate::buffer::TraceBuffer;
use crate::chunk::{Patch, SequenceId};
use crate::fragment::last_content;
use crate::header::StoredFlags;

/// Why patches were not made. None of those that came with it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The chunk never came, or is not there any more.
    #[error("chunk {id} of {sequence:?} is not in the buffer")]
    NoChunk {
        /// Whose chunk it would be.
        sequence: SequenceId,
        /// Its number.
        id: u32,
    },
    /// A patch does not lie within the content of the last fragment, or that was read.
    #[error("a patch of {len} bytes at {offset} is not within the chunk's last fragment")]
    OutOfBounds {
        /// Where it would begin.
        offset: u32,
        /// How long it is.
        len: usize,
    },
}

impl TraceBuffer {
    /// Patches the last fragment of a chunk, the only one that can need it: its content can change,
    /// and nothing that says where fragments begin and end. All patches are made or none.
    ///
    /// Unless `more_to_come`, the chunk needs no patch any more.
    ///
    /// # Errors
    ///
    /// If the chunk is not there, or a patch lies elsewhere. That is no loss by itself: what waits for
    /// the patch is lost when it is overwritten.
    pub fn patch(
        &mut self,
        sequence: SequenceId,
        id: u32,
        patches: &[Patch<'_>],
        more_to_come: bool,
    ) -> Result<(), PatchError> {
        let patched = self.try_patch(sequence, id, patches, more_to_come);
        let count = patches.len() as u64;
        match patched {
            Ok(()) => self.statistics.patches_applied += count,
            Err(_) => self.statistics.patches_refused += count,
        }
        patched
    }

    fn try_patch(
        &mut self,
        sequence: SequenceId,
        id: u32,
        patches: &[Patch<'_>],
        more_to_come: bool,
    ) -> Result<(), PatchError> {
        let missing = PatchError::NoChunk { sequence, id };
        let Self { block, sequences, .. } = self;
        let slot = sequences.find(sequence).ok_or(missing)?;
        let state = sequences.get_mut(slot);
        if !state.is_near(id, |offset| block.header(offset).id) {
            return Err(missing);
        }
        let position = state.position(id, |offset| block.header(offset).id);
        let offset = state.chunks[position.map_err(|_| missing)?];
        let mut header = block.header(offset);
        let payload = block.payload(offset, header);
        // None if there is no fragment, or it was read.
        let begin = last_content(payload).filter(|&begin| usize::from(header.read) < begin);
        for patch in patches {
            let at = patch.offset as usize;
            let is_before_end = at.saturating_add(patch.bytes.len()) <= payload.len();
            if !(is_before_end && begin.is_some_and(|begin| at >= begin)) {
                let len = patch.bytes.len();
                return Err(PatchError::OutOfBounds { offset: patch.offset, len });
            }
        }
        for patch in patches {
            block.write(offset, patch.offset as usize, patch.bytes);
        }
        if !more_to_come {
            header.extent.flags.remove(StoredFlags::NEEDS_PATCH);
            block.set_extent(offset, header.extent);
            state.is_stalled = false;
        }
        Ok(())
    }
}
