//! Profiles for the Firefox Profiler, profiler.firefox.com.
//!
//! What a session becomes:
//!
//! | model | profile |
//! |---|---|
//! | processes and threads with events | a thread each, grouped by process; an id used twice gets `.1` |
//! | CPU samples | samples of weight 1; idle ones on the thread of process 0, named after the machine |
//! | time off the CPU | samples whose innermost frame, of category Off-CPU, is the reason, one for each sampling interval |
//! | switches | CPU time between samples, to the nanosecond |
//! | inlined frames, files, lines, modules | frames with depth, source and line; libraries with build ids |
//! | counters | counter tracks, those of the machine and of CPUs under process 0 |
//! | slices, frames, instants, losses, programs | markers with a schema each; of a process they lie under its first thread |
//! | schemas | schemas; equal ones of two programs are one |
//! | locks | markers "Lock wait" and "Lock held" |
//! | event loops | markers "Event loop away" for stretches over a limit without their wait |
//! | memory | a counter track for each pool, at most one value and one peak every 100 µs |
//! | crashes | markers with their stacks |
//! | processes that a signal ended | markers of their first threads |
//! | GPU jobs | markers on a thread for each queue, of process 0 or of the queue's; where a thread submits one, a marker there |
//! | switches and wakeups one by one | markers with their stacks, by [`FirefoxOptions::sched_markers`] |
//! | the session, the recorder's summary, exact losses | the panel about the profile |
//!
//! **Written here, not through the crate `fxprof-processed-profile`** (0.8.1):
//! that one writes constants for source files, lines and inline depth, so the
//! names found could not be shown with their places, and it keeps stacks,
//! frames and strings for each thread, where one kernel stack would be stored
//! hundreds of times. Version 63 of the format shares these tables, and says
//! how counters are shown.
//!
//! Source of fact: `src/types/profile.ts` and `docs-developer/CHANGELOG-formats.md`
//! of the Firefox Profiler; the tests' figures were compared with its engine.
//!
//! The format is grouped by thread, so everything is held until the end: about
//! 32 bytes for each sample, 100 for each marker, and 40 for each field of one.

mod colors;
mod counters;
mod ended;
mod gpu;
mod kinds;
mod loops;
mod marker_table;
mod markers;
mod meta;
mod resources;
mod slices;
mod tables;
mod threads;
mod visible;
mod write;

use crate::event_loops::Stretch;
use crate::report::loop_watch::{LoopWatch, StretchSleep};
use crate::{ExportError, LoopLimit, ProcessFilter};
use counters::Counter;
use ended::EndedProfile;
use gpu::Queues;
use markers::{Cause, Data, LossData, Marker, Timing};
use meta::ProfileSpan;
use resources::{LockMarkers, MemoryCounters};
use rustc_hash::FxHashMap;
use slices::Slices;
use std::collections::BTreeMap;
use std::io::Write;
use syscollect_model::{
    CpuId, Crash, Event, Exporter, GpuJob, LockEvent, Loss, MachineId, MemoryEvent, ProcessId,
    RecorderSummary, Sample, SchedulingGap, Scope, SessionInfo, Switch, Tables, ThreadId, Time,
    TrackId, Wakeup, records_overwritten,
};
use tables::{Category, OffReason, Shared};
use threads::ThreadState;

/// The version of the format.
const VERSION: u32 = 63;

/// The interval where no samples were taken, nanoseconds: the grain of time off the CPU.
const DEFAULT_INTERVAL: u64 = 1_000_000;

/// What to write.
#[derive(Clone, Debug, Default)]
pub struct FirefoxOptions {
    /// Compress with gzip: `.json.gz`.
    pub gzip: bool,
    /// Each switch and each wakeup as a marker: hundreds of megabytes for a long recording.
    pub sched_markers: bool,
    /// Only the threads of these processes.
    pub process: Option<ProcessFilter>,
    /// Event loops are told to be away after that time.
    pub loop_limit: LoopLimit,
}

/// What is known before the first event.
#[derive(Default)]
struct Config {
    session: SessionInfo,
    /// Nanoseconds between samples.
    interval: u64,
}

/// Writes a session as a profile for the Firefox Profiler.
///
/// Nothing is written before [`finish`](Self::finish), because the format is
/// grouped by thread; [`expected_bytes`](Self::expected_bytes) says how much
/// it will be.
///
/// ```
/// use syscollect_exporters::{FirefoxExporter, FirefoxOptions};
/// use syscollect_model::{Exporter, SessionInfo, Tables};
///
/// let tables = Tables::default();
/// let mut exporter = FirefoxExporter::new(Vec::new(), FirefoxOptions::default());
/// exporter.begin(&tables)?;
/// exporter.end(&[], None, &tables)?;
/// assert!(exporter.expected_bytes() < 10_000);
/// let file: Vec<u8> = exporter.finish()?;
/// assert!(file.starts_with(b"{\"meta\":{"));
/// # Ok::<(), syscollect_exporters::ExportError>(())
/// ```
pub struct FirefoxExporter<W> {
    out: W,
    options: FirefoxOptions,
    config: Config,
    shared: Shared,
    threads: ThreadStates,
    cpus: RunningThreads,
    timeline: Timeline,
    loops: LoopWatch,
    /// Time of the first event, or when the clocks were first read, and of the last event.
    origin: Option<Time>,
    /// The first event.
    first: Option<Time>,
    last: Time,
    /// What was known at the end.
    ended: EndedProfile,
}

/// The threads of which something was told.
#[derive(Default)]
struct ThreadStates {
    /// By thread; boxed, as most threads of a machine do nothing.
    states: Vec<Option<Box<ThreadState>>>,
    /// The first thread of each process, under which lies what belongs to the process.
    main: FxHashMap<ProcessId, ThreadId>,
}

impl ThreadStates {
    #[inline]
    fn get(&mut self, id: ThreadId) -> &mut ThreadState {
        if id.index() >= self.states.len() {
            self.states.resize_with(id.index() + 1, || None);
        }
        self.states[id.index()].get_or_insert_default()
    }

    /// The thread under which a track's markers lie.
    fn of_track(&mut self, scope: Scope, tables: &Tables) -> ThreadId {
        match scope {
            Scope::Machine(_) | Scope::Cpu(_) => Tables::IDLE_THREAD,
            Scope::Thread(id) => id,
            Scope::Process(id) => {
                *self.main.entry(id).or_insert_with(|| ended::main_thread(id, tables))
            }
        }
    }
}

/// What runs on CPUs.
#[derive(Default)]
struct RunningThreads {
    by_cpu: FxHashMap<CpuId, ThreadId>,
    /// A switch was told: they are the measure of CPU time.
    has_switches: bool,
}

/// What is told of tracks and resources.
#[derive(Default)]
struct Timeline {
    counters: BTreeMap<TrackId, Counter>,
    slices: Slices,
    locks: LockMarkers,
    memory: MemoryCounters,
    queues: Queues,
}

impl<W: Write> FirefoxExporter<W> {
    /// A writer to `out`, which gets large pieces and needs no buffer.
    pub fn new(out: W, options: FirefoxOptions) -> Self {
        Self {
            out,
            loops: LoopWatch::new(options.loop_limit),
            options,
            config: Config::default(),
            shared: Shared::default(),
            threads: ThreadStates::default(),
            cpus: RunningThreads::default(),
            timeline: Timeline::default(),
            origin: None,
            first: None,
            last: Time(0),
            ended: EndedProfile::default(),
        }
    }

    /// About how long the JSON will be, before compression: what a browser
    /// must hold several times over. Known after the session's end.
    pub fn expected_bytes(&self) -> u64 {
        let states = self.ended.threads.iter().map(|thread| &thread.state);
        let samples: usize = states.clone().map(|state| state.samples.len()).sum();
        let markers: usize = states.map(|state| state.markers.expected_bytes()).sum();
        let values: usize = self.ended.counters.iter().map(|counter| counter.rows.len()).sum();
        let strings = self.shared.strings.bytes() + 3 * self.shared.strings.len();
        let tables = self.shared.stacks.len() * 12
            + self.shared.frames.len() * 50
            + self.shared.funcs.len() * 40;
        // Bytes of a row, as measured on recordings.
        let rows = samples * 26 + markers + values * 30 + self.ended.threads.len() * 700;
        (4_000 + rows + strings + tables) as u64
    }

    /// Writes the profile and gives the output back.
    ///
    /// # Errors
    ///
    /// [`ExportError::Write`] when the output refuses bytes.
    pub fn finish(self) -> Result<W, ExportError> {
        let Self { out, options, shared, ended, .. } = self;
        write::write(out, options.gzip, &shared, &ended)
    }

    /// Whether a process is among those wanted. Process 0 also stands for the machine, whose tracks
    /// are always there.
    #[inline]
    fn wanted(&self, process: ProcessId, tables: &Tables) -> bool {
        let Some(filter) = &self.options.process else { return true };
        process == Tables::IDLE_PROCESS || filter.matches(process, tables)
    }

    /// The state of a thread; `None` if it is not among those wanted.
    #[inline]
    fn thread(&mut self, id: ThreadId, tables: &Tables) -> Option<&mut ThreadState> {
        if !self.wanted(tables.thread(id).process, tables) {
            return None;
        }
        Some(self.threads.get(id))
    }

    #[inline]
    fn switch(&mut self, time: u64, switch: &Switch, tables: &Tables) {
        let interval = self.config.interval;
        self.cpus.has_switches = true;
        let current = self.cpus.by_cpu.insert(switch.cpu, switch.next);
        if let Some(current) = current.filter(|id| Some(*id) != switch.previous)
            && let Some(state) = self.thread(current, tables)
        {
            state.lose();
        }
        if let Some(previous) = switch.previous.filter(|id| *id != Tables::IDLE_THREAD) {
            let stack = switch.off_cpu.stack.and_then(|stack| self.shared.stack(stack, tables));
            let reason = OffReason::of(&switch.off_cpu);
            let came =
                self.thread(previous, tables).and_then(|state| state.leaves(time, stack, reason));
            if self.options.sched_markers {
                self.running_marker((came, time), (previous, switch), (stack, reason), tables);
            }
        }
        if switch.next != Tables::IDLE_THREAD {
            self.with_shared(switch.next, tables, |state, shared| {
                state.comes(time, interval, shared);
            });
        }
    }

    /// What needs a thread and the shared tables at once.
    #[inline]
    fn with_shared(
        &mut self,
        id: ThreadId,
        tables: &Tables,
        act: impl FnOnce(&mut ThreadState, &mut Shared),
    ) {
        // Taken out and put back, which moves a pointer.
        if self.thread(id, tables).is_none() {
            return;
        }
        if let Some(mut state) = self.threads.states[id.index()].take() {
            act(&mut state, &mut self.shared);
            self.threads.states[id.index()] = Some(state);
        }
    }

    #[inline]
    fn wakeup(&mut self, time: u64, wakeup: &Wakeup, tables: &Tables) {
        let interval = self.config.interval;
        self.with_shared(wakeup.wakee, tables, |state, shared| state.wakes(time, interval, shared));
        if self.options.sched_markers {
            let waker = match wakeup.waker {
                _ if wakeup.from_interrupt => "an interrupt".to_owned(),
                Some(id) => {
                    let row = tables.thread(id);
                    format!("{} ({})", tables.strings.get(row.name), row.tid)
                }
                None => "an unknown thread".to_owned(),
            };
            let waker = self.shared.string(&waker);
            let stack = wakeup.stack.and_then(|stack| self.shared.stack(stack, tables));
            let cause = stack.map(|stack| Cause { stack });
            let data = Data::Wakeup {
                waker,
                cpu: wakeup.cpu.number,
                target: wakeup.target_cpu.number,
                cause,
            };
            self.marker(
                wakeup.wakee,
                "Wakeup",
                (Category::Scheduling, Timing::Instant(time)),
                data,
                tables,
            );
        }
    }

    #[inline]
    fn sample(&mut self, time: u64, sample: &Sample, tables: &Tables) {
        let category = if sample.in_kernel { Category::Kernel } else { Category::User };
        let known = sample.stack.and_then(|stack| self.shared.stack(stack, tables));
        let stack = known.unwrap_or_else(|| self.shared.labelled(None, "[no stack]", category, 0));
        let idle = sample.thread == Tables::IDLE_THREAD;
        if let Some(state) = self.thread(sample.thread, tables) {
            state.sample(time, stack, idle);
        }
    }

    fn running_marker(
        &mut self,
        (came, left): (Option<u64>, u64),
        (thread, switch): (ThreadId, &Switch),
        (stack, reason): (Option<u32>, Option<OffReason>),
        tables: &Tables,
    ) {
        let next = self.shared.string(reason.map_or("ends", OffReason::name));
        let function =
            switch.off_cpu.blocked_in.map(|id| self.shared.string(tables.strings.get(id)));
        let data = Data::Running {
            cpu: switch.cpu.number,
            next,
            function,
            cause: stack.map(|stack| Cause { stack }),
        };
        // One that ran when the recording began came at an unknown time.
        let timing = came.map_or(Timing::Instant(left), |came| Timing::Interval(came, left));
        self.marker(thread, "Running", (Category::Scheduling, timing), data, tables);
    }

    fn marker(
        &mut self,
        thread: ThreadId,
        name: &str,
        (category, timing): (Category, Timing),
        data: Data,
        tables: &Tables,
    ) {
        let name = self.shared.string(name);
        if let Some(state) = self.thread(thread, tables) {
            state.markers.push(&Marker {
                name,
                category: category.index(),
                timing,
                data: data.into(),
            });
        }
    }

    fn push_markers(
        &mut self,
        markers: impl IntoIterator<Item = (ThreadId, Marker)>,
        tables: &Tables,
    ) {
        for (thread, marker) in markers {
            if let Some(state) = self.thread(thread, tables) {
                state.markers.push(&marker);
            }
        }
    }

    fn slice(&mut self, time: u64, event: &Event, tables: &Tables) {
        let (Event::SliceBegin(track, _)
        | Event::SliceUpdate(track, _)
        | Event::SliceEnd(track)
        | Event::Instant(track, _)
        | Event::Message(track, _)
        | Event::FrameImage(track, _)) = event
        else {
            return;
        };
        if !self.wanted(ended::process_of(tables.track(*track).scope, tables), tables) {
            return;
        }
        let (track, marker) = match event {
            Event::SliceBegin(track, slice) => {
                return self.timeline.slices.begin(*track, time, slice);
            }
            Event::SliceUpdate(track, update) => {
                return self.timeline.slices.update(*track, update);
            }
            Event::SliceEnd(track) => {
                (*track, self.timeline.slices.end(*track, time, &mut self.shared, tables))
            }
            Event::Instant(track, slice) => (
                *track,
                Some(self.timeline.slices.instant(*track, (time, slice), &mut self.shared, tables)),
            ),
            Event::FrameImage(track, image) => {
                let mark = (image.at.0, &image.mark);
                (*track, Some(self.timeline.slices.instant(*track, mark, &mut self.shared, tables)))
            }
            Event::Message(track, message) => {
                let message = (time, message);
                (
                    *track,
                    Some(self.timeline.slices.message(*track, message, &mut self.shared, tables)),
                )
            }
            _ => return,
        };
        let thread = self.threads.of_track(tables.track(track).scope, tables);
        self.push_markers(marker.map(|marker| (thread, marker)), tables);
    }

    fn resource(&mut self, time: u64, event: &Event, tables: &Tables) {
        let (Event::Lock(LockEvent { thread, .. })
        | Event::Memory(MemoryEvent { thread, .. })
        | Event::Crash(Crash { thread, .. })) = event
        else {
            return;
        };
        if !self.wanted(tables.thread(*thread).process, tables) {
            return;
        }
        match event {
            Event::Lock(event) => {
                let markers = self.timeline.locks.event(time, event, &mut self.shared, tables);
                self.push_markers(markers, tables);
            }
            Event::Memory(event) => self.timeline.memory.event(time, event, tables),
            Event::Crash(crash) => {
                let marker = resources::crash(time, crash, &mut self.shared, tables);
                self.push_markers([(crash.thread, marker)], tables);
            }
            _ => {}
        }
    }

    fn gpu_job(&mut self, time: u64, track: TrackId, job: &GpuJob, tables: &Tables) {
        let owner = ended::process_of(tables.track(track).scope, tables);
        // On a queue of the machine, whose job it is tells whether it is wanted.
        let process = job.thread.map_or(owner, |thread| tables.thread(thread).process);
        if self.wanted(process, tables) {
            let submitted =
                self.timeline.queues.job(time, (track, owner), job, &mut self.shared, tables);
            self.push_markers(submitted, tables);
        }
    }

    fn loop_markers(&mut self, stretches: &[Stretch<StretchSleep>], tables: &Tables) {
        for stretch in stretches {
            let marker = loops::marker(stretch, &mut self.shared, tables);
            self.push_markers([(stretch.thread, marker)], tables);
        }
    }

    /// What has not ended when the session does.
    fn close_all(&mut self, tables: &Tables) {
        for (track, marker) in self.timeline.slices.finish(&mut self.shared, tables) {
            let thread = self.threads.of_track(tables.track(track).scope, tables);
            self.push_markers([(thread, marker)], tables);
        }
        let locks = self.timeline.locks.finish(&mut self.shared, tables);
        self.push_markers(locks, tables);
    }

    /// Tracks of counters lie under the first thread of their process, which is there for them.
    fn keep_main_threads(&mut self, tables: &Tables) {
        let tracks = self
            .timeline
            .counters
            .keys()
            .map(|track| ended::process_of(tables.track(*track).scope, tables));
        let pools = self.timeline.memory.pools.keys().map(|(process, _)| *process);
        let queues = self.timeline.queues.threads.keys().map(|(process, _)| *process);
        let processes: Vec<ProcessId> = tracks.chain(pools).chain(queues).collect();
        for process in processes {
            let main = self.threads.of_track(Scope::Process(process), tables);
            if tables.thread(main).process == process {
                let _ = self.thread(main, tables);
            }
        }
    }

    /// The recording of a machine ends: what its threads do lasts until now.
    fn end_machine(&mut self, time: u64, machine: MachineId, tables: &Tables) {
        let interval = self.config.interval;
        self.cpus.by_cpu.retain(|cpu, _| cpu.machine != machine);
        let states = (0..).map(ThreadId).zip(&mut self.threads.states).skip(1);
        for (thread, state) in states {
            if let Some(state) = state
                && tables.machine_of(thread) == machine
            {
                state.finish(time, interval, &mut self.shared);
                state.lose();
            }
        }
    }

    /// What ran there is not known any more.
    fn gap(&mut self, time: u64, gap: SchedulingGap, tables: &Tables) {
        let cpus =
            gap.cpu.map_or_else(|| self.cpus.by_cpu.keys().copied().collect(), |cpu| vec![cpu]);
        let since = gap.since.map_or(time, |since| since.0);
        for thread in cpus.iter().filter_map(|cpu| self.cpus.by_cpu.remove(cpu)).collect::<Vec<_>>()
        {
            if let Some(state) = self.thread(thread, tables) {
                state.unknown(since);
            }
        }
    }

    fn loss(&mut self, time: u64, loss: &Loss, tables: &Tables) {
        let timing = match loss.between {
            Some((from, to)) => Timing::Interval(from.0, to.0.max(from.0)),
            None => Timing::Instant(time),
        };
        if let Some(gap) = loss.scheduling_gap() {
            self.gap(time, gap, tables);
        }
        let data = Data::Loss(LossData::new(loss));
        self.marker(Tables::IDLE_THREAD, "Lost records", (Category::Loss, timing), data, tables);
    }

    /// One marker for each process that is written: what it was started as.
    fn describe_processes(&mut self, begin: u64, tables: &Tables) {
        let mut seen: Vec<bool> = vec![false; tables.processes.len()];
        for index in 0..self.threads.states.len() {
            let process = tables.threads[index].process;
            if self.threads.states[index].is_none()
                || process == Tables::IDLE_PROCESS
                || seen[process.index()]
            {
                continue;
            }
            seen[process.index()] = true;
            let row = tables.process(process);
            let main = ended::main_thread(process, tables);
            if !row.command_line.is_empty() {
                let data =
                    Data::Process { command: row.command_line.join(" "), parent: row.parent_pid };
                let at = row.start.map_or(begin, |time| time.0.max(begin));
                self.marker(main, "Process", (Category::Other, Timing::Instant(at)), data, tables);
            } else {
                // Its track needs its first thread all the same.
                let _ = self.thread(main, tables);
            }
        }
    }
}

impl<W: Write> Exporter for FirefoxExporter<W> {
    type Error = ExportError;

    fn begin(&mut self, tables: &Tables) -> Result<(), ExportError> {
        let session = tables.machine(MachineId::FIRST);
        let rate = u64::from(session.sample_rate_hz);
        let interval = 1_000_000_000u64.checked_div(rate).unwrap_or(DEFAULT_INTERVAL).max(1);
        self.config = Config { session: session.clone(), interval };
        // Times are those that `--from` and the report have: since the clocks were first read.
        self.origin = session.clock_pairs.first().map(|pair| Time(pair.boottime));
        self.shared.libs.arch.clone_from(&session.machine);
        // The machine is always there, for its counters and its losses.
        let _ = self.thread(Tables::IDLE_THREAD, tables);
        Ok(())
    }

    #[inline]
    fn event(&mut self, time: Time, event: &Event, tables: &Tables) -> Result<(), ExportError> {
        let origin = self.origin.get_or_insert(time);
        *origin = (*origin).min(time);
        self.first.get_or_insert(time);
        self.last = time;
        if self.loops.event(time, event, tables) {
            let stretches = self.loops.take();
            self.loop_markers(&stretches, tables);
        }
        let time = time.0;
        match event {
            Event::Switch(switch) => self.switch(time, switch, tables),
            Event::Wakeup(wakeup) => self.wakeup(time, wakeup, tables),
            Event::Sample(sample) => self.sample(time, sample, tables),
            Event::SliceBegin(..)
            | Event::SliceUpdate(..)
            | Event::SliceEnd(..)
            | Event::Instant(..)
            | Event::Message(..)
            | Event::FrameImage(..) => {
                self.slice(time, event, tables);
            }
            Event::Counter(track, value) => {
                self.timeline.counters.entry(*track).or_default().push(time, *value);
            }
            Event::Loss(loss) => self.loss(time, loss, tables),
            Event::RecordingEnd(machine) => self.end_machine(time, *machine, tables),
            Event::ThreadStart(thread) => {
                let _ = self.thread(*thread, tables);
            }
            Event::ThreadEnd(thread) => {
                let _ = self.thread(*thread, tables);
                let markers =
                    self.timeline.locks.thread_ended(time, *thread, &mut self.shared, tables);
                self.push_markers(markers, tables);
            }
            Event::GpuJob(track, job) => self.gpu_job(time, *track, job, tables),
            Event::Lock(_) | Event::Memory(_) | Event::Crash(_) => {
                self.resource(time, event, tables);
            }
            Event::SignalExit(exit) if self.wanted(exit.process, tables) => {
                let main = self.threads.of_track(Scope::Process(exit.process), tables);
                let marker = resources::signal_exit(time, exit, &mut self.shared, tables);
                self.push_markers([(exit.thread.unwrap_or(main), marker)], tables);
            }
            // Threads and processes have their last names and their times from the tables.
            Event::Migration(_)
            | Event::ProcessStart(_)
            | Event::ProcessExec(..)
            | Event::ProcessEnd(_)
            | Event::SignalExit(_)
            | Event::ThreadName(..)
            | Event::LoopMark(..)
            | Event::Asleep(..) => {}
        }
        Ok(())
    }

    fn end(
        &mut self,
        losses: &[Loss],
        recorder: Option<&RecorderSummary>,
        tables: &Tables,
    ) -> Result<(), ExportError> {
        let (end, interval) = (self.last.0, self.config.interval);
        if !self.cpus.has_switches {
            let threads = self.threads.states.iter_mut().skip(Tables::IDLE_THREAD.index() + 1);
            threads.flatten().for_each(|state| state.count_samples(interval));
        }
        for state in self.threads.states.iter_mut().flatten() {
            state.finish(end, interval, &mut self.shared);
        }
        let stretches = self.loops.finish(self.last);
        self.loop_markers(&stretches, tables);
        self.close_all(tables);
        self.keep_main_threads(tables);
        let origin = self.origin.unwrap_or_default().0;
        // What was overwritten is not shown as if nothing had happened.
        let first = self.first.filter(|_| records_overwritten(losses) > 0);
        let begin = first.map_or(origin, |first| first.0);
        self.describe_processes(begin, tables);
        let span = ProfileSpan { origin, begin, end: end.max(origin) };
        let mut threads = ended::threads(
            std::mem::take(&mut self.threads.states),
            &self.config.session,
            span,
            tables,
        );
        ended::add_queues(&mut threads, std::mem::take(&mut self.timeline.queues.threads), tables);
        let counters =
            ended::counters(&self.timeline.counters, &self.timeline.memory.pools, &threads, tables);
        let kinds = self.timeline.slices.kinds.schemas();
        let mut meta = meta::meta(&self.config, span, (losses, recorder), kinds, &self.shared);
        visible::choose_visible(&mut meta, &threads, &self.config.session);
        self.ended = EndedProfile { span, meta, threads, counters };
        Ok(())
    }
}
