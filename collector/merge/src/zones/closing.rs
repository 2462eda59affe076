//! What is still open when its thread, its process or the recording ends.

use crate::play::Player;
use syscollect_model::{ProcessId, ThreadId};
use syscollect_playback::Stopped;

impl Player<'_> {
    /// The thread ends: closes its zones, markers and probes.
    pub(crate) fn close_thread(&mut self, thread: ThreadId) -> Result<(), Stopped> {
        for index in 0..self.marks.slots_of(thread).len() {
            let slot = self.marks.slots_of(thread)[index];
            self.close_slot(slot)?;
        }
        self.close_probes(thread)
    }

    /// The process ends, or runs another program.
    pub(crate) fn close_process(&mut self, process: ProcessId) -> Result<(), Stopped> {
        for thread in self.marks.by_process.remove(&process).unwrap_or_default() {
            self.close_thread(thread)?;
            self.marks.note_thread(thread, process);
        }
        self.close_programs(Some(process))
    }

    /// The recording ends.
    pub(crate) fn close_all(&mut self) -> Result<(), Stopped> {
        let mut threads: Vec<ThreadId> =
            self.marks.by_process.values().flatten().copied().collect();
        threads.sort_unstable();
        threads.into_iter().try_for_each(|thread| self.close_thread(thread))?;
        self.close_programs(None)?;
        self.close_gpu()
    }
}
