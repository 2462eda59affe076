//! What a slice, an instant or a message says beside its time.

use crate::{LocationId, SchemaId, StackId, StringId};

/// A slice or an instant: its name and everything said of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    /// What it is; names and categories are only shown.
    pub role: SliceRole,
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
            role: SliceRole::default(),
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

impl Slice {
    /// Takes in what became known of it later.
    pub fn apply(&mut self, update: &SliceUpdate) {
        if let Some((name, number)) = update.name {
            (self.name, self.number) = (name, number);
        }
        self.color = update.color.or(self.color);
        amend_fields(&mut self.fields, &update.fields, usize::MAX);
    }
}

impl From<StringId> for Slice {
    fn from(name: StringId) -> Self {
        Self::named(name)
    }
}

/// What a slice or an instant is to exporters that treat some in a way of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SliceRole {
    /// A thread's wait for a fence of a GPU. Its fields have the roles
    /// [`FieldRole::FenceContext`] and those that follow it.
    FenceWait,
    /// Anything else: its name says what it is.
    #[default]
    Named,
}

/// What a thread says in words at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// The group that viewers show it in, and its name where its text is none.
    pub category: StringId,
    /// What it says; `None` where the program wrote no text, or the text was not understood.
    pub text: Option<MessageText>,
    /// 0xRRGGBB.
    pub color: Option<u32>,
    /// Where in the code it was written.
    pub stack: Option<StackId>,
    /// What else it says, few as a rule.
    pub fields: Fields,
}

/// The text of a [`Message`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessageText {
    /// A text that may occur once; it is not interned, so that memory does not grow with events.
    Written(Box<str>),
    /// A text that occurs often.
    Interned {
        /// The text, or the first part of it.
        string: StringId,
        /// A number that belongs to the text: "Level" and 3.
        number: Option<u64>,
    },
}

/// What becomes known of a slice after its beginning.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SliceUpdate {
    /// Another name, with its number.
    pub name: Option<(StringId, Option<u64>)>,
    /// 0xRRGGBB.
    pub color: Option<u32>,
    /// Fields: each replaces the slice's that [is the same](Field::is_same), or is added.
    pub fields: Fields,
    /// The slice was closed by the end of its thread or process, or by what is
    /// lost: the program did not end it.
    pub unfinished: bool,
}

impl SliceUpdate {
    /// Nothing else than that the program did not end it.
    pub fn unfinished() -> Self {
        Self { unfinished: true, ..Self::default() }
    }

    /// Takes in what became known after that, with at most so many fields in all.
    pub fn add(&mut self, later: &Self, most_fields: usize) {
        self.name = later.name.or(self.name);
        self.color = later.color.or(self.color);
        self.unfinished |= later.unfinished;
        amend_fields(&mut self.fields, &later.fields, most_fields);
    }
}

/// Fields of a slice, an instant, a message or a job of a GPU, in order.
pub type Fields = Vec<Field>;

/// Takes in fields that became known later: each replaces the one that [is the
/// same](Field::is_same), or is added while there are less than `most`.
pub fn amend_fields(fields: &mut Fields, later: &[Field], most: usize) {
    for new in later {
        let has_room = fields.len() < most;
        match fields.iter_mut().find(|field| field.is_same(new)) {
            Some(field) => field.value.clone_from(&new.value),
            None if has_room => fields.push(new.clone()),
            None => {}
        }
    }
}

/// A value and what it is called.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// What it is; the name is only shown.
    pub role: FieldRole,
    /// Its name, for exporters that show every field with one.
    pub name: StringId,
    /// What it says.
    pub value: Value,
}

impl Field {
    /// A field of this role.
    pub fn new(role: FieldRole, name: StringId, value: Value) -> Self {
        Self { role, name, value }
    }

    /// A field that is what its name says.
    pub fn named(name: StringId, value: Value) -> Self {
        Self::new(FieldRole::Named, name, value)
    }

    /// Whether both are of one role and name, so that the later value replaces the earlier.
    pub fn is_same(&self, other: &Self) -> bool {
        (self.role, self.name) == (other.role, other.name)
    }
}

/// What a [`Field`] is to exporters that treat some in a way of their own. A name that a program
/// makes up is never taken for one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldRole {
    /// What a zone says without a name: a text.
    Text,
    /// What a zone is given without a name.
    Value,
    /// Of a wait for a fence: its [`Fence::context`](crate::Fence::context).
    FenceContext,
    /// Of a wait for a fence: its [`Fence::sequence`](crate::Fence::sequence).
    FenceSequence,
    /// Of a wait for a fence: the driver's names for the fence's timeline, a text.
    FenceTimeline,
    /// Of a wait for a fence, known at its end: which thread or interrupt signaled the fence, a
    /// text.
    FenceSignaler,
    /// Of a job of a GPU that failed: why, a text.
    JobError,
    /// Anything else: its name says what it is.
    Named,
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

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [StringId; 3] = [StringId(1), StringId(2), StringId(3)];

    fn field(name: StringId, value: u64) -> Field {
        Field::named(name, Value::Unsigned(value))
    }

    #[test]
    fn what_is_told_again_replaces_what_was_told_and_the_rest_stays() {
        let [name, a, b] = NAMES;
        let mut slice = Slice { color: Some(7), fields: vec![field(a, 1)], ..Slice::named(name) };
        let fields = vec![field(b, 2), field(a, 3)];
        slice.apply(&SliceUpdate { fields, ..SliceUpdate::default() });
        assert_eq!((slice.name, slice.color), (name, Some(7)));
        assert_eq!(slice.fields, [field(a, 3), field(b, 2)]);
        let name = Some((b, Some(4)));
        slice.apply(&SliceUpdate { name, color: Some(8), ..SliceUpdate::default() });
        assert_eq!((slice.name, slice.number, slice.color), (b, Some(4), Some(8)));
    }

    #[test]
    fn updates_of_one_slice_add_up_to_one_that_does_the_same() {
        let [name, a, b] = NAMES;
        let first =
            SliceUpdate { fields: vec![field(a, 1)], unfinished: true, ..Default::default() };
        let fields = vec![field(a, 2), field(b, 3)];
        let second = SliceUpdate { name: Some((b, None)), fields, ..SliceUpdate::default() };
        let mut both = SliceUpdate::default();
        [&first, &second].into_iter().for_each(|update| both.add(update, 2));
        assert!(both.unfinished);
        let (mut at_once, mut in_turn) = (Slice::named(name), Slice::named(name));
        at_once.apply(&both);
        [&first, &second].into_iter().for_each(|update| in_turn.apply(update));
        assert_eq!(at_once, in_turn);
        both.add(&SliceUpdate { fields: vec![field(name, 5), field(b, 6)], ..second }, 2);
        assert_eq!(both.fields, [field(a, 2), field(b, 6)], "there is room for two");
    }
}
