//! Strings that are each kept once, under indices.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;

/// Different strings in the order in which they were interned: each is found by its index, and each
/// index by its string.
///
/// The strings lie one behind another, so that each costs its bytes and some 20 more: a recording
/// can have millions. Recorded programs choose the strings, so the hash is keyed at random: nobody
/// can prepare collisions.
#[derive(Clone, Debug, Default)]
pub struct StringTable {
    strings: String,
    /// Where each ends in `strings`, bytes.
    ends: Vec<usize>,
    entries: HashTable<HashedString>,
    hasher: RandomState,
}

/// An entry of the hash table. It keeps the hash, so that neither a lookup nor a table that grows
/// reads the other strings.
#[derive(Clone, Copy, Debug)]
struct HashedString {
    hash: u32,
    index: u32,
}

impl HashedString {
    /// The hash in 64 bits: the table takes a bucket from the lower ones and a tag from the upper.
    fn table_hash(self) -> u64 {
        u64::from(self.hash) << 32 | u64::from(self.hash)
    }
}

impl StringTable {
    /// The index of `string`, which is added if it is new. Indices suffice for 2^32 strings, more
    /// than memory holds.
    pub fn intern(&mut self, string: &str) -> u32 {
        let new = self.new_entry(string);
        if let Some(index) = self.find_entry(string, new) {
            return index;
        }
        self.strings.push_str(string);
        self.ends.push(self.strings.len());
        self.entries.insert_unique(new.table_hash(), new, |entry| entry.table_hash());
        new.index
    }

    /// The index of `string`, if it was interned.
    pub fn find(&self, string: &str) -> Option<u32> {
        self.find_entry(string, self.new_entry(string))
    }

    /// The entry that `string` gets if it is new.
    fn new_entry(&self, string: &str) -> HashedString {
        let (hash, index) = (self.hasher.hash_one(string) as u32, self.ends.len() as u32);
        HashedString { hash, index }
    }

    fn find_entry(&self, string: &str, new: HashedString) -> Option<u32> {
        let is_equal =
            |entry: &HashedString| entry.hash == new.hash && self.get(entry.index) == string;
        self.entries.find(new.table_hash(), is_equal).map(|entry| entry.index)
    }

    /// The string of an index that [`Self::intern`] returned; panics for any other.
    pub fn get(&self, index: u32) -> &str {
        let index = index as usize;
        let begin = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.strings[begin..self.ends[index]]
    }

    /// Number of strings.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is no string.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of all strings together.
    pub fn bytes(&self) -> usize {
        self.strings.len()
    }

    /// All strings by index, from 0 on.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> + Clone {
        (0..self.ends.len() as u32).map(|index| self.get(index))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn each_string_has_one_index_and_each_index_its_string(
            strings in prop::collection::vec("[ab]{0,3}", 0..200),
        ) {
            let mut table = StringTable::default();
            let indices: Vec<u32> = strings.iter().map(|string| table.intern(string)).collect();
            for (string, index) in strings.iter().zip(&indices) {
                prop_assert_eq!(table.get(*index), string);
                prop_assert_eq!(table.find(string), Some(*index));
            }
            let mut different: Vec<&str> = Vec::new();
            for string in &strings {
                if !different.contains(&string.as_str()) {
                    different.push(string);
                }
            }
            prop_assert_eq!(table.iter().collect::<Vec<_>>(), different);
            prop_assert_eq!(table.bytes(), table.iter().map(str::len).sum::<usize>());
            prop_assert_eq!(table.find("abc"), None);
        }
    }
}
