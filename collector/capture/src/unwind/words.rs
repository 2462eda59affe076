//! The words that the collector and the kernel programs share (`bpf/include/unwind.h`).

use std::ops::Range;
use std::sync::atomic::Ordering;

use syscollect_records::unwind::UnwindRow;

use crate::mapped_map::MappedWords;

/// Memory that the programs read and write meanwhile.
pub(super) trait Words {
    /// How many there are.
    fn length(&self) -> usize;
    /// What is there now; 0 beyond their end, where a program finds nothing either.
    fn load(&self, index: usize) -> u64;
    /// Whoever sees this store sees all that were made before it; beyond their end there is nothing
    /// to store to.
    fn store(&self, index: usize, word: u64);
}

impl Words for MappedWords {
    fn length(&self) -> usize {
        self.words().len()
    }

    fn load(&self, index: usize) -> u64 {
        self.words().get(index).map_or(0, |word| word.load(Ordering::Acquire))
    }

    fn store(&self, index: usize, word: u64) {
        if let Some(place) = self.words().get(index) {
            place.store(word, Ordering::Release);
        }
    }
}

/// A row as the programs take it: the bytes of the structure as one number.
pub(super) fn word_of(row: UnwindRow) -> u64 {
    let mut bytes = [0; UnwindRow::SIZE];
    bytes.copy_from_slice(row.as_bytes());
    u64::from_ne_bytes(bytes)
}

/// Words of a page: what it has, and in which epoch a walk used it last.
pub(super) const WORDS_OF_PAGE: usize = 2;

/// States of a page, in the upper 2 bits of its first word.
const WANTED: u64 = 1;
const READY: u64 = 2;
const REFUSED: u64 = 3;
/// With the first of them: a walk that comes by asks all the same.
const EXPECTED: u64 = 1 << 32;

/// What a page has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageState {
    /// Nothing, and nobody has asked for it.
    Nothing,
    /// A walk through a program of this user came by.
    Wanted { user: u32 },
    /// No walk has come by, but one of this user's is expected to.
    Expected { user: u32 },
    /// So many rows from `first` on. Two contents of the same places have different generations, of
    /// [`PAGE_GENERATIONS`].
    Ready { generation: u16, rows: u16, first: u32 },
    /// This user had no room for its rows: stacks through it are unwound later, or end there, until
    /// a program of another user comes by, or the next epoch.
    Refused { user: u32 },
}

pub(super) const PAGE_GENERATIONS: u16 = 1 << 15;

impl PageState {
    pub(super) fn word(self) -> u64 {
        match self {
            Self::Nothing => 0,
            Self::Wanted { user } => WANTED << 62 | u64::from(user),
            Self::Expected { user } => WANTED << 62 | EXPECTED | u64::from(user),
            Self::Ready { generation, rows, first } => {
                let generation = u64::from(generation % PAGE_GENERATIONS);
                READY << 62 | generation << 47 | u64::from(rows) << 32 | u64::from(first)
            }
            Self::Refused { user } => REFUSED << 62 | u64::from(user),
        }
    }

    pub(super) fn of_word(word: u64) -> Self {
        let low = word as u32;
        match word >> 62 {
            WANTED if word & EXPECTED != 0 => Self::Expected { user: low },
            WANTED => Self::Wanted { user: low },
            READY => Self::Ready {
                generation: (word >> 47) as u16 % PAGE_GENERATIONS,
                rows: (word >> 32) as u16 & 0x7fff,
                first: low,
            },
            REFUSED => Self::Refused { user: low },
            _ => Self::Nothing,
        }
    }
}

/// Numbers that files can have; 0 is none.
pub(super) const FILE_NUMBERS: u32 = 1 << 12;
pub(super) const FILE_GENERATIONS: u32 = 1 << 13;
/// Pages that a file can have.
pub(super) const PAGES_OF_FILE_MAX: u32 = (1 << 18) - 1;

/// A file by its number, which is used again, and the number's generation, which tells its files
/// apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct FileId(u32);

impl FileId {
    pub(super) fn new(number: u32, generation: u32) -> Self {
        Self(generation % FILE_GENERATIONS * FILE_NUMBERS + number % FILE_NUMBERS)
    }

    /// As the programs have it; `None` for what stands for no file.
    pub(super) fn of_programs(id: u64) -> Option<Self> {
        u32::try_from(id).ok().filter(|id| id % FILE_NUMBERS != 0).map(Self)
    }

    pub(super) fn for_programs(self) -> u32 {
        self.0
    }

    pub(super) fn number(self) -> u32 {
        self.0 % FILE_NUMBERS
    }

    /// The generation that the number's next file has.
    pub(super) fn next_generation(self) -> u32 {
        self.generation() + 1
    }

    fn generation(self) -> u32 {
        self.0 / FILE_NUMBERS
    }

    /// What the programs find under its number.
    pub(super) fn word(self, pages: &Range<u32>, has_interpreter: bool) -> u64 {
        u64::from(has_interpreter) << 63
            | u64::from(self.generation()) << 50
            | u64::from(pages.end - pages.start) << 32
            | u64::from(pages.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_pages_word_is_what_was_put_in(
            user in any::<u32>(), generation in 0..PAGE_GENERATIONS, rows in 0_u16..0x8000,
        ) {
            let first = user;
            for state in [
                PageState::Nothing,
                PageState::Wanted { user },
                PageState::Expected { user },
                PageState::Ready { generation, rows, first },
                PageState::Refused { user },
            ] {
                prop_assert_eq!(PageState::of_word(state.word()), state);
            }
        }

        #[test]
        fn a_files_word_and_id_tell_its_generation_alike(
            number in 1..FILE_NUMBERS, generation in any::<u32>(), pages in 0..PAGES_OF_FILE_MAX,
            is_python in any::<bool>(),
        ) {
            let id = FileId::new(number, generation);
            prop_assert_eq!(FileId::of_programs(id.for_programs().into()), Some(id));
            prop_assert_eq!(id.number(), number);
            // As in unwind.h.
            let word = id.word(&(7..7 + pages), is_python);
            prop_assert_eq!(word >> 50 & 0x1fff, u64::from(id.for_programs() >> 12));
            prop_assert_eq!((word >> 32 & 0x3ffff, word as u32), (pages.into(), 7));
            prop_assert_eq!(word >> 63, u64::from(is_python));
        }
    }
}
