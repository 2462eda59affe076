//! Tracy's files, for its viewer and its `tracy-csvexport`.
//!
//! What a session becomes:
//!
//! | model | file |
//! |---|---|
//! | switches, wakeups | context switches of each thread; what each CPU ran |
//! | CPU samples | samples; without a stack on a call stack `[no stack]`; of idle CPUs on threads of their own |
//! | stacks of threads that left their CPU by themselves | context switch samples |
//! | frames, inlined ones | call stack frames and symbols |
//! | slices | zones with source location, text, colour and call stack; all tracks of a thread on it as far as they nest, others on threads of their own |
//! | frames | frame sets; the first program's set without a name is the main one |
//! | frame images | those of the main set's frames |
//! | instants, messages, losses, starts, names and ends of threads, new programs | messages |
//! | counters | plots; one more is the load of all CPUs |
//! | locks | locks; who gives up waiting says so in a message |
//! | memory events | memory pools: one for each process and pool |
//! | GPU jobs | GPU contexts: one for each track of a queue, a row for each thread that hands jobs over |
//! | crashes | the first is the crash; each is a message |
//! | processes and threads | threads named "process / thread" |
//! | the session, the recorder's summary | host information, CPU topology, application information |
//!
//! Migrations, priorities, wakers, what a thread waits for, categories and kinds
//! of markers have no place in the format.
//!
//! A viewer opens files of its own layout and of those before it, so layout
//! 0.11.0 is the default: every viewer since then opens it. [`TracyLayout`] offers
//! two newer ones, for what they add: from 0.13 on the CPU that woke a thread,
//! threads grouped by their process, and numbers said of GPU jobs (waits, fences,
//! fields); from 0.14 on the severity of messages (fields `severity` and `level`
//! of instants and messages that hold one of the usual words) and whose they are. Dies, call
//! stacks of GPU jobs and sections are not in the model.
//!
//! Compression is LZ4, or zstd by [`TracyCompression`] in builds with the feature
//! `zstd`: files are a third smaller, or more.
//!
//! The format groups everything by kind and by thread, so nothing is written
//! before the end: **memory** is about 40 bytes for each switch, 16 for each
//! sample, counter value, frame or lock event, the blocks of each image, 32 for each slice (and 32
//! more where it says something), 72 for each piece of memory, 300 for each thread, every text
//! once, and the stacks of the tables once more.

mod code;
mod collected;
mod compress;
mod crashes;
mod file;
mod frames;
mod gpu;
mod header;
mod images;
mod limits;
mod live;
mod locations;
mod locks;
mod memory;
mod messages;
mod options;
mod plots;
mod rows;
mod sched;
mod slices;
mod strings;
mod threads;
mod wire;
mod zones;

pub use live::{CodeToName, TracyLive};
pub use options::{TracyCompression, TracyLayout, TracyOptionError, TracyOptions};

use crate::process_filter::concerning;
use crate::{ExportError, ProcessFilter};
use code::Code;
use collected::Collected;
use crashes::RowCrash;
use gpu::Moments;
use header::TraceSpan;
use limits::{Limit, LimitCounts};
use messages::{Crash, Importance};
use rows::RowOwner;
use rustc_hash::FxHashMap;
use std::io::Write;
use syscollect_model::{
    CpuId, Event, Exporter, Forgotten, Loss, LossCause, LossOrigin, MachineId, ProcessId,
    RecorderSummary, Scope, SessionInfo, Severity, Tables, ThreadId, Time,
};
use wire::Payload;

/// Times have 48 bits and a sign.
const MAX_TIME: i64 = (1 << 47) - 1;

/// Writes a session as a Tracy file. All of it is written by [`Exporter::end`].
///
/// ```
/// use syscollect_exporters::TracyExporter;
/// use syscollect_model::{Exporter, SessionInfo, Tables};
///
/// let tables = Tables::default();
/// let mut exporter = TracyExporter::new(Vec::new());
/// exporter.begin(&tables)?;
/// exporter.end(&[], None, &tables)?;
/// assert!(exporter.cuts().is_empty(), "nothing is too large for the format");
/// let file: Vec<u8> = exporter.finish()?;
/// assert_eq!(file[..5], *b"tr\xfdP\0");
/// # Ok::<(), syscollect_exporters::ExportError>(())
/// ```
pub struct TracyExporter<W> {
    out: W,
    process: Option<ProcessFilter>,
    options: TracyOptions,
    clock: FileClock,
    collected: Collected,
    first_threads: FirstThreads,
    reported_losses: FxHashMap<(LossOrigin, Option<CpuId>, LossCause), u64>,
    cuts: LimitCounts,
}

/// Times as the file has them.
#[derive(Default)]
struct FileClock {
    /// The moment before the first event: the file's zero.
    origin: Option<u64>,
    last: i64,
}

impl FileClock {
    /// From 1 on, since 0 stands for "not known" in places; `None` where the file has no such time.
    #[inline]
    fn at(&mut self, time: Time) -> Option<i64> {
        let origin = *self.origin.get_or_insert(time.0.saturating_sub(1));
        match i64::try_from(time.0.saturating_sub(origin)) {
            // The last nanosecond is left for a sample that is moved by one.
            Ok(time) if time < MAX_TIME => {
                self.last = time;
                Some(time)
            }
            _ => None,
        }
    }

    /// What was before the first event was at the first nanosecond: the file has no time before.
    fn past(&self, time: Time, end: i64) -> i64 {
        let since = time.0.saturating_sub(self.origin.unwrap_or_default());
        i64::try_from(since).map_or(end, |time| time.clamp(1, end))
    }
}

/// The first thread of each process: it speaks for the process.
#[derive(Debug, Default)]
struct FirstThreads {
    threads: FxHashMap<ProcessId, ThreadId>,
    known: usize,
}

impl FirstThreads {
    fn of(&mut self, process: ProcessId, tables: &Tables) -> Option<ThreadId> {
        for (index, row) in tables.threads.numbered_from(self.known) {
            self.threads.entry(row.process).or_insert(ThreadId(index));
        }
        self.known = tables.threads.len();
        self.threads.get(&process).copied()
    }

    fn forget(&mut self, forgotten: &Forgotten) {
        let Forgotten { processes, threads, .. } = forgotten;
        self.threads.retain(|of, first| !processes.contains(of) && !threads.contains(first));
    }
}

impl<W: Write> TracyExporter<W> {
    /// A writer to `out`, which gets pieces of about 64 KiB and needs no buffer.
    pub fn new(out: W) -> Self {
        Self {
            out,
            process: None,
            options: TracyOptions::default(),
            clock: FileClock::default(),
            collected: Collected::default(),
            first_threads: FirstThreads::default(),
            reported_losses: FxHashMap::default(),
            cuts: LimitCounts::default(),
        }
    }

    /// Only these processes, and what belongs to the machine; all of them where `process` is
    /// `None`.
    pub fn only(self, process: Option<ProcessFilter>) -> Self {
        Self { process, ..self }
    }

    /// With these options.
    pub fn with(self, options: TracyOptions) -> Self {
        Self { options, ..self }
    }

    /// What the format had no room for, a sentence for each limit that was met; complete after
    /// [`Exporter::end`].
    pub fn cuts(&self) -> Vec<String> {
        self.cuts.sentences()
    }

    /// Flushes and gives the output back.
    ///
    /// # Errors
    ///
    /// [`ExportError::Write`] when the output refuses the last bytes.
    pub fn finish(mut self) -> Result<W, ExportError> {
        self.out.flush()?;
        Ok(self.out)
    }

    fn loss(&mut self, time: i64, loss: &Loss) {
        if let Some(gap) = loss.scheduling_gap() {
            self.collected.cpus.lost(gap.cpu);
        }
        let key = (loss.origin.clone(), loss.cpu, loss.cause);
        let reported = self.reported_losses.entry(key).or_default();
        *reported = reported.saturating_add(loss.count);
        let row = self.collected.rows.other(RowOwner::Losses);
        let words = loss_label(loss, loss.count);
        self.collected.message(
            Some(row),
            (time, messages::RED),
            &words,
            Importance::own(Severity::Warning),
        );
    }

    /// Losses that no event reported.
    fn remaining_losses(&mut self, losses: &[Loss]) {
        for loss in losses {
            let reported = self
                .reported_losses
                .entry((loss.origin.clone(), loss.cpu, loss.cause))
                .or_default();
            let rest = loss.count.saturating_sub(*reported);
            *reported = reported.saturating_sub(loss.count);
            if rest > 0 {
                let row = self.collected.rows.other(RowOwner::Losses);
                let words = format!("{}, at some time", loss_label(loss, rest));
                let at = (self.clock.last.max(1), messages::RED);
                self.collected.message(Some(row), at, &words, Importance::own(Severity::Warning));
            }
        }
    }

    fn count_cuts(&mut self) {
        let Collected { cpus, slices, locks, memory, gpus, .. } = &self.collected;
        for (limit, count) in [
            (Limit::Cpus, cpus.refused),
            (Limit::Locations, slices.shared.locations.refused),
            (Limit::Deep, slices.deep),
            (Limit::LockThreads, locks.refused),
            (Limit::UnknownMemory, memory.unknown),
            (Limit::Memory, memory.refused),
            (Limit::Gpus, gpus.refused),
            (Limit::GpuNotes, gpus.without_notes),
            (Limit::FrameImages, slices.frames.images.refused),
        ] {
            self.cuts.add(limit, count);
        }
    }

    fn write(
        &mut self,
        recorder: Option<&RecorderSummary>,
        usage: Vec<(i64, f64)>,
        tables: &Tables,
    ) -> Result<(), ExportError> {
        self.count_cuts();
        let collected = &mut self.collected;
        let mut code = Code::new(&mut collected.strings);
        let crash = collected.crash.chosen().map(|RowCrash { time, row, text, stack }| {
            let strings = &mut collected.strings;
            let callstack = stack.map_or(0, |stack| code.callstack(Some(stack), strings, tables));
            Crash { time, row, text, callstack }
        });
        let strings = &mut collected.strings;
        let mut notes =
            header::notes(&collected.session, recorder, &self.cuts.sentences(), strings);
        notes.extend(
            self.process
                .iter()
                .map(|process| strings.intern(&format!("Only the process {process} is shown"))),
        );
        let FileClock { origin, last } = self.clock;
        let contents = file::Contents {
            collected,
            span: TraceSpan { origin: origin.unwrap_or_default(), last, first_frame: 0 },
            code: &mut code,
            crash,
            notes,
            usage,
        };
        let mut payload = Payload::new(&mut self.out, self.options)?;
        file::write(&mut payload, contents, tables)?;
        payload.finish()?;
        self.cuts.add(Limit::Strings, self.collected.strings.refused);
        self.cuts.add(Limit::Stacks, code.refused);
        self.cuts.add(Limit::Frames, code.cut);
        Ok(())
    }
}

impl<W: Write> Exporter for TracyExporter<W> {
    type Error = ExportError;

    fn begin(&mut self, tables: &Tables) -> Result<(), ExportError> {
        self.collected.cpus = sched::Cpus::new(&tables.machines);
        let session = tables.machine(MachineId::FIRST).clone();
        self.collected.session = SessionInfo { cpus: self.collected.cpus.all(tables), ..session };
        Ok(())
    }

    #[inline]
    fn event(&mut self, time: Time, event: &Event, tables: &Tables) -> Result<(), ExportError> {
        let narrowed;
        let event = match &self.process {
            None => event,
            Some(filter) => match concerning(filter, event, tables) {
                Some(rest) => {
                    narrowed = rest;
                    &*narrowed
                }
                None => return Ok(()),
            },
        };
        if let (None, Event::GpuJob(_, job)) = (self.clock.origin, event) {
            self.clock.origin = Some(gpu::zero_before(time, job));
        }
        let Some(at) = self.clock.at(time) else {
            self.cuts.add(Limit::Late, 1);
            return Ok(());
        };
        let collected = &mut self.collected;
        match event {
            Event::Switch(switch) => collected.switch(at, switch),
            Event::Wakeup(wakeup) => {
                if let Some(row) = collected.rows.thread(wakeup.wakee) {
                    let cpu = collected.cpus.number(wakeup.cpu);
                    collected.rows.get(row).wake(at, cpu);
                }
            }
            Event::Sample(sample) => collected.sample(at, sample),
            Event::Counter(track, value) => collected.plots.add(*track, at, *value),
            Event::SliceBegin(track, slice) => {
                // The thread gets its row now, so that rows are in the order in which they were
                // seen.
                if let Scope::Thread(thread) = tables.track(*track).scope
                    && let Some(row) = collected.rows.thread(thread)
                {
                    collected.rows.get(row).elsewhere += 1;
                }
                collected.slices.begin(*track, (at, slice), &mut collected.strings, tables);
            }
            Event::SliceUpdate(track, update) => {
                collected.slices.update(*track, update, &mut collected.strings, tables);
            }
            Event::SliceEnd(track) => {
                collected.slices.end(*track, at, &mut collected.strings, tables);
            }
            Event::Instant(track, slice) => collected.instant(*track, at, slice, tables),
            Event::Message(track, message) => {
                collected.message_on_track(*track, at, message, tables);
            }
            Event::Loss(loss) => self.loss(at, loss),
            Event::ThreadStart(thread) => collected.lifecycle(*thread, at, "starts"),
            Event::ThreadName(thread, name) => {
                collected.lifecycle(
                    *thread,
                    at,
                    &format!("is named {}", tables.strings.get(*name)),
                );
            }
            Event::ThreadEnd(thread) => collected.ends(*thread, at),
            Event::ProcessExec(process, name) => {
                if let Some(thread) = self.first_threads.of(*process, tables) {
                    collected.lifecycle(thread, at, &format!("runs {}", tables.strings.get(*name)));
                }
            }
            Event::Lock(event) => collected.lock(at, event, tables),
            Event::Memory(event) => collected.memory(at, event, tables),
            Event::GpuJob(track, job) => {
                let [submitted, queued, started] = [job.submitted, gpu::taken(job), job.started]
                    .map(|time| time.map(|time| self.clock.past(time, at)));
                let moments = Moments { submitted, queued, started, ended: at };
                let with_notes = self.options.layout >= TracyLayout::V0_13;
                collected.gpu_job(*track, moments, (time, job), with_notes, tables);
            }
            Event::FrameImage(track, image) => {
                collected.slices.frames.image(*track, image, tables);
            }
            Event::Crash(crash) => collected.crash(at, crash, tables),
            Event::SignalExit(exit) => {
                let first = self.first_threads.of(exit.process, tables);
                if let Some(thread) = exit.thread.or(first) {
                    collected.signal_exit(thread, at, exit, tables);
                }
            }
            Event::ProcessEnd(process) => collected.crash.process_ended(*process),
            Event::RecordingEnd(machine) => {
                collected.cpus.end_machine(&mut collected.rows, at, *machine);
            }
            // Only switches say from when on; event loops are not told of.
            Event::Asleep(..) | Event::LoopMark(..) => (),
            // Their first threads say so; the next CPU says so of moves.
            Event::ProcessStart(_) | Event::Migration(_) => (),
        }
        Ok(())
    }

    fn end(
        &mut self,
        losses: &[Loss],
        recorder: Option<&RecorderSummary>,
        tables: &Tables,
    ) -> Result<(), ExportError> {
        self.remaining_losses(losses);
        let Collected { slices, rows, strings, session, .. } = &mut self.collected;
        slices.place_on_rows(rows, strings, tables);
        let last = self.clock.last.max(1);
        // The load of some processes is not that of the CPUs.
        let usage = if self.process.is_none() {
            rows.usage(last).values(session.cpus.len(), last)
        } else {
            Vec::new()
        };
        let Collected { gpus, slices, rows, .. } = &mut self.collected;
        gpus.place_zones(rows);
        gpus.fit(&mut slices.shared.locations, tables);
        self.cuts.add(Limit::Threads, self.collected.fit(last));
        self.collected.make_visible();
        self.write(recorder, usage, tables)
    }
}

fn loss_label(loss: &Loss, count: u64) -> String {
    let cpu = loss.cpu.map_or_else(String::new, |cpu| format!(" of {}", cpu.label()));
    format!("{count} records lost from {}{cpu}: {}", loss.origin.name(), loss.cause.name())
}
