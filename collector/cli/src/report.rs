//! `syscollect report`: a capture summed up, for people and for machines.

use crate::signals::Abandon;
use crate::source::{self, Source};
use crate::symbols::SymbolOptions;
use crate::terminal::Terminal;
use anyhow::{Context, Result, bail};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use syscollect_exporters::report::{ProcessFilter, Report, ReportExporter, ReportOptions};
use syscollect_playback::Recording;

const EXAMPLES: &str = "\
Examples:
  syscollect report x.syscap                     what the machine did
  syscollect report x.syscap --process cargo     ... one program's processes
  syscollect report x.syscap --process 4711      ... one process
  syscollect report x.syscap --json | jq '.functions.by_self.rows[:10]'

Threads are on CPU, waiting for a CPU (runnable), or blocked (asleep until they
are woken). Run-queue latency is the length of such a wait. JSON has the same
tables; all times are nanoseconds.";

/// Rows of each table for people, who scroll, and for machines, which do not.
const ROWS: usize = 15;
const JSON_ROWS: usize = 1000;
/// Columns where standard output is no terminal.
const WIDTH: usize = 120;

/// The arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The capture (.syscap, or a .syscap.partial of a recording that was cut off), or all .etl files of one Windows recording
    #[arg(value_name = "CAPTURE", required = true)]
    captures: Vec<PathBuf>,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Only this process (by its id), or these (by name)
    #[arg(long, value_name = "NAME|PID")]
    process: Option<ProcessFilter>,

    /// Rows of each table (15; with --json 1000)
    #[arg(long, value_name = "NUMBER")]
    rows: Option<usize>,

    #[command(flatten)]
    symbols: SymbolOptions,
}

/// Runs the sub-command.
pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let report = report(&args)?;
    let text = match args.json {
        true => serde_json::to_string_pretty(&report)? + "\n",
        false => report.text(width()),
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn report(args: &Args) -> Result<Report> {
    let Args { captures, json, process, rows, symbols } = args;
    let mut session = Source::open_named(captures, symbols, &Abandon::default(), &Terminal::stderr())?;
    let rows = rows.unwrap_or(if *json { JSON_ROWS } else { ROWS });
    let mut exporter = ReportExporter::new(ReportOptions { process: process.clone(), rows });
    session.play(&mut exporter).with_context(|| format!("cannot read {}", source::names(captures)))?;
    let mut report = exporter.finish();
    // Windows' own recorders end well without a summary of ours.
    report.recording.complete = session.is_complete();
    if let Some(process) = process
        && report.processes.total == 0
    {
        bail!(
            "no process {process} did anything in {}: `syscollect report {0}` lists the busiest",
            source::names(captures)
        );
    }
    Ok(report)
}

/// Columns of the terminal.
fn width() -> usize {
    terminal_size::terminal_size().map_or(WIDTH, |(width, _)| usize::from(width.0))
}
