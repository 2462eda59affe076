//! The figures of `cargo xtask bench --stacks` that are of no single program: known chains next to
//! perf, and what samples and tables cost.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};

use super::stacks::{PROGRAMS, Program, perf_stacks};
use super::tracer::PERF_DWARF;
use crate::privileged::chains::{
    TwiceRecorded, recorded_twice,
    stacks::{StackCounts, StackKind},
};
use crate::privileged::context::{Context, statistic};
use crate::privileged::{python, unwinding_oracle};
use crate::report::Outcome;

pub(super) const KINDS: [StackKind; 3] = [StackKind::Sample, StackKind::OffCpu, StackKind::Waker];
pub(super) const ALL_KINDS: [&str; 4] = ["--freq", "999", "--stacks", "samples,off-cpu,wakers"];
/// A row of an unwind table in the kernel.
const ROW_BYTES: u64 = 8;
/// While it is 1 the kernel counts how long programs run.
const PROGRAM_TIMES: &str = "/proc/sys/kernel/bpf_stats_enabled";

/// Whole ones, of how many.
pub(super) type Share = (u64, u64);

/// Programs of which all functions are known, from their first moment on.
pub(super) fn known_chains(context: &Context) -> Result<String> {
    let output = context.path("chains-perf.out");
    let (programs, perf) = recorded_twice(context, || {
        PERF_DWARF.is_installed().then(|| PERF_DWARF.start(context, &output)).transpose()
    })?;
    let mut by_perf = HashMap::new();
    if let Some(perf) = perf {
        perf.stop(context, &output)?;
        by_perf = whole_by_perf(&output, &programs)?;
    }
    let mut out = String::from(
        "| program | samples, whole | off-CPU stacks, whole | wakers' stacks, whole | wrong | \
         perf's samples (DWARF), whole |\n|---|---|---|---|---|---|\n",
    );
    let mut all = KINDS.map(|_| StackCounts::default());
    let mut all_of_perf = (0, 0);
    for TwiceRecorded { name, by_us, by_other } in &programs {
        let counts = KINDS.map(|kind| by_us.of(kind));
        all.iter_mut().zip(&counts).for_each(|(all, one)| all.add(one));
        let of_perf: Share = by_perf.get(&by_other.pid()).copied().unwrap_or_default();
        all_of_perf = (all_of_perf.0 + of_perf.0, all_of_perf.1 + of_perf.1);
        out += &chain_row(name, &counts, of_perf);
    }
    out += &chain_row("all", &all, all_of_perf);
    Ok(out)
}

fn chain_row(name: &str, counts: &[StackCounts; 3], of_perf: Share) -> String {
    let cells = counts.each_ref().map(|counts| share(counts.whole_of_all()));
    let wrong: u64 = counts.iter().map(|counts| counts.wrong).sum();
    format!("| {name} | {} | {wrong} | {} |\n", cells.join(" | "), share(of_perf))
}

pub(super) fn share((part, all): Share) -> String {
    format!("{:.2} % of {all}", part as f64 * 100.0 / all.max(1) as f64)
}

/// By process.
fn whole_by_perf(output: &Path, programs: &[TwiceRecorded]) -> Result<HashMap<u32, Share>> {
    let mut counted = HashMap::new();
    for stack in perf_stacks(output, "program")? {
        let of = programs.iter().find(|program| program.by_other.pid() == stack.pid);
        let mut functions = stack.user_functions();
        // Where it comes to the C library's part below `main`, it often says nothing of `_start`.
        if functions.last().is_some_and(|last| last.starts_with("__libc_start_")) {
            functions.push("_start".to_owned());
        }
        let whole = of.and_then(|program| program.by_other.has_all(&functions));
        if let Some(whole) = whole {
            let (wholes, all): &mut Share = counted.entry(stack.pid).or_default();
            *wholes += u64::from(whole);
            *all += 1;
        }
    }
    Ok(counted)
}

/// The other figures, a row each.
pub(super) fn others(context: &Context, folder: &Path) -> Result<String> {
    let mut out = String::from("| figure | measured |\n|---|---|\n");
    let python = python::python(context)?;
    writeln!(out, "| Python: its functions, in samples and off the CPU | {} |", sentence(python))?;
    let oracle = unwinding_oracle::unwinding_oracle(context)?;
    writeln!(out, "| walked again by framehop | {oracle} |")?;
    writeln!(
        out,
        "| kernel program's time a sample, C++, from its second second on | {} |",
        sample_time(context, folder)?
    )?;
    writeln!(out, "| tables, `rustc` with LLVM | {} |", tables_of_rustc(context, folder)?)?;
    Ok(out)
}

fn sentence(outcome: Outcome) -> String {
    match outcome {
        Outcome::Passed(sentence) | Outcome::Skipped(sentence) | Outcome::NotOffered(sentence) => {
            sentence
        }
    }
}

fn program_of(title_begins: &str) -> Result<&'static Program> {
    let found = PROGRAMS.iter().find(|program| program.title.starts_with(title_begins));
    found.with_context(|| format!("there is no program {title_begins}"))
}

/// In which tables of a program are made, and stacks are sent as they lie in memory: that is much
/// dearer than a sample is from then on.
const COLD: Duration = Duration::from_secs(1);

/// What the kernel counts of the program that takes samples, while one CPU has deep stacks of which
/// all is known.
fn sample_time(context: &Context, folder: &Path) -> Result<String> {
    let program = program_of("C++")?;
    if !program.is_there(folder)? {
        return Ok(format!("there is no {}", program.needs));
    }
    let before = fs::read_to_string(PROGRAM_TIMES).context("no times of programs")?;
    let capture = context.path("sample-time.syscap");
    let recorded = record(context, &capture, &["--stacks", "samples", "--freq", "999"], || {
        std::thread::scope(|scope| {
            let timed = scope.spawn(|| {
                std::thread::sleep(COLD);
                fs::write(PROGRAM_TIMES, "1").context("cannot have programs timed")
            });
            program.cpu_ns(folder)?;
            timed.join().map_err(|_| anyhow!("a thread panicked"))?
        })
    });
    fs::write(PROGRAM_TIMES, before.trim()).context("cannot set back what it was")?;
    recorded?;
    let info = context.info(&capture)?;
    let names = ["sample_direct", "sample"];
    let found = names.iter().find_map(|name| {
        let [time, runs] =
            ["run_ns", "runs"].map(|what| statistic(&info, &format!("{name}_{what}")));
        time.ok().zip(runs.ok()).filter(|(_, runs)| *runs > 0)
    });
    let (time, runs) = found.context("the kernel counted no samples' time")?;
    Ok(format!("{:.2} us, mean of {runs}", time as f64 / runs as f64 / 1e3))
}

/// What the tables of a compiler take, and all others' of the machine meanwhile.
fn tables_of_rustc(context: &Context, folder: &Path) -> Result<String> {
    let program = program_of("rustc")?;
    if !program.is_there(folder)? {
        return Ok("there is no rustc".to_owned());
    }
    let capture = context.path("rustc-tables.syscap");
    record(context, &capture, &ALL_KINDS, || program.cpu_ns(folder))?;
    let info = context.info(&capture)?;
    let [rows, pages, time] =
        ["unwind_rows", "unwind_pages", "unwind_tables_ns"].map(|name| statistic(&info, name));
    Ok(format!(
        "{:.1} MB in {} pages, {:.2} s of CPU time",
        (rows? * ROW_BYTES) as f64 / 1e6,
        pages?,
        time? as f64 / 1e9
    ))
}

/// Records while `work` is done.
pub(super) fn record<T>(
    context: &Context,
    capture: &Path,
    options: &[&str],
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let recorder = context.start(capture, options)?;
    let done = work();
    context.stop(recorder)?;
    done
}
