//! An ordinary user renames a thread a million times a second, and a program beside it is recorded
//! all the same.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use syscollect_merge::Session;
use syscollect_model::Tables;
use syscollect_store::CaptureReader;

use super::attacked::{AttackedRecorder, Bounds};
use super::context::{Context, NOBODY, json_lines, number, text, wait};

const SECONDS: u64 = 3;
const ZONES: u64 = 2_000;
const THREADS: u64 = 2;
/// The trace buffer, and what a capture of it may take: all of the buffer, uncompressed, the
/// definitions with their copies, and what does not depend on it (processes, mappings and names of
/// the machine).
const BUFFER: u64 = 8 << 20;
const MOST_BYTES: u64 = 3 * BUFFER;

/// With `--overwrite`, and without.
pub(crate) fn renames(context: &Context) -> Result<String> {
    let overwriting = attacked(context, &["--overwrite", "--buffer", "8M"])?;
    let streaming = attacked(context, &["--buffer", "8M"])?;
    Ok(format!("{overwriting}; to the disk at once: {streaming}"))
}

fn attacked(context: &Context, options: &[&str]) -> Result<String> {
    let capture = context.path("renames.syscap");
    // Reachable for nobody, and told from the other by its name.
    let folder = tempfile::Builder::new().prefix("syscollect-loads-").tempdir_in("/tmp")?;
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
    let [hostile, honest] = ["hostile", "honest"].map(|name| folder.path().join(name));
    fs::copy(&context.load, &hostile)?;
    fs::copy(&context.load, &honest)?;

    let options = [&["--stacks", "none", "--freq", "0"], options].concat();
    let recorder = AttackedRecorder::start_attacked(context, &capture, &options)?;
    let attack =
        piped(&hostile).args(["renames", &SECONDS.to_string()]).uid(NOBODY).gid(NOBODY).spawn()?;
    std::thread::sleep(Duration::from_secs(1));
    let program =
        piped(&honest).args(["marks", &THREADS.to_string(), &ZONES.to_string()]).spawn()?;
    let honest_pid = program.id();
    let honest_said = wait(program)?;
    ensure!(honest_said.status.success(), "the honest program failed:\n{}", honest_said.stderr);
    // It still lives under its last name when the recording ends.
    std::thread::sleep(Duration::from_secs(SECONDS));
    let recorder = recorder.stop(context)?;
    let attack = wait(attack)?;
    ensure!(attack.status.success(), "the hostile program failed:\n{}", attack.stderr);

    let attack = json_lines(&attack.stdout)?;
    let attack = attack.first().context("the hostile program said nothing")?;
    let renames = number(attack, "renames")?;
    let used = recorder.within(&Bounds { capture: MOST_BYTES, ..Bounds::USUAL })?;

    let session = Session::open(CaptureReader::open(&capture)?)?;
    let tables = session.tables();
    let last = attack["last"].as_str().unwrap_or_default();
    let shown = name_of(tables, number(attack, "tid")?);
    ensure!(shown == last, "the hostile program's last name is {last}, the capture says {shown}");
    let shown = name_of(tables, u64::from(honest_pid));
    ensure!(shown == "honest", "the honest program is named {shown}");
    for line in json_lines(&honest_said.stdout)? {
        let tid = number(&line, "tid")?;
        ensure!(
            name_of(tables, tid) == "honest",
            "its thread {tid} is named {}",
            name_of(tables, tid)
        );
    }
    let info = context.info(&capture)?;
    let zones = info["events_by_type"]["zone"].as_u64().unwrap_or(0);
    ensure!(
        zones == THREADS * ZONES,
        "{zones} zones of {} are there: {}",
        THREADS * ZONES,
        info["events_by_type"]
    );
    let refused: u64 = losses(&info, "tasks");
    ensure!(
        refused > 0 && refused <= renames,
        "{refused} of {renames} renames are said to be left out"
    );
    let text = text(&capture)?;
    context.succeed(&["report", text])?;
    Ok(format!("{renames} renames, all {zones} zones beside them are there; {used}"))
}

fn piped(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn name_of(tables: &Tables, tid: u64) -> &str {
    let thread = tables.threads.iter().rfind(|thread| u64::from(thread.tid) == tid);
    thread.map_or("not there", |thread| tables.strings.get(thread.name))
}

/// Records of a lane that are not in the capture, whatever the cause.
fn losses(info: &serde_json::Value, lane: &str) -> u64 {
    let losses = info["losses"].as_array().into_iter().flatten();
    losses.filter(|loss| loss["lane"] == lane).filter_map(|loss| loss["count"].as_u64()).sum()
}
