//! Runs of neighbouring places, given out and taken back.

use std::collections::{BTreeMap, BTreeSet};

/// Places by number, of which those that are free are given out as runs of neighbours.
///
/// A request gets the start of the shortest run that has room for it, so that long runs stay for
/// those that need them; what is given back joins its free neighbours. Each call takes a time that
/// grows with the logarithm of how many free runs there are.
#[derive(Debug)]
pub(super) struct Runs {
    /// Lengths of the free runs, by their starts. No two of them touch.
    by_start: BTreeMap<u32, u32>,
    /// The same runs: length and start.
    by_length: BTreeSet<(u32, u32)>,
}

impl Runs {
    /// So many places, all free.
    pub(super) fn new(places: u32) -> Self {
        let mut runs = Self { by_start: BTreeMap::new(), by_length: BTreeSet::new() };
        runs.insert(0, places);
        runs
    }

    /// The first place of `length` neighbours, which are the caller's from now on; `None` if there
    /// are no so many together. No places at all may lie anywhere.
    pub(super) fn take(&mut self, length: u32) -> Option<u32> {
        if length == 0 {
            return Some(0);
        }
        let &(whole, start) = self.by_length.range((length, 0)..).next()?;
        self.remove(start, whole);
        self.insert(start + length, whole - length);
        Some(start)
    }

    /// The `length` places from `start` on are free again: all of them were taken, maybe in other
    /// runs.
    pub(super) fn give_back(&mut self, start: u32, length: u32) {
        if length == 0 {
            return;
        }
        let (mut start, mut length) = (start, length);
        let before =
            self.by_start.range(..start).next_back().map(|(start, length)| (*start, *length));
        if let Some((first, count)) = before.filter(|(first, count)| first + count == start) {
            self.remove(first, count);
            (start, length) = (first, length + count);
        }
        let end = start + length;
        if let Some(count) = self.by_start.get(&end).copied() {
            self.remove(end, count);
            length += count;
        }
        self.insert(start, length);
    }

    fn insert(&mut self, start: u32, length: u32) {
        if length > 0 {
            self.by_start.insert(start, length);
            self.by_length.insert((length, start));
        }
    }

    fn remove(&mut self, start: u32, length: u32) {
        self.by_start.remove(&start);
        self.by_length.remove(&(length, start));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_given_back_joins_its_neighbours() {
        let mut runs = Runs::new(30);
        assert_eq!(
            [10, 10, 10, 1].map(|length| runs.take(length)),
            [Some(0), Some(10), Some(20), None]
        );
        runs.give_back(0, 10);
        runs.give_back(20, 10);
        assert_eq!(runs.take(11), None, "they do not touch");
        runs.give_back(10, 10);
        assert_eq!(runs.take(30), Some(0));
    }

    #[test]
    fn the_shortest_run_with_room_is_taken() {
        let mut runs = Runs::new(30);
        runs.take(30);
        runs.give_back(0, 12);
        runs.give_back(20, 3);
        assert_eq!([3, 12, 1].map(|length| runs.take(length)), [Some(20), Some(0), None]);
    }

    #[test]
    fn no_places_are_a_run_too() {
        let mut runs = Runs::new(0);
        assert_eq!((runs.take(0), runs.take(1)), (Some(0), None));
        runs.give_back(0, 0);
        assert_eq!(runs.take(1), None);
    }

    /// Whose each place is: the model of the following.
    fn longest_free(owners: &[Option<usize>]) -> usize {
        owners.split(Option::is_some).map(<[_]>::len).max().unwrap_or(0)
    }

    proptest! {
        #[test]
        fn no_place_is_given_out_twice_and_what_fits_is_found(
            places in 0_u32..200,
            // Whether to take one, how long, and which to give back.
            calls in proptest::collection::vec((any::<bool>(), 0_u32..40, any::<usize>()), 0..200),
        ) {
            let mut runs = Runs::new(places);
            let mut owners = vec![None; places as usize];
            let mut taken = Vec::<(u32, u32)>::new();
            for (number, (takes, length, which)) in calls.into_iter().enumerate() {
                if takes || taken.is_empty() {
                    let fits = longest_free(&owners) >= length as usize;
                    let found = runs.take(length);
                    prop_assert_eq!(found.is_some(), fits, "{:?}", runs);
                    let Some(start) = found else { continue };
                    for place in start..start + length {
                        let owner = owners[place as usize].replace(number);
                        prop_assert_eq!(owner, None);
                    }
                    taken.push((start, length));
                } else {
                    let (start, length) = taken.swap_remove(which % taken.len());
                    runs.give_back(start, length);
                    owners[start as usize..(start + length) as usize].fill(None);
                }
            }
            for (start, length) in taken {
                runs.give_back(start, length);
            }
            prop_assert_eq!(runs.take(places), Some(0));
        }
    }
}
