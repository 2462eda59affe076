//! What all decoders share while a session is played: the present, the tables, who has which thread
//! id, what lanes lost, and the way out.

use crate::losses::{GapCauses, Losses};
use crate::stacks::{Resolved, Resolver, StackCache};
use crate::tally::Tally;
use crate::tasks::{NewProcess, add_process, name_row};
use crate::zones::open::End;
use crate::zones::state::Writer;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use syscollect_model::{
    ClockMap, CpuId, Event, Lane, Location, LocationId, LockId, MachineId, ProcessId, Scope,
    StringId, Tables, ThreadId, Ticks, Time, TimeCursor, Track, TrackId, TrackKind,
};
use syscollect_playback::{
    AnyExporter, EventType, Output, Stopped, ThreadIds, Tracks, UnannouncedThreads, unfinished,
    unknown_name,
};

/// Names that events may bring along and that become strings: more are not
/// kept, so that memory does not grow with events.
const MOST_NEW_NAMES: usize = 1 << 18;

/// Rows that playing adds for what nothing announced.
#[derive(Clone, Debug, Default)]
pub(crate) struct AddedRows {
    pub(crate) threads: UnannouncedThreads,
    tracks: Tracks,
    /// Locks by process, client and number.
    pub(crate) locks: FxHashMap<(ProcessId, u32, u32), LockId>,
    pub(crate) locations: FxHashMap<Location, LocationId>,
    /// Names that came with events and are strings now.
    new_names: usize,
}

/// A lane while it is played.
pub(crate) struct LaneState {
    pub(crate) lane: Lane,
    /// The CPU of its records; the first where they are of none.
    pub(crate) cpu: CpuId,
    /// Scheduling: the task that runs.
    pub(crate) current: Option<ThreadId>,
    stacks: StackCache,
    gaps: GapCauses,
    /// Time of its last record.
    pub(crate) last: Option<Time>,
    /// Zones: who writes now.
    pub(crate) writer: Option<Writer>,
}

/// The present.
pub(crate) struct Present {
    clock: TimeCursor<Arc<ClockMap>>,
    now: Time,
    /// Ticks of the present item.
    pub(crate) ticks: u64,
}

impl Present {
    /// How ticks become times.
    pub(crate) fn map(&self) -> &Arc<ClockMap> {
        self.clock.map()
    }

    /// The time of any ticks.
    #[inline]
    pub(crate) fn time(&mut self, ticks: Ticks) -> Time {
        self.clock.time(ticks)
    }
}

/// What decoders share: each tells it of events, losses and counts.
pub(crate) struct Engine<'a> {
    output: Output<'a>,
    /// Whose recording it is.
    pub(crate) machine: MachineId,
    pub(crate) present: Present,
    pub(crate) tables: Tables,
    pub(crate) resolver: Resolver,
    pub(crate) added: AddedRows,
    pub(crate) threads: ThreadIds,
    /// In their order.
    pub(crate) lanes: Vec<LaneState>,
    pub(crate) losses: Losses,
    pub(crate) tally: Tally,
    /// Rows have the names of now: while recording nobody knows the last ones.
    pub(crate) names_of_now: bool,
}

/// What an engine is made of, of all that is known before playing.
pub(crate) struct Shared {
    pub(crate) machine: MachineId,
    pub(crate) clock: Arc<ClockMap>,
    pub(crate) tables: Tables,
    pub(crate) resolver: Resolver,
    pub(crate) added: AddedRows,
    pub(crate) losses: Losses,
    /// Records of definition lanes.
    pub(crate) definition_records: u64,
}

impl<'a> Engine<'a> {
    /// `initial` says what thread ids mean in the beginning.
    pub(crate) fn new(shared: Shared, initial: &[(u32, ThreadId)], output: Output<'a>) -> Self {
        let Shared { machine, clock, tables, resolver, added, losses, definition_records } = shared;
        let mut threads = ThreadIds::default();
        threads.bind(0, Tables::IDLE_THREAD);
        added.threads.bind(&mut threads);
        initial.iter().for_each(|(tid, thread)| threads.bind(*tid, *thread));
        Self {
            output,
            machine,
            present: Present { clock: TimeCursor::new(clock), now: Time(0), ticks: 0 },
            tables,
            resolver,
            added,
            threads,
            lanes: Vec::new(),
            losses,
            tally: Tally::new(definition_records),
            names_of_now: false,
        }
    }

    /// Another reading of the clocks is known, behind all that was told.
    pub(crate) fn set_clock(&mut self, clock: Arc<ClockMap>) {
        self.present.clock = TimeCursor::new(clock);
    }

    /// Takes another's tables and output, and gives its own for them.
    pub(crate) fn exchange(&mut self, tables: &mut Tables, output: &mut Output<'a>) {
        std::mem::swap(&mut self.tables, tables);
        std::mem::swap(&mut self.output, output);
    }

    /// Gaps that no loss tells of, since this was asked last.
    pub(crate) fn take_untold_gaps(&mut self) -> u64 {
        self.output.take_untold_gaps()
    }

    /// What comes from now on is told of this time or a later one.
    pub(crate) fn not_before(&mut self, time: Time) {
        self.present.now = self.present.now.max(time);
    }

    /// The exporter and the tables, for what is told beside events.
    pub(crate) fn exporter(&mut self) -> (&mut AnyExporter<'a>, &Tables) {
        (self.output.exporter(), &self.tables)
    }

    /// A thread was there all the time; whoever told of it before took it for one that nobody
    /// announced.
    pub(crate) fn was_there(&mut self, tid: u32, thread: ThreadId) {
        let bound = self.threads.get(tid);
        if bound.is_none() || bound == self.added.threads.get(tid) {
            self.threads.bind(tid, thread);
        }
    }

    pub(crate) fn lane_state(&self, lane: Lane) -> LaneState {
        let gaps = GapCauses::new(self.losses.declared_chunks(lane));
        LaneState {
            lane,
            cpu: self.cpu(lane.cpu().map_or(0, |cpu| cpu.number)),
            current: None,
            stacks: StackCache::default(),
            gaps,
            last: None,
            writer: None,
        }
    }

    /// A CPU of the machine.
    #[inline]
    pub(crate) fn cpu(&self, number: u32) -> CpuId {
        CpuId { machine: self.machine, number }
    }

    /// Where the lane lies among the lanes.
    pub(crate) fn index_of(&self, lane: Lane) -> Option<usize> {
        self.lanes.binary_search_by_key(&lane, |state| state.lane).ok()
    }

    /// Moves the present to `ticks`; it never goes back.
    #[inline]
    pub(crate) fn advance(&mut self, ticks: u64) {
        let present = &mut self.present;
        present.ticks = ticks;
        present.now = present.now.max(present.clock.time(Ticks(ticks)));
    }

    /// The time of the present item.
    #[inline]
    pub(crate) fn now(&self) -> Time {
        self.present.now
    }

    /// Counts a record, and what it tells.
    #[inline]
    pub(crate) fn count(&mut self, event: EventType) {
        self.tally.records += 1;
        self.occurred(event);
    }

    /// Counts what happens now, if that is in the part that is played. What programs and probes tell
    /// is counted so: their records are counted as they come.
    #[inline]
    pub(crate) fn occurred(&mut self, event: EventType) {
        let now = self.now();
        if self.output.covers(now) {
            self.tally.events.occurred(event, now);
        }
    }

    /// Gives an event of now to the exporter.
    #[inline]
    pub(crate) fn emit(&mut self, event: &Event) -> Result<(), Stopped> {
        self.output.emit(self.present.now, event, &self.tables)
    }

    /// The thread that an id means now; if nothing announced it, a new row.
    #[inline]
    pub(crate) fn thread(&mut self, tid: u32) -> ThreadId {
        match self.threads.get(tid) {
            Some(thread) => thread,
            None => self.unannounced(tid),
        }
    }

    #[cold]
    fn unannounced(&mut self, tid: u32) -> ThreadId {
        let process = add_process(
            &mut self.tables,
            NewProcess { machine: self.machine, pid: tid, parent_pid: None, start: None },
            &unknown_name(tid),
        );
        self.add_thread(tid, process)
    }

    /// The same of a process, if that is known.
    #[inline]
    pub(crate) fn thread_of(&mut self, tid: u32, pid: Option<u32>) -> ThreadId {
        match (self.threads.get(tid), pid) {
            (Some(thread), _) => thread,
            (None, Some(pid)) => {
                let main = self.thread(pid);
                let process = self.tables.thread(main).process;
                if pid == tid { main } else { self.add_thread(tid, process) }
            }
            (None, None) => self.unannounced(tid),
        }
    }

    fn add_thread(&mut self, tid: u32, process: ProcessId) -> ThreadId {
        self.added.threads.add(tid, process, &mut self.tables, &mut self.threads)
    }

    /// The thread gets a name.
    pub(crate) fn rename(&mut self, thread: ThreadId, name: StringId) -> Result<(), Stopped> {
        if self.names_of_now {
            name_row(&mut self.tables, thread, name);
        }
        self.emit(&Event::ThreadName(thread, name))
    }

    /// A track of marks; `row` tells apart those of one name.
    pub(crate) fn track(
        &mut self,
        scope: Scope,
        name: StringId,
        kind: TrackKind,
        row: u64,
    ) -> TrackId {
        self.added.tracks.get(Track { scope, name, kind }, row, &mut self.tables)
    }

    /// A record of the lane means nothing here.
    pub(crate) fn unknown(&mut self, lane: usize) {
        self.losses.undecodable(self.lanes[lane].lane, 1);
    }

    /// Records of the lane are missing from the capture here.
    pub(crate) fn missing(&mut self, lane: usize, count: u64) -> Result<(), Stopped> {
        let now = self.now();
        let state = &mut self.lanes[lane];
        let parts = state.gaps.divide(count);
        let (lane, between) = (state.lane, state.last.map(|last| (last, now)));
        parts.into_iter().try_for_each(|(cause, count)| {
            self.emit(&self.losses.event(lane, cause, count, between))
        })
    }

    /// The stack of an event of the lane.
    #[inline]
    pub(crate) fn stack(&mut self, lane: usize, user: u32, kernel: u32) -> Resolved {
        let state = &mut self.lanes[lane];
        let resolved =
            self.resolver.resolve(&mut state.stacks, state.lane, user, kernel, &mut self.tables);
        self.tally.missing_stacks += u64::from(resolved.missing);
        resolved
    }

    /// The lane says that records were lost right before the present one.
    pub(crate) fn loss_before(&mut self, lane: usize, count: u64) -> Result<(), Stopped> {
        if count == 0 {
            return Ok(());
        }
        let LaneState { lane, last, .. } = self.lanes[lane];
        self.losses.reported(lane, count);
        let cause = self.losses.cause_before_collector(lane);
        let between = last.map(|last| (last, self.now()));
        self.emit(&self.losses.event(lane, cause, count, between))
    }

    /// A name that came with an event, as a string, unless there are too many.
    pub(crate) fn new_name(&mut self, name: &str) -> Option<StringId> {
        if self.added.new_names >= MOST_NEW_NAMES {
            return None;
        }
        let before = self.tables.strings.len();
        let id = self.tables.strings.intern(name);
        self.added.new_names += self.tables.strings.len() - before;
        Some(id)
    }

    /// The process that an id, also of one of its threads, means now.
    pub(crate) fn process_of(&mut self, id: u32) -> ProcessId {
        let thread = self.thread_of(id, None);
        self.tables.thread(thread).process
    }

    #[inline]
    pub(crate) fn end_zones(&mut self, track: TrackId, end: End) -> Result<(), Stopped> {
        if end.unfinished > 0 {
            self.unfinished(track, end.unfinished)?;
        }
        if end.ended { self.emit(&Event::SliceEnd(track)) } else { Ok(()) }
    }

    /// Closes what the program did not end.
    pub(crate) fn unfinished(&mut self, track: TrackId, count: usize) -> Result<(), Stopped> {
        for _ in 0..count {
            unfinished(track).iter().try_for_each(|event| self.emit(event))?;
        }
        Ok(())
    }
}
