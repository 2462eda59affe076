//! `cargo xtask ci`: everything that `.ci/run` does after `cargo test`.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};

use crate::privileged::context::cargo;
use crate::process::{output_of, root};
use crate::report::{Outcome, Report};
use crate::{bpf, layouts, privileged, tidy, viewers, vm, windows};

/// Seconds of fuzzing; enough to meet a mistake that is easy to meet.
const FUZZ_SECONDS: u32 = 20;

/// Runs every step, also after one that failed.
pub(crate) fn run() -> Result<()> {
    let mut report = Report::default();
    report.step("format", || quiet(&["fmt", "--all", "--check"]));
    report.step("tidy", tidy::run);
    report.step("layouts", || layouts::run(true));
    report.step("kernel object", || bpf::run(true));
    report.step("clippy", || quiet(&["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"]));
    windows::steps(&mut report);
    report.step("documentation", documentation);
    report.step("release build", || quiet(&["build", "--quiet", "--release", "-p", "syscollect"]));
    report.step("the ring's ordering under loom", loom);
    report.step("figures in the viewers", viewers::step);
    report.step("fuzz the capture reader", || fuzz("capture"));
    report.step("fuzz the memory that programs share", || fuzz("arenas"));
    report.step("fuzz the reader of the kernel's texts", || fuzz("kernel_texts"));
    report.step("fuzz the reader of perf's records", || fuzz("perf_records"));
    report.step("fuzz the reader of /proc's texts", || fuzz("process_texts"));
    report.step("fuzz the reader of the kernel's symbols", || fuzz("kallsyms"));
    report.step("fuzz the reader of probes' arguments", || fuzz("probe_arguments"));
    report.step("fuzz the reader of probes", || fuzz("probes"));
    report.step("fuzz the reader of programs' symbols", || fuzz("naming"));
    report.step("fuzz the reader of Windows symbols", || fuzz("pdb"));
    report.step("fuzz the reader of Windows traces", || fuzz("etl_buffers"));
    report.step("fuzz what Windows records say", || fuzz("etl_payloads"));
    report.step("fuzz what Windows says of GPUs", || fuzz("etl_gpu"));
    report.step("fuzz what Linux says of GPUs", || fuzz("gpu_tracepoints"));
    report.step("fuzz the decompression of traces", || fuzz("xpress"));
    privileged::steps(&mut report);
    report.step("other kernels", vm::step);
    report.finish("ci")
}

fn quiet(arguments: &[&str]) -> Result<()> {
    output_of(cargo().args(arguments)).map(|_| ())
}

fn documentation() -> Result<()> {
    let arguments = ["doc", "--quiet", "--workspace", "--no-deps", "--document-private-items"];
    output_of(cargo().args(arguments).env("RUSTDOCFLAGS", "-D warnings")).map(|_| ())
}

/// Tries every order in which another processor could see the ring's stores.
fn loom() -> Result<()> {
    // Everything is compiled anew with this flag, so in a folder of its own.
    let folder = root().join("target").join("loom");
    let arguments = ["test", "--quiet", "--release", "-p", "syscollect-usdt-client", "--test", "loom"];
    output_of(cargo().args(arguments).env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", folder)).map(|_| ())
}

/// Runs libFuzzer on a target for a short while.
///
/// The flags are those of cargo-fuzz without its sanitizers, which need a
/// nightly compiler; arithmetic and bounds are checked all the same.
fn fuzz(target: &str) -> Result<Outcome> {
    let folder = root().join("fuzz");
    if !folder.join("Cargo.toml").exists() {
        return Ok(Outcome::Skipped("there is no fuzz target".to_owned()));
    }
    if Command::new("c++").arg("--version").output().is_err() {
        return Ok(Outcome::Skipped("libFuzzer is C++, and there is no c++ here".to_owned()));
    }
    let flags = "--cfg fuzzing -C passes=sancov-module -C codegen-units=1 -C debug-assertions=on -C overflow-checks=on \
                 -C llvm-args=-sanitizer-coverage-level=4 -C llvm-args=-sanitizer-coverage-inline-8bit-counters \
                 -C llvm-args=-sanitizer-coverage-pc-table -C llvm-args=-sanitizer-coverage-trace-compares";
    // With a target given, build scripts and macros are built without the flags.
    let host = host_target()?;
    let arguments = ["build", "--quiet", "--release", "--target", &host];
    output_of(cargo().current_dir(&folder).args(arguments).env("RUSTFLAGS", flags))?;
    let corpus = folder.join("corpus").join(target);
    fs::create_dir_all(&corpus).context("cannot create the corpus")?;
    let program = folder.join("target").join(&host).join("release").join(target);
    let seconds = format!("-max_total_time={FUZZ_SECONDS}");
    // What is found goes to the first folder; the others are only read.
    let seeds = folder.join("seeds").join(target);
    let folders = std::iter::once(corpus).chain(seeds.exists().then_some(seeds));
    let said = output_of(Command::new(program).args([&seconds, "-rss_limit_mb=1024", "-timeout=10"]).args(folders))?;
    let log = String::from_utf8_lossy(&said.stderr).into_owned();
    let done = log.lines().rev().find(|line| line.starts_with("Done ")).unwrap_or_default().to_owned();
    Ok(Outcome::Passed(done))
}

fn host_target() -> Result<String> {
    let version = output_of(Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into())).arg("-vV"))?;
    let text = String::from_utf8_lossy(&version.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: ")).map(str::to_owned);
    host.context("rustc -vV names no host")
}
