//! Whether something took longer than it may: fixed, or by what it usually takes.

use crate::cause::DurationLimit;
use hdrhistogram::Histogram;
use std::collections::VecDeque;
use syscollect_model::{duration, grouped};

/// The last minute, in parts.
const PARTS: usize = 6;
const PART_SECONDS: f64 = 10.0;
/// Of fewer it is not known what they usually take.
const LEAST: u64 = 100;
/// The percentile is looked up again no more often than so.
const LOOK_UP_SECONDS: f64 = 1.0;

/// Something that has not ended after so many times of what it may take is reported while it goes
/// on: it may never end. Before, its end is waited for, so that the snapshot has all of it.
const STUCK_FACTOR: u64 = 10;
/// But not before it took this much longer than it may.
const STUCK_SECONDS: f64 = 1.0;

/// What may be taken: ticks.
#[derive(Debug)]
pub(crate) struct TicksLimit {
    kind: LimitKind,
    ticks_per_second: f64,
}

#[derive(Debug)]
enum LimitKind {
    Fixed(u64),
    Usual(Box<UsualDurations>),
}

impl TicksLimit {
    pub(crate) fn new(limit: DurationLimit, ticks_per_second: f64) -> Self {
        let kind = match limit {
            DurationLimit::Fixed(duration) => {
                LimitKind::Fixed((duration.as_secs_f64() * ticks_per_second) as u64)
            }
            DurationLimit::Percentile { factor, percentile, least } => {
                let usual = UsualDurations {
                    factor,
                    percentile,
                    least: (least.as_secs_f64() * ticks_per_second) as u64,
                    part: (PART_SECONDS * ticks_per_second) as u64,
                    look_up: (LOOK_UP_SECONDS * ticks_per_second) as u64,
                    parts: VecDeque::new(),
                    known: 0,
                    limit: None,
                    looked_up: 0,
                };
                LimitKind::Usual(Box::new(usual))
            }
        };
        Self { kind, ticks_per_second }
    }

    /// Something took that long, and ended then. Whether that is too long.
    pub(crate) fn is_exceeded(&mut self, took: u64, at: u64) -> bool {
        match &mut self.kind {
            LimitKind::Fixed(limit) => took > *limit,
            LimitKind::Usual(usual) => usual.is_exceeded(took, at),
        }
    }

    /// When what began then and has not ended is taken for stuck; `None` where it is not known what
    /// is usual.
    pub(crate) fn stuck_at(&self, began: u64) -> Option<u64> {
        let limit = match &self.kind {
            LimitKind::Fixed(limit) => *limit,
            LimitKind::Usual(usual) => usual.limit?,
        };
        let longer = (STUCK_SECONDS * self.ticks_per_second) as u64;
        let stuck = limit.saturating_mul(STUCK_FACTOR).max(limit.saturating_add(longer));
        Some(began.saturating_add(stuck))
    }

    /// What is usual, in words; `None` of a fixed limit.
    pub(crate) fn usual(&self) -> Option<String> {
        let LimitKind::Usual(usual) = &self.kind else { return None };
        Some(match usual.limit {
            Some(limit) => {
                let limit = duration((limit as f64 / self.ticks_per_second * 1e9) as u64);
                format!("that is {limit} now, by {} of the last minute", grouped(usual.known))
            }
            None => format!("{} of {LEAST} that it takes to know what is usual", usual.known),
        })
    }
}

/// How long something took in the last minute.
#[derive(Debug)]
pub(crate) struct UsualDurations {
    factor: f64,
    percentile: f64,
    /// Ticks that may be taken whatever is usual.
    least: u64,
    /// Ticks of a part, and between two looks.
    part: u64,
    look_up: u64,
    /// When each began, the oldest first.
    parts: VecDeque<(u64, Histogram<u32>)>,
    /// How many there were at the last look, and what may be taken by that.
    known: u64,
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
        self.known = all.len();
        if all.len() >= LEAST {
            let usual = all.value_at_percentile(self.percentile);
            self.limit = Some(((usual as f64 * self.factor) as u64).max(self.least));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const USUAL: DurationLimit =
        DurationLimit::Percentile { factor: 3.0, percentile: 99.0, least: Duration::ZERO };

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
    fn what_is_usual_may_be_too_short_to_matter() {
        let least = Duration::from_millis(50);
        let usual = DurationLimit::Percentile { factor: 3.0, percentile: 99.0, least };
        let mut usual = limit(usual);
        (0..200).for_each(|at| assert!(!usual.is_exceeded(1, at * 50)));
        assert_eq!([49, 51].map(|took| usual.is_exceeded(took, 11_000)), [false, true]);
    }

    #[test]
    fn what_does_not_end_is_stuck_after_ten_times_what_it_may_take_and_a_second_more() {
        let stuck = |limited| limit(DurationLimit::Fixed(limited)).stuck_at(100);
        assert_eq!(stuck(Duration::from_secs(1)), Some(10_100));
        assert_eq!(stuck(Duration::from_millis(20)), Some(1_120));
        let usual = limit(USUAL);
        assert_eq!(usual.stuck_at(100), None);
    }

    #[test]
    fn what_is_usual_is_learned_and_forgotten_after_a_minute() {
        let mut usual = limit(USUAL);
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
