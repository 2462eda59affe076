//! What a recording that goes on forgets.

use crate::{
    Field, LocationId, Lock, LockId, MachineId, Process, ProcessId, Schema, SchemaId, Scope,
    SliceUpdate, StringId, Tables, Thread, ThreadId, Track, TrackId, TrackKind, TrackRole, Unit,
    Value,
};
use rustc_hash::FxHashSet;

/// Rows that no event will name any more, and of the rest the texts that are needed.
///
/// Whoever keeps something of a row lets go of it, and says which texts [it has](Self::uses) of
/// those that [may pass](crate::Strings::intern_passing).
#[derive(Debug, Default)]
pub struct Forgotten {
    /// Threads that have ended.
    pub threads: FxHashSet<ThreadId>,
    /// Processes that have ended.
    pub processes: FxHashSet<ProcessId>,
    /// Tracks of these.
    pub tracks: FxHashSet<TrackId>,
    /// Locks of these.
    pub locks: FxHashSet<LockId>,
    /// All stacks, frames and modules go: those that come again have other numbers.
    pub code: bool,
    /// Texts go that nothing needs.
    pub texts: bool,
    strings: FxHashSet<StringId>,
    locations: FxHashSet<LocationId>,
    schemas: FxHashSet<SchemaId>,
}

impl Forgotten {
    /// These threads go.
    pub fn of_threads(threads: impl IntoIterator<Item = ThreadId>) -> Self {
        Self { threads: threads.into_iter().collect(), ..Self::default() }
    }

    /// What belongs to these threads and processes goes with them.
    pub fn with_what_is_theirs(mut self, tables: &Tables) -> Self {
        let Self { threads, processes, .. } = &self;
        let is_gone = |scope| match scope {
            Scope::Process(process) => processes.contains(&process),
            Scope::Thread(thread) => threads.contains(&thread),
            Scope::Machine(_) | Scope::Cpu(_) => false,
        };
        let tracks = tables.tracks.numbered().filter(|(_, track)| is_gone(track.scope));
        let locks = tables.locks.numbered().filter(|(_, lock)| processes.contains(&lock.process));
        let tracks = tracks.map(|(number, _)| TrackId(number)).collect();
        self.locks = locks.map(|(number, _)| LockId(number)).collect();
        self.tracks = tracks;
        let left = tables.locks.numbered();
        let left = left.filter(|(number, _)| !self.locks.contains(&LockId(*number)));
        self.locations.extend(left.filter_map(|(_, lock)| lock.location));
        self
    }

    /// A text is needed.
    pub fn uses(&mut self, text: StringId) {
        self.strings.insert(text);
    }

    /// A unit is needed.
    pub fn uses_unit(&mut self, unit: Unit) {
        if let Unit::Other(name) = unit {
            self.uses(name);
        }
    }

    /// A place in the source is needed.
    pub fn uses_location(&mut self, location: LocationId) {
        self.locations.insert(location);
    }

    /// A kind of marker is needed.
    pub fn uses_schema(&mut self, schema: SchemaId) {
        self.schemas.insert(schema);
    }

    /// Fields are needed.
    pub fn uses_fields(&mut self, fields: &[Field]) {
        for field in fields {
            self.uses(field.name);
            if let Value::String(text) = field.value {
                self.uses(text);
            }
        }
    }

    /// What more is known of a slice is needed.
    pub fn uses_update(&mut self, update: &SliceUpdate) {
        update.name.into_iter().for_each(|(name, _)| self.uses(name));
        self.uses_fields(&update.fields);
    }

    /// Whether a place in the source goes.
    pub fn has_location(&self, location: LocationId) -> bool {
        !self.locations.contains(&location)
    }

    /// Whether a kind of marker goes.
    pub fn has_schema(&self, schema: SchemaId) -> bool {
        !self.schemas.contains(&schema)
    }

    /// Makes the tables forget all of it, once everybody has let go.
    pub fn clear(mut self, tables: &mut Tables) {
        if self.code {
            tables.forget_code();
        }
        let name = tables.strings.intern("");
        let process = Process::named(MachineId::FIRST, 0, name);
        let thread = Thread::named(0, Tables::IDLE_PROCESS, name);
        let track = Track {
            scope: Scope::Process(Tables::IDLE_PROCESS),
            name,
            kind: TrackKind::Slices(TrackRole::Named),
        };
        let lock = Lock { process: Tables::IDLE_PROCESS, name, shared: false, location: None };
        let location = crate::Location { function: name, file: name, line: 0 };
        let schema = Schema { name, category: None, fields: Vec::new() };
        tables.processes.forget(process, |id, _| !self.processes.contains(&ProcessId(id)));
        tables.threads.forget(thread, |id, _| !self.threads.contains(&ThreadId(id)));
        tables.tracks.forget(track, |id, _| !self.tracks.contains(&TrackId(id)));
        tables.locks.forget(lock, |id, _| !self.locks.contains(&LockId(id)));
        tables.locations.forget(location, |id, _| self.locations.contains(&LocationId(id)));
        tables.schemas.forget(schema, |id, _| self.schemas.contains(&SchemaId(id)));
        if self.texts {
            self.use_texts_of(tables);
            tables.strings.forget(&self.strings);
        }
    }

    /// Texts of the rows that stay.
    fn use_texts_of(&mut self, tables: &Tables) {
        let Tables { processes, threads, tracks, locations, schemas, locks, .. } = tables;
        processes.iter().for_each(|row| self.uses(row.name));
        threads.iter().for_each(|row| self.uses(row.name));
        for row in tracks.iter() {
            self.uses(row.name);
            if let TrackKind::Counter { unit } = row.kind {
                self.uses_unit(unit);
            }
        }
        let of_locations = locations.iter().flat_map(|row| [row.function, row.file]);
        of_locations.for_each(|text| self.uses(text));
        locks.iter().for_each(|row| self.uses(row.name));
        for row in schemas.iter() {
            let fields = row.fields.iter().flat_map(|field| [field.name, field.label]);
            let all = row.category.into_iter().chain([row.name]).chain(fields);
            all.for_each(|text| self.uses(text));
        }
        tables.modules.iter().for_each(|module| self.uses(module.path));
        let of_frames = tables.frames.iter().flat_map(|frame| [frame.function, frame.file]);
        of_frames.flatten().for_each(|text| self.uses(text));
    }
}
