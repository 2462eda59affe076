//! Fields of spans and events.

use super::FIELDS;
use crate::ZoneToken;
use crate::emit::{self, Value};
use crate::identity::Identity;
use crate::thread;
use core::fmt::{self, Display, Write};
use tracing_core::Event;
use tracing_core::field::{Field, Visit};

/// Numbers that are kept of a span.
const MAX_VALUES: usize = 16;
/// Bytes of text that are kept of a span, about.
const MAX_TEXT: usize = 1000;

/// The fields of a span.
#[derive(Default)]
pub(super) struct Fields {
    values: Vec<(&'static str, Value)>,
    /// "name=value name=value".
    text: String,
}

impl Fields {
    /// Adds later fields; a number that is recorded again has its new value.
    pub(super) fn append(&mut self, later: &Self) {
        for (name, value) in &later.values {
            self.number(name, *value);
        }
        if !later.text.is_empty() {
            self.words(format_args!("{}", later.text));
        }
    }

    /// Writes them to the zone if it is the innermost.
    pub(super) fn write_to(&self, token: ZoneToken) {
        let innermost = thread::state().depth.get() == token.to_number().wrapping_add(1);
        if !token.is_active() || !innermost || self.values.is_empty() && self.text.is_empty() {
            return;
        }
        let bytes = self.values.len() as u64 * 16 + emit::text_bytes(&self.text);
        let Ok(mut group) = emit::group(bytes) else { return };
        let arena = group.arena();
        for (name, value) in &self.values {
            let name = Identity::of_text(name).number(arena, || emit::string(arena, name));
            group.value(name, *value);
        }
        if !self.text.is_empty() {
            group.text(FIELDS, 0, &self.text);
        }
    }

    fn number(&mut self, name: &'static str, value: Value) {
        if let Some(known) = self.values.iter_mut().find(|(known, _)| *known == name) {
            known.1 = value;
        } else if self.values.len() < MAX_VALUES {
            self.values.push((name, value));
        }
    }

    fn words(&mut self, words: fmt::Arguments<'_>) {
        if self.text.len() < MAX_TEXT {
            let separator = if self.text.is_empty() { "" } else { " " };
            // Writing to a string fails only where a value's own Debug does: what is there counts.
            let _ = write!(self.text, "{separator}{words}");
        }
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.number(field.name(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.number(field.name(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.number(field.name(), value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.words(format_args!("{}={value}", field.name()));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.words(format_args!("{}={value:?}", field.name()));
    }
}

/// An event as one line: its message, then its other fields.
pub(super) struct EventText<'a>(pub(super) &'a Event<'a>);

impl Display for EventText<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = Line { output: formatter, empty: true, result: Ok(()) };
        self.0.record(&mut line);
        line.result
    }
}

struct Line<'a, 'b> {
    output: &'a mut fmt::Formatter<'b>,
    empty: bool,
    result: fmt::Result,
}

impl Line<'_, '_> {
    fn add(&mut self, field: &Field, value: fmt::Arguments<'_>) {
        let separator = if core::mem::take(&mut self.empty) { "" } else { " " };
        let written = match field.name() {
            "message" => write!(self.output, "{separator}{value}"),
            name => write!(self.output, "{separator}{name}={value}"),
        };
        self.result = self.result.and(written);
    }
}

impl Visit for Line<'_, '_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, format_args!("{value:?}"));
    }
}
