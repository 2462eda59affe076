//! Attributes and values as words.

use super::{
    Attribute, ImageBlocks, ItemKind, ItemWords, MAX_ITEM_WORDS, Value, halves, high, low,
};
use crate::pieces::{STACK_ADDRESSES, StackPiece, TEXT_BYTES, TextPiece};
use crate::{StackEnding, TextRole, ValueType};

impl Attribute {
    /// A text in as many attributes as it needs, at least one.
    #[inline(always)]
    pub fn text_pieces(role: TextRole, field: u32, text: &[u8]) -> impl Iterator<Item = Self> {
        let pieces = text.len().div_ceil(TEXT_BYTES).max(1);
        (0..pieces).map(move |index| {
            let rest = &text[index * TEXT_BYTES..];
            let piece = TextPiece::new(&rest[..rest.len().min(TEXT_BYTES)]);
            Self::Text { role, field, piece, more: index + 1 < pieces }
        })
    }

    /// Return addresses, innermost first, in as many attributes as they need.
    #[inline(always)]
    pub fn stacks(addresses: &[u64], ending: StackEnding) -> impl Iterator<Item = Self> {
        let pieces = addresses.len().div_ceil(STACK_ADDRESSES);
        (0..pieces).map(move |index| {
            let piece = StackPiece::new(&addresses[index * STACK_ADDRESSES..]);
            let more = index + 1 < pieces;
            Self::Stack { piece, more, ending: if more { StackEnding::Unsaid } else { ending } }
        })
    }

    // Left to itself the compiler keeps it as a function of every variant, which costs a value of a
    // zone a third of its time.
    #[inline(always)]
    pub(super) fn encode(self) -> ItemWords {
        use ItemKind as Kind;
        let mut words = [0; MAX_ITEM_WORDS];
        // What lies in the first word beside the kind.
        let (kind, upper, length) = match self {
            Self::Tag { role, string, number } => {
                words[1] = number;
                (Kind::Tag, (role as u64) << 8 | halves(0, string), 2)
            }
            Self::Text { role, field, piece, more } => {
                piece.write(&mut words[1..]);
                let size = u64::from(piece.length()) << 16 | u64::from(more) << 24;
                let length = 1 + usize::from(piece.length()).div_ceil(8);
                (Kind::Text, (role as u64) << 8 | size | halves(0, field), length)
            }
            Self::Value { field, value } => {
                words[1] = value.bits();
                (Kind::Value, (value.value_type() as u64) << 8 | halves(0, field), 2)
            }
            Self::Color(color) => (Kind::Color, u64::from(color & 0xff_ffff) << 8, 1),
            Self::TaskName { string, task } => {
                words[1] = task;
                (Kind::TaskName, halves(0, string), 2)
            }
            Self::Stack { piece, more, ending } => {
                for (word, address) in words[1..].iter_mut().zip(piece.addresses()) {
                    *word = *address;
                }
                let upper =
                    u64::from(piece.length()) << 8 | u64::from(more) << 16 | (ending as u64) << 24;
                (Kind::Stack, upper, 1 + usize::from(piece.length()))
            }
            Self::ImageBlocks(blocks) => return blocks.encode(),
        };
        words[0] = kind as u64 | upper;
        ItemWords { words, length }
    }

    /// The attribute of these words, which are as many as its kind has.
    #[inline]
    pub(super) fn decode(words: &[u64]) -> Option<Self> {
        let (first, rest) = words.split_first()?;
        let (role, number) = ((first >> 8) as u8, rest.first().copied().unwrap_or_default());
        Some(match ItemKind::from_number(*first as u8)? {
            ItemKind::Tag => {
                Self::Tag { role: TextRole::from_number(role)?, string: high(*first), number }
            }
            ItemKind::Text => Self::Text {
                role: TextRole::from_number(role)?,
                field: high(*first),
                piece: TextPiece::of_words(rest, (first >> 16) as u8),
                more: (first >> 24) as u8 != 0,
            },
            ItemKind::Value => {
                Self::Value { field: high(*first), value: Value::decode(role, number)? }
            }
            ItemKind::Color => Self::Color(low(first >> 8) & 0xff_ffff),
            ItemKind::TaskName => Self::TaskName { string: high(*first), task: number },
            ItemKind::Stack => {
                let ending = (first >> 24) as u8;
                Self::Stack {
                    piece: StackPiece::new(rest),
                    more: (first >> 16) as u8 != 0,
                    ending: StackEnding::from_number(ending).unwrap_or(StackEnding::Other),
                }
            }
            ItemKind::ImageBlocks => Self::ImageBlocks(ImageBlocks::decode(*first, rest)),
            _ => return None,
        })
    }
}

impl Value {
    /// The value of these bits; `None` where there is no such type, or the bits are no string's
    /// number.
    #[inline]
    pub fn decode(value_type: u8, bits: u64) -> Option<Self> {
        Some(match ValueType::from_number(value_type)? {
            ValueType::Unsigned => Self::Unsigned(bits),
            ValueType::Signed => Self::Signed(bits as i64),
            ValueType::Float => Self::Float(f64::from_bits(bits)),
            ValueType::String => Self::String(u32::try_from(bits).ok()?),
        })
    }

    /// How its bits are read.
    #[inline(always)]
    pub fn value_type(self) -> ValueType {
        match self {
            Self::Unsigned(_) => ValueType::Unsigned,
            Self::Signed(_) => ValueType::Signed,
            Self::Float(_) => ValueType::Float,
            Self::String(_) => ValueType::String,
        }
    }

    /// Its bits.
    #[inline(always)]
    pub fn bits(self) -> u64 {
        match self {
            Self::Unsigned(value) => value,
            Self::Signed(value) => value as u64,
            Self::Float(value) => value.to_bits(),
            Self::String(number) => number as u64,
        }
    }
}
