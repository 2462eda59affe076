//! Definitions that a buffer holds beyond their way to the disk.

use super::event::size_of_chunk;
use crate::{Chunk, ChunkHeader};
use std::collections::VecDeque;
use std::sync::Arc;
use syscollect_model::{LaneKind, Ticks};

/// Definitions that wait for the end, when overwriting.
#[derive(Default)]
pub(super) struct KeptDefinitions {
    pub(super) chunks: VecDeque<Chunk>,
    pub(super) bytes: usize,
    /// Bytes that came since they were folded last.
    pub(super) unfolded: usize,
}

impl KeptDefinitions {
    pub(super) fn push(&mut self, chunk: Chunk) {
        self.bytes += size_of_chunk(&chunk);
        self.chunks.push_back(chunk);
    }

    pub(super) fn pop(&mut self) -> Option<Chunk> {
        let chunk = self.chunks.pop_front()?;
        self.bytes -= size_of_chunk(&chunk);
        Some(chunk)
    }
}

/// Definitions that are on their way to the disk or there, and are kept for snapshots.
#[derive(Default)]
pub(super) struct RetainedDefinitions {
    chunks: VecDeque<Arc<Chunk>>,
    bytes: usize,
}

impl RetainedDefinitions {
    /// Keeps one in at most `limit` bytes, when no event is older than `oldest`; what gave way that
    /// somebody may miss.
    ///
    /// Readings of clocks from before the oldest event give way first, which nobody misses; then
    /// the oldest of what programs define, whose number has no bound.
    pub(super) fn add(
        &mut self,
        chunk: Arc<Chunk>,
        limit: usize,
        oldest: impl FnOnce() -> Ticks,
    ) -> Vec<ChunkHeader> {
        self.bytes += size_of_chunk(&chunk);
        self.chunks.push_back(chunk);
        let mut gone = Vec::new();
        if self.bytes > limit {
            // To well below, so that all are looked at only now and then.
            self.drop_readings_before(oldest());
            while self.bytes > limit / 8 * 7
                && let Some(chunk) = self.pop_of_programs()
            {
                gone.push(chunk.header);
            }
            while self.bytes > limit
                && let Some(chunk) = self.take(0)
            {
                gone.push(chunk.header);
            }
        }
        gone
    }

    /// Readings from before `oldest` go, but for the last of them: what comes between it and the
    /// next is reckoned by both.
    fn drop_readings_before(&mut self, oldest: Ticks) {
        let is_old =
            |chunk: &Chunk| chunk.header.lane.kind == LaneKind::Clock && chunk.header.last < oldest;
        let Some(last) = self.chunks.iter().rposition(|chunk| is_old(chunk)) else { return };
        let mut index = 0;
        self.chunks.retain(|chunk| {
            let stays = index >= last || !is_old(chunk);
            index += 1;
            stays
        });
        self.bytes = self.chunks.iter().map(|chunk| size_of_chunk(chunk)).sum();
    }

    fn pop_of_programs(&mut self) -> Option<Arc<Chunk>> {
        let is_of_programs = |chunk: &Arc<Chunk>| chunk.header.lane.kind == LaneKind::ZoneLog;
        self.take(self.chunks.iter().position(is_of_programs)?)
    }

    fn take(&mut self, index: usize) -> Option<Arc<Chunk>> {
        let chunk = self.chunks.remove(index)?;
        self.bytes -= size_of_chunk(&chunk);
        Some(chunk)
    }

    /// All that are kept, the oldest first.
    pub(super) fn all(&self) -> Vec<Arc<Chunk>> {
        self.chunks.iter().cloned().collect()
    }

    /// Bytes that they take.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syscollect_model::Lane;

    fn chunk(kind: LaneKind, ticks: u64) -> Arc<Chunk> {
        let header = ChunkHeader {
            lane: Lane::new(kind, 0),
            sequence: ticks,
            first: Ticks(ticks),
            last: Ticks(ticks),
            current_tid: 0,
            stride: 0,
            records_before: ticks,
            records: 1,
            length: 100,
        };
        Arc::new(Chunk { header, data: vec![0; 100] })
    }

    fn kinds(retained: &RetainedDefinitions) -> Vec<(LaneKind, u64)> {
        let chunks = retained.chunks.iter();
        chunks.map(|chunk| (chunk.header.lane.kind, chunk.header.first.0)).collect()
    }

    #[test]
    fn old_readings_go_first_then_what_programs_define_and_what_the_machine_is_stays() {
        let one = size_of_chunk(&chunk(LaneKind::Clock, 0));
        let (mut retained, limit) = (RetainedDefinitions::default(), 8 * one);
        retained.add(chunk(LaneKind::Definition, 0), limit, || Ticks(0));
        retained.add(chunk(LaneKind::ZoneLog, 1), limit, || Ticks(0));
        for ticks in 2..8 {
            retained.add(chunk(LaneKind::Clock, ticks), limit, || panic!("there is room"));
        }
        let gone = retained.add(chunk(LaneKind::Clock, 8), limit, || Ticks(6));
        assert!(gone.is_empty());
        let expected = [
            (LaneKind::Definition, 0),
            (LaneKind::ZoneLog, 1),
            (LaneKind::Clock, 5),
            (LaneKind::Clock, 6),
            (LaneKind::Clock, 7),
            (LaneKind::Clock, 8),
        ];
        assert_eq!(kinds(&retained), expected, "one reading from before the oldest event stays");
        let gone: Vec<u64> = (9..29)
            .flat_map(|ticks| retained.add(chunk(LaneKind::ZoneLog, ticks), limit, || Ticks(6)))
            .map(|header| header.first.0)
            .collect();
        assert_eq!(gone[0], 1, "the oldest first");
        assert_eq!(kinds(&retained)[0], (LaneKind::Definition, 0));
        assert!(retained.bytes() <= limit);
    }
}
