//! Options and environment to sources; modules to requests and advice.

use super::*;
use syscollect_model::{BuildId, Symbol};
use syscollect_playback::WindowsImage;

fn variable(name: &str) -> Option<OsString> {
    match name {
        PATH_VARIABLE => Some("srv*/store*https://inherited.example.org".into()),
        "HOME" => Some("/home/u".into()),
        _ => None,
    }
}

fn directory(path: &str) -> SymbolSource {
    SymbolSource::Directory(path.into())
}

fn server(url: &str, cache: &str) -> SymbolSource {
    SymbolSource::Server { url: url.into(), cache: Some(cache.into()) }
}

// Its paths are absolute on Unix only.
#[cfg(unix)]
#[test]
fn no_server_is_asked_that_was_not_asked_for() {
    let args = SymbolOptions { symbol_path: vec!["/a;/b".into()], ..SymbolOptions::default() };
    let (options, unasked) = args.options(variable);
    assert!(unasked);
    let cache = directory("/home/u/.cache/syscollect/symbols");
    assert_eq!(
        options.path.sources(),
        [directory("/a"), directory("/b"), directory("/store"), cache]
    );
}

#[test]
fn servers_of_the_path_are_asked_by_one_option_and_others_by_another() {
    let args = SymbolOptions {
        symbol_server: vec!["https://given.example.org".into()],
        download_symbols: true,
        symbol_cache: Some("/cache".into()),
        ..SymbolOptions::default()
    };
    let (options, unasked) = args.options(variable);
    assert!(!unasked);
    let servers = [
        server("https://inherited.example.org", "/store"),
        server("https://given.example.org", "/cache"),
    ];
    assert_eq!(
        options.path.sources(),
        [&[directory("/store"), directory("/cache")][..], &servers].concat()
    );
    let alone = SymbolOptions { download_symbols: false, ..args };
    assert!(!alone.options(variable).0.path.sources().contains(&servers[0]));
}

#[test]
fn only_addresses_are_servers() {
    assert_eq!(parse_server("https://example.org/s/"), Ok("https://example.org/s".into()));
    assert!(parse_server("example.org").unwrap_err().contains("https://"));
}

// Its paths are absolute on Unix only.
#[cfg(unix)]
#[test]
fn a_cache_lies_where_the_system_has_them() {
    assert_eq!(only("XDG_CACHE_HOME", "/c"), Some("/c/syscollect/symbols".into()));
    assert_eq!(only("XDG_CACHE_HOME", "relative"), None);
    assert_eq!(only("NOTHING", "/c"), None);
}

fn only(wanted: &'static str, value: &'static str) -> Option<PathBuf> {
    default_cache(move |name| (name == wanted).then(|| OsString::from(value)))
}

fn module(path: &str, offsets: usize, windows: Option<WindowsImage>) -> UnresolvedModule {
    let offsets = (0..offsets as u64).collect();
    UnresolvedModule {
        path: path.into(),
        build_id: BuildId::from_bytes(&[1]),
        memory: None,
        kernel: false,
        offsets,
        uses: 0,
        mapped: Vec::new(),
        windows,
    }
}

#[test]
fn only_windows_modules_are_asked_for() {
    let pdb = syscollect_playback::PdbIdentity { name: "a.pdb".into(), guid: [3; 16], age: 2 };
    let image = WindowsImage { pdb: Some(pdb), size: 10, timestamp: 20 };
    let asked = request(module(r"C:\a.dll", 3, Some(image))).unwrap();
    assert_eq!(asked.pdb, Some(PdbIdentity { name: "a.pdb".into(), guid: [3; 16], age: 2 }));
    assert_eq!((asked.image_size, asked.image_timestamp, asked.offsets.len()), (10, 20, 3));
    assert!(request(module("/usr/lib/libc.so.6", 3, None)).is_none());
}

#[test]
fn the_modules_that_are_missed_most_are_told_first() {
    let requests: Vec<_> = (0..8)
        .map(|index| request(module(&format!(r"\Device\x\m{index}.dll"), index, image())).unwrap())
        .collect();
    let mut tables: Vec<_> = requests
        .iter()
        .map(|request| SymbolTable {
            path: request.path.clone(),
            note: "why".into(),
            ..SymbolTable::default()
        })
        .collect();
    tables[7].symbols = vec![Symbol::default()];
    let lines = unnamed(&requests, &tables, true, false);
    assert_eq!(lines[..2], ["no names for the code of 7 of 8 Windows modules:", "  m6.dll: why"]);
    assert_eq!(lines[6], "  and 2 more: --list-unnamed lists them all");
    assert!(lines[7].contains("--download-symbols"));
    let all = unnamed(&requests, &tables, true, true);
    assert_eq!((all.len(), all[7].as_str()), (9, "  m0.dll: why"), "{all:?}");
    tables.iter_mut().for_each(|table| table.symbols = vec![Symbol::default()]);
    assert!(unnamed(&requests, &tables, true, false).is_empty());
}

fn image() -> Option<WindowsImage> {
    Some(WindowsImage::default())
}

#[test]
fn a_directory_that_is_not_there_is_named() {
    let here = env!("CARGO_MANIFEST_DIR");
    let paths =
        [format!("{here};/no/such/directory"), "srv*cache*https://example.org/symbols".to_owned()];
    assert_eq!(missing_folders(&paths), ["/no/such/directory"]);
}
