//! Whatever a symbol file or an image holds, naming ends, in bounded memory and stack, without a
//! panic that gets out, and what is named holds the place that was asked for.
//!
//! A search from nothing does not get to a file system with streams of types and symbols, so inputs
//! are edits of files: of those that a writer of tests makes, and of real ones where they are
//! (tests/fixtures/README.md).
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::io::Cursor;
use std::sync::LazyLock;
use std::{fs, panic, thread};
use syscollect_fixtures::image::{self, Export, SymbolFileOf};
use syscollect_fixtures::pdb::{Function, INT, Inlined, Line, Public, SymbolFile};
use syscollect_symbolize::windows::{Image, Pdb};

/// As the threads that name have.
const STACK: usize = 64 << 20;
/// An edit: four bytes of place, two of bytes to be written there.
const EDIT: usize = 6;

/// The files that are edited.
static FILES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    // Panics of a PDB's reader are caught, and no findings: the fuzzer's hook would end the
    // program.
    panic::set_hook(Box::new(|_| ()));
    let names = ["perfview-CppCon.pdb", "syzygy-test_types_x64.dll.pdb", "syzygy-test_types_x64.dll"];
    let folder = syscollect_fixtures::folder().unwrap_or_default().join("etl");
    let real = names.iter().filter_map(|name| fs::read(folder.join(name)).ok());
    real.chain(made()).collect()
});

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, edits)) = bytes.split_first() else { return };
    let file = match FILES.get(usize::from(*choice) % FILES.len().max(1)) {
        Some(file) => edited(file.clone(), edits),
        None => edits.to_vec(),
    };
    let naming = thread::Builder::new().stack_size(STACK).spawn(move || name(file));
    naming.expect("there are threads").join().expect("nobody panics");
});

/// A symbol file and an image as tests write them.
fn made() -> [Vec<u8>; 2] {
    let function = Function {
        name: "compute",
        start: 0x100,
        size: 0x80,
        arguments: &[INT],
        lines: &[Line { offset: 0, number: 40 }],
        inlined: Some(Inlined { name: "clamp", offset: 0x20, size: 0x10, line: 5 }),
    };
    let publics = [Public { name: "?helper@@YAXXZ", start: 0x300 }];
    let symbols =
        SymbolFile { functions: &[function], publics: &publics, ..SymbolFile::default() };
    let exports = [Export { name: "compute", address: 0x1100 }];
    let named = SymbolFileOf { guid: [7; 16], age: 1, path: "library.pdb" };
    let image = image::Image {
        symbols: Some(named),
        exports: &exports,
        functions: &[0x1100..0x1180],
        ..image::Image::default()
    };
    [symbols.bytes(), image.bytes()]
}

fn edited(mut file: Vec<u8>, edits: &[u8]) -> Vec<u8> {
    for edit in edits.chunks_exact(EDIT) {
        let place = u32::from_le_bytes([edit[0], edit[1], edit[2], edit[3]]) as usize % file.len();
        for (byte, new) in file[place..].iter_mut().zip(&edit[4..]) {
            *byte = *new;
        }
    }
    file
}

fn name(file: Vec<u8>) {
    // What a recorder on Windows reads of every image that was loaded.
    let _ = syscollect_windows::identity(Cursor::new(file.as_slice()));
    let offsets: Vec<u64> = (0x1000..0x3000).step_by(5).chain([0, u64::MAX]).collect();
    if let Ok(image) = Image::read(file.as_slice(), 1 << 20) {
        assert!(image.name(&offsets).iter().all(|symbol| symbol.start <= symbol.offset));
    }
    let Ok(names) = Pdb::open(Cursor::new(file)).and_then(|pdb| pdb.name(&offsets, 0x6000)) else {
        return;
    };
    for symbol in names.symbols {
        assert!(symbol.start <= symbol.offset && !symbol.frames.is_empty());
        assert!(symbol.size == 0 || symbol.offset < symbol.start + symbol.size);
    }
}
