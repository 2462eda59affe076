//! A ring buffer, or what is read alike, as a lane: what is read from it becomes chunks.

use std::time::{Duration, Instant};

use syscollect_model::{Lane, LaneKind, Ticks};
use syscollect_records::Stamp;
use syscollect_store::{Chunk, ChunkHeader};

use super::{Records, Ring};
use crate::stage::CHUNK_BYTES;

/// Records wait at most this long for others to share a chunk with.
const LONGEST_WAIT: Duration = Duration::from_millis(500);

/// Chunks that are taken from a lane in one turn: what a ring of 4 MiB holds, twice.
const MOST_CHUNKS: usize = 128;

/// The ring buffer of one CPU and the chunk that is being filled from it.
/// Every record begins with its [`Stamp`].
pub(crate) struct RingLane<R = Ring> {
    lane: Lane,
    ring: R,
    data: Vec<u8>,
    records: u32,
    first: u64,
    last: u64,
    since: Instant,
    sequence: u64,
    records_before: u64,
}

impl<R: Records> RingLane<R> {
    /// A lane of this kind.
    pub(crate) fn new(kind: LaneKind, cpu: u32, ring: R) -> Self {
        Self {
            lane: Lane::new(kind, cpu as u16),
            ring,
            data: Vec::new(),
            records: 0,
            first: u64::MAX,
            last: 0,
            since: Instant::now(),
            sequence: 0,
            records_before: 0,
        }
    }

    /// Its CPU.
    pub(crate) fn cpu(&self) -> u32 {
        u32::from(self.lane.index)
    }

    /// What it reads from.
    pub(crate) fn ring(&mut self) -> &mut R {
        &mut self.ring
    }

    /// Records that were read so far.
    pub(crate) fn records(&self) -> u64 {
        self.records_before + u64::from(self.records)
    }

    /// How full it is, 0 to 1.
    pub(crate) fn fill(&self) -> f64 {
        self.ring.fill()
    }

    /// Empties the ring into chunks, showing each record to `look`; with `all` nothing stays
    /// waiting.
    pub(crate) fn drain(
        &mut self,
        now: Ticks,
        all: bool,
        look: &mut dyn FnMut(&[u8]),
        sink: &mut dyn FnMut(Chunk),
    ) {
        // Who is hit faster than this reads is read on in the next turn: others wait, and the end,
        // too.
        for _ in 0..MOST_CHUNKS {
            let Self { ring, data, records, first, last, since, .. } = self;
            ring.read(|record| {
                if data.is_empty() {
                    *since = Instant::now();
                    data.reserve(CHUNK_BYTES);
                }
                look(record);
                let stamp = record
                    .first_chunk()
                    .map(|bytes| Stamp(u64::from_ne_bytes(*bytes)).ticks_near(now.0));
                // What was preempted comes later than what preempted it.
                *first = (*first).min(stamp.unwrap_or(now.0));
                *last = (*last).max(stamp.unwrap_or(0));
                data.extend_from_slice(record);
                *records += 1;
                data.len() < CHUNK_BYTES
            });
            let full = self.data.len() >= CHUNK_BYTES;
            if full || (!self.data.is_empty() && (all || self.since.elapsed() >= LONGEST_WAIT)) {
                sink(self.chunk());
            }
            if !full {
                return;
            }
        }
    }

    fn chunk(&mut self) -> Chunk {
        let mut data = std::mem::take(&mut self.data);
        // The trace buffer counts capacities.
        data.shrink_to_fit();
        let header = ChunkHeader {
            lane: self.lane,
            sequence: self.sequence,
            first: Ticks(self.first),
            last: Ticks(self.last),
            current_tid: u32::MAX,
            stride: 0,
            records_before: self.records_before,
            records: self.records,
            length: data.len() as u32,
        };
        self.sequence += 1;
        self.records_before += u64::from(self.records);
        (self.records, self.first, self.last) = (0, u64::MAX, 0);
        Chunk { header, data }
    }
}
