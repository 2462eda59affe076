//! Rows for zones of a GPU: each inside of another lies below it.

/// Rows of one context; what overlaps beyond them loses its beginning.
pub(super) const MOST_ROWS: usize = 64;

/// Where a zone lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NestedRow {
    /// Counted from 0.
    pub(super) row: u32,
    /// How many zones it lies in.
    pub(super) depth: u32,
    /// Where it begins and ends in its row: later than asked for where all rows are taken.
    pub(super) span: [u64; 2],
}

/// Allots rows to zones in the order of their beginning, of equal ones the longest first. Zones of
/// one row do not overlap. One that lies within another has a row below that one's; one that only
/// overlaps it has another row, and is not deeper.
#[derive(Debug, Default)]
pub(super) struct NestedRows {
    /// The end of each row's last zone, and how deep that lies.
    rows: Vec<RowEnd>,
}

#[derive(Clone, Copy, Debug)]
struct RowEnd {
    ended: u64,
    depth: u32,
}

impl NestedRows {
    /// The place of a zone that begins no earlier than those before.
    pub(super) fn place(&mut self, [began, ended]: [u64; 2]) -> NestedRow {
        let ended = ended.max(began);
        let around = self.rows.iter().rposition(|row| row.ended > began && row.ended >= ended);
        let depth = around.map_or(0, |around| self.rows[around].depth + 1);
        let first = around.map_or(0, |around| around + 1);
        let free = self.rows.iter().skip(first).position(|row| row.ended <= began);
        let row = free.map_or(self.rows.len().max(first), |free| first + free);
        let row = row.min(MOST_ROWS - 1);
        let Some(last) = self.rows.get_mut(row) else {
            self.rows.push(RowEnd { ended, depth });
            return NestedRow { row: row as u32, depth, span: [began, ended] };
        };
        let began = began.max(last.ended);
        let ended = ended.max(began);
        *last = RowEnd { ended, depth };
        NestedRow { row: row as u32, depth, span: [began, ended] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Zones in order, and where they lie.
    fn placed(mut zones: Vec<[u64; 2]>) -> Vec<([u64; 2], NestedRow)> {
        zones.sort_by_key(|[began, ended]| (*began, std::cmp::Reverse(*ended)));
        let mut rows = NestedRows::default();
        zones.into_iter().map(|zone| (zone, rows.place(zone))).collect()
    }

    #[test]
    fn a_zone_lies_below_the_one_around_it_and_beside_one_that_it_overlaps() {
        let rows = placed(vec![[0, 100], [10, 40], [10, 20], [30, 60], [70, 80], [100, 110]]);
        let places: Vec<_> = rows.iter().map(|(_, place)| (place.row, place.depth)).collect();
        assert_eq!(places, [(0, 0), (1, 1), (2, 2), (2, 1), (1, 1), (0, 0)]);
    }

    proptest! {
        #[test]
        fn rows_do_not_overlap_and_what_lies_within_is_below(
            zones in prop::collection::vec((0..300_u64, 0..60_u64), 0..200),
        ) {
            let zones = zones.into_iter().map(|(began, length)| [began, began + length]).collect();
            let placed = placed(zones);
            let mut last = [0; MOST_ROWS];
            for (zone, NestedRow { row, depth, span }) in &placed {
                let row = *row as usize;
                prop_assert!(span[0] >= last[row] && span[1] >= span[0]);
                prop_assert!(row >= *depth as usize || row == MOST_ROWS - 1);
                prop_assert!(row == MOST_ROWS - 1 || span == zone);
                last[row] = span[1];
            }
        }
    }
}
