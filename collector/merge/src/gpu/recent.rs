//! A map that forgets what is oldest.

use std::collections::VecDeque;
use std::hash::Hash;

use rustc_hash::FxHashMap;

/// Keys that are remembered.
const REMEMBERED: usize = 1 << 16;

/// What was noted last, by its key.
#[derive(Debug)]
pub(crate) struct Recent<K, V> {
    values: FxHashMap<K, (u64, V)>,
    /// Keys with the number of their noting, the oldest first.
    order: VecDeque<(K, u64)>,
    noted: u64,
}

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self { values: FxHashMap::default(), order: VecDeque::new(), noted: 0 }
    }
}

impl<K: Copy + Eq + Hash, V: Copy> Recent<K, V> {
    /// Notes a value in the place of an older one.
    pub(super) fn note(&mut self, key: K, value: V) {
        self.noted += 1;
        self.values.insert(key, (self.noted, value));
        self.order.push_back((key, self.noted));
        if self.order.len() <= REMEMBERED {
            return;
        }
        let Some((oldest, noted)) = self.order.pop_front() else { return };
        // It may have been noted again.
        if self.values.get(&oldest).is_some_and(|(last, _)| *last == noted) {
            self.values.remove(&oldest);
        }
    }

    /// The value that was noted last.
    pub(super) fn get(&self, key: K) -> Option<V> {
        self.values.get(&key).map(|(_, value)| *value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_value_counts_and_the_oldest_are_forgotten() {
        let mut recent = Recent::default();
        recent.note(0, "old");
        recent.note(1, "one");
        recent.note(0, "new");
        assert_eq!((recent.get(0), recent.get(1), recent.get(2)), (Some("new"), Some("one"), None));
        for key in 2..REMEMBERED {
            recent.note(key, "more");
        }
        assert_eq!(
            (recent.get(0), recent.get(1)),
            (Some("new"), Some("one")),
            "of three one was noted twice"
        );
        recent.note(REMEMBERED, "more");
        assert_eq!((recent.get(0), recent.get(1)), (Some("new"), None));
        recent.note(REMEMBERED + 1, "more");
        assert_eq!(recent.get(0), None);
        assert!(recent.values.len() <= REMEMBERED && recent.order.len() == REMEMBERED);
    }
}
