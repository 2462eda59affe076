//! What the reference server marks, and the probes of the build.

use super::{BUILD, SERVER, begin};
use crate::client::{first_word, tag, text, value};
use crate::{FakeMachine, FakeProgram, FakeThread, Hit};
use syscollect_store::{Definition, ProbeDefinition, ProbeRole};
use syscollect_zone_protocol::{
    FieldFormat, FramePhase, ItemKind, LockAction, MarkerPhase, TextRole, Value, ValueType,
};

/// The instrumented program: numbers of what it defines, and its two threads.
pub(super) struct Server {
    program: FakeProgram,
    zones: Zones,
    names: Names,
    main: FakeThread,
    worker: FakeThread,
}

/// Numbers of locations.
struct Zones {
    handle: u32,
    query: u32,
    render: u32,
    main_loop: u32,
    fetch: u32,
    decode: u32,
}

/// Numbers of everything else.
struct Names {
    started: u32,
    job: u32,
    frames: u32,
    queue: u32,
    cache: u32,
    read: u32,
    write: u32,
}

impl Server {
    pub(super) fn new(machine: &mut FakeMachine) -> Self {
        let mut program = FakeProgram::new(machine, 1, SERVER[0]);
        let mut zone =
            |name: &str, line| program.location(name, "serve", "src/server.rs", line, 0x33_66_99);
        let zones = Zones {
            handle: zone("handle", 10),
            query: zone("query", 20),
            render: zone("render", 30),
            main_loop: zone("loop", 40),
            fetch: zone("fetch", 50),
            decode: zone("decode", 60),
        };
        let fields = [("path", FieldFormat::Text), ("size", FieldFormat::Bytes)];
        let names = Names {
            started: program.string("started"),
            job: program.string("job"),
            frames: program.string("Render"),
            queue: program.plot("queue", "jobs"),
            cache: program.lock("cache", false, zones.handle),
            read: program.schema("Read", "io", &fields),
            write: program.schema("Write", "io", &fields),
        };
        let [main, worker] =
            [(0, SERVER[0]), (1, SERVER[1])].map(|(lane, tid)| program.thread(lane, tid));
        Self { program, zones, names, main, worker }
    }

    pub(super) fn round(&mut self, machine: &mut FakeMachine, round: u64) {
        self.worker(machine, round);
        self.main(machine, round);
    }

    /// What the worker does, from 20 µs to 300 µs of the round.
    fn worker(&mut self, machine: &mut FakeMachine, round: u64) {
        let (us, m) = (begin(round), machine);
        let Self { zones, names, worker, .. } = self;
        worker.begin(m, us + 30, zones.handle, &[text(TextRole::ZoneText, 0, "GET /")]);
        // What the main thread began in the round before.
        if round % 5 == 1 {
            worker.item(m, us + 35, ItemKind::AsyncEnd, &[2 * round - 1], &[]);
            worker.item(m, us + 36, ItemKind::AsyncEnd, &[2 * round - 2], &[]);
        }
        worker.begin(m, us + 40, zones.query, &[]);
        if round % 10 == 5 {
            lock(worker, m, us + 45, names.cache, &[LockAction::Obtain, LockAction::Release]);
        }
        if round < 30 {
            let attributes =
                [text(TextRole::Field, 0, "/etc/hosts"), value(1, Value::Unsigned(4096))];
            worker.item(m, us + 60, ItemKind::Marker, &[names.read.into()], &attributes);
        }
        worker.end(m, us + 100);
        worker.begin(m, us + 110, zones.render, &[]);
        if round.is_multiple_of(2) {
            worker.item(m, us + 120, ItemKind::Alloc, &[0x7000 + round * 64, 64, 0], &[]);
        }
        worker.end(m, us + 200);
        worker.item(
            m,
            us + 210,
            ItemKind::Message,
            &[u64::from(names.started) | 0xff_00_00 << 32],
            &[],
        );
        if round.is_multiple_of(4) {
            worker.item(
                m,
                us + 211,
                ItemKind::Message,
                &[0],
                &[text(TextRole::Message, 0, "a slow one")],
            );
        }
        if round % 10 == 3 {
            worker.item(
                m,
                us + 212,
                ItemKind::Message,
                &[0],
                &[tag(TextRole::Message, names.job, 5)],
            );
        }
        worker.end(m, us + 220);
    }

    /// What the main thread does, from 300 µs to 400 µs.
    fn main(&mut self, machine: &mut FakeMachine, round: u64) {
        let (us, m) = (begin(round), machine);
        let Self { zones, names, main, .. } = self;
        main.item(m, us + 310, ItemKind::Frame, &[(FramePhase::Mark as u64) << 32], &[]);
        if round % 10 == 5 {
            lock(
                main,
                m,
                us + 311,
                names.cache,
                &[LockAction::Wait, LockAction::Obtain, LockAction::Release],
            );
        }
        let queue = first_word(names.queue, ValueType::Unsigned as u32);
        main.item(m, us + 315, ItemKind::Plot, &[queue, round], &[]);
        main.begin(m, us + 320, zones.main_loop, &[]);
        if round.is_multiple_of(5) {
            main.item(m, us + 330, ItemKind::AsyncBegin, &[zones.fetch.into(), 2 * round, 0], &[]);
            main.item(
                m,
                us + 340,
                ItemKind::AsyncBegin,
                &[zones.decode.into(), 2 * round + 1, 0],
                &[],
            );
        }
        if round.is_multiple_of(10) {
            let [begins, ends] = [MarkerPhase::Begin, MarkerPhase::End]
                .map(|phase| first_word(names.write, phase as u32));
            let attributes = [text(TextRole::Field, 0, "/tmp/out"), value(1, Value::Unsigned(100))];
            main.item(m, us + 350, ItemKind::Marker, &[begins], &attributes);
            main.item(m, us + 360, ItemKind::Marker, &[ends], &[]);
            for (at, phase) in [(370, FramePhase::Begin), (380, FramePhase::End)] {
                let frame = first_word(names.frames, phase as u32);
                main.item(m, us + at, ItemKind::Frame, &[frame], &[]);
            }
        }
        // Ten of the fifty pieces are never freed.
        if round.is_multiple_of(2) && round % 10 != 4 {
            main.item(m, us + 385, ItemKind::Free, &[0x7000 + round * 64, 0], &[]);
        }
        main.end(m, us + 390);
    }

    /// The worker crashes.
    pub(super) fn finish(&mut self, machine: &mut FakeMachine, rounds: u64) {
        let us = begin(rounds);
        self.worker.item(machine, us, ItemKind::Crash, &[11, 0xdead, 0x40_0310], &[]);
        self.program.finish(machine);
    }
}

/// One step of a lock after the other, a microsecond apart.
fn lock(
    thread: &FakeThread,
    machine: &mut FakeMachine,
    us: u64,
    lock: u32,
    actions: &[LockAction],
) {
    for (later, action) in (0..).zip(actions) {
        let words = [first_word(lock, *action as u32), 0];
        thread.item(machine, us + later, ItemKind::Lock, &words, &[]);
    }
}

/// The probes of the build: a point, a pair, a function.
pub(super) fn define_probes(machine: &mut FakeMachine) {
    machine.define(&Definition::Probes(vec![
        probe(1, ProbeRole::Point, 0, "python:line"),
        probe(2, ProbeRole::ZoneBegin, 1, "gc"),
        probe(3, ProbeRole::ZoneEnd, 1, "gc"),
        probe(4, ProbeRole::FunctionEntry, 2, "work"),
        probe(5, ProbeRole::FunctionReturn, 2, "work"),
    ]));
}

fn probe(number: u32, role: ProbeRole, pair: u32, name: &str) -> ProbeDefinition {
    ProbeDefinition { probe: number, role, pair, name: name.into(), ..ProbeDefinition::default() }
}

/// Hits of the build's second thread.
pub(super) fn probes(machine: &mut FakeMachine, round: u64) {
    let us = begin(round);
    let hit = Hit { tid: BUILD[1], pid: BUILD[0], ..Hit::default() };
    let mut hits: Vec<(u64, Hit<'_>)> = Vec::new();
    if round < 15 {
        hits.push((505, Hit { probe: 1, ..hit }));
    }
    if round < 12 {
        hits.extend([(510, Hit { probe: 2, ..hit }), (520, Hit { probe: 3, ..hit })]);
    }
    if round < 8 {
        let (enters, returns) =
            (Hit { stack_pointer: 0x8f00, ..hit }, Hit { stack_pointer: 0x8f08, ..hit });
        hits.extend([(530, Hit { probe: 4, ..enters }), (540, Hit { probe: 5, ..returns })]);
    }
    for (later, hit) in hits {
        machine.hit(1, us + later, &hit);
    }
}
