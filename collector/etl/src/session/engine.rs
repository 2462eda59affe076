//! What all decoders share while a trace is played: the present, the tables, who has which thread
//! id and runs on which CPU, events that wait for their stacks, and the output.

use super::code::{Code, StackParts};
use super::delay::Delay;
use super::lifetimes::add_process;
use super::recent::ANY_THREAD;
use super::tally::Tally;
use super::waiting::{Deferred, ProcessAddress, WaitingEvent, set_stack};
use crate::Record;
use syscollect_model::{
    ClockMap, Event, Sample, Scope, Slice, StringId, Strings, Tables, ThreadId, Ticks, Time,
    TimeCursor, Track, TrackId, TrackKind, TrackRole, Wakeup,
};
use syscollect_playback::{
    EventTally, EventType, Output, Played, Stopped, ThreadIds, Tracks, UnannouncedThreads,
    unknown_name,
};

/// Events that wait at most, some hundred bytes each.
const MOST_WAITING: usize = 1 << 16;
/// Threads that nothing announced and that get a row.
const MOST_UNANNOUNCED: usize = 1 << 16;

/// Rows that playing adds. Kept, so that playing again finds them.
#[derive(Clone, Debug, Default)]
pub(super) struct AddedRows {
    pub(super) threads: UnannouncedThreads,
    tracks: Tracks,
}

/// The present.
pub(super) struct Present<'a> {
    clock: TimeCursor<&'a ClockMap>,
    now: Time,
    /// Raw time of the present record.
    pub(super) at: u64,
}

impl Present<'_> {
    /// The time of a raw time stamp. The very last moment is behind the end of every range of time.
    #[inline]
    pub(super) fn time(&mut self, at: u64) -> Time {
        self.clock.time(Ticks(at)).min(Time(u64::MAX - 1))
    }
}

/// A thread that runs, as switches tell it.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunningThread {
    pub(super) tid: u32,
    pub(super) thread: ThreadId,
}

/// Who runs on each CPU.
#[derive(Debug, Default)]
pub(super) struct RunningThreads {
    by_cpu: Vec<Option<RunningThread>>,
}

impl RunningThreads {
    /// Who runs on a CPU, if a switch told it.
    #[inline]
    pub(super) fn get(&self, cpu: u16) -> Option<RunningThread> {
        self.by_cpu.get(usize::from(cpu)).copied().flatten()
    }

    /// Another thread runs on a CPU; gives the one that ran there.
    #[inline]
    pub(super) fn replace(&mut self, cpu: u16, thread: RunningThread) -> Option<RunningThread> {
        let index = usize::from(cpu);
        if self.by_cpu.len() <= index {
            self.by_cpu.resize(index + 1, None);
        }
        self.by_cpu[index].replace(thread)
    }
}

/// The output, and what it was given.
struct Sink<'a> {
    output: Output<'a>,
    tally: EventTally,
}

impl Sink<'_> {
    #[inline]
    fn emit(
        &mut self,
        time: Time,
        event_type: Option<EventType>,
        event: &Event,
        tables: &Tables,
    ) -> Result<(), Stopped> {
        if let Some(event_type) = event_type.filter(|_| self.output.covers(time)) {
            self.tally.occurred(event_type, time);
        }
        self.output.emit(time, event, tables)
    }
}

/// Names of what the engine itself tells.
#[derive(Clone, Copy, Debug)]
struct EngineNames {
    events: StringId,
    resumed: StringId,
    switch: StringId,
}

impl EngineNames {
    fn new(strings: &mut Strings) -> Self {
        let [events, resumed, switch] =
            ["Events", "Running again", "switch"].map(|name| strings.intern(name));
        Self { events, resumed, switch }
    }
}

/// What decoders share: each lets its events wait here.
pub(super) struct Engine<'a> {
    sink: Sink<'a>,
    pub(super) present: Present<'a>,
    pub(super) tables: &'a mut Tables,
    pub(super) code: &'a mut Code,
    added: &'a mut AddedRows,
    pub(super) threads: ThreadIds,
    pub(super) running: RunningThreads,
    pub(super) waiting: Delay<WaitingEvent>,
    pub(super) tally: Tally,
    names: EngineNames,
}

/// What an engine is made of, of all that is known before playing.
pub(super) struct Shared<'a> {
    pub(super) clock: &'a ClockMap,
    pub(super) tables: &'a mut Tables,
    pub(super) code: &'a mut Code,
    pub(super) added: &'a mut AddedRows,
    /// Nanoseconds that events wait.
    pub(super) window: u64,
}

impl<'a> Engine<'a> {
    /// `initial` says what thread ids mean in the beginning.
    pub(super) fn new(shared: Shared<'a>, initial: &[(u32, ThreadId)], output: Output<'a>) -> Self {
        let Shared { clock, tables, code, added, window } = shared;
        let mut threads = ThreadIds::default();
        threads.bind(0, Tables::IDLE_THREAD);
        added.threads.bind(&mut threads);
        initial.iter().for_each(|(tid, thread)| threads.bind(*tid, *thread));
        Self {
            sink: Sink { output, tally: EventTally::default() },
            present: Present { clock: clock.cursor(), now: Time(0), at: 0 },
            names: EngineNames::new(&mut tables.strings),
            tables,
            code,
            added,
            threads,
            running: RunningThreads::default(),
            waiting: Delay::new(window, MOST_WAITING),
            tally: Tally::default(),
        }
    }

    /// Moves the present to a raw time; it never goes back.
    #[inline]
    pub(super) fn advance(&mut self, at: u64) {
        let present = &mut self.present;
        present.at = at;
        present.now = present.now.max(present.time(at));
        self.waiting.advance(present.now.0);
    }

    /// The time of the present record.
    #[inline]
    pub(super) fn now(&self) -> Time {
        self.present.now
    }

    /// Lets an event wait that happens now, and gives its number.
    #[inline]
    pub(super) fn push(&mut self, event_type: Option<EventType>, event: Deferred) -> u64 {
        self.push_at(event_type, event, ProcessAddress::default())
    }

    /// The same of one that happened at a known address.
    #[inline]
    pub(super) fn push_at(
        &mut self,
        event_type: Option<EventType>,
        event: Deferred,
        address: ProcessAddress,
    ) -> u64 {
        let Present { now, at, .. } = self.present;
        let (stack, ProcessAddress { pid, address }) = (StackParts::default(), address);
        self.waiting.push(now.0, WaitingEvent { event, event_type, stack, pid, address, at })
    }

    /// Lets an event wait that happens now and is counted; gives its number.
    pub(super) fn push_event(&mut self, event_type: EventType, event: Event) -> u64 {
        self.push(Some(event_type), Deferred::Event(Box::new(event)))
    }

    /// The same of one that is no occurrence of its own.
    pub(super) fn push_uncounted(&mut self, event: Event) -> u64 {
        self.push(None, Deferred::Event(Box::new(event)))
    }

    /// Adds an event that happened at `time`, now or a little earlier. Of one time lower ranks come
    /// first.
    pub(super) fn insert(&mut self, event_type: EventType, time: Time, rank: u8, event: Event) {
        let event = Deferred::Event(Box::new(event));
        let (stack, at) = (StackParts::default(), self.present.at);
        let event_type = Some(event_type);
        let waiting = WaitingEvent { event, event_type, stack, pid: 0, address: 0, at };
        self.waiting.insert(time.0, rank, waiting);
    }

    /// Gives the exporter what has waited long enough; with `all`, everything.
    #[inline]
    pub(super) fn flush(&mut self, all: bool) -> Result<(), Stopped> {
        let Self { waiting, code, tables, added, names, sink, .. } = self;
        while let Some((time, event)) = waiting.front(all) {
            let (time, event_type) = (Time(time), event.event_type);
            let stack = event.stack(code, tables);
            match &mut event.event {
                Deferred::Switch(switch) => {
                    switch.off_cpu.stack = stack;
                    sink.emit(time, event_type, &Event::Switch(*switch), tables)?;
                }
                Deferred::Wakeup(wakeup) => {
                    let event = Event::Wakeup(Wakeup { stack, ..*wakeup });
                    sink.emit(time, event_type, &event, tables)?;
                }
                Deferred::Sample(sample) => {
                    let event = Event::Sample(Sample { stack, ..*sample });
                    sink.emit(time, event_type, &event, tables)?;
                }
                Deferred::Event(event) => {
                    set_stack(event, stack);
                    sink.emit(time, event_type, event, tables)?;
                }
                Deferred::Resumed(thread) if stack.is_some() => {
                    let track = slices(Scope::Thread(*thread), names.events);
                    let track = added.tracks.get(track, 0, tables);
                    let category = Some(names.switch);
                    let slice = Slice { stack, category, ..Slice::named(names.resumed) };
                    sink.emit(time, None, &Event::Instant(track, slice), tables)?;
                }
                Deferred::Resumed(_) => {}
            }
            waiting.remove_front();
        }
        Ok(())
    }

    /// A track; `row` tells apart those of one name.
    pub(super) fn track(&mut self, track: Track, row: u64) -> TrackId {
        self.added.tracks.get(track, row, self.tables)
    }

    /// The track of what is told of a thread or a CPU under no name of its own.
    pub(super) fn events_track(&mut self, scope: Scope) -> TrackId {
        self.track(slices(scope, self.names.events), 0)
    }

    /// The thread that an id means now; if nothing announced it, a new row.
    #[inline]
    pub(super) fn thread(&mut self, tid: u32) -> ThreadId {
        match self.threads.get(tid) {
            Some(thread) => thread,
            None => self.unannounced(tid),
        }
    }

    #[cold]
    fn unannounced(&mut self, tid: u32) -> ThreadId {
        // So many that only damage can name them: the rest is one thread.
        if self.added.threads.len() >= MOST_UNANNOUNCED && tid != ANY_THREAD {
            return self.thread(ANY_THREAD);
        }
        let process = add_process(self.tables, tid, &unknown_name(tid));
        self.added.threads.add(tid, process, self.tables, &mut self.threads)
    }

    /// The process id of a thread.
    #[inline]
    pub(super) fn pid(&self, thread: ThreadId) -> u32 {
        self.tables.process(self.tables.thread(thread).process).pid
    }

    /// The id of the thread that wrote a record: as its header says, or who runs on its CPU.
    #[inline]
    pub(super) fn writer(&self, record: &Record<'_>) -> u32 {
        match record.task {
            Some(task) => task.tid,
            None => self.running.get(record.cpu).map_or(ANY_THREAD, |running| running.tid),
        }
    }

    /// What was played, as far as the engine knows.
    pub(super) fn played(&mut self) -> Played {
        let Tally { records, stacks, .. } = self.tally;
        let missing_stacks = stacks.records - stacks.matched;
        let untold_gaps = self.sink.output.take_untold_gaps();
        Played { records, missing_stacks, untold_gaps, ..self.sink.tally.played() }
    }
}

/// A track of slices.
pub(super) fn slices(scope: Scope, name: StringId) -> Track {
    Track { scope, name, kind: TrackKind::Slices(TrackRole::Named) }
}
