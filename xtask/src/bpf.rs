//! `cargo xtask bpf`: the kernel programs' object file.
//!
//! The object is committed so that nobody who builds syscollect needs clang;
//! `--check` proves that it belongs to the sources. The same clang gives the
//! same bytes in any folder: the debug sections are dropped after the compiler
//! has made BTF out of them, and BTF's own file names are mapped.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process::{output_of, root};

const SOURCE: &str = "bpf/src/syscollect.bpf.c";
const OBJECT: &str = "bpf/syscollect.bpf.o";
const INSTALL: &str = "on Debian or Ubuntu: apt-get install clang-19 llvm-19 libbpf-dev";

/// Builds the object, or with `check` compares a fresh one with the committed one.
pub(crate) fn run(check: bool) -> Result<()> {
    let aside = tempfile::tempdir().context("cannot create a temporary folder")?;
    let fresh = aside.path().join("syscollect.bpf.o");
    compile(&fresh)?;
    let bytes = fs::read(&fresh).with_context(|| format!("cannot read {}", fresh.display()))?;
    let committed = root().join(OBJECT);
    if !check {
        return fs::write(&committed, bytes).with_context(|| format!("cannot write {}", committed.display()));
    }
    let present = fs::read(&committed).with_context(|| format!("cannot read {OBJECT}; `cargo xtask bpf` builds it"))?;
    if present != bytes {
        bail!("{OBJECT} was not built from {SOURCE} as it is now; run `cargo xtask bpf` and commit the result");
    }
    Ok(())
}

fn compile(object: &Path) -> Result<()> {
    let root = root();
    let clang = tool("clang-19", "CLANG")?;
    let strip = tool("llvm-strip-19", "LLVM_STRIP")?;
    // Relative names from the workspace's root keep the folder out of the object.
    output_of(
        Command::new(clang)
            .current_dir(&root)
            .args(["-g", "-O2", "-target", "bpf", "-D__TARGET_ARCH_x86", "-mcpu=v3", "-Wall", "-Werror"])
            .args(["-I", "bpf/include"])
            .arg(format!("-ffile-prefix-map={}=.", root.display()))
            .arg("-fdebug-compilation-dir=.")
            .args(["-c", SOURCE, "-o"])
            .arg(object),
    )
    .context("the kernel programs do not compile")?;
    output_of(Command::new(strip).arg("-g").arg(object))?;
    Ok(())
}

/// The tool's name, or what the environment variable names, once it has been seen to start.
fn tool(name: &str, variable: &str) -> Result<String> {
    let program = std::env::var(variable).unwrap_or_else(|_| name.to_owned());
    let started = Command::new(&program).arg("--version").output();
    match started {
        Ok(output) if output.status.success() => Ok(program),
        _ => bail!("{program} is missing ({INSTALL}); only changes to bpf/ need it, the built object is committed"),
    }
}
