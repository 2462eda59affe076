//! Executable mappings as they are made: per-CPU perf events, whose records go
//! into the capture as they are. The only look into them is for files that
//! must be held open before their process ends.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::time::{Duration, Instant};

use syscollect_model::{BuildId, Lane, LaneKind, LossCause, Mapping, SessionInfo, Ticks};
use syscollect_store::{LaneLoss, LostRecord};

use super::event::PerfEvent;
use super::ring::PerfRing;
use crate::error::CaptureError;
use crate::source::{Drained, Observed, Source};
use crate::stage::{Flush, Stage};

/// Pages of each CPU's ring: some 1,500 mappings between two polls.
const RING_PAGES: usize = 64;
const PAGE: u32 = 4096;

const PERF_RECORD_LOST: u32 = 2;
const PERF_RECORD_COMM: u32 = 3;
const PERF_RECORD_MMAP2: u32 = 10;
const PERF_RECORD_MISC_COMM_EXEC: u16 = 1 << 13;
const PERF_RECORD_MISC_MMAP_BUILD_ID: u16 = 1 << 14;

/// The mapping events of all CPUs.
#[derive(Default)]
pub(crate) struct MappingRings {
    build_ids: bool,
    cpus: Vec<CpuRing>,
    shares: Shares,
    missing: Vec<String>,
}

struct CpuRing {
    cpu: u32,
    ring: PerfRing,
    stage: Stage,
    lost: u64,
    beyond_share: u64,
}

/// Mappings of one process that are recorded in a [`SHARE_TIME`]: large programs map some hundreds
/// when they start. A loop of mappings would otherwise fill the disk, and open files without end.
const SHARE: u32 = 4096;
const SHARE_TIME: Duration = Duration::from_secs(1);
/// Bytes of them: a path may have 4,096.
const SHARE_BYTES: usize = 1 << 20;
/// Records with paths of more than half a kilobyte, which hardly any program has, and bytes of them
/// that are recorded of all processes together: a user can have thousands of processes begin in a
/// second, each under another such path, and whoever reads the capture holds all of them.
const LONG_BYTES: usize = 600;
const SHARE_OF_LONG_BYTES: usize = 1 << 20;

/// How much of its share each process has used.
#[derive(Default)]
struct Shares {
    since: Option<Instant>,
    used: HashMap<u32, UsedShare>,
    long_bytes: usize,
}

/// What was recorded of a process's mappings.
#[derive(Clone, Copy, Default)]
struct UsedShare {
    records: u32,
    bytes: usize,
}

impl Shares {
    /// Begins anew where it is time for that.
    fn renew(&mut self) {
        if self.since.is_none_or(|since| since.elapsed() >= SHARE_TIME) {
            self.since = Some(Instant::now());
            self.used.clear();
            self.long_bytes = 0;
        }
    }

    /// Whether the process may have one more, of so many bytes.
    fn take(&mut self, pid: u32, bytes: usize) -> bool {
        let is_long = bytes > LONG_BYTES;
        let used = self.used.entry(pid).or_default();
        let is_beyond = used.records == SHARE
            || used.bytes + bytes > SHARE_BYTES
            || is_long && self.long_bytes + bytes > SHARE_OF_LONG_BYTES;
        if is_beyond {
            return false;
        }
        used.records += 1;
        used.bytes += bytes;
        self.long_bytes += if is_long { bytes } else { 0 };
        true
    }
}

impl CpuRing {
    /// Moves what is in the ring to the stage, and adds what should be noted of it. Returns how
    /// full the ring was, 0 to 1.
    fn collect(
        &mut self,
        shares: &mut Shares,
        scratch: &mut Vec<u8>,
        observed: &mut Vec<Observed>,
    ) -> f64 {
        scratch.clear();
        self.ring.read(scratch);
        for record in records(scratch) {
            match record.kind() {
                MappingRecordKind::Lost => self.lost += record.word(8).unwrap_or(0),
                // The task lanes tell of renames, and of tasks that begin and end.
                MappingRecordKind::Renamed | MappingRecordKind::Other => continue,
                MappingRecordKind::Mapped
                    if !shares.take(record.pid().unwrap_or(0), record.bytes.len()) =>
                {
                    self.beyond_share += 1;
                    continue;
                }
                _ => {}
            }
            self.stage.data().extend_from_slice(record.bytes);
            observed.extend(record.observed());
        }
        scratch.len() as f64 / (RING_PAGES * PAGE as usize) as f64
    }
}

impl MappingRings {
    fn open(&mut self, cpu: u32) -> io::Result<()> {
        let event = PerfEvent::mappings(cpu, RING_PAGES as u32 * PAGE / 2, self.build_ids)?;
        let ring = PerfRing::map(event, RING_PAGES)?;
        match self.cpus.iter_mut().find(|entry| entry.cpu == cpu) {
            Some(entry) => entry.ring = ring,
            None => {
                let lane = Lane::new(LaneKind::Mapping, cpu as u16);
                self.cpus.push(CpuRing {
                    cpu,
                    ring,
                    stage: Stage::new(lane, 0),
                    lost: 0,
                    beyond_share: 0,
                });
            }
        }
        Ok(())
    }
}

impl Source for MappingRings {
    /// Never fails: a recording without mappings of new files is still one.
    fn attach(&mut self, cpus: &[u32]) -> Result<(), CaptureError> {
        // Before 5.12 the kernel refuses the attribute: build ids are then read
        // from the files.
        self.build_ids = cpus.first().is_some_and(|cpu| PerfEvent::mappings(*cpu, 1, true).is_ok());
        if let Err(error) = cpus.iter().try_for_each(|cpu| self.open(*cpu)) {
            self.missing.push(format!("mappings of new files are not recorded: {error}"));
            self.cpus.clear();
        }
        Ok(())
    }

    fn add_cpu(&mut self, cpu: u32) -> Result<(), CaptureError> {
        self.open(cpu).map_err(|error| {
            CaptureError::system(format!("cannot record mappings on CPU {cpu}"), error)
        })
    }

    fn drain(&mut self, now: Ticks, flush: Flush, out: &mut Drained<'_>) -> f64 {
        self.shares.renew();
        let (mut scratch, mut observed, mut fullest) = (Vec::new(), Vec::new(), 0.0f64);
        for entry in &mut self.cpus {
            fullest = fullest.max(entry.collect(&mut self.shares, &mut scratch, &mut observed));
            if entry.stage.is_due(flush) {
                entry.stage.flush(now, |data| records(data).count() as u32, out.chunk);
            }
        }
        report_in_order(observed, out.observe);
        fullest
    }

    /// The rings stay mapped, so that the last records can be drained.
    fn detach(&mut self, _cpus: &[u32]) {}

    fn losses(&self) -> Vec<LaneLoss> {
        let losses = self.cpus.iter().flat_map(|entry| {
            let causes =
                [(LossCause::LaneFull, entry.lost), (LossCause::BeyondShare, entry.beyond_share)];
            causes.map(|(cause, count)| loss(entry, cause, count))
        });
        losses.filter(|loss| loss.count > 0).collect()
    }

    fn statistics(&self) -> BTreeMap<String, u64> {
        BTreeMap::new()
    }

    fn describe(&self, session: &mut SessionInfo) {
        session.mappings_unrecorded = self.cpus.is_empty();
    }

    fn missing(&self) -> &[String] {
        &self.missing
    }
}

/// Reports what all rings had by its time. A program moves to another CPU when it begins: by rings,
/// what it mapped may come before that, and would be taken for its predecessor's.
fn report_in_order(mut observed: Vec<Observed>, report: &mut dyn FnMut(Observed)) {
    observed.sort_by_key(Observed::at);
    observed.into_iter().for_each(report);
}

fn loss(entry: &CpuRing, cause: LossCause, count: u64) -> LaneLoss {
    LaneLoss {
        origin: LaneKind::Mapping.into(),
        cpu: Some(entry.cpu),
        record: LostRecord::Mapping,
        cause,
        user: None,
        count,
    }
}

/// What a record of these lanes changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Changed {
    /// A process got a mapping at this address.
    Mapped {
        /// Its start.
        start: u64,
    },
    /// A process began to run another program.
    Exec,
    /// Nothing of that: records that were lost, a rename.
    Other,
}

/// A record of these lanes, as far as it tells what changed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change<'a> {
    /// The process.
    pub(crate) pid: u32,
    /// When, nanoseconds of CLOCK_MONOTONIC_RAW.
    pub(crate) time: u64,
    /// What.
    pub(crate) what: Changed,
    /// The whole record.
    pub(crate) bytes: &'a [u8],
}

/// What the records in `bytes` change, in their order.
pub(crate) fn changes(bytes: &[u8]) -> impl Iterator<Item = Change<'_>> {
    records(bytes).map(|record| Change {
        pid: record.pid().unwrap_or(0),
        time: record.time().unwrap_or(0),
        what: match record.kind() {
            MappingRecordKind::Mapped => Changed::Mapped { start: record.start().unwrap_or(0) },
            MappingRecordKind::Exec => Changed::Exec,
            MappingRecordKind::Lost | MappingRecordKind::Renamed | MappingRecordKind::Other => {
                Changed::Other
            }
        },
        bytes: record.bytes,
    })
}

/// One record of a perf ring, `perf_event_header` included.
struct Record<'a> {
    kind: u32,
    misc: u16,
    bytes: &'a [u8],
}

/// The records in `bytes`; ends at the first that is cut or malformed.
fn records(mut bytes: &[u8]) -> impl Iterator<Item = Record<'_>> {
    std::iter::from_fn(move || {
        let header = bytes.get(..8)?;
        let size = u16::from_le_bytes([header[6], header[7]]) as usize;
        let record = bytes.get(..size.max(8))?;
        bytes = &bytes[record.len()..];
        Some(Record {
            kind: u32::from_le_bytes([header[0], header[1], header[2], header[3]]),
            misc: u16::from_le_bytes([header[4], header[5]]),
            bytes: record,
        })
    })
}

/// Reads `bytes` as [`MappingRings::drain`](Source::drain) does: how many records there are, and
/// how many are noted.
pub(crate) fn read(bytes: &[u8]) -> (usize, usize) {
    (records(bytes).count(), records(bytes).filter(is_noted).count())
}

fn is_noted(record: &Record<'_>) -> bool {
    record.observed().is_some() || record.word(8) == Some(u64::MAX)
}

/// What a record is of.
#[derive(Clone, Copy)]
enum MappingRecordKind {
    /// `PERF_RECORD_MMAP2`: a process got a mapping.
    Mapped,
    /// A process began to run another program.
    Exec,
    /// A thread got another name.
    Renamed,
    /// Records were lost.
    Lost,
    /// Something else.
    Other,
}

impl Record<'_> {
    fn kind(&self) -> MappingRecordKind {
        match self.kind {
            PERF_RECORD_MMAP2 => MappingRecordKind::Mapped,
            PERF_RECORD_COMM if self.misc & PERF_RECORD_MISC_COMM_EXEC != 0 => {
                MappingRecordKind::Exec
            }
            PERF_RECORD_COMM => MappingRecordKind::Renamed,
            PERF_RECORD_LOST => MappingRecordKind::Lost,
            _ => MappingRecordKind::Other,
        }
    }

    /// The 64-bit word at an offset behind the header.
    fn word(&self, offset: usize) -> Option<u64> {
        let bytes = self.bytes.get(8 + offset..16 + offset)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }

    /// The process that it is of.
    fn pid(&self) -> Option<u32> {
        self.word(0).map(|word| word as u32)
    }

    /// When it was written: of what samples would carry, which ends each record (task, time, CPU: 8
    /// bytes each).
    fn time(&self) -> Option<u64> {
        self.word(self.bytes.len().checked_sub(8 + 16)?)
    }

    /// What of the record should be noted.
    fn observed(&self) -> Option<Observed> {
        match self.kind() {
            MappingRecordKind::Mapped => Some(Observed::Mapping(self.mapping()?, self.time()?)),
            MappingRecordKind::Exec => Some(Observed::Exec { pid: self.pid()?, at: self.time()? }),
            MappingRecordKind::Lost => Some(Observed::MappingsLost { at: self.time()? }),
            MappingRecordKind::Renamed | MappingRecordKind::Other => None,
        }
    }

    /// Where a mapping begins.
    fn start(&self) -> Option<u64> {
        self.word(8)
    }

    /// What `PERF_RECORD_MMAP2` says (include/uapi/linux/perf_event.h): pid,
    /// tid, address, length, page offset, 24 bytes of build id or inode,
    /// protection and flags, name.
    fn mapping(&self) -> Option<Mapping> {
        let (start, length) = (self.start()?, self.word(16)?);
        let name = self.bytes.get(72..)?;
        let name = &name[..name.iter().position(|byte| *byte == 0)?];
        let mut build_id = BuildId::default();
        if self.misc & PERF_RECORD_MISC_MMAP_BUILD_ID != 0 {
            let size = usize::from(*self.bytes.get(40)?).min(20);
            build_id = BuildId::from_bytes(self.bytes.get(44..44 + size)?);
        }
        Some(Mapping {
            pid: self.pid()?,
            start,
            end: start.checked_add(length)?,
            file_offset: self.word(24)?,
            path: String::from_utf8_lossy(name).into_owned(),
            build_id,
            since: Ticks(0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_record_is_read() {
        let mut bytes = Vec::new();
        bytes.extend(PERF_RECORD_MMAP2.to_le_bytes());
        bytes.extend((2 | PERF_RECORD_MISC_MMAP_BUILD_ID).to_le_bytes());
        bytes.extend(0u16.to_le_bytes());
        bytes.extend([7u32, 8].map(u32::to_le_bytes).concat());
        bytes.extend([0x1000u64, 0x2000, 0x3000].map(u64::to_le_bytes).concat());
        bytes.extend([4, 0, 0, 0]);
        bytes.extend([0xaa; 20]);
        bytes.extend([5u32, 2].map(u32::to_le_bytes).concat());
        bytes.extend(b"/bin/x\0\0");
        bytes.extend([0, 77, 0].map(u64::to_le_bytes).concat());
        let size = bytes.len() as u16;
        bytes[6..8].copy_from_slice(&size.to_le_bytes());

        let found = records(&bytes).next().unwrap().mapping().unwrap();
        assert_eq!(
            (found.pid, found.start, found.end, found.file_offset),
            (7, 0x1000, 0x3000, 0x3000)
        );
        assert_eq!(records(&bytes).next().unwrap().time(), Some(77));
        assert_eq!(
            (found.path.as_str(), found.build_id.to_string().as_str()),
            ("/bin/x", "aaaaaaaa")
        );
        assert_eq!(records(&bytes[..40]).count(), 0, "a record that is cut is none");
    }

    #[test]
    fn what_a_program_mapped_is_heard_after_its_beginning_on_another_cpu() {
        let mut reported = Vec::new();
        let of_rings = vec![mapped(1), mapped(9), Observed::Exec { pid: 7, at: 5 }];
        report_in_order(of_rings, &mut |observed| {
            reported.push((observed.at(), matches!(observed, Observed::Exec { .. })));
        });
        assert_eq!(reported, [(1, false), (5, true), (9, false)]);
    }

    #[test]
    fn long_paths_have_a_share_of_their_own_and_no_process_more_than_its_bytes() {
        let mut shares = Shares::default();
        // A program that begins under a long path, again and again.
        assert_eq!(taken(&mut shares, 1000..3000, 4096, 1), SHARE_OF_LONG_BYTES / 4096);
        assert_eq!(taken(&mut shares, 1..2, 150, 5000), SHARE as usize, "others are recorded");
        assert_eq!(taken(&mut shares, 2..3, 512, 5000), SHARE_BYTES / 512);
        shares.since = None;
        shares.renew();
        assert_eq!(taken(&mut shares, 2..3, 4096, 1), 1);
    }

    fn taken(shares: &mut Shares, pids: std::ops::Range<u32>, bytes: usize, times: usize) -> usize {
        let all = pids.flat_map(|pid| std::iter::repeat_n(pid, times));
        all.filter(|pid| shares.take(*pid, bytes)).count()
    }

    fn mapped(at: u64) -> Observed {
        let mapping = Mapping {
            pid: 7,
            start: 0x1000,
            end: 0x2000,
            file_offset: 0,
            path: "//anon".to_owned(),
            build_id: BuildId::default(),
            since: Ticks(0),
        };
        Observed::Mapping(mapping, at)
    }
}
