//! A copy of a buffer, to be read while the buffer goes on.

use crate::buffer::{Statistics, TraceBuffer};
use crate::chunk::SequenceId;
use crate::loss::Losses;
use crate::read::{Batch, BatchLimit};

/// What a buffer held at one moment. It is read like a buffer, and cannot be written.
#[derive(Debug)]
pub struct Snapshot(TraceBuffer);

impl TraceBuffer {
    /// A copy of what is there now: one copy of the used part of the block, and the sequences' state.
    /// The buffer is as before, also what it will give when it is read. Costs the copy's memory,
    /// [`Self::used`] bytes and what is said of sequences in the [crate's bounds](crate#bounds).
    pub fn clone_for_reading(&self) -> Snapshot {
        Snapshot(Self {
            block: self.block.copy_of_first(self.used),
            mode: self.mode,
            write_at: self.write_at,
            used: self.used,
            live: self.live,
            is_full: self.is_full,
            sequences: self.sequences.clone(),
            losses: self.losses,
            statistics: self.statistics,
        })
    }
}

impl Snapshot {
    /// Begins to read a batch, as [`TraceBuffer::read`] does.
    pub fn read(&mut self, limit: BatchLimit) -> Batch<'_> {
        self.0.read(limit)
    }

    /// What all sequences had lost when the copy was made, and what was found lost in reading it.
    pub fn losses(&self) -> Losses {
        self.0.losses()
    }

    /// The same of one sequence; `None` if it was not known.
    pub fn losses_of(&self, sequence: SequenceId) -> Option<Losses> {
        self.0.losses_of(sequence)
    }

    /// The sequences that were known, in no order.
    pub fn sequences(&self) -> impl Iterator<Item = SequenceId> {
        self.0.sequences()
    }

    /// What had happened to chunks, and what was read here.
    pub fn statistics(&self) -> &Statistics {
        self.0.statistics()
    }

    /// What does not hold that should; for tests.
    #[doc(hidden)]
    pub fn inconsistency(&self) -> Option<String> {
        self.0.inconsistency()
    }
}
