//! A GPU's clock in a recording that goes on, of which more becomes known while zones are told.

use super::clock::{ClockFit, ClockReading, GpuClock, TickFormat, WorkBounds};
use std::borrow::Cow;

/// Readings of both clocks that are kept.
const MOST_READINGS: usize = 64;
/// How long work is looked at for a clock that nobody reads, seconds of the host: twice that at
/// most, for the clock drifts.
const FIT_SECONDS: f64 = 10.0;

/// What is known so far: readings, or what goes for them.
#[derive(Debug)]
pub(super) struct LiveGpuClock {
    format: TickFormat,
    fit_ticks: u64,
    calibrated: Option<GpuClock>,
    /// By work, where nobody has read the clocks: the older one is used.
    older_fit: Option<ClockFit>,
    newer_fit: Option<ClockFit>,
}

impl LiveGpuClock {
    /// Nothing is known yet.
    pub(super) fn new(format: TickFormat, ticks_per_second: f64) -> Self {
        let fit_ticks = (FIT_SECONDS * ticks_per_second) as u64;
        Self { format, fit_ticks, calibrated: None, older_fit: None, newer_fit: None }
    }

    /// Both clocks were read; whether that makes sense.
    pub(super) fn read(&mut self, reading: ClockReading) -> bool {
        if let Some(clock) = &mut self.calibrated {
            return clock.read(reading, MOST_READINGS);
        }
        self.calibrated = GpuClock::calibrated(self.format, vec![reading]);
        (self.older_fit, self.newer_fit) = (None, None);
        true
    }

    /// Work was done.
    pub(super) fn learn(&mut self, work: WorkBounds) {
        if self.calibrated.is_some() {
            return;
        }
        self.older_fit.iter_mut().for_each(|fit| fit.add(work));
        let newer = self.newer_fit.get_or_insert_with(|| ClockFit::new(self.format, work));
        newer.add(work);
        if newer.passed >= self.fit_ticks {
            self.older_fit = self.newer_fit.take();
        }
    }

    /// The clock by all that is known; `None` where that is nothing.
    pub(super) fn now(&self) -> Option<Cow<'_, GpuClock>> {
        if let Some(clock) = &self.calibrated {
            return Some(Cow::Borrowed(clock));
        }
        let fit = self.older_fit.as_ref().or(self.newer_fit.as_ref())?;
        Some(Cow::Owned(fit.clock()))
    }
}
