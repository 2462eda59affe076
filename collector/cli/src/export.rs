//! `syscollect export`: a capture becomes a file that a viewer opens.

use crate::confine;
use crate::convert::{self, Abandoned, Selection};
use crate::format::{self, Format};
use crate::lost::Lost;
use crate::output::Target;
use crate::owner::Owner;
use crate::signals::{self, Abandon};
use crate::source::{self, Source};
use crate::summary::{self, Exported};
use crate::symbols::SymbolOptions;
use crate::terminal::Terminal;
use crate::time_range::TimeRange;
use crate::timings::Timings;
use crate::units::parse_duration;
use crate::usage::usage;
use anyhow::{Context, Result, anyhow, bail};
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use syscollect_exporters::{LoopLimit, ProcessFilter, TracyCompression, TracyLayout, TracyOptions};
use syscollect_playback::{Played, Recording};

const EXAMPLES: &str = "\
Examples:
  syscollect export x.syscap -o x.pftrace             for ui.perfetto.dev
  syscollect export x.syscap -o x.tracy               for the Tracy Profiler
  syscollect export x.syscap -o x.json.gz             for profiler.firefox.com
  syscollect export x.syscap -o x.json.gz --from 2 --to 2.5 --process cargo --sched-markers
  syscollect export x.syscap -o x.pb.gz               for pprof
  syscollect export x.syscap.partial -o x.pftrace     what a killed recording left
  syscollect export kernel.etl user.etl -o x.pftrace  a Windows recording
  syscollect export x.syscap -o - --format pftrace | gzip > x.pftrace.gz

Names that the recording left out are looked up where the same files (by build
id) and, for the kernel, the same boot are at hand. The capture is not changed.";

/// The arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The capture (.syscap, or a .syscap.partial of a recording that was cut off), captures of
    /// several machines, or all .etl files of one Windows recording
    #[arg(value_name = "CAPTURE", required = true)]
    captures: Vec<PathBuf>,

    /// Write to this file (.pftrace, .tracy, .json.gz, .json, .pb.gz, .svg or .folded; `-` is
    /// standard output)
    #[arg(short = 'o', long, value_name = "FILE")]
    output: PathBuf,

    /// The format, where the file's extension does not tell
    #[arg(long, value_name = "FORMAT", value_parser = format::among(format::EXPORTS))]
    format: Option<Format>,

    #[command(flatten)]
    range: TimeRange,

    /// Only this process (by its id), or these (by name)
    #[arg(short = 'p', long, value_name = "NAME|PID")]
    process: Option<ProcessFilter>,

    /// Of a recording of some processes (-p), show the others too: they have only what concerns
    /// these
    #[arg(long, conflicts_with = "process")]
    all: bool,

    /// In a Firefox profile, each switch and wakeup as a marker with its stack: hundreds of
    /// megabytes
    #[arg(long)]
    sched_markers: bool,

    /// In a Tracy file, what only viewers from this version on open: 0.13 (CPUs that woke threads,
    /// threads by process, notes on GPU jobs) or 0.14 (importance of messages, too) [default: 0.11]
    #[arg(long, value_name = "VERSION")]
    tracy_layout: Option<TracyLayout>,

    /// Compression of a Tracy file: lz4, or zstd, which makes it a third smaller [default: lz4]
    #[arg(long, value_name = "NAME")]
    tracy_compression: Option<TracyCompression>,

    /// Tell of event loops that did not come back to their wait for longer than this
    /// (.pftrace, .json.gz, .json) [default: 50ms]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    loop_limit: Option<Duration>,

    /// Replace the output if it exists
    #[arg(long)]
    force: bool,

    /// Say how long each part took
    #[arg(long)]
    timings: bool,

    #[command(flatten)]
    symbols: SymbolOptions,
}

/// An export, with all that was asked for.
pub(crate) struct Request {
    pub(crate) captures: Vec<PathBuf>,
    pub(crate) output: PathBuf,
    pub(crate) format: Format,
    pub(crate) force: bool,
    pub(crate) selection: Selection,
    pub(crate) symbols: SymbolOptions,
    pub(crate) timings: bool,
}

impl Args {
    fn request(self) -> Result<Request, clap::Error> {
        let Self { captures, output, range, process, all, sched_markers, force, symbols, .. } =
            self;
        let (layout, compression) = (self.tracy_layout, self.tracy_compression);
        let timings = self.timings;
        let loop_limit = self.loop_limit.map(LoopLimit::new);
        let format = Format::of_output(&output, self.format, format::EXPORTS).map_err(usage)?;
        if format == Format::Syscap {
            return Err(usage(
                "a capture is exported from, not to; the output must be a viewer's file".into(),
            ));
        }
        if sched_markers && !matches!(format, Format::JsonGz | Format::Json) {
            return Err(usage(
                "--sched-markers is for .json.gz and .json; the other viewers show all switches"
                    .into(),
            ));
        }
        if (layout.is_some() || compression.is_some()) && format != Format::Tracy {
            return Err(usage("--tracy-layout and --tracy-compression are for .tracy".into()));
        }
        if loop_limit.is_some()
            && !matches!(format, Format::Pftrace | Format::JsonGz | Format::Json)
        {
            return Err(usage(
                "--loop-limit is for .pftrace, .json.gz and .json; the other files have no event \
                 loops"
                    .into(),
            ));
        }
        let tracy = TracyOptions {
            layout: layout.unwrap_or_default(),
            compression: compression.unwrap_or_default(),
        };
        let selection = Selection {
            range: range.checked()?,
            process,
            all,
            sched_markers,
            loop_limit: loop_limit.unwrap_or_default(),
            tracy,
            ..Selection::default()
        };
        Ok(Request { captures, output, format, force, selection, symbols, timings })
    }
}

/// Runs the sub-command.
pub(crate) fn run(args: Args) -> Result<ExitCode> {
    confine::to_reading(args.symbols.asks_servers());
    export(&args.request()?)
}

/// Writes what was asked for, and says so.
pub(crate) fn export(request: &Request) -> Result<ExitCode> {
    // Signals stop at once what has written nothing yet.
    let abandon = signals::watch_writing()?;
    let terminal = Terminal::stderr();
    if request.output.as_os_str() == "-" {
        return to_standard_output(request, &abandon, &terminal);
    }
    if let Some(capture) =
        request.captures.iter().find(|capture| source::is_same_file(capture, &request.output))
    {
        bail!(
            "{} is what is exported, and would be lost: name another file with -o",
            capture.display()
        );
    }
    let target = Target::new(&request.output, request.force, Owner::behind_sudo())?;
    let mut timings = Timings::start();
    let mut session = Source::open_named(&request.captures, &request.symbols, &abandon, &terminal)?;
    timings.end("reading and naming");
    confine::to_exporting(target.owner_of_folder());
    let draft = target.draft()?;
    let played = write(&mut session, request, &mut draft.file(), &abandon, &terminal)
        .with_context(|| format!("cannot export to {}", target.path().display()))?;
    timings.end("exporting");
    let bytes = draft.file().metadata()?.len();
    let path = draft.publish(&target)?;
    timings.end("publishing");
    let (format, events) = (request.format, played.events);
    let layout = request.selection.tracy.layout;
    let (lost, complete) = (Lost::read(&session, &played), session.is_complete());
    let exported = Exported { path, format, layout, bytes, played, lost, complete };
    let style = terminal.style();
    eprint_styled!(style, "{}", summary::export_text(&exported, style));
    if request.timings {
        eprint_line!("{}", timings.text(events));
    }
    Ok(ExitCode::SUCCESS)
}

fn to_standard_output(
    request: &Request,
    abandon: &Abandon,
    terminal: &Terminal,
) -> Result<ExitCode> {
    if std::io::stdout().is_terminal() {
        bail!(
            "standard output is a terminal: send it to a file or a program, or name a file with -o"
        );
    }
    let mut timings = Timings::start();
    let mut session = Source::open_named(&request.captures, &request.symbols, abandon, terminal)?;
    timings.end("reading and naming");
    confine::to_exporting(None);
    let mut out = std::io::stdout().lock();
    let played = write(&mut session, request, &mut out, abandon, terminal)?;
    out.flush()?;
    timings.end("exporting");
    if request.timings {
        eprint_line!("{}", timings.text(played.events));
    }
    Ok(ExitCode::SUCCESS)
}

fn write(
    session: &mut Source,
    request: &Request,
    out: &mut dyn Write,
    abandon: &Abandon,
    terminal: &Terminal,
) -> Result<Played> {
    convert::export(session, (request.format, out), &request.selection, abandon, terminal).map_err(
        |error| match error.is::<Abandoned>() {
            true => anyhow!("abandoned; the unfinished file was removed"),
            false => error,
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    /// What the line asks for, or what is wrong with it.
    fn request(line: &str) -> Result<Request, String> {
        let parsed = Line::try_parse_from(line.split(' ')).map_err(|error| error.to_string())?;
        parsed.args.request().map_err(|error| error.to_string())
    }

    #[test]
    fn a_tracy_file_is_for_every_viewer_unless_another_layout_is_asked_for() {
        assert_eq!(
            request("export x.syscap -o x.tracy").unwrap().selection.tracy,
            TracyOptions::default()
        );
        let newer =
            request("export x.syscap -o x.tracy --tracy-layout 0.14").unwrap().selection.tracy;
        assert_eq!(newer, TracyOptions { layout: TracyLayout::V0_14, ..TracyOptions::default() });
        let reason = request("export x.syscap -o x.tracy --tracy-layout 0.12").err().unwrap();
        assert!(
            reason.contains("0.11") && reason.contains("0.13") && reason.contains("0.14"),
            "{reason}"
        );
    }

    #[cfg(feature = "zstd")]
    #[test]
    fn a_tracy_file_may_be_compressed_with_zstd() {
        let tracy =
            request("export x.syscap -o x.tracy --tracy-compression zstd").unwrap().selection.tracy;
        assert_eq!(tracy.compression, TracyCompression::Zstd);
    }

    #[test]
    fn options_of_tracy_files_are_for_tracy_files() {
        for option in ["--tracy-layout 0.13", "--tracy-compression lz4"] {
            let reason = request(&format!("export x.syscap -o x.pftrace {option}")).err().unwrap();
            assert!(reason.contains("are for .tracy"), "{reason}");
        }
    }
}
