use super::Bytes;
use crate::file::LOST_EVENT;
use crate::payload::{
    EVENT_METADATA, Field, IMAGE_ID, Payload, SYSTEM_CONFIG_EX, Value, decode, item_stacks,
};
use crate::{Class, ExtendedItems, Guid, Record};
use proptest::collection::vec;
use proptest::prelude::*;

const GROUPS: [u8; 9] = [0x01, 0x02, 0x03, 0x04, 0x05, 0x0b, 0x0f, 0x14, 0x18];
const CLASSES: [Guid; 4] = [LOST_EVENT, IMAGE_ID, SYSTEM_CONFIG_EX, EVENT_METADATA];

/// Classes that are decoded.
fn class() -> impl Strategy<Value = Class> {
    let provider = Class::Provider {
        provider: Guid([1; 16]),
        id: 0,
        opcode: 0,
        level: 0,
        task: 0,
        keyword: 0,
    };
    prop_oneof![
        8 => (prop::sample::select(&GROUPS[..]), 0..80u8).prop_map(|(group, opcode)| Class::Kernel { group, opcode }),
        2 => (prop::sample::select(&CLASSES[..]), 30..40u8)
            .prop_map(|(class, opcode)| Class::Classic { class, opcode }),
        4 => Just(provider),
        1 => Just(Class::Wpp),
    ]
}

/// Bytes among which small numbers are common, as lengths and counts are.
fn bytes(length: usize) -> impl Strategy<Value = Vec<u8>> {
    vec(prop_oneof![3 => Just(0u8), 3 => 0..32u8, 2 => any::<u8>()], 0..length)
}

/// Text and addresses come from the payload, none from elsewhere.
fn lies_within(text: &[u8], payload: &[u8]) -> bool {
    text.is_empty() || payload.as_ptr_range().contains(&text.as_ptr())
}

fn byte_strings<'a>(payload: &Payload<'a>) -> Vec<&'a [u8]> {
    match payload {
        Payload::Thread(thread) => vec![thread.name.0],
        Payload::ThreadName(name) => vec![name.name.0],
        Payload::Process(process) => vec![process.image_name.0, process.command_line.0],
        Payload::Image(image) => vec![image.path.0],
        Payload::ImageDebugId(id) => vec![id.pdb.0],
        Payload::FileName(name) => vec![name.path.0],
        _ => Vec::new(),
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

fn is_bounded(fields: &[Field], payload: &[u8]) -> bool {
    // A byte can be three of UTF-8, and 512 fields can be empty.
    let values: usize = fields.iter().map(|field| weight(&field.value)).sum();
    fields.len() <= 512
        && values <= 4 * payload.len() + 1_024
        && fields.iter().all(|field| field.name.len() <= 256)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn any_payload_of_any_class_version_and_bitness_is_decoded_within_its_bytes(
        class in class(),
        version in 0..7u16,
        is_64_bit in any::<bool>(),
        payload in bytes(300),
        extended in bytes(200),
    ) {
        let bytes = Bytes { bytes: payload, is_64_bit };
        let record = Record { extended: ExtendedItems(&extended), ..bytes.record(class, version) };
        let decoded = decode(&record);
        prop_assert!(byte_strings(&decoded).into_iter().all(|text| lies_within(text, record.payload)));
        match decoded {
            Payload::Stack(stack) => {
                prop_assert!(stack.frames.iter().count() <= record.payload.len() / 4);
            }
            Payload::StackKeyDefinition(stack) => {
                prop_assert!(stack.frames.iter().len() <= record.payload.len() / 4);
            }
            Payload::EventInfo(info) => {
                if let Some(schema) = info.parse() {
                    prop_assert!(is_bounded(&schema.fields(&record), record.payload));
                }
            }
            Payload::TraceLogging(event) => {
                prop_assert!(is_bounded(&event.fields(), record.payload));
            }
            _ => {}
        }
        prop_assert!(item_stacks(record.extended).count() <= extended.len() / 8);
    }

    #[test]
    fn any_schema_of_its_own_gives_bounded_fields(
        fields in bytes(200),
        payload in bytes(300),
        is_64_bit in any::<bool>(),
    ) {
        // A whole header and an event's name, so that the bytes are fields.
        let schema = Bytes::new(true).u16(5 + fields.len() as u16).raw(&[0, b'e', 0]).raw(&fields);
        let item = Bytes::new(true)
            .u16(0)
            .u16(11)
            .u16(0)
            .u16(schema.bytes.len() as u16)
            .raw(&schema.bytes);
        let class = Class::Provider {
            provider: Guid([1; 16]),
            id: 0,
            opcode: 0,
            level: 0,
            task: 0,
            keyword: 0,
        };
        let bytes = Bytes { bytes: payload, is_64_bit };
        let record = Record { extended: ExtendedItems(&item.bytes), ..bytes.record(class, 0) };
        let Payload::TraceLogging(event) = decode(&record) else { panic!("no schema") };
        prop_assert!(is_bounded(&event.fields(), record.payload));
    }

    #[test]
    fn any_metadata_gives_a_schema_of_bounded_size(
        fields in vec((0..64u32, 0..32u16, 0..40u16, 0..4u16, 0..4u16), 0..8),
        payload in bytes(200),
    ) {
        let head = Bytes::new(true)
            .raw(&[0; 100])
            .u32(fields.len() as u32)
            .u32(fields.len() as u32)
            .u32(0);
        let info = fields.iter().fold(head, |bytes, (flags, first, second, count, length)| {
            bytes.u32(*flags).u32(0).u16(*first).u16(*second).u32(0).u16(*count).u16(*length).u32(0)
        });
        let Payload::EventInfo(info) = decode(&info.classic(EVENT_METADATA, 32)) else {
            panic!("no metadata")
        };
        if let Some(schema) = info.parse() {
            let bytes = Bytes::new(true).raw(&payload);
            prop_assert!(is_bounded(&schema.fields(&bytes.record(Class::Wpp, 0)), &payload));
        }
    }
}
