//! `cargo xtask bpf`: the kernel programs' object files.
//!
//! The objects are committed so that nobody who builds syscollect needs clang;
//! `--check` proves that they belong to the sources. The same clang gives the
//! same bytes in any folder: the debug sections are dropped after the compiler
//! has made BTF out of them, and BTF's own file names are mapped.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process::{output_of, root};

/// Sources and the objects that are built from them.
const OBJECTS: [(&str, &str); 8] = [
    ("bpf/src/syscollect.bpf.c", "bpf/syscollect.bpf.o"),
    ("bpf/src/older.bpf.c", "bpf/older.bpf.o"),
    ("bpf/src/probes.bpf.c", "bpf/probes.bpf.o"),
    ("bpf/src/probe_stacks.bpf.c", "bpf/probe_stacks.bpf.o"),
    ("bpf/src/mappers.bpf.c", "bpf/mappers.bpf.o"),
    ("bpf/src/tracepoints.bpf.c", "bpf/tracepoints.bpf.o"),
    ("bpf/src/fences.bpf.c", "bpf/fences.bpf.o"),
    ("bpf/src/sleepers.bpf.c", "bpf/sleepers.bpf.o"),
];
const INSTALL: &str = "on Debian or Ubuntu: apt-get install clang-19 llvm-19 libbpf-dev";

/// Builds the objects, or with `check` compares fresh ones with the committed ones.
pub(crate) fn run(check: bool) -> Result<()> {
    OBJECTS.iter().try_for_each(|(source, object)| build(source, object, check))
}

fn build(source: &str, object: &str, check: bool) -> Result<()> {
    let aside = tempfile::tempdir().context("cannot create a temporary folder")?;
    let fresh = aside.path().join("fresh.bpf.o");
    compile(source, &fresh)?;
    let bytes = fs::read(&fresh).with_context(|| format!("cannot read {}", fresh.display()))?;
    let committed = root().join(object);
    if !check {
        return fs::write(&committed, bytes)
            .with_context(|| format!("cannot write {}", committed.display()));
    }
    let present = fs::read(&committed)
        .with_context(|| format!("cannot read {object}; `cargo xtask bpf` builds it"))?;
    if present != bytes {
        bail!(
            "{object} was not built from {source} as it is now; run `cargo xtask bpf` and commit \
             the result"
        );
    }
    Ok(())
}

fn compile(source: &str, object: &Path) -> Result<()> {
    let root = root();
    let clang = tool("clang-19", "CLANG")?;
    let strip = tool("llvm-strip-19", "LLVM_STRIP")?;
    // Relative names from the workspace's root keep the folder out of the object.
    output_of(
        Command::new(clang)
            .current_dir(&root)
            .args([
                "-g",
                "-O2",
                "-target",
                "bpf",
                "-D__TARGET_ARCH_x86",
                "-mcpu=v3",
                "-Wall",
                "-Werror",
            ])
            .args(["-I", "bpf/include"])
            .arg(format!("-ffile-prefix-map={}=.", root.display()))
            .arg("-fdebug-compilation-dir=.")
            .args(["-c", source, "-o"])
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
        _ => bail!(
            "{program} is missing ({INSTALL}); only changes to bpf/ need it, the built object is \
             committed"
        ),
    }
}
