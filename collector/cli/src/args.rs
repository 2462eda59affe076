//! The command line as a whole, and the values that several sub-commands take.

use crate::{completions, export, flamegraph, info, record, report};
#[cfg(target_os = "linux")]
use crate::{doctor, probes};
use clap::{Parser, Subcommand};

#[cfg(target_os = "linux")]
const EXAMPLES: &str = "\
Examples:
  sudo syscollect                        record the whole machine until Ctrl-C
  sudo syscollect -d 5 -o trace.pftrace  ... for five seconds, for ui.perfetto.dev
  sudo syscollect -- make -j8            ... while a command runs
  sudo syscollect -p 1234                only process 1234, its threads and children
  syscollect probes list 1234            what there is to probe in process 1234
  syscollect doctor                      what this machine can record, and what is missing

Without a sub-command, `record` is meant: its options work here too.

Exit codes: 0; 1 error; 2 usage; 3 loss with --fail-on-loss; after a launched
command that failed, its own status.";

#[cfg(windows)]
const EXAMPLES: &str = "\
Examples:
  syscollect -d 5 -o trace.pftrace   record five seconds, for ui.perfetto.dev
  syscollect -d 5 -o trace.etl       ... as a raw trace
  syscollect -- cargo build          ... while a command runs
  syscollect info trace.etl          what a trace holds, and what it lost

Without a sub-command, `record` is meant: its options work here too. Recording
needs an elevated administrator.

Exit codes: 0; 1 error; 2 usage; 3 loss with --fail-on-loss; after a launched
command that failed, its own status.";

/// Records everything a machine does, through the kernel, and exports it to timeline viewers.
#[derive(Debug, Parser)]
#[command(name = "syscollect", version, after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) record: record::Args,
}

/// The sub-commands, each in the file of its name.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Record until Ctrl-C, for some seconds, or while a command runs (the default)
    Record(record::Args),
    /// Turn a capture into a file that a viewer opens
    Export(export::Args),
    /// Say what a capture holds, and what it lost
    Info(info::Args),
    /// Sum a capture up: the busiest, the slowest, the most waited for
    Report(report::Args),
    /// Draw the stacks of a capture as a flame graph
    Flamegraph(flamegraph::Args),
    #[cfg(target_os = "linux")]
    /// List what there is to probe in a process, a file, or everywhere
    Probes(probes::Args),
    #[cfg(target_os = "linux")]
    /// Say what this machine can record, what is missing, and how to mend it
    Doctor(doctor::Args),
    /// Print the completions of a shell
    Completions(completions::Args),
    /// Print the manual page, in roff
    Man,
}

/// Bytes, from a number with an optional suffix: `65536`, `512K`, `64M`, `2G` (powers of 1024).
fn parse_size(text: &str) -> Result<usize, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: usize = digits.parse().map_err(|_| format!("{text:?} is not a size; write it as 512K, 64M or 2G"))?;
    let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        unit => return Err(format!("{unit:?} is not a unit of size; use K, M or G")),
    };
    number.checked_mul(1 << shift).ok_or_else(|| format!("{text} is more than this machine can address"))
}

/// The size of a trace buffer.
pub(crate) fn parse_buffer(text: &str) -> Result<usize, String> {
    let bytes = parse_size(text)?;
    // A number without a unit is more often meant in megabytes than in bytes.
    if bytes < 4096 { Err(format!("{text} is less than 4 KiB; is a unit missing, as in 64M?")) } else { Ok(bytes) }
}

/// A duration in seconds, more than nothing: `5`, `0.5`.
pub(crate) fn parse_seconds(text: &str) -> Result<std::time::Duration, String> {
    let hint = || format!("{text:?} is not a number of seconds above 0, such as 5 or 0.5");
    let seconds: f64 = text.strip_suffix('s').unwrap_or(text).parse().map_err(|_| hint())?;
    let duration = std::time::Duration::try_from_secs_f64(seconds).map_err(|_| hint())?;
    if duration.is_zero() { Err(hint()) } else { Ok(duration) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use std::time::Duration;

    #[test]
    fn the_definitions_contradict_neither_themselves_nor_each_other() {
        Cli::command().debug_assert();
    }

    #[test]
    fn record_is_meant_when_no_sub_command_is_given() {
        let cli = Cli::try_parse_from(["syscollect", "-d", "5", "-o", "x.pftrace"]).unwrap();
        assert!(cli.command.is_none());
        assert_eq!(cli.record.duration, Some(Duration::from_secs(5)));
    }

    #[test]
    fn a_command_named_like_a_sub_command_is_launched_after_two_dashes() {
        let cli = Cli::try_parse_from(["syscollect", "--", "info", "--json"]).unwrap();
        assert!(cli.command.is_none());
        assert_eq!(cli.record.command, ["info", "--json"]);
    }

    #[test]
    fn every_sub_command_shows_examples() {
        for command in Cli::command().get_subcommands_mut() {
            let help = command.render_help().to_string();
            if command.get_name() != "man" {
                assert!(help.contains("Examples:"), "{} has none:\n{help}", command.get_name());
            }
        }
    }

    #[test]
    fn sizes_take_binary_units() {
        assert_eq!(parse_size("65536"), Ok(65536));
        assert_eq!(parse_size("512k"), Ok(512 << 10));
        assert_eq!(parse_size("64M"), Ok(64 << 20));
        assert_eq!(parse_size("2GiB"), Ok(2 << 30));
        assert!(parse_size("64X").unwrap_err().contains("K, M or G"));
        assert!(parse_size("much").unwrap_err().contains("not a size"));
        assert!(parse_size("99999999999G").unwrap_err().contains("address"));
    }

    #[test]
    fn seconds_may_have_a_fraction_and_are_never_none() {
        assert_eq!(parse_seconds("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_seconds("5s"), Ok(Duration::from_secs(5)));
        for wrong in ["0", "-1", "soon", "inf", "NaN", "1e400"] {
            assert!(parse_seconds(wrong).is_err(), "{wrong}");
        }
    }
}
