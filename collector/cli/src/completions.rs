//! `syscollect completions`: for shells, from the same definitions as `--help`.

use anyhow::Result;
use clap::Command;
use clap_complete::Shell;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  syscollect completions bash > ~/.local/share/bash-completion/completions/syscollect
  syscollect completions zsh > ~/.zfunc/_syscollect
  syscollect completions fish > ~/.config/fish/completions/syscollect.fish";

/// The arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

/// Prints the completions of `program`.
pub(crate) fn run(args: &Args, program: &mut Command) -> Result<ExitCode> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, program, "syscollect", &mut text);
    std::io::Write::write_all(&mut std::io::stdout(), &text)?;
    Ok(ExitCode::SUCCESS)
}
