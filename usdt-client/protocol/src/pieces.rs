//! What is longer than an item lies in several: texts and stacks.
//!
//! What a program runs at a zone is inlined into the client: across crates the compiler does so
//! only where it is told to, and a text as an item of unknown kind costs a third more.

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
    #[inline(always)]
    pub fn new(text: &[u8]) -> Self {
        let mut bytes = [0; TEXT_BYTES];
        for (word, text) in bytes.as_chunks_mut().0.iter_mut().zip(text.chunks(8)) {
            *word = padded_word(text).to_le_bytes();
        }
        Self { bytes, length: text.len().min(TEXT_BYTES) as u8 }
    }

    /// The bytes.
    #[inline(always)]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// How many bytes.
    #[inline(always)]
    pub(crate) fn length(&self) -> u8 {
        self.length
    }

    /// Puts the bytes into words.
    #[inline(always)]
    pub(crate) fn write(&self, words: &mut [u64]) {
        for (word, bytes) in words.iter_mut().zip(self.bytes.as_chunks().0) {
            *word = u64::from_le_bytes(*bytes);
        }
    }

    #[inline]
    pub(crate) fn of_words(words: &[u64], length: u8) -> Self {
        let mut bytes = [0; TEXT_BYTES];
        for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
            *bytes = word.to_le_bytes();
        }
        let length = length.min(TEXT_BYTES as u8).min(words.len().saturating_mul(8) as u8);
        Self::new(&bytes[..usize::from(length)])
    }
}

/// Up to eight bytes as a word, the rest of which is 0. It is made in registers: bytes that are
/// copied to memory and read back as words cost a zone's text a third of its time, for the
/// processor has to wait until the copy is in its cache.
#[inline(always)]
fn padded_word(mut bytes: &[u8]) -> u64 {
    if let Some(eight) = bytes.first_chunk() {
        return u64::from_le_bytes(*eight);
    }
    let (mut word, mut shift) = (0, 0);
    if let Some((four, rest)) = bytes.split_first_chunk() {
        word = u64::from(u32::from_le_bytes(*four));
        (shift, bytes) = (32, rest);
    }
    if let Some((two, rest)) = bytes.split_first_chunk() {
        word |= u64::from(u16::from_le_bytes(*two)) << shift;
        (shift, bytes) = (shift + 16, rest);
    }
    match bytes {
        [last, ..] => word | u64::from(*last) << shift,
        [] => word,
    }
}

impl StackPiece {
    /// The first [`STACK_ADDRESSES`] of these addresses.
    #[inline(always)]
    pub fn new(stack: &[u64]) -> Self {
        // One by one: a copy of a length that is not known is a call.
        let addresses = core::array::from_fn(|index| stack.get(index).copied().unwrap_or_default());
        Self { addresses, length: stack.len().min(STACK_ADDRESSES) as u8 }
    }

    /// How many addresses.
    #[inline(always)]
    pub(crate) fn length(&self) -> u8 {
        self.length
    }

    /// The addresses.
    #[inline(always)]
    pub fn addresses(&self) -> &[u64] {
        &self.addresses[..usize::from(self.length)]
    }
}
