//! Perfetto traces, for ui.perfetto.dev and trace_processor.
//!
//! What a session becomes:
//!
//! | model | trace |
//! |---|---|
//! | switches, wakeups | `FtraceEventBundle.compact_sched`, full events where that cannot say it |
//! | why a thread sleeps | `sched_blocked_reason` with interned kernel symbols |
//! | new wakeups, moves, starts, names, ends | ftrace events |
//! | processes and threads | `ProcessTree`, `task_newtask`, `sched_process_free` |
//! | CPU samples | `PerfSample`, perf session "CPU samples" |
//! | stacks of blocked threads | `PerfSample`, a session and a process `[off-CPU]` of their own: one for each interval |
//! | stacks of who woke others | `PerfSample`, a session and a process `[wakers]` of their own: one for each wakeup |
//! | counters in kHz on a CPU | `cpu_frequency` |
//! | other counters, slices, instants, messages | `TrackEvent`; a thread's zones lie on the thread's own, above its states |
//! | numbers of slices, texts of messages | names |
//! | fields, and what becomes known later | debug annotations |
//! | locks | slices by holder on tracks below "Locks" of the process, "waiting for ..." below the thread |
//! | memory | counters below "Memory" of the process |
//! | crashes | instants on the thread and on "Crash" of the process |
//! | GPU jobs | slices on a track for each queue, below "GPU" of the machine or of the process; see below |
//! | frames of the machine | slices on tracks below "Displays" |
//! | colours | left out: there is no field for them |
//! | losses | instants on the track "Losses"; exact totals in the statistics of severity `data_loss` |
//! | the session, the recorder's summary | `SystemInfo`, `CpuInfo`, metadata `trace_attribute.syscollect.*` |
//!
//! Facts, all seen with trace_processor v55.3 and the UI v52: everything is in
//! CLOCK_BOOTTIME, which needs no conversion; the UI draws one flame graph over
//! all perf sessions of the processes that are selected, hence processes that
//! stand for those of other stacks (`graphs`); samples without a stack
//! are shown without one.
//!
//! GPU jobs are track events, not `GpuRenderStageEvent`s. The UI v52 draws both in
//! a group "GPU", but arrows only between track events: what joins a render stage
//! with the thread that submitted it (`TrackEvent` extension 3000,
//! `gpu_correlation`), and one with another, becomes flows in trace_processor
//! v55.3 and none there. Numbers of a render stage can only be text, and both
//! together would show every job twice. The view `gpu_slice` is of render stages
//! alone: jobs are the slices on tracks whose parent is named "GPU".

mod context;
mod details;
mod fields;
mod gpu;
mod graphs;
mod intern;
mod lane;
mod locks;
mod memory;
mod names;
mod packets;
mod samples;
mod sched;
mod session;
mod slices;
mod stream;
mod threads;
mod tracks;

use crate::heap::Heap;
use crate::off_cpu::Blocked;
use crate::process_filter::concerning;
use crate::{ExportError, ProcessFilter};
use context::Context;
use gpu::GpuJobs;
use graphs::{Graph, OffCpuGraph};
use locks::LockTracks;
use packets::{Sequence, Timebase};
use samples::{CpuMode, SamplePoint, Samples};
use sched::Scheduling;
use slices::Slices;
use std::io::Write;
use stream::Stream;
use syscollect_model::{
    Crash, Event, Exporter, LockEvent, Loss, LossCause, MemoryEvent, RecorderSummary, Sample,
    SampleEvent, Scope, SessionInfo, Switch, Tables, ThreadId, Time, Wakeup, records_overwritten,
};
use threads::Threads;
use tracks::Tracks;

/// Linux knows no more CPUs (NR_CPUS at its largest); a larger number is damage
/// and must not make a table of that size.
const MAX_CPUS: usize = 8192;

/// Where a CPU's data lies.
#[inline]
fn cpu_index(cpu: u32) -> usize {
    (cpu as usize).min(MAX_CPUS - 1)
}

/// Writes a session as a Perfetto trace, as a stream.
///
/// ```
/// use syscollect_exporters::PerfettoExporter;
/// use syscollect_model::{Exporter, SessionInfo, Tables};
///
/// let tables = Tables::default();
/// let mut exporter = PerfettoExporter::new(Vec::new());
/// exporter.begin(&SessionInfo::default(), &tables)?;
/// exporter.end(&[], None, &tables)?;
/// let file: Vec<u8> = exporter.finish()?;
/// assert_eq!(file[0], 0x0a, "packets are field 1 of the trace");
/// # Ok::<(), syscollect_exporters::ExportError>(())
/// ```
pub struct PerfettoExporter<W: Write> {
    stream: Stream<W>,
    /// Only these processes.
    process: Option<ProcessFilter>,
    system: Sequence,
    threads: Threads,
    sched: Scheduling,
    stacks: StackGraphs,
    timeline: Timeline,
    /// The last event; `None` before the first.
    last: Option<Time>,
}

/// What becomes flame graphs: stacks on CPUs, off them, and of who wakes others.
struct StackGraphs {
    samples: Samples,
    blocked: Blocked,
    off_cpu: OffCpuGraph,
    wakers: Graph,
}

impl StackGraphs {
    fn new(session: &SessionInfo) -> Self {
        Self {
            samples: Samples::new(5, sample_timebase(session)),
            blocked: Blocked::default(),
            off_cpu: OffCpuGraph::new(6, session),
            wakers: Graph::wakers(7),
        }
    }
}

/// What lies on tracks.
struct Timeline {
    tracks: Tracks,
    slices: Slices,
    locks: LockTracks,
    heap: Heap,
    gpu: GpuJobs,
}

impl Timeline {
    fn new() -> Self {
        Self {
            tracks: Tracks::new(Sequence::new(4), Sequence::new(8)),
            slices: Slices::default(),
            locks: LockTracks::default(),
            heap: Heap::default(),
            gpu: GpuJobs::default(),
        }
    }

    /// An event on a track; those of other kinds are none of its.
    #[inline]
    fn event<W: Write>(
        &mut self,
        at: &mut Context<'_, W>,
        event: &Event,
        sched: &mut Scheduling,
    ) -> Result<(), ExportError> {
        let Self { tracks, slices, locks, heap, gpu } = self;
        match *event {
            Event::Counter(track, value) => tracks.counter(at, sched, (track, value)),
            Event::SliceBegin(track, ref slice) => slices.begin(tracks, at, track, slice),
            Event::SliceUpdate(track, ref more) => {
                slices.more(track, more);
                Ok(())
            }
            Event::SliceEnd(track) => slices.end(tracks, at, track),
            Event::Instant(track, ref slice) => slices::instant(tracks, at, track, slice),
            Event::Message(track, ref message) => slices::message(tracks, at, track, message),
            Event::Lock(ref event) => locks.event(tracks, at, event),
            Event::Memory(ref event) => memory::event(heap, tracks, at, event),
            Event::Crash(ref crash) => slices::crash(tracks, at, crash),
            Event::GpuJob(track, ref job) => gpu.job(tracks, at, track, job),
            Event::Loss(ref loss) => tracks.loss(at, loss),
            _ => Ok(()),
        }
    }
}

impl<W: Write> PerfettoExporter<W> {
    /// A writer to `out`, which gets large pieces and needs no buffer. One
    /// thread is started that compresses.
    pub fn new(out: W) -> Self {
        Self {
            stream: Stream::new(out, 1),
            process: None,
            system: Sequence::new(1),
            threads: Threads::new(Sequence::new(2)),
            sched: Scheduling::new(Sequence::new(3)),
            stacks: StackGraphs::new(&SessionInfo::default()),
            timeline: Timeline::new(),
            last: None,
        }
    }

    /// Only these processes, who wakes them, and what belongs to the machine; all of them where
    /// `process` is `None`. The CPUs are idle where they run others.
    pub fn only(self, process: Option<ProcessFilter>) -> Self {
        Self { process, ..self }
    }

    /// Writes what is still held and gives the output back.
    ///
    /// # Errors
    ///
    /// [`ExportError::Write`] when the output refuses the last bytes.
    pub fn finish(self) -> Result<W, ExportError> {
        self.stream.finish()
    }

    #[inline]
    fn switch(&mut self, time: Time, switch: &Switch, tables: &Tables) -> Result<(), ExportError> {
        let Self { stream, threads, sched, .. } = self;
        if self.process.is_some() && sched.stays_idle(switch) {
            return Ok(());
        }
        if let Some(previous) = switch.previous {
            threads.ensure(stream, sched, time, previous, tables)?;
        }
        threads.ensure(stream, sched, time, switch.next, tables)?;
        sched.switch(stream, time, switch, &threads.names, tables)?;
        threads.arrived(time, switch.next);
        if let Some(previous) = switch.previous {
            threads.left(stream, sched, (time, switch.cpu), (previous, &switch.off_cpu), tables)?;
        }
        match self.stacks.blocked.switch(time, switch) {
            Some(stay) => self.stacks.off_cpu.stay(stream, tables, &stay),
            None => Ok(()),
        }
    }

    #[inline]
    fn wakeup(&mut self, time: Time, wakeup: &Wakeup, tables: &Tables) -> Result<(), ExportError> {
        let Self { stream, threads, sched, .. } = self;
        if let Some(waker) = wakeup.waker {
            threads.ensure(stream, sched, time, waker, tables)?;
        }
        if wakeup.new {
            let creator = wakeup.waker.map(|waker| (wakeup.cpu, waker));
            threads.first_wakeup(stream, sched, wakeup.wakee, creator, tables)?;
        }
        threads.ensure(stream, sched, time, wakeup.wakee, tables)?;
        sched.wakeup(stream, time, wakeup, &threads.names, tables)?;
        match (wakeup.waker, wakeup.stack) {
            (Some(waker), Some(stack)) if wanted(self.process.as_ref(), waker, tables) => {
                let point = SamplePoint { time, cpu: wakeup.cpu, thread: waker };
                self.stacks.wakers.write(stream, tables, point, stack)
            }
            _ => Ok(()),
        }
    }

    #[inline]
    fn sample(&mut self, time: Time, sample: &Sample, tables: &Tables) -> Result<(), ExportError> {
        let Self { stream, threads, sched, .. } = self;
        threads.ensure(stream, sched, time, sample.thread, tables)?;
        let time = threads.while_known(time, sample.thread);
        let mode = if sample.in_kernel { CpuMode::Kernel } else { CpuMode::User };
        let point = SamplePoint { time, cpu: sample.cpu, thread: sample.thread };
        self.stacks.samples.write(stream, tables, point, mode, sample.stack)
    }

    /// What happens to tasks, but for switches and wakeups.
    fn task(&mut self, time: Time, event: &Event, tables: &Tables) -> Result<(), ExportError> {
        let Self { stream, threads, sched, .. } = self;
        match *event {
            Event::Migration(ref migration) => {
                threads.ensure(stream, sched, time, migration.thread, tables)?;
                sched.migrate(stream, time, migration, &threads.names, tables)
            }
            Event::ProcessStart(process) => {
                threads.start_process(time, process, tables);
                Ok(())
            }
            Event::ThreadStart(thread) => {
                threads.start(time, thread);
                Ok(())
            }
            Event::ProcessExec(process, name) => {
                threads.exec(stream, sched, time, (process, name), tables)
            }
            Event::ThreadName(thread, name) => {
                threads.rename(stream, sched, time, (thread, name), tables)
            }
            Event::ThreadEnd(thread) => {
                let at = &mut Context { stream, time, tables };
                self.timeline.locks.thread_ended(&mut self.timeline.tracks, at, thread)?;
                threads.end(&mut self.stream, sched, time, thread, tables)
            }
            Event::ProcessEnd(process) => threads.end_process(stream, sched, process, tables),
            _ => self.on_track(time, event, tables),
        }
    }

    /// What lies on a track.
    fn on_track(&mut self, time: Time, event: &Event, tables: &Tables) -> Result<(), ExportError> {
        if let Some(thread) = thread_of(event, tables) {
            self.threads.ensure(&mut self.stream, &mut self.sched, time, thread, tables)?;
        }
        if let Event::Loss(loss) = event
            && let Some(gap) = loss.scheduling_gap()
        {
            self.sched.gap(time, gap);
            self.stacks.blocked.gap(time, gap);
        }
        let at = &mut Context { stream: &mut self.stream, time, tables };
        self.timeline.event(at, event, &mut self.sched)
    }

    /// The exact totals: per CPU where a loss has one, else one by one.
    fn write_losses(&mut self, time: Time, losses: &[Loss]) -> Result<(), ExportError> {
        let mut of_no_cpu = Vec::new();
        for loss in
            losses.iter().filter(|loss| loss.count > 0 && loss.cause != LossCause::Overwritten)
        {
            match loss.cpu {
                Some(cpu) => {
                    self.stacks.samples.write_lost(&mut self.stream, time, cpu, loss.count)?;
                }
                None => of_no_cpu.push(loss.count),
            }
        }
        session::write_losses(
            &mut self.stream,
            &mut self.system,
            time,
            &of_no_cpu,
            records_overwritten(losses),
        )
    }
}

impl<W: Write> Exporter for PerfettoExporter<W> {
    type Error = ExportError;

    fn begin(&mut self, session: &SessionInfo, _tables: &Tables) -> Result<(), ExportError> {
        self.stacks = StackGraphs::new(session);
        self.sched.begin(session);
        session::write_session(&mut self.stream, &mut self.system, session)
    }

    #[inline]
    fn event(&mut self, time: Time, event: &Event, tables: &Tables) -> Result<(), ExportError> {
        if self.last.is_none() {
            let Self { stream, threads, process, .. } = self;
            threads.begin(
                stream,
                time,
                |thread| wanted(process.as_ref(), thread, tables),
                tables,
            )?;
        }
        self.last = Some(time);
        let narrowed;
        let event = match &self.process {
            None => event,
            Some(filter) => {
                let Some(rest) = concerning(filter, event, tables) else { return Ok(()) };
                narrowed = rest;
                &*narrowed
            }
        };
        match event {
            Event::Switch(switch) => self.switch(time, switch, tables),
            Event::Wakeup(wakeup) => self.wakeup(time, wakeup, tables),
            Event::Sample(sample) => self.sample(time, sample, tables),
            other => self.task(time, other, tables),
        }
    }

    fn end(
        &mut self,
        losses: &[Loss],
        recorder: Option<&RecorderSummary>,
        tables: &Tables,
    ) -> Result<(), ExportError> {
        let time = self.last.unwrap_or_default();
        for stay in self.stacks.blocked.finish(time) {
            self.stacks.off_cpu.stay(&mut self.stream, tables, &stay)?;
        }
        self.threads.finish(&mut self.stream, &mut self.sched, tables)?;
        self.sched.flush(&mut self.stream)?;
        if let Some(summary) = recorder {
            session::write_summary(&mut self.stream, &mut self.system, summary)?;
        }
        self.write_losses(time, losses)
    }
}

/// Whether a thread is of those processes that are written.
fn wanted(filter: Option<&ProcessFilter>, thread: ThreadId, tables: &Tables) -> bool {
    thread == Tables::IDLE_THREAD
        || filter.is_none_or(|filter| filter.matches(tables.thread(thread).process, tables))
}

/// The thread that an event on a track belongs to: the reader is to know it before.
#[inline]
fn thread_of(event: &Event, tables: &Tables) -> Option<ThreadId> {
    match *event {
        Event::SliceBegin(track, _)
        | Event::Instant(track, _)
        | Event::Message(track, _)
        | Event::Counter(track, _) => match tables.track(track).scope {
            Scope::Thread(thread) => Some(thread),
            _ => None,
        },
        Event::Lock(LockEvent { thread, .. }) | Event::Memory(MemoryEvent { thread, .. }) => {
            Some(thread)
        }
        Event::Crash(Crash { thread, .. }) => Some(thread),
        Event::GpuJob(_, ref job) => job.thread,
        _ => None,
    }
}

fn sample_timebase(session: &SessionInfo) -> Timebase {
    // `PerfEvents.Counter`: SW_CPU_CLOCK, HW_CPU_CYCLES.
    let counter = match session.sample_event {
        SampleEvent::CpuClock => 1,
        SampleEvent::Cycles => 10,
        SampleEvent::None | SampleEvent::Other(_) => 0,
    };
    Timebase { name: "CPU samples".into(), counter, frequency: u64::from(session.sample_rate_hz) }
}
