//! `syscollect`: records a whole machine and turns the recording into files
//! that timeline viewers open.
//!
//! One file per sub-command; here they are only told apart. Arguments become
//! finished options before any work starts, so a usage error (exit code 2)
//! never leaves anything behind.

mod args;
mod backend;
mod completions;
mod convert;
mod doctor;
mod export;
mod format;
mod info;
mod man;
mod output;
mod owner;
mod record;
mod signals;
mod summary;
mod terminal;

use args::{Cli, Command};
use clap::Parser;
use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    let program_start = Instant::now();
    let cli = Cli::parse();
    let result = match cli.command {
        None => record::run(cli.record, program_start),
        Some(Command::Record(args)) => record::run(args, program_start),
        Some(Command::Export(args)) => export::run(args),
        Some(Command::Info(args)) => info::run(&args),
        Some(Command::Doctor(args)) => doctor::run(&args),
        Some(Command::Completions(args)) => completions::run(&args),
        Some(Command::Man) => man::run(),
    };
    exit_code(result)
}

/// Says what went wrong, in one line, and turns it into the exit code.
fn exit_code(result: anyhow::Result<ExitCode>) -> ExitCode {
    let error = match result {
        Ok(code) => return code,
        Err(error) => error,
    };
    // A usage error prints itself in clap's style, with the way to --help.
    if let Some(usage) = error.downcast_ref::<clap::Error>() {
        usage.exit();
    }
    // `syscollect info x | head` closes the pipe early; that is no mistake.
    let closed_pipe = error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|cause| cause.kind() == std::io::ErrorKind::BrokenPipe);
    if !closed_pipe {
        eprintln!("syscollect: {error:#}");
    }
    ExitCode::from(1)
}
