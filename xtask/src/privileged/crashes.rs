//! Crashes: programs that crash in every way on a thread of a pool, one that has no handler, and
//! one that only claims to crash; in the report and in all three viewers.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use syscollect_tests::tracy_reader;

use super::context::{Context, finish, json_lines, number, text, wait};
use super::hostile_files::Running;
use super::zones::load;
use crate::engine::Engine;
use crate::report::Outcome;

const CORE_PATTERN: &str = "/proc/sys/kernel/core_pattern";
/// For so long one claims crashes.
const CLAIM_SECONDS: &str = "1";
/// What the report keeps of one process, and what a reader of its claims tells at all.
const MOST_ROWS: usize = 4;
const MOST_TOLD: u64 = 32;

/// A way to crash.
struct Way {
    how: &'static str,
    /// What the handler is told of, and what ends the process: a handler that was there before may
    /// abort.
    told: &'static str,
    ends: libc::c_int,
    /// Why the kernel sent it; empty where kernels and C libraries differ.
    code: &'static str,
    /// The program's function where it happens.
    function: &'static str,
}

const WAYS: [Way; 5] = [
    Way {
        how: "segv",
        told: "SIGSEGV",
        ends: libc::SIGSEGV,
        code: "SEGV_MAPERR",
        function: "crashes_here",
    },
    Way {
        how: "abort",
        told: "SIGABRT",
        ends: libc::SIGABRT,
        code: "SI_TKILL",
        function: "crashes_here",
    },
    Way {
        how: "overflow",
        told: "SIGSEGV",
        ends: libc::SIGABRT,
        code: "",
        function: "overflows_here",
    },
    Way {
        how: "bare overflow",
        told: "SIGSEGV",
        ends: libc::SIGSEGV,
        code: "",
        function: "overflows_here",
    },
    Way {
        how: "panic in a panic",
        told: "SIGABRT",
        ends: libc::SIGABRT,
        code: "SI_TKILL",
        function: "crashes_here",
    },
];

/// A program that crashed.
struct Crashed {
    way: &'static Way,
    pid: u64,
    tid: u64,
}

pub(crate) fn crashes(context: &Context) -> Result<Outcome> {
    let capture = context.path("crashes.syscap");
    let folder = context.path("cores");
    fs::create_dir(&folder)?;
    let cores = CorePattern::into_folder(&folder);
    let recorder = context.start(&capture, &[])?;
    let crashed: Vec<Crashed> =
        WAYS.iter().map(|way| crash(context, way)).collect::<Result<_>>()?;
    let silent = ended(context, &["crash", "silent"], libc::SIGSEGV)?;
    let silent = number(silent.first().context("the silent one said nothing")?, "pid")?;
    let victim = Running::start(Command::new("sleep").arg("60"))?;
    let claims = ["claim-crashes", &victim.pid().to_string(), CLAIM_SECONDS];
    let claims = finish(Command::new(&context.load).args(claims))?;
    ensure!(claims.status.success(), "who claims crashes ended with {}", claims.status);
    let claims = json_lines(&claims.stdout)?;
    let claims = claims.first().context("who claims crashes said nothing")?;
    context.stop(recorder)?;
    let victim_pid = victim.pid();
    drop(victim);

    let pids = crashed.iter().map(|crashed| crashed.pid).chain([silent]);
    let dumped = cores.as_ref().map(|cores| cores.check(pids)).transpose()?;
    drop(cores);
    in_report(context, &capture, &crashed, silent, dumped.is_some())?;
    let hostile = Hostile { pid: number(claims, "pid")?, victim: victim_pid.into() };
    hostile.check(context, &capture, number(claims, "claims")?)?;
    in_tracy(context, &capture, &crashed[0])?;
    in_firefox(context, &capture, &crashed, silent)?;
    let dumps = dumped.map_or_else(
        || "core dumps cannot be asked for here".to_owned(),
        |dumped| format!("{dumped} core dumps"),
    );
    let summary = format!("{} ways to crash and a silent one; {dumps}", WAYS.len());
    match context.engine() {
        Some(engine) => {
            in_perfetto(engine, &context.export(&capture)?, &crashed, silent)?;
            Ok(Outcome::Passed(summary))
        }
        None => Ok(context.without_engine(summary)),
    }
}

fn crash(context: &Context, way: &'static Way) -> Result<Crashed> {
    let said = ended(context, &["crash", way.how], way.ends)?;
    let said = said.first().with_context(|| format!("{} said nothing", way.how))?;
    Ok(Crashed { way, pid: number(said, "pid")?, tid: number(said, "tid")? })
}

/// What a load said that ends by a signal.
fn ended(context: &Context, arguments: &[&str], signal: libc::c_int) -> Result<Vec<Value>> {
    let output = wait(load(context, arguments)?)?;
    ensure!(
        output.status.signal() == Some(signal),
        "{arguments:?} ended with {}: {}",
        output.status,
        output.stderr
    );
    json_lines(&output.stdout)
}

/// Has the kernel write core dumps into a folder, until it is dropped.
struct CorePattern {
    before: String,
    folder: PathBuf,
}

impl CorePattern {
    /// `None` where this machine does not let it.
    fn into_folder(folder: &Path) -> Option<Self> {
        let before = fs::read_to_string(CORE_PATTERN).ok()?;
        fs::write(CORE_PATTERN, format!("{}/core.%P", folder.display())).ok()?;
        Some(Self { before, folder: folder.to_path_buf() })
    }

    /// All of them left one; how many.
    fn check(&self, pids: impl Iterator<Item = u64>) -> Result<usize> {
        let mut dumped = 0;
        for pid in pids {
            let path = self.folder.join(format!("core.{pid}"));
            let core = fs::read(&path).with_context(|| format!("no core dump of {pid}"))?;
            ensure!(core.starts_with(b"\x7fELF"), "{} is no core dump", path.display());
            fs::remove_file(&path)?;
            dumped += 1;
        }
        Ok(dumped)
    }
}

impl Drop for CorePattern {
    fn drop(&mut self) {
        let _ = fs::write(CORE_PATTERN, self.before.trim_end());
    }
}

fn is_code_of(way: &Way, code: Option<&str>) -> bool {
    code.is_some_and(|code| way.code.is_empty() && code.starts_with("SEGV_") || code == way.code)
}

/// Whether a stack begins in that function, or in what was inlined there.
fn begins_in(frames: &[&str], function: &str) -> bool {
    frames.iter().take(3).any(|frame| frame.contains(function))
}

fn report(context: &Context, capture: &Path, options: &[&str]) -> Result<Value> {
    let mut arguments = vec!["report", text(capture)?, "--rows", "1000", "--json"];
    arguments.extend_from_slice(options);
    Ok(serde_json::from_str(&context.succeed(&arguments)?.stdout)?)
}

fn rows<'a>(report: &'a Value, table: &str) -> Result<&'a Vec<Value>> {
    report[table]["rows"].as_array().with_context(|| format!("no table {table}"))
}

fn words(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn in_report(
    context: &Context,
    capture: &Path,
    crashed: &[Crashed],
    silent: u64,
    dumps: bool,
) -> Result<()> {
    let report = report(context, capture, &[])?;
    for Crashed { way, pid, tid } in crashed {
        let row = rows(&report, "crashes")?.iter().find(|row| row["pid"] == *pid);
        let row = row.with_context(|| format!("{}: {pid} is not among the crashes", way.how))?;
        let frames = words(&row["frames"]);
        let end = row["end"].as_str().unwrap_or_default();
        let message = format!("about to crash: {}", way.how);
        let before = row["before"].as_array().into_iter().flatten();
        let said = before.filter(|event| event["kind"] == "message");
        let is_told = row["tid"] == *tid
            && row["signal"] == way.told
            && is_code_of(way, row["code"].as_str())
            && words(&row["open"]) == ["job", "last step"]
            && said.map(|event| &event["name"]).eq([&message])
            && frames.iter().any(|frame| frame.contains(way.function))
            && !frames.iter().any(|frame| frame.contains("on_crash") || frame.contains("crash::"))
            && end.starts_with("ended by SIG")
            && end.ends_with(", core dumped") == dumps;
        ensure!(is_told, "{}: {row}", way.how);
        if way.how != "abort" && way.how != "panic in a panic" {
            ensure!(begins_in(&frames, way.function), "{} struck elsewhere: {row}", way.how);
        }
    }
    let exits = rows(&report, "signal_exits")?;
    let row = exits.iter().find(|row| row["pid"] == silent);
    let row = row.context("who crashed silently is not told of")?;
    let thread = if dumps { silent.into() } else { Value::Null };
    let is_told = row["signal"] == "SIGSEGV" && row["is_crash"] == true && row["tid"] == thread;
    ensure!(is_told && row["core_dumped"] == dumps, "{row}");
    ensure!(!exits.iter().any(|row| crashed.iter().any(|it| row["pid"] == it.pid)), "{exits:?}");
    Ok(())
}

/// Who claims crashes, and whose number it claims.
struct Hostile {
    pid: u64,
    victim: u64,
}

impl Hostile {
    fn check(&self, context: &Context, capture: &Path, claims: u64) -> Result<()> {
        ensure!(claims > 20 * MOST_TOLD, "only {claims} crashes were claimed");
        let report = report(context, capture, &[])?;
        let crashes = rows(&report, "crashes")?;
        let own: Vec<&Value> = crashes.iter().filter(|row| row["pid"] == self.pid).collect();
        ensure!((1..=MOST_ROWS).contains(&own.len()), "{} rows of who claims", own.len());
        ensure!(own.iter().all(|row| row["end"].is_null()), "{own:?}");
        let last_true = crashes.iter().rposition(|row| !row["end"].is_null());
        let first_claim = crashes.iter().position(|row| row["end"].is_null());
        ensure!(last_true < first_claim, "claims come before crashes: {crashes:?}");
        ensure!(!crashes.iter().any(|row| row["pid"] == self.victim), "{crashes:?}");
        let total = number(&report["crashes"], "total")?;
        let most = MOST_TOLD + 2 * WAYS.len() as u64;
        ensure!(total <= most, "{total} crashes are told");
        let losses = report["losses"].to_string();
        ensure!(losses.contains("beyond"), "what is beyond a share is not counted: {losses}");
        Ok(())
    }
}

/// The file's one crash is the first that ended its process.
fn in_tracy(context: &Context, capture: &Path, first: &Crashed) -> Result<()> {
    let path = capture.with_extension("tracy");
    context.succeed(&["export", text(capture)?, "-o", text(&path)?, "--force"])?;
    let file = match tracy_reader::read(&fs::read(&path)?) {
        Ok(file) => file,
        Err(damage) => bail!("the .tracy file cannot be read: {damage}"),
    };
    let crash = file.crash.as_ref().context("the .tracy file has no crash")?;
    let functions = match crash.callstack {
        0 => Vec::new(),
        stack => file.stack_names(stack),
    };
    let is_told = crash.thread == first.tid
        && crash.message == "SIGSEGV (SEGV_MAPERR) at 0x1230"
        && begins_in(&functions, first.way.function);
    ensure!(is_told, "{crash:?} {functions:?}");
    Ok(())
}

/// Markers of the threads that crashed, with their stacks, and of processes that signals ended.
fn in_firefox(context: &Context, capture: &Path, crashed: &[Crashed], silent: u64) -> Result<()> {
    let path = capture.with_extension("json");
    context.succeed(&["export", text(capture)?, "-o", text(&path)?, "--force"])?;
    let profile: Value = serde_json::from_slice(&fs::read(&path)?)?;
    let threads = profile["threads"].as_array().context("the profile has no threads")?;
    let of = |tid: u64, kind: &str| -> Vec<&Value> {
        let threads = threads.iter().filter(|thread| is_number(&thread["tid"], tid));
        let data = threads.filter_map(|thread| thread["markers"]["data"].as_array());
        data.flatten().filter(|data| data["type"] == kind).collect()
    };
    for Crashed { way, pid, tid } in crashed {
        let crash = of(*tid, "crash");
        let crash = crash.first().with_context(|| format!("no marker of {}", way.how))?;
        let is_told = crash["signal"] == way.told && crash["cause"]["stack"].is_u64();
        ensure!(is_told, "{}: {crash}", way.how);
        let ends = [of(*tid, "signalExit"), of(*pid, "signalExit")].concat();
        ensure!(!ends.is_empty(), "nothing ends {}", way.how);
    }
    ensure!(of(silent, "signalExit").iter().any(|it| it["signal"] == "SIGSEGV"), "not silent's");
    Ok(())
}

/// Numbers of threads may be texts in a profile.
fn is_number(value: &Value, number: u64) -> bool {
    value.as_u64() == Some(number) || value.as_str() == Some(&number.to_string())
}

/// Instants on the threads' tracks with their stacks, and on tracks of the processes.
fn in_perfetto(engine: &Engine, trace: &Path, crashed: &[Crashed], silent: u64) -> Result<()> {
    let errors = engine.errors(trace)?;
    ensure!(errors.is_empty(), "the engine finds {errors:?}");
    let on_threads = "select t.tid, s.name, extract_arg(s.arg_set_id, 'debug.code'), \
                      extract_arg(s.arg_set_id, 'debug.stack') from slice s join thread_track k on \
                      s.track_id = k.id join thread t using (utid) where s.name like 'SIG%' order \
                      by s.ts";
    let on_processes = "select p.pid, s.name from slice s join process_track k on s.track_id = \
                        k.id join process p using (upid) where s.name like 'ended by SIG%'";
    let tables = engine.query(trace, &[on_threads, on_processes])?;
    let [threads, processes] = &tables[..] else { bail!("two tables: {tables:?}") };
    for Crashed { way, pid, tid } in crashed {
        let told = threads.iter().find(|row| row[0] == tid.to_string());
        let told = told.with_context(|| format!("no instant of {}: {threads:?}", way.how))?;
        let [_, signal, code, stack] = &told[..] else { bail!("four columns: {told:?}") };
        let is_told =
            signal == way.told && is_code_of(way, Some(code)) && stack.contains(way.function);
        ensure!(is_told, "{}: {told:?}", way.how);
        ensure!(processes.iter().any(|row| row[0] == pid.to_string()), "{pid}: {processes:?}");
    }
    ensure!(processes.iter().any(|row| row[0] == silent.to_string()), "{processes:?}");
    Ok(())
}
