//! What occurred, counted.

use crate::event_type::EventType;
use crate::recording::Played;
use std::collections::BTreeMap;
use syscollect_model::Time;

/// Counts what occurs in the part of a recording that is played.
#[derive(Clone, Debug)]
pub struct EventTally {
    /// By type.
    counts: [u64; EventType::ALL.len()],
    first: Option<Time>,
    last: Time,
}

impl Default for EventTally {
    fn default() -> Self {
        Self { counts: [0; EventType::ALL.len()], first: None, last: Time(0) }
    }
}

impl EventTally {
    /// Something occurred in that part; `now` never falls.
    #[inline]
    pub fn occurred(&mut self, event: EventType, now: Time) {
        self.counts[event as usize] += 1;
        self.first.get_or_insert(now);
        self.last = now;
    }

    /// What was played, as far as occurrences tell.
    pub fn played(&self) -> Played {
        let counts = EventType::ALL.into_iter().zip(self.counts);
        let events_by_type: BTreeMap<_, _> = counts.filter(|(_, count)| *count > 0).collect();
        Played {
            events: events_by_type.values().sum(),
            events_by_type,
            first: self.first,
            last: self.first.map(|_| self.last),
            ..Played::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_that_did_not_occur_are_not_there() {
        let mut tally = EventTally::default();
        assert_eq!(tally.played(), Played::default());
        for now in [3, 5] {
            tally.occurred(EventType::Sample, Time(now));
        }
        let played = tally.played();
        assert_eq!(played.events_by_type, [(EventType::Sample, 2)].into());
        assert_eq!((played.first, played.last), (Some(Time(3)), Some(Time(5))));
    }
}
