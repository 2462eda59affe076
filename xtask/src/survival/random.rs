//! Random numbers that a seed brings back: splitmix64 (Steele, Lea, Flood 2014).

use std::time::Duration;

/// A sequence of random numbers.
pub(super) struct Random(u64);

impl Random {
    /// The sequence of this seed.
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is not 0.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// One of several.
    pub(super) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    /// A time shorter than `end`.
    pub(super) fn shorter_than(&mut self, end: Duration) -> Duration {
        Duration::from_micros(self.below(end.as_micros() as u64))
    }

    /// A number of `from` to `to`, each of its sizes (twice, four times ...) as likely as the next.
    pub(super) fn of_any_size(&mut self, from: u64, to: u64) -> u64 {
        let (low, high) = ((from as f64).ln(), (to as f64).ln());
        let part = self.below(1 << 32) as f64 / (1u64 << 32) as f64;
        (low + part * (high - low)).exp() as u64
    }
}
