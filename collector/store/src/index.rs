//! What a reader keeps of each chunk, and what it misses.

use crate::format::{CHUNK_HEADER, StoredHeader};
use crate::{ChunkHeader, LaneEnd};
use syscollect_model::{Lane, Ticks};

/// No second copy.
const NO_COPY: u64 = u64::MAX;

/// A chunk that [`crate::CaptureReader::read`] can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    /// Its lane.
    pub lane: Lane,
    /// Counts the chunks of the lane, from 0.
    pub sequence: u64,
    /// Ticks of the first record.
    pub first: Ticks,
    /// Ticks of the last record.
    pub last: Ticks,
    /// Records of the lane before this chunk.
    pub records_before: u64,
    /// Records in the chunk; 0 is unknown.
    pub records: u32,
    /// Bytes of the records.
    pub length: u32,
    /// Bytes of the payload in the file.
    pub stored: u32,
    /// Where it lies in the file.
    pub(crate) offset: u64,
    copy: u64,
}

// The index of a file is no larger than the file.
const _: () = assert!(size_of::<IndexEntry>() <= CHUNK_HEADER);

impl IndexEntry {
    pub(crate) fn new(offset: u64, stored: &StoredHeader) -> Self {
        let ChunkHeader { lane, sequence, first, last, records_before, records, length, .. } =
            stored.chunk;
        let stored = stored.stored;
        Self {
            lane,
            sequence,
            first,
            last,
            records_before,
            records,
            length,
            stored,
            offset,
            copy: NO_COPY,
        }
    }

    /// Where its copies lie.
    pub(crate) fn offsets(&self) -> impl Iterator<Item = u64> + use<> {
        [self.offset, self.copy].into_iter().filter(|offset| *offset != NO_COPY)
    }

    /// Whether it is the same chunk, wherever that lies.
    pub(crate) fn is_copy_of(&self, other: &Self) -> bool {
        let Self { offset, copy, .. } = *other;
        Self { offset, copy, ..*self } == *other
    }

    fn end(&self) -> LaneEnd {
        LaneEnd {
            machine: self.lane.machine,
            kind: self.lane.kind as u16,
            index: self.lane.index,
            chunks: self.sequence.saturating_add(1),
            records: self.records_before.saturating_add(u64::from(self.records)),
        }
    }
}

/// Something that a capture should hold and does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// Bytes that belong to no chunk: overwritten, or a write that was cut off.
    Skipped {
        /// Where they begin.
        offset: u64,
        /// How many.
        bytes: u64,
    },
    /// The file ends in something that is no whole chunk, as after a kill or a
    /// power cut.
    Truncated {
        /// Where the last whole chunk ends.
        offset: u64,
        /// Bytes after it.
        bytes: u64,
    },
    /// Another capture begins within this file, as after `cat a.syscap b.syscap`; it is not read.
    Another {
        /// Where it begins.
        offset: u64,
        /// Bytes from there to the end of the file.
        bytes: u64,
    },
    /// Chunks are missing from a lane: damaged, or dropped on the way to the
    /// file (the trace buffer was full or overwrote them, the disk was full).
    Gap {
        /// The lane.
        lane: Lane,
        /// The number of the first missing chunk.
        sequence: u64,
        /// How many are missing.
        chunks: u64,
        /// Records in them, exactly; `None` where the lane's records are not counted.
        records: Option<u64>,
        /// Last tick before, where there is a chunk before.
        after: Option<Ticks>,
        /// First tick after, where there is a chunk after.
        before: Option<Ticks>,
    },
    /// Two different chunks have the same number; the first one counts.
    Conflict {
        /// Their lane.
        lane: Lane,
        /// Their number.
        sequence: u64,
        /// Where the one that is ignored lies.
        offset: u64,
    },
}

/// Orders the chunks of a lane and joins copies.
pub(crate) fn join_copies(entries: &mut Vec<IndexEntry>, damage: &mut Vec<Damage>) {
    entries.sort_unstable_by_key(|entry| (entry.sequence, entry.offset));
    entries.dedup_by(|later, kept| {
        if later.sequence != kept.sequence {
            return false;
        }
        if !later.is_copy_of(kept) {
            damage.push(Damage::Conflict {
                lane: later.lane,
                sequence: later.sequence,
                offset: later.offset,
            });
        } else if kept.copy == NO_COPY {
            kept.copy = later.offset;
        }
        true
    });
    entries.shrink_to_fit();
}

/// Notes what is missing between the chunks of a lane, before the first, and
/// after the last as far as `end` tells.
pub(crate) fn find_gaps(
    lane: Lane,
    entries: &[IndexEntry],
    end: Option<&LaneEnd>,
    damage: &mut Vec<Damage>,
) {
    let mut at = LaneEnd::default();
    let mut after = None;
    let of_chunks = entries.iter().map(|entry| (entry.sequence, entry.records_before, Some(entry)));
    for (sequence, records_before, entry) in
        of_chunks.chain(end.map(|end| (end.chunks, end.records, None)))
    {
        let chunks = sequence.saturating_sub(at.chunks);
        let records =
            Some(records_before.saturating_sub(at.records)).filter(|records| *records > 0);
        if chunks > 0 || records.is_some() {
            let before = entry.map(|entry| entry.first);
            damage.push(Damage::Gap { lane, sequence: at.chunks, chunks, records, after, before });
        }
        if let Some(entry) = entry {
            at.extend(&entry.end());
            after = Some(entry.last);
        }
    }
}
