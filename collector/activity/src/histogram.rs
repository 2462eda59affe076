//! Durations, counted by their size: little memory, and percentiles that are a little too large at
//! most.

/// A power of two has so many buckets: a value is told to within an eighth.
const PER_OCTAVE_BITS: u32 = 3;
const PER_OCTAVE: u64 = 1 << PER_OCTAVE_BITS;

/// Durations in ticks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// By bucket, up to the last that has any.
    counts: Vec<u32>,
    count: u64,
    longest: u64,
}

impl Histogram {
    /// One more.
    #[inline]
    pub fn add(&mut self, ticks: u64) {
        let bucket = bucket_of(ticks);
        if bucket >= self.counts.len() {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] = self.counts[bucket].saturating_add(1);
        self.count += 1;
        self.longest = self.longest.max(ticks);
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The longest, exactly; 0 where there are none.
    pub fn longest(&self) -> u64 {
        self.longest
    }

    /// What so many of a hundred do not exceed, up to an eighth too large; `None` where there are
    /// none.
    pub fn percentile(&self, percent: f64) -> Option<u64> {
        if self.count == 0 {
            return None;
        }
        let rank = (self.count as f64 * percent / 100.0).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += u64::from(*count);
            if seen >= rank {
                return Some(end_of(bucket).min(self.longest));
            }
        }
        Some(self.longest)
    }

    /// Those of another one, too.
    pub fn merge(&mut self, other: &Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count = count.saturating_add(*more);
        }
        self.count += other.count;
        self.longest = self.longest.max(other.longest);
    }

    /// What it takes beyond itself, bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.counts.capacity() * size_of::<u32>()
    }
}

/// The bucket of a value.
#[inline]
fn bucket_of(value: u64) -> usize {
    if value < PER_OCTAVE {
        return value as usize;
    }
    let octave = value.ilog2() - PER_OCTAVE_BITS;
    (u64::from(octave) * PER_OCTAVE + (value >> octave)) as usize
}

/// The largest value of a bucket.
fn end_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 * PER_OCTAVE {
        return bucket;
    }
    let octave = (bucket / PER_OCTAVE - 1) as u32;
    let first = u128::from(PER_OCTAVE + bucket % PER_OCTAVE) << octave;
    u64::try_from(first + (1 << octave) - 1).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn of_a_hundred_values_the_percentiles_are_the_values_to_an_eighth() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.percentile(50.0), None);
        (1..=100).for_each(|value| histogram.add(value * 1000));
        assert_eq!((histogram.count(), histogram.longest()), (100, 100_000));
        for percent in [1u64, 50, 90, 99, 100] {
            let told = histogram.percentile(percent as f64).expect("it has values");
            let exact = percent * 1000;
            assert!((exact..=exact + exact / 8).contains(&told), "{percent} %: {told}");
        }
    }

    #[test]
    fn two_together_are_as_one_that_had_all_values() {
        let [mut few, mut many, mut all] = [(); 3].map(|()| Histogram::default());
        for value in [3, 70, 900] {
            few.add(value);
            all.add(value);
        }
        for value in [5, 1 << 40, 2] {
            many.add(value);
            all.add(value);
        }
        few.merge(&many);
        assert_eq!(few, all);
    }

    proptest! {
        #[test]
        fn a_value_is_in_a_bucket_that_ends_at_most_an_eighth_later(value: u64) {
            let end = end_of(bucket_of(value));
            prop_assert!(value <= end && end - value <= value / 8, "{} {}", value, end);
            prop_assert!(value == 0 || bucket_of(value - 1) <= bucket_of(value));
        }
    }
}
