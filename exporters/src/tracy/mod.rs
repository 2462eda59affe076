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
//! | slices | zones, on a thread of their own where no thread has them |
//! | instants, losses, starts, names and ends of threads, new programs | messages |
//! | counters | plots; one more is the load of all CPUs |
//! | processes and threads | threads named "process / thread" |
//! | the session, the recorder's summary | host information, CPU topology, application information |
//!
//! Migrations, priorities, wakers and what a thread waits for have no place in
//! the format. Written is layout 0.11.0, which every viewer since then opens.
//!
//! The format groups everything by kind and by thread, so nothing is written
//! before the end: **memory** is about 40 bytes for each switch, 16 for each
//! sample or counter value, 24 for each slice, and the strings and stacks of
//! the tables once more.

mod code;
mod file;
mod header;
mod limits;
mod messages;
mod plots;
mod rows;
mod sched;
mod texts;
mod wire;
mod zones;

use crate::ExportError;
use code::Code;
use header::Span;
use limits::Cuts;
use messages::{Message, Words};
use plots::Plots;
use rows::{Owner, RowId, Rows};
use rustc_hash::FxHashMap;
use sched::Cpus;
use std::io::Write;
use syscollect_model::{
    Event, Exporter, Loss, LossCause, ProcessId, RecorderSummary, Sample, Scope, SessionInfo, Switch, Tables, ThreadId,
    Time, TrackId,
};
use texts::Texts;
use wire::Payload;
use zones::Locations;

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
    session: SessionInfo,
    /// The moment before the first event: the file's zero.
    origin: Option<u64>,
    last: i64,
    rows: Rows,
    cpus: Cpus,
    messages: Vec<Message>,
    plots: Plots,
    /// Which row has the slices and instants of a track.
    tracks: FxHashMap<TrackId, Option<RowId>>,
    /// The track that a thread's own row has.
    track_of_thread: FxHashMap<ThreadId, TrackId>,
    first_threads: FirstThreads,
    told_losses: FxHashMap<(String, Option<u32>, LossCause), u64>,
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
            session: SessionInfo::default(),
            origin: None,
            last: 0,
            rows: Rows::default(),
            cpus: Cpus::default(),
            messages: Vec::new(),
            plots: Plots::default(),
            tracks: FxHashMap::default(),
            track_of_thread: FxHashMap::default(),
            first_threads: FirstThreads::default(),
            told_losses: FxHashMap::default(),
            cuts: Cuts::default(),
        }
    }

    /// What the format had no room for, a sentence for each limit that was met; complete after [`Exporter::end`].
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
            self.rows.get(row).samples.push(rows::Sample::new(time, switch.off_cpu.stack, true, true));
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
            self.rows.get(row).samples.push(rows::Sample::new(time, sample.stack, false, sample.in_kernel));
        }
    }

    fn message(&mut self, row: Option<RowId>, time: i64, color: u32, words: Words) {
        let Some(row) = row else { return };
        self.rows.get(row).messages.push(self.messages.len() as u32);
        self.messages.push(Message { time, color, words });
    }

    fn life(&mut self, thread: ThreadId, time: i64, words: Words) {
        let row = self.rows.thread(thread);
        self.message(row, time, messages::GREY, words);
    }

    /// The row of a track's slices. A thread has those of its first track;
    /// tracks do not nest in each other, so others get rows of their own.
    fn track(&mut self, id: TrackId, tables: &Tables) -> Option<RowId> {
        if let Some(row) = self.tracks.get(&id) {
            return *row;
        }
        let row = match tables.track(id).scope {
            Scope::Thread(thread) if *self.track_of_thread.entry(thread).or_insert(id) == id => {
                self.rows.thread(thread)
            }
            _ => self.rows.other(Owner::Track(id)),
        };
        self.tracks.insert(id, row);
        row
    }

    fn loss(&mut self, time: i64, loss: &Loss) {
        if let (Some(cpu), "sched") = (loss.cpu, &*loss.lane) {
            self.cpus.lost(cpu);
        }
        *self.told_losses.entry((loss.lane.clone(), loss.cpu, loss.cause)).or_default() += loss.count;
        let row = self.rows.other(Owner::Losses);
        self.message(row, time, messages::RED, Words::Other(loss_words(loss, loss.count).into()));
    }

    /// Losses that no event told.
    fn remaining_losses(&mut self, losses: &[Loss]) {
        for loss in losses {
            let told = self.told_losses.entry((loss.lane.clone(), loss.cpu, loss.cause)).or_default();
            let rest = loss.count.saturating_sub(*told);
            *told = told.saturating_sub(loss.count);
            if rest > 0 {
                let row = self.rows.other(Owner::Losses);
                let words = format!("{}, at some time", loss_words(loss, rest));
                self.message(row, self.last.max(1), messages::RED, Words::Other(words.into()));
            }
        }
    }

    /// Gives threads that only switch a message, without which the viewer hides them.
    fn make_visible(&mut self) {
        let hidden = self.rows.all().iter().zip(0..);
        let hidden: Vec<_> = hidden.filter_map(|(row, id)| Some((RowId(id), row.summary()?))).collect();
        for (row, (time, words)) in hidden {
            self.message(Some(row), time, messages::GREY, Words::Other(words.into()));
        }
    }

    fn write(&mut self, recorder: Option<&RecorderSummary>, tables: &Tables) -> Result<(), ExportError> {
        let mut texts = Texts::default();
        let mut code = Code::new(&mut texts);
        let mut locations = Locations::default();
        self.rows.all().iter().for_each(|row| locations.add(&row.zones, &mut texts, tables));
        (self.cuts.cpus, self.cuts.threads) = (self.cpus.refused, self.rows.refused);
        self.cuts.locations = locations.shared();
        let notes = header::notes(&self.session, recorder, &self.cuts.sentences(), &mut texts);
        let contents = file::Contents {
            session: &self.session,
            span: Span { origin: self.origin.unwrap_or_default(), last: self.last },
            rows: &self.rows,
            cpus: &self.cpus,
            messages: &self.messages,
            plots: &self.plots,
            locations: &locations,
            code: &mut code,
            notes,
        };
        let mut payload = Payload::new(&mut self.out)?;
        file::write(&mut payload, contents, &mut texts, tables)?;
        payload.finish()?;
        (self.cuts.strings, self.cuts.stacks, self.cuts.frames) = (texts.refused, code.refused, code.cut);
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
        let Some(at) = self.time(time) else {
            self.cuts.late += 1;
            return Ok(());
        };
        match event {
            Event::Switch(switch) => self.switch(at, switch),
            Event::Wakeup(wakeup) => {
                if let Some(row) = self.rows.thread(wakeup.wakee) {
                    self.rows.get(row).wake(at);
                }
            }
            Event::Sample(sample) => self.sample(at, sample),
            Event::Counter(track, value) => self.plots.add(*track, at, *value),
            Event::SliceBegin(track, slice) => {
                if let Some(row) = self.track(*track, tables) {
                    self.cuts.deep += u64::from(!self.rows.get(row).zones.begin(at, slice.name));
                }
            }
            Event::SliceEnd(track) => {
                if let Some(row) = self.track(*track, tables) {
                    self.rows.get(row).zones.end(at);
                }
            }
            Event::Instant(track, slice) => {
                let row = self.track(*track, tables);
                self.message(row, at, messages::WHITE, Words::Instant(slice.name));
            }
            Event::Loss(loss) => self.loss(at, loss),
            Event::ThreadStart(thread) => self.life(*thread, at, Words::Starts),
            Event::ThreadName(thread, name) => self.life(*thread, at, Words::Named(*name)),
            Event::ThreadEnd(thread) => self.life(*thread, at, Words::Ends),
            Event::ProcessExec(process, name) => {
                if let Some(thread) = self.first_threads.of(*process, tables) {
                    self.life(thread, at, Words::Runs(*name));
                }
            }
            // Their first threads tell; moves are told by the next CPU.
            Event::ProcessStart(_) | Event::ProcessEnd(_) | Event::Migration(_) => (),
            Event::SliceMore(..) | Event::Lock(_) | Event::Memory(_) | Event::Crash(_) => (),
        }
        Ok(())
    }

    fn end(&mut self, losses: &[Loss], recorder: Option<&RecorderSummary>, tables: &Tables) -> Result<(), ExportError> {
        self.remaining_losses(losses);
        self.make_visible();
        self.write(recorder, tables)
    }
}

fn loss_words(loss: &Loss, count: u64) -> String {
    let cpu = loss.cpu.map_or_else(String::new, |cpu| format!(" of CPU {cpu}"));
    format!("{count} records lost from {}{cpu}: {}", loss.lane, loss.cause.name())
}
