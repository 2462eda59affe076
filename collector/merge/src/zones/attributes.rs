//! What the items without a stamp say, and of what.

use crate::engine::{CaptureEngine, Engine};
use crate::zones::log::Log;
use crate::zones::parts::{ItemPart, Parts};
use crate::zones::stacks::WrittenStack;
use syscollect_model::{
    Event, Field, FieldFormat, FieldRole, Fields, SchemaField, SchemaId, Slice, SliceUpdate,
    StringId, Tables, TrackId, Value,
};
use syscollect_playback::Stopped;
use syscollect_zone_protocol::{self as protocol, ImageBlocks, TextRole, ZONE_VALUE};

/// Bytes of the longest text that is made of several.
const LONGEST: usize = 64 << 10;

/// What a group is about: its stamped item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum About {
    /// A zone that begins.
    Zone,
    /// An async zone that begins or ends.
    AsyncZone,
    /// A message.
    Message,
    /// A marker of that schema.
    Marker(SchemaId),
    /// Anything else.
    Other,
}

/// What is said of one thing.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Attributes {
    pub(crate) name: Option<(StringId, Option<u64>)>,
    /// A name that the log does not hold.
    pub(crate) new_name: Option<String>,
    pub(crate) color: Option<u32>,
    /// Texts, a line each.
    pub(crate) text: Option<String>,
    pub(crate) fields: Fields,
}

impl Attributes {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// As a change of a slice.
    fn into_update(self, engine: &mut Engine<'_>, names: FieldNames) -> SliceUpdate {
        let new_name = self.new_name.and_then(|name| engine.new_name(&name));
        let mut fields = self.fields;
        if let Some(text) = self.text {
            let value = Value::Text(text.into());
            fields.insert(0, Field::new(FieldRole::Text, names.text, value));
        }
        let name = new_name.map(|name| (name, None)).or(self.name);
        SliceUpdate { name, color: self.color, fields, unfinished: false }
    }

    /// Applies them to a slice that was not emitted yet.
    pub(crate) fn apply_to(self, engine: &mut Engine<'_>, names: FieldNames, slice: &mut Slice) {
        let update = self.into_update(engine, names);
        if let Some((name, number)) = update.name {
            (slice.name, slice.number) = (name, number);
        }
        slice.color = update.color.or(slice.color);
        slice.fields = update.fields;
    }

    /// Emits them as a change of the innermost slice of a track, if anything is said.
    pub(crate) fn emit(
        self,
        engine: &mut Engine<'_>,
        names: FieldNames,
        track: TrackId,
    ) -> Result<(), Stopped> {
        if self.is_empty() {
            return Ok(());
        }
        let update = self.into_update(engine, names);
        engine.emit(&Event::SliceUpdate(track, update))
    }

    fn add_text(&mut self, next: &str) {
        self.text = Some(joined(self.text.take(), next));
    }
}

/// A text and another one in the next line, cut where that would become too long.
pub(crate) fn joined(text: Option<String>, next: &str) -> String {
    let Some(mut text) = text else { return next.to_owned() };
    let room = LONGEST.saturating_sub(text.len() + 1);
    let end = (0..=room.min(next.len())).rev().find(|end| next.is_char_boundary(*end)).unwrap_or(0);
    if room > 0 {
        text.push('\n');
        text.push_str(&next[..end]);
    }
    text
}

/// All that a group says beside its stamped item.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct EventAttributes {
    /// Of the stamped item.
    pub(crate) own: Attributes,
    /// Of the innermost zone of the thread.
    pub(crate) zone: Attributes,
    /// From where it was written.
    pub(crate) stack: WrittenStack,
    /// The thread's name, and the number that belongs to it.
    pub(crate) thread_name: Option<String>,
    /// Names of tasks.
    pub(crate) tasks: Vec<(u64, StringId)>,
    /// Of images that the thread writes.
    pub(crate) image_blocks: Vec<ImageBlocks>,
    /// Items that make no sense.
    pub(crate) unknown: u64,
    /// The first field of a marker that may still come.
    next_field: u32,
}

/// Names of fields that have a role.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldNames {
    pub(crate) text: StringId,
    pub(crate) value: StringId,
    /// How long ago something began that is restated.
    pub(crate) began_before: StringId,
}

impl EventAttributes {
    /// What these items say behind a stamped item.
    #[inline]
    pub(crate) fn read(
        words: &[u64],
        about: About,
        log: &Log,
        names: FieldNames,
        tables: &Tables,
    ) -> Self {
        let mut attributes = Self::default();
        if !words.is_empty() {
            attributes.decode_attributes(words, about, log, names, tables);
        }
        attributes
    }

    fn decode_attributes(
        &mut self,
        words: &[u64],
        about: About,
        log: &Log,
        names: FieldNames,
        tables: &Tables,
    ) {
        for part in Parts::new(words) {
            let understood = match part {
                ItemPart::Text { role, field, text } => self.text(about, role, field, text, tables),
                ItemPart::Tag { role, string, number } => log
                    .string(string)
                    .is_some_and(|string| self.tag(about, role, string, number, tables)),
                ItemPart::Value { field, value } => {
                    self.value(about, field, value, log, names, tables)
                }
                ItemPart::Color(color) => {
                    self.of(about).color = Some(color);
                    true
                }
                ItemPart::TaskName { string, task } => log.string(string).is_some_and(|name| {
                    self.tasks.push((task, name));
                    true
                }),
                ItemPart::Stack(stack) => {
                    self.stack.add(stack);
                    true
                }
                ItemPart::ImageBlocks(blocks) => {
                    self.image_blocks.push(blocks);
                    true
                }
                ItemPart::Unknown => false,
            };
            self.unknown += u64::from(!understood);
        }
    }

    /// What colours and values are about, but for those of a marker's fields:
    /// the zone that is the innermost, whatever stands before them.
    fn of(&mut self, about: About) -> &mut Attributes {
        match about {
            About::Zone => &mut self.own,
            _ => &mut self.zone,
        }
    }

    /// The field of a marker that this number means. Fields come in order, so
    /// what comes after the last of them is a zone's again.
    fn marker_field(&mut self, about: About, field: u32, tables: &Tables) -> Option<SchemaField> {
        let About::Marker(schema) = about else { return None };
        let found = tables
            .schema(schema)
            .fields
            .get(field as usize)
            .filter(|_| field >= self.next_field)?;
        self.next_field = field + 1;
        Some(*found)
    }

    /// What a text of this role is about, if there is such a thing.
    fn of_role(&mut self, about: About, role: TextRole) -> Option<&mut Attributes> {
        match (role, about) {
            (TextRole::ZoneText | TextRole::ZoneName, About::Zone)
            | (TextRole::Message, About::Message)
            | (TextRole::AsyncText, About::AsyncZone) => Some(&mut self.own),
            (TextRole::ZoneText | TextRole::ZoneName, _) => Some(&mut self.zone),
            _ => None,
        }
    }

    fn text(
        &mut self,
        about: About,
        role: TextRole,
        field: u32,
        text: String,
        tables: &Tables,
    ) -> bool {
        match (role, about) {
            (TextRole::ThreadName, _) => self.thread_name = Some(text),
            (TextRole::Field, About::Marker(_)) => {
                let Some(field) = self.marker_field(about, field, tables) else { return false };
                self.own.fields.push(Field::named(field.name, Value::Text(text.into())));
            }
            (TextRole::ZoneName, _) => match self.of_role(about, role) {
                Some(attributes) => attributes.new_name = Some(text),
                None => return false,
            },
            _ => match self.of_role(about, role) {
                Some(attributes) => attributes.add_text(&text),
                None => return false,
            },
        }
        true
    }

    fn tag(
        &mut self,
        about: About,
        role: TextRole,
        string: StringId,
        number: u64,
        tables: &Tables,
    ) -> bool {
        match role {
            TextRole::ThreadName => self.thread_name = Some(numbered(string, number, tables)),
            TextRole::ZoneName => match self.of_role(about, role) {
                Some(attributes) => attributes.name = Some((string, Some(number))),
                None => return false,
            },
            TextRole::Message if about == About::Message => {
                self.own.name = Some((string, Some(number)));
            }
            TextRole::Field => return false,
            TextRole::ZoneText | TextRole::AsyncText | TextRole::Message => {
                match self.of_role(about, role) {
                    Some(attributes) => attributes.add_text(&numbered(string, number, tables)),
                    None => return false,
                }
            }
        }
        true
    }

    fn value(
        &mut self,
        about: About,
        field: u32,
        value: protocol::Value,
        log: &Log,
        names: FieldNames,
        tables: &Tables,
    ) -> bool {
        if let Some(field) = self.marker_field(about, field, tables) {
            let value = value_of(value, Some(field.format), log);
            self.own.fields.extend(value.map(|value| Field::named(field.name, value)));
            return true;
        }
        let (role, name) = match field {
            ZONE_VALUE => (FieldRole::Value, Some(names.value)),
            _ => (FieldRole::Named, log.string(field)),
        };
        let (Some(name), Some(value)) = (name, value_of(value, None, log)) else {
            return false;
        };
        self.of(about).fields.push(Field::new(role, name, value));
        true
    }
}

fn numbered(string: StringId, number: u64, tables: &Tables) -> String {
    format!("{} {number}", tables.strings.get(string))
}

/// A value as it wants to be shown.
fn value_of(value: protocol::Value, format: Option<FieldFormat>, log: &Log) -> Option<Value> {
    use protocol::Value as Raw;
    Some(match (value, format) {
        (Raw::String(number), _) => Value::String(log.string(number)?),
        (_, Some(FieldFormat::Duration)) => Value::Duration(whole(value)),
        (_, Some(FieldFormat::Bytes)) => Value::Bytes(whole(value)),
        (_, Some(FieldFormat::Address)) => Value::Address(whole(value)),
        (_, Some(FieldFormat::Percentage)) => Value::Percentage(float(value)),
        (_, Some(FieldFormat::Decimal)) | (Raw::Float(_), _) => Value::Float(float(value)),
        (Raw::Signed(value), _) => Value::Signed(value),
        (Raw::Unsigned(value), _) => Value::Unsigned(value),
    })
}

fn float(value: protocol::Value) -> f64 {
    match value {
        protocol::Value::Float(value) => value,
        protocol::Value::Signed(value) => value as f64,
        protocol::Value::Unsigned(value) => value as f64,
        protocol::Value::String(number) => number.into(),
    }
}

fn whole(value: protocol::Value) -> u64 {
    match value {
        protocol::Value::Float(value) => value as u64,
        _ => value.bits(),
    }
}
