//! An ordinary user's files against root's recorder: programs whose debug links lead to FIFOs and
//! devices, files that are cut off while they are named, a file system that stops to answer.
//!
//! Compared with an honest program beside it, whose zones must all be there, and with the clock:
//! nothing may hang.

use std::fs;
use std::io::{BufRead, BufReader, Lines, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::attacked::{AttackedRecorder, Bounds};
use super::context::{Context, NOBODY, signal, text, wait};
use super::zones::{Honest, numbers_in, run_numbered};
use crate::report::Outcome;

/// For how long the hostile programs run.
const SECONDS: u64 = 6;
/// A stop may take so many times as long as one of a quiet machine's, and this on top: threads that
/// hang are given up after a second each, a few of each user.
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
    let recorder = AttackedRecorder::start_attacked(context, &capture, &[])?;
    let honest = Honest::run(context)?;
    // The programs have ended, and their files are cut off from now on.
    programs.hostile.line()?;
    let used = recorder.stop(context)?.within(&Bounds { to_stop: limit, ..Bounds::USUAL })?;
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
    Ok(format!("{zones}; {used}, on a quiet machine {quiet:.1?}, export {export:.1?}"))
}

/// For how long the hostile file system keeps silent, seconds: longer than anything here may take.
const SILENCE: u64 = 15;
/// A fork takes less than a millisecond on a quiet machine.
const LONGEST_FORK: Duration = Duration::from_secs(5);

/// A file system that keeps silent when the kernel reads what a recorder attaches to: everybody
/// goes on, and an honest program has its zones.
pub(crate) fn hostile_mount(context: &Context) -> Result<Outcome> {
    if !Path::new("/dev/fuse").exists() {
        return Ok(Outcome::NotOffered("there is no /dev/fuse".to_owned()));
    }
    let (folder, program) = (context.path("withheld"), context.path("program"));
    fs::create_dir(&folder)?;
    fs::set_permissions(folder.parent().unwrap_or(&folder), fs::Permissions::from_mode(0o755))?;
    fs::copy(&context.load, &program)?;
    let mut served = Command::new(&context.load);
    served.args(["serve-code", text(&folder)?, &SILENCE.to_string()]);
    let mut served = Running::start(&mut served)?;
    served.line()?;
    let mut hostile = Command::new(&program);
    hostile.args(["map-served", text(&folder)?]).uid(NOBODY).gid(NOBODY);
    let mut hostile = Running::start(&mut hostile)?;
    hostile.line()?;
    // From here on it is in no list of mounts.
    served.tell()?;
    served.line()?;

    let capture = context.path("hostile-mount.syscap");
    let recorder = AttackedRecorder::start_attacked(context, &capture, &[])?;
    let longest = longest_fork(Duration::from_secs(3))?;
    let honest = run_numbered(context, &program, "honest-numbers")?;
    ensure!(served.child.try_wait()?.is_none(), "the file system ended before the test did");
    let recorder = recorder.stop(context)?;
    let output = &recorder.output;
    drop((served, hostile));
    ensure!(
        longest <= LONGEST_FORK,
        "a fork took {longest:?} while the recorder attached to a program"
    );
    ensure!(
        output.stderr.contains("file system that a user mounted"),
        "nothing tells of it:\n{}",
        output.stderr
    );
    let (first, last) = numbers_in(&capture, honest)?;
    ensure!(
        last > first + context.times(1_000),
        "of an honest program's zones only {first} to {last} are there"
    );
    let used = recorder.within(&Bounds::USUAL)?;
    Ok(Outcome::Passed(format!(
        "the longest fork took {longest:.1?}; of an honest program's zones {first} to {last}; \
         {used}"
    )))
}

/// How often hostile programs map a file: the kernel would take half a minute for one place in it.
const OFTEN: &str = "20000";
/// A stop waits for what is detached no longer than a moment, and names what it recorded.
const LONGEST_STOP: Duration = Duration::from_secs(10);

/// Processes that have a program of their own, and one of somebody else, mapped so often that
/// attaching to it would stop the machine: everybody forks and is recorded, and it is told.
pub(crate) fn hostile_attach(context: &Context) -> Result<String> {
    let [own, other, honest] = ["own", "other", "honest"].map(|name| context.path(name));
    for path in [&own, &other, &honest] {
        fs::copy(&context.load, path)?;
    }
    std::os::unix::fs::chown(&own, Some(NOBODY), Some(NOBODY))?;
    fs::set_permissions(own.parent().unwrap_or(&own), fs::Permissions::from_mode(0o755))?;
    let hostile = [map_often(context, &own)?, map_often(context, &other)?];

    let capture = context.path("hostile-attach.syscap");
    let recorder = AttackedRecorder::start_attacked(context, &capture, &[])?;
    let longest = longest_fork(Duration::from_secs(2))?;
    let theirs = run_numbered(context, &honest, "honest-numbers")?;
    // Its first process was attached to by itself, and so is the next.
    let of_other = run_numbered(context, &other, "other-numbers")?;
    let longest = longest.max(longest_fork(Duration::from_secs(1))?);
    let recorder = recorder.stop(context)?;
    let output = &recorder.output;
    drop(hostile);
    ensure!(
        longest <= Duration::from_secs(1),
        "a fork took {longest:?} while files were attached to"
    );
    let used = recorder.within(&Bounds { to_stop: LONGEST_STOP, ..Bounds::USUAL })?;
    let reported = context.info(&capture)?.to_string();
    for (file, what) in [(&own, "of the same user has it mapped"), (&other, "one by one")] {
        let file = text(file)?;
        ensure!(
            output.stderr.lines().any(|line| line.contains(file) && line.contains(what)),
            "nothing tells of {file}:\n{}",
            output.stderr
        );
        ensure!(
            reported.contains(file) && reported.contains(what),
            "the capture tells nothing of {file}"
        );
    }
    let mut summary = Vec::new();
    for (name, pid) in [("another program", theirs), ("the program of somebody else", of_other)] {
        let (first, last) = numbers_in(&capture, pid)?;
        ensure!(
            last > first + context.times(1_000),
            "of {name}'s zones only {first} to {last} are there"
        );
        summary.push(format!("of {name}'s zones {first} to {last}"));
    }
    Ok(format!("the longest fork took {longest:.1?}; {}; {used}", summary.join(", ")))
}

/// A hostile program that maps the file again and again.
fn map_often(context: &Context, file: &Path) -> Result<Running> {
    let mut hostile = Command::new(&context.load);
    hostile.args(["map-often", text(file)?, OFTEN]).uid(NOBODY).gid(NOBODY);
    let mut hostile = Running::start(&mut hostile)?;
    hostile.line()?;
    Ok(hostile)
}

/// Forks again and again; the longest that one took.
pub(super) fn longest_fork(during: Duration) -> Result<Duration> {
    let begun = Instant::now();
    let mut longest = Duration::ZERO;
    while begun.elapsed() < during {
        let before = Instant::now();
        // SAFETY: the child ends at once.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: ends the child without anything of this program.
            unsafe { libc::_exit(0) };
        }
        ensure!(child > 0, "cannot fork: {}", std::io::Error::last_os_error());
        longest = longest.max(before.elapsed());
        // SAFETY: the child is ours.
        unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(longest)
}

/// Stops a recorder; how long that takes.
fn stop(context: &Context, recorder: Child) -> Result<Duration> {
    let begun = Instant::now();
    context.stop(recorder)?;
    Ok(begun.elapsed())
}

/// The hostile programs, in the order in which they are to end: what has a file of the stalled file
/// system open cannot even be killed before that is gone.
struct Programs {
    _served: Running,
    hostile: Running,
}

/// A load that is talked to; it ends when this is dropped.
pub(super) struct Running {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Running {
    pub(super) fn start(command: &mut Command) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the load")?;
        let output = child.stdout.take().context("it has no output")?;
        Ok(Self { child, lines: BufReader::new(output).lines() })
    }

    /// Waits for its next line.
    pub(super) fn line(&mut self) -> Result<String> {
        Ok(self.lines.next().context("the load ended")??)
    }

    /// Its process.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
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
