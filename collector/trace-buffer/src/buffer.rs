//! The buffer: a block, where the next chunk goes, and the sequences that lie in it.

use crate::block::Block;
use crate::chunk::SequenceId;
use crate::header::{ChunkHeader, Extent, HEADER_BYTES, StoredFlags, WORD};
use crate::loss::{LossCause, Losses};
use crate::sequences::{Sequences, Slot};

/// What a full buffer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The oldest is overwritten, read or not.
    Ring,
    /// Nothing new is taken any more, also when what is there has been read.
    Discard,
}

/// The size that was asked for cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a trace buffer of {bytes} bytes: it can have {MIN_BYTES} to {MAX_BYTES}")]
pub struct SizeError {
    /// What was asked for.
    pub bytes: usize,
}

/// Bytes that a buffer has at least: one header.
pub const MIN_BYTES: usize = HEADER_BYTES;

/// Bytes that a buffer has at most: offsets have 32 bits.
pub const MAX_BYTES: usize = u32::MAX as usize / WORD * WORD;

/// What has happened to chunks since the buffer was made, each counted once where it happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Chunks that were stored.
    pub chunks_written: u64,
    /// Bytes of them, with headers and what fills the last word.
    pub bytes_written: u64,
    /// Chunks that were stored before another one of a smaller id was.
    pub chunks_out_of_order: u64,
    /// Recommits that extended or finished a chunk where it lay.
    pub chunks_extended: u64,
    /// Recommits that brought the rest of a chunk which was read, to where new chunks go.
    pub chunks_moved: u64,
    /// Commits that had nothing new.
    pub chunks_known: u64,
    /// Commits that were refused.
    pub chunks_refused: u64,
    /// Chunks of which something was overwritten that was not read.
    pub chunks_overwritten: u64,
    /// How often writing began anew at the beginning of the block.
    pub wraps: u64,
    /// Patches that were made.
    pub patches_applied: u64,
    /// Patches that were refused.
    pub patches_refused: u64,
    /// Packets that were read.
    pub packets_read: u64,
    /// Bytes of their content.
    pub bytes_read: u64,
}

/// A trace buffer. See the [crate's documentation](crate) for what it guarantees.
#[derive(Debug)]
pub struct TraceBuffer {
    pub(crate) block: Block,
    pub(crate) mode: Mode,
    /// Where the next chunk goes, if it fits before the end.
    pub(crate) write_at: usize,
    /// Extents lie one after the other from 0 to here; nothing was written behind it yet.
    pub(crate) used: usize,
    /// Chunks that are no padding.
    pub(crate) live: usize,
    /// In [`Mode::Discard`]: a chunk did not fit.
    pub(crate) is_full: bool,
    pub(crate) sequences: Sequences,
    pub(crate) losses: Losses,
    pub(crate) statistics: Statistics,
}

impl TraceBuffer {
    /// An empty buffer of `bytes`, rounded down to whole words of 4; headers count. The memory is
    /// asked for here, and never more of it.
    ///
    /// # Errors
    ///
    /// If `bytes` are fewer than [`MIN_BYTES`] or more than [`MAX_BYTES`].
    pub fn new(bytes: usize, mode: Mode) -> Result<Self, SizeError> {
        if !(MIN_BYTES..=MAX_BYTES).contains(&bytes) {
            return Err(SizeError { bytes });
        }
        let bytes = bytes / WORD * WORD;
        Ok(Self {
            block: Block::zeroed(bytes),
            mode,
            write_at: 0,
            used: 0,
            live: 0,
            is_full: false,
            sequences: Sequences::new(bytes),
            losses: Losses::NONE,
            statistics: Statistics::default(),
        })
    }

    /// Bytes of the block.
    pub fn size(&self) -> usize {
        self.block.len()
    }

    /// Bytes of the block that were written to at least once.
    pub fn used(&self) -> usize {
        self.used
    }

    /// What a full buffer does.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Whether new chunks are refused for good: in [`Mode::Discard`], after one did not fit.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Chunks that are there, of which something was not read or may still come.
    pub fn chunks(&self) -> usize {
        self.live
    }

    /// What has happened to chunks so far.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// What all sequences lost since the buffer was made, those that were forgotten included.
    pub fn losses(&self) -> Losses {
        self.losses
    }

    /// What a sequence lost since it is known; `None` if it is not.
    pub fn losses_of(&self, sequence: SequenceId) -> Option<Losses> {
        self.sequences.find(sequence).map(|slot| self.sequences.get(slot).losses)
    }

    /// What a sequence lost since its last packet was read: no packet has reported it yet.
    pub fn undelivered_losses_of(&self, sequence: SequenceId) -> Option<Losses> {
        self.sequences.find(sequence).map(|slot| self.sequences.get(slot).undelivered)
    }

    /// The sequences that are known: with a chunk in the buffer, or among the last
    /// [`KEPT_EMPTY`](crate::KEPT_EMPTY) without. In no order.
    pub fn sequences(&self) -> impl Iterator<Item = SequenceId> {
        self.sequences.iter().map(|sequence| sequence.id)
    }

    #[inline]
    pub(crate) fn lose(&mut self, slot: Slot, cause: LossCause, count: u64) {
        self.losses.add(cause, count);
        self.sequences.get_mut(slot).lose(cause, count);
    }

    /// The reader or the overwriting is at the first chunk of the sequence.
    #[inline]
    pub(crate) fn begin(&mut self, slot: Slot, id: u32) {
        let missing = self.sequences.get_mut(slot).begin(id);
        if missing.is_rest_missing {
            self.lose(slot, LossCause::Overwritten, 1);
        }
        if missing.is_gap {
            self.lose(slot, LossCause::Gap, 1);
        }
    }

    /// Nothing of the first chunk of the sequence is wanted any more.
    pub(crate) fn pass(&mut self, slot: Slot, offset: u32, header: ChunkHeader) {
        self.begin(slot, header.id);
        // Of one that its writer still has, the rest is reported when it does not come.
        if !header.has(StoredFlags::INCOMPLETE) {
            self.lose_end(slot, header.extent.flags);
        }
        self.sequences.get_mut(slot).pass(header);
        self.erase(slot, offset);
    }

    /// Counts what is missing at the end of a chunk.
    pub(crate) fn lose_end(&mut self, slot: Slot, flags: StoredFlags) {
        if flags.intersects(StoredFlags::ABORTED) {
            self.lose(slot, LossCause::NoRoom, 1);
        }
        if flags.intersects(StoredFlags::DAMAGED) {
            self.lose(slot, LossCause::Violation, 1);
        }
    }

    /// Makes padding of a chunk that is in no list any more.
    pub(crate) fn erase(&mut self, slot: Slot, offset: u32) {
        self.block.erase(offset);
        self.live -= 1;
        if self.sequences.get(slot).chunks.is_empty() {
            self.sequences.settle(slot);
        }
    }

    /// Where the oldest extent lies: right behind what was written last.
    pub(crate) fn oldest(&self) -> usize {
        if self.write_at >= self.used { 0 } else { self.write_at }
    }

    /// What does not hold that should, whatever writers did; for tests.
    #[doc(hidden)]
    pub fn inconsistency(&self) -> Option<String> {
        let mut starts = Vec::new();
        let mut at = 0;
        let mut is_write_at_met = self.write_at == self.used;
        while at < self.used {
            is_write_at_met |= at == self.write_at;
            let extent: Extent = self.block.extent(at as u32);
            if extent.words == 0 || at + extent.bytes() > self.used {
                return Some(format!("an extent of {} words at {at}", extent.words));
            }
            if !extent.is_padding() {
                starts.push(at as u32);
                let header = self.block.header(at as u32);
                if usize::from(header.payload) > header.room() || header.read > header.payload {
                    return Some(format!("a chunk at {at} with {header:?}"));
                }
            }
            at += extent.bytes();
        }
        let mut listed: Vec<u32> = Vec::new();
        for sequence in self.sequences.iter() {
            listed.extend(&sequence.chunks);
            let ids: Vec<_> =
                sequence.chunks.iter().map(|&offset| self.block.header(offset)).collect();
            if ids.iter().any(|header| header.sequence != sequence.id) {
                return Some(format!("a chunk of another sequence in {:?}", sequence.id));
            }
            let steps = ids.windows(2).map(|two| two[1].id.wrapping_sub(two[0].id));
            if steps.clone().any(|step| step == 0)
                || steps.map(u64::from).sum::<u64>() >= 1 << 31
                || ids.last().is_some_and(|last| last.id != sequence.newest)
            {
                return Some(format!("ids out of order in {:?}", sequence.id));
            }
        }
        listed.sort_unstable();
        let is_whole = listed == starts && starts.len() == self.live && is_write_at_met;
        (!is_whole).then(|| format!("chunks at {starts:?}, listed {listed:?}, {}", self.live))
    }
}
