//! The lanes of tracepoints' records, one for each CPU that is recorded:
//! memory that the programs write and the collector maps
//! (`bpf/include/tracepoints.h` is the writing side).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use syscollect_records::{LANE_HEADER_SIZE, LANE_SLACK};

use crate::bpf_calls::{self, MapCreate};
use crate::error::CaptureError;
use crate::lane::LaneMemory;
use crate::ring_buffers::{Mapping, Records};

/// A map that may be mapped into memory (include/uapi/linux/bpf.h).
const MMAPABLE: u32 = 1 << 10;
/// A tail that no head reaches: to the programs the lane is full.
const CLOSED: u64 = 1 << 62;

/// The lanes of all CPUs, by CPU: a map of maps.
pub(super) struct Lanes {
    map: OwnedFd,
    data_bytes: usize,
}

impl Lanes {
    /// Room for the lanes of so many CPUs, each of `data_bytes` (a power of two), or of half as
    /// much where the kernel has no values so large (4 MiB is the most that 5.10 has).
    pub(super) fn new(cpus: u32, data_bytes: u64) -> Result<Self, CaptureError> {
        let data_bytes = data_bytes as usize;
        let made = Self::try_new(cpus, data_bytes).or_else(|_| Self::try_new(cpus, data_bytes / 2));
        made.map_err(|error| CaptureError::system("cannot make the lanes of tracepoints", error))
    }

    fn try_new(cpus: u32, data_bytes: usize) -> io::Result<Self> {
        // Any lane of the size shows the kernel what the elements are.
        let like = create_lane(data_bytes)?;
        let map = bpf_calls::create_map(MapCreate {
            map_type: bpf_calls::MAP_TYPE_ARRAY_OF_MAPS,
            key_size: 4,
            value_size: 4,
            max_entries: cpus,
            map_flags: 0,
            inner_map_fd: like.as_raw_fd() as u32,
        })?;
        Ok(Self { map, data_bytes })
    }

    /// What the programs find lanes by.
    pub(super) fn map(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }

    /// Bytes of each lane's data.
    pub(super) fn data_bytes(&self) -> u64 {
        self.data_bytes as u64
    }

    /// Gives a CPU its lane.
    pub(super) fn add_cpu(&self, cpu: u32) -> Result<LaneRecords, CaptureError> {
        self.made_lane(cpu).map_err(|error| {
            CaptureError::system(format!("cannot make a lane for tracepoints of CPU {cpu}"), error)
        })
    }

    fn made_lane(&self, cpu: u32) -> io::Result<LaneRecords> {
        let lane = create_lane(self.data_bytes)?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let mapping = Mapping::new(lane.as_fd(), 0, lane_bytes(self.data_bytes), access)?;
        // SAFETY: the mapping has these bytes, begins at a page, and is dropped with the lane.
        let memory = unsafe { LaneMemory::new(mapping.base, self.data_bytes) };
        bpf_calls::update_map(self.map(), cpu, &lane.as_raw_fd().to_ne_bytes())?;
        Ok(LaneRecords { memory, tail: 0, is_closed: false, _mapping: mapping })
    }
}

fn lane_bytes(data_bytes: usize) -> usize {
    LANE_HEADER_SIZE + data_bytes + LANE_SLACK
}

fn create_lane(data_bytes: usize) -> io::Result<OwnedFd> {
    bpf_calls::create_map(MapCreate {
        map_type: bpf_calls::MAP_TYPE_ARRAY,
        key_size: 4,
        value_size: lane_bytes(data_bytes) as u32,
        max_entries: 1,
        map_flags: MMAPABLE,
        inner_map_fd: 0,
    })
}

/// The records of one lane.
pub(super) struct LaneRecords {
    memory: LaneMemory,
    tail: u64,
    is_closed: bool,
    /// Declared after the lane that points into it.
    _mapping: Mapping,
}

impl LaneRecords {
    /// From now on nothing is written; what is there can still be read.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
        self.memory.release(CLOSED);
    }
}

impl Records for LaneRecords {
    fn fill(&self) -> f64 {
        self.memory.fill(self.tail)
    }

    fn read(&mut self, take: impl FnMut(&[u8]) -> bool) {
        self.tail = self.memory.read_records(self.tail, take);
        if !self.is_closed {
            self.memory.release(self.tail);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::mem::offset_of;
    use std::os::unix::fs::FileExt;
    use syscollect_records::LaneHeader;

    const DATA: usize = 4096;

    /// A lane in a file, written to as the programs write to memory.
    fn lane(file: &File) -> LaneRecords {
        file.set_len(lane_bytes(DATA) as u64).unwrap();
        let mapping =
            Mapping::new(file.as_fd(), 0, lane_bytes(DATA), libc::PROT_READ | libc::PROT_WRITE)
                .unwrap();
        // SAFETY: as of `Lanes::add_cpu`.
        let memory = unsafe { LaneMemory::new(mapping.base, DATA) };
        LaneRecords { memory, tail: 0, is_closed: false, _mapping: mapping }
    }

    fn write(file: &File, number: u64) {
        let at = LANE_HEADER_SIZE as u64 + 16 * number;
        file.write_at(&8u64.to_ne_bytes(), at).unwrap();
        file.write_at(&number.to_ne_bytes(), at + 8).unwrap();
        file.write_at(&(16 * (number + 1)).to_ne_bytes(), offset_of!(LaneHeader, head) as u64)
            .unwrap();
    }

    fn tail(file: &File) -> u64 {
        let mut word = [0; 8];
        file.read_at(&mut word, offset_of!(LaneHeader, tail) as u64).unwrap();
        u64::from_ne_bytes(word)
    }

    fn read(lane: &mut LaneRecords) -> Vec<u64> {
        let mut numbers = Vec::new();
        lane.read(|record| {
            numbers.push(u64::from_ne_bytes(record.try_into().unwrap()));
            true
        });
        numbers
    }

    #[test]
    fn what_was_read_is_free_again() {
        let file = tempfile::tempfile().unwrap();
        let mut lane = lane(&file);
        (0..3).for_each(|number| write(&file, number));
        assert!(lane.fill() > 0.0);
        assert_eq!((read(&mut lane), tail(&file)), (vec![0, 1, 2], 48));
        assert_eq!(lane.fill(), 0.0);
    }

    #[test]
    fn a_closed_lane_is_full_to_the_programs_and_still_gives_what_it_has() {
        let file = tempfile::tempfile().unwrap();
        let mut lane = lane(&file);
        write(&file, 0);
        lane.close();
        assert_eq!(read(&mut lane), [0]);
        let room_taken = 16u64.wrapping_sub(tail(&file));
        assert!(room_taken > DATA as u64, "the programs find {room_taken} bytes taken");
    }
}
