//! What the tests of decoders need: an exporter that keeps events, a clock that is easy to read.

use crate::any_exporter::Stopped;
use syscollect_model::{ClockMap, ClockPair, Event, Exporter, Tables, Ticks, Time};

/// An exporter that keeps all events with their times.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KeptEvents {
    /// In the order in which they were told.
    pub events: Vec<(Time, Event)>,
}

impl Exporter for KeptEvents {
    type Error = Stopped;

    fn event(&mut self, time: Time, event: &Event, _: &Tables) -> Result<(), Stopped> {
        self.events.push((time, event.clone()));
        Ok(())
    }
}

/// A clock of which a tick is a nanosecond, of all times.
///
/// # Panics
///
/// Never: its readings are in order.
pub fn nanosecond_clock() -> ClockMap {
    let readings = [0, 1_000_000].map(|ns| ClockPair {
        ticks: Ticks(ns),
        monotonic: ns,
        monotonic_raw: ns,
        boottime: ns,
        realtime: ns,
        uncertainty: 0,
    });
    ClockMap::new(readings.to_vec()).expect("readings are in order")
}
