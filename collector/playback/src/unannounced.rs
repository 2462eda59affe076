//! Threads that events name and nothing announced.

use crate::thread_ids::ThreadIds;
use rustc_hash::{FxHashMap, FxHashSet};
use syscollect_model::{MachineId, Process, ProcessId, Tables, Thread, ThreadId};

/// The id that stands for all threads beyond the limit; no kernel gives it out.
const OTHERS: u32 = u32::MAX;

/// Rows of threads that nothing announced, by thread id. Kept, so that playing again finds them.
#[derive(Clone, Debug)]
pub struct UnannouncedThreads {
    rows: FxHashMap<u32, ThreadId>,
    limit: usize,
}

impl UnannouncedThreads {
    /// At most `limit` of them: so many ids that more can come from damage only, which could name
    /// another with each event. The rest is one thread.
    pub fn new(limit: usize) -> Self {
        Self { rows: FxHashMap::default(), limit }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The thread of this id.
    pub fn get(&self, tid: u32) -> Option<ThreadId> {
        self.rows.get(&tid).copied()
    }

    /// Forgets threads that are gone.
    pub(crate) fn forget(&mut self, gone: &FxHashSet<ThreadId>) {
        self.rows.retain(|_, thread| !gone.contains(thread));
    }

    /// Lets the ids mean the threads that an earlier play added, before anything else is bound.
    pub(crate) fn bind(&self, ids: &mut ThreadIds) {
        self.rows.iter().for_each(|(tid, thread)| ids.bind(*tid, *thread));
    }

    /// Adds a thread called by its id, in a process called so, too. From now on the id means it.
    pub(crate) fn add(
        &mut self,
        tid: u32,
        machine: MachineId,
        tables: &mut Tables,
        ids: &mut ThreadIds,
    ) -> ThreadId {
        let tid = self.within_limit(tid);
        if let Some(others) = self.get(tid).filter(|_| tid == OTHERS) {
            return others;
        }
        let name = tables.strings.intern_passing(&unknown_name(tid));
        let process = tables.add_process(Process::named(machine, tid, name));
        self.row(process, tid, tables, ids)
    }

    /// Adds a thread of this process, called by its id. From now on the id means it.
    pub(crate) fn add_to(
        &mut self,
        process: ProcessId,
        tid: u32,
        tables: &mut Tables,
        ids: &mut ThreadIds,
    ) -> ThreadId {
        match self.within_limit(tid) {
            OTHERS if tid != OTHERS => {
                self.add(OTHERS, tables.process(process).machine, tables, ids)
            }
            tid => self.row(process, tid, tables, ids),
        }
    }

    /// The id, or where there are too many the one of all others.
    fn within_limit(&self, tid: u32) -> u32 {
        if self.rows.len() < self.limit { tid } else { OTHERS }
    }

    fn row(
        &mut self,
        process: ProcessId,
        tid: u32,
        tables: &mut Tables,
        ids: &mut ThreadIds,
    ) -> ThreadId {
        let name = tables.strings.intern_passing(&unknown_name(tid));
        let thread = tables.add_thread(Thread::named(tid, process, name));
        self.rows.insert(tid, thread);
        ids.bind(tid, thread);
        thread
    }
}

/// What is shown for the id of a process or thread of which nothing else is known.
pub fn unknown_name(id: u32) -> String {
    format!("<{id}>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn playing_again_finds_the_row() {
        let (mut tables, mut threads) = (Tables::default(), UnannouncedThreads::new(8));
        let mut ids = ThreadIds::default();
        let thread = threads.add_to(Tables::IDLE_PROCESS, 7, &mut tables, &mut ids);
        let mut ids = ThreadIds::default();
        threads.bind(&mut ids);
        assert_eq!((ids.get(7), ids.get(8), threads.len()), (Some(thread), None, 1));
        assert_eq!(tables.strings.get(tables.thread(thread).name), "<7>");
    }

    #[test]
    fn more_threads_than_the_limit_are_one_which_no_known_process_gets() {
        let (mut tables, mut threads) = (Tables::default(), UnannouncedThreads::new(2));
        let mut ids = ThreadIds::default();
        let [first, second, third, fourth] =
            [1, 2, 3, 4].map(|tid| threads.add(tid, MachineId::FIRST, &mut tables, &mut ids));
        assert_eq!((third, tables.processes.len()), (fourth, 4), "the idle process is one");
        assert_eq!(ids.get(3), None, "of ids beyond the limit nothing is remembered");
        let process = tables.thread(first).process;
        let of_process = threads.add_to(process, 5, &mut tables, &mut ids);
        assert_eq!((of_process, threads.len()), (third, 3));
        assert_ne!(first, second);
    }
}
