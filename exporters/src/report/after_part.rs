//! What came after the part of a recording that is told of. When a snapshot is taken the kernel is
//! asked who sleeps: of whom nothing else is told up to there has slept since before that part.

use rustc_hash::FxHashSet;
use syscollect_model::{Event, OffCpu, ThreadId};

/// Who did something after the part.
#[derive(Debug, Default)]
pub(super) struct AfterPart {
    active: FxHashSet<ThreadId>,
    /// Records are missing: anybody may have done something.
    has_gap: bool,
}

/// A thread that has slept since before the part, and how.
pub(super) struct StillAsleep {
    pub(super) thread: ThreadId,
    pub(super) off_cpu: OffCpu,
}

impl AfterPart {
    /// Takes note of an event; who it shows to have done nothing since the part, if it does.
    pub(super) fn event(&mut self, event: &Event) -> Option<StillAsleep> {
        match event {
            Event::Switch(switch) => {
                self.active.extend(switch.previous);
                self.active.insert(switch.next);
            }
            Event::Wakeup(wakeup) => {
                self.active.insert(wakeup.wakee);
            }
            Event::ThreadStart(thread) | Event::ThreadEnd(thread) => {
                self.active.insert(*thread);
            }
            Event::Sample(sample) => {
                self.active.insert(sample.thread);
            }
            Event::Loss(loss) => self.has_gap |= loss.scheduling_gap().is_some(),
            Event::Asleep(thread, off_cpu) if !self.has_gap && !self.active.contains(thread) => {
                return Some(StillAsleep { thread: *thread, off_cpu: *off_cpu });
            }
            _ => {}
        }
        None
    }
}
