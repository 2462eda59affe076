//! Lists of mappings that are read again, because records of new mappings were lost: one ring of
//! each CPU holds them, which whoever maps code in a loop can fill.

use std::hash::{BuildHasher as _, RandomState};
use std::time::{Duration, Instant};

use rustc_hash::{FxHashMap, FxHashSet};
use syscollect_model::Mapping;

use super::task::MetadataTask;
use super::{MAPPINGS_MAX, MetadataRecorder};
use crate::clock::ticks_now;
use crate::fair_queue::Turn;

/// Lists are read again at most this often, and at the end: each takes some 100 microseconds, in
/// the turns of its user, and whoever makes losses without end makes this without end.
const INTERVAL: Duration = Duration::from_secs(5);

/// When lists are read again, and which have changed since.
#[derive(Debug, Default)]
pub(super) struct Relisting {
    /// Records were lost since lists were last read.
    lost: bool,
    last: Option<Instant>,
    /// A hash of each process's list, when it was last read.
    lists: FxHashMap<u32, u64>,
    hashes: RandomState,
}

impl Relisting {
    pub(super) fn records_lost(&mut self) {
        self.lost = true;
    }

    /// Whether lists are to be read again now; they are then.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        let waits = self.last.is_some_and(|last| now.saturating_duration_since(last) < INTERVAL);
        !waits && self.is_due_at_the_end(now)
    }

    /// The same when no later moment comes.
    pub(super) fn is_due_at_the_end(&mut self, now: Instant) -> bool {
        if !std::mem::take(&mut self.lost) {
            return false;
        }
        self.last = Some(now);
        true
    }

    /// These processes live; what is known of others is forgotten.
    pub(super) fn retain(&mut self, is_there: impl Fn(u32) -> bool) {
        self.lists.retain(|pid, _| is_there(*pid));
    }

    /// Whether a process's list is another one than when it was last read.
    pub(super) fn has_changed(&mut self, pid: u32, list: &[Mapping]) -> bool {
        let fields = list.iter().map(|mapping| {
            (mapping.start, mapping.end, mapping.file_offset, mapping.path.as_str())
        });
        let hash = self.hashes.hash_one(fields.collect::<Vec<_>>());
        self.lists.insert(pid, hash) != Some(hash)
    }
}

impl MetadataRecorder<'_> {
    /// Has the mappings of all processes read again.
    pub(super) fn list_again(&mut self) {
        let processes = self.owners.processes();
        let live: FxHashSet<u32> = processes.values().flatten().copied().collect();
        self.relisting.retain(|pid| live.contains(&pid));
        for (whose, pids) in processes {
            self.turns.add(whose, MetadataTask::ProcessesAgain(pids), Instant::now());
        }
    }

    /// Lists the mappings of the next of these processes as of now, where they have changed since
    /// they were last listed.
    pub(super) fn list_next_again(&mut self, mut pids: Vec<u32>, turn: &Turn<()>) {
        let pid = pids.pop();
        self.go_on(turn, MetadataTask::ProcessesAgain(pids));
        // Who waits to be listed for the first time is listed then.
        let Some(pid) = pid.filter(|pid| !self.unread.contains(pid)) else { return };
        // Before it is read: what is there then was there since.
        let since = ticks_now(self.clock);
        let mut all = crate::snapshot::mappings(&self.root, pid);
        all.truncate(MAPPINGS_MAX);
        if self.relisting.has_changed(pid, &all) {
            all.iter_mut().for_each(|mapping| mapping.since = since);
            self.go_on(turn, MetadataTask::Mappings { all, next: 0 });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syscollect_model::{BuildId, Ticks};

    #[test]
    fn losses_without_end_have_lists_read_now_and_then() {
        let mut relisting = Relisting::default();
        let begin = Instant::now();
        assert!(!relisting.is_due(begin), "nothing was lost");
        let times = (0..60).filter(|second| {
            relisting.records_lost();
            relisting.is_due(begin + Duration::from_secs(*second))
        });
        assert_eq!(times.count(), 12);
        assert!(relisting.is_due_at_the_end(begin), "some were lost after the last time");
        assert!(!relisting.is_due_at_the_end(begin));
    }

    #[test]
    fn a_list_that_is_as_before_is_not_recorded_again() {
        let mapping = |path: &str| Mapping {
            pid: 7,
            start: 0x1000,
            end: 0x2000,
            file_offset: 0,
            path: path.to_owned(),
            build_id: BuildId::default(),
            since: Ticks(0),
        };
        let mut relisting = Relisting::default();
        assert!(relisting.has_changed(7, &[mapping("/a")]));
        assert!(!relisting.has_changed(7, &[mapping("/a")]));
        assert!(relisting.has_changed(7, &[mapping("/a"), mapping("/b")]));
        relisting.retain(|pid| pid != 7);
        assert!(relisting.has_changed(7, &[mapping("/a"), mapping("/b")]), "7 is another process");
    }
}
