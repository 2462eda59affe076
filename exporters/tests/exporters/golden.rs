//! A story in, two files out, compared with what was checked by eye and with
//! Perfetto's own engine when it was committed.
//!
//! After an intended change: `BLESS=1 cargo test -p syscollect-exporters --test exporters golden`,
//! then look at the difference, and at the file of the example `story` in the viewer.

use crate::{decode, story};

use std::path::Path;
use syscollect_exporters::{PerfettoExporter, TextExporter};

pub(crate) fn compare(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, found).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    for (number, (found, expected)) in (1..).zip(found.lines().zip(expected.lines())) {
        assert_eq!(found, expected, "line {number} of {name}");
    }
    assert_eq!(found.lines().count(), expected.lines().count(), "lines of {name}");
}

#[test]
fn a_compiler_run_reads_as_lines() {
    let mut exporter = TextExporter::new(Vec::new());
    story::story().play(&mut exporter, &story::session(), &story::losses(), Some(&story::summary())).unwrap();
    compare("story.txt", std::str::from_utf8(&exporter.finish().unwrap()).unwrap());
}

#[test]
fn a_compiler_run_becomes_packets() {
    let mut exporter = PerfettoExporter::new(Vec::new());
    story::story().play(&mut exporter, &story::session(), &story::losses(), Some(&story::summary())).unwrap();
    compare("story.pftrace.txt", &decode::print(&exporter.finish().unwrap()));
}
