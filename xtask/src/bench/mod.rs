//! `cargo xtask bench`: what tracing costs the traced, next to other tracers.
//!
//! The figure that counts is the load's own CPU time (`getrusage`): it holds on
//! a machine with neighbours, where wall time does not. Each run under a tracer
//! is paired with a run without one right before it; the table shows medians of
//! the pairs' ratios. Never part of the tests.

mod load;
mod table;
mod tracer;

use std::path::Path;

use anyhow::{Result, bail};

use self::load::{LOADS, Load};
use self::table::Row;
use self::tracer::{Figures, Tracer};
use crate::privileged::{context::Context, is_root};

/// Runs everything and prints the tables as Markdown.
pub(crate) fn run(pairs: usize) -> Result<()> {
    if !is_root() {
        bail!("tracing needs root: run `sudo -E env PATH=\"$PATH\" cargo xtask bench`");
    }
    let context = Context::new()?;
    println!("{}\n", table::machine());
    for load in LOADS.iter().filter(|load| load.is_installed()) {
        let rows = compare(&context, load, pairs)?;
        println!("**{}**, medians of {pairs} pairs\n\n{}", load.title, table::render(&rows));
    }
    println!("**From start to recording, and from stop to a finished trace**\n\n{}", finishing(&context)?);
    Ok(())
}

/// One load under each of its tracers, interleaved.
fn compare(context: &Context, load: &Load, pairs: usize) -> Result<Vec<Row>> {
    let tracers: Vec<&Tracer> = load.tracers.iter().filter(|tracer| tracer.is_installed()).collect();
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

fn under(context: &Context, load: &Load, tracer: &Tracer) -> Result<(f64, Figures)> {
    let output = context.path("bench.out");
    let running = tracer.start(context, &output)?;
    let traced = load.cpu_seconds(context);
    let figures = running.stop(context, &output);
    Ok((traced?, figures?))
}

/// Ten seconds at full switch rate with all stacks, straight to a trace.
fn finishing(context: &Context) -> Result<String> {
    let trace = context.path("bench-finish.pftrace");
    let finished = tracer::finish_time(context, &trace, Path::new(&context.load))?;
    let mut out = String::from("| figure | measured |\n|---|---|\n");
    out += &format!("| events recorded in 10 s | {} |\n", finished.events);
    out += &format!("| lost | {} |\n", finished.lost);
    out += &format!("| from the start of the program to recording | {:.0} ms |\n", finished.startup_ms);
    out += &format!("| from stop to a finished .pftrace | {:.2} s |\n", finished.seconds);
    out += &format!("| largest resident memory, export included | {:.0} MB |\n", finished.peak_bytes as f64 / 1e6);
    out += &format!("| size of the trace | {:.1} MB |\n", finished.trace_bytes as f64 / 1e6);
    Ok(out)
}
