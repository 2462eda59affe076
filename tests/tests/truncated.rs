//! Walks that met memory which is no code: what they say from there on is left out, and the stack
//! says so.
#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test, as its body does")]

use flate2::read::{GzDecoder, ZlibDecoder};
use std::io::Read;
use syscollect_exporters::{
    FirefoxExporter, FirefoxOptions, FlamegraphExporter, FoldedExporter, PerfettoExporter,
    PprofExporter, StackOptions, TextExporter, TracyExporter,
};
use syscollect_merge::Session;
use syscollect_model::{Exporter, SessionInfo, Symbol, SymbolFrame, SymbolTable};
use syscollect_playback::Recording;
use syscollect_records::{RecordKind, TaskRecord, task_state};
use syscollect_store::Definition;
use syscollect_tests::{FakeMachine, Stacks, golden, perf, tracy_reader};

/// The program's code: `leaf`, `outer` and `main` begin here.
const LEAF: u64 = 0x40_0100;
const OUTER: u64 = 0x40_0200;
const MAIN: u64 = 0x40_0300;
/// What a walk takes for a return address, and another.
const DATA: [u64; 2] = [0x1008_f51d, 0x3ff0_0000_0000_0000];

/// A machine on which process 70 is known; its names, too.
fn machine() -> FakeMachine {
    let mut machine = named();
    machine.process(70, 1, "prog", &[]);
    machine.mapping(70, 0x40_0000, 0x40_1000, 0, "/bin/prog");
    machine
}

fn named() -> FakeMachine {
    let mut machine = FakeMachine::new(1);
    let names =
        [(0x100, "leaf"), (0x1ff, "outer"), (0x2ff, "main"), (0x4ff, "__libc_start_call_main")];
    let symbols = names.map(|(offset, name)| symbol(offset, name)).into();
    machine.symbols(SymbolTable { path: "/bin/prog".into(), symbols, ..SymbolTable::default() });
    machine
}

fn symbol(offset: u64, function: &str) -> Symbol {
    Symbol {
        offset,
        start: offset & !0xff,
        size: 0x100,
        frames: vec![SymbolFrame { function: function.into(), ..SymbolFrame::default() }],
        ..Symbol::default()
    }
}

/// A sample of the process with this stack.
fn sample(machine: &mut FakeMachine, us: u64, pid: u32, addresses: &[u64]) {
    let user = machine.sample_stack(0, us, pid, addresses);
    machine.sample(0, us, pid, Stacks { user, kernel: 0 }, 0);
}

fn folded(capture: Vec<u8>) -> Vec<String> {
    folded_of(&mut golden::open(capture))
}

fn folded_of(session: &mut Session) -> Vec<String> {
    let mut exporter = FoldedExporter::new(Vec::new(), StackOptions::default());
    session.play(&mut exporter).unwrap();
    let text = String::from_utf8(exporter.finish().unwrap()).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn stacks_end_where_no_code_is_and_those_that_differ_in_data_alone_are_one() {
    let mut machine = machine();
    for (us, data) in (10..).zip(0..50) {
        sample(&mut machine, us, 70, &[LEAF, OUTER, DATA[0] + 16 * data, MAIN, DATA[1]]);
    }
    sample(&mut machine, 90, 70, &[LEAF, OUTER, MAIN]);
    assert_eq!(
        folded(machine.finish()),
        ["prog;[truncated: no code above];outer;leaf 50", "prog;main;outer;leaf 1"]
    );
}

#[test]
fn a_walk_that_was_too_deep_says_so() {
    let mut machine = machine();
    let user = machine.deep_sample_stack(0, 10, 70, &[LEAF, OUTER]);
    machine.sample(0, 10, 70, Stacks { user, kernel: 0 }, 0);
    assert_eq!(
        folded(machine.finish()),
        ["prog;[truncated: more frames than are recorded];outer;leaf 1"]
    );
}

/// The exporter after all of a recording with one sample, whose stack is cut.
fn exported<E: Exporter>(mut exporter: E) -> E
where
    E::Error: std::fmt::Debug,
{
    let mut machine = machine();
    let user = machine.deep_sample_stack(0, 10, 70, &[LEAF, OUTER]);
    machine.sample(0, 10, 70, Stacks { user, kernel: 0 }, 0);
    golden::open(machine.finish()).play(&mut exporter).unwrap();
    exporter
}

#[test]
fn in_every_format_the_outermost_frame_of_a_cut_stack_says_so() {
    let options = StackOptions::default;
    let firefox = FirefoxExporter::new(Vec::new(), FirefoxOptions::default());
    let mut pprof = Vec::new();
    let gzip = exported(PprofExporter::new(Vec::new(), None)).finish().unwrap();
    GzDecoder::new(&gzip[..]).read_to_end(&mut pprof).unwrap();
    let trace = exported(PerfettoExporter::new(Vec::new())).finish().unwrap();
    // So little is one block, which is compressed: it begins with zlib's head.
    let block = trace.windows(2).position(|head| head == [0x78, 0x01]).unwrap();
    let mut perfetto = Vec::new();
    ZlibDecoder::new(&trace[block..]).read_to_end(&mut perfetto).unwrap();
    let files = [
        ("folded", exported(FoldedExporter::new(Vec::new(), options())).finish().unwrap()),
        ("svg", exported(FlamegraphExporter::new(Vec::new(), options())).finish().unwrap()),
        ("pprof", pprof),
        ("Perfetto", perfetto),
        ("Firefox", exported(firefox).finish().unwrap()),
        ("text", exported(TextExporter::new(Vec::new())).finish().unwrap()),
    ];
    let mark = b"[truncated: more frames than are recorded]";
    for (format, file) in files {
        assert!(file.windows(mark.len()).any(|part| part == mark), "{format}");
    }
    let tracy = exported(TracyExporter::new(Vec::new())).finish().unwrap();
    let file = tracy_reader::read(&tracy).unwrap();
    let mut stacks = (1..=file.callstacks.len() as u32).map(|index| file.stack_names(index));
    assert!(
        stacks
            .any(|names| names == ["leaf", "outer", "[truncated: more frames than are recorded]"]),
        "Tracy"
    );
}

#[test]
fn beyond_the_function_that_begins_every_program_nothing_is_missing() {
    let mut machine = machine();
    sample(&mut machine, 10, 70, &[LEAF, MAIN, 0x40_0500, DATA[0]]);
    assert_eq!(folded(machine.finish()), ["prog;__libc_start_call_main;main;leaf 1"]);
}

#[test]
fn code_that_a_program_makes_while_it_runs_is_code() {
    let mut machine = machine();
    machine.mapping(70, 0x7000_0000, 0x7000_1000, 0, "//anon");
    machine.mapping_record(0, 20, &perf::mmap2(70, 0x7100_0000, "//anon", 20));
    sample(&mut machine, 10, 70, &[LEAF, 0x7000_0123, 0x7100_0123, MAIN]);
    sample(&mut machine, 30, 70, &[LEAF, 0x7000_0123, 0x7100_0123, MAIN]);
    let lines = folded(machine.finish());
    // Before it was mapped, the second was data.
    let early = "prog;[truncated: no code above];[anonymous]+0x70000122;leaf 1";
    let late = "prog;main;[anonymous]+0x71000122;[anonymous]+0x70000122;leaf 1";
    assert_eq!(lines, [early, late]);
}

#[test]
fn programs_begun_and_forked_while_recording_are_known_from_their_beginning_on() {
    let mut machine = machine();
    machine.fork(0, 10, 70, (71, 71), "prog");
    sample(&mut machine, 15, 71, &[LEAF, MAIN, DATA[0]]);
    machine.mapping_record(0, 20, &perf::exec(71, "other", 20));
    machine.mapping_record(0, 21, &perf::mmap2(71, 0x50_0000, "/bin/other", 21));
    let record = TaskRecord { tid: 71, tgid: 71, parent_tid: 71, ..TaskRecord::default() };
    machine.task(0, 22, RecordKind::Exec, "other", record);
    sample(&mut machine, 30, 71, &[0x50_0010, MAIN]);
    let lines = folded(machine.finish());
    assert_eq!(
        lines,
        [
            "other;[truncated: no code above];/bin/other+0x10 1",
            "other;[truncated: no code above];main;leaf 1"
        ]
    );
}

/// What becomes of a stack that leads to data.
fn ends(machine: impl FnOnce(&mut FakeMachine)) -> Vec<String> {
    let mut all = self::machine();
    machine(&mut all);
    sample(&mut all, 50, 70, &[LEAF, MAIN, DATA[0]]);
    folded(all.finish())
}

#[test]
fn where_mappings_are_missing_an_address_may_be_code_and_stays() {
    let (whole, cut) =
        (["prog;0x1008f51c;main;leaf 1"], ["prog;[truncated: no code above];main;leaf 1"]);
    assert_eq!(ends(|_| {}), cut);
    let lost = ends(|machine| machine.mapping_record(0, 40, &perf::lost(1, 40)));
    assert_eq!(lost, whole, "lost");
    let unrecorded = SessionInfo { mappings_unrecorded: true, ..SessionInfo::default() };
    let unrecorded = Definition::Session(Box::new(unrecorded));
    assert_eq!(ends(|machine| machine.define(&unrecorded)), whole, "never recorded");
}

#[test]
fn of_a_recorder_that_was_killed_the_last_mappings_may_be_missing() {
    let mut machine = machine();
    sample(&mut machine, 50, 70, &[LEAF, MAIN, DATA[0]]);
    let mut session = golden::open_foreseen("killed_recorder", machine.kill());
    assert_eq!(folded_of(&mut session), ["prog;0x1008f51c;main;leaf 1"]);
}

#[test]
fn of_a_process_that_was_not_read_nothing_is_cut() {
    let mut machine = named();
    machine.process(70, 1, "prog", &[]);
    sample(&mut machine, 10, 70, &[LEAF, DATA[0]]);
    machine.mapping_record(0, 20, &perf::mmap2(70, 0x50_0000, "/lib/later", 20));
    sample(&mut machine, 30, 70, &[0x50_0010, DATA[0]]);
    assert_eq!(
        folded(machine.finish()),
        ["prog;0x1008f51c;/lib/later+0x10 1", "prog;0x1008f51c;0x400100 1"]
    );
}

#[test]
fn where_the_cpu_stands_is_code_whatever_is_known_of_it() {
    let mut machine = machine();
    sample(&mut machine, 10, 70, &[0x9999_0000, MAIN, DATA[0]]);
    assert_eq!(folded(machine.finish()), ["prog;0x1008f51c;main;0x99990000 1"]);
}

#[test]
fn stacks_of_the_kernel_are_never_cut_there() {
    let mut machine = machine();
    let kernel = machine.sample_stack(0, 10, 0, &[0xffff_ffff_8100_0010, 0xffff_ffff_c100_0010]);
    let user = machine.sample_stack(0, 10, 70, &[LEAF, DATA[0]]);
    machine.sample(0, 10, 70, Stacks { user, kernel }, 0);
    machine.switch(0, 20, task_state::RUNNABLE, 70);
    let expected = "prog;[truncated: no code above];leaf;[kernel.kallsyms]+0xffffffffc100000f_[k];\
                    [kernel.kallsyms]+0xffffffff81000010_[k] 1";
    assert_eq!(folded(machine.finish()), [expected]);
}
