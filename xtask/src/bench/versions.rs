//! Two versions of syscollect by turns: has a change made recording dearer?
//!
//! A bound that one machine gave once is no bound, so each round runs both
//! versions, one right after the other and in alternating order, and the table shows
//! medians and quartiles of both. What differs by less than the quartiles is noise.

use std::path::Path;

use anyhow::{Result, ensure};

use super::table::{self, Row, median, spread};
use super::tracer::{self, Finished, Tracer};
use super::workload::{WORKLOADS, Workload};
use crate::privileged::context::Context;

/// The two programs, in the order of the tables' rows.
struct Versions {
    contexts: [Context; 2],
}

const TITLES: [&str; 2] = ["baseline", "this version"];

/// Compares the program at `baseline` with the one of this tree; prints tables as Markdown.
///
/// # Errors
///
/// There is no program at `baseline`, or a run failed.
pub(super) fn run(baseline: &Path, pairs: usize) -> Result<()> {
    ensure!(
        baseline.is_file(),
        "{} is no program: give a release build of the older version",
        baseline.display()
    );
    let versions = Versions { contexts: [Context::with_program(baseline)?, Context::new()?] };
    for load in WORKLOADS.iter().filter(|load| load.is_installed()) {
        for tracer in load.tracers.iter().filter(|tracer| tracer.is_syscollect()) {
            println!("**{}, {}**, {pairs} rounds\n", load.title, tracer.title);
            println!("{}", table::render(&versions.under_load(load, tracer, pairs)?));
        }
    }
    println!(
        "**Start, recording and stop** (ten seconds with off-CPU and waker stacks), {pairs} \
         rounds\n"
    );
    println!("{}", versions.finishing(pairs)?);
    Ok(())
}

/// Both, the one that goes first changing with the round.
fn in_order(round: usize) -> [usize; 2] {
    if round.is_multiple_of(2) { [0, 1] } else { [1, 0] }
}

impl Versions {
    fn under_load(&self, load: &Workload, tracer: &Tracer, rounds: usize) -> Result<Vec<Row>> {
        let mut rows: Vec<Row> = TITLES.iter().map(|title| Row::new(title)).collect();
        for round in 0..rounds {
            for version in in_order(round) {
                let context = &self.contexts[version];
                let alone = load.cpu_seconds(context)?;
                let (traced, figures) = super::under(context, load, tracer)?;
                rows[version].add(traced / alone, figures);
            }
        }
        Ok(rows)
    }

    fn finishing(&self, rounds: usize) -> Result<String> {
        let mut runs: [Vec<Finished>; 2] = Default::default();
        for round in 0..rounds {
            for version in in_order(round) {
                let context = &self.contexts[version];
                let trace = context.path("bench-finish.pftrace");
                // What --keep-capture kept is in the way of the next run.
                context.path("bench-finish.syscap");
                runs[version].push(tracer::finish_time(context, &trace, super::FINISHING[0].1)?);
            }
        }
        let mut out = format!("| | {} | {} |\n|---|---|---|\n", TITLES[0], TITLES[1]);
        let beside = format!("the same beside {} busy threads, ms", tracer::BUSY_THREADS);
        out += &row(&runs, "lost", |run| run.lost as f64);
        out += &row(&runs, "from the start of the program to recording, ms", |run| run.startup_ms);
        out += &row(&runs, &beside, |run| run.busy_startup_ms);
        out +=
            &row(&runs, "the same beside as many programs in sessions of their own, ms", |run| {
                run.busy_sessions_startup_ms
            });
        out += &row(&runs, "the recorder's CPU while recording, %", |run| run.cpu_share);
        out += &row(&runs, "from stop to a finished .pftrace, s", |run| run.seconds);
        out += &row(&runs, "largest resident memory, export included, MB", |run| {
            run.peak_bytes as f64 / 1e6
        });
        Ok(out)
    }
}

fn row(runs: &[Vec<Finished>; 2], name: &str, figure: impl Fn(&Finished) -> f64) -> String {
    let cells = runs.each_ref().map(|runs| {
        let values: Vec<f64> = runs.iter().map(&figure).collect();
        let (low, high) = spread(&values);
        format!("{:.2} ({low:.2} to {high:.2})", median(values))
    });
    format!("| {name} | {} |\n", cells.join(" | "))
}
