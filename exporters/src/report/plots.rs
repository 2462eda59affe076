//! Values of counters: of programs (plots) and of the machine.

use super::capped::Capped;
use syscollect_model::TrackId;

/// Counters that are told apart.
const MAX_PLOTS: usize = 1 << 14;

/// The values of one counter.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Plot {
    pub(super) count: u64,
    pub(super) least: f64,
    pub(super) mean: f64,
    pub(super) most: f64,
    pub(super) last: f64,
}

impl Plot {
    /// Another value. Those that are no number are left out.
    fn add(&mut self, value: f64) {
        if !value.is_finite() {
            return;
        }
        if self.count == 0 {
            (self.least, self.most) = (value, value);
        }
        self.count += 1;
        let count = self.count as f64;
        // Two divisions, so that the largest values do not overflow.
        self.mean += value / count - self.mean / count;
        (self.least, self.most, self.last) = (self.least.min(value), self.most.max(value), value);
    }
}

/// All counters.
#[derive(Debug)]
pub(super) struct Plots {
    pub(super) rows: Capped<TrackId, Plot>,
}

impl Default for Plots {
    fn default() -> Self {
        Self { rows: Capped::new(MAX_PLOTS) }
    }
}

impl Plots {
    #[inline]
    pub(super) fn add(&mut self, track: TrackId, value: f64) {
        self.rows.row(track).add(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_of_the_largest_numbers_is_a_number() {
        let mut plot = Plot::default();
        [f64::MAX, f64::MAX, -f64::MAX, f64::NAN, f64::INFINITY]
            .into_iter()
            .for_each(|value| plot.add(value));
        assert!(plot.mean.is_finite() && plot.count == 3);
        assert_eq!((plot.least, plot.most, plot.last), (-f64::MAX, f64::MAX, -f64::MAX));
    }

    #[test]
    fn the_mean_is_of_the_values_whatever_time_they_last() {
        let mut plot = Plot::default();
        [1.0, 2.0, 6.0].into_iter().for_each(|value| plot.add(value));
        assert_eq!(
            (plot.least, plot.mean, plot.most, plot.last, plot.count),
            (1.0, 3.0, 6.0, 6.0, 3)
        );
    }
}
