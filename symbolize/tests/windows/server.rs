//! Symbol servers: a server in this process, and the real client.

use crate::common::{library, library_pdb, name_with, request};
use std::fs;
use std::path::Path;
use std::sync::mpsc::Receiver;
use syscollect_fixtures::server::{self, redirect, response};
use syscollect_model::SymbolTable;
use syscollect_symbolize::windows::{
    ImageRequest, Options, PdbIdentity, SymbolPath, SymbolSource, WindowsSymbolizer,
};

/// A server of symbols.
fn serve(answer: impl Fn(&str) -> Vec<u8> + Send + 'static) -> (String, Receiver<String>) {
    let (url, paths) = server::serve(answer);
    (format!("{url}/symbols"), paths)
}

fn options(url: &str, cache: &Path) -> Options {
    let mut path = SymbolPath::default();
    path.add(SymbolSource::Server { url: url.into(), cache: Some(cache.into()) });
    Options { path, ..Options::default() }
}

fn ask(url: &str, cache: &Path) -> SymbolTable {
    name_with(options(url, cache), request(Some(library_pdb()), &[0x1000]))
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().next().is_none()
}

#[test]
fn what_a_server_sent_is_kept_and_not_asked_for_again() {
    let library = library();
    let pdb = fs::read(&library.pdb).unwrap();
    let (url, asked) = serve(move |_| response("200 OK", &pdb));
    let cache = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let table = ask(&url, cache.path());
        assert_eq!((table.symbols.len(), table.note.as_str()), (1, ""));
    }
    let (name, key) = ("library.pdb", library_pdb().store_key());
    assert_eq!(asked.try_iter().collect::<Vec<_>>(), [format!("/symbols/{name}/{key}/{name}")]);
    let kept = [cache.path(), &cache.path().join(name).join(key)]
        .map(|folder| fs::read_dir(folder).unwrap().count());
    assert_eq!(kept, [1, 1], "no drafts are left");
}

#[test]
fn a_file_that_no_server_has_leaves_nothing_behind() {
    let (url, _asked) = serve(|_| response("404 Not Found", b"<html>no</html>"));
    let cache = tempfile::tempdir().unwrap();
    let table = ask(&url, cache.path());
    assert!(table.note.contains("does not have it"), "{}", table.note);
    assert!(is_empty(cache.path()));
}

#[test]
fn a_file_that_is_not_the_one_asked_for_does_not_get_into_the_store() {
    let library = library();
    let pdb = fs::read(&library.pdb).unwrap();
    for body in [pdb, b"<html>please log in</html>".to_vec()] {
        let (url, _asked) = serve(move |_| response("200 OK", &body));
        let cache = tempfile::tempdir().unwrap();
        let other = PdbIdentity { age: 9, ..library_pdb() };
        let table = name_with(options(&url, cache.path()), request(Some(other.clone()), &[0x1000]));
        assert!(
            table.symbols.is_empty() && table.note.contains("not what was asked for"),
            "{}",
            table.note
        );
        assert!(is_empty(cache.path()));
    }
}

#[test]
fn a_file_without_an_end_is_cut_off() {
    // A server that tells no length, and one that does.
    for head in ["HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n"]
    {
        let (url, _asked) = serve(move |_| [head.as_bytes(), &[7; 5_000_000]].concat());
        let cache = tempfile::tempdir().unwrap();
        let options = Options { file_bytes_max: 1_000_000, ..options(&url, cache.path()) };
        let table = name_with(options, request(Some(library_pdb()), &[0x1000]));
        assert!(table.note.contains("more than 1000000 bytes"), "{}", table.note);
        assert!(is_empty(cache.path()));
    }
}

#[test]
fn a_server_that_fails_is_asked_once() {
    let (url, asked) = serve(|_| response("503 Service Unavailable", b""));
    let cache = tempfile::tempdir().unwrap();
    let symbolizer = WindowsSymbolizer::new(options(&url, cache.path()));
    for _ in 0..3 {
        let table = symbolizer.name_modules(&[request(Some(library_pdb()), &[0x1000])]).remove(0);
        assert!(table.note.contains("503"), "{}", table.note);
    }
    assert_eq!(asked.try_iter().count(), 1);
}

#[test]
fn a_server_may_lead_to_another_place_but_not_to_another_protocol() {
    let library = library();
    let pdb = fs::read(&library.pdb).unwrap();
    let (elsewhere, _asked) = serve(move |_| response("200 OK", &pdb));
    let (url, _redirected) = leading(format!("{elsewhere}/it"));
    let cache = tempfile::tempdir().unwrap();
    assert_eq!(ask(&url, cache.path()).symbols.len(), 1);
    let (url, _redirected) = leading("file:///etc/hostname".into());
    let cache = tempfile::tempdir().unwrap();
    let table = ask(&url, cache.path());
    assert!(table.symbols.is_empty() && is_empty(cache.path()), "{}", table.note);
}

fn leading(to: String) -> (String, Receiver<String>) {
    serve(move |_| redirect(&to))
}

#[test]
fn without_a_store_no_server_is_asked() {
    let (url, asked) = serve(|_| response("404 Not Found", b""));
    let mut path = SymbolPath::default();
    path.add(SymbolSource::Server { url, cache: None });
    let table =
        name_with(Options { path, ..Options::default() }, request(Some(library_pdb()), &[0x1000]));
    assert!(table.note.contains("was not asked"), "{}", table.note);
    assert_eq!(asked.try_iter().count(), 0);
}

#[test]
fn many_modules_are_fetched_together() {
    let library = library();
    let pdb = fs::read(&library.pdb).unwrap();
    let (url, _asked) = serve(move |path| match path.contains("library") {
        true => response("200 OK", &pdb),
        false => response("404 Not Found", b""),
    });
    let cache = tempfile::tempdir().unwrap();
    let requests: Vec<ImageRequest> = (0..20)
        .map(|index| {
            request(Some(if index % 2 == 0 { library_pdb() } else { other(index) }), &[0x1000])
        })
        .collect();
    let tables = WindowsSymbolizer::new(options(&url, cache.path())).name_modules(&requests);
    for (index, table) in tables.iter().enumerate() {
        assert_eq!(table.symbols.len(), (index + 1) % 2, "{index}: {}", table.note);
    }
}

fn other(index: u32) -> PdbIdentity {
    PdbIdentity { name: format!("other{index}.pdb"), guid: [index as u8; 16], age: index }
}
