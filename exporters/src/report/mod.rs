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
//! counted ([`Report::unreported_gaps`], as [`OnCpu`](syscollect_model::OnCpu) finds it for all who
//! tell of losses), and what ran there is unknown in between. Threads off the CPU need not have run
//! meanwhile: they are unknown only if their own events do not agree. Where only some processes
//! were recorded it is none: then just what ran is unknown from its beginning. So is what runs on a
//! CPU when it comes onto another.
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
//! **Event loops** and their stretches are defined in `event_loops`.
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
mod after_part;
mod callers;
mod capped;
mod cpu;
mod crashes;
mod data;
mod durations;
mod event_loop_rows;
mod fence_waits;
mod filter;
mod gpu;
mod hints;
mod instants;
mod locks;
mod longest;
pub(crate) mod loop_watch;
mod memory;
mod migrations;
pub(crate) mod off_cpu;
mod own_code;
mod plots;
mod programs;
mod recent;
mod row_maker;
mod run_queue;
mod runs;
mod samples;
mod scheduling;
mod session_span;
mod slices;
mod stack_labels;
mod text;
mod thread_accounts;
mod tree;
mod truncated;
mod unresolved;
pub(crate) mod wait_for;
mod wait_names;
mod wait_python;
mod waits;
mod wakeups;
mod worst;

pub use data::*;
pub use filter::{Family, ProcessFilter};
pub use tree::{MAX_TREE_DEPTH, TreeOptions};

use crate::event_loops::LoopLimit;
use after_part::AfterPart;
use cpu::Cpus;
use event_loop_rows::LoopAccounts;
use gpu::GpuAccounts;
use locks::LockAccounts;
use memory::pool_rows;
use migrations::MigrationCounts;
use programs::ProgramAccounts;
use row_maker::RowMaker;
use samples::Samples;
use scheduling::Scheduling;
use session_span::{Beginning, SessionSpan};
use std::convert::Infallible;
use syscollect_model::{
    Event, Exporter, Loss, RecorderSummary, StopReason, Tables, Time, items_of_own_programs,
    records_lost, records_overwritten,
};
use thread_accounts::{ThreadAccounts, by_name};
use waits::Waits;
use wakeups::WakeCounts;
use worst::WorstOfEach;

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
    /// Longer stretches of event loops without their wait are told.
    pub loop_limit: LoopLimit,
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
            loop_limit: LoopLimit::default(),
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
    span: SessionSpan,
    counts: EventCounts,
    scheduling: Scheduling,
    after_part: AfterPart,
    samples: Samples,
    wakeups: WakeCounts,
    migrations: MigrationCounts,
    loops: LoopAccounts,
    programs: ProgramAccounts,
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
        let accounts = ThreadAccounts::new(options.process.clone());
        // What ran meanwhile is told of the longest waits alone.
        let cpus = Cpus::new(options.worst > 0);
        let waits = Waits::new(WorstOfEach::new(options.worst, options.worst_idle));
        let locks = LockAccounts::new(options.worst);
        let gpu = GpuAccounts::new(options.rows.max(options.worst));
        Self {
            recording: Recording::default(),
            span: SessionSpan::new(options.part),
            counts: EventCounts::default(),
            scheduling: Scheduling::new(accounts, cpus, waits),
            after_part: AfterPart::default(),
            // Trees are of processes.
            samples: Samples::new(options.tree.is_some()),
            wakeups: WakeCounts::default(),
            migrations: MigrationCounts::default(),
            loops: LoopAccounts::new(options.loop_limit, options.rows.max(options.worst)),
            programs: ProgramAccounts::new(locks, gpu),
            report: Report::default(),
            options,
        }
    }

    /// The report; empty if the session was not played to its end.
    pub fn finish(self) -> Report {
        self.report
    }

    /// A time blocked that ended with this event belongs to the slices that were open.
    #[inline]
    fn end_sleep(&mut self) {
        if let Some(sleep) = self.scheduling.waits.take_ended_sleep() {
            self.programs.slices.blocked(sleep);
        }
    }

    /// The report, from what was summed up.
    fn build(
        &self,
        losses: &[Loss],
        recorder: Option<&RecorderSummary>,
        tables: &Tables,
    ) -> Report {
        let Self { options, span, scheduling, samples, programs, .. } = self;
        let (accounts, waits) = (&scheduling.accounts, &scheduling.waits);
        let (began, first) = (span.began(), span.first());
        let refused_tables = recorder.map_or(&[][..], |recorder| &recorder.refused_tables);
        let maker = RowMaker { tables, refused_tables, limit: options.rows, began, first };
        let processes = accounts.processes(maker);
        Report {
            schema_version: REPORT_SCHEMA_VERSION,
            recording: self.recording.clone(),
            process: options.process.as_ref().map(ToString::to_string),
            process_children: matches!(options.process, Some(ProcessFilter::Family(_))),
            start_ns: span.start_ns(),
            duration_ns: span.duration_ns(),
            recorded_ns: span.recorded_ns(recorder),
            overwritten_ns: span.overwritten_ns(),
            is_overwritten: span.is_overwritten(losses, &self.counts),
            events: self.counts,
            cpus: scheduling.cpus.rows(span.duration_ns()),
            processes_by_name: by_name(&processes, maker),
            processes: maker.table(processes, |row| (row.activity.busiest_first(), row.pid)),
            threads: accounts.threads(maker),
            functions: samples.functions(maker),
            off_cpu: waits.off_cpu.report(options.idle_sleepers, programs.unfinished_work(), maker),
            trees: options.tree.map(|tree| CallTrees {
                cpu: samples.tree(tree, tables),
                off_cpu: waits.off_cpu.tree(tree, tables),
            }),
            worst: waits.worst.report(programs.locks.longest_waits(maker), maker),
            others: accounts.others(tables),
            wakeups: self.wakeups.report(maker),
            run_queue: waits.run_queue.report(),
            longest_wait: waits.run_queue.longest().map(|wait| maker.waiter(wait)),
            longest_program_wait: accounts
                .longest_program_wait(tables)
                .map(|wait| maker.waiter(wait)),
            migrations: self.migrations.rows(maker),
            slices: programs.slices.rows(maker),
            callers: programs.callers.rows(maker),
            instants: programs.instants.rows(maker),
            frames: programs.slices.frame_rows(maker),
            locks: programs.locks.rows(maker),
            memory: pool_rows(&programs.heap, maker),
            gpu_queues: programs.gpu.queue_rows(maker),
            gpu: programs.gpu.rows(maker),
            gpu_zones: programs.gpu.zone_rows(maker),
            gpu_waits: programs.gpu.waits.rows(maker),
            event_loops: self.loops.report(accounts, maker),
            crashes: programs.crashes.rows(maker),
            signal_exits: programs.crashes.exit_rows(maker),
            counters: programs.plots.rows(maker),
            lost: records_lost(losses),
            lost_of_own_programs: items_of_own_programs(losses),
            overwritten: records_overwritten(losses),
            unreported_gaps: scheduling.unreported_gaps(),
            missing_stacks: 0,
            losses: losses.iter().map(LossRow::of).collect(),
            unresolved: unresolved::rows(samples, &waits.off_cpu, maker),
        }
    }
}

impl Exporter for ReportExporter {
    type Error = Infallible;

    fn begin(&mut self, tables: &Tables) -> Result<(), Infallible> {
        self.span.open(tables);
        self.recording = Recording::of(tables, Time(self.span.began()));
        Ok(())
    }

    #[inline]
    fn event(&mut self, time: Time, event: &Event, tables: &Tables) -> Result<(), Infallible> {
        let now = time.0;
        match self.span.advance(now) {
            None => {}
            Some(Beginning::OfSession) => self.scheduling.accounts.begin(now),
            Some(Beginning::OfPart(begin)) => {
                self.scheduling.forget_before(begin);
                self.loops.forget();
            }
        }
        if self.span.begins_anew(now, event) {
            self.scheduling.accounts.begin_anew(now);
        }
        if !programs::is_told_again(event, tables) {
            self.counts.add(event);
        }
        self.scheduling.event(time, event, tables);
        let accounts = &mut self.scheduling.accounts;
        self.loops.event(time, event, accounts, tables);
        match event {
            Event::Switch(_) => self.end_sleep(),
            Event::Wakeup(wakeup) => {
                self.wakeups.add(wakeup, accounts, tables);
                self.end_sleep();
            }
            Event::Sample(sample) => {
                self.samples.add(sample, accounts.get(sample.thread, tables));
            }
            Event::Migration(migration) => {
                self.migrations.add(migration, accounts.get(migration.thread, tables));
            }
            of_program => self.programs.event(now, of_program, accounts, tables),
        }
        Ok(())
    }

    /// States are followed, so that they are known when the part that was asked for begins.
    fn before(&mut self, time: Time, event: &Event, tables: &Tables) -> Result<(), Infallible> {
        if self.span.lead_up(time.0) {
            self.scheduling.accounts.begin(time.0);
        }
        if self.span.ends_overwritten(event) {
            self.scheduling.accounts.begin_anew(time.0);
        }
        self.scheduling.event(time, event, tables);
        self.loops.event(time, event, &mut self.scheduling.accounts, tables);
        Ok(())
    }

    fn after(&mut self, _: Time, event: &Event, tables: &Tables) -> Result<(), Infallible> {
        if let Some(asleep) = self.after_part.event(event) {
            self.scheduling.asleep_since_before(asleep, tables);
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
        self.recording.refused_lists =
            recorder.map_or_else(Vec::new, |recorder| recorder.refused_lists.clone());
        self.span.close(recorder);
        self.scheduling.end(self.span.last(), tables);
        self.loops.finish(self.span.last(), &mut self.scheduling.accounts, tables);
        self.programs.finish(self.span.last(), tables);
        self.report = self.build(losses, recorder, tables);
        Ok(())
    }
}
