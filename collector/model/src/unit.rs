//! Units of counters.

use crate::{StringId, Strings};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The unit of a counter's values.
///
/// Programs may name units of their own. `Name` is such a name: a row of
/// [`Tables::strings`](crate::Tables::strings) in tracks, a `String` in what has no tables
/// (definitions, reports).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Unit<Name = StringId> {
    /// A number without a unit.
    #[default]
    Number,
    /// Percent: 100 is all of it.
    Percent,
    /// Bytes.
    Bytes,
    /// Watts.
    Watts,
    /// Kilohertz.
    Kilohertz,
    /// One that a program named.
    Other(Name),
}

impl<Name> Unit<Name> {
    /// The unit that is written so, if it is one that viewers know.
    fn known(text: &str) -> Option<Self> {
        Some(match text {
            "" => Self::Number,
            "%" => Self::Percent,
            // The latter is what programs write.
            "bytes" | "B" => Self::Bytes,
            "W" => Self::Watts,
            "kHz" => Self::Kilohertz,
            _ => return None,
        })
    }

    /// The unit as people write it, empty for a number, or the name that a program gave it.
    fn symbol(&self) -> Result<&'static str, &Name> {
        Ok(match self {
            Self::Number => "",
            Self::Percent => "%",
            Self::Bytes => "bytes",
            Self::Watts => "W",
            Self::Kilohertz => "kHz",
            Self::Other(name) => return Err(name),
        })
    }
}

impl Unit {
    /// The unit that is written so: `""`, `"%"`, `"bytes"`, `"W"`, `"kHz"`, or any other name.
    pub fn from_text(text: &str, strings: &mut Strings) -> Self {
        Self::known(text).unwrap_or_else(|| Self::Other(strings.intern(text)))
    }

    /// The same of one whose name need not stay for ever.
    pub fn from_passing_text(text: &str, strings: &mut Strings) -> Self {
        Self::known(text).unwrap_or_else(|| Self::Other(strings.intern_passing(text)))
    }

    /// The unit as people write it; empty for a number without one.
    pub fn text(self, strings: &Strings) -> &str {
        self.symbol().unwrap_or_else(|name| strings.get(*name))
    }

    /// The same with its name, which needs no table.
    pub fn named(self, strings: &Strings) -> Unit<String> {
        Unit::from(self.text(strings))
    }
}

impl Unit<String> {
    /// The unit as people write it; empty for a number without one.
    pub fn text(&self) -> &str {
        self.symbol().unwrap_or_else(String::as_str)
    }

    /// The same with its name in a table.
    pub fn intern(&self, strings: &mut Strings) -> Unit {
        Unit::from_text(self.text(), strings)
    }
}

impl From<&str> for Unit<String> {
    fn from(text: &str) -> Self {
        Self::known(text).unwrap_or_else(|| Self::Other(text.to_owned()))
    }
}

/// In files a unit is its text.
impl Serialize for Unit<String> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.text())
    }
}

impl<'de> Deserialize<'de> for Unit<String> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self::from(text.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXTS: [&str; 8] = ["", "%", "bytes", "W", "kHz", "items", "ms", "KB"];

    #[test]
    fn a_units_text_comes_back() {
        let mut strings = Strings::default();
        for text in TEXTS {
            let unit = Unit::from_text(text, &mut strings);
            assert_eq!(unit.text(&strings), text);
            assert_eq!(unit.named(&strings).text(), text);
            assert_eq!(unit.named(&strings).intern(&mut strings), unit);
        }
        assert_eq!(strings.len(), 3, "only what programs name is a string");
        assert_eq!(Unit::from_text("kHz", &mut strings), Unit::Kilohertz);
        assert_eq!(Unit::from_text("B", &mut strings), Unit::Bytes);
        assert_eq!(Unit::from_text("", &mut strings), Unit::default());
    }

    #[test]
    fn files_have_the_text() {
        for text in TEXTS {
            let json = serde_json::json!(text);
            let unit: Unit<String> = serde_json::from_value(json.clone()).unwrap();
            assert_eq!(unit, Unit::from(text));
            assert_eq!(serde_json::to_value(&unit).unwrap(), json);
        }
    }
}
