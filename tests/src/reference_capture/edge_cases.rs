//! Captures of what machines do seldom and viewers must show all the same.

use super::Figures;
use crate::client::text;
use crate::shown::Viewer;
use crate::{FakeMachine, FakeProgram, Stacks};
use syscollect_model::{Symbol, SymbolFrame, SymbolTable};
use syscollect_records::{RecordKind, SchedRecord, TaskRecord, task_state};
use syscollect_zone_protocol::{ItemKind, TextRole};

const KERNEL: u64 = 0xffff_ffff_8100_0000;

/// A capture, and what every viewer has to show of it.
pub struct Case {
    /// What is awkward about it.
    pub name: &'static str,
    /// The capture.
    pub capture: Vec<u8>,
    /// The figures, by names that are spelled as the program spelled them.
    figures: Vec<(String, u64)>,
}

impl Case {
    /// What a viewer has to show.
    pub fn figures(&self, viewer: Viewer) -> Figures {
        self.figures.iter().map(|(name, count)| (spelled(viewer, name), *count)).collect()
    }
}

/// A name as the viewer's file has it: Tracy's viewer draws names as they are, and would end them
/// at a NUL.
fn spelled(viewer: Viewer, name: &str) -> String {
    match viewer {
        Viewer::Tracy => name
            .chars()
            .map(|character| match character.is_control() {
                true => character.escape_default().to_string(),
                false => character.to_string(),
            })
            .collect(),
        _ => name.to_owned(),
    }
}

/// All of them.
pub fn cases() -> Vec<Case> {
    vec![reused(), without_stack(), whole_time(), names()]
}

fn case<const N: usize>(
    name: &'static str,
    machine: FakeMachine,
    figures: [(String, u64); N],
) -> Case {
    Case { name, capture: machine.finish(), figures: figures.into() }
}

/// A kernel function for samples on CPU 0: its stack.
fn function(machine: &mut FakeMachine, number: u64) -> Stacks {
    Stacks { user: 0, kernel: machine.sample_stack(0, 1, 0, &[KERNEL + number * 0x100 + 8]) }
}

fn define(machine: &mut FakeMachine, names: &[&str]) {
    let symbols = (0..)
        .zip(names)
        .map(|(number, name)| Symbol {
            offset: KERNEL + number * 0x100 + 8,
            start: KERNEL + number * 0x100,
            size: 0x100,
            frames: vec![SymbolFrame { function: (*name).into(), ..SymbolFrame::default() }],
            ..Symbol::default()
        })
        .collect();
    machine.symbols(SymbolTable {
        path: "[kernel.kallsyms]".into(),
        symbols,
        ..SymbolTable::default()
    });
}

/// A thread comes onto CPU 0, is sampled that many times, and sleeps.
fn run(machine: &mut FakeMachine, us: u64, tid: u32, (samples, stacks): (u64, Stacks)) {
    machine.switch(0, us, task_state::RUNNABLE, tid);
    (1..=samples).for_each(|later| machine.sample(0, us + later, tid, stacks, 0));
    machine.switch(0, us + 20, task_state::INTERRUPTIBLE, 0);
}

fn figure(what: &str, process: &str, thread: &str, count: u64) -> (String, u64) {
    (format!("{what} of {process} / {thread}"), count)
}

/// Process 200 ends, and another one gets its number; so does thread 251 of a process that goes on.
fn reused() -> Case {
    let mut machine = FakeMachine::new(2);
    let m = &mut machine;
    m.process(200, 1, "first", &[]);
    m.process(250, 1, "pool", &[(250, "pool"), (251, "early")]);
    define(m, &["before", "after"]);
    let (before, after) = (function(m, 0), function(m, 1));
    run(m, 10, 200, (2, before));
    run(m, 40, 251, (4, before));
    for (us, tid, pid, old, new) in
        [(100, 200, 200, "first", "second"), (300, 251, 250, "early", "late")]
    {
        m.switch(0, us, task_state::RUNNABLE, tid);
        m.exit(0, us + 5, (tid, pid), old);
        m.switch(0, us + 10, task_state::DEAD, 0);
        m.fork(1, us + 50, 250, (tid, pid), new);
        m.sched(1, us + 51, RecordKind::WakeupNew, woken(tid), Stacks::default());
    }
    run(m, 400, 200, (3, after));
    run(m, 450, 251, (5, after));
    case(
        "a thread id used by two threads, one after the other",
        machine,
        [
            figure("runs", "first", "first", 2),
            figure("samples", "first", "first", 2),
            figure("runs", "second", "second", 1),
            figure("samples", "second", "second", 3),
            figure("runs", "pool", "early", 2),
            figure("samples", "pool", "early", 4),
            figure("runs", "pool", "late", 1),
            figure("samples", "pool", "late", 5),
            ("self before".into(), 6),
            ("self after".into(), 8),
        ],
    )
}

fn woken(tid: u32) -> SchedRecord {
    SchedRecord { tid, state: 0, prio: 120, ..SchedRecord::default() }
}

fn without_stack() -> Case {
    let mut machine = FakeMachine::new(1);
    machine.process(210, 1, "bare", &[]);
    define(&mut machine, &["busy"]);
    let busy = function(&mut machine, 0);
    run(&mut machine, 10, 210, (5, Stacks::default()));
    run(&mut machine, 50, 210, (1, busy));
    case(
        "samples without a stack",
        machine,
        [
            figure("runs", "bare", "bare", 2),
            figure("samples", "bare", "bare", 6),
            ("self [no stack]".into(), 5),
            ("self busy".into(), 1),
        ],
    )
}

/// A process that runs when the recording begins, and still runs when it ends.
fn whole_time() -> Case {
    let mut machine = FakeMachine::new(1);
    machine.process(220, 1, "always", &[]);
    machine.running(0, 220);
    define(&mut machine, &["busy"]);
    let busy = function(&mut machine, 0);
    machine.sample(0, 5, 220, busy, 0);
    machine.switch(0, 10, task_state::INTERRUPTIBLE, 0);
    machine.wake(0, 25, 220, 0, Stacks::default());
    machine.switch(0, 30, task_state::RUNNABLE, 220);
    machine.sample(0, 35, 220, busy, 0);
    machine.sample(0, 50, 220, busy, 0);
    case(
        "a process that started before and ended after",
        machine,
        [figure("samples", "always", "always", 3), ("self busy".into(), 3)],
    )
}

/// Names with control characters, of 64 KiB, and of bytes that are no text.
fn names() -> Case {
    let (long, control) = ("n".repeat(64 << 10), "a\tb\nc\u{1b}[31m\"\\".to_owned());
    let zone = "z".repeat(60_000);
    let mut machine = FakeMachine::new(1);
    let m = &mut machine;
    m.process(230, 1, &control, &[]);
    m.process(231, 1, &long, &[]);
    m.process(232, 1, "plain", &[]);
    define(m, &[&control, &long]);
    let (tabs, endless) = (function(m, 0), function(m, 1));
    run(m, 10, 230, (1, tabs));
    run(m, 40, 231, (2, endless));
    m.task(
        0,
        70,
        RecordKind::Rename,
        b"caf\xe9",
        TaskRecord { tid: 232, tgid: 232, ..TaskRecord::default() },
    );
    run(m, 80, 232, (3, tabs));
    let mut program = FakeProgram::new(m, 1, 230);
    let [odd, endless] =
        [control.as_str(), &zone].map(|name| program.location(name, "f", "a.rs", 1, 0));
    let mut thread = program.thread(0, 230);
    for (us, location) in [(11, odd), (13, endless), (15, endless)] {
        thread.begin(m, us, location, &[]);
        thread.end(m, us + 1);
    }
    for (us, bytes) in
        [(17, b"caf\xe9".as_slice()), (18, long.as_bytes()), (19, control.as_bytes())]
    {
        thread.item(m, us, ItemKind::Message, &[0], &[text(TextRole::Message, 0, bytes)]);
    }
    program.finish(m);
    case(
        "names with control characters, of 64 KiB, and that are not UTF-8",
        machine,
        [
            figure("samples", &control, &control, 1),
            figure("samples", &long, &long, 2),
            figure("samples", "caf\u{fffd}", "caf\u{fffd}", 3),
            (format!("self {control}"), 4),
            (format!("self {long}"), 2),
            (format!("zone {control}"), 1),
            (format!("zone {zone}"), 2),
            ("message caf\u{fffd}".into(), 1),
            (format!("message {control}"), 1),
            (format!("message {long}"), 1),
        ],
    )
}
