//! An ordinary user against the count of who has a program mapped, on which it depends how programs
//! are attached to: processes whose mappings nobody can list, and processes that have another
//! user's program mapped, more of them than can be attached to one by one.
//!
//! Compared with what honest programs of another user say that they marked.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::attacked::{AttackedRecorder, Bounds};
use super::context::{Context, DAEMON, NOBODY, json_lines, kernel_at_least, number, text, wait};
use super::hostile_files::Running;
use super::zones::numbers_in;

/// Processes that share memory and change its mappings: with fewer, a list is read in milliseconds.
const HOLDERS: &str = "400";
/// Processes that have the program of somebody else mapped: more than there are places.
const MAPPERS: &str = "150";
/// For how long honest programs run.
const SECONDS: &str = "2";
/// Of what programs mark that nobody knew before, so much is there in spite of both attacks.
const LEAST: f64 = 0.5;
/// Of what a program marks that is attached to when nobody attacks any more.
const LEAST_LATER: f64 = 0.9;

/// Runs it.
pub(crate) fn census(context: &Context) -> Result<String> {
    let programs: Vec<PathBuf> =
        (0..6).map(|index| context.path(&format!("honest-{index}"))).collect();
    for program in &programs {
        fs::copy(&context.load, program)?;
    }
    let shared = &programs[0];
    fs::set_permissions(shared.parent().unwrap_or(shared), fs::Permissions::from_mode(0o755))?;
    let capture = context.path("hostile-census.syscap");
    let recorder = AttackedRecorder::start(context, &capture, &[])?;

    let holders = hostile(context, &["hold-mappings", HOLDERS])?;
    let mappers = hostile(context, &["map-by-many", text(shared)?, MAPPERS])?;
    // What nobody knew yet, all at once, and the first of them again and again.
    let mut attacked = Vec::new();
    for program in programs.iter().chain([shared, shared]) {
        attacked.push(Honest::start(program)?);
        std::thread::sleep(Duration::from_millis(50));
    }
    let attacked = attacked.into_iter().map(Honest::end).collect::<Result<Vec<_>>>()?;
    drop((holders, mappers));
    // Then they are attached to in all processes again.
    std::thread::sleep(Duration::from_secs(3));
    let later = Honest::start(shared)?.end()?;

    let recorder = recorder.stop(context)?;
    let stderr = &recorder.output.stderr;
    ensure!(
        !tells_of_mappings()? || !stderr.contains("one by one"),
        "who has a program mapped was not counted:\n{stderr}"
    );
    let parts: Vec<f64> =
        attacked.iter().map(|honest| honest.part_in(&capture)).collect::<Result<_>>()?;
    let of_later = later.part_in(&capture)?;
    let words: Vec<String> = parts.iter().map(|part| format!("{:.0} %", part * 100.0)).collect();
    let words = format!(
        "of honest programs' zones under attack {} are there, of one behind it {:.0} %",
        words.join(", "),
        of_later * 100.0
    );
    ensure!(parts.iter().all(|part| *part >= LEAST) && of_later >= LEAST_LATER, "{words}");
    let used = recorder.within(&Bounds::USUAL)?;
    Ok(format!("{words}; {used}"))
}

/// Whether this kernel tells a program who has a file mapped: from 5.17 on, with memory control
/// groups.
fn tells_of_mappings() -> Result<bool> {
    let is_new = kernel_at_least(5, 17)?;
    Ok(is_new && fs::read_to_string("/proc/cgroups")?.contains("memory"))
}

fn hostile(context: &Context, arguments: &[&str]) -> Result<Running> {
    let mut command = Command::new(&context.load);
    let mut hostile = Running::start(command.args(arguments).uid(NOBODY).gid(NOBODY))?;
    hostile.line()?;
    Ok(hostile)
}

/// A program of another user that numbers its zones.
struct Honest(Child);

impl Honest {
    fn start(program: &Path) -> Result<Self> {
        let mut command = Command::new(program);
        command.args(["numbered", "/dev/null", SECONDS]).uid(DAEMON).gid(DAEMON);
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(Self(command.spawn().context("cannot start the load")?))
    }

    fn end(self) -> Result<NumberedZones> {
        let pid = self.0.id();
        let output = wait(self.0)?;
        ensure!(output.status.success(), "the load failed:\n{}", output.stderr);
        let lines = json_lines(&output.stdout)?;
        let zones = number(lines.first().context("the load printed nothing")?, "numbers")?;
        Ok(NumberedZones { pid, zones })
    }
}

/// The zones that a process has numbered.
struct NumberedZones {
    pid: u32,
    zones: u64,
}

impl NumberedZones {
    /// Which part of that is in a capture.
    fn part_in(&self, capture: &Path) -> Result<f64> {
        // Of whom nothing is there has no numbers.
        let recorded = numbers_in(capture, self.pid).map_or(0, |(first, last)| last + 1 - first);
        Ok(recorded as f64 / self.zones as f64)
    }
}
