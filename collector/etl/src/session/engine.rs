//! What the decoders of Windows traces share beyond what those of every recording do: code, who
//! runs on which CPU, and events that wait for their stacks.

use super::code::{Code, StackParts};
use super::delay::Delay;
use super::recent::ANY_THREAD;
use super::tally::StackFacts;
use super::waiting::{Deferred, ProcessAddress, WaitingEvent, set_stack};
use crate::Record;
use syscollect_model::{
    Event, Sample, Scope, Slice, StringId, Strings, ThreadId, Time, Track, TrackId, TrackKind,
    TrackRole, Wakeup,
};
use syscollect_playback::{AddedRows, EventType, Played, Stopped};

/// Events that wait at most, some hundred bytes each.
const MOST_WAITING: usize = 1 << 16;
/// Threads that nothing announced and that get a row.
const MOST_UNANNOUNCED: usize = 1 << 16;

/// The engine that plays Windows traces.
pub(super) type Engine<'a> = syscollect_playback::Engine<'a, TraceState>;

/// No rows were added so far.
pub(super) fn no_added_rows() -> AddedRows {
    AddedRows::new(MOST_UNANNOUNCED)
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

/// Names of what is told of threads whose stacks came too late.
#[derive(Clone, Copy, Debug)]
struct StackEventNames {
    events: StringId,
    resumed: StringId,
    switch: StringId,
}

impl StackEventNames {
    fn new(strings: &mut Strings) -> Self {
        let [events, resumed, switch] =
            ["Events", "Running again", "switch"].map(|name| strings.intern(name));
        Self { events, resumed, switch }
    }
}

/// What decoders of Windows traces share: each lets its events wait here.
#[derive(Debug)]
pub(super) struct TraceState {
    pub(super) code: Code,
    pub(super) running: RunningThreads,
    pub(super) waiting: Delay<WaitingEvent>,
    pub(super) stacks: StackFacts,
    /// Records that could not be decoded.
    pub(super) undecodable: u64,
    names: StackEventNames,
}

impl TraceState {
    /// Events wait for `window` nanoseconds.
    pub(super) fn new(code: Code, window: u64, strings: &mut Strings) -> Self {
        Self {
            code,
            running: RunningThreads::default(),
            waiting: Delay::new(window, MOST_WAITING),
            stacks: StackFacts::default(),
            undecodable: 0,
            names: StackEventNames::new(strings),
        }
    }
}

/// What decoders of Windows traces do with the engine.
pub(super) trait TraceEngine {
    /// Moves the present to a raw time; it never goes back.
    fn advance(&mut self, at: u64);

    /// Lets an event wait that happens now, and gives its number.
    fn push(&mut self, event_type: Option<EventType>, event: Deferred) -> u64;

    /// The same of one that happened at a known address.
    fn push_at(
        &mut self,
        event_type: Option<EventType>,
        event: Deferred,
        address: ProcessAddress,
    ) -> u64;

    /// Lets an event wait that happens now and is counted; gives its number.
    fn push_event(&mut self, event_type: EventType, event: Event) -> u64;

    /// The same of one that is no occurrence of its own.
    fn push_uncounted(&mut self, event: Event) -> u64;

    /// Adds an event that happened at `time`, now or a little earlier. Of one time lower ranks come
    /// first.
    fn insert(&mut self, event_type: EventType, time: Time, rank: u8, event: Event);

    /// Gives the exporter what has waited long enough; with `all`, everything.
    fn flush(&mut self, all: bool) -> Result<(), Stopped>;

    /// The track of what is told of a thread or a CPU under no name of its own.
    fn events_track(&mut self, scope: Scope) -> TrackId;

    /// The process id of a thread.
    fn pid(&self, thread: ThreadId) -> u32;

    /// The id of the thread that wrote a record: as its header says, or who runs on its CPU.
    fn writer(&self, record: &Record<'_>) -> u32;

    /// What was played, as far as the engine knows.
    fn played(&mut self) -> Played;
}

impl TraceEngine for Engine<'_> {
    #[inline]
    fn advance(&mut self, at: u64) {
        self.present.advance(at);
        self.source.waiting.advance(self.present.now().0);
    }

    #[inline]
    fn push(&mut self, event_type: Option<EventType>, event: Deferred) -> u64 {
        self.push_at(event_type, event, ProcessAddress::default())
    }

    #[inline]
    fn push_at(
        &mut self,
        event_type: Option<EventType>,
        event: Deferred,
        address: ProcessAddress,
    ) -> u64 {
        let (now, at) = (self.present.now(), self.present.ticks());
        let (stack, ProcessAddress { pid, address }) = (StackParts::default(), address);
        self.source.waiting.push(now.0, WaitingEvent { event, event_type, stack, pid, address, at })
    }

    fn push_event(&mut self, event_type: EventType, event: Event) -> u64 {
        self.push(Some(event_type), Deferred::Event(Box::new(event)))
    }

    fn push_uncounted(&mut self, event: Event) -> u64 {
        self.push(None, Deferred::Event(Box::new(event)))
    }

    fn insert(&mut self, event_type: EventType, time: Time, rank: u8, event: Event) {
        let event = Deferred::Event(Box::new(event));
        let (stack, at) = (StackParts::default(), self.present.ticks());
        let event_type = Some(event_type);
        let waiting = WaitingEvent { event, event_type, stack, pid: 0, address: 0, at };
        self.source.waiting.insert(time.0, rank, waiting);
    }

    #[inline]
    fn flush(&mut self, all: bool) -> Result<(), Stopped> {
        let Self { source, tables, tracks, sink, .. } = self;
        let TraceState { waiting, code, names, .. } = source;
        while let Some((time, event)) = waiting.front(all) {
            let (time, event_type) = (Time(time), event.event_type);
            let stack = event.stack(code, tables);
            if let Some(event_type) = event_type {
                sink.occurred(event_type, time);
            }
            match &mut event.event {
                Deferred::Switch(switch) => {
                    switch.off_cpu.stack = stack;
                    sink.emit(time, &Event::Switch(*switch), tables)?;
                }
                Deferred::Wakeup(wakeup) => {
                    let event = Event::Wakeup(Wakeup { stack, ..*wakeup });
                    sink.emit(time, &event, tables)?;
                }
                Deferred::Sample(sample) => {
                    let event = Event::Sample(Sample { stack, ..*sample });
                    sink.emit(time, &event, tables)?;
                }
                Deferred::Event(event) => {
                    set_stack(event, stack);
                    sink.emit(time, event, tables)?;
                }
                Deferred::Resumed(thread) if stack.is_some() => {
                    let track = slices(Scope::Thread(*thread), names.events);
                    let track = tracks.get(track, 0, tables);
                    let category = Some(names.switch);
                    let slice = Slice { stack, category, ..Slice::named(names.resumed) };
                    sink.emit(time, &Event::Instant(track, slice), tables)?;
                }
                Deferred::Resumed(_) => {}
            }
            waiting.remove_front();
        }
        Ok(())
    }
    fn events_track(&mut self, scope: Scope) -> TrackId {
        self.track(slices(scope, self.source.names.events), 0)
    }

    #[inline]
    fn pid(&self, thread: ThreadId) -> u32 {
        self.tables.process(self.tables.thread(thread).process).pid
    }

    #[inline]
    fn writer(&self, record: &Record<'_>) -> u32 {
        match record.task {
            Some(task) => task.tid,
            None => self.source.running.get(record.cpu).map_or(ANY_THREAD, |running| running.tid),
        }
    }

    fn played(&mut self) -> Played {
        let StackFacts { records, matched, .. } = self.source.stacks;
        Played { missing_stacks: records - matched, ..self.sink.played() }
    }
}

/// A track of slices.
pub(super) fn slices(scope: Scope, name: StringId) -> Track {
    Track { scope, name, kind: TrackKind::Slices(TrackRole::Named) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::testing::KeptEvents;

    #[test]
    fn damage_that_names_thread_after_thread_fills_no_memory() {
        let mut reported = KeptEvents::default();
        reported.by(|engine| {
            let most = MOST_UNANNOUNCED as u32;
            for tid in 1..most + 100 {
                engine.thread(tid);
            }
            let others = engine.thread(most + 50);
            assert_eq!((engine.thread(ANY_THREAD), others), (others, engine.thread(most + 60)));
        });
        // The idle thread, one each, and the one of all others.
        assert_eq!(reported.tables.threads.len(), 1 + MOST_UNANNOUNCED + 1);
    }
}
