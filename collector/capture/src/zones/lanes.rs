//! The lanes that the collector gives to threads, and the chunks they fill.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use syscollect_model::{Lane, LaneKind, Ticks};
use syscollect_records::{Stamp, ZoneChunk, ZoneLogChunk};
use syscollect_store::{Chunk, ChunkHeader};

use super::items::Piece;
use crate::stage::CHUNK_BYTES;
use crate::zones::turn::TurnBudget;

/// What a lane carries over from one thread to the next.
#[derive(Clone, Copy, Default)]
struct Slot {
    sequence: u64,
    records_before: u64,
    owners: u32,
}

/// For how long a lane that a thread had is nobody's: programs may be read so late, and what lies
/// in a lane has to lie there in order of time.
const REST: Duration = Duration::from_secs(12);

/// The numbers of lanes.
#[derive(Default)]
pub(super) struct Lanes {
    slots: Vec<Slot>,
    /// Those that threads had, the first that ended first.
    free: VecDeque<FreeLane>,
}

/// A lane that is nobody's.
struct FreeLane {
    number: u16,
    since: Instant,
}

impl Lanes {
    /// A lane for a thread; `None` when all numbers are taken.
    pub(super) fn open(&mut self, client: u32, tid: u32, at: Instant) -> Option<ThreadLane> {
        let has_rested = |free: &FreeLane| at.saturating_duration_since(free.since) >= REST;
        let next = u16::try_from(self.slots.len());
        let number = match next {
            Ok(next) if !self.free.front().is_some_and(has_rested) => {
                self.slots.push(Slot::default());
                next
            }
            _ => self.free.pop_front()?.number,
        };
        let slot = &mut self.slots[usize::from(number)];
        slot.owners = slot.owners.wrapping_add(1);
        let prefix = ZoneChunk { client, tid, owner: slot.owners, reserved: 0 };
        Some(ThreadLane { number, slot: *slot, prefix, staged: Staged::default() })
    }

    /// Lanes that threads have now.
    pub(super) fn used(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Takes a lane back, once its last chunk has gone on.
    pub(super) fn close(&mut self, lane: ThreadLane, at: Instant) {
        if let Some(slot) = self.slots.get_mut(usize::from(lane.number)) {
            *slot = lane.slot;
            self.free.push_back(FreeLane { number: lane.number, since: at });
        }
    }
}

/// Bytes that wait for company. They grow as they come: a thread that writes
/// little holds little, for there may be many of them.
#[derive(Default)]
struct Staged {
    data: Vec<u8>,
    records: u32,
    first: Option<Stamp>,
    last: Option<Stamp>,
    since: Option<Instant>,
    /// The program's ticks before the first of them was read.
    read: Ticks,
}

impl Staged {
    fn begin(&mut self, prefix: &[u8], now: Ticks) {
        if self.data.is_empty() {
            (self.since, self.read) = (Some(Instant::now()), now);
            self.data.extend_from_slice(prefix);
        }
    }

    fn is_due(&self, turn: &TurnBudget) -> bool {
        let Some(since) = self.since else { return false };
        self.data.len() >= turn.room.min(CHUNK_BYTES)
            || turn.now.duration_since(since) >= turn.longest_wait
    }
}

/// A thread's lane.
pub(super) struct ThreadLane {
    number: u16,
    slot: Slot,
    prefix: ZoneChunk,
    staged: Staged,
}

impl ThreadLane {
    /// Whether what waits should go on now, where a lane may hold back that many bytes.
    pub(super) fn is_due(&self, turn: &TurnBudget) -> bool {
        self.staged.is_due(turn)
    }

    /// Adds items. What waits goes on first if there is no room for them, unless
    /// they belong to it.
    pub(super) fn append(&mut self, piece: Piece<'_>, now: Ticks, out: &mut Vec<Chunk>) {
        if piece.starts_stamped && self.staged.data.len() + size_of_val(piece.words) > CHUNK_BYTES {
            self.flush(now, out);
        }
        self.staged.begin(self.prefix.as_bytes(), now);
        // SAFETY: words have no padding and any alignment does for bytes; the
        // slice covers exactly them.
        let bytes = unsafe {
            std::slice::from_raw_parts(piece.words.as_ptr().cast::<u8>(), size_of_val(piece.words))
        };
        self.staged.data.extend_from_slice(bytes);
        self.staged.records += piece.items;
        self.staged.first = self.staged.first.or(piece.first);
        self.staged.last = piece.last.or(self.staged.last);
    }

    /// Sends what waits. `now` is in the ticks of the client.
    pub(super) fn flush(&mut self, now: Ticks, out: &mut Vec<Chunk>) {
        if self.staged.data.is_empty() {
            return;
        }
        let Staged { mut data, records, first, last, read, .. } = std::mem::take(&mut self.staged);
        // Where nothing is stamped: what was not read with it has stamps from then on, though it may
        // be from before now.
        let ticks =
            |stamp: Option<Stamp>| stamp.map_or(read, |stamp| Ticks(stamp.ticks_near(now.0)));
        data.shrink_to_fit();
        let header = ChunkHeader {
            lane: Lane::new(LaneKind::Zone, self.number),
            sequence: self.slot.sequence,
            first: ticks(first),
            last: ticks(last),
            current_tid: self.prefix.tid,
            stride: 0,
            records_before: self.slot.records_before,
            records,
            length: data.len() as u32,
        };
        self.slot.sequence += 1;
        self.slot.records_before += u64::from(records);
        out.push(Chunk { header, data });
    }
}

/// The one lane of all logs.
#[derive(Default)]
pub(super) struct LogLane {
    sequence: u64,
    records_before: u64,
}

impl LogLane {
    /// Sends entries of a client that lie at `position` of its log.
    pub(super) fn send(
        &mut self,
        client: u32,
        position: u32,
        entries: &[u8],
        records: u32,
        now: Ticks,
        sink: &mut dyn FnMut(Chunk),
    ) {
        let prefix = ZoneLogChunk { client, position, reserved: 0 };
        let data = [prefix.as_bytes(), entries].concat();
        let header = ChunkHeader {
            lane: Lane::new(LaneKind::ZoneLog, 0),
            sequence: self.sequence,
            first: now,
            last: now,
            current_tid: u32::MAX,
            stride: 0,
            records_before: self.records_before,
            records,
            length: data.len() as u32,
        };
        self.sequence += 1;
        self.records_before += u64::from(records);
        sink(Chunk { header, data });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_is_anothers_when_nobody_can_write_before_its_last_thread_ended() {
        let (mut lanes, start) = (Lanes::default(), Instant::now());
        let first = lanes.open(1, 1, start).unwrap();
        lanes.close(first, start);
        let other = lanes.open(1, 2, start).unwrap();
        assert_eq!((other.number, lanes.used()), (1, 1), "it may have written before that");
        let later = lanes.open(1, 3, start + REST).unwrap();
        assert_eq!((later.number, later.prefix.owner, lanes.used()), (0, 2, 2));
    }

    #[test]
    fn where_all_numbers_are_taken_the_lane_that_was_free_for_longest_is_given() {
        let (mut lanes, start) = (Lanes::default(), Instant::now());
        let open = |lanes: &mut Lanes| lanes.open(1, 1, start);
        let all: Vec<ThreadLane> = std::iter::from_fn(|| open(&mut lanes)).collect();
        assert_eq!(all.len(), 1 << 16);
        all.into_iter().rev().for_each(|lane| lanes.close(lane, start));
        assert_eq!(open(&mut lanes).map(|lane| lane.number), Some(u16::MAX));
    }

    #[test]
    fn a_name_that_waited_alone_is_from_when_it_was_read() {
        let (prefix, staged) = (ZoneChunk::default(), Staged::default());
        let mut lane = ThreadLane { number: 0, slot: Slot::default(), prefix, staged };
        let name = Piece {
            words: &[0, 0],
            items: 1,
            events: 0,
            first: None,
            last: None,
            starts_stamped: false,
        };
        let mut out = Vec::new();
        lane.append(name, Ticks(100), &mut out);
        // Until then its thread may have written zones, which are not read yet.
        lane.flush(Ticks(900), &mut out);
        let [chunk] = out.as_slice() else { panic!("{} chunks", out.len()) };
        assert_eq!((chunk.header.first, chunk.header.last), (Ticks(100), Ticks(100)));
    }
}
