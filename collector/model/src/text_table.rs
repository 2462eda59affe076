//! Texts that are each kept once, under numbers.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;

/// Different texts in the order in which they came, each found by its number and each number by its
/// text.
///
/// They lie one behind another, so that a text costs its bytes and some 15 more: recorded programs
/// may have millions. They also choose the texts, so the hash is one whose collisions nobody can
/// make.
#[derive(Clone, Debug, Default)]
pub struct TextTable {
    texts: String,
    /// Where each ends in `texts`.
    ends: Vec<usize>,
    numbers: HashTable<u32>,
    hasher: RandomState,
}

impl TextTable {
    /// The number of `text`, which is added if it is new. There is room for 2^32 texts, which
    /// memory cannot hold.
    pub fn intern(&mut self, text: &str) -> u32 {
        let Self { texts, ends, numbers, hasher } = self;
        let hash = hasher.hash_one(text);
        if let Some(number) = numbers.find(hash, |number| text_of(texts, ends, *number) == text) {
            return *number;
        }
        let number = ends.len() as u32;
        texts.push_str(text);
        ends.push(texts.len());
        numbers
            .insert_unique(hash, number, |number| hasher.hash_one(text_of(texts, ends, *number)));
        number
    }

    /// The number of `text`, if it is there.
    pub fn find(&self, text: &str) -> Option<u32> {
        let Self { texts, ends, numbers, hasher } = self;
        let is_it = |number: &u32| text_of(texts, ends, *number) == text;
        numbers.find(hasher.hash_one(text), is_it).copied()
    }

    /// The text of a number; of one that [`Self::intern`] has not given, none.
    pub fn get(&self, number: u32) -> &str {
        text_of(&self.texts, &self.ends, number)
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

fn text_of<'a>(texts: &'a str, ends: &[usize], number: u32) -> &'a str {
    let number = number as usize;
    let begin = number.checked_sub(1).map_or(0, |before| ends[before]);
    &texts[begin..ends[number]]
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
