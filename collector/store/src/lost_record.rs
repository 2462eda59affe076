//! What kind of record was lost.

use serde::{Deserialize, Serialize};
use syscollect_records::RecordKind;

/// What kind of record was lost, as far as its place does not say it.
///
/// In captures it is the text that it always was ([`Self::name`]), so that old captures and new
/// versions read each other: what this version does not know is kept as it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum LostRecord {
    /// Nobody told the kinds apart.
    #[default]
    Any,
    /// What a kernel program writes; a ring that could not be read, too.
    Kind(RecordKind),
    /// What a kernel program writes, of a kind that the recorder does not know.
    UnknownKind,
    /// A mapping, or another event of perf's rings of mappings.
    Mapping,
    /// What an instrumented program's thread wrote.
    ZoneItem,
    /// The same of a thread that got no ring, because its program has more threads than rings.
    ItemWithoutRing,
    /// The same of a thread that ended before its ring was read.
    ItemUnread,
    /// The same of a thread of which nothing is known.
    ItemOfUnknownThread,
    /// What items refer to.
    ZoneDefinition,
    /// The same, more of it than a program's share.
    ZoneDefinitionBeyondShare,
    /// A ring or a log that was not read to its end when the recording ended.
    ZoneLaneAtEnd,
    /// Items that a program says it lost, more than it can have written: how often it said so, not
    /// how many.
    UnbelievableClaim,
    /// What a kernel program would have written that was skipped, by that program's name; or what
    /// another version calls so.
    Other(String),
}

impl LostRecord {
    /// The names of kinds that no kernel program writes: the one table of them.
    const NAMES: [(Self, &str); 11] = [
        (Self::Any, ""),
        (Self::UnknownKind, "unknown"),
        (Self::Mapping, "mapping"),
        (Self::ZoneItem, "item"),
        (Self::ItemWithoutRing, "event of a thread without a ring"),
        (Self::ItemUnread, "event of a thread that ended unread"),
        (Self::ItemOfUnknownThread, "item of an unknown thread"),
        (Self::ZoneDefinition, "definition"),
        (Self::ZoneDefinitionBeyondShare, "definition beyond a share"),
        (Self::ZoneLaneAtEnd, "ring or log at the end"),
        (Self::UnbelievableClaim, "claim of losses that cannot be"),
    ];

    /// The name that captures have.
    pub fn name(&self) -> &str {
        match self {
            Self::Kind(kind) => kind.name(),
            Self::Other(name) => name,
            _ => Self::NAMES.iter().find(|(known, _)| known == self).map_or("", |(_, name)| name),
        }
    }

    /// What records of that number are.
    pub fn of_number(number: u8) -> Self {
        RecordKind::from_number(number).map_or(Self::UnknownKind, Self::Kind)
    }
}

impl From<String> for LostRecord {
    fn from(name: String) -> Self {
        if let Some((known, _)) = Self::NAMES.into_iter().find(|(_, text)| *text == name) {
            return known;
        }
        match RecordKind::ALL.iter().find(|(_, text)| *text == name) {
            Some((kind, _)) => Self::Kind(*kind),
            None => Self::Other(name),
        }
    }
}

impl From<LostRecord> for String {
    fn from(record: LostRecord) -> Self {
        record.name().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LaneLoss;
    use serde_json::{from_str, to_string};

    #[test]
    fn a_kind_is_its_name_in_captures_whoever_wrote_it() {
        let named = LostRecord::NAMES.map(|(record, name)| (record, name.to_owned()));
        let kinds = RecordKind::ALL.iter().map(|(kind, name)| (LostRecord::Kind(*kind), *name));
        let other = "a kind of a later version".to_owned();
        let all = named
            .into_iter()
            .chain(kinds.map(|(kind, name)| (kind, name.to_owned())))
            .chain([(LostRecord::Other(other.clone()), other)]);
        for (record, name) in all {
            let written = to_string(&record).unwrap();
            assert_eq!(written, format!("{name:?}"));
            assert_eq!(from_str::<LostRecord>(&written).unwrap(), record);
        }
    }

    #[test]
    fn losses_of_old_captures_are_read() {
        let of_ring = r#"{"lane": "zones", "cpu": null, "cause": "lane-full", "count": 3,
            "record": "event of a thread without a ring"}"#;
        assert_eq!(read(of_ring), LostRecord::ItemWithoutRing);
        let nameless = r#"{"lane": "sched", "cpu": 1, "cause": "buffer-full", "count": 3}"#;
        assert_eq!(read(nameless), LostRecord::Any);
    }

    fn read(text: &str) -> LostRecord {
        from_str::<LaneLoss>(text).unwrap().record
    }
}
