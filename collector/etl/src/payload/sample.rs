//! What CPUs do besides running threads: samples, DPCs and interrupts. MOF
//! class `PerfInfo`, versions 1 to 2.

use super::reader::Reader;
use crate::Record;

/// Where a CPU was when the profiling interrupt came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Address of the instruction.
    pub address: u64,
    /// The thread that ran, or was interrupted. The record does not say its process.
    pub tid: u32,
    /// How many interrupts it stands for.
    pub count: u16,
    /// The CPU ran a DPC.
    pub in_dpc: bool,
    /// The CPU served an interrupt.
    pub in_isr: bool,
}

/// How often samples are taken, of one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleInterval {
    /// What it says the interval for.
    pub moment: SampleMoment,
    /// What is counted; 0 is the timer.
    pub source: u32,
    /// From now on; in 100 ns for the timer, in events for others.
    pub interval: u32,
    /// Before.
    pub old_interval: u32,
}

/// When an interval is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleMoment {
    /// It is set anew.
    Set,
    /// The trace begins with it.
    Start,
    /// The trace ends with it.
    End,
}

/// A deferred procedure call has ended, at the record's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dpc {
    /// What kind it was.
    pub kind: DpcKind,
    /// Raw time stamp of its begin.
    pub start: u64,
    /// Address of its function.
    pub routine: u64,
}

/// Kinds of deferred procedure calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DpcKind {
    /// On a thread of its own, interrupted by others.
    Threaded,
    /// The ordinary kind.
    Normal,
    /// Of a timer.
    Timer,
}

/// An interrupt has been served, at the record's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Isr {
    /// Raw time stamp of its begin.
    pub start: u64,
    /// Address of its function.
    pub routine: u64,
    /// What the function returned: whether it was its device's interrupt.
    pub was_claimed: bool,
    /// The interrupt's vector; version 1 does not say it.
    pub vector: u8,
}

const IN_DPC: u16 = 1;
const IN_ISR: u16 = 2;

impl Sample {
    #[inline]
    pub(super) fn decode(record: &Record<'_>) -> Option<Self> {
        let mut reader = Reader::new(record.payload, record.is_64_bit);
        let (address, tid, count, flags) =
            (reader.pointer()?, reader.u32()?, reader.u16()?, reader.u16()?);
        Some(Self { address, tid, count, in_dpc: flags & IN_DPC != 0, in_isr: flags & IN_ISR != 0 })
    }
}

impl SampleInterval {
    pub(super) fn decode(record: &Record<'_>, moment: SampleMoment) -> Option<Self> {
        let mut reader = Reader::new(record.payload, record.is_64_bit);
        Some(Self {
            moment,
            source: reader.u32()?,
            interval: reader.u32()?,
            old_interval: reader.u32()?,
        })
    }
}

impl Dpc {
    #[inline]
    pub(super) fn decode(record: &Record<'_>, kind: DpcKind) -> Option<Self> {
        let mut reader = Reader::new(record.payload, record.is_64_bit);
        Some(Self { kind, start: reader.u64()?, routine: reader.pointer()? })
    }
}

impl Isr {
    #[inline]
    pub(super) fn decode(record: &Record<'_>) -> Option<Self> {
        let mut reader = Reader::new(record.payload, record.is_64_bit);
        let (start, routine) = (reader.u64()?, reader.pointer()?);
        let (was_claimed, vector) = if record.version < 2 {
            (reader.u32()? != 0, 0)
        } else {
            (reader.u8()? != 0, reader.u8()?)
        };
        Some(Self { start, routine, was_claimed, vector })
    }
}
