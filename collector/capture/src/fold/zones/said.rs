//! What attributes behind an item are about.

use syscollect_zone_protocol::{Attribute, Item, TextRole, item_words};

/// What an attribute is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// The thread's name; whether the next item goes on with it.
    ThreadName { more: bool },
    /// The innermost zone.
    Zone,
    /// The event before it.
    Event,
}

impl Subject {
    /// That of an attribute behind a marker, or behind another event, as those who read it decide.
    fn of(attribute: Attribute, is_marker: bool) -> Self {
        let (role, more) = match attribute {
            Attribute::Text { role, more, .. } => (role, more),
            Attribute::Tag { role, .. } => (role, false),
            Attribute::Color(_) => return Self::Zone,
            Attribute::Value { .. } if !is_marker => return Self::Zone,
            Attribute::Value { .. }
            | Attribute::TaskName { .. }
            | Attribute::Stack { .. }
            | Attribute::ImageBlocks(_) => return Self::Event,
        };
        match role {
            TextRole::ThreadName => Self::ThreadName { more },
            TextRole::ZoneText | TextRole::ZoneName => Self::Zone,
            TextRole::Message | TextRole::Field | TextRole::AsyncText => Self::Event,
        }
    }
}

/// Attributes one by one, as far as they are known.
#[derive(Clone, Copy)]
pub(super) struct SaidAttributes<'a> {
    /// Their words.
    pub(super) words: &'a [u64],
    /// Whether they stand behind a marker.
    pub(super) is_marker: bool,
}

impl<'a> SaidAttributes<'a> {
    /// Each with what it is about.
    pub(super) fn each(self) -> impl Iterator<Item = (Subject, &'a [u64])> {
        let mut rest = self.words;
        std::iter::from_fn(move || {
            loop {
                let words = item_words(*rest.first()?)?;
                let (attribute, after) = rest.split_at_checked(words)?;
                rest = after;
                if let Some(Item::Attribute(said)) = Item::decode(attribute) {
                    return Some((Subject::of(said, self.is_marker), attribute));
                }
            }
        })
    }
}
