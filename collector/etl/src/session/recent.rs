//! Which event a stack belongs to that comes behind it.

use std::collections::VecDeque;

/// A thread id that stands for every thread.
pub(super) const ANY_THREAD: u32 = u32::MAX;

/// What an event of the last moments was: raw time, thread, and where its stack goes.
#[derive(Clone, Copy, Debug)]
struct RecentEvent<T> {
    at: u64,
    tid: u32,
    target: T,
}

/// The events of the last moments, found by time stamp and thread.
#[derive(Debug)]
pub(super) struct Recent<T> {
    entries: VecDeque<RecentEvent<T>>,
    limit: usize,
}

impl<T: Copy> Recent<T> {
    /// Remembers the last `limit` events.
    pub(super) fn new(limit: usize) -> Self {
        Self { entries: VecDeque::new(), limit }
    }

    /// An event happened; its stacks come by the thread `tid`.
    #[inline]
    pub(super) fn push(&mut self, at: u64, tid: u32, target: T) {
        if self.entries.len() >= self.limit {
            self.entries.pop_front();
        }
        self.entries.push_back(RecentEvent { at, tid, target });
    }

    /// Events at exactly this time of this thread, then those of an unknown thread.
    #[inline]
    pub(super) fn find(&self, at: u64, tid: u32) -> impl Iterator<Item = T> + '_ {
        let from = self.first_at(at);
        let same_time = self.entries.range(from..).take_while(move |entry| entry.at == at);
        let of_thread = same_time.clone().filter(move |entry| entry.tid == tid);
        of_thread.chain(same_time.filter(|entry| entry.tid == ANY_THREAD)).map(|entry| entry.target)
    }

    /// Index of the first entry not before `at`. Stacks come soon as a rule, so
    /// the search begins at the end, in strides that double.
    #[inline]
    fn first_at(&self, at: u64) -> usize {
        let (mut high, mut stride) = (self.entries.len(), 4);
        let mut low = high;
        while low > 0 {
            low = high.saturating_sub(stride);
            if self.entries[low].at < at {
                break;
            }
            (high, stride) = (low, stride * 2);
        }
        while low < high {
            let middle = low.midpoint(high);
            if self.entries[middle].at < at { low = middle + 1 } else { high = middle }
        }
        low
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_stack_finds_its_event_by_time_and_thread() {
        let mut recent = Recent::new(10);
        recent.push(5, 1, 'a');
        recent.push(7, ANY_THREAD, 'b');
        recent.push(7, 2, 'c');
        recent.push(7, 1, 'd');
        for (at, tid, found) in [(7, 1, "db"), (7, 9, "b"), (5, 1, "a"), (5, 2, ""), (6, 1, "")] {
            assert_eq!(recent.find(at, tid).collect::<String>(), found, "thread {tid} at {at}");
        }
    }

    #[test]
    fn only_the_last_are_remembered() {
        let mut recent = Recent::new(2);
        (1..=3).for_each(|at| recent.push(at, 1, at));
        assert_eq!((recent.find(1, 1).next(), recent.find(2, 1).next()), (None, Some(2)));
    }

    proptest! {
        #[test]
        fn the_search_finds_what_is_there(
            mut times in prop::collection::vec(0u64..60, 0..100),
            at in 0u64..60,
        ) {
            times.sort_unstable();
            let mut recent = Recent::new(1000);
            times.iter().for_each(|time| recent.push(*time, 1, *time));
            prop_assert_eq!(
                recent.find(at, 1).count(),
                times.iter().filter(|time| **time == at).count()
            );
        }
    }
}
