//! Samples and what they point to.

use crate::scenario::{Scenario, off, sleeps};
use syscollect_model::{
    CpuId, Event, Frame, FrameId, ModuleId, ModuleKind, OffCpu, Sample, SleepState, StringId,
    Tables,
};
use syscollect_tests::tracy_reader::{FrameLine, Sample as Read, Symbol, TracyFile};

fn lines(trace: &TracyFile, sample: &Read) -> Vec<Vec<(String, String, u32)>> {
    let ids = &trace.callstacks[sample.callstack as usize - 1];
    ids.iter().map(|id| trace.frames[id].lines.iter().map(line).collect()).collect()
}

fn line(line: &FrameLine) -> (String, String, u32) {
    (line.name.clone(), line.file.clone(), line.line)
}

fn symbol<'a>(trace: &'a TracyFile, name: &str) -> (&'a u64, &'a Symbol) {
    trace.symbols.iter().find(|(_, symbol)| symbol.name == name).unwrap()
}

/// When samples were taken, and their stacks.
fn stacks(trace: &TracyFile, samples: &[Read]) -> Vec<(i64, String)> {
    samples.iter().map(|s| (s.time, trace.stack_names(s.callstack).join(" < "))).collect()
}

fn add(
    scenario: &mut Scenario,
    place: (ModuleId, u64, u64),
    names: (&str, &str, u32),
    inlined: bool,
) -> FrameId {
    let (module, offset, function_start) = place;
    let [function, file]: [Option<StringId>; 2] =
        [names.0, names.1].map(|t| Some(scenario.tables.strings.intern(t)));
    scenario.tables.frames.push(Frame {
        module: Some(module),
        offset,
        function,
        function_start,
        function_size: 0x100,
        range_only: false,
        file,
        line: names.2,
        inlined,
    });
    FrameId(scenario.tables.frames.len() as u32 - 1)
}

#[test]
fn inlined_functions_are_one_frame_and_symbols_within_their_function() {
    let mut scenario = Scenario::new(1);
    let thread = scenario.task(5, "app");
    let app = scenario.module("/home/me/app", ModuleKind::File);
    let leaf = add(&mut scenario, (app, 0x1020, 0x1000), ("leaf", "leaf.h", 7), true);
    let middle = add(&mut scenario, (app, 0x1020, 0x1000), ("middle", "mid.h", 9), true);
    let outer = add(&mut scenario, (app, 0x1020, 0x1000), ("outer", "app.c", 30), false);
    let other = add(&mut scenario, (app, 0x1040, 0x1000), ("outer", "app.c", 20), false);
    let stacks = [&[leaf, middle, outer, other][..], &[other]]
        .map(|frames| scenario.tables.intern_stack(frames));
    scenario.sample(1, thread, Some(stacks[0]));
    scenario.sample(2, thread, Some(stacks[1]));
    let trace = scenario.read();

    let samples = &trace.thread("app / app").unwrap().samples;
    let inlined =
        vec![named("leaf", "leaf.h", 7), named("middle", "mid.h", 9), named("outer", "app.c", 30)];
    assert_eq!(lines(&trace, &samples[0]), [inlined, vec![named("outer", "app.c", 20)]]);
    assert_eq!(lines(&trace, &samples[1]), [[named("outer", "app.c", 20)]]);

    let (start, function) = symbol(&trace, "outer");
    assert_eq!(
        (&*function.file, function.line, function.size, &*function.image),
        ("app.c", 20, 0x100, "/home/me/app")
    );
    for (name, call) in [("leaf", ("mid.h", 9)), ("middle", ("app.c", 30))] {
        let (address, symbol) = symbol(&trace, name);
        assert_eq!(symbol.call, Some((call.0.to_owned(), call.1)), "{name}");
        assert!(
            (start + 1..start + 0x100).contains(address),
            "the viewer looks for it in its function"
        );
    }
}

fn named(name: &str, file: &str, line: u32) -> (String, String, u32) {
    (name.to_owned(), file.to_owned(), line)
}

#[test]
fn one_offset_of_two_modules_is_two_frames() {
    let mut scenario = Scenario::new(1);
    let thread = scenario.task(5, "app");
    let modules =
        ["/usr/lib/a.so", "/usr/lib/b.so"].map(|path| scenario.module(path, ModuleKind::File));
    let far = scenario.module("/huge", ModuleKind::File);
    let frames = [
        scenario.frame(Some(modules[0]), 0x1234, "of_a"),
        scenario.frame(Some(modules[1]), 0x1234, "of_b"),
        scenario.frame(Some(modules[1]), 0x1234, "of_b_by_another_name"),
        scenario.frame(Some(far), u64::MAX, "far"),
        scenario.frame(Some(far), u64::MAX - 1, "farther"),
        scenario.frame(None, u64::MAX, "nowhere"),
    ];
    let stack = scenario.tables.intern_stack(&frames);
    scenario.sample(1, thread, Some(stack));
    let trace = scenario.read();
    let sample = trace.threads[0].samples[0];
    let names = ["of_a", "of_b", "of_b_by_another_name", "far", "farther", "nowhere"];
    assert_eq!(trace.stack_names(sample.callstack), names);
    let ids = &trace.callstacks[sample.callstack as usize - 1];
    let images = [ids[0], ids[1], ids[5]].map(|id| &*trace.frames[&id].image);
    assert_eq!(images, ["/usr/lib/a.so", "/usr/lib/b.so", "[unknown]"]);
}

#[test]
fn kernel_code_keeps_its_addresses_and_code_without_names_its_place() {
    let mut scenario = Scenario::new(1);
    let thread = scenario.task(5, "app");
    let kernel = scenario.module("[kernel.kallsyms]", ModuleKind::Kernel);
    let library = scenario.module("/usr/lib/libc.so", ModuleKind::File);
    let frames = [
        scenario.frame(Some(kernel), 0xffff_ffff_8100_0010, "vfs_read"),
        scenario.frame(Some(library), 0x77, ""),
        scenario.frame(Some(library), 0x99, ""),
        scenario.frame(None, 0x7f00_dead_beef, ""),
    ];
    let stack = scenario.tables.intern_stack(&frames);
    scenario.at(
        1,
        Event::Sample(Sample { cpu: CpuId::new(0), thread, stack: Some(stack), in_kernel: true }),
    );
    let trace = scenario.read();
    let thread = &trace.threads[0];
    assert_eq!(thread.kernel_samples, 1);
    let names = ["vfs_read", "/usr/lib/libc.so+0x77", "/usr/lib/libc.so+0x99", "0x7f00deadbeef"];
    assert_eq!(trace.stack_names(thread.samples[0].callstack), names);
    let ids = &trace.callstacks[thread.samples[0].callstack as usize - 1];
    assert_eq!(ids[0], 0x3fff_ffff_8100_0010, "the top two bits are the two below");
    assert_eq!(
        (&*trace.frames[&ids[0]].image, &*trace.frames[&ids[0]].lines[0].file),
        ("<kernel>", "<kernel>")
    );
    assert_eq!(trace.symbols[&0xffff_ffff_8100_0000].name, "vfs_read");
    let [one, two] = [ids[1], ids[2]].map(|id| trace.frames[&id].lines[0].symbol);
    assert_eq!(one, two, "all of a module's unnamed code adds up");
    assert_eq!(trace.symbols[&one].name, "[unknown in libc.so]");
}

#[test]
fn a_sample_without_a_stack_is_there_and_says_so() {
    let mut scenario = Scenario::new(1);
    let thread = scenario.task(5, "app");
    let empty = scenario.tables.intern_stack(&[]);
    scenario.sample(1, thread, None);
    scenario.sample(2, thread, Some(empty));
    let trace = scenario.read();
    let stacks: Vec<_> =
        trace.threads[0].samples.iter().map(|s| trace.stack_names(s.callstack)).collect();
    assert_eq!(stacks, [["[no stack]"], ["[no stack]"]]);
}

#[test]
fn samples_of_idle_cpus_are_those_of_their_cpu() {
    let mut scenario = Scenario::new(2);
    for cpu in [0, 1, 1] {
        let sample = Sample {
            cpu: CpuId::new(cpu),
            thread: Tables::IDLE_THREAD,
            stack: None,
            in_kernel: true,
        };
        scenario.at(1, Event::Sample(sample));
    }
    let trace = scenario.read();
    assert_eq!(trace.thread("idle / CPU 0").unwrap().samples.len(), 1);
    assert_eq!(trace.thread("idle / CPU 1").unwrap().samples.len(), 2);
}

#[test]
fn the_stack_at_a_switch_is_a_sample_of_its_own_kind() {
    let mut scenario = Scenario::new(1);
    let thread = scenario.task(5, "app");
    let (busy, waits) =
        (scenario.stack(&["busy", "main"]), scenario.stack(&["futex_wait", "main"]));
    let leaves = OffCpu { stack: Some(waits), ..sleeps() };
    scenario.switch(1, 0, Some(Tables::IDLE_THREAD), sleeps(), thread);
    scenario.sample(40, thread, Some(busy));
    scenario.sample(50, thread, Some(busy));
    scenario.switch(50, 0, Some(thread), leaves, Tables::IDLE_THREAD);
    scenario.switch(60, 0, Some(Tables::IDLE_THREAD), sleeps(), thread);
    let preempted = OffCpu { preempted: true, stack: Some(waits), ..off(SleepState::Runnable) };
    scenario.switch(70, 0, Some(thread), preempted, Tables::IDLE_THREAD);
    let trace = scenario.read();

    let own = trace.thread("app / app").unwrap();
    let wait = (50, "futex_wait < main".to_owned());
    assert_eq!(
        stacks(&trace, &own.switch_samples),
        std::slice::from_ref(&wait),
        "a preempted thread does not wait"
    );
    let busy = "busy < main".to_owned();
    // The viewer would take a sample of the switch's nanosecond for one of the switch.
    assert_eq!(stacks(&trace, &own.samples), [(40, busy.clone()), (49, busy), wait]);
    assert_eq!(trace.cpu_samples(), 2);
}
