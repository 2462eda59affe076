//! `syscollect man`: the manual page, from the same definitions as `--help`.

use crate::args::Cli;
use anyhow::Result;
use clap::CommandFactory;
use std::process::ExitCode;

/// Prints the page of the program, and then of each sub-command.
pub(crate) fn run() -> Result<ExitCode> {
    let mut text = Vec::new();
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    clap_mangen::Man::new(command.clone()).render(&mut text)?;
    for sub_command in command.get_subcommands() {
        clap_mangen::Man::new(sub_command.clone()).render(&mut text)?;
    }
    std::io::Write::write_all(&mut std::io::stdout(), &text)?;
    Ok(ExitCode::SUCCESS)
}
