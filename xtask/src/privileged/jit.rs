//! Names of code that node makes while it runs, from the lists that it writes, and what other users
//! and the program itself can do to such a list.
//!
//! Compared with a program that spends its time in one function whose name is known.

use std::fs;
use std::io::Write;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use syscollect_model::SymbolTable;

use super::attacked::{AttackedRecorder, Bounds};
use super::busy_process::{self, BusyProcess, LONG, Running};
use super::context::{Context, DAEMON, NOBODY, finish, number, text};
use super::hostile_names::symbols_of;
use crate::report::Outcome;

/// The function, and a program that does nothing else for as many milliseconds as it is told.
const FUNCTION: &str = "recursive_sum";
const PROGRAM: &str = "function recursive_sum(n) \
    { return n < 2 ? n : recursive_sum(n - 1) + recursive_sum(n - 2); } const end = Date.now() + \
    Number(process.argv[1]); while (Date.now() < end) recursive_sum(20);";
const OF_NODE: BusyProcess<'_> = BusyProcess { process: "node", function: FUNCTION, least: 500 };
/// How long it runs, in milliseconds.
const MS: &str = "2500";
/// The same where all is emulated, and node's start takes many seconds.
const EMULATED_MS: &str = "30000";
/// How long a recording's end may take where lists are built to make it long: the share of a user's
/// programs that is spent on naming is 10 s of CPU time.
const LONGEST_END: Duration = Duration::from_secs(60);
/// Bytes of a list that never ends.
const ENDLESS: u64 = 64 << 30;

/// A function is found by name in the samples of a node that has ended, with either kind of list,
/// and of one in a container that goes on.
pub(crate) fn names(context: &Context) -> Result<Outcome> {
    if let Some(skipped) = without_node() {
        return Ok(skipped);
    }
    let ended = recorded(context, "--perf-basic-prof")?;
    if context.is_emulated() {
        return Ok(Outcome::Passed(format!(
            "in the function are {ended} of a node that has ended"
        )));
    }
    let dumped = recorded(context, "--perf-prof")?;
    let contained = match contained(context)? {
        Some(share) => format!("{share} of one in a container"),
        None => "containers of users are not offered".to_owned(),
    };
    Ok(Outcome::Passed(format!(
        "in the function are {ended} of a node that has ended, {dumped} of one with a jitdump, \
         {contained}"
    )))
}

/// The samples of a node that ends before the recording, with this option.
fn recorded(context: &Context, option: &str) -> Result<String> {
    let capture = context.path(&format!("node{option}.syscap"));
    let record = ["record", "-o", text(&capture)?, "--freq", "999", "--", "node", option];
    let milliseconds = if context.is_emulated() { EMULATED_MS } else { MS };
    context.succeed(&[&record[..], &["-e", PROGRAM, milliseconds]].concat())?;
    OF_NODE.share(context, &capture)
}

/// The samples of a node with a `/tmp` and process numbers of its own.
fn contained(context: &Context) -> Result<Option<String>> {
    let run = r#"mount -t tmpfs none /tmp && exec node --perf-basic-prof -e "$1" "$2""#;
    let Some(mut node) = busy_process::contained(run, &[PROGRAM, LONG]) else { return Ok(None) };
    let capture = context.path("contained.syscap");
    let recorder = context.start(&capture, &["--freq", "999"])?;
    let node = Running::start(&mut node)?;
    std::thread::sleep(Duration::from_millis(2500));
    context.stop(recorder)?;
    drop(node);
    OF_NODE.share(context, &capture).map(Some)
}

/// Of a program that replaces code at its place again and again, each has the samples of its time,
/// by the program's own account.
pub(crate) fn times(context: &Context) -> Result<Outcome> {
    let [capture, folded] = ["jit-times.syscap", "jit-times.folded"].map(|name| context.path(name));
    let folder = capture.parent().context("no folder")?;
    let load = ["jit", text(folder)?, "25"];
    let reported = context.record(&capture, &["--freq", "999"], &load)?;
    let reported = reported.first().context("the load printed nothing")?;
    let used = [number(reported, "first")?, number(reported, "second")?];
    context.succeed(&["flamegraph", text(&capture)?, "-o", text(&folded)?])?;
    let folded = fs::read_to_string(&folded)?;
    let samples = ["jit_first", "jit_second"].map(|name| {
        let lines = folded.lines().filter(|line| line.contains(name));
        lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum::<u64>()
    });
    let all: u64 = samples.iter().sum();
    let shares = [used[0] as f64 / (used[0] + used[1]) as f64, samples[0] as f64 / all as f64];
    let words = format!(
        "of {all} samples {} are in the first function, whose CPU time is {:.1} % ({:.1} % of \
         samples)",
        samples[0],
        shares[0] * 100.0,
        shares[1] * 100.0
    );
    ensure!(all >= if context.is_emulated() { 50 } else { 1000 }, "too few: {words}");
    ensure!((shares[0] - shares[1]).abs() < 0.05, "{words}");
    Ok(Outcome::Passed(words))
}

/// What becomes of lists that are not the program's, are no files, or never end.
pub(crate) fn hostile(context: &Context) -> Result<Outcome> {
    if let Some(skipped) = without_node() {
        return Ok(skipped);
    }
    let capture = context.path("hostile-jit.syscap");
    let recorder = AttackedRecorder::start_attacked(context, &capture, &["--freq", "999"])?;
    let foreign = Misled::start(|map| {
        fs::write(map, "0 7fffffffffff evil\n")?;
        chown(map, Some(NOBODY), Some(NOBODY)).map_err(Into::into)
    })?;
    let waiting = Misled::start(|map| {
        ensure!(finish(Command::new("mkfifo").arg(map))?.status.success(), "no FIFO can be made");
        chown(map, Some(DAEMON), None).map_err(Into::into)
    })?;
    let linked =
        Misled::start(|map| std::os::unix::fs::symlink("/etc/passwd", map).map_err(Into::into))?;
    let endless = Misled::start(|map| {
        let mut file = fs::File::create(map)?;
        file.write_all(b"0 7fffffffffff whole\n")?;
        file.set_len(ENDLESS)?;
        chown(map, Some(DAEMON), None).map_err(Into::into)
    })?;
    std::thread::sleep(Duration::from_secs(2));
    let bounds = Bounds { to_stop: LONGEST_END, ..Bounds::USUAL };
    let used = recorder.stop(context)?.within(&bounds)?;
    let tables = symbols_of(&capture, SymbolTable::GENERATED)?;
    foreign.is_refused(&tables, "another user")?;
    waiting.is_refused(&tables, "no regular file")?;
    linked.is_refused(&tables, "is not read")?;
    let table = endless.table(&tables)?;
    ensure!(
        table.note.contains("not read to its end") && !table.symbols.is_empty(),
        "of a list without an end: {table:?}"
    );
    Ok(Outcome::Passed(format!(
        "a foreign list, a FIFO and a link are refused, one without an end is cut; {used}"
    )))
}

/// A node of an ordinary user's, in the place of whose list something else lies.
struct Misled {
    map: PathBuf,
    node: Running,
}

impl Misled {
    fn start(put: impl Fn(&Path) -> Result<()>) -> Result<Self> {
        let mut node = Command::new("node");
        node.args(["-e", PROGRAM, LONG]).uid(DAEMON).gid(DAEMON);
        let node = Running::start(&mut node)?;
        let map = PathBuf::from(format!("/tmp/perf-{}.map", node.0.id()));
        let _ = fs::remove_file(&map);
        let misled = Self { map, node };
        put(&misled.map)?;
        Ok(misled)
    }

    /// What the capture says of the names of its code.
    fn table<'t>(&self, tables: &'t [SymbolTable]) -> Result<&'t SymbolTable> {
        let pid = self.node.0.id();
        let mut tables = tables.iter();
        tables
            .find(|table| table.memory.is_some_and(|memory| memory.pid == pid))
            .with_context(|| format!("nothing is said of the code of node {pid}"))
    }

    fn is_refused(&self, tables: &[SymbolTable], why: &str) -> Result<()> {
        let table = self.table(tables)?;
        ensure!(table.symbols.is_empty(), "names from {}: {table:?}", self.map.display());
        ensure!(table.note.contains(why), "it is not said why: {:?}", table.note);
        Ok(())
    }
}

impl Drop for Misled {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.map);
    }
}

/// Why nothing can be tried here.
fn without_node() -> Option<Outcome> {
    let found = finish(Command::new("node").arg("--version"));
    let is_there = found.is_ok_and(|version| version.status.success());
    (!is_there).then(|| Outcome::Skipped("there is no node".to_owned()))
}
