//! `cargo xtask viewers`: the planted capture in the viewers' own engines.
//!
//! **Duties.** The real program exports a capture whose figures are known by
//! plan ([`syscollect_tests::planted`]); Perfetto's trace_processor and the
//! engine of the Firefox Profiler read the files, and the tests' own readers
//! those of formats without one. One table shows every figure in every viewer;
//! the command fails where one differs from the plan.
//!
//! **Non-goals.** The engines are fetched by a tool beside the checkout; without
//! it they are left out, and the table says so.

mod firefox;
mod perfetto;
mod table;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use syscollect_tests::planted::{self, Figures};
use syscollect_tests::shown::{self, Viewer, differences};

use crate::engine::Engine;
use crate::privileged::context::cargo;
use crate::process::{output_of, root};
use crate::report::Outcome;
use firefox::ProfilerCli;

/// What came of a viewer: its figures, or why it could not be asked.
type Shown = (Viewer, Result<Figures, String>);

/// Prints the table; fails where a figure differs.
pub(crate) fn run() -> Result<()> {
    match compare(true)? {
        Outcome::Passed(what) => println!("{what}"),
        Outcome::Skipped(why) => println!("SKIPPED: {why}"),
    }
    Ok(())
}

/// The same as a step of the whole check, which builds the program before.
pub(crate) fn step() -> Result<Outcome> {
    compare(false)
}

fn compare(print: bool) -> Result<Outcome> {
    let files = Files::new()?;
    let plan = planted::figures();
    let shown = files.shown()?;
    let figures: Vec<(Viewer, &Figures)> =
        shown.iter().filter_map(|(viewer, figures)| Some((*viewer, figures.as_ref().ok()?))).collect();
    if print {
        print!("{}", table::text(&plan, &figures));
    }
    let wrong: Vec<String> = figures
        .iter()
        .flat_map(|(viewer, figures)| {
            differences(*viewer, &plan, figures).into_iter().map(|what| format!("{}: {what}", viewer.name()))
        })
        .collect();
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    let names: Vec<&str> = figures.iter().map(|(viewer, _)| viewer.name()).collect();
    let missing: Vec<String> = shown.iter().filter_map(|(viewer, figures)| missing(*viewer, figures)).collect();
    match missing.is_empty() {
        true => Ok(Outcome::Passed(format!("{} figures as planned in {}", plan.len(), names.join(", ")))),
        false => Ok(Outcome::Skipped(format!("{}; as planned in {}", missing.join("; "), names.join(", ")))),
    }
}

fn missing(viewer: Viewer, figures: &Result<Figures, String>) -> Option<String> {
    figures.as_ref().err().map(|why| format!("{}: {why}", viewer.name()))
}

/// The program, and a folder with the capture.
struct Files {
    program: PathBuf,
    folder: tempfile::TempDir,
}

impl Files {
    fn new() -> Result<Self> {
        output_of(cargo().args(["build", "--quiet", "--release", "-p", "syscollect"]))?;
        let folder = tempfile::Builder::new().prefix("syscollect-viewers-").tempdir()?;
        fs::write(folder.path().join("planted.syscap"), planted::capture())?;
        Ok(Self { program: root().join("target/release/syscollect"), folder })
    }

    /// The capture as another format, and what the program printed.
    fn export(&self, extension: &str, options: &[&str]) -> Result<PathBuf> {
        let output = self.folder.path().join(format!("planted.{extension}"));
        let mut command = self.command("export");
        output_of(command.arg("-o").arg(&output).args(options))?;
        Ok(output)
    }

    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(name).arg(self.folder.path().join("planted.syscap"));
        command
    }

    fn shown(&self) -> Result<Vec<Shown>> {
        let trace = self.export("pftrace", &[])?;
        let profile = self.export("json.gz", &["--sched-markers"])?;
        let plain = self.export("json", &["--sched-markers"])?;
        let said = output_of(self.command("report").arg("--json"))?.stdout;
        let folded = fs::read_to_string(self.export("folded", &[])?)?;
        Ok(vec![
            (Viewer::Perfetto, asked(Engine::find(), |engine| perfetto::figures(engine, &trace))?),
            (Viewer::Tracy, Ok(shown::tracy(&fs::read(self.export("tracy", &[])?)?)?)),
            (Viewer::FirefoxEngine, asked(ProfilerCli::load(&profile), ProfilerCli::figures)?),
            (Viewer::Firefox, Ok(shown::firefox(&fs::read(plain)?)?)),
            (Viewer::Report, Ok(shown::report(&said)?)),
            (Viewer::Folded, Ok(shown::folded(&folded)?)),
            (Viewer::Pprof, Ok(shown::pprof(&fs::read(self.export("pb.gz", &[])?)?)?)),
        ])
    }
}

/// What an engine says, if there is one.
fn asked<T>(engine: Result<T, String>, figures: impl FnOnce(&T) -> Result<Figures>) -> Result<Result<Figures, String>> {
    match engine {
        Ok(engine) => figures(&engine).map(Ok),
        Err(why) => Ok(Err(why)),
    }
}

/// A path for a command line.
fn text(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))
}
