//! The present of a recording that is played.

use std::sync::Arc;
use syscollect_model::{ClockMap, Ticks, Time, TimeCursor};

/// The present: the ticks of the item that is played, and its time.
#[derive(Clone, Debug)]
pub struct Present {
    clock: TimeCursor<Arc<ClockMap>>,
    now: Time,
    /// Of all that was played; now, but for what came late.
    latest: Time,
    ticks: u64,
}

impl Present {
    /// Before anything was played.
    pub fn new(clock: Arc<ClockMap>) -> Self {
        Self { clock: TimeCursor::new(clock), now: Time(0), latest: Time(0), ticks: 0 }
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

    /// The time of the present item; it never falls, but for what [came late](Self::step_back).
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
        self.latest = self.latest.max(self.time(Ticks(ticks)));
        self.now = self.latest;
    }

    /// The present item came late: it has its own time, if that is not before the given one. What
    /// [comes next](Self::advance) is no earlier for that.
    pub fn step_back(&mut self, not_before: Time) {
        self.now = self.time(Ticks(self.ticks)).max(not_before).min(self.latest);
    }

    /// The time of what was played last in order.
    pub fn latest(&self) -> Time {
        self.latest
    }

    /// What follows of the present item is told as if it came now.
    pub fn return_to_latest(&mut self) {
        self.now = self.latest;
    }

    /// What comes from now on happens at this time or later.
    pub fn not_before(&mut self, time: Time) {
        self.latest = self.latest.max(time);
        self.now = self.latest;
    }
}
