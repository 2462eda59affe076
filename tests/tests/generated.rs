//! Code that programs make while they run: each has its own at the same addresses.
#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test, as its body does")]

use syscollect_exporters::{FoldedExporter, StackOptions};
use syscollect_merge::Session;
use syscollect_model::{MemoryAt, Symbol, SymbolFrame, SymbolTable, Ticks};
use syscollect_playback::Recording;
use syscollect_records::{RecordKind, TaskRecord};
use syscollect_tests::{FakeMachine, Stacks, golden, perf, ticks};

/// Where every process of these tests has code of its own.
const CODE: u64 = 0x7000_0000;

/// Two processes, 70 and 71, of which the first becomes another program after 50 us.
fn machine() -> FakeMachine {
    let mut machine = FakeMachine::new(1);
    for (pid, name) in [(70, "other"), (71, "java")] {
        machine.process(pid, 1, name, &[]);
        machine.mapping(pid, CODE, CODE + 0x1000, 0, "//anon");
        sample(&mut machine, u64::from(pid) - 50, pid);
    }
    machine.mapping_record(0, 50, &perf::exec(70, "other", 50));
    let record = TaskRecord { tid: 70, tgid: 70, parent_tid: 70, ..TaskRecord::default() };
    machine.task(0, 51, RecordKind::Exec, "other", record);
    machine.mapping_record(0, 52, &perf::mmap2(70, CODE, "//anon", 52));
    sample(&mut machine, 60, 70);
    machine
}

fn sample(machine: &mut FakeMachine, us: u64, pid: u32) {
    let user = machine.sample_stack(0, us, pid, &[CODE + 0x10]);
    machine.sample(0, us, pid, Stacks { user, kernel: 0 }, 0);
}

/// What the code at the address was called in the program that the process ran then.
fn names(pid: u32, us: u64, function: &str) -> SymbolTable {
    let symbol = Symbol {
        offset: CODE + 0x10,
        start: CODE,
        size: 0x20,
        frames: vec![SymbolFrame { function: function.into(), ..SymbolFrame::default() }],
        ..Symbol::default()
    };
    SymbolTable {
        path: SymbolTable::GENERATED.into(),
        memory: Some(MemoryAt { pid, at: Ticks(ticks(us)) }),
        symbols: vec![symbol],
        ..SymbolTable::default()
    }
}

fn folded(session: &mut Session) -> Vec<String> {
    let mut exporter = FoldedExporter::new(Vec::new(), StackOptions::default());
    session.play(&mut exporter).unwrap();
    let text = String::from_utf8(exporter.finish().unwrap()).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn one_address_has_the_name_that_its_program_gave_it() {
    let mut machine = machine();
    machine.symbols(names(70, 40, "JS:*fib /a.js:1:14"));
    machine.symbols(names(71, 90, "Fib::fib"));
    machine.symbols(names(70, 90, "of the other program"));
    let lines = folded(&mut golden::open(machine.finish()));
    let expected =
        ["java;Fib::fib 1", "other;JS:*fib /a.js:1:14 1", "other;of the other program 1"];
    assert_eq!(lines, expected);
}

#[test]
fn code_that_replaced_other_code_has_its_name_only_from_then_on() {
    let mut machine = FakeMachine::new(1);
    machine.process(71, 1, "java", &[]);
    machine.mapping(71, CODE, CODE + 0x1000, 0, "//anon");
    // One stack, which is sent once.
    let user = machine.sample_stack(0, 10, 71, &[CODE + 0x10, CODE + 0x81]);
    for us in [10, 20, 40, 50, 60, 70, 80] {
        machine.sample(0, us, 71, Stacks { user, kernel: 0 }, 0);
    }
    let mut table = names(71, 90, "interpreted");
    let first = table.symbols[0].clone();
    for (us, offset, function) in [
        (40, first.offset, "compiled"),
        (75, first.offset, "compiled again"),
        (0, CODE + 0x80, "caller"),
        (60, CODE + 0x80, "other caller"),
    ] {
        let frames = vec![SymbolFrame { function: function.into(), ..SymbolFrame::default() }];
        table.symbols.push(Symbol { offset, since: Ticks(ticks(us)), frames, ..first.clone() });
    }
    machine.symbols(table);
    let expected = [
        "java;caller;compiled 2",
        "java;caller;interpreted 2",
        "java;other caller;compiled 2",
        "java;other caller;compiled again 1",
    ];
    assert_eq!(folded(&mut golden::open(machine.finish())), expected);
}

#[test]
fn a_program_without_names_takes_none_of_the_one_before() {
    let mut machine = machine();
    machine.symbols(names(70, 40, "JS:*fib /a.js:1:14"));
    let mut session = golden::open(machine.finish());
    let unresolved = session.unresolved();
    let memory: Vec<_> = unresolved.iter().map(|module| module.memory.unwrap()).collect();
    assert_eq!(memory.iter().map(|memory| memory.pid).collect::<Vec<_>>(), [70, 71]);
    assert!(memory[0].was_of(70, Ticks(ticks(55))) && !memory[0].was_of(70, Ticks(ticks(45))));
    assert_eq!(
        folded(&mut session),
        [
            "java;[anonymous]+0x70000010 1",
            "other;JS:*fib /a.js:1:14 1",
            "other;[anonymous]+0x70000010 1"
        ]
    );
}
