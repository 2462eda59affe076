//! Payloads of real files: as many of each kind as their page lists, all of them whole.

use std::collections::{BTreeMap, HashMap, HashSet};
use syscollect_etl::file::Trace;
use syscollect_etl::payload::{
    EventKey, EventSchema, Field, ItemStack, Payload, StackKeyReference, ThreadState, Utf16, Value,
    decode, item_stacks,
};
use syscollect_etl::{Guid, Record};
use syscollect_tests::etl::{self, FIXTURES, fixture};

fn open(name: &str) -> Trace {
    Trace::from_bytes(vec![fixture(name)]).expect("a fixture opens")
}

/// How many payloads of a kind there are.
fn count(trace: &Trace, is_kind: impl Fn(&Payload<'_>) -> bool) -> usize {
    let mut count = 0;
    trace.scan(|_, record| count += usize::from(is_kind(&decode(record))));
    count
}

macro_rules! counts {
    ($trace:expr, $($kind:ident: $count:expr),* $(,)?) => {
        $(assert_eq!(count($trace, |payload| matches!(payload, Payload::$kind(..))), $count, stringify!($kind));)*
    };
}

/// A text of a sound file: it has characters, none of them damaged.
fn is_sound(text: Utf16<'_>) -> bool {
    !text.is_empty()
        && text.0.len().is_multiple_of(2)
        && !text.to_string_lossy().contains(char::REPLACEMENT_CHARACTER)
}

#[syscollect_fixtures::test]
fn no_payload_of_any_file_is_malformed() {
    for (name, _) in FIXTURES {
        let trace = open(name);
        assert_eq!(count(&trace, |payload| *payload == Payload::Malformed), 0, "{name}");
    }
}

#[syscollect_fixtures::test]
fn the_compressed_file_has_what_its_page_lists() {
    let trace = open(etl::PERFVIEW);
    counts!(&trace, Sample: 79_528, Stack: 252, StackKeyReference: 9_107, StackKeyDefinition: 2_921);
    counts!(&trace, Process: 68, Thread: 1_358, Image: 3_596, ImageDebugId: 3_534, ImageFileId: 3_590);
    counts!(&trace, DiskIo: 1_231, DiskIoBegin: 1_231, HardFault: 153, FileName: 3_084, SampleInterval: 2);
    counts!(&trace, Machine: 1, Build: 1, VolumeMapping: 9, EventInfo: 61);
}

#[syscollect_fixtures::test]
fn every_key_of_a_stack_is_told_after_it_was_used() {
    let trace = open(etl::PERFVIEW);
    let (mut used, mut reported) = (HashMap::new(), HashMap::new());
    trace.scan(|_, record| match decode(record) {
        Payload::StackKeyReference(StackKeyReference { key, event_timestamp, .. }) => {
            let last: &mut u64 = used.entry(key).or_default();
            *last = event_timestamp.max(*last);
        }
        Payload::StackKeyDefinition(definition) => {
            assert!((1..=200).contains(&definition.frames.len()));
            let last: &mut u64 = reported.entry(definition.key).or_default();
            *last = record.timestamp.max(*last);
        }
        _ => {}
    });
    assert_eq!(used.len(), 1_077);
    assert!(
        used.iter().all(|(key, used)| reported.get(key).is_some_and(|reported| reported >= used))
    );
}

#[syscollect_fixtures::test]
fn stacks_of_providers_events_lie_in_their_items() {
    let trace = open(etl::PERFVIEW);
    let mut stacks = 0;
    trace.scan(|_, record| {
        for stack in item_stacks(record.extended) {
            let ItemStack::Frames { frames, .. } = stack else { panic!("no key is in this file") };
            assert!(frames.iter().all(|address| address != 0), "{frames:?}");
            stacks += 1;
        }
    });
    assert_eq!(stacks, 655);
}

#[syscollect_fixtures::test]
fn samples_lie_in_code_and_name_a_thread() {
    let trace = open(etl::PERFVIEW);
    let mut threads = HashSet::new();
    trace.scan(|_, record| {
        if let Payload::Sample(sample) = decode(record) {
            assert!(sample.address > 0xffff && sample.count == 1);
            threads.insert(sample.tid);
        }
    });
    assert!(threads.contains(&0) && threads.len() > 50, "{}", threads.len());
}

#[syscollect_fixtures::test]
fn a_live_kernel_log_has_processes_threads_and_images_with_their_names() {
    let trace = open(etl::AIRBUS);
    counts!(&trace, Process: 196, Thread: 3_058, Image: 13_753);
    let (mut named, mut dated, mut processes) = (0, 0, HashSet::new());
    trace.scan(|_, record| match decode(record) {
        Payload::Thread(thread) => {
            assert!(thread.name.is_empty() || is_sound(thread.name));
            named += usize::from(!thread.name.is_empty());
        }
        Payload::Process(process) => {
            assert!(process.image_name.0.is_ascii() && !process.image_name.is_empty());
            assert!(process.command_line.is_empty() || is_sound(process.command_line));
            processes.insert(process.pid);
        }
        Payload::Image(image) => {
            assert!(is_sound(image.path) && image.path.to_string_lossy().starts_with('\\'));
            dated += usize::from(image.timestamp != 0);
            assert!(image.base != 0 && image.size.is_multiple_of(4_096));
        }
        _ => {}
    });
    assert_eq!(named, 94);
    // Images that the kernel lists rather than loads need not say when they were made.
    assert_eq!(dated, 13_753 - 8_823);
    assert!(processes.contains(&4), "the system's own process is there");
}

#[syscollect_fixtures::test]
fn images_of_a_merged_file_have_their_pdb() {
    let trace = open(etl::PERFVIEW);
    let (mut images, mut identities) = (HashSet::new(), Vec::new());
    trace.scan(|_, record| match decode(record) {
        Payload::Image(image) => drop(images.insert((image.pid, image.base))),
        Payload::ImageDebugId(id) => {
            let pdb = id.pdb.to_string_lossy();
            assert!(
                pdb.to_lowercase().ends_with(".pdb") && id.age > 0 && id.guid.0 != [0; 16],
                "{id:?}"
            );
            identities.push((id.pid, id.base));
        }
        _ => {}
    });
    assert!(identities.iter().all(|identity| images.contains(identity)));
}

#[syscollect_fixtures::test]
fn the_synthetic_file_has_what_its_page_lists_and_its_switches_are_a_chain() {
    let trace = open(etl::SYNTHETIC);
    counts!(&trace, ContextSwitch: 3_847, ReadyThread: 3_191, Sample: 1_924, Stack: 3_488);
    assert!(count(&trace, |payload| matches!(payload, Payload::Dpc(_))) > 0);
    assert!(count(&trace, |payload| matches!(payload, Payload::Isr(_))) > 0);
    let (mut running, mut continued) = (HashMap::new(), 0);
    trace.scan(|_, record| {
        if let Payload::ContextSwitch(switch) = decode(record) {
            assert!(switch.old_state.name().is_some() && switch.old_wait_reason.name().is_some());
            assert!(switch.old_tid != 0 || switch.old_state == ThreadState::RUNNING);
            let before = running.insert(record.cpu, switch.new_tid);
            assert!(before.is_none_or(|before| before == switch.old_tid));
            continued += usize::from(before.is_some());
        }
    });
    assert_eq!(continued, 3_843);
}

/// Fields of an event, as text.
fn shown(fields: &[Field]) -> Vec<String> {
    fields.iter().map(|field| format!("{}={}", field.name, field.value)).collect()
}

#[syscollect_fixtures::test]
fn events_of_every_primitive_type_describe_themselves() {
    let trace = open(etl::TRACELOGGING);
    let mut events = Vec::new();
    trace.scan(|_, record| {
        let Payload::TraceLogging(event) = decode(record) else { return };
        assert_eq!(event.event_name().to_string_lossy(), "PrimitiveTypesTest");
        assert!(event.provider_name().is_some());
        let fields = event.fields();
        let names: Vec<_> = fields.iter().map(|field| field.name.as_str()).collect();
        assert_eq!(names, PRIMITIVES);
        events.push(fields.into_iter().map(|field| field.value).collect::<Vec<_>>());
    });
    let planets: Vec<_> = events.iter().map(|values| values[0].to_string()).collect();
    assert_eq!(planets, ["Mercury", "Venus", "Earth", "Mars", "Jupiter"]);
    assert_eq!(events[0], first_event());
}

#[syscollect_fixtures::test]
fn structures_describe_themselves_in_a_compressed_file() {
    let trace = open(etl::COMPRESSED_TRACELOGGING);
    let mut events = Vec::new();
    trace.scan(|_, record| {
        if let Payload::TraceLogging(event) = decode(record) {
            events
                .push((event.event_name().to_string_lossy().into_owned(), shown(&event.fields())));
        }
    });
    assert_eq!(
        events,
        [("TestEvent".to_owned(), vec!["a.b=Hello".to_owned(), "a.c=World!".to_owned()])]
    );
}

#[syscollect_fixtures::test]
fn manifests_in_the_file_describe_most_of_its_providers_events() {
    let trace = open(etl::PERFVIEW);
    let mut schemas = HashMap::<EventKey, EventSchema>::new();
    trace.scan(|_, record| {
        if let Payload::EventInfo(info) = decode(record) {
            let schema = info.parse().expect("a sound schema");
            assert!(!schema.provider_name.is_empty() && !schema.event_name().is_empty());
            schemas.insert(schema.key, schema);
        }
    });
    assert_eq!(schemas.len(), 61);
    let (mut decoded, mut names) = (0, BTreeMap::<String, u64>::new());
    trace.scan(|_, record: &Record<'_>| {
        let Some(schema) = EventKey::of(record).and_then(|key| schemas.get(&key)) else { return };
        decoded += 1;
        *names.entry(schema.event_name()).or_default() += 1;
        let fields = schema.fields(record);
        assert_eq!(fields.is_empty(), record.payload.is_empty(), "{}", schema.event_name());
        if schema.event_name() == "ProcessStart/Start" {
            assert!(matches!(&fields[0].value, Value::Unsigned(pid) if *pid > 4));
            assert!(matches!(&fields[5].value, Value::Text(path) if path.starts_with(r"\Device\")));
        }
    });
    assert_eq!(decoded, 66_394);
    assert_eq!(names["ProcessStart/Start"], 1);
    assert_eq!(names["GarbageCollection/Start"], 528);
}

const PRIMITIVES: [&str; 12] = [
    "string_type",
    "boolean_type",
    "char_type",
    "int16_type",
    "int32_type",
    "uint16_type",
    "uint32_type",
    "int64_type",
    "uint64_type",
    "guid_type",
    "file_time_type",
    "system_time_type",
];

fn first_event() -> [Value; 12] {
    [
        Value::Text("Mercury".to_owned()),
        Value::Bool(false),
        Value::Text("M".to_owned()),
        Value::Signed(-51),
        Value::Signed(-102),
        Value::Unsigned(51),
        Value::Unsigned(102),
        // Its writer says that it has no sign.
        Value::Unsigned((-204_i64).cast_unsigned()),
        Value::Unsigned(204),
        Value::Guid(Guid::from_u128(0x0ad614c4_0ef4_4225_8013_f44f37cb0397)),
        Value::FileTime(132_756_731_757_990_000),
        Value::SystemTime([2021, 9, 4, 9, 14, 59, 35, 799]),
    ]
}
