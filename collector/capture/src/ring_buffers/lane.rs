//! A ring buffer, or what is read alike, as a lane: what is read from it becomes chunks.

use std::time::Instant;

use syscollect_model::{Lane, LaneKind, Ticks};
use syscollect_records::{RecordKind, Stamp};
use syscollect_store::{Chunk, ChunkHeader};

use super::{Records, Ring};

use crate::stage::{CHUNK_BYTES, Flush, Stage, count_stacks};

/// Chunks that are taken from a lane in one turn: what a ring of 4 MiB holds, twice.
const MOST_CHUNKS: usize = 128;

/// The ring buffer of one CPU and the chunk that is being filled from it.
/// Every record begins with its [`Stamp`]. Stacks that come among them are those of its records,
/// and go to the lane that these have.
pub(crate) struct RingLane<R = Ring> {
    lane: Lane,
    ring: R,
    stacks: Option<Stage>,
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
        let lane = Lane::new(kind, cpu as u16);
        Self {
            lane,
            ring,
            stacks: lane.stacks().map(|stacks| Stage::new(stacks, 0)),
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

    /// Empties the ring into chunks, showing each record to `look`, and passes on what `flush`
    /// says.
    pub(crate) fn drain(
        &mut self,
        now: Ticks,
        flush: Flush,
        look: &mut dyn FnMut(&[u8]),
        sink: &mut dyn FnMut(Chunk),
    ) {
        // Who is hit faster than this reads is read on in the next turn: others wait, and the end,
        // too.
        for _ in 0..MOST_CHUNKS {
            let Self { ring, stacks, data, records, first, last, since, .. } = self;
            let mut stacks_full = false;
            ring.read(|record| {
                if let Some(stacks) = stacks.as_mut().filter(|_| is_stack(record)) {
                    stacks.data().extend_from_slice(record);
                    stacks_full = stacks.data().len() >= CHUNK_BYTES;
                    return !stacks_full;
                }
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
            let waits = !self.data.is_empty();
            let is_due = full || (waits && self.since.elapsed() >= flush.longest_wait());
            // Stacks first: in the file, too, they come before what refers to them.
            let stacks = self.stacks.as_mut();
            if let Some(stacks) = stacks.filter(|stacks| is_due || stacks.is_due(flush)) {
                stacks.flush(now, count_stacks, sink);
            }
            if is_due {
                sink(self.chunk());
            }
            if !full && !stacks_full {
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

/// Whether a stack's definition lies there.
fn is_stack(record: &[u8]) -> bool {
    record.first() == Some(&(RecordKind::Stack as u8))
}

#[cfg(test)]
mod tests {
    use super::*;
    use syscollect_records::{ProbeRecord, StackHeader};

    /// Records that lie ready, each read once.
    struct ReadyRecords(Vec<Vec<u8>>);

    impl Records for ReadyRecords {
        fn fill(&self) -> f64 {
            0.0
        }

        fn read(&mut self, mut take: impl FnMut(&[u8]) -> bool) {
            let mut more = true;
            while more && !self.0.is_empty() {
                more = take(&self.0.remove(0));
            }
        }
    }

    fn hit(ticks: u64) -> Vec<u8> {
        let stamp = Stamp::new(ticks, RecordKind::Probe);
        ProbeRecord { stamp, size: ProbeRecord::SIZE as u16, ..Default::default() }
            .as_bytes()
            .to_vec()
    }

    fn stack(ticks: u64, id: u32) -> Vec<u8> {
        let stamp = Stamp::new(ticks, RecordKind::Stack);
        let header = StackHeader { stamp, id, frames: 1, ..Default::default() };
        [header.as_bytes(), &0x1234_u64.to_ne_bytes()].concat()
    }

    #[test]
    fn stacks_go_to_their_own_lane_before_the_hits_that_refer_to_them() {
        let records = vec![stack(10, 4), hit(10), hit(20), stack(30, 8), hit(30)];
        let mut lane = RingLane::new(LaneKind::Probe, 3, ReadyRecords(records));
        let (mut chunks, mut looked) = (Vec::new(), 0);
        lane.drain(Ticks(100), Flush::All, &mut |_| looked += 1, &mut |chunk| chunks.push(chunk));
        assert_eq!(
            chunks.iter().map(described).collect::<Vec<_>>(),
            [(Lane::new(LaneKind::ProbeStack, 3), 2, 10), (Lane::new(LaneKind::Probe, 3), 3, 10)]
        );
        assert_eq!((looked, lane.records()), (3, 3), "a stack is no hit");
    }

    fn described(chunk: &Chunk) -> (Lane, u32, u64) {
        (chunk.header.lane, chunk.header.records, chunk.header.first.0)
    }

    #[test]
    fn however_many_stacks_there_are_a_chunk_of_them_has_its_size() {
        let records: Vec<_> = (0..5000).map(|id| stack(u64::from(id), id * 4)).collect();
        let mut lane = RingLane::new(LaneKind::Probe, 0, ReadyRecords(records));
        let mut sizes = Vec::new();
        lane.drain(Ticks(9000), Flush::All, &mut |_| {}, &mut |chunk| sizes.push(chunk.data.len()));
        assert!(sizes.iter().all(|bytes| *bytes <= CHUNK_BYTES + 4096), "{sizes:?}");
        assert_eq!(sizes.iter().sum::<usize>(), 5000 * 32);
    }
}
