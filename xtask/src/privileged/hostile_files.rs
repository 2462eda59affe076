//! An ordinary user's files against root's recorder: programs whose debug links lead to FIFOs and devices, files that
//! are cut off while they are named, a file system that stops to answer.
//!
//! Compared with an honest program beside it, whose zones must all be there, and with the clock: nothing may hang.

use std::fs;
use std::io::{BufRead, BufReader, Lines, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::context::{Context, signal, text, wait};
use super::zones::Honest;

/// The user that nobody is.
const NOBODY: u32 = 65_534;
/// For how long the hostile programs run.
const SECONDS: u64 = 6;
/// A stop may take so many times as long as one of a quiet machine's, and this on top: threads that hang are given
/// up after a second each, a few of each user.
const TIMES: u32 = 5;
const ON_TOP: Duration = Duration::from_secs(20);

/// Runs it.
pub(crate) fn hostile_files(context: &Context) -> Result<String> {
    let quiet = stop(context, context.start(&context.path("quiet.syscap"), &[])?)?;
    let limit = quiet * TIMES + ON_TOP;
    let folder = context.path("hostile");
    fs::create_dir(&folder)?;
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777))?;
    // The folder above is root's alone.
    fs::set_permissions(folder.parent().unwrap_or(&folder), fs::Permissions::from_mode(0o755))?;
    let mut served = Running::start(Command::new(&context.load).args(["serve", text(&folder)?]))?;
    served.line()?;
    let program = folder.join("hostile");
    fs::copy(&context.load, &program)?;
    let mut hostile = Command::new(&program);
    hostile.args(["hostile-files", text(&folder)?, &SECONDS.to_string()]).uid(NOBODY).gid(NOBODY);
    let mut hostile = Running::start(&mut hostile)?;
    hostile.line()?;
    served.tell()?;
    let mut programs = Programs { _served: served, hostile };

    let capture = context.path("hostile.syscap");
    let recorder = context.start(&capture, &[])?;
    let honest = Honest::run(context)?;
    // The programs have ended, and their files are cut off from now on.
    programs.hostile.line()?;
    let took = stop(context, recorder)?;
    ensure!(took <= limit, "the stop took {took:?}, on a quiet machine {quiet:?}");
    let zones = honest.is_whole_in(&capture)?;

    // Of a recorder that was killed: its programs are named when its capture is exported.
    let left = context.path("left.syscap");
    let mut again = Command::new(folder.join("absolute"));
    let again = again.args(["use-cpu", "3"]).uid(NOBODY).gid(NOBODY).spawn()?;
    let recorder = context.start(&left, &[])?;
    signal(recorder.id(), libc::SIGKILL);
    wait(recorder)?;
    wait(again)?;
    let partial = left.with_extension("syscap.partial");
    let begun = Instant::now();
    context.export(if partial.exists() { &partial } else { &left })?;
    let export = begun.elapsed();
    ensure!(export <= limit, "the export took {export:?}, a stop on a quiet machine {quiet:?}");
    Ok(format!("{zones}; stop {took:.1?}, on a quiet machine {quiet:.1?}, export {export:.1?}"))
}

/// Stops a recorder; how long that takes.
fn stop(context: &Context, recorder: Child) -> Result<Duration> {
    let begun = Instant::now();
    context.stop(recorder)?;
    Ok(begun.elapsed())
}

/// The hostile programs, in the order in which they are to end: what has a file of the stalled file system open cannot
/// even be killed before that is gone.
struct Programs {
    _served: Running,
    hostile: Running,
}

/// A load that is talked to; it ends when this is dropped.
struct Running {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Running {
    fn start(command: &mut Command) -> Result<Self> {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("cannot start the load")?;
        let output = child.stdout.take().context("it has no output")?;
        Ok(Self { child, lines: BufReader::new(output).lines() })
    }

    /// Waits for its next line.
    fn line(&mut self) -> Result<String> {
        Ok(self.lines.next().context("the load ended")??)
    }

    /// Sends it a line.
    fn tell(&mut self) -> Result<()> {
        Ok(self.child.stdin.as_mut().context("it has no input")?.write_all(b"\n")?)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // What serves a file system ends when its input does, and takes that away.
        drop(self.child.stdin.take());
        let end = Instant::now() + Duration::from_secs(2);
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
