//! The unit of a capture: records of one lane, decodable alone.

use syscollect_model::{Lane, Ticks};

/// What is known of a chunk without reading its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkHeader {
    /// The lane.
    pub lane: Lane,
    /// Counts the chunks of the lane, from 0.
    pub sequence: u64,
    /// Ticks of the first record.
    pub first: Ticks,
    /// Ticks of the last record.
    pub last: Ticks,
    /// `Sched`: the task that was current before the first record.
    pub current_tid: u32,
    /// Bytes of each record; 0 where records have sizes of their own.
    pub stride: u32,
    /// Records the lane produced before this chunk, as far as the collector
    /// drained them: the sum over all earlier chunks, dropped ones included.
    pub records_before: u64,
    /// Records in this chunk; for stride 0 a count by the drain, which may be 0 (unknown).
    pub records: u32,
    /// Bytes of the records.
    pub length: u32,
}

/// A chunk: header and records as they lay in the lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The header.
    pub header: ChunkHeader,
    /// The records, `header.length` bytes.
    pub data: Vec<u8>,
}
