//! What a slice or an instant says beside its time.

use crate::{LocationId, SchemaId, StackId, StringId};

/// A slice or an instant: its name and everything said of it.
///
/// A message is an instant of the category `"message"`; what it says is its
/// field `"text"`, or its name where it has none. A slice of the category
/// [`fence_wait::CATEGORY`](crate::fence_wait::CATEGORY) is a thread's wait for a
/// fence of a GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    /// Its name, or the first part of it.
    pub name: StringId,
    /// A number that belongs to the name: "Frame" and 1234.
    pub number: Option<u64>,
    /// A group of slices and instants that viewers can tell apart.
    pub category: Option<StringId>,
    /// Where in the source it was marked.
    pub location: Option<LocationId>,
    /// 0xRRGGBB.
    pub color: Option<u32>,
    /// What kind of marker it is; its fields come in the schema's order.
    pub schema: Option<SchemaId>,
    /// Where in the code it was marked.
    pub stack: Option<StackId>,
    /// What else is said, few as a rule.
    pub fields: Fields,
}

impl Slice {
    /// A slice of which only the name is known.
    pub fn named(name: StringId) -> Self {
        Self {
            name,
            number: None,
            category: None,
            location: None,
            color: None,
            schema: None,
            stack: None,
            fields: Fields::new(),
        }
    }
}

impl From<StringId> for Slice {
    fn from(name: StringId) -> Self {
        Self::named(name)
    }
}

/// What becomes known of a slice after its beginning.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SliceMore {
    /// Another name, with its number.
    pub name: Option<(StringId, Option<u64>)>,
    /// 0xRRGGBB.
    pub color: Option<u32>,
    /// Texts and fields.
    pub fields: Fields,
    /// The slice was closed by the end of its thread or process, or by what is
    /// lost: the program did not end it.
    pub unfinished: bool,
}

/// Fields of a slice or an instant, in order.
pub type Fields = Vec<Field>;

/// Something said by name.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Its name: `"text"` and `"value"` for what a zone says without a name.
    pub name: StringId,
    /// What it says.
    pub value: Value,
}

/// What a field says, and how it wants to be shown.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A text that may occur once; it is not interned, so that memory does not grow with events.
    Text(Box<str>),
    /// A text that occurs often.
    String(StringId),
    /// A whole number.
    Unsigned(u64),
    /// A whole number.
    Signed(i64),
    /// A number.
    Float(f64),
    /// Shown in hexadecimal.
    Address(u64),
    /// Nanoseconds.
    Duration(u64),
    /// Bytes.
    Bytes(u64),
    /// 0 to 1, shown as percent.
    Percentage(f64),
}

/// Where in the source something was marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Location {
    /// The function.
    pub function: StringId,
    /// The file.
    pub file: StringId,
    /// The line, from 1; 0 where it is not known.
    pub line: u32,
}

/// A kind of marker: what its fields are and how they are shown.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Schema {
    /// Its name; unique among the schemas of one program, not beyond.
    pub name: StringId,
    /// The group it belongs to.
    pub category: Option<StringId>,
    /// Its fields, in order.
    pub fields: Vec<SchemaField>,
}

/// A field of a [`Schema`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SchemaField {
    /// The name that [`Field`]s carry.
    pub name: StringId,
    /// What people read.
    pub label: StringId,
    /// How it is shown.
    pub format: FieldFormat,
}

/// How a field is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldFormat {
    /// A text.
    Text,
    /// A whole number.
    Integer,
    /// A number with decimals.
    Decimal,
    /// Nanoseconds.
    Duration,
    /// Bytes.
    Bytes,
    /// 0 to 1, shown as percent.
    Percentage,
    /// Hexadecimal.
    Address,
}
