//! The static program that the packages hold.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::process::{cargo, output_of, root};

use super::target;

pub(super) const TARGET: &str = "x86_64-unknown-linux-musl";
const INSTALL_TARGET: &str = "rustup target add x86_64-unknown-linux-musl";
const INSTALL_COMPILER: &str = "on Debian or Ubuntu: apt-get install musl-tools";

/// A build of syscollect for release, without debug information.
pub(super) struct Program {
    pub(super) path: PathBuf,
    pub(super) version: String,
    _folder: TempDir,
}

/// What a program is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To be given to people.
    Release,
    /// To see whether it builds, links, starts and records: how fast it is takes most of the build.
    Check,
}

impl Program {
    /// Builds it, and takes what debug information the standard library brings out of a copy.
    pub(super) fn build(purpose: Purpose) -> Result<Self> {
        let opt_level =
            (purpose == Purpose::Check).then_some(("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0"));
        output_of(
            cargo()
                .args(["build", "--quiet", "--release", "-p", "syscollect", "--target", TARGET])
                .envs(opt_level)
                .env(
                    format!("CARGO_TARGET_{}_RUSTFLAGS", TARGET.to_uppercase().replace('-', "_")),
                    without_paths(),
                ),
        )?;
        let folder = tempfile::tempdir().context("cannot create a folder")?;
        let path = folder.path().join("syscollect");
        // Symbols stay: a profiler that is profiled has names.
        output_of(
            Command::new("strip")
                .args(["--strip-debug", "-o"])
                .arg(&path)
                .arg(target().join(TARGET).join("release/syscollect")),
        )?;
        let mut program = Self { path, version: String::new(), _folder: folder };
        let printed = program.run(&["--version"])?;
        let version = printed.split_whitespace().nth(1).context("--version names no version")?;
        program.version = version.to_owned();
        Ok(program)
    }

    /// What `syscollect ARGUMENTS` prints.
    pub(super) fn run(&self, arguments: &[&str]) -> Result<String> {
        let output = output_of(Command::new(&self.path).args(arguments).stdin(Stdio::null()))?;
        String::from_utf8(output.stdout).context("the program printed other than UTF-8")
    }
}

/// Messages of panics name source files: those of the builder's home would make the program another
/// one on each machine.
pub(super) fn without_paths() -> String {
    let home = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo")));
    let sources = home.map(|home| format!("--remap-path-prefix={}=/cargo", home.display()));
    format!("--remap-path-prefix={}=. {}", root().display(), sources.unwrap_or_default())
}

/// What is missing to build it, and how to get it.
pub(super) fn missing_tools() -> Option<String> {
    if !has_target() {
        return Some(format!("the target is missing: {INSTALL_TARGET}"));
    }
    // What is written in C (zstd) needs it.
    if !starts("musl-gcc") {
        return Some(format!("the C compiler for musl is missing: {INSTALL_COMPILER}"));
    }
    (!starts("strip")).then(|| "strip is missing: on Debian or Ubuntu: binutils".to_owned())
}

/// Whether the standard library for the target is installed beside the compiler's own.
fn has_target() -> bool {
    let folder =
        output_of(Command::new("rustc").args(["--print", "target-libdir", "--target", TARGET]));
    folder.is_ok_and(|output| Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir())
}

/// Whether there is such a program.
pub(super) fn starts(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}
