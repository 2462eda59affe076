//! The last minutes, in bounded memory.

use crate::interval::Interval;
use std::collections::VecDeque;
use std::sync::Arc;

/// Seconds that are kept.
const MOST_SECONDS: usize = 300;
/// Bytes that they take: those of quiet machines take far less.
const MOST_BYTES: usize = 32 << 20;

/// Intervals, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct History {
    intervals: VecDeque<Arc<Interval>>,
    bytes: usize,
}

impl History {
    pub(crate) fn push(&mut self, interval: Interval) {
        self.bytes += interval.bytes();
        self.intervals.push_back(Arc::new(interval));
        while self.intervals.len() > MOST_SECONDS
            || (self.bytes > MOST_BYTES && self.intervals.len() > 1)
        {
            let Some(oldest) = self.intervals.pop_front() else { return };
            self.bytes -= oldest.bytes();
        }
    }

    pub(crate) fn intervals(&self) -> &VecDeque<Arc<Interval>> {
        &self.intervals
    }

    /// Records of from there on are missing.
    pub(crate) fn mark_incomplete(&mut self, from: u64) {
        for interval in self.intervals.iter_mut().rev() {
            if interval.start.0.saturating_add(interval.ticks) <= from {
                return;
            }
            if !interval.is_incomplete {
                let before = interval.bytes();
                let changed = Arc::make_mut(interval);
                changed.is_incomplete = true;
                // A copy may take less than what it was made of.
                self.bytes = self.bytes - before + changed.bytes();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::CpuActivity;
    use syscollect_model::Ticks;

    fn interval(number: u64, cpus: usize) -> Interval {
        let cpus = vec![CpuActivity::default(); cpus];
        Interval { number, start: Ticks(number * 10), ticks: 10, cpus, ..Interval::default() }
    }

    #[test]
    fn no_more_than_so_many_seconds_are_kept() {
        let mut history = History::default();
        (0..1000).for_each(|number| history.push(interval(number, 2)));
        let [first, last] = [history.intervals.front(), history.intervals.back()]
            .map(|interval| interval.expect("there are some").number);
        assert_eq!((first, last, history.intervals.len()), (700, 999, 300));
    }

    #[test]
    fn no_more_than_so_many_bytes_are_kept_but_always_the_last_second() {
        let mut history = History::default();
        let cpus = MOST_BYTES / 4 / size_of::<CpuActivity>();
        (0..10).for_each(|number| history.push(interval(number, cpus)));
        assert_eq!(history.intervals.len(), 3);
        history.push(interval(10, 5 * cpus));
        assert_eq!(history.intervals.len(), 1);
        history.push(interval(11, 1));
        assert_eq!(history.bytes, history.intervals[0].bytes(), "the sum is of what is kept");
    }

    #[test]
    fn seconds_that_a_loss_reaches_into_say_so() {
        let mut history = History::default();
        (0..4).for_each(|number| history.push(interval(number, 1)));
        history.mark_incomplete(15);
        let marked: Vec<bool> = history.intervals.iter().map(|one| one.is_incomplete).collect();
        assert_eq!(marked, [false, true, true, true]);
    }
}
