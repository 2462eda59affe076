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
//! | frames | frame sets; the first set named "Frames" is the main one |
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
//! stacks of GPU jobs, frame images and sections are not in the model.
//!
//! Compression is LZ4, or zstd by [`TracyCompression`] in builds with the feature
//! `zstd`: files are a third smaller, or more.
//!
//! The format groups everything by kind and by thread, so nothing is written
//! before the end: **memory** is about 40 bytes for each switch, 16 for each
//! sample, counter value, frame or lock event, 32 for each slice (and 32 more
//! where it says something), 72 for each piece of memory, every text once, and
//! the stacks of the tables once more.

mod code;
mod compress;
mod file;
mod frames;
mod gpu;
mod header;
mod limits;
mod locations;
mod locks;
mod memory;
mod messages;
mod options;
mod plots;
mod rows;
mod sched;
mod slices;
mod texts;
mod wire;
mod zones;

pub use options::{TracyCompression, TracyLayout, TracyOptionError, TracyOptions};

use crate::process_filter::concerning;
use crate::{ExportError, ProcessFilter, labels};
use code::Code;
use gpu::{Gpus, Moments};
use header::Span;
use limits::Cuts;
use locks::Locks;
use memory::Memory;
use messages::{Crash, Importance, Message, Severity};
use plots::Plots;
use rows::{Owner, RowId, Rows};
use rustc_hash::FxHashMap;
use sched::Cpus;
use slices::Slices;
use std::io::Write;
use syscollect_model::{
    Event, Exporter, GpuJob, LockEvent, Loss, LossCause, LossOrigin, MemoryEvent, ProcessId,
    RecorderSummary, Sample, Scope, SessionInfo, Slice, StackId, Switch, Tables, ThreadId, Time,
    TrackId,
};
use texts::Texts;
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
/// exporter.begin(&SessionInfo::default(), &tables)?;
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
    session: SessionInfo,
    /// The moment before the first event: the file's zero.
    origin: Option<u64>,
    last: i64,
    rows: Rows,
    cpus: Cpus,
    texts: Texts,
    messages: Vec<Message>,
    plots: Plots,
    slices: Slices,
    locks: Locks,
    memory: Memory,
    gpus: Gpus,
    /// The first crash: when, and its thread, message and stack.
    crash: Option<(i64, RowId, u32, Option<StackId>)>,
    first_threads: FirstThreads,
    told_losses: FxHashMap<(LossOrigin, Option<u32>, LossCause), u64>,
    cuts: Cuts,
}

/// The first thread of each process: it speaks for the process.
#[derive(Default)]
struct FirstThreads {
    threads: FxHashMap<ProcessId, ThreadId>,
    seen: usize,
}

impl FirstThreads {
    fn of(&mut self, process: ProcessId, tables: &Tables) -> Option<ThreadId> {
        for (row, index) in tables.threads[self.seen..].iter().zip(self.seen as u32..) {
            self.threads.entry(row.process).or_insert(ThreadId(index));
        }
        self.seen = tables.threads.len();
        self.threads.get(&process).copied()
    }
}

impl<W: Write> TracyExporter<W> {
    /// A writer to `out`, which gets pieces of about 64 KiB and needs no buffer.
    pub fn new(out: W) -> Self {
        Self {
            out,
            process: None,
            options: TracyOptions::default(),
            session: SessionInfo::default(),
            origin: None,
            last: 0,
            rows: Rows::default(),
            cpus: Cpus::default(),
            texts: Texts::default(),
            messages: Vec::new(),
            plots: Plots::default(),
            slices: Slices::default(),
            locks: Locks::default(),
            memory: Memory::default(),
            gpus: Gpus::default(),
            crash: None,
            first_threads: FirstThreads::default(),
            told_losses: FxHashMap::default(),
            cuts: Cuts::default(),
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

    /// A time as the file has it: from 1 on, since 0 stands for "not known" in places.
    #[inline]
    fn time(&mut self, time: Time) -> Option<i64> {
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

    #[inline]
    fn switch(&mut self, time: i64, switch: &Switch) {
        self.cpus.switch(&mut self.rows, time, switch);
        let Some(previous) = switch.previous else { return };
        if switch.off_cpu.stack.is_some()
            && !switch.off_cpu.preempted
            && let Some(row) = self.sampled(previous, switch.cpu)
        {
            self.rows.get(row).samples.push(rows::Sample::new(
                time,
                switch.off_cpu.stack,
                true,
                true,
            ));
        }
    }

    /// The row of a thread's samples.
    #[inline]
    fn sampled(&mut self, thread: ThreadId, cpu: u32) -> Option<RowId> {
        match thread {
            Tables::IDLE_THREAD => self.rows.other(Owner::IdleCpu(cpu)),
            thread => self.rows.thread(thread),
        }
    }

    #[inline]
    fn sample(&mut self, time: i64, sample: &Sample) {
        if let Some(row) = self.sampled(sample.thread, sample.cpu) {
            self.rows.get(row).samples.push(rows::Sample::new(
                time,
                sample.stack,
                false,
                sample.in_kernel,
            ));
        }
    }

    fn message(
        &mut self,
        row: Option<RowId>,
        (time, color): (i64, u32),
        text: &str,
        importance: Importance,
    ) {
        self.message_from(row, (time, color), (text, importance), None);
    }

    fn message_from(
        &mut self,
        row: Option<RowId>,
        (time, color): (i64, u32),
        (text, importance): (&str, Importance),
        stack: Option<StackId>,
    ) {
        let Some(row) = row else { return };
        self.rows.get(row).messages.push(self.messages.len() as u32);
        let text = self.texts.intern(text);
        self.messages.push(Message { time, color, text, stack, importance });
    }

    fn life(&mut self, thread: ThreadId, time: i64, text: &str) {
        let row = self.rows.thread(thread);
        self.message(row, (time, messages::GREY), text, Importance::of_system(Severity::Debug));
    }

    fn instant(&mut self, track: TrackId, time: i64, slice: &Slice, tables: &Tables) {
        let row = self.row_of(track, tables);
        let said = (&*labels::instant(slice, tables), Importance::said(&slice.fields, tables));
        self.message_from(row, (time, messages::color(slice.color)), said, slice.stack);
    }

    fn said(
        &mut self,
        track: TrackId,
        time: i64,
        message: &syscollect_model::Message,
        tables: &Tables,
    ) {
        let row = self.row_of(track, tables);
        let said = (&*labels::message(message, tables), Importance::said(&message.fields, tables));
        self.message_from(row, (time, messages::color(message.color)), said, message.stack);
    }

    /// The row of what lies on a track.
    fn row_of(&mut self, track: TrackId, tables: &Tables) -> Option<RowId> {
        match tables.track(track).scope {
            Scope::Thread(thread) if thread != Tables::IDLE_THREAD => self.rows.thread(thread),
            _ => self.rows.other(Owner::Track(track)),
        }
    }

    fn lock(&mut self, time: i64, event: &LockEvent, tables: &Tables) {
        let Some(row) = self.rows.thread(event.thread) else { return };
        let locations = &mut self.slices.shared.locations;
        let location = event.location.map(|id| locations.place(Some(id), &mut self.texts, tables));
        if let Some(since) = self.locks.add(time, event, row, location) {
            let name = tables.strings.get(tables.lock(event.lock).name);
            let waited = labels::duration((time - since).unsigned_abs());
            let words = format!("gives up on lock {name} after {waited}");
            self.message(
                Some(row),
                (time, messages::GREY),
                &words,
                Importance::of_system(Severity::Debug),
            );
        }
    }

    fn memory(&mut self, time: i64, event: &MemoryEvent, tables: &Tables) {
        if let Some(row) = self.rows.thread(event.thread) {
            self.memory.add(time, event, row, tables.thread(event.thread).process);
        }
    }

    fn gpu_job(
        &mut self,
        (end, ended): (Time, i64),
        track: TrackId,
        job: &GpuJob,
        tables: &Tables,
    ) {
        let row = match job.thread.filter(|thread| *thread != Tables::IDLE_THREAD) {
            Some(thread) => self.rows.thread(thread),
            None => self.rows.other(Owner::Track(track)),
        };
        let Some(row) = row else { return };
        // What was before the first event was at the first nanosecond: the file has no time before.
        let origin = self.origin.unwrap_or_default();
        let past = |time: Time| {
            i64::try_from(time.0.saturating_sub(origin)).map_or(ended, |time| time.clamp(1, ended))
        };
        let moments = Moments {
            submitted: job.submitted.map(past),
            queued: job.queued.map(past),
            started: job.started.map(past),
            ended,
        };
        let mut shared = gpu::Shared {
            locations: &mut self.slices.shared.locations,
            texts: &mut self.texts,
            tables,
            with_notes: self.options.layout >= TracyLayout::V0_13,
        };
        self.gpus.add((track, row), moments, (end, job), &mut shared);
    }

    fn crash(&mut self, time: i64, crash: &syscollect_model::Crash, tables: &Tables) {
        let Some(row) = self.rows.thread(crash.thread) else { return };
        let mut text = tables.strings.get(crash.signal).to_owned();
        if crash.address != 0 {
            text += &format!(" at address {:#x}", crash.address);
        }
        let text_index = self.texts.intern(&text);
        self.crash.get_or_insert((time, row, text_index, crash.stack));
        let said = (&*text, Importance::of_system(Severity::Fatal));
        self.message_from(Some(row), (time, messages::RED), said, crash.stack);
    }

    fn loss(&mut self, time: i64, loss: &Loss) {
        if let Some(gap) = loss.scheduling_gap() {
            self.cpus.lost(gap.cpu);
        }
        *self.told_losses.entry((loss.origin.clone(), loss.cpu, loss.cause)).or_default() +=
            loss.count;
        let row = self.rows.other(Owner::Losses);
        let words = loss_words(loss, loss.count);
        self.message(row, (time, messages::RED), &words, Importance::own(Severity::Warning));
    }

    /// Losses that no event told.
    fn remaining_losses(&mut self, losses: &[Loss]) {
        for loss in losses {
            let told =
                self.told_losses.entry((loss.origin.clone(), loss.cpu, loss.cause)).or_default();
            let rest = loss.count.saturating_sub(*told);
            *told = told.saturating_sub(loss.count);
            if rest > 0 {
                let row = self.rows.other(Owner::Losses);
                let words = format!("{}, at some time", loss_words(loss, rest));
                let at = (self.last.max(1), messages::RED);
                self.message(row, at, &words, Importance::own(Severity::Warning));
            }
        }
    }

    /// Gives threads that only switch a message, without which the viewer hides them.
    fn make_visible(&mut self) {
        let hidden = self.rows.all().iter().zip(0..);
        let hidden: Vec<_> =
            hidden.filter_map(|(row, id)| Some((RowId(id), row.summary()?))).collect();
        for (row, (time, words)) in hidden {
            self.message(
                Some(row),
                (time, messages::GREY),
                &words,
                Importance::own(Severity::Trace),
            );
        }
    }

    fn count_cuts(&mut self) {
        self.cuts.cpus = self.cpus.refused;
        self.cuts.threads = self.rows.refused;
        self.cuts.locations = self.slices.shared.locations.refused;
        self.cuts.deep = self.slices.deep;
        self.cuts.lock_threads = self.locks.refused;
        (self.cuts.unknown_memory, self.cuts.memory) = (self.memory.unknown, self.memory.refused);
        (self.cuts.gpus, self.cuts.gpu_notes) = (self.gpus.refused, self.gpus.without_notes);
    }

    fn write(
        &mut self,
        recorder: Option<&RecorderSummary>,
        tables: &Tables,
    ) -> Result<(), ExportError> {
        self.count_cuts();
        let texts = &mut self.texts;
        let mut code = Code::new(texts);
        let numbers = self.rows.numbers(tables);
        let crash = self.crash.map(|(time, row, text, stack)| {
            let callstack = stack.map_or(0, |stack| code.callstack(Some(stack), texts, tables));
            Crash { time, thread: numbers[row.0 as usize], text, callstack }
        });
        let mut notes = header::notes(&self.session, recorder, &self.cuts.sentences(), texts);
        notes.extend(
            self.process
                .iter()
                .map(|process| texts.intern(&format!("Only the process {process} is shown"))),
        );
        let contents = file::Contents {
            session: &self.session,
            span: Span { origin: self.origin.unwrap_or_default(), last: self.last, first_frame: 0 },
            rows: &self.rows,
            cpus: &self.cpus,
            messages: &self.messages,
            plots: &self.plots,
            slices: &mut self.slices,
            locks: &self.locks,
            memory: &self.memory,
            gpus: &self.gpus,
            code: &mut code,
            crash,
            notes,
            // The load of some processes is not that of the CPUs.
            with_usage: self.process.is_none(),
        };
        let mut payload = Payload::new(&mut self.out, self.options)?;
        file::write(&mut payload, contents, texts, tables)?;
        payload.finish()?;
        (self.cuts.strings, self.cuts.stacks, self.cuts.frames) =
            (texts.refused, code.refused, code.cut);
        Ok(())
    }
}

impl<W: Write> Exporter for TracyExporter<W> {
    type Error = ExportError;

    fn begin(&mut self, session: &SessionInfo, _: &Tables) -> Result<(), ExportError> {
        self.session = session.clone();
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
        if let (None, Event::GpuJob(_, job)) = (self.origin, event) {
            self.origin = Some(gpu::zero_before(time, job));
        }
        let Some(at) = self.time(time) else {
            self.cuts.late += 1;
            return Ok(());
        };
        match event {
            Event::Switch(switch) => self.switch(at, switch),
            Event::Wakeup(wakeup) => {
                if let Some(row) = self.rows.thread(wakeup.wakee) {
                    self.rows.get(row).wake(at, wakeup.cpu);
                }
            }
            Event::Sample(sample) => self.sample(at, sample),
            Event::Counter(track, value) => self.plots.add(*track, at, *value),
            Event::SliceBegin(track, slice) => {
                // The thread gets its row now, so that rows are in the order in which they were
                // seen.
                if let Scope::Thread(thread) = tables.track(*track).scope {
                    let _ = self.rows.thread(thread);
                }
                self.slices.begin(*track, (at, slice), &mut self.texts, tables);
            }
            Event::SliceUpdate(track, more) => {
                self.slices.more(*track, more, &mut self.texts, tables);
            }
            Event::SliceEnd(track) => self.slices.end(*track, at, &mut self.texts, tables),
            Event::Instant(track, slice) => self.instant(*track, at, slice, tables),
            Event::Message(track, message) => self.said(*track, at, message, tables),
            Event::Loss(loss) => self.loss(at, loss),
            Event::ThreadStart(thread) => self.life(*thread, at, "starts"),
            Event::ThreadName(thread, name) => {
                self.life(*thread, at, &format!("is named {}", tables.strings.get(*name)));
            }
            Event::ThreadEnd(thread) => self.life(*thread, at, "ends"),
            Event::ProcessExec(process, name) => {
                if let Some(thread) = self.first_threads.of(*process, tables) {
                    self.life(thread, at, &format!("runs {}", tables.strings.get(*name)));
                }
            }
            Event::Lock(event) => self.lock(at, event, tables),
            Event::Memory(event) => self.memory(at, event, tables),
            Event::GpuJob(track, job) => self.gpu_job((time, at), *track, job, tables),
            Event::Crash(crash) => self.crash(at, crash, tables),
            // Their first threads tell; moves are told by the next CPU.
            Event::ProcessStart(_) | Event::ProcessEnd(_) | Event::Migration(_) => (),
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
        self.slices.place(&mut self.rows, &mut self.texts, tables);
        self.make_visible();
        self.write(recorder, tables)
    }
}

fn loss_words(loss: &Loss, count: u64) -> String {
    let cpu = loss.cpu.map_or_else(String::new, |cpu| format!(" of CPU {cpu}"));
    format!("{count} records lost from {}{cpu}: {}", loss.origin.name(), loss.cause.name())
}
