//! A Windows trace and a symbol file of one of its modules, told as a folded stack: what a trace
//! says of an image has to lead to that image's names.

use std::fs;
use std::path::Path;
use syscollect_etl::session::Session;
use syscollect_exporters::{FoldedExporter, StackOptions};
use syscollect_fixtures::pdb::{Function, Line, POINTER, SymbolFile, UNSIGNED_LONG};
use syscollect_playback::Recording;
use syscollect_symbolize::windows::{
    ImageRequest, Options, PdbIdentity, SymbolPath, SymbolSource, WindowsSymbolizer,
};
use syscollect_tests::etl::{FakeTrace, classic, perf_info, system};

const PID: u32 = 100;
const TID: u32 = 101;
const BASE: u64 = 0x7ff6_0000_0000;
const IMAGE_ID: [u8; 16] = [
    0xd7, 0x75, 0xe6, 0xb3, 0x54, 0x25, 0x18, 0x4f, 0x83, 0x0b, 0x27, 0x62, 0x73, 0x25, 0x60, 0xde,
];
/// The library's PDB: 988a0d29-3b0e-42e4-8a13-9ddd7f0f2bc1, age 1.
const GUID: [u8; 16] = [
    0x29, 0x0d, 0x8a, 0x98, 0x0e, 0x3b, 0xe4, 0x42, 0x8a, 0x13, 0x9d, 0xdd, 0x7f, 0x0f, 0x2b, 0xc1,
];

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
}

/// A thread, an image in its process, and a sample at `place` of that image, with its stack.
fn trace(age: u32, place: u64) -> Vec<u8> {
    let start = FakeTrace::START;
    let mut thread = [PID, TID].map(u32::to_le_bytes).concat();
    thread.resize(72, 0);
    let mut image = [BASE, 0x10000].map(u64::to_le_bytes).concat();
    image.extend([PID, 0, 0x5000_0000, 0].map(u32::to_le_bytes).concat());
    image.resize(56, 0);
    image.extend(utf16(r"\Device\HarddiskVolume3\Tools\library.dll"));
    let identity = [
        &BASE.to_le_bytes()[..],
        &PID.to_le_bytes(),
        &GUID,
        &age.to_le_bytes(),
        b"d:\\out\\library.pdb\0",
    ];
    let sample = [&(BASE + place).to_le_bytes()[..], &TID.to_le_bytes(), &[1, 0, 0, 0]].concat();
    let head = [&(start + 50).to_le_bytes()[..], &PID.to_le_bytes(), &TID.to_le_bytes()];
    let stack = [&head.concat()[..], &(BASE + place).to_le_bytes()].concat();
    let mut trace = FakeTrace::new(1);
    trace.record(0, &system(start + 1, (PID, TID), (0x05, 3), 3, &thread));
    trace.record(0, &system(start + 2, (PID, TID), (0x14, 3), 3, &image));
    trace.record(0, &classic(start + 3, (PID, TID), IMAGE_ID, (36, 2), &identity.concat()));
    trace.record(0, &perf_info(start + 50, 0x0f, 46, 2, &sample));
    trace.record(0, &perf_info(start + 51, 0x18, 32, 2, &stack));
    trace.finish()
}

/// The trace's stacks, named from `directory`, and what was said of its modules.
fn folded(trace: Vec<u8>, directory: &Path) -> (String, Vec<String>) {
    let mut session = Session::from_bytes(vec![trace]).expect("a trace");
    let requests: Vec<ImageRequest> = session
        .unresolved()
        .into_iter()
        .map(|module| {
            let image = module.windows.expect("every module of a Windows trace is one of Windows");
            let pdb =
                image.pdb.map(|pdb| PdbIdentity { name: pdb.name, guid: pdb.guid, age: pdb.age });
            let (path, build_id, offsets) = (module.path, module.build_id, module.offsets);
            ImageRequest {
                path,
                build_id,
                pdb,
                image_size: image.size,
                image_timestamp: image.timestamp,
                offsets,
            }
        })
        .collect();
    let mut path = SymbolPath::default();
    path.add(SymbolSource::Directory(directory.into()));
    let tables =
        WindowsSymbolizer::new(Options { path, ..Options::default() }).name_modules(&requests);
    let notes = tables.iter().map(|table| table.note.clone()).collect();
    session.add_symbols(tables);
    let mut exporter = FoldedExporter::new(Vec::new(), StackOptions::default());
    let Ok(_) = session.play(&mut exporter) else { panic!("memory takes every byte") };
    (String::from_utf8(exporter.finish().expect("memory takes every byte")).expect("text"), notes)
}

/// A directory with the library's symbol file, under the name that the trace has for it.
fn directory() -> tempfile::TempDir {
    let entry = Function {
        name: "EntryPoint",
        start: 0,
        size: 0x40,
        arguments: &[POINTER, UNSIGNED_LONG, POINTER],
        lines: &[Line { offset: 0, number: 20 }],
        inlined: None,
    };
    let symbols = SymbolFile { guid: GUID, functions: &[entry], ..SymbolFile::default() };
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("library.pdb"), symbols.bytes()).expect("room on the disk");
    directory
}

#[test]
fn a_sample_in_an_image_has_the_name_that_its_symbol_file_states() {
    let directory = directory();
    let (text, notes) = folded(trace(1, 0x1000), directory.path());
    assert!(text.contains("EntryPoint(void*, unsigned long, void*)"), "{text}{notes:?}");
    assert_eq!(notes, [""]);
}

#[test]
fn a_sample_whose_symbol_file_is_of_another_build_has_no_name() {
    let directory = directory();
    let (text, notes) = folded(trace(2, 0x1000), directory.path());
    assert!(!text.contains("EntryPoint") && text.contains("library.dll"), "{text}");
    assert!(notes[0].contains("another build"), "{notes:?}");
}
