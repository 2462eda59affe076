//! Looks that wait for a process's mappings.
//!
//! What lies below /proc/PID/map_files is read under the lock of the process's mappings, which its
//! user can have held for as long as they like: by an `mmap` of a file whose file system is a
//! program of theirs that does not answer. So these looks are made on threads that are given up
//! when they do not come back, of which a user has few.

use std::path::Path;
use std::time::Duration;

use syscollect_untrusted_files::{PATIENCE, Patience};

use super::arena::LocatedArena;
use super::find::{self, ArenaLocation};
use crate::usage::thread_cpu_time;

/// Makes such looks.
pub(super) struct MappingLooks {
    patience: Patience,
    /// The arenas among the mappings of a process, below a root.
    find: fn(&Path, u32) -> Vec<LocatedArena>,
    /// CPU time that looks took on other threads, and that was not paid for.
    unpaid: Duration,
}

impl MappingLooks {
    /// Waits for each as long as for other files that users decide on.
    pub(super) fn new() -> Self {
        Self { patience: Patience::new(PATIENCE), find: find_mapped, unpaid: Duration::ZERO }
    }

    /// Finds arenas in another way, and waits for it so long.
    #[cfg(test)]
    pub(super) fn fake(limit: Duration, find: fn(&Path, u32) -> Vec<LocatedArena>) -> Self {
        Self { patience: Patience::new(limit), find, ..Self::new() }
    }

    /// The arenas among the mappings of that user's process; none where that cannot be looked at.
    pub(super) fn arenas(&mut self, root: &Path, pid: u32, user: u32) -> Vec<LocatedArena> {
        let (find, root) = (self.find, root.to_path_buf());
        self.look(user, move || find(&root, pid)).unwrap_or_default()
    }

    /// Whether that user's process may still have the arena; one that cannot be looked at may.
    pub(super) fn still_has(&mut self, root: &Path, place: &ArenaLocation, user: u32) -> bool {
        if !place.is_mapping() {
            return find::still_has(root, place);
        }
        let (root, place) = (root.to_path_buf(), place.clone());
        self.look(user, move || find::still_has(&root, &place)).unwrap_or(true)
    }

    /// What looks took on other threads since this was asked last.
    pub(super) fn take_unpaid(&mut self) -> Duration {
        std::mem::take(&mut self.unpaid)
    }

    fn look<T: Send + 'static>(
        &mut self,
        user: u32,
        look: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let looked = self.patience.within(Some(user), move || {
            let before = thread_cpu_time();
            let found = look();
            (found, thread_cpu_time().saturating_sub(before))
        });
        let (found, cost) = looked.ok()?;
        self.unpaid += cost;
        Some(found)
    }
}

fn find_mapped(root: &Path, pid: u32) -> Vec<LocatedArena> {
    find::arena_mappings(root, pid).into_iter().filter_map(LocatedArena::at).collect()
}
