//! `syscollect export`: a capture becomes a file that a viewer opens.

use crate::convert::{self, Abandoned};
use crate::format::Format;
use crate::output::Target;
use crate::owner::Owner;
use crate::record::usage;
use crate::signals::{self, Abandon};
use crate::summary::{self, Exported};
use crate::terminal::Terminal;
use anyhow::{Context, Result, anyhow, bail};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc;
use syscollect_merge::{Played, Session};
use syscollect_store::CaptureReader;
use syscollect_symbolize::HeldFiles;

const EXAMPLES: &str = "\
Examples:
  syscollect export x.syscap -o x.pftrace             for ui.perfetto.dev
  syscollect export x.syscap -o x.tracy               for the Tracy Profiler
  syscollect export x.syscap.partial -o x.pftrace     what a killed recording left
  syscollect export x.syscap -o - --format pftrace | gzip > x.pftrace.gz

Names that the recording left out are looked up where the same files (by build
id) and, for the kernel, the same boot are at hand. The capture is not changed.";

/// The arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The capture (.syscap, or a .syscap.partial of a recording that was cut off)
    #[arg(value_name = "CAPTURE")]
    capture: PathBuf,

    /// Write to this file (.pftrace or .tracy; `-` is standard output)
    #[arg(short = 'o', long, value_name = "FILE")]
    output: PathBuf,

    /// The format, where the file's extension does not tell
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,

    /// Replace the output if it exists
    #[arg(long)]
    force: bool,
}

/// Runs the sub-command.
pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let format = Format::of_output(&args.output, args.format).map_err(usage)?;
    if format == Format::Syscap {
        return Err(usage("a capture is exported from, not to; the output must be a viewer's file".into()).into());
    }
    // Signals stop at once what has written nothing yet.
    let (sender, _) = mpsc::channel();
    let abandon = signals::watch(sender)?;
    abandon.writing_only();
    let terminal = Terminal::stderr();
    if args.output.as_os_str() == "-" {
        return to_standard_output(&args.capture, format, &abandon, &terminal);
    }
    let target = Target::new(&args.output, args.force, Owner::behind_sudo())?;
    let mut session = open(&args.capture, &terminal)?;
    let draft = target.draft()?;
    let (played, _) = write(&mut session, (format, draft.file()), &abandon, &terminal)
        .with_context(|| format!("cannot export to {}", target.path().display()))?;
    let bytes = draft.file().metadata()?.len();
    let path = draft.publish(&target)?;
    let exported = Exported { path, format, bytes, played, losses: session.losses(), complete: session.is_complete() };
    eprint!("{}", summary::export_text(&exported, terminal.style()));
    Ok(ExitCode::SUCCESS)
}

fn to_standard_output(capture: &Path, format: Format, abandon: &Abandon, terminal: &Terminal) -> Result<ExitCode> {
    if std::io::stdout().is_terminal() {
        bail!("standard output is a terminal: send it to a file or a program, or name a file with -o");
    }
    let mut session = open(capture, terminal)?;
    let (_, mut out) = write(&mut session, (format, std::io::stdout().lock()), abandon, terminal)?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Opens a capture and names what nobody has named.
pub(crate) fn open(path: &Path, terminal: &Terminal) -> Result<Session> {
    let reader = CaptureReader::open(path)?;
    let named = convert::has_names(&reader);
    let mut session = Session::open(reader).with_context(|| format!("nothing in {} can be read", path.display()))?;
    if !named {
        let same_kernel = convert::is_this_boot(session.info());
        let tables = convert::name(&session, HeldFiles::new(), (same_kernel, false), terminal);
        session.add_symbols(tables);
    }
    Ok(session)
}

fn write<W: Write>(
    session: &mut Session,
    out: (Format, W),
    abandon: &Abandon,
    terminal: &Terminal,
) -> Result<(Played, W)> {
    convert::export(session, out, abandon, terminal).map_err(|error| match error.is::<Abandoned>() {
        true => anyhow!("abandoned; the unfinished file was removed"),
        false => error,
    })
}
