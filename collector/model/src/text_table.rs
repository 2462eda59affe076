//! Texts that are each kept once, under numbers.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;

/// Different texts in the order in which they came, each found by its number and each number by its
/// text.
///
/// They lie one behind another, so that a text costs its bytes and some 20 more: recorded programs
/// may have millions. They also choose the texts, so the hash is one whose collisions nobody can
/// make.
#[derive(Clone, Debug, Default)]
pub struct TextTable {
    texts: String,
    /// Where each ends in `texts`.
    ends: Vec<usize>,
    found: HashTable<Found>,
    hasher: RandomState,
}

/// A text in the table of hashes: with its hash, no other text is touched to find it, and none for
/// the table to grow.
#[derive(Clone, Copy, Debug)]
struct Found {
    hash: u32,
    number: u32,
}

impl Found {
    /// As the table wants it, which takes its place from the lower bits and a mark from the upper.
    fn place(self) -> u64 {
        u64::from(self.hash) << 32 | u64::from(self.hash)
    }
}

impl TextTable {
    /// The number of `text`, which is added if it is new. There is room for 2^32 texts, which
    /// memory cannot hold.
    pub fn intern(&mut self, text: &str) -> u32 {
        let new = self.as_new(text);
        if let Some(number) = self.find_as(text, new) {
            return number;
        }
        self.texts.push_str(text);
        self.ends.push(self.texts.len());
        self.found.insert_unique(new.place(), new, |found| found.place());
        new.number
    }

    /// The number of `text`, if it is there.
    pub fn find(&self, text: &str) -> Option<u32> {
        self.find_as(text, self.as_new(text))
    }

    /// What a text that is not there would be.
    fn as_new(&self, text: &str) -> Found {
        Found { hash: self.hasher.hash_one(text) as u32, number: self.ends.len() as u32 }
    }

    fn find_as(&self, text: &str, new: Found) -> Option<u32> {
        let is_it = |found: &Found| found.hash == new.hash && self.get(found.number) == text;
        self.found.find(new.place(), is_it).map(|found| found.number)
    }

    /// The text of a number; of one that [`Self::intern`] has not given, none.
    pub fn get(&self, number: u32) -> &str {
        let number = number as usize;
        let begin = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.texts[begin..self.ends[number]]
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of all of them.
    pub fn bytes(&self) -> usize {
        self.texts.len()
    }

    /// All of them by their numbers, from 0 on.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> + Clone {
        (0..self.ends.len() as u32).map(|number| self.get(number))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn each_text_has_one_number_and_each_number_its_text(
            texts in prop::collection::vec("[ab]{0,3}", 0..200),
        ) {
            let mut table = TextTable::default();
            let numbers: Vec<u32> = texts.iter().map(|text| table.intern(text)).collect();
            for (text, number) in texts.iter().zip(&numbers) {
                prop_assert_eq!(table.get(*number), text);
                prop_assert_eq!(table.intern(text), *number);
            }
            let mut different: Vec<&str> = Vec::new();
            for text in &texts {
                if !different.contains(&text.as_str()) {
                    different.push(text);
                }
            }
            prop_assert_eq!(table.iter().collect::<Vec<_>>(), different);
            prop_assert_eq!(table.bytes(), table.iter().map(str::len).sum::<usize>());
        }
    }
}
