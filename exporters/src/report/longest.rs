//! The longest of many, in bounded memory.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Entries that are kept, however many are asked for.
const MOST_KEPT: usize = 1 << 16;

/// The longest entries; of those of one length the first.
#[derive(Debug)]
pub(super) struct Longest<T> {
    /// The first to go is on top.
    entries: BinaryHeap<Reverse<LongestEntry<T>>>,
    kept: usize,
    /// How many there were in all.
    pub(super) count: usize,
}

#[derive(Debug)]
struct LongestEntry<T> {
    length: u64,
    since: u64,
    number: usize,
    what: T,
}

impl<T> Longest<T> {
    /// So many are kept.
    pub(super) fn new(kept: usize) -> Self {
        Self { entries: BinaryHeap::new(), kept: kept.min(MOST_KEPT), count: 0 }
    }

    /// As many can be kept, and none is.
    pub(super) fn emptied(&self) -> Self {
        Self::new(self.kept)
    }

    /// Adds an entry of this length that began at `since`, both in nanoseconds;
    /// `what` it is is asked for only where it is kept.
    #[inline]
    pub(super) fn add(&mut self, length: u64, since: u64, what: impl FnOnce() -> T) {
        self.count += 1;
        if self.kept == 0 {
            return;
        }
        if self.entries.len() >= self.kept {
            match self.entries.peek() {
                Some(Reverse(least))
                    if (least.length, Reverse(least.since)) >= (length, Reverse(since)) =>
                {
                    return;
                }
                _ => self.entries.pop(),
            };
        }
        self.entries.push(Reverse(LongestEntry {
            length,
            since,
            number: self.count,
            what: what(),
        }));
    }

    /// Length, beginning and entry, the longest first; of those of one length the first.
    pub(super) fn sorted(&self) -> Vec<(u64, u64, &T)> {
        let mut entries: Vec<_> = self.entries.iter().map(|Reverse(entry)| entry).collect();
        entries.sort_unstable_by(|a, b| b.cmp(a));
        entries.into_iter().map(|entry| (entry.length, entry.since, &entry.what)).collect()
    }
}

impl<T> LongestEntry<T> {
    fn key(&self) -> (u64, Reverse<u64>, Reverse<usize>) {
        (self.length, Reverse(self.since), Reverse(self.number))
    }
}

impl<T> Ord for LongestEntry<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl<T> PartialOrd for LongestEntry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for LongestEntry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<T> Eq for LongestEntry<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_are_kept_and_of_equals_the_first() {
        let mut longest = Longest::new(3);
        for (since, length) in [(10, 5), (20, 9), (30, 5), (40, 7), (50, 1), (60, 5)] {
            longest.add(length, since, || ());
        }
        let kept: Vec<_> =
            longest.sorted().iter().map(|(length, since, ())| (*since, *length)).collect();
        assert_eq!((kept, longest.count), (vec![(20, 9), (40, 7), (10, 5)], 6));
    }

    #[test]
    fn none_may_be_asked_for_and_nothing_is_made_then() {
        let mut none = Longest::new(0);
        none.add(1, 1, || unreachable!("it is not kept"));
        assert_eq!((none.sorted().len(), none.count), (0, 1));
        let _: Longest<()> = none;
    }
}
