//! Threads of instrumented programs, and what is open on them.

use crate::engine::{CaptureEngine, Engine, ProgramId};
use crate::open::{MAX_DEPTH, OpenZones};
use crate::zones::attributes::{Attributes, FieldNames, joined};
use crate::zones::markers::MarkerHalves;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::ops::{Index, IndexMut};
use syscollect_model::{
    Event, Forgotten, ProcessId, Scope, Slice, StringId, ThreadId, Track, TrackId, TrackKind,
    TrackRole,
};
use syscollect_playback::{EventType, Stopped};

/// How a zone of a thread begins, or began.
#[derive(Clone, Copy)]
pub(crate) struct ZoneStart {
    /// The program's ticks then.
    pub(crate) began: u64,
    /// Its location's number.
    pub(crate) location: u32,
    /// Zones that were open before it.
    pub(crate) depth: u32,
}

/// A zone that is open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OpenZone {
    /// The program's ticks at its beginning, and its location's number: these
    /// two tell whether a zone that is restated is this one.
    pub(crate) began: u64,
    pub(crate) location: u32,
    /// What was said of it, if more may be added.
    pub(crate) text: Option<String>,
}

/// How many zones are open, known or not, of programs that do not say it at each beginning.
#[derive(Debug, Default)]
struct CountedDepth {
    depth: u32,
    /// An end has said it.
    is_certain: bool,
}

/// A thread of a program.
#[derive(Debug)]
pub(crate) struct ZoneThread {
    pub(crate) track: TrackId,
    zones: OpenZones<OpenZone>,
    pub(crate) halves: MarkerHalves,
    counted: CountedDepth,
}

impl ZoneThread {
    fn new(track: TrackId) -> Self {
        Self {
            track,
            zones: OpenZones::default(),
            halves: MarkerHalves::default(),
            counted: CountedDepth::default(),
        }
    }

    /// A zone begins at that depth: what was open there has ended, it is not known when.
    #[inline]
    pub(crate) fn begin(
        &mut self,
        engine: &mut Engine<'_>,
        depth: u32,
        zone: OpenZone,
        slice: Slice,
    ) -> Result<(), Stopped> {
        let left = self.zones.begin(depth, zone);
        engine.unfinished(self.track, left)?;
        engine.emit(&Event::SliceBegin(self.track, slice))
    }

    /// A zone ends and leaves that many open, of which the low six bits are known.
    #[inline]
    pub(crate) fn end(&mut self, engine: &mut Engine<'_>, left: u8) -> Result<(), Stopped> {
        let end = self.zones.end(left);
        engine.end_zones(self.track, end)
    }

    /// Zones at that depth or deeper have ended, it is not known when.
    pub(crate) fn leave(&mut self, engine: &mut Engine<'_>, depth: u32) -> Result<(), Stopped> {
        let left = self.zones.leave(depth);
        engine.unfinished(self.track, left)
    }

    /// Closes all that is open.
    pub(crate) fn close(&mut self, engine: &mut Engine<'_>) -> Result<(), Stopped> {
        self.leave(engine, 0)?;
        self.halves.close(engine)
    }

    /// Whether a zone that is restated is known.
    pub(crate) fn is_open(&self, zone: ZoneStart) -> bool {
        let known = self.zones.at(zone.depth);
        known.is_some_and(|known| (known.began, known.location) == (zone.began, zone.location))
    }

    /// Changes the innermost zone, if there is one.
    pub(crate) fn update_innermost(
        &mut self,
        engine: &mut Engine<'_>,
        mut attributes: Attributes,
        names: FieldNames,
    ) -> Result<(), Stopped> {
        let Some((_, zone)) = self.zones.innermost() else { return Ok(()) };
        if let Some(update) = attributes.text.take() {
            let text = joined(zone.text.take(), &update);
            zone.text = Some(text.clone());
            attributes.text = Some(text);
        }
        attributes.emit(engine, names, self.track)
    }

    /// A zone begins of which nobody says how deep; `false` if it lies too deep.
    pub(crate) fn begin_counted(
        &mut self,
        engine: &mut Engine<'_>,
        slice: Slice,
    ) -> Result<bool, Stopped> {
        let depth = self.counted.depth;
        if depth >= MAX_DEPTH {
            return Ok(false);
        }
        self.counted.depth += 1;
        self.zones.begin(depth, OpenZone::default());
        engine.occurred(EventType::Zone);
        engine.emit(&Event::SliceBegin(self.track, slice))?;
        Ok(true)
    }

    /// Such a zone ends and says how many are left. The first end tells how many were open before
    /// the recording.
    pub(crate) fn end_counted(
        &mut self,
        engine: &mut Engine<'_>,
        left: u32,
    ) -> Result<(), Stopped> {
        let innermost = self.zones.innermost().map(|(depth, _)| *depth);
        if let Some(innermost) = innermost.filter(|_| !self.counted.is_certain) {
            self.zones.deepen(left.saturating_sub(innermost));
        }
        self.counted = CountedDepth { depth: left, is_certain: true };
        let end = self.zones.end_at(left);
        engine.end_zones(self.track, end)?;
        engine.sink.tally.unmatched_ends += u64::from(!end.ended);
        Ok(())
    }
}

/// The threads of all programs, by slots: one for each client that a thread has.
#[derive(Debug)]
pub(crate) struct ZoneThreads {
    /// What their tracks are called.
    track_name: StringId,
    threads: Vec<ZoneThread>,
    /// Slots of threads that are gone.
    free: Vec<usize>,
    /// By thread and client.
    slots: FxHashMap<(ThreadId, u32), usize>,
    by_thread: FxHashMap<ThreadId, Vec<usize>>,
    by_process: FxHashMap<ProcessId, BTreeSet<ThreadId>>,
}

impl ZoneThreads {
    pub(crate) fn new(track_name: StringId) -> Self {
        Self {
            track_name,
            threads: Vec::new(),
            free: Vec::new(),
            slots: FxHashMap::default(),
            by_thread: FxHashMap::default(),
            by_process: FxHashMap::default(),
        }
    }

    /// The slot of a thread of the program; a new one where it has none.
    pub(crate) fn slot(
        &mut self,
        engine: &mut Engine<'_>,
        thread: ThreadId,
        program: ProgramId,
    ) -> usize {
        let ProgramId { process, client } = program;
        if let Some(slot) = self.slots.get(&(thread, client)) {
            return *slot;
        }
        let track = Track {
            scope: Scope::Thread(thread),
            name: self.track_name,
            kind: TrackKind::Slices(TrackRole::Zones),
        };
        let new = ZoneThread::new(engine.track(track, client.into()));
        let slot = self.free.pop().unwrap_or(self.threads.len());
        match self.threads.get_mut(slot) {
            Some(free) => *free = new,
            None => self.threads.push(new),
        }
        self.slots.insert((thread, client), slot);
        self.by_thread.entry(thread).or_default().push(slot);
        self.by_process.entry(process).or_default().insert(thread);
        slot
    }

    /// Forgets threads that are gone, whose slots others get.
    pub(crate) fn forget(&mut self, forgotten: &Forgotten) {
        let Forgotten { threads: gone, processes, .. } = forgotten;
        self.slots.retain(|(thread, _), slot| {
            let stays = !gone.contains(thread);
            if !stays {
                self.free.push(*slot);
            }
            stays
        });
        self.by_thread.retain(|thread, _| !gone.contains(thread));
        self.by_process.retain(|process, threads| {
            threads.retain(|thread| !gone.contains(thread));
            !threads.is_empty() && !processes.contains(process)
        });
    }

    /// The threads of the process of which something was told; of all processes without one.
    pub(crate) fn of_process(&self, process: Option<ProcessId>) -> BTreeSet<ThreadId> {
        match process {
            Some(process) => self.by_process.get(&process).cloned().unwrap_or_default(),
            None => self.by_process.values().flatten().copied().collect(),
        }
    }

    /// The thread ends: closes its zones and markers.
    pub(crate) fn close_thread(
        &mut self,
        engine: &mut Engine<'_>,
        thread: ThreadId,
    ) -> Result<(), Stopped> {
        let Some(slots) = self.by_thread.get(&thread) else { return Ok(()) };
        slots.iter().try_for_each(|slot| self.threads[*slot].close(engine))
    }
}

impl Index<usize> for ZoneThreads {
    type Output = ZoneThread;

    #[inline]
    fn index(&self, slot: usize) -> &ZoneThread {
        &self.threads[slot]
    }
}

impl IndexMut<usize> for ZoneThreads {
    #[inline]
    fn index_mut(&mut self, slot: usize) -> &mut ZoneThread {
        &mut self.threads[slot]
    }
}
