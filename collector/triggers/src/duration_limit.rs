//! Whether something took longer than it may: fixed, or by what it usually takes.

use crate::cause::DurationLimit;
use hdrhistogram::Histogram;
use std::collections::VecDeque;

/// The last minute, in parts.
const PARTS: usize = 6;
const PART_SECONDS: f64 = 10.0;
/// Of fewer it is not known what they usually take.
const LEAST: u64 = 100;
/// The percentile is looked up again no more often than so.
const LOOK_UP_SECONDS: f64 = 1.0;

/// What may be taken: ticks.
#[derive(Debug)]
pub(crate) enum TicksLimit {
    Fixed(u64),
    Usual(Box<UsualDurations>),
}

impl TicksLimit {
    pub(crate) fn new(limit: DurationLimit, ticks_per_second: f64) -> Self {
        match limit {
            DurationLimit::Fixed(duration) => {
                Self::Fixed((duration.as_secs_f64() * ticks_per_second) as u64)
            }
            DurationLimit::Percentile { factor, percentile } => {
                let usual = UsualDurations {
                    factor,
                    percentile,
                    part: (PART_SECONDS * ticks_per_second) as u64,
                    look_up: (LOOK_UP_SECONDS * ticks_per_second) as u64,
                    parts: VecDeque::new(),
                    limit: None,
                    looked_up: 0,
                };
                Self::Usual(Box::new(usual))
            }
        }
    }

    /// Something took that long, and ended then. Whether that is too long.
    pub(crate) fn is_exceeded(&mut self, took: u64, at: u64) -> bool {
        match self {
            Self::Fixed(limit) => took > *limit,
            Self::Usual(usual) => usual.is_exceeded(took, at),
        }
    }
}

/// How long something took in the last minute.
#[derive(Debug)]
pub(crate) struct UsualDurations {
    factor: f64,
    percentile: f64,
    /// Ticks of a part, and between two looks.
    part: u64,
    look_up: u64,
    /// When each began, the oldest first.
    parts: VecDeque<(u64, Histogram<u32>)>,
    limit: Option<u64>,
    looked_up: u64,
}

impl UsualDurations {
    fn is_exceeded(&mut self, took: u64, at: u64) -> bool {
        if at >= self.looked_up.saturating_add(self.look_up) {
            self.look_up_limit(at);
        }
        let is_exceeded = self.limit.is_some_and(|limit| took > limit);
        self.add(took, at);
        is_exceeded
    }

    fn add(&mut self, took: u64, at: u64) {
        let is_over = |(began, _): &(u64, _)| at >= began.saturating_add(self.part);
        if self.parts.back().is_none_or(is_over) {
            // Two digits: a bucket is at most a hundredth of its value wide.
            let Ok(histogram) = Histogram::new(2) else { return };
            self.parts.push_back((at, histogram));
        }
        if let Some((_, histogram)) = self.parts.back_mut() {
            // It grows with the largest, up to what no duration is: there is nothing to refuse.
            let _ = histogram.record(took.clamp(1, 1 << 60));
        }
        while self.parts.len() > PARTS {
            self.parts.pop_front();
        }
    }

    fn look_up_limit(&mut self, at: u64) {
        self.looked_up = at;
        let minute = self.part.saturating_mul(PARTS as u64);
        self.parts.retain(|(began, _)| at.saturating_sub(*began) <= minute);
        self.limit = None;
        let Ok(mut all) = Histogram::<u32>::new(2) else { return };
        all.auto(true);
        for (_, part) in &self.parts {
            let _ = all.add(part);
        }
        if all.len() >= LEAST {
            let usual = all.value_at_percentile(self.percentile);
            self.limit = Some((usual as f64 * self.factor) as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// A tick is a millisecond.
    fn limit(limit: DurationLimit) -> TicksLimit {
        TicksLimit::new(limit, 1000.0)
    }

    #[test]
    fn a_fixed_limit_is_exceeded_by_what_is_longer() {
        let mut fixed = limit(DurationLimit::Fixed(Duration::from_millis(20)));
        assert_eq!([19, 20, 21].map(|took| fixed.is_exceeded(took, 0)), [false, false, true]);
    }

    #[test]
    fn what_is_usual_is_learned_and_forgotten_after_a_minute() {
        let mut usual = limit(DurationLimit::Percentile { factor: 3.0, percentile: 99.0 });
        let mut at = 0;
        let mut takes = |took: u64, times: u32| {
            let exceeded = (0..times).filter(|_| {
                at += 50;
                usual.is_exceeded(took, at)
            });
            exceeded.count()
        };
        assert_eq!(takes(500, 1), 0, "nothing is known yet");
        assert_eq!(takes(10, 199), 0);
        assert_eq!((takes(29, 1), takes(34, 1)), (0, 1));
        // More than a minute of longer ones: they are usual now.
        takes(100, 1500);
        assert_eq!((takes(290, 1), takes(350, 1)), (0, 1));
    }
}
