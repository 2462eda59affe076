//! What is reported of files that are not whole, and of those that somebody else wrote anew.

use super::{etl, open};
use std::collections::BTreeMap;
use syscollect_etl::session::Session;
use syscollect_exporters::report::{ReportExporter, ReportOptions};
use syscollect_exporters::{FirefoxExporter, FirefoxOptions, TracyExporter};
use syscollect_playback::{EventType, Recording};
use syscollect_tests::etl::{FakeTrace, classic, event, perf_info, system, with_narrow_headers};
use syscollect_tests::shown::Profile;
use syscollect_tests::{golden, tracy_reader};

const BUFFER: usize = 4096;

/// Losses as people read them: `"3 buffers missing"`.
fn losses(session: &Session) -> Vec<String> {
    session
        .losses()
        .iter()
        .map(|loss| format!("{} {} {}", loss.count, loss.origin.name(), loss.cause.name()))
        .collect()
}

/// A logger that ended, of so many buffers.
fn logger(buffers: usize) -> FakeTrace {
    let mut trace = FakeTrace::new(1);
    trace.header[0x10..0x18].copy_from_slice(&(FakeTrace::START_TIME + 1).to_le_bytes());
    for number in 1..buffers as u64 {
        trace.record(0, &event(FakeTrace::START + number, (100, 101), [7; 16], (3, 0), &[]));
        trace.flush(0);
    }
    trace
}

/// Opens and plays a file, whose losses are the same before and after.
fn opened(bytes: Vec<u8>) -> (Session, Vec<String>) {
    let mut session = Session::from_bytes(vec![bytes]).unwrap();
    let before = losses(&session);
    let (_, played) = golden::text(&mut session);
    assert_eq!(losses(&session), before);
    assert_eq!(played.lost, session.losses().iter().map(|loss| loss.count).sum::<u64>());
    (session, before)
}

#[test]
fn a_file_that_ends_early_is_not_complete_and_says_what_is_missing() {
    let whole = logger(9).finish();
    let (session, lost) = opened(whole.clone());
    assert_eq!((lost, session.is_complete()), (vec![], true));
    let (session, lost) = opened(whole[..4 * BUFFER].to_vec());
    assert_eq!((lost, session.is_complete()), (vec!["5 buffers missing".to_owned()], false));
    let note = session.info().notes.last().unwrap();
    assert!(note.contains("it has 4 of 9 buffers"), "{note}");
}

#[test]
fn zeros_in_the_middle_of_a_file_are_a_loss_though_its_end_is_there() {
    let mut holed = logger(9).finish();
    holed[3 * BUFFER..5 * BUFFER].fill(0);
    let (session, lost) = opened(holed);
    assert_eq!((lost, session.is_complete()), (vec!["2 buffers missing".to_owned()], false));
}

#[test]
fn a_file_of_a_logger_that_runs_is_cut_off_and_not_damaged() {
    let mut running = logger(9);
    running.buffers_written = Some(0);
    running.header[0x10..0x18].fill(0);
    let mut bytes = running.finish();
    // The number of the last: two before it are still in the logger's memory.
    bytes[8 * BUFFER + 0x18] = 10;
    let (session, lost) = opened(bytes);
    assert_eq!((lost, session.is_complete()), (vec!["2 buffers not-written".to_owned()], false));
    assert!(
        session.info().notes.iter().any(|note| note.contains("went on when the file was copied"))
    );
}

#[syscollect_fixtures::test]
fn every_fixture_is_whole() {
    for (name, _) in etl::FIXTURES {
        let session = open(name);
        let lost = losses(&session);
        let expected: &[&str] = if name == etl::SYNTHETIC { &["7 events lane-full"] } else { &[] };
        assert_eq!(
            (lost.as_slice(), session.is_complete()),
            (&expected.iter().map(|loss| (*loss).to_owned()).collect::<Vec<_>>()[..], true),
            "{name}"
        );
    }
}

#[syscollect_fixtures::test]
fn a_trace_that_a_32_bit_program_merged_says_what_it_said_before() {
    for name in [etl::SYNTHETIC, etl::AIRBUS, etl::TRACELOGGING, etl::GPUVIS] {
        let bytes = etl::fixture(name);
        let (expected, events, notes) = text(bytes.clone());
        let (reported, narrow_events, narrow_notes) = text(with_narrow_headers(&bytes));
        assert_eq!(narrow_events, events, "{name}");
        let other = reported
            .lines()
            .zip(expected.lines())
            .find(|(reported, expected)| reported != expected);
        assert_eq!(other, None, "{name}");
        assert_eq!(reported.lines().count(), expected.lines().count(), "{name}");
        let added: Vec<_> = narrow_notes.iter().filter(|note| !notes.contains(note)).collect();
        let is_told =
            added.iter().any(|note| note.contains("64-bit payloads behind 32-bit headers"));
        assert!(is_told || name == etl::TRACELOGGING, "{name}: {added:?}");
    }
}

fn text(bytes: Vec<u8>) -> (String, BTreeMap<EventType, u64>, Vec<String>) {
    let mut session = Session::from_bytes(vec![bytes]).unwrap();
    let (text, played) = golden::text(&mut session);
    (text, played.events_by_type, session.info().notes.clone())
}

/// UTF-16 with its final zero.
fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
}

/// The payload of a process, as the kernel tells it of 64 bits.
fn process(pid: u32, parent: u32, name: &str, command: &str) -> Vec<u8> {
    let key = 0xffff_c38a_8687_6040_u64.to_le_bytes();
    let ids = [pid, parent, 0, 0].map(u32::to_le_bytes).concat();
    [&key[..], &ids, &[0; 16], name.as_bytes(), &[0], &utf16(command)].concat()
}

/// A kernel trace of processes alone: three that were there, of which one ends, and one that begins
/// and ends.
fn processes() -> FakeTrace {
    let mut trace = FakeTrace::new(1);
    trace.header[0x10..0x18].copy_from_slice(&(FakeTrace::START_TIME + 1).to_le_bytes());
    for (time, opcode, pid, name, command) in [
        (1, 3, 100, "shell.exe", "shell.exe"),
        (2, 3, 200, "service.exe", "service.exe -k"),
        (3, 3, 300, "idler.exe", ""),
        (10, 1, 400, "short.exe", "short.exe /now"),
        (20, 2, 400, "short.exe", ""),
        (30, 2, 200, "service.exe", ""),
    ] {
        let payload = process(pid, 4, name, command);
        trace.record(
            0,
            &system(FakeTrace::START + time * 10, (u32::MAX, u32::MAX), (3, opcode), 4, &payload),
        );
    }
    // Of one a thread is told.
    let thread = [[100_u32, 101].map(u32::to_le_bytes).concat(), vec![0; 64], utf16("")].concat();
    trace.record(0, &system(FakeTrace::START + 15, (100, 101), (5, 3), 3, &thread));
    trace.record(
        0,
        &perf_info(
            FakeTrace::START + 400,
            0x0f,
            46,
            2,
            &[&[0; 8][..], &[101, 0, 0, 0, 1, 0, 0, 0]].concat(),
        ),
    );
    trace
}

#[test]
fn a_process_of_whose_threads_nothing_is_told_is_there_all_the_same() {
    let mut session = Session::from_bytes(vec![processes().finish()]).unwrap();
    golden::check("etl_processes", &mut session);
    let (_, played) = golden::text(&mut session);
    assert_eq!(
        (played.events_by_type["process-start"], played.events_by_type["process-end"]),
        (1, 2)
    );
    assert!(
        !played.events_by_type.contains_key("thread-start"),
        "what stands for a thread is no occurrence"
    );
    let tables = session.tables();
    let alone = tables
        .processes
        .iter()
        .zip(0..)
        .skip(1)
        .filter(|(_, id)| !tables.threads.iter().any(|thread| thread.process.0 == *id));
    assert_eq!(alone.count(), 0, "every process has a row to be shown by");
}

#[test]
fn viewers_and_the_report_show_a_process_of_whose_threads_nothing_is_told() {
    let mut session = Session::from_bytes(vec![processes().finish()]).unwrap();
    let reported = ["service.exe", "idler.exe", "short.exe", "shell.exe"];
    let mut firefox = FirefoxExporter::new(Vec::new(), FirefoxOptions::default());
    session.play(&mut firefox).unwrap();
    let profile = Profile::read(&firefox.finish().unwrap()).unwrap();
    let in_firefox: Vec<&str> =
        profile.threads().iter().filter_map(|thread| thread["processName"].as_str()).collect();
    let mut tracy = TracyExporter::new(Vec::new());
    session.play(&mut tracy).unwrap();
    let tracy = tracy_reader::read(&tracy.finish().unwrap()).unwrap();
    let mut report = ReportExporter::new(ReportOptions::default());
    session.play(&mut report).unwrap();
    let report = report.finish();
    for name in reported {
        assert!(in_firefox.contains(&name), "{name} in {in_firefox:?}");
        let in_tracy = tracy.thread_names.values().any(|own| own.contains(name));
        assert!(in_tracy, "{name} in Tracy: {:?}", tracy.thread_names);
        assert!(report.processes.rows.iter().any(|row| row.name == name), "{name} in the report");
    }
    assert_eq!(report.processes.total, reported.len());
}

#[test]
fn a_classic_event_of_a_32_bit_merger_names_its_image() {
    let mut trace = FakeTrace::new(1);
    let (base, pid) = (0x7ff6_0000_0000_u64, 100_u32);
    let mut image = [base, 0x1_0000].map(u64::to_le_bytes).concat();
    image.extend([pid, 0, 0x5f00_0000, 0].map(u32::to_le_bytes).concat());
    image.extend([&[0; 24][..], &utf16("\\app.exe")].concat());
    let mut identity = base.to_le_bytes().to_vec();
    identity
        .extend([&pid.to_le_bytes()[..], &[0xab; 16], &2_u32.to_le_bytes(), b"app.pdb\0"].concat());
    let id = syscollect_etl::payload::IMAGE_ID.0;
    let sample = [&(base + 0x1234).to_le_bytes()[..], &[101, 0, 0, 0, 1, 0, 0, 0]].concat();
    for (header, mut record) in [
        (1, system(FakeTrace::START + 10, (pid, 101), (0x14, 3), 3, &image)),
        (10, classic(FakeTrace::START + 11, (pid, 101), id, (36, 2), &identity)),
        (16, perf_info(FakeTrace::START + 20, 0x0f, 46, 2, &sample)),
    ] {
        record[2] = header;
        trace.record(0, &record);
    }
    let session = Session::from_bytes(vec![trace.finish()]).unwrap();
    let unresolved = session.unresolved();
    let [module] = &unresolved[..] else { panic!("{unresolved:?}") };
    assert_eq!((module.path.as_str(), &module.offsets[..]), ("\\app.exe", &[0x1234][..]));
    let pdb = module.windows.as_ref().and_then(|windows| windows.pdb.as_ref()).unwrap();
    assert_eq!((pdb.name.as_str(), pdb.age), ("app.pdb", 2));
}
