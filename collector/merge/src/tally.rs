//! What was played, counted.

use std::collections::BTreeMap;
use syscollect_model::Time;
use syscollect_playback::{EventType, Played};

/// Counts while a session is played.
#[derive(Debug)]
pub(crate) struct Tally {
    /// By type, of the part that is played.
    events: [u64; EventType::ALL.len()],
    /// All that was decoded.
    pub(crate) records: u64,
    /// Events whose stack is lost.
    pub(crate) missing_stacks: u64,
    /// Ends of what nothing began.
    pub(crate) unmatched: u64,
    first: Option<Time>,
    last: Time,
}

impl Tally {
    /// So many records were decoded before.
    pub(crate) fn new(records: u64) -> Self {
        let events = [0; EventType::ALL.len()];
        Self { events, records, missing_stacks: 0, unmatched: 0, first: None, last: Time(0) }
    }

    /// Something happened in the part that is played; `now` never falls.
    #[inline]
    pub(crate) fn occurred(&mut self, event: EventType, now: Time) {
        self.first.get_or_insert(now);
        self.last = now;
        self.events[event as usize] += 1;
    }

    /// What was played; who knows the losses adds them.
    pub(crate) fn played(&self) -> Played {
        let counts = EventType::ALL.into_iter().zip(self.events);
        let events_by_type: BTreeMap<_, _> = counts.filter(|(_, count)| *count > 0).collect();
        Played {
            records: self.records,
            events: events_by_type.values().sum(),
            events_by_type,
            first: self.first,
            last: self.first.map(|_| self.last),
            missing_stacks: self.missing_stacks,
            unmatched_ends: self.unmatched,
            ..Played::default()
        }
    }
}
