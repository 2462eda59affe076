//! Records in, events out.

use super::Session;
use super::clr_stacks::LastEvents;
use super::code::{Code, StackParts};
use super::delay::Delay;
use super::files::Files;
use super::gpu::Gpu;
use super::intervals::Intervals;
use super::labels::Reasons;
use super::lifetimes::{Life, LifecycleEvent, add_process};
use super::long_waits::LongWaits;
use super::marks::ProviderNames;
use super::recent::{ANY_THREAD, Recent};
use super::schemas::Schemas;
use super::stack_keys::StackKeys;
use crate::payload::{self, Payload, width};
use crate::{Class, Record};
use std::ops::Range;
use syscollect_model::{
    Event, Sample, Scope, Slice, StackId, StringId, Switch, Tables, ThreadId, Ticks, Time,
    TimeCursor, Track, TrackKind, TrackRole, Wakeup,
};
use syscollect_playback::{
    AnyExporter, EventTally, EventType, Output, Played, Stopped, ThreadIds, Tracks,
    UnannouncedThreads, unknown_name,
};

/// How long events wait for their stacks: nearly all come within a millisecond,
/// those of a program's part when its thread returns from the kernel.
pub(super) const WINDOW_NS: u64 = 500_000_000;
/// A wait so long is found when its end is told: a little less than events are
/// held, because its stack comes after its end.
const LONGEST_WAIT_MS: u64 = 450;
/// Events that wait at most, some hundred bytes each.
const MOST_WAITING: usize = 1 << 16;
/// Threads that nothing announced and that get a row.
const MOST_UNANNOUNCED: usize = 1 << 16;
/// Records among which a stack looks for its event.
const MOST_RECENT: usize = 1 << 17;

/// Ticks of a wait whose beginning cannot be reached at its end.
pub(super) fn longest_wait(ticks_per_second: u64) -> u64 {
    ticks_per_second / 1000 * LONGEST_WAIT_MS
}

/// An event on its way out.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) event: Pending,
    pub(super) kind: Option<EventType>,
    /// What was said of its stack so far.
    pub(super) stack: StackParts,
    /// The process in which its addresses mean something.
    pub(super) pid: u32,
    /// Where it happened, if nothing tells the stack; 0 where that is not known.
    pub(super) address: u64,
    /// Raw time.
    pub(super) at: u64,
}

/// What comes out.
#[derive(Debug)]
pub(super) enum Pending {
    Switch(Switch),
    Wakeup(Wakeup),
    Sample(Sample),
    /// The rarer ones, which are larger.
    Event(Box<Event>),
    /// A thread runs again after a wait so long that the switch at its beginning
    /// has left: its stack, if there is one, is an event of its own.
    Resumed(ThreadId),
}

/// Where a stack goes that names an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// To the slot of this number.
    Slot(u64),
    /// NullExporter: the event is only counted.
    Nothing,
}

/// What is known of stacks, once they were played.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackFacts {
    /// Stacks that records tell: whole, in parts, by key, or with the event itself.
    pub records: u64,
    /// Of these, those whose event was found.
    pub matched: u64,
    /// Samples.
    pub samples: u64,
    /// Of these, those whose address lies in an image that the trace names.
    pub samples_in_images: u64,
    /// Switches of which the thread that leaves is the one that came last on that CPU.
    pub linked_switches: u64,
    /// Switches before which another was seen on that CPU.
    pub following_switches: u64,
}

/// The present of a CPU.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CpuState {
    /// Who runs, as switches tell: id and row.
    pub(super) current: Option<(u32, ThreadId)>,
}

/// The present of a thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct ThreadState {
    /// The number of the slot of the switch at which it left its CPU.
    pub(super) left: u64,
    /// Its stack at that switch is known already.
    pub(super) is_known: bool,
    pub(super) priority: i8,
    pub(super) cpu: u16,
}

/// Names that events get here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words {
    pub(super) events: StringId,
    pub(super) resumed: StringId,
    pub(super) switch: StringId,
    pub(super) process: StringId,
}

/// The exporter, and what it was given.
pub(super) struct EventSink<'a> {
    output: Output<'a>,
    tally: EventTally,
}

impl EventSink<'_> {
    #[inline]
    fn emit(
        &mut self,
        time: Time,
        kind: Option<EventType>,
        event: &Event,
        tables: &Tables,
    ) -> Result<(), Stopped> {
        if let Some(kind) = kind.filter(|_| self.output.covers(time)) {
            self.tally.occurred(kind, time);
        }
        self.output.emit(time, event, tables)
    }
}

impl Slot {
    /// The stack that was told of it, or at least the address.
    #[inline]
    fn stack(&self, code: &mut Code, tables: &mut Tables) -> Option<StackId> {
        if !self.stack.is_empty() {
            return code.stack(self.stack, self.pid, self.at, tables);
        }
        if self.address == 0 {
            return None;
        }
        let parts = StackParts { kernel: Some(code.lists.intern(&[self.address])), user: None };
        code.stack(parts, self.pid, self.at, tables)
    }
}

/// A session on its way into an exporter.
pub(super) struct Player<'a> {
    sink: EventSink<'a>,
    pub(super) tables: &'a mut Tables,
    pub(super) code: &'a mut Code,
    pub(super) keys: &'a StackKeys,
    pub(super) files: &'a Files,
    pub(super) schemas: &'a Schemas,
    pub(super) tracks: &'a mut Tracks,
    pub(super) found: &'a mut UnannouncedThreads,
    pub(super) clock: TimeCursor<'a>,
    pub(super) threads: ThreadIds,
    lifecycle: std::slice::Iter<'a, (u64, LifecycleEvent)>,
    pub(super) cpus: Vec<CpuState>,
    pub(super) thread_states: Vec<ThreadState>,
    pub(super) delay: Delay<Slot>,
    pub(super) recent: Recent<Target>,
    pub(super) has_stacks: bool,
    /// Payloads of the graphics kernel have 64 bits, whatever their headers say.
    wide_graphics: bool,
    /// Ticks after which the switch at which a thread left is taken to be on its way out.
    pub(super) longest_wait: u64,
    pub(super) long_waits: &'a LongWaits,
    pub(super) intervals: Intervals,
    pub(super) reasons: Reasons,
    pub(super) words: Words,
    pub(super) gpu: Gpu,
    pub(super) provider_names: ProviderNames,
    pub(super) clr_events: LastEvents,
    pub(super) told: Vec<(Option<EventType>, Time, Event)>,
    pub(super) stacks: StackFacts,
    /// Room for the addresses of one stack.
    pub(super) addresses: Vec<u64>,
    pub(super) undecodable: u64,
    pub(super) now: Time,
    /// Raw time of the present record.
    pub(super) at: u64,
}

impl<'a> Player<'a> {
    /// Plays everything; gives what was played, what came of stacks, and how many records could not
    /// be decoded.
    pub(super) fn run(
        session: &'a mut Session,
        exporter: &'a mut AnyExporter<'_>,
        range: Range<Time>,
    ) -> Result<(Played, StackFacts, u64), Stopped> {
        let strings = &mut session.tables.strings;
        let words = Words {
            events: strings.intern("Events"),
            resumed: strings.intern("Running again"),
            switch: strings.intern("switch"),
            process: strings.intern("Process"),
        };
        let window = if session.has_delays { WINDOW_NS } else { 0 };
        let mut threads = ThreadIds::default();
        threads.bind(0, Tables::IDLE_THREAD);
        session.found.bind(&mut threads);
        session.history.initial.iter().for_each(|(tid, thread)| threads.bind(*tid, *thread));
        let mut player = Self {
            sink: EventSink { output: Output::new(exporter, range), tally: EventTally::default() },
            reasons: Reasons::new(strings),
            intervals: Intervals::new(strings),
            gpu: Gpu::new(session.topology.clone()),
            provider_names: ProviderNames::default(),
            clr_events: LastEvents::default(),
            words,
            tables: &mut session.tables,
            code: &mut session.code,
            keys: &session.keys,
            files: &session.files,
            schemas: &session.schemas,
            tracks: &mut session.tracks,
            found: &mut session.found,
            clock: session.clock.cursor(),
            threads,
            lifecycle: session.history.lifecycle.iter(),
            cpus: Vec::new(),
            thread_states: Vec::new(),
            delay: Delay::new(window, MOST_WAITING),
            recent: Recent::new(MOST_RECENT),
            has_stacks: session.has_stacks,
            wide_graphics: session.wide_graphics,
            longest_wait: longest_wait(session.facts.ticks_per_second),
            long_waits: &session.long_waits,
            told: Vec::new(),
            stacks: StackFacts::default(),
            addresses: Vec::new(),
            undecodable: 0,
            now: Time(0),
            at: 0,
        };
        let mut merged = session.trace.merged();
        let mut records = 0;
        while let Some((_, record)) = merged.next() {
            records += 1;
            player.go_to(record.timestamp);
            player.flush(false)?;
            match record.is_64_bit {
                true => player.record(&record),
                false => player.narrow(&record),
            }
        }
        player.end()?;
        Ok(player.played(records))
    }

    fn played(self, records: u64) -> (Played, StackFacts, u64) {
        let missing_stacks = self.stacks.records - self.stacks.matched;
        let played = Played { records, missing_stacks, ..self.sink.tally.played() };
        (played, self.stacks, self.undecodable + self.gpu.left_out())
    }

    /// What is left at the end.
    fn end(&mut self) -> Result<(), Stopped> {
        while let Some((at, lifecycle_event)) = self.lifecycle.next() {
            self.lifecycle_event(*at, *lifecycle_event);
        }
        self.with_gpu(None, Gpu::finish);
        self.flush(true)
    }

    /// Moves the present to a raw time; it never goes back.
    #[inline]
    fn advance(&mut self, at: u64) {
        self.at = at;
        let time = self.time(at);
        self.now = self.now.max(time);
        self.delay.advance(self.now.0);
    }

    /// The time of a raw time stamp. The very last moment is behind the end of every range of time.
    #[inline]
    pub(super) fn time(&mut self, at: u64) -> Time {
        self.clock.time(Ticks(at)).min(Time(u64::MAX - 1))
    }

    /// Takes the steps up to the present.
    #[inline]
    fn lifecycle(&mut self, until: u64) {
        while let Some((at, lifecycle_event)) =
            self.lifecycle.as_slice().first().copied().filter(|(at, _)| *at <= until)
        {
            self.lifecycle.next();
            self.lifecycle_event(at, lifecycle_event);
        }
    }

    #[cold]
    fn lifecycle_event(&mut self, at: u64, lifecycle_event: LifecycleEvent) {
        self.advance(at);
        match lifecycle_event {
            LifecycleEvent::Bind(tid, thread) => self.threads.bind(tid, thread),
            LifecycleEvent::ProcessStart(id) => {
                self.push_event(EventType::ProcessStart, Event::ProcessStart(id));
            }
            LifecycleEvent::ProcessEnd(id) => {
                self.push_event(EventType::ProcessEnd, Event::ProcessEnd(id));
            }
            LifecycleEvent::ThreadStart(id) => {
                self.push_event(EventType::ThreadStart, Event::ThreadStart(id));
            }
            LifecycleEvent::ThreadName(id, name) => {
                self.push_event(EventType::Rename, Event::ThreadName(id, name));
            }
            LifecycleEvent::ThreadEnd(id) => {
                self.push_event(EventType::ThreadEnd, Event::ThreadEnd(id));
            }
            LifecycleEvent::StandIn(id, life) => self.stand_in(id, life),
        }
    }

    /// The trace tells of a process and of none of its threads. What stands for them is no
    /// occurrence of its own.
    fn stand_in(&mut self, thread: ThreadId, life: Life) {
        let event = match life {
            Life::Start => Event::ThreadStart(thread),
            Life::End => Event::ThreadEnd(thread),
            Life::Rundown | Life::Defunct => {
                let track = self.track(Scope::Thread(thread), self.words.events, 0);
                Event::Instant(track, Slice::named(self.words.process))
            }
        };
        self.push(None, Pending::Event(Box::new(event)), 0, 0);
    }

    /// Lets an event wait that has no stack yet.
    pub(super) fn push_event(&mut self, kind: EventType, event: Event) {
        self.push(Some(kind), Pending::Event(Box::new(event)), 0, 0);
    }

    /// Lets an event wait that happens now, and gives its number.
    #[inline]
    pub(super) fn push(
        &mut self,
        kind: Option<EventType>,
        event: Pending,
        pid: u32,
        address: u64,
    ) -> u64 {
        let slot = Slot { event, kind, stack: StackParts::default(), pid, address, at: self.at };
        self.delay.push(self.now.0, slot)
    }

    /// Adds an event that happened at `time`, now or a little earlier. Of one time lower ranks come
    /// first.
    pub(super) fn insert(&mut self, kind: Option<EventType>, time: Time, rank: u8, event: Event) {
        let slot = Slot {
            event: Pending::Event(Box::new(event)),
            kind,
            stack: StackParts::default(),
            pid: 0,
            address: 0,
            at: self.at,
        };
        self.delay.insert(time.0, rank, slot);
    }

    /// Takes the steps up to a record, and goes to its time.
    #[inline]
    fn go_to(&mut self, at: u64) {
        if self.lifecycle.as_slice().first().is_some_and(|(ticks, _)| *ticks <= at) {
            self.lifecycle(at);
        }
        self.advance(at);
    }

    /// A record whose header says 32 bits, which its payload need not have.
    #[cold]
    fn narrow(&mut self, record: &Record<'_>) {
        let mut record = width::of_payload(record);
        record.is_64_bit |= self.wide_graphics && width::is_of_graphics(&record);
        self.record(&record);
    }

    #[inline]
    fn record(&mut self, record: &Record<'_>) {
        let (tid, target) = match record.class {
            Class::Kernel { .. } | Class::Classic { .. } => match self.kernel(record) {
                Some(subject) => subject,
                None => return,
            },
            Class::Provider { .. } => self.provider(record),
            Class::Wpp => (self.tid(record), Target::Nothing),
        };
        if self.has_stacks {
            self.recent.push(record.timestamp, tid, target);
            if !record.extended.0.is_empty() {
                self.own_stacks(record, target);
            }
        }
    }

    /// A record of the kernel. Gives the thread by which stacks will name it; `None` for stacks
    /// themselves.
    #[inline]
    fn kernel(&mut self, record: &Record<'_>) -> Option<(u32, Target)> {
        Some(match payload::decode(record) {
            Payload::ContextSwitch(switch) => self.switch(record, &switch),
            Payload::ReadyThread(ready) => self.ready(record, &ready),
            Payload::Sample(sample) => self.sample(record, &sample),
            Payload::Stack(stack) => {
                self.stack(&stack);
                return None;
            }
            Payload::StackKeyReference(reference) => {
                self.stack_key(&reference);
                return None;
            }
            Payload::StackKeyDefinition(_) => return None,
            Payload::Dpc(dpc) => self.dpc(record, &dpc),
            Payload::Isr(isr) => self.isr(record, &isr),
            Payload::DiskIo(io) => self.disk_io(record, &io),
            Payload::HardFault(fault) => self.hard_fault(&fault),
            Payload::Malformed => {
                self.undecodable += 1;
                (self.tid(record), Target::Nothing)
            }
            _ => (self.tid(record), Target::Nothing),
        })
    }

    /// The thread that wrote a record: as its header says, or who runs on its CPU.
    #[inline]
    pub(super) fn tid(&self, record: &Record<'_>) -> u32 {
        match (record.task, self.cpus.get(usize::from(record.cpu))) {
            (Some(task), _) => task.tid,
            (None, Some(CpuState { current: Some((tid, _)) })) => *tid,
            (None, _) => ANY_THREAD,
        }
    }

    /// Lets go what has waited long enough.
    #[inline]
    fn flush(&mut self, all: bool) -> Result<(), Stopped> {
        let Self { delay, code, tables, tracks, words, sink, .. } = self;
        while let Some((time, slot)) = delay.front(all) {
            let stack = slot.stack(code, tables);
            match &mut slot.event {
                Pending::Switch(switch) => {
                    switch.off_cpu.stack = stack;
                    sink.emit(Time(time), slot.kind, &Event::Switch(*switch), tables)?;
                }
                Pending::Wakeup(wakeup) => {
                    let event = Event::Wakeup(Wakeup { stack, ..*wakeup });
                    sink.emit(Time(time), slot.kind, &event, tables)?;
                }
                Pending::Sample(sample) => {
                    let event = Event::Sample(Sample { stack, ..*sample });
                    sink.emit(Time(time), slot.kind, &event, tables)?;
                }
                Pending::Event(event) => {
                    set_stack(event, stack);
                    sink.emit(Time(time), slot.kind, event, tables)?;
                }
                Pending::Resumed(thread) if stack.is_some() => {
                    let kind = TrackKind::Slices(TrackRole::Named);
                    let track = Track { scope: Scope::Thread(*thread), name: words.events, kind };
                    let slice = Slice {
                        stack,
                        category: Some(words.switch),
                        ..Slice::named(words.resumed)
                    };
                    let event = Event::Instant(tracks.get(track, 0, tables), slice);
                    sink.emit(Time(time), None, &event, tables)?;
                }
                Pending::Resumed(_) => {}
            }
            delay.remove_front();
        }
        Ok(())
    }

    /// A track of slices; `row` tells apart those of one name.
    pub(super) fn track(
        &mut self,
        scope: Scope,
        name: StringId,
        row: u64,
    ) -> syscollect_model::TrackId {
        let kind = TrackKind::Slices(TrackRole::Named);
        self.tracks.get(Track { scope, name, kind }, row, self.tables)
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
        if self.found.len() >= MOST_UNANNOUNCED && tid != ANY_THREAD {
            return self.thread(ANY_THREAD);
        }
        let process = add_process(self.tables, tid, &unknown_name(tid));
        self.found.add(tid, process, self.tables, &mut self.threads)
    }

    /// The process id of a thread.
    #[inline]
    pub(super) fn pid(&self, thread: ThreadId) -> u32 {
        self.tables.process(self.tables.thread(thread).process).pid
    }
}

/// Gives an event its stack, if it can have one.
#[inline]
fn set_stack(event: &mut Event, stack: Option<StackId>) {
    match event {
        Event::Instant(_, slice) | Event::SliceBegin(_, slice) => {
            slice.stack = slice.stack.or(stack);
        }
        _ => {}
    }
}
