//! What was played, counted.

use syscollect_playback::{EventTally, Played};

/// Counts while a session is played.
#[derive(Debug)]
pub(crate) struct Tally {
    /// Of the part that is played.
    pub(crate) events: EventTally,
    /// All that was decoded.
    pub(crate) records: u64,
    /// Events whose stack is lost.
    pub(crate) missing_stacks: u64,
    /// Ends of what nothing began.
    pub(crate) unmatched: u64,
}

impl Tally {
    /// So many records were decoded before.
    pub(crate) fn new(records: u64) -> Self {
        Self { events: EventTally::default(), records, missing_stacks: 0, unmatched: 0 }
    }

    /// What was played; who knows the losses adds them.
    pub(crate) fn played(&self) -> Played {
        Played {
            records: self.records,
            missing_stacks: self.missing_stacks,
            unmatched_ends: self.unmatched,
            ..self.events.played()
        }
    }
}
