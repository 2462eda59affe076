//! Rows that events name by number, of which those may go that nothing names any more.

use rustc_hash::FxHashMap;
use std::ops::{Index, IndexMut};

/// Rows by number.
///
/// A number is given once: who names a row that [was forgotten](Self::forget) finds a blank one,
/// and never another's.
///
/// ```
/// use syscollect_model::Rows;
///
/// let mut rows: Rows<&str> = ["ended", "lives"].into_iter().collect();
/// rows.forget("", |number, _| number == 1);
/// rows.push("comes");
/// assert_eq!((rows[0], rows[1], rows[2], rows.len()), ("", "lives", "comes", 3));
/// ```
#[derive(Clone, Debug)]
pub struct Rows<T> {
    /// Those that stayed where others were forgotten, with their numbers, ascending.
    kept: Vec<(u32, T)>,
    /// Where each lies in `kept`.
    places: FxHashMap<u32, u32>,
    /// The number of the first of `recent`.
    first: u32,
    recent: Vec<T>,
    /// What stands for a row that is gone, and what was written to the last of these.
    blank: Option<Box<[T; 2]>>,
}

impl<T> Default for Rows<T> {
    fn default() -> Self {
        let (kept, places, first, recent, blank) = Default::default();
        Self { kept, places, first, recent, blank }
    }
}

impl<T> Rows<T> {
    /// How many there ever were: the number of the next.
    pub fn len(&self) -> usize {
        self.first as usize + self.recent.len()
    }

    /// Whether there never was one.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many are there.
    pub fn held(&self) -> usize {
        self.kept.len() + self.recent.len()
    }

    /// Adds a row, under the next number. Of more than there are numbers, the last stands for all.
    pub fn push(&mut self, row: T) {
        match u32::try_from(self.len()) {
            Ok(u32::MAX) | Err(_) => {}
            Ok(_) => self.recent.push(row),
        }
    }

    /// The rows that are there, by ascending number.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> + Clone {
        self.kept.iter().map(|(_, row)| row).chain(&self.recent)
    }

    /// The same, to be changed.
    pub fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut T> {
        self.kept.iter_mut().map(|(_, row)| row).chain(&mut self.recent)
    }

    /// The rows that are there and have this number or a higher one, with their numbers.
    pub fn numbered_from(&self, number: usize) -> impl DoubleEndedIterator<Item = (u32, &T)> {
        let kept = self.kept.partition_point(|(of, _)| (*of as usize) < number);
        let recent = number.saturating_sub(self.first as usize).min(self.recent.len());
        let numbers = self.first + recent as u32..self.len() as u32;
        let kept = self.kept[kept..].iter().map(|(number, row)| (*number, row));
        kept.chain(numbers.zip(&self.recent[recent..]))
    }

    /// The rows that are there, with their numbers.
    pub fn numbered(&self) -> impl DoubleEndedIterator<Item = (u32, &T)> {
        self.numbered_from(0)
    }

    /// Forgets those that are not to be kept; `blank` is what who names them finds.
    pub fn forget(&mut self, blank: T, mut keep: impl FnMut(u32, &T) -> bool)
    where
        T: Clone,
    {
        let first = self.first;
        self.first = self.len() as u32;
        self.kept.retain(|(number, row)| keep(*number, row));
        let recent = (first..).zip(std::mem::take(&mut self.recent));
        self.kept.extend(recent.filter(|(number, row)| keep(*number, row)));
        self.kept.shrink_to(self.kept.len() * 2);
        let numbers = self.kept.iter().map(|(number, _)| *number);
        self.places = numbers.zip(0..).collect();
        self.blank = Some(Box::new([blank.clone(), blank]));
    }

    fn find(&self, number: usize) -> Option<&T> {
        match number.checked_sub(self.first as usize) {
            Some(index) => self.recent.get(index),
            None => {
                let place = self.places.get(&u32::try_from(number).ok()?)?;
                self.kept.get(*place as usize).map(|(_, row)| row)
            }
        }
    }
}

impl<T> Index<usize> for Rows<T> {
    type Output = T;

    #[inline]
    fn index(&self, number: usize) -> &T {
        match number.checked_sub(self.first as usize) {
            Some(index) => &self.recent[index],
            None => match (self.find(number), &self.blank) {
                (Some(row), _) => row,
                (None, Some(blank)) => &blank[0],
                (None, None) => unreachable!("numbers below the first were given, then forgotten"),
            },
        }
    }
}

impl<T: Clone> IndexMut<usize> for Rows<T> {
    fn index_mut(&mut self, number: usize) -> &mut T {
        if let Some(index) = number.checked_sub(self.first as usize) {
            return &mut self.recent[index];
        }
        let place = u32::try_from(number).ok().and_then(|number| self.places.get(&number));
        match (place, &mut self.blank) {
            (Some(place), _) => &mut self.kept[*place as usize].1,
            (None, Some(blank)) => {
                let [blank, written] = &mut **blank;
                written.clone_from(blank);
                written
            }
            (None, None) => unreachable!("numbers below the first were given, then forgotten"),
        }
    }
}

impl<T> Extend<T> for Rows<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, rows: I) {
        rows.into_iter().for_each(|row| self.push(row));
    }
}

impl<T> FromIterator<T> for Rows<T> {
    fn from_iter<I: IntoIterator<Item = T>>(rows: I) -> Self {
        let mut all = Self::default();
        all.extend(rows);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_written_to_a_row_that_is_gone_is_nobodys() {
        let mut rows: Rows<String> = ["a", "b"].map(str::to_owned).into_iter().collect();
        rows.forget("gone".to_owned(), |number, _| number == 1);
        rows[0] = "written".to_owned();
        assert_eq!((rows[0].as_str(), rows[1].as_str()), ("gone", "b"));
    }

    #[test]
    fn a_million_rows_of_which_few_live_take_as_much_as_these() {
        let mut rows = Rows::default();
        for number in 0..1_000_000_u32 {
            rows.push(number);
            if number % 1_000 == 999 {
                rows.forget(u32::MAX, |number, _| number % 100_000 == 7);
            }
        }
        assert_eq!((rows.held(), rows.len()), (10, 1_000_000));
        assert!(rows.kept.capacity() < 2_100 && rows.recent.capacity() < 2_100);
        assert_eq!([7, 8, 900_007].map(|number| rows[number]), [7, u32::MAX, 900_007]);
    }

    proptest! {
        /// What is there is what a list says in which forgotten ones are blank.
        #[test]
        fn numbers_mean_what_they_meant(
            steps in prop::collection::vec(prop::option::weighted(0.8, 0u32..1000), 1..200),
        ) {
            let (mut rows, mut model) = (Rows::default(), Vec::<u32>::new());
            for step in steps {
                match step {
                    Some(row) => {
                        rows.push(row);
                        model.push(row);
                    }
                    None => {
                        rows.forget(9_999, |number, row| (number + row) % 3 > 0 && *row < 9_999);
                        for (number, row) in model.iter_mut().enumerate() {
                            if (number as u32 + *row).is_multiple_of(3) {
                                *row = 9_999;
                            }
                        }
                    }
                }
                let found: Vec<u32> = (0..model.len()).map(|number| rows[number]).collect();
                prop_assert_eq!(&found, &model);
                let there = (0..).zip(model.iter().copied()).filter(|(_, row)| *row < 9_999);
                let there: Vec<(u32, u32)> = there.collect();
                let numbered: Vec<_> = rows.numbered().map(|(n, row)| (n, *row)).collect();
                prop_assert_eq!(&numbered, &there);
                prop_assert_eq!(rows.iter().rev().count(), there.len());
                let half = model.len() / 2;
                let late = rows.numbered_from(half).map(|(number, _)| number as usize);
                let numbers = there.iter().map(|(number, _)| *number as usize);
                prop_assert!(late.eq(numbers.filter(|number| *number >= half)));
            }
        }
    }
}
