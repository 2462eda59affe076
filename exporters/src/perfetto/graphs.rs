//! Flame graphs of what is no CPU sample: time blocked, and wakeups.
//!
//! The UI (v52) draws one flame graph of all perf samples of the processes and
//! threads that are selected, whatever their perf session, each sample counting
//! as one; it knows no weights. So each of these graphs belongs to a process
//! that stands for it, whose only thread has all its samples, and is drawn
//! alone; below the stacks lie the processes whose they are. Time becomes
//! samples, one for each interval that a thread was blocked, as a clock that
//! went on ticking would have taken them.

use super::fields::{packet, process_tree as tree};
use super::packets::{Sequence, Timebase};
use super::samples::{SamplePoint, Samples};
use super::stream::Stream;
use crate::ExportError;
use crate::labels;
use crate::off_cpu::OffCpuInterval;
use rustc_hash::FxHashMap;
use std::io::Write;
use syscollect_model::{SessionInfo, StackId, Tables, ThreadId, Time};

/// Process ids that no system gives out: Linux' are below 2^22, Windows' are multiples of 4.
const OFF_CPU_PID: u32 = i32::MAX as u32 - 2;
const WAKERS_PID: u32 = i32::MAX as u32 - 5;

/// The shortest interval of blocked time, nanoseconds.
const SHORTEST_INTERVAL: u64 = 1_000_000;
/// A thread that is blocked all the time has about this many samples.
const MOST_SAMPLES: u64 = 3000;
/// All threads together have no more: a clock that is damaged must not make a file without end.
const MOST_OF_ALL: u64 = 1 << 24;

/// A flame graph, as the samples of a process that stands for it.
pub(crate) struct Graph {
    samples: Samples,
    pid: u32,
    /// Of the process: one word, as the reader cuts it at a space.
    name: &'static str,
    /// Of its thread: what a sample stands for.
    thread: String,
    announced: bool,
}

impl Graph {
    /// The stacks of who woke others, a sample for each wakeup.
    pub(crate) fn wakers(sequence: Sequence) -> Self {
        let timebase = Timebase {
            name: "wakers, a sample for each wakeup".to_owned(),
            counter: 0,
            frequency: 0,
        };
        Self::new(sequence, WAKERS_PID, "[wakers]", timebase)
    }

    /// Of the process `pid` with that name, whose thread is called as the timebase.
    fn new(sequence: Sequence, pid: u32, name: &'static str, timebase: Timebase) -> Self {
        let thread = timebase.name.clone();
        Self {
            samples: Samples::new(sequence.of_samples(timebase)),
            pid,
            name,
            thread,
            announced: false,
        }
    }

    /// Adds a sample.
    #[inline]
    pub(crate) fn write<W: Write>(
        &mut self,
        stream: &mut Stream<W>,
        tables: &Tables,
        point: SamplePoint,
        stack: StackId,
    ) -> Result<(), ExportError> {
        if !self.announced {
            self.announce(stream, point.time)?;
        }
        self.samples.write_rooted(stream, tables, point, self.pid, stack)
    }

    #[cold]
    fn announce<W: Write>(
        &mut self,
        stream: &mut Stream<W>,
        time: Time,
    ) -> Result<(), ExportError> {
        self.announced = true;
        let Self { samples, pid, name, thread, .. } = self;
        stream.packet(|message| {
            samples.head(message, time);
            message.message(packet::PROCESS_TREE, |message| {
                message.message(tree::PROCESSES, |fields| {
                    fields.uint(tree::PROCESS_PID, u64::from(*pid));
                    fields.string(tree::PROCESS_CMDLINE, name);
                    fields.uint(tree::PROCESS_CMDLINE_IS_COMM, 1);
                });
                message.message(tree::THREADS, |fields| {
                    fields.uint(tree::THREAD_TID, u64::from(*pid));
                    fields.uint(tree::THREAD_TGID, u64::from(*pid));
                    fields.string(tree::THREAD_NAME, thread);
                });
            });
        })
    }
}

/// The flame graph of time blocked.
pub(crate) struct OffCpuGraph {
    graph: Graph,
    /// Nanoseconds that a sample stands for.
    interval: u64,
    /// Time blocked of each thread that has no sample yet, nanoseconds.
    rests: FxHashMap<ThreadId, u64>,
    /// Samples so far.
    written: u64,
}

impl OffCpuGraph {
    /// Of a session. How long it lasts says how long a sample stands for, so
    /// that the file's size is bounded by the number of threads.
    pub(crate) fn new(sequence: Sequence, session: &SessionInfo) -> Self {
        let span = match (session.clock_pairs.first(), session.clock_pairs.last()) {
            (Some(first), Some(last)) => last.boottime.saturating_sub(first.boottime),
            _ => 0,
        };
        let interval =
            (span / MOST_SAMPLES).next_multiple_of(SHORTEST_INTERVAL).max(SHORTEST_INTERVAL);
        let name = format!("off-CPU, a sample for each {}", labels::duration(interval));
        let timebase = Timebase { name, counter: 0, frequency: 1_000_000_000 / interval };
        let graph = Graph::new(sequence, OFF_CPU_PID, "[off-CPU]", timebase);
        Self { graph, interval, rests: FxHashMap::default(), written: 0 }
    }

    /// A thread was blocked.
    #[inline]
    pub(crate) fn stay<W: Write>(
        &mut self,
        stream: &mut Stream<W>,
        tables: &Tables,
        stay: &OffCpuInterval,
    ) -> Result<(), ExportError> {
        let Some(stack) = stay.stack else { return Ok(()) };
        let rest = self.rests.entry(stay.thread).or_default();
        let blocked = rest.saturating_add(stay.blocked_ns);
        *rest = blocked % self.interval;
        let samples = (blocked / self.interval).min(MOST_OF_ALL - self.written);
        self.written += samples;
        let elapsed = stay.until.0.saturating_sub(stay.since.0);
        for number in 0..samples {
            let time = Time(stay.since.0 + (elapsed / samples) * number);
            let point = SamplePoint { time, cpu: stay.cpu, thread: stay.thread };
            self.graph.write(stream, tables, point, stack)?;
        }
        Ok(())
    }
}
