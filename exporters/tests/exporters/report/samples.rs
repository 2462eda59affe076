//! Functions, stacks, names, slices: what is counted by what it is called.

use super::*;
use crate::scenario::IDLE;
use syscollect_exporters::report::{StackRow, Table, WaitClass, WaitsOfClass};
use syscollect_model::{
    BuildId, CpuId, FrameId, MachineId, Migration, Module, ModuleId, ModuleKind, OperatingSystem,
    Sample, SampleEvent, Scope, StackCut,
};

/// A program, the kernel, and frames of both.
fn code(
    scenario: &mut Scenario,
) -> impl FnMut(&mut Scenario, bool, u64, Option<&'static str>) -> FrameId + use<> {
    let (program, kernel) = (scenario.name("/bin/a"), scenario.name("[kernel.kallsyms]"));
    scenario.tables.modules = vec![
        Module { path: program, build_id: BuildId::from_bytes(&[0xab; 2]), kind: ModuleKind::File },
        Module { path: kernel, build_id: BuildId::default(), kind: ModuleKind::Kernel },
    ];
    |scenario: &mut Scenario, kernel, offset, name| {
        scenario.frame(Some(ModuleId(u32::from(kernel))), offset, name)
    }
}

fn sampled(
    scenario: &mut Scenario,
    at: u64,
    thread: ThreadId,
    stack: Option<StackId>,
    in_kernel: bool,
) {
    scenario.at(at, Event::Sample(Sample { cpu: CpuId::new(0), thread, stack, in_kernel }));
}

#[test]
fn functions_of_python_that_no_row_has_room_for_are_shown_all_the_same() {
    let (mut scenario, a, _) = two_programs();
    let mut frame = code(&mut scenario);
    let path = scenario.name("[python]");
    let python = Module { path, build_id: BuildId::default(), kind: ModuleKind::Python };
    scenario.tables.modules.push(python);
    let eval = frame(&mut scenario, false, 0x10, Some("_PyEval_EvalFrameDefault"));
    let own = scenario.frame(Some(ModuleId(2)), 0x20, Some("load (io.py)"));
    let native = scenario.tables.intern_stack(&[eval]);
    let in_function = scenario.tables.intern_stack(&[own, eval]);
    let hint = "Functions of Python programs are not shown here";
    (0..9).for_each(|at| sampled(&mut scenario, at, a, Some(native), false));
    assert!(!text(&scenario).contains(hint), "it may just have begun");
    sampled(&mut scenario, 9, a, Some(native), false);
    assert!(text(&scenario).contains(hint), "{}", text(&scenario));
    assert!(text(&scenario).contains("CPython 3.8 to 3.13 (3.14 untested)"));
    sampled(&mut scenario, 10, a, Some(in_function), false);
    assert!(!text(&scenario).contains(hint), "{}", text(&scenario));
}

fn text(scenario: &Scenario) -> String {
    let options = ReportOptions { rows: 1, ..ReportOptions::default() };
    report_with(scenario, options, &session(), &[]).text(2000)
}

#[test]
fn a_sample_counts_once_for_each_function_of_its_stack() {
    let (mut scenario, a, b) = two_programs();
    let mut frame = code(&mut scenario);
    let main = frame(&mut scenario, false, 0x10, Some("main"));
    let outer = frame(&mut scenario, false, 0x20, Some("walk"));
    let again = frame(&mut scenario, false, 0x28, Some("walk"));
    let read = frame(&mut scenario, true, 0x30, Some("vfs_read"));
    let walk = scenario.tables.intern_stack(&[again, outer, main]);
    let reads = scenario.tables.intern_stack(&[read, again, outer, main]);
    let alone = scenario.tables.intern_stack(&[main]);
    for (at, stack) in
        [(0, Some(walk)), (1, Some(walk)), (2, Some(reads)), (3, Some(alone)), (4, None)]
    {
        sampled(&mut scenario, at, a, stack, stack == Some(reads));
    }
    sampled(&mut scenario, 5, b, Some(reads), true);
    sampled(&mut scenario, 6, IDLE, Some(reads), true);
    let report = report(&scenario);
    let functions = &report.functions;
    assert_eq!((functions.samples, functions.kernel_samples, functions.idle_samples), (6, 2, 1));
    assert_eq!((functions.without_stack, report.events.samples), (1, 7));
    let (main, walk, read) =
        (("main", false, 1, 5), ("walk", false, 2, 4), ("vfs_read", true, 2, 2));
    for (table, expected) in
        [(&functions.by_self, [walk, read, main]), (&functions.by_total, [main, walk, read])]
    {
        let rows = table.rows.iter();
        let rows = rows.map(|row| (&*row.function, row.kernel, row.self_samples, row.total));
        assert_eq!(rows.collect::<Vec<_>>(), expected, "recursion counts once");
    }
    assert_eq!(
        (
            process(&report, 10).activity.counts.samples,
            process(&report, 20).activity.counts.samples
        ),
        (5, 1)
    );
}

#[test]
fn a_stack_that_was_cut_is_counted_and_no_function() {
    let (mut scenario, a, _) = two_programs();
    let main = code(&mut scenario)(&mut scenario, false, 0x10, Some("main"));
    let cut = scenario.tables.truncation(StackCut::TooDeep);
    let (whole, truncated) =
        (scenario.tables.intern_stack(&[main]), scenario.tables.intern_stack(&[main, cut]));
    for (at, stack) in [(0, whole), (1, truncated), (2, truncated)] {
        sampled(&mut scenario, at, a, Some(stack), false);
    }
    let report = report(&scenario);
    let rows = &report.functions.by_total.rows;
    assert_eq!((report.functions.truncated, rows.len(), rows[0].total), (2, 1, 3));
    let text = report.text(100);
    assert!(text.contains("2 (66.7 %) have a stack that lacks its outer frames"), "{text}");
    assert!(text.contains(" 2 more frames than are recorded: /bin/a"), "{text}");
    assert_eq!(report.unresolved.total, 0);
}

#[test]
fn why_there_is_no_table_of_the_module_that_cuts_is_told() {
    let (mut scenario, a, _) = two_programs();
    let main = code(&mut scenario)(&mut scenario, false, 0x10, Some("main"));
    for (at, cut) in [(0, StackCut::NoUnwindInformation), (1, StackCut::Unreadable)] {
        let cut = scenario.tables.truncation(cut);
        let stack = scenario.tables.intern_stack(&[main, cut]);
        sampled(&mut scenario, at, a, Some(stack), false);
    }
    let text = report(&scenario).text(200);
    let why = "(no unwind table: its .eh_frame has 1 bytes, which is more than is read)";
    assert!(text.contains(&format!(" 1 no unwind information: /bin/a {why}")), "{text}");
    assert!(text.contains(" 1 stack not readable: /bin/a\n"), "{text}");
}

#[test]
fn a_list_of_code_that_was_refused_is_told_where_names_are_missing() {
    let (mut scenario, a, _) = two_programs();
    let generated = scenario.frame(None, 0x7f00_0000, None);
    let stack = scenario.tables.intern_stack(&[generated]);
    sampled(&mut scenario, 0, a, Some(stack), false);
    let text = report(&scenario).text(200);
    assert!(text.contains("process 10: /tmp/perf-10.map is not read"), "{text}");
}

#[test]
fn a_sleep_whose_stack_was_cut_is_counted() {
    let (mut scenario, a, b) = two_programs();
    let main = code(&mut scenario)(&mut scenario, false, 0x10, Some("main"));
    let cut = scenario.tables.truncation(StackCut::NoCode);
    let (whole, truncated) =
        (scenario.tables.intern_stack(&[main]), scenario.tables.intern_stack(&[main, cut]));
    for (at, stack) in [(10, Some(whole)), (30, Some(truncated)), (50, None)] {
        scenario.switches(at, 0, b, SLEEPS, a);
        scenario.switches_off(at + 5, 0, a, OffCpu { state: SLEEPS, stack, ..off() }, b);
    }
    scenario.switches(70, 0, b, SLEEPS, a);
    let report = report(&scenario);
    assert_eq!((report.off_cpu.with_stack, report.off_cpu.truncated), (2, 1));
    let text = report.text(100);
    assert!(text.contains("1 of 2 sleeps (50.0 %) have a stack that lacks its outer"), "{text}");
    assert!(text.contains(" 1 no code above: /bin/a"), "{text}");
}

#[test]
fn code_without_names_is_told_by_module() {
    let (mut scenario, a, _) = two_programs();
    let mut frame = code(&mut scenario);
    let named = frame(&mut scenario, false, 0x10, Some("main"));
    let (one, two) =
        (frame(&mut scenario, false, 0x20, None), frame(&mut scenario, false, 0x30, None));
    let generated = scenario.frame(None, 0x7f00_0000, None);
    let both = scenario.tables.intern_stack(&[one, two, named]);
    let first = scenario.tables.intern_stack(&[generated, one]);
    let good = scenario.tables.intern_stack(&[named]);
    for (at, stack) in [(0, both), (1, both), (2, first), (3, good)] {
        sampled(&mut scenario, at, a, Some(stack), false);
    }
    scenario.switches_off(10, 0, a, OffCpu { state: SLEEPS, stack: Some(first), ..off() }, IDLE);
    scenario.interrupt_wakes(35, 0, IDLE, a);
    let report = report(&scenario);
    let rows: Vec<_> = report
        .unresolved
        .rows
        .iter()
        .map(|row| (row.module.as_str(), row.places, row.samples))
        .collect();
    assert_eq!(rows, [("/bin/a", 2, 3), ("", 1, 1)]);
    let row = &report.unresolved.rows[0];
    assert_eq!((row.build_id.as_str(), row.blocked_ns), ("abab", 25_000));
    let own: Vec<_> = report
        .functions
        .by_self
        .rows
        .iter()
        .map(|row| (row.function.as_str(), row.self_samples))
        .collect();
    assert_eq!(own, [("[unnamed]", 2), ("main", 1), ("[unnamed]", 1)]);
}

#[test]
fn functions_known_by_their_ranges_are_rows_and_still_without_names() {
    let (mut scenario, a, _) = two_programs();
    let mut frame = code(&mut scenario);
    for (at, offset, label) in
        [(0, 0x1010, "a+0x1000"), (1, 0x1020, "a+0x1000"), (2, 0x5010, "a+0x5000")]
    {
        let innermost = frame(&mut scenario, false, offset, Some(label));
        scenario.tables.frames[innermost.index()].range_only = true;
        let stack = scenario.tables.intern_stack(&[innermost]);
        sampled(&mut scenario, at, a, Some(stack), false);
    }
    let report = report(&scenario);
    let rows = report.functions.by_self.rows.iter();
    let own: Vec<_> = rows.map(|row| (&*row.function, row.range_only, row.self_samples)).collect();
    assert_eq!(own, [("a+0x1000", true, 2), ("a+0x5000", true, 1)]);
    let row = &report.unresolved.rows[0];
    assert_eq!((row.module.as_str(), row.places, row.samples), ("/bin/a", 3, 3));
    let text = report.text(100);
    assert!(text.contains("a+0x1000\n") && text.contains("was stripped"), "{text}");
}

#[test]
fn blocked_time_is_told_by_reason_and_by_stack() {
    let (mut scenario, a, b) = two_programs();
    let mut frame = code(&mut scenario);
    let (read, main) = (
        frame(&mut scenario, true, 0x30, Some("vfs_read")),
        frame(&mut scenario, false, 0x10, Some("main")),
    );
    let stack = Some(scenario.tables.intern_stack(&[read, main]));
    let place = Some(scenario.name("vfs_read"));
    let disk = OffCpu {
        state: SleepState::Uninterruptible,
        io_wait: true,
        blocked_in: place,
        stack,
        ..off()
    };
    scenario.switches_off(0, 0, a, disk, IDLE);
    scenario.interrupt_wakes(30, 0, IDLE, a);
    scenario.switches(30, 0, IDLE, SleepState::Runnable, a);
    scenario.switches_off(40, 0, a, disk, b);
    scenario.wakes(50, 0, b, a);
    scenario.switches_off(50, 0, b, OffCpu { state: SLEEPS, ..off() }, a);
    scenario.switches_off(65, 0, a, preempted(), IDLE);
    let report = report(&scenario);
    let off_cpu = &report.off_cpu;
    assert_eq!((off_cpu.blocked_ns, off_cpu.without_stack_ns), (55_000, 15_000));
    let rows: Vec<_> = off_cpu.reasons.rows.iter().collect();
    assert_eq!(
        (rows[0].blocked_in.as_deref(), rows[0].state.as_str(), rows[0].io_wait),
        (Some("vfs_read"), "uninterruptible", true)
    );
    assert_eq!((rows[0].count, rows[0].blocked_ns, rows[0].max_ns), (2, 40_000, 30_000));
    assert_eq!(
        (rows[1].blocked_in.as_deref(), rows[1].state.as_str(), rows[1].blocked_ns),
        (None, "interruptible", 15_000)
    );
    let stacks: Vec<_> = off_cpu
        .stacks
        .rows
        .iter()
        .map(|row| (row.pid, row.count, row.blocked_ns, row.stack.frames.join(" ")))
        .collect();
    assert_eq!(stacks, [(10, 2, 40_000, "vfs_read main".to_owned())]);
}

#[test]
fn what_held_threads_up_is_told_before_what_had_nothing_to_do() {
    let (mut scenario, a, b) = two_programs();
    let mut frame = code(&mut scenario);
    let [epoll, lock, condition] = [
        ("ep_poll", "epoll_wait"),
        ("futex_do_wait", "___pthread_mutex_lock"),
        ("futex_do_wait", "___pthread_cond_wait"),
    ]
    .map(|(kernel, user)| {
        let inner = frame(&mut scenario, true, 0x30, Some(kernel));
        let outer = frame(&mut scenario, false, 0x10, Some(user));
        let stack = Some(scenario.tables.intern_stack(&[inner, outer]));
        let blocked_in = Some(scenario.name(kernel));
        OffCpu { state: SLEEPS, blocked_in, stack, ..off() }
    });
    // For 10 us a waits for a lock; for 30 us b waits for a condition, and for 60 us for events.
    scenario.switches_off(0, 0, a, lock, IDLE);
    scenario.switches_off(0, 1, b, condition, IDLE);
    scenario.interrupt_wakes(10, 0, IDLE, a);
    scenario.interrupt_wakes(30, 1, IDLE, b);
    scenario.switches(30, 1, IDLE, SleepState::Runnable, b);
    scenario.switches_off(40, 1, b, epoll, IDLE);
    scenario.interrupt_wakes(100, 1, IDLE, b);
    let report = report(&scenario);
    let off_cpu = &report.off_cpu;
    assert_eq!(of_class(&off_cpu.blocked), (10_000, 1, "lock".to_owned()));
    assert_eq!(of_class(&off_cpu.undecided), (30_000, 1, "condition variable".to_owned()));
    assert_eq!(of_class(&off_cpu.idle), (60_000, 1, "events (epoll, poll, select)".to_owned()));
    // The row of the function has both of its kinds, and says how much was not blocked for sure.
    let futex = &off_cpu.reasons.rows[1];
    assert_eq!((futex.blocked_ns, futex.undecided_ns, futex.idle_ns), (40_000, 30_000, 0));
    assert_eq!(futex.waits_for, "condition variable");
    let stacks: Vec<_> =
        off_cpu.stacks.rows.iter().map(|row| (&*row.waits_for, row.class)).collect();
    assert_eq!(
        stacks,
        [
            ("events (epoll, poll, select)", WaitClass::Idle),
            ("condition variable", WaitClass::Undecided),
            ("lock", WaitClass::Blocked)
        ]
    );
    let text = report.text(100);
    let order = [
        "Off the CPU: 10.0 us blocked, 30.0 us undecided, 60.0 us idle (100 us in all)\n",
        "lock: futex_do_wait (interruptible)\n",
        "condition variable: futex_do_wait (interruptible)\n",
        "Idle: 1 thread, 60.0 us\n  events (epoll, poll, select) 60.0 us of 1\n",
        "10.0 us  once: a (10), lock\n",
        "30.0 us  once: b (20), condition variable\n",
    ];
    let offsets: Vec<_> = order.iter().map(|part| text.find(part)).collect();
    assert!(offsets.iter().all(Option::is_some) && offsets.is_sorted(), "{offsets:?} of\n{text}");
    assert!(!text.contains("epoll_wait"), "the stacks of who idles are not shown");
}

fn of_class(class: &WaitsOfClass) -> (u64, usize, String) {
    let kinds = class.kinds.iter().map(|row| row.waits_for.clone()).collect::<Vec<_>>();
    (class.blocked_ns, class.threads, kinds.join(", "))
}

#[test]
fn processes_of_one_name_that_wait_in_one_stack_are_a_row() {
    let mut scenario = Scenario::new();
    let workers = [10, 20, 30].map(|pid| worker(&mut scenario, pid));
    let mut frame = code(&mut scenario);
    let [both, alone] = [(0x30, "do_fsync"), (0x40, "vfs_read")].map(|(offset, name)| {
        let frames = [frame(&mut scenario, true, offset, Some(name))];
        Some(scenario.tables.intern_stack(&frames))
    });
    // The first two wait for a disk, 10 us each; the third for another, 5 us.
    for (cpu, (thread, stack)) in (0..).zip(workers.into_iter().zip([both, both, alone])) {
        let state = SleepState::Uninterruptible;
        scenario.switches_off(0, cpu, thread, OffCpu { state, stack, ..off() }, IDLE);
    }
    for (cpu, (thread, at)) in (0..).zip(workers.into_iter().zip([10, 10, 5])) {
        scenario.interrupt_wakes(at, cpu, IDLE, thread);
    }
    let report = report(&scenario);
    let blocked = &report.off_cpu.blocked;
    assert_eq!(
        rows(&blocked.stacks),
        [(10, None, 1, 10_000), (20, None, 1, 10_000), (30, None, 1, 5_000)]
    );
    assert_eq!(rows(&blocked.program_stacks), [(10, Some(2), 2, 20_000), (30, Some(1), 1, 5_000)]);
    let text = report.text(100);
    assert!(text.contains("mean 10.0 us, max 10.0 us: worker (2 processes), "), "{text}");
    assert!(text.contains("once: worker (30), "), "{text}");
}

fn worker(scenario: &mut Scenario, pid: u32) -> ThreadId {
    scenario.process(pid, 1, "worker", &[]).1
}

fn rows(table: &Table<StackRow>) -> Vec<(u32, Option<usize>, u64, u64)> {
    table.rows.iter().map(|row| (row.pid, row.processes, row.count, row.blocked_ns)).collect()
}

#[test]
fn where_samples_of_a_timer_come_late_is_said() {
    assert!(is_told(SampleEvent::CpuClock, "finish_task_switch.isra.0"));
    assert!(!is_told(SampleEvent::Cycles, "finish_task_switch.isra.0"));
    assert!(!is_told(SampleEvent::CpuClock, "vfs_read"));
}

fn is_told(event: SampleEvent, name: &'static str) -> bool {
    let (mut scenario, a, _) = two_programs();
    let mut frame = code(&mut scenario);
    let frames = [frame(&mut scenario, true, 0x30, Some(name))];
    let stack = Some(scenario.tables.intern_stack(&frames));
    let sample = Sample { cpu: CpuId::new(0), thread: a, stack, in_kernel: true };
    scenario.at(0, Event::Sample(sample));
    let session = SessionInfo { sample_event: event, ..session() };
    let report = report_with(&scenario, ReportOptions::default(), &session, &[]);
    report.text(100).contains("Samples follow a timer")
}

#[test]
fn the_time_of_a_recursion_is_in_the_total_once() {
    let (mut scenario, a, _) = two_programs();
    let track = scenario.zones(a);
    let walk = scenario.name("walk");
    scenario.switches(0, 0, IDLE, SleepState::Runnable, a);
    (0..3).for_each(|n| scenario.at(n * 10, Event::SliceBegin(track, walk.into())));
    (8..11).for_each(|n| scenario.at(n * 10, Event::SliceEnd(track)));
    let report = report(&scenario);
    let row = &report.slices.rows[0];
    // Of 100, 80 and 60 us.
    let all = (row.durations.count, row.durations.mean_ns, row.durations.max_ns);
    assert_eq!(all, (3, 80_000, 100_000));
    assert_eq!((row.durations.total_ns, row.thread.on_cpu_ns), (100_000, 100_000));
    let text = report.text(400);
    let says = "  (walk ran in another run of the same: total, on CPU and off CPU have such time \
                once, mean";
    assert_eq!(text.matches(says).count(), 1, "{text}");
}

#[test]
fn slices_are_measured_from_begin_to_end() {
    let (mut scenario, a, _) = two_programs();
    let (first, second) = (
        scenario.track(Scope::Thread(a), "zones", None),
        scenario.track(Scope::Machine(MachineId::FIRST), "frames", None),
    );
    let (draw, load, mark) = (scenario.name("draw"), scenario.name("load"), scenario.name("mark"));
    scenario.at(0, Event::SliceEnd(first));
    for begin in [0, 100, 200] {
        scenario.at(begin, Event::SliceBegin(first, draw.into()));
        scenario.at(begin + 10, Event::SliceBegin(first, load.into()));
        scenario.at(begin + 15, Event::SliceEnd(first));
        scenario.at(begin + 20 + begin / 10, Event::SliceEnd(first));
    }
    scenario.at(300, Event::SliceBegin(second, load.into()));
    scenario.at(310, Event::Instant(second, mark.into()));
    scenario.at(310, Event::Instant(first, mark.into()));
    let report = report(&scenario);
    let rows: Vec<_> = report
        .slices
        .rows
        .iter()
        .map(|row| (row.name.as_str(), row.durations, row.unfinished))
        .collect();
    assert_eq!((rows[0].0, rows[0].1.count, rows[0].1.total_ns, rows[0].2), ("draw", 3, 90_000, 0));
    assert_eq!((rows[0].1.min_ns, rows[0].1.mean_ns, rows[0].1.max_ns), (20_000, 30_000, 40_000));
    assert!(rows[0].1.p50_ns.abs_diff(30_000) <= 300, "{:?}", rows[0].1);
    assert_eq!((rows[1].0, rows[1].1.total_ns, rows[1].2), ("load", 15_000, 0));
    assert_eq!(
        (rows[2].0, rows[2].1.count, rows[2].2),
        ("load", 0, 1),
        "the machine's, not the thread's"
    );
    assert_eq!((report.instants.rows[0].name.as_str(), report.instants.rows[0].count), ("mark", 2));
    assert_eq!((report.events.slices, report.events.instants), (7, 2));
}

#[test]
fn wakers_and_moves_are_counted_by_pair() {
    let (mut scenario, a, b) = two_programs();
    for (at, cpu) in [(0, 0), (1, 0), (2, 0)] {
        scenario.wakes(at, cpu, a, b);
    }
    scenario.wakes(3, 1, b, a);
    scenario.at(4, Event::Wakeup(wakeup(2, a)));
    for (at, from, to) in [(5, 0, 1), (6, 1, 0), (7, 0, 1)] {
        let [from_cpu, to_cpu] = [from, to].map(CpuId::new);
        scenario.at(at, Event::Migration(Migration { thread: a, from_cpu, to_cpu }));
    }
    let report = report(&scenario);
    let pairs = report.wakeups.pairs.rows.iter();
    let pairs: Vec<_> =
        pairs.map(|row| (row.waker_kind, row.waker_tid, row.wakee_tid, row.count)).collect();
    assert_eq!(
        pairs,
        [
            (WakerKind::Thread, 10, 20, 3),
            (WakerKind::Thread, 20, 10, 1),
            (WakerKind::Unknown, 0, 10, 1)
        ]
    );
    let moves: Vec<_> =
        report.migrations.rows.iter().map(|row| (row.from_cpu, row.to_cpu, row.count)).collect();
    assert_eq!(moves, [(0, 1, 2), (1, 0, 1)]);
    assert_eq!(thread(&report, 10).activity.counts.migrations, 3);
}

#[test]
fn samples_without_switches_tell_nothing_of_the_time_between_them() {
    let (mut scenario, a, b) = two_programs();
    let stack = scenario.tables.intern_stack(&[]);
    sampled(&mut scenario, 0, a, Some(stack), false);
    sampled(&mut scenario, 40, b, Some(stack), false);
    sampled(&mut scenario, 100, b, Some(stack), false);
    let report = report(&scenario);
    assert_eq!(thread(&report, 10).activity.times, times(0, 0, 0, 100));
    assert_eq!(
        (report.cpus[0].busy_ns, report.cpus[0].idle_ns, report.cpus[0].unknown_ns),
        (0, 0, 100_000)
    );
    let tids: Vec<_> = report.threads.rows.iter().map(|row| row.tid).collect();
    assert_eq!(tids, [20, 10], "the most samples first");
    assert!(report.text(100).contains("Threads by samples"));
}

#[test]
fn a_windows_machine_and_its_paths_read_as_such() {
    let (mut scenario, a, _) = two_programs();
    let path = scenario.name(r"C:\Windows\System32\ntdll.dll");
    scenario.tables.modules =
        vec![Module { path, build_id: BuildId::default(), kind: ModuleKind::File }];
    let frame = scenario.frame(Some(ModuleId(0)), 0x10, None);
    let stack = scenario.tables.intern_stack(&[frame]);
    sampled(&mut scenario, 0, a, Some(stack), false);
    let (hostname, release) = (String::new(), "10.0.19041".to_owned());
    let session = SessionInfo {
        hostname,
        os: OperatingSystem::Windows,
        kernel_release: release,
        ..SessionInfo::default()
    };
    let text = report_with(&scenario, ReportOptions::default(), &session, &[]).text(100);
    assert!(text.contains("\nRecorded   Windows 10.0.19041, 0 CPUs"), "{text}");
    assert!(
        text.contains("[unnamed] (ntdll.dll)") && text.contains(r"  C:\Windows\System32\ntdll.dll"),
        "{text}"
    );
}
