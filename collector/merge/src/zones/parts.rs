//! The items without a stamp, which say more of the item before them.

use syscollect_usdt_client::protocol::{
    ItemKind, STACK_ADDRESSES, TEXT_BYTES, TextRole, ValueType, item_words,
};

/// What such an item says. Texts and stacks that lie in several items are one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Part {
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
        kind: ValueType,
        field: u32,
        bits: u64,
    },
    Color(u32),
    TaskName {
        string: u32,
        task: u64,
    },
    /// Return addresses, innermost first.
    Stack(Vec<u64>),
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

    /// The next item: its first word and those that belong to it.
    fn item(&mut self) -> Option<(u64, &'a [u64])> {
        let first = *self.0.first()?;
        let (item, rest) = self.0.split_at_checked(item_words(first)?)?;
        self.0 = rest;
        Some((first, &item[1..]))
    }

    /// The next item if it goes on with what `first` began: the same bits but
    /// for its length and the flag that more follows.
    fn continuation(&mut self, first: u64, own: u64) -> Option<(u64, &'a [u64])> {
        let next = *self.0.first()?;
        if (next ^ first) & own != 0 {
            return None;
        }
        self.item()
    }

    fn text(&mut self, first: u64, words: &[u64]) -> Part {
        /// Kind, role and field of a text item.
        const OWN: u64 = 0xffff_ffff_0000_ffff;
        let Some(role) = TextRole::from_number((first >> 8) as u8) else { return Part::Unknown };
        let (mut bytes, mut item) = (Vec::new(), (first, words));
        loop {
            let length = usize::from((item.0 >> 16) as u8).min(TEXT_BYTES);
            let end = bytes.len() + length;
            bytes.extend(item.1.iter().flat_map(|word| word.to_le_bytes()));
            bytes.truncate(end);
            if (item.0 >> 24) as u8 == 0 {
                break;
            }
            let Some(next) = self.continuation(first, OWN) else { break };
            item = next;
        }
        let text = match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        };
        Part::Text { role, field: (first >> 32) as u32, text }
    }

    fn stack(&mut self, first: u64, words: &[u64]) -> Part {
        let (mut addresses, mut item) = (Vec::new(), (first, words));
        loop {
            addresses.extend_from_slice(&item.1[..item.1.len().min(STACK_ADDRESSES)]);
            if (item.0 >> 16) as u8 == 0 {
                break;
            }
            let Some(next) = self.continuation(first, 0xff) else { break };
            item = next;
        }
        Part::Stack(addresses)
    }
}

impl Iterator for Parts<'_> {
    type Item = Part;

    fn next(&mut self) -> Option<Part> {
        let (first, words) = self.item()?;
        let (upper, word) = ((first >> 32) as u32, words.first().copied());
        Some(match (ItemKind::from_number(first as u8), word) {
            (Some(ItemKind::Text), _) => self.text(first, words),
            (Some(ItemKind::Stack), _) => self.stack(first, words),
            (Some(ItemKind::Color), _) => Part::Color((first >> 8) as u32 & 0xff_ffff),
            (Some(ItemKind::TaskName), Some(task)) => Part::TaskName { string: upper, task },
            (Some(ItemKind::Tag), Some(number)) => {
                match TextRole::from_number((first >> 8) as u8) {
                    Some(role) => Part::Tag { role, string: upper, number },
                    None => Part::Unknown,
                }
            }
            (Some(ItemKind::Value), Some(bits)) => match ValueType::from_number((first >> 8) as u8)
            {
                Some(kind) => Part::Value { kind, field: upper, bits },
                None => Part::Unknown,
            },
            _ => Part::Unknown,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(role: TextRole, field: u32, text: &str) -> Vec<u64> {
        let pieces: Vec<&[u8]> = text.as_bytes().chunks(TEXT_BYTES).collect();
        let word =
            |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        let item = |(index, piece): (usize, &&[u8])| {
            let more = u64::from(index + 1 < pieces.len());
            let header = ItemKind::Text as u64
                | (role as u64) << 8
                | (piece.len() as u64) << 16
                | more << 24;
            [vec![header | u64::from(field) << 32], piece.chunks(8).map(word).collect()].concat()
        };
        pieces.iter().enumerate().flat_map(item).collect()
    }

    #[test]
    fn a_text_of_many_items_is_one_and_the_next_begins_anew() {
        let long = "ä long text that does not fit into one item, nor into two of them";
        let words =
            [text(TextRole::ZoneText, 0, long), text(TextRole::ZoneText, 0, "short")].concat();
        let texts: Vec<_> = Parts::new(&words).collect();
        let part =
            |text: &str| Part::Text { role: TextRole::ZoneText, field: 0, text: text.into() };
        assert_eq!(texts, [part(long), part("short")]);
    }

    #[test]
    fn a_text_whose_rest_is_missing_ends_there() {
        let mut words = text(TextRole::Message, 0, "twenty-four bytes and so much more");
        words.truncate(4);
        words.push(ItemKind::Color as u64 | 0x123456 << 8);
        let parts: Vec<_> = Parts::new(&words).collect();
        let cut = Part::Text {
            role: TextRole::Message,
            field: 0,
            text: "twenty-four bytes and so".into(),
        };
        assert_eq!(parts, [cut, Part::Color(0x123456)]);
    }

    proptest! {
        #[test]
        fn words_of_any_content_end(words in prop::collection::vec(any::<u64>(), 0..64), kinds in prop::collection::vec(0u8..0x19, 64)) {
            let words: Vec<u64> = words.iter().zip(&kinds).map(|(word, kind)| word & !0xff | u64::from(*kind)).collect();
            prop_assert!(Parts::new(&words).count() <= words.len());
        }
    }
}
