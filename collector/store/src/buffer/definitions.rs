//! Definitions that a buffer holds beyond their way to the disk.

use super::event::size_of_chunk;
use crate::{Chunk, ChunkHeader};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use syscollect_model::{LaneKind, Ticks};
use syscollect_records::ZoneLogChunk;

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
        let level = level(held.values().copied().collect(), limit.saturating_sub(others));
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

/// The most that each may have, so that all together have at most `limit`.
fn level(mut held: Vec<usize>, limit: usize) -> usize {
    held.sort_unstable();
    let mut left = limit;
    for (index, bytes) in held.iter().enumerate() {
        let share = left / (held.len() - index);
        if *bytes > share {
            return share;
        }
        left -= bytes;
    }
    usize::MAX
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

    #[test]
    fn who_has_less_than_the_others_keeps_it() {
        assert_eq!(level(vec![10, 1, 5], 16), usize::MAX);
        assert_eq!(level(vec![10, 1, 5], 9), 4);
        assert_eq!(level(vec![10, 1, 5], 2), 0);
        assert_eq!(level(Vec::new(), 0), usize::MAX);
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
