//! Python frames: functions of Python programs in samples and in off-CPU stacks, without help of
//! these programs, in every version that is found.
//!
//! Compared with a program of which it is known who calls whom, through the interpreter's own loop
//! and through functions written in C. From 3.12 on once more with a trampoline for each function,
//! code that no file has: stacks come through it whole.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use super::context::{Context, finish, text};
use crate::report::Outcome;

/// The main thread computes in `innermost`, the other one waits in `waits`.
const PROGRAM: &str = "\
import sys, threading, time

def innermost(end):
    total = 0
    while time.monotonic() < end:
        for number in range(1000):
            total += number * number
    return total

def through_c(end):
    return sum(map(innermost, [end]))

def generated(end):
    yield through_c(end)

def outermost(end):
    return sum(generated(end))

def waits(end):
    while time.monotonic() < end:
        time.sleep(0.001)

end = time.monotonic() + float(sys.argv[1])
threading.Thread(target=waits, args=(end,)).start()
outermost(end)
";
const FILE: &str = "chain.py";
/// What the frame is called that stands for missing ones begins so.
const CUT: &str = "[truncated";
/// What runs Python functions.
const LOOP: &str = "_PyEval_EvalFrameDefault";
const CHAINS: &[&[&str]] =
    &[&["<module>", "outermost", "generated", "through_c", "innermost"], &["waits"]];
/// Of 1,000 stacks that come through the interpreter's loop so many have the functions that run,
/// once the interpreter's file is known.
const SHOWN: u64 = 995;
/// And from the first moment on: a program begins with what it imports, and its interpreter may be
/// one that the recorder has not met.
const SHOWN_IN_ALL: u64 = 850;
/// What has interpreters make trampolines (for `perf`, which is told their names), and from which
/// version on.
const TRAMPOLINES: &[&str] = &["-X", "perf"];
const FIRST_WITH_TRAMPOLINES: u32 = 12;
/// Of 1,000 stacks so many are whole then.
const WHOLE: u64 = 995;
/// How long the program runs, and when what comes first is over, seconds.
const RUNS: &str = "3";
const RUNS_EMULATED: &str = "10";
const KNOWN: &str = "1s";

/// The chains are found whole in the samples and the off-CPU stacks of every Python that is there.
pub(crate) fn python(context: &Context) -> Result<Outcome> {
    let script = context.path(FILE);
    fs::write(&script, PROGRAM).context("cannot write the program")?;
    let mut interpreters = interpreters();
    if context.is_emulated() {
        interpreters.truncate(1);
    }
    if interpreters.is_empty() {
        return Ok(Outcome::Skipped("there is no Python from 3.8 to 3.14".to_owned()));
    }
    let mut seen = Vec::new();
    for python in &interpreters {
        seen.push(tried(context, python, &[], &script)?);
        if python.minor >= FIRST_WITH_TRAMPOLINES {
            let shown = tried(context, python, TRAMPOLINES, &script);
            seen.push(shown.context("with a trampoline for each function")?);
        }
    }
    Ok(Outcome::Passed(seen.join("; ")))
}

/// An interpreter, and its minor version.
struct Interpreter {
    path: PathBuf,
    minor: u32,
}

/// Debian's, and those that pyenv has built, by version.
fn interpreters() -> Vec<Interpreter> {
    let built = std::env::home_dir().map(|home| home.join(".pyenv/versions"));
    let built = built.and_then(|folder| fs::read_dir(folder).ok()).into_iter().flatten();
    let built = built.flatten().map(|version| version.path().join("bin/python3"));
    let mut all: Vec<Interpreter> = [PathBuf::from("/usr/bin/python3")]
        .into_iter()
        .chain(built)
        .filter_map(|path| Some(Interpreter { minor: minor_version(&path)?, path }))
        .filter(|python| (8..=14).contains(&python.minor))
        .collect();
    // Debian's first: where little is tried it is that.
    all.sort_by_key(|python| (!python.path.starts_with("/usr"), python.minor));
    all
}

fn minor_version(python: &Path) -> Option<u32> {
    let ask = ["-c", "import sys; print(sys.version_info[1])"];
    let answer = finish(Command::new(python).args(ask)).ok()?;
    answer.status.success().then(|| answer.stdout.trim().parse().ok())?
}

/// Records the program; what was seen, in words.
fn tried(
    context: &Context,
    python: &Interpreter,
    options: &[&str],
    script: &Path,
) -> Result<String> {
    let capture = context.path(&format!("python-3.{}.syscap", python.minor));
    let record = ["record", "--force", "-o", text(&capture)?, "--freq", "999", "--"];
    // An emulated machine is slow to learn of the interpreter.
    let runs = if context.is_emulated() { RUNS_EMULATED } else { RUNS };
    let program = [&[text(&python.path)?][..], options, &[text(script)?, runs]].concat();
    context.succeed(&[&record[..], &program].concat())?;
    let version = [&[&*format!("3.{}", python.minor)][..], options].concat().join(" ");
    let shown = shown_in(context, &capture)
        .with_context(|| format!("Python {version} ({})", python.path.display()))?;
    Ok(format!("{version}: {shown}"))
}

fn shown_in(context: &Context, capture: &Path) -> Result<String> {
    let all = Shown::of(context, capture, &["--stacks", "on-cpu"])?;
    let later = Shown::of(context, capture, &["--stacks", "on-cpu", "--from", KNOWN])?;
    let waits = Shown::of(context, capture, &["--stacks", "off-cpu", "--from", KNOWN])?;
    if !context.is_emulated() {
        all.are_at_least(SHOWN_IN_ALL)?;
        later.are_at_least(SHOWN)?;
        waits.are_at_least(SHOWN)?;
        later.are_whole()?;
        waits.are_whole()?;
    }
    ensure!(later.shown > 0 && waits.shown > 0, "nothing is shown");
    Ok(format!(
        "{} of {} samples, {} of {} from {KNOWN} on, {:.2} % of the time off CPU, whole {:.2} % and \
         {:.2} %",
        all.shown,
        all.all,
        later.shown,
        later.all,
        waits.shown as f64 * 100.0 / waits.all as f64,
        later.whole as f64 * 100.0 / later.all as f64,
        waits.whole as f64 * 100.0 / waits.all as f64
    ))
}

/// How many of a program's stacks show the functions that ran.
struct Shown {
    shown: u64,
    /// How many of them lack no outer frames.
    whole: u64,
    all: u64,
}

impl Shown {
    fn of(context: &Context, capture: &Path, options: &[&str]) -> Result<Self> {
        let folded = capture.with_extension("folded");
        let draw = ["flamegraph", text(capture)?, "--force", "-o", text(&folded)?];
        context.succeed(&[&draw[..], options].concat())?;
        let mut counted = Self { shown: 0, whole: 0, all: 0 };
        for line in fs::read_to_string(&folded)?.lines() {
            let (stack, count) = line.rsplit_once(' ').context("a line without a count")?;
            let count: u64 = count.parse()?;
            let in_file = functions(stack);
            // The recorder starts the program, other programs run, and what the interpreter does at
            // its end is no function's; nor is the wait for the other thread one of these.
            let is_other = !stack.starts_with("python3") || !stack.contains(LOOP);
            if is_other || in_file.is_empty() && stack.contains("_shutdown (threading.py)") {
                continue;
            }
            counted.all += count;
            counted.whole += if stack.contains(CUT) { 0 } else { count };
            match CHAINS.iter().find(|chain| chain.last() == in_file.last()) {
                Some(chain) if in_file == **chain => counted.shown += count,
                Some(chain) => bail!("the functions {in_file:?} stand in a stack, not {chain:?}"),
                None => {}
            }
        }
        Ok(counted)
    }

    fn are_at_least(&self, of_1000: u64) -> Result<()> {
        let enough = self.all > 0 && self.shown * 1000 >= self.all * of_1000;
        ensure!(enough, "{} of {} show the functions that ran", self.shown, self.all);
        Ok(())
    }

    fn are_whole(&self) -> Result<()> {
        let enough = self.whole * 1000 >= self.all * WHOLE;
        ensure!(enough, "{} of {} stacks are whole", self.whole, self.all);
        Ok(())
    }
}

/// The program's own functions in a stack, outermost first.
fn functions(stack: &str) -> Vec<&str> {
    stack.split(';').filter_map(|frame| frame.strip_suffix(" (chain.py)")).collect()
}
