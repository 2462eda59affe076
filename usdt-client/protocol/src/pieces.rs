//! What is longer than an item lies in several: texts and stacks.

use crate::item::MAX_ITEM_WORDS;

/// Bytes of text in one [`Attribute::Text`](crate::Attribute::Text).
pub const TEXT_BYTES: usize = 24;
/// Addresses in one [`Attribute::Stack`](crate::Attribute::Stack).
pub const STACK_ADDRESSES: usize = 3;

/// Up to [`TEXT_BYTES`] bytes of a text. A letter may begin in one piece and end in the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextPiece {
    bytes: [u8; TEXT_BYTES],
    length: u8,
}

/// Up to [`STACK_ADDRESSES`] addresses of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackPiece {
    addresses: [u64; STACK_ADDRESSES],
    length: u8,
}

/// Words of the items for a text of so many bytes (an upper bound).
pub const fn text_words(bytes: usize) -> usize {
    let pieces = bytes.div_ceil(TEXT_BYTES);
    if pieces == 0 { MAX_ITEM_WORDS } else { pieces * MAX_ITEM_WORDS }
}

/// Words of the items for a stack of so many addresses (an upper bound).
pub const fn stack_words(addresses: usize) -> usize {
    addresses.div_ceil(STACK_ADDRESSES) * MAX_ITEM_WORDS
}

impl TextPiece {
    /// The first [`TEXT_BYTES`] of these bytes.
    pub fn new(text: &[u8]) -> Self {
        let mut bytes = [0; TEXT_BYTES];
        let length = text.len().min(TEXT_BYTES);
        bytes[..length].copy_from_slice(&text[..length]);
        Self { bytes, length: length as u8 }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// How many bytes.
    pub(crate) fn length(&self) -> u8 {
        self.length
    }

    /// Puts the bytes into words.
    pub(crate) fn write(&self, words: &mut [u64]) {
        for (word, bytes) in words.iter_mut().zip(self.bytes.as_chunks().0) {
            *word = u64::from_le_bytes(*bytes);
        }
    }

    pub(crate) fn of_words(words: &[u64], length: u8) -> Self {
        let mut bytes = [0; TEXT_BYTES];
        for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
            *bytes = word.to_le_bytes();
        }
        let length = length.min(TEXT_BYTES as u8).min(words.len().saturating_mul(8) as u8);
        Self::new(&bytes[..usize::from(length)])
    }
}

impl StackPiece {
    /// The first [`STACK_ADDRESSES`] of these addresses.
    pub fn new(stack: &[u64]) -> Self {
        let mut addresses = [0; STACK_ADDRESSES];
        let length = stack.len().min(STACK_ADDRESSES);
        addresses[..length].copy_from_slice(&stack[..length]);
        Self { addresses, length: length as u8 }
    }

    /// How many addresses.
    pub(crate) fn length(&self) -> u8 {
        self.length
    }

    /// The addresses.
    pub fn addresses(&self) -> &[u64] {
        &self.addresses[..usize::from(self.length)]
    }
}
