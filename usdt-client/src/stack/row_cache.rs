//! What was found of addresses before, of files that stay loaded as long as this code does.
//!
//! The cache belongs to all threads and has no lock: an entry's two words are written one after the
//! other, and an entry that is half of one and half of another is none, for they do not fit.

use super::module::Module;
use super::rules::{Frame, Row, Rule};
use crate::arch::registers::{FRAME, INSTRUCTION, STACK};
use core::sync::atomic::{AtomicU64, Ordering};

/// Entries.
const ENTRIES: usize = 2048;
/// A file's start that is not known yet.
const UNKNOWN: u64 = u64::MAX;

/// Where the frame is and the caller's frame pointer, the return address being where calls put it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SimpleRow {
    /// Of the frame pointer, not of the stack pointer.
    by_frame_pointer: bool,
    /// The frame's address from there, in words.
    words: u32,
    /// Where the caller's frame pointer is below the frame's address, in words; 0: where it was.
    saved: u16,
}

/// By address: the address mixed with the row, and the row.
static CACHE: [[AtomicU64; 2]; ENTRIES] = [const { [const { AtomicU64::new(0) }; 2] }; ENTRIES];

/// Where the files begin that stay: the one that has this code, the C library, the program.
static LASTING: [AtomicU64; 3] = [const { AtomicU64::new(UNKNOWN) }; 3];

/// Whether the file stays loaded as long as this code is.
pub(crate) fn is_lasting(module: &Module) -> bool {
    let places = [
        is_lasting as *const () as u64,
        libc::process_vm_readv as *const () as u64,
        // SAFETY: asks for a number.
        unsafe { libc::getauxval(libc::AT_ENTRY) },
    ];
    LASTING.iter().zip(places).any(|(start, place)| {
        let mut known = start.load(Ordering::Relaxed);
        if known == UNKNOWN {
            known = Module::at(place).map_or(0, |module| module.start());
            start.store(known, Ordering::Relaxed);
        }
        known == module.start()
    })
}

/// The row at an address, if it is known.
pub(crate) fn find(address: u64) -> Option<SimpleRow> {
    let [mixed, row] = entry(address);
    let row = row.load(Ordering::Relaxed);
    (mixed.load(Ordering::Relaxed) ^ row == address && row != 0).then(|| SimpleRow::unpack(row))
}

/// Remembers a row.
pub(crate) fn remember(address: u64, row: SimpleRow) {
    let [mixed, slot] = entry(address);
    let row = row.pack();
    mixed.store(address ^ row, Ordering::Relaxed);
    slot.store(row, Ordering::Relaxed);
}

fn entry(address: u64) -> &'static [AtomicU64; 2] {
    let hash = address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    &CACHE[hash as usize % ENTRIES]
}

impl SimpleRow {
    /// The row, if it is as simple as that.
    pub(crate) fn of(row: &Row) -> Option<Self> {
        let Frame::Register(register, offset) = row.frame else { return None };
        let register = usize::from(register);
        let words = u32::try_from(offset).ok().filter(|it| it.is_multiple_of(8))? / 8;
        let saved = match row.rule(FRAME) {
            Rule::Unsaid | Rule::Same => 0,
            Rule::At(offset) => {
                let below = offset.checked_neg().filter(|below| *below > 0 && below % 8 == 0)?;
                u16::try_from(below / 8).ok()?
            }
            _ => return None,
        };
        let is_simple = !row.is_signal
            && [FRAME, STACK].contains(&register)
            && row.rule(INSTRUCTION) == Rule::At(-8)
            && row.rule(STACK) == Rule::Unsaid
            && words < 1 << 28;
        is_simple.then_some(Self { by_frame_pointer: register == FRAME, words, saved })
    }

    /// The frame's address.
    pub(crate) fn frame(self, stack: u64, frame_pointer: u64) -> u64 {
        let base = if self.by_frame_pointer { frame_pointer } else { stack };
        base.wrapping_add(u64::from(self.words) * 8)
    }

    /// Where the caller's frame pointer is, if it is not where it was.
    pub(crate) fn saved(self, frame: u64) -> Option<u64> {
        (self.saved != 0).then(|| frame.wrapping_sub(u64::from(self.saved) * 8))
    }

    /// Whether it needs the frame pointer.
    pub(crate) fn by_frame_pointer(self) -> bool {
        self.by_frame_pointer
    }

    /// As a word that is not 0.
    fn pack(self) -> u64 {
        1 << 63
            | u64::from(self.by_frame_pointer) << 62
            | u64::from(self.words) << 16
            | u64::from(self.saved)
    }

    fn unpack(word: u64) -> Self {
        Self {
            by_frame_pointer: word >> 62 & 1 != 0,
            words: (word >> 16) as u32 & ((1 << 28) - 1),
            saved: word as u16,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_remembered_is_found(
            address in 1_u64..1 << 47,
            by_frame_pointer: bool,
            words in 0_u32..1 << 28,
            saved: u16,
        ) {
            let row = SimpleRow { by_frame_pointer, words, saved };
            remember(address, row);
            // Another test may have taken its entry.
            if let Some(found) = find(address) {
                prop_assert_eq!(found, row);
            }
            prop_assert_eq!(SimpleRow::unpack(row.pack()), row);
        }
    }

    #[test]
    fn the_program_and_the_c_library_last() {
        for place in [is_lasting as *const () as u64, libc::qsort as *const () as u64] {
            assert!(is_lasting(&Module::at(place).expect("a file")));
        }
    }
}
