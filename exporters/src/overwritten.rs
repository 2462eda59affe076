//! The part of a recording of which `--overwrite` kept nothing.

use syscollect_model::{Event, LaneKind, Loss, LossCause};

/// What `--overwrite` left no events of: the time before the first that was kept. What is told of
/// it are the lives of tasks only, which say of nobody what it did.
///
/// ```
/// use syscollect_exporters::OverwrittenTime;
/// use syscollect_model::{Event, MachineId};
///
/// let mut overwritten = OverwrittenTime::default();
/// let end = Event::RecordingEnd(MachineId::FIRST);
/// assert!(!overwritten.ends_with(&end), "nothing gave way");
/// ```
#[derive(Debug, Default)]
pub struct OverwrittenTime {
    /// Scheduling events gave way.
    of_scheduling: bool,
    /// Samples did.
    of_samples: bool,
    /// The first event was seen that tells what ran.
    over: bool,
}

impl OverwrittenTime {
    /// Whether it ends with this event of the session; to be told of each.
    #[inline]
    pub fn ends_with(&mut self, event: &Event) -> bool {
        if self.over {
            return false;
        }
        self.over = match event {
            Event::Switch(_) | Event::Wakeup(_) => true,
            // The lanes give way one by one: samples may go back further than switches do. But
            // what else is there before the first switch is of no use without it.
            Event::Sample(_) => self.of_samples,
            Event::Loss(loss) => {
                self.loss(loss);
                false
            }
            _ => false,
        };
        self.over && (self.of_scheduling || self.of_samples)
    }

    /// Whether an event was seen of which it is known that it was kept.
    pub fn is_over(&self) -> bool {
        self.over
    }

    fn loss(&mut self, loss: &Loss) {
        if loss.cause == LossCause::Overwritten {
            self.of_scheduling |= loss.scheduling_gap().is_some();
            self.of_samples |= loss.origin == LaneKind::Sample.into();
        }
    }
}
