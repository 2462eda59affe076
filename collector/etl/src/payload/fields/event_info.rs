//! What a manifest says about a kind of event, as merging tools put it into a
//! file: `TRACE_EVENT_INFO` of the Windows SDK, in records of KernelTraceControl.

use super::Field;
use super::scalar::{Format, InType};
use super::schema::{Count, FieldSchema, Length, MAX_DEPTH, Schema, Shape};
use crate::payload::reader::Reader;
use crate::{Class, Guid, Record};

/// What KernelTraceControl tells about kinds of events.
pub const EVENT_METADATA: Guid = Guid::from_u128(0xbbccf6c1_6cd1_48c4_80ff_839482e37671);

/// Bytes before the descriptions of fields, and of each of these.
const FIELDS_AT: usize = 112;
const FIELD: usize = 24;
/// Fields of one kind of event, with those of structures; more are left out.
const MAX_FIELDS: usize = 1024;

/// Bytes read of a name.
const MAX_NAME: usize = 512;

/// Flags of a field.
const IS_STRUCTURE: u32 = 1;
const LENGTH_OF_FIELD: u32 = 2;
const COUNT_OF_FIELD: u32 = 4;
const FIXED_LENGTH: u32 = 0x10;
const FIXED_COUNT: u32 = 0x20;

/// What a manifest says about a kind of event, undecoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventInfo<'a>(pub(crate) &'a [u8]);

/// A kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKey {
    /// Of a provider with a manifest.
    Manifest {
        /// The provider's GUID.
        provider: Guid,
        /// The event's id.
        id: u16,
        /// The version of its layout.
        version: u16,
    },
    /// A classic one.
    Classic {
        /// The class's GUID.
        class: Guid,
        /// Its type.
        opcode: u8,
        /// The version of its layout.
        version: u16,
    },
}

/// What a manifest says about a kind of event.
#[derive(Clone, Debug, PartialEq)]
pub struct EventSchema {
    /// Which events it is about.
    pub key: EventKey,
    /// Name of the provider; empty where the manifest does not say it, like all names here.
    pub provider_name: String,
    /// Name of the event's task.
    pub task_name: String,
    /// Name of the event's opcode.
    pub opcode_name: String,
    schema: Schema,
}

impl EventKey {
    /// The kind of a record; `None` for the kernel's own and for messages.
    pub fn of(record: &Record<'_>) -> Option<Self> {
        let version = record.version;
        match record.class {
            Class::Provider { provider, id, .. } => Some(Self::Manifest { provider, id, version }),
            Class::Classic { class, opcode } => Some(Self::Classic { class, opcode, version }),
            Class::Kernel { .. } | Class::Wpp => None,
        }
    }
}

impl EventInfo<'_> {
    /// What it says; `None` where it is damaged.
    pub fn parse(self) -> Option<EventSchema> {
        let mut reader = Reader::new(self.0, true);
        let (provider, class) = (reader.guid()?, reader.guid()?);
        let (id, version) = (reader.u16()?, reader.u8()?.into());
        reader.skip(2)?;
        let opcode = reader.u8()?;
        let is_classic = self.word(48)? == 1;
        let key = if is_classic {
            EventKey::Classic { class, opcode, version }
        } else {
            EventKey::Manifest { provider, id, version }
        };
        let (provider_name, task_name, opcode_name) =
            (self.name_at(52)?, self.name_at(68)?, self.name_at(72)?);
        let count = self.word(104)?.min(u32::from(u16::MAX)) as u16;
        let mut fields_left = MAX_FIELDS;
        let fields = self.fields(0, count, 0, &mut fields_left)?;
        Some(EventSchema { key, provider_name, task_name, opcode_name, schema: Schema { fields } })
    }

    fn name_at(&self, at: usize) -> Option<String> {
        Some(self.name(self.word(at)?))
    }

    fn word(self, at: usize) -> Option<u32> {
        self.0.get(at..)?.first_chunk().copied().map(u32::from_le_bytes)
    }

    /// UTF-16 text at a place, without the spaces that names end with.
    fn name(self, at: u32) -> String {
        let bytes = usize::try_from(at)
            .ok()
            .filter(|at| *at != 0)
            .and_then(|at| self.0.get(at..))
            .unwrap_or_default();
        let text = Reader::new(&bytes[..bytes.len().min(MAX_NAME)], true).utf16();
        text.to_string_lossy().trim_end().to_owned()
    }

    fn fields(
        self,
        first: u16,
        count: u16,
        depth: usize,
        fields_left: &mut usize,
    ) -> Option<Vec<FieldSchema>> {
        let end = first.checked_add(count).filter(|_| depth < MAX_DEPTH)?;
        (first..end).map(|id| self.field(id, depth, fields_left)).collect()
    }

    fn field(self, id: u16, depth: usize, fields_left: &mut usize) -> Option<FieldSchema> {
        *fields_left = fields_left.checked_sub(1)?;
        let bytes = self.0.get(FIELDS_AT + usize::from(id) * FIELD..)?.first_chunk::<FIELD>()?;
        let mut reader = Reader::new(bytes, true);
        let (flags, name) = (reader.u32()?, reader.u32()?);
        let (first, second, _map) = (reader.u16()?, reader.u16()?, reader.u32()?);
        let (count, length) = (reader.u16()?, reader.u16()?);
        let shape = if flags & IS_STRUCTURE != 0 {
            Shape::Structure(self.fields(first, second, depth + 1, fields_left)?)
        } else {
            Shape::Scalar(InType(first), format(second))
        };
        let count = match flags {
            flags if flags & COUNT_OF_FIELD != 0 => Count::Field(count),
            flags if flags & FIXED_COUNT != 0 || count > 1 => Count::Fixed(count),
            _ => Count::One,
        };
        let length = match (flags, shape_length(&shape)) {
            (flags, true) if flags & LENGTH_OF_FIELD != 0 => Length::Field(length),
            (flags, true) if flags & FIXED_LENGTH != 0 || length != 0 => Length::Fixed(length),
            (_, true) if shape == Shape::Scalar(InType::BINARY, Format::Ipv6) => Length::Fixed(16),
            _ => Length::Unstated,
        };
        Some(FieldSchema { id, name: self.name(name), shape, count, length })
    }
}

impl EventSchema {
    /// The fields of an event of this kind; those before it ends, where it ends early.
    pub fn fields(&self, record: &Record<'_>) -> Vec<Field> {
        self.schema.decode(record.payload, record.is_64_bit)
    }

    /// What to call such an event: its task and opcode, as far as they have names.
    pub fn event_name(&self) -> String {
        match (self.task_name.as_str(), self.opcode_name.as_str()) {
            ("", opcode) => opcode.to_owned(),
            // Names of opcodes that all manifests share begin with `win:`.
            (task, opcode) => match opcode.strip_prefix("win:").unwrap_or(opcode) {
                "" | "Info" => task.to_owned(),
                opcode => format!("{task}/{opcode}"),
            },
        }
    }
}

/// Whether a field's stated length says something that its type does not.
fn shape_length(shape: &Shape) -> bool {
    matches!(shape, Shape::Scalar(InType::UTF16 | InType::ANSI | InType::BINARY, _))
}

/// How a value is meant: `_TDH_OUT_TYPE` of the Windows SDK.
fn format(out_type: u16) -> Format {
    match out_type {
        13 => Format::Bool,
        16..=19 | 29..=32 | 37 => Format::Hex,
        22 => Format::Port,
        23 => Format::Ipv4,
        24 => Format::Ipv6,
        1 | 28 | 34 | 35 => Format::Text,
        _ => Format::Plain,
    }
}
