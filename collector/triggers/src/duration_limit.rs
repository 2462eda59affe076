//! Whether something took longer than it may: fixed, or by what it usually takes, where what is
//! usual of each user is that user's own.

use crate::cause::DurationLimit;
use crate::payers::{Payer, PayerTable};
use hdrhistogram::Histogram;
use std::cmp::Reverse;
use std::collections::VecDeque;
use syscollect_model::{duration, grouped};

/// The last minute, in parts.
const PARTS: usize = 6;
const PART_SECONDS: f64 = 10.0;
/// Of fewer it is not known what they usually take.
const LEAST: u64 = 100;
/// The percentile is looked up again no more often than so.
const LOOK_UP_SECONDS: f64 = 1.0;
/// Users of whom it is told what is usual.
const MOST_TOLD: usize = 3;
/// The longest that is told apart, ticks: an hour and more. Longer ones would only take memory.
const LONGEST_TICKS: u64 = 1 << 44;

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
    Usual(UsualRule, PayerTable<UsualDurations>),
}

/// What may be taken by what is usual.
#[derive(Clone, Copy, Debug)]
struct UsualRule {
    factor: f64,
    percentile: f64,
    /// Ticks that may be taken whatever is usual.
    least: u64,
    /// Ticks of a part, and between two looks.
    part: u64,
    look_up: u64,
}

impl TicksLimit {
    /// What is usual is told apart of so many users.
    pub(crate) fn new(limit: DurationLimit, ticks_per_second: f64, most_users: usize) -> Self {
        let kind = match limit {
            DurationLimit::Fixed(duration) => {
                LimitKind::Fixed((duration.as_secs_f64() * ticks_per_second) as u64)
            }
            DurationLimit::Percentile { factor, percentile, least } => {
                let rule = UsualRule {
                    factor,
                    percentile,
                    least: (least.as_secs_f64() * ticks_per_second) as u64,
                    part: (PART_SECONDS * ticks_per_second) as u64,
                    look_up: (LOOK_UP_SECONDS * ticks_per_second) as u64,
                };
                LimitKind::Usual(rule, PayerTable::new(most_users))
            }
        };
        Self { kind, ticks_per_second }
    }

    /// Something of that user took that long, and ended then. Whether that is too long.
    pub(crate) fn is_exceeded(&mut self, payer: Payer, took: u64, at: u64) -> bool {
        match &mut self.kind {
            LimitKind::Fixed(limit) => took > *limit,
            LimitKind::Usual(rule, users) => {
                let is_over = |usual: &UsualDurations| usual.is_over(rule, at);
                users.of(payer, UsualDurations::default, is_over).is_exceeded(rule, took, at)
            }
        }
    }

    /// When what this user began then and has not ended is taken for stuck; `None` where it is not
    /// known what is usual.
    pub(crate) fn stuck_at(&self, payer: Payer, began: u64) -> Option<u64> {
        let limit = match &self.kind {
            LimitKind::Fixed(limit) => *limit,
            LimitKind::Usual(_, users) => users.get(payer)?.limit?,
        };
        let longer = (STUCK_SECONDS * self.ticks_per_second) as u64;
        let stuck = limit.saturating_mul(STUCK_FACTOR).max(limit.saturating_add(longer));
        Some(began.saturating_add(stuck))
    }

    /// What is usual, in words, of the users of whom most is known; `None` of a fixed limit.
    pub(crate) fn usual(&self) -> Option<String> {
        let LimitKind::Usual(_, users) = &self.kind else { return None };
        let mut of_users: Vec<_> = users.iter().collect();
        of_users.sort_by_key(|(payer, usual)| (Reverse(usual.known), *payer));
        let words = |usual: &UsualDurations| self.words(usual);
        if let [] | [_] = of_users[..] {
            return Some(words(of_users.first().map_or(&UsualDurations::default(), |one| one.1)));
        }
        let told = of_users.iter().take(MOST_TOLD).map(|(payer, usual)| match payer {
            Payer::User(0) => format!("of root: {}", words(usual)),
            Payer::User(user) => format!("of user {user}: {}", words(usual)),
            Payer::Unknown => format!("of others: {}", words(usual)),
        });
        let mut told: Vec<String> = told.collect();
        if of_users.len() > MOST_TOLD {
            told.push(format!("and of {} users more", of_users.len() - MOST_TOLD));
        }
        Some(told.join("; "))
    }

    fn words(&self, usual: &UsualDurations) -> String {
        match usual.limit {
            Some(limit) => {
                let limit = duration((limit as f64 / self.ticks_per_second * 1e9) as u64);
                format!("that is {limit} now, by {} of the last minute", grouped(usual.known))
            }
            None => format!("{} of {LEAST} that it takes to know what is usual", usual.known),
        }
    }
}

/// How long something of a user took in the last minute.
#[derive(Debug, Default)]
struct UsualDurations {
    /// When each began, the oldest first.
    parts: VecDeque<(u64, Histogram<u32>)>,
    /// How many there were at the last look, and what may be taken by that.
    known: u64,
    limit: Option<u64>,
    looked_up: u64,
}

impl UsualDurations {
    /// Whether nothing is known of the last minute.
    fn is_over(&self, rule: &UsualRule, at: u64) -> bool {
        let minute = rule.part.saturating_mul(PARTS as u64);
        self.parts.back().is_none_or(|(began, _)| at.saturating_sub(*began) > minute)
    }

    fn is_exceeded(&mut self, rule: &UsualRule, took: u64, at: u64) -> bool {
        if at >= self.looked_up.saturating_add(rule.look_up) {
            self.look_up_limit(rule, at);
        }
        let is_exceeded = self.limit.is_some_and(|limit| took > limit);
        self.add(rule, took, at);
        is_exceeded
    }

    fn add(&mut self, rule: &UsualRule, took: u64, at: u64) {
        let is_over = |(began, _): &(u64, _)| at >= began.saturating_add(rule.part);
        if self.parts.back().is_none_or(is_over) {
            // Two digits: a bucket is at most a hundredth of its value wide.
            let Ok(histogram) = Histogram::new(2) else { return };
            self.parts.push_back((at, histogram));
        }
        if let Some((_, histogram)) = self.parts.back_mut() {
            // It grows with the largest, up to that: there is nothing to refuse.
            let _ = histogram.record(took.clamp(1, LONGEST_TICKS));
        }
        while self.parts.len() > PARTS {
            self.parts.pop_front();
        }
    }

    fn look_up_limit(&mut self, rule: &UsualRule, at: u64) {
        self.looked_up = at;
        let minute = rule.part.saturating_mul(PARTS as u64);
        self.parts.retain(|(began, _)| at.saturating_sub(*began) <= minute);
        self.limit = None;
        let Ok(mut all) = Histogram::<u32>::new(2) else { return };
        all.auto(true);
        for (_, part) in &self.parts {
            let _ = all.add(part);
        }
        self.known = all.len();
        if all.len() >= LEAST {
            let usual = all.value_at_percentile(rule.percentile);
            self.limit = Some(((usual as f64 * rule.factor) as u64).max(rule.least));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const USUAL: DurationLimit =
        DurationLimit::Percentile { factor: 3.0, percentile: 99.0, least: Duration::ZERO };

    const ALICE: Payer = Payer::User(1001);

    /// A tick is a millisecond.
    fn limit(limit: DurationLimit) -> TicksLimit {
        TicksLimit::new(limit, 1000.0, 4)
    }

    #[test]
    fn a_fixed_limit_is_exceeded_by_what_is_longer() {
        let mut fixed = limit(DurationLimit::Fixed(Duration::from_millis(20)));
        assert_eq!(
            [19, 20, 21].map(|took| fixed.is_exceeded(ALICE, took, 0)),
            [false, false, true]
        );
    }

    #[test]
    fn what_is_usual_may_be_too_short_to_matter() {
        let least = Duration::from_millis(50);
        let usual = DurationLimit::Percentile { factor: 3.0, percentile: 99.0, least };
        let mut usual = limit(usual);
        (0..200).for_each(|at| assert!(!usual.is_exceeded(ALICE, 1, at * 50)));
        assert_eq!([49, 51].map(|took| usual.is_exceeded(ALICE, took, 11_000)), [false, true]);
    }

    #[test]
    fn what_does_not_end_is_stuck_after_ten_times_what_it_may_take_and_a_second_more() {
        let stuck = |limited| limit(DurationLimit::Fixed(limited)).stuck_at(ALICE, 100);
        assert_eq!(stuck(Duration::from_secs(1)), Some(10_100));
        assert_eq!(stuck(Duration::from_millis(20)), Some(1_120));
        let usual = limit(USUAL);
        assert_eq!(usual.stuck_at(ALICE, 100), None);
    }

    #[test]
    fn what_is_usual_of_one_user_is_nothing_to_anothers() {
        let (mut usual, mallory) = (limit(USUAL), Payer::User(1002));
        for at in 0..200 {
            usual.is_exceeded(mallory, 10_000, at * 50);
            assert!(!usual.is_exceeded(ALICE, 10, at * 50));
        }
        let exceeded = [ALICE, mallory].map(|user| usual.is_exceeded(user, 500, 11_000));
        assert_eq!(exceeded, [true, false]);
        assert!(usual.stuck_at(ALICE, 0) < usual.stuck_at(mallory, 0));
        let told = usual.usual().unwrap();
        let words = ["of user 1001: that is 30.", "; of user 1002: that is 30."];
        assert!(words.iter().all(|words| told.contains(words)), "{told}");
        // Users without number take no memory without end, and nothing from these.
        for user in 2000..3000 {
            usual.is_exceeded(Payer::User(user), 1, 11_001);
        }
        assert!(usual.is_exceeded(ALICE, 500, 11_002));
        assert!(usual.usual().unwrap().ends_with("; and of 2 users more"), "{:?}", usual.usual());
    }

    #[test]
    fn what_is_usual_is_learned_and_forgotten_after_a_minute() {
        let mut usual = limit(USUAL);
        let mut at = 0;
        let mut takes = |took: u64, times: u32| {
            let exceeded = (0..times).filter(|_| {
                at += 50;
                usual.is_exceeded(ALICE, took, at)
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
