//! Which lane records came in, and what is known of each kind of lane.

use crate::LossDomain;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A machine whose events a session holds, in the order they were added.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct MachineId(pub u16);

impl MachineId {
    /// The machine of a recording of one machine.
    pub const FIRST: Self = Self(0);

    /// Whether it is [`FIRST`](Self::FIRST), which captures leave out.
    pub fn is_first(&self) -> bool {
        *self == Self::FIRST
    }
}

impl fmt::Display for MachineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "machine {}", self.0)
    }
}

/// A CPU of a machine. In reports `{"cpu": 3}`, and of other machines than the first
/// `{"machine": 1, "cpu": 3}`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct CpuId {
    /// The machine.
    #[serde(default, skip_serializing_if = "MachineId::is_first")]
    pub machine: MachineId,
    /// The CPU's number there.
    #[serde(rename = "cpu")]
    pub number: u32,
}

impl CpuId {
    /// A CPU of the machine that a recording of one machine is of.
    pub const fn new(number: u32) -> Self {
        Self { machine: MachineId::FIRST, number }
    }

    /// `CPU 3`, and of other machines than the first `CPU 3 of machine 1`: where people read it
    /// beside words. Between numbers it is as it [displays](Self#impl-Display-for-CpuId).
    pub fn label(self) -> String {
        match self.machine {
            MachineId::FIRST => format!("CPU {}", self.number),
            machine => format!("CPU {} of {machine}", self.number),
        }
    }

    /// What belongs to the CPU, such as a counter: `CPU 3 usage`. Captures call that one
    /// `CPU usage`, for viewers that show no CPU beside it.
    pub fn label_of(self, name: &str) -> String {
        format!("{} {}", self.label(), name.strip_prefix("CPU ").unwrap_or(name))
    }
}

/// `cpu3`, and of other machines than the first `cpu3 of machine 1`.
impl fmt::Display for CpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cpu{}", self.number)?;
        match self.machine {
            MachineId::FIRST => Ok(()),
            machine => write!(f, " of {machine}"),
        }
    }
}

/// A sequence of records in the order they were written: of one machine, one kind, and one CPU
/// or thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane {
    /// The machine.
    pub machine: MachineId,
    /// What its records are.
    pub kind: LaneKind,
    /// Which of the lanes of this kind; [`LaneTraits::index`] says what it counts.
    pub index: u16,
}

impl Lane {
    /// A lane of the machine that a recording of one machine is of.
    pub const fn new(kind: LaneKind, index: u16) -> Self {
        Self { machine: MachineId::FIRST, kind, index }
    }

    /// The index of the lane that has the stacks of threads that slept when the file began, of the
    /// kind that CPUs' stacks of scheduling events have. No machine has so many CPUs.
    pub const SLEEPERS: u16 = u16::MAX;

    /// The CPU whose records these are; `None` for lanes of programs' threads, of sleepers and of
    /// the machine.
    pub fn cpu(self) -> Option<CpuId> {
        let id = CpuId { machine: self.machine, number: u32::from(self.index) };
        (self.kind.traits().index == LaneIndex::Cpu && self.index != Self::SLEEPERS).then_some(id)
    }

    /// Where the stacks of its records lie, where these have any.
    pub fn stacks(self) -> Option<Self> {
        self.kind.traits().stacks.map(|kind| Self { kind, ..self })
    }
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.kind.name();
        match self.kind.traits().index {
            LaneIndex::Cpu if self.index == Self::SLEEPERS => write!(f, "{name} of sleepers")?,
            LaneIndex::Cpu => write!(f, "{name} of cpu {}", self.index)?,
            LaneIndex::Thread => write!(f, "{name}, lane {}", self.index)?,
            LaneIndex::Machine => f.write_str(name)?,
        }
        match self.machine {
            MachineId::FIRST => Ok(()),
            machine => write!(f, " of {machine}"),
        }
    }
}

/// What tells the lanes of a kind apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneIndex {
    /// The CPU on which the records were made.
    Cpu,
    /// A number that the collector gives to a thread of a program, and after its end to another.
    Thread,
    /// Nothing: a machine has one, with the index 0.
    Machine,
}

/// What becomes of a lane's records where room or time is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retention {
    /// Each stands for itself: dropped where there is no room, overwritten where that was asked.
    Droppable,
    /// Others refer to them: written twice, never dropped for space.
    Kept,
    /// Others refer to them, and of those that are older than all events only the state is kept
    /// that they led to.
    Folded,
}

/// Whose clock a lane's chunks say when they are from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneClock {
    /// The recorder's, read when each record was made.
    Recorder,
    /// The recorder's, read when the records were drained: they have another clock, and are older.
    Drained,
    /// A program's, of which nothing is certain.
    Program,
    /// None that counts: the time at which a definition was written says nothing of events.
    Unstamped,
}

/// What the next file has of a lane, where a recording goes on in another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextFile {
    /// What comes from then on.
    Continues,
    /// What is found out again, and what came while that was done.
    Restated,
    /// All that earlier ones had: it is written once in a program's life.
    CarriedOver,
}

/// All that the rest of the program asks of a kind of lane.
#[derive(Clone, Copy, Debug)]
pub struct LaneTraits {
    /// As messages and `info` print it.
    pub name: &'static str,
    /// What tells lanes of this kind apart.
    pub index: LaneIndex,
    /// What becomes of its records where room is short.
    pub retention: Retention,
    /// Its records are occurrences: what people call the events of a recording.
    pub events: bool,
    /// What is not known where records of it are lost.
    pub loss: LossDomain,
    /// The kind of lane, of the same CPU, that holds the stacks of its records.
    pub stacks: Option<LaneKind>,
    /// Whose clock its chunks are stamped by.
    pub clock: LaneClock,
    /// What the next file has of it.
    pub next_file: NextFile,
    /// Its records tell what is mapped where: without one of them something may be missing.
    pub tells_mappings: bool,
    /// Its records begin what goes on for long, or say what holds from then on: of those that were
    /// overwritten the state is kept that they led to.
    pub leaves_state: bool,
}

/// What the records of a lane are. Numbers are part of the file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u16)]
pub enum LaneKind {
    /// Scheduling events: `SchedRecord` (stride 16) or `SchedStackRecord` (stride 24).
    Sched = 1,
    /// CPU samples: `SampleRecord`.
    Sample = 2,
    /// Fork, exec, exit and rename: `TaskRecord`.
    Task = 3,
    /// Stacks that `Sched` records use: `StackHeader` and addresses, stride 0.
    SchedStack = 4,
    /// Stacks that `Sample` records use.
    SampleStack = 5,
    /// `perf_event` records of mappings and program changes, stride 0.
    Mapping = 6,
    /// Polled counters: `CounterRecord`.
    Counter = 7,
    /// Clock readings: `ClockRecord`.
    Clock = 8,
    /// One definition per chunk, JSON, stride 0.
    Definition = 9,
    /// What instrumented programs wrote: a `ZoneChunk` prefix, then items of
    /// `syscollect_zone_protocol`, stride 0. `current_tid` is the thread.
    Zone = 10,
    /// What zones refer to: a `ZoneLogChunk` prefix, then entries of
    /// `syscollect_zone_protocol`, stride 0.
    ZoneLog = 11,
    /// Probe hits: `ProbeRecord`s of sizes of their own, stride 0.
    Probe = 12,
    /// Kernel tracepoints: `TracepointRecord`s of sizes of their own, stride 0.
    Tracepoint = 13,
    /// Parts of files of code, so that these can be named where they are not: each chunk is where
    /// its bytes lie in the file, and the bytes, stride 0.
    FilePart = 14,
    /// Stacks that `Probe` records use.
    ProbeStack = 15,
}

/// Events of one CPU that tell nothing of what ran, and need no stacks.
const EVENTS: LaneTraits = LaneTraits {
    name: "",
    index: LaneIndex::Cpu,
    retention: Retention::Droppable,
    events: true,
    loss: LossDomain::Other,
    stacks: None,
    clock: LaneClock::Recorder,
    next_file: NextFile::Continues,
    tells_mappings: false,
    leaves_state: false,
};

/// What others refer to, of one CPU.
const DEFINITIONS: LaneTraits = LaneTraits {
    retention: Retention::Kept,
    events: false,
    next_file: NextFile::Restated,
    ..EVENTS
};

impl LaneKind {
    /// Every kind, in the order of their numbers.
    pub const ALL: [Self; 15] = [
        Self::Sched,
        Self::Sample,
        Self::Task,
        Self::SchedStack,
        Self::SampleStack,
        Self::Mapping,
        Self::Counter,
        Self::Clock,
        Self::Definition,
        Self::Zone,
        Self::ZoneLog,
        Self::Probe,
        Self::Tracepoint,
        Self::FilePart,
        Self::ProbeStack,
    ];

    /// What is known of the kind: the one table of it.
    pub const fn traits(self) -> LaneTraits {
        use LaneIndex::{Machine, Thread};
        match self {
            Self::Sched => LaneTraits {
                name: "sched",
                loss: LossDomain::Scheduling,
                stacks: Some(Self::SchedStack),
                ..EVENTS
            },
            Self::Sample => {
                LaneTraits { name: "samples", stacks: Some(Self::SampleStack), ..EVENTS }
            }
            Self::Task => LaneTraits {
                name: "tasks",
                retention: Retention::Folded,
                next_file: NextFile::Restated,
                tells_mappings: true,
                ..EVENTS
            },
            Self::SchedStack => LaneTraits { name: "sched stacks", ..DEFINITIONS },
            Self::SampleStack => LaneTraits { name: "sample stacks", ..DEFINITIONS },
            Self::Mapping => LaneTraits {
                name: "mappings",
                retention: Retention::Folded,
                clock: LaneClock::Drained,
                tells_mappings: true,
                ..DEFINITIONS
            },
            Self::Counter => LaneTraits { name: "counters", index: Machine, ..EVENTS },
            Self::Clock => LaneTraits { name: "clock", index: Machine, ..DEFINITIONS },
            Self::Definition => LaneTraits {
                name: "definitions",
                index: Machine,
                clock: LaneClock::Unstamped,
                tells_mappings: true,
                ..DEFINITIONS
            },
            Self::Zone => LaneTraits {
                name: "zones",
                index: Thread,
                clock: LaneClock::Program,
                leaves_state: true,
                ..EVENTS
            },
            Self::ZoneLog => LaneTraits {
                name: "zone definitions",
                index: Machine,
                clock: LaneClock::Program,
                next_file: NextFile::CarriedOver,
                ..DEFINITIONS
            },
            Self::Probe => LaneTraits { name: "probes", stacks: Some(Self::ProbeStack), ..EVENTS },
            Self::ProbeStack => LaneTraits { name: "probe stacks", ..DEFINITIONS },
            Self::Tracepoint => LaneTraits { name: "tracepoints", ..EVENTS },
            // Too large to be written twice: what is damaged costs the names of one file.
            Self::FilePart => LaneTraits {
                name: "parts of files",
                index: Machine,
                events: false,
                clock: LaneClock::Unstamped,
                ..EVENTS
            },
        }
    }

    /// The kind of that number, if this version knows it.
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u16 == number)
    }

    /// The kind of that name, if this version knows it.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The kind's name.
    pub const fn name(self) -> &'static str {
        self.traits().name
    }

    /// Whether stacks lie there.
    pub fn is_stack(self) -> bool {
        Self::ALL.iter().any(|kind| kind.traits().stacks == Some(self))
    }

    /// Whether others refer to what lies there, so that it is written twice
    /// and never dropped or overwritten.
    pub const fn is_definition(self) -> bool {
        !matches!(self.traits().retention, Retention::Droppable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_number_and_a_name_of_its_own() {
        for kind in LaneKind::ALL {
            assert_eq!(LaneKind::from_number(kind as u16), Some(kind));
            assert_eq!(LaneKind::from_name(kind.name()), Some(kind));
        }
        assert_eq!((LaneKind::from_number(0), LaneKind::from_name("zone")), (None, None));
    }

    #[test]
    fn an_index_is_a_cpu_only_where_records_are_of_one() {
        assert_eq!(Lane::new(LaneKind::Tracepoint, 3).cpu(), Some(CpuId::new(3)));
        assert_eq!(Lane::new(LaneKind::Zone, 3).cpu(), None);
        assert_eq!(Lane::new(LaneKind::SchedStack, Lane::SLEEPERS).cpu(), None);
        assert_eq!(Lane::new(LaneKind::Clock, 0).cpu(), None);
    }

    #[test]
    fn what_belongs_to_a_cpu_says_so_once() {
        assert_eq!(CpuId::new(3).label_of("CPU usage"), "CPU 3 usage");
        assert_eq!(CpuId::new(3).label_of("frequency"), "CPU 3 frequency");
        let other = CpuId { machine: MachineId(1), number: 0 };
        assert_eq!(other.label_of("CPU usage"), "CPU 0 of machine 1 usage");
    }

    #[test]
    fn stacks_lie_beside_what_uses_them() {
        let samples = Lane { machine: MachineId(2), ..Lane::new(LaneKind::Sample, 7) };
        let stacks = Lane { machine: MachineId(2), ..Lane::new(LaneKind::SampleStack, 7) };
        assert_eq!(samples.stacks(), Some(stacks));
        assert!(stacks.kind.is_stack() && stacks.kind.is_definition());
        assert_eq!((stacks.stacks(), Lane::new(LaneKind::Task, 0).stacks()), (None, None));
    }

    #[test]
    fn the_next_file_has_all_that_events_refer_to() {
        for kind in LaneKind::ALL {
            let continues = kind.traits().next_file == NextFile::Continues;
            assert_eq!(continues, !kind.is_definition(), "{kind:?}");
        }
    }

    #[test]
    fn a_lane_says_what_it_is_of() {
        assert_eq!(Lane::new(LaneKind::Sched, 3).to_string(), "sched of cpu 3");
        assert_eq!(Lane::new(LaneKind::Zone, 3).to_string(), "zones, lane 3");
        assert_eq!(Lane::new(LaneKind::Clock, 0).to_string(), "clock");
        let other = Lane { machine: MachineId(1), ..Lane::new(LaneKind::Sched, 0) };
        assert_eq!(other.to_string(), "sched of cpu 0 of machine 1");
    }
}
