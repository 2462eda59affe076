//! Rows for intervals that overlap.

/// Where an interval was put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AssignedRow<T> {
    /// The row, counted from 0; a row that was not there before is the next number.
    pub row: usize,
    /// Where the interval begins in its row: later than asked for where all rows
    /// were taken.
    pub begin: T,
}

/// Allots rows to intervals, so that those of one row do not overlap.
///
/// Intervals are given as `[begin, end)`, in order of their end, as jobs become
/// known when they are done. Each goes to the row that has been free for the
/// shortest time when it begins, which leaves the others to longer intervals: no
/// more rows are used than intervals overlap at once (one without length counts
/// as any other). Intervals out of order do not overlap in their rows either, they
/// may only take more rows.
///
/// ```
/// use syscollect_playback::Rows;
///
/// let mut rows = Rows::new(8);
/// assert_eq!(rows.place(0, 10).row, 0);
/// assert_eq!(rows.place(5, 12).row, 1);
/// assert_eq!(rows.place(10, 20).row, 0);
/// ```
#[derive(Clone, Debug)]
pub struct Rows<T> {
    /// End of the last interval of each row.
    ends: Vec<T>,
    limit: usize,
}

impl<T: Ord + Copy> Rows<T> {
    /// At most so many rows, and at least one.
    pub fn new(limit: usize) -> Self {
        Self { ends: Vec::new(), limit: limit.max(1) }
    }

    /// Finds a row for an interval. Where all rows are taken it loses the part
    /// that has no room, all of it if need be.
    pub fn place(&mut self, begin: T, end: T) -> AssignedRow<T> {
        let free = self.ends.iter().enumerate().filter(|(_, last)| **last <= begin);
        if let Some((row, _)) = free.max_by_key(|(_, last)| **last) {
            self.ends[row] = end.max(begin);
            return AssignedRow { row, begin };
        }
        let first_free = self.ends.iter().copied().enumerate().min_by_key(|(_, last)| *last);
        match first_free {
            Some((row, last)) if self.ends.len() >= self.limit => {
                self.ends[row] = end.max(last);
                AssignedRow { row, begin: last }
            }
            _ => {
                self.ends.push(end.max(begin));
                AssignedRow { row: self.ends.len() - 1, begin }
            }
        }
    }

    /// How many rows are in use.
    pub fn count(&self) -> usize {
        self.ends.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Intervals in order of their end.
    fn intervals() -> impl Strategy<Value = Vec<(u32, u32)>> {
        let interval = (0_u32..200, 1_u32..40).prop_map(|(begin, length)| (begin, begin + length));
        proptest::collection::vec(interval, 0..80).prop_map(|mut all| {
            all.sort_by_key(|(begin, end)| (*end, *begin));
            all
        })
    }

    /// How many intervals hold one moment, at most.
    fn depth(intervals: &[(u32, u32)]) -> usize {
        (0..240)
            .map(|moment| {
                intervals.iter().filter(|(begin, end)| *begin <= moment && moment < *end).count()
            })
            .max()
            .unwrap_or(0)
    }

    #[test]
    fn an_interval_goes_where_the_gap_before_it_is_smallest() {
        let mut rows = Rows::new(8);
        assert_eq!(rows.place(0, 2), AssignedRow { row: 0, begin: 0 });
        assert_eq!(rows.place(1, 6), AssignedRow { row: 1, begin: 1 });
        assert_eq!(rows.place(7, 8), AssignedRow { row: 1, begin: 7 });
        assert_eq!(rows.place(3, 9), AssignedRow { row: 0, begin: 3 });
        assert_eq!(rows.count(), 2);
    }

    #[test]
    fn an_interval_without_room_is_cut() {
        let mut rows = Rows::new(1);
        rows.place(0, 10);
        assert_eq!(rows.place(5, 12), AssignedRow { row: 0, begin: 10 });
        assert_eq!(rows.place(5, 11), AssignedRow { row: 0, begin: 12 });
    }

    proptest! {
        #[test]
        fn no_more_rows_than_intervals_at_once(intervals in intervals()) {
            let mut rows = Rows::new(usize::MAX);
            for (begin, end) in &intervals {
                rows.place(*begin, *end);
            }
            prop_assert!(rows.count() <= depth(&intervals).max(usize::from(!intervals.is_empty())));
        }

        #[test]
        fn intervals_of_a_row_never_overlap(
            intervals in proptest::collection::vec((0_u32..200, 0_u32..200), 0..80),
            limit in 1_usize..6,
        ) {
            let mut rows = Rows::new(limit);
            let mut ends = vec![0; limit];
            for (begin, end) in intervals {
                let placed = rows.place(begin, end);
                prop_assert!(
                    placed.row < limit && placed.begin >= begin && placed.begin >= ends[placed.row]
                );
                ends[placed.row] = end.max(placed.begin);
            }
        }
    }
}
