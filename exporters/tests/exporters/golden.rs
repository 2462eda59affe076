//! A scenario in, several files out, compared with what was checked by eye and with
//! Perfetto's own engine when it was committed.
//!
//! After an intended change: `BLESS=1 cargo test -p syscollect-exporters --test exporters golden`,
//! then look at the difference, and at the file of the example `scenario` in the viewer.

use crate::{decode, scenario};

use serde_json::Value;
use std::path::Path;
use syscollect_exporters::{FirefoxExporter, FirefoxOptions, PerfettoExporter, TextExporter};

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

fn text_of(scenario: &scenario::Scenario) -> String {
    let mut exporter = TextExporter::new(Vec::new());
    scenario
        .play(&mut exporter, &scenario::session(), &scenario::losses(), Some(&scenario::summary()))
        .unwrap();
    String::from_utf8(exporter.finish().unwrap()).unwrap()
}

#[test]
fn a_compiler_run_reads_as_lines() {
    compare("scenario.txt", &text_of(&scenario::scenario()));
}

#[test]
fn what_a_game_says_of_itself_reads_as_lines() {
    compare("game.txt", &text_of(&scenario::game()));
}

/// JSON with a line for each column or row, so that a difference can be read.
fn lines(value: &Value, indent: usize, out: &mut String) {
    let margin = " ".repeat(indent);
    match value {
        Value::Object(map) if map.values().any(is_nested) => {
            out.push_str("{\n");
            for (key, value) in map {
                out.push_str(&format!("{margin} {key}: "));
                lines(value, indent + 1, out);
            }
            out.push_str(&format!("{margin}}}\n"));
        }
        Value::Array(list) if list.iter().any(is_nested) => {
            out.push_str("[\n");
            for value in list {
                out.push_str(&format!("{margin} "));
                lines(value, indent + 1, out);
            }
            out.push_str(&format!("{margin}]\n"));
        }
        flat => out.push_str(&format!("{flat}\n")),
    }
}

fn is_nested(value: &Value) -> bool {
    value.is_object() || value.is_array()
}

fn profile_of(scenario: &scenario::Scenario) -> String {
    let options = FirefoxOptions { sched_markers: true, ..FirefoxOptions::default() };
    let mut exporter = FirefoxExporter::new(Vec::new(), options);
    scenario
        .play(&mut exporter, &scenario::session(), &scenario::losses(), Some(&scenario::summary()))
        .unwrap();
    let mut text = String::new();
    lines(&serde_json::from_slice(&exporter.finish().unwrap()).unwrap(), 0, &mut text);
    text
}

#[test]
fn a_compiler_run_becomes_a_profile() {
    compare("scenario.json.txt", &profile_of(&scenario::scenario()));
}

#[test]
fn what_a_game_says_of_itself_becomes_a_profile() {
    compare("game.json.txt", &profile_of(&scenario::game()));
}

fn packets_of(scenario: &scenario::Scenario) -> String {
    let mut exporter = PerfettoExporter::new(Vec::new());
    scenario
        .play(&mut exporter, &scenario::session(), &scenario::losses(), Some(&scenario::summary()))
        .unwrap();
    decode::print(&exporter.finish().unwrap())
}

#[test]
fn a_compiler_run_becomes_packets() {
    compare("scenario.pftrace.txt", &packets_of(&scenario::scenario()));
}

#[test]
fn what_a_game_says_of_itself_becomes_packets() {
    compare("game.pftrace.txt", &packets_of(&scenario::game()));
}
