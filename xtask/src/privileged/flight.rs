//! The flight recorder: snapshots while it goes on, who may ask for one, and what is left of it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use syscollect_model::StopReason;
use syscollect_store::{CaptureReader, Definition};

use super::context::{
    Context, DAEMON, NOBODY, ProgramOutput, finish, number, signal, text, until, wait,
};

/// A recorder that runs.
pub(super) struct Flight<'a> {
    context: &'a Context,
    socket: PathBuf,
    recorder: RecorderProcess,
}

/// Its process, which is killed where a test fails: it would disturb all that come later.
struct RecorderProcess(Option<Child>);

impl RecorderProcess {
    fn id(&self) -> u32 {
        self.0.as_ref().map_or(0, Child::id)
    }

    fn has_ended(&mut self) -> bool {
        !matches!(self.0.as_mut().map(Child::try_wait), Some(Ok(None)))
    }

    fn wait(mut self) -> Result<ProgramOutput> {
        wait(self.0.take().context("it was waited for already")?)
    }
}

impl Drop for RecorderProcess {
    fn drop(&mut self) {
        if let Some(recorder) = &mut self.0 {
            let _ = recorder.kill();
            let _ = recorder.wait();
        }
    }
}

impl<'a> Flight<'a> {
    /// Starts one that listens there, and whose snapshots without a file go there.
    fn start(context: &'a Context, socket: &Path, folder: &Path) -> Result<Self> {
        Self::start_with(context, socket, folder, &[])
    }

    /// The same with more options.
    pub(super) fn start_with(
        context: &'a Context,
        socket: &Path,
        folder: &Path,
        options: &[&str],
    ) -> Result<Self> {
        let mut command = context.command(&["flight", "--freq", "99"]);
        if !options.contains(&"--buffer") {
            command.args(["--buffer", "32M"]);
        }
        command.args(["--stacks", "samples,off-cpu,wakers", "--group", &DAEMON.to_string()]);
        command.arg("--socket").arg(socket).arg("--folder").arg(folder).args(options);
        let recorder = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let recorder = RecorderProcess(Some(recorder));
        let mut flight = Self { context, socket: socket.to_path_buf(), recorder };
        let answers = until("the flight recorder to answer", || {
            let has_ended = flight.recorder.has_ended();
            (flight.status().is_ok() || has_ended).then_some(!has_ended)
        })?;
        if !answers {
            bail!("the flight recorder ended at once:\n{}", flight.recorder.wait()?.stderr);
        }
        Ok(flight)
    }

    pub(super) fn ask(&self, arguments: &[&str]) -> Command {
        let mut command = self.context.command(arguments);
        command.arg("--socket").arg(&self.socket);
        command
    }

    pub(super) fn status(&self) -> Result<Value> {
        let output = finish(&mut self.ask(&["status", "--json"]))?;
        ensure!(output.status.success(), "{}", output.stderr);
        Ok(serde_json::from_str(&output.stdout)?)
    }

    /// The recorder's process.
    pub(super) fn recorder_id(&self) -> u32 {
        self.recorder.id()
    }

    /// Ends it so that it can do nothing any more.
    pub(super) fn kill(self) -> Result<()> {
        signal(self.recorder.id(), libc::SIGKILL);
        self.recorder.wait()?;
        Ok(())
    }

    /// Ends it as whoever asks does.
    pub(super) fn stop(self) -> Result<()> {
        let asked = finish(&mut self.ask(&["stop"]))?;
        ensure!(asked.status.success(), "stop: {}", asked.stderr);
        let output = self.recorder.wait()?;
        ensure!(output.status.success(), "it ended with {}:\n{}", output.status, output.stderr);
        ensure!(!self.socket.exists(), "it left its socket behind");
        Ok(())
    }
}

/// What `info` says of a snapshot, which has to have its end.
pub(super) fn checked_whole(context: &Context, capture: &Path) -> Result<Value> {
    let info = context.info(capture)?;
    let stop = info.pointer("/recorder/stop_reason").and_then(Value::as_str);
    ensure!(stop == Some(StopReason::Snapshot.name()), "it says that it ended by {stop:?}");
    let reader = CaptureReader::open(capture)?;
    ensure!(reader.is_complete(), "{} has no end", capture.display());
    Ok(info)
}

/// Switches of a snapshot; it has to be whole, but for what newer events overwrote, and to say why
/// it was taken.
fn checked(context: &Context, capture: &Path, reason: &str) -> Result<u64> {
    let info = checked_whole(context, capture)?;
    ensure!(number(&info, "lost")? == 0, "{}: {}", capture.display(), info["losses"]);
    let reader = CaptureReader::open(capture)?;
    let mark = reader.definitions().filter_map(|definition| match definition {
        Ok(Definition::Session(session)) => session.snapshot,
        _ => None,
    });
    let mark = mark.last().context("the snapshot does not say why it was taken")?;
    ensure!(mark.reason == reason && mark.at.0 > 0, "{mark:?} instead of {reason:?}");
    number(&info["events_by_type"], "switch")
}

/// Two snapshots at once while two threads switch as fast as they can, one of the last moment, one
/// by a signal, and one of a member of the group; nobody else gets one. What is left of a recorder
/// that was killed does not keep the next from starting.
pub(crate) fn flight(context: &Context) -> Result<String> {
    // Everybody reaches it; who may write to the socket is what is tested.
    let place = tempfile::Builder::new().prefix("syscollect-flight-").tempdir()?;
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755))?;
    let (socket, folder) = (place.path().join("socket"), context.path("flight"));
    fs::create_dir(&folder)?;
    let killed = Flight::start(context, &socket, &folder)?;
    killed.kill()?;
    ensure!(socket.exists(), "a killed recorder cannot remove its socket");

    let flight = Flight::start(context, &socket, &folder)?;
    let times = context.times(400_000).to_string();
    let mut load = Command::new(&context.load);
    let load = load.args(["ping-pong", &times, "0"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let load = load.spawn()?;
    let before = number(&flight.status()?, "events")?;
    until("the load to switch", || {
        let events = flight.status().and_then(|status| number(&status, "events")).ok()?;
        (events > before + context.times(100_000)).then_some(())
    })?;
    let [first, second, last] =
        ["first", "second", "last"].map(|name| context.path(&format!("{name}.syscap")));
    let snapshot = |output: &Path, options: &[&str]| -> Result<Child> {
        let mut command = flight.ask(&["snapshot", "-o", text(output)?, "--reason", "p99 alarm"]);
        Ok(command.args(options).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?)
    };
    let at_once = [snapshot(&first, &[])?, snapshot(&second, &[])?];
    for taken in at_once {
        let output = wait(taken)?;
        ensure!(output.status.success(), "two at once: {}", output.stderr);
    }
    let output = wait(snapshot(&last, &["--last", "1s"])?)?;
    ensure!(output.status.success(), "of the last second: {}", output.stderr);
    let output = wait(load)?;
    ensure!(output.status.success(), "the load ended with {}", output.status);
    let switches = checked(context, &first, "p99 alarm")?;
    checked(context, &second, "p99 alarm")?;
    let of_the_last = checked(context, &last, "p99 alarm")?;
    ensure!(
        switches > context.times(50_000) && of_the_last > 0,
        "{switches} switches, and {of_the_last} in the last second"
    );

    signal(flight.recorder.id(), libc::SIGUSR1);
    let by_signal = until("the snapshot that a signal asks for", || {
        let files = fs::read_dir(&folder).ok()?.flatten().map(|file| file.path());
        files.into_iter().find(|path| path.extension().is_some_and(|end| end == "syscap"))
    })?;
    checked(context, &by_signal, "SIGUSR1")?;
    asked_by_others(context, &flight)?;

    let status = flight.status()?;
    ensure!(number(&status, "snapshots")? == 5, "{status}");
    ensure!(number(&status, "lost")? == 0, "{status}");
    flight.stop()?;
    let later = finish(&mut context.command(&["snapshot", "--socket", text(&socket)?]))?;
    ensure!(later.stderr.contains("no flight recorder listens"), "{}", later.stderr);
    Ok(format!("{switches} switches in each of two snapshots at once, none lost"))
}

/// A user without rights gets nothing, and a member of the group gets a snapshot of their own.
fn asked_by_others(context: &Context, flight: &Flight<'_>) -> Result<()> {
    let outside = tempfile::Builder::new().prefix("syscollect-flight-").tempdir()?;
    std::os::unix::fs::chown(outside.path(), Some(NOBODY), None)?;
    fs::copy(&context.syscollect, outside.path().join("syscollect"))?;
    let ask = |group: u32, arguments: &[&str]| {
        let mut command = Command::new(outside.path().join("syscollect"));
        command.args(arguments).arg("--socket").arg(&flight.socket);
        finish(command.current_dir(outside.path()).uid(NOBODY).gid(group))
    };
    let refused = ask(NOBODY, &["snapshot", "-o", "refused.syscap"])?;
    ensure!(
        !refused.status.success() && refused.stderr.contains("you may not ask"),
        "a user without rights: {} {}",
        refused.status,
        refused.stderr
    );
    ensure!(!outside.path().join("refused.syscap").exists(), "and something was left behind");
    ensure!(!ask(NOBODY, &["stop"])?.status.success(), "a user without rights stopped it");
    let taken = ask(DAEMON, &["snapshot", "-o", "taken.syscap", "--reason", "mine"])?;
    ensure!(taken.status.success(), "a member of the group: {}", taken.stderr);
    checked(context, &outside.path().join("taken.syscap"), "mine")?;
    Ok(())
}
