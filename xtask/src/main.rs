//! `cargo xtask`: what developers and `.ci/run` call besides `cargo test`.
//!
//! **Duties.** Generated files (`layouts`, `bpf`) and their freshness, the
//! whole check (`ci`), the viewers' engines as judges of exported files
//! (`viewers`), the tests that need root (`privileged`), parts of what these
//! recorded as files for tests (`cut`), the comparison with other tracers
//! (`bench`), the load programs that both record, and the packages of a
//! release (`dist`).
//!
//! **Non-goals.** Nothing here is part of the product; a user of syscollect
//! never needs this crate, nor clang.

mod bench;
mod bpf;
mod ci;
mod cut;
mod dist;
mod engine;
mod examples;
mod fuzz;
mod layouts;
mod privileged;
mod process;
mod report;
mod soak;
mod survival;
mod tidy;
mod viewers;
mod vm;
mod windows;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Developer commands of syscollect.
#[derive(Parser)]
#[command(name = "cargo xtask", disable_version_flag = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Write bpf/include/records.h from the layouts in bpf/records.
    Layouts {
        /// Compare with the committed file; write nothing.
        #[arg(long)]
        check: bool,
    },
    /// Compile bpf/src/syscollect.bpf.c into the committed object (needs clang-19).
    Bpf {
        /// Build aside and compare with the committed object; write nothing.
        #[arg(long)]
        check: bool,
    },
    /// Make the packages of a release: a tar.gz and a .deb with the static program.
    Dist(dist::Arguments),
    /// Everything that .ci/run does after `cargo test`.
    Ci,
    /// Build, record and read back programs of other languages that mark what they do (needs root).
    Examples {
        /// Only of these.
        languages: Vec<examples::Language>,
        /// The program that records; built if none is given.
        #[arg(long)]
        syscollect: Option<std::path::PathBuf>,
    },
    /// Give what reads foreign bytes arbitrary ones, found by libFuzzer.
    Fuzz(fuzz::Arguments),
    /// Look for habits that no other tool checks: long files, marks of unfinished work.
    Tidy,
    /// Show a capture of known figures in the viewers' own engines; prints a table.
    Viewers,
    /// Check the Windows program: its types, and where the tools are there, its link and its
    /// layouts.
    Windows,
    /// Cut a recording of GPUs to what a test needs: some records, and the names of their threads.
    Cut(cut::Arguments),
    /// The tests that need root and a real kernel.
    Privileged(privileged::Arguments),
    /// Kill, stop or starve recorders at random moments, under load, and look at what is left.
    Survival(survival::Arguments),
    /// Record a busy machine for long, and print what the recorder used over time.
    Soak(soak::Arguments),
    /// Record on other kernels, each in an emulated virtual machine.
    Vm(vm::Arguments),
    /// Compare the cost of tracing with other tracers, or with an older build; prints tables.
    Bench(bench::Arguments),
}

fn main() -> ExitCode {
    // A shell without job control has what it starts in the background ignore Ctrl-C, and what that
    // starts inherits it: a recorder that is interrupted before it listens would go on for ever.
    // SAFETY: sets the default action, before any thread is made.
    unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) };
    let result = match Arguments::parse().command {
        Command::Layouts { check } => layouts::run(check),
        Command::Bpf { check } => bpf::run(check),
        Command::Ci => ci::run(),
        Command::Dist(arguments) => dist::run(&arguments),
        Command::Examples { languages, syscollect } => {
            examples::run(&languages, syscollect.as_deref())
        }
        Command::Fuzz(arguments) => fuzz::run(&arguments),
        Command::Tidy => tidy::run(),
        Command::Viewers => viewers::run(),
        Command::Windows => windows::run(),
        Command::Cut(arguments) => cut::run(&arguments),
        Command::Privileged(arguments) => privileged::run(&arguments),
        Command::Survival(arguments) => survival::run(&arguments),
        Command::Soak(arguments) => soak::run(&arguments),
        Command::Vm(arguments) => vm::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
