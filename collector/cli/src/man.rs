//! `syscollect man`: the manual pages, from the same definitions as `--help`.

use crate::usage::usage;
use anyhow::Result;
use clap::Command;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  syscollect man | man -l -                              the page of the program
  syscollect man record | man -l -                       ... of a sub-command
  syscollect man > /usr/local/share/man/man1/syscollect.1";

/// The arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The sub-command whose page is printed; that of the program without
    #[arg(value_name = "COMMAND")]
    command: Option<String>,
}

/// Prints one page: of `program`, or of a sub-command. A page has one NAME, by which `man` files
/// it.
pub(crate) fn run(args: &Args, program: Command) -> Result<ExitCode> {
    let mut command = program.disable_help_subcommand(true);
    command.build();
    let page = match &args.command {
        None => Some(&command),
        Some(name) => command.find_subcommand(name),
    };
    let Some(page) = page.filter(|page| !page.is_hide_set()).cloned() else {
        let names: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
        let asked = args.command.as_deref().unwrap_or_default();
        return Err(usage(format!(
            "there is no command {asked:?}; there are {}",
            names.join(", ")
        ))
        .into());
    };
    let mut text = Vec::new();
    clap_mangen::Man::new(page).render(&mut text)?;
    std::io::Write::write_all(&mut std::io::stdout(), &text)?;
    Ok(ExitCode::SUCCESS)
}
