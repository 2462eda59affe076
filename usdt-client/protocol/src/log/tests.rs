extern crate std;

use super::*;
use proptest::prelude::*;
use std::string::String;
use std::vec::Vec;

/// The entry as it lies in the log.
fn bytes(entry: &EntryWords) -> Vec<u8> {
    let words = [&[entry.header()], entry.body()].concat();
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Reads what was written, with something behind it.
fn read(bytes: &[u8]) -> Definition<'_> {
    let (kind, body, size) = split_entry(bytes).expect("an entry");
    assert_eq!(size % 8, 0);
    Definition::decode(kind, body).expect("a definition")
}

fn followed(entry: &EntryWords) -> Vec<u8> {
    let mut bytes = bytes(entry);
    assert_eq!(bytes.len(), entry.size());
    bytes.extend([0xff; 8]);
    bytes
}

fn text() -> impl Strategy<Value = String> {
    proptest::string::string_regex("[a-zäß€]{0,40}").expect("a pattern")
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        strings in [text(), text(), text()],
        line: u32,
        color: u32,
        address: u64,
        shared: bool,
    ) {
        let [name, function, file] = strings.each_ref().map(String::as_bytes);
        let entry = followed(EntryWords::new().string(&strings[0]));
        prop_assert_eq!(read(&entry), Definition::String(name));
        let location = Location { line, color, name, function, file };
        let entry = followed(EntryWords::new().location(location));
        prop_assert_eq!(read(&entry), Definition::Location(location));
        let (value_type, unit) = (ValueType::Float, function);
        let entry = followed(EntryWords::new().plot(value_type, &strings[0], &strings[1]));
        prop_assert_eq!(read(&entry), Definition::Plot { value_type, name, unit });
        let entry = followed(EntryWords::new().lock(shared, line, &strings[0]));
        prop_assert_eq!(read(&entry), Definition::Lock { shared, location: line, name });
        let entry = followed(EntryWords::new().counter(value_type, address, &strings[0], &strings[1]));
        prop_assert_eq!(read(&entry), Definition::Counter { value_type, address, name, unit });
        let context = GpuContext {
            api: GpuApi::Vulkan,
            tick_bits: 1 + line % 64,
            tick_femtoseconds: address.max(1),
            owner: color,
            serial: line,
            name,
        };
        let entry = followed(EntryWords::new().gpu_context(context));
        prop_assert_eq!(read(&entry), Definition::GpuContext(context));
        let field = SchemaField { name: file, label: function, format: FieldFormat::Bytes };
        let entry =
            followed(EntryWords::new().schema(&strings[0], &strings[1], [field; 3].into_iter()));
        let Definition::Schema { name: of, category, fields } = read(&entry) else {
            return Err(TestCaseError::fail("no schema"));
        };
        prop_assert_eq!((of, category), (name, function));
        prop_assert_eq!(fields.collect::<Vec<_>>(), [field; 3]);
    }

    #[test]
    fn bytes_of_any_content_are_a_definition_or_none(
        kind in 0_u32..9,
        body in prop::collection::vec(any::<u8>(), 0..80),
    ) {
        if let Some(Definition::Schema { fields, .. }) = Definition::decode(kind, &body) {
            prop_assert!(fields.count() <= body.len());
        }
        let mut entry = (8 + body.len().next_multiple_of(8) as u32).to_le_bytes().to_vec();
        entry.extend(kind.to_le_bytes());
        prop_assert!(split_entry(&entry).is_none() || body.is_empty(), "an entry that is cut");
        entry.extend(&body);
        entry.resize(entry.len().next_multiple_of(8), 0);
        prop_assert_eq!(
            split_entry(&entry).map(|(kind, _, size)| (kind, size)),
            Some((kind, entry.len()))
        );
    }
}

#[test]
fn a_text_that_is_too_long_is_cut_between_letters_and_leaves_room_for_the_others() {
    let long = "ä".repeat(5000);
    let [name, function, file] = [long.as_bytes(); 3];
    let entry =
        followed(EntryWords::new().location(Location { line: 1, color: 2, name, function, file }));
    let Definition::Location(location) = read(&entry) else { panic!("no location") };
    for text in [location.name, location.function, location.file] {
        assert_eq!((text.len(), str::from_utf8(text).is_ok()), (1000, true));
    }
    assert_eq!(
        read(&followed(EntryWords::new().string(&long[..3998]))),
        Definition::String(&long.as_bytes()[..3998])
    );
}

#[test]
fn a_schema_that_claims_more_fields_than_there_are_is_none() {
    let mut entry = bytes(EntryWords::new().schema("name", "", [].into_iter()));
    entry[8] = 1;
    let (kind, body, _) = split_entry(&entry).expect("an entry");
    assert_eq!(Definition::decode(kind, body), None);
    entry[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
    let (kind, body, _) = split_entry(&entry).expect("an entry");
    assert_eq!(Definition::decode(kind, body), None, "and that soon");
}

#[test]
fn a_clock_of_a_gpu_that_does_not_count_is_none() {
    let context = GpuContext {
        api: GpuApi::Custom,
        tick_bits: 32,
        tick_femtoseconds: 1_000_000,
        owner: 0,
        serial: 0,
        name: b"queue",
    };
    for broken in [
        GpuContext { tick_bits: 0, ..context },
        GpuContext { tick_bits: 65, ..context },
        GpuContext { tick_femtoseconds: 0, ..context },
    ] {
        let entry = bytes(EntryWords::new().gpu_context(broken));
        let (kind, body, _) = split_entry(&entry).expect("an entry");
        assert_eq!(Definition::decode(kind, body), None, "{broken:?}");
    }
}
