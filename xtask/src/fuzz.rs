//! `cargo xtask fuzz [--seconds N] [TARGETS]`: libFuzzer on the targets of fuzz/, as many at a time
//! as there are CPUs; in the whole check six times as many, each for as long on a clock.
//!
//! The flags are those of cargo-fuzz without its sanitizers, which need a nightly compiler;
//! arithmetic and bounds are checked all the same. What is found stays in fuzz/corpus for the next
//! run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::process::{TimedOut, cargo, on_each_cpu, output_of, output_within, root};
use crate::report::{Outcome, Report};

/// Seconds of each target in the whole check; enough to meet a mistake that is easy to meet.
const CI_SECONDS: u32 = 9;
/// Memory that a target may take, MiB: most hold a few kilobytes.
const MOST_MEMORY: u32 = 1024;

/// An input that takes longer is a finding, by the clock: seconds.
const LONGEST_INPUT: u32 = 10;
/// So long after its time a target has ended.
const LONGEST_END: Duration = Duration::from_secs(60);

/// Which targets, and for how long.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How long each target runs.
    #[arg(long, default_value_t = CI_SECONDS)]
    seconds: u32,
    /// Names of targets in fuzz/fuzz_targets; all of them if none is named.
    targets: Vec<String>,
}

/// Runs them, and prints how many inputs each has tried.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let folder = build()?;
    let targets = if arguments.targets.is_empty() { targets()? } else { arguments.targets.clone() };
    println!("{}", try_all(&folder, &targets, arguments.seconds, 1)?);
    Ok(())
}

/// Targets that run at a time on each CPU in the whole check.
const CI_TARGETS: usize = 6;

/// The same, as steps of the whole check.
pub(crate) fn steps(report: &mut Report) {
    if Command::new("c++").arg("--version").output().is_err() {
        return report.step("fuzz", || {
            Ok(Outcome::Skipped("libFuzzer is C++, and there is no c++ here".to_owned()))
        });
    }
    let mut folder = None;
    report.step("fuzz: build", || build().map(|built| folder = Some(built)));
    if let Some(folder) = folder {
        report.step("fuzz: every target", || try_all(&folder, &targets()?, CI_SECONDS, CI_TARGETS));
    }
}

/// Names of all targets.
fn targets() -> Result<Vec<String>> {
    let folder = root().join("fuzz").join("fuzz_targets");
    let files =
        fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut names = Vec::new();
    for file in files {
        names.extend(file?.path().file_stem().map(|name| name.to_string_lossy().into_owned()));
    }
    names.sort();
    Ok(names)
}

/// Builds all of them; the folder where they lie.
fn build() -> Result<PathBuf> {
    let folder = root().join("fuzz");
    let flags = "--cfg fuzzing -C passes=sancov-module -C debug-assertions=on -C \
                 overflow-checks=on -C llvm-args=-sanitizer-coverage-level=4 -C \
                 llvm-args=-sanitizer-coverage-inline-8bit-counters -C \
                 llvm-args=-sanitizer-coverage-pc-table -C \
                 llvm-args=-sanitizer-coverage-trace-compares";
    // With a target given, build scripts and macros are built without the flags.
    let host = host_target()?;
    let arguments = ["build", "--quiet", "--release", "--target", &host];
    output_of(cargo().current_dir(&folder).args(arguments).env("RUSTFLAGS", flags))?;
    Ok(folder.join("target").join(&host).join("release"))
}

/// Runs the targets, so many on each CPU; `capture 12345, ...`: how many inputs each has tried.
fn try_all(folder: &Path, targets: &[String], seconds: u32, per_cpu: usize) -> Result<String> {
    let tried = on_each_cpu(per_cpu, targets, |target| try_one(folder, target, seconds));
    let is_failed = tried.iter().any(Result::is_err);
    let runs: Vec<String> = targets
        .iter()
        .zip(&tried)
        .map(|(target, result)| match result {
            Ok(inputs) => format!("{target} {inputs}"),
            Err(error) => format!("{target}: {error:#}"),
        })
        .collect();
    match is_failed {
        true => bail!("{}", runs.join("\n")),
        false => Ok(runs.join(", ")),
    }
}

/// Runs a target; how many inputs it has tried.
fn try_one(folder: &Path, target: &str, seconds: u32) -> Result<u64> {
    let fuzz = root().join("fuzz");
    let corpus = fuzz.join("corpus").join(target);
    fs::create_dir_all(&corpus).with_context(|| format!("cannot create {}", corpus.display()))?;
    // What is found goes to the first folder; the others are only read.
    let seeds = fuzz.join("seeds").join(target);
    let folders = std::iter::once(corpus).chain(seeds.exists().then_some(seeds));
    let limits = [format!("-max_total_time={seconds}"), format!("-rss_limit_mb={MOST_MEMORY}")];
    let artifacts = fuzz.join("artifacts").join(target);
    fs::create_dir_all(&artifacts)
        .with_context(|| format!("cannot create {}", artifacts.display()))?;
    let found = format!("-artifact_prefix={}/", artifacts.display());
    let mut command = Command::new(folder.join(target));
    command.args(limits).args([format!("-timeout={LONGEST_INPUT}"), found]).args(folders);
    let output = ended(&mut command, Duration::from_secs(seconds.into()) + LONGEST_END)?;
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    // `Done 12345 runs in 31 second(s)`
    let done = log
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix("Done ")?.split(' ').next()?.parse().ok());
    done.with_context(|| format!("{target} ended without a count"))
}

/// What a target printed. libFuzzer writes an input that takes too long to a file from within a signal
/// handler, which needs memory: where the signal came while the target had that lock, it waits for
/// ever. So was one met that took 10 s once, and a millisecond ever after; it runs again.
fn ended(command: &mut Command, limit: Duration) -> Result<Output> {
    match output_within(limit, command) {
        Err(error) if error.is::<TimedOut>() => output_within(limit, command),
        output => output,
    }
}

fn host_target() -> Result<String> {
    let version = output_of(
        Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into())).arg("-vV"),
    )?;
    let text = String::from_utf8_lossy(&version.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: ")).map(str::to_owned);
    host.context("rustc -vV names no host")
}
