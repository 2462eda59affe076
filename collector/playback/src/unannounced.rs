//! Threads that events name and nothing announced.

use crate::thread_ids::ThreadIds;
use rustc_hash::FxHashMap;
use syscollect_model::{ProcessId, Tables, Thread, ThreadId};

/// Rows of threads that nothing announced, by thread id. Kept, so that playing again finds them.
#[derive(Clone, Debug, Default)]
pub struct UnannouncedThreads {
    rows: FxHashMap<u32, ThreadId>,
}

impl UnannouncedThreads {
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

    /// Lets the ids mean the threads that an earlier play added, before anything else is bound.
    pub fn bind(&self, ids: &mut ThreadIds) {
        self.rows.iter().for_each(|(tid, thread)| ids.bind(*tid, *thread));
    }

    /// Adds a thread of this process, called by its id. From now on the id means it.
    pub fn add(
        &mut self,
        tid: u32,
        process: ProcessId,
        tables: &mut Tables,
        ids: &mut ThreadIds,
    ) -> ThreadId {
        let name = tables.strings.intern(&unknown_name(tid));
        tables.threads.push(Thread { tid, process, name, start: None, end: None });
        let thread = ThreadId(tables.threads.len() as u32 - 1);
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
        let (mut tables, mut threads) = (Tables::default(), UnannouncedThreads::default());
        let thread = threads.add(7, Tables::IDLE_PROCESS, &mut tables, &mut ThreadIds::default());
        let mut ids = ThreadIds::default();
        threads.bind(&mut ids);
        assert_eq!((ids.get(7), ids.get(8), threads.len()), (Some(thread), None, 1));
        assert_eq!(tables.strings.get(tables.thread(thread).name), "<7>");
    }
}
