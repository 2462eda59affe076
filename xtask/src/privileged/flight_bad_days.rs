//! Bad days of a flight recorder: a disk that is full, its own or that of who asks, a recorder that
//! stands still, one that is killed while it writes, and one whose asker is. After each it goes on,
//! or the next one does, and the next snapshot is whole.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Result, ensure};

use super::context::{Context, finish, number, signal, text, until};
use super::failures::Mounted;
use super::flight::{Flight, checked_whole};
use super::flight_stopped::stand_still;

/// How long the recorder stands still.
const STANDSTILL: Duration = Duration::from_secs(3);
/// What it is killed in: the first moments of a snapshot.
const INTO_SNAPSHOT: Duration = Duration::from_millis(40);

/// All of them, one after the other.
pub(crate) fn bad_days(context: &Context) -> Result<String> {
    let disk = Mounted::tmpfs(context.path("bad-days"), "size=1m")?;
    let folder = disk.folder().to_path_buf();
    let socket = context.path("bad-days-socket");
    let options = ["--most", "3"];
    let flight = Flight::start_with(context, &socket, &folder, &options)?;

    let full = full_disk(&flight, &folder)?;
    remount(&folder, "size=512m")?;
    let standstill = stand_still(context, &flight, STANDSTILL)?;
    asker_without_room(context, &flight)?;
    asker_killed(context, &flight)?;

    // Killed while it writes: what was written is there, and counts among those that are kept.
    signal(flight.recorder_id(), libc::SIGUSR1);
    std::thread::sleep(INTO_SNAPSHOT);
    flight.kill()?;
    let left = files(&folder).len();
    let flight = Flight::start_with(context, &socket, &folder, &options)?;
    let next = snapshot_by_signal(&flight, &folder)?;
    checked_whole(context, &next)?;
    let kept = files(&folder);
    ensure!(kept.len() <= 3, "more than three are kept, of {left} before: {kept:?}");
    flight.stop()?;
    Ok(format!(
        "{full}, and one of who asks; {standstill}; killed while it wrote, or who asked, the next one \
         is whole"
    ))
}

/// Whoever asks has no room for it: they are told, and it counts as failed.
fn asker_without_room(context: &Context, flight: &Flight<'_>) -> Result<()> {
    let before = number(&flight.status()?, "failed")?;
    let disk = Mounted::tmpfs(context.path("small-disk"), "size=200k")?;
    let small = disk.folder().join("small.syscap");
    let asked = finish(&mut flight.ask(&["snapshot", "-o", text(&small)?]))?;
    ensure!(!asked.status.success(), "a disk of 200 KB has room for a snapshot: {}", asked.stderr);
    ensure!(asked.stderr.contains("space"), "it does not say what is missing: {}", asked.stderr);
    ensure!(number(&flight.status()?, "failed")? == before + 1, "{}", flight.status()?);
    Ok(())
}

/// Whoever asks is killed while it is written: others get theirs, and no file looks complete.
fn asker_killed(context: &Context, flight: &Flight<'_>) -> Result<()> {
    let killed = context.path("killed.syscap");
    for _ in 0..3 {
        let mut asker = flight.ask(&["snapshot", "-o", text(&killed)?]);
        let mut asker = asker.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        std::thread::sleep(INTO_SNAPSHOT);
        asker.kill()?;
        asker.wait()?;
    }
    let next = context.path("after-killed.syscap");
    until("a snapshot behind those of who was killed", || {
        let asked = finish(&mut flight.ask(&["snapshot", "-o", text(&next).ok()?])).ok()?;
        asked.status.success().then_some(())
    })?;
    checked_whole(context, &next)?;
    ensure!(!killed.exists(), "a snapshot is there that nobody waited for");
    Ok(())
}

/// A snapshot that finds no room is told of, and the recorder goes on.
fn full_disk(flight: &Flight<'_>, folder: &Path) -> Result<String> {
    let filled = fs::write(folder.join("filling"), vec![0; 4 << 20]);
    ensure!(filled.is_err(), "a disk of 1 MiB has room for 4");
    signal(flight.recorder_id(), libc::SIGUSR1);
    until("the snapshot that finds no room", || {
        let failed = flight.status().and_then(|status| number(&status, "failed")).ok()?;
        (failed == 1).then_some(())
    })?;
    fs::remove_file(folder.join("filling"))?;
    let empty =
        files(folder).into_iter().find(|path| fs::metadata(path).is_ok_and(|data| data.len() == 0));
    ensure!(empty.is_none(), "an empty file is left: {empty:?}");
    Ok("a full disk is told of".into())
}

/// A snapshot that a signal asks for.
fn snapshot_by_signal(flight: &Flight<'_>, folder: &Path) -> Result<PathBuf> {
    let before = files(folder);
    signal(flight.recorder_id(), libc::SIGUSR1);
    until("the snapshot that a signal asks for", || {
        let is_new = |path: &PathBuf| {
            !before.contains(path) && path.extension().is_some_and(|end| end == "syscap")
        };
        files(folder).into_iter().find(is_new)
    })
}

fn files(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|file| file.path()).collect()
}

fn remount(folder: &Path, options: &str) -> Result<()> {
    let options = format!("remount,{options}");
    let status = Command::new("mount").args(["-o", &options, text(folder)?]).status()?;
    ensure!(status.success(), "cannot make the disk larger: {status}");
    Ok(())
}
