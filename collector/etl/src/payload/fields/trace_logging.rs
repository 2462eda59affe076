//! Events that describe themselves (TraceLogging): their schema lies in an
//! extended item, as `TraceLoggingProvider.h` of the Windows SDK writes it.

use super::Field;
use super::scalar::{Format, InType};
use super::schema::{Count, FieldSchema, Length, MAX_DEPTH, Schema, Shape};
use crate::Record;
use crate::payload::Ascii;
use crate::payload::reader::Reader;

/// Types of extended items.
const SCHEMA: u16 = 11;
const TRAITS: u16 = 12;

/// Bits of a field's type: how many values it holds, and whether how it is meant follows.
const TYPE: u8 = 0x1f;
const COUNT: u8 = 0x60;
const COUNT_FIXED: u8 = 0x20;
const COUNT_PREFIXED: u8 = 0x40;
const COUNT_CUSTOM: u8 = 0x60;
const MORE: u8 = 0x80;
/// The type of a structure; how many fields it has takes the place of how it is meant.
const STRUCTURE: u8 = 24;

/// An event that describes itself, undecoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceLogging<'a> {
    schema: &'a [u8],
    traits: &'a [u8],
    payload: &'a [u8],
    is_64_bit: bool,
}

impl<'a> TraceLogging<'a> {
    /// The event, if it describes itself.
    #[inline]
    pub(crate) fn of(record: &Record<'a>) -> Option<Self> {
        let (mut schema, mut traits) = (None, None);
        for item in record.extended {
            match item.kind {
                SCHEMA => schema = Some(item.data),
                TRAITS => traits = Some(item.data),
                _ => {}
            }
        }
        let traits = traits.unwrap_or_default();
        Some(Self { schema: schema?, traits, payload: record.payload, is_64_bit: record.is_64_bit })
    }

    /// Name of its provider, where the event carries it.
    pub fn provider_name(&self) -> Option<Ascii<'a>> {
        let mut reader = sized(self.traits)?;
        Some(reader.ascii()).filter(|name| !name.is_empty())
    }

    /// Its name; empty where its schema is damaged.
    pub fn event_name(&self) -> Ascii<'a> {
        self.behind_tags().map(|mut reader| reader.ascii()).unwrap_or_default()
    }

    /// Its fields; those that could be decoded, where schema or payload end early.
    pub fn fields(&self) -> Vec<Field> {
        let Some(mut reader) = self.behind_tags() else { return Vec::new() };
        reader.ascii();
        let mut schema = Schema::default();
        while !reader.rest().is_empty() {
            let Some(field) = field(&mut reader, 0) else { break };
            schema.fields.push(field);
        }
        schema.decode(self.payload, self.is_64_bit)
    }

    /// The schema from the event's name on.
    fn behind_tags(&self) -> Option<Reader<'a>> {
        let mut reader = sized(self.schema)?;
        skip_tags(&mut reader)?;
        Some(reader)
    }
}

/// Bytes that begin with their own length.
fn sized(bytes: &[u8]) -> Option<Reader<'_>> {
    let length = Reader::new(bytes, false).u16()?;
    Some(Reader::new(bytes.get(2..usize::from(length).min(bytes.len()))?, false))
}

/// Tags take at least one byte; all but the last have their highest bit set.
fn skip_tags(reader: &mut Reader<'_>) -> Option<()> {
    while reader.u8()? & MORE != 0 {}
    Some(())
}

/// One field, and its members.
fn field(reader: &mut Reader<'_>, depth: usize) -> Option<FieldSchema> {
    let name = reader.ascii().to_string_lossy().into_owned();
    let kind = reader.u8()?;
    let meaning = if kind & MORE != 0 { reader.u8()? } else { 0 };
    if meaning & MORE != 0 {
        skip_tags(reader)?;
    }
    let count = match kind & COUNT {
        COUNT_FIXED => Count::Fixed(reader.u16()?),
        COUNT_PREFIXED => Count::Prefixed,
        COUNT_CUSTOM => {
            let length = reader.u16()?;
            reader.skip(length.into())?;
            Count::One
        }
        _ => Count::One,
    };
    let meaning = meaning & !MORE;
    let shape = match kind & TYPE {
        STRUCTURE if depth == MAX_DEPTH => return None,
        STRUCTURE => {
            Shape::Structure((0..meaning).map(|_| field(reader, depth + 1)).collect::<Option<_>>()?)
        }
        // What is packed in a way of its own is still counted bytes.
        _ if kind & COUNT == COUNT_CUSTOM => Shape::Scalar(InType::COUNTED_BINARY, Format::Plain),
        kind => Shape::Scalar(in_type(kind), format(meaning)),
    };
    Some(FieldSchema { id: 0, name, shape, count, length: Length::Unstated })
}

/// Bytes are always counted here.
fn in_type(kind: u8) -> InType {
    match InType(kind.into()) {
        InType::BINARY => InType::COUNTED_BINARY,
        kind => kind,
    }
}

/// How a value is meant: `TlgOut...` of `TraceLoggingProvider.h`.
fn format(meaning: u8) -> Format {
    match meaning {
        2 | 11 | 12 | 35 => Format::Text,
        3 => Format::Bool,
        4 | 13..=15 | 37 => Format::Hex,
        7 => Format::Port,
        8 => Format::Ipv4,
        9 => Format::Ipv6,
        _ => Format::Plain,
    }
}
