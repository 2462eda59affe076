//! The fixtures, and requests for them.

use std::path::{Path, PathBuf};
use syscollect_model::{BuildId, SymbolTable};
use syscollect_symbolize::windows::{
    ImageRequest, Options, PdbIdentity, SymbolPath, SymbolSource, WindowsSymbolizer,
};

/// The folder of the fixtures; `None` where it is not, except in CI.
pub fn fixtures() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/fixtures/etl");
    if folder.is_dir() {
        return Some(folder);
    }
    assert!(std::env::var_os("CI").is_none(), "the fixtures are not at {}", folder.display());
    eprintln!("skipped: no fixtures at {}", folder.display());
    None
}

/// A library with its symbol file beside it.
pub struct Library {
    pub image: PathBuf,
    pub pdb: PathBuf,
}

pub fn library() -> Option<Library> {
    let folder = fixtures()?;
    let image = folder.join("syzygy-test_types_x64.dll");
    Some(Library { pdb: folder.join("syzygy-test_types_x64.dll.pdb"), image })
}

/// As a trace names the library's symbol file.
pub fn library_pdb() -> PdbIdentity {
    let guid = guid(
        [0x98, 0x8a, 0x0d, 0x29],
        [0x3b, 0x0e],
        [0x42, 0xe4],
        [0x8a, 0x13, 0x9d, 0xdd, 0x7f, 0x0f, 0x2b, 0xc1],
    );
    PdbIdentity { name: r"d:\build\test_types_x64.dll.pdb".into(), guid, age: 1 }
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
        path: r"\Device\HarddiskVolume3\Tools\test_types_x64.dll".into(),
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
