//! Bad input and bad days: one clear message, what was recorded kept, nothing else left.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};

use super::context::{Context, NOBODY, ProgramOutput, finish, number, text};

/// Fails with status 1, and the message has all of `words`.
fn refuses(output: &ProgramOutput, words: &[&str]) -> Result<()> {
    let message = &output.stderr;
    ensure!(
        output.status.code() == Some(1),
        "ended with {} and not with 1:\n{message}",
        output.status
    );
    for word in words {
        ensure!(message.contains(word), "the message does not say {word:?}:\n{message}");
    }
    ensure!(message.lines().count() <= 6, "more than one clear message:\n{message}");
    Ok(())
}

/// The names in a folder.
fn names(folder: &Path) -> Result<Vec<String>> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

/// A plain user gets told what to run instead; no file stays behind.
pub(crate) fn plain_user(context: &Context) -> Result<()> {
    let folder = context.path("plain-user");
    fs::create_dir(&folder)?;
    // The program and the folder have to be reachable for nobody.
    let program = PathBuf::from("/tmp").join(format!("syscollect-{}", std::process::id()));
    fs::copy(&context.syscollect, &program)?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777))?;
    for parent in folder.ancestors().skip(1).take(1) {
        fs::set_permissions(parent, fs::Permissions::from_mode(0o755))?;
    }
    let mut command = std::process::Command::new(&program);
    command.args(["-d", "1", "-o", "x.pftrace"]).current_dir(&folder).uid(NOBODY).gid(NOBODY);
    let output = finish(&mut command);
    fs::remove_file(&program)?;
    refuses(&output?, &["sudo"])?;
    let left = names(&folder)?;
    ensure!(left.is_empty(), "left behind: {left:?}");
    Ok(())
}

/// Processes that do not exist, or end at once.
pub(crate) fn unknown_process(context: &Context) -> Result<()> {
    let file = context.path("unknown.pftrace");
    let mut child = std::process::Command::new("true").spawn()?;
    let pid = child.id().to_string();
    child.wait()?;
    refuses(&context.run(&["-p", &pid, "-d", "1", "-o", text(&file)?])?, &[&pid])?;
    ensure!(!file.exists(), "an output file was left behind");

    // A process that ends while it is recorded is no error.
    let mut child = std::process::Command::new("sleep").arg("0.5").spawn()?;
    let file = context.path("short.syscap");
    let output = context.run(&["-p", &child.id().to_string(), "-d", "2", "-o", text(&file)?]);
    child.wait()?;
    let output = output?;
    ensure!(output.status.success(), "a process that ended: {}\n{}", output.status, output.stderr);
    context.info(&file).map(|_| ())
}

/// A function that the named file does not have is an error, where that is known at the start; with
/// a command, which may load anything, the recording's end says so.
pub(crate) fn no_function(context: &Context) -> Result<()> {
    let file = context.path("no-function.syscap");
    let spec = format!("{}:no_such_function_at_all", text(&context.load)?);
    let options = ["--function", &spec, "-o", text(&file)?];
    refuses(&context.run(&[&options[..], &["-d", "1"]].concat())?, &[&spec])?;
    ensure!(!file.exists(), "an output file was left behind");
    let output = context.succeed(&[&options[..], &["--", "sleep", "0.2"]].concat())?;
    for word in [&*spec, "matched nothing until the end", "syscollect probes list"] {
        ensure!(output.stderr.contains(word), "it does not say {word:?}:\n{}", output.stderr);
    }
    Ok(())
}

/// Output folders that are not there, files that are, links in the way.
pub(crate) fn outputs(context: &Context) -> Result<()> {
    let missing = context.path("no-such-folder").join("x.pftrace");
    refuses(&context.run(&["-d", "1", "-o", text(&missing)?])?, &["no-such-folder"])?;

    let existing = context.path("existing.pftrace");
    fs::write(&existing, "precious")?;
    refuses(&context.run(&["-d", "1", "-o", text(&existing)?])?, &["existing.pftrace", "--force"])?;
    ensure!(fs::read(&existing)? == b"precious", "the existing file was changed");
    context.succeed(&["-d", "1", "-o", text(&existing)?, "--force"])?;
    ensure!(fs::metadata(&existing)?.len() > 1_000, "--force did not replace the file");

    let (target, link) = (context.path("target"), context.path("link.pftrace"));
    fs::write(&target, "precious")?;
    symlink(&target, &link)?;
    // Whether it is refused or replaced, the link is not followed.
    context.run(&["-d", "1", "-o", text(&link)?, "--force"])?;
    ensure!(fs::read(&target)? == b"precious", "a symbolic link in the way was followed");
    let partial = context.path("y.syscap.partial");
    symlink(&target, &partial)?;
    context.run(&["-d", "1", "-o", text(&context.path("y.pftrace"))?, "--force"])?;
    ensure!(
        fs::read(&target)? == b"precious",
        "a symbolic link in the way of the capture was followed"
    );
    Ok(())
}

/// A file that is no capture, and one that is cut off in the middle.
pub(crate) fn damaged_files(context: &Context) -> Result<String> {
    let foreign = context.path("foreign.syscap");
    fs::write(&foreign, "#!/bin/sh\necho no capture\n".repeat(100))?;
    refuses(&context.run(&["info", text(&foreign)?])?, &["foreign.syscap"])?;
    let file = context.path("foreign.pftrace");
    refuses(&context.run(&["export", text(&foreign)?, "-o", text(&file)?])?, &["foreign.syscap"])?;
    ensure!(!file.exists(), "an output was left behind");

    let whole = context.path("whole.syscap");
    context.record(&whole, &[], &["callers", "3"])?;
    let all = number(&context.info(&whole)?, "events")?;
    let bytes = fs::read(&whole)?;
    let mut kept = Vec::new();
    for part in [0.3, 0.6, 0.9] {
        let cut = context.path("cut.syscap");
        fs::write(&cut, &bytes[..(bytes.len() as f64 * part) as usize])?;
        let output = context.run(&["info", "--json", text(&cut)?])?;
        ensure!(output.status.success(), "a capture cut at {part} is not read:\n{}", output.stderr);
        let info: serde_json::Value = serde_json::from_str(&output.stdout)?;
        let events = number(&info, "events")?;
        ensure!(events <= all, "a part has more events than the whole");
        kept.push(format!("{:.0} %", 100.0 * events as f64 / all as f64));
    }
    Ok(format!("of {all} events, after a cut at 30, 60 and 90 %: {}", kept.join(", ")))
}

/// A mounted file system, unmounted when the test ends, however it ends.
pub(crate) struct Mounted(PathBuf);

impl Mounted {
    /// Where it lies.
    pub(crate) fn folder(&self) -> &Path {
        &self.0
    }

    /// A file system in memory, on a new folder.
    pub(crate) fn tmpfs(folder: PathBuf, options: &str) -> Result<Self> {
        fs::create_dir(&folder)?;
        let (target, kind) = (CString::new(folder.as_os_str().as_bytes())?, c"tmpfs");
        let options = CString::new(options)?;
        // SAFETY: all arguments are strings that live through the call.
        let status = unsafe {
            libc::mount(kind.as_ptr(), target.as_ptr(), kind.as_ptr(), 0, options.as_ptr().cast())
        };
        if status != 0 {
            return Err(std::io::Error::last_os_error()).context("cannot mount a tmpfs");
        }
        Ok(Self(folder))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Ok(target) = CString::new(self.0.as_os_str().as_bytes()) {
            // SAFETY: the argument is a string that lives through the call.
            unsafe { libc::umount2(target.as_ptr(), libc::MNT_DETACH) };
        }
    }
}

/// A disk that is full: what was recorded until then is kept and exports.
pub(crate) fn full_disk(context: &Context) -> Result<String> {
    let disk = Mounted::tmpfs(context.path("full-disk"), "size=2m")?;
    let file = disk.0.join("x.syscap");
    let load = text(&context.load)?;
    let output = context.run(&[
        "-o",
        text(&file)?,
        "--stacks",
        "off-cpu,wakers",
        "--",
        load,
        "ping-pong",
        "500000",
    ])?;
    ensure!(
        output.status.code() == Some(1),
        "a recording cut short by a full disk ended with {}",
        output.status
    );
    let message = output.stderr;
    ensure!(
        message.contains("full") || message.contains("No space left"),
        "the message does not say why:\n{message}"
    );
    let Some(kept) = names(&disk.0)?.into_iter().find(|name| name.contains("syscap")) else {
        bail!("nothing was kept");
    };
    let aside = context.path("from-full-disk.syscap");
    fs::copy(disk.0.join(&kept), &aside)?;
    let info = context.info(&aside)?;
    let events = number(&info, "events")?;
    ensure!(events > 100_000, "only {events} events were kept");
    // The capture itself says what the recorder said: somebody else may read it.
    let (lost, rows) =
        (number(&info, "lost")?, info["losses"].as_array().cloned().unwrap_or_default());
    let full = rows.iter().filter(|row| row["cause"] == "disk-full");
    let full: u64 = full.filter_map(|row| row["count"].as_u64()).sum();
    ensure!(full > 0 && lost >= full, "the capture says that {lost} records are lost: {rows:?}");
    context.export(&aside)?;
    Ok(format!("{events} events kept in 2 MB, {full} said to be lost"))
}
