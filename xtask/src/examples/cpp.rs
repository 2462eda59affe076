//! The example in C++, in both ways in which a program finds the installed client, and a program
//! that nobody changed, whose malloc is recorded.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::dist::client::ClientLibraries;
use crate::process::{output_of, root};
use crate::report::{Outcome, Report};

use super::{Recording, built, record, recorded};

/// How often the example draws a frame; what it does in each is known.
const FRAMES: u64 = 100;

/// Installs the client, and has each way tried.
pub(super) fn steps(report: &mut Report, syscollect: Option<&Path>) {
    let mut installed = None;
    report.step("C++: install the client", || {
        let folder = tempfile::tempdir()?;
        let bytes = ClientLibraries::build()?.install(&folder.path().join("prefix"))?;
        installed = Some(folder);
        Ok(format!("{:.1} MB", bytes as f64 / 1e6))
    });
    let Some(folder) = installed else { return };
    let folder = folder.path();
    report.step("C++: cmake, static", || engine(syscollect, folder, with_cmake));
    report.step("C++: pkg-config, shared", || engine(syscollect, folder, with_pkg_config));
    report.step("C++: malloc, preloaded", || malloc(syscollect, folder));
}

fn starts(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

fn source() -> PathBuf {
    root().join("usdt-client/c/examples/engine")
}

/// The example as CMake builds it; nothing where that is missing.
fn with_cmake(folder: &Path) -> Result<Option<Command>> {
    if !starts("cmake") || !starts("c++") {
        return Ok(None);
    }
    let build = folder.join("build");
    let prefix = format!("-DCMAKE_PREFIX_PATH={}", folder.join("prefix").display());
    let mut cmake = Command::new("cmake");
    cmake.arg("-S").arg(source()).arg("-B").arg(&build).arg(prefix);
    output_of(cmake.arg("-DCMAKE_BUILD_TYPE=Release"))?;
    output_of(Command::new("cmake").arg("--build").arg(&build))?;
    Ok(Some(Command::new(build.join("engine"))))
}

/// The example as pkg-config says that it is built; nothing where that is missing.
fn with_pkg_config(folder: &Path) -> Result<Option<Command>> {
    if !starts("pkg-config") || !starts("c++") {
        return Ok(None);
    }
    let libraries = folder.join("prefix/lib");
    let mut pkg_config = Command::new("pkg-config");
    pkg_config.env("PKG_CONFIG_PATH", libraries.join("pkgconfig"));
    let flags = output_of(pkg_config.args(["--cflags", "--libs", "syscollect"]))?;
    let flags = String::from_utf8_lossy(&flags.stdout).into_owned();
    let program = folder.join("engine");
    let mut compiler = Command::new("c++");
    compiler.args(["-std=c++17", "-O2", "-o"]).arg(&program).arg(source().join("engine.cpp"));
    compiler.args(flags.split_whitespace()).arg("-lpthread");
    output_of(compiler.arg(format!("-Wl,-rpath,{}", libraries.display())))?;
    Ok(Some(Command::new(program)))
}

/// Builds, records, and compares what was marked with what is in the report.
fn engine(
    syscollect: Option<&Path>,
    folder: &Path,
    build: fn(&Path) -> Result<Option<Command>>,
) -> Result<Outcome> {
    let Some(mut program) = build(folder)? else {
        return Ok(Outcome::NotOffered("a compiler, cmake or pkg-config is missing".to_owned()));
    };
    program.arg(FRAMES.to_string());
    let Recording { printed, report } = record(&built(syscollect)?, &program, folder)?;
    let mut counted = Vec::new();
    for name in ["frame", "job", "streaming", "in the child"] {
        counted.push(same(name, printed[name].as_u64(), recorded(&report, name))?);
    }
    for name in ["shadows", "lights"] {
        let zones = row(&report["gpu_zones"], "name", name);
        ensure!(zones["untimed"] == 0, "{name}: {} have no times", zones["untimed"]);
        counted.push(same(name, printed[name].as_u64(), number(&zones["zones"]))?);
    }
    ensure!(printed["resolved"] == 2 * FRAMES, "resolved: {}", printed["resolved"]);
    let textures = row(&report["memory"], "pool", "textures");
    counted.push(same("allocations", Some(FRAMES), number(&textures["allocations"]))?);
    counted.push(same("frees", Some(FRAMES), number(&textures["frees"]))?);
    let plot = row(&report["counters"], "name", "frames drawn");
    counted.push(same("plot", Some(FRAMES), number(&plot["count"]))?);
    let uploads = row(&report["instants"], "name", "upload");
    counted.push(same("markers", Some(FRAMES), number(&uploads["count"]))?);
    let messages = number(&report["events"]["messages"]);
    counted.push(same("messages", Some(FRAMES / 20), messages)?);
    let lock = row(&report["locks"], "name", "jobs");
    // Each frame adds four, and waits; the end of each job is told.
    let holds = number(&lock["holds"]);
    ensure!(holds >= FRAMES * (4 + 1 + 4), "the lock was held {holds} times");
    counted.push(format!("lock held {holds}"));
    ensure!(report["lost"] == 0, "lost: {}", report["lost"]);
    Ok(Outcome::Passed(counted.join(", ")))
}

/// A program of the tests, and its child that is forked, with the library before them.
fn malloc(syscollect: Option<&Path>, folder: &Path) -> Result<Outcome> {
    if !starts("c++") {
        return Ok(Outcome::NotOffered("a compiler is missing".to_owned()));
    }
    let program = folder.join("blocks");
    let mut compiler = Command::new("c++");
    compiler.args(["-std=c++17", "-O1", "-fno-builtin", "-o"]).arg(&program);
    compiler.arg(root().join("usdt-client/malloc/tests/blocks.cpp"));
    output_of(compiler.arg("-lpthread"))?;
    let library = folder.join("prefix/lib/libsyscollect_malloc.so");
    // It waits for a line, by which the recorder has seen that it has the library, and in the end
    // for that of the input.
    let script = format!(
        "(sleep 2; echo) | LD_PRELOAD={} {} && echo '{{}}'",
        library.display(),
        program.display()
    );
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]);
    let Recording { report, .. } = record(&built(syscollect)?, &shell, folder)?;
    let rows = report["memory"]["rows"].as_array().cloned().unwrap_or_default();
    let rows = rows.iter().filter(|row| row["process"] == "blocks");
    let mut allocations: Vec<u64> = rows.map(|row| number(&row["allocations"])).collect();
    allocations.sort_unstable();
    // Twice the same work in the child, and three threads; each has seven blocks a turn.
    let least = [2 * 500 * 7, 3 * 500 * 7];
    let enough = allocations.len() == 2 && allocations.iter().zip(least).all(|(n, l)| *n >= l);
    ensure!(enough, "blocks of the child and the program: {allocations:?}");
    Ok(Outcome::Passed(format!("blocks of the child and the program: {allocations:?}")))
}

/// What was marked is what was recorded.
fn same(name: &str, marked: Option<u64>, recorded: u64) -> Result<String> {
    ensure!(marked == Some(recorded), "{name}: {marked:?} marked, {recorded} recorded");
    Ok(format!("{name} {recorded}"))
}

/// The row of a table in which a column has that text; null where there is none.
fn row(table: &Value, column: &str, text: &str) -> Value {
    let rows = table["rows"].as_array();
    let row = rows.into_iter().flatten().find(|row| row[column] == text);
    row.cloned().unwrap_or_default()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}
