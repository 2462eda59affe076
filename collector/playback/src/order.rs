//! A k-way merge, without I/O and without knowledge of what it merges. Lanes may be fed while they
//! are merged.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// A sequence of items in ascending order of their keys.
pub trait Cursor {
    /// What the items are ordered by.
    type Key: Copy + Ord;
    /// What comes out.
    type Item;

    /// The key of the next item; while the cursor waits for it, the least that it may have.
    /// `None` at the end, and from then on.
    fn key(&self) -> Option<Self::Key>;

    /// Whether the next item is not there yet: more must be fed before it can be taken.
    #[inline]
    fn is_waiting(&self) -> bool {
        false
    }

    /// Takes the next item. Called only after [`Self::key`] gave a key, and not while it waits.
    fn take(&mut self) -> Self::Item;
}

/// Several cursors read as one, in order of the keys.
///
/// - Stable: of equal keys the item of the earlier lane comes first, and a lane
///   never changes its own order.
/// - A lane that is slightly unordered costs no item and no panic: an item
///   whose key steps back comes out as soon as it is seen, which is after the
///   larger ones that hid it. The other lanes keep their order among each
///   other, and whoever needs keys that never fall limits them to the last.
/// - While a lane's next key is not above the smallest key of all others,
///   one comparison per item is all that is paid; only a change of lane costs
///   the logarithm of their number.
/// - A lane that waits to be fed keeps back what its next item may come before, and nothing else.
///   What comes out does not depend on when lanes are fed.
///
/// ```
/// use syscollect_playback::order::{Cursor, Merge};
///
/// struct List(Vec<u32>); // the next item last
/// impl Cursor for List {
///     type Key = u32;
///     type Item = u32;
///     fn key(&self) -> Option<u32> { self.0.last().copied() }
///     fn take(&mut self) -> u32 { self.0.pop().unwrap() }
/// }
/// let merge = Merge::new(vec![List(vec![7, 1]), List(vec![5, 2])]);
/// assert_eq!(merge.map(|(lane, item)| (lane, item)).collect::<Vec<_>>(), [(0, 1), (1, 2), (1, 5), (0, 7)]);
/// ```
#[derive(Debug)]
pub struct Merge<C: Cursor> {
    lanes: Vec<C>,
    /// The lane that gave the last item; it is not in `others`.
    current: Option<usize>,
    /// Next key and index of the other lanes that have one.
    others: BinaryHeap<Reverse<(C::Key, usize)>>,
    /// The keys in `others` are not those of the lanes any more.
    stale: bool,
}

/// What comes next of a merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergeStep<T> {
    /// The index of a lane, and its item.
    Item(usize, T),
    /// This lane must be fed, or told that nothing comes, before anything else can come out.
    Waiting(usize),
    /// All lanes are at their end.
    End,
}

/// Where a run of one lane ends: at the least key of all others, if there is one, and whether an
/// item of this lane comes before one of theirs that has the same.
#[derive(Clone, Copy, Debug)]
pub struct RunEnd<K>(Option<(K, bool)>);

impl<K: Ord> RunEnd<K> {
    /// Whether an item with that key is still in the run.
    #[inline]
    pub fn is_behind(&self, key: &K) -> bool {
        match &self.0 {
            None => true,
            Some((least, is_first)) => key < least || *is_first && key == least,
        }
    }
}

impl<C: Cursor> Merge<C> {
    /// Merges these lanes.
    pub fn new(lanes: Vec<C>) -> Self {
        let mut merge = Self { lanes, current: None, others: BinaryHeap::new(), stale: true };
        merge.compare_all();
        merge
    }

    /// The same, when it is over.
    pub fn into_lanes(self) -> Vec<C> {
        self.lanes
    }

    /// Puts a lane between the others, which are numbered anew: of equal keys, it comes behind
    /// those before `index`.
    pub fn insert(&mut self, index: usize, lane: C) {
        self.lanes.insert(index, lane);
        self.stale = true;
    }

    /// Has a lane fed. Its key may rise, and fall while it waits.
    pub fn feed(&mut self, lane: usize, feed: impl FnOnce(&mut C)) {
        feed(&mut self.lanes[lane]);
        if self.current == Some(lane) && !self.stale {
            self.settle(lane);
        } else {
            self.stale = true;
        }
    }

    /// The least key that the next item may have; `None` at the end.
    pub fn key(&mut self) -> Option<C::Key> {
        if self.stale {
            self.compare_all();
        }
        self.lanes[self.current?].key()
    }

    /// What comes next.
    #[inline]
    pub fn step(&mut self) -> MergeStep<C::Item> {
        if self.stale {
            self.compare_all();
        }
        let Some(current) = self.current else { return MergeStep::End };
        if self.lanes[current].is_waiting() {
            return MergeStep::Waiting(current);
        }
        let item = self.lanes[current].take();
        self.settle(current);
        MergeStep::Item(current, item)
    }

    /// Lends the lane whose item is next, so that it gives those that come before all of the others
    /// at once, which costs less than [`step`](Self::step) for each.
    #[inline]
    pub fn run(&mut self, take: impl FnOnce(usize, &mut C, RunEnd<C::Key>)) {
        if self.stale {
            self.compare_all();
        }
        let Some(current) = self.current else { return };
        let end = RunEnd(self.others.peek().map(|Reverse((key, lane))| (*key, current < *lane)));
        take(current, &mut self.lanes[current], end);
        self.settle(current);
    }

    #[cold]
    fn compare_all(&mut self) {
        let keys = self.lanes.iter().enumerate();
        self.others =
            keys.filter_map(|(lane, cursor)| Some(Reverse((cursor.key()?, lane)))).collect();
        self.current = self.others.pop().map(|Reverse((_, lane))| lane);
        self.stale = false;
    }

    /// The lanes, for what they have to tell after the merge.
    pub fn lanes(&self) -> &[C] {
        &self.lanes
    }

    /// Makes the lane with the smallest next key the current one.
    #[inline]
    fn settle(&mut self, current: usize) {
        let Some(key) = self.lanes[current].key() else {
            self.current = self.others.pop().map(|Reverse((_, lane))| lane);
            return;
        };
        let Some(mut least) = self.others.peek_mut() else { return };
        if (key, current) > least.0 {
            self.current = Some(least.0.1);
            *least = Reverse((key, current));
            // Sifts the heap once, where a pop and a push would do it twice.
            drop::<PeekMut<'_, _>>(least);
        }
    }
}

impl<C: Cursor> Iterator for Merge<C> {
    /// The index of the lane and its item. `None` where a lane waits, too: who feeds lanes asks for
    /// the [`step`](Merge::step).
    type Item = (usize, C::Item);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match self.step() {
            MergeStep::Item(lane, item) => Some((lane, item)),
            MergeStep::Waiting(_) | MergeStep::End => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct List {
        items: Vec<(u8, usize)>,
        at: usize,
    }

    impl Cursor for List {
        type Key = u8;
        type Item = (u8, usize);

        fn key(&self) -> Option<u8> {
            self.items.get(self.at).map(|(key, _)| *key)
        }

        fn take(&mut self) -> (u8, usize) {
            self.at += 1;
            self.items[self.at - 1]
        }
    }

    /// Lanes whose items carry their position in the lane.
    fn lanes(keys: &[Vec<u8>]) -> Vec<List> {
        keys.iter()
            .map(|keys| List {
                items: keys.iter().enumerate().map(|(i, key)| (*key, i)).collect(),
                at: 0,
            })
            .collect()
    }

    #[test]
    fn no_lanes_and_empty_lanes_give_nothing() {
        assert_eq!(Merge::new(lanes(&[])).count(), 0);
        assert_eq!(Merge::new(lanes(&[vec![], vec![]])).count(), 0);
    }

    #[test]
    fn an_item_that_steps_back_comes_late_but_comes() {
        let merged: Vec<u8> =
            Merge::new(lanes(&[vec![1, 9, 2], vec![3, 10]])).map(|(_, (key, _))| key).collect();
        assert_eq!(merged, [1, 3, 9, 2, 10]);
    }

    /// A list of which only so much was fed.
    struct FedList {
        list: List,
        fed: usize,
    }

    impl Cursor for FedList {
        type Key = u8;
        type Item = (u8, usize);

        /// While it waits: not before the last.
        fn key(&self) -> Option<u8> {
            if self.is_waiting() {
                Some(self.list.at.checked_sub(1).map_or(0, |last| self.list.items[last].0))
            } else {
                self.list.key()
            }
        }

        fn is_waiting(&self) -> bool {
            self.list.at == self.fed && self.fed < self.list.items.len()
        }

        fn take(&mut self) -> (u8, usize) {
            self.list.take()
        }
    }

    proptest! {
        #[test]
        fn when_lanes_are_fed_does_not_matter(
            mut keys in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 1..5),
            pieces in prop::collection::vec((any::<prop::sample::Index>(), 1usize..8), 0..40),
        ) {
            keys.iter_mut().for_each(|lane| lane.sort_unstable());
            let whole: Vec<_> = Merge::new(lanes(&keys)).collect();
            let mut merge =
                Merge::new(lanes(&keys).into_iter().map(|list| FedList { list, fed: 0 }).collect());
            let (mut merged, mut pieces) = (Vec::new(), pieces.into_iter());
            loop {
                match merge.step() {
                    MergeStep::Item(lane, item) => merged.push((lane, item)),
                    MergeStep::End => break,
                    MergeStep::Waiting(waiting) => {
                        let (lane, count) = match pieces.next() {
                            Some((lane, count)) => (lane.index(keys.len()), count),
                            None => (waiting, 1),
                        };
                        merge.feed(lane, |fed| {
                            fed.fed = (fed.fed + count).min(fed.list.items.len());
                        });
                    }
                }
            }
            prop_assert_eq!(merged, whole);
        }

        #[test]
        fn runs_give_what_single_steps_do(
            keys in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..6),
            run_next in prop::collection::vec(any::<bool>(), 0..120),
        ) {
            let expected: Vec<_> = Merge::new(lanes(&keys)).collect();
            let (mut merge, mut merged) = (Merge::new(lanes(&keys)), Vec::new());
            let mut run_next = run_next.into_iter();
            loop {
                if run_next.next().unwrap_or(true) {
                    merge.run(|lane, list, end| {
                        while list.key().is_some_and(|key| end.is_behind(&key)) {
                            merged.push((lane, list.take()));
                        }
                    });
                }
                match merge.next() {
                    Some(item) => merged.push(item),
                    None => break,
                }
            }
            prop_assert_eq!(merged, expected);
        }

        #[test]
        fn merging_is_a_stable_sort(
            mut keys in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..6),
        ) {
            keys.iter_mut().for_each(|lane| lane.sort_unstable());
            let mut expected: Vec<(u8, usize, usize)> = keys
                .iter()
                .enumerate()
                .flat_map(|(lane, keys)| {
                    keys.iter().enumerate().map(move |(i, key)| (*key, lane, i))
                })
                .collect();
            expected.sort_unstable();
            let merged: Vec<_> =
                Merge::new(lanes(&keys)).map(|(lane, (key, i))| (key, lane, i)).collect();
            prop_assert_eq!(merged, expected);
        }

        #[test]
        fn unordered_lanes_lose_nothing_and_keep_their_own_order(
            keys in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..6),
        ) {
            let merged: Vec<_> = Merge::new(lanes(&keys)).collect();
            for (lane, list) in keys.iter().enumerate() {
                let own: Vec<u8> =
                    merged.iter().filter(|(of, _)| *of == lane).map(|(_, (key, _))| *key).collect();
                prop_assert_eq!(&own, list);
            }
        }
    }
}
