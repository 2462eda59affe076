//! What the collector hands out for snapshots: it touches no file and waits for nobody.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use syscollect_model::{RecorderSummary, StopReason};
use syscollect_store::LaneLoss;

use super::Collector;
use crate::clock::ticks_now;
use crate::files::losses_since;
use crate::snapshot_requests::{SnapshotParts, SnapshotRequest};
use crate::stage::Flush;
use crate::unwind::StacksInMemory;
use crate::usage::{cpu_time, peak_memory, program_time};

/// Losses are told apart by when they came as far as this many changes reach back.
const CHANGES_MAX: usize = 4096;
/// Stacks as they lay in memory that are kept for later snapshots, of up to 152 KiB each: whoever
/// asks for one after the other makes the recorder keep no more.
const STACKS_MAX: usize = 1024;

/// What snapshots need that the trace buffer does not keep.
#[derive(Default)]
pub(super) struct SnapshotHistory {
    /// Stacks as they lay in memory, of those that the programs have forgotten they sent.
    stacks: StacksInMemory,
    /// What was lost in all, at each time when it was more than before; the oldest is what was lost
    /// before all that can be told apart.
    losses: VecDeque<(Instant, Vec<LaneLoss>)>,
}

impl SnapshotHistory {
    /// The programs have forgotten what they sent; these are stacks of before. Those of before
    /// that go: events that refer to them are about to be overwritten.
    pub(super) fn stacks_begun_anew(&mut self, stacks: StacksInMemory) {
        self.stacks = stacks;
    }

    /// Stacks that came since the last snapshot stay for later ones; where they become too many,
    /// those of before go.
    fn keep_stacks(&mut self, new: StacksInMemory) {
        if self.stacks.len() + new.len() > STACKS_MAX {
            self.stacks.clear();
        }
        self.stacks.extend(new);
    }

    /// That much was lost so far.
    pub(super) fn lost(&mut self, all: &[LaneLoss]) {
        self.losses.push_back((Instant::now(), all.to_vec()));
        if self.losses.len() > CHANGES_MAX {
            self.losses.pop_front();
        }
    }

    /// What was lost in all before that time, as far as that is known.
    fn lost_before(&self, then: Instant) -> &[LaneLoss] {
        let before = self.losses.partition_point(|(at, _)| *at < then);
        before.checked_sub(1).and_then(|last| self.losses.get(last)).map_or(&[], |(_, all)| all)
    }
}

impl Collector {
    /// Answers whoever asked for a snapshot since this was last called.
    pub(super) fn answer_snapshots(&mut self) {
        for request in self.output.shared.snapshots.take() {
            // Whoever asked may have given up.
            match request {
                SnapshotRequest::Metadata(answer) => {
                    if let Some(machine) = &self.machine {
                        machine.metadata.snapshot(answer);
                    }
                }
                SnapshotRequest::Pinned(answer) => {
                    if let Some(machine) = &self.machine {
                        machine.metadata.pinned(answer);
                    }
                }
                SnapshotRequest::Buffer(answer, last) => {
                    let _ = answer.send(self.snapshot(last));
                }
                SnapshotRequest::StacksAnew => self.stacks_asked = true,
            }
        }
    }

    fn snapshot(&mut self, last: Option<Duration>) -> SnapshotParts {
        self.read_machine(Flush::All);
        self.drain(Flush::All);
        self.note_losses();
        self.collect_missing();
        let new = self.take_stacks_in_memory();
        self.history.keep_stacks(new);
        let buffer = self.output.sink.buffer();
        let reach = last.unwrap_or(Duration::MAX).min(buffer.reach());
        let now = Instant::now();
        let since = now.checked_sub(reach).unwrap_or(now);
        let statistics = self.file.statistics(self.statistics());
        let summary = RecorderSummary {
            stop_reason: StopReason::Snapshot,
            recorder_cpu_ns: cpu_time().saturating_sub(self.file.cpu).as_nanos() as u64,
            kernel_program_ns: program_time(&statistics),
            recorder_peak_bytes: peak_memory(),
            statistics,
            missing: self.missing.clone(),
            refused_tables: self.refused_tables.all(),
            ..RecorderSummary::default()
        };
        let lost = self.file.losses(&self.losses());
        SnapshotParts {
            at: ticks_now(self.clock_source),
            buffer: buffer.snapshot(last),
            session: self.present_session(),
            summary,
            losses: losses_since(&lost, self.history.lost_before(since)),
            stacks: self.history.stacks.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use crate::unwind::StackCopy;
    use syscollect_model::{Lane, LaneKind};

    #[test]
    fn snapshot_after_snapshot_keeps_no_more_stacks_than_there_may_be() {
        let mut history = SnapshotHistory::default();
        let lane = Lane::new(LaneKind::SampleStack, 0);
        for batch in 0..100 {
            let ids = batch * 100..(batch + 1) * 100;
            history
                .keep_stacks(ids.map(|id| ((lane, id), Arc::new(StackCopy::default()))).collect());
            assert!(history.stacks.len() <= STACKS_MAX);
        }
        assert!(history.stacks.contains_key(&(lane, 9_999)), "the newest are there");
    }
}
