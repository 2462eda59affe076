//! Records on their way from a lane to the trace buffer: gathered until they
//! make a chunk worth its header.

use std::time::{Duration, Instant};

use syscollect_model::{Lane, LaneClock, LaneKind, Ticks};
use syscollect_records::{RecordKind, StackHeader, Stamp};
use syscollect_store::{Chunk, ChunkHeader};

/// Bytes at which a chunk is full. LZ4 looks back 64 KiB.
pub(crate) const CHUNK_BYTES: usize = 64 << 10;
/// What of the records that wait for others to share a chunk with is passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flush {
    /// What fills a chunk, or waited for so long; what waits is lost if the collector is killed.
    After(Duration),
    /// Everything that is there, whatever shares users have.
    All,
}

impl Flush {
    /// What is written to a file.
    pub(crate) const USUAL: Self = Self::After(Duration::from_millis(500));
    /// Where somebody waits for what happens now.
    pub(crate) const WATCHED: Self = Self::After(Duration::from_millis(20));
    /// Where somebody looks at it: with each look at the lanes.
    pub(crate) const PROMPT: Self = Self::After(Duration::ZERO);
    /// Where somebody keeps up with what is open, for whoever may look.
    pub(crate) const UNSEEN: Self = Self::After(Duration::from_millis(100));

    /// Whether nothing stays waiting.
    pub(crate) fn is_all(self) -> bool {
        self == Self::All
    }

    /// How long records may wait.
    pub(crate) fn longest_wait(self) -> Duration {
        match self {
            Self::After(wait) => wait,
            Self::All => Duration::ZERO,
        }
    }
}

/// What is left of a chunk of scheduling events that says who runs: its last switch, and what
/// follows. `None` where none of its records is one.
pub(crate) fn since_last_switch(chunk: &Chunk) -> Option<Chunk> {
    let Chunk { header, data } = chunk;
    let stride = header.stride as usize;
    let before = last_switch(data, stride)?;
    let (earlier, data) = data.split_at_checked(before * stride)?;
    let current_tid = current_after(earlier, stride).unwrap_or(header.current_tid);
    let first = stamp_at(data, 0).map_or(header.first, |at| Ticks(at.ticks_near(header.last.0)));
    let before = before as u32;
    let header = ChunkHeader {
        first,
        current_tid,
        records_before: header.records_before + u64::from(before),
        records: header.records.saturating_sub(before),
        length: data.len() as u32,
        ..*header
    };
    Some(Chunk { header, data: data.to_vec() })
}

/// The chunk of one lane that is being filled.
pub(crate) struct Stage {
    lane: Lane,
    stride: usize,
    sequence: u64,
    records_before: u64,
    current_tid: u32,
    data: Vec<u8>,
    since: Instant,
}

impl Stage {
    /// An empty stage; `stride` is 0 where records have sizes of their own.
    pub(crate) fn new(lane: Lane, stride: usize) -> Self {
        let data = Vec::new();
        Self {
            lane,
            stride,
            sequence: 0,
            records_before: 0,
            current_tid: u32::MAX,
            data,
            since: Instant::now(),
        }
    }

    /// Where the lane's bytes go; whole records only.
    pub(crate) fn data(&mut self) -> &mut Vec<u8> {
        if self.data.is_empty() {
            self.since = Instant::now();
            self.data.reserve(CHUNK_BYTES);
        }
        &mut self.data
    }

    /// Whether what waits should go on now.
    pub(crate) fn is_due(&self, flush: Flush) -> bool {
        self.data.len() >= CHUNK_BYTES
            || (!self.data.is_empty() && self.since.elapsed() >= flush.longest_wait())
    }

    /// Hands what waits to `sink`, in chunks of at most [`CHUNK_BYTES`] (or one
    /// whole chunk where records have sizes of their own). `records` counts
    /// them where the stride does not; `now` completes the 56-bit stamps.
    pub(crate) fn flush(
        &mut self,
        now: Ticks,
        records: impl Fn(&[u8]) -> u32,
        sink: &mut dyn FnMut(Chunk),
    ) {
        if self.data.is_empty() {
            return;
        }
        let mut data = std::mem::take(&mut self.data);
        // The trace buffer counts capacities.
        data.shrink_to_fit();
        if self.stride == 0 || data.len() <= CHUNK_BYTES {
            return self.emit(data, now, &records, sink);
        }
        let whole = CHUNK_BYTES / self.stride * self.stride;
        for part in data.chunks(whole) {
            self.emit(part.to_vec(), now, &records, sink);
        }
    }

    fn emit(
        &mut self,
        data: Vec<u8>,
        now: Ticks,
        count: &impl Fn(&[u8]) -> u32,
        sink: &mut dyn FnMut(Chunk),
    ) {
        let records = data
            .len()
            .checked_div(self.stride)
            .map_or_else(|| count(&data), |records| records as u32);
        let last_start = if self.stride == 0 { 0 } else { data.len() - self.stride };
        let header = ChunkHeader {
            lane: self.lane,
            sequence: self.sequence,
            first: self.ticks_at(&data, 0, now),
            last: self.ticks_at(&data, last_start, now),
            current_tid: self.current_tid,
            stride: self.stride as u32,
            records_before: self.records_before,
            records,
            length: data.len() as u32,
        };
        if self.lane.kind == LaneKind::Sched {
            self.current_tid = current_after(&data, self.stride).unwrap_or(self.current_tid);
        }
        self.sequence += 1;
        self.records_before += u64::from(records);
        sink(Chunk { header, data });
    }

    /// The full ticks of the record at this offset; for records that begin with
    /// no stamp, when they were drained.
    fn ticks_at(&self, data: &[u8], at: usize, now: Ticks) -> Ticks {
        match stamp_at(data, at) {
            Some(stamp) if self.lane.kind.traits().clock != LaneClock::Drained => {
                Ticks(stamp.ticks_near(now.0))
            }
            _ => now,
        }
    }
}

/// Number of stack definitions in a run of them.
pub(crate) fn count_stacks(mut data: &[u8]) -> u32 {
    let mut count = 0;
    while let Some(header) = StackHeader::from_bytes(data) {
        count += 1;
        data = data.get(StackHeader::SIZE + usize::from(header.frames) * 8..).unwrap_or(&[]);
    }
    count
}

fn stamp_at(data: &[u8], at: usize) -> Option<Stamp> {
    let bytes = data.get(at..at + 8)?;
    Some(Stamp(u64::from_le_bytes(bytes.try_into().ok()?)))
}

/// The task that is current after the last record: what the last switch or
/// resume record says. Looks back only as far as that one.
fn current_after(data: &[u8], stride: usize) -> Option<u32> {
    let record = &data[last_switch(data, stride)? * stride..];
    Some(u32::from_le_bytes(record.get(8..12)?.try_into().ok()?))
}

/// Which record is the last that says who runs.
fn last_switch(data: &[u8], stride: usize) -> Option<usize> {
    if stride == 0 {
        return None;
    }
    data.chunks_exact(stride).rposition(|record| {
        matches!(RecordKind::from_number(record[0]), Some(RecordKind::Switch | RecordKind::Resume))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use syscollect_records::SchedRecord;

    fn record(ticks: u64, kind: RecordKind, tid: u32) -> SchedRecord {
        SchedRecord { stamp: Stamp::new(ticks, kind), tid, ..Default::default() }
    }

    #[test]
    fn each_chunk_says_which_task_was_current_before_it() {
        let mut stage = Stage::new(Lane::new(LaneKind::Sched, 3), 16);
        let mut chunks = Vec::new();
        for records in [
            [record(10, RecordKind::Resume, 7), record(20, RecordKind::Switch, 8)],
            [record(30, RecordKind::Waking, 9), record(40, RecordKind::Waking, 9)],
            [record(50, RecordKind::Switch, 9), record(60, RecordKind::Waking, 7)],
        ] {
            records.iter().for_each(|record| stage.data().extend(record.as_bytes()));
            stage.flush(Ticks(100), |_| 0, &mut |chunk| chunks.push(chunk.header));
        }
        let headers: Vec<_> = chunks
            .iter()
            .map(|c| (c.sequence, c.current_tid, c.records_before, c.first.0, c.last.0))
            .collect();
        assert_eq!(headers, [(0, u32::MAX, 0, 10, 20), (1, 8, 2, 30, 40), (2, 8, 4, 50, 60)]);
    }

    #[test]
    fn the_last_switch_of_a_chunk_says_who_runs_as_the_chunk_does() {
        let mut stage = Stage::new(Lane::new(LaneKind::Sched, 3), 16);
        let kinds = [RecordKind::Switch, RecordKind::Switch, RecordKind::Waking];
        let records = kinds.into_iter().zip(7..).map(|(kind, tid)| record(tid.into(), kind, tid));
        let mut chunks = Vec::new();
        records.for_each(|record| stage.data().extend(record.as_bytes()));
        stage.flush(Ticks(100), |_| 0, &mut |chunk| chunks.push(chunk));
        stage.data().extend(record(10, RecordKind::Waking, 7).as_bytes());
        stage.flush(Ticks(100), |_| 0, &mut |chunk| chunks.push(chunk));
        let last = since_last_switch(&chunks[0]).unwrap();
        let of = last.header;
        assert_eq!(last.data, chunks[0].data[16..]);
        assert_eq!((of.current_tid, of.first, of.last), (7, Ticks(8), Ticks(9)));
        assert_eq!((of.sequence, of.records_before, of.records, of.length), (0, 1, 2, 32));
        assert!(since_last_switch(&chunks[1]).is_none(), "nobody came");
    }

    #[test]
    fn much_waiting_becomes_several_chunks_of_whole_records() {
        let mut stage = Stage::new(Lane::new(LaneKind::Sample, 0), 24);
        stage.data().extend(std::iter::repeat_n(0, 24 * 10_000));
        assert!(stage.is_due(Flush::USUAL));
        let mut lengths = Vec::new();
        stage.flush(Ticks(0), |_| 0, &mut |chunk| lengths.push(chunk.data.len()));
        assert!(lengths.iter().all(|length| length % 24 == 0 && *length <= CHUNK_BYTES));
        assert_eq!(lengths.iter().sum::<usize>(), 240_000);
    }
}
