//! The command line as a whole.

#[cfg(target_os = "linux")]
use crate::record::flight;
use crate::{completions, export, flamegraph, info, man, record, report};
#[cfg(target_os = "linux")]
use crate::{doctor, live, probes, symbolize, top};
use clap::{Parser, Subcommand};

#[cfg(target_os = "linux")]
const EXAMPLES: &str = "\
Examples:
  sudo syscollect                        record the whole machine until Ctrl-C
  sudo syscollect -d 5 -o trace.pftrace  ... for five seconds, for ui.perfetto.dev
  sudo syscollect -- make -j8            ... while a command runs
  sudo syscollect -p 1234                only process 1234, its threads and children
  sudo syscollect flight                 keep the newest events, for `syscollect snapshot`
  sudo syscollect top                    what the machine does, each second
  sudo syscollect live                   the machine in a Tracy viewer that connects
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
#[command(name = "syscollect", bin_name = "syscollect", version, after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
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
    #[cfg(target_os = "linux")]
    /// Keep the newest events in memory all the time, for snapshots of what just happened
    Flight(Box<flight::FlightArgs>),
    #[cfg(target_os = "linux")]
    /// Write what a running flight recorder holds, which goes on
    Snapshot(flight::SnapshotArgs),
    #[cfg(target_os = "linux")]
    /// Say how a running flight recorder is
    Status(flight::StatusArgs),
    #[cfg(target_os = "linux")]
    /// End a running flight recorder
    Stop(flight::StopArgs),
    #[cfg(target_os = "linux")]
    /// Show what the machine does, each second, in the terminal
    Top(Box<top::TopArgs>),
    #[cfg(target_os = "linux")]
    /// Show the machine live in a Tracy viewer that connects
    Live(Box<live::LiveArgs>),
    /// Turn a capture into a file that a viewer opens
    Export(export::Args),
    /// Say what a capture holds, and what it lost
    Info(info::Args),
    /// Sum a capture up: the busiest, the slowest, the most waited for
    Report(report::Args),
    /// Draw the stacks of a capture as a flame graph
    Flamegraph(flamegraph::Args),
    #[cfg(target_os = "linux")]
    /// Give a capture the names that it lacks, on any machine
    Symbolize(symbolize::Args),
    #[cfg(target_os = "linux")]
    /// List what there is to probe in a process, a file, or everywhere
    Probes(probes::Args),
    #[cfg(target_os = "linux")]
    /// Say what this machine can record, what is missing, and how to fix it
    Doctor(doctor::Args),
    /// Print the completions of a shell
    Completions(completions::Args),
    /// Print a manual page, in roff
    Man(man::Args),
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
            assert!(help.contains("Examples:"), "{} has none:\n{help}", command.get_name());
        }
    }
}
