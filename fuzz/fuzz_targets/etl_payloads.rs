//! Whatever payloads, schemas and metadata of events hold, decoding them ends,
//! in bounded memory and without a panic.
//!
//! The first four bytes of an input say of what class, version and bitness the
//! record is, and how much of the rest are extended items.
#![no_main]

use libfuzzer_sys::fuzz_target;
use syscollect_etl::file::LOST_EVENT;
use syscollect_etl::payload::{
    EVENT_METADATA, EventInfo, Field, IMAGE_ID, Payload, SYSTEM_CONFIG_EX, TraceLogging, Value,
    decode, item_stacks, width,
};
use syscollect_etl::{Class, ExtendedItems, Guid, Record, Task};

const GROUPS: [u8; 9] = [0x01, 0x02, 0x03, 0x04, 0x05, 0x0b, 0x0f, 0x14, 0x18];
const CLASSES: [Guid; 4] = [LOST_EVENT, IMAGE_ID, SYSTEM_CONFIG_EX, EVENT_METADATA];

fuzz_target!(|bytes: &[u8]| {
    let Some((&[kind, opcode, version, extended], rest)) = bytes.split_first_chunk::<4>() else {
        return;
    };
    let (extended, payload) = rest.split_at(usize::from(extended).min(rest.len()));
    let class = match usize::from(kind & 0x7f) {
        group if group < GROUPS.len() => Class::Kernel { group: GROUPS[group], opcode },
        class if class < GROUPS.len() + CLASSES.len() => {
            Class::Classic { class: CLASSES[class - GROUPS.len()], opcode }
        }
        _ => Class::Provider {
            provider: Guid([opcode; 16]),
            id: 0,
            opcode,
            level: 4,
            task: 0,
            keyword: 0,
        },
    };
    let record = Record {
        timestamp: 1_000,
        class,
        cpu: 0,
        task: Some(Task { pid: 4, tid: 8 }),
        version: version.into(),
        is_64_bit: kind & 0x80 == 0,
        payload,
        extended: ExtendedItems(extended),
    };
    read(&record);
    // As the session reads what has headers of 32 bits.
    let of_payload = width::of_payload(&record);
    assert!(of_payload.is_64_bit || !record.is_64_bit);
    assert_eq!(Record { is_64_bit: record.is_64_bit, ..of_payload }, record);
    read(&of_payload);
    // A sound item, so that the search gets to the fields of a schema.
    let schema = [&((payload.len() + 4) as u16).to_le_bytes()[..], b"\0e\0", payload].concat();
    let length = (schema.len() as u16).to_le_bytes();
    let item = [&[0, 0, 11, 0, 0, 0, length[0], length[1]], &schema[..]].concat();
    read(&Record { extended: ExtendedItems(&item), payload: extended, ..record });
});

fn read(record: &Record<'_>) {
    match decode(record) {
        Payload::Stack(stack) => assert!(stack.frames.iter().count() <= record.payload.len() / 4),
        Payload::StackKeyDefinition(stack) => {
            assert!(stack.frames.iter().count() <= record.payload.len() / 4)
        }
        Payload::TraceLogging(event) => describe(&event, record),
        Payload::EventInfo(info) => metadata(info, record),
        payload => drop(std::hint::black_box(format!("{payload:?}"))),
    }
    assert!(item_stacks(record.extended).count() <= record.extended.0.len() / 8);
}

fn describe(event: &TraceLogging<'_>, record: &Record<'_>) {
    std::hint::black_box((event.provider_name(), event.event_name()));
    check(&event.fields(), record.payload);
}

fn metadata(info: EventInfo<'_>, record: &Record<'_>) {
    let Some(schema) = info.parse() else { return };
    assert!(schema.event_name().len() <= 4 * 512);
    check(&schema.fields(record), record.payload);
}

/// Fields are bounded by the payload.
fn check(fields: &[Field], payload: &[u8]) {
    let values: usize = fields.iter().map(|field| weight(&field.value)).sum();
    assert!(fields.len() <= 512 && values <= 4 * payload.len() + 1_024);
    for field in fields {
        assert!(field.name.len() <= 256);
        std::hint::black_box(field.value.to_string());
    }
}

/// How much a value says: one for each number, its bytes for each text.
fn weight(value: &Value) -> usize {
    match value {
        Value::Text(text) => text.len(),
        Value::Binary(bytes) | Value::Sid(bytes) => bytes.len(),
        Value::Array(values) => values.iter().map(|value| 1 + weight(value)).sum(),
        _ => 1,
    }
}
