//! A trace with a record of every kind that is decoded, from the file to what it means.
//!
//! It needs no real trace: whoever has only the repository knows from it that every decoder works.

use super::checked::Checked;
use std::collections::BTreeMap;
use syscollect_etl::file::Trace;
use syscollect_etl::payload::dxgkrnl::{
    self, Change, DmaEnd, DmaKind, Dxgkrnl, Engine, FlipKind, QueuePacket, QueuePacketKind, VSync,
};
use syscollect_etl::payload::{self, EVENT_METADATA, IMAGE_ID, SYSTEM_CONFIG_EX};
use syscollect_etl::session::Session;
use syscollect_etl::{Class, Guid};
use syscollect_exporters::{FirefoxExporter, FirefoxOptions, PerfettoExporter};
use syscollect_model::Fence;
use syscollect_playback::Recording;
use syscollect_tests::etl::group::{CONFIGURATION, DISK, PAGE_FAULT, PERF_INFO, THREAD};
use syscollect_tests::etl::{
    FakeTrace, Logger, Payload, classic, event, event_with, system, ticks, with_narrow_headers,
};
use syscollect_tests::golden;

const APP: u64 = 0x7ff6_0000_0000;
const DRIVER: u64 = 0xffff_f800_1000_0000;
const FILE: u64 = 0x77;
/// Objects of the graphics kernel.
const ADAPTER: u64 = 0xffff_c000_a000_0000;
const DEVICE: u64 = 0xffff_c000_d000_0000;
const CONTEXT: u64 = 0xffff_c000_c000_0000;
const QUEUE: u64 = 0xffff_c000_e000_0000;
const FENCE: u64 = 0xffff_c000_f000_0000;
const SURFACE: u64 = 0xffff_c000_5000_0000;
const DXGKRNL: [u8; 16] = dxgkrnl::PROVIDER.0;
const DXGI: [u8; 16] = Guid::from_u128(0xca11c036_0102_4a2d_a6ad_f03cfed5d3c9).0;
const LOST_EVENT: [u8; 16] = Guid::from_u128(0x6a399ae0_4bc6_4de9_870b_3657f8947e7e).0;
const GAME: [u8; 16] = [1; 16];
/// Where the header of a provider's event has its version.
const VERSION: usize = 0x2a;

/// The trace. Its CPU 0 writes everything but for one switch and wakeup.
pub(crate) fn trace() -> FakeTrace {
    let mut logger = Logger::new(2);
    machine(&mut logger);
    processes(&mut logger);
    scheduling(&mut logger);
    disks(&mut logger);
    graphics(&mut logger);
    providers(&mut logger);
    last(&mut logger);
    logger.trace
}

/// What the kernel and merging tools tell of the machine, and what was lost.
fn machine(logger: &mut Logger) {
    let payload = Payload::default().u32s(&[2_600, 2, 8_192, 4_096]);
    logger.system(0, 1, (CONFIGURATION, 10), 3, &payload.bytes);
    let payload = Payload::default().u32s(&[0, 0, 2_600]).utf16("A CPU of two cores");
    logger.system(0, 1, (CONFIGURATION, 35), 2, &payload.bytes);
    let payload = Payload::default().u64(0).utf16("19041.1.amd64fre").utf16("Windows 10 Pro");
    logger.classic(1, SYSTEM_CONFIG_EX.0, 32, &payload.bytes);
    let payload = Payload::default().utf16(r"\Device\HarddiskVolume4\").utf16(r"C:\");
    logger.classic(1, SYSTEM_CONFIG_EX.0, 35, &payload.bytes);
    for opcode in [72, 73, 74] {
        let payload = Payload::default().u32s(&[0, 10_000, 10_000]);
        logger.perf_info(0, 1, (PERF_INFO, opcode), 3, &payload.bytes);
    }
    logger.classic(1, LOST_EVENT, 32, &[]);
}

/// A program that was there with an image and a driver, and one that comes and goes.
fn processes(logger: &mut Logger) {
    logger.process(2, 3, 100, "app.exe", "app.exe --fast");
    logger.thread(2, 3, (100, 101), "");
    logger.thread(2, 3, (100, 102), "worker");
    logger.image(3, 3, 100, (APP, 0x10000), r"\Device\HarddiskVolume4\app.exe");
    logger.image(3, 3, 0, (DRIVER, 0x10000), r"\SystemRoot\driver.sys");
    let payload = Payload::default().pointer(APP).u32(100).raw(&[0xab; 16]).u32(2);
    logger.classic(4, IMAGE_ID.0, 36, &payload.ascii("app.pdb").bytes);
    let payload = Payload::default().pointers(&[APP, 0x10000]).u32s(&[100, 0x5f00_0000]);
    logger.classic(4, IMAGE_ID.0, 0, &payload.utf16("app.exe").bytes);
    logger.process(5, 1, 200, "child.exe", "child.exe");
    logger.thread(5, 1, (200, 201), "");
    let payload = Payload::default().u32s(&[200, 201]).utf16("busy");
    logger.system(0, 6, (THREAD, 72), 2, &payload.bytes);
    logger.image(6, 10, 200, (APP, 0x1000), r"\child.exe");
    logger.image(7, 2, 200, (APP, 0x1000), r"\child.exe");
    logger.thread(8, 2, (200, 201), "");
    logger.process(9, 2, 200, "child.exe", "");
}

/// A wait with its stacks, samples, DPCs and an interrupt.
fn scheduling(logger: &mut Logger) {
    logger.switch(0, 10, 0, (2, 0), 101);
    logger.switch(0, 20, 101, (5, 6), 0);
    logger.ready(1, 30, 101);
    logger.switch(0, 40, 0, (2, 0), 101);
    logger.stack(0, 41, 40, (100, 101), &[DRIVER + 0x100, DRIVER + 0x205]);
    logger.sample(0, 50, 101, APP + 0x1234);
    // Both parts of its stack by keys, of which one is given up now and one is told at the end.
    logger.stack_key(51, 50, (100, 101), 7, true);
    logger.stack_key(52, 50, (100, 101), 8, false);
    logger.stack_key_definition(55, 35, 7, &[DRIVER + 0x300]);
    logger.routine(62, 67, 61, DRIVER + 0x700);
    logger.routine(65, 68, 60, DRIVER + 0x800);
    logger.routine(66, 66, 65, DRIVER + 0x900);
    logger.routine(67, 69, 66, DRIVER + 0xa00);
}

/// A read, a write and a flush, faults, and the names of the file.
fn disks(logger: &mut Logger) {
    for (us, opcode) in [(70, 12), (71, 13), (72, 15)] {
        let payload = Payload::default().pointer(Logger::REQUEST).u32(101);
        logger.perf_info(0, us, (DISK, opcode), 3, &payload.bytes);
    }
    logger.transfer(80, 10, 9, FILE);
    logger.transfer(82, 11, 10, FILE);
    let payload = Payload::default().u32s(&[0, 0]).u64(100).pointer(Logger::REQUEST).u32(101);
    logger.perf_info(0, 84, (DISK, 14), 3, &payload.bytes);
    logger.hard_fault(90, 85, APP + 0x4000, FILE);
    for opcode in 10..=15 {
        let payload = Payload::default().pointers(&[APP + 0x5000, APP + 0x1000]);
        logger.perf_info(0, 91, (PAGE_FAULT, opcode), 2, &payload.bytes);
    }
    logger.file_name(92, 0, 0x78, r"\Device\HarddiskVolume4\new.txt");
    logger.file_name(93, 32, 0x79, r"\other.txt");
    logger.file_name(94, 35, 0x79, r"\other.txt");
}

/// An event of the graphics kernel.
fn gpu(logger: &mut Logger, us: u64, id: u16, payload: Payload) {
    let mut record = event(ticks(us), Logger::WRITER, DXGKRNL, (id, 0), &payload.bytes);
    // Presents that say for how many syncs to wait, and signals that name their fences, are of
    // version 1; of the other events all versions are alike.
    record[VERSION] = u8::from(matches!(id, 184 | 245));
    logger.trace.record(0, &record);
}

/// What becomes of the objects: three events each, of which this is the first.
fn objects(logger: &mut Logger, us: u64, change: u16) {
    let new = Payload::default;
    gpu(logger, us, 24 + change, new().pointers(&[SURFACE, ADAPTER]));
    gpu(logger, us + 1, 27 + change, new().pointers(&[SURFACE, ADAPTER]).u32(1).pointer(DEVICE));
    let context = new().pointer(DEVICE).u32(0).u32s(&[0; 7]).pointer(CONTEXT);
    gpu(logger, us + 2, 30 + change, context);
    gpu(logger, us + 3, 422 + change, new().pointers(&[CONTEXT, 0, QUEUE]));
}

/// A frame: its packet from the queue to the engine, the call that shows it, and the sync.
fn graphics(logger: &mut Logger) {
    let new = Payload::default;
    objects(logger, 99, 0);
    gpu(logger, 103, 250, new().pointer(ADAPTER).u32s(&[0, 1]).utf16("3D").u32(0));
    gpu(logger, 105, 23, new().pointers(&[ADAPTER, CONTEXT]).u32(0));
    logger.event(106, DXGI, 42, &new().pointer(0x1234).u32s(&[0, 1]).bytes);
    gpu(logger, 110, 178, new().pointer(CONTEXT).u32s(&[0, 1]).u64(0).u32s(&[0, 0, 1]));
    gpu(logger, 111, 179, new().pointer(CONTEXT).u32s(&[0, 1]));
    gpu(logger, 112, 175, new().pointers(&[CONTEXT, 0]).u32(0).u64(7).u32(1));
    gpu(logger, 113, 244, new().pointer(CONTEXT).u32s(&[2, 0]).pointer(FENCE).u64(5));
    let signal = new().pointer(CONTEXT).u32s(&[3, 0, 1]).pointer(FENCE).u64(6);
    gpu(logger, 114, 245, signal);
    gpu(logger, 115, 184, new().u32(0).pointer(0x99).u32s(&[0, 1, 4, 0]));
    gpu(logger, 116, 166, new().pointers(&[0x99, 0, 0, 0]).u64(0).u32s(&[0, 1]));
    gpu(logger, 117, 168, new().pointer(0).u32(0).pointer(0).u32(1));
    gpu(logger, 118, 252, new().u32s(&[0, 0, 1]));
    gpu(logger, 119, 266, new().pointer(0).u32s(&[0, 0]).pointer(0).u32(1));
    logger.event(120, DXGI, 43, &new().u32(0).bytes);
    // Flags and interval are 0: behind a header of 32 bits this call is taken for one of 32 bits.
    logger.event(121, DXGI, 55, &new().pointer(0x1234).u32s(&[0, 0]).bytes);
    logger.event(122, DXGI, 56, &new().u32(0).bytes);
    gpu(logger, 130, 177, new().pointer(CONTEXT).u32(0).u64(7).u32s(&[1, 1]));
    gpu(logger, 131, 176, new().pointer(CONTEXT).u32(0).u64(7).u32s(&[1, 0]));
    for sequence in 1..=3 {
        let kind = [0, 4, 5][sequence as usize - 1];
        gpu(logger, 132, 180, new().pointer(CONTEXT).u32s(&[kind, sequence, 0, 0]));
    }
    gpu(logger, 140, 116, new().pointer(ADAPTER).u32s(&[0, 9]));
    gpu(logger, 141, 259, new().pointer(ADAPTER).u32s(&[0, 0]).u64(10));
    gpu(logger, 142, 17, new().pointer(ADAPTER).u32(0).u64(0x1000).u32s(&[0, 7]));
    gpu(logger, 143, 273, new().pointer(ADAPTER).u32(1).u64(0x2000).u32s(&[0, 8]));
    objects(logger, 150, 2);
    objects(logger, 160, 1);
}

/// Events that describe themselves and have a stack, and one that a manifest describes.
fn providers(logger: &mut Logger) {
    // Type 8 is a number of 32 bits without sign.
    let fields = Payload::default().raw(&[0x81, 1]).ascii("Loaded").ascii("level").raw(&[8]);
    let schema = Payload::default().u16(2 + fields.bytes.len() as u16).raw(&fields.bytes);
    let name = Payload::default().u16(2 + 5 + 19).ascii("Game").raw(&[0; 19]);
    let stack = Payload::default().u64(0).pointers(&[APP + 0x1500, APP + 0x2501]);
    let plain =
        event(ticks(200), Logger::WRITER, [9; 16], (0, 0), &Payload::default().u32(5).bytes);
    let items: [(u16, &[u8]); 3] = [(12, &name.bytes), (11, &schema.bytes), (6, &stack.bytes)];
    logger.trace.record(0, &event_with(plain, &items));
    // The same, whose stack is a key that was defined before.
    let plain = event(ticks(205), Logger::WRITER, [9; 16], (0, 0), &[5, 0, 0, 0]);
    let stack = Payload::default().u64(0).pointer(8);
    let items: [(u16, &[u8]); 3] = [(12, &name.bytes), (11, &schema.bytes), (18, &stack.bytes)];
    logger.trace.record(0, &event_with(plain, &items));
    logger.event(210, GAME, 7, &Payload::default().u32(6).bytes);
}

/// What is told when the recording ends: a stack by its key, a file by its key, and a manifest.
fn last(logger: &mut Logger) {
    logger.stack_key_definition(990, 36, 8, &[APP + 0x1234, APP + 0x2001]);
    logger.file_name(991, 36, FILE, r"\Device\HarddiskVolume4\data.bin");
    logger.classic(992, EVENT_METADATA.0, 32, &metadata());
}

/// `TRACE_EVENT_INFO` of event 7 of a provider, with one field: fixed places, the field's
/// description, then the texts that both refer to.
fn metadata() -> Vec<u8> {
    const FIELD: usize = 112;
    let mut bytes = vec![0; FIELD + 24];
    bytes[..16].copy_from_slice(&GAME);
    bytes[32] = 7;
    for (at, text) in [(52, "Arcade"), (68, "Round"), (72, "win:Start"), (FIELD + 4, "Score")] {
        let place = (bytes.len() as u32).to_le_bytes();
        bytes[at..at + 4].copy_from_slice(&place);
        bytes.extend(Payload::default().utf16(text).bytes);
    }
    // One field, and one at the top; a number of 32 bits, shown as one.
    (bytes[100], bytes[104]) = (1, 1);
    (bytes[FIELD + 8], bytes[FIELD + 10], bytes[FIELD + 16]) = (8, 8, 1);
    bytes
}

/// How many records are decoded as what: the kinds of payloads by their names.
fn kinds(bytes: Vec<u8>) -> BTreeMap<String, u64> {
    let mut kinds = BTreeMap::new();
    Trace::from_bytes(vec![bytes]).unwrap().scan(|_, record| {
        let text = format!("{:?}", payload::decode(record));
        let name = text.split(['(', ' ', '{']).next().unwrap_or_default().to_owned();
        *kinds.entry(name).or_default() += 1;
    });
    kinds
}

#[test]
fn every_kind_of_record_is_decoded_as_what_it_is() {
    let kinds = kinds(trace().finish());
    let expected = [
        ("Build", 1),
        ("ContextSwitch", 3),
        ("DiskIo", 3),
        ("DiskIoBegin", 3),
        ("Dpc", 3),
        ("EventInfo", 1),
        ("FileName", 4),
        ("HardFault", 1),
        ("Image", 4),
        ("ImageDebugId", 1),
        ("ImageFileId", 1),
        ("Isr", 1),
        ("Lost", 1),
        ("Machine", 1),
        ("PageFault", 6),
        ("Process", 3),
        ("Processor", 1),
        ("Provider", 38),
        ("ReadyThread", 1),
        ("Sample", 1),
        ("SampleInterval", 3),
        ("Stack", 1),
        ("StackKeyDefinition", 2),
        ("StackKeyReference", 2),
        ("Thread", 4),
        ("ThreadName", 1),
        ("TraceLogging", 2),
        ("Unknown", 1),
        ("VolumeMapping", 1),
    ];
    // The one that is unknown is the header of the file.
    assert_eq!(kinds, expected.map(|(kind, count)| (kind.to_owned(), count)).into());
}

/// What the graphics kernel's events say, the first of each id.
fn graphics_events() -> BTreeMap<u16, Dxgkrnl> {
    let mut events = BTreeMap::new();
    Trace::from_bytes(vec![trace().finish()]).unwrap().scan(|_, record| {
        if let Class::Provider { provider: dxgkrnl::PROVIDER, id, .. } = record.class {
            let event = dxgkrnl::decode(id, record.version, record.payload, record.is_64_bit);
            let event = event.unwrap_or_else(|| panic!("event {id} is not decoded"));
            events.entry(id).or_insert(event);
        }
    });
    events
}

/// What the events of objects say that begin, end, or were there.
fn expected_objects() -> Vec<(u16, Dxgkrnl)> {
    let changes = [Change::Start, Change::Stop, Change::Rundown];
    let (adapter, device, context, queue) = (ADAPTER, DEVICE, CONTEXT, QUEUE);
    let mut expected = Vec::new();
    for (change, index) in changes.into_iter().zip(0..) {
        expected.push((24 + index, Dxgkrnl::Adapter { change, adapter }));
        let process = SURFACE;
        expected.push((27 + index, Dxgkrnl::Device { change, device, adapter, process }));
        expected.push((30 + index, Dxgkrnl::Context { change, context, device, node: 0 }));
        expected.push((422 + index, Dxgkrnl::HardwareQueue { change, queue, context }));
    }
    let (engine, name) = (Engine::ThreeD, "3D".to_owned());
    expected.push((250, Dxgkrnl::Node { adapter, node: 0, engine, name }));
    expected.push((23, Dxgkrnl::SelectContext { adapter, context, node: 0 }));
    expected
}

/// What the events of packets say.
fn expected_packets() -> Vec<(u16, Dxgkrnl)> {
    let (context, kind) = (CONTEXT, DmaKind::Render);
    let (id, sequence, render) = (7, 1, QueuePacketKind::Render);
    let (end, preempted, timed_out) = (DmaEnd::Completed, false, false);
    let packet = QueuePacket { context, sequence, kind: render, present: true, fences: vec![] };
    let fences = vec![Fence { context: FENCE, sequence: 5 }];
    let waits = QueuePacketKind::Wait;
    let wait = QueuePacket { context, sequence: 2, kind: waits, present: false, fences };
    let fences = vec![Fence { context: FENCE, sequence: 6 }];
    let signals = QueuePacketKind::Signal;
    let signal = QueuePacket { context, sequence: 3, kind: signals, present: false, fences };
    let stop = Dxgkrnl::QueuePacketStop { context, sequence, kind: render, preempted, timed_out };
    vec![
        (178, Dxgkrnl::QueuePacketStart(packet)),
        (179, Dxgkrnl::QueuePacketTaken { context, sequence }),
        (180, stop),
        (244, Dxgkrnl::QueuePacketStart(wait)),
        (245, Dxgkrnl::QueuePacketStart(signal)),
        (175, Dxgkrnl::DmaStart { context, queue_context: 0, kind, id, sequence }),
        (176, Dxgkrnl::DmaStop { context, kind, id, sequence, preempted }),
        (177, Dxgkrnl::DmaDone { context, kind, id, sequence, end }),
    ]
}

/// What the events of frames and displays say.
fn expected_frames() -> Vec<(u16, Dxgkrnl)> {
    let (adapter, source, window, interval) = (ADAPTER, 0, 0x99, Some(1));
    let whole = Dxgkrnl::VSync(VSync {
        adapter,
        source,
        frame: 7,
        address: Some(0x1000),
        multi_plane: false,
    });
    let planes = Dxgkrnl::VSync(VSync {
        adapter,
        source,
        frame: 8,
        address: Some(0x2000),
        multi_plane: true,
    });
    vec![
        (184, Dxgkrnl::Present { window, source, flags: 4, status: 0 }),
        (166, Dxgkrnl::Blit { window, redirected: true }),
        (168, Dxgkrnl::Flip { source, interval, kind: FlipKind::Whole }),
        (252, Dxgkrnl::Flip { source, interval: None, kind: FlipKind::Plane }),
        (266, Dxgkrnl::Flip { source, interval, kind: FlipKind::Independent }),
        (116, Dxgkrnl::MmioFlip { adapter, source, layer: None, sequence: 9 }),
        (259, Dxgkrnl::MmioFlip { adapter, source, layer: Some(0), sequence: 10 }),
        (17, whole),
        (273, planes),
    ]
}

#[test]
fn every_event_of_the_graphics_kernel_says_what_was_written() {
    let events = graphics_events();
    let expected = [expected_objects(), expected_packets(), expected_frames()].concat();
    assert_eq!(events, expected.into_iter().collect());
    let missing = (0..600).filter(|id| dxgkrnl::is_of_interest(*id) && !events.contains_key(id));
    assert_eq!(missing.collect::<Vec<_>>(), [0; 0]);
}

#[test]
fn every_kind_of_record_becomes_an_event_of_the_model() {
    let mut session = Session::from_bytes(vec![trace().finish()]).unwrap();
    golden::check("etl_every_kind", &mut session);
    let mut checked = Checked::default();
    let Ok(played) = session.play(&mut checked);
    assert_eq!(played.events_by_type.values().sum::<u64>(), played.events);
    let stacks = session.facts().stacks;
    assert_eq!((stacks.records, stacks.matched, stacks.samples_in_images), (5, 5, 1));
    let module = session.unresolved().into_iter().find(|module| !module.kernel).unwrap();
    assert_eq!(module.path, r"C:\app.exe");
    let pdb = module.windows.and_then(|image| image.pdb).unwrap();
    assert_eq!((pdb.name.as_str(), pdb.guid, pdb.age), ("app.pdb", [0xab; 16], 2));
    assert_eq!(session.info().sample_rate_hz, 1000);
}

#[test]
fn a_32_bit_program_that_merged_it_changes_none_of_it() {
    let whole = trace().finish();
    let narrow = with_narrow_headers(&whole);
    let [whole, narrow] = [whole, narrow].map(|bytes| Session::from_bytes(vec![bytes]).unwrap());
    let [whole, narrow] = [whole, narrow].map(|mut session| golden::text(&mut session).0);
    assert_eq!(narrow, whole);
}

#[test]
fn viewers_files_are_made_of_every_kind() {
    let mut session = Session::from_bytes(vec![trace().finish()]).unwrap();
    let mut perfetto = PerfettoExporter::new(Vec::new());
    let played = session.play(&mut perfetto).unwrap();
    let file = perfetto.finish().unwrap();
    assert!(super::golden::packets(&file) > 0 && file.len() as u64 > played.events);
    let mut firefox = FirefoxExporter::new(Vec::new(), FirefoxOptions::default());
    session.play(&mut firefox).unwrap();
    let profile = syscollect_tests::shown::Profile::read(&firefox.finish().unwrap()).unwrap();
    assert!(profile.threads().len() >= 3);
}

#[test]
fn a_switch_too_short_and_a_class_that_nobody_knows_are_told_apart() {
    let mut trace = FakeTrace::new(1);
    trace.record(0, &system(ticks(1), (4, 8), (THREAD, 36), 3, &[0; 8]));
    trace.record(0, &classic(ticks(2), (4, 8), [3; 16], (1, 0), &[]));
    let kinds = kinds(trace.finish());
    assert_eq!((kinds["Malformed"], kinds["Unknown"]), (1, 2));
}
