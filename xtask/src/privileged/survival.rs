//! Recordings that end badly, and exports far from what was recorded.

use std::ffi::{CString, NulError};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use super::context::{Context, finish, number, signal, text, wait};
use crate::process::output_of;

/// `kill -9`: what had been written is there and exports.
pub(crate) fn killed(context: &Context) -> Result<String> {
    let (output, partial) = (context.path("killed.pftrace"), context.path("killed.syscap.partial"));
    let recorder = context.start(&output, &["--stacks", "samples,off-cpu"])?;
    let times = context.times(50_000);
    let load = finish(Command::new(&context.load).args(["ping-pong", &times.to_string()]))?;
    ensure!(load.status.success(), "the load failed:\n{}", load.stderr);
    std::thread::sleep(Duration::from_millis(1_500));
    signal(recorder.id(), libc::SIGKILL);
    wait(recorder)?;
    ensure!(!output.exists(), "a trace was written by a recorder that was killed");
    let info = context.info(&partial)?;
    let switches = number(&info["events_by_type"], "switch")?;
    ensure!(
        switches >= 2 * times,
        "only {switches} switches of at least {} are in the capture",
        2 * times
    );
    let trace = context.path("killed-export.pftrace");
    context.succeed(&["export", text(&partial)?, "-o", text(&trace)?])?;
    if let Some(engine) = context.engine() {
        let errors = engine.errors(&trace)?;
        ensure!(errors.is_empty(), "trace_processor finds errors: {errors:?}");
    }
    Ok(format!("{switches} switches survive"))
}

/// Without the recorded files and the kernel's symbols, an export is the same to the byte.
pub(crate) fn hidden_files(context: &Context) -> Result<String> {
    let capture = context.path("hidden.syscap");
    context.record(&capture, &["--stacks", "samples,off-cpu,wakers"], &["callers", "2"])?;
    let here = context.export(&capture)?;
    let away = context.path("hidden-away.pftrace");
    let portable = Portable::of(&context.syscollect, &context.path("portable"))?;
    let mut hidden =
        vec![PathBuf::from("/proc/kallsyms"), context.load.clone(), context.syscollect.clone()];
    hidden.extend(portable.originals.iter().cloned());
    hidden.extend(files_mapped_by(&context.load)?);
    hidden.sort();
    hidden.dedup();
    let exported =
        finish(&mut portable.without(&hidden, &["export", text(&capture)?, "-o", text(&away)?])?)?;
    if !exported.status.success() {
        bail!(
            "the export without the recorded files ended with {}:\n{}",
            exported.status,
            exported.stderr
        );
    }
    if let Some(engine) = context.engine() {
        let query = "select count(*) from stack_profile_frame where name glob '*caller_seventy*'";
        let [named] = engine.numbers(&away, [query])?;
        ensure!(named > 0, "the export without the recorded files has lost the names");
    }
    let (here, away) = (fs::read(here)?, fs::read(away)?);
    ensure!(here == away, "the exports differ ({} and {} bytes)", here.len(), away.len());
    Ok(format!("{} bytes, identical with {} files hidden", here.len(), hidden.len()))
}

/// A copy of a program with its loader and libraries, which runs while the originals are hidden.
pub(super) struct Portable {
    folder: PathBuf,
    loader: PathBuf,
    program: PathBuf,
    pub(super) originals: Vec<PathBuf>,
}

impl Portable {
    pub(super) fn of(program: &Path, folder: &Path) -> Result<Self> {
        fs::create_dir(folder)?;
        let originals = files_mapped_by(program)?;
        let mut loader = None;
        for original in &originals {
            let copied = copy_into(folder, original)?;
            if original
                .file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("ld-linux"))
            {
                loader = Some(copied);
            }
        }
        let loader = loader.context("the program has no dynamic loader")?;
        Ok(Self {
            folder: folder.to_path_buf(),
            loader,
            program: copy_into(folder, program)?,
            originals,
        })
    }

    /// The command in a mount namespace where an empty file lies over each of `hidden`.
    pub(super) fn without(&self, hidden: &[PathBuf], arguments: &[&str]) -> Result<Command> {
        let empty = self.folder.join("empty");
        fs::write(&empty, "")?;
        let empty = c_string(&empty)?;
        let hidden = hidden.iter().map(|file| c_string(file)).collect::<Result<Vec<_>, _>>()?;
        let mut command = Command::new(&self.loader);
        command.arg("--library-path").arg(&self.folder).arg(&self.program).args(arguments);
        // SAFETY: between fork and exec only system calls are made; nothing is allocated.
        unsafe { command.pre_exec(move || hide(&empty, &hidden)) };
        Ok(command)
    }
}

fn copy_into(folder: &Path, file: &Path) -> Result<PathBuf> {
    let to = folder.join(file.file_name().context("a library without a name")?);
    fs::copy(file, &to).with_context(|| format!("cannot copy {}", file.display()))?;
    Ok(to)
}

fn c_string(path: &Path) -> Result<CString, NulError> {
    CString::new(path.as_os_str().as_bytes())
}

/// Enters a mount namespace of its own and lays `empty` over each file.
fn hide(empty: &CString, files: &[CString]) -> io::Result<()> {
    let none = std::ptr::null::<libc::c_char>();
    // SAFETY: unshare takes flags; mount takes strings that live through the call, or null where it
    // ignores them.
    unsafe {
        checked(libc::unshare(libc::CLONE_NEWNS))?;
        checked(libc::mount(
            none,
            c"/".as_ptr(),
            none,
            libc::MS_REC | libc::MS_PRIVATE,
            std::ptr::null(),
        ))?;
        for file in files {
            checked(libc::mount(
                empty.as_ptr(),
                file.as_ptr(),
                none,
                libc::MS_BIND,
                std::ptr::null(),
            ))?;
        }
    }
    Ok(())
}

fn checked(status: i32) -> io::Result<()> {
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The loader and libraries that a program maps, as `ldd` finds them, without links.
pub(super) fn files_mapped_by(program: &Path) -> Result<Vec<PathBuf>> {
    let listed = output_of(Command::new("ldd").arg(program))?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let files = listed.split_whitespace().filter(|word| word.starts_with('/'));
    // The loader is found by its own name, so a link's name matters as well as the file.
    files.map(|file| Ok(PathBuf::from(file))).collect()
}
