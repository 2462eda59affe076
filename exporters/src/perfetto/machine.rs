//! What is written of one machine: its own sequences of packets, its own threads, CPUs and tracks.

use super::context::Context;
use super::gpu::GpuJobs;
use super::graphs::{Graph, OffCpuGraph};
use super::locks::LockTracks;
use super::loops::LoopTracks;
use super::packets::{Sequence, Timebase};
use super::samples::{CpuMode, SamplePoint, Samples};
use super::sched::Scheduling;
use super::slices::{self, Slices};
use super::stream::Stream;
use super::threads::Threads;
use super::tracks::Tracks;
use super::{memory, session};
use crate::heap::Heap;
use crate::off_cpu::Blocked;
use crate::{ExportError, LoopLimit, ProcessFilter};
use std::io::Write;
use syscollect_model::{
    Crash, Event, LockEvent, Loss, LossCause, MachineId, MemoryEvent, RecorderSummary, Sample,
    SampleEvent, Scope, SessionInfo, Switch, Tables, ThreadId, Time, Wakeup, records_overwritten,
};

/// Writes what happens on one machine.
pub(crate) struct MachineTrace {
    machine: MachineId,
    system: Sequence,
    threads: Threads,
    sched: Scheduling,
    stacks: StackGraphs,
    timeline: Timeline,
    loops: LoopTracks,
}

/// What becomes flame graphs: stacks on CPUs, off them, and of who wakes others.
struct StackGraphs {
    samples: Samples,
    blocked: Blocked,
    off_cpu: OffCpuGraph,
    wakers: Graph,
}

impl StackGraphs {
    fn new(machine: MachineId, session: &SessionInfo) -> Self {
        Self {
            samples: Samples::new(Sequence::new(machine, 5).of_samples(sample_timebase(session))),
            blocked: Blocked::default(),
            off_cpu: OffCpuGraph::new(Sequence::new(machine, 6), session),
            wakers: Graph::wakers(Sequence::new(machine, 7)),
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
    fn new(machine: MachineId) -> Self {
        Self {
            tracks: Tracks::new(machine),
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
            Event::SliceUpdate(track, ref update) => {
                slices.update(track, update);
                Ok(())
            }
            Event::SliceEnd(track) => slices.end(tracks, at, track),
            Event::Instant(track, ref slice) => slices::instant(tracks, at, track, slice),
            Event::Message(track, ref message) => slices::message(tracks, at, track, message),
            Event::FrameImage(track, ref image) => slices::frame_image(tracks, at, track, image),
            Event::Lock(ref event) => locks.event(tracks, at, event),
            Event::Memory(ref event) => memory::event(heap, tracks, at, event),
            Event::Crash(ref crash) => slices::crash(tracks, at, crash),
            Event::SignalExit(ref exit) => slices::signal_exit(tracks, at, exit),
            Event::GpuJob(track, ref job) => gpu.job(tracks, at, track, job),
            Event::Loss(ref loss) => tracks.loss(at, loss),
            _ => Ok(()),
        }
    }
}

impl MachineTrace {
    /// One that says what is known of the machine.
    pub(crate) fn begin<W: Write>(
        machine: MachineId,
        stream: &mut Stream<W>,
        session: &SessionInfo,
        loop_limit: LoopLimit,
    ) -> Result<Self, ExportError> {
        let mut sched = Scheduling::new(Sequence::new(machine, 3));
        sched.begin(session);
        let mut this = Self {
            machine,
            system: Sequence::new(machine, 1),
            threads: Threads::new(Sequence::new(machine, 2)),
            sched,
            stacks: StackGraphs::new(machine, session),
            timeline: Timeline::new(machine),
            loops: LoopTracks::new(loop_limit),
        };
        session::write_session(stream, &mut this.system, session)?;
        Ok(this)
    }

    /// Writes what was there before the first event.
    pub(crate) fn first_event<W: Write>(
        &mut self,
        at: &mut Context<'_, W>,
        filter: Option<&ProcessFilter>,
    ) -> Result<(), ExportError> {
        let tables = at.tables;
        self.threads.begin(at, |thread| {
            let is_here =
                thread == Tables::IDLE_THREAD || tables.machine_of(thread) == self.machine;
            is_here && wanted(filter, thread, tables)
        })
    }

    #[inline]
    pub(crate) fn event<W: Write>(
        &mut self,
        at: &mut Context<'_, W>,
        event: &Event,
        filter: Option<&ProcessFilter>,
    ) -> Result<(), ExportError> {
        match event {
            Event::Switch(switch) => self.switch(at, switch, filter.is_some()),
            Event::Wakeup(wakeup) => self.wakeup(at, wakeup, filter),
            Event::Sample(sample) => self.sample(at, sample),
            other => self.task(at, other),
        }?;
        self.loops.event(&mut self.timeline.tracks, at, event)
    }

    /// Who is blocked is so until now.
    fn end_stays<W: Write>(&mut self, at: &mut Context<'_, W>) -> Result<(), ExportError> {
        for stay in self.stacks.blocked.finish(at.time, |_| true) {
            self.stacks.off_cpu.stay(at.stream, at.tables, &stay)?;
        }
        Ok(())
    }

    /// Writes what is still held.
    pub(crate) fn end<W: Write>(
        &mut self,
        at: &mut Context<'_, W>,
        recorder: Option<&RecorderSummary>,
    ) -> Result<(), ExportError> {
        self.end_stays(at)?;
        self.loops.finish(&mut self.timeline.tracks, at)?;
        self.timeline.gpu.finish(&mut self.timeline.tracks, at)?;
        self.threads.finish(at, &mut self.sched)?;
        self.sched.flush(at.stream)?;
        match recorder {
            Some(summary) => session::write_summary(at.stream, &mut self.system, summary),
            None => Ok(()),
        }
    }

    #[inline]
    fn switch<W: Write>(
        &mut self,
        at: &mut Context<'_, W>,
        switch: &Switch,
        is_filtered: bool,
    ) -> Result<(), ExportError> {
        let Self { threads, sched, .. } = self;
        let Context { time, tables, .. } = *at;
        if is_filtered && sched.stays_idle(switch) {
            return Ok(());
        }
        if let Some(previous) = switch.previous {
            threads.ensure(at, sched, previous)?;
        }
        threads.ensure(at, sched, switch.next)?;
        sched.switch(at.stream, time, switch, &threads.names, tables)?;
        threads.arrived(time, switch.next);
        if let Some(previous) = switch.previous {
            threads.left(at, sched, switch.cpu, (previous, &switch.off_cpu))?;
        }
        match self.stacks.blocked.switch(time, switch) {
            Some(stay) => self.stacks.off_cpu.stay(at.stream, tables, &stay),
            None => Ok(()),
        }
    }

    #[inline]
    fn wakeup<W: Write>(
        &mut self,
        at: &mut Context<'_, W>,
        wakeup: &Wakeup,
        filter: Option<&ProcessFilter>,
    ) -> Result<(), ExportError> {
        let Self { threads, sched, .. } = self;
        let Context { time, tables, .. } = *at;
        if let Some(waker) = wakeup.waker {
            threads.ensure(at, sched, waker)?;
        }
        if wakeup.new {
            let creator = wakeup.waker.map(|waker| (wakeup.cpu, waker));
            threads.first_wakeup(at, sched, wakeup.wakee, creator)?;
        }
        threads.ensure(at, sched, wakeup.wakee)?;
        sched.wakeup(at.stream, time, wakeup, &threads.names, tables)?;
        match (wakeup.waker, wakeup.stack) {
            (Some(waker), Some(stack)) if wanted(filter, waker, tables) => {
                let point = SamplePoint { time, cpu: wakeup.cpu, thread: waker };
                self.stacks.wakers.write(at.stream, tables, point, stack)
            }
            _ => Ok(()),
        }
    }

    #[inline]
    fn sample<W: Write>(
        &mut self,
        at: &mut Context<'_, W>,
        sample: &Sample,
    ) -> Result<(), ExportError> {
        let Self { threads, sched, .. } = self;
        let Context { time, tables, .. } = *at;
        threads.ensure(at, sched, sample.thread)?;
        let time = threads.while_known(time, sample.thread);
        let mode = if sample.in_kernel { CpuMode::Kernel } else { CpuMode::User };
        let point = SamplePoint { time, cpu: sample.cpu, thread: sample.thread };
        self.stacks.samples.write(at.stream, tables, point, mode, sample.stack)
    }

    /// What happens to tasks, but for switches and wakeups.
    fn task<W: Write>(
        &mut self,
        at: &mut Context<'_, W>,
        event: &Event,
    ) -> Result<(), ExportError> {
        let Self { threads, sched, .. } = self;
        let Context { time, tables, .. } = *at;
        match *event {
            Event::Migration(ref migration) => {
                threads.ensure(at, sched, migration.thread)?;
                sched.migrate(at.stream, time, migration, &threads.names, tables)
            }
            Event::ProcessStart(process) => {
                threads.start_process(time, process, tables);
                Ok(())
            }
            Event::ThreadStart(thread) => {
                threads.start(time, thread);
                Ok(())
            }
            Event::ProcessExec(process, name) => threads.exec(at, sched, (process, name)),
            Event::ThreadName(thread, name) => threads.rename(at, sched, (thread, name)),
            Event::ThreadEnd(thread) => {
                self.timeline.locks.thread_ended(&mut self.timeline.tracks, at, thread)?;
                threads.end(at, sched, thread)
            }
            Event::ProcessEnd(process) => threads.end_process(at, sched, process),
            Event::RecordingEnd(_) => {
                sched.end_recording(at.stream, time, &threads.names, tables)?;
                self.end_stays(at)
            }
            _ => self.on_track(at, event),
        }
    }

    /// What lies on a track.
    fn on_track<W: Write>(
        &mut self,
        at: &mut Context<'_, W>,
        event: &Event,
    ) -> Result<(), ExportError> {
        if let Some(thread) = thread_of(event, at.tables) {
            self.threads.ensure(at, &mut self.sched, thread)?;
        }
        if let Event::Loss(loss) = event
            && let Some(gap) = loss.scheduling_gap()
        {
            self.sched.gap(at.time, gap);
            self.stacks.blocked.gap(at.time, gap);
        }
        self.timeline.event(at, event, &mut self.sched)
    }

    /// The exact totals: per CPU where a loss has one, else one by one.
    pub(crate) fn write_losses<W: Write>(
        &mut self,
        stream: &mut Stream<W>,
        time: Time,
        losses: &[Loss],
    ) -> Result<(), ExportError> {
        let mut of_no_cpu = Vec::new();
        for loss in
            losses.iter().filter(|loss| loss.count > 0 && loss.cause != LossCause::Overwritten)
        {
            match loss.cpu {
                Some(cpu) => {
                    self.stacks.samples.write_lost(stream, time, cpu, loss.count)?;
                }
                None => of_no_cpu.push(loss.count),
            }
        }
        session::write_losses(
            stream,
            &mut self.system,
            time,
            &of_no_cpu,
            records_overwritten(losses),
        )
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
