//! Scenarios of a fake logger, told again as text.

use std::path::PathBuf;
use syscollect_etl::Guid;
use syscollect_etl::session::{EtlError, Session};
use syscollect_model::{ClockSource, ModuleKind, Symbol, SymbolFrame, SymbolTable};
use syscollect_playback::Recording;
use syscollect_tests::etl::group::{PERF_INFO, THREAD};
use syscollect_tests::etl::{FakeTrace, Logger, Payload, event, ticks};
use syscollect_tests::golden;

const APP: u64 = 0x7ff6_0000_0000;
const DRIVER: u64 = 0xffff_f800_1000_0000;
/// Memory in which .NET puts code.
const COMPILED: u64 = 0x7ff8_0000_1000;
const RUNTIME: [u8; 16] = Guid::from_u128(0xe13c0d23_ccbc_4e12_931b_d9cc2eee27e4).0;
const RUNDOWN: [u8; 16] = Guid::from_u128(0xa669021c_c450_4609_a035_5af59af4df18).0;

/// Two processes that were there; an image and a driver.
fn with_app(cpus: u32) -> Logger {
    let mut logger = Logger::new(cpus);
    logger.process(1, 3, 100, "app.exe", "app.exe --fast");
    logger.thread(2, 3, (100, 101), "");
    logger.thread(2, 3, (100, 102), "worker");
    logger.image(3, 3, 100, (APP, 0x10000), "\\app.exe");
    logger.image(3, 3, 0, (DRIVER, 0x10000), "\\SystemRoot\\driver.sys");
    logger
}

fn open(logger: Logger) -> Session {
    Session::from_bytes(vec![logger.trace.finish()]).unwrap()
}

fn utf16(text: &str) -> Vec<u8> {
    Payload::default().utf16(text).bytes
}

#[test]
fn a_thread_waits_and_the_stack_that_it_comes_back_with_is_the_one_it_left_with() {
    let mut logger = with_app(2);
    logger.switch(0, 10, 0, (2, 0), 101);
    logger.switch(1, 11, 0, (2, 0), 102);
    logger.switch(0, 20, 101, (5, 6), 0);
    logger.ready(1, 30, 101);
    logger.stack(1, 31, 30, (100, 102), &[DRIVER + 0x500, DRIVER + 0x600]);
    logger.switch(0, 40, 0, (2, 0), 101);
    logger.stack(0, 41, 40, (100, 101), &[DRIVER + 0x100, DRIVER + 0x205]);
    logger.switch(1, 42, 102, (1, 32), 0);
    // The program's part comes when the thread returns to it.
    logger.stack(0, 45, 40, (100, 101), &[APP + 0x1000, APP + 0x2001]);
    let mut session = open(logger);
    let unresolved = session.unresolved();
    let reported: Vec<_> =
        unresolved.iter().map(|module| (module.kernel, module.offsets.as_slice())).collect();
    assert_eq!(reported, [(true, &[0x100, 0x204, 0x500, 0x5ff][..]), (false, &[0x1000, 0x2000])]);
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
    assert_eq!(modules.iter().filter(|module| module.kind.is_kernel()).count(), 1);
}

fn symbol(offset: u64, name: &str) -> Symbol {
    Symbol {
        offset,
        frames: vec![SymbolFrame { function: name.into(), ..SymbolFrame::default() }],
        ..Symbol::default()
    }
}

#[test]
fn a_wait_longer_than_events_are_held_has_its_stack_and_one_that_began_before_shows_it_where_it_ends()
 {
    let mut logger = with_app(1);
    logger.switch(0, 10, 0, (2, 0), 101);
    logger.switch(0, 20, 101, (5, 15), 0);
    logger.switch(0, 900_020, 0, (2, 0), 101);
    logger.stack(0, 900_021, 900_020, (100, 101), &[DRIVER + 0x100, DRIVER + 0x200]);
    logger.switch(0, 900_030, 101, (5, 15), 102);
    logger.stack(0, 900_031, 900_030, (100, 102), &[DRIVER + 0x300, DRIVER + 0x400]);
    let mut session = open(logger);
    golden::check("etl_long_wait", &mut session);
    assert_eq!((session.facts().stacks.records, session.facts().stacks.matched), (2, 2));
}

#[test]
fn processes_begin_and_end_and_their_ids_are_used_again() {
    let mut logger = with_app(1);
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
    golden::check("etl_lifetimes", &mut open(logger));
}

#[test]
fn what_takes_time_is_told_at_its_end_and_shown_from_its_beginning() {
    let mut logger = with_app(1);
    logger.switch(0, 10, 0, (2, 0), 101);
    // An interrupt within a DPC, and another DPC right behind it.
    logger.routine(22, 67, 21, DRIVER + 0x700);
    logger.routine(25, 68, 20, DRIVER + 0x800);
    logger.routine(26, 68, 25, DRIVER + 0x900);
    // Two reads of one disk at once, one of a file whose name is told at the end.
    logger.transfer(60, 10, 25, 0x77);
    logger.transfer(62, 10, 30, 0x78);
    logger.hard_fault(80, 70, APP + 0x4000, 0x77);
    logger.file_name(90, 36, 0x77, "\\data.bin");
    logger.sample(0, 95, 101, APP + 0x1234);
    golden::check("etl_intervals", &mut open(logger));
}

#[test]
fn a_method_that_was_compiled_as_the_program_ran_has_its_name() {
    let mut logger = with_app(1);
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
    let mut session = open(logger);
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
    let methods = session.tables().modules.iter().filter(|m| m.kind == ModuleKind::DotNet);
    assert_eq!(methods.count(), 1);
}

#[test]
fn what_the_logger_lost_is_lost() {
    let mut logger = with_app(1);
    logger.trace.header[0x30..0x34].copy_from_slice(&12_u32.to_le_bytes());
    logger.trace.header[0x114..0x118].copy_from_slice(&3_u32.to_le_bytes());
    // A switch too short for what it should say.
    logger.perf_info(0, 10, (THREAD, 36), 3, &[0; 8]);
    let mut session = open(logger);
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
    let mut logger = with_app(1);
    logger.trace.header[0x10..0x18].fill(0);
    logger.trace.flush(0);
    logger.trace.flags = 2;
    logger.switch(0, 10, 0, (2, 0), 101);
    let mut session = open(logger);
    let (_, played) = golden::text(&mut session);
    assert_eq!((played.lost, session.is_complete()), (1, false));
    assert!(session.info().notes.iter().any(|note| note.contains("cut off")));
}

#[test]
fn a_trace_says_what_it_is() {
    let mut logger = with_app(2);
    logger.perf_info(
        0,
        5,
        (PERF_INFO, 73),
        3,
        &[0_u32, 10_000, 10_000].map(u32::to_le_bytes).concat(),
    );
    let session = open(logger);
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
    assert_eq!(
        [1, 2, 3].map(clock_source),
        [ClockSource::Qpc, ClockSource::SystemTime, ClockSource::Tsc]
    );
}

fn clock_source(kind: u8) -> ClockSource {
    let mut logger = Logger::new(1);
    logger.trace.header[0x110] = kind;
    open(logger).info().clock_source
}

#[test]
fn files_of_one_recording_are_one_scenario() {
    let mut kernel = with_app(1);
    kernel.switch(0, 10, 0, (2, 0), 101);
    kernel.switch(0, 30, 101, (5, 6), 0);
    let mut user = Logger::new(1);
    user.trace.record(0, &event(ticks(20), (100, 101), [7; 16], (3, 0), &[]));
    user.trace.record(0, &event(ticks(40), (100, 102), [7; 16], (4, 0), &[]));
    let files = vec![kernel.trace.finish(), user.trace.finish()];
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
