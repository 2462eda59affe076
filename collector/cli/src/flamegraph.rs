//! `syscollect flamegraph`: the stacks of a capture as a picture.

use crate::confine;
use crate::convert::Selection;
use crate::export::{self, Request};
use crate::format::{self, Format};
use crate::stack_choice::StackChoice;
use crate::symbols::SymbolOptions;
use crate::time_range::TimeRange;
use crate::usage::usage;
use anyhow::Result;
use std::path::PathBuf;
use std::process::ExitCode;
use syscollect_exporters::{ProcessFilter, StackKind};

const EXAMPLES: &str = "\
Examples:
  syscollect flamegraph x.syscap -o x.svg                      where CPU time went
  syscollect flamegraph x.syscap -o x.svg --stacks off-cpu     where threads blocked, and how long until they ran
  syscollect flamegraph x.syscap -o x.svg --stacks wakers      who woke others (recorded with --stacks wakers)
  syscollect flamegraph x.syscap -o x.svg --stacks probes      who called functions (recorded with --stacks probes)
  syscollect flamegraph x.syscap -o x.svg --process cargo      one program's processes
  syscollect flamegraph x.syscap -o x.svg --from 2s --to 2500ms  a part of the time
  syscollect flamegraph x.syscap -o x.folded                   the same as lines, for other tools";

/// The arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The capture (.syscap, or a .syscap.partial of a recording that was cut off), captures of
    /// several machines, or all .etl files of one Windows recording
    #[arg(value_name = "CAPTURE", required = true)]
    captures: Vec<PathBuf>,

    /// Write to this file (.svg or .folded; `-` is standard output, with --format)
    #[arg(short = 'o', long, value_name = "FILE")]
    output: PathBuf,

    /// The format, where the file's extension does not tell
    #[arg(long, value_name = "FORMAT", value_parser = format::among(format::PICTURES))]
    format: Option<Format>,

    /// Which stacks, called as `record --stacks` calls them; on-cpu is samples, too
    #[arg(long, value_name = "KIND", default_value = "samples")]
    stacks: StackChoice,

    /// Only this process (by its id), or these (by name)
    #[arg(short = 'p', long, value_name = "NAME|PID")]
    process: Option<ProcessFilter>,

    /// Also samples of idle CPUs, and time off the CPU of threads that had nothing to do
    #[arg(long)]
    idle: bool,

    /// Of a recording of some processes (-p), show the others too: they have only what concerns
    /// these
    #[arg(long, conflicts_with = "process")]
    all: bool,

    #[command(flatten)]
    range: TimeRange,

    /// Replace the output if it exists
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    symbols: SymbolOptions,
}

/// Runs the sub-command.
pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let Args { captures, output, format, stacks, process, idle, all, range, force, symbols } = args;
    let format = Format::of_output(&output, format, format::PICTURES).map_err(usage)?;
    if !matches!(format, Format::Svg | Format::Folded) {
        return Err(usage(
            "a flame graph is a .svg or a .folded file; for others there is `syscollect export`"
                .into(),
        )
        .into());
    }
    let stacks = match stacks {
        StackChoice::Samples => StackKind::OnCpu,
        StackChoice::OffCpu => StackKind::OffCpu,
        StackChoice::Wakers => StackKind::Wakers,
        StackChoice::Probes => StackKind::Probes,
    };
    confine::to_reading(symbols.asks_servers());
    let selection =
        Selection { process, all, stacks, idle, range: range.checked()?, ..Selection::default() };
    let timings = false;
    export::export(&Request { captures, output, format, force, selection, symbols, timings })
}
