//! Zones that belong to a task: they overlap, and may end on another thread.

use crate::engine::{Engine, ProgramId, Writer};
use crate::zones::attributes::EventAttributes;
use crate::zones::references::ZoneReferences;
use rustc_hash::FxHashMap;
use std::collections::{BTreeSet, VecDeque};
use syscollect_model::{
    Event, Field, Forgotten, ProcessId, Scope, StringId, Track, TrackId, TrackKind, TrackRole,
    Value,
};
use syscollect_playback::{EventType, Stopped};

/// Async zones of a program that may be open at one time: more would let
/// memory grow with events.
const MOST_ASYNC: usize = 1 << 16;

/// How an async zone begins.
#[derive(Clone, Copy)]
pub(crate) struct AsyncStart {
    /// Its location's number.
    pub(crate) location: u32,
    /// Its own number.
    pub(crate) zone: u64,
    /// The number of its task's name.
    pub(crate) task: u64,
}

/// An async zone that was open before somebody listened.
#[derive(Clone, Copy)]
pub(crate) struct RestatedAsyncZone {
    /// Its location's number.
    pub(crate) location: u32,
    /// Its own number.
    pub(crate) zone: u64,
    /// The program's ticks when it began.
    pub(crate) began: u64,
}

/// What happens to an async zone.
#[derive(Clone, Copy)]
pub(crate) enum AsyncEvent {
    Begin(AsyncStart),
    Restated(RestatedAsyncZone),
    /// The zone of this number ends.
    End(u64),
}

/// An async zone that gets a slice.
#[derive(Clone, Copy)]
struct NewAsyncZone {
    location: u32,
    number: u64,
    /// Its task, if it has a name.
    task: Option<StringId>,
    /// How many nanoseconds ago it began, if it is restated.
    began_before: Option<u64>,
}

/// An async zone that is open: the track of its row.
#[derive(Clone, Copy, Debug)]
struct OpenAsyncZone {
    track: TrackId,
    name: StringId,
    row: u32,
    /// It was open when the recorder came, and its beginning was not seen.
    restated: bool,
}

/// The rows of a track whose slices overlap.
#[derive(Debug, Default)]
struct Rows {
    free: BTreeSet<u32>,
    used: u32,
}

impl Rows {
    /// The lowest row that is free.
    fn take(&mut self) -> u32 {
        self.free.pop_first().unwrap_or_else(|| {
            self.used += 1;
            self.used - 1
        })
    }

    /// The row is free again.
    fn give_back(&mut self, row: u32) {
        self.free.insert(row);
    }
}

/// Names of tasks, of which only so many are remembered: a program may have a
/// task for each of its requests.
#[derive(Debug, Default)]
struct TaskNames {
    names: FxHashMap<u64, StringId>,
    order: VecDeque<u64>,
}

impl TaskNames {
    const MOST: usize = 1 << 16;

    fn get(&self, task: u64) -> Option<StringId> {
        self.names.get(&task).copied()
    }

    fn insert(&mut self, task: u64, name: StringId) {
        if self.names.insert(task, name).is_none() {
            self.order.push_back(task);
        }
        if self.order.len() > Self::MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.names.remove(&oldest);
        }
    }
}

/// The async zones of one program.
#[derive(Debug, Default)]
struct ProgramAsyncZones {
    open: FxHashMap<u64, OpenAsyncZone>,
    rows: FxHashMap<StringId, Rows>,
    tasks: TaskNames,
}

impl ProgramAsyncZones {
    /// Begins a zone on the track of its task, or on one of its own name. Returns whether it could
    /// be begun.
    fn begin(
        &mut self,
        engine: &mut Engine<'_>,
        writer: Writer,
        references: &mut ZoneReferences,
        zone: NewAsyncZone,
        attributes: EventAttributes,
    ) -> Result<bool, Stopped> {
        let NewAsyncZone { location, number, task, began_before } = zone;
        let ProgramId { process, client } = writer.program;
        let has_room = self.open.len() < MOST_ASYNC && !self.open.contains_key(&number);
        let place = references.known.logs.get(client).location(location).filter(|_| has_room);
        let Some(place) = place else {
            writer.refuse(engine, 1);
            return Ok(false);
        };
        let name = task.unwrap_or(place.name);
        let row = self.rows.entry(name).or_default().take();
        let (scope, kind) = (Scope::Process(process), TrackKind::Slices(TrackRole::Named));
        // Two clients of one process must not share a row.
        let key = u64::from(client) << 32 | u64::from(row);
        let track = engine.track(Track { scope, name, kind }, key);
        let restated = began_before.is_some();
        self.open.insert(number, OpenAsyncZone { track, name, row, restated });
        let mut slice = place.slice();
        references.describe(engine, client, &mut slice, attributes);
        if let Some(nanoseconds) = began_before {
            let value = Value::Duration(nanoseconds);
            slice.fields.push(Field::named(references.names.began_before, value));
        }
        engine.emit(&Event::SliceBegin(track, slice))?;
        Ok(true)
    }
}

/// The async zones of all programs.
#[derive(Debug, Default)]
pub(crate) struct AsyncZones {
    programs: FxHashMap<ProgramId, ProgramAsyncZones>,
}

impl AsyncZones {
    /// A program gives tasks names.
    pub(crate) fn name_tasks(&mut self, program: ProgramId, names: &[(u64, StringId)]) {
        if !names.is_empty() {
            let tasks = &mut self.programs.entry(program).or_default().tasks;
            names.iter().for_each(|(task, name)| tasks.insert(*task, *name));
        }
    }

    pub(crate) fn on(
        &mut self,
        engine: &mut Engine<'_>,
        writer: Writer,
        references: &mut ZoneReferences,
        event: AsyncEvent,
        attributes: EventAttributes,
    ) -> Result<(), Stopped> {
        match event {
            AsyncEvent::Begin(start) => self.begin(engine, writer, references, start, attributes),
            AsyncEvent::Restated(zone) => {
                self.restate(engine, writer, references, zone, attributes)
            }
            AsyncEvent::End(number) => self.end(engine, writer, references, number, attributes),
        }
    }

    fn begin(
        &mut self,
        engine: &mut Engine<'_>,
        writer: Writer,
        references: &mut ZoneReferences,
        AsyncStart { location, zone: number, task }: AsyncStart,
        attributes: EventAttributes,
    ) -> Result<(), Stopped> {
        let program = self.programs.entry(writer.program).or_default();
        if let Some(zone) = program.open.get_mut(&number).filter(|zone| zone.restated) {
            // Another thread was quicker to restate it than this one to begin it.
            zone.restated = false;
            engine.occurred(EventType::AsyncZone);
            return attributes.own.emit(engine, references.names, zone.track);
        }
        let task = program.tasks.get(task).filter(|_| task != 0);
        let zone = NewAsyncZone { location, number, task, began_before: None };
        if program.begin(engine, writer, references, zone, attributes)? {
            engine.occurred(EventType::AsyncZone);
        }
        Ok(())
    }

    /// A zone that is restated: if it is not known, it begins here.
    fn restate(
        &mut self,
        engine: &mut Engine<'_>,
        writer: Writer,
        references: &mut ZoneReferences,
        RestatedAsyncZone { location, zone: number, began }: RestatedAsyncZone,
        attributes: EventAttributes,
    ) -> Result<(), Stopped> {
        let program = self.programs.entry(writer.program).or_default();
        if program.open.contains_key(&number) {
            return Ok(());
        }
        let task = attributes.tasks.first().map(|(_, name)| *name);
        let before = references.nanoseconds_since(engine, writer.program.client, began);
        let began_before = Some(before.unwrap_or(0));
        let zone = NewAsyncZone { location, number, task, began_before };
        program.begin(engine, writer, references, zone, attributes).map(|_| ())
    }

    fn end(
        &mut self,
        engine: &mut Engine<'_>,
        writer: Writer,
        references: &ZoneReferences,
        number: u64,
        attributes: EventAttributes,
    ) -> Result<(), Stopped> {
        let program = self.programs.entry(writer.program).or_default();
        let Some(zone) = program.open.remove(&number) else { return Ok(()) };
        program.rows.entry(zone.name).or_default().give_back(zone.row);
        attributes.own.emit(engine, references.names, zone.track)?;
        engine.emit(&Event::SliceEnd(zone.track))
    }

    /// Forgets programs of processes that are gone, and needs the names of the others.
    pub(crate) fn forget(&mut self, forgotten: &mut Forgotten) {
        self.programs.retain(|program, _| !forgotten.processes.contains(&program.process));
        for ProgramAsyncZones { open, rows, tasks } in self.programs.values() {
            let names = open.values().map(|zone| zone.name).chain(tasks.names.values().copied());
            names.chain(rows.keys().copied()).for_each(|name| forgotten.uses(name));
        }
    }

    /// The process is over, without one all are: the tracks of zones that were open.
    pub(crate) fn close(&mut self, process: Option<ProcessId>) -> Vec<TrackId> {
        let mut tracks = Vec::new();
        for (_, zones) in self.programs.iter_mut().filter(|(program, _)| program.is_of(process)) {
            tracks.extend(zones.open.drain().map(|(_, zone)| zone.track));
            zones.rows.clear();
        }
        tracks
    }
}
