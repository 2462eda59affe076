//! The arguments of `record` as Windows has them.

use crate::format::{self, Format};
use crate::record::files::KeepCapture;
use crate::record::options::Output;
use crate::units::BufferSize;
use anyhow::Result;
use std::path::Path;
use std::time::Duration;

pub(in crate::record) use syscollect_windows::FREQUENCY_MAX;

pub(in crate::record) const EXAMPLES: &str = "\
Examples:
  syscollect record                        until Ctrl-C, into .\\syscollect-DATE-TIME.pftrace
  syscollect record -d 10 -o boot.pftrace  ten seconds
  syscollect record -o build.json.gz -- cargo build   while cargo runs
  syscollect record -d 5 -o x.etl          the raw trace, to export on another machine
  syscollect record -d 5 -o x.etl --gpu    with queues and frames of the graphics scheduler

Recording needs an elevated administrator: start the terminal with \"Run as administrator\".

Exit codes: 0; 1 error; 2 usage; 3 loss with --fail-on-loss; after a launched
command that failed, its own status.";

/// Whether programs can be probed.
pub(in crate::record) const HAS_PROBES: bool = false;

/// Help on options that other systems have in another way.
pub(in crate::record) const OUTPUT_HELP: &str = "\
Write to this file (.etl, the raw trace, or .pftrace, .tracy, .json.gz and others) [default: \
./syscollect-DATE-TIME.pftrace]";
pub(in crate::record) const BUFFER_VALUE: &str = "SIZE";
pub(in crate::record) const BUFFER_HELP: &str = "Memory between the kernel and the disk";
pub(in crate::record) const KEEP_CAPTURE_HELP: &str =
    "Keep the raw trace (.etl) beside the exported file";
pub(in crate::record) const GPU_HELP: &str =
    "Record the graphics scheduler, too: queues, packets, presents, vsync";
pub(in crate::record) const COMMAND_HELP: &str = "Record while this command runs";

/// What a recording is exported to.
pub(in crate::record) const FORMATS: &[Format] = format::EXPORTS;
/// Never asked for: a buffer is measured in bytes.
pub(in crate::record) const BUFFER_OF_A_SPAN: usize = 0;

/// Windows has no arguments of its own.
#[derive(Debug, clap::Args)]
pub(crate) struct SystemArgs {}

/// Nor what would become of them.
#[derive(Clone, Debug)]
pub(crate) struct SystemOptions {}

impl SystemArgs {
    /// What the recording is exported to; `None` where it is left raw.
    ///
    /// # Errors
    ///
    /// What Windows cannot write.
    pub(crate) fn export(
        &self,
        output: &Output,
        asked: Option<Format>,
    ) -> Result<Option<Format>, String> {
        let format = match output {
            Output::Default => asked.unwrap_or(Format::Pftrace),
            Output::Standard => {
                return Err(
                    "on Windows a recording goes to a file; export it to standard output".into()
                );
            }
            Output::File(path) if asked.is_none() && is_raw(path) => return Ok(None),
            Output::File(path) => Format::of_output(path, asked, FORMATS)?,
        };
        match format {
            Format::Syscap => {
                Err("the raw trace of Windows is an .etl file; .syscap is that of Linux".into())
            }
            format => Ok(Some(format)),
        }
    }

    /// Whether the buffer may be measured so.
    pub(crate) fn check_buffer(&self, buffer: BufferSize) -> Result<(), String> {
        match buffer.span {
            Some(_) => Err("on Windows --buffer takes a size, such as 64M".into()),
            None => Ok(()),
        }
    }

    /// Whether the raw trace stays; `asked` is --keep-capture.
    pub(crate) fn keep(&self, asked: bool) -> KeepCapture {
        if asked { KeepCapture::Always } else { KeepCapture::Never }
    }

    /// Nothing is left to complete.
    pub(crate) fn finish(self, _buffer_span: Option<Duration>) -> Result<SystemOptions> {
        Ok(SystemOptions {})
    }
}

impl SystemOptions {
    /// Nothing of Windows' own ends a recording.
    pub(crate) fn is_endless(&self) -> bool {
        true
    }
}

fn is_raw(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("etl"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use crate::record::options::Options;
    use clap::Parser;

    fn finish(arguments: &[&str]) -> Result<Options> {
        Cli::try_parse_from(["syscollect"].iter().chain(arguments))?.record.finish()
    }

    #[test]
    fn an_etl_file_is_the_raw_trace_and_all_else_is_exported() {
        assert_eq!(finish(&["-o", "x.etl"]).unwrap().export, None);
        assert_eq!(finish(&["-o", "X.ETL"]).unwrap().export, None);
        assert_eq!(finish(&["-o", "x.json.gz"]).unwrap().export, Some(Format::JsonGz));
        assert_eq!(finish(&[]).unwrap().export, Some(Format::Pftrace));
    }

    #[test]
    fn the_buffer_is_a_size() {
        assert_eq!(finish(&[]).unwrap().buffer_bytes, 64 << 20);
        assert_eq!(finish(&["--buffer", "8M"]).unwrap().buffer_bytes, 8 << 20);
    }

    #[test]
    fn what_windows_cannot_write_or_do_is_a_usage_error() {
        let wrong = [
            &["-o", "x.syscap"][..],
            &["-o", "-"],
            &["-p", "5"],
            &["--freq", "8191"],
            &["--buffer", "30s"],
            &["-o", "x.exe"],
        ];
        for arguments in wrong {
            let error = finish(arguments).unwrap_err().downcast::<clap::Error>().unwrap();
            assert_eq!(error.exit_code(), 2, "{arguments:?}");
        }
    }
}
