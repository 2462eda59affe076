//! What is known of a stack's memory, which may have gaps.

/// Bytes of a word.
const WORD: usize = 8;

/// Pieces of a stack, in the order of their addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackPieces(Vec<StackPiece>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct StackPiece {
    start: u64,
    bytes: Vec<u8>,
}

impl StackPiece {
    fn end(&self) -> u64 {
        self.start.saturating_add(self.bytes.len() as u64)
    }
}

impl StackPieces {
    /// A stack of which all that is known lies from `start` on.
    pub fn from(start: u64, bytes: Vec<u8>) -> Self {
        Self(vec![StackPiece { start, bytes }])
    }

    /// Adds what lies at `start` and above it; `false` if it does not lie above all that is known.
    pub fn add(&mut self, start: u64, bytes: &[u8]) -> bool {
        match self.0.last_mut() {
            Some(last) if start < last.end() => return false,
            Some(last) if start == last.end() => last.bytes.extend_from_slice(bytes),
            _ => self.0.push(StackPiece { start, bytes: bytes.to_vec() }),
        }
        true
    }

    /// Where each piece lay, and what was there.
    pub fn pieces(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.0.iter().map(|piece| (piece.start, piece.bytes.as_slice()))
    }

    /// How many bytes are known.
    pub fn len(&self) -> usize {
        self.0.iter().map(|piece| piece.bytes.len()).sum()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|piece| piece.bytes.is_empty())
    }

    /// The word at an address, if it is known.
    pub fn word(&self, address: u64) -> Option<u64> {
        let above = self.0.partition_point(|piece| piece.start <= address);
        let piece = self.0.get(above.checked_sub(1)?)?;
        let start = usize::try_from(address - piece.start).ok()?;
        let bytes = piece.bytes.get(start..start.checked_add(WORD)?)?;
        // The kernel programs read none across words either.
        let word = bytes.try_into().ok().filter(|_| address.is_multiple_of(WORD as u64))?;
        Some(u64::from_ne_bytes(word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn words_are_found_on_both_sides_of_a_gap_and_not_in_it() {
        let mut stack = StackPieces::from(0x1000, words(&[1, 2]));
        assert!(stack.add(0x1010, &words(&[3])), "what follows at once");
        assert!(stack.add(0x8000, &words(&[4, 5])), "what lies further up");
        let found = |address| stack.word(address);
        assert_eq!([0x1000, 0x1010, 0x8000, 0x8008].map(found), [1, 3, 4, 5].map(Some));
        assert_eq!([0xff8, 0x1018, 0x7ff8, 0x8010, u64::MAX - 7].map(found), [None; 5]);
        assert_eq!([0x1001, 0x1014].map(found), [None; 2], "nothing lies across words");
        assert_eq!((stack.len(), stack.is_empty()), (40, false));
    }

    #[test]
    fn pieces_come_in_the_order_of_their_addresses() {
        let mut stack = StackPieces::default();
        assert!(stack.is_empty() && stack.word(0).is_none());
        assert!(stack.add(0x2000, &words(&[1, 2])));
        assert!(!stack.add(0x1000, &words(&[3])) && !stack.add(0x2008, &words(&[3])));
        assert_eq!((stack.word(0x1000), stack.word(0x2008)), (None, Some(2)));
    }
}
