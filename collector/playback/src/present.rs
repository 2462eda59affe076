//! The present of a recording that is played.

use std::sync::Arc;
use syscollect_model::{ClockMap, Ticks, Time, TimeCursor};

/// The present: the ticks of the item that is played, and its time.
#[derive(Clone, Debug)]
pub struct Present {
    clock: TimeCursor<Arc<ClockMap>>,
    now: Time,
    ticks: u64,
}

impl Present {
    /// Before anything was played.
    pub fn new(clock: Arc<ClockMap>) -> Self {
        Self { clock: TimeCursor::new(clock), now: Time(0), ticks: 0 }
    }

    /// How ticks become times.
    pub fn map(&self) -> &Arc<ClockMap> {
        self.clock.map()
    }

    /// Another reading of the clocks is known, behind all that was played.
    pub fn set_clock(&mut self, clock: Arc<ClockMap>) {
        self.clock = TimeCursor::new(clock);
    }

    /// The time of any ticks. The very last moment lies behind the end of every range of time.
    #[inline]
    pub fn time(&mut self, ticks: Ticks) -> Time {
        self.clock.time(ticks).min(Time(u64::MAX - 1))
    }

    /// The time of the present item; it never falls.
    #[inline]
    pub fn now(&self) -> Time {
        self.now
    }

    /// Ticks of the present item, which may step back a little.
    #[inline]
    pub fn ticks(&self) -> u64 {
        self.ticks
    }

    /// Moves the present to `ticks`.
    #[inline]
    pub fn advance(&mut self, ticks: u64) {
        self.ticks = ticks;
        self.now = self.now.max(self.time(Ticks(ticks)));
    }

    /// What comes from now on happens at this time or later.
    pub fn not_before(&mut self, time: Time) {
        self.now = self.now.max(time);
    }
}
