//! The examples in C and C++: built with the machine's compilers, run with and without a collector.
#![allow(clippy::unwrap_used)] // the helpers of tests, too

#[path = "../../tests/common/mod.rs"]
mod common;
mod compiled;

// Links the crate, so that cargo builds libsyscollect_client.a before this test.
use syscollect_client as _;

use common::shown;
use compiled::{Language, Recorded};
use std::process::Command;

/// Builds and runs the example as if it were recorded.
fn recorded(language: Language) -> Option<Recorded> {
    Recorded::run(language, &[], &[example(language)])
}

fn example(language: Language) -> &'static str {
    match language {
        Language::C => "examples/zones.c",
        Language::Cpp => "examples/zones.cpp",
    }
}

#[test]
fn a_c_program_tells_its_zones_messages_plots_and_frames() {
    let Some(recorded) = recorded(Language::C) else { return };
    assert!(recorded.line.starts_with("3 frames, sum "), "{}", recorded.line);
    let scenarios = recorded.scenarios(shown);
    assert_eq!(scenarios.len(), 1);
    // The first event is the thread's name, which is stated with every first event, too.
    let first = &scenarios[0][2..];
    let begin =
        ["attached 0", "ThreadName \"main of C\"", "message color 000000", "Message \"C begins\""];
    assert_eq!(first[..4], begin);
    assert_eq!(first[4..6], ["begin frame at 0", "ZoneText \"even\""]);
    assert_eq!(first[6..15], [step(0), step(1), step(2)].concat());
    assert!(first[15].starts_with("plot sum "), "{}", first[15]);
    assert_eq!(
        first[16..21],
        ["plot frames 0", "end 0", "frame - phase 0", "begin wait at 0", "end 0"]
    );
    assert_eq!(first[first.len() - 2..], ["message color 00ff00", "Message \"C ends\""]);
}

fn step(index: u32) -> [String; 3] {
    ["begin step at 1".to_owned(), format!("value {index}"), "end 1".to_owned()]
}

#[test]
fn a_cpp_program_closes_its_zones_when_an_exception_leaves_them() {
    let Some(recorded) = recorded(Language::Cpp) else { return };
    assert!(recorded.line.starts_with("3 jobs, sum "), "{}", recorded.line);
    let scenarios = recorded.scenarios(shown);
    assert_eq!(scenarios[0], ["attached 0", "begin main at 0", "end 0"]);
    let worker = &scenarios[1];
    assert_eq!(worker[..2], ["attached 0", "ThreadName \"worker of C++\""]);
    let failed =
        worker.iter().position(|line| line == "ZoneText \"job number 2\"").expect("the third job");
    assert_eq!(
        worker[failed..failed + 6],
        [
            "ZoneText \"job number 2\"",
            "end 1",
            "message color ff0000",
            "Message \"a job that fails\"",
            worker[failed + 4].as_str(),
            "frame jobs phase 0",
        ]
    );
    assert_eq!(worker.last().map(String::as_str), Some("ThreadEnd"));
}

#[test]
fn without_a_collector_the_programs_open_nothing() {
    for language in [Language::C, Language::Cpp] {
        let folder = tempfile::tempdir().unwrap();
        let Some(program) = language.build(folder.path(), &[], &[example(language)]) else {
            return;
        };
        let output = Command::new(program).arg("2").output().unwrap();
        assert!(output.status.success());
        assert!(String::from_utf8_lossy(&output.stdout).starts_with("2 "));
    }
}

#[test]
fn with_the_marks_removed_the_programs_are_the_same() {
    for language in [Language::C, Language::Cpp] {
        let folder = tempfile::tempdir().unwrap();
        let Some(program) =
            language.build(folder.path(), &["-DSYSCOLLECT_OFF"], &[example(language)])
        else {
            return;
        };
        assert!(Command::new(&program).status().unwrap().success());
        let bytes = std::fs::read(&program).unwrap();
        assert!(!bytes.windows(9).any(|window| window == b"C begins\0"), "a message is left");
    }
}
