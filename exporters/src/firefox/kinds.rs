//! Kinds of markers that programs bring: their schemas, and the fields that
//! slices have without one.
//!
//! The viewer shows a field only if the marker's schema names it, with one
//! format. So every field that is met becomes one of the schema, and a name
//! that comes with a second format becomes a second field.

use super::markers::{FieldItem, Key};
use super::meta::milliseconds;
use super::tables::Shared;
use crate::labels;
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::{Value as Json, json};
use std::sync::Arc;
use syscollect_model::{Field, FieldFormat, FieldRole, Schema, SchemaId, StringId, Tables, Value};

/// Fields without a schema that are told apart; further ones share one field.
const MAX_FREE_FIELDS: usize = 256;
/// Numbers that JavaScript has room for.
const MAX_EXACT: u64 = 1 << 53;
/// The key of a text without a name.
pub(super) const TEXT: &str = "text";
/// Keys of a marker that are no fields.
const RESERVED: [&str; 3] = ["type", "cause", "stack"];

/// Fields that markers of every kind may have, with their labels and formats.
const COMMON: [(&str, &str, &str); 9] = [
    ("name", "Name", "string"),
    ("number", "Number", "integer"),
    (TEXT, "Text", "string"),
    ("place", "Source", "string"),
    ("function", "Function", "unique-string"),
    ("track", "Track", "unique-string"),
    ("unfinished", "Unfinished", "string"),
    ("more", "More", "string"),
    ("color", "Color", "string"),
];

/// The kinds of markers that need no schema of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum MarkerKind {
    /// A slice of a thread, which nests in others.
    Zone,
    /// A slice of a process or of the machine: others overlap it.
    Task,
    /// Something without a duration.
    Mark,
    /// Something that is said in words.
    Message,
    Frame,
}

impl MarkerKind {
    const ALL: [Self; 5] = [Self::Zone, Self::Task, Self::Mark, Self::Message, Self::Frame];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Zone => "zone",
            Self::Task => "task",
            Self::Mark => "mark",
            Self::Message => "message",
            Self::Frame => "frame",
        }
    }

    /// What the viewer's chart and table say beside the marker's name.
    fn labels(self) -> [&'static str; 2] {
        match self {
            Self::Message => ["{marker.data.text}"; 2],
            Self::Frame => ["{marker.data.number}"; 2],
            _ => [
                "{marker.name} {marker.data.name} {marker.data.number} {marker.data.text}",
                "{marker.data.name} {marker.data.number} {marker.data.text} {marker.data.place}",
            ],
        }
    }
}

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Format {
    Text,
    Row,
    Integer,
    Decimal,
    Duration,
    Bytes,
    Percentage,
}

impl Format {
    fn name(self) -> &'static str {
        match self {
            Self::Text => "string",
            Self::Row => "unique-string",
            Self::Integer => "integer",
            Self::Decimal => "decimal",
            Self::Duration => "duration",
            Self::Bytes => "bytes",
            Self::Percentage => "percentage",
        }
    }

    /// That of a value which no schema describes.
    fn of(value: &Value) -> Self {
        match value {
            Value::String(_) => Self::Row,
            Value::Unsigned(number) if *number <= MAX_EXACT => Self::Integer,
            Value::Signed(number) if number.unsigned_abs() <= MAX_EXACT => Self::Integer,
            // The viewer has no hexadecimal numbers of 64 bits.
            Value::Text(_) | Value::Address(_) | Value::Unsigned(_) | Value::Signed(_) => {
                Self::Text
            }
            Value::Float(_) => Self::Decimal,
            Value::Duration(_) => Self::Duration,
            Value::Bytes(_) => Self::Bytes,
            Value::Percentage(_) => Self::Percentage,
        }
    }

    fn of_schema(format: FieldFormat) -> Self {
        match format {
            FieldFormat::Text | FieldFormat::Address => Self::Text,
            FieldFormat::Integer => Self::Integer,
            FieldFormat::Decimal => Self::Decimal,
            FieldFormat::Duration => Self::Duration,
            FieldFormat::Bytes => Self::Bytes,
            FieldFormat::Percentage => Self::Percentage,
        }
    }

    /// The value in this format; `None` where it is no number and should be.
    fn item(self, value: &Value, shared: &mut Shared, tables: &Tables) -> Option<FieldItem> {
        Some(match self {
            Self::Row => FieldItem::Row(shared.string(&labels::value(value, tables))),
            Self::Text => FieldItem::Text(labels::value(value, tables).into()),
            _ => match *value {
                Value::Unsigned(number)
                | Value::Address(number)
                | Value::Bytes(number)
                | Value::Duration(number) => match self {
                    Self::Duration => FieldItem::Float(milliseconds(number)),
                    _ => FieldItem::Unsigned(number),
                },
                Value::Signed(number) => match self {
                    Self::Duration => FieldItem::Float(number as f64 / 1e6),
                    _ => FieldItem::Signed(number),
                },
                Value::Float(number) | Value::Percentage(number) if number.is_finite() => {
                    match self {
                        Self::Duration => FieldItem::Float(number / 1e6),
                        _ => FieldItem::Float(number),
                    }
                }
                _ => return None,
            },
        })
    }
}

/// A program's schema as the file has it.
struct Typed {
    name: Key,
    fields: FxHashMap<StringId, (Key, Format)>,
    json: Json,
}

/// All kinds.
pub(super) struct Kinds {
    /// Names of schemas that are taken.
    names: FxHashSet<Box<str>>,
    typed: Vec<Typed>,
    by_schema: FxHashMap<Schema, usize>,
    by_id: FxHashMap<SchemaId, usize>,
    /// Keys of fields without a schema; `None` is the common field for the rest.
    free: FxHashMap<(FieldRole, StringId, Format), Option<Key>>,
    free_keys: FxHashSet<Key>,
    free_fields: Vec<Json>,
    keys: FxHashMap<&'static str, Key>,
}

impl Default for Kinds {
    fn default() -> Self {
        let others = [
            "process",
            "loss",
            "running",
            "wakeup",
            "lock",
            "crash",
            "signalExit",
            "gpuJob",
            "loopAway",
            "gpuSubmit",
        ]
        .into_iter();
        Self {
            names: others.chain(MarkerKind::ALL.map(MarkerKind::name)).map(Into::into).collect(),
            typed: Vec::new(),
            by_schema: FxHashMap::default(),
            by_id: FxHashMap::default(),
            free: FxHashMap::default(),
            free_keys: COMMON.iter().map(|(key, ..)| *key).chain(RESERVED).map(Key::from).collect(),
            free_fields: Vec::new(),
            keys: FxHashMap::default(),
        }
    }
}

impl Kinds {
    /// A key or name that is the same for many markers.
    pub(super) fn key(&mut self, name: &'static str) -> Key {
        Arc::clone(self.keys.entry(name).or_insert_with(|| name.into()))
    }

    /// The name of a program's schema.
    pub(super) fn schema(&mut self, id: SchemaId, tables: &Tables) -> Key {
        let index = self.typed_index(id, tables);
        Arc::clone(&self.typed[index].name)
    }

    fn typed_index(&mut self, id: SchemaId, tables: &Tables) -> usize {
        if let Some(index) = self.by_id.get(&id) {
            return *index;
        }
        // Two programs may have the same schema, or two of one name.
        let schema = tables.schema(id);
        let index = match self.by_schema.get(schema) {
            Some(index) => *index,
            None => {
                let typed = self.new_typed(schema, tables);
                self.typed.push(typed);
                self.by_schema.insert(schema.clone(), self.typed.len() - 1);
                self.typed.len() - 1
            }
        };
        self.by_id.insert(id, index);
        index
    }

    fn new_typed(&mut self, schema: &Schema, tables: &Tables) -> Typed {
        let wanted = tables.strings.get(schema.name);
        let numbered = (2u32..).map(|number| format!("{wanted} ({number})"));
        let mut names = std::iter::once(wanted.to_owned()).chain(numbered);
        let name = names.find(|name| self.names.insert(name.as_str().into())).unwrap_or_default();
        let mut keys: FxHashSet<Key> = RESERVED.into_iter().map(Key::from).collect();
        let (mut fields, mut rows, mut labels) = (FxHashMap::default(), Vec::new(), Vec::new());
        for field in &schema.fields {
            let (key, format) = (
                free_key(&mut keys, tables.strings.get(field.name)),
                Format::of_schema(field.format),
            );
            let label = tables.strings.get(field.label);
            rows.push(json!({"key": &*key, "label": label, "format": format.name()}));
            if !key.contains(['{', '}', '.']) {
                labels.push(format!("{{marker.data.{key}}}"));
            }
            fields.insert(field.name, (key, format));
        }
        let common = COMMON.iter().filter(|(key, ..)| !keys.contains(*key));
        rows.extend(common.map(common_field));
        let json = json!({
            "name": name, "display": EVERYWHERE, "fields": rows, "colorField": "color",
            "tableLabel": labels.join(" "), "chartLabel": format!("{{marker.name}} {}", labels.join(" ")),
        });
        Typed { name: name.into(), fields, json }
    }

    /// What a field says, under the key that the viewer finds it by. What has no
    /// field of its own is added to `more`.
    pub(super) fn field(
        &mut self,
        (schema, field): (Option<SchemaId>, &Field),
        more: &mut String,
        shared: &mut Shared,
        tables: &Tables,
    ) -> Option<(Key, FieldItem)> {
        let typed = schema.map(|id| self.typed_index(id, tables));
        let found = match typed {
            Some(index) => self.typed[index].fields.get(&field.name).cloned(),
            None => self.free_field(field, tables).map(|key| (key, Format::of(&field.value))),
        };
        if let Some((key, format)) = found
            && let Some(item) = format.item(&field.value, shared, tables)
        {
            return Some((key, item));
        }
        let is_text = field.role == FieldRole::Text;
        if is_text && more.is_empty() && typed.is_none_or(|index| !self.has_text(index)) {
            return Some((
                self.key(TEXT),
                FieldItem::Text(labels::value(&field.value, tables).into()),
            ));
        }
        if !more.is_empty() {
            more.push('\n');
        }
        more.push_str(&labels::named_value(field, tables));
        None
    }

    /// Whether a field of that schema has the key of the common text.
    fn has_text(&self, typed: usize) -> bool {
        self.typed[typed].fields.values().any(|(key, _)| &**key == TEXT)
    }

    fn free_field(&mut self, field: &Field, tables: &Tables) -> Option<Key> {
        if field.role == FieldRole::Text {
            // The common field has another format for texts that occur often, and says it all the
            // same.
            return None;
        }
        let format = Format::of(&field.value);
        if let Some(key) = self.free.get(&(field.role, field.name, format)) {
            return key.clone();
        }
        if self.free_fields.len() >= MAX_FREE_FIELDS {
            return None;
        }
        let name = tables.strings.get(field.name);
        let key = free_key(&mut self.free_keys, name);
        self.free_fields.push(json!({"key": &*key, "label": name, "format": format.name()}));
        self.free.insert((field.role, field.name, format), Some(Arc::clone(&key)));
        Some(key)
    }

    /// The schemas of all kinds.
    pub(super) fn schemas(&self) -> Vec<Json> {
        let untyped = MarkerKind::ALL.map(|kind| {
            let [chart, table] = kind.labels();
            let fields: Vec<Json> = COMMON.iter().map(common_field).chain(self.free_fields.iter().cloned()).collect();
            json!({
                "name": kind.name(), "display": EVERYWHERE, "chartLabel": chart, "tableLabel": table,
                "isStackBased": kind == MarkerKind::Zone, "colorField": "color", "fields": fields,
            })
        });
        untyped.into_iter().chain(self.typed.iter().map(|typed| typed.json.clone())).collect()
    }
}

/// Where markers of programs are shown.
const EVERYWHERE: [&str; 3] = ["marker-chart", "marker-table", "timeline-overview"];

fn common_field((key, label, format): &(&str, &str, &str)) -> Json {
    json!({"key": key, "label": label, "format": format, "hidden": *key == "color"})
}

/// `name`, or something like it that is not taken.
fn free_key(taken: &mut FxHashSet<Key>, name: &str) -> Key {
    let mut key: Key = name.into();
    while !taken.insert(Arc::clone(&key)) {
        key = format!("{key}_").into();
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(tables: &mut Tables, name: &str, value: Value) -> Field {
        Field::named(tables.strings.intern(name), value)
    }

    fn shown(
        kinds: &mut Kinds,
        schema: Option<SchemaId>,
        field: &Field,
        tables: &Tables,
    ) -> (String, String) {
        let (mut more, mut shared) = (String::new(), Shared::default());
        let found = kinds.field((schema, field), &mut more, &mut shared, tables);
        found.map_or((String::new(), more), |(key, item)| {
            (key.to_string(), serde_json::to_string(&item).unwrap())
        })
    }

    #[test]
    fn a_name_with_two_formats_is_two_fields() {
        let (mut kinds, mut tables) = (Kinds::default(), Tables::default());
        let fields = [Value::Bytes(5), Value::Duration(1_500_000), Value::Bytes(6)];
        let fields = fields.map(|value| field(&mut tables, "load", value));
        let reported = fields.map(|field| shown(&mut kinds, None, &field, &tables));
        assert_eq!(reported, [text("load", "5"), text("load_", "1.5"), text("load", "6")]);
    }

    fn text(key: &str, item: &str) -> (String, String) {
        (key.to_owned(), item.to_owned())
    }

    #[test]
    fn fields_never_take_the_keys_of_others() {
        let (mut kinds, mut tables) = (Kinds::default(), Tables::default());
        for name in ["type", "cause", "color", "name", "text"] {
            let field = field(&mut tables, name, Value::Unsigned(1));
            assert_eq!(shown(&mut kinds, None, &field, &tables).0, format!("{name}_"));
        }
    }

    #[test]
    fn numbers_that_the_viewer_would_round_are_texts() {
        let (mut kinds, mut tables) = (Kinds::default(), Tables::default());
        for (value, expected) in [
            (Value::Unsigned(u64::MAX), "\"18446744073709551615\""),
            (Value::Address(u64::MAX), "\"0xffffffffffffffff\""),
            (Value::Signed(i64::MIN), "\"-9223372036854775808\""),
        ] {
            let field = field(&mut tables, "id", value);
            assert_eq!(shown(&mut kinds, None, &field, &tables).1, expected);
        }
    }

    #[test]
    fn beyond_the_limit_fields_share_one() {
        let (mut kinds, mut tables) = (Kinds::default(), Tables::default());
        for index in 0..1_000 {
            let field = field(&mut tables, &format!("f{index}"), Value::Unsigned(index));
            let expected = if index < 256 {
                (format!("f{index}"), index.to_string())
            } else {
                (String::new(), format!("f{index}: {index}"))
            };
            assert_eq!(shown(&mut kinds, None, &field, &tables), expected);
        }
        assert_eq!(kinds.schemas()[0]["fields"].as_array().unwrap().len(), 256 + COMMON.len());
    }

    #[test]
    fn equal_schemas_are_one_and_others_of_that_name_are_told_apart() {
        let (mut kinds, mut tables) = (Kinds::default(), Tables::default());
        let [name, a, b] = ["zone", "a", "b"].map(|text| tables.strings.intern(text));
        for field in [a, b, a] {
            let fields = vec![syscollect_model::SchemaField {
                name: field,
                label: field,
                format: FieldFormat::Bytes,
            }];
            tables.schemas.push(Schema { name, category: None, fields });
        }
        let names = [0, 1, 2].map(|id| kinds.schema(SchemaId(id), &tables).to_string());
        assert_eq!(names, ["zone (2)", "zone (3)", "zone (2)"]);
    }

    #[test]
    fn a_value_that_does_not_fit_its_schema_is_said_all_the_same() {
        let (mut kinds, mut tables) = (Kinds::default(), Tables::default());
        let name = tables.strings.intern("size");
        let fields =
            vec![syscollect_model::SchemaField { name, label: name, format: FieldFormat::Bytes }];
        tables.schemas.push(Schema { name, category: None, fields });
        let field = Field::named(name, Value::Text("large".into()));
        assert_eq!(
            shown(&mut kinds, Some(SchemaId(0)), &field, &tables),
            (String::new(), "size: large".into())
        );
    }
}
