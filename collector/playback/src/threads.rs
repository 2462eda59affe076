//! Who has which thread id while a recording is played.

use crate::thread_ids::ThreadIds;
use crate::unannounced::UnannouncedThreads;
use rustc_hash::FxHashSet;
use syscollect_model::{MachineId, ProcessId, Tables, ThreadId};

/// What thread ids mean now, and rows for those that nothing announced.
#[derive(Debug)]
pub struct Threads {
    ids: ThreadIds,
    unannounced: UnannouncedThreads,
}

impl Threads {
    /// `initial` says what ids mean in the beginning; of all others, an earlier play's rows do.
    pub fn new(unannounced: UnannouncedThreads, initial: &[(u32, ThreadId)]) -> Self {
        let mut ids = ThreadIds::default();
        ids.bind(0, Tables::IDLE_THREAD);
        unannounced.bind(&mut ids);
        initial.iter().for_each(|(tid, thread)| ids.bind(*tid, *thread));
        Self { ids, unannounced }
    }

    /// The rows of threads that nothing announced, for another play.
    pub fn into_unannounced(self) -> UnannouncedThreads {
        self.unannounced
    }

    /// The thread that an id means now.
    #[inline]
    pub fn get(&self, tid: u32) -> Option<ThreadId> {
        self.ids.get(tid)
    }

    /// Whether no row had to be added for the id.
    pub fn is_announced(&self, tid: u32) -> bool {
        self.unannounced.get(tid).is_none()
    }

    /// From now on the id means this thread.
    pub fn bind(&mut self, tid: u32, thread: ThreadId) {
        self.ids.bind(tid, thread);
    }

    /// A thread had the id all the time; whoever asked for it before took it for one that nothing
    /// announced.
    pub fn was_there(&mut self, tid: u32, thread: ThreadId) {
        let bound = self.ids.get(tid);
        if bound.is_none() || bound == self.unannounced.get(tid) {
            self.ids.bind(tid, thread);
        }
    }

    /// Forgets threads that are gone; ids that were theirs last are nobody's.
    pub fn forget(&mut self, gone: &FxHashSet<ThreadId>, tables: &Tables) {
        for thread in gone {
            self.ids.unbind(tables.thread(*thread).tid, *thread);
        }
        self.unannounced.forget(gone);
    }

    /// Adds a row for an id that nothing announced, in a process of its own.
    #[cold]
    pub fn add(&mut self, tid: u32, machine: MachineId, tables: &mut Tables) -> ThreadId {
        self.unannounced.add(tid, machine, tables, &mut self.ids)
    }

    /// The same in a process that is known.
    #[cold]
    pub fn add_to(&mut self, process: ProcessId, tid: u32, tables: &mut Tables) -> ThreadId {
        self.unannounced.add_to(process, tid, tables, &mut self.ids)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_turns_out_to_have_been_there_replaces_only_what_nothing_announced() {
        let mut tables = Tables::default();
        let mut threads = Threads::new(UnannouncedThreads::new(8), &[(5, ThreadId(50))]);
        let guessed = threads.add(7, MachineId::FIRST, &mut tables);
        assert_eq!((threads.get(7), threads.get(0)), (Some(guessed), Some(Tables::IDLE_THREAD)));
        for tid in [5, 6, 7] {
            threads.was_there(tid, ThreadId(90 + tid));
        }
        let now = [5, 6, 7].map(|tid| threads.get(tid));
        assert_eq!(now, [50, 96, 97].map(|thread| Some(ThreadId(thread))));
    }
}
