//! Hits of probes in programs that know nothing of it: points, zones, functions.

use crate::engine::{CaptureEngine, Engine, NO_CLIENT, NOBODY, ProgramId};
use crate::open::MAX_DEPTH;
use crate::probes::calls::Calls;
use crate::probes::client_hits;
use crate::probes::hit::{ArgumentValue, Hit};
use crate::probes::nesting::NestingObserver;
use crate::probes::table::{Probe, ProbeTable};
use crate::zones::decoder::Zones;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use syscollect_model::{
    Event, Field, Fields, Forgotten, ProcessId, Scope, Slice, SliceUpdate, StackId, StringId,
    Strings, ThreadId, Track, TrackId, TrackKind, TrackRole, Value,
};
use syscollect_playback::{EventType, Stopped};
use syscollect_records::stack_id;
use syscollect_store::{ProbeRole, Producer};
use syscollect_zone_protocol::FramePhase;

/// Keeps the rows of functions apart from those of pairs.
const FUNCTIONS: u64 = 1 << 62;
/// And those of points.
const POINTS: u64 = 1 << 61;
/// And all rows of probes from those of zones.
const PROBES: u64 = 1 << 60;

/// What is open of a thread.
#[derive(Debug, Default)]
struct OpenProbes {
    /// Zones by pair: their track and how many are open.
    pairs: FxHashMap<(StringId, u32), (TrackId, u32)>,
    /// Functions by the name of their track.
    calls: FxHashMap<StringId, (TrackId, Calls)>,
    points: FxHashMap<StringId, TrackId>,
}

/// Names that events get here.
#[derive(Clone, Copy, Debug)]
struct ProbeStrings {
    probes: StringId,
    unreadable: StringId,
    /// The field that says which of several ends it was.
    ended_by: StringId,
}

/// A hit of a probe that is defined, and the thread that hit it.
#[derive(Clone, Copy)]
struct Occurrence<'a> {
    thread: ThreadId,
    probe: &'a Probe,
    table: &'a ProbeTable,
    hit: Hit<'a>,
    /// Who called, where that was recorded.
    stack: Option<StackId>,
}

/// Decodes lanes of hits.
#[derive(Debug)]
pub(crate) struct Probes {
    pub(crate) table: ProbeTable,
    /// Of pairs of which it is not known whether they nest.
    nesting: NestingObserver,
    pub(crate) slices: ProbeSlices,
}

/// What hits begin and end.
#[derive(Debug)]
pub(crate) struct ProbeSlices {
    words: ProbeStrings,
    open: FxHashMap<ThreadId, OpenProbes>,
    by_process: FxHashMap<ProcessId, BTreeSet<ThreadId>>,
}

impl Probes {
    pub(crate) fn new(table: ProbeTable, strings: &mut Strings) -> Self {
        let words = ProbeStrings {
            probes: strings.intern("Probes"),
            unreadable: strings.intern("(unreadable)"),
            ended_by: strings.intern("end"),
        };
        let (open, by_process) = (FxHashMap::default(), FxHashMap::default());
        let slices = ProbeSlices { words, open, by_process };
        Self { table, nesting: NestingObserver::default(), slices }
    }

    /// A hit. Those of instrumented programs, and frames that functions begin, are of `zones`.
    pub(crate) fn on(
        &mut self,
        engine: &mut Engine<'_>,
        zones: &mut Zones,
        lane: usize,
        bytes: &[u8],
    ) -> Result<(), Stopped> {
        let hit = Hit::new(bytes);
        if let Some(hit) = hit.as_ref().filter(|_| self.table.has_undecided()) {
            self.observe_nesting(hit);
        }
        let probe = hit.and_then(|hit| self.table.get(hit.record.probe));
        let (Some(hit), Some(probe)) = (hit, probe) else {
            engine.unknown(lane);
            return Ok(());
        };
        engine.sink.tally.records += 1;
        let thread = engine.thread_of(hit.record.tid, Some(hit.record.tgid));
        // Whose it is, is not known.
        engine.source.new_rows.producer = Producer { program: hit.record.tgid, ..NOBODY };
        let stack = engine.stack(lane, hit.stack(), stack_id::NONE).stack;
        let at = Occurrence { thread, probe, table: &self.table, hit, stack };
        let slices = &mut self.slices;
        match probe.role {
            ProbeRole::Point => slices.point(engine, at),
            ProbeRole::ZoneBegin => slices.pair_begin(engine, at),
            ProbeRole::ZoneEnd => slices.pair_end(engine, at),
            ProbeRole::FunctionEntry => slices.entry(engine, zones, at),
            // The return address has been taken off the stack.
            ProbeRole::FunctionReturn => {
                slices.exit(engine, at, hit.record.stack_pointer.wrapping_sub(8))
            }
            ProbeRole::FunctionExit => slices.exit(engine, at, hit.record.stack_pointer),
            _ => {
                let event = client_hits::decode(engine, probe.role, &hit);
                zones.on_client_event(engine, lane, thread, event)
            }
        }
    }

    /// What the hit shows of a pair of which nobody has said whether it nests.
    fn observe_nesting(&mut self, hit: &Hit<'_>) {
        let Some(Probe { pair, role, .. }) = self.table.get(hit.record.probe) else { return };
        let (pair, role) = (*pair, *role);
        if self.table.is_undecided(pair) && self.nesting.on(hit.record.tid, pair, role) {
            self.table.set_nesting(pair);
        }
    }

    /// Hits are missing.
    pub(crate) fn missing(&mut self) {
        self.nesting.forget();
    }
}

impl ProbeSlices {
    /// The threads of the process of which something was told; of all processes without one.
    pub(crate) fn threads_of(&self, process: Option<ProcessId>) -> BTreeSet<ThreadId> {
        match process {
            Some(process) => self.by_process.get(&process).cloned().unwrap_or_default(),
            None => self.by_process.values().flatten().copied().collect(),
        }
    }

    /// Forgets threads and processes that are gone.
    pub(crate) fn forget(&mut self, forgotten: &Forgotten) {
        let Forgotten { threads: gone, processes, .. } = forgotten;
        self.open.retain(|thread, _| !gone.contains(thread));
        self.by_process.retain(|process, threads| {
            threads.retain(|thread| !gone.contains(thread));
            !threads.is_empty() && !processes.contains(process)
        });
    }

    /// What is open of a thread; its process's end will close it.
    fn open_of(&mut self, engine: &Engine<'_>, thread: ThreadId) -> &mut OpenProbes {
        if !self.open.contains_key(&thread) {
            let process = engine.tables.thread(thread).process;
            self.by_process.entry(process).or_default().insert(thread);
        }
        self.open.entry(thread).or_default()
    }

    fn track_name(&self, probe: &Probe) -> StringId {
        probe.track.unwrap_or(self.words.probes)
    }

    fn point(&mut self, engine: &mut Engine<'_>, at: Occurrence<'_>) -> Result<(), Stopped> {
        let name = self.track_name(at.probe);
        let points = &mut self.open_of(engine, at.thread).points;
        let track = *points.entry(name).or_insert_with(|| {
            let kind = TrackKind::Slices(TrackRole::Named);
            engine.track(Track { scope: Scope::Thread(at.thread), name, kind }, PROBES | POINTS)
        });
        engine.occurred(EventType::Probe);
        let slice = self.slice(engine, at);
        engine.emit(&Event::Instant(track, slice))
    }

    fn pair_begin(&mut self, engine: &mut Engine<'_>, at: Occurrence<'_>) -> Result<(), Stopped> {
        let Occurrence { thread, probe, table, .. } = at;
        let (name, nests) = (self.track_name(probe), table.nests(probe.pair));
        let pairs = &mut self.open_of(engine, thread).pairs;
        let (track, open) = pairs.entry((name, probe.pair)).or_insert_with(|| {
            let (kind, row) = (TrackKind::Slices(TrackRole::Named), PROBES | u64::from(probe.pair));
            (engine.track(Track { scope: Scope::Thread(thread), name, kind }, row), 0)
        });
        let track = *track;
        // The one before is over, however it ended.
        let over = if nests { 0 } else { std::mem::take(open) };
        if *open >= MAX_DEPTH {
            engine.sink.tally.unmatched_ends += 1;
            return Ok(());
        }
        *open += 1;
        engine.unfinished(track, over as usize)?;
        engine.occurred(EventType::Zone);
        let slice = self.slice(engine, at);
        engine.emit(&Event::SliceBegin(track, slice))
    }

    fn pair_end(&mut self, engine: &mut Engine<'_>, at: Occurrence<'_>) -> Result<(), Stopped> {
        let key = (self.track_name(at.probe), at.probe.pair);
        let pairs = &mut self.open_of(engine, at.thread).pairs;
        let Some((track, open)) = pairs.get_mut(&key).filter(|(_, open)| *open > 0) else {
            engine.sink.tally.unmatched_ends += 1;
            return Ok(());
        };
        *open -= 1;
        let track = *track;
        self.end_with(engine, track, at)
    }

    fn entry(
        &mut self,
        engine: &mut Engine<'_>,
        zones: &mut Zones,
        at: Occurrence<'_>,
    ) -> Result<(), Stopped> {
        let Occurrence { thread, probe, table, hit, .. } = at;
        let name = self.track_name(probe);
        let calls = &mut self.open_of(engine, thread).calls;
        let (track, calls) = calls.entry(name).or_insert_with(|| {
            let kind = TrackKind::Slices(TrackRole::Named);
            let track = engine
                .track(Track { scope: Scope::Thread(thread), name, kind }, PROBES | FUNCTIONS);
            (track, Calls::default())
        });
        if !calls.has_room() {
            engine.sink.tally.unmatched_ends += 1;
            return Ok(());
        }
        let (track, left) = (*track, calls.enter(hit.record.stack_pointer, probe.pair));
        let frames = probe.frames.filter(|set| is_outermost(calls, *set, table));
        engine.unfinished(track, left)?;
        if let Some(set) = frames {
            let process = engine.tables.thread(thread).process;
            let program = ProgramId { process, client: NO_CLIENT };
            zones.frames.frame(engine, program, Some(set), FramePhase::Mark)?;
        }
        engine.occurred(EventType::Zone);
        let slice = self.slice(engine, at);
        engine.emit(&Event::SliceBegin(track, slice))
    }

    /// A function ends that was entered with this stack pointer.
    fn exit(
        &mut self,
        engine: &mut Engine<'_>,
        at: Occurrence<'_>,
        entered: u64,
    ) -> Result<(), Stopped> {
        let name = self.track_name(at.probe);
        let Some((track, calls)) = self.open_of(engine, at.thread).calls.get_mut(&name) else {
            engine.sink.tally.unmatched_ends += 1;
            return Ok(());
        };
        let (track, end) = (*track, calls.exit(entered, at.probe.pair));
        engine.unfinished(track, end.unfinished)?;
        if !end.ended {
            engine.sink.tally.unmatched_ends += 1;
            return Ok(());
        }
        self.end_with(engine, track, at)
    }

    /// Ends the innermost slice, with what only the end knows.
    fn end_with(
        &mut self,
        engine: &mut Engine<'_>,
        track: TrackId,
        at: Occurrence<'_>,
    ) -> Result<(), Stopped> {
        let mut fields = Fields::new();
        if at.probe.is_one_of_ends {
            fields.push(Field::named(self.words.ended_by, Value::String(at.probe.name)));
        }
        fields.extend(self.fields(at.probe, &at.hit, None));
        if !fields.is_empty() {
            let update = SliceUpdate { fields, ..SliceUpdate::default() };
            engine.emit(&Event::SliceUpdate(track, update))?;
        }
        engine.emit(&Event::SliceEnd(track))
    }

    fn slice(&mut self, engine: &mut Engine<'_>, at: Occurrence<'_>) -> Slice {
        let Occurrence { probe, hit, stack, .. } = at;
        let by = probe.named_by.and_then(|by| hit.argument(by, probe.arguments.get(by)?.layout));
        let (name, number) = match by {
            Some(ArgumentValue::Text(text)) => (engine.new_name(&text), None),
            Some(ArgumentValue::Unsigned(number)) => numbered(engine, probe, number.into()),
            Some(ArgumentValue::Signed(number)) => numbered(engine, probe, number.into()),
            _ => (None, None),
        };
        let fields = self.fields(probe, &hit, probe.named_by.filter(|_| name.is_some()));
        Slice { number, fields, stack, ..Slice::named(name.unwrap_or(probe.name)) }
    }

    /// The arguments but for the one that is the name.
    fn fields(&self, probe: &Probe, hit: &Hit<'_>, but: Option<usize>) -> Fields {
        let mut fields = Fields::new();
        for (index, argument) in
            probe.arguments.iter().enumerate().filter(|(index, _)| Some(*index) != but)
        {
            let value = match hit.argument(index, argument.layout).filter(|_| !argument.repeated) {
                Some(ArgumentValue::Text(text)) => Value::Text(text.into()),
                Some(ArgumentValue::Unsigned(value)) => Value::Unsigned(value),
                Some(ArgumentValue::Signed(value)) => Value::Signed(value),
                Some(ArgumentValue::Float(value)) => Value::Float(value),
                Some(ArgumentValue::Address(value)) => Value::Address(value),
                Some(ArgumentValue::Unreadable) => Value::String(self.words.unreadable),
                None => continue,
            };
            fields.push(Field::named(argument.name, value));
        }
        fields
    }

    /// Closes all that is open of a thread.
    pub(crate) fn close_thread(
        &mut self,
        engine: &mut Engine<'_>,
        thread: ThreadId,
    ) -> Result<(), Stopped> {
        let Some(probes) = self.open.get_mut(&thread) else { return Ok(()) };
        let pairs = probes.pairs.values_mut();
        let pairs = pairs.map(|(track, open)| (*track, std::mem::take(open) as usize));
        let mut open: Vec<(TrackId, usize)> = pairs.collect();
        open.extend(probes.calls.values_mut().map(|(track, calls)| (*track, calls.clear())));
        open.sort_unstable();
        open.into_iter().try_for_each(|(track, count)| engine.unfinished(track, count))
    }
}

/// Whether of all open functions only the innermost makes frames of the set: one library may have
/// another do it.
fn is_outermost(calls: &Calls, set: StringId, probes: &ProbeTable) -> bool {
    calls.functions().filter(|pair| probes.is_frame_of(*pair, set)).count() == 1
}

/// The name of a slice that a number tells apart, and the number that belongs to it. A number says
/// nothing alone, so it is a part of the name (`gc__start 2`), by which slices are summed up; where
/// there are too many names it is beside it.
fn numbered(
    engine: &mut Engine<'_>,
    probe: &Probe,
    number: i128,
) -> (Option<StringId>, Option<u64>) {
    let name = format!("{} {number}", engine.tables.strings.get(probe.name));
    match (engine.new_name(&name), u64::try_from(number)) {
        (Some(name), _) => (Some(name), None),
        (None, Ok(number)) => (Some(probe.name), Some(number)),
        (None, Err(_)) => (None, None),
    }
}
