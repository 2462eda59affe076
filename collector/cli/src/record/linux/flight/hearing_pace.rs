//! How fast requests are heard.
//!
//! Whoever may write to the socket may do so without end, and each message is looked at before it
//! is refused: at full speed that took half of a CPU. What is heard is paid for in units, of which
//! there are so many each millisecond; who has none left sleeps. Messages wait in the kernel
//! meanwhile, which has a bound for them and makes senders wait.

use std::time::{Duration, Instant};

/// Units each millisecond; and what may be spent at once, as of many scripts that ask together.
const PER_MILLISECOND: u32 = 12;
const AT_ONCE: u32 = 256;
/// What a message costs besides its descriptors, each of which costs one.
const MESSAGE: u32 = 2;

/// What was spent and not yet paid for.
#[derive(Clone, Copy, Debug)]
pub(super) struct HearingPace {
    debt: u32,
    since: Instant,
}

impl HearingPace {
    pub(super) fn new() -> Self {
        Self { debt: 0, since: Instant::now() }
    }

    /// A message with so many descriptors was heard; how long to sleep before the next.
    pub(super) fn heard(&mut self, descriptors: usize, now: Instant) -> Duration {
        let passed = now.saturating_duration_since(self.since).as_millis();
        let passed = u32::try_from(passed).unwrap_or(u32::MAX);
        self.since += Duration::from_millis(passed.into());
        let paid = passed.saturating_mul(PER_MILLISECOND);
        let cost = MESSAGE + u32::try_from(descriptors).unwrap_or(u32::MAX - MESSAGE);
        self.debt = self.debt.saturating_sub(paid).saturating_add(cost);
        let beyond = self.debt.saturating_sub(AT_ONCE);
        Duration::from_millis(u64::from(beyond.div_ceil(PER_MILLISECOND)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_are_heard_at_once_and_a_flood_at_a_pace_that_descriptors_slow_down() {
        for (descriptors, most) in [(2, 3_100), (0, 6_100), (253, 50)] {
            let mut now = Instant::now();
            let mut pace = HearingPace { debt: 0, since: now };
            assert_eq!(pace.heard(2, now), Duration::ZERO);
            let end = now + Duration::from_secs(10);
            let mut heard = 0;
            while now < end {
                now += pace.heard(descriptors, now) + Duration::from_micros(20);
                heard += 1;
            }
            assert!((most * 9..=most * 10).contains(&heard), "{heard} with {descriptors}");
            // Who comes later does not wait for it.
            now += Duration::from_secs(1);
            assert!((0..60).all(|_| pace.heard(2, now) == Duration::ZERO));
        }
    }
}
