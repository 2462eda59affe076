//! Definitions: long ones, later ones, and files that cannot be opened.

mod scenario;

use scenario::Scenario;
use std::io::{Seek, SeekFrom};
use std::path::Path;
use syscollect_model::{SessionInfo, Symbol, SymbolFrame, SymbolTable};
use syscollect_store::{
    CaptureReader, CaptureWriter, Definition, KnownProcess, KnownThread, MAX_CHUNK, StoreError,
};

fn symbols(count: u64) -> SymbolTable {
    SymbolTable {
        path: "/usr/bin/large".into(),
        symbols: (0..count)
            .map(|offset| {
                let frame = SymbolFrame {
                    function: format!("function_{offset:060}"),
                    ..Default::default()
                };
                Symbol { offset, frames: vec![frame], ..Default::default() }
            })
            .collect(),
        ..Default::default()
    }
}

#[test]
fn a_table_longer_than_a_chunk_is_divided_and_adds_up() {
    let table = symbols(60_000);
    assert!(serde_json::to_vec(&table).unwrap().len() > MAX_CHUNK);
    let mut writer = CaptureWriter::create(Vec::new()).unwrap();
    writer.define(&Definition::Symbols(table.clone())).unwrap();
    let reader = CaptureReader::from_bytes(writer.finish().unwrap()).unwrap();
    let mut read = SymbolTable { path: table.path.clone(), ..Default::default() };
    for definition in reader.definitions() {
        let Definition::Symbols(part) = definition.unwrap() else {
            panic!("only symbols were written")
        };
        assert_eq!(part.path, table.path);
        read.symbols.extend(part.symbols);
    }
    assert_eq!(read, table);
}

#[test]
fn processes_with_long_command_lines_and_one_with_many_threads_are_divided_and_add_up() {
    // A control character takes six bytes as text.
    let line = "\u{1}".repeat(4096);
    let started =
        |pid| KnownProcess { pid, command_line: vec![line.clone()], ..KnownProcess::default() };
    let threads: Vec<_> = (1000..40_000).map(thread).collect();
    let pool = KnownProcess { pid: 1000, threads: threads.clone(), ..KnownProcess::default() };
    let all = (1..256).map(started).chain([pool]).collect();
    let chunks = Definition::Processes(all).chunks();
    assert!(chunks.len() > 1 && chunks.iter().all(|chunk| chunk.data.len() <= MAX_CHUNK / 4));
    let mut writer = CaptureWriter::create(Vec::new()).unwrap();
    chunks.iter().for_each(|chunk| writer.write(chunk).unwrap());
    let reader = CaptureReader::from_bytes(writer.finish().unwrap()).unwrap();
    let read: Vec<KnownProcess> = reader
        .definitions()
        .filter_map(|definition| match definition.unwrap() {
            Definition::Processes(some) => Some(some),
            _ => None,
        })
        .flatten()
        .collect();
    let lines = read.iter().filter(|process| process.command_line == [line.clone()]);
    assert_eq!(lines.map(|process| process.pid).collect::<Vec<_>>(), Vec::from_iter(1..256));
    let parts = read.iter().filter(|process| process.pid == 1000);
    assert_eq!(parts.flat_map(|part| part.threads.clone()).collect::<Vec<_>>(), threads);
}

fn thread(tid: u32) -> KnownThread {
    KnownThread { tid, name: "\u{1}".repeat(15), ..KnownThread::default() }
}

#[test]
fn what_cannot_be_divided_is_refused_and_writing_goes_on() {
    let mut writer = CaptureWriter::create(Vec::new()).unwrap();
    let info = SessionInfo { hostname: "x".repeat(MAX_CHUNK), ..Default::default() };
    let error = writer.define(&Definition::Session(Box::new(info))).unwrap_err();
    assert!(matches!(error, StoreError::ChunkTooLarge { .. }), "{error}");
    writer.define(&Definition::Losses(Vec::new())).unwrap();
    let reader = CaptureReader::from_bytes(writer.finish().unwrap()).unwrap();
    let read: Vec<_> = reader.definitions().map(Result::unwrap).collect();
    assert_eq!(read, [Definition::Losses(Vec::new())]);
}

#[test]
fn names_are_added_to_what_a_killed_recorder_left() {
    let scenario = Scenario::small();
    let mut file = tempfile::tempfile().unwrap();
    // Cut within the last chunk of samples: what follows never reached the disk.
    let killed = scenario.ends[scenario.ends.len() - 2].1 + 100;
    std::io::Write::write_all(&mut file, &scenario.file[..killed as usize]).unwrap();
    let reader = CaptureReader::from_file(file.try_clone().unwrap()).unwrap();
    assert!(!reader.is_complete());
    file.set_len(reader.valid_length()).unwrap();
    file.seek(SeekFrom::End(0)).unwrap();
    let mut writer = CaptureWriter::append(file, reader.next_definition_sequence());
    writer.define(&Definition::Symbols(symbols(3))).unwrap();
    let reader = CaptureReader::from_file(writer.finish().unwrap()).unwrap();
    assert_eq!(reader.damage(), []);
    let expected = [scenario.definitions[0].clone(), Definition::Symbols(symbols(3))];
    assert_eq!(Scenario::read_definitions(&reader), expected);
    let there: usize = scenario.lanes().iter().map(|lane| reader.chunks(*lane).len()).sum();
    assert_eq!(there, scenario.ends.len() - 1, "all whole chunks are still there");
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let missing = CaptureReader::open(Path::new("no/such.syscap")).unwrap_err().to_string();
    assert!(missing.starts_with("cannot open the capture no/such.syscap: "), "{missing}");
    let folder = tempfile::tempdir().unwrap();
    let error = CaptureReader::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains(&folder.path().display().to_string()), "{error}");
    let empty = folder.path().join("empty.syscap");
    std::fs::write(&empty, b"").unwrap();
    let error = CaptureReader::open(&empty).unwrap_err().to_string();
    assert!(error.contains("empty.syscap is not a syscollect capture: it is empty"), "{error}");
}
