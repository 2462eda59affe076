//! All that the header has, called by a program in C and found in its rings.
#![allow(clippy::unwrap_used)] // helpers of tests fail as tests do

#[path = "../../tests/common/mod.rs"]
mod common;
mod compiled;

use common::shown;
use compiled::{Language, Recorded};
use syscollect_client as _;

#[test]
fn a_c_program_tells_all_that_the_header_has_and_misuse_tells_nothing() {
    let Some(recorded) = Recorded::run(Language::C, &[], &["tests/everything.c"]) else { return };
    assert_eq!(recorded.line, "all done\n");
    let scenarios = recorded.scenarios(shown);
    let mut lines = scenarios[0].iter().map(String::as_str);
    let mut expect = |what: &str, expected: &[&str]| {
        let found: Vec<&str> = lines.by_ref().take(expected.len()).collect();
        assert_eq!(found, expected, "{what}");
    };
    expect("zones", ZONES);
    expect("tasks", TASKS);
    expect("markers", MARKERS);
    expect("memory", MEMORY);
    expect("locks", LOCKS);
    expect("GPU", GPU);
    expect("misuse", MISUSE);
    assert_eq!(lines.next(), None);
    assert_eq!(scenarios[1], WAITS);
}

const ZONES: &[&str] = &[
    "attached 0",
    "begin by hand at 0",
    "ZoneText \"words\"",
    "ZoneName \"another\"",
    "color abcdef",
    "value 0.5",
    "tag Frame 12",
    "end 0",
    "begin of_script at 0",
    "value named: 7",
    "end 0",
    "message color ff0000",
    "Message \"a message\"",
    "message Level color 000000",
    "tag Level 4",
    "plot dynamic plot -4",
    "frame dynamic frames phase 0",
    "frame gaps phase 1",
    "frame gaps phase 2",
];
const TASKS: &[&str] = &[
    "async place of task 1",
    "task upload",
    "AsyncText \"to the GPU\"",
    "async place of task 0",
    "AsyncEnd",
    "AsyncEnd",
];
const MARKERS: &[&str] = &[
    "marker request phase 0",
    "Field \"http://example.org\"",
    "value 1: 512",
    "value 2: 0.25",
    "marker request phase 1",
    "Field \"a\"",
    "marker request phase 2",
    "marker request phase 0 ticks 1234 thread 99",
    "Field \"http://example.org\"",
];
const MEMORY: &[&str] = &["Alloc", "Alloc", "Free", "Free"];
const LOCKS: &[&str] = &[
    "queue Obtain",
    "queue Release",
    "scene ObtainShared",
    "scene ReleaseShared",
    "scene Wait",
    "scene GiveUp",
];
const WAITS: &[&str] = &["attached 0", "queue Wait", "queue Obtain", "queue Release", "ThreadEnd"];
const GPU: &[&str] = &[
    "gpu graphics clock 5000 is 700 within 50",
    "gpu graphics begin place 1",
    "gpu graphics begin place 2",
    "ZoneName \"renamed\"",
    "ZoneText \"text\"",
    "color 00ff00",
    "tag Frame 9",
    "gpu graphics begin place 3",
    "gpu graphics end 3",
    "gpu graphics end 2",
    "gpu graphics end 1",
    "gpu graphics times 2 [1001, 1002]",
    "gpu graphics no times 1",
    "gpu graphics times 3 [2001, 2002]",
];
/// The end of an async zone that nobody began, and the thread stated again: it got no name.
const MISUSE: &[&str] = &["AsyncEnd", "attached 0", "message color 000000", "Message \"cut \""];
