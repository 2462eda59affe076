//! `cargo xtask bench`: what tracing costs the traced, next to other tracers.
//!
//! The figure that counts is the load's own CPU time (`getrusage`): it holds on
//! a machine with neighbours, where wall time does not. Each run under a tracer
//! is paired with a run without one right before it; the table shows medians of
//! the pairs' ratios. Never part of the tests.

mod figures;
mod flight;
mod known_symbols;
mod live;
mod packages;
mod stacks;
mod table;
mod tracepoint;
mod tracer;
mod versions;
mod workload;

use std::path::PathBuf;

use anyhow::{Result, bail};

use self::table::Row;
use self::tracer::{Figures, Finished, Tracer};
use self::workload::{WORKLOADS, Workload};
use crate::privileged::{context::Context, is_root};

/// A round at a tracepoint takes some milliseconds.
const ROUNDS_FOR_EACH_PAIR: usize = 11;

/// What to compare with what.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Pairs of runs, without and with the tracer.
    #[arg(long, default_value_t = 7)]
    pairs: usize,
    /// Only what an event of a kernel tracepoint costs: seconds.
    #[arg(long)]
    tracepoint: bool,
    /// Only how many user stacks are whole and named, and what that costs.
    #[arg(long, conflicts_with = "tracepoint")]
    stacks: bool,
    /// Only what a flight recorder costs, next to a recording into a file.
    #[arg(long, conflicts_with_all = ["tracepoint", "stacks"])]
    flight: bool,
    /// Only what a Tracy viewer that connects costs, and how late it is told; to be built with
    /// --release, since the viewer is part of it.
    #[arg(long, conflicts_with_all = ["tracepoint", "stacks", "flight"])]
    live: bool,
    /// Measure this build of syscollect instead of the one here.
    #[arg(long, value_name = "PROGRAM", conflicts_with = "tracepoint")]
    program: Option<PathBuf>,
    /// Compare with this older build of syscollect instead of with other tracers, by turns.
    #[arg(long, value_name = "PROGRAM", conflicts_with = "tracepoint")]
    baseline: Option<PathBuf>,
}

/// Runs everything and prints the tables as Markdown.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let Arguments { pairs, tracepoint: only_tracepoint, stacks: only_stacks, .. } = arguments;
    let pairs = *pairs;
    let context = || match &arguments.program {
        Some(program) => Context::with_program(program),
        None => Context::new(),
    };
    if !is_root() {
        bail!("tracing needs root: run `sudo -E env PATH=\"$PATH\" cargo xtask bench`");
    }
    println!("{}\n", table::machine());
    if let Some(baseline) = &arguments.baseline {
        return versions::run(baseline, pairs);
    }
    if *only_stacks {
        return whole_stacks(&context()?, pairs);
    }
    if arguments.flight {
        println!("**A flight recorder**, medians of {pairs} pairs\n");
        println!("{}", flight::run(&context()?, pairs)?);
        return Ok(());
    }
    if arguments.live {
        println!("**Live in a Tracy viewer**, medians of {pairs} pairs\n");
        println!("{}", live::run(&context()?, pairs)?);
        return Ok(());
    }
    let rounds = pairs * ROUNDS_FOR_EACH_PAIR;
    println!(
        "**Cost of an event of a tracepoint**, medians of {rounds} rounds\n\n{}",
        tracepoint::cost(rounds)?
    );
    if *only_tracepoint {
        return Ok(());
    }
    let context = context()?;
    workloads(&context, pairs)?;
    println!(
        "**From start to recording, and from stop to a finished trace**\n\n{}",
        finishing(&context)?
    );
    Ok(())
}

/// What is whole and named, and what that costs, as tables.
fn whole_stacks(context: &Context, pairs: usize) -> Result<()> {
    // First, for a child's largest memory is at least what its parent had, which grows.
    workloads(context, pairs)?;
    let folder = stacks::folder(context)?;
    println!("**Programs of known functions**\n\n{}", figures::known_chains(context)?);
    println!("**Installed packages**\n\n{}", packages::run(context, &folder)?);
    println!("**Other figures**\n\n{}", figures::others(context, &folder)?);
    let programs = stacks::run(context, &folder, pairs)?;
    println!("**Whole user stacks**, of {pairs} pairs of runs\n\n{programs}");
    Ok(())
}

fn workloads(context: &Context, pairs: usize) -> Result<()> {
    for load in WORKLOADS.iter().filter(|load| load.is_installed()) {
        let rows = compare(context, load, pairs)?;
        println!("**{}**, medians of {pairs} pairs\n\n{}", load.title, table::render(&rows));
    }
    Ok(())
}

/// One load under each of its tracers, interleaved.
fn compare(context: &Context, load: &Workload, pairs: usize) -> Result<Vec<Row>> {
    let tracers: Vec<&Tracer> =
        load.tracers.iter().filter(|tracer| tracer.is_installed()).collect();
    let mut rows: Vec<Row> = tracers.iter().map(|tracer| Row::new(tracer.title)).collect();
    for pair in 0..pairs {
        for (tracer, row) in tracers.iter().zip(&mut rows) {
            eprint!("\r{} {}/{pairs} {:<40}", load.title, pair + 1, tracer.title);
            let alone = load.cpu_seconds(context)?;
            let (traced, figures) = under(context, load, tracer)?;
            row.add(traced / alone, figures);
        }
    }
    eprintln!();
    Ok(rows)
}

fn under(context: &Context, load: &Workload, tracer: &Tracer) -> Result<(f64, Figures)> {
    let output = context.path("bench.out");
    let running = tracer.start(context, &output)?;
    let traced = load.cpu_seconds(context);
    let figures = running.stop(context, &output);
    Ok((traced?, figures?))
}

/// Rounds there and back for each of two pairs: about 3.5 million events in all, or more than ten
/// seconds allow.
const FINISHING: [(&str, &str); 2] =
    [("3.5 million events", "580000"), ("as fast as the machine goes", "100000000")];

/// Ten seconds of switching with all stacks, straight to a trace.
fn finishing(context: &Context) -> Result<String> {
    let mut runs = Vec::new();
    for (_, rounds) in FINISHING {
        runs.push(tracer::finish_time(context, &context.path("bench-finish.pftrace"), rounds)?);
        // What --keep-capture kept is in the way of the next run.
        context.path("bench-finish.syscap");
    }
    let mut out = format!(
        "| ten seconds with off-CPU and waker stacks | {} | {} |\n|---|---|---|\n",
        FINISHING[0].0, FINISHING[1].0
    );
    let beside = format!("the same beside {} busy threads", tracer::BUSY_THREADS);
    out += &row(&runs, "events", |run| run.events.to_string());
    out += &row(&runs, "lost", |run| run.lost.to_string());
    out += &row(&runs, "from the start of the program to recording", |run| {
        format!("{:.0} ms", run.startup_ms)
    });
    out += &row(&runs, &beside, |run| format!("{:.0} ms", run.busy_startup_ms));
    out += &row(&runs, "the same beside as many programs in sessions of their own", |run| {
        format!("{:.0} ms", run.busy_sessions_startup_ms)
    });
    out +=
        &row(&runs, "the recorder's CPU while recording", |run| format!("{:.1} %", run.cpu_share));
    out += &row(&runs, "from stop to a finished .pftrace", |run| format!("{:.2} s", run.seconds));
    out += &row(&runs, "largest resident memory, export included", |run| {
        format!("{:.0} MB", run.peak_bytes as f64 / 1e6)
    });
    out +=
        &row(&runs, "size of the trace", |run| format!("{:.1} MB", run.trace_bytes as f64 / 1e6));
    Ok(out)
}

fn row(runs: &[Finished], name: &str, figure: impl Fn(&Finished) -> String) -> String {
    let cells: Vec<String> = runs.iter().map(figure).collect();
    format!("| {name} | {} |\n", cells.join(" | "))
}
