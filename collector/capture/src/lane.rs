//! Reading a lane: memory that the kernel programs write and the collector
//! maps (`bpf/include/lane.h` is the writing side).

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use syscollect_records::{LANE_HEADER_SIZE, LANE_SLACK, LaneHeader, StackHeader};

/// The memory of one lane: header, data, slack.
///
/// Records start below `data_bytes` and may run on into the slack; the next
/// one starts where the remainder of its position by `data_bytes` says.
pub(crate) struct LaneMemory {
    base: NonNull<u8>,
    data_bytes: u64,
}

// SAFETY: the memory is shared with the kernel anyway; every access from here
// is an atomic load or store, or a copy of data that `head` has published.
unsafe impl Send for LaneMemory {}

/// The longest record whose length is told before it.
const LONGEST_RECORD: u64 = LANE_SLACK as u64 - 8;

/// How long the records of a lane are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordSize {
    /// All the same, bytes.
    Fixed(usize),
    /// A `StackHeader` each, and the addresses it announces.
    Stacks,
}

impl LaneMemory {
    /// # Safety
    ///
    /// `base` points to `LANE_HEADER_SIZE + data_bytes + LANE_SLACK` bytes,
    /// aligned to 8, that stay mapped as long as the value lives and that only
    /// the kernel programs write to besides. `data_bytes` is a power of two.
    pub(crate) unsafe fn new(base: NonNull<u8>, data_bytes: usize) -> Self {
        Self { base, data_bytes: data_bytes as u64 }
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        debug_assert!(offset.is_multiple_of(8) && offset + 8 <= LANE_HEADER_SIZE);
        // SAFETY: within the header by the assertion, aligned because the base
        // is, and accessed as an atomic by everybody on this side.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(offset).cast()) }
    }

    /// End of the published data. Everything before it may be read.
    pub(crate) fn head(&self) -> u64 {
        self.word(std::mem::offset_of!(LaneHeader, head)).load(Ordering::Acquire)
    }

    /// Gives the data before `tail` back to the kernel programs.
    pub(crate) fn release(&self, tail: u64) {
        self.word(std::mem::offset_of!(LaneHeader, tail)).store(tail, Ordering::Release);
    }

    /// Sets the tick count at which the CPU's clock event counted zero.
    pub(crate) fn set_clock_base(&self, base: u64) {
        self.word(std::mem::offset_of!(LaneHeader, clock_base)).store(base, Ordering::Release);
    }

    /// Makes the first event restate which task is current.
    pub(crate) fn forget_current(&self) {
        self.word(std::mem::offset_of!(LaneHeader, current)).store(u64::MAX, Ordering::Release);
    }

    /// A copy of the header's counters.
    pub(crate) fn header(&self) -> LaneHeader {
        let mut bytes = [0; LaneHeader::SIZE];
        for (index, word) in bytes.chunks_exact_mut(8).enumerate() {
            word.copy_from_slice(&self.word(index * 8).load(Ordering::Relaxed).to_le_bytes());
        }
        LaneHeader::from_bytes(&bytes)
            .unwrap_or_else(|| unreachable!("the buffer has the header's size"))
    }

    /// How full the lane is, 0 to 1, for a reader that stands at `tail`.
    pub(crate) fn fill(&self, tail: u64) -> f64 {
        self.head().wrapping_sub(tail) as f64 / self.data_bytes as f64
    }

    /// Appends the data from `tail` to `head` to `out`, as far as it goes
    /// without jumping: up to the end of the last record that starts before
    /// the data's end. Returns the new tail.
    pub(crate) fn copy_run(
        &self,
        tail: u64,
        head: u64,
        size: RecordSize,
        out: &mut Vec<u8>,
    ) -> u64 {
        let start = tail & (self.data_bytes - 1);
        let available = head - tail;
        let to_end = self.data_bytes - start;
        let length = if available <= to_end {
            available
        } else {
            self.run_length(start, to_end, size).min(available)
        };
        // SAFETY: [start, start + length) lies within data and slack: length is
        // at most what is left to the data's end plus one record, which is
        // shorter than the slack. The bytes before `head` are complete (Acquire
        // above) and not reused before `release`.
        let run = unsafe {
            std::slice::from_raw_parts(
                self.base.as_ptr().add(LANE_HEADER_SIZE + start as usize),
                length as usize,
            )
        };
        out.extend_from_slice(run);
        tail + length
    }

    /// Hands the records from `tail` to `head` to `take`, as long as it wants more; in the lane
    /// their bytes are told before each. Returns the new tail.
    pub(crate) fn read_records(&self, tail: u64, mut take: impl FnMut(&[u8]) -> bool) -> u64 {
        let (mut at, head, mut more) = (tail, self.head(), true);
        while more && at < head {
            let start = LANE_HEADER_SIZE + (at & (self.data_bytes - 1)) as usize;
            // SAFETY: a record starts before the data's end and is shorter than the slack behind
            // it, the word of its length included. The bytes before `head` are complete (Acquire
            // above), and not reused before `release`.
            let length = unsafe { self.base.as_ptr().add(start).cast::<u64>().read() };
            if length == 0 || length > LONGEST_RECORD {
                // No program writes that; what follows cannot be found.
                return head;
            }
            // SAFETY: as above.
            let record = unsafe {
                std::slice::from_raw_parts(self.base.as_ptr().add(start + 8), length as usize)
            };
            more = take(record);
            at += 8 + length;
        }
        at
    }

    /// Bytes from `start` to the end of the last record that starts within `to_end` bytes.
    fn run_length(&self, start: u64, to_end: u64, size: RecordSize) -> u64 {
        match size {
            RecordSize::Fixed(stride) => to_end.div_ceil(stride as u64) * stride as u64,
            RecordSize::Stacks => {
                let mut length = 0;
                while length < to_end {
                    length += self.stack_length(start + length);
                }
                length
            }
        }
    }

    /// Bytes of the stack definition at this offset of the data.
    fn stack_length(&self, offset: u64) -> u64 {
        let mut bytes = [0; StackHeader::SIZE];
        // SAFETY: the record starts before the data's end, and the slack behind
        // it is longer than a header.
        unsafe {
            let from = self.base.as_ptr().add(LANE_HEADER_SIZE + offset as usize);
            std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), bytes.len());
        }
        let frames = StackHeader::from_bytes(&bytes).map_or(0, |header| header.frames);
        let length = StackHeader::SIZE + usize::from(frames) * 8;
        length.min(LANE_SLACK) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syscollect_records::{RecordKind, SchedRecord, Stamp};

    const DATA: usize = 64;

    /// A lane of 64 bytes in ordinary memory, written to as the kernel does.
    struct FakeLane {
        memory: Vec<u64>,
        head: u64,
    }

    impl FakeLane {
        fn new() -> Self {
            Self { memory: vec![0; (LANE_HEADER_SIZE + DATA + LANE_SLACK) / 8], head: 0 }
        }

        fn lane(&mut self) -> LaneMemory {
            // SAFETY: the vector has that many bytes and outlives the lane in these tests.
            unsafe { LaneMemory::new(NonNull::new(self.memory.as_mut_ptr().cast()).unwrap(), DATA) }
        }

        fn write(&mut self, record: &[u8]) {
            let at = LANE_HEADER_SIZE + (self.head as usize % DATA);
            for (index, word) in record.chunks_exact(8).enumerate() {
                self.memory[at / 8 + index] = u64::from_ne_bytes(word.try_into().unwrap());
            }
            self.head += record.len() as u64;
            self.memory[0] = self.head;
        }
    }

    #[test]
    fn a_record_that_starts_before_the_end_runs_on_into_the_slack() {
        let mut fake = FakeLane::new();
        let (mut tail, mut read) = (0, Vec::new());
        for round in 0..10 {
            for tid in [2 * round, 2 * round + 1] {
                fake.write(&record(tid));
            }
            let lane = fake.lane();
            while tail < lane.head() {
                tail = lane.copy_run(tail, lane.head(), RecordSize::Fixed(24), &mut read);
                lane.release(tail);
            }
        }
        let tids: Vec<u32> = read
            .chunks_exact(24)
            .map(|bytes| SchedRecord::from_bytes(bytes).unwrap().tid)
            .collect();
        assert_eq!(tids, (0..20).collect::<Vec<_>>());
        assert_eq!(fake.lane().header().tail, 480);
    }

    fn record(tid: u32) -> Vec<u8> {
        let event = SchedRecord {
            stamp: Stamp::new(u64::from(tid), RecordKind::Switch),
            tid,
            ..Default::default()
        };
        let mut bytes = event.as_bytes().to_vec();
        bytes.extend([0; 8]);
        bytes
    }

    #[test]
    fn stacks_of_different_depth_come_out_whole() {
        let mut fake = FakeLane::new();
        let (mut tail, mut read, mut written) = (0, Vec::new(), Vec::<u8>::new());
        for id in 1..20u32 {
            let frames = id % 4;
            let header = StackHeader {
                stamp: Stamp::new(u64::from(id), RecordKind::Stack),
                id,
                frames: frames as u16,
                ..Default::default()
            };
            let mut bytes = header.as_bytes().to_vec();
            (0..frames).for_each(|frame| bytes.extend((u64::from(frame) << 32).to_ne_bytes()));
            fake.write(&bytes);
            written.extend(&bytes);
            let lane = fake.lane();
            while tail < lane.head() {
                tail = lane.copy_run(tail, lane.head(), RecordSize::Stacks, &mut read);
            }
        }
        assert_eq!(read, written);
    }

    #[test]
    fn records_that_tell_their_lengths_come_out_one_by_one() {
        let mut fake = FakeLane::new();
        let (mut tail, mut read, mut written) = (0, Vec::new(), Vec::new());
        for number in 0..40u8 {
            // Two of them fit.
            let record = vec![number; 8 * (1 + usize::from(number) % 3)];
            fake.write(&[&(record.len() as u64).to_ne_bytes()[..], &record].concat());
            written.push(record);
            if number % 2 == 0 {
                continue;
            }
            for wanted in [1, 2] {
                let lane = fake.lane();
                let before = read.len();
                tail = lane.read_records(tail, |record| {
                    read.push(record.to_vec());
                    read.len() < before + wanted
                });
                lane.release(tail);
            }
        }
        assert_eq!((read, tail), (written, fake.head));
    }

    #[test]
    fn a_length_that_no_program_writes_ends_the_reading() {
        for length in [0, LONGEST_RECORD + 1, u64::MAX] {
            let mut fake = FakeLane::new();
            fake.write(&length.to_ne_bytes());
            assert_eq!(fake.lane().read_records(0, |_| unreachable!("there is no record")), 8);
        }
    }
}
