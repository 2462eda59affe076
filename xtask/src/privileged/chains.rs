//! Stacks of programs whose chain of calls is known: 20 functions and more, by every compiler and
//! runtime that is on the machine, in everything that makes unwinding hard.
//!
//! Samples, off-CPU stacks and wakers' stacks are taken of each in one recording. None may be
//! wrong: a function left out, one that was not there, or one that is said to be a thread's first.

mod programs;
pub(crate) mod stacks;
mod storm;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use anyhow::{Context as _, Result, bail, ensure};

use self::programs::Program;
use self::stacks::{ProgramStacks, RecordedStacks, StackKind};
pub(crate) use self::storm::storm;
use super::context::{Context, ends_with_us, json_lines, number, wait};
use crate::process::on_all_cpus;
use crate::report::Outcome;

/// How long each program runs, all at the same time; and where all is emulated, and slow.
const SECONDS: u64 = 10;
const SECONDS_EMULATED: u64 = 20;
/// For so long from a program's first stack on, tables are made of the code that was not walked
/// before.
const TABLES_MADE_NS: u64 = 4_000_000_000;
const TABLES_MADE_EMULATED_NS: u64 = 10_000_000_000;
/// So many stacks of each kind a program has at least, where so many programs share the CPUs.
const LEAST: [(StackKind, u64); 3] =
    [(StackKind::Sample, 100), (StackKind::OffCpu, 100), (StackKind::Waker, 50)];

/// Where all is emulated so many more of 1,000 are in code without unwind information, whose page
/// is waited for.
const SLOW_FAULTS: u64 = 15;
/// And no more than this of 1,000 are of a moment in which no table says what is where.
const UNSETTLED: u64 = 10;

/// Programs of compilers that write unwind tables, and some without.
pub(crate) fn chains(context: &Context) -> Result<Outcome> {
    are_whole(context, &programs::compiled())
}

/// Only the program that puts one library in another's place, again and again: what is mapped where
/// is something that each kernel tells in its way.
pub(crate) fn replaced_libraries(context: &Context) -> Result<Outcome> {
    are_whole(context, &[programs::replaced_libraries()])
}

/// Programs of languages with runtimes and compilers of their own: code that is made while they run
/// has no tables, so that a few stacks in a thousand are of a moment that nothing describes.
pub(crate) fn chains_runtimes(context: &Context) -> Result<Outcome> {
    are_whole(context, &programs::of_runtimes())
}

/// The stacks of every program are whole, or say that they are cut.
fn are_whole(context: &Context, programs: &[Program]) -> Result<Outcome> {
    let Made { folder, ready, skipped } = made(context, programs)?;
    let recorded = recorded(context, &ready, &folder)?;
    let mut lines = String::new();
    let mut failed = String::new();
    for (program, stacks) in ready.iter().zip(&recorded.programs) {
        for (kind, _) in LEAST {
            writeln!(lines, "  {}, {kind}: {}", program.name, stacks.of(kind))?;
        }
        if let Err(error) = is_as_promised(context, program, stacks) {
            writeln!(failed, "{}: {error:#}", program.name)?;
        }
    }
    for skipped in skipped {
        writeln!(lines, "  {skipped}")?;
    }
    if !failed.is_empty() {
        bail!("{failed}{lines}");
    }
    Ok(Outcome::Passed(format!("\n{}", lines.trim_end())))
}

/// What was recorded of a program by us, and its process while another tracer recorded it.
pub(crate) struct TwiceRecorded {
    pub(crate) name: &'static str,
    pub(crate) by_us: ProgramStacks,
    pub(crate) by_other: ProgramStacks,
}

/// Records programs of compilers, then runs them once more under the tracer that `start` starts:
/// for `cargo xtask bench`. Not both at once: where events with build ids begin after perf's, as
/// ours do, Linux marks mappings in perf's records as if they had one, and perf 6.1 breaks off.
pub(crate) fn recorded_twice<T>(
    context: &Context,
    start: impl FnOnce() -> Result<T>,
) -> Result<(Vec<TwiceRecorded>, T)> {
    let programs = programs::compiled();
    let Made { folder, ready, .. } = made(context, &programs)?;
    let recorded = recorded(context, &ready, &folder)?;
    let tracer = start()?;
    let again = run(&ready, &folder, SECONDS)?;
    let each = ready.iter().zip(recorded.programs).zip(again);
    let each = each.map(|((program, by_us), by_other)| TwiceRecorded {
        name: program.name,
        by_us,
        by_other,
    });
    Ok((each.collect(), tracer))
}

/// Programs that can be run here, and why others cannot.
struct Made<'p> {
    folder: PathBuf,
    ready: Vec<&'p Program>,
    skipped: Vec<String>,
}

fn made<'p>(context: &Context, programs: &'p [Program]) -> Result<Made<'p>> {
    let folder = context.path("chains");
    let made = on_all_cpus(programs, |program| program.make(&folder_of(program, &folder)));
    let (mut skipped, mut ready) = (Vec::new(), Vec::new());
    for (program, made) in programs.iter().zip(made) {
        match made? {
            Some(why) => skipped.push(format!("{}: skipped, {why}", program.name)),
            None => ready.push(program),
        }
    }
    Ok(Made { folder, ready, skipped })
}

/// Records all of them at the same time, with every kind of stack.
fn recorded(context: &Context, ready: &[&Program], folder: &Path) -> Result<RecordedStacks> {
    let capture = context.path("chains.syscap");
    let options = ["--freq", "999", "--stacks", "samples,off-cpu,wakers", "--unwind", "tables"];
    let (seconds, tables_made_ns) = match context.is_emulated() {
        true => (SECONDS_EMULATED, TABLES_MADE_EMULATED_NS),
        false => (SECONDS, TABLES_MADE_NS),
    };
    let recorder = context.start(&capture, &options)?;
    let stacks = run(ready, folder, seconds)?;
    context.stop(recorder)?;
    RecordedStacks::read(&capture, tables_made_ns, stacks)
}

/// Runs all at the same time until they end; whose stacks are to be looked for.
fn run(ready: &[&Program], folder: &Path, seconds: u64) -> Result<Vec<ProgramStacks>> {
    let running: Result<Vec<Child>> =
        ready.iter().map(|program| start(program, &folder_of(program, folder), seconds)).collect();
    let running = running?;
    let stacks = ready.iter().zip(&running);
    let stacks =
        stacks.map(|(program, child)| ProgramStacks::new(child.id(), program.known.clone()));
    let stacks = stacks.collect();
    for (program, child) in ready.iter().zip(running) {
        ended(program, child)?;
    }
    Ok(stacks)
}

fn folder_of(program: &Program, folder: &Path) -> PathBuf {
    folder.join(program.name.replace([' ', ','], "-"))
}

fn start(program: &Program, folder: &Path, seconds: u64) -> Result<Child> {
    let mut command = program.command(folder, seconds);
    ends_with_us(&mut command);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().with_context(|| format!("cannot start {}", program.name))
}

/// Waits for a program; it has to have succeeded, and libraries to have lain where others were.
fn ended(program: &Program, child: Child) -> Result<()> {
    let ended = wait(child)?;
    ensure!(ended.status.success(), "{} ended with {}", program.name, ended.status);
    for line in json_lines(&ended.stdout)? {
        let (loaded, same) = (number(&line, "loaded")?, number(&line, "same")?);
        ensure!(same * 2 > loaded, "only {same} of {loaded} libraries lay where another had");
    }
    Ok(())
}

fn is_as_promised(context: &Context, program: &Program, stacks: &ProgramStacks) -> Result<()> {
    stacks.ensure_none_wrong()?;
    // As in the test `unwinding`.
    if context.is_emulated() && !super::is_root() {
        return Ok(());
    }
    let promised = |kind| kind != StackKind::OffCpu || !program.waits_in_heap;
    for (kind, least) in LEAST.into_iter().filter(|(kind, _)| promised(*kind)) {
        let counts = stacks.of(kind);
        let least = if context.is_emulated() { least / 10 } else { least };
        ensure!(counts.all() >= least, "too few {kind}: {counts}");
        ensure!(counts.are_settled(UNSETTLED), "{kind} between two frames: {counts}");
        let slow_faults = if context.is_emulated() { SLOW_FAULTS } else { 0 };
        let is_whole = counts.are_whole(program.whole_of_1000 - slow_faults);
        ensure!(is_whole, "{kind} that are not whole: {counts}:\n{}", stacks.cut_ones());
    }
    Ok(())
}
