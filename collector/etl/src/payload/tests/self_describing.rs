use super::Bytes;
use crate::payload::{Field, Payload, Value, decode};
use crate::{Class, ExtendedItems, Guid, Record};

/// The schema of an event: its name and its fields' descriptions.
fn schema(fields: &Bytes) -> Bytes {
    let body = Bytes::new(true).u8(0x81).u8(1).ascii("Loaded").raw(&fields.bytes);
    Bytes::new(true).u16(2 + body.bytes.len() as u16).raw(&body.bytes)
}

/// Both items of a self-describing event.
fn items(schema: &Bytes) -> Vec<u8> {
    let traits = Bytes::new(true).u16(2 + 5 + 19).ascii("Game").raw(&[0; 19]);
    let mut items = Vec::new();
    for (kind, data, more) in [(12, &traits, 1), (11, schema, 0)] {
        let head = Bytes::new(true).u16(0).u16(kind).u16(more).u16(data.bytes.len() as u16);
        items.extend(head.raw(&data.bytes).bytes);
        items.resize(items.len().next_multiple_of(8), 0);
    }
    items
}

fn decoded(fields: &Bytes, payload: &Bytes) -> Vec<(String, Value)> {
    let items = items(&schema(fields));
    let class = Class::Provider {
        provider: Guid([1; 16]),
        id: 0,
        opcode: 0,
        level: 5,
        task: 0,
        keyword: 1,
    };
    let record = Record { extended: ExtendedItems(&items), ..payload.record(class, 0) };
    let Payload::TraceLogging(event) = decode(&record) else { panic!("no schema") };
    assert_eq!(event.provider_name().expect("a name").to_string_lossy(), "Game");
    assert_eq!(event.event_name().to_string_lossy(), "Loaded");
    event.fields().into_iter().map(|Field { name, value }| (name, value)).collect()
}

fn one(kind: &[u8], payload: &Bytes) -> Value {
    let fields = Bytes::new(true).ascii("field").raw(kind);
    let mut values = decoded(&fields, payload);
    assert_eq!(values.len(), 1, "{kind:?}");
    values.remove(0).1
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

/// How a value is meant follows its type.
const MEANT: u8 = 0x80;

#[test]
fn values_of_every_type_are_read() {
    let cases = [
        (1, bytes().utf16("\u{e9}t\u{e9}"), text("\u{e9}t\u{e9}")),
        (2, bytes().ascii("summer"), text("summer")),
        (3, bytes().u8(0xff), Value::Signed(-1)),
        (4, bytes().u8(0xff), Value::Unsigned(255)),
        (5, bytes().u16(0xfffe), Value::Signed(-2)),
        (6, bytes().u16(0xfffe), Value::Unsigned(65_534)),
        (7, bytes().u32(u32::MAX), Value::Signed(-1)),
        (8, bytes().u32(u32::MAX), Value::Unsigned(4_294_967_295)),
        (9, bytes().u64(u64::MAX), Value::Signed(-1)),
        (10, bytes().u64(u64::MAX), Value::Unsigned(u64::MAX)),
        (11, bytes().raw(&1.5f32.to_le_bytes()), Value::Float(1.5)),
        (12, bytes().raw(&2.5f64.to_le_bytes()), Value::Float(2.5)),
        (13, bytes().u32(2), Value::Bool(true)),
        (14, bytes().u16(2).raw(&[7, 8]), Value::Binary(vec![7, 8])),
        (15, bytes().raw(&[3; 16]), Value::Guid(Guid([3; 16]))),
        (16, bytes().pointer(0xabc), Value::Hex(0xabc)),
        (16, Bytes::new(false).pointer(0xabc), Value::Hex(0xabc)),
        (17, bytes().u64(132_000_000), Value::FileTime(132_000_000)),
        (18, (1..=8).fold(bytes(), Bytes::u16), Value::SystemTime([1, 2, 3, 4, 5, 6, 7, 8])),
        (
            19,
            bytes().raw(&[1, 1, 0, 0, 0, 0, 0, 5]).u32(18),
            Value::Sid(vec![1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0]),
        ),
        (20, bytes().u32(0x10), Value::Hex(16)),
        (21, bytes().u64(0x10), Value::Hex(16)),
        (22, bytes().u16(4).raw(b"o\0k\0"), text("ok")),
        (23, bytes().u16(2).raw(b"ok"), text("ok")),
        (25, bytes().u16(1).raw(&[9]), Value::Binary(vec![9])),
    ];
    for (kind, payload, value) in cases {
        assert_eq!(one(&[kind], &payload), value, "type {kind}");
    }
}

fn bytes() -> Bytes {
    Bytes::new(true)
}

#[test]
fn values_are_shown_as_their_writer_meant_them() {
    let cases = [
        ([4 | MEANT, 3], bytes().u8(1), Value::Bool(true)),
        ([6 | MEANT, 2], bytes().u16(0x41), text("A")),
        ([3 | MEANT, 2], bytes().u8(0x41), text("A")),
        ([8 | MEANT, 4], bytes().u32(0xff), Value::Hex(255)),
        ([6 | MEANT, 7], bytes().raw(&[0x01, 0xbb]), Value::Unsigned(443)),
        ([8 | MEANT, 8], bytes().raw(&[192, 0, 2, 1]), text("192.0.2.1")),
        ([14 | MEANT, 9], bytes().u16(16).raw(&[0; 15]).u8(1), text("::1")),
        ([7 | MEANT, 15], bytes().u32(0x8007_0002), Value::Hex(0xffff_ffff_8007_0002)),
        ([23 | MEANT, 35], bytes().u16(3).raw("\u{e9}!".as_bytes()), text("\u{e9}!")),
        ([14 | MEANT, 12], bytes().u16(2).raw(b"{}"), text("{}")),
    ];
    for (kind, payload, value) in cases {
        assert_eq!(one(&kind, &payload), value, "type {kind:?}");
    }
}

#[test]
fn arrays_hold_as_many_values_as_schema_or_payload_say() {
    let values = Value::Array(vec![Value::Unsigned(5), Value::Unsigned(6)]);
    assert_eq!(one(&[4 | 0x40], &Bytes::new(true).u16(2).raw(&[5, 6])), values);
    assert_eq!(one(&[4 | 0x20, 2, 0], &Bytes::new(true).raw(&[5, 6])), values);
    let names = Bytes::new(true).u16(2).utf16("one").utf16("two");
    assert_eq!(one(&[1 | 0x40], &names), Value::Array(vec![text("one"), text("two")]));
    let characters = Bytes::new(true).u16(2).u16(0x48).u16(0x69);
    assert_eq!(one(&[6 | 0x40 | MEANT, 2], &characters), text("Hi"));
    let empty = Bytes::new(true).u16(0);
    assert_eq!(one(&[8 | 0x40], &empty), Value::Array(Vec::new()));
}

#[test]
fn what_is_packed_in_a_way_of_its_own_is_bytes() {
    let fields =
        Bytes::new(true).ascii("packed").raw(&[14 | 0x60, 3, 0, 1, 2, 3]).ascii("after").u8(4);
    let payload = Bytes::new(true).u16(2).raw(&[7, 8]).u8(9);
    let values = decoded(&fields, &payload);
    let expected = [
        ("packed".to_owned(), Value::Binary(vec![7, 8])),
        ("after".to_owned(), Value::Unsigned(9)),
    ];
    assert_eq!(values, expected);
}

#[test]
fn a_structures_fields_carry_its_name() {
    let fields = Bytes::new(true)
        .ascii("outer")
        .raw(&[24 | MEANT, 2])
        .ascii("inner")
        .raw(&[24 | MEANT | 0x40, 1])
        .ascii("x")
        .u8(4)
        .ascii("y")
        .u8(4)
        .ascii("tagged")
        .raw(&[4 | MEANT, 4 | MEANT, 0x80, 1]);
    let payload = Bytes::new(true).u16(2).raw(&[1, 2, 3, 4]);
    let values = decoded(&fields, &payload);
    let expected = [
        ("outer.inner[0].x", Value::Unsigned(1)),
        ("outer.inner[1].x", Value::Unsigned(2)),
        ("outer.y", Value::Unsigned(3)),
        ("tagged", Value::Hex(4)),
    ];
    assert_eq!(values, expected.map(|(name, value)| (name.to_owned(), value)));
}

#[test]
fn a_payload_that_ends_early_has_its_first_fields() {
    let fields = Bytes::new(true).ascii("a").u8(8).ascii("b").u8(8);
    let values = decoded(&fields, &Bytes::new(true).u32(1).u16(2));
    assert_eq!(values, [("a".to_owned(), Value::Unsigned(1))]);
    // Bytes of a schema that is cut have no meaning of their own.
    let cut = Bytes::new(true).ascii("a").u8(8).ascii("b").u8(8 | MEANT);
    assert_eq!(decoded(&cut, &Bytes::new(true).u32(1).u32(2)).len(), 1);
}

#[test]
fn a_field_of_a_type_nobody_knows_ends_the_fields() {
    let fields = Bytes::new(true).ascii("a").u8(8).ascii("b").u8(31).ascii("c").u8(8);
    let values = decoded(&fields, &Bytes::new(true).u32(1).u32(2).u32(3));
    assert_eq!(values, [("a".to_owned(), Value::Unsigned(1))]);
}

#[test]
fn values_that_take_no_bytes_do_not_multiply() {
    // 65535 times 65535 empty structures, and texts behind the payload's end.
    let nested = Bytes::new(true)
        .ascii("a")
        .raw(&[24 | MEANT | 0x20, 1, 0xff, 0xff])
        .ascii("b")
        .raw(&[24 | MEANT | 0x20, 0, 0xff, 0xff]);
    assert_eq!(decoded(&nested, &Bytes::new(true)), []);
    let names = Bytes::new(true).ascii("a").raw(&[1 | 0x20, 0xff, 0xff]);
    assert_eq!(decoded(&names, &Bytes::new(true)), []);
}

#[test]
fn an_event_without_a_schema_is_its_providers() {
    let class = Class::Provider {
        provider: Guid([1; 16]),
        id: 7,
        opcode: 0,
        level: 5,
        task: 0,
        keyword: 1,
    };
    assert_eq!(decode(&Bytes::new(true).u32(1).record(class, 0)), Payload::Provider);
}

#[test]
fn values_read_as_people_write_them() {
    let shown = [
        Value::Hex(255),
        Value::Array(vec![Value::Signed(-1), Value::Bool(true)]),
        Value::Binary(vec![1, 0xab]),
        Value::SystemTime([2024, 2, 4, 29, 1, 2, 3, 4]),
    ]
    .map(|value| value.to_string());
    assert_eq!(shown, ["0xff", "[-1, true]", "01ab", "2024-02-29 01:02:03.004"]);
}
