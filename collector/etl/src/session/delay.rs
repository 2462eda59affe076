//! Events that wait for what is said of them later.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Holds items back for a while, in order of time.
///
/// - [`push`](Self::push) takes what happens now; the item can be reached by its
///   number until it leaves.
/// - [`insert`](Self::insert) takes what happened a little earlier and became
///   known only now. What is older than what has left is moved to that moment.
/// - [`front`](Self::front) shows what is older than the window, or more than fits,
///   and [`remove_front`](Self::remove_front) lets it go.
///
/// Times that come out never fall. Memory is bounded by the limit. Items are never
/// moved while they wait.
#[derive(Debug)]
pub(super) struct Delay<T> {
    items: VecDeque<(u64, T)>,
    /// The number of the first of `items`.
    first: u64,
    /// Time, then rank and number in one word; and where it is kept.
    early: BinaryHeap<Reverse<(u64, u64, usize)>>,
    kept: Vec<Option<T>>,
    /// Free places of `kept`.
    free: Vec<usize>,
    inserted: u64,
    window: u64,
    limit: usize,
    left: u64,
    newest: u64,
}

/// The rank of what was pushed.
pub(super) const PUSHED: u8 = 1;
const RANK_SHIFT: u32 = 56;

impl<T> Delay<T> {
    /// Holds items for `window`, and at most `limit` of them.
    pub(super) fn new(window: u64, limit: usize) -> Self {
        let (items, early, kept, free) = Default::default();
        Self { items, first: 0, early, kept, free, inserted: 0, window, limit, left: 0, newest: 0 }
    }

    /// Adds what happens at `now`, and gives its number. Time does not go back here.
    #[inline]
    pub(super) fn push(&mut self, now: u64, item: T) -> u64 {
        self.newest = self.newest.max(now);
        self.items.push_back((self.newest, item));
        self.first + self.items.len() as u64 - 1
    }

    /// Adds what happened at `time`. Of one time, lower ranks come first, and what
    /// was pushed comes behind rank [`PUSHED`].
    pub(super) fn insert(&mut self, time: u64, rank: u8, item: T) {
        let time = time.clamp(self.left, self.newest.max(self.left));
        let place = self.free.pop().unwrap_or(self.kept.len());
        match self.kept.get_mut(place) {
            Some(free) => *free = Some(item),
            None => self.kept.push(Some(item)),
        }
        self.inserted += 1;
        self.early.push(Reverse((time, u64::from(rank) << RANK_SHIFT | self.inserted, place)));
    }

    /// Time goes on.
    #[inline]
    pub(super) fn advance(&mut self, now: u64) {
        self.newest = self.newest.max(now);
    }

    /// The earliest time at which something can still be inserted.
    pub(super) fn earliest(&self) -> u64 {
        self.left
    }

    /// The item of that number, if it is still here.
    #[inline]
    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.items.get_mut(index).map(|(_, item)| item)
    }

    /// The next item's time, and whether it is one of the inserted.
    #[inline]
    fn next(&self) -> Option<(u64, bool)> {
        let queued = self.items.front().map(|(time, _)| *time);
        match (queued, self.early.peek()) {
            (None, None) => None,
            (Some(queued), None) => Some((queued, false)),
            (None, Some(Reverse((early, ..)))) => Some((*early, true)),
            (Some(queued), Some(Reverse((early, order, _)))) => {
                let is_early = (*early, order >> RANK_SHIFT) <= (queued, u64::from(PUSHED));
                Some((if is_early { *early } else { queued }, is_early))
            }
        }
    }

    /// The next item that has waited long enough; with `all`, whatever is next.
    #[inline]
    pub(super) fn front(&mut self, all: bool) -> Option<(u64, &mut T)> {
        let (time, is_early) = self.next()?;
        let is_due = time < self.newest.saturating_sub(self.window);
        if !is_due && !all && self.items.len() + self.early.len() <= self.limit {
            return None;
        }
        self.left = time;
        if is_early {
            let Reverse((.., place)) = self.early.peek()?;
            return self.kept[*place].as_mut().map(|item| (time, item));
        }
        self.items.front_mut().map(|(time, item)| (*time, item))
    }

    /// Lets the item go that [`Self::front`] showed.
    #[inline]
    pub(super) fn remove_front(&mut self) {
        match self.next() {
            Some((_, false)) => {
                self.first += 1;
                self.items.pop_front();
            }
            Some((_, true)) => {
                if let Some(Reverse((.., place))) = self.early.pop() {
                    self.kept[place] = None;
                    self.free.push(place);
                }
            }
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pop<T: Copy>(delay: &mut Delay<T>, all: bool) -> Option<(u64, T)> {
        let front = delay.front(all).map(|(time, item)| (time, *item))?;
        delay.remove_front();
        Some(front)
    }

    fn drain<T: Copy>(delay: &mut Delay<T>, all: bool) -> Vec<(u64, T)> {
        std::iter::from_fn(|| pop(delay, all)).collect()
    }

    #[test]
    fn an_item_waits_for_the_window_and_can_be_reached_until_then() {
        let mut delay = Delay::new(10, 100);
        let number = delay.push(5, "a");
        delay.advance(15);
        assert_eq!(drain(&mut delay, false), []);
        *delay.get_mut(number).unwrap() = "b";
        delay.advance(16);
        assert_eq!(drain(&mut delay, false), [(5, "b")]);
        assert!(delay.get_mut(number).is_none());
    }

    #[test]
    fn what_became_known_later_comes_at_its_time_or_as_early_as_it_can() {
        let mut delay = Delay::new(10, 100);
        delay.push(5, "five");
        delay.push(9, "nine");
        delay.push(16, "sixteen");
        assert_eq!(drain(&mut delay, false), [(5, "five")]);
        delay.insert(9, PUSHED + 1, "behind");
        delay.insert(9, PUSHED, "before");
        delay.insert(2, 0, "too old");
        let rest = [(5, "too old"), (9, "before"), (9, "nine"), (9, "behind"), (16, "sixteen")];
        assert_eq!(drain(&mut delay, true), rest);
    }

    #[test]
    fn more_than_the_limit_does_not_wait() {
        let mut delay = Delay::new(1000, 2);
        ["a", "b", "c"].into_iter().for_each(|item| {
            delay.push(1, item);
        });
        assert_eq!(drain(&mut delay, false), [(1, "a")]);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_times_never_fall(
            steps in prop::collection::vec((0u64..30, prop::option::of(0u64..40)), 0..200),
        ) {
            let (mut delay, mut now, mut out) = (Delay::new(10, 8), 0, Vec::new());
            for (step, back) in &steps {
                now += step;
                match back {
                    Some(back) => delay.insert(now.saturating_sub(*back), 0, ()),
                    None => {
                        delay.push(now, ());
                    }
                }
                out.extend(drain(&mut delay, false).into_iter().map(|(time, ())| time));
            }
            out.extend(drain(&mut delay, true).into_iter().map(|(time, ())| time));
            prop_assert_eq!(out.len(), steps.len());
            prop_assert!(out.is_sorted());
        }
    }
}
