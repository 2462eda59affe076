//! A map that stops growing.

use rustc_hash::FxHashMap;
use std::hash::Hash;

/// Totals by key; when there are too many keys, further ones share one row, so
/// that no input makes memory grow without end.
#[derive(Debug)]
pub(super) struct Capped<K, V> {
    rows: FxHashMap<K, V>,
    limit: usize,
    left_out: V,
}

impl<K: Copy + Eq + Hash, V: Default> Capped<K, V> {
    pub(super) fn new(limit: usize) -> Self {
        Self { rows: FxHashMap::default(), limit, left_out: V::default() }
    }

    /// The key's row, or the one that all keys beyond the limit share.
    #[inline]
    pub(super) fn row(&mut self, key: K) -> &mut V {
        if self.rows.len() >= self.limit && !self.rows.contains_key(&key) {
            return &mut self.left_out;
        }
        self.rows.entry(key).or_default()
    }

    /// The rows, in no particular order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.rows.iter()
    }

    /// What the keys beyond the limit amount to.
    pub(super) fn left_out(&self) -> &V {
        &self.left_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_beyond_the_limit_share_a_row_and_known_ones_keep_theirs() {
        let mut totals = Capped::<u32, u64>::new(2);
        for key in [1, 2, 3, 4, 1] {
            *totals.row(key) += 1;
        }
        let mut rows: Vec<_> = totals.iter().map(|(key, count)| (*key, *count)).collect();
        rows.sort_unstable();
        assert_eq!(rows, [(1, 2), (2, 1)]);
        assert_eq!(*totals.left_out(), 2);
    }
}
