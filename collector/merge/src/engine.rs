//! What the decoders of captures share beyond what those of every recording do: lanes, stacks,
//! losses, names that come with events.

use crate::losses::Losses;
use crate::open::End;
use crate::stacks::{EventStacks, Resolved, Resolver, StackCache};
use rustc_hash::FxHashMap;
use syscollect_model::{
    CpuId, Event, Forgotten, Lane, Location, LocationId, LockId, LossCause, ProcessId, StringId,
    Tables, ThreadId, Ticks, Time, TrackId,
};
use syscollect_playback::{AddedRows, Stopped};
use syscollect_records::ZoneChunk;
use syscollect_store::{Producer, ProducerShares};

/// Names that events may bring along and that become strings: more are not
/// kept, so that memory does not grow with events.
const MOST_NEW_NAMES: usize = 1 << 18;
/// Places in the source that came with events and are kept while recording.
const MOST_NEW_LOCATIONS: usize = 1 << 16;
/// Threads that nothing announced and that get a row.
const MOST_UNANNOUNCED: usize = 1 << 18;

/// The engine that plays captures.
pub(crate) type Engine<'a> = syscollect_playback::Engine<'a, CaptureState>;

/// No rows were added so far.
pub(crate) fn no_added_rows() -> AddedRows {
    AddedRows::new(MOST_UNANNOUNCED)
}

/// What decoders of captures share.
#[derive(Debug, Default)]
pub(crate) struct CaptureState {
    pub(crate) resolver: Resolver,
    /// In their order.
    pub(crate) lanes: Vec<LaneState>,
    pub(crate) losses: Losses,
    pub(crate) new_rows: NewRows,
    /// Rows have the names of now: while recording nobody knows the last ones.
    pub(crate) names_of_now: bool,
}

/// Rows for what came with events. Kept, so that playing again finds them.
#[derive(Debug)]
pub(crate) struct NewRows {
    /// Locks by their number in the program's log.
    pub(crate) locks: FxHashMap<(ProgramId, u32), LockId>,
    pub(crate) locations: FxHashMap<Location, LocationId>,
    /// How many names became strings.
    names: usize,
    /// While recording: how many of these are of whom, since the last time they were forgotten.
    shares: Option<ProducerShares>,
    /// Whose names come now.
    pub(crate) producer: Producer,
}

/// Nobody in particular.
pub(crate) const NOBODY: Producer = Producer { user: u32::MAX, program: NO_CLIENT };

impl Default for NewRows {
    fn default() -> Self {
        let (locks, locations, names, shares) = Default::default();
        Self { locks, locations, names, shares, producer: NOBODY }
    }
}

impl NewRows {
    /// From now on users have shares, as names are forgotten that nothing has any more.
    pub(crate) fn share(&mut self) {
        self.shares = Some(ProducerShares::default());
    }

    /// Forgets what is of processes that are gone. Names that are needed have a place elsewhere.
    pub(crate) fn forget(&mut self, forgotten: &mut Forgotten) {
        self.locks.retain(|(program, _), _| !forgotten.processes.contains(&program.process));
        if self.locations.len() > MOST_NEW_LOCATIONS {
            self.locations.clear();
        }
        self.locations.values().for_each(|location| forgotten.uses_location(*location));
        self.names = 0;
        self.shares = self.shares.as_ref().map(|_| ProducerShares::default());
    }

    /// Whether another name may become a string.
    fn has_room(&self) -> bool {
        let free = MOST_NEW_NAMES.saturating_sub(self.names);
        match &self.shares {
            None => free > 0,
            Some(shares) => shares.room_for(self.producer, free) > 0,
        }
    }

    /// A name that came with an event, as a string, unless there are too many.
    pub(crate) fn name(&mut self, name: &str, tables: &mut Tables) -> Option<StringId> {
        if !self.has_room() {
            return tables.strings.find(name).filter(|_| self.shares.is_some());
        }
        let before = tables.strings.len();
        let id = tables.strings.intern_passing(name);
        let new = tables.strings.len() - before;
        self.names += new;
        if let Some(shares) = self.shares.as_mut().filter(|_| new > 0) {
            shares.add(self.producer, new);
        }
        Some(id)
    }
}

/// The client of programs that have no shared memory.
pub(crate) const NO_CLIENT: u32 = u32::MAX;

/// An instrumented program of a process. Each library of the process may be a client of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ProgramId {
    pub(crate) process: ProcessId,
    /// The number that chunks carry.
    pub(crate) client: u32,
}

impl ProgramId {
    /// Whether it is one of the process; without one it is.
    pub(crate) fn is_of(self, process: Option<ProcessId>) -> bool {
        process.is_none_or(|process| process == self.process)
    }
}

/// Who writes to a lane of zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Writer {
    pub(crate) lane: Lane,
    pub(crate) program: ProgramId,
    /// Whose program it is, where that is known.
    pub(crate) user: Option<u32>,
    pub(crate) tid: u32,
    pub(crate) owner: u32,
    pub(crate) thread: ThreadId,
    /// Its slot in `Zones::threads`.
    pub(crate) slot: usize,
}

impl Writer {
    /// Whether it wrote that chunk.
    pub(crate) fn wrote(&self, chunk: &ZoneChunk) -> bool {
        (self.program.client, self.tid, self.owner) == (chunk.client, chunk.tid, chunk.owner)
    }

    /// So many of its items mean nothing.
    pub(crate) fn refuse(&self, engine: &mut Engine<'_>, items: u64) {
        let losses = &mut engine.source.losses;
        losses.of_program(self.lane, self.user, LossCause::Undecodable, items);
    }
}

/// A lane while it is played.
#[derive(Debug)]
pub(crate) struct LaneState {
    pub(crate) lane: Lane,
    /// The CPU of its records; the first where they are of none.
    pub(crate) cpu: CpuId,
    /// Scheduling: the task that runs.
    pub(crate) current: Option<ThreadId>,
    stacks: StackCache,
    /// Time of its last record.
    pub(crate) last: Option<Time>,
    /// Zones: who writes now.
    pub(crate) writer: Option<Writer>,
}

impl LaneState {
    /// Of which nothing was played; `cpu` is the one of its records.
    pub(crate) fn new(lane: Lane, cpu: CpuId) -> Self {
        Self { lane, cpu, current: None, stacks: StackCache::default(), last: None, writer: None }
    }

    /// Forgets threads that are gone, and stacks where more than so many are remembered.
    pub(crate) fn forget(&mut self, forgotten: &Forgotten, most_stacks: usize) {
        let Forgotten { threads, processes, .. } = forgotten;
        self.current = self.current.filter(|thread| !threads.contains(thread));
        self.writer = self.writer.filter(|writer| {
            !threads.contains(&writer.thread) && !processes.contains(&writer.program.process)
        });
        if self.stacks.len() > most_stacks {
            self.forget_stacks();
        }
    }

    /// Forgets which stacks its events had.
    pub(crate) fn forget_stacks(&mut self) {
        self.stacks.forget();
    }
}

/// What decoders of captures do with the engine.
pub(crate) trait CaptureEngine {
    /// Adds the lane, of which nothing was played, at this place among the lanes.
    fn insert_lane(&mut self, index: usize, lane: Lane);

    /// Where the lane lies among the lanes, or where its place is.
    fn index_of(&self, lane: Lane) -> Result<usize, usize>;

    /// The thread gets a name.
    fn rename(&mut self, thread: ThreadId, name: StringId) -> Result<(), Stopped>;

    /// A name that came with an event, as a string, unless there are too many.
    fn new_name(&mut self, name: &str) -> Option<StringId>;

    /// A record of the lane means nothing here.
    fn unknown(&mut self, lane: usize);

    /// Records of the lane are missing from the capture here.
    fn missing(&mut self, lane: usize, count: u64) -> Result<(), Stopped>;

    /// The same of a lane that may be none of those that are played, between two times if these
    /// are known.
    fn gap(&mut self, lane: Lane, count: u64, between: Option<(Time, Time)>)
    -> Result<(), Stopped>;

    /// The lane says that records were lost right before the present one.
    fn loss_before(&mut self, lane: usize, count: u64) -> Result<(), Stopped>;

    /// The stack of an event of the lane.
    fn stack(&mut self, lane: usize, user: u32, kernel: u32) -> Resolved;

    /// Zones of a track end.
    fn end_zones(&mut self, track: TrackId, end: End) -> Result<(), Stopped>;
}

impl CaptureEngine for Engine<'_> {
    fn insert_lane(&mut self, index: usize, lane: Lane) {
        let cpu = self.cpu(lane.cpu().map_or(0, |cpu| cpu.number));
        self.source.lanes.insert(index, LaneState::new(lane, cpu));
    }

    fn index_of(&self, lane: Lane) -> Result<usize, usize> {
        self.source.lanes.binary_search_by_key(&lane, |state| state.lane)
    }

    fn rename(&mut self, thread: ThreadId, name: StringId) -> Result<(), Stopped> {
        if self.source.names_of_now {
            self.tables.rename(thread, name);
        }
        self.emit(&Event::ThreadName(thread, name))
    }

    fn new_name(&mut self, name: &str) -> Option<StringId> {
        self.source.new_rows.name(name, &mut self.tables)
    }

    fn unknown(&mut self, lane: usize) {
        self.source.losses.undecodable(self.source.lanes[lane].lane, 1);
    }

    #[inline]
    fn missing(&mut self, lane: usize, count: u64) -> Result<(), Stopped> {
        let now = self.now();
        let state = &self.source.lanes[lane];
        self.gap(state.lane, count, state.last.map(|last| (last, now)))
    }

    fn gap(
        &mut self,
        lane: Lane,
        count: u64,
        between: Option<(Time, Time)>,
    ) -> Result<(), Stopped> {
        for (cause, count) in self.source.losses.explain_gap(lane, count) {
            self.emit(&self.source.losses.event(lane, cause, count, between))?;
        }
        Ok(())
    }

    fn loss_before(&mut self, lane: usize, count: u64) -> Result<(), Stopped> {
        if count == 0 {
            return Ok(());
        }
        let LaneState { lane, last, .. } = self.source.lanes[lane];
        let losses = &mut self.source.losses;
        losses.reported(lane, count);
        let cause = losses.cause_before_collector(lane);
        let between = last.map(|last| (last, self.now()));
        self.emit(&self.source.losses.event(lane, cause, count, between))
    }

    #[inline]
    fn stack(&mut self, lane: usize, user: u32, kernel: u32) -> Resolved {
        let CaptureState { resolver, lanes, .. } = &mut self.source;
        let state = &mut lanes[lane];
        let stacks = EventStacks { user, kernel, at: Ticks(self.present.ticks()) };
        let resolved = resolver.resolve(&mut state.stacks, state.lane, stacks, &mut self.tables);
        self.sink.tally.missing_stacks += u64::from(resolved.missing);
        resolved
    }

    #[inline]
    fn end_zones(&mut self, track: TrackId, end: End) -> Result<(), Stopped> {
        if end.unfinished > 0 {
            self.unfinished(track, end.unfinished)?;
        }
        if end.ended { self.emit(&Event::SliceEnd(track)) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::events_of;

    #[test]
    fn damage_that_names_thread_after_thread_fills_no_memory() {
        let mut tables = Tables::default();
        events_of(&mut tables, |engine| {
            let most = MOST_UNANNOUNCED as u32;
            for tid in 1..most + 100 {
                engine.thread(tid);
            }
            let others = engine.thread(most + 50);
            assert_eq!(engine.thread_of(most + 200, Some(5)), others, "in a known process, too");
            assert_ne!(engine.thread(most - 1), others);
        });
        // The idle thread, one each, and the one of all others.
        assert_eq!(tables.threads.len(), 1 + MOST_UNANNOUNCED + 1);
    }
}
