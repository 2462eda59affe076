use super::Bytes;
use crate::payload::{EVENT_METADATA, EventKey, EventSchema, Payload, Value, decode};
use crate::{Class, Guid, Record};

const PROVIDER: Guid = Guid([1; 16]);
const CLASS: Guid = Guid([2; 16]);

/// A field as metadata describes it: flags, types (or first member and how many), count, length.
type Described = (&'static str, u32, [u16; 2], [u16; 2]);

/// Metadata of events with these fields, of which the first so many are the event's own.
fn metadata(fields: &[Described], own: u32, source: u32) -> Bytes {
    const NAMES: u32 = 112;
    let mut strings = Bytes::new(true);
    let base = NAMES + 24 * fields.len() as u32;
    let mut place = |text: &str| {
        let at = base + strings.bytes.len() as u32;
        strings = strings.clone().utf16(text);
        at
    };
    let (provider, task, opcode) = (place("Game"), place("Level "), place("win:Start"));
    let head =
        Bytes::new(true).raw(&PROVIDER.0).raw(&CLASS.0).u16(7).raw(&[2, 0, 4, 1]).u16(9).u64(0);
    let head = head.u32(source).u32(provider).u32(0).u32(0).u32(0).u32(task).u32(opcode);
    let head = head.raw(&[0; 24]).u32(fields.len() as u32).u32(own).u32(0);
    assert_eq!(head.bytes.len() as u32, NAMES);
    let all = fields.iter().fold(head, |bytes, (name, flags, types, sizes)| {
        let bytes = bytes.u32(*flags).u32(place(name)).u16(types[0]).u16(types[1]).u32(0);
        bytes.u16(sizes[0]).u16(sizes[1]).u32(0)
    });
    all.raw(&strings.bytes)
}

fn parse(bytes: &Bytes) -> EventSchema {
    let Payload::EventInfo(info) = decode(&bytes.classic(EVENT_METADATA, 32)) else {
        panic!("no metadata")
    };
    info.parse().expect("a schema")
}

fn event() -> Class {
    Class::Provider { provider: PROVIDER, id: 7, opcode: 1, level: 4, task: 9, keyword: 0 }
}

fn shown(schema: &EventSchema, record: &Record<'_>) -> Vec<String> {
    schema.fields(record).iter().map(|field| format!("{}={}", field.name, field.value)).collect()
}

#[test]
fn a_manifest_in_the_file_names_events_and_their_fields() {
    let fields: &[Described] = &[
        ("Id", 0, [8, 8], [1, 4]),
        ("Code", 0, [8, 32], [1, 4]),
        ("Address", 0, [16, 0], [1, 0]),
        ("Name", 0, [1, 1], [1, 0]),
    ];
    let schema = parse(&metadata(fields, 4, 0));
    assert_eq!(
        (schema.provider_name.as_str(), schema.event_name().as_str()),
        ("Game", "Level/Start")
    );
    let payload = Bytes::new(true).u32(3).u32(0x80).pointer(0x1000).utf16("castle");
    let record = payload.record(event(), 2);
    assert_eq!(EventKey::of(&record), Some(schema.key));
    assert_eq!(shown(&schema, &record), ["Id=3", "Code=0x80", "Address=0x1000", "Name=castle"]);
    // The same manifest serves 32-bit programs.
    let payload = Bytes::new(false).u32(3).u32(0x80).pointer(0x1000).utf16("castle");
    assert_eq!(
        shown(&schema, &payload.record(event(), 2)),
        ["Id=3", "Code=0x80", "Address=0x1000", "Name=castle"]
    );
}

#[test]
fn lengths_and_counts_can_be_other_fields() {
    let fields: &[Described] = &[
        ("Size", 0, [6, 6], [1, 2]),
        ("Data", 2, [14, 15], [1, 0]),
        ("Count", 0, [8, 8], [1, 4]),
        ("Numbers", 4, [8, 8], [2, 4]),
        ("Fixed", 0x10, [1, 1], [1, 3]),
        ("Pair", 0x20, [4, 4], [2, 1]),
        ("From", 0, [14, 24], [1, 0]),
    ];
    let schema = parse(&metadata(fields, 7, 0));
    let payload = Bytes::new(true).u16(2).raw(&[0xab, 0xcd]).u32(2).u32(10).u32(20);
    let payload = payload.raw(b"a\0b\0\0\0").raw(&[1, 2]).raw(&[0; 15]).u8(1);
    let expected = [
        "Size=2",
        "Data=abcd",
        "Count=2",
        "Numbers=[10, 20]",
        "Fixed=ab",
        "Pair=[1, 2]",
        "From=::1",
    ];
    assert_eq!(shown(&schema, &payload.record(event(), 2)), expected);
}

#[test]
fn structures_lie_behind_the_events_own_fields() {
    let fields: &[Described] = &[
        ("Count", 0, [4, 4], [1, 1]),
        ("Range", 1 | 4, [2, 2], [0, 0]),
        ("Low", 0, [4, 4], [1, 1]),
        ("High", 0, [4, 4], [1, 1]),
    ];
    let schema = parse(&metadata(fields, 2, 0));
    let payload = Bytes::new(true).raw(&[2, 10, 11, 20, 21]);
    let expected =
        ["Count=2", "Range[0].Low=10", "Range[0].High=11", "Range[1].Low=20", "Range[1].High=21"];
    assert_eq!(shown(&schema, &payload.record(event(), 2)), expected);
}

#[test]
fn classic_events_have_metadata_by_class_and_types_of_their_own() {
    let fields: &[Described] = &[
        ("Counted", 0, [300, 0], [1, 0]),
        ("Reversed", 0, [303, 0], [1, 0]),
        ("Size", 0, [308, 0], [1, 0]),
        ("Dump", 0, [309, 0], [1, 0]),
        ("User", 0, [310, 0], [1, 0]),
        ("Letters", 0x20, [307, 0], [3, 0]),
        ("Rest", 0, [304, 0], [1, 0]),
    ];
    let schema = parse(&metadata(fields, 7, 1));
    let payload = Bytes::new(false)
        .u16(4)
        .raw(b"o\0k\0")
        .raw(&[0, 2])
        .raw(b"no")
        .pointer(0x10)
        .u32(1)
        .u8(0xee);
    let payload = payload.user(0).raw(b"abc").raw(b"e\0n\0d\0");
    let record = payload.record(Class::Classic { class: CLASS, opcode: 1 }, 2);
    assert_eq!(EventKey::of(&record), Some(schema.key));
    let expected = [
        "Counted=ok",
        "Reversed=no",
        "Size=0x10",
        "Dump=ee",
        "User=0100000000000005",
        "Letters=abc",
        "Rest=end",
    ];
    assert_eq!(shown(&schema, &record), expected);
}

#[test]
fn structures_that_hold_themselves_end() {
    let fields: &[Described] =
        &[("Me", 1 | 0x20, [0, 2], [60_000, 0]), ("Again", 1, [0, 2], [60_000, 0])];
    let bytes = metadata(fields, 2, 0);
    let Payload::EventInfo(info) = decode(&bytes.classic(EVENT_METADATA, 32)) else {
        panic!("no metadata")
    };
    assert_eq!(info.parse(), None);
}

#[test]
fn metadata_that_is_cut_is_no_schema_or_one_with_shorter_names() {
    let whole = metadata(&[("Id", 0, [8, 8], [1, 4]), ("Name", 0, [1, 1], [1, 0])], 2, 0);
    for length in 0..whole.bytes.len() {
        let cut = Bytes::new(true).raw(&whole.bytes[..length]);
        let Payload::EventInfo(info) = decode(&cut.classic(EVENT_METADATA, 32)) else {
            panic!("no metadata")
        };
        assert_eq!(info.parse().is_some(), length >= 112 + 2 * 24, "{length} bytes");
    }
}

#[test]
fn the_kernels_own_events_need_no_metadata() {
    assert_eq!(EventKey::of(&Bytes::new(true).kernel(5, 36, 4)), None);
    assert_eq!(EventKey::of(&Bytes::new(true).record(Class::Wpp, 0)), None);
    assert_eq!(Value::Hex(16).to_string(), "0x10");
}
