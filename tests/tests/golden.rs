//! Scenarios of a fake machine, told again as text.

use syscollect_exporters::TextExporter;
use syscollect_merge::Session;
use syscollect_model::{
    Lane, LaneKind, LossCause, Symbol, SymbolFrame, SymbolTable, Ticks, Time, Unit,
};
use syscollect_playback::{Played, Recording, UnresolvedModule};
use syscollect_records::{RecordKind, SchedRecord, TaskRecord, sched_flags, stack_id, task_state};
use syscollect_store::{CounterDefinition, Definition, KnownProcess, KnownThread};
use syscollect_tests::{FIRST_BOOTTIME, FakeMachine, Stacks, golden, perf, ticks};

const SCHED0: Lane = Lane::new(LaneKind::Sched, 0);

fn frame(function: &str, file: &str, line: u32) -> SymbolFrame {
    SymbolFrame { function: function.into(), file: file.into(), line }
}

fn symbol(offset: u64, start: u64, frames: Vec<SymbolFrame>) -> Symbol {
    Symbol { offset, start, size: 0x100, frames, ..Symbol::default() }
}

fn kernel_symbols(names: &[(u64, &str)]) -> SymbolTable {
    let symbols = names
        .iter()
        .map(|(address, name)| symbol(*address, *address, vec![frame(name, "", 0)]))
        .collect();
    SymbolTable { path: "[kernel.kallsyms]".into(), symbols, ..SymbolTable::default() }
}

#[test]
fn two_processes_play_ping_pong_and_wake_each_other() {
    let mut machine = FakeMachine::new(2);
    machine.process(100, 1, "ping", &[]);
    machine.process(200, 1, "pong", &[]);
    machine.switch(0, 10, task_state::RUNNABLE, 100);
    machine.switch(1, 11, task_state::RUNNABLE, 200);
    machine.switch(1, 12, task_state::INTERRUPTIBLE, 0);
    for round in 0..3 {
        let us = 20 + round * 10;
        machine.wake(0, us, 200, 1, Stacks::default());
        machine.switch(0, us + 1, task_state::INTERRUPTIBLE, 0);
        machine.switch(1, us + 2, task_state::RUNNABLE, 200);
        machine.wake(1, us + 5, 100, 0, Stacks::default());
        machine.switch(1, us + 6, task_state::INTERRUPTIBLE, 0);
        machine.switch(0, us + 7, task_state::RUNNABLE, 100);
    }
    golden::check("ping_pong", &mut golden::open(machine.finish()));
}

#[test]
fn a_shell_forks_a_child_that_runs_a_program_and_ends() {
    let mut machine = FakeMachine::new(1);
    machine.process(50, 1, "sh", &[]);
    machine.switch(0, 5, task_state::RUNNABLE, 50);
    machine.fork(0, 10, 50, (60, 60), "sh");
    machine.sched(
        0,
        11,
        RecordKind::WakeupNew,
        SchedRecord { tid: 60, prio: 120, ..Default::default() },
        Stacks::default(),
    );
    machine.switch(0, 12, task_state::INTERRUPTIBLE, 60);
    machine.task(
        0,
        20,
        RecordKind::Exec,
        "make",
        TaskRecord { tid: 60, tgid: 60, parent_tid: 60, ..Default::default() },
    );
    machine.fork(0, 30, 60, (61, 60), "make");
    machine.task(
        0,
        31,
        RecordKind::Rename,
        "job-1",
        TaskRecord { tid: 61, tgid: 60, ..Default::default() },
    );
    machine.exit(0, 40, (61, 60), "job-1");
    machine.exit(0, 41, (60, 60), "make");
    machine.switch(0, 42, task_state::DEAD, 50);
    machine.task(
        0,
        50,
        RecordKind::Rename,
        "-sh",
        TaskRecord { tid: 50, tgid: 50, ..Default::default() },
    );
    golden::check("fork_exec_exit", &mut golden::open(machine.finish()));
}

#[test]
fn what_signal_ended_a_process_is_told_by_its_last_thread() {
    const SIGKILL: u32 = 9;
    const SIGSEGV_DUMPED: u32 = 11 | 0x80;
    let mut machine = FakeMachine::new(1);
    for (pid, name) in
        [(50, "crasher"), (60, "killed"), (70, "leaver"), (80, "survivor"), (90, "dumper")]
    {
        machine.process(pid, 1, name, &[(pid, name), (pid + 1, "worker")]);
    }
    let ends = [
        // Its first thread had ended by itself.
        (50, 50, 0),
        (51, 50, SIGSEGV_DUMPED),
        (61, 60, SIGKILL),
        (60, 60, SIGKILL),
        // The thread that dumped the core ends first.
        (91, 90, SIGSEGV_DUMPED),
        (90, 90, SIGSEGV_DUMPED & 0x7f),
        // It ends with the code that shells have for a crash.
        (71, 70, 139 << 8),
        (70, 70, 139 << 8),
        // Of its threads one was killed by an exec, and it goes on.
        (81, 80, SIGKILL),
    ];
    for ((tid, tgid, exit_code), us) in ends.into_iter().zip(10..) {
        let record = TaskRecord { tid, tgid, exit_code, ..Default::default() };
        machine.task(0, us, RecordKind::Exit, "", record);
    }
    golden::check("signal_exits", &mut golden::open(machine.finish()));
}

#[test]
fn a_thread_that_calls_exec_becomes_the_main_thread() {
    let mut machine = FakeMachine::new(1);
    machine.process(50, 1, "old", &[(50, "old"), (51, "old-thread")]);
    machine.switch(0, 5, task_state::RUNNABLE, 51);
    machine.exit(0, 10, (50, 50), "old");
    machine.task(
        0,
        11,
        RecordKind::Exec,
        "new",
        TaskRecord { tid: 50, tgid: 50, parent_tid: 51, ..Default::default() },
    );
    machine.switch(0, 12, task_state::INTERRUPTIBLE, 0);
    machine.switch(0, 13, task_state::RUNNABLE, 50);
    machine.exit(0, 20, (50, 50), "new");
    golden::check("exec_in_thread", &mut golden::open(machine.finish()));
}

#[test]
fn a_thread_id_that_is_used_twice_is_two_threads() {
    let mut machine = FakeMachine::new(2);
    machine.process(1, 0, "init", &[]);
    machine.fork(0, 10, 1, (300, 300), "first");
    machine.switch(1, 11, task_state::RUNNABLE, 300);
    machine.exit(1, 20, (300, 300), "first");
    machine.switch(1, 21, task_state::DEAD, 0);
    machine.fork(0, 30, 1, (300, 300), "second");
    machine.switch(1, 31, task_state::RUNNABLE, 300);
    machine.switch(1, 40, task_state::INTERRUPTIBLE, 0);
    // Nobody ever said what 999 is.
    machine.wake(0, 45, 999, 1, Stacks::default());
    let mut session = golden::open(machine.finish());
    golden::check("reused_thread_id", &mut session);
    let threads = session.tables().threads.len();
    golden::check("reused_thread_id", &mut session);
    assert_eq!(session.tables().threads.len(), threads, "playing again adds no thread");
}

/// A lane that loses records in the kernel, then a chunk to a full buffer.
fn losing_machine() -> FakeMachine {
    let mut machine = FakeMachine::new(2);
    machine.process(100, 1, "ping", &[]);
    machine.process(200, 1, "pong", &[]);
    machine.switch(0, 10, task_state::RUNNABLE, 100);
    machine.lose(0, 20, 5, 200);
    machine.switch(0, 21, task_state::INTERRUPTIBLE, 100);
    machine.end_chunk(SCHED0);
    machine.switch(0, 30, task_state::INTERRUPTIBLE, 200);
    machine.switch(0, 31, task_state::INTERRUPTIBLE, 0);
    machine.switch(0, 32, task_state::RUNNABLE, 200);
    let dropped = machine.drop_chunk(SCHED0);
    machine.declare("sched", Some(0), LossCause::BufferFull, dropped);
    machine.switch(0, 40, task_state::UNINTERRUPTIBLE, 100);
    machine.sample(1, 41, 0, Stacks::default(), 3);
    machine.declare("samples", Some(1), LossCause::LaneFull, 3);
    machine
}

#[test]
fn losses_are_events_and_are_counted_once() {
    golden::check("losses", &mut golden::open(losing_machine().finish()));
}

#[test]
fn a_recorder_that_was_killed_declared_nothing_and_its_lanes_tell() {
    golden::check("losses_of_a_killed_recorder", &mut golden::open(losing_machine().kill()));
}

#[test]
fn a_damaged_chunk_is_counted_and_the_next_one_restates_who_runs() {
    let mut machine = FakeMachine::new(2);
    machine.process(100, 1, "ping", &[]);
    machine.process(200, 1, "pong", &[]);
    machine.switch(1, 5, task_state::RUNNABLE, 200);
    machine.switch(0, 10, task_state::RUNNABLE, 100);
    machine.end_chunk(SCHED0);
    machine.switch(0, 20, task_state::INTERRUPTIBLE, 200);
    machine.switch(0, 21, task_state::RUNNABLE, 300);
    machine.end_chunk(SCHED0);
    let last_byte_of_the_chunk = machine.bytes() - 1;
    machine.switch(0, 30, task_state::INTERRUPTIBLE, 100);
    machine.end_chunk(SCHED0);
    let mut damaged = machine.finish();
    damaged[last_byte_of_the_chunk] ^= 1;
    golden::check("damaged_chunk", &mut golden::open(damaged));
}

#[test]
fn stacks_have_names_and_inlined_frames_and_say_where_a_task_waits() {
    let mut machine = FakeMachine::new(1);
    machine.process(70, 1, "reader", &[]);
    machine.mapping(70, 0x40_0000, 0x41_0000, 0x1000, "/usr/bin/reader");
    machine.mapping(70, 0x7000_0000, 0x7000_1000, 0, "//anon");
    machine.symbols(kernel_symbols(&[
        (0xffff_ffff_8100_0010, "bpf_trace_run4"),
        (0xffff_ffff_8100_001f, "__traceiter_sched_switch"),
        (0xffff_ffff_8100_002f, "__schedule"),
        (0xffff_ffff_8100_003f, "schedule"),
        (0xffff_ffff_8100_004f, "pipe_read"),
        (0xffff_ffff_8100_005f, "vfs_read"),
    ]));
    machine.symbols(SymbolTable {
        path: "/usr/bin/reader".into(),
        symbols: vec![
            symbol(0x1100, 0x1100, vec![frame("read", "", 0)]),
            symbol(
                0x11ff,
                0x1180,
                vec![frame("fill", "reader.rs", 7), frame("next_line", "reader.rs", 40)],
            ),
        ],
        ..SymbolTable::default()
    });
    let kernel = [
        0xffff_ffff_8100_0010,
        0xffff_ffff_8100_0020,
        0xffff_ffff_8100_0030,
        0xffff_ffff_8100_0040,
    ]
    .into_iter()
    .chain([0xffff_ffff_8100_0050, 0xffff_ffff_8100_0060]);
    let user = [0x40_0100, 0x40_0200, 0x40_0300, 0x7000_0123, 0x5555];
    let kernel = machine.sched_stack(0, 9, 0, &kernel.collect::<Vec<_>>());
    let user = machine.sched_stack(0, 9, 70, &user);
    machine.switch(0, 5, task_state::RUNNABLE, 70);
    let blocks = SchedRecord {
        tid: 0,
        state: task_state::INTERRUPTIBLE,
        prio: 120,
        next_prio: 120,
        ..Default::default()
    };
    machine.switch_with(0, 10, blocks, Stacks { user, kernel });
    machine.switch(0, 20, task_state::RUNNABLE, 70);
    let waits =
        SchedRecord { flags: sched_flags::IO_WAIT, state: task_state::UNINTERRUPTIBLE, ..blocks };
    machine.switch_with(0, 21, waits, Stacks { user: 0, kernel });
    // A stack that found no room, one that was never sent, and a preemption.
    machine.switch(0, 30, task_state::RUNNABLE, 70);
    machine.switch_with(0, 31, blocks, Stacks { user: stack_id::LOST, kernel });
    machine.switch_with(
        0,
        32,
        SchedRecord { tid: 70, ..Default::default() },
        Stacks { user: 4711, kernel: 0 },
    );
    machine.switch_with(
        0,
        33,
        SchedRecord { flags: sched_flags::PREEMPTED, ..Default::default() },
        Stacks::default(),
    );
    let in_user = machine.sample_stack(0, 39, 70, &[0x40_0100, 0x40_0200]);
    machine.sample(0, 40, 70, Stacks { user: in_user, kernel: 0 }, 0);
    let mut session = golden::open(machine.finish());
    // Its program may list the code in memory without a file.
    let (generated, unresolved) = by_memory(&session);
    assert_eq!((generated.len(), &generated[0].offsets[..]), (1, &[0x7000_0122][..]));
    assert_eq!(unresolved.len(), 1);
    assert_eq!(
        (unresolved[0].path.as_str(), &unresolved[0].offsets[..]),
        ("/usr/bin/reader", &[0x12ff][..])
    );
    golden::check("stacks", &mut session);
    let of_range = symbol(0x12ff, 0x1280, vec![frame("reader+0x401280", "", 0)]);
    session.add_symbols(vec![SymbolTable {
        path: "/usr/bin/reader".into(),
        symbols: vec![Symbol { range_only: true, ..of_range }],
        ..SymbolTable::default()
    }]);
    assert!(golden::text(&mut session).0.contains("next_line < reader+0x401280 <"));
    assert_eq!(by_memory(&session).1, unresolved, "a range is not a name");
    session.add_symbols(vec![SymbolTable {
        path: "/usr/bin/reader".into(),
        symbols: vec![symbol(0x12ff, 0x1280, vec![frame("main", "reader.rs", 90)])],
        ..SymbolTable::default()
    }]);
    assert!(by_memory(&session).1.is_empty());
    assert!(
        golden::text(&mut session).0.contains("next_line < main <"),
        "names that come later count from the next play on"
    );
}

/// What has no names yet: code in memory without a file, and code of files.
fn by_memory(session: &Session) -> (Vec<UnresolvedModule>, Vec<UnresolvedModule>) {
    session.unresolved().into_iter().partition::<Vec<_>, _>(|module| module.memory.is_some())
}

#[test]
fn frequencies_migrations_and_counters_have_their_tracks() {
    let mut machine = FakeMachine::new(2);
    machine.process(100, 1, "burner", &[]);
    machine.counters(&[
        counter(1, "usage", Unit::Percent, Some(1)),
        counter(2, "memory free", Unit::Bytes, None),
    ]);
    machine.sched(
        0,
        10,
        RecordKind::Frequency,
        SchedRecord { tid: 2_400_000, state: 1, ..Default::default() },
        Stacks::default(),
    );
    let migration = SchedRecord { tid: 100, state: 0, prio: 1, ..Default::default() };
    machine.sched(0, 11, RecordKind::Migrate, migration, Stacks::default());
    machine.count(12, 1, 87.5);
    machine.count(12, 2, 1_048_576.0);
    machine.sched(
        0,
        20,
        RecordKind::Frequency,
        SchedRecord { tid: 800_000, state: 1, ..Default::default() },
        Stacks::default(),
    );
    // A counter that nobody defined, and a value that is none.
    machine.count(30, 3, 1.0);
    machine.count(31, 1, f64::NAN);
    golden::check("counters", &mut golden::open(machine.finish()));
}

fn counter(counter: u64, name: &str, unit: Unit<String>, cpu: Option<u32>) -> CounterDefinition {
    CounterDefinition { counter, name: name.into(), unit, cpu, pid: None }
}

#[test]
fn an_address_means_the_program_that_ran_at_that_time() {
    let mut machine = FakeMachine::new(1);
    machine.process(80, 1, "before", &[]);
    machine.mapping_record(0, 5, &perf::mmap2(80, 0x40_0000, "/bin/before", 5));
    let before = machine.sample_stack(0, 10, 80, &[0x40_0010]);
    machine.sample(0, 10, 80, Stacks { user: before, kernel: 0 }, 0);
    // Exec: the name, the new mapping, and only then the record of the task.
    machine.mapping_record(0, 20, &perf::exec(80, "after", 20));
    machine.mapping_record(0, 21, &perf::mmap2(80, 0x40_0000, "/bin/after", 21));
    machine.task(
        0,
        22,
        RecordKind::Exec,
        "after",
        TaskRecord { tid: 80, tgid: 80, parent_tid: 80, ..Default::default() },
    );
    let after = machine.sample_stack(0, 30, 80, &[0x40_0010]);
    machine.sample(0, 30, 80, Stacks { user: after, kernel: 0 }, 0);
    // A child has its parent's memory, and after an exec whose mappings were
    // lost it has none that is known.
    machine.fork(0, 40, 80, (81, 81), "after");
    let inherited = machine.sample_stack(0, 45, 81, &[0x40_0010]);
    machine.sample(0, 45, 81, Stacks { user: inherited, kernel: 0 }, 0);
    machine.task(
        0,
        50,
        RecordKind::Exec,
        "other",
        TaskRecord { tid: 81, tgid: 81, parent_tid: 81, ..Default::default() },
    );
    let unknown = machine.sample_stack(0, 55, 81, &[0x40_0010]);
    machine.sample(0, 55, 81, Stacks { user: unknown, kernel: 0 }, 0);
    // The mapping lane lost two records itself.
    machine.mapping_record(0, 60, &perf::lost(2, 60));
    let mut session = golden::open(machine.finish());
    let modules: Vec<_> = session
        .unresolved()
        .into_iter()
        .map(|m| (m.path, m.build_id.to_string(), m.offsets))
        .collect();
    assert_eq!(
        modules,
        [
            ("/bin/after".to_owned(), "c0ffee15".to_owned(), vec![0x10]),
            ("/bin/before".to_owned(), "c0ffee05".to_owned(), vec![0x10])
        ]
    );
    golden::check("mappings", &mut session);
}

#[test]
fn a_part_of_the_time_is_played_alone() {
    let mut machine = FakeMachine::new(1);
    machine.process(100, 1, "ping", &[]);
    (1..=5).for_each(|us| machine.switch(0, us, task_state::RUNNABLE, 100 * (us % 2) as u32));
    machine.task(
        0,
        1,
        RecordKind::Rename,
        "early",
        TaskRecord { tid: 100, tgid: 100, ..Default::default() },
    );
    machine.task(
        0,
        5,
        RecordKind::Rename,
        "late",
        TaskRecord { tid: 100, tgid: 100, ..Default::default() },
    );
    let mut session = golden::open(machine.finish());
    let mut exporter = TextExporter::new(Vec::new());
    let played = session.play_range(&mut exporter, at(2), at(4)).unwrap();
    assert_eq!(
        (played.events, played.events_by_type["switch"]),
        (2, 2),
        "what is not in the part is not counted"
    );
    assert_eq!((played.first, played.last), (at(2), at(3)));
    let lines = String::from_utf8(exporter.finish().unwrap()).unwrap();
    let switches: Vec<&str> = lines.lines().filter(|line| line.contains("switch")).collect();
    assert_eq!(switches.len(), 2, "from microsecond 2 on, before 4: {lines}");
    assert!(switches[0].contains("switch late/100"), "who ran before is known: {lines}");
    assert!(
        lines.contains("thread name 100 is early"),
        "its name at that time comes first: {lines}"
    );
}

fn at(us: u64) -> Option<Time> {
    Some(Time(FIRST_BOOTTIME + us * 1_000))
}

#[test]
fn tasks_that_were_listed_while_they_came_and_went_keep_their_own_names() {
    let mut machine = FakeMachine::new(1);
    // The list was read late: 90 had been forked by then, and 91 was used anew.
    machine.process(2, 0, "shell", &[]);
    machine.process(90, 2, "child", &[]);
    machine.process(91, 2, "second", &[]);
    machine.fork(0, 10, 2, (90, 90), "child");
    machine.switch(0, 11, task_state::RUNNABLE, 91);
    machine.exit(0, 20, (91, 91), "first");
    machine.switch(0, 21, task_state::DEAD, 90);
    machine.fork(0, 30, 2, (91, 91), "second");
    // 95 shows up by a name of its own only; it was there all the time.
    machine.switch(0, 40, task_state::RUNNABLE, 95);
    machine.task(
        0,
        41,
        RecordKind::Rename,
        "quiet",
        TaskRecord { tid: 95, tgid: 94, ..Default::default() },
    );
    // A command line that was read while the first 91 lived is not the second's.
    machine.note(15, 91, &["first", "--one"]);
    machine.note(35, 91, &["second", "--two"]);
    let mut session = golden::open(machine.finish());
    let tables = session.tables();
    let command_lines: Vec<_> =
        tables.processes.iter().filter(|p| p.pid == 91).map(|p| p.command_line.join(" ")).collect();
    assert_eq!(command_lines, ["first --one", "second --two"]);
    golden::check("listed_late", &mut session);
}

#[test]
fn records_without_stacks_and_records_of_a_later_version_are_read() {
    let (with_stacks, _) = play(24);
    assert_eq!(play(16).0, with_stacks);
    assert_eq!(play(40).0, with_stacks, "what is not known is passed over");
    let (lines, played) = play(8);
    assert_eq!(
        (played.events, played.lost),
        (0, 2),
        "records that are too short are counted: {lines}"
    );
    assert!(lines.contains("lost: 2 from sched of cpu0: undecodable"));
}

fn play(stride: usize) -> (String, Played) {
    let mut machine = FakeMachine::new(1);
    machine.sched_stride(stride);
    machine.switch(0, 10, task_state::RUNNABLE, 100);
    machine.switch(0, 20, task_state::INTERRUPTIBLE, 0);
    golden::text(&mut golden::open(machine.finish()))
}

#[test]
fn a_command_line_is_read_after_the_list_and_names_that_are_read_at_the_end_come_without() {
    let mut machine = FakeMachine::new(1);
    machine.process(70, 1, "first", &[]);
    machine.note(15, 70, &["first", "--one"]);
    machine.switch(0, 20, task_state::RUNNABLE, 70);
    machine.define(&Definition::Processes(vec![KnownProcess {
        pid: 70,
        parent_pid: 1,
        threads: vec![KnownThread { tid: 70, name: "second".into(), ..Default::default() }],
        noted: Ticks(ticks(40)),
        names_read: Ticks(ticks(41)),
        ..KnownProcess::default()
    }]));
    let session = golden::open(machine.finish());
    let row = session.tables().processes.iter().find(|process| process.pid == 70).unwrap();
    assert_eq!(row.command_line, ["first", "--one"]);
    let name = session.tables().threads.iter().find(|thread| thread.tid == 70).unwrap().name;
    assert_eq!(session.tables().strings.get(name), "second");
}

#[test]
fn a_name_that_was_read_after_a_rename_is_not_put_before_it() {
    let (early, late) = (text(Ticks(ticks(10))), text(Ticks(ticks(40))));
    assert_eq!(reported(&early), reported(&late) + 1, "{early}\n--- and ---\n{late}");
}

fn text(names_read: Ticks) -> String {
    let mut machine = FakeMachine::new(1);
    let thread = KnownThread { tid: 70, name: "third".into(), ..Default::default() };
    machine.define(&Definition::Processes(vec![KnownProcess {
        pid: 70,
        parent_pid: 1,
        threads: vec![thread],
        names_read,
        ..KnownProcess::default()
    }]));
    let task = TaskRecord { tid: 70, tgid: 70, ..TaskRecord::default() };
    machine.task(0, 20, RecordKind::Rename, "second", task);
    machine.task(0, 30, RecordKind::Rename, "third", task);
    machine.task(0, 50, RecordKind::Rename, "fourth", task);
    golden::text(&mut golden::open(machine.finish())).0
}

fn reported(text: &str) -> usize {
    text.matches("third").count()
}

#[test]
fn who_was_seen_asleep_is_told_at_that_time_unless_it_had_ended() {
    let mut machine = FakeMachine::new(1);
    for (us, pid) in [(15, 70), (25, 71)] {
        machine.sleeper(us, pid, "sleeper", "futex_do_wait");
    }
    machine.switch(0, 10, task_state::RUNNABLE, 100);
    let ended = TaskRecord { tid: 71, tgid: 71, ..TaskRecord::default() };
    machine.task(0, 20, RecordKind::Exit, "sleeper", ended);
    machine.switch(0, 30, task_state::INTERRUPTIBLE, 0);
    let (text, _) = golden::text(&mut golden::open(machine.finish()));
    let reported: Vec<_> = text.lines().filter(|line| line.contains("asleep")).collect();
    assert_eq!(reported, ["        5.000 asleep sleeper/70 (sleeps, in futex_do_wait)"], "{text}");
}

#[test]
fn who_is_asleep_when_a_snapshot_is_taken_is_told_then_and_keeps_its_command_line() {
    let mut machine = FakeMachine::new(1);
    machine.sleeper(15, 70, "sleeper", "futex_do_wait");
    machine.note(16, 70, &["/bin/sleeper", "--long"]);
    machine.switch(0, 10, task_state::RUNNABLE, 100);
    machine.switch(0, 30, task_state::INTERRUPTIBLE, 0);
    // Behind the last record: the snapshot's own work.
    machine.sleeper_at_snapshot(35, 70, "sleeper", "pipe_read");
    let mut session = golden::open(machine.finish());
    let (text, _) = golden::text(&mut session);
    let reported: Vec<_> = text.lines().filter(|line| line.contains("asleep")).collect();
    let expected = [
        "        5.000 asleep sleeper/70 (sleeps, in futex_do_wait)",
        "       25.000 asleep sleeper/70 (sleeps, in pipe_read)",
    ];
    assert_eq!(reported, expected, "{text}");
    let process = session.tables().processes.iter().find(|process| process.pid == 70).unwrap();
    assert_eq!(process.command_line, ["/bin/sleeper", "--long"]);
}
