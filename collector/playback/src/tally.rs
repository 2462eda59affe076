//! What was played, counted.

use crate::event_tally::EventTally;
use crate::recording::Played;

/// Counts while a recording is played.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// What occurred in the part that is played.
    pub events: EventTally,
    /// All that was decoded.
    pub records: u64,
    /// Events whose stack is lost.
    pub missing_stacks: u64,
    /// Ends of what nothing began.
    pub unmatched_ends: u64,
}

impl Tally {
    /// What was counted of what was played.
    pub(crate) fn played(&self) -> Played {
        let &Self { records, missing_stacks, unmatched_ends, .. } = self;
        Played { records, missing_stacks, unmatched_ends, ..self.events.played() }
    }
}
