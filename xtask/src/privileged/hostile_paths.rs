//! An ordinary user has another path each time: of files that are mapped, which whoever records
//! mappings keeps, and of programs, which are named when the recording ends.
//!
//! Compared with a program of another user beside it: its zones and its names are there.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Result, ensure};

use super::attacked::{AttackedRecorder, Bounds, MIB};
use super::context::{Context, DAEMON, NOBODY, json_lines, number, text, wait};
use super::hostile_names::symbols_of;
use super::zones::RunningHonest;

/// For how long files are mapped.
const SECONDS: &str = "3";
/// Programs that are started. Naming them takes 4 s of CPU time; when it went through all that
/// waited for each of them, it was 15 s.
const PROGRAMS: &str = "32000";
const PROGRAMS_BOUNDS: Bounds = Bounds {
    cpu_to_stop: Duration::from_secs(10),
    // Nothing was compared with what is used at rest: the machine is attacked at once.
    cpu: 0.9,
    memory: 400 * MIB,
    ..Bounds::USUAL
};

/// Files below 4,000 bytes of folders, each mapped under a new name: once the recorder held 150 MB
/// more for each second of it.
pub(crate) fn mapped(context: &Context) -> Result<String> {
    let capture = context.path("hostile-paths.syscap");
    let recorder = AttackedRecorder::start(context, &capture, &[])?;
    let honest = RunningHonest::start(context)?;
    let attack = Attack::begin(context, "map-long-paths", SECONDS)?;
    let honest = honest.end()?;
    let mappings = json_lines(&attack.end()?)?;
    let mappings = mappings.iter().map(|line| number(line, "mappings")).sum::<Result<u64>>()?;
    let used = recorder.stop(context)?.within(&Bounds::USUAL)?;
    let zones = honest.is_whole_in(&capture)?;
    Ok(format!("{mappings} mappings under long paths; {zones}; {used}"))
}

/// Programs under new names.
pub(crate) fn programs(context: &Context) -> Result<String> {
    let (capture, program) = (context.path("hostile-programs.syscap"), context.path("honest"));
    fs::copy(&context.load, &program)?;
    let recorder = AttackedRecorder::start_attacked(context, &capture, &[])?;
    let attack = Attack::begin(context, "start-programs", PROGRAMS)?;
    let mut honest = Command::new(&program);
    honest.args(["callers", "1"]).uid(DAEMON).gid(DAEMON).stdin(Stdio::null());
    let honest = wait(honest.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?)?;
    ensure!(honest.status.success(), "the honest program failed:\n{}", honest.stderr);
    attack.end()?;
    let recorder = recorder.stop(context)?;
    let tables = symbols_of(&capture, text(&program)?)?;
    let symbols = tables.iter().flat_map(|table| &table.symbols);
    let names = symbols.filter(|symbol| !symbol.range_only).count();
    let used = recorder.within(&PROGRAMS_BOUNDS)?;
    ensure!(names > 0, "the honest program's functions have no names; {used}");
    Ok(format!("{PROGRAMS} programs; {names} places of another user's named; {used}"))
}

/// A hostile program, which ends by itself.
struct Attack(Child);

impl Attack {
    fn begin(context: &Context, name: &str, how_much: &str) -> Result<Self> {
        let folder = context.path(&format!("hostile-{name}"));
        fs::create_dir(&folder)?;
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777))?;
        // The folder above is root's alone.
        fs::set_permissions(folder.parent().unwrap_or(&folder), fs::Permissions::from_mode(0o755))?;
        let mut hostile = Command::new(&context.load);
        hostile.args([name, text(&folder)?, how_much]).uid(NOBODY).gid(NOBODY).stdin(Stdio::null());
        Ok(Self(hostile.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?))
    }

    /// What it printed.
    fn end(self) -> Result<String> {
        let output = wait(self.0)?;
        ensure!(output.status.success(), "the hostile program failed:\n{}", output.stderr);
        Ok(output.stdout)
    }
}
