//! Probes in programs that nobody changed: Python's function probes, those of
//! libstdc++, functions of the C library.
//!
//! Compared with how often the programs say that they did it, with what the
//! kernel shows of their memory, and by both ways of attaching.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use syscollect_model::LaneKind;
use syscollect_records::ProbeRecord;
use syscollect_store::{CaptureReader, Definition, ProbeDefinition, ProbeRole};

use super::context::{Context, finish, number, signal, text, until, wait};
use super::semaphores as values;
use crate::report::Outcome;

const PYTHON: &str = "/usr/bin/python3.11";
const FUNCTION_ZONES: &str = "python:function__entry..function__return";
/// How the collector is told to attach: by links to many places, by events of the PMU.
const WAYS: [&str; 2] = ["links", "events"];

/// The ways that this kernel offers to this user.
pub(crate) fn ways(context: &Context) -> Vec<&'static str> {
    let events = super::is_root() || !context.is_emulated();
    WAYS.into_iter()
        .filter(|way| if *way == "links" { context.offered.has("uprobe_multi") } else { events })
        .collect()
}

const CALLS: u64 = 1_000;

/// Every call of a Python function is a zone with its name, from the first line on.
pub(crate) fn python(context: &Context) -> Result<Outcome> {
    if !has_probes(Path::new(PYTHON)) {
        return Ok(Outcome::Skipped(format!("{PYTHON} is not there, or has no probes")));
    }
    let script = format!(
        "def f(n):\n  return n\nfor i in range({CALLS}): f(i)\nlist(map(f, range({CALLS})))"
    );
    for way in ways(context) {
        let capture = context.path(&format!("python-{way}.syscap"));
        record(
            context,
            way,
            &capture,
            &["--zone", FUNCTION_ZONES],
            &[PYTHON, "-S", "-c", &script],
        )?;
        let hits = Hits::read(&capture)?;
        for role in [ProbeRole::ZoneBegin, ProbeRole::ZoneEnd] {
            let named = hits
                .of(role)
                .filter(|hit| hit.strings.get(1).is_some_and(|name| name == "f"))
                .count() as u64;
            ensure!(
                named == 2 * CALLS,
                "{way}: {named} hits of {role:?} are of f, which was called {} times",
                2 * CALLS
            );
        }
        let (begins, ends) =
            (hits.of(ProbeRole::ZoneBegin).count(), hits.of(ProbeRole::ZoneEnd).count());
        ensure!(begins == ends, "{way}: {begins} functions were entered and {ends} left");
    }
    Ok(Outcome::Passed(format!(
        "{} calls, {} ways to attach, each entry and return",
        2 * CALLS,
        ways(context).len()
    )))
}

/// Each exception of a C++ program is seen where it is thrown and where it is caught.
pub(crate) fn exceptions(context: &Context) -> Result<Outcome> {
    let source = format!(
        "#include <stdexcept>\nint main() {{ int n = 0; for (int i = 0; i < {CALLS}; i++)\n\
         try {{ throw std::runtime_error(\"x\"); }} catch (std::exception &) {{ n++; }}\n\
         return n != {CALLS}; }}\n"
    );
    let Some(program) = compiled(context, "throws", &source)? else {
        return Ok(Outcome::Skipped("there is no C++ compiler".to_owned()));
    };
    for way in ways(context) {
        let capture = context.path(&format!("throws-{way}.syscap"));
        record(context, way, &capture, &["--usdt", "libstdcxx:*"], &[text(&program)?])?;
        let hits = Hits::read(&capture)?;
        for name in ["libstdcxx:throw", "libstdcxx:catch"] {
            let recorded = hits.named(name).count() as u64;
            ensure!(recorded == CALLS, "{way}: {recorded} hits of {name}, not {CALLS}");
        }
    }
    Ok(Outcome::Passed(format!(
        "{CALLS} throws and {CALLS} catches, {} ways to attach",
        ways(context).len()
    )))
}

/// Every other call of `fail` throws through itself and `middle` to `catches`; so often as it is
/// told, line by line.
const THROWN_THROUGH: &str = "#include <stdexcept>\n#include <cstdio>\n\
    #define PART extern \"C\" __attribute__((noinline, noclone))\nvolatile long sink;\n\
    PART void fail(long i) { sink += i; if (i % 2) throw std::runtime_error(\"x\"); sink++; }\n\
    PART void middle(long i) { std::string kept(30, 'x'); fail(i); sink += kept.size(); }\n\
    PART int catches(long i) { try { middle(i); return 0; } catch (std::exception &) \
    { sink++; return 1; } }\n\
    int main() { std::puts(\"0\"); std::fflush(stdout); for (long n; std::scanf(\"%ld\", &n) == \
    1;) {\n\
    long caught = 0; for (long i = 0; i < 2 * n; i++) caught += catches(i);\n\
    std::printf(\"%ld\\n\", caught); std::fflush(stdout); } }\n";

/// Exceptions pass through functions that are probed, in a program that runs already: all are
/// caught, each function is seen to end where it returned, and the program goes on without the
/// recorder.
pub(crate) fn unwinding(context: &Context) -> Result<Outcome> {
    let Some(program) = compiled(context, "unwinds", THROWN_THROUGH)? else {
        return Ok(Outcome::Skipped("there is no C++ compiler".to_owned()));
    };
    for way in ways(context) {
        let mut caller = Caller::of(Command::new(&program))?;
        let capture = context.path(&format!("unwinds-{way}.syscap"));
        let functions =
            ["fail", "middle", "catches"].map(|name| format!("{}:{name}", program.display()));
        let mut options = vec!["-p".to_owned(), caller.pid()];
        options
            .extend(functions.into_iter().flat_map(|function| ["--function".to_owned(), function]));
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let recorder = start(context, way, &capture, &options)?;
        caller.call(CALLS)?;
        ensure!(
            caller.answered == CALLS,
            "{} exceptions were caught, not {CALLS}",
            caller.answered
        );
        context.stop(recorder)?;
        caller.call(CALLS).context("without the recorder")?;
        let hits = Hits::read(&capture)?;
        for (name, returned) in [("fail", CALLS), ("middle", CALLS), ("catches", 2 * CALLS)] {
            let entries = hits.count(name, ProbeRole::FunctionEntry);
            let exits = hits.count(name, ProbeRole::FunctionExit);
            ensure!(entries == 2 * CALLS, "{way}: {entries} entries of {name}, not {}", 2 * CALLS);
            ensure!(exits == returned, "{way}: {exits} exits of {name}, not {returned}");
        }
    }
    Ok(Outcome::Passed(format!(
        "{CALLS} exceptions through two probed functions, {} ways to attach",
        ways(context).len()
    )))
}

/// A program made of C++; `None` where there is no compiler.
fn compiled(context: &Context, name: &str, source: &str) -> Result<Option<PathBuf>> {
    let (code, program) = (context.path(&format!("{name}.cc")), context.path(name));
    fs::write(&code, source)?;
    let compiled = Command::new("c++").args(["-O2", "-o"]).arg(&program).arg(&code).output();
    Ok(compiled.is_ok_and(|output| output.status.success()).then_some(program))
}

/// Entries and returns of a library's function, of one process that runs already.
pub(crate) fn functions(context: &Context) -> Result<Outcome> {
    for way in ways(context) {
        let Some(mut caller) = Caller::start()? else {
            return Ok(Outcome::Skipped(format!("no {PYTHON}")));
        };
        let capture = context.path(&format!("functions-{way}.syscap"));
        let recorder =
            start(context, way, &capture, &["--function", "libc.so.6:labs", "-p", &caller.pid()])?;
        caller.call(CALLS)?;
        context.stop(recorder)?;
        let hits = Hits::read(&capture)?;
        for role in [ProbeRole::FunctionEntry, ProbeRole::FunctionExit] {
            let recorded = hits.of(role).count() as u64;
            ensure!(recorded == CALLS, "{way}: {recorded} hits of {role:?}, not {CALLS}");
        }
        ensure!(hits.named("labs").count() as u64 == 2 * CALLS, "the function is not named labs");
    }
    Ok(Outcome::Passed(format!(
        "{CALLS} entries and returns, {} ways to attach",
        ways(context).len()
    )))
}

/// A recorder that does not come in time: what it has and what it lost is what was produced.
pub(crate) fn losses(context: &Context) -> Result<Outcome> {
    let many = context.times(200_000).max(50_000);
    let Some(mut caller) = Caller::start()? else {
        return Ok(Outcome::Skipped(format!("no {PYTHON}")));
    };
    let capture = context.path("probe-losses.syscap");
    let recorder = start(
        context,
        ways(context).first().copied().unwrap_or(WAYS[0]),
        &capture,
        &["--function", "libc.so.6:labs", "-p", &caller.pid()],
    )?;
    signal(recorder.id(), libc::SIGSTOP);
    let called = caller.call(many);
    signal(recorder.id(), libc::SIGCONT);
    called?;
    context.stop(recorder)?;
    let recorded = Hits::read(&capture)?.hits.len() as u64;
    let info = context.info(&capture)?;
    let losses = info["losses"].as_array().context("info tells no losses")?;
    let of_probes = losses.iter().filter(|loss| loss["lane"] == LaneKind::Probe.name());
    let lost = of_probes.map(|loss| number(loss, "count")).sum::<Result<u64>>()?;
    ensure!(lost > 0, "nothing was lost: the test has no obstacle");
    ensure!(
        recorded + lost == 2 * many,
        "{recorded} recorded and {lost} lost are not {}",
        2 * many
    );
    Ok(Outcome::Passed(format!("{recorded} recorded + {lost} lost = {}", 2 * many)))
}

/// Semaphores of a program that goes on are as before, also when the recorder was killed.
pub(crate) fn semaphores(context: &Context) -> Result<Outcome> {
    for way in ways(context) {
        for kill in [libc::SIGKILL, libc::SIGTERM] {
            let Some(caller) = Caller::start()? else {
                return Ok(Outcome::Skipped(format!("no {PYTHON}")));
            };
            if !has_probes(Path::new(PYTHON)) {
                return Ok(Outcome::Skipped(format!("{PYTHON} has no probes")));
            }
            let before = caller.semaphores()?;
            let capture = context.path(&format!("semaphores-{way}-{kill}.syscap"));
            let recorder = start(context, way, &capture, &["--zone", FUNCTION_ZONES])?;
            let raised = caller.semaphores()?;
            ensure!(
                raised["function__entry"] == before["function__entry"] + 1,
                "not raised: {raised:?}"
            );
            signal(recorder.id(), kill);
            wait(recorder)?;
            let after = until("semaphores to be lowered", || {
                let now = caller.semaphores().ok()?;
                (now == before).then_some(now)
            });
            after.with_context(|| {
                format!("{way}, signal {kill}: before {before:?}, now {:?}", caller.semaphores())
            })?;
        }
    }
    Ok(Outcome::Passed(format!("{} ways to attach, killed and terminated", ways(context).len())))
}

/// Records a command alone, attached in one of [`WAYS`].
fn record(
    context: &Context,
    way: &str,
    capture: &Path,
    options: &[&str],
    command: &[&str],
) -> Result<()> {
    let mut arguments = vec!["record", "-o", text(capture)?, "--only"];
    arguments.extend_from_slice(options);
    arguments.push("--");
    arguments.extend_from_slice(command);
    let output = finish(context.command(&arguments).env("SYSCOLLECT_UPROBES", way))?;
    ensure!(
        output.status.success(),
        "the recording ended with {}:\n{}{}",
        output.status,
        output.stdout,
        output.stderr
    );
    Ok(())
}

/// Starts a recorder that attaches in one of [`WAYS`]; returns once it records.
fn start(context: &Context, way: &str, capture: &Path, options: &[&str]) -> Result<Child> {
    let mut arguments = vec!["record", "--stacks", "none", "--freq", "0", "-o", text(capture)?];
    arguments.extend_from_slice(options);
    let mut command = context.command(&arguments);
    context.start_command(command.env("SYSCOLLECT_UPROBES", way), capture)
}

/// Whether Debian's probes are in the file.
fn has_probes(path: &Path) -> bool {
    let found = fs::read(path).map(|bytes| syscollect_probes::usdt_probes(&bytes[..]));
    matches!(found, Ok(Ok(found)) if found.probes.iter().any(|probe| probe.name == "function__entry"))
}

/// A hit as it lies in the capture.
struct Hit {
    probe: u32,
    strings: Vec<String>,
}

/// All hits of a capture, and what their numbers mean.
struct Hits {
    hits: Vec<Hit>,
    definitions: BTreeMap<u32, ProbeDefinition>,
}

impl Hits {
    fn read(path: &Path) -> Result<Self> {
        let reader = CaptureReader::open(path)?;
        let (mut hits, mut definitions) = (Vec::new(), BTreeMap::new());
        for lane in reader.lanes() {
            for entry in reader.chunks(lane) {
                let chunk = reader.read(entry)?;
                match lane.kind {
                    LaneKind::Probe => hits.append(&mut hits_in(&chunk.data)?),
                    LaneKind::Definition => {
                        if let Ok(Definition::Probes(probes)) = serde_json::from_slice(&chunk.data)
                        {
                            definitions
                                .extend(probes.into_iter().map(|probe| (probe.probe, probe)));
                        }
                    }
                    _ => {}
                }
            }
        }
        if let Some(hit) = hits.iter().find(|hit: &&Hit| !definitions.contains_key(&hit.probe)) {
            bail!("no definition of probe {}", hit.probe);
        }
        Ok(Self { hits, definitions })
    }

    fn of(&self, role: ProbeRole) -> impl Iterator<Item = &Hit> {
        self.hits.iter().filter(move |hit| self.definitions[&hit.probe].role == role)
    }

    fn named(&self, name: &str) -> impl Iterator<Item = &Hit> {
        self.hits.iter().filter(move |hit| self.definitions[&hit.probe].name == name)
    }

    fn count(&self, name: &str, role: ProbeRole) -> u64 {
        self.named(name).filter(|hit| self.definitions[&hit.probe].role == role).count() as u64
    }
}

fn hits_in(mut data: &[u8]) -> Result<Vec<Hit>> {
    let mut hits = Vec::new();
    while !data.is_empty() {
        let record = ProbeRecord::from_bytes(data).context("a record is cut")?;
        let (bytes, rest) =
            data.split_at_checked(usize::from(record.size)).context("a record is cut")?;
        let mut strings = bytes
            .get(ProbeRecord::SIZE + 8 * usize::from(record.arguments)..)
            .context("too short")?;
        let mut found = Vec::new();
        while let [low, high, _, _, ..] = *strings {
            let length = usize::from(u16::from_le_bytes([low, high]));
            let words = strings.get(4..4 + length).context("a text is cut")?;
            found.push(String::from_utf8_lossy(words).into_owned());
            strings = strings.get((4 + length).next_multiple_of(8)..).unwrap_or_default();
        }
        hits.push(Hit { probe: record.probe, strings: found });
        data = rest;
    }
    Ok(hits)
}

/// A program that does something so often as it is told: Python, which calls `labs` of the C
/// library, or another.
struct Caller {
    child: Child,
    answers: BufReader<std::process::ChildStdout>,
    /// The number it printed last.
    answered: u64,
}

impl Caller {
    /// `None` where there is no such Python.
    fn start() -> Result<Option<Self>> {
        const SCRIPT: &str = "import ctypes, sys\nlabs = ctypes.CDLL('libc.so.6').labs\n\
                              print(0, flush=True)\n\
                              for line in sys.stdin:\n  for i in range(int(line)): labs(i)\n  \
                              print(0, flush=True)\n";
        if !Path::new(PYTHON).exists() {
            return Ok(None);
        }
        let mut command = Command::new(PYTHON);
        command.args(["-S", "-c", SCRIPT]);
        Self::of(command).map(Some)
    }

    /// A program that answers each line, and once before the first.
    fn of(mut command: Command) -> Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let answers = BufReader::new(child.stdout.take().context("no output of the program")?);
        let mut caller = Self { child, answers, answered: 0 };
        caller.answer()?;
        Ok(caller)
    }

    fn pid(&self) -> String {
        self.child.id().to_string()
    }

    /// Waits until the program has done so many calls.
    fn call(&mut self, times: u64) -> Result<()> {
        writeln!(self.child.stdin.as_mut().context("no input of the program")?, "{times}")?;
        self.answer()
    }

    fn answer(&mut self) -> Result<()> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        self.answered =
            line.trim().parse().with_context(|| format!("the program printed {line:?}"))?;
        Ok(())
    }

    /// The program's semaphores by their probes' names, as its memory holds them.
    fn semaphores(&self) -> Result<BTreeMap<String, u16>> {
        values::semaphores(self.child.id(), Path::new(PYTHON))
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        // It may have ended; then there is nothing to end or to wait for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
