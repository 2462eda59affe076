//! Definitions that a buffer holds beyond their way to the disk.

use super::event::size_of_chunk;
use crate::shares::fair_level;
use crate::{Chunk, ChunkHeader};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use syscollect_model::{LaneKind, Ticks};
use syscollect_records::ZoneLogChunk;

/// Definitions that wait for the end, when overwriting.
#[derive(Default)]
pub(super) struct KeptDefinitions {
    /// What is left of those that were folded.
    folded: VecDeque<Chunk>,
    /// What came since.
    arrived: VecDeque<Chunk>,
    folded_bytes: usize,
    arrived_bytes: usize,
}

impl KeptDefinitions {
    /// Keeps one that has come.
    pub(super) fn push(&mut self, chunk: Chunk) {
        self.arrived_bytes += size_of_chunk(&chunk);
        self.arrived.push_back(chunk);
    }

    /// All of them, for folding, in the order in which they came.
    pub(super) fn take_all(&mut self) -> Vec<Chunk> {
        let Self { folded, arrived, .. } = std::mem::take(self);
        folded.into_iter().chain(arrived).collect()
    }

    /// What folding has left goes before what came meanwhile.
    pub(super) fn give_back(&mut self, folded: Vec<Chunk>) {
        self.folded_bytes += folded.iter().map(size_of_chunk).sum::<usize>();
        self.folded.extend(folded);
    }

    /// What gives way to others: of what was not folded yet the oldest mappings, which are many
    /// where a program maps many files; then the oldest of all that was not. What was folded is
    /// everybody's, and is made less by folding.
    pub(super) fn give_way(&mut self) -> Option<Chunk> {
        let is_mapping = |chunk: &Chunk| chunk.header.lane.kind == LaneKind::Mapping;
        let first = self.arrived.iter().position(is_mapping).unwrap_or(0);
        match self.arrived.remove(first) {
            Some(chunk) => {
                self.arrived_bytes -= size_of_chunk(&chunk);
                Some(chunk)
            }
            None => self.pop(),
        }
    }

    /// The first for the disk.
    pub(super) fn pop(&mut self) -> Option<Chunk> {
        if let Some(chunk) = self.folded.pop_front() {
            self.folded_bytes -= size_of_chunk(&chunk);
            return Some(chunk);
        }
        let chunk = self.arrived.pop_front()?;
        self.arrived_bytes -= size_of_chunk(&chunk);
        Some(chunk)
    }

    /// All of them, in the order in which they came.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Chunk> {
        self.folded.iter().chain(&self.arrived)
    }

    /// Bytes that they take.
    pub(super) fn bytes(&self) -> usize {
        self.folded_bytes + self.arrived_bytes
    }

    /// Bytes of those that were not folded yet.
    pub(super) fn unfolded(&self) -> usize {
        self.arrived_bytes
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
    /// the oldest of what programs define, whose number has no bound: of those that have most.
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
            gone.extend(self.level_programs(limit / 8 * 7));
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

    /// Programs keep the same, or what they have if that is less, so that all is at most `limit`;
    /// what gave way.
    fn level_programs(&mut self, limit: usize) -> Vec<ChunkHeader> {
        let mut held = BTreeMap::<u32, usize>::new();
        for (program, bytes) in self.chunks.iter().filter_map(|chunk| of_program(chunk)) {
            *held.entry(program).or_default() += bytes;
        }
        let others = self.bytes - held.values().sum::<usize>();
        let level = fair_level(held.values().copied().collect(), limit.saturating_sub(others));
        let mut gone = Vec::new();
        self.chunks.retain(|chunk| {
            let Some((program, bytes)) = of_program(chunk) else { return true };
            let left = held.entry(program).or_default();
            if *left <= level {
                return true;
            }
            *left -= bytes;
            gone.push(chunk.header);
            false
        });
        self.bytes = self.chunks.iter().map(|chunk| size_of_chunk(chunk)).sum();
        gone
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

/// Which program defines that, and what it takes; `None` for what no program defines.
fn of_program(chunk: &Chunk) -> Option<(u32, usize)> {
    let is_of_program = chunk.header.lane.kind == LaneKind::ZoneLog;
    let prefix = ZoneLogChunk::from_bytes(&chunk.data).filter(|_| is_of_program)?;
    Some((prefix.client, size_of_chunk(chunk)))
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

    /// What a program defines.
    fn log(client: u32, number: u64) -> Arc<Chunk> {
        let Chunk { header, .. } = *chunk(LaneKind::ZoneLog, number);
        let prefix = ZoneLogChunk { client, ..ZoneLogChunk::default() };
        let data = [prefix.as_bytes(), &[0; 84]].concat();
        Arc::new(Chunk { header, data })
    }

    #[test]
    fn what_a_program_defines_without_end_takes_nothing_from_others() {
        let one = size_of_chunk(&log(0, 0));
        let (mut retained, limit) = (RetainedDefinitions::default(), 80 * one);
        retained.add(chunk(LaneKind::Definition, 0), limit, || Ticks(0));
        for number in 1..11 {
            retained.add(log(7, number), limit, || Ticks(0));
        }
        let mut gone = 0;
        for number in 11..1_011 {
            gone += retained.add(log(9, number), limit, || Ticks(0)).len();
        }
        let of = |client| {
            let programs = retained.chunks.iter().filter_map(|chunk| of_program(chunk));
            programs.filter(|(program, _)| *program == client).count()
        };
        assert_eq!((of(7), of(9) + gone), (10, 1_000));
        assert!(of(9) > 50 && retained.bytes() <= limit, "{} of {limit}", retained.bytes());
        assert_eq!(retained.chunks.back().map(|chunk| chunk.header.first.0), Some(1_010));
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
        retained.add(log(7, 1), limit, || Ticks(0));
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
            .flat_map(|ticks| retained.add(log(7, ticks), limit, || Ticks(6)))
            .map(|header| header.first.0)
            .collect();
        assert_eq!(gone[0], 1, "the oldest first");
        assert_eq!(kinds(&retained)[0], (LaneKind::Definition, 0));
        assert!(retained.bytes() <= limit);
    }
}
