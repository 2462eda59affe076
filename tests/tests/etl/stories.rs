//! Stories of a fake logger, told again as text.

use std::path::PathBuf;
use syscollect_etl::Guid;
use syscollect_etl::session::{EtlError, Session};
use syscollect_model::{ClockSource, Symbol, SymbolFrame, SymbolTable};
use syscollect_playback::Recording;
use syscollect_tests::etl::{FakeTrace, event, perf_info, system};
use syscollect_tests::golden;

const THREAD: u8 = 0x05;
const PROCESS: u8 = 0x03;
const IMAGE: u8 = 0x14;
const PERF_INFO: u8 = 0x0f;
const STACK: u8 = 0x18;
const DISK: u8 = 0x01;
const PAGE_FAULT: u8 = 0x02;
const FILE: u8 = 0x04;
const APP: u64 = 0x7ff6_0000_0000;
const DRIVER: u64 = 0xffff_f800_1000_0000;
/// Memory in which .NET puts code.
const COMPILED: u64 = 0x7ff8_0000_1000;
const RUNTIME: u128 = 0xe13c0d23_ccbc_4e12_931b_d9cc2eee27e4;
const RUNDOWN: u128 = 0xa669021c_c450_4609_a035_5af59af4df18;

/// A logger that speaks of microseconds.
struct Logger(FakeTrace);

impl Logger {
    fn new(cpus: u32) -> Self {
        let mut trace = FakeTrace::new(cpus);
        // Started ten seconds before the recording, which came to its end.
        trace.header[0xf8..0x100]
            .copy_from_slice(&(FakeTrace::START_TIME - 100_000_000).to_le_bytes());
        trace.header[0x10..0x18]
            .copy_from_slice(&(FakeTrace::START_TIME + 100_000_000).to_le_bytes());
        Self(trace)
    }

    /// A record of the kernel's shortest kind.
    fn perf_info(&mut self, cpu: u16, us: u64, kind: (u8, u8), version: u16, payload: &[u8]) {
        self.0.record(cpu, &perf_info(ticks(us), kind.0, kind.1, version, payload));
    }

    fn system(&mut self, cpu: u16, us: u64, kind: (u8, u8), version: u16, payload: &[u8]) {
        self.0.record(cpu, &system(ticks(us), (100, 101), kind, version, payload));
    }

    fn process(&mut self, us: u64, opcode: u8, pid: u32, name: &str, command: &str) {
        let mut payload =
            [&[0; 8][..], &[pid, 4, 0, 0].map(u32::to_le_bytes).concat(), &[0; 16]].concat();
        payload.extend(name.bytes().chain([0]));
        payload.extend(utf16(command));
        self.system(0, us, (PROCESS, opcode), 4, &payload);
    }

    fn thread(&mut self, us: u64, opcode: u8, (pid, tid): (u32, u32), name: &str) {
        let payload =
            [[pid, tid].map(u32::to_le_bytes).concat(), vec![0; 64], utf16(name)].concat();
        self.system(0, us, (THREAD, opcode), 3, &payload);
    }

    fn image(&mut self, us: u64, opcode: u8, pid: u32, (base, size): (u64, u64), path: &str) {
        let mut payload = [base, size].map(u64::to_le_bytes).concat();
        payload.extend([pid, 0, 0x5f00_0000, 0].map(u32::to_le_bytes).concat());
        payload.extend([0; 24]);
        payload.extend(utf16(path));
        self.system(0, us, (IMAGE, opcode), 3, &payload);
    }

    /// A switch from a thread in a state, for a reason, to another.
    fn switch(&mut self, cpu: u16, us: u64, old: u32, (state, reason): (u8, u8), new: u32) {
        let mut payload = [new, old].map(u32::to_le_bytes).concat();
        payload.extend([8, 9, 0, 0, reason, 1, state, 0]);
        payload.extend([0; 8]);
        self.perf_info(cpu, us, (THREAD, 36), 3, &payload);
    }

    fn stack(&mut self, cpu: u16, us: u64, event_us: u64, (pid, tid): (u32, u32), frames: &[u64]) {
        let mut payload = ticks(event_us).to_le_bytes().to_vec();
        payload.extend([pid, tid].map(u32::to_le_bytes).concat());
        payload.extend(frames.iter().flat_map(|frame| frame.to_le_bytes()));
        self.perf_info(cpu, us, (STACK, 32), 2, &payload);
    }

    fn sample(&mut self, cpu: u16, us: u64, tid: u32, address: u64) {
        let payload = [&address.to_le_bytes()[..], &tid.to_le_bytes(), &[1, 0, 0, 0]].concat();
        self.perf_info(cpu, us, (PERF_INFO, 46), 2, &payload);
    }

    /// .NET's runtime tells of a method, as it is compiled or in a rundown.
    fn method(
        &mut self,
        us: u64,
        pid: u32,
        (provider, id): (u128, u16),
        (start, size): (u64, u32),
        name: [&str; 2],
    ) {
        let mut payload = [start ^ 0x55, 0x77, start].map(u64::to_le_bytes).concat();
        payload.extend([size, 0x0600_0001, 0].map(u32::to_le_bytes).concat());
        name.into_iter().chain(["void ()"]).for_each(|text| payload.extend(utf16(text)));
        payload.extend(9_u16.to_le_bytes());
        self.0.record(
            0,
            &event(ticks(us), (pid, pid + 1), Guid::from_u128(provider).0, (id, 37), &payload),
        );
    }

    /// Two processes that were there; an image and a driver.
    fn with_app(mut self) -> Self {
        self.process(1, 3, 100, "app.exe", "app.exe --fast");
        self.thread(2, 3, (100, 101), "");
        self.thread(2, 3, (100, 102), "worker");
        self.image(3, 3, 100, (APP, 0x10000), "\\app.exe");
        self.image(3, 3, 0, (DRIVER, 0x10000), "\\SystemRoot\\driver.sys");
        self
    }

    fn open(self) -> Session {
        Session::from_bytes(vec![self.0.finish()]).unwrap()
    }
}

fn ticks(us: u64) -> u64 {
    FakeTrace::START + us * 10
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
}

#[test]
fn a_thread_waits_and_the_stack_that_it_comes_back_with_is_the_one_it_left_with() {
    let mut logger = Logger::new(2).with_app();
    logger.switch(0, 10, 0, (2, 0), 101);
    logger.switch(1, 11, 0, (2, 0), 102);
    logger.switch(0, 20, 101, (5, 6), 0);
    let mut ready = 101_u32.to_le_bytes().to_vec();
    ready.extend([0, 0, 1, 0]);
    logger.perf_info(1, 30, (THREAD, 50), 2, &ready);
    logger.stack(1, 31, 30, (100, 102), &[DRIVER + 0x500, DRIVER + 0x600]);
    logger.switch(0, 40, 0, (2, 0), 101);
    logger.stack(0, 41, 40, (100, 101), &[DRIVER + 0x100, DRIVER + 0x205]);
    logger.switch(1, 42, 102, (1, 32), 0);
    // The program's part comes when the thread returns to it.
    logger.stack(0, 45, 40, (100, 101), &[APP + 0x1000, APP + 0x2001]);
    let mut session = logger.open();
    let symbol = |offset, name: &str| Symbol {
        offset,
        frames: vec![SymbolFrame { function: name.into(), ..SymbolFrame::default() }],
        ..Symbol::default()
    };
    let unresolved = session.unresolved();
    let told: Vec<_> =
        unresolved.iter().map(|module| (module.kernel, module.offsets.as_slice())).collect();
    assert_eq!(told, [(true, &[0x100, 0x204, 0x500, 0x5ff][..]), (false, &[0x1000, 0x2000])]);
    let tables = unresolved.iter().map(|module| SymbolTable {
        path: module.path.clone(),
        build_id: module.build_id.clone(),
        symbols: module
            .offsets
            .iter()
            .map(|offset| symbol(*offset, &format!("f{offset:x}")))
            .collect(),
        ..SymbolTable::default()
    });
    session.add_symbols(tables.collect());
    golden::check("etl_wait", &mut session);
    let modules = &session.tables().modules;
    assert_eq!(modules.iter().filter(|module| module.kernel).count(), 1);
}

#[test]
fn a_wait_longer_than_events_are_held_has_its_stack_and_one_that_began_before_shows_it_where_it_ends()
 {
    let mut logger = Logger::new(1).with_app();
    logger.switch(0, 10, 0, (2, 0), 101);
    logger.switch(0, 20, 101, (5, 15), 0);
    logger.switch(0, 900_020, 0, (2, 0), 101);
    logger.stack(0, 900_021, 900_020, (100, 101), &[DRIVER + 0x100, DRIVER + 0x200]);
    logger.switch(0, 900_030, 101, (5, 15), 102);
    logger.stack(0, 900_031, 900_030, (100, 102), &[DRIVER + 0x300, DRIVER + 0x400]);
    let mut session = logger.open();
    golden::check("etl_long_wait", &mut session);
    assert_eq!((session.facts().stacks.records, session.facts().stacks.matched), (2, 2));
}

#[test]
fn processes_begin_and_end_and_their_ids_are_used_again() {
    let mut logger = Logger::new(1).with_app();
    logger.process(10, 1, 200, "child.exe", "child.exe one");
    logger.thread(11, 1, (200, 201), "");
    logger.switch(0, 12, 0, (2, 0), 201);
    let rename = [[200_u32, 201].map(u32::to_le_bytes).concat(), utf16("busy")].concat();
    logger.system(0, 13, (THREAD, 72), 2, &rename);
    logger.thread(20, 2, (200, 201), "");
    logger.switch(0, 21, 201, (4, 22), 0);
    logger.process(22, 2, 200, "child.exe", "");
    logger.process(30, 1, 200, "again.exe", "");
    logger.thread(31, 1, (200, 201), "");
    logger.switch(0, 32, 0, (2, 0), 201);
    // Nobody ever said what 999 is.
    logger.switch(0, 40, 201, (5, 0), 999);
    golden::check("etl_lives", &mut logger.open());
}

#[test]
fn what_takes_time_is_told_at_its_end_and_shown_from_its_beginning() {
    let mut logger = Logger::new(1).with_app();
    let routine = |start_us: u64, offset: u64| {
        [ticks(start_us), DRIVER + offset].map(u64::to_le_bytes).concat()
    };
    logger.switch(0, 10, 0, (2, 0), 101);
    // An interrupt within a DPC, and another DPC right behind it.
    logger.perf_info(
        0,
        22,
        (PERF_INFO, 67),
        2,
        &[routine(21, 0x700), vec![1, 0x51, 0, 0]].concat(),
    );
    logger.perf_info(0, 25, (PERF_INFO, 68), 2, &routine(20, 0x800));
    logger.perf_info(0, 26, (PERF_INFO, 68), 2, &routine(25, 0x900));
    // Two reads of one disk at once, one of a file whose name is told at the end.
    let read = |file: u64, us: u64| {
        let mut payload = [0_u32, 0, 4096, 0].map(u32::to_le_bytes).concat();
        payload.extend([0x8000, file, 0xabc, us * 10].map(u64::to_le_bytes).concat());
        payload.extend(101_u32.to_le_bytes());
        payload
    };
    logger.perf_info(0, 60, (DISK, 10), 3, &read(0x77, 25));
    logger.perf_info(0, 62, (DISK, 10), 3, &read(0x78, 30));
    let mut fault = [ticks(70), 0x3000, APP + 0x4000, 0x77].map(u64::to_le_bytes).concat();
    fault.extend([101_u32, 4096].map(u32::to_le_bytes).concat());
    logger.perf_info(0, 80, (PAGE_FAULT, 32), 2, &fault);
    logger.system(
        0,
        90,
        (FILE, 36),
        2,
        &[0x77_u64.to_le_bytes().to_vec(), utf16("\\data.bin")].concat(),
    );
    logger.sample(0, 95, 101, APP + 0x1234);
    golden::check("etl_intervals", &mut logger.open());
}

#[test]
fn a_method_that_was_compiled_as_the_program_ran_has_its_name() {
    let mut logger = Logger::new(1).with_app();
    logger.process(4, 3, 200, "other.exe", "");
    logger.thread(5, 3, (200, 201), "");
    logger.method(10, 100, (RUNTIME, 143), (COMPILED, 0x100), ["App.Shop", "Buy"]);
    logger.sample(0, 20, 101, COMPILED + 0x10);
    logger.stack(
        0,
        21,
        20,
        (100, 101),
        &[COMPILED + 0x10, COMPILED + 0x801, APP + 0x1001, COMPILED + 0x9000],
    );
    // The same address of another process, and of the same process later.
    logger.sample(0, 30, 201, COMPILED + 0x10);
    logger.method(40, 100, (RUNTIME, 143), (COMPILED, 0x40), ["", "Generated"]);
    logger.sample(0, 50, 101, COMPILED + 0x10);
    logger.sample(0, 60, 101, COMPILED + 0x40);
    // What was there before the recording is told at its end.
    logger.method(90, 100, (RUNDOWN, 144), (COMPILED + 0x800, 1), ["App", "Main"]);
    logger.method(91, 200, (RUNDOWN, 143), (COMPILED, 0x100), ["Other", "Run"]);
    let mut session = logger.open();
    let (text, _) = golden::text(&mut session);
    let samples: Vec<_> =
        text.lines().filter_map(|line| Some(line.split_once(" sample ")?.1)).collect();
    let unknown = format!("{:#x}", COMPILED + 0x40);
    let expected = [
        format!(
            "app.exe/101 (user) | App.Shop.Buy < App.Main < \\\\app.exe+0x1000 < {:#x}",
            COMPILED + 0x8fff
        ),
        "other.exe/201 (user) | Other.Run".to_owned(),
        "app.exe/101 (user) | Generated".to_owned(),
        format!("app.exe/101 (user) | {unknown}"),
    ];
    assert_eq!(samples, expected, "{text}");
    let unresolved: Vec<_> = session.unresolved().into_iter().map(|module| module.path).collect();
    assert_eq!(unresolved, ["\\app.exe"], "what has its name from the trace needs none");
    let methods = session
        .tables()
        .modules
        .iter()
        .filter(|m| session.tables().strings.get(m.path) == "[.NET]");
    assert_eq!(methods.count(), 1);
}

#[test]
fn what_the_logger_lost_is_lost() {
    let mut logger = Logger::new(1).with_app();
    logger.0.header[0x30..0x34].copy_from_slice(&12_u32.to_le_bytes());
    logger.0.header[0x114..0x118].copy_from_slice(&3_u32.to_le_bytes());
    // A switch too short for what it should say.
    logger.perf_info(0, 10, (THREAD, 36), 3, &[0; 8]);
    let mut session = logger.open();
    let (_, played) = golden::text(&mut session);
    let losses: Vec<_> = session
        .losses()
        .iter()
        .map(|loss| (loss.origin.name(), loss.cause.name(), loss.count))
        .collect();
    let expected =
        [("events", "lane-full", 12), ("buffers", "buffer-full", 3), ("events", "undecodable", 1)];
    assert_eq!(losses, expected);
    assert_eq!(played.lost, 16);
    assert!(session.is_complete());
}

#[test]
fn a_logger_that_was_cut_off_lost_at_least_what_its_buffers_say() {
    let mut logger = Logger::new(1).with_app();
    logger.0.header[0x10..0x18].fill(0);
    logger.0.flush(0);
    logger.0.flags = 2;
    logger.switch(0, 10, 0, (2, 0), 101);
    let mut session = logger.open();
    let (_, played) = golden::text(&mut session);
    assert_eq!((played.lost, session.is_complete()), (1, false));
    assert!(session.info().notes.iter().any(|note| note.contains("cut off")));
}

#[test]
fn a_trace_says_what_it_is() {
    let mut logger = Logger::new(2).with_app();
    logger.perf_info(
        0,
        5,
        (PERF_INFO, 73),
        3,
        &[0_u32, 10_000, 10_000].map(u32::to_le_bytes).concat(),
    );
    let session = logger.open();
    let facts = session.facts();
    assert_eq!(
        (facts.windows.as_str(), facts.cpus, facts.ticks_per_second),
        ("Windows 10.0.19041", 2, 10_000_000)
    );
    assert_eq!(facts.sessions, ["fake"]);
    assert_eq!(session.info().sample_rate_hz, 1000);
    let named: Vec<_> =
        facts.events.iter().map(|event| format!("{}/{:?}", event.provider, event.name)).collect();
    assert!(named.contains(&"Thread/Some(\"DCStart\")".to_owned()), "{named:?}");
    let boottime = session.clock().pairs()[0].boottime;
    assert_eq!(boottime, 10_000_000_000, "ten seconds after the start of the machine");
    let realtime = session.clock().pairs()[0].realtime;
    assert_eq!(realtime, (FakeTrace::START_TIME - 116_444_736_000_000_000) * 100);
}

#[test]
fn a_trace_says_what_its_time_stamps_count() {
    let source = |kind: u8| {
        let mut logger = Logger::new(1);
        logger.0.header[0x110] = kind;
        logger.open().info().clock_source
    };
    assert_eq!(
        [1, 2, 3].map(source),
        [ClockSource::Qpc, ClockSource::SystemTime, ClockSource::Tsc]
    );
}

#[test]
fn files_of_one_recording_are_one_story() {
    let mut kernel = Logger::new(1).with_app();
    kernel.switch(0, 10, 0, (2, 0), 101);
    kernel.switch(0, 30, 101, (5, 6), 0);
    let mut user = Logger::new(1);
    user.0.record(0, &event(ticks(20), (100, 101), [7; 16], (3, 0), &[]));
    user.0.record(0, &event(ticks(40), (100, 102), [7; 16], (4, 0), &[]));
    let files = vec![kernel.0.finish(), user.0.finish()];
    let mut session = Session::from_bytes(files).unwrap();
    golden::check("etl_two_files", &mut session);
    assert_eq!(session.facts().sessions, ["fake", "fake"]);
}

#[test]
fn a_file_that_is_no_trace_says_so() {
    let error =
        Session::from_bytes(vec![b"not a trace".to_vec()]).err().map(|error| error.to_string());
    assert!(error.is_some_and(|text| text.contains("not an event trace log")));
    let missing = Session::open(&[PathBuf::from("/nowhere/at-all.etl")]);
    assert!(matches!(missing, Err(EtlError::File(_))));
}
