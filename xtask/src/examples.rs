//! `cargo xtask examples`: programs of other languages that mark what they do, built as a new user
//! builds them, recorded, and read back: counts of both sides are the same.

mod cpp;
pub(crate) mod gpu;
pub(crate) mod lua;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::process::{cargo, output_of, output_within, root};
use crate::report::{Outcome, Report};

/// How long a recording of an example may take.
const LIMIT: Duration = Duration::from_secs(100);
/// What the example in Python marks by these names.
const ZONES: [&str; 3] = ["frame", "update", "checked"];

/// Whose examples there are.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Language {
    /// The package for Python.
    Python,
    /// Vulkan, OpenGL, OpenCL and wgpu.
    Gpu,
    /// C and C++.
    Cpp,
    /// Lua 5.1 to 5.4 and LuaJIT.
    Lua,
}

/// Builds, records and reads back the examples of these; of all if there are none.
pub(crate) fn run(languages: &[Language], syscollect: Option<&Path>) -> Result<()> {
    let is_asked = |language| languages.is_empty() || languages.contains(&language);
    let mut report = Report::default();
    if is_asked(Language::Python) {
        report.step("Python", || python(syscollect));
    }
    if is_asked(Language::Gpu) {
        gpu::steps(&mut report, syscollect);
    }
    if is_asked(Language::Cpp) {
        cpp::steps(&mut report, syscollect);
    }
    if is_asked(Language::Lua) {
        lua::steps(&mut report, syscollect);
    }
    report.finish("examples")
}

/// In an environment that has only pip.
fn python(syscollect: Option<&Path>) -> Result<Outcome> {
    let folder = tempfile::tempdir()?;
    let environment = folder.path().join("environment");
    let made = Command::new("python3").args(["-m", "venv"]).arg(&environment).output();
    if !made.is_ok_and(|made| made.status.success()) {
        return Ok(Outcome::NotOffered("python3 with venv and pip is not there".to_owned()));
    }
    let syscollect = built(syscollect)?;
    let package = root().join("usdt-client/python");
    let pip = environment.join("bin/pip");
    output_of(Command::new(pip).args(["install", "--quiet"]).arg(&package))?;
    let python = environment.join("bin/python3");
    let tests = ["-m", "unittest", "discover", "-s"];
    output_within(LIMIT, Command::new(&python).args(tests).arg(package.join("tests")))?;

    let mut program = Command::new(&python);
    program.arg(package.join("examples/frames.py")).arg("100");
    let Recording { printed: marked, report } = record(&syscollect, &program, folder.path())?;
    let mut counted = Vec::new();
    for name in ZONES {
        let recorded = recorded(&report, name);
        ensure!(marked[name] == recorded, "{name}: {} marked, {recorded} recorded", marked[name]);
        counted.push(format!("{name} {recorded}"));
    }
    Ok(Outcome::Passed(format!("marked and recorded: {}", counted.join(", "))))
}

/// What an example says that it has marked, and the report of its recording.
struct Recording {
    printed: Value,
    report: Value,
}

/// Records a program that prints a line of JSON.
fn record(syscollect: &Path, program: &Command, folder: &Path) -> Result<Recording> {
    let capture = folder.join("example.syscap");
    let mut record = Command::new(syscollect);
    record.args(["record", "--force", "-o"]).arg(&capture).arg("--");
    record.arg(program.get_program()).args(program.get_args());
    let printed = output_within(LIMIT, &mut record)?.stdout;
    let printed = String::from_utf8_lossy(&printed);
    let line = printed.lines().find(|line| line.starts_with('{')).context("it marked nothing")?;
    let report = output_of(Command::new(syscollect).args(["report", "--json"]).arg(&capture))?;
    Ok(Recording {
        printed: serde_json::from_str(line)?,
        report: serde_json::from_slice(&report.stdout)?,
    })
}

/// How many slices of that name the report has.
fn recorded(report: &Value, name: &str) -> u64 {
    let rows = report["slices"]["rows"].as_array();
    let of_name = rows.into_iter().flatten().filter(|row| row["name"] == name);
    of_name.filter_map(|row| row["count"].as_u64()).sum()
}

/// The program that records: that one, or what is built here.
fn built(syscollect: Option<&Path>) -> Result<PathBuf> {
    if let Some(program) = syscollect {
        return Ok(program.to_path_buf());
    }
    output_of(cargo().args(["build", "--quiet", "--release"]))?;
    Ok(root().join("target/release/syscollect"))
}
