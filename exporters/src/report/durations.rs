//! How long things took: exact sums, and percentiles of bounded memory.

use super::data::{Bucket, Distribution};
use hdrhistogram::Histogram;

/// Longer durations count as this long (13 days).
const LONGEST: u64 = 1 << 50;

/// All of these together, nanoseconds. Of a hostile recording one may last for centuries.
pub(super) fn sum_ns(durations: impl IntoIterator<Item = u64>) -> u64 {
    durations.into_iter().fold(0, u64::saturating_add)
}

/// The durations of one kind of thing, nanoseconds.
///
/// Count, total, mean, least and most are exact; percentiles come from a
/// histogram with a relative error below 10^-digits.
#[derive(Debug)]
pub(super) struct Durations {
    histogram: Histogram<u64>,
    total: u64,
    least: u64,
    most: u64,
    /// By the number of significant bits: bucket n holds 2^(n-1) to 2^n - 1.
    powers: [u64; 65],
}

impl Durations {
    /// Of this precision, decimal digits.
    ///
    /// Memory of each: 2 digits at most 42 kB, 3 digits at most 330 kB.
    pub(super) fn new(digits: u8) -> Self {
        // The one error is a number of digits beyond 5.
        let histogram =
            Histogram::new(digits.min(5)).unwrap_or_else(|_| unreachable!("5 digits at most"));
        Self { histogram, total: 0, least: u64::MAX, most: 0, powers: [0; 65] }
    }

    #[inline]
    pub(super) fn add(&mut self, nanoseconds: u64) {
        // It grows as needed up to the longest, so this cannot fail.
        let _ = self.histogram.record(nanoseconds.min(LONGEST));
        self.total = self.total.saturating_add(nanoseconds);
        self.least = self.least.min(nanoseconds);
        self.most = self.most.max(nanoseconds);
        self.powers[64 - nanoseconds.leading_zeros() as usize] += 1;
    }

    /// All of `other` too.
    pub(super) fn merge(&mut self, other: &Self) {
        // As above: it grows to the size of the other.
        let _ = self.histogram.add(&other.histogram);
        self.total = self.total.saturating_add(other.total);
        self.least = self.least.min(other.least);
        self.most = self.most.max(other.most);
        self.powers.iter_mut().zip(other.powers).for_each(|(mine, its)| *mine += its);
    }

    pub(super) fn distribution(&self) -> Distribution {
        let count = self.histogram.len();
        if count == 0 {
            return Distribution::default();
        }
        Distribution {
            count,
            total_ns: self.total,
            mean_ns: self.total / count,
            min_ns: self.least,
            p50_ns: self.quantile(0.5),
            p90_ns: self.quantile(0.9),
            p99_ns: self.quantile(0.99),
            p999_ns: self.quantile(0.999),
            max_ns: self.most,
        }
    }

    fn quantile(&self, q: f64) -> u64 {
        let value = self.histogram.median_equivalent(self.histogram.value_at_quantile(q));
        value.clamp(self.least, self.most)
    }

    /// The histogram by powers of two, from the first to the last that is not empty.
    pub(super) fn buckets(&self) -> Vec<Bucket> {
        let Some(first) = self.powers.iter().position(|count| *count > 0) else {
            return Vec::new();
        };
        let last = self.powers.iter().rposition(|count| *count > 0).unwrap_or(first);
        (first..=last)
            .map(|bits| Bucket {
                from_ns: bits.checked_sub(1).map_or(0, upper_bound),
                to_ns: upper_bound(bits),
                count: self.powers[bits],
            })
            .collect()
    }
}

fn upper_bound(bits: usize) -> u64 {
    if bits >= 64 { u64::MAX } else { 1 << bits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn centuries_together_are_the_longest_time_there_is() {
        assert_eq!(sum_ns([3, 4]), 7);
        assert_eq!(sum_ns([u64::MAX - 1, 4]), u64::MAX);
    }

    #[test]
    fn sums_are_exact_and_percentiles_near() {
        let mut durations = Durations::new(3);
        (1..=1000).for_each(|n| durations.add(n * 1_000_003));
        let all = durations.distribution();
        assert_eq!((all.count, all.min_ns, all.max_ns), (1000, 1_000_003, 1_000_003_000));
        assert_eq!(all.total_ns, 500_500 * 1_000_003);
        assert_eq!(all.mean_ns, all.total_ns / 1000);
        for (found, exact) in
            [(all.p50_ns, 500e6), (all.p90_ns, 900e6), (all.p99_ns, 990e6), (all.p999_ns, 999e6)]
        {
            assert!((found as f64 / exact - 1.0).abs() < 1e-3, "{found} is not {exact}");
        }
    }

    #[test]
    fn one_duration_is_all_its_percentiles() {
        let mut durations = Durations::new(2);
        durations.add(123_456_789);
        let one = durations.distribution();
        assert_eq!([one.p50_ns, one.p99_ns, one.p999_ns, one.mean_ns], [123_456_789; 4]);
    }

    #[test]
    fn buckets_are_powers_of_two_without_holes() {
        let mut durations = Durations::new(2);
        [0, 1, 4, 7, 8].into_iter().for_each(|n| durations.add(n));
        let expected =
            [bucket(0, 1, 1), bucket(1, 2, 1), bucket(2, 4, 0), bucket(4, 8, 2), bucket(8, 16, 1)];
        assert_eq!(durations.buckets(), expected);
    }

    fn bucket(from_ns: u64, to_ns: u64, count: u64) -> Bucket {
        Bucket { from_ns, to_ns, count }
    }

    #[test]
    fn the_longest_durations_are_taken() {
        let mut durations = Durations::new(3);
        durations.add(u64::MAX);
        durations.add(u64::MAX);
        let all = durations.distribution();
        assert_eq!((all.count, all.max_ns, all.total_ns), (2, u64::MAX, u64::MAX));
        assert_eq!(durations.buckets().len(), 1);
    }

    #[test]
    fn two_may_become_one() {
        let (mut a, mut b, mut both) = (Durations::new(3), Durations::new(3), Durations::new(3));
        (0..100).for_each(|n| [&mut a, &mut both].map(|to| to.add(n)).into_iter().for_each(drop));
        (0..9)
            .for_each(|n| [&mut b, &mut both].map(|to| to.add(n << 30)).into_iter().for_each(drop));
        a.merge(&b);
        assert_eq!(a.distribution(), both.distribution());
        assert_eq!(a.buckets(), both.buckets());
    }
}
