//! What is collected of events until the file is written.

use super::crashes::{FileCrash, RowCrash};
use super::gpu::{self, Gpus, Moments};
use super::locks::Locks;
use super::memory::Memory;
use super::messages::{self, Importance, Message};
use super::plots::Plots;
use super::rows::{self, LeftOutRows, RowId, RowOwner, Rows};
use super::sched::Cpus;
use super::slices::Slices;
use super::strings::FileStrings;
use crate::labels;
use syscollect_model::{
    CpuId, GpuJob, LockEvent, MemoryEvent, Sample, Scope, SessionInfo, Severity, SignalExit, Slice,
    StackId, Switch, Tables, ThreadId, Time, TrackId,
};

/// All that the file is made of.
#[derive(Default)]
pub(super) struct Collected {
    pub(super) session: SessionInfo,
    pub(super) rows: Rows,
    pub(super) cpus: Cpus,
    pub(super) strings: FileStrings,
    pub(super) crash: FileCrash,
    pub(super) plots: Plots,
    pub(super) slices: Slices,
    pub(super) locks: Locks,
    pub(super) memory: Memory,
    pub(super) gpus: Gpus,
}

impl Collected {
    #[inline]
    pub(super) fn switch(&mut self, time: i64, switch: &Switch) {
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
    fn sampled(&mut self, thread: ThreadId, cpu: CpuId) -> Option<RowId> {
        match thread {
            Tables::IDLE_THREAD => Some(self.rows.other(RowOwner::IdleCpu(cpu))),
            thread => self.rows.thread(thread),
        }
    }

    #[inline]
    pub(super) fn sample(&mut self, time: i64, sample: &Sample) {
        if let Some(row) = self.sampled(sample.thread, sample.cpu) {
            self.rows.get(row).samples.push(rows::Sample::new(
                time,
                sample.stack,
                false,
                sample.in_kernel,
            ));
        }
    }

    pub(super) fn message(
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
        let text = self.strings.intern(text);
        self.rows.get(row).messages.push(Message { time, color, text, stack, importance });
    }

    pub(super) fn lifecycle(&mut self, thread: ThreadId, time: i64, text: &str) {
        let row = self.rows.thread(thread);
        self.message(row, (time, messages::GREY), text, Importance::of_system(Severity::Debug));
    }

    pub(super) fn instant(&mut self, track: TrackId, time: i64, slice: &Slice, tables: &Tables) {
        let row = self.row_of(track, tables);
        let content =
            (&*labels::instant(slice, tables), Importance::of_fields(&slice.fields, tables));
        self.message_from(row, (time, messages::color(slice.color)), content, slice.stack);
    }

    pub(super) fn message_on_track(
        &mut self,
        track: TrackId,
        time: i64,
        message: &syscollect_model::Message,
        tables: &Tables,
    ) {
        let row = self.row_of(track, tables);
        let content =
            (&*labels::message(message, tables), Importance::of_fields(&message.fields, tables));
        self.message_from(row, (time, messages::color(message.color)), content, message.stack);
    }

    /// The row of what lies on a track.
    fn row_of(&mut self, track: TrackId, tables: &Tables) -> Option<RowId> {
        match tables.track(track).scope {
            Scope::Thread(thread) if thread != Tables::IDLE_THREAD => self.rows.thread(thread),
            _ => Some(self.rows.other(RowOwner::Track(track))),
        }
    }

    pub(super) fn lock(&mut self, time: i64, event: &LockEvent, tables: &Tables) {
        let Some(row) = self.rows.thread(event.thread) else { return };
        self.rows.get(row).elsewhere += 1;
        let locations = &mut self.slices.shared.locations;
        let location =
            event.location.map(|id| locations.location(Some(id), &mut self.strings, tables));
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

    pub(super) fn memory(&mut self, time: i64, event: &MemoryEvent, tables: &Tables) {
        if let Some(row) = self.rows.thread(event.thread) {
            self.rows.get(row).elsewhere += 1;
            self.memory.add(time, event, row, tables.thread(event.thread).process);
        }
    }

    pub(super) fn gpu_job(
        &mut self,
        track: TrackId,
        moments: Moments,
        (end, job): (Time, &GpuJob),
        with_notes: bool,
        tables: &Tables,
    ) {
        let row = match job.thread.filter(|thread| *thread != Tables::IDLE_THREAD) {
            Some(thread) => self.rows.thread(thread),
            None => Some(self.rows.other(RowOwner::Track(track))),
        };
        let Some(row) = row else { return };
        self.rows.get(row).elsewhere += 1;
        let mut shared = gpu::GpuExportContext {
            locations: &mut self.slices.shared.locations,
            strings: &mut self.strings,
            tables,
            with_notes,
        };
        self.gpus.add((track, row), moments, (end, job), &mut shared);
    }

    pub(super) fn crash(&mut self, time: i64, crash: &syscollect_model::Crash, tables: &Tables) {
        let Some(row) = self.rows.thread(crash.thread) else { return };
        let words = labels::crash(crash, tables);
        let (text, stack) = (self.strings.intern(&words), crash.stack);
        let process = tables.thread(crash.thread).process;
        self.crash.tell(process, RowCrash { time, row, text, stack });
        let content = (&*words, Importance::of_system(Severity::Fatal));
        self.message_from(Some(row), (time, messages::RED), content, stack);
    }

    /// A signal ends a process, for which this thread speaks.
    pub(super) fn signal_exit(
        &mut self,
        thread: ThreadId,
        time: i64,
        exit: &SignalExit,
        tables: &Tables,
    ) {
        let Some(row) = self.rows.thread(thread) else { return };
        let words = labels::signal_exit(exit, tables);
        let (color, severity) = match exit.is_crash {
            true => (messages::RED, Severity::Fatal),
            false => (messages::GREY, Severity::Info),
        };
        self.message(Some(row), (time, color), &words, Importance::of_system(severity));
        if exit.is_crash {
            let text = self.strings.intern(&words);
            self.crash.confirm(exit.process, RowCrash { time, row, text, stack: None });
        }
    }

    /// A thread has ended: nothing more comes of it.
    pub(super) fn ends(&mut self, thread: ThreadId, time: i64) {
        let row = self.rows.thread(thread);
        let importance = Importance::of_system(Severity::Debug);
        self.message(row, (time, messages::GREY), "ends", importance);
        if let Some(row) = row {
            self.rows.get(row).ended = true;
        }
    }

    /// Leaves out what threads have of which there are too many, and says so; how many events.
    pub(super) fn fit(&mut self, last: i64) -> u64 {
        let gone = self.rows.fit();
        let LeftOutRows { rows, events } = self.rows.left_out;
        if rows == 0 {
            return 0;
        }
        let locations = &mut self.slices.shared.locations;
        self.gpus.leave_out(&self.rows, locations);
        gone.iter().for_each(|row| row.zones.uncount(locations));
        let row = self.rows.other(RowOwner::LeftOut);
        let words = format!(
            "{rows} threads with the fewest events have no row: a .tracy file has room for 65,535"
        );
        let importance = Importance::own(Severity::Warning);
        self.message(Some(row), (last, messages::RED), &words, importance);
        events
    }

    /// Gives threads that only switch a message, without which the viewer hides them.
    pub(super) fn make_visible(&mut self) {
        for row in self.rows.all_mut() {
            if let Some((time, words)) = row.summary() {
                row.messages.push(Message {
                    time,
                    color: messages::GREY,
                    text: self.strings.intern(&words),
                    stack: None,
                    importance: Importance::own(Severity::Trace),
                });
            }
        }
    }
}
