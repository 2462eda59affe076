//! A library that these tests make, and requests for its names.

use std::fs;
use std::path::{Path, PathBuf};
use syscollect_fixtures::image::{self, Export, SymbolFileOf};
use syscollect_fixtures::pdb::{
    Function, INT, Inlined, Line, POINTER, Public, SymbolFile, UNSIGNED_LONG,
};
use syscollect_model::{BuildId, SymbolTable};
use syscollect_symbolize::windows::{
    ImageRequest, Options, PdbIdentity, SymbolPath, SymbolSource, WindowsSymbolizer,
};
use tempfile::TempDir;

/// A library with its symbol file beside it, both made by these tests.
pub struct Library {
    pub image: PathBuf,
    pub pdb: PathBuf,
    _folder: TempDir,
}

pub fn library() -> Library {
    let folder = tempfile::tempdir().unwrap();
    let (image, pdb) = (folder.path().join("library.dll"), folder.path().join("library.pdb"));
    fs::write(&image, image_bytes()).unwrap();
    fs::write(&pdb, symbol_bytes()).unwrap();
    Library { image, pdb, _folder: folder }
}

/// The library: two functions, of which one is exported; what is behind them is exported by
/// its decorated name.
pub fn image_bytes() -> Vec<u8> {
    let PdbIdentity { name, guid, age } = library_pdb();
    let exports = [
        Export { name: "?helper@@YAXXZ", address: 0x1300 },
        Export { name: "EntryPoint", address: 0x1000 },
    ];
    image::Image {
        symbols: Some(SymbolFileOf { guid, age, path: &name }),
        exports: &exports,
        functions: &[0x1000..0x1040, 0x1100..0x1180],
        ..image::Image::default()
    }
    .bytes()
}

/// Its symbol file: a function with arguments, one with an inlined call, and a public symbol.
pub fn symbol_bytes() -> Vec<u8> {
    let PdbIdentity { guid, age, .. } = library_pdb();
    let entry = Function {
        name: "EntryPoint",
        start: 0,
        size: 0x40,
        arguments: &[POINTER, UNSIGNED_LONG, POINTER],
        lines: &[Line { offset: 0, number: 20 }, Line { offset: 0x10, number: 22 }],
        inlined: None,
    };
    let computing = Function {
        name: "math::compute",
        start: 0x100,
        size: 0x80,
        arguments: &[INT],
        lines: &[Line { offset: 0, number: 40 }],
        inlined: Some(Inlined { name: "clamp", offset: 0x20, size: 0x10, line: 5 }),
    };
    let symbols = SymbolFile {
        guid,
        age,
        functions: &[entry, computing],
        publics: &[Public { name: "?helper@@YAXXZ", start: 0x300 }],
        ..SymbolFile::default()
    };
    symbols.bytes()
}

/// As a trace names the library's symbol file.
pub fn library_pdb() -> PdbIdentity {
    let guid = guid(
        [0x00, 0x11, 0x22, 0x33],
        [0x44, 0x55],
        [0x66, 0x77],
        [0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff],
    );
    PdbIdentity { name: r"d:\build\library.pdb".into(), guid, age: 3 }
}

/// The bytes of a GUID as they lie in files, from its digits.
pub fn guid(
    mut first: [u8; 4],
    mut second: [u8; 2],
    mut third: [u8; 2],
    rest: [u8; 8],
) -> [u8; 16] {
    first.reverse();
    second.reverse();
    third.reverse();
    [&first[..], &second, &third, &rest].concat().try_into().unwrap()
}

pub fn request(pdb: Option<PdbIdentity>, offsets: &[u64]) -> ImageRequest {
    ImageRequest {
        path: r"\Device\HarddiskVolume3\Tools\library.dll".into(),
        build_id: BuildId::from_bytes(&[7; 20]),
        pdb,
        offsets: offsets.to_vec(),
        ..ImageRequest::default()
    }
}

pub fn path(directories: &[&Path]) -> SymbolPath {
    let mut path = SymbolPath::default();
    path.extend(
        directories.iter().map(|directory| SymbolSource::Directory(directory.to_path_buf())),
    );
    path
}

pub fn name(path: SymbolPath, request: ImageRequest) -> SymbolTable {
    name_with(Options { path, ..Options::default() }, request)
}

pub fn name_with(options: Options, request: ImageRequest) -> SymbolTable {
    WindowsSymbolizer::new(options).name_modules(&[request]).remove(0)
}
