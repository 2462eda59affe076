//! Markers: events with typed fields, of this thread or another, now or at another time.

use crate::arena::Arena;
use crate::emit::{self, Value};
use crate::log::{self, CachedNumber};
use syscollect_zone_protocol::log::{EntryWords, SchemaField};
use syscollect_zone_protocol::{Event, FieldFormat, MarkerPhase, TextRole};

/// Most fields of a marker.
pub const MAX_FIELDS: usize = 16;

/// One field of a [`Schema`].
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The field's name.
    pub name: &'static str,
    /// What is shown to people.
    pub label: &'static str,
    /// How it is shown.
    pub format: FieldFormat,
}

impl Field {
    /// A field.
    pub const fn new(name: &'static str, label: &'static str, format: FieldFormat) -> Self {
        Self { name, label, format }
    }
}

/// What markers of one kind look like: a static.
///
/// ```
/// use syscollect_usdt_client::{Field, FieldFormat, FieldValue, Schema};
///
/// static REQUEST: Schema = Schema::new("request", "net", &[
///     Field::new("url", "URL", FieldFormat::Text),
///     Field::new("bytes", "Size", FieldFormat::Bytes),
/// ]);
///
/// REQUEST.mark(&["http://example.org".into(), 512_u64.into()]);
/// REQUEST.begin(&[]);                                          // two halves,
/// REQUEST.end(&["http://example.org".into(), 512_u64.into()]); // on one thread
/// ```
pub struct Schema {
    name: &'static str,
    category: &'static str,
    fields: &'static [Field],
    number: CachedNumber,
}

/// A field's value.
#[derive(Clone, Copy, Debug)]
pub enum FieldValue<'a> {
    /// A text.
    Text(&'a str),
    /// A number.
    Number(Value),
}

impl<'a> From<&'a str> for FieldValue<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

impl<V: Into<Value>> From<V> for FieldValue<'_> {
    fn from(value: V) -> Self {
        Self::Number(value.into())
    }
}

/// When and where a marker was that is recorded later or elsewhere.
#[derive(Clone, Copy, Debug)]
pub struct When {
    /// As [`crate::ticks`] gave it.
    pub ticks: u64,
    /// The thread's id as its pid namespace numbers it; 0 is the calling thread.
    pub thread: u32,
}

impl Schema {
    /// A kind of markers, with at most [`MAX_FIELDS`] fields.
    pub const fn new(name: &'static str, category: &'static str, fields: &'static [Field]) -> Self {
        Self { name, category, fields, number: CachedNumber::new() }
    }

    /// A moment, now, on this thread.
    #[inline(always)]
    pub fn mark(&'static self, fields: &[FieldValue<'_>]) {
        self.record(MarkerPhase::Instant, None, fields);
    }

    /// The first half of a duration.
    #[inline(always)]
    pub fn begin(&'static self, fields: &[FieldValue<'_>]) {
        self.record(MarkerPhase::Begin, None, fields);
    }

    /// The second half of a duration, on the same thread.
    #[inline(always)]
    pub fn end(&'static self, fields: &[FieldValue<'_>]) {
        self.record(MarkerPhase::End, None, fields);
    }

    /// The same at another time or for another thread.
    #[inline(always)]
    pub fn at(&'static self, when: When, phase: MarkerPhase, fields: &[FieldValue<'_>]) {
        self.record(phase, Some(when), fields);
    }

    #[inline(always)]
    fn record(&'static self, phase: MarkerPhase, when: Option<When>, fields: &[FieldValue<'_>]) {
        if crate::enabled() {
            self.record_enabled(phase, when, fields);
        }
    }

    #[cold]
    #[inline(never)]
    fn record_enabled(
        &'static self,
        phase: MarkerPhase,
        when: Option<When>,
        fields: &[FieldValue<'_>],
    ) {
        record(phase, when, fields, |arena| self.number(arena));
    }

    fn number(&'static self, arena: &Arena) -> u32 {
        self.number.or_define(arena, || {
            let fields = &self.fields[..self.fields.len().min(MAX_FIELDS)];
            let fields = fields.iter().map(|field| SchemaField {
                name: field.name.as_bytes(),
                label: field.label.as_bytes(),
                format: field.format,
            });
            log::define(EntryWords::new().schema(self.name, self.category, fields), arena)
        })
    }
}

/// Records a marker of the schema that has a number in the log.
pub(crate) fn record(
    phase: MarkerPhase,
    when: Option<When>,
    fields: &[FieldValue<'_>],
    schema: impl FnOnce(&Arena) -> u32,
) {
    let fields = &fields[..fields.len().min(MAX_FIELDS)];
    let bytes: u64 = fields.iter().map(field_bytes).sum();
    let Ok(mut group) = emit::group(32 + bytes) else { return };
    let schema = schema(group.arena());
    group.event(match when {
        None => Event::Marker { schema, phase },
        Some(When { ticks, thread }) => Event::MarkerAt { schema, phase, at: ticks, tid: thread },
    });
    for (index, field) in fields.iter().enumerate() {
        match field {
            FieldValue::Text(text) => {
                group.text(TextRole::Field, index as u32, field_text(text));
            }
            FieldValue::Number(value) => group.value(index as u32, *value),
        }
    }
}

/// A marker's text is at most 1000 bytes, so that all its fields fit a ring well.
fn field_text(text: &str) -> &str {
    crate::log::cut(text, 1000)
}

fn field_bytes(field: &FieldValue<'_>) -> u64 {
    match field {
        FieldValue::Text(text) => emit::text_bytes(field_text(text)),
        FieldValue::Number(_) => 16,
    }
}
