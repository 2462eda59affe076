//! What a session amounts to: the busiest, the slowest, the most waited for.
//!
//! # Definitions
//!
//! **The session** lasts from its first event to its last.
//!
//! **Thread states.** A thread is *on CPU* from the switch to it until the
//! switch from it. From a switch away with the state runnable, or by
//! preemption, it *waits* for a CPU; from any other it is *blocked*, and from
//! the wakeup on it waits, until the switch to it. A new thread waits from its
//! first wakeup on. After a switch away as dead or zombie it is gone. What
//! fits none of these is *unknown*; the four add up to the time that the
//! thread was there within the session.
//!
//! - At the beginning every thread and every CPU is unknown, until the first
//!   event that tells: a switch, a wakeup (of the thread, or by it), a sample.
//!   Of a part of a session the events before it tell that, too. Who was seen asleep before any
//!   such event was blocked from the beginning on; in what is known, since when is not, so that it
//!   is none of the longest waits.
//! - What lasts at the end of the session counts up to there. Of a thread that
//!   has ended and whose last switch is missing, the time after what was last
//!   known of it is not counted.
//! - A wakeup of a thread on CPU changes nothing. If the thread then leaves as
//!   blocked and comes back without another wakeup, that wakeup met it on its
//!   way: it waited all the time.
//! - A thread that comes back without any wakeup was blocked all the time.
//!
//! **Off the CPU.** Time blocked is of one of three classes, by what the thread waited for:
//! *blocked* (something held it up: a lock, I/O, a child process), *idle* (it had nothing to do:
//! an event loop, a sleep, an idle worker or thread of the kernel), or *undecided* (it waited for
//! another thread, for a pipe or a socket, or for something unknown: for work or for an answer,
//! and nothing that was recorded says which). The rules are in `wait_for`, the names in
//! `wait_names` and `wait_python`. What of the recorder's own time would be undecided is idle.
//!
//! **Losses.** Where scheduling records of a CPU are lost, what runs there is
//! unknown from the last record before to the first one after, and so is every
//! thread off the CPU, which may have been woken, run and slept again. Outside
//! of the loss such a thread is taken to be in the state that the events
//! before and after agree on (blocked, then woken; waiting, then on CPU; and
//! any state that lasts to the end). Where they do not agree (blocked, then on
//! CPU without a wakeup), it is unknown from the loss's beginning to the event
//! after. What was counted before the loss became known stays.
//!
//! An event that contradicts what is known of its CPU (another thread leaves
//! it, or wakes from it, than the one that ran) shows that a switch of the CPU
//! is missing since the one before, though no [`Loss`] tells of it. It is
//! counted ([`Report::unreported_gaps`], as [`OnCpu`] finds it for all who tell of losses), and
//! what ran there is unknown in between. Threads off the CPU need not have run meanwhile: they are
//! unknown only if their own events do not agree. Where only some processes were recorded it is
//! none: then just what ran is unknown from its beginning. So is what runs on a CPU when it comes
//! onto another.
//!
//! **Idle** is no thread here: its time is the CPUs' idle time. A thread id
//! that was used twice is two threads. A thread that calls exec and takes over
//! the main thread's id is two threads too; the second runs on from the first.
//!
//! **Run-queue latency** is the length of a wait from its beginning (wakeup or
//! preemption) to its end (on CPU), where nothing is missing between. Waits
//! that do not begin and end within the session are not in it.
//!
//! **Off-CPU time** by stack and by reason is the time blocked; waiting is not
//! in it.
//!
//! **Functions.** Samples of idle CPUs are left out. A sample counts for the
//! function of its innermost frame (inlined ones included) as self, and once
//! for each function in its stack as total. A function is a name in a module;
//! all code of a module without names is one.
//!
//! **Slices** that begin and end within the session are measured; numbers are
//! no part of their names, places in the source are. Of a slice on a thread's
//! track it is told what the thread did from its beginning to its end, slices
//! inside included; frames are told by set and are no slices here. Of a slice in another of its
//! name and place on one track (a recursion) the time is that one's: it is in no total.
//!
//! **Locks.** A wait is contended if another thread is known to hold the lock
//! when it begins. A thread that obtains a lock ends the holds that exclude it.
//!
//! **Memory** of programs that was there before the session is not known: a free
//! of it is counted as one of unknown memory and makes nothing smaller.
//!
//! **GPU jobs** are told by queue and by the process that submitted them. Delay
//! is the time from submission to start, and only of jobs of which both are known.
//! A job that a thread waited for is the one whose end signaled the fence.
//!
//! **One process.** With a filter, processes, threads, functions, off-CPU time, latencies,
//! migrations, slices, counters (of the process and its threads), locks, memory, GPU jobs, waits
//! for fences, crashes and unresolved code are those of the chosen processes; wakeups are those
//! that they did or got. CPUs, counts of events and losses stay the machine's.
//!
//! **Memory** grows with threads, stacks and names, never with the number of
//! events; tables of pairs stop growing at some hundred thousand rows.

mod account;
mod build;
mod callers;
mod capped;
mod cpu;
mod data;
mod durations;
mod fence_waits;
mod filter;
mod gpu;
mod hints;
mod locks;
mod longest;
pub(crate) mod off_cpu;
mod own_code;
mod plots;
mod samples;
mod scheduling;
mod slices;
mod stack_labels;
mod text;
mod tree;
mod unresolved;
pub(crate) mod wait_for;
mod wait_names;
mod wait_python;
mod worst;

pub use data::*;
pub use filter::{Family, ProcessFilter};
pub use tree::{MAX_TREE_DEPTH, TreeOptions};

use crate::heap::Heap;
use crate::labels;
use crate::overwritten::OverwrittenTime;
use callers::Callers;
use capped::Capped;
use gpu::GpuAccounts;
use locks::LockAccounts;
use plots::Plots;
use samples::Samples;
use scheduling::Scheduling;
use slices::Slices;
use std::convert::Infallible;
use syscollect_model::{
    CpuId, Crash, Event, Exporter, Loss, MachineId, Migration, OnCpu, RecorderSummary, Sample,
    Scope, SessionInfo, StackId, StopReason, StringId, Switch, Tables, ThreadId, Time, TrackId,
    Wakeup,
};

/// Pairs of threads that wake each other.
const MAX_WAKE_PAIRS: usize = 1 << 19;
/// Pairs of CPUs.
const MAX_CPU_PAIRS: usize = 1 << 16;
/// Crashes that are told.
const MAX_CRASHES: usize = 1 << 10;

/// What a report is to show.
#[derive(Clone, Debug)]
pub struct ReportOptions {
    /// Only these processes.
    pub process: Option<ProcessFilter>,
    /// Only this part of the session is played.
    pub part: Option<ReportRange>,
    /// Rows of each table; their full number is told.
    pub rows: usize,
    /// So many of the longest waits of each kind are told one by one; 0 is none.
    pub worst: usize,
    /// Among the longest times blocked are those of threads that had nothing to do.
    pub worst_idle: bool,
    /// Call trees are wanted, made so.
    pub tree: Option<TreeOptions>,
    /// Of threads that slept from beginning to end the text has rows for those, too, that had
    /// nothing to do.
    pub idle_sleepers: bool,
}

impl Default for ReportOptions {
    fn default() -> Self {
        Self {
            process: None,
            part: None,
            rows: 15,
            worst: 0,
            worst_idle: false,
            tree: None,
            idle_sleepers: false,
        }
    }
}

/// Who made a thread runnable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Waker {
    Thread(ThreadId),
    Interrupt,
    Unknown,
}

impl Waker {
    #[inline]
    fn of(wakeup: &Wakeup) -> Self {
        match wakeup.waker {
            _ if wakeup.from_interrupt => Self::Interrupt,
            Some(waker) => Self::Thread(waker),
            None => Self::Unknown,
        }
    }
}

/// Sums up a session; the definitions are in [the module's documentation](self).
///
/// ```
/// use syscollect_exporters::report::{ReportExporter, ReportOptions};
/// use syscollect_model::{Exporter, Tables};
///
/// let tables = Tables::default();
/// let mut exporter = ReportExporter::new(ReportOptions::default());
/// exporter.begin(&tables)?;
/// exporter.end(&[], None, &tables)?;
/// let report = exporter.finish();
/// assert_eq!(report.duration_ns, 0);
/// assert!(report.text(100).contains("Lost"));
/// # Ok::<(), std::convert::Infallible>(())
/// ```
pub struct ReportExporter {
    options: ReportOptions,
    recording: Recording,
    counts: EventCounts,
    /// When the recording began, as far as that is known.
    began: u64,
    first: Option<u64>,
    last: u64,
    /// Events before the part that was asked for told who was in which state.
    led_up: bool,
    overwritten: OverwrittenTime,
    /// How long it was, nanoseconds.
    overwritten_ns: u64,
    on_cpu: OnCpu,
    scheduling: Scheduling,
    samples: Samples,
    wakes: Capped<(Waker, ThreadId), u64>,
    wake_count: u64,
    interrupt_wakes: u64,
    migrations: Capped<(CpuId, CpuId), u64>,
    slices: Slices,
    callers: Callers,
    locks: LockAccounts,
    heap: Heap,
    gpu: GpuAccounts,
    plots: Plots,
    crashes: Vec<(u64, Crash)>,
    crash_count: usize,
    report: Report,
}

/// From this time on, and up to that; where there is none, from the beginning and to the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReportRange {
    /// Where it begins.
    pub from: Option<Time>,
    /// Where it ends.
    pub to: Option<Time>,
}

impl ReportExporter {
    /// A report of a session that is to be played into it.
    pub fn new(options: ReportOptions) -> Self {
        let counts_processes = options.tree.is_some();
        Self {
            on_cpu: OnCpu::default(),
            scheduling: Scheduling::new(options.process.clone(), options.worst, options.worst_idle),
            gpu: GpuAccounts::new(options.rows.max(options.worst)),
            locks: LockAccounts::new(options.worst),
            options,
            recording: Recording::default(),
            counts: EventCounts::default(),
            began: 0,
            first: None,
            last: 0,
            led_up: false,
            overwritten: OverwrittenTime::default(),
            overwritten_ns: 0,
            samples: Samples::new(counts_processes),
            wakes: Capped::new(MAX_WAKE_PAIRS),
            wake_count: 0,
            interrupt_wakes: 0,
            migrations: Capped::new(MAX_CPU_PAIRS),
            slices: Slices::default(),
            callers: Callers::default(),
            heap: Heap::default(),
            plots: Plots::default(),
            crashes: Vec::new(),
            crash_count: 0,
            report: Report::default(),
        }
    }

    /// The first event that is told of. What came before it has told states; these last from where
    /// the part begins.
    #[cold]
    fn begin_at(&mut self, now: u64) {
        if !self.led_up {
            self.first = Some(now);
            return self.scheduling.begin(now);
        }
        let part = self.options.part.unwrap_or_default();
        let begin = part.from.map_or(now, |from| from.0.clamp(self.last, now));
        self.first = Some(begin);
        self.scheduling.forget_before(begin);
    }

    /// Where the part ends, if the recording went on; 0 if that is not known.
    fn end_of_part(&self, recorder: Option<&RecorderSummary>) -> u64 {
        let to = self.options.part.and_then(|part| part.to);
        let end = recorder.map(|recorder| self.began + recorder.duration_ns);
        to.zip(end).map_or(0, |(to, end)| to.0.min(end))
    }

    /// Where the event contradicts those before, what ran on its CPU is not known.
    #[inline]
    fn close_at_gap(&mut self, now: Time, event: &Event, tables: &Tables) {
        if !self.on_cpu.apply(now, event, tables) {
            return;
        }
        match event {
            Event::Switch(Switch { cpu, .. }) | Event::Wakeup(Wakeup { cpu, .. }) => {
                self.scheduling.contradicted(now.0, *cpu, tables);
            }
            _ => {}
        }
    }

    /// The report; empty if the session was not played to its end.
    pub fn finish(self) -> Report {
        self.report
    }

    #[inline]
    fn wakeup(&mut self, now: u64, wakeup: &Wakeup, tables: &Tables) {
        self.counts.wakeups += 1;
        self.scheduling.wakeup(now, wakeup, tables);
        let waker = Waker::of(wakeup);
        let chosen = self.is_chosen(wakeup.wakee, tables)
            || matches!(waker, Waker::Thread(waker) if self.is_chosen(waker, tables));
        if chosen {
            self.wake_count += 1;
            self.interrupt_wakes += u64::from(wakeup.from_interrupt);
            *self.wakes.row((waker, wakeup.wakee)) += 1;
        }
    }

    /// Whether the report is about the thread. Idle belongs to the whole machine only.
    #[inline]
    fn is_chosen(&mut self, thread: ThreadId, tables: &Tables) -> bool {
        self.options.process.is_none() || self.scheduling.account(thread, tables).chosen
    }

    fn sample(&mut self, now: u64, sample: &Sample, tables: &Tables) {
        self.counts.samples += 1;
        self.scheduling.observe_running(now, sample.cpu, sample.thread, tables);
        match sample.thread {
            Tables::IDLE_THREAD => self.samples.idle += 1,
            thread => self.samples.add(sample, self.scheduling.account(thread, tables)),
        }
    }

    fn migration(&mut self, migration: &Migration, tables: &Tables) {
        self.counts.migrations += 1;
        let account = self.scheduling.account(migration.thread, tables);
        account.counts.migrations += 1;
        if account.chosen {
            *self.migrations.row((migration.from_cpu, migration.to_cpu)) += 1;
        }
    }

    fn track_is_chosen(&mut self, track: TrackId, tables: &Tables) -> bool {
        match tables.track(track).scope {
            Scope::Machine(_) | Scope::Cpu(_) => self.options.process.is_none(),
            Scope::Process(process) => {
                self.options.process.as_ref().is_none_or(|one| one.matches(process, tables))
            }
            Scope::Thread(thread) => self.is_chosen(thread, tables),
        }
    }

    /// The thread of a track, and what it has done until now.
    fn thread_times(
        &mut self,
        now: u64,
        track: TrackId,
        tables: &Tables,
    ) -> Option<(ThreadId, Times)> {
        match tables.track(track).scope {
            Scope::Thread(thread) => {
                Some((thread, self.scheduling.account(thread, tables).times_at(now)))
            }
            _ => None,
        }
    }

    /// A time blocked that ended with this event belongs to the slices that were open.
    #[inline]
    fn book_blocked(&mut self) {
        if let Some((thread, function, nanoseconds)) = self.scheduling.was_blocked.take() {
            self.slices.blocked(thread, function, nanoseconds);
        }
    }

    fn other(&mut self, now: u64, event: &Event, tables: &Tables) {
        match event {
            Event::ThreadStart(thread) => {
                self.scheduling.account(*thread, tables).reported = true;
                self.scheduling.thread_start(now, *thread, tables);
            }
            Event::ThreadEnd(thread) => {
                self.scheduling.account(*thread, tables).reported = true;
                self.locks.thread_ended(now, *thread, tables);
                self.scheduling.thread_end(now, *thread, tables);
            }
            Event::Asleep(thread, off_cpu) => {
                self.scheduling.asleep(now, *thread, *off_cpu, tables);
            }
            Event::Loss(loss) => {
                if let Some(gap) = loss.scheduling_gap() {
                    self.scheduling.gap(now, gap.cpu, gap.since.map(|since| since.0), tables);
                }
            }
            Event::RecordingEnd(machine) => {
                self.scheduling.end_machine(now, *machine, tables);
            }
            event => self.of_program(now, event, tables),
        }
    }

    /// An instant, or a message, which counts as one.
    fn instant(&mut self, track: TrackId, name: StringId, stack: Option<StackId>, tables: &Tables) {
        self.counts.instants += 1;
        if self.track_is_chosen(track, tables) {
            if let Scope::Thread(thread) = tables.track(track).scope {
                self.scheduling.account(thread, tables).reported = true;
            }
            self.slices.instant(name);
            self.callers.add(name, stack);
        }
    }

    /// What programs say of themselves.
    fn of_program(&mut self, now: u64, event: &Event, tables: &Tables) {
        match event {
            Event::SliceBegin(track, slice) => {
                self.counts.slices += 1;
                if self.track_is_chosen(*track, tables) {
                    let times = self.thread_times(now, *track, tables);
                    if let Some((thread, _)) = times {
                        self.gpu.waits.begin(now, (*track, thread), slice);
                    }
                    self.slices.begin(now, *track, slice, times);
                    self.callers.add(slice.name, slice.stack);
                }
            }
            Event::SliceUpdate(track, update) => {
                self.gpu.waits.update(*track, update);
                self.slices.update(*track, update);
            }
            Event::SliceEnd(track) => {
                self.gpu.waits.end(now, *track);
                let times = self.thread_times(now, *track, tables);
                self.slices.end(now, *track, times.as_ref().map(|(_, times)| times), tables);
            }
            Event::Instant(track, slice) => {
                self.instant(*track, slice.name, slice.stack, tables);
            }
            Event::Message(track, message) => {
                self.counts.messages += 1;
                self.instant(*track, labels::message_name(message), message.stack, tables);
            }
            Event::Lock(event) => {
                self.counts.locks += 1;
                if self.is_chosen(event.thread, tables) {
                    self.locks.event(now, event, tables);
                }
            }
            Event::Memory(event) => {
                self.counts.memory += 1;
                if self.is_chosen(event.thread, tables) {
                    self.heap.event(event, tables);
                }
            }
            Event::GpuJob(track, job) => {
                self.counts.gpu_jobs += 1;
                // Whose job it was that somebody waited for is told of all.
                self.gpu.waits.job(*track, job, tables);
                let process = gpu::process_of(*track, job, tables);
                if self
                    .options
                    .process
                    .as_ref()
                    .is_none_or(|one| process.is_some_and(|process| one.matches(process, tables)))
                {
                    self.gpu.job(now, *track, job, tables);
                }
            }
            Event::Crash(crash) if self.is_chosen(crash.thread, tables) => {
                self.crash_count += 1;
                if self.crashes.len() < MAX_CRASHES {
                    self.crashes.push((now, *crash));
                }
            }
            _ => {}
        }
    }
}

impl Exporter for ReportExporter {
    type Error = Infallible;

    fn begin(&mut self, tables: &Tables) -> Result<(), Infallible> {
        let session = tables.machine(MachineId::FIRST);
        self.began = session.clock_pairs.first().map_or(0, |pair| pair.boottime);
        self.recording = Recording {
            recorder: session.recorder.clone(),
            hostname: session.hostname.clone(),
            os: session.os.clone(),
            kernel_release: session.kernel_release.clone(),
            cpus: session.cpus.len(),
            sample_rate_hz: session.sample_rate_hz,
            sample_event: session.sample_event.clone(),
            stacks: session.stacks.clone(),
            complete: false,
            reached_max_size: false,
            filter_pids: session.filter_pids.clone(),
            began_unix_ns: session.wall_clock(Time(self.began)),
            other_machines: tables.machines.iter().skip(1).map(RecordedMachine::of).collect(),
        };
        Ok(())
    }

    #[inline]
    fn event(&mut self, time: Time, event: &Event, tables: &Tables) -> Result<(), Infallible> {
        let now = time.0;
        if self.first.is_none() {
            self.begin_at(now);
        }
        self.last = now;
        if self.overwritten.ends_with(event) {
            self.overwritten_ns = now.saturating_sub(self.first.unwrap_or(now));
            self.scheduling.begin_anew(now);
        }
        self.close_at_gap(time, event, tables);
        match event {
            Event::Switch(switch) => {
                self.counts.switches += 1;
                self.scheduling.switch(now, switch, tables);
                self.book_blocked();
            }
            Event::Wakeup(wakeup) => {
                self.wakeup(now, wakeup, tables);
                self.book_blocked();
            }
            Event::Sample(sample) => self.sample(now, sample, tables),
            Event::Migration(migration) => self.migration(migration, tables),
            Event::Counter(track, value) => {
                self.counts.counters += 1;
                if self.track_is_chosen(*track, tables) {
                    self.plots.add(*track, *value);
                }
            }
            other => self.other(now, other, tables),
        }
        Ok(())
    }

    /// States are followed, so that they are known when the part that was asked for begins.
    fn before(&mut self, time: Time, event: &Event, tables: &Tables) -> Result<(), Infallible> {
        let now = time.0;
        if !std::mem::replace(&mut self.led_up, true) {
            self.scheduling.begin(now);
        }
        self.last = now;
        self.overwritten.ends_with(event);
        self.close_at_gap(time, event, tables);
        match event {
            Event::Switch(switch) => self.scheduling.switch(now, switch, tables),
            Event::Wakeup(wakeup) => self.scheduling.wakeup(now, wakeup, tables),
            Event::Sample(sample) => {
                self.scheduling.observe_running(now, sample.cpu, sample.thread, tables);
            }
            Event::ThreadStart(_)
            | Event::ThreadEnd(_)
            | Event::Asleep(..)
            | Event::Loss(_)
            | Event::RecordingEnd(_) => {
                self.other(now, event, tables);
            }
            _ => {}
        }
        Ok(())
    }

    fn end(
        &mut self,
        losses: &[Loss],
        recorder: Option<&RecorderSummary>,
        tables: &Tables,
    ) -> Result<(), Infallible> {
        self.recording.complete = recorder.is_some();
        self.recording.reached_max_size =
            recorder.is_some_and(|recorder| recorder.stop_reason == StopReason::MaxSize);
        self.last = self.last.max(self.end_of_part(recorder));
        self.scheduling.end(self.last, tables);
        self.slices.finish(tables);
        self.report = self.build(losses, recorder, tables);
        Ok(())
    }
}

impl RecordedMachine {
    fn of(session: &SessionInfo) -> Self {
        let SessionInfo { hostname, os, kernel_release, cpus, filter_pids, .. } = session.clone();
        Self { hostname, os, kernel_release, cpus: cpus.len(), filter_pids }
    }
}
