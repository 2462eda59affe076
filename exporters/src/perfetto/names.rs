//! What threads are called at the moment.

use syscollect_model::{StringId, ThreadId};

/// The thread id that stands for whatever ran while nothing was recorded; no kernel gives out one
/// so high.
pub(crate) const UNRECORDED_TID: u32 = i32::MAX as u32;
/// Its name.
pub(crate) const UNRECORDED_NAME: &str = "[not recorded]";

/// The names that threads have at the moment.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// By thread; `None` where the reader does not know the thread yet.
    rows: Vec<Option<StringId>>,
}

impl Names {
    /// The name of a thread that the reader knows.
    #[inline]
    pub(crate) fn name(&self, thread: ThreadId) -> StringId {
        // Every thread is made known before its name is asked for; string 0 exists in every
        // session.
        self.rows.get(thread.index()).copied().flatten().unwrap_or(StringId(0))
    }

    #[inline]
    pub(crate) fn contains(&self, thread: ThreadId) -> bool {
        self.rows.get(thread.index()).is_some_and(Option::is_some)
    }

    pub(crate) fn set(&mut self, thread: ThreadId, name: StringId) {
        if thread.index() >= self.rows.len() {
            self.rows.resize(thread.index() + 1, None);
        }
        self.rows[thread.index()] = Some(name);
    }
}
