//! Mapping lanes: `perf_event` records as the kernel wrote them.
//!
//! Layouts: `enum perf_event_type` in `include/uapi/linux/perf_event.h`. Every
//! record ends with what `sample_id_all` adds for TID, TIME and CPU:
//! `{u32 pid, tid; u64 time; u32 cpu, res}`, the time in nanoseconds of
//! CLOCK_MONOTONIC_RAW.

use rustc_hash::FxHashMap;
use syscollect_model::{AddressSpaces, BuildId, ClockMap, Mapping, Ticks};

const PERF_RECORD_MMAP: u32 = 1;
const PERF_RECORD_LOST: u32 = 2;
const PERF_RECORD_COMM: u32 = 3;
const PERF_RECORD_MMAP2: u32 = 10;
const PERF_RECORD_LOST_SAMPLES: u32 = 13;

const MISC_CPUMODE_MASK: u16 = 7;
const MISC_CPUMODE_KERNEL: u16 = 1;
const MISC_MMAP_DATA: u16 = 1 << 13;
const MISC_COMM_EXEC: u16 = 1 << 13;
const MISC_MMAP_BUILD_ID: u16 = 1 << 14;

const HEADER: usize = 8;
const TRAILER: usize = 24;

/// What a mapping lane says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MappingRecord {
    /// A file became executable memory.
    Map {
        pid: u32,
        start: u64,
        length: u64,
        file_offset: u64,
        path: String,
        build_id: BuildId,
        raw_ns: u64,
    },
    /// A process begins a new program, whose mappings follow.
    Exec { pid: u32, raw_ns: u64 },
    /// The kernel's buffer was full.
    Lost(u64),
    /// Something that says nothing about executable memory.
    Other,
}

impl MappingRecord {
    /// When it happened, nanoseconds of CLOCK_MONOTONIC_RAW, where it tells of memory.
    pub(crate) fn raw_ns(&self) -> Option<u64> {
        match self {
            Self::Map { raw_ns, .. } | Self::Exec { raw_ns, .. } => Some(*raw_ns),
            Self::Lost(_) | Self::Other => None,
        }
    }
}

/// What a chunk of a mapping lane holds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadMappings {
    /// What tells of memory, in the lane's order.
    pub(crate) records: Vec<MappingRecord>,
    /// Records of any kind.
    pub(crate) count: u64,
    pub(crate) undecodable: u64,
    /// What the kernel's buffer had no room for.
    pub(crate) lost: u64,
}

/// Reads a chunk of a mapping lane.
pub(crate) fn read_mappings(data: &[u8]) -> ReadMappings {
    let mut read = ReadMappings::default();
    for record in MappingRecords::new(data) {
        read.count += u64::from(record.is_some());
        match record {
            Some(MappingRecord::Lost(count)) => read.lost = read.lost.saturating_add(count),
            Some(MappingRecord::Other) => {}
            Some(record) => read.records.push(record),
            None => read.undecodable += 1,
        }
    }
    read
}

/// What a lane of mappings says of a process's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemoryChange {
    /// A file became executable memory.
    Mapped(Mapping),
    /// A process begins a new program, whose mappings follow.
    Exec {
        /// The process.
        pid: u32,
        /// When.
        at: Ticks,
    },
}

/// Gives what a chunk of a lane of mappings says, in the lane's order. What cannot be read is left
/// out.
pub fn each_memory_change(data: &[u8], clock: &ClockMap, mut on: impl FnMut(MemoryChange)) {
    for record in MappingRecords::new(data).flatten() {
        match record {
            MappingRecord::Map { pid, start, length, file_offset, path, build_id, raw_ns } => {
                let Some(end) = start.checked_add(length) else { continue };
                let since = clock.ticks_at_monotonic_raw(raw_ns);
                let mapping = Mapping { pid, start, end, file_offset, path, build_id, since };
                on(MemoryChange::Mapped(mapping));
            }
            MappingRecord::Exec { pid, raw_ns } => {
                on(MemoryChange::Exec { pid, at: clock.ticks_at_monotonic_raw(raw_ns) });
            }
            MappingRecord::Lost(_) | MappingRecord::Other => {}
        }
    }
}

/// Notes what a record says of `spaces`, and in `execs` when a process began a new program, ticks.
pub(crate) fn add_mapping(
    record: MappingRecord,
    clock: &ClockMap,
    spaces: &mut AddressSpaces,
    execs: &mut FxHashMap<u32, Vec<u64>>,
) {
    match record {
        MappingRecord::Map { pid, start, length, file_offset, path, build_id, raw_ns } => {
            let Some(end) = start.checked_add(length) else { return };
            let since = clock.ticks_at_monotonic_raw(raw_ns);
            spaces.map(Mapping { pid, start, end, file_offset, path, build_id, since });
        }
        MappingRecord::Exec { pid, raw_ns } => {
            let at = clock.ticks_at_monotonic_raw(raw_ns);
            spaces.exec(pid, at);
            execs.entry(pid).or_default().push(at.0);
        }
        MappingRecord::Lost(_) | MappingRecord::Other => {}
    }
}

/// Reads the records of one chunk. A record that does not fit ends it: the
/// next one's start is not known then; the iterator gives `None` inside.
struct MappingRecords<'a> {
    data: &'a [u8],
}

impl<'a> MappingRecords<'a> {
    fn new(data: &'a [u8]) -> Self {
        Self { data }
    }
}

impl Iterator for MappingRecords<'_> {
    /// The record; `None` for one that cannot be read.
    type Item = Option<MappingRecord>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.data.is_empty() {
            return None;
        }
        let size = u16_at(self.data, 6).map_or(0, usize::from);
        let Some((record, rest)) = self.data.split_at_checked(size).filter(|_| size >= HEADER)
        else {
            self.data = &[];
            return Some(None);
        };
        self.data = rest;
        Some(parse(record))
    }
}

fn parse(record: &[u8]) -> Option<MappingRecord> {
    let (kind, misc) = (u32_at(record, 0)?, u16_at(record, 4)?);
    let body = record.get(HEADER..record.len().checked_sub(TRAILER)?)?;
    let raw_ns = u64_at(record, record.len() - TRAILER + 8)?;
    match kind {
        PERF_RECORD_MMAP2
            if misc & MISC_MMAP_DATA == 0 && misc & MISC_CPUMODE_MASK != MISC_CPUMODE_KERNEL =>
        {
            let build_id =
                if misc & MISC_MMAP_BUILD_ID != 0 { build_id(body)? } else { BuildId::default() };
            map(body, 64, build_id, raw_ns)
        }
        PERF_RECORD_MMAP
            if misc & MISC_MMAP_DATA == 0 && misc & MISC_CPUMODE_MASK != MISC_CPUMODE_KERNEL =>
        {
            map(body, 32, BuildId::default(), raw_ns)
        }
        PERF_RECORD_COMM if misc & MISC_COMM_EXEC != 0 => {
            Some(MappingRecord::Exec { pid: u32_at(body, 0)?, raw_ns })
        }
        PERF_RECORD_LOST => Some(MappingRecord::Lost(u64_at(body, 8)?)),
        PERF_RECORD_LOST_SAMPLES => Some(MappingRecord::Lost(u64_at(body, 0)?)),
        _ => Some(MappingRecord::Other),
    }
}

/// `u32 pid, tid; u64 addr, len, pgoff`, then, at `name`, the path.
fn map(body: &[u8], name: usize, build_id: BuildId, raw_ns: u64) -> Option<MappingRecord> {
    let (start, length, file_offset) = (u64_at(body, 8)?, u64_at(body, 16)?, u64_at(body, 24)?);
    let path = text(body.get(name..)?);
    Some(MappingRecord::Map {
        pid: u32_at(body, 0)?,
        start,
        length,
        file_offset,
        path,
        build_id,
        raw_ns,
    })
}

/// `u8 size, reserved[3]; u8 build_id[20]` in the place of device and inode.
fn build_id(body: &[u8]) -> Option<BuildId> {
    let size = usize::from(*body.get(32)?).min(20);
    Some(BuildId::from_bytes(body.get(36..36 + size)?))
}

/// Bytes up to the first zero, what is no UTF-8 replaced.
pub(crate) fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A record as the kernel lays it out.
    fn record(kind: u32, misc: u16, body: &[u8], raw_ns: u64) -> Vec<u8> {
        let size = (HEADER + body.len() + TRAILER) as u16;
        let mut bytes =
            [&kind.to_le_bytes()[..], &misc.to_le_bytes(), &size.to_le_bytes(), body].concat();
        bytes.extend([0; 8]);
        bytes.extend(raw_ns.to_le_bytes());
        bytes.extend([0; 8]);
        bytes
    }

    fn mmap2() -> Vec<u8> {
        let numbers = [7u64 | 7 << 32, 0x4000, 0x2000, 0x1000].map(u64::to_le_bytes).concat();
        let build_id = [&[4, 0, 0, 0, 0xde, 0xad, 0xbe, 0xef][..], &[0; 16]].concat();
        record(
            PERF_RECORD_MMAP2,
            MISC_MMAP_BUILD_ID | 2,
            &[&numbers[..], &build_id, &[0; 8], b"/bin/cat\0\0\0\0\0\0\0\0"].concat(),
            55,
        )
    }

    #[test]
    fn a_mapping_has_its_build_id_and_its_path() {
        let expected = MappingRecord::Map {
            pid: 7,
            start: 0x4000,
            length: 0x2000,
            file_offset: 0x1000,
            path: "/bin/cat".into(),
            build_id: BuildId::from_bytes(&[0xde, 0xad, 0xbe, 0xef]),
            raw_ns: 55,
        };
        assert_eq!(MappingRecords::new(&mmap2()).collect::<Vec<_>>(), [Some(expected)]);
    }

    #[test]
    fn only_a_name_that_came_with_a_program_is_an_exec() {
        let body = [&[9, 0, 0, 0, 9, 0, 0, 0][..], b"cat\0\0\0\0\0"].concat();
        let bytes = [
            record(PERF_RECORD_COMM, MISC_COMM_EXEC, &body, 1),
            record(PERF_RECORD_COMM, 0, &body, 2),
        ]
        .concat();
        let records: Vec<_> = MappingRecords::new(&bytes).collect();
        assert_eq!(
            records,
            [Some(MappingRecord::Exec { pid: 9, raw_ns: 1 }), Some(MappingRecord::Other)]
        );
    }

    #[test]
    fn what_the_kernel_lost_is_counted() {
        let body = [1u64, 42].map(u64::to_le_bytes).concat();
        let bytes = record(PERF_RECORD_LOST, 0, &body, 1);
        assert_eq!(MappingRecords::new(&bytes).next(), Some(Some(MappingRecord::Lost(42))));
    }

    #[test]
    fn a_record_that_was_cut_is_one_unreadable_record() {
        let bytes = mmap2();
        assert_eq!(MappingRecords::new(&bytes[..bytes.len() - 1]).collect::<Vec<_>>(), [None]);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_end(data in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(MappingRecords::new(&data).count() <= data.len());
        }
    }
}
