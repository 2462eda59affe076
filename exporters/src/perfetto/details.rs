//! What events on tracks say: names, categories, places in the source, fields
//! as debug annotations, stacks. What occurs often is interned.
//!
//! A field becomes an annotation of its label and its kind: what is measured
//! has its unit beside the label, because viewers show annotations as they are.

use super::fields::{interned, track_event};
use super::intern::{Stacks, WrittenIds, interned_string, string_iid};
use crate::proto::Message;
use rustc_hash::FxHashSet;
use syscollect_model::{Field, LocationId, SchemaId, StackId, StringId, Tables, Value};

/// A value that the writer itself adds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Note<'a> {
    Number(u64),
    Text(&'a str),
    Address(u64),
    Yes,
}

/// The details of one event until it is written, and what was interned before.
#[derive(Default)]
pub(crate) struct Details {
    /// Fields of `TrackEvent`.
    fields: Vec<u8>,
    /// Fields of `InternedData` that must come with them.
    interned: Vec<u8>,
    names: WrittenIds,
    categories: WrittenIds,
    locations: WrittenIds,
    strings: WrittenIds,
    labels: FxHashSet<u64>,
    stacks: Stacks,
}

impl Details {
    /// Gives the fields of the event and of its interned data to `write`, and begins anew.
    #[inline]
    pub(crate) fn take<R>(&mut self, write: impl FnOnce(&[u8], &[u8]) -> R) -> R {
        let result = write(&self.fields, &self.interned);
        self.fields.clear();
        self.interned.clear();
        result
    }

    /// The value of a counter.
    #[inline]
    pub(crate) fn value(&mut self, value: f64) {
        Message::new(&mut self.fields).double(track_event::DOUBLE_COUNTER_VALUE, value);
    }

    /// The event's name.
    #[inline]
    pub(crate) fn name(&mut self, name: StringId, tables: &Tables) {
        if self.names.insert(name.0) {
            let text = tables.strings.get(name).as_bytes();
            interned_string(&mut self.interned, interned::EVENT_NAMES, string_iid(name), text);
        }
        Message::new(&mut self.fields).uint(track_event::NAME_IID, string_iid(name));
    }

    /// A name that may occur once.
    pub(crate) fn dynamic_name(&mut self, name: &str) {
        Message::new(&mut self.fields).string(track_event::NAME, name);
    }

    pub(crate) fn category(&mut self, category: StringId, tables: &Tables) {
        if self.categories.insert(category.0) {
            let text = tables.strings.get(category).as_bytes();
            interned_string(
                &mut self.interned,
                interned::EVENT_CATEGORIES,
                string_iid(category),
                text,
            );
        }
        Message::new(&mut self.fields).uint(track_event::CATEGORY_IIDS, string_iid(category));
    }

    pub(crate) fn location(&mut self, id: LocationId, tables: &Tables) {
        let iid = u64::from(id.0) + 1;
        if self.locations.insert(id.0) {
            let row = tables.location(id);
            Message::new(&mut self.interned).message(interned::SOURCE_LOCATIONS, |message| {
                message.uint(interned::IID, iid);
                message.string(interned::LOCATION_FILE, tables.strings.get(row.file));
                message.string(interned::LOCATION_FUNCTION, tables.strings.get(row.function));
                message.uint(interned::LOCATION_LINE, u64::from(row.line));
            });
        }
        Message::new(&mut self.fields).uint(track_event::SOURCE_LOCATION_IID, iid);
    }

    pub(crate) fn stack(&mut self, id: StackId, tables: &Tables) {
        let iid = self.stacks.stack(id, tables, &mut self.interned);
        Message::new(&mut self.fields).uint(track_event::CALLSTACK_IID, iid);
    }

    /// A flow begins here.
    pub(crate) fn flow(&mut self, id: u64) {
        Message::new(&mut self.fields).fixed(track_event::FLOW_IDS, id);
    }

    /// A flow ends here.
    pub(crate) fn flow_ends(&mut self, id: u64) {
        Message::new(&mut self.fields).fixed(track_event::TERMINATING_FLOW_IDS, id);
    }

    /// Something that the writer adds.
    pub(crate) fn note(&mut self, name: &str, note: Note<'_>) {
        Message::new(&mut self.fields).message(track_event::DEBUG_ANNOTATIONS, |annotation| {
            annotation.string(track_event::ANNOTATION_NAME, name);
            match note {
                Note::Number(number) => annotation.uint(track_event::ANNOTATION_UINT, number),
                Note::Text(text) => annotation.string(track_event::ANNOTATION_STRING, text),
                Note::Address(address) => annotation.uint(track_event::ANNOTATION_POINTER, address),
                Note::Yes => annotation.uint(track_event::ANNOTATION_BOOL, 1),
            }
        });
    }

    /// A field of the event, with the label that its schema gives it.
    pub(crate) fn field(&mut self, field: &Field, schema: Option<SchemaId>, tables: &Tables) {
        let label = schema
            .and_then(|id| tables.schema(id).fields.iter().find(|row| row.name == field.name));
        let label =
            self.label(label.map_or(field.name, |row| row.label), unit(&field.value), tables);
        if let Value::String(id) = field.value
            && self.strings.insert(id.0)
        {
            let text = tables.strings.get(id).as_bytes();
            interned_string(&mut self.interned, interned::ANNOTATION_STRINGS, string_iid(id), text);
        }
        Message::new(&mut self.fields).message(track_event::DEBUG_ANNOTATIONS, |annotation| {
            annotation.uint(track_event::ANNOTATION_NAME_IID, label);
            match &field.value {
                Value::Text(text) => annotation.string(track_event::ANNOTATION_STRING, text),
                Value::String(id) => {
                    annotation.uint(track_event::ANNOTATION_STRING_IID, string_iid(*id));
                }
                Value::Unsigned(value) | Value::Duration(value) | Value::Bytes(value) => {
                    annotation.uint(track_event::ANNOTATION_UINT, *value);
                }
                Value::Signed(value) => annotation.int(track_event::ANNOTATION_INT, *value),
                Value::Float(value) => annotation.double(track_event::ANNOTATION_DOUBLE, *value),
                Value::Address(value) => annotation.uint(track_event::ANNOTATION_POINTER, *value),
                Value::Percentage(value) => {
                    annotation.double(track_event::ANNOTATION_DOUBLE, value * 100.0);
                }
            }
        });
    }

    /// The id of an annotation's name: of the label, with the unit if there is one.
    fn label(&mut self, label: StringId, unit: Option<(u64, &str)>, tables: &Tables) -> u64 {
        let iid = string_iid(label) | unit.map_or(0, |(index, _)| index << 33);
        if self.labels.insert(iid) {
            let text = tables.strings.get(label);
            let text = unit.map_or_else(|| text.to_owned(), |(_, unit)| format!("{text} ({unit})"));
            interned_string(&mut self.interned, interned::ANNOTATION_NAMES, iid, text.as_bytes());
        }
        iid
    }
}

/// The unit of a value, with a number of its own.
fn unit(value: &Value) -> Option<(u64, &'static str)> {
    match value {
        Value::Duration(_) => Some((1, "ns")),
        Value::Bytes(_) => Some((2, "bytes")),
        Value::Percentage(_) => Some((3, "%")),
        _ => None,
    }
}
