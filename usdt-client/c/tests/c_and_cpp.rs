//! The examples in C and C++: built with the machine's compilers, run with and without a collector.
#![allow(clippy::unwrap_used)] // the helpers of tests, too

#[path = "../../tests/common/mod.rs"]
mod common;
mod compiled;

// Links the crate, so that cargo builds libsyscollect_client.a before this test.
use syscollect_client as _;

use common::shown;
use compiled::{Language, arena_of, hide_from_recorders, library};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use tempfile::TempDir;

impl Language {
    /// Builds the example with more options; nothing if there is no compiler.
    fn build(self, folder: &Path, options: &[&str], more: &[&str]) -> Option<PathBuf> {
        let (compiler, language) = self.compiler()?;
        let (standard, example): (&[&str], _) = match self {
            Self::C => (&["-std=c11", "-D_POSIX_C_SOURCE=200809L"], "zones.c"),
            Self::Cpp => (&["-std=c++11"], "zones.cpp"),
        };
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let program = folder.join("zones");
        let output = Command::new(&compiler)
            .args(["-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"])
            .arg(root.join("../include"))
            .args(standard)
            .args(language)
            .args(options)
            .arg(root.join("examples").join(example))
            .args(more.iter().map(|file| root.join(file)))
            .args(["-x", "none", "-o"])
            .arg(&program)
            .arg(library())
            .args(["-lpthread", "-ldl", "-lm"])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(program)
    }
}

/// A program that believes that it is recorded, and has done its work.
struct Recorded {
    child: Child,
    line: String,
    _folder: TempDir,
    _output: BufReader<ChildStdout>,
}

impl Recorded {
    fn run(language: Language) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let program =
            language.build(folder.path(), &["-Dmain=example_main"], &["tests/recorded.c"])?;
        hide_from_recorders(&program);
        let mut child =
            Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        Some(Self { child, line, _folder: folder, _output: output })
    }

    /// What each of its threads has written, as a collector finds it.
    fn scenarios(&self) -> Vec<Vec<String>> {
        let mut drain = arena_of(&self.child);
        (0..drain.rings())
            .map(|ring| {
                let items = drain.take(ring);
                shown(&items, drain.log())
            })
            .collect()
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

#[test]
fn a_c_program_tells_its_zones_messages_plots_and_frames() {
    let Some(recorded) = Recorded::run(Language::C) else { return };
    assert!(recorded.line.starts_with("3 frames, sum "), "{}", recorded.line);
    let scenarios = recorded.scenarios();
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
    let Some(recorded) = Recorded::run(Language::Cpp) else { return };
    assert!(recorded.line.starts_with("3 jobs, sum "), "{}", recorded.line);
    let scenarios = recorded.scenarios();
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
        let Some(program) = language.build(folder.path(), &[], &[]) else { return };
        let output = Command::new(program).arg("2").output().unwrap();
        assert!(output.status.success());
        assert!(String::from_utf8_lossy(&output.stdout).starts_with("2 "));
    }
}

#[test]
fn with_the_marks_removed_the_programs_are_the_same() {
    for language in [Language::C, Language::Cpp] {
        let folder = tempfile::tempdir().unwrap();
        let Some(program) = language.build(folder.path(), &["-DSYSCOLLECT_OFF"], &[]) else {
            return;
        };
        assert!(Command::new(&program).status().unwrap().success());
        let bytes = std::fs::read(&program).unwrap();
        assert!(!bytes.windows(9).any(|window| window == b"C begins\0"), "a message is left");
    }
}
