//! How much a message matters.

use crate::{Fields, Strings, Value};

/// How much a message matters, by what its program says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// More than debugging needs.
    Trace,
    /// For debugging.
    Debug,
    /// Anything else.
    Info,
    /// Something may be wrong.
    Warning,
    /// Something is wrong.
    Error,
    /// The program cannot go on.
    Fatal,
}

impl Severity {
    /// What programs call the field, which no protocol defines: loggers have one of these names.
    const FIELDS: [&str; 2] = ["severity", "level"];

    /// The severity that a field says, if one has the usual name and one of the usual words.
    pub fn of_fields(fields: &Fields, strings: &Strings) -> Option<Self> {
        let named = fields.iter().filter(|field| {
            let name = strings.get(field.name);
            Self::FIELDS.iter().any(|known| name.eq_ignore_ascii_case(known))
        });
        let words = named.filter_map(|field| match &field.value {
            Value::Text(text) => Some(&**text),
            Value::String(id) => Some(strings.get(*id)),
            _ => None,
        });
        words.filter_map(Self::from_word).next()
    }

    /// The severity that loggers call so, in any case.
    fn from_word(word: &str) -> Option<Self> {
        Some(match word.to_ascii_lowercase().as_str() {
            "trace" | "verbose" => Self::Trace,
            "debug" => Self::Debug,
            "info" | "information" | "notice" => Self::Info,
            "warn" | "warning" => Self::Warning,
            "error" | "err" => Self::Error,
            "fatal" | "critical" => Self::Fatal,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Field;

    #[test]
    fn a_message_matters_as_much_as_its_first_field_of_that_kind_says() {
        let mut strings = Strings::default();
        // Another field's word is none.
        for (fields, severity) in [
            (&[("Level", "WARN")][..], Some(Severity::Warning)),
            (&[("state", "error"), ("severity", "err")], Some(Severity::Error)),
            (&[("level", "high"), ("severity", "fatal")], Some(Severity::Fatal)),
            (&[("level", "high")], None),
            (&[("state", "error")], None),
        ] {
            let reported = fields.iter().map(|(name, value)| {
                Field::named(strings.intern(name), Value::Text((*value).into()))
            });
            let reported = reported.collect();
            assert_eq!(Severity::of_fields(&reported, &strings), severity, "{fields:?}");
        }
    }
}
