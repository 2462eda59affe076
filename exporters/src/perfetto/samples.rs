//! Samples: of CPUs, and those that make flame graphs of other stacks.

use super::fields::{packet, perf};
use super::intern::Stacks;
use super::packets::Sequence;
use super::stream::Stream;
use crate::ExportError;
use crate::proto::Message;
use std::io::Write;
use syscollect_model::{CpuId, PerCpu, StackId, Tables, ThreadId, Time};

/// `Profiling.CpuMode`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CpuMode {
    /// Kernel code; also stacks of switches and wakeups, of which it is not asked.
    Kernel = 1,
    /// User code.
    User = 2,
}

/// When and where a sample was taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SamplePoint {
    pub(crate) time: Time,
    pub(crate) cpu: CpuId,
    pub(crate) thread: ThreadId,
}

/// What a `PerfSample` says beside its count.
struct PerfSample {
    time: Time,
    cpu: CpuId,
    pid: u32,
    tid: u32,
    mode: CpuMode,
    /// Of the sequence's interned data.
    stack: Option<u64>,
}

/// One perf session of the trace: its sequence, its stacks, its counts.
pub(crate) struct Samples {
    sequence: Sequence,
    stacks: Stacks,
    /// Samples so far by CPU: the value of the timebase.
    counts: PerCpu<u64>,
    interned: Vec<u8>,
}

impl Samples {
    /// The session on a sequence of samples.
    pub(crate) fn new(sequence: Sequence) -> Self {
        Self {
            sequence,
            stacks: Stacks::default(),
            counts: PerCpu::default(),
            interned: Vec::new(),
        }
    }

    /// Writes one sample.
    #[inline]
    pub(crate) fn write<W: Write>(
        &mut self,
        stream: &mut Stream<W>,
        tables: &Tables,
        point: SamplePoint,
        mode: CpuMode,
        stack: Option<StackId>,
    ) -> Result<(), ExportError> {
        self.interned.clear();
        let stack = stack.map(|id| self.stacks.stack(id, tables, &mut self.interned));
        let SamplePoint { time, cpu, thread } = point;
        let row = tables.thread(thread);
        let pid = tables.process(row.process).pid;
        self.packet(stream, &PerfSample { time, cpu, pid, tid: row.tid, mode, stack })
    }

    /// Writes a sample of the process `pid` and its only thread, whose stack stands on a frame of
    /// the process that it was taken of.
    #[inline]
    pub(crate) fn write_rooted<W: Write>(
        &mut self,
        stream: &mut Stream<W>,
        tables: &Tables,
        point: SamplePoint,
        pid: u32,
        stack: StackId,
    ) -> Result<(), ExportError> {
        self.interned.clear();
        let SamplePoint { time, cpu, thread } = point;
        let root = tables.thread(thread).process;
        let stack = Some(self.stacks.rooted_stack(root, stack, tables, &mut self.interned));
        self.packet(stream, &PerfSample { time, cpu, pid, tid: pid, mode: CpuMode::Kernel, stack })
    }

    /// The fields that begin a packet of the session's sequence.
    pub(crate) fn head(&mut self, message: &mut Message<'_>, time: Time) {
        self.sequence.head(message, Some(time));
    }

    #[inline]
    fn packet<W: Write>(
        &mut self,
        stream: &mut Stream<W>,
        sample: &PerfSample,
    ) -> Result<(), ExportError> {
        let &PerfSample { time, cpu, pid, tid, mode, stack } = sample;
        let count = self.count(cpu);
        let Self { sequence, interned, .. } = self;
        stream.packet(|message| {
            sequence.head(message, Some(time));
            if !interned.is_empty() {
                message.bytes(packet::INTERNED_DATA, interned);
            }
            message.message(packet::PERF_SAMPLE, |sample| {
                sample.uint(perf::CPU, u64::from(cpu.number));
                sample.uint(perf::PID, u64::from(pid));
                sample.uint(perf::TID, u64::from(tid));
                sample.uint(perf::CPU_MODE, mode as u64);
                sample.uint(perf::TIMEBASE_COUNT, count);
                if let Some(iid) = stack {
                    sample.uint(perf::CALLSTACK_IID, iid);
                }
            });
        })
    }

    /// Says that `count` records of `cpu` were lost.
    pub(crate) fn write_lost<W: Write>(
        &mut self,
        stream: &mut Stream<W>,
        time: Time,
        cpu: CpuId,
        count: u64,
    ) -> Result<(), ExportError> {
        stream.packet(|message| {
            self.sequence.head(message, Some(time));
            message.message(packet::PERF_SAMPLE, |sample| {
                sample.uint(perf::CPU, u64::from(cpu.number));
                sample.uint(perf::KERNEL_RECORDS_LOST, count);
            });
        })
    }

    fn count(&mut self, cpu: CpuId) -> u64 {
        let count = self.counts.get_or(cpu, || 0);
        *count += 1;
        *count
    }
}
