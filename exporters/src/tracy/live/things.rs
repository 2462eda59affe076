//! Plots, sets of frames, locks and pools of memory: what has a name and a number.

use super::room::{Owner, SharedRoom, UserOf};
use super::zones::LiveZones;
use crate::tracy::rows::scoped_name;
use crate::tracy::strings::short_name;
use crate::tracy::{frames, plots};
use rustc_hash::FxHashMap;
use syscollect_model::{LockId, ProcessId, Scope, StringId, Tables, TrackId, TrackKind};
use syscollect_tracy_protocol as tracy;
use syscollect_tracy_protocol::{Catalogue, EndedRow, LockRow, PlotRow, SetRow, TextId};

/// Plots at a time; a viewer's lists are of no use long before.
const MOST_PLOTS: usize = 8_192;
/// Sets of frames.
const MOST_SETS: usize = 1_024;
/// Locks.
const MOST_LOCKS: usize = 32_768;
/// Pools of memory.
const MOST_POOLS: usize = 8_192;
/// Names whose uses are counted: those of all that there may be at a time, several times.
const MOST_NAMES: usize = 1 << 17;

/// All of them.
#[derive(Debug)]
pub(super) struct NamedObjects {
    pub(super) plots: SharedRoom<TrackId, tracy::PlotId>,
    pub(super) sets: SharedRoom<TrackId, tracy::SetId>,
    has_main_set: bool,
    pub(super) locks: SharedRoom<LockId, tracy::LockId>,
    pub(super) pools: SharedRoom<(ProcessId, Option<StringId>), TextId>,
    /// How often a name was used.
    names: FxHashMap<String, u32>,
    /// What gave way to others, and was not told so.
    pub(super) ended: Vec<EndedRow>,
}

impl Default for NamedObjects {
    fn default() -> Self {
        let (has_main_set, names, ended) = Default::default();
        Self {
            plots: SharedRoom::new(MOST_PLOTS),
            sets: SharedRoom::new(MOST_SETS),
            has_main_set,
            locks: SharedRoom::new(MOST_LOCKS),
            pools: SharedRoom::new(MOST_POOLS),
            names,
            ended,
        }
    }
}

impl NamedObjects {
    pub(super) fn plot(
        &mut self,
        track: TrackId,
        catalogue: &mut Catalogue,
        tables: &Tables,
    ) -> tracy::PlotId {
        if let Some(plot) = self.plots.get(track) {
            return plot;
        }
        let (format, name) = plots::describe(track, tables);
        let name = self.unique(&name, catalogue);
        let plot = catalogue.add_plot(PlotRow { name, format, is_step: true });
        let gave_way = self.plots.add(track, plot, owner(track, tables));
        self.ended.extend(gave_way.into_iter().map(EndedRow::Plot));
        plot
    }

    /// A name that nothing else of its kind has: the viewer would make one of two.
    pub(super) fn unique(&mut self, name: &str, catalogue: &mut Catalogue) -> TextId {
        let name = short_name(name);
        if self.names.len() >= MOST_NAMES {
            // What is shown by then has its name; what comes may have one that ended long ago.
            self.names.clear();
        }
        let times = self.names.entry(name.clone()).or_default();
        *times += 1;
        match *times {
            1 => catalogue.text(&name),
            times => catalogue.text(&format!("{name} #{times}")),
        }
    }

    pub(super) fn set(
        &mut self,
        track: TrackId,
        catalogue: &mut Catalogue,
        tables: &Tables,
    ) -> tracy::SetId {
        if let Some(set) = self.sets.get(track) {
            return set;
        }
        let row = tables.track(track);
        let continuous = matches!(row.kind, TrackKind::Frames { continuous: true, .. });
        let is_main = !self.has_main_set && frames::is_main(track, tables);
        self.has_main_set |= is_main;
        let name = match row.scope {
            Scope::Process(_) => scoped_name(track, tables),
            _ => tables.strings.get(row.name).to_owned(),
        };
        let name = (!is_main).then(|| self.unique(&name, catalogue));
        let set = catalogue.add_set(SetRow { name, continuous });
        let gave_way = self.sets.add(track, set, owner(track, tables));
        self.ended.extend(gave_way.into_iter().map(EndedRow::Set));
        set
    }

    pub(super) fn lock(
        &mut self,
        lock: LockId,
        catalogue: &mut Catalogue,
        zones: &mut LiveZones,
        tables: &Tables,
    ) -> tracy::LockId {
        if let Some(lock) = self.locks.get(lock) {
            return lock;
        }
        let row = tables.lock(lock);
        let name = match tables.strings.get(row.name) {
            "" => None,
            name => Some(catalogue.text(&short_name(name))),
        };
        let location =
            zones.place(row.location, Owner::new(row.process, tables), catalogue, tables);
        let number = catalogue.add_lock(LockRow { name, location, shared: row.shared });
        let gave_way = self.locks.add(lock, number, Owner::new(row.process, tables));
        self.ended.extend(gave_way.into_iter().map(EndedRow::Lock));
        number
    }

    /// A process has ended: what is its goes first.
    pub(super) fn process_ended(&mut self, process: ProcessId) {
        self.plots.ended(process);
        self.sets.ended(process);
        self.locks.ended(process);
        self.pools.ended(process);
    }

    /// The name of a pool of memory.
    pub(super) fn pool(
        &mut self,
        pool: (ProcessId, Option<StringId>),
        catalogue: &mut Catalogue,
        tables: &Tables,
    ) -> TextId {
        if let Some(name) = self.pools.get(pool) {
            return name;
        }
        let (process, name) = pool;
        let row = tables.process(process);
        let whose = format!("{} ({})", tables.process_name(process), row.pid);
        let name = match name {
            None => whose,
            Some(name) => format!("{whose} {}", tables.strings.get(name)),
        };
        let name = self.unique(&name, catalogue);
        catalogue.add_pool(name);
        let gave_way = self.pools.add(pool, name, Owner::new(process, tables));
        self.ended.extend(gave_way.into_iter().map(EndedRow::Pool));
        name
    }

    /// Asks this for who runs a process.
    pub(super) fn ask(&mut self, user_of: UserOf) {
        self.plots.ask(user_of);
        self.sets.ask(user_of);
        self.locks.ask(user_of);
        self.pools.ask(user_of);
    }
}

/// Whose a track is; the idle process for what is the machine's.
pub(super) fn owner(track: TrackId, tables: &Tables) -> Owner {
    let process = match tables.track(track).scope {
        Scope::Process(process) => process,
        Scope::Thread(thread) => tables.thread(thread).process,
        Scope::Machine(_) | Scope::Cpu(_) => Tables::IDLE_PROCESS,
    };
    Owner::new(process, tables)
}
