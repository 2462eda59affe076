//! Programs and captures of any content: nothing panics, and whatever comes
//! out, time never goes back and every slice that begins ends.

use crate::balance::Balance;
use proptest::prelude::*;
use syscollect_exporters::{FirefoxExporter, FirefoxOptions, TextExporter, TracyExporter};
use syscollect_merge::Session;
use syscollect_model::{ProgramTicks, Time};
use syscollect_playback::{Played, Recording};
use syscollect_records::RecordKind;
use syscollect_store::{CaptureReader, Definition, ProbeArgument, ProbeDefinition, ProbeRole};
use syscollect_tests::client::{image_blocks, stack, tag, task_name, text, value};
use syscollect_tests::{
    FIRST_BOOTTIME, FakeMachine, FakeProgram, FakeThread, Hit, cuts, golden, ticks,
};
use syscollect_zone_protocol::{FieldFormat, ItemKind, TextRole, Value, ZONE_END, ZONE_VALUE};

/// Plays all of it and a part; what was played.
fn play(capture: Vec<u8>) -> Option<(String, Played)> {
    cuts::check(&capture);
    for way in 0..4 {
        let mut exporter = Balance::of_live(TextExporter::new(Vec::new()));
        cuts::play_live_into(&mut exporter, &capture, way);
    }
    let mut session = Session::open(CaptureReader::from_bytes(capture).ok()?).ok()?;
    viewers(&mut session);
    play_range(&mut session, Some(20), Some(60));
    play_range(&mut session, Some(40), None);
    Some(play_range(&mut session, None, None))
}

fn play_range(session: &mut Session, from: Option<u64>, to: Option<u64>) -> (String, Played) {
    let mut exporter = Balance::new(TextExporter::new(Vec::new()));
    let played = session.play_range(&mut exporter, from.map(at), to.map(at)).unwrap();
    (String::from_utf8(exporter.into_inner().finish().unwrap()).unwrap(), played)
}

fn at(us: u64) -> Time {
    Time(FIRST_BOOTTIME + us * 1_000)
}

/// The viewers' files of the same session are whole: of Tracy's, its strict reader says so.
fn viewers(session: &mut Session) {
    let mut tracy = Balance::new(TracyExporter::new(Vec::new()));
    session.play(&mut tracy).unwrap();
    let file = tracy.into_inner().finish().unwrap();
    syscollect_tests::tracy_reader::read(&file).unwrap();
    let mut firefox = FirefoxExporter::new(Vec::new(), FirefoxOptions::default());
    session.play(&mut firefox).unwrap();
    serde_json::from_slice::<serde_json::Value>(&firefox.finish().unwrap()).unwrap();
}

/// One thing that a thread, a probe or the kernel does.
#[derive(Clone, Debug)]
struct Act {
    thread: usize,
    step: u64,
    what: u8,
    words: [u64; 3],
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let words = [(); 3].map(|()| prop_oneof![0u64..12, any::<u64>()]);
    let act = (0usize..4, 0u64..4, any::<u8>(), words);
    prop::collection::vec(
        act.prop_map(|(thread, step, what, words)| Act { thread, step, what, words }),
        0..300,
    )
}

/// Kinds of likely items.
const KINDS: u8 = 31;

/// What the items of the program may refer to.
struct Numbers {
    location: u32,
    string: u32,
    plot: u32,
    lock: u32,
    schema: u32,
    gpu_contexts: [u32; 2],
}

fn define(program: &mut FakeProgram) -> Numbers {
    let location = program.location("work", "f", "a.rs", 1, 0);
    Numbers {
        location,
        string: program.string("name"),
        plot: program.plot("plot", "B"),
        lock: program.lock("lock", false, location),
        schema: program.schema(
            "Schema",
            "category",
            &[("a", FieldFormat::Text), ("b", FieldFormat::Bytes)],
        ),
        gpu_contexts: [36, 64].map(|bits| program.gpu_context("queue", 1_000_000, bits)),
    }
}

fn attributes(numbers: &Numbers, words: [u64; 3]) -> Vec<u64> {
    let role = TextRole::from_number((words[1] % 7) as u8).unwrap_or(TextRole::ZoneText);
    match words[0] % 9 {
        0 => text(role, (words[2] % 3) as u32, "some words, more than fit in one item"),
        1 => tag(role, numbers.string, words[2]),
        2 => value((words[2] % 3) as u32, Value::Unsigned(words[1])),
        3 => value(ZONE_VALUE, Value::String(numbers.string)),
        4 => task_name(numbers.string, words[1] % 4),
        5 => stack(&[words[1], words[2], words[0], words[1]]),
        6 => image_blocks((words[1] % 4) as u16, (words[2] % 2) as u32, &words[..2]),
        _ => Vec::new(),
    }
}

/// An item of a likely shape, with some words that are not.
fn likely(
    machine: &mut FakeMachine,
    thread: &mut FakeThread,
    us: u64,
    act: &Act,
    numbers: &Numbers,
) {
    let [a, b, c] = act.words;
    let location = if c == 11 { 12_345 } else { u64::from(numbers.location) };
    let behind = [attributes(numbers, [b, c, a]), attributes(numbers, [c, a, b])];
    let (context, zone) = (numbers.gpu_contexts[(a % 2) as usize], b % 6);
    let (kind, words): (ItemKind, Vec<u64>) = match act.what % KINDS {
        0..=3 => return thread.begin(machine, us, location as u32, &behind),
        4..=7 => return thread.end(machine, us),
        8 => (ItemKind::Message, vec![low(if a % 2 == 0 { numbers.string } else { 0 }, b)]),
        9 => (ItemKind::Plot, vec![low(numbers.plot, a % 5), b]),
        10 => (ItemKind::Frame, vec![low(if b % 2 == 0 { numbers.string } else { 0 }, a % 4)]),
        11 => (ItemKind::AsyncBegin, vec![location, a % 6, b % 4]),
        12 => (ItemKind::AsyncEnd, vec![a % 6]),
        13 => (ItemKind::Lock, vec![low(numbers.lock, a % 8), location]),
        14 => (ItemKind::Alloc, vec![a, b, c]),
        15 => (ItemKind::Crash, vec![a, b, c]),
        16 => (ItemKind::Marker, vec![low(numbers.schema, a % 4)]),
        17 => (ItemKind::MarkerAt, vec![low(numbers.schema, a % 4), ticks(b % 100), 100 + c % 4]),
        18 => (ItemKind::Lost, vec![a % 50]),
        19 => (ItemKind::Attached, vec![a % 8]),
        21 => (ItemKind::AsyncOpen, vec![location, a % 6, ticks(b % 100)]),
        20 => (ItemKind::OpenZone, vec![low(numbers.location, a % 8), ticks(us)]),
        22..=23 => (ItemKind::GpuZoneBegin, vec![low(context, zone), location]),
        24 => (ItemKind::GpuZoneEnd, vec![low(context, zone)]),
        25..=26 => (ItemKind::GpuTimes, vec![low(context, zone), b, c]),
        27 => (ItemKind::GpuNoTimes, vec![low(context, zone)]),
        28 => {
            let clock = low(context, (c % 1000) | ((a % 3) << 31));
            (ItemKind::GpuCalibration, vec![clock, ticks(b % 100), c])
        }
        29 => {
            // Of one or two blocks: some of these are whole.
            let size = [0x0004_0004, 0x0004_0008, c][(c % 3) as usize];
            (ItemKind::FrameImage, vec![(a % 4) | ((b % 3) << 16), ticks(b % 100), size])
        }
        _ => (ItemKind::ThreadEnd, vec![]),
    };
    thread.item(machine, us, kind, &words, &behind);
}

fn low(number: u32, high: u64) -> u64 {
    u64::from(number) | high << 32
}

fn act(
    machine: &mut FakeMachine,
    threads: &mut [FakeThread; 4],
    numbers: &Numbers,
    us: &mut [u64; 4],
    act: &Act,
) {
    let at = us[act.thread] + act.step;
    us[act.thread] = at;
    let thread = &mut threads[act.thread];
    let [a, b, c] = act.words;
    match act.what / KINDS {
        0 => thread.words(machine, at, &[a, b, c]),
        1 => thread.words(machine, at, &[ticks(at) << 8 | u64::from(ZONE_END) | a & 63]),
        2 => thread.words(machine, at, &attributes(numbers, act.words)),
        3 | 4 => {
            let probe = (act.what % 11).into();
            let (tid, stack_pointer) = (thread.chunk.tid, 0x9000 + a % 16 * 8);
            let strings: &[(u8, &str)] =
                if b % 2 == 0 { &[(0, "name"), (1, "f"), (2, "file")] } else { &[] };
            let arguments =
                &[a, b, c, 1, 2][..if strings.is_empty() { (c % 5) as usize } else { 5 }];
            // Of some that nobody sent.
            let stack = (probe % 2 == 0).then_some(tid % 3);
            machine.hit(
                0,
                at,
                &Hit {
                    tid,
                    pid: 100,
                    probe,
                    arguments,
                    strings,
                    stack_pointer,
                    unreadable: 0,
                    stack,
                },
            );
        }
        5 if act.what.is_multiple_of(KINDS) => {
            machine.exit(1, at, (thread.chunk.tid, 100), "thread");
        }
        5 if act.what % KINDS == 1 => {
            let record = syscollect_records::TaskRecord {
                tid: 100,
                tgid: 100,
                parent_tid: 100,
                ..Default::default()
            };
            machine.task(1, at, RecordKind::Exec, "other", record);
        }
        5 if act.what % KINDS == 2 => thread.chunk.owner += 1,
        5 if act.what % KINDS == 3 => machine.fork(1, at, 100, (thread.chunk.tid, 100), "born"),
        _ => likely(machine, thread, at, act, numbers),
    }
}

fn capture(acts: &[Act], chunk_bytes: usize) -> Vec<u8> {
    let mut machine = FakeMachine::new(2);
    machine.chunk_bytes(chunk_bytes);
    machine.process(100, 1, "server", &[(100, "server"), (101, "a"), (102, "b")]);
    machine.mapping(100, 0, 0x1000, 0, "/bin/server");
    let probes = (0..).zip(ProbeRole::ALL).map(|(number, role)| ProbeDefinition {
        probe: number,
        role,
        pair: number % 2,
        name: "probe".into(),
        arguments: vec![ProbeArgument { name: "x".into(), size: 4, ..ProbeArgument::default() }; 3],
        named_by: (number % 3 == 0).then_some(0),
        frames: if number % 2 == 0 { "frames".into() } else { String::new() },
        ..ProbeDefinition::default()
    });
    machine.define(&Definition::Probes(probes.collect()));
    let mut program = FakeProgram::new(&mut machine, 1, 100);
    let numbers = define(&mut program);
    let other = FakeProgram::with_clock(&mut machine, 2, 100, ProgramTicks::Monotonic);
    // Nobody told of thread 103, nor of the program of the last lane.
    let mut last = program.thread(3, 103);
    last.chunk.client = 3;
    let mut threads = [program.thread(0, 100), program.thread(1, 101), other.thread(2, 102), last];
    let mut us = [1; 4];
    acts.iter().for_each(|step| act(&mut machine, &mut threads, &numbers, &mut us, step));
    program.finish(&mut machine);
    machine.finish()
}

/// Entries of a program's log: kind, numbers, strings.
fn log_entries() -> impl Strategy<Value = Vec<(u32, Vec<u32>, Vec<String>)>> {
    let numbers = prop::collection::vec(any::<u32>(), 0..4);
    let strings = prop::collection::vec("[a-z]{0,9}", 0..4);
    prop::collection::vec((0u32..10, numbers, strings), 0..40)
}

proptest! {
    #[test]
    fn programs_of_any_behaviour_make_events_that_balance(
        acts in acts(),
        chunk_bytes in 40usize..4000,
    ) {
        let capture = capture(&acts, chunk_bytes);
        let (lines, played) = play(capture.clone()).unwrap();
        let reader = CaptureReader::from_bytes(capture).unwrap();
        let (fresh, _) = golden::text(&mut Session::open(reader).unwrap());
        prop_assert_eq!(lines, fresh, "playing parts before changes nothing");
        prop_assert!(played.records > 0);
    }

    #[test]
    fn damaged_captures_make_events_that_balance(
        acts in acts(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut capture = capture(&acts, 200);
        for (at, byte) in flips {
            let at = at.index(capture.len());
            capture[at] = byte;
        }
        capture.truncate(cut.index(capture.len() * 2 + 1));
        play(capture);
    }

    #[test]
    fn logs_of_any_content_are_read_or_counted(
        entries in log_entries(),
        steps in acts(),
    ) {
        let mut machine = FakeMachine::new(1);
        machine.process(100, 1, "server", &[]);
        let mut program = FakeProgram::new(&mut machine, 1, 100);
        let numbers: Vec<u32> = entries
            .iter()
            .map(|(kind, numbers, strings)| {
                let strings: Vec<&str> = strings.iter().map(String::as_str).collect();
                program.entry(*kind, numbers, &strings)
            })
            .collect();
        let number = |at: usize| numbers.get(at % numbers.len().max(1)).copied().unwrap_or(1);
        let mut thread = program.thread(0, 100);
        let mut us = 1;
        for (index, step) in steps.iter().enumerate() {
            us += step.step;
            let any = Numbers {
                location: number(index),
                string: number(index + 1),
                plot: number(index + 2),
                lock: number(index + 3),
                schema: number(index + 4),
                gpu_contexts: [1, 2],
            };
            likely(&mut machine, &mut thread, us, step, &any);
        }
        program.finish(&mut machine);
        play(machine.finish()).unwrap();
    }
}
