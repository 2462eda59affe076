//! Stacks that events name by a key, which is defined later.

use super::address_lists::ListId;
use rustc_hash::FxHashMap;

/// What each key meant, and until when.
///
/// The kernel keeps stacks under a key and tells them when it forgets them, or at
/// the end; then the key may be given to another stack. So the definition of a
/// key is the first one behind the reference.
#[derive(Debug, Default)]
pub(super) struct StackKeys {
    /// Raw time of the definition and the stack, ascending once [sealed](Self::seal).
    definitions: FxHashMap<u64, Vec<(u64, ListId)>>,
}

impl StackKeys {
    /// The key meant this stack up to raw time `at`.
    pub(super) fn define(&mut self, key: u64, at: u64, list: ListId) {
        self.definitions.entry(key).or_default().push((at, list));
    }

    /// Sorts what was defined; to be called before the first look-up.
    pub(super) fn seal(&mut self) {
        for definitions in self.definitions.values_mut() {
            definitions.sort_unstable();
            // Of definitions that say the same, the last covers the others' time, too.
            definitions.reverse();
            definitions.dedup_by_key(|(_, list)| *list);
            definitions.reverse();
            definitions.shrink_to_fit();
        }
    }

    /// What the key meant at raw time `at`; behind the last definition, that one.
    #[inline]
    pub(super) fn get(&self, key: u64, at: u64) -> Option<ListId> {
        let definitions = self.definitions.get(&key)?;
        let index = definitions.partition_point(|(until, _)| *until < at);
        definitions.get(index).or(definitions.last()).map(|(_, list)| *list)
    }

    /// Everything that a key ever meant.
    pub(super) fn all(&self, key: u64) -> impl Iterator<Item = ListId> + '_ {
        self.definitions.get(&key).into_iter().flatten().map(|(_, list)| *list)
    }
}

#[cfg(test)]
mod tests {
    use super::super::address_lists::AddressLists;
    use super::*;

    #[test]
    fn a_key_that_is_used_again_means_the_stack_that_is_told_next() {
        let mut lists = AddressLists::default();
        let (a, b) = (lists.intern(&[1]), lists.intern(&[2]));
        let mut keys = StackKeys::default();
        keys.define(7, 30, b);
        keys.define(7, 20, a);
        keys.define(7, 10, a);
        keys.seal();
        assert_eq!(
            [5, 10, 15, 20, 21, 30, 99].map(|at| keys.get(7, at)),
            [a, a, a, a, b, b, b].map(Some)
        );
        assert_eq!(keys.get(8, 5), None);
        assert_eq!(keys.all(7).collect::<Vec<_>>(), [a, b]);
    }
}
