//! How the payloads of a kind of event are laid out.

use super::scalar::{Format, InType};
use super::{Field, Value};
use crate::payload::reader::Reader;

/// Fields decoded of one event; more are left out.
const MAX_FIELDS: usize = 512;
/// Bytes kept of a field's name.
const MAX_NAME: usize = 256;
/// Structures in structures; deeper ones are not decoded.
pub(super) const MAX_DEPTH: usize = 8;

/// The fields of a kind of event, in their order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Schema {
    pub(super) fields: Vec<FieldSchema>,
}

/// One field.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FieldSchema {
    /// By which other fields refer to it.
    pub(super) id: u16,
    pub(super) name: String,
    pub(super) shape: Shape,
    pub(super) count: Count,
    pub(super) length: Length,
}

/// What a field holds.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Shape {
    Scalar(InType, Format),
    Structure(Vec<FieldSchema>),
}

/// How many values a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Count {
    /// One, which is no array.
    One,
    Fixed(u16),
    /// The payload says it, before the values.
    Prefixed,
    /// As many as the value of another field says.
    Field(u16),
}

/// How long a value is, where its type does not say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Length {
    Unstated,
    Fixed(u16),
    /// As long as the value of another field says.
    Field(u16),
}

impl Schema {
    /// The fields of a payload; those before it ends, where it ends early. Where the header says 32
    /// bits, and only 64 make the fields end where the payload does, it has 64.
    pub(super) fn decode(&self, payload: &[u8], is_64_bit: bool) -> Vec<Field> {
        let (fields, ends) = self.decode_as(payload, is_64_bit);
        if !ends && !is_64_bit {
            let (wide, ends) = self.decode_as(payload, true);
            if ends {
                return wide;
            }
        }
        fields
    }

    /// The fields, and whether all of them and nothing else are in the payload.
    fn decode_as(&self, payload: &[u8], is_64_bit: bool) -> (Vec<Field>, bool) {
        let mut decoding = Decoding {
            reader: Reader::new(payload, is_64_bit),
            fields: Vec::new(),
            // A value that takes no bytes can be repeated without end.
            values_left: payload.len() + MAX_FIELDS,
            numbers: Vec::new(),
        };
        // What could not be decoded is left out.
        let is_whole = decoding.fields(&self.fields, "").is_some();
        (decoding.fields, is_whole && decoding.reader.rest().is_empty())
    }
}

/// A payload on its way to fields.
struct Decoding<'a> {
    reader: Reader<'a>,
    fields: Vec<Field>,
    values_left: usize,
    /// Values of fields that others may refer to.
    numbers: Vec<(u16, u64)>,
}

impl Decoding<'_> {
    /// Decodes fields of the event, or of a structure, whose name is before theirs.
    fn fields(&mut self, fields: &[FieldSchema], prefix: &str) -> Option<()> {
        for field in fields {
            let name = joined(prefix, &field.name);
            match &field.shape {
                Shape::Structure(members) => self.structures(field, members, &name)?,
                Shape::Scalar(kind, format) => {
                    let value = self.value(field, *kind, *format)?;
                    self.push(field.id, name, value)?;
                }
            }
        }
        Some(())
    }

    fn push(&mut self, id: u16, name: String, value: Value) -> Option<()> {
        if let Value::Unsigned(number) | Value::Hex(number) = value {
            self.numbers.retain(|(known, _)| *known != id);
            self.numbers.push((id, number));
        }
        self.fields.push(Field { name, value });
        (self.fields.len() < MAX_FIELDS).then_some(())
    }

    fn structures(
        &mut self,
        field: &FieldSchema,
        members: &[FieldSchema],
        name: &str,
    ) -> Option<()> {
        let Some(count) = self.count(field.count)? else { return self.fields(members, name) };
        for index in 0..count {
            self.spend()?;
            self.fields(members, &format!("{name}[{index}]"))?;
        }
        Some(())
    }

    fn value(&mut self, field: &FieldSchema, kind: InType, format: Format) -> Option<Value> {
        let length = match field.length {
            Length::Unstated => None,
            Length::Fixed(length) => Some(usize::from(length)),
            Length::Field(id) => Some(self.number(id)?),
        };
        let Some(count) = self.count(field.count)? else {
            return kind.read(&mut self.reader, format, length);
        };
        if kind.is_character(format) {
            return kind.characters(&mut self.reader, count);
        }
        let mut values = Vec::new();
        for _ in 0..count {
            self.spend()?;
            values.push(kind.read(&mut self.reader, format, length)?);
        }
        Some(Value::Array(values))
    }

    /// How many values come; `None` in it where it is one and no array.
    fn count(&mut self, count: Count) -> Option<Option<usize>> {
        Some(match count {
            Count::One => None,
            Count::Fixed(count) => Some(count.into()),
            Count::Prefixed => Some(self.reader.u16()?.into()),
            Count::Field(id) => Some(self.number(id)?),
        })
    }

    fn number(&self, id: u16) -> Option<usize> {
        let number = self.numbers.iter().find(|(known, _)| *known == id)?.1;
        usize::try_from(number).ok()
    }

    fn spend(&mut self) -> Option<()> {
        self.values_left = self.values_left.checked_sub(1)?;
        Some(())
    }
}

/// A member's full name, cut to a length.
fn joined(prefix: &str, name: &str) -> String {
    let separator = if prefix.is_empty() { "" } else { "." };
    let mut joined = format!("{prefix}{separator}{name}");
    while joined.len() > MAX_NAME {
        joined.pop();
    }
    joined
}
