//! What all decoders of a recording share while it is played.

use crate::any_exporter::{AnyExporter, Stopped};
use crate::event_type::EventType;
use crate::lifecycle::LifecycleEvent;
use crate::output::Output;
use crate::present::Present;
use crate::sink::Sink;
use crate::threads::Threads;
use crate::tracks::Tracks;
use crate::unannounced::UnannouncedThreads;
use std::sync::Arc;
use syscollect_model::{
    ClockMap, CpuId, Event, MachineId, ProcessId, SliceUpdate, Tables, ThreadId, Ticks, Time,
    Track, TrackId,
};

/// The present, the tables, who has which thread id, and the way out: what every format's decoders
/// tell events with. `S` is what the decoders of one format share beyond that.
pub struct Engine<'a, S> {
    /// Whose recording it is.
    pub machine: MachineId,
    /// The time of the item that is played.
    pub present: Present,
    /// What events point into.
    pub tables: Tables,
    /// Who has which thread id now.
    pub threads: Threads,
    /// Tracks that were made.
    pub tracks: Tracks,
    /// The output, and counts.
    pub sink: Sink<'a>,
    /// What the decoders of this format share.
    pub source: S,
}

/// What an engine is made of, of all that is known before playing.
#[derive(Debug)]
pub struct EngineParts<S> {
    /// Whose recording it is.
    pub machine: MachineId,
    /// How ticks become times.
    pub clock: Arc<ClockMap>,
    /// What events point into.
    pub tables: Tables,
    /// Rows that an earlier play added.
    pub added: AddedRows,
    /// What the decoders of this format share.
    pub source: S,
}

/// Rows that playing adds for what nothing announced. Kept, so that playing again finds them.
#[derive(Clone, Debug)]
pub struct AddedRows {
    threads: UnannouncedThreads,
    tracks: Tracks,
}

impl AddedRows {
    /// None so far, and at most so many threads that nothing announced.
    pub fn new(most_threads: usize) -> Self {
        Self { threads: UnannouncedThreads::new(most_threads), tracks: Tracks::default() }
    }
}

impl<'a, S> Engine<'a, S> {
    /// `initial` says what thread ids mean in the beginning.
    pub fn new(parts: EngineParts<S>, initial: &[(u32, ThreadId)], output: Output<'a>) -> Self {
        let EngineParts { machine, clock, tables, added, source } = parts;
        Self {
            machine,
            present: Present::new(clock),
            tables,
            threads: Threads::new(added.threads, initial),
            tracks: added.tracks,
            sink: Sink::new(output),
            source,
        }
    }

    /// What it was made of, with what playing added.
    pub fn into_parts(self) -> EngineParts<S> {
        let Self { machine, present, tables, threads, tracks, source, .. } = self;
        let clock = Arc::clone(present.map());
        let added = AddedRows { threads: threads.into_unannounced(), tracks };
        EngineParts { machine, clock, tables, added, source }
    }

    /// Takes another's tables and output, and gives its own for them.
    pub fn exchange(&mut self, tables: &mut Tables, output: &mut Output<'a>) {
        std::mem::swap(&mut self.tables, tables);
        self.sink.exchange(output);
    }

    /// The exporter and the tables, for what is told beside events.
    pub fn exporter(&mut self) -> (&mut AnyExporter<'a>, &Tables) {
        (self.sink.exporter(), &self.tables)
    }

    /// A CPU of the machine.
    #[inline]
    pub fn cpu(&self, number: u32) -> CpuId {
        CpuId { machine: self.machine, number }
    }

    /// The time of the present item.
    #[inline]
    pub fn now(&self) -> Time {
        self.present.now()
    }

    /// The time of any ticks.
    #[inline]
    pub fn time(&mut self, ticks: u64) -> Time {
        self.present.time(Ticks(ticks))
    }

    /// Counts a record, and what occurs by it now.
    #[inline]
    pub fn count(&mut self, event_type: EventType) {
        self.sink.tally.records += 1;
        self.occurred(event_type);
    }

    /// Counts what occurs now, if that is in the part that is played. What programs and probes tell
    /// is counted so: their records are counted as they come.
    #[inline]
    pub fn occurred(&mut self, event_type: EventType) {
        self.sink.occurred(event_type, self.present.now());
    }

    /// Gives an event of now to the exporter.
    ///
    /// # Errors
    ///
    /// The exporter stopped it.
    #[inline]
    pub fn emit(&mut self, event: &Event) -> Result<(), Stopped> {
        self.sink.emit(self.present.now(), event, &self.tables)
    }

    /// Says of the innermost slices of a track that their program did not end them, and ends them.
    ///
    /// # Errors
    ///
    /// The exporter stopped it.
    pub fn unfinished(&mut self, track: TrackId, count: usize) -> Result<(), Stopped> {
        for _ in 0..count {
            self.emit(&Event::SliceUpdate(track, SliceUpdate::unfinished()))?;
            self.emit(&Event::SliceEnd(track))?;
        }
        Ok(())
    }

    /// The thread that an id means now; if nothing announced it, a new row.
    #[inline]
    pub fn thread(&mut self, tid: u32) -> ThreadId {
        match self.threads.get(tid) {
            Some(thread) => thread,
            None => self.threads.add(tid, self.machine, &mut self.tables),
        }
    }

    /// The same of a process, if that is known.
    #[inline]
    pub fn thread_of(&mut self, tid: u32, pid: Option<u32>) -> ThreadId {
        match (self.threads.get(tid), pid) {
            (Some(thread), _) => thread,
            (None, Some(pid)) => {
                let main = self.thread(pid);
                let process = self.tables.thread(main).process;
                if pid == tid {
                    return main;
                }
                self.threads.add_to(process, tid, &mut self.tables)
            }
            (None, None) => self.thread(tid),
        }
    }

    /// The same where a program says so, in memory that it writes to: a thread of another process is
    /// not its own, and what it says of that is said of its first thread.
    pub fn claimed_thread(&mut self, tid: u32, pid: Option<u32>) -> ThreadId {
        match (self.threads.get(tid), pid) {
            (Some(thread), Some(pid)) if self.threads.is_announced(tid) => {
                let process = self.tables.thread(thread).process;
                match self.tables.process(process).pid == pid {
                    true => thread,
                    false => self.thread_of(pid, Some(pid)),
                }
            }
            (_, pid) => self.thread_of(tid, pid),
        }
    }

    /// The process that an id, also of one of its threads, means now.
    pub fn process_of(&mut self, id: u32) -> ProcessId {
        let thread = self.thread(id);
        self.tables.thread(thread).process
    }

    /// A track; `row` tells apart those of one name.
    pub fn track(&mut self, track: Track, row: u64) -> TrackId {
        self.tracks.get(track, row, &mut self.tables)
    }

    /// Something happens to a process or thread: what is to be told of it, if anything is.
    pub fn apply(&mut self, event: LifecycleEvent) -> Option<Event> {
        if let LifecycleEvent::Bind(tid, thread) = event {
            self.threads.bind(tid, thread);
        }
        event.event()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::KeptEvents;
    use syscollect_model::StringId;

    fn engine(kept: &mut KeptEvents) -> Engine<'_, ()> {
        let parts = EngineParts {
            machine: MachineId(3),
            clock: Arc::new(crate::testing::nanosecond_clock()),
            tables: Tables::default(),
            added: AddedRows::new(4),
            source: (),
        };
        Engine::new(parts, &[], Output::of_part(kept, None, None))
    }

    #[test]
    fn the_present_never_goes_back_however_ticks_do() {
        let mut kept = KeptEvents::default();
        let mut engine = engine(&mut kept);
        let times = [5, 9, 7, u64::MAX].map(|ticks| {
            engine.present.advance(ticks);
            engine.emit(&Event::ThreadStart(Tables::IDLE_THREAD)).unwrap();
            (engine.present.ticks(), engine.now())
        });
        assert_eq!(times[..3], [(5, Time(5)), (9, Time(9)), (7, Time(9))]);
        let reported: Vec<Time> = kept.events.iter().map(|(time, _)| *time).collect();
        assert_eq!(reported.len(), 4, "the very last moment is told, too");
        assert!(reported.is_sorted());
    }

    #[test]
    fn what_a_program_says_of_a_thread_of_another_process_is_its_first_threads() {
        let mut kept = KeptEvents::default();
        let mut engine = engine(&mut kept);
        let [victim, attacker] = [20, 30].map(|pid| {
            let (machine, name) = (engine.machine, engine.tables.strings.intern("x"));
            engine.tables.processes.push(syscollect_model::Process::named(machine, pid, name));
            let process = ProcessId(engine.tables.processes.len() as u32 - 1);
            engine.tables.threads.push(syscollect_model::Thread::named(pid, process, name));
            let thread = ThreadId(engine.tables.threads.len() as u32 - 1);
            engine.threads.bind(pid, thread);
            thread
        });
        assert_eq!(engine.claimed_thread(20, Some(20)), victim);
        assert_eq!(engine.claimed_thread(20, Some(30)), attacker);
        let own = engine.claimed_thread(31, Some(30));
        let process = engine.tables.thread(attacker).process;
        assert_eq!(engine.tables.thread(own).process, process, "nobody announced it");
    }

    #[test]
    fn a_thread_of_a_process_that_nothing_announced_brings_the_process() {
        let mut kept = KeptEvents::default();
        let mut engine = engine(&mut kept);
        let thread = engine.thread_of(8, Some(7));
        let process = engine.process_of(7);
        assert_eq!(engine.tables.thread(thread).process, process);
        assert_eq!(engine.tables.process(process).machine, MachineId(3));
        assert_eq!((engine.thread(8), engine.thread_of(8, None)), (thread, thread));
    }

    #[test]
    fn playing_again_finds_the_rows_of_the_play_before() {
        let mut kept = KeptEvents::default();
        let mut engine = engine(&mut kept);
        let (thread, name) = (engine.thread(7), StringId(0));
        let track = Track {
            scope: syscollect_model::Scope::Thread(thread),
            name,
            kind: syscollect_model::TrackKind::GpuQueue,
        };
        let id = engine.track(track.clone(), 0);
        let parts = engine.into_parts();
        let mut kept = KeptEvents::default();
        let mut again = Engine::new(parts, &[], Output::of_part(&mut kept, None, None));
        assert_eq!((again.thread(7), again.track(track, 0)), (thread, id));
    }

    #[test]
    fn a_new_owner_of_an_id_is_bound_and_not_told_of() {
        let mut kept = KeptEvents::default();
        let mut engine = engine(&mut kept);
        let thread = ThreadId(40);
        assert_eq!(engine.apply(LifecycleEvent::Bind(7, thread)), None);
        assert_eq!(engine.thread(7), thread);
        let end = engine.apply(LifecycleEvent::ThreadEnd(thread));
        assert_eq!(end, Some(Event::ThreadEnd(thread)));
    }
}
