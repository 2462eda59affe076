//! The arguments of `record` on Windows.

use crate::escape::printable_lines;
use crate::format::{self, Format};
use crate::stack_choice::StackChoice;
use crate::units::{parse_buffer, parse_duration};
use clap::error::ErrorKind;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;
use syscollect_windows::{FREQUENCY_MAX, Stacks};

const EXAMPLES: &str = "\
Examples:
  syscollect record                        until Ctrl-C, into .\\syscollect-DATE-TIME.pftrace
  syscollect record -d 10 -o boot.pftrace  ten seconds
  syscollect record -o build.json.gz -- cargo build   while cargo runs
  syscollect record -d 5 -o x.etl          the raw trace, to export on another machine
  syscollect record -d 5 -o x.etl --gpu    with queues and frames of the graphics scheduler

Recording needs an elevated administrator: start the terminal with \"Run as administrator\".

Exit codes: 0; 1 error; 2 usage; 3 loss with --fail-on-loss; after a launched
command that failed, its own status.";

/// The arguments as they are written.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Stop after this time: 5 (seconds), 500ms, 10m
    #[arg(short = 'd', long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) duration: Option<Duration>,

    /// Write to this file (.etl, the raw trace, or .pftrace, .tracy, .json.gz and others) [default:
    /// ./syscollect-DATE-TIME.pftrace]
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Samples per second on every CPU; 0 takes none
    #[arg(long, value_name = "HZ", default_value_t = 999,
          value_parser = clap::value_parser!(u32).range(0..=i64::from(FREQUENCY_MAX)))]
    freq: u32,

    /// Which events carry stacks: a list of samples, off-cpu and wakers, or none
    #[arg(long, value_name = "LIST", default_value = "samples,off-cpu", value_parser = parse_stacks)]
    stacks: Stacks,

    /// Record the graphics scheduler, too: queues, packets, presents, vsync
    #[arg(long)]
    gpu: bool,

    /// Memory between the kernel and the disk
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = parse_buffer)]
    buffer: usize,

    /// Keep the raw trace (.etl) beside the exported file
    #[arg(long)]
    keep_capture: bool,

    /// Replace the output if it exists
    #[arg(long)]
    force: bool,

    /// Exit with 3 if any event was lost
    #[arg(long)]
    fail_on_loss: bool,

    /// The format, where the file's extension does not tell
    #[arg(long, value_name = "FORMAT", value_parser = format::among(format::EXPORTS))]
    format: Option<Format>,

    /// Record while this command runs
    #[arg(last = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// The arguments checked and completed.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) duration: Option<Duration>,
    /// `None` for a new file named by date and time.
    pub(crate) output: Option<PathBuf>,
    /// What the recording is exported to; `None` where the raw trace is the output.
    pub(crate) format: Option<Format>,
    pub(crate) frequency: u32,
    pub(crate) stacks: Stacks,
    pub(crate) gpu: bool,
    pub(crate) buffer_bytes: usize,
    pub(crate) keep_capture: bool,
    pub(crate) force: bool,
    pub(crate) fail_on_loss: bool,
    pub(crate) command: Vec<OsString>,
}

impl Args {
    /// Checks what clap cannot.
    ///
    /// # Errors
    ///
    /// A `clap::Error`, which prints the usage and exits with 2.
    pub(crate) fn finish(self) -> Result<Options, clap::Error> {
        let format = match &self.output {
            None => Some(self.format.unwrap_or(Format::Pftrace)),
            Some(path) if path.as_os_str() == "-" => {
                return Err(usage(
                    "on Windows a recording goes to a file; export it to standard output".into(),
                ));
            }
            Some(path) if self.format.is_none() && is_raw(path) => None,
            Some(path) => {
                Some(Format::of_output(path, self.format, format::EXPORTS).map_err(usage)?)
            }
        };
        if format == Some(Format::Syscap) {
            return Err(usage(
                "the raw trace of Windows is an .etl file; .syscap is that of Linux".into(),
            ));
        }
        Ok(Options {
            duration: self.duration,
            output: self.output,
            format,
            frequency: self.freq,
            stacks: self.stacks,
            gpu: self.gpu,
            buffer_bytes: self.buffer,
            keep_capture: self.keep_capture,
            force: self.force,
            fail_on_loss: self.fail_on_loss,
            command: self.command,
        })
    }
}

fn is_raw(path: &std::path::Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("etl"))
}

fn parse_stacks(text: &str) -> Result<Stacks, String> {
    let mut stacks = Stacks::default();
    for asked in StackChoice::parse_list(text)? {
        match asked {
            StackChoice::Samples => stacks.samples = true,
            StackChoice::OffCpu => stacks.switches = true,
            StackChoice::Wakers => stacks.wakeups = true,
        }
    }
    Ok(stacks)
}

/// An error that prints the usage and exits with 2. Whose usage that is, `main` knows.
pub(crate) fn usage(message: String) -> clap::Error {
    clap::Error::raw(ErrorKind::ValueValidation, printable_lines(&message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::Parser;

    fn finish(arguments: &[&str]) -> Result<Options, clap::Error> {
        Cli::try_parse_from(["syscollect"].iter().chain(arguments))?.record.finish()
    }

    #[test]
    fn an_etl_file_is_the_raw_trace_and_all_else_is_exported() {
        assert_eq!(finish(&["-o", "x.etl"]).unwrap().format, None);
        assert_eq!(finish(&["-o", "X.ETL"]).unwrap().format, None);
        assert_eq!(finish(&["-o", "x.json.gz"]).unwrap().format, Some(Format::JsonGz));
        assert_eq!(finish(&[]).unwrap().format, Some(Format::Pftrace));
    }

    #[test]
    fn what_windows_cannot_write_or_do_is_a_usage_error() {
        let wrong = [
            &["-o", "x.syscap"][..],
            &["-o", "-"],
            &["-p", "5"],
            &["--freq", "8191"],
            &["-o", "x.exe"],
        ];
        for arguments in wrong {
            assert_eq!(finish(arguments).unwrap_err().exit_code(), 2, "{arguments:?}");
        }
    }

    #[test]
    fn stacks_are_listed_or_none() {
        let all = Stacks { samples: true, switches: true, wakeups: true };
        assert_eq!(parse_stacks("samples,off-cpu,wakers"), Ok(all));
        assert_eq!(parse_stacks("none"), Ok(Stacks::default()));
        assert!(parse_stacks("samples,none").unwrap_err().contains("alone"));
    }
}
