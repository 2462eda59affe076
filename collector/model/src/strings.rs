//! The texts that rows and events refer to.

use crate::{StringId, StringTable};
use rustc_hash::{FxHashMap, FxHashSet};

/// What stands for a text that was forgotten.
const FORGOTTEN: &str = "(forgotten)";
/// Of all texts for which there was no number: four thousand million came before.
const NO_NUMBER: StringId = StringId(u32::MAX);

/// Deduplicated strings.
///
/// Those that [may pass](Self::intern_passing) can be [forgotten](Self::forget). No number is given
/// twice: who still has one of a text that is gone finds that it is, and never another text.
#[derive(Clone, Debug, Default)]
pub struct Strings {
    table: StringTable,
    /// Whether each stays for ever, by its index in the table.
    stays: Vec<bool>,
    /// The numbers of those that stayed where others were forgotten, by their index in the table.
    kept: Vec<u32>,
    /// The same the other way round.
    places: FxHashMap<u32, u32>,
    /// The number of the first behind these.
    first: u32,
}

impl Strings {
    /// The id of `text`, added if it is new.
    pub fn intern(&mut self, text: &str) -> StringId {
        let index = self.table.intern(text);
        if index as usize >= self.stays.len() {
            self.stays.push(true);
        }
        self.stays[index as usize] = true;
        self.id(index)
    }

    /// The same of a text that need not stay for ever, as names of programs that end.
    pub fn intern_passing(&mut self, text: &str) -> StringId {
        let index = self.table.intern(text);
        if index as usize >= self.stays.len() {
            self.stays.push(false);
        }
        self.id(index)
    }

    /// The id of `text`, if there is one.
    pub fn find(&self, text: &str) -> Option<StringId> {
        self.table.find(text).map(|index| self.id(index))
    }

    /// The text of an id.
    pub fn get(&self, id: StringId) -> &str {
        match id.0.checked_sub(self.first) {
            _ if id == NO_NUMBER => FORGOTTEN,
            Some(index) => self.table.get(index + self.kept.len() as u32),
            None => self.places.get(&id.0).map_or(FORGOTTEN, |index| self.table.get(*index)),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Bytes of all of them together.
    pub fn bytes(&self) -> usize {
        self.table.bytes()
    }

    /// Forgets those that may pass and are not used.
    pub fn forget(&mut self, used: &FxHashSet<StringId>) {
        let end = self.first.saturating_add((self.table.len() - self.kept.len()) as u32);
        let mut left = Self { first: end, ..Self::default() };
        for (index, text) in (0..).zip(self.table.iter()) {
            let (id, stays) = (self.id(index), self.stays[index as usize]);
            if stays || used.contains(&id) {
                left.places.insert(id.0, left.table.intern(text));
                left.kept.push(id.0);
                left.stays.push(stays);
            }
        }
        *self = left;
    }

    fn id(&self, index: u32) -> StringId {
        let kept = self.kept.get(index as usize).copied();
        let behind = || self.first.saturating_add(index - self.kept.len() as u32);
        kept.map_or_else(|| StringId(behind()), StringId)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_stays_keeps_its_number_and_what_comes_back_gets_another() {
        let mut strings = Strings::default();
        let [passing, used] = ["passing", "used"].map(|text| strings.intern_passing(text));
        let stays = strings.intern("stays");
        strings.forget(&[used].into_iter().collect());
        let texts = [passing, used, stays].map(|id| strings.get(id));
        assert_eq!(texts, [FORGOTTEN, "used", "stays"]);
        let again = strings.intern_passing("passing");
        assert_ne!(again, passing);
        assert_eq!(
            ["stays", "used", "passing"].map(|text| strings.find(text)),
            [Some(stays), Some(used), Some(again)]
        );
    }

    #[test]
    fn endless_names_take_what_those_that_are_used_take() {
        let mut strings = Strings::default();
        for number in 0..200_000 {
            strings.intern_passing(&format!("worker {number}"));
            if strings.len() > 1_000 {
                strings.forget(&FxHashSet::default());
            }
        }
        assert!(strings.bytes() < 20_000, "{}", strings.bytes());
    }

    proptest! {
        #[test]
        fn a_number_means_its_text_as_long_as_that_is_kept(
            steps in prop::collection::vec(("[ab]{0,3}", 0u8..4), 0..200),
        ) {
            let mut strings = Strings::default();
            let mut given = Vec::<(StringId, String, bool)>::new();
            for (text, kind) in steps {
                match kind {
                    0 => {
                        let odd = |id: &StringId| id.0 % 2 == 1;
                        let used: FxHashSet<StringId> =
                            given.iter().map(|(id, ..)| *id).filter(odd).collect();
                        strings.forget(&used);
                        let stays: FxHashSet<String> = given.iter().filter(|(.., stays)| *stays)
                            .map(|(_, text, _)| text.clone()).collect();
                        given.retain(|(id, text, _)| odd(id) || stays.contains(text));
                    }
                    1 => given.push((strings.intern(&text), text, true)),
                    _ => given.push((strings.intern_passing(&text), text, false)),
                }
                for (id, text, _) in &given {
                    prop_assert_eq!(strings.get(*id), text.as_str());
                    prop_assert_eq!(strings.find(text), Some(*id));
                }
            }
        }
    }
}
