//! The unit of a capture: records of one lane, decodable alone.

use syscollect_model::Ticks;

/// Where records come from: a CPU (or 0 for the machine) and a kind of lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane {
    /// What its records are.
    pub kind: LaneKind,
    /// The CPU; 0 for lanes of the collector itself.
    pub cpu: u16,
}

impl std::fmt::Display for Lane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of cpu {}", self.kind.name(), self.cpu)
    }
}

/// What the records of a lane are. Numbers are part of the file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u16)]
pub enum LaneKind {
    /// Scheduling events: `SchedRecord` (stride 16) or `SchedStackRecord` (stride 24).
    Sched = 1,
    /// CPU samples: `SampleRecord`.
    Sample = 2,
    /// Fork, exec, exit and rename: `TaskRecord`. Definitions: never overwritten.
    Task = 3,
    /// Stacks that `Sched` records use: `StackHeader` and addresses, stride 0. Definitions.
    SchedStack = 4,
    /// Stacks that `Sample` records use. Definitions.
    SampleStack = 5,
    /// `perf_event` records of mappings and program changes, stride 0. Definitions.
    Mapping = 6,
    /// Polled counters: `CounterRecord`.
    Counter = 7,
    /// Clock readings: `ClockRecord`. Definitions.
    Clock = 8,
    /// One [`crate::Definition`] per chunk, JSON, stride 0. Definitions.
    Definition = 9,
    /// What marked programs wrote: a `ZoneChunk` prefix, then items of
    /// `syscollect_zone_protocol`, stride 0. The lane's number is the
    /// collector's for the thread; `current_tid` is the thread.
    Zone = 10,
    /// What zones refer to: a `ZoneLogChunk` prefix, then entries of
    /// `syscollect_zone_protocol`, stride 0. Definitions.
    ZoneLog = 11,
    /// Probe hits: `ProbeRecord`s of sizes of their own, stride 0.
    Probe = 12,
    /// Kernel tracepoints: `TracepointRecord`s of sizes of their own, stride 0.
    Tracepoint = 13,
}

impl LaneKind {
    /// Every kind with the name that messages and `info` print.
    pub const ALL: [(Self, &'static str); 13] = [
        (Self::Sched, "sched"),
        (Self::Sample, "samples"),
        (Self::Task, "tasks"),
        (Self::SchedStack, "sched stacks"),
        (Self::SampleStack, "sample stacks"),
        (Self::Mapping, "mappings"),
        (Self::Counter, "counters"),
        (Self::Clock, "clock"),
        (Self::Definition, "definitions"),
        (Self::Zone, "zones"),
        (Self::ZoneLog, "zone definitions"),
        (Self::Probe, "probes"),
        (Self::Tracepoint, "tracepoints"),
    ];

    /// The kind of that number, if this version knows it.
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL.iter().map(|(kind, _)| *kind).find(|kind| *kind as u16 == number)
    }

    /// The kind's name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or("unknown", |(_, name)| name)
    }

    /// Whether stacks lie there.
    pub fn is_stack(self) -> bool {
        matches!(self, Self::SchedStack | Self::SampleStack)
    }

    /// Whether others refer to what lies there, so that it is written twice
    /// and never dropped or overwritten.
    pub fn is_definition(self) -> bool {
        !matches!(
            self,
            Self::Sched
                | Self::Sample
                | Self::Counter
                | Self::Zone
                | Self::Probe
                | Self::Tracepoint
        )
    }
}

/// What is known of a chunk without reading its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkHeader {
    /// The lane.
    pub lane: Lane,
    /// Counts the chunks of the lane, from 0.
    pub sequence: u64,
    /// Ticks of the first record.
    pub first: Ticks,
    /// Ticks of the last record.
    pub last: Ticks,
    /// `Sched`: the task that was current before the first record.
    pub current_tid: u32,
    /// Bytes of each record; 0 where records have sizes of their own.
    pub stride: u32,
    /// Records the lane produced before this chunk, as far as the collector
    /// drained them: the sum over all earlier chunks, dropped ones included.
    pub records_before: u64,
    /// Records in this chunk; for stride 0 a count by the drain, which may be 0 (unknown).
    pub records: u32,
    /// Bytes of the records.
    pub length: u32,
}

/// A chunk: header and records as they lay in the lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The header.
    pub header: ChunkHeader,
    /// The records, `header.length` bytes.
    pub data: Vec<u8>,
}
