//! `cargo xtask windows`: what can be known of the Windows program without Windows.
//!
//! The calls of its API are type-checked wherever this runs. Where rustup has the
//! target, all that makes up the Windows program is; where there is a linker for
//! it too, the program is linked; and where there is Wine, the tests of recorder and
//! program run, those of the structures' layouts among them. Wine's tracing
//! functions are stubs: whether a recording works is for a Windows machine to say.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process::{cargo, output_of, root};
use crate::report::{Outcome, Report};

const TARGET: &str = "x86_64-pc-windows-gnu";
const LINKER: &str = "x86_64-w64-mingw32-gcc";
const LINKER_VARIABLE: &str = "CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER";
const INSTALL_TARGET: &str = "rustup target add x86_64-pc-windows-gnu";
const INSTALL_LINKER: &str = "on Debian or Ubuntu: apt-get install gcc-mingw-w64-x86-64-win32";

/// A library that Rust's standard library asks for since Windows 10 and Wine 8 lacks.
const SHIM: &str = "\
#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T size) { return SystemFunction036(data, (ULONG)size); }
";

/// Runs all that can be run here.
pub(crate) fn run() -> Result<()> {
    let mut report = Report::default();
    steps(&mut report);
    report.finish("windows")
}

/// The same, as steps of a larger check.
pub(crate) fn steps(report: &mut Report) {
    report.step("windows: calls of its API", host_check);
    report.step("windows: types", target_check);
    report.step("windows: link", link);
    report.step("windows: tests under Wine", tests);
}

/// The calls are checked against the crates that declare them; nothing is linked.
/// (`--no-deps`: lints of the other crates are for the check of the workspace.)
fn host_check() -> Result<()> {
    quiet(
        cargo()
            .args([
                "clippy",
                "--quiet",
                "--no-deps",
                "-p",
                "syscollect-windows",
                "--features",
                "type-check",
            ])
            .args(DENY),
    )
}

const DENY: [&str; 3] = ["--", "-D", "warnings"];

/// Where the program can be linked, that says the same: nothing of the one is of use to the other,
/// and each takes minutes.
fn target_check() -> Result<Outcome> {
    if missing_tools().is_none() {
        return Ok(Outcome::Passed("by the link".to_owned()));
    }
    if !has_target() {
        return Ok(Outcome::Skipped(format!("the target is missing: {INSTALL_TARGET}")));
    }
    // What is written in C (zstd) needs the compiler that comes with the linker.
    let features: &[&str] = if starts(LINKER) { &[] } else { &["--no-default-features"] };
    quiet(
        for_windows(&["clippy", "--quiet", "--no-deps", "-p", "syscollect"])
            .args(features)
            .args(DENY),
    )?;
    quiet(
        for_windows(&[
            "clippy",
            "--quiet",
            "--no-deps",
            "-p",
            "syscollect-windows",
            "--all-targets",
        ])
        .args(DENY),
    )?;
    Ok(Outcome::Passed(String::new()))
}

fn link() -> Result<Outcome> {
    if let Some(missing) = missing_tools() {
        return Ok(Outcome::Skipped(missing));
    }
    // Not optimized: that takes three times as long and links the same.
    quiet(&mut for_windows(&["build", "--quiet", "-p", "syscollect"]))?;
    let program = target_folder().join("debug").join("syscollect.exe");
    let size =
        fs::metadata(&program).with_context(|| format!("cannot find {}", program.display()))?.len();
    Ok(Outcome::Passed(format!("{} has {:.1} MB", program.display(), size as f64 / 1e6)))
}

fn tests() -> Result<Outcome> {
    if let Some(missing) = missing_tools() {
        return Ok(Outcome::Skipped(missing));
    }
    let Some(wine) = wine() else {
        return Ok(Outcome::Skipped(
            "Wine is missing: on Debian or Ubuntu: apt-get install wine".to_owned(),
        ));
    };
    put_shim()?;
    let recorder = passed(wine, &["test", "--quiet", "-p", "syscollect-windows", "--lib"])?;
    let program = passed(wine, &["test", "--quiet", "-p", "syscollect", "--bin", "syscollect"])?;
    Ok(Outcome::Passed(format!("the recorder: {recorder}; the program: {program}")))
}

/// `53 passed`, of a run of tests under Wine.
fn passed(wine: &str, arguments: &[&str]) -> Result<String> {
    let output = output_of(
        for_windows(arguments)
            .env("CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER", wine)
            .env("WINEPREFIX", target_folder().join("wine"))
            .env("WINEDEBUG", "-all"),
    )?;
    let log = String::from_utf8_lossy(&output.stdout).into_owned();
    let Some(result) = log.lines().find_map(|line| line.strip_prefix("test result: ok. ")) else {
        bail!("no test ran under Wine:\n{log}");
    };
    Ok(result.split(';').next().unwrap_or_default().to_owned())
}

/// Beside the tests' programs, where Windows looks first.
fn put_shim() -> Result<()> {
    let folder = target_folder().join("debug").join("deps");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let library = folder.join("bcryptprimitives.dll");
    if library.exists() {
        return Ok(());
    }
    let source = folder.join("bcryptprimitives.c");
    fs::write(&source, SHIM).with_context(|| format!("cannot write {}", source.display()))?;
    output_of(
        Command::new(LINKER)
            .args(["-shared", "-O1", "-o"])
            .arg(&library)
            .arg(&source)
            .arg("-ladvapi32"),
    )?;
    Ok(())
}

fn quiet(command: &mut Command) -> Result<()> {
    output_of(command).map(|_| ())
}

/// Cargo for the Windows target.
fn for_windows(arguments: &[&str]) -> Command {
    let mut command = cargo();
    let (first, rest) = arguments.split_first().unwrap_or((&"check", &[]));
    command.arg(first).args(["--target", TARGET]).args(rest).env(LINKER_VARIABLE, LINKER);
    // Nobody debugs it here, and a quarter of the time goes into what a debugger would want.
    command.env("CARGO_PROFILE_DEV_DEBUG", "none");
    command
}

fn target_folder() -> PathBuf {
    let folder =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    folder.join(TARGET)
}

fn missing_tools() -> Option<String> {
    match (has_target(), starts(LINKER)) {
        (false, _) => Some(format!("the target is missing: {INSTALL_TARGET}")),
        (_, false) => Some(format!("the linker is missing: {INSTALL_LINKER}")),
        _ => None,
    }
}

/// Whether the standard library for Windows is installed beside the compiler's own.
fn has_target() -> bool {
    let folder =
        output_of(Command::new("rustc").args(["--print", "target-libdir", "--target", TARGET]));
    folder.is_ok_and(|output| Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir())
}

fn wine() -> Option<&'static str> {
    ["wine64", "wine"].into_iter().find(|program| starts(program))
}

fn starts(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}
