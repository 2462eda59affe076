//! Processes of one name, together.

use rustc_hash::FxHashMap;
use syscollect_model::{ProcessId, Tables};

/// Which processes are called alike.
pub(super) struct ProgramNames {
    /// Of each process, the first that is called so.
    first: Vec<ProcessId>,
}

impl ProgramNames {
    pub(super) fn new(tables: &Tables) -> Self {
        let mut by_name = FxHashMap::default();
        let processes = (0..tables.processes.len()).map(|index| ProcessId(index as u32));
        let first = processes.map(|id| *by_name.entry(tables.process_name(id)).or_insert(id));
        Self { first: first.collect() }
    }

    /// The first process that is called like this one.
    pub(super) fn first_of(&self, process: ProcessId) -> ProcessId {
        self.first.get(process.index()).copied().unwrap_or(process)
    }
}
