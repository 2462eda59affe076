//! What the program says: the same words wherever the same is meant, and nothing that moves or
//! deceives a terminal. No root needed.

// What a test cannot do without is not there: it fails, which is all it can do.
#![allow(clippy::unwrap_used)]

mod fake;
mod workplace;

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::FromRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::process::Output;
use syscollect_model::{BuildId, LaneKind, LossCause, Mapping, StopReason, Ticks};
use syscollect_store::{Definition, LaneLoss, LostRecord};
use syscollect_tests::etl::{FakeTrace, Logger, event};
use syscollect_tests::{FakeMachine, Stacks};
use workplace::Workplace;

#[test]
fn whoever_tells_of_losses_says_the_same_of_a_gap_that_no_loss_tells_of() {
    let place = Workplace::new();
    fake::write_capture_with(
        File::create(place.path("x.syscap")).unwrap(),
        &[fake::gap()],
        &[],
        Some(fake::summary(StopReason::Duration)),
    );
    let words = "nothing that was counted; once a CPU ran something else than its events say: some \
                 are missing";
    // What an export says is what a recording says.
    let (_, exported) = place.succeeds(&["export", "x.syscap", "-o", "x.pftrace"]);
    assert!(exported.contains(&format!("Lost: {words}\n")), "{exported}");
    for command in ["info", "report"] {
        let (stdout, _) = place.succeeds(&[command, "x.syscap"]);
        assert!(stdout.contains(&format!("\nLost       {words}\n")), "{stdout}");
    }
    for command in ["info", "report"] {
        let (json, _) = place.succeeds(&[command, "x.syscap", "--json"]);
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!((&json["lost"], &json["untold_gaps"]), (&0.into(), &1.into()));
    }
}

#[test]
fn whoever_tells_of_losses_counts_the_same_and_what_gave_way_as_asked_is_none() {
    let place = Workplace::new();
    let losses = [
        loss(LaneKind::Sample, LossCause::LaneFull, 5),
        loss(LaneKind::Sample, LossCause::Overwritten, 7_000),
    ];
    place.capture("x.syscap", &losses);
    place.capture("asked.syscap", &losses[1..]);
    for (capture, count) in [("x.syscap", 5), ("asked.syscap", 0)] {
        for command in ["info", "report"] {
            let (json, _) = place.succeeds(&[command, capture, "--json"]);
            let json: serde_json::Value = serde_json::from_str(&json).unwrap();
            assert_eq!((&json["lost"], &json["overwritten"]), (&count.into(), &7_000.into()));
            let (stdout, _) = place.succeeds(&[command, capture]);
            let words = if count == 0 { "Lost       nothing" } else { "sample" };
            assert!(stdout.contains(words) && stdout.contains("Not kept"), "{stdout}");
        }
        let output = place.path("x.pftrace");
        let (_, exported) =
            place.succeeds(&["export", capture, "--force", "-o", output.to_str().unwrap()]);
        let words = if count == 0 { "Lost: nothing" } else { "*** LOST 5 of 9 events" };
        assert!(exported.contains(words), "{exported}");
        assert!(exported.contains("Older events, not kept as asked: 7,000\n"), "{exported}");
    }
}

fn loss(kind: LaneKind, cause: LossCause, count: u64) -> LaneLoss {
    LaneLoss {
        origin: kind.into(),
        cpu: Some(0),
        record: LostRecord::Any,
        cause,
        user: None,
        count,
    }
}

#[test]
fn stacks_are_called_the_same_by_who_records_and_by_who_draws() {
    let place = Workplace::new();
    place.capture("x.syscap", &[]);
    // An empty picture's message says what to record; the same word chooses the picture.
    for (spellings, advice) in [
        (&["samples", "on-cpu"][..], "record with --stacks samples"),
        // For how long is known without stacks, too, and no picture.
        (&["off-cpu", "offcpu"], "record with --stacks off-cpu"),
        (&["wakers"], "record with --stacks wakers"),
    ] {
        for stacks in spellings {
            let drawn = ["flamegraph", "x.syscap", "-o", "x.svg", "--force", "--stacks", stacks];
            let message = place.fails(1, &drawn);
            assert!(message.contains(advice), "{stacks}: {message}");
            // Only that the command is not there ends it.
            let recorded = ["--stacks", stacks, "-o", "y.syscap", "--", "/no/such/program"];
            let output = place.run(&recorded);
            assert_ne!(output.status.code(), Some(2), "{stacks} is a usage error for record");
        }
    }
}

#[test]
fn info_lists_every_kind_of_event_of_a_windows_trace_where_it_is_asked_to() {
    let place = Workplace::new();
    // With the header's, which is listed last.
    let kinds = 163 + 20;
    let mut trace = FakeTrace::new(1);
    for id in 0..kinds {
        let at = FakeTrace::START + 1 + u64::from(id);
        trace.record(0, &event(at, (100, 101), [7; 16], (id, 0), &[]));
    }
    fs::write(place.path("x.etl"), trace.finish()).unwrap();
    let (some, _) = place.succeeds(&["info", "x.etl"]);
    assert_eq!(listed(&some), 20, "{some}");
    let more = "and 164 more kinds of events: --all lists them, --json has them";
    assert!(some.contains(more), "{some}");
    let (all, _) = place.succeeds(&["info", "x.etl", "--all"]);
    assert_eq!(listed(&all), usize::from(kinds), "{all}");
    assert!(!all.contains("more kinds"), "{all}");
    let (json, _) = place.succeeds(&["info", "x.etl", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["windows"]["events"].as_array().unwrap().len(), usize::from(kinds) + 1);
}

fn listed(text: &str) -> usize {
    text.matches("07070707-0707-0707-0707-070707070707 ").count()
}

/// Bytes that a terminal would obey, and some that are no text at all.
const NASTY: [&[u8]; 5] = [
    b"\x1b[2J\x1b]0;title\x07\r",
    "\u{9b}31m\u{85}\u{202e}gpj.exe\u{2066}\u{200f}\u{2028}".as_bytes(),
    b"\xff\xfe\x1b\x7f\x08",
    b"\x01\x1b[1;31mred\x1b[0m",
    "\u{200b}\u{200d}\u{feff}ssh\u{2066}d\u{e0041}".as_bytes(),
];

/// What a terminal obeys, or does not show.
fn is_obeyed(character: char) -> bool {
    let turns = matches!(character, '\u{61c}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let is_unseen =
        matches!(character, '\u{200b}'..='\u{200f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}');
    (character.is_control() && character != '\n') || turns || is_unseen
}

/// A capture with a sample in code that has no name.
fn unnamed() -> Vec<u8> {
    let mut machine = FakeMachine::new(1);
    machine.process(70, 1, "worker", &[]);
    machine.define(&Definition::Mappings(vec![Mapping {
        pid: 70,
        start: 0x1000,
        end: 0x2000,
        file_offset: 0,
        path: "/opt/there/\u{1b}[2Jprogram\u{200b}".into(),
        build_id: BuildId::from_bytes(&[7; 20]),
        since: Ticks(0),
    }]));
    machine.running(0, 70);
    let user = machine.sample_stack(0, 10, 70, &[0x1111]);
    machine.sample(0, 10, 70, Stacks { user, kernel: 0 }, 0);
    machine.finish()
}

#[test]
fn whatever_the_arguments_are_nothing_of_them_moves_a_terminal() {
    let place = Workplace::new();
    place.capture("x.syscap", &[]);
    fs::write(place.path("unnamed.syscap"), unnamed()).unwrap();
    // `@` stands for the argument; a command that is not there keeps root from recording.
    let lines = [
        "@",
        "--@",
        "-@",
        "-d @ -- /no/such/program",
        "-d 5@ -- /no/such/program",
        "--freq @ -- /no/such/program",
        "--stacks @ -- /no/such/program",
        "--stacks samples,@ -- /no/such/program",
        "--buffer 64@ -- /no/such/program",
        "--format @ -- /no/such/program",
        "--pid @ -- /no/such/program",
        "--usdt @ -- /no/such/program",
        "--usdt a:b(@) -- /no/such/program",
        "--zone @..b:c -- /no/such/program",
        "--function @ -- /no/such/program",
        "--tracepoint @ -- /no/such/program",
        "--probes @ -- /no/such/program",
        "-o x.@ -- /no/such/program",
        "-o no-such-folder@/x.pftrace -- /no/such/program",
        "-- /no/such/@",
        "-- no-such-@",
        "info @",
        "report @",
        "report x.syscap --process @",
        "report x.syscap --symbols @",
        "report x.syscap --worst @",
        "report x.syscap --tree @",
        "report x.syscap --tree --tree-min @",
        "report x.syscap --from @",
        "--rotate @ -- /no/such/program",
        "--rotate 10m -o @.syscap -- /no/such/program",
        "--unwind @ -- /no/such/program",
        "symbolize @",
        "symbolize x.syscap -o @/y.syscap",
        "symbolize x.syscap --symbols @",
        "symbolize unnamed.syscap --symbols @",
        "symbolize unnamed.syscap --debuginfod",
        "export @ -o x.pftrace",
        "export x.syscap -o x@",
        "export x.syscap -o @.pftrace --force",
        "export x.syscap -o x.tracy --tracy-layout @",
        "export x.syscap -o x.tracy --process @",
        "export x.syscap -o x.tracy --from @",
        "export x.syscap -o x.tracy --symbol-server @",
        "flamegraph x.syscap -o @.svg --stacks off-cpu --force",
        "flamegraph x.syscap -o x.svg --stacks @",
        "probes @",
        "probes list @",
        "probes list /bin/sh @",
        "doctor @",
        "completions @",
        "man @",
    ];
    for line in lines {
        for nasty in NASTY {
            let mut command = place.command(&[]);
            command
                .env("DEBUGINFOD_URLS", filled("http://127.0.0.1:9/@ @", nasty))
                .env("DEBUGINFOD_CACHE_PATH", place.path("cache"))
                .env("DEBUGINFOD_TIMEOUT", "2");
            command.args(line.split(' ').map(|word| filled(word, nasty)));
            command.arg0(OsStr::from_bytes(b"\x1b[2Jsyscollect"));
            let Output { stdout, stderr, .. } = command.output().unwrap();
            for shown in [stdout, stderr] {
                let shown = String::from_utf8_lossy(&shown);
                assert!(!shown.contains(is_obeyed), "{line} with {nasty:?}: {shown:?}");
            }
        }
    }
}

/// A capture with a sample in code of each of these files.
fn unnamed_in(files: &[(String, BuildId)]) -> Vec<u8> {
    let mut machine = FakeMachine::new(1);
    machine.process(70, 1, "worker", &[]);
    let starts = (1_u64..).map(|number| number << 24);
    let mappings = files.iter().zip(starts.clone()).map(|((path, build_id), start)| Mapping {
        pid: 70,
        start,
        end: start + 0x1000,
        file_offset: 0,
        path: path.clone(),
        build_id: build_id.clone(),
        since: Ticks(0),
    });
    machine.define(&Definition::Mappings(mappings.collect()));
    machine.running(0, 70);
    for (at, start) in (10..).zip(starts.take(files.len())) {
        let user = machine.sample_stack(0, at, 70, &[start + 0x111]);
        machine.sample(0, at, 70, Stacks { user, kernel: 0 }, 0);
    }
    machine.finish()
}

#[cfg(target_os = "linux")]
#[test]
fn files_that_a_capture_names_are_listed_harmlessly_and_opened_only_where_they_are_meant() {
    let place = Workplace::new();
    let folder = place.path("").canonicalize().unwrap();
    let at = |name: &str| folder.join(name);
    // It has the build id that the capture asks for, and lies where only links lead.
    let secret = at("secret");
    fs::copy(std::env::current_exe().unwrap(), &secret).unwrap();
    let build_id =
        syscollect_symbolize::build_id_of(&File::open(&secret).unwrap()).unwrap_or_default();
    let in_folder = format!("symbols/.build-id/07/{}.debug", "07".repeat(19));
    fs::create_dir_all(at("symbols/.build-id/07")).unwrap();
    for pipe in ["pipe", "symbols/pipe", &in_folder] {
        fifo(&at(pipe));
    }
    for (link, to) in [("link", &secret), ("symbols/link", &secret), ("zero", &"/dev/zero".into())]
    {
        symlink(to, at(link)).unwrap();
    }
    let nasty = NASTY.map(|nasty| format!("/opt/{}", String::from_utf8_lossy(nasty)));
    let theirs = ["pipe", "link", "zero", "pipe (deleted)", "../pipe", "symbols/link"];
    let theirs = theirs.map(|name| at(name).to_str().unwrap().to_owned());
    let others = ["/dev/zero", "/proc/self/mem", "/proc/self/fd/0", "pipe", "link", "/", ""];
    let paths = nasty.into_iter().chain(theirs).chain(others.map(str::to_owned));
    let ids = [BuildId::default(), BuildId::from_bytes(&[7; 20]), build_id];
    let files: Vec<_> =
        paths.flat_map(|path| ids.clone().map(|build_id| (path.clone(), build_id))).collect();
    fs::write(place.path("x.syscap"), unnamed_in(&files)).unwrap();

    let mut opened =
        ["secret", "pipe", "symbols/pipe", &in_folder].map(|name| (name, Opens::of(&at(name))));
    for line in [
        "symbolize x.syscap --symbols symbols --list-unnamed",
        "symbolize x.syscap --symbols symbols --list-unnamed -o y.syscap",
        "info x.syscap",
        "report x.syscap",
        "report x.syscap --symbols symbols",
        "report x.syscap --tree",
        "export x.syscap -o x.pftrace --list-unnamed",
    ] {
        let Output { stdout, stderr, status } = place.run(&line.split(' ').collect::<Vec<_>>());
        let printed =
            [stdout, stderr].map(|printed| String::from_utf8_lossy(&printed).into_owned());
        assert!(matches!(status.code(), Some(0 | 1)), "{line}: {printed:?}");
        for printed in &printed {
            assert!(!printed.contains(is_obeyed), "{line}: {printed:?}");
        }
        if line.starts_with("symbolize") {
            let listed = printed[1].lines().filter(|line| line.contains("1 frame: ")).count();
            assert!(listed > 5 && !printed[1].contains("--list-unnamed"), "{line}: {printed:?}");
        }
        for (name, opened) in &mut opened {
            assert!(!opened.is_any(), "{line} opened {name}");
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn images_that_a_windows_trace_names_are_listed_harmlessly_and_no_pipe_is_opened_for_them() {
    let place = Workplace::new();
    let pipe = place.path("symbols/pipe.dll");
    fs::create_dir(place.path("symbols")).unwrap();
    fifo(&pipe);
    symlink("/dev/zero", place.path("symbols/zero.dll")).unwrap();
    let nasty = NASTY.map(|nasty| format!(r"\opt\{}.dll", String::from_utf8_lossy(nasty)));
    let theirs = [r"\x\pipe.dll", r"\x\zero.dll", r"..\symbols\pipe.dll", "/dev/zero", r"\x\.."];
    let paths = nasty.into_iter().chain(theirs.map(str::to_owned));
    let mut logger = Logger::new(1);
    logger.process(1, 3, 100, "app.exe", "app");
    logger.thread(2, 3, (100, 101), "main");
    for (number, path) in (1..).zip(paths) {
        let base = number << 24;
        logger.image(3, 3, 100, (base, 0x10000), &path);
        logger.sample(0, 10 + number, 101, base + 0x111);
    }
    fs::write(place.path("x.etl"), logger.trace.finish()).unwrap();

    let mut opened = Opens::of(&pipe);
    for command in ["export x.etl -o x.pftrace", "export x.etl -o x.json.gz"] {
        let line = format!("{command} --list-unnamed --symbol-path symbols");
        let (_, stderr) = place.succeeds(&line.split(' ').collect::<Vec<_>>());
        assert!(!stderr.contains(is_obeyed), "{line}: {stderr:?}");
        assert!(stderr.contains("no names for the code of 10 of 10 Windows modules"), "{stderr}");
        assert!(!opened.is_any(), "{line} opened the pipe");
    }
}

#[cfg(target_os = "linux")]
fn fifo(path: &std::path::Path) {
    let name = std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: `name` is a C string that lives through the call.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o666) }, 0);
}

/// Tells whether anybody opened a file.
#[cfg(target_os = "linux")]
struct Opens(File);

#[cfg(target_os = "linux")]
impl Opens {
    fn of(path: &std::path::Path) -> Self {
        let name = std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap();
        // SAFETY: no memory is involved.
        let descriptor = unsafe { libc::inotify_init1(libc::IN_NONBLOCK | libc::IN_CLOEXEC) };
        assert!(descriptor >= 0);
        // SAFETY: `name` is a C string that lives through the call.
        let watched = unsafe { libc::inotify_add_watch(descriptor, name.as_ptr(), libc::IN_OPEN) };
        assert!(watched >= 0);
        // SAFETY: the call returned a new descriptor that nobody else owns.
        Self(unsafe { File::from_raw_fd(descriptor) })
    }

    fn is_any(&mut self) -> bool {
        self.0.read(&mut [0; 4096]).is_ok()
    }
}

/// A word with this in the place of each `@`.
fn filled(word: &str, nasty: &[u8]) -> OsString {
    let parts: Vec<&[u8]> = word.split('@').map(str::as_bytes).collect();
    OsString::from_vec(parts.join(nasty))
}

#[test]
fn info_and_report_say_that_the_size_of_the_file_ended_the_recording() {
    let place = Workplace::new();
    let [stopped, over] = [("x.syscap", StopReason::MaxSize), ("y.syscap", StopReason::Duration)]
        .map(|(name, reason)| {
            let file = File::create(place.path(name)).unwrap();
            fake::write_capture_with(file, &[], &[], Some(fake::summary(reason)));
            place.succeeds(&["info", name]).0
        });
    assert!(stopped.contains(" Stopped after 8.00 ms: ") && stopped.contains("--max-size"));
    assert!(!over.contains("Stopped"));
    for (name, is_said) in [("x.syscap", true), ("y.syscap", false)] {
        let (report, _) = place.succeeds(&["report", name]);
        assert_eq!(report.contains(", of a recording that stopped at --max-size"), is_said);
    }
}

#[test]
fn what_a_killed_recorder_left_is_named_where_its_output_is_asked_for() {
    let place = Workplace::new();
    let missing = place.fails(1, &["report", "k.pftrace"]);
    assert!(!missing.contains("partial"), "{missing}");
    place.capture("k.syscap.partial", &[]);
    for (command, name) in [("report", "k.pftrace"), ("info", "k.syscap"), ("info", "k.json.gz")] {
        let message = place.fails(1, &[command, name]);
        assert!(message.contains("name k.syscap.partial instead"), "{message}");
    }
}
