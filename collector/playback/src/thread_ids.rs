//! What thread ids mean while a session is played.

use rustc_hash::FxHashMap;
use syscollect_model::ThreadId;

/// Thread ids below this have a place in a table; it is the kernel's own limit
/// (`PID_MAX_LIMIT` in `include/linux/threads.h`).
const DENSE: usize = 4 << 20;
/// A place without a thread.
const NOBODY: ThreadId = ThreadId(u32::MAX);

/// What thread ids mean at the moment.
#[derive(Debug, Default)]
pub(crate) struct ThreadIds {
    dense: Vec<ThreadId>,
    /// Ids that no kernel gives out: only damage could name them.
    sparse: FxHashMap<u32, ThreadId>,
}

impl ThreadIds {
    /// The thread that has this id now.
    #[inline]
    pub(crate) fn get(&self, tid: u32) -> Option<ThreadId> {
        match self.dense.get(tid as usize) {
            Some(thread) => (*thread != NOBODY).then_some(*thread),
            None => self.sparse.get(&tid).copied(),
        }
    }

    /// From now on the id means this thread.
    pub(crate) fn bind(&mut self, tid: u32, thread: ThreadId) {
        let index = tid as usize;
        if index >= DENSE {
            self.sparse.insert(tid, thread);
            return;
        }
        if index >= self.dense.len() {
            self.dense.resize((index + 1).next_power_of_two(), NOBODY);
        }
        self.dense[index] = thread;
    }

    /// Nobody has the id, if this thread had it last.
    pub(crate) fn unbind(&mut self, tid: u32, thread: ThreadId) {
        if self.get(tid) != Some(thread) {
            return;
        }
        match self.dense.get_mut(tid as usize) {
            Some(bound) => *bound = NOBODY,
            None => drop(self.sparse.remove(&tid)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_means_the_thread_that_was_bound_last() {
        let mut ids = ThreadIds::default();
        ids.bind(7, ThreadId(1));
        ids.bind(7, ThreadId(2));
        assert_eq!(
            [6, 7, 8, 1 << 21].map(|tid| ids.get(tid)),
            [None, Some(ThreadId(2)), None, None]
        );
    }

    #[test]
    fn an_impossible_id_takes_no_table() {
        let mut ids = ThreadIds::default();
        ids.bind(u32::MAX, ThreadId(3));
        assert_eq!(ids.get(u32::MAX), Some(ThreadId(3)));
        assert!(ids.dense.is_empty());
    }
}
