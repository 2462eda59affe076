//! What code gets its names from: files that are mapped, and lists that programs write.

use std::time::Instant;

use syscollect_model::Mapping;
use syscollect_symbolize::{PerfMapOutcome, ReleasedFiles, is_jit_dump};

use super::{MetadataRecorder, MetadataTask};
use crate::clock::{read_clocks, ticks_now};
use crate::fair_queue::Turn;
use crate::jvm::JvmNames;
use crate::perf_maps;
use crate::unwind::NAMELESS_INTERVAL;

impl MetadataRecorder<'_> {
    pub(super) fn pin_perf_map(&mut self, pid: u32) {
        let now = ticks_now(self.clock);
        let outcome = match perf_maps::owner(pid, &read_clocks(self.clock)) {
            Some(owner) => {
                self.perf_maps.note(&owner, now);
                self.pinned.pin_perf_map(&owner, now)
            }
            None => PerfMapOutcome::Gone,
        };
        if let (PerfMapOutcome::Gone, Some((owner, then))) = (outcome, self.perf_maps.last(pid)) {
            self.pinned.pin_perf_map_of_ended(owner, *then);
        }
        self.perf_maps.record_outcome(pid, outcome, Instant::now());
    }

    /// Looks for the perf maps of all that made code once more: these may have been written anew.
    /// Java virtual machines write theirs now, where they are to.
    pub(super) fn look_for_perf_maps(&mut self) {
        self.jvms.iter_mut().for_each(JvmNames::ask);
        for (pid, whose) in self.perf_maps.all() {
            self.turns.add(whose, MetadataTask::PerfMap(pid), Instant::now());
        }
    }

    /// Pins the file of a mapping; whether that is pinned.
    pub(super) fn pin(&mut self, mapping: &mut Mapping, turn: &Turn<()>) -> bool {
        self.jvms.iter_mut().for_each(|jvms| jvms.mapped(mapping, 0, turn.whose));
        if mapping.is_generated() {
            self.perf_maps.add(mapping.pid, turn.whose, Instant::now());
            // Of code in a file walks are told that it has no tables; else they wait for some.
            if !self.pinned.is_to_pin(mapping, turn.whose.uid()) {
                return true;
            }
        }
        if is_jit_dump(&mapping.path) {
            if let Some(owner) = perf_maps::owner(mapping.pid, &read_clocks(self.clock)) {
                self.pinned.pin_jit_dump(&owner, mapping, ticks_now(self.clock));
            }
            return true;
        }
        let is_pinned = self.pinned.pin(mapping, turn.whose.uid());
        if let (Some(unwind), Some(file)) = (&self.unwind, self.pinned.take_new()) {
            unwind.mapped(file, &mapping.path, turn.whose);
        }
        is_pinned || mapping.is_generated()
    }

    /// Lets files go that only this program keeps from being freed, where they are too much.
    pub(super) fn release_nameless(&mut self) {
        if self.nameless_looked_for.elapsed() < NAMELESS_INTERVAL {
            return;
        }
        self.nameless_looked_for = Instant::now();
        for ReleasedFiles { user, files } in self.pinned.release_nameless() {
            *self.released.entry(user).or_default() += files;
        }
    }
}

/// What to report of files that were let go because only this program kept them from being freed.
pub(super) fn released_words(files: &usize, whose: &str) -> String {
    format!(
        "{files} files of code that programs {whose} have deleted were not held: only that kept \
         them from being freed, and they were too large together; their functions have no names"
    )
}
