//! `syscollect`: records a whole machine and turns the recording into files
//! that timeline viewers open.
//!
//! One file per sub-command; here they are only told apart. Arguments become
//! finished options before any work starts, so a usage error (exit code 2)
//! never leaves anything behind.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

/// A line on standard error, one whatever it tells of, which does nothing to a terminal. Whoever
/// reads it may leave early, which ends nothing: `eprintln!` would panic.
macro_rules! eprint_line {
    ($($words:tt)*) => { $crate::escape::print_line(format_args!($($words)*)) };
}

/// Lines on standard error in the colours of a style; the last ends with a line break, too.
macro_rules! eprint_styled {
    ($style:expr, $($words:tt)*) => { $crate::escape::print_styled(format_args!($($words)*), $style) };
}

// Where dead code is allowed on Windows, it is what ends a recording of Linux.
mod args;
mod completions;
#[cfg_attr(windows, path = "confine_windows.rs")]
mod confine;
#[cfg_attr(windows, allow(dead_code))]
mod convert;
mod cost;
mod debug_packages;
mod debuginfod;
#[cfg(target_os = "linux")]
mod doctor;
mod escape;
mod export;
mod flamegraph;
mod format;
mod info;
mod kept_files;
#[cfg(target_os = "linux")]
mod live;
mod lost;
mod man;
mod output;
#[cfg_attr(windows, path = "owner_windows.rs")]
mod owner;
#[cfg(target_os = "linux")]
mod probes;
mod record;
mod report;
#[cfg(target_os = "linux")]
mod screen;
#[cfg_attr(windows, allow(dead_code))]
mod signals;
mod source;
mod stack_choice;
mod suggestion;
#[cfg_attr(windows, allow(dead_code))]
mod summary;
mod symbol_files;
#[cfg(target_os = "linux")]
mod symbolize;
mod symbols;
mod terminal;
mod time_range;
mod timings;
#[cfg(target_os = "linux")]
mod top;
mod units;
mod usage;

use args::{Cli, Command};
use clap::{CommandFactory, Parser};
use escape::Advice;
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Instant;

/// Exit code of a usage error.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let program_start = Instant::now();
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) => return refuse(error, &arguments),
    };
    // A sub-command is the first argument, always.
    let name = cli.command.as_ref().and(arguments.get(1)).and_then(|name| name.to_str());
    let result = match cli.command {
        None => record::run(cli.record, program_start),
        Some(Command::Record(args)) => record::run(args, program_start),
        #[cfg(target_os = "linux")]
        Some(Command::Flight(args)) => record::flight::run(*args, program_start),
        #[cfg(target_os = "linux")]
        Some(Command::Snapshot(args)) => record::flight::snapshot(args),
        #[cfg(target_os = "linux")]
        Some(Command::Status(args)) => record::flight::status(&args),
        #[cfg(target_os = "linux")]
        Some(Command::Stop(args)) => record::flight::stop(&args),
        #[cfg(target_os = "linux")]
        Some(Command::Top(args)) => top::run(*args, program_start),
        #[cfg(target_os = "linux")]
        Some(Command::Live(args)) => live::run(*args, program_start),
        Some(Command::Export(args)) => export::run(args),
        Some(Command::Info(args)) => info::run(&args),
        Some(Command::Report(args)) => report::run(args),
        Some(Command::Flamegraph(args)) => flamegraph::run(args),
        #[cfg(target_os = "linux")]
        Some(Command::Symbolize(args)) => symbolize::run(&args),
        #[cfg(target_os = "linux")]
        Some(Command::Probes(args)) => probes::run(&args),
        #[cfg(target_os = "linux")]
        Some(Command::Doctor(args)) => doctor::run(&args),
        Some(Command::Completions(args)) => completions::run(&args, &mut Cli::command()),
        Some(Command::Man(args)) => man::run(&args, Cli::command()),
    };
    exit_code(result, name)
}

/// Answers arguments that ask for help, or for nothing that there is.
fn refuse(error: clap::Error, arguments: &[OsString]) -> ExitCode {
    if !error.use_stderr() {
        error.exit();
    }
    // The message has the arguments in it: that of escaped ones has them escaped.
    let escaped = arguments.iter().map(|argument| escape::printable(&argument.to_string_lossy()));
    let error = Cli::try_parse_from(escaped).err().unwrap_or(error);
    escape::print_usage(&suggestion::of_sub_command(error, arguments));
    ExitCode::from(USAGE)
}

/// Says what went wrong, in one line but for advice, and turns it into the exit code. `name` is the
/// sub-command's.
fn exit_code(result: anyhow::Result<ExitCode>, name: Option<&str>) -> ExitCode {
    let error = match result {
        Ok(code) => return code,
        Err(error) => error,
    };
    let error = match error.downcast::<clap::Error>() {
        Ok(usage) => {
            escape::print_usage(&with_usage_of(usage, name));
            return ExitCode::from(USAGE);
        }
        Err(error) => error,
    };
    if let Some(advice) = error.downcast_ref::<Advice>() {
        escape::print_advice(advice);
        return ExitCode::from(1);
    }
    // `syscollect info x | head` closes the pipe early; that is no mistake.
    if !is_closed_pipe(&error) {
        eprint_line!("syscollect: {}", message(&error));
    }
    ExitCode::from(1)
}

/// The error in clap's style, with the usage of this sub-command and the way to its --help.
fn with_usage_of(error: clap::Error, name: Option<&str>) -> clap::Error {
    let mut program = Cli::command();
    program.build();
    match name.and_then(|name| program.find_subcommand_mut(name)) {
        Some(command) => error.format(command),
        None => error.format(&mut program),
    }
}

/// Whether the reader of the output went away.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let systems = error.chain().filter_map(|cause| cause.downcast_ref::<std::io::Error>());
    systems.into_iter().any(|cause| cause.kind() == std::io::ErrorKind::BrokenPipe)
}

/// The error and its causes in one line. Libraries often repeat a cause in
/// their own text; it is told once.
fn message(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |reported, cause| {
        match reported.as_str() {
            "" => cause,
            reported if reported.contains(&cause) => reported.to_owned(),
            reported => format!("{reported}: {cause}"),
        }
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_cause_that_the_text_has_already_is_not_told_twice() {
        let repeated = anyhow::Error::new(disk_full())
            .context(format!("cannot write after 12 bytes: {}", disk_full()));
        let text = message(&repeated.context("cannot export to x.pftrace"));
        assert_eq!(
            text,
            "cannot export to x.pftrace: cannot write after 12 bytes: No space left on device (os \
             error 28)"
        );
    }

    fn disk_full() -> std::io::Error {
        std::io::Error::from_raw_os_error(libc::ENOSPC)
    }
}
