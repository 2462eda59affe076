//! What the Perfetto writer promises, whatever happens in the session.

use crate::decode::{Fields, packets};
use crate::replay::{Replay, UNRECORDED, replay};
use crate::scenario::{self, IDLE, Scenario, off, preempted};
use proptest::prelude::*;
use std::collections::BTreeMap;
use syscollect_exporters::{ExportError, PerfettoExporter};
use syscollect_model::{
    BuildId, CpuId, Crash, Event, Exporter, Field, LaneKind, Location, LocationId, Lock,
    LockAction, LockEvent, LockId, Loss, LossCause, MachineId, MemoryEvent, Message, MessageText,
    Migration, Module, ModuleId, ModuleKind, OffCpu, OperatingSystem, ProcessId, Sample, Scope,
    SessionInfo, SignalExit, SleepState, Slice, SliceUpdate, StackId, StringId, Switch, Tables,
    ThreadId, Time, TrackId, Value, Wakeup,
};

fn export(scenario: &Scenario, losses: &[Loss]) -> Vec<u8> {
    let mut exporter = PerfettoExporter::new(Vec::new());
    scenario.play(&mut exporter, &scenario::session(), losses, None).unwrap();
    exporter.finish().unwrap()
}

#[test]
fn a_session_without_events_is_a_whole_file() {
    let mut exporter = PerfettoExporter::new(Vec::new());
    exporter.begin(&Tables::default()).unwrap();
    exporter.end(&[], None, &Tables::default()).unwrap();
    let reported = replay(&exporter.finish().unwrap());
    assert!(reported.switches.is_empty() && reported.samples.is_empty());
}

/// Viewers filter by the file as well as by the name: what is interpreted can be shown or hidden.
#[test]
fn functions_of_python_programs_are_of_a_file_of_their_own() {
    let mut scenario = Scenario::new();
    let (_, thread) = scenario.process(10, 1, "python3.11", &[]);
    for (path, kind) in
        [("/usr/bin/python3.11", ModuleKind::File), ("[python]", ModuleKind::Python)]
    {
        let path = scenario.name(path);
        scenario.tables.modules.push(Module { path, build_id: BuildId::default(), kind });
    }
    let eval = scenario.frame(Some(ModuleId(0)), 0x10, Some("_PyEval_EvalFrameDefault"));
    let load = scenario.frame(Some(ModuleId(1)), 0x20, Some("load (io.py)"));
    let stack = Some(scenario.tables.intern_stack(&[load, eval]));
    scenario.then(Event::Sample(Sample { cpu: CpuId::new(0), thread, stack, in_kernel: false }));
    let trace = export(&scenario, &[]);
    let (mut strings, mut paths, mut files) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    for data in packets(&trace).iter().flat_map(|packet| Fields::parse(packet).messages(12)) {
        for (field, string) in [5, 17]
            .into_iter()
            .flat_map(|field| data.messages(field).into_iter().map(move |string| (field, string)))
        {
            strings.insert((field, string.number(1).unwrap()), string.text(2).unwrap());
        }
        for mapping in data.messages(19) {
            let path = strings[&(17, mapping.number(7).unwrap())].clone();
            paths.insert(mapping.number(1).unwrap(), path);
        }
        for frame in data.messages(6) {
            let name = strings[&(5, frame.number(2).unwrap())].clone();
            files.push((name, paths[&frame.number(3).unwrap()].clone()));
        }
    }
    for (name, file) in
        [("_PyEval_EvalFrameDefault", "/usr/bin/python3.11"), ("load (io.py)", "[python]")]
    {
        assert!(files.contains(&(name.to_owned(), file.to_owned())), "{files:?}");
    }
}

#[test]
fn every_loss_is_counted_once() {
    let reported = replay(&export(&scenario::scenario(), &scenario::losses()));
    assert_eq!(reported.lost, (BTreeMap::from([(1, 42)]), 12));
}

#[test]
fn lost_switches_charge_nobody() {
    let mut scenario = Scenario::new();
    let (_, a) = scenario.process(10, 1, "a", &[]);
    let (_, b) = scenario.process(20, 1, "b", &[]);
    scenario.switch(0, IDLE, off(SleepState::Runnable), a);
    scenario.wait(500);
    let since = Time(scenario::START + 100_000);
    scenario.then(Event::Loss(Loss {
        origin: LaneKind::Sched.into(),
        cpu: Some(CpuId::new(0)),
        cause: LossCause::Damaged,
        user: None,
        count: 3,
        between: Some((since, since)),
    }));
    scenario.switch(0, b, off(SleepState::Interruptible), IDLE);
    let reported = replay(&export(&scenario, &[]));
    let [began, lost, back] = [0, 100_000, 502_000].map(|at| scenario::START + at);
    let expected = [(began, 0, 10), (lost, 10, UNRECORDED), (back, UNRECORDED, 20), (back, 20, 0)];
    assert_eq!(reported.switches[&0], expected);
}

#[test]
fn a_process_is_freed_after_the_last_of_its_threads_has_left() {
    let mut scenario = Scenario::new();
    let (process, first) = scenario.process(10, 1, "a", &[]);
    let second = scenario.thread(11, process, "b");
    scenario.switch(0, IDLE, off(SleepState::Runnable), first);
    scenario.switch(1, IDLE, off(SleepState::Runnable), second);
    scenario.then(Event::ThreadEnd(first));
    scenario.then(Event::ThreadEnd(second));
    scenario.then(Event::ProcessEnd(process));
    scenario.switch(0, first, off(SleepState::Dead), IDLE);
    scenario.switch(1, second, off(SleepState::Dead), IDLE);
    let reported = replay(&export(&scenario, &[]));
    let left = scenario::START + 6_000;
    assert_eq!(reported.freed, [(left + 1, 11), (left + 2, 10)]);
}

#[test]
fn an_exiting_thread_whose_last_switch_is_not_told_lives_as_long_as_it_is_seen() {
    let mut scenario = Scenario::new();
    let (process, thread) = scenario.process(10, 1, "a", &[]);
    scenario.switch(0, IDLE, off(SleepState::Runnable), thread);
    scenario.then(Event::ThreadEnd(thread));
    scenario.then(Event::ProcessEnd(process));
    scenario.switch(0, thread, preempted(), IDLE);
    scenario.switch(0, IDLE, off(SleepState::Runnable), thread);
    let reported = replay(&export(&scenario, &[]));
    assert_eq!(reported.freed, [(scenario::START + 4_001, 10)]);
}

#[test]
fn two_switches_at_one_time_stay_in_order() {
    let mut scenario = Scenario::new();
    let (_, a) = scenario.process(10, 1, "a", &[]);
    let (_, b) = scenario.process(20, 1, "b", &[]);
    scenario.switch(0, IDLE, off(SleepState::Runnable), a);
    scenario.switch(0, a, preempted(), b);
    scenario.switch(0, b, preempted(), a);
    let time = Time(scenario::START);
    scenario.events.iter_mut().for_each(|(at, _)| *at = time);
    let reported = replay(&export(&scenario, &[]));
    assert_eq!(reported.switches[&0], [(at(0), 0, 10), (at(1), 10, 20), (at(1), 20, 10)]);
}

fn at(nanoseconds: u64) -> u64 {
    scenario::START + nanoseconds
}

#[test]
fn samples_and_wakers_are_flame_graphs_of_processes_of_their_own() {
    let trace = export(&scenario::scenario(), &[]);
    let reported = replay(&trace);
    let stacks: Vec<_> = reported
        .samples
        .iter()
        .map(|(_, sequence, stack)| (*sequence, stack.join(" > ")))
        .collect();
    assert_eq!(
        stacks[..3],
        [
            (7, "sh (200) > main > parse<T> > next_token".to_owned()),
            (5, "main > parse<T> > next_token".to_owned()),
            (5, "main > parse<T> > next_token".to_owned()),
        ]
    );
    assert_eq!(
        stacks[3..5],
        [(5, "/usr/bin/cc+0x9999 > 0x7f00deadbeef".to_owned()), (5, String::new())]
    );
    let processes: BTreeMap<u64, Vec<u64>> = owners(&trace);
    let wakers = &processes[&7];
    assert!(
        wakers.iter().all(|pid| *pid > 1 << 30) && !processes[&5].contains(&wakers[0]),
        "{processes:?}"
    );
}

/// The processes whose samples each sequence has.
fn owners(trace: &[u8]) -> BTreeMap<u64, Vec<u64>> {
    let mut owners: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for packet in packets(trace) {
        let packet = Fields::parse(&packet);
        for pid in packet.messages(66).iter().filter_map(|sample| sample.number(2)) {
            owners.entry(packet.number(10).unwrap()).or_default().push(pid);
        }
    }
    owners
}

#[test]
fn time_blocked_is_a_sample_for_each_interval() {
    let mut scenario = Scenario::new();
    let (_, a) = scenario.process(10, 1, "a", &[]);
    let (_, b) = scenario.process(20, 1, "b", &[]);
    let [reads, sleeps] = ["read", "sleep"].map(|name| {
        let frame = scenario.frame(None, 1, Some(name));
        scenario.tables.intern_stack(&[frame])
    });
    // Ten times half an interval, and once 40 of them; both wait the same time for a CPU, which is
    // the state they blocked in.
    for _ in 0..10 {
        scenario.switch(
            0,
            a,
            OffCpu { stack: Some(reads), ..off(SleepState::Interruptible) },
            IDLE,
        );
        scenario.wait(499);
        scenario.switch(0, IDLE, off(SleepState::Runnable), a);
    }
    scenario.switch(0, b, OffCpu { stack: Some(sleeps), ..off(SleepState::Uninterruptible) }, IDLE);
    scenario.wait(39_999);
    scenario.switch(0, IDLE, off(SleepState::Runnable), b);
    // Who is preempted is not blocked; what still lasts counts up to the end.
    scenario.switch(0, b, preempted(), a);
    scenario.switch(0, a, OffCpu { stack: Some(reads), ..off(SleepState::Interruptible) }, IDLE);
    scenario.wait(6_999);
    scenario.then(Event::Sample(Sample {
        cpu: CpuId::new(0),
        thread: IDLE,
        stack: None,
        in_kernel: false,
    }));
    let trace = export(&scenario, &[]);
    let reported = replay(&trace);
    let samples = reported.samples.iter().filter(|(_, sequence, _)| *sequence == 6);
    for (of, count) in [("b (20) > sleep", 40), ("a (10) > read", 12)] {
        assert_eq!(samples.clone().filter(|(.., stack)| stack.join(" > ") == of).count(), count);
    }
    let times: Vec<u64> = samples.map(|(time, ..)| *time).collect();
    let (first, last) = (scenario.events[0].0.0, scenario.events.last().unwrap().0.0);
    assert!(times.iter().all(|time| (first..=last).contains(time)), "{times:?}");
}

#[test]
fn names_of_any_length_and_letters_survive() {
    let mut scenario = Scenario::new();
    let long = "n".repeat(64 << 10);
    let odd = "a\u{0}b\u{1b}[31m\n\u{202e}\"\u{fffd}";
    let (_, a) = scenario.process(10, 1, &long, &[&long, odd]);
    let (_, b) = scenario.process(20, 1, odd, &[]);
    let function = scenario.name(&"f".repeat(100_000));
    let frame = scenario.frame(None, 1, Some(odd));
    let stack = Some(scenario.tables.intern_stack(&[frame]));
    let blocked = OffCpu { blocked_in: Some(function), stack, ..off(SleepState::Uninterruptible) };
    scenario.switch(0, IDLE, off(SleepState::Runnable), a);
    scenario.switch(0, a, blocked, b);
    scenario.wait(1_000);
    scenario.switch(0, b, preempted(), IDLE);
    let reported = replay(&export(&scenario, &[]));
    assert_eq!(reported.switches[&0].len(), 3);
    assert_eq!(
        (reported.samples[0].2[0].len(), &*reported.samples[0].2[1]),
        (long.len() + " (10)".len(), odd)
    );
}

#[test]
fn a_preempted_thread_has_the_state_that_viewers_read_of_its_system() {
    let mut scenario = Scenario::new();
    let (_, a) = scenario.process(10, 1, "a", &[]);
    scenario.switch(0, IDLE, off(SleepState::Runnable), a);
    scenario.switch(0, a, preempted(), IDLE);
    let of_systems = [(OperatingSystem::Linux, 0x100), (OperatingSystem::Windows, 0x800)];
    for (os, state) in of_systems {
        let mut exporter = PerfettoExporter::new(Vec::new());
        let session = SessionInfo { os: os.clone(), ..scenario::session() };
        scenario.play(&mut exporter, &session, &[], None).unwrap();
        let bundles = packets(&exporter.finish().unwrap());
        let bundles = bundles.iter().flat_map(|packet| Fields::parse(packet).messages(1));
        let states: Vec<u64> = bundles.flat_map(|bundle| bundle.message(4).packed(2)).collect();
        assert_eq!(states, [state], "{os}");
    }
}

/// Command lines that tell of a process, in their order.
fn command_lines(trace: &[u8], pid: u64) -> Vec<Vec<String>> {
    let trees = packets(trace).into_iter().flat_map(|packet| Fields::parse(&packet).messages(2));
    let processes =
        trees.flat_map(|tree| tree.messages(1)).filter(|process| process.number(1) == Some(pid));
    processes
        .map(|process| {
            process.all(3).map(|word| String::from_utf8(word.to_vec()).unwrap()).collect()
        })
        .collect()
}

#[test]
fn a_process_whose_threads_have_other_ids_has_a_name_from_its_first_thread_on() {
    let mut scenario = Scenario::new();
    let (process, _) = scenario.process(40, 1, "game.exe", &[]);
    scenario.tables.processes[process.index()].start = Some(Time(scenario::START));
    scenario.then(Event::ProcessStart(process));
    let thread = scenario.thread(44, process, "game.exe");
    scenario.starts(thread);
    scenario.then(Event::ThreadStart(thread));
    scenario.switch(0, IDLE, off(SleepState::Runnable), thread);
    assert_eq!(command_lines(&export(&scenario, &[]), 40), [["game.exe"]]);
}

#[test]
fn a_command_line_in_one_piece_follows_the_name_of_its_process() {
    let mut scenario = Scenario::new();
    let line = r#""C:\Program Files\Game\game.exe" -x"#;
    let (_, windows) = scenario.process(40, 1, "game.exe", &[line]);
    let (_, linux) = scenario.process(50, 1, "cc", &["/usr/bin/cc", "-c"]);
    scenario.switch(0, IDLE, off(SleepState::Runnable), windows);
    scenario.switch(1, IDLE, off(SleepState::Runnable), linux);
    let trace = export(&scenario, &[]);
    assert_eq!(command_lines(&trace, 40), [["game.exe", line]]);
    assert_eq!(command_lines(&trace, 50), [["/usr/bin/cc", "-c"]]);
}

#[test]
fn an_id_used_twice_is_given_back_in_between() {
    let mut scenario = Scenario::new();
    let (first, a) = scenario.process(10, 1, "first", &[]);
    scenario.switch(0, IDLE, off(SleepState::Runnable), a);
    scenario.then(Event::ThreadEnd(a));
    scenario.then(Event::ProcessEnd(first));
    scenario.switch(0, a, preempted(), IDLE);
    scenario.switch(0, IDLE, off(SleepState::Runnable), a);
    scenario.switch(0, a, off(SleepState::Zombie), IDLE);
    let (second, b) = scenario.process(10, 1, "second", &[]);
    scenario.starts(b);
    scenario.then(Event::ThreadStart(b));
    scenario.then(Event::ProcessStart(second));
    scenario.switch(0, IDLE, off(SleepState::Runnable), b);
    let reported = replay(&export(&scenario, &[]));
    assert_eq!((reported.events[&240], reported.events[&235]), (1, 1), "one end, then one start");
}

#[test]
fn a_full_disk_is_an_error_and_ends_the_threads() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut exporter = PerfettoExporter::new(Full);
    scenario::scenario().play(&mut exporter, &scenario::session(), &[], None).unwrap();
    let error = exporter.finish().map(drop).unwrap_err();
    assert!(
        matches!(&error, ExportError::Write(io) if io.kind() == std::io::ErrorKind::StorageFull),
        "{error}"
    );
}

#[test]
fn many_blocks_come_out_whole_and_in_order() {
    let mut scenario = cast();
    let (a, b) = (ThreadId(1), ThreadId(2));
    let sleeps = off(SleepState::Interruptible);
    for _ in 0..20_000 {
        scenario.switch(0, a, sleeps, b);
        scenario.then(sample(b));
        scenario.switch(0, b, sleeps, a);
        scenario.then(sample(a));
    }
    let trace = export(&scenario, &[]);
    assert!(
        crate::decode::Fields::parse(&trace).all(1).count() > 5,
        "the blocks are smaller than the trace"
    );
    let reported = replay(&trace);
    check_switches(&scenario, &reported, 0);
    assert_eq!(reported.switches[&0].len(), 40_000);
    assert!(
        reported.samples.windows(2).all(|two| two[0].0 + 2_000 == two[1].0),
        "samples lie in the file as they came"
    );
    assert_eq!(reported.samples.len(), 40_000);
}

fn sample(thread: ThreadId) -> Event {
    Event::Sample(Sample { cpu: CpuId::new(0), thread, stack: Some(StackId(1)), in_kernel: false })
}

/// A cast of processes, threads, stacks and tracks for events in any order.
fn cast() -> Scenario {
    let mut scenario = Scenario::new();
    let (process, first) = scenario.process(10, 1, "ten", &["/bin/ten"]);
    scenario.thread(11, process, "eleven");
    let (_, twenty) = scenario.process(20, 10, "twenty", &[]);
    scenario.starts(twenty);
    // The same ids again: a thread and a process that come later.
    scenario.process(20, 10, "twenty again", &["/bin/twenty"]);
    scenario.thread(11, process, "eleven again");
    let frame = scenario.frame(None, 0x10, None);
    let other = scenario.frame(None, 0x20, Some("f"));
    scenario.tables.intern_stack(&[frame]);
    scenario.tables.intern_stack(&[other, frame]);
    scenario.track(Scope::Machine(MachineId::FIRST), "counter", Some("%"));
    scenario.track(Scope::Cpu(CpuId::new(1)), "frequency", Some("kHz"));
    scenario.track(Scope::Thread(first), "slices", None);
    // Two rows of one track, and a thread's own track.
    for name in ["rows", "rows"] {
        scenario.track(Scope::Process(process), name, None);
    }
    scenario.zones(first);
    let (function, file) = (scenario.name("f"), scenario.name("f.rs"));
    scenario.tables.locations =
        [1, 2].map(|line| Location { function, file, line }).into_iter().collect();
    scenario.tables.locks = [false, true]
        .map(|shared| Lock { process, name: function, shared, location: None })
        .into_iter()
        .collect();
    scenario
}

/// A slice out of numbers, with all that can be said of one.
fn slice(name: u8, flags: u8, stack: Option<StackId>) -> Slice {
    let name = StringId(u32::from(name % 6));
    let values = [
        Value::Text("text".into()),
        Value::String(name),
        Value::Signed(-1),
        Value::Duration(u64::MAX),
        Value::Percentage(f64::NAN),
    ];
    let value = values[usize::from(flags) % values.len()].clone();
    Slice {
        number: (flags & 4 != 0).then_some(u64::from(flags)),
        category: (flags & 8 != 0).then_some(name),
        location: (flags & 16 != 0).then_some(LocationId(u32::from(flags % 2))),
        stack,
        fields: if flags & 32 != 0 { vec![Field::named(name, value)] } else { Vec::new() },
        ..Slice::named(name)
    }
}

/// A message that says what a slice says.
fn message(slice: Slice) -> Message {
    let Slice { name, number, category, color, stack, fields, .. } = slice;
    let text = match (number, category) {
        (Some(8..), Some(_)) => Some(MessageText::Written("a\nb".into())),
        (_, Some(_)) => Some(MessageText::Interned { string: name, number }),
        _ => None,
    };
    Message { category: name, text, color, stack, fields }
}

/// One event out of numbers: each below 256, used as far as the event needs them.
fn event(kind: u8, a: u8, b: u8, c: u8, flags: u8) -> Event {
    let process = ProcessId(u32::from(a % 4));
    let name = StringId(u32::from(b % 6));
    let stack = (flags & 1 != 0).then(|| StackId(u32::from(c % 2)));
    let cpu = u32::from(c % 3);
    let track = TrackId(2 + u32::from(a % 4));
    match kind % 20 {
        0..=4 => {
            let states = [
                SleepState::Interruptible,
                SleepState::Dead,
                SleepState::Zombie,
                SleepState::Uninterruptible,
            ];
            let off_cpu = OffCpu {
                state: states[usize::from(flags >> 6)],
                preempted: flags & 2 != 0,
                io_wait: flags & 4 != 0,
                blocked_in: (flags & 8 != 0).then_some(name),
                stack,
            };
            let (previous, next) = (maybe_thread(a), thread(b));
            Event::Switch(Switch {
                cpu: CpuId::new(cpu),
                previous,
                previous_priority: -1,
                off_cpu,
                next,
                next_priority: 120,
            })
        }
        5..=7 => Event::Wakeup(Wakeup {
            cpu: CpuId::new(cpu),
            waker: maybe_thread(a),
            from_interrupt: flags & 2 != 0,
            wakee: thread(b),
            priority: 120,
            target_cpu: CpuId::new(cpu),
            new: flags & 4 != 0,
            stack,
        }),
        8 => Event::Sample(Sample {
            cpu: CpuId::new(cpu),
            thread: thread(a),
            stack,
            in_kernel: flags & 2 != 0,
        }),
        9 => Event::Migration(Migration {
            thread: thread(a),
            from_cpu: CpuId::new(cpu),
            to_cpu: CpuId::new(u32::from(b)),
        }),
        10 => Event::ThreadStart(thread(a)),
        11 => Event::ThreadEnd(thread(a)),
        12 if flags & 1 == 0 => Event::ProcessStart(process),
        12 => Event::ProcessEnd(process),
        13 if flags & 1 == 0 => Event::ThreadName(thread(a), name),
        13 => Event::ProcessExec(process, name),
        14 => match flags % 4 {
            0 => Event::Counter(TrackId(u32::from(a % 2)), f64::from(b) - 10.0),
            1 => Event::SliceBegin(track, slice(b, flags, stack)),
            2 => Event::SliceEnd(track),
            _ if flags & 4 == 0 => Event::Instant(track, slice(b, flags, stack)),
            _ => Event::Message(track, message(slice(b, flags, stack))),
        },
        15 if flags & 1 == 0 => Event::SliceEnd(track),
        15 => Event::SliceBegin(track, slice(b, flags, stack)),
        16 => {
            let Slice { fields, number, .. } = slice(b, flags, None);
            let name = (flags & 1 == 0).then_some((name, number));
            Event::SliceUpdate(
                track,
                SliceUpdate { name, color: None, fields, unfinished: flags & 2 != 0 },
            )
        }
        17 => {
            let actions =
                [LockAction::Wait, LockAction::Obtain, LockAction::Release, LockAction::GiveUp];
            let (lock, action) = (LockId(u32::from(b % 2)), actions[usize::from(flags % 4)]);
            Event::Lock(LockEvent {
                lock,
                thread: thread(a),
                action,
                shared: flags & 4 != 0,
                location: None,
            })
        }
        18 if flags & 1 == 0 => {
            let allocated = (flags & 2 != 0).then_some(u64::from(c));
            let pool = (flags & 4 != 0).then_some(name);
            Event::Memory(MemoryEvent {
                thread: thread(a),
                pool,
                address: u64::from(b % 8),
                allocated,
                stack,
            })
        }
        18 if flags & 2 == 0 => {
            let exit = SignalExit {
                process,
                thread: None,
                signal: name,
                is_crash: true,
                has_core_dump: flags & 4 != 0,
            };
            Event::SignalExit(exit)
        }
        18 => {
            let (thread, address) = (thread(a), u64::from(b));
            Event::Crash(Crash { thread, signal: name, code: name, address, stack })
        }
        _ => Event::Loss(Loss {
            origin: if flags & 4 != 0 { LaneKind::Sched } else { LaneKind::Sample }.into(),
            cpu: (flags & 1 != 0).then_some(CpuId::new(cpu)),
            cause: LossCause::Nested,
            user: None,
            count: u64::from(a),
            between: (flags & 2 != 0).then_some((Time(u64::from(b)), Time(u64::MAX))),
        }),
    }
}

fn maybe_thread(n: u8) -> Option<ThreadId> {
    (n % 7 < 6).then(|| thread(n % 7))
}

fn thread(n: u8) -> ThreadId {
    ThreadId(u32::from(n % 6))
}

/// Every switch of the session is in the trace, and what is more is time without records.
fn check_switches(scenario: &Scenario, reported: &Replay, tolerance: u64) {
    let mut expected: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
    for (time, event) in &scenario.events {
        if let Event::Switch(switch) = event {
            expected
                .entry(u64::from(switch.cpu.number))
                .or_default()
                .push((time.0, u64::from(scenario.tables.thread(switch.next).tid)));
        }
    }
    for (cpu, expected) in expected {
        let mut found = reported.switches[&cpu].iter();
        for switch in expected {
            let times = switch.0..=switch.0 + tolerance;
            assert!(
                found.any(|(time, _, next)| times.contains(time) && *next == switch.1),
                "{switch:?} of CPU {cpu}"
            );
        }
    }
    let extra =
        |next: u64| reported.switches.values().flatten().filter(|switch| switch.2 == next).count();
    let total = reported.switches.values().flatten().count();
    let switches =
        scenario.events.iter().filter(|(_, event)| matches!(event, Event::Switch(_))).count();
    assert!(total - switches <= 2 * extra(UNRECORDED), "at most two more per gap");
}

/// Every slice that begins and ends lasts as long in the trace.
fn check_slices(scenario: &Scenario, reported: &Replay) {
    let (mut open, mut expected) = (BTreeMap::<TrackId, Vec<u64>>::new(), Vec::new());
    for (time, event) in &scenario.events {
        match event {
            Event::SliceBegin(track, _) => open.entry(*track).or_default().push(time.0),
            Event::SliceEnd(track) => {
                expected.extend(open.entry(*track).or_default().pop().map(|begin| (begin, time.0)));
            }
            Event::Instant(..) | Event::Message(..) => expected.push((time.0, time.0)),
            _ => {}
        }
    }
    let found = reported
        .slices
        .iter()
        .filter(|slice| is_of_model(&slice.track) && !slice.arguments.contains_key("tid"));
    let found: Vec<_> = found.map(|slice| (slice.begin, slice.end)).collect();
    assert_eq!(found, expected);
}

fn is_of_model(track: &str) -> bool {
    ["slices", "rows", "thread 10"].iter().any(|name| track.ends_with(name))
}

proptest! {
    #[test]
    fn any_order_of_events_makes_a_trace_without_contradictions(
        events in prop::collection::vec((any::<(u8, u8, u8, u8, u8)>(), 0u64..3), 0..300),
        coarse_clock: bool,
    ) {
        let mut scenario = cast();
        let mut time = scenario::START;
        for ((kind, a, b, c, flags), pause) in events {
            time += if coarse_clock { pause } else { 10 + pause };
            scenario.events.push((Time(time), event(kind, a, b, c, flags)));
        }
        let reported = replay(&export(&scenario, &[]));
        // Only what happens within a nanosecond may be moved, by as many as there are events.
        check_switches(
            &scenario,
            &reported,
            if coarse_clock { 2 * scenario.events.len() as u64 } else { 0 },
        );
        let wakeups =
            scenario.events.iter().filter(|(_, event)| matches!(event, Event::Wakeup(_))).count();
        prop_assert_eq!(reported.wakeups.len(), wakeups);
        check_slices(&scenario, &reported);
    }
}
