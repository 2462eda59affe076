//! What an event costs from the capture to the exporter, without the exporter.
//!
//! - `merge`: ordering alone, over lists in memory;
//! - `decode`: one lane read, unpacked and played: no merge, no stacks;
//! - `play`: a machine of two CPUs with stacks in every event;
//! - `zones`: two threads of an instrumented program, three zones deep, a message for
//!   every eighth of them; the elements are zones, each a beginning and an end.
//!
//! `cargo bench -p syscollect-merge`; the elements of the throughput are events.
#![allow(missing_docs, reason = "criterion's macros make functions without documentation")]
#![allow(clippy::unwrap_used, reason = "the capture was made three lines above")]

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use syscollect_merge::Session;
use syscollect_playback::order::{Cursor, Merge};
use syscollect_playback::{NullExporter, Recording};
use syscollect_records::{SchedRecord, task_state};
use syscollect_store::CaptureReader;
use syscollect_tests::client::text;
use syscollect_tests::{FakeMachine, FakeProgram, Stacks};
use syscollect_zone_protocol::{ItemKind, TextRole};

/// A ping-pong on each CPU: wakeup, switch, wakeup, switch, with stacks if
/// there is more than one of them.
fn ping_pong(cpus: u16, events: u64, stacks: u32) -> Vec<u8> {
    let mut machine = FakeMachine::new(cpus);
    for cpu in 0..cpus {
        let (ping, pong) = (100 + u32::from(cpu) * 2, 101 + u32::from(cpu) * 2);
        machine.process(ping, 1, "ping", &[]);
        machine.process(pong, 1, "pong", &[]);
        for stack in 0..u64::from(stacks) {
            let frames: Vec<u64> =
                (0..12).map(|depth| address(depth, if depth < 2 { stack } else { 0 })).collect();
            machine.sched_stack(cpu, 0, 0, &frames);
            machine.sched_stack(
                cpu,
                0,
                ping,
                &frames.iter().map(|frame| frame & 0xffff_ffff).collect::<Vec<_>>(),
            );
        }
        let mut us = 1 + u64::from(cpu);
        for event in (0..events / u64::from(cpus)).step_by(2) {
            let pick = if stacks == 0 { 0 } else { (event as u32 / 7 % stacks) * 2 };
            let stacks = if stacks == 0 {
                Stacks::default()
            } else {
                Stacks { kernel: pick + 1, user: pick + 2 }
            };
            let next = if event % 4 == 0 { pong } else { ping };
            machine.wake(cpu, us, next, cpu, stacks);
            let record = SchedRecord {
                tid: next,
                state: task_state::INTERRUPTIBLE,
                prio: 120,
                ..Default::default()
            };
            machine.switch_with(cpu, us + 1, record, stacks);
            us += 3;
        }
    }
    machine.finish()
}

fn address(depth: u64, stack: u64) -> u64 {
    0xffff_ffff_8100_0000 + depth * 0x100 + stack * 0x10
}

struct Numbers(std::ops::Range<u64>, u64);

impl Cursor for Numbers {
    type Key = u64;
    type Item = u64;

    fn key(&self) -> Option<u64> {
        // Bursts of eight per lane, as CPUs take turns.
        (!self.0.is_empty()).then(|| (self.0.start / 8 * 8) * 16 + self.1 * 8 + self.0.start % 8)
    }

    fn take(&mut self) -> u64 {
        self.0.next().unwrap_or_default()
    }
}

fn merge(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("merge");
    for lanes in [2u64, 16, 128] {
        let each = 1_000_000 / lanes;
        group.throughput(Throughput::Elements(each * lanes));
        group.bench_function(format!("{lanes} lanes"), |bencher| {
            bencher.iter(|| {
                Merge::new((0..lanes).map(|lane| Numbers(0..each, lane)).collect::<Vec<_>>())
                    .fold(0u64, |sum, (lane, item)| sum ^ item ^ lane as u64)
            });
        });
    }
    group.finish();
}

fn play_capture(criterion: &mut Criterion, name: &str, capture: &[u8], events: u64) {
    let mut group = criterion.benchmark_group(name);
    group.sample_size(10);
    group.throughput(Throughput::Elements(events));
    group.bench_function(format!("{events} events"), |bencher| {
        bencher.iter_batched(
            || Session::open(CaptureReader::from_bytes(capture.to_vec()).unwrap()).unwrap(),
            |mut session| session.play(&mut NullExporter::new()).unwrap(),
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

fn decode(criterion: &mut Criterion) {
    play_capture(criterion, "decode", &ping_pong(1, 1_000_000, 0), 1_000_000);
}

fn play(criterion: &mut Criterion) {
    play_capture(criterion, "play", &ping_pong(2, 3_500_000, 500), 3_500_000);
}

/// Zones of two threads, in rings that were drained every few milliseconds.
fn instrumented(zones: u64) -> Vec<u8> {
    let mut machine = FakeMachine::new(1);
    machine.process(100, 1, "marked", &[(100, "one"), (101, "two")]);
    let mut program = FakeProgram::new(&mut machine, 1, 100);
    let locations: Vec<u32> =
        (0..20).map(|line| program.location("work", "f", "a.rs", line, 0)).collect();
    for (lane, tid) in [(0, 100), (1, 101)] {
        let mut thread = program.thread(lane, tid);
        for us in (10..10 + zones).step_by(3).filter(|us| us / 3 % 2 == u64::from(lane)) {
            for depth in 0..3 {
                thread.begin(&mut machine, us * 2 + depth, locations[(us % 20) as usize], &[]);
            }
            if us % 8 == 0 {
                let attributes = [text(TextRole::Message, 0, "something of no meaning")];
                thread.item(&mut machine, us * 2 + 3, ItemKind::Message, &[0], &attributes);
            }
            (0..3).for_each(|depth| thread.end(&mut machine, us * 2 + 3 + depth));
        }
    }
    program.finish(&mut machine);
    machine.finish()
}

fn zones(criterion: &mut Criterion) {
    let capture = instrumented(2_000_000);
    play_capture(criterion, "zones", &capture, 2_000_000);
    let mut group = criterion.benchmark_group("zones");
    group.sample_size(10);
    group.throughput(Throughput::Elements(2_000_000));
    group.bench_function("open", |bencher| {
        bencher.iter_batched(
            || CaptureReader::from_bytes(capture.clone()).unwrap(),
            |reader| Session::open(reader).unwrap(),
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

criterion_group!(benches, merge, decode, play, zones);
criterion_main!(benches);
