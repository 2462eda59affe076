//! Ticks, times, and the one place where they meet.

use serde::{Deserialize, Serialize};
use std::ops::Deref;

/// A reading of the machine's tick counter: the invariant TSC, or, where there
/// is none, nanoseconds of CLOCK_MONOTONIC (see [`crate::ClockSource`]).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Ticks(pub u64);

/// A moment of the session's timeline: nanoseconds of CLOCK_BOOTTIME, which
/// goes on during suspend and never jumps.
///
/// Only [`ClockMap`] makes a `Time` out of [`Ticks`].
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Time(pub u64);

/// All clocks of the machine at one moment. Clocks are nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockPair {
    /// The tick counter, in the middle of the bracket around the reading of CLOCK_BOOTTIME. The
    /// other clocks are means of a reading before and one after.
    pub ticks: Ticks,
    /// CLOCK_MONOTONIC.
    pub monotonic: u64,
    /// CLOCK_MONOTONIC_RAW.
    pub monotonic_raw: u64,
    /// CLOCK_BOOTTIME.
    pub boottime: u64,
    /// CLOCK_REALTIME.
    pub realtime: u64,
    /// Half the width of the bracket, ticks: how far `ticks` may be off from `boottime`.
    pub uncertainty: u64,
}

/// Why no clock map could be made.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClockError {
    /// Two readings at least are needed for a rate.
    #[error("the capture holds {0} clock readings, and two are needed to place its events in time")]
    TooFew(usize),
}

/// Converts ticks to time, piece by piece between clock readings.
///
/// The map is monotonic: later ticks never become an earlier time. Before the
/// first and after the last reading the rate of the nearest piece is used.
/// Readings whose ticks or boot time run backwards (a counter that a suspend
/// reset) end the map there: see [`ClockMap::discarded`].
#[derive(Clone, Debug)]
pub struct ClockMap {
    pairs: Vec<ClockPair>,
    discarded: usize,
}

impl ClockMap {
    /// Makes a map of readings in the order they were taken.
    ///
    /// # Errors
    ///
    /// [`ClockError::TooFew`] when fewer than two increasing readings are given.
    pub fn new(readings: Vec<ClockPair>) -> Result<Self, ClockError> {
        let mut map = Self { pairs: Vec::with_capacity(readings.len()), discarded: 0 };
        readings.into_iter().for_each(|reading| map.push(reading));
        if map.pairs.len() < 2 {
            return Err(ClockError::TooFew(map.pairs.len()));
        }
        Ok(map)
    }

    /// Adds a reading that was taken after the others. What lies before the last reading until then
    /// keeps its time.
    pub fn push(&mut self, reading: ClockPair) {
        let grows = self.pairs.last().is_none_or(|last| {
            reading.ticks > last.ticks
                && reading.boottime > last.boottime
                && reading.monotonic_raw > last.monotonic_raw
        });
        if grows {
            self.pairs.push(reading);
        } else {
            self.discarded += 1;
        }
    }

    /// Forgets the earlier readings where there are more than so many: at least half of them stay.
    /// What lies before those is converted by their rate from then on.
    pub fn forget_beyond(&mut self, most: usize) {
        if self.pairs.len() > most.max(4) {
            self.pairs.drain(..self.pairs.len() - most.max(4) / 2);
        }
    }

    /// The same, with all times of sessions later by so many nanoseconds: as another machine counts
    /// them, which was started earlier by that. The last reading comes as late as there are times.
    #[must_use]
    pub fn ahead_by(mut self, nanoseconds: u64) -> Self {
        let most = self.pairs.last().map_or(0, |last| u64::MAX - last.boottime);
        for pair in &mut self.pairs {
            pair.boottime += nanoseconds.min(most);
        }
        self
    }

    /// Readings that were left out because they did not grow.
    pub fn discarded(&self) -> usize {
        self.discarded
    }

    /// The readings in use, in order.
    pub fn pairs(&self) -> &[ClockPair] {
        &self.pairs
    }

    /// The time at which the counter showed `ticks`, rounded down to a nanosecond.
    pub fn time(&self, ticks: Ticks) -> Time {
        let [a, b] = self.piece(|pair| pair.ticks.0, ticks.0);
        Time(interpolate(ticks.0, (a.ticks.0, b.ticks.0), (a.boottime, b.boottime)))
    }

    /// Converts many ticks that lie near each other, see [`TimeCursor`].
    pub fn cursor(&self) -> TimeCursor<&Self> {
        TimeCursor::new(self)
    }

    /// The tick count at a time of CLOCK_MONOTONIC_RAW, nanoseconds.
    pub fn ticks_at_monotonic_raw(&self, nanoseconds: u64) -> Ticks {
        let [a, b] = self.piece(|pair| pair.monotonic_raw, nanoseconds);
        Ticks(interpolate(nanoseconds, (a.monotonic_raw, b.monotonic_raw), (a.ticks.0, b.ticks.0)))
    }

    /// The tick count at a time of CLOCK_MONOTONIC, nanoseconds.
    pub fn ticks_at_monotonic(&self, nanoseconds: u64) -> Ticks {
        let [a, b] = self.piece(|pair| pair.monotonic, nanoseconds);
        if a.monotonic >= b.monotonic {
            // A clock that stood still or went back; only damage says so.
            return a.ticks;
        }
        Ticks(interpolate(nanoseconds, (a.monotonic, b.monotonic), (a.ticks.0, b.ticks.0)))
    }

    /// The tick count at a time of the session.
    pub fn ticks_at(&self, time: Time) -> Ticks {
        let [a, b] = self.piece(|pair| pair.boottime, time.0);
        Ticks(interpolate(time.0, (a.boottime, b.boottime), (a.ticks.0, b.ticks.0)))
    }

    /// Ticks per second over the whole map.
    pub fn ticks_per_second(&self) -> f64 {
        let (a, b) = (self.pairs[0], self.pairs[self.pairs.len() - 1]);
        (b.ticks.0 - a.ticks.0) as f64 * 1e9 / (b.monotonic_raw - a.monotonic_raw) as f64
    }

    /// The two neighbouring readings between which (or next to which) `at` lies.
    fn piece(&self, key: impl Fn(&ClockPair) -> u64, at: u64) -> [ClockPair; 2] {
        let after =
            self.pairs.partition_point(|pair| key(pair) <= at).clamp(1, self.pairs.len() - 1);
        [self.pairs[after - 1], self.pairs[after]]
    }
}

/// Converts ticks as [`ClockMap::time`] does, but remembers the piece that the
/// last ones lay in: a few nanoseconds each where events come in order.
#[derive(Clone, Debug)]
pub struct TimeCursor<M> {
    map: M,
    piece: [ClockPair; 2],
}

impl<M: Deref<Target = ClockMap>> TimeCursor<M> {
    /// For the ticks of this map.
    pub fn new(map: M) -> Self {
        Self { piece: [map.pairs[0], map.pairs[1]], map }
    }

    /// What is converted by.
    pub fn map(&self) -> &M {
        &self.map
    }

    /// The same as [`ClockMap::time`].
    #[inline]
    pub fn time(&mut self, ticks: Ticks) -> Time {
        let [a, b] = &self.piece;
        if ticks < a.ticks || ticks >= b.ticks {
            return self.elsewhere(ticks);
        }
        let (run, rise) = (b.ticks.0 - a.ticks.0, b.boottime - a.boottime);
        match (ticks.0 - a.ticks.0).checked_mul(rise) {
            Some(product) => Time(a.boottime + product / run),
            None => self.map.time(ticks),
        }
    }

    #[cold]
    fn elsewhere(&mut self, ticks: Ticks) -> Time {
        self.piece = self.map.piece(|pair| pair.ticks.0, ticks.0);
        self.map.time(ticks)
    }
}

/// The value at `x` on the line through (x0, y0) and (x1, y1), rounded down,
/// limited to what a `u64` holds. `x1 > x0` and `y1 > y0`.
fn interpolate(x: u64, (x0, x1): (u64, u64), (y0, y1): (u64, u64)) -> u64 {
    let distance = i128::from(x) - i128::from(x0);
    let y = i128::from(y0) + (distance * i128::from(y1 - y0)).div_euclid(i128::from(x1 - x0));
    y.clamp(0, i128::from(u64::MAX)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pair(ticks: u64, nanoseconds: u64) -> ClockPair {
        ClockPair {
            ticks: Ticks(ticks),
            monotonic: nanoseconds,
            monotonic_raw: nanoseconds,
            boottime: nanoseconds,
            realtime: nanoseconds,
            uncertainty: 0,
        }
    }

    #[test]
    fn times_of_another_machine_keep_their_distances_however_far_it_is_ahead() {
        assert_eq!(times(short_map().ahead_by(7)), [1_007, 1_507, 2_007]);
        let last = u64::MAX;
        assert_eq!(times(short_map().ahead_by(u64::MAX)), [last - 1_000, last - 500, last]);
    }

    fn short_map() -> ClockMap {
        ClockMap::new(vec![pair(0, 1_000), pair(10, 2_000)]).unwrap()
    }

    #[test]
    fn early_readings_may_be_forgotten_and_what_follows_keeps_its_time() {
        let readings: Vec<_> = (0..100).map(|at| pair(at * 10, at * (10 + at))).collect();
        let (mut map, whole) =
            (ClockMap::new(readings.clone()).unwrap(), ClockMap::new(readings).unwrap());
        map.forget_beyond(100);
        assert_eq!(map.pairs().len(), 100);
        map.forget_beyond(20);
        assert_eq!(map.pairs().len(), 10);
        assert!((900..1000).all(|at| map.time(Ticks(at)) == whole.time(Ticks(at))));
        map.forget_beyond(0);
        assert_eq!(map.pairs().len(), 2, "a rate stays");
    }

    fn times(map: ClockMap) -> [u64; 3] {
        [0, 5, 10].map(|ticks| map.time(Ticks(ticks)).0)
    }

    #[test]
    fn a_rate_that_changes_is_followed_piece_by_piece() {
        let clock =
            ClockMap::new(vec![pair(100, 1_000), pair(200, 1_100), pair(300, 1_300)]).unwrap();
        assert_eq!(clock.time(Ticks(150)), Time(1_050));
        assert_eq!(clock.time(Ticks(250)), Time(1_200));
        assert_eq!(clock.time(Ticks(50)), Time(950), "before the first reading its rate goes on");
        assert_eq!(clock.time(Ticks(400)), Time(1_500), "and after the last reading that one's");
        assert_eq!(clock.ticks_at_monotonic_raw(1_200), Ticks(250));
    }

    #[test]
    fn one_reading_gives_no_rate() {
        assert_eq!(ClockMap::new(vec![pair(1, 1)]).unwrap_err(), ClockError::TooFew(1));
        assert_eq!(ClockMap::new(vec![pair(1, 1), pair(1, 2)]).unwrap_err(), ClockError::TooFew(1));
    }

    proptest! {
        #[test]
        fn later_ticks_are_never_an_earlier_time(
            steps in prop::collection::vec((1u64..1 << 40, 1u64..1 << 40), 2..20), mut queries in prop::collection::vec(any::<u64>(), 2..50),
        ) {
            let mut at = (0, 0);
            let pairs = steps
                .into_iter()
                .map(|(t, n)| {
                    at = (at.0 + t, at.1 + n);
                    pair(at.0, at.1)
                })
                .collect();
            let clock = ClockMap::new(pairs).unwrap();
            queries.sort_unstable();
            for two in queries.windows(2) {
                prop_assert!(clock.time(Ticks(two[0])) <= clock.time(Ticks(two[1])));
            }
            let mut cursor = clock.cursor();
            let near = clock
                .pairs()
                .iter()
                .flat_map(|pair| (0..3).map(move |by| pair.ticks.0 + by * 1000));
            for ticks in queries.iter().copied().chain(near).map(Ticks) {
                prop_assert_eq!(cursor.time(ticks), clock.time(ticks));
            }
        }
    }
}
