//! An ordinary user with thousands of processes that do nothing, all of which have to be listed,
//! and a program of another user beside them, whose stacks are whole from the first moment on.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::Value;

use super::attacked::{AttackedRecorder, Bounds, MIB};
use super::context::{Context, DAEMON, NOBODY, number, text, wait};
use super::hostile_files::Running;

/// Reading what they are, and what they have mapped, takes more than a second.
const PROCESSES: &str = "15000";
/// For how long it is recorded, and how long the honest program runs.
const SECONDS: u64 = 4;
/// Of a hundred of the honest program's samples so many may lack outer frames. When others were
/// noted first it was 24 of them.
const MOST_CUT: u64 = 4;
/// It sleeps between its turns, which a fast machine does in a few microseconds: there were 38 to
/// 400 samples.
const SAMPLES_LEAST: u64 = 15;

/// What it may cost: a part of a CPU that each user has for being looked at, and what that makes
/// the system do. In the bound of others is what a recorder uses at rest, here it is not: with that
/// it takes 160 to 235 MiB.
const BOUNDS: Bounds = Bounds { cpu: 0.9, memory: 320 * MIB, ..Bounds::USUAL };

/// Runs it.
pub(crate) fn crowd(context: &Context) -> Result<String> {
    let folder = tempfile::Builder::new().prefix("syscollect-loads-").tempdir_in("/tmp")?;
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
    let (idle, honest) = (folder.path().join("idle"), folder.path().join("honest"));
    for program in [&idle, &honest] {
        fs::copy(&context.load, program)?;
    }
    let capture = context.path("hostile-crowd.syscap");
    let mut crowd = Command::new(&idle);
    crowd.args(["map-by-many", text(&idle)?, PROCESSES]).uid(NOBODY).gid(NOBODY);
    let mut crowd = Running::start(&mut crowd)?;
    crowd.line()?;
    let mut command = Command::new(&honest);
    command.args(["use-cpu", &(2 * SECONDS).to_string()]).uid(DAEMON).gid(DAEMON);
    let honest =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;

    let options = ["--stacks", "samples,off-cpu"];
    let recorder = AttackedRecorder::start_attacked(context, &capture, &options)?;
    std::thread::sleep(Duration::from_secs(SECONDS));
    let stopped = recorder.stop(context)?;
    drop(crowd);
    let pid = honest.id();
    let output = wait(honest)?;
    ensure!(output.status.success(), "the honest program failed:\n{}", output.stderr);

    let pid = pid.to_string();
    let report = context.succeed(&["report", text(&capture)?, "--process", &pid, "--json"])?.stdout;
    let report: Value = serde_json::from_str(&report)?;
    let functions = &report["functions"];
    let (samples, cut) = (number(functions, "samples")?, number(functions, "truncated")?);
    let words = format!(
        "beside {PROCESSES} idle processes {cut} of {samples} samples of an honest program lack \
         outer frames"
    );
    ensure!(samples >= SAMPLES_LEAST && cut * 100 <= samples * MOST_CUT, "{words}\n{functions:#}");
    Ok(format!("{words}; {}", stopped.within(&BOUNDS)?))
}
