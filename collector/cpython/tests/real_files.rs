//! The interpreters of this machine, as far as there are any.

use std::path::PathBuf;
use syscollect_cpython::{interpreter, may_hold_interpreter};

fn interpreters() -> Vec<PathBuf> {
    let versions = (8..=14).flat_map(|minor| {
        [
            format!("/usr/bin/python3.{minor}"),
            format!("/usr/lib/x86_64-linux-gnu/libpython3.{minor}.so.1.0"),
        ]
    });
    versions.map(PathBuf::from).filter(|path| path.exists()).collect()
}

#[test]
fn every_interpreter_of_a_distribution_is_known() {
    for path in interpreters() {
        let data = std::fs::read(&path).unwrap();
        let shown = path.to_str().unwrap();
        assert!(may_hold_interpreter(shown));
        let found = interpreter(&*data, shown).unwrap();
        // A program that is linked with the library has none of its own.
        let Some(found) = found else { continue };
        assert!(shown.contains(&format!("python3.{}", found.version)), "{shown}: {found:?}");
        assert!(found.loops[1] - found.loops[0] > 10_000, "{shown}: {found:?}");
    }
}

#[test]
fn a_file_that_was_cut_off_or_changed_is_refused_or_read() {
    let Some(path) = interpreters().pop() else { return };
    let (mut data, path) = (std::fs::read(&path).unwrap(), path.to_str().unwrap().to_owned());
    let whole = data.len();
    for length in [0, 16, 64, 1000, whole / 100, whole / 2, whole - 1] {
        let _ = interpreter(&data[..length], &path);
    }
    for at in (0..4096).step_by(7) {
        let before = std::mem::replace(&mut data[at], 0xff);
        let _ = interpreter(&*data, &path);
        data[at] = before;
    }
}
