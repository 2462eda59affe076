//! What began and has not ended.

use std::collections::VecDeque;

/// Open at once in one queue; the oldest of more is taken for lost.
pub(super) const LIMIT: usize = 512;

/// What began and has not ended, in order of its beginning. Mostly the oldest
/// ends first.
#[derive(Debug)]
pub(super) struct PendingStarts<K, T> {
    open: VecDeque<(K, T)>,
}

impl<K, T> Default for PendingStarts<K, T> {
    fn default() -> Self {
        Self { open: VecDeque::new() }
    }
}

impl<K: PartialEq, T> PendingStarts<K, T> {
    /// Something begins. Gives back the oldest where there are too many.
    pub(super) fn open(&mut self, key: K, value: T) -> Option<T> {
        let lost = if self.open.len() < LIMIT { None } else { self.open.pop_front() };
        self.open.push_back((key, value));
        lost.map(|(_, value)| value)
    }

    /// The oldest that has this key.
    pub(super) fn get_mut(&mut self, key: &K) -> Option<&mut T> {
        self.open.iter_mut().find(|(open, _)| open == key).map(|(_, value)| value)
    }

    /// The oldest that has this key ends.
    pub(super) fn close(&mut self, key: &K) -> Option<T> {
        let index = self.open.iter().position(|(open, _)| open == key)?;
        self.open.remove(index).map(|(_, value)| value)
    }

    /// Everything ends.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = T> + use<K, T> {
        std::mem::take(&mut self.open).into_iter().map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_twice_ended_once() {
        let mut pending = PendingStarts::default();
        assert_eq!(pending.open(7, "seven"), None);
        assert_eq!(pending.open(8, "eight"), None);
        assert_eq!([8, 8, 7].map(|key| pending.close(&key)), [Some("eight"), None, Some("seven")]);
    }

    #[test]
    fn what_never_ends_gives_way() {
        let mut pending = PendingStarts::default();
        for key in 0..LIMIT {
            assert_eq!(pending.open(key, key), None);
        }
        assert_eq!(pending.open(LIMIT, LIMIT), Some(0));
        assert_eq!(pending.close(&0), None);
        assert_eq!(pending.drain().count(), LIMIT);
    }
}
