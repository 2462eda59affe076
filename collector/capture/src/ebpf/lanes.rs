//! The lanes of all CPUs: maps of the kernel programs, mapped into the
//! collector's memory and drained into chunks.

use std::io;
use std::os::fd::AsFd;

use aya::Ebpf;
use aya::maps::{Map, MapData};
use syscollect_model::{Lane, LaneKind, LossCause, Ticks};
use syscollect_records::{
    LANE_HEADER_SIZE, LANE_SLACK, LaneHeader, SampleRecord, SchedRecord, SchedStackRecord,
    TaskRecord,
};
use syscollect_store::{Chunk, LaneLoss, LostRecord};

use crate::error::CaptureError;
use crate::lane::{LaneMemory, RecordSize};
use crate::mapped_map::MappedMap;
use crate::stage::{Flush, Stage, count_stacks};

/// The maps that are lanes, in the order in which they are drained: events
/// before the stacks they refer to, so that no event is seen without its stack.
const MAPS: [(&str, LaneKind); 5] = [
    ("sched_lanes", LaneKind::Sched),
    ("sample_lanes", LaneKind::Sample),
    ("task_lanes", LaneKind::Task),
    ("sched_stack_lanes", LaneKind::SchedStack),
    ("sample_stack_lanes", LaneKind::SampleStack),
];

/// One lane of one CPU and where the collector stands in it.
struct CpuLane {
    kind: LaneKind,
    cpu: u32,
    memory: LaneMemory,
    size: RecordSize,
    tail: u64,
    stage: Stage,
}

/// All lanes of the kernel programs.
pub(super) struct Lanes {
    lanes: Vec<CpuLane>,
    /// Declared after the lanes that point into it.
    maps: Vec<MappedMap>,
}

impl Lanes {
    /// Maps the lanes of `cpus` CPUs. `long_records` says that scheduling
    /// records carry stacks.
    pub(super) fn map(ebpf: &Ebpf, cpus: u32, long_records: bool) -> Result<Self, CaptureError> {
        let (mut lanes, mut maps) = (Vec::new(), Vec::new());
        for (name, kind) in MAPS {
            let Some(Map::Array(map)) = ebpf.map(name) else {
                let reason = format!("the object has no array map {name}");
                return Err(CaptureError::Program { program: "syscollect.bpf.o".into(), reason });
            };
            let (value_bytes, memory) = mapped(map, cpus).map_err(|error| {
                CaptureError::system(format!("cannot map the lanes {name} into memory"), error)
            })?;
            let size = record_size(kind, long_records);
            for cpu in 0..cpus {
                // SAFETY: element `cpu` of the array: the kernel lays values out
                // at multiples of their size rounded up to 8, which it is.
                let lane = unsafe {
                    let base = memory.base().add(cpu as usize * value_bytes);
                    LaneMemory::new(base, value_bytes - LANE_HEADER_SIZE - LANE_SLACK)
                };
                lane.forget_current();
                lanes.push(CpuLane {
                    kind,
                    cpu,
                    memory: lane,
                    size,
                    tail: 0,
                    stage: Stage::new(id(kind, cpu), stride(size)),
                });
            }
            maps.push(memory);
        }
        Ok(Self { lanes, maps })
    }

    /// Bytes of memory that all of them take.
    pub(super) fn bytes(&self) -> u64 {
        self.maps.iter().map(|map| map.length() as u64).sum()
    }

    /// Sets where the CPU's clock event counted zero.
    pub(super) fn set_clock_base(&self, cpu: u32, base: u64) {
        self.lanes
            .iter()
            .filter(|lane| lane.cpu == cpu)
            .for_each(|lane| lane.memory.set_clock_base(base));
    }

    /// Moves what the lanes hold into chunks; those that `flush` says go
    /// on. Returns how full the fullest lane was, 0 to 1.
    pub(super) fn drain(&mut self, now: Ticks, flush: Flush, sink: &mut dyn FnMut(Chunk)) -> f64 {
        let mut fullest: f64 = 0.0;
        for lane in &mut self.lanes {
            fullest = fullest.max(lane.memory.fill(lane.tail));
            lane.collect();
        }
        if !flush.is_all() && !self.lanes.iter().any(|lane| lane.stage.is_due(flush)) {
            return fullest;
        }
        // Stacks first: in the file, too, they come before what refers to them.
        for lane in self.lanes.iter_mut().filter(|lane| lane.size == RecordSize::Stacks) {
            lane.stage.flush(now, count_stacks, sink);
        }
        for lane in self.lanes.iter_mut().filter(|lane| lane.stage.is_due(flush)) {
            lane.stage.flush(now, count_stacks, sink);
        }
        fullest
    }

    /// The headers of all lanes, with their kind and CPU.
    pub(super) fn headers(&self) -> impl Iterator<Item = (LaneKind, u32, LaneHeader)> {
        self.lanes.iter().map(|lane| (lane.kind, lane.cpu, lane.memory.header()))
    }

    /// What the programs could not write, by lane, kind of record and cause.
    pub(super) fn losses(&self) -> Vec<LaneLoss> {
        let mut losses = Vec::new();
        for (lane, cpu, header) in self.headers() {
            let causes = [
                (LossCause::LaneFull, header.lost),
                (LossCause::Nested, header.nested),
                (LossCause::ClockUnreadable, header.unclocked),
                (LossCause::BeyondShare, header.beyond_share),
            ];
            for (cause, counts) in causes {
                let lost = counts.iter().enumerate().filter(|(_, count)| **count > 0);
                losses.extend(lost.map(|(kind, count)| LaneLoss {
                    origin: lane.into(),
                    cpu: Some(cpu),
                    record: LostRecord::of_number(kind as u8),
                    cause,
                    user: None,
                    count: *count,
                }));
            }
        }
        losses
    }
}

impl CpuLane {
    fn collect(&mut self) {
        let head = self.memory.head();
        while self.tail < head {
            self.tail = self.memory.copy_run(self.tail, head, self.size, self.stage.data());
            self.memory.release(self.tail);
        }
    }
}

/// How many bytes each CPU has of a map of lanes, and all of it mapped into memory.
fn mapped(map: &MapData, cpus: u32) -> io::Result<(usize, MappedMap)> {
    let value_bytes = map.info().map_err(io::Error::other)?.value_size() as usize;
    Ok((value_bytes, MappedMap::new(map.fd().as_fd(), value_bytes * cpus as usize)?))
}

fn id(kind: LaneKind, cpu: u32) -> Lane {
    Lane::new(kind, cpu as u16)
}

fn record_size(kind: LaneKind, long_records: bool) -> RecordSize {
    match kind {
        LaneKind::Sched if long_records => RecordSize::Fixed(SchedStackRecord::SIZE),
        LaneKind::Sched => RecordSize::Fixed(SchedRecord::SIZE),
        LaneKind::Sample => RecordSize::Fixed(SampleRecord::SIZE),
        LaneKind::Task => RecordSize::Fixed(TaskRecord::SIZE),
        _ => RecordSize::Stacks,
    }
}

fn stride(size: RecordSize) -> usize {
    match size {
        RecordSize::Fixed(stride) => stride,
        RecordSize::Stacks => 0,
    }
}
