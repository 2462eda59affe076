//! Clocks of the GPU and of the host, read together.
#![cfg_attr(
    not(any(feature = "ash", feature = "glow", feature = "opencl3")),
    allow(dead_code, reason = "no interface reads clocks")
)]

use std::ops::RangeInclusive;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use syscollect_usdt_client::gpu::{GpuContext, HostTime};
use syscollect_usdt_client::{enabled, ticks};

/// How often both clocks are read to find two readings that are close to each other: the thread
/// may be interrupted between them.
const TRIES: usize = 8;
/// From one calibration to the next. Short at first, so that a recording of a moment has two: the
/// clock's rate is known by two.
const INTERVAL: RangeInclusive<Duration> = Duration::from_millis(50)..=Duration::from_secs(1);

/// A GPU's clock and the host's, at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockReading {
    /// The host's.
    pub host: HostTime,
    /// The GPU's, in its ticks.
    pub gpu: u64,
    /// How far the two may lie apart, nanoseconds.
    pub deviation: u64,
}

/// The best of several readings; `None` where there is none.
pub(crate) fn closest(mut read: impl FnMut() -> Option<ClockReading>) -> Option<ClockReading> {
    (0..TRIES).filter_map(|_| read()).min_by_key(|reading| reading.deviation)
}

/// Reads a GPU's clock between two readings of the host's: it was in the middle, or up to half of
/// the time before or after.
pub(crate) fn between(read: impl FnOnce() -> Option<u64>) -> Option<ClockReading> {
    // Around the ticks, so that what they lie apart is never more than this says.
    let started = Instant::now();
    let before = ticks();
    let gpu = read()?;
    let after = ticks();
    let passed = started.elapsed().as_nanos() as u64;
    let host = HostTime::Ticks(before + after.saturating_sub(before) / 2);
    Some(ClockReading { host, gpu, deviation: passed.div_ceil(2) })
}

/// When the clocks of a context are read next.
#[derive(Debug, Default)]
pub(crate) struct CalibrationTimer {
    /// When they were read first since somebody records.
    first: AtomicU64,
    /// 0 is at once.
    next: AtomicU64,
}

impl CalibrationTimer {
    /// Reads the clocks and tells of them where it is time to, and somebody records.
    pub(crate) fn calibrate(
        &self,
        context: &GpuContext,
        read: impl FnOnce() -> Option<ClockReading>,
    ) {
        if !enabled() {
            // Who records next knows nothing of what was told before.
            self.next.store(0, Ordering::Relaxed);
        } else if self.is_due(now())
            && let Some(ClockReading { host, gpu, deviation }) = read()
        {
            context.calibrate(host, gpu, deviation);
        }
    }

    /// Whether it is time; to one thread only.
    fn is_due(&self, now: u64) -> bool {
        let next = self.next.load(Ordering::Relaxed);
        let first = if next == 0 { now } else { self.first.load(Ordering::Relaxed) };
        let [shortest, longest] = [INTERVAL.start(), INTERVAL.end()].map(|it| it.as_nanos() as u64);
        let later = now + now.saturating_sub(first).clamp(shortest, longest);
        let (set, failed) = (Ordering::Relaxed, Ordering::Relaxed);
        let due = now >= next && self.next.compare_exchange(next, later, set, failed).is_ok();
        if due {
            self.first.store(first, Ordering::Relaxed);
        }
        due
    }
}

/// Nanoseconds from the first call on.
fn now() -> u64 {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    FIRST.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(deviation: u64) -> Option<ClockReading> {
        Some(ClockReading { host: HostTime::Monotonic(0), gpu: 0, deviation })
    }

    #[test]
    fn the_closest_of_several_readings_counts_and_failed_ones_do_not() {
        let mut deviations = [Some(900), None, Some(40), Some(70)].into_iter().cycle();
        let best = closest(|| reading(deviations.next()??));
        assert_eq!(best, reading(40));
        assert_eq!(closest(|| None), None);
    }

    #[test]
    fn a_reading_between_two_says_how_far_it_may_be_off() {
        let mut middle = 0;
        let reading = between(|| {
            std::thread::sleep(Duration::from_millis(2));
            middle = ticks();
            std::thread::sleep(Duration::from_millis(2));
            Some(7)
        })
        .expect("a reading");
        assert_eq!(reading.gpu, 7);
        assert!(reading.deviation >= 2_000_000);
        let HostTime::Ticks(host) = reading.host else { panic!("{reading:?}") };
        let (ticks_before, before) = (ticks(), Instant::now());
        std::thread::sleep(Duration::from_millis(20));
        let rate = (ticks() - ticks_before) as f64 / before.elapsed().as_nanos() as f64;
        assert!(host.abs_diff(middle) as f64 / rate <= reading.deviation as f64 * 1.05);
        assert_eq!(between(|| None), None);
    }

    #[test]
    fn clocks_are_read_at_once_and_soon_again_and_then_once_a_second() {
        let timer = CalibrationTimer::default();
        let due: Vec<u64> =
            (0..70).map(|step| step * 50).filter(|now| timer.is_due(*now * 1_000_000)).collect();
        assert_eq!(due, [0, 50, 100, 200, 400, 800, 1_600, 2_600]);
        timer.next.store(0, Ordering::Relaxed);
        let again: Vec<u64> =
            (70..80).map(|step| step * 50).filter(|now| timer.is_due(*now * 1_000_000)).collect();
        assert_eq!(again, [3_500, 3_550, 3_600, 3_700, 3_900]);
    }
}
