//! All that the headers have, called by programs in C and C++ and found in their rings.
#![allow(clippy::unwrap_used)] // helpers of tests fail as tests do

#[path = "../../tests/common/mod.rs"]
mod common;
mod compiled;

use common::shown;
use compiled::{Language, Recorded};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use syscollect_client as _;

/// Compares lines with those of several subjects, one after the other.
fn assert_subjects(lines: &[String], subjects: &[(&str, &[&str])]) {
    let mut lines = lines.iter().map(String::as_str);
    for (what, expected) in subjects {
        let found: Vec<&str> = lines.by_ref().take(expected.len()).collect();
        assert_eq!(found, *expected, "{what}");
    }
    assert_eq!(lines.collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn a_c_program_tells_all_that_the_header_has_and_misuse_tells_nothing() {
    let Some(recorded) = Recorded::run(Language::C, &[], &["tests/everything.c"]) else { return };
    assert_eq!(recorded.line, "all done\n");
    let scenarios = recorded.scenarios(shown);
    let subjects = [
        ("zones", ZONES),
        ("tasks", TASKS),
        ("markers", MARKERS),
        ("memory", MEMORY),
        ("locks", LOCKS),
        ("GPU", GPU),
        ("event loop", EVENT_LOOP),
        ("misuse", MISUSE),
    ];
    assert_subjects(&scenarios[0], &subjects);
    assert_eq!(scenarios[1], WAITS);
    // The thread that packs images is the last, and may not be done yet.
    let mut packed = scenarios.get(2).cloned().unwrap_or_default();
    for _ in 0..500 {
        if packed.len() >= IMAGES.len() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
        packed.extend(recorded.scenarios(shown).get(2).cloned().unwrap_or_default());
    }
    assert_eq!(packed, IMAGES);
}

const IMAGES: &[&str] = &[
    "attached 0",
    "ThreadName \"syscollect images\"",
    "FrameImage",
    "ImageBlocks",
    "ImageBlocks",
    "ImageBlocks",
];

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
    "scene ObtainShared",
    "scene ReleaseShared",
    "scene ReleaseShared",
    "scene Obtain",
    "scene Release",
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
const EVENT_LOOP: &[&str] = &["loop 0", "loop 1"];
/// The end of an async zone that nobody began, and the thread stated again: it got no name.
const MISUSE: &[&str] = &["AsyncEnd", "attached 0", "message color 000000", "Message \"cut \""];

/// What threads of the C++ program write, without what its heap does and whether the one that is
/// notified has to wait for the lock.
fn without_chance(items: &[Vec<u64>], log: &[u8]) -> Vec<String> {
    let mut lines = shown(items, log);
    lines.retain(|line| !["Alloc", "Free", "queue Wait"].contains(&line.as_str()));
    lines
}

#[test]
fn a_cpp_program_tells_by_scopes_with_exceptions_and_without() {
    for exceptions in ["-fexceptions", "-fno-exceptions"] {
        let options = ["-std=c++17", "-fno-rtti", exceptions];
        let Some(recorded) = Recorded::run(Language::Cpp, &options, &["tests/scopes.cpp"]) else {
            return;
        };
        assert_eq!(recorded.line, "all done\n");
        let drained = recorded.scenarios(|items, log| {
            let memory = shown(items, log).iter().filter(|line| *line == "Alloc").count();
            let mut lines = without_chance(items, log);
            lines.insert(0, format!("{memory} blocks"));
            lines
        });
        // A text, a wide block, an array, one of the pool, three threads, and a condition variable.
        assert_eq!(drained[0][0], "8 blocks");
        let subjects = [
            ("zones", SCOPES),
            ("tasks", SCOPED_TASKS),
            ("locks", SCOPED_LOCKS),
            ("GPU", SCOPED_GPU),
        ];
        assert_subjects(&drained[0][1..], &subjects);
        assert_eq!(drained[1][1..], ["attached 0", "AsyncEnd", "ThreadEnd"]);
    }
}

const SCOPES: &[&str] = &[
    "attached 0",
    "begin outer at 0",
    "ZoneText \"words\"",
    "ZoneName \"renamed\"",
    "color 0000ff",
    "value -3",
    "tag Frame 8",
    "begin made elsewhere at 1",
    "value 2.5",
    "end 1",
    "begin made elsewhere at 1",
    "begin takes its place at 2",
    "end 1",
    "begin script at 1",
    "value a field with a name: 4",
    "end 1",
    "message color 00ff00",
    "Message \"mess\"",
    "frame gaps phase 1",
    "loop 0",
    "loop 1",
    "frame gaps phase 2",
    "end 0",
];
const SCOPED_TASKS: &[&str] = &[
    "async send of task 1",
    "task upload",
    "AsyncText \"by a thread\"",
    "async wait of task 0",
    "AsyncEnd",
    "marker request phase 0",
    "Field \"example\"",
    "value 1: 512",
    "marker request phase 1",
    "marker request phase 2",
    "Field \"x\"",
    "marker request phase 0 ticks 77 thread 88",
    "value 0: 1",
    "plot plot 1.5",
];
/// The locks of each, in turn: of one that may be taken again, the first time counts.
const SCOPED_LOCKS: &[&str] = &[
    "queue Obtain",
    "queue Release",
    "queue Obtain",
    "queue Release",
    "tree Obtain",
    "tree Release",
    "timed Obtain",
    "timed Release",
    "scene ObtainShared",
    "scene ObtainShared",
    "scene ReleaseShared",
    "scene ReleaseShared",
];
const SCOPED_GPU: &[&str] = &[
    "gpu graphics clock 1000 is 2000 within 3",
    "gpu graphics begin pass 1",
    "gpu graphics begin draw 2",
    "ZoneName \"draw 7\"",
    "gpu graphics end 2",
    "gpu graphics end 1",
    "gpu graphics times 1 [10, 20]",
    "gpu graphics no times 2",
];

#[test]
fn a_program_that_is_marked_for_tracy_needs_another_include() {
    let options = ["-std=c++17", "-Wshadow"];
    let Some(recorded) = Recorded::run(Language::Cpp, &options, &["tests/tracy.cpp"]) else {
        return;
    };
    assert_eq!(recorded.line, "all done\n");
    assert_subjects(&recorded.scenarios(without_stacks)[0], &[("C++", TRACY)]);
    let Some(recorded) = Recorded::run(Language::C, &[], &["tests/tracy.c"]) else { return };
    assert_eq!(recorded.line, "all done\n");
    assert_subjects(&recorded.scenarios(without_stacks)[0], &[("C", TRACY_C)]);
}

/// What threads write, without the stacks of zones.
fn without_stacks(items: &[Vec<u64>], log: &[u8]) -> Vec<String> {
    let mut lines = shown(items, log);
    lines.retain(|line| line != "Stack");
    lines
}

const TRACY: &[&str] = &[
    "attached 0",
    "ThreadName \"main of Tracy\"",
    "attached 0",
    "ThreadName \"main of Tracy\"",
    "message color 000000",
    "Message \"an app\"",
    "begin draw at 0",
    "ZoneText \"number 3\"",
    "ZoneText \"plain\"",
    "ZoneName \"drawn\"",
    "color 00ff00",
    "value 3",
    "begin inner at 1",
    "ZoneText \"of inner\"",
    "end 1",
    "begin transient at 1",
    "ZoneName \"formatted\"",
    "end 1",
    "end 0",
    "begin stacks at 0",
    "begin with stack at 1",
    "end 1",
    "end 0",
    "lock Obtain",
    "tree Obtain",
    "tree Release",
    "lock Release",
    "readers of the scene ObtainShared",
    "readers of the scene ReleaseShared",
    "plot fps 59.5",
    "plot count -2",
    "message color 000000",
    "Message \"sized\"",
    "message color ff0000",
    "Message \"colored\"",
    "message color 000000",
    "Message \"with depth\"",
    "Alloc",
    "Free",
    "Alloc",
    "Free",
    "Alloc",
    "Free",
    "frame - phase 0",
    "frame named phase 0",
    "frame gaps phase 1",
    "frame gaps phase 2",
];
const TRACY_C: &[&str] = &[
    "attached 0",
    "ThreadName \"main of Tracy's C\"",
    "attached 0",
    "ThreadName \"main of Tracy's C\"",
    "begin draw at 0",
    "ZoneText \"text\"",
    "ZoneName \"number 3\"",
    "value 3",
    "begin draw at 1",
    "ZoneName \"renamed\"",
    "color 0000ff",
    "end 1",
    "end 0",
    "message color 000000",
    "Message \"message\"",
    "message color 00ff00",
    "Message \"cut\"",
    "plot plot 2.5",
    "plot whole -2",
    "Alloc",
    "Free",
    " Obtain",
    " Release",
    " Obtain",
    " Release",
    " WaitShared",
    " ObtainShared",
    " ReleaseShared",
    "frame - phase 0",
    "frame named phase 0",
];

#[test]
fn the_headers_have_no_warnings_with_any_compiler_and_standard() {
    let c = &["-x", "c", "-std=c99"][..];
    let programs = [
        (c, "tests/everything.c"),
        (c, "tests/tracy.c"),
        (&["-x", "c", "-std=c17"], "tests/everything.c"),
        (&["-x", "c++", "-std=c++11"], "examples/zones.cpp"),
        (&["-x", "c++", "-std=c++17"], "tests/scopes.cpp"),
        (&["-x", "c++", "-std=c++17", "-fno-exceptions", "-fno-rtti"], "tests/scopes.cpp"),
        (&["-x", "c++", "-std=c++20", "-Wshadow", "-Wconversion"], "tests/scopes.cpp"),
        (&["-x", "c++", "-std=c++17", "-Wshadow"], "tests/tracy.cpp"),
    ];
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (on, off) = ("-USYSCOLLECT_OFF", "-DSYSCOLLECT_OFF");
    for (compiler, all_marks) in [("gcc", &[on, off][..]), ("clang", &[on])] {
        if Command::new(compiler).arg("--version").output().is_err() {
            println!("skipped: {compiler} is not there");
            continue;
        }
        for (options, file) in programs {
            for marks in all_marks {
                let output = Command::new(compiler)
                    .args(["-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror", *marks])
                    .args(["-D_POSIX_C_SOURCE=200809L", "-O1"])
                    .args(options)
                    .arg("-I")
                    .arg(root.join("../include"))
                    .arg(root.join(file))
                    .output()
                    .unwrap();
                let said = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "{compiler} {options:?} {file} {marks}: {said}");
            }
        }
    }
}

#[test]
fn sanitizers_of_c_find_nothing() {
    let (c, cpp) = (&["-Dmain=example_main"][..], &["-Dmain=example_main", "-std=c++17"][..]);
    for sanitizer in ["-fsanitize=address,undefined", "-fsanitize=thread"] {
        let folder = tempfile::tempdir().unwrap();
        let probe = folder.path().join("probe.c");
        std::fs::write(&probe, "int main(void) { return 0; }\n").unwrap();
        let mut compiler = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".to_owned()));
        compiler.arg(sanitizer).arg(&probe).arg("-o").arg(folder.path().join("probe"));
        if !compiler.output().is_ok_and(|output| output.status.success()) {
            println!("skipped: the compiler has no {sanitizer}");
            continue;
        }
        for (language, options, file) in [
            (Language::C, c, "tests/everything.c"),
            (Language::C, c, "tests/tracy.c"),
            (Language::Cpp, cpp, "tests/scopes.cpp"),
            (Language::Cpp, cpp, "tests/tracy.cpp"),
        ] {
            let options = [options, &[sanitizer, "-g"]].concat();
            let files = [file, "tests/recorded.c"];
            let Some(program) = language.build(folder.path(), &options, &files) else { return };
            compiled::hide_from_recorders(&program);
            // One of them asks for more than there is, and wants null.
            let output = Command::new(program)
                .env("ASAN_OPTIONS", "allocator_may_return_null=1")
                .env("TSAN_OPTIONS", "allocator_may_return_null=1")
                .stdin(std::process::Stdio::null())
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            let well = output.status.success() && !said.contains("runtime error");
            assert!(well, "{sanitizer} {file}: {said}");
        }
    }
}
