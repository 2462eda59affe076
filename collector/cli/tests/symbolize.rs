//! Captures that get the names they lack, on a machine that has nothing of the one that recorded
//! but some files. No root needed.

#![cfg(target_os = "linux")]
// What a test cannot do without is not there: it fails, which is all it can do.
#![allow(clippy::unwrap_used)]

use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use syscollect_fixtures::elf::debug_file;
use syscollect_fixtures::server::{response, serve};
use syscollect_model::{BuildId, Mapping, Symbol, SymbolFrame, SymbolTable, Ticks};
use syscollect_store::{
    CaptureReader, CaptureWriter, Definition, FilePartsWriter, KeptFile, StoreError,
};
use syscollect_symbolize::{ModuleRequest, Options, PinnedFiles, build_id_of, parts_of_module};
use syscollect_tests::{FakeMachine, Stacks};

/// Where the program lay on the machine that recorded.
const PATH: &str = "/opt/there/program";
const LOADED: u64 = 0x5555_0000_0000;

/// This test program, which has symbols, in the place of one that was recorded.
struct Program {
    path: PathBuf,
    build_id: BuildId,
    /// Where its code begins and ends in the file.
    code: std::ops::Range<u64>,
    /// Where `main` lies.
    main: u64,
}

#[unsafe(no_mangle)]
extern "C" fn a_function_with_a_plain_name(number: u64) -> u64 {
    std::hint::black_box(number).wrapping_mul(3)
}

impl Program {
    fn read() -> Self {
        let address = a_function_with_a_plain_name as *const () as u64;
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let code = maps.lines().find_map(|line| {
            let mut fields = line.split_ascii_whitespace();
            let (start, end) = fields.next()?.split_once('-')?;
            let (range, offset) = (hex(start)..hex(end), hex(fields.nth(1)?));
            range.contains(&address).then_some((range, offset))
        });
        let (range, offset) = code.unwrap();
        let path = std::env::current_exe().unwrap();
        let build_id = build_id_of(&File::open(&path).unwrap()).unwrap();
        let code = offset..offset + (range.end - range.start);
        Self { path, build_id, code, main: address - range.start + offset }
    }

    /// An address in the function, in the memory of the process that was recorded.
    fn address(&self) -> u64 {
        LOADED + self.main - self.code.start
    }

    /// What the recorder found of it, which knew where functions begin and no names.
    fn range_only(&self) -> SymbolTable {
        let label = SymbolFrame { function: "program+0x1234".into(), ..SymbolFrame::default() };
        SymbolTable {
            path: PATH.into(),
            build_id: self.build_id.clone(),
            symbols: vec![Symbol {
                offset: self.main,
                start: self.main,
                size: 8,
                range_only: true,
                frames: vec![label],
                ..Symbol::default()
            }],
            note: "it has no symbols for this code".into(),
            ..SymbolTable::default()
        }
    }
}

fn hex(digits: &str) -> u64 {
    u64::from_str_radix(digits, 16).unwrap()
}

struct Workplace {
    folder: tempfile::TempDir,
    program: Program,
}

impl Workplace {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), program: Program::read() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A capture with a sample in the function, and one in code of nobody's.
    fn capture(&self, name: &str) -> Vec<u8> {
        let mut machine = FakeMachine::new(1);
        machine.process(70, 1, "program", &[]);
        let Program { build_id, code, .. } = &self.program;
        let mapping = Mapping {
            pid: 70,
            start: LOADED,
            end: LOADED + (code.end - code.start),
            file_offset: code.start,
            path: PATH.into(),
            build_id: build_id.clone(),
            since: Ticks(0),
        };
        let other = Mapping {
            start: mapping.start + (1 << 32),
            end: mapping.end + (1 << 32),
            path: "/opt/there/other".into(),
            build_id: BuildId::from_bytes(&[7; 20]),
            ..mapping
        };
        // The recorder maps the first page of each file for a look at it.
        let looked_at = Mapping { pid: 5, end: LOADED + 0x1000, file_offset: 0, ..mapping.clone() };
        machine.define(&Definition::Mappings(vec![mapping, other, looked_at]));
        machine.running(0, 70);
        let stack = [self.program.address(), LOADED + (1 << 32) + 0x11];
        let user = machine.sample_stack(0, 10, 70, &stack);
        machine.sample(0, 10, 70, Stacks { user, kernel: 0 }, 0);
        machine.symbols(self.program.range_only());
        let bytes = machine.finish();
        fs::write(self.path(name), &bytes).unwrap();
        bytes
    }

    /// A capture that keeps what naming the program needs, and had no room for another file.
    fn bundled_capture(&self, name: &str) -> Vec<u8> {
        self.capture(name);
        let Program { path, build_id, .. } = &self.program;
        let request = ModuleRequest {
            path: path.to_str().unwrap().into(),
            build_id: build_id.clone(),
            ..ModuleRequest::default()
        };
        let parts = parts_of_module(&PinnedFiles::new(), &Options::default(), &request).unwrap();
        let own = parts.iter().find(|parts| !parts.is_debug()).unwrap();
        let reader = CaptureReader::open(&self.path(name)).unwrap();
        let mut file = File::options().read(true).write(true).open(self.path(name)).unwrap();
        let end = reader.valid_length();
        let mut writer = FilePartsWriter::append(file.try_clone().unwrap(), end, &reader);
        let kept = writer.add::<WriteError>(u64::MAX, |to| own.read(to)).unwrap().unwrap();
        let kept = KeptFile {
            path: PATH.into(),
            build_id: build_id.clone(),
            length: own.length(),
            bytes: own.bytes(),
            ..kept
        };
        let missing = KeptFile {
            path: "/opt/there/other".into(),
            build_id: BuildId::from_bytes(&[7; 20]),
            bytes: 300 << 20,
            reason: "no room".into(),
            ..KeptFile::default()
        };
        file.seek(SeekFrom::Start(writer.end())).unwrap();
        let mut writer = CaptureWriter::append(file, reader.next_definition_sequence());
        writer.define(&Definition::Files(vec![kept, missing])).unwrap();
        writer.finish().unwrap();
        fs::read(self.path(name)).unwrap()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_syscollect"));
        command.args(arguments).current_dir(self.folder.path());
        // Whoever runs the tests through sudo is not part of them, nor are servers of theirs.
        command.env_remove("SUDO_UID").env_remove("SUDO_GID").env_remove("DEBUGINFOD_URLS");
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// The same with a server to be asked; what it says.
    fn asks(&self, server: &str, arguments: &[&str]) -> String {
        self.asks_and_ends_with(0, server, arguments)
    }

    fn asks_and_ends_with(&self, code: i32, server: &str, arguments: &[&str]) -> String {
        let mut command = self.command(arguments);
        command.env("DEBUGINFOD_URLS", server).env("DEBUGINFOD_TIMEOUT", "2");
        let output = command.env("DEBUGINFOD_CACHE_PATH", self.path("cache")).output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {message}");
        message
    }

    fn succeeds(&self, arguments: &[&str]) -> (String, String) {
        let output = self.run(arguments);
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{arguments:?}: {message}");
        (String::from_utf8(output.stdout).unwrap(), message)
    }

    fn fails(&self, code: i32, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {message}");
        message
    }

    /// Stacks as the flame graph has them.
    fn stacks(&self, capture: &str, more: &[&str]) -> String {
        let all = [&["flamegraph", capture, "-o", "-", "--format", "folded"], more].concat();
        self.succeeds(&all).0
    }

    /// The program in a folder of its own, under another name.
    fn symbols(&self) -> PathBuf {
        let folder = self.path("symbols/deep");
        fs::create_dir_all(&folder).unwrap();
        symlink_or_copy(&self.program.path, &folder.join("whatever"));
        self.path("symbols")
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// Whatever keeps parts of a file from being added.
#[derive(Debug)]
struct WriteError;

impl From<io::Error> for WriteError {
    fn from(_: io::Error) -> Self {
        Self
    }
}

impl From<StoreError> for WriteError {
    fn from(_: StoreError) -> Self {
        Self
    }
}

fn symlink_or_copy(from: &Path, to: &Path) {
    if fs::hard_link(from, to).is_err() {
        fs::copy(from, to).unwrap();
    }
}

#[test]
fn a_capture_gets_names_from_a_folder_and_keeps_every_byte_it_had() {
    let place = Workplace::new();
    let before = place.capture("x.syscap");
    assert!(place.stacks("x.syscap", &[]).contains("program+0x1234"));
    fs::set_permissions(place.path("x.syscap"), PermissionsExt::from_mode(0o640)).unwrap();
    place.symbols();
    let (out, message) = place.succeeds(&["symbolize", "x.syscap", "--symbols", "symbols"]);
    assert!(out.is_empty(), "{out}");
    for part in [
        "named 1 of 2 frames without names, in 1 file: ",
        "still without a name: 1 frame of 1 file",
        "/opt/there/other, 1 frame: no symbols with its build id 07070707",
        "--symbols DIR looks for these",
    ] {
        assert!(message.contains(part), "{part:?} is not in {message}");
    }
    let after = fs::read(place.path("x.syscap")).unwrap();
    assert!(after.len() > before.len() && after.starts_with(&before));
    assert_eq!(fs::metadata(place.path("x.syscap")).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(place.names(), ["symbols", "x.syscap"], "nothing else is left");
    let stacks = place.stacks("x.syscap", &[]);
    assert!(stacks.contains("a_function_with_a_plain_name"), "{stacks}");
    assert!(!stacks.contains("program+0x1234"), "the range is replaced: {stacks}");
    let reader = CaptureReader::open(&place.path("x.syscap")).unwrap();
    assert!(reader.damage().is_empty() && reader.is_complete(), "{:?}", reader.damage());
    // What it has it is not given again.
    let message = place.fails(1, &["symbolize", "x.syscap", "--symbols", "symbols"]);
    assert!(message.contains("nothing was named: "), "{message}");
    assert_eq!(fs::read(place.path("x.syscap")).unwrap(), after);
}

#[test]
fn another_output_leaves_the_capture_alone_and_is_not_replaced_unasked() {
    let place = Workplace::new();
    let before = place.capture("x.syscap");
    place.symbols();
    let all = ["symbolize", "x.syscap", "--symbols", "symbols", "-o", "y.syscap"];
    place.succeeds(&all);
    assert_eq!(fs::read(place.path("x.syscap")).unwrap(), before);
    assert!(place.stacks("y.syscap", &[]).contains("a_function_with_a_plain_name"));
    assert!(place.fails(1, &all).contains("--force"));
    place.succeeds(&[&all[..], &["--force"]].concat());
    let same = ["symbolize", "x.syscap", "-o", "./x.syscap"];
    assert!(place.fails(2, &same).contains("leave out -o"));
    assert!(place.fails(1, &["symbolize", "no.syscap"]).contains("no.syscap"));
    fs::write(place.path("list"), "this is a shopping list").unwrap();
    assert!(!place.fails(1, &["symbolize", "list"]).is_empty());
    symlink("x.syscap", place.path("link.syscap")).unwrap();
    assert!(place.fails(1, &["symbolize", "link.syscap"]).contains("symbolic link"));
    assert_eq!(fs::read(place.path("x.syscap")).unwrap(), before);
}

#[test]
fn a_debug_file_without_the_program_is_enough() {
    let place = Workplace::new();
    place.capture("x.syscap");
    let debug = debug_file(&fs::read(&place.program.path).unwrap());
    fs::write(place.path("program.debug"), debug).unwrap();
    let (_, message) = place.succeeds(&["symbolize", "x.syscap", "--symbols", "program.debug"]);
    assert!(message.contains("named 1 of 2 frames"), "{message}");
    assert!(place.stacks("x.syscap", &[]).contains("a_function_with_a_plain_name"));
}

#[test]
fn what_is_behind_the_last_chunk_of_a_killed_recording_goes_and_the_rest_stays() {
    let place = Workplace::new();
    let before = place.capture("x.syscap.partial");
    let mut cut = before.clone();
    cut.extend([0xfd; 50]);
    fs::write(place.path("x.syscap.partial"), &cut).unwrap();
    place.symbols();
    place.succeeds(&["symbolize", "x.syscap.partial", "--symbols", "symbols"]);
    let after = fs::read(place.path("x.syscap.partial")).unwrap();
    assert!(after.starts_with(&before) && !after.starts_with(&cut));
    assert!(place.stacks("x.syscap.partial", &[]).contains("a_function_with_a_plain_name"));
}

#[test]
fn a_folder_that_does_not_fit_or_is_not_there_is_an_error_and_changes_nothing() {
    let place = Workplace::new();
    let before = place.capture("x.syscap");
    fs::create_dir(place.path("empty")).unwrap();
    let message = place.fails(1, &["symbolize", "x.syscap", "--symbols", "empty"]);
    assert!(message.contains("nothing was named: "), "{message}");
    assert!(message.contains("--symbols DIR looks for these in DIR"), "the way: {message}");
    place.symbols();
    let absent = ["x.syscap", "--symbols", "symbols", "--symbols", "nowhere"];
    for command in ["symbolize", "report"] {
        let message = place.fails(1, &[&[command], &absent[..]].concat());
        assert!(message.contains("--symbols nowhere: it cannot be read: "), "{message}");
        assert!(message.contains("name a folder with debug files"), "the way: {message}");
    }
    assert_eq!(fs::read(place.path("x.syscap")).unwrap(), before);
}

#[test]
fn exports_and_reports_take_folders_of_symbols_too() {
    let place = Workplace::new();
    let before = place.capture("x.syscap");
    place.symbols();
    let stacks = place.stacks("x.syscap", &["--symbols", "symbols"]);
    assert!(stacks.contains("a_function_with_a_plain_name"), "{stacks}");
    let (report, _) = place.succeeds(&["report", "x.syscap", "--symbols", "symbols"]);
    assert!(report.contains("a_function_with_a_plain_name"), "{report}");
    assert_eq!(fs::read(place.path("x.syscap")).unwrap(), before, "the capture is not changed");
}

#[test]
fn servers_give_the_debug_files_that_are_missing() {
    let place = Workplace::new();
    let before = place.capture("x.syscap");
    let debug = debug_file(&fs::read(&place.program.path).unwrap());
    let wanted = format!("/buildid/{}/debuginfo", place.program.build_id);
    let (url, asked) = serve(move |path| match path == wanted {
        true => response("200 OK", &debug),
        false => response("404 Not Found", b""),
    });
    // Nobody is asked unless somebody says so.
    let nobody = ["symbolize", "x.syscap", "-o", "nothing.syscap"];
    place.asks_and_ends_with(1, &url, &nobody);
    assert!(asked.try_iter().next().is_none());
    let message = place.asks(&url, &["symbolize", "x.syscap", "-o", "y.syscap", "--debuginfod"]);
    for part in [
        "debuginfod: fetched the debug file of /opt/there/program, ",
        "debuginfod: debug files of 1 of 2 modules without names, ",
        "named 1 of 2 frames without names, in 1 file: ",
    ] {
        assert!(message.contains(part), "{part:?} is not in {message}");
    }
    assert_eq!(asked.try_iter().count(), 2);
    assert!(place.stacks("y.syscap", &[]).contains("a_function_with_a_plain_name"));
    // What was fetched, and what nobody has, is known from now on; exports may ask, too.
    let all = ["export", "x.syscap", "-o", "x.folded", "--debuginfod"];
    place.asks(&url, &all);
    assert!(asked.try_iter().next().is_none());
    let stacks = fs::read_to_string(place.path("x.folded")).unwrap();
    assert!(stacks.contains("a_function_with_a_plain_name"), "{stacks}");
    assert_eq!(fs::read(place.path("x.syscap")).unwrap(), before);
}

#[test]
fn a_server_that_does_not_answer_is_left_and_told_of() {
    let place = Workplace::new();
    place.capture("x.syscap");
    let (url, _asked) = serve(|_| {
        std::thread::sleep(std::time::Duration::from_secs(3600));
        Vec::new()
    });
    let message = place.asks_and_ends_with(1, &url, &["symbolize", "x.syscap", "--debuginfod"]);
    assert!(message.contains(&format!("debuginfod: {url} is left: ")), "{message}");
    assert!(message.contains("nothing was named: "), "{message}");
}

#[test]
fn without_servers_to_ask_it_is_an_error_before_anything_is_done() {
    let place = Workplace::new();
    place.capture("x.syscap");
    for command in
        [&["symbolize", "x.syscap", "--debuginfod"][..], &["report", "x.syscap", "--debuginfod"]]
    {
        assert!(place.fails(1, command).contains("DEBUGINFOD_URLS names no server"));
    }
    // SAFETY: geteuid has no preconditions and always succeeds.
    if unsafe { libc::geteuid() } == 0 {
        let mut command = place.command(&["symbolize", "x.syscap", "--debuginfod"]);
        command.env("DEBUGINFOD_URLS", "http://127.0.0.1:9").env("SUDO_UID", "1000");
        let output = command.env("SUDO_GID", "1000").output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && message.contains("run this without sudo"), "{message}");
    }
}

#[test]
fn a_capture_behind_another_in_one_file_is_kept_and_told_of() {
    let place = Workplace::new();
    let one = place.capture("one.syscap");
    fs::write(place.path("both.syscap"), [&one[..], &one].concat()).unwrap();
    place.symbols();
    let symbolize = ["symbolize", "both.syscap", "--symbols", "symbols"];
    let message = place.fails(1, &symbolize);
    assert!(message.contains("holds another capture behind its own"), "{message}");
    assert_eq!(fs::read(place.path("both.syscap")).unwrap().len(), 2 * one.len());
    place.succeeds(&[&symbolize[..], &["-o", "named.syscap"]].concat());
    assert!(place.stacks("named.syscap", &[]).contains("a_function_with_a_plain_name"));
    let (_, message) = place.succeeds(&["report", "both.syscap"]);
    let reported = format!("another capture begins at byte {}", one.len());
    assert!(message.contains(&reported), "{message}");
}

#[test]
fn a_capture_that_keeps_symbols_is_named_where_the_program_is_not() {
    let place = Workplace::new();
    let before = place.bundled_capture("x.syscap");
    // Without any of it being asked for, and the capture stays as it is.
    let stacks = place.stacks("x.syscap", &[]);
    assert!(stacks.contains("a_function_with_a_plain_name"), "{stacks}");
    let (report, _) = place.succeeds(&["report", "x.syscap"]);
    assert!(report.contains("a_function_with_a_plain_name"), "{report}");
    assert_eq!(fs::read(place.path("x.syscap")).unwrap(), before);

    let (_, message) = place.succeeds(&["symbolize", "x.syscap"]);
    assert!(message.contains("named 1 of 2 frames without names, in 1 file: "), "{message}");
    assert!(message.contains("/opt/there/other, 1 frame: no symbols with its"), "{message}");
    let after = fs::read(place.path("x.syscap")).unwrap();
    assert!(after.len() > before.len() && after.starts_with(&before));
    let reader = CaptureReader::open(&place.path("x.syscap")).unwrap();
    assert!(reader.damage().is_empty() && reader.is_complete(), "{:?}", reader.damage());
    assert_eq!(reader.files().count(), 2, "what it keeps it keeps");
    assert!(place.stacks("x.syscap", &[]).contains("a_function_with_a_plain_name"));
}

#[test]
fn what_a_capture_keeps_is_told_with_what_it_had_no_room_for() {
    let place = Workplace::new();
    place.bundled_capture("x.syscap");
    let (text, _) = place.succeeds(&["info", "x.syscap"]);
    for part in [
        "Kept       symbols of 1 file, ",
        "not kept: 1 file",
        "/opt/there/other, 315 MB: no room",
        "--bundle-size",
    ] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
    let (json, _) = place.succeeds(&["info", "x.syscap", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let kept = json["kept_files"].as_array().unwrap();
    assert_eq!((kept.len(), &kept[0]["path"]), (2, &PATH.into()));
    assert_eq!((&kept[1]["reason"], &kept[1]["chunks"]), (&"no room".into(), &0.into()));
    assert_eq!(json["lost"], 0);
    place.capture("plain.syscap");
    let (json, _) = place.succeeds(&["info", "plain.syscap", "--json"]);
    assert!(!json.contains("kept_files"), "{json}");
}

#[test]
fn symbols_that_are_damaged_in_a_capture_name_nothing_and_are_told_of() {
    let place = Workplace::new();
    place.capture("plain.syscap");
    let plain = fs::metadata(place.path("plain.syscap")).unwrap().len() as usize;
    let mut damaged = place.bundled_capture("x.syscap");
    let middle = plain + (damaged.len() - plain) / 2;
    damaged[middle..middle + 64].fill(0x55);
    fs::write(place.path("x.syscap"), damaged).unwrap();
    let message = place.fails(1, &["symbolize", "x.syscap"]);
    assert!(
        message.contains("what the capture has of /opt/there/program is not used: "),
        "{message}"
    );
    assert!(message.contains("nothing was named: "), "{message}");
    // The events are all there.
    assert!(place.stacks("x.syscap", &[]).contains("program+0x1234"));
}

#[test]
fn files_that_the_user_names_give_the_lines_that_a_capture_does_not_keep() {
    let place = Workplace::new();
    place.bundled_capture("x.syscap");
    place.succeeds(&["symbolize", "x.syscap", "-o", "kept.syscap"]);
    assert!(!has_lines(&place.path("kept.syscap")));
    let symbols = place.symbols();
    let symbols = symbols.to_str().unwrap();
    place.succeeds(&["symbolize", "x.syscap", "-o", "lines.syscap", "--symbols", symbols]);
    assert!(has_lines(&place.path("lines.syscap")));
}

/// Whether a capture has lines of the program.
fn has_lines(capture: &Path) -> bool {
    let reader = CaptureReader::open(capture).unwrap();
    let tables = reader.definitions().filter_map(|definition| match definition {
        Ok(Definition::Symbols(table)) if table.path == PATH => Some(table),
        _ => None,
    });
    let symbols: Vec<_> = tables.flat_map(|table| table.symbols).collect();
    symbols.iter().flat_map(|symbol| &symbol.frames).any(|frame| frame.line > 0)
}
