//! The items without a stamp, which say more of the item before them.

use crate::zones::stacks::WrittenStack;
use syscollect_zone_protocol::{
    Attribute, ImageBlocks, Item, StackEnding, StackPiece, TextPiece, TextRole, Value, item_words,
};

/// What such an item says. Texts and stacks that lie in several items are one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ItemPart {
    Tag {
        role: TextRole,
        string: u32,
        number: u64,
    },
    Text {
        role: TextRole,
        field: u32,
        text: String,
    },
    Value {
        field: u32,
        value: Value,
    },
    Color(u32),
    TaskName {
        string: u32,
        task: u64,
    },
    /// Of the program's code.
    Stack(WrittenStack),
    /// Of an image, which they name.
    ImageBlocks(ImageBlocks),
    /// It cannot be understood.
    Unknown,
}

/// Reads the parts of a group.
pub(crate) struct Parts<'a>(&'a [u64]);

impl<'a> Parts<'a> {
    /// The parts in these words, which hold whole items.
    pub(crate) fn new(words: &'a [u64]) -> Self {
        Self(words)
    }

    /// The next item, with its words if it is an attribute.
    fn item(&mut self) -> Option<Option<Attribute>> {
        let (item, rest) = self.0.split_at_checked(item_words(*self.0.first()?)?)?;
        self.0 = rest;
        Some(attribute(item))
    }

    /// The piece of the next item, where `piece` finds in it one that goes on with what came
    /// before.
    fn continuation<T>(&mut self, piece: impl Fn(Attribute) -> Option<T>) -> Option<T> {
        let next = attribute(self.0).and_then(piece)?;
        self.item()?;
        Some(next)
    }

    /// The whole text that begins with this piece.
    fn text(&mut self, role: TextRole, field: u32, first: TextPiece, mut more: bool) -> ItemPart {
        let mut bytes = first.bytes().to_vec();
        while more
            && let Some((piece, goes_on)) = self.continuation(|next| match next {
                Attribute::Text { role: of, field: at, piece, more }
                    if (of, at) == (role, field) =>
                {
                    Some((piece, more))
                }
                _ => None,
            })
        {
            bytes.extend_from_slice(piece.bytes());
            more = goes_on;
        }
        let text = match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        };
        ItemPart::Text { role, field, text }
    }

    /// The whole stack that begins with this piece.
    fn stack(&mut self, first: StackPiece, mut more: bool, mut ending: StackEnding) -> ItemPart {
        let mut addresses = first.addresses().to_vec();
        while more
            && let Some((piece, goes_on, ends)) = self.continuation(|next| match next {
                Attribute::Stack { piece, more, ending } => Some((piece, more, ending)),
                _ => None,
            })
        {
            addresses.extend_from_slice(piece.addresses());
            (more, ending) = (goes_on, ends);
        }
        ItemPart::Stack(WrittenStack { addresses, ending })
    }
}

/// The items of a group behind its first.
pub(crate) fn own_attributes(words: &[u64]) -> &[u64] {
    let own = words.first().and_then(|first| item_words(*first));
    own.and_then(|own| words.get(own..)).unwrap_or_default()
}

/// The attribute at the beginning of these words.
fn attribute(words: &[u64]) -> Option<Attribute> {
    match Item::decode(words)? {
        Item::Attribute(attribute) => Some(attribute),
        Item::Stamped { .. } => None,
    }
}

impl Iterator for Parts<'_> {
    type Item = ItemPart;

    fn next(&mut self) -> Option<ItemPart> {
        Some(match self.item()? {
            Some(Attribute::Text { role, field, piece, more }) => {
                self.text(role, field, piece, more)
            }
            Some(Attribute::Stack { piece, more, ending }) => self.stack(piece, more, ending),
            Some(Attribute::ImageBlocks(blocks)) => ItemPart::ImageBlocks(blocks),
            Some(Attribute::Color(color)) => ItemPart::Color(color),
            Some(Attribute::TaskName { string, task }) => ItemPart::TaskName { string, task },
            Some(Attribute::Tag { role, string, number }) => ItemPart::Tag { role, string, number },
            Some(Attribute::Value { field, value }) => ItemPart::Value { field, value },
            None => ItemPart::Unknown,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(role: TextRole, field: u32, text: &str) -> Vec<u64> {
        let pieces = Attribute::text_pieces(role, field, text.as_bytes());
        pieces.flat_map(|piece| Item::Attribute(piece).encode().to_vec()).collect()
    }

    #[test]
    fn a_text_of_many_items_is_one_and_the_next_begins_anew() {
        let long = "ä long text that does not fit into one item, nor into two of them";
        let words =
            [text(TextRole::ZoneText, 0, long), text(TextRole::ZoneText, 0, "short")].concat();
        let parts: Vec<_> = Parts::new(&words).collect();
        assert_eq!(parts, [part(long), part("short")]);
    }

    fn part(text: &str) -> ItemPart {
        ItemPart::Text { role: TextRole::ZoneText, field: 0, text: text.into() }
    }

    #[test]
    fn a_text_whose_rest_is_missing_ends_there() {
        let mut words = text(TextRole::Message, 0, "twenty-four bytes and so much more");
        words.truncate(4);
        words.extend_from_slice(&Item::Attribute(Attribute::Color(0x123456)).encode());
        let parts: Vec<_> = Parts::new(&words).collect();
        let cut = ItemPart::Text {
            role: TextRole::Message,
            field: 0,
            text: "twenty-four bytes and so".into(),
        };
        assert_eq!(parts, [cut, ItemPart::Color(0x123456)]);
    }

    proptest! {
        #[test]
        fn words_of_any_content_end(
            words in prop::collection::vec(any::<u64>(), 0..64),
            kinds in prop::collection::vec(0u8..0x20, 64),
        ) {
            let words: Vec<u64> = words
                .iter()
                .zip(&kinds)
                .map(|(word, kind)| word & !0xff | u64::from(*kind))
                .collect();
            prop_assert!(Parts::new(&words).count() <= words.len());
        }
    }
}
