//! `cargo xtask viewers`: the reference capture in the viewers' own engines.
//!
//! **Duties.** The real program exports a capture whose figures are known by
//! plan ([`syscollect_tests::reference_capture`]); Perfetto's trace_processor and the
//! engine of the Firefox Profiler read the files, and the tests' own readers
//! those of formats without one. One table shows every figure in every viewer;
//! the command fails where one differs from the plan. Real Windows traces, where
//! they are there, are compared with what `info` and `report` count.
//!
//! **Non-goals.** The engines are fetched by a tool that is no part of this repository; without it
//! they are left out, and the table says so.

mod bad_input;
pub(crate) mod firefox;
mod perfetto;
mod table;
mod windows_traces;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use syscollect_tests::reference_capture::{self, Figures};
use syscollect_tests::shown::{self, Viewer, differences, together};

use crate::engine::Engine;
use crate::process::{TimedOut, cargo, on_all_cpus, output_of, root};
use crate::report::Outcome;
use firefox::ProfilerCli;

/// What came of a viewer: its figures, or why it could not be asked.
type Shown = (Viewer, Result<Figures, String>);

/// Shows a capture of its own in the engines; a line for each figure that is not as planned.
type Comparison = Box<dyn Fn() -> Result<Vec<String>> + Send + Sync>;

/// Prints the table; fails where a figure differs.
pub(crate) fn run() -> Result<()> {
    match compare(true)? {
        Outcome::Passed(what) => println!("{what}"),
        Outcome::Skipped(why) | Outcome::NotOffered(why) => println!("SKIPPED: {why}"),
    }
    Ok(())
}

/// The same as a step of the whole check, which builds the program before. An engine that hangs is
/// asked again, once: whether it is our file that hangs it shows then.
pub(crate) fn step() -> Result<Outcome> {
    match compare(false) {
        Err(error) if error.is::<TimedOut>() => compare(false).context(error.to_string()),
        outcome => outcome,
    }
}

fn compare(print: bool) -> Result<Outcome> {
    output_of(cargo().args(["build", "--quiet", "--release", "-p", "syscollect"]))?;
    let plan = reference_capture::figures();
    let files = Files::new(&reference_capture::capture())?;
    let shown = [files.engines()?, files.readers()?].concat();
    if print {
        print!("{}", table::text(&plan, &figures(&shown)));
    }
    let mut wrong = wrong(&shown, |_| plan.clone());
    for found in on_all_cpus(&comparisons(), |comparison| comparison()) {
        wrong.extend(found?);
    }
    let windows = windows_traces::compare()?;
    wrong.extend(windows.wrong);
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    let names: Vec<&str> = figures(&shown).iter().map(|(viewer, _)| viewer.name()).collect();
    let mut passed = format!("{} figures as planned in {}", plan.len(), names.join(", "));
    match windows.traces {
        0 => passed += &format!("; of Windows none: {}", syscollect_fixtures::HOW_TO_HAVE_FIXTURES),
        count => {
            passed +=
                &format!("; {} figures of {count} Windows traces as counted", windows.figures);
        }
    }
    let missing: Vec<String> = shown
        .iter()
        .filter_map(|(viewer, figures)| {
            Some(format!("{}: {}", viewer.name(), figures.as_ref().err()?))
        })
        .collect();
    match missing.is_empty() {
        true => Ok(Outcome::Passed(passed)),
        false => Ok(Outcome::Skipped(format!("{}; {passed}", missing.join("; ")))),
    }
}

/// What is compared besides, each by itself: an engine works on one CPU, and most of the time goes
/// by while it starts.
fn comparisons() -> Vec<Comparison> {
    let mut comparisons: Vec<Comparison> = vec![Box::new(two_machines)];
    for case in reference_capture::cases() {
        comparisons.push(Box::new(move || {
            let shown = Files::new(&case.capture)?.engines()?;
            let found = wrong(&shown, |viewer| case.figures(viewer)).into_iter();
            Ok(found.map(|what| format!("{}: {}", case.name, what.escape_debug())).collect())
        }));
    }
    comparisons.extend(bad_input::comparisons());
    comparisons
}

fn two_machines() -> Result<Vec<String>> {
    let plan = reference_capture::figures_of_two_machines();
    let shown = Files::of_two_machines(&reference_capture::capture())?.engines()?;
    let shown: Vec<Shown> = shown
        .into_iter()
        .map(|(viewer, figures)| (viewer, figures.map(|figures| together(&figures))))
        .collect();
    let found = wrong(&shown, |_| plan.clone()).into_iter();
    Ok(found.map(|what| format!("two machines: {what}")).collect())
}

/// Those that could be asked.
fn figures(shown: &[Shown]) -> Vec<(Viewer, &Figures)> {
    shown.iter().filter_map(|(viewer, figures)| Some((*viewer, figures.as_ref().ok()?))).collect()
}

/// What differs from the plan, a line each.
fn wrong(shown: &[Shown], plan: impl Fn(Viewer) -> Figures) -> Vec<String> {
    figures(shown)
        .into_iter()
        .flat_map(|(viewer, figures)| {
            let found = differences(viewer, &plan(viewer), figures);
            found.into_iter().map(move |what| format!("{}: {what}", viewer.name()))
        })
        .collect()
}

/// A recording in a folder of its own.
struct Files {
    program: PathBuf,
    /// Captures of several machines, or the one.
    recordings: Vec<&'static str>,
    folder: tempfile::TempDir,
}

impl Files {
    fn new(capture: &[u8]) -> Result<Self> {
        Self::named("x.syscap", capture)
    }

    /// The same by another name.
    fn named(recording: &'static str, bytes: &[u8]) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("syscollect-viewers-").tempdir()?;
        fs::write(folder.path().join(recording), bytes)?;
        let program = root().join("target/release/syscollect");
        Ok(Self { program, recordings: vec![recording], folder })
    }

    /// The same capture as that of two machines.
    fn of_two_machines(capture: &[u8]) -> Result<Self> {
        let mut files = Self::new(capture)?;
        fs::write(files.folder.path().join("y.syscap"), capture)?;
        files.recordings.push("y.syscap");
        Ok(files)
    }

    /// The capture as another format.
    fn export(&self, extension: &str, options: &[&str]) -> Result<PathBuf> {
        let output = self.folder.path().join(format!("x.{extension}"));
        output_of(self.command("export").arg("-o").arg(&output).args(options))?;
        Ok(output)
    }

    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(&self.program);
        let recordings = self.recordings.iter().map(|name| self.folder.path().join(name));
        command.arg(name).args(recordings);
        command
    }

    /// What the viewers' own engines show.
    fn engines(&self) -> Result<Vec<Shown>> {
        let trace = self.export("pftrace", &[])?;
        let profile = self.export("json.gz", &["--sched-markers"])?;
        Ok(vec![
            (Viewer::Perfetto, asked(Engine::find(), |engine| perfetto::figures(engine, &trace))?),
            (Viewer::FirefoxEngine, asked(ProfilerCli::load(&profile), ProfilerCli::figures)?),
        ])
    }

    /// What the tests' readers find.
    fn readers(&self) -> Result<Vec<Shown>> {
        let tracy = fs::read(self.export("tracy", &[])?)?;
        let profile = fs::read(self.export("json", &["--sched-markers"])?)?;
        let report = output_of(self.command("report").arg("--json"))?.stdout;
        // With idle CPUs' samples, which all others have.
        let folded = self.folder.path().join("reference.folded");
        output_of(self.command("flamegraph").args(["--idle", "-o"]).arg(&folded))?;
        let folded = fs::read_to_string(folded)?;
        let pprof = fs::read(self.export("pb.gz", &[])?)?;
        Ok(vec![
            (Viewer::Tracy, Ok(shown::tracy(&tracy)?)),
            (Viewer::Firefox, Ok(shown::firefox(&profile)?)),
            (Viewer::Report, Ok(shown::report(&report)?)),
            (Viewer::Folded, Ok(shown::folded(&folded)?)),
            (Viewer::Pprof, Ok(shown::pprof(&pprof)?)),
        ])
    }
}

/// What an engine says, if there is one.
fn asked<T>(
    engine: Result<T, String>,
    figures: impl FnOnce(&T) -> Result<Figures>,
) -> Result<Result<Figures, String>> {
    match engine {
        Ok(engine) => figures(&engine).map(Ok),
        Err(why) => Ok(Err(why)),
    }
}

/// A path for a command line.
fn text(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))
}
