//! An ordinary user who maps root's program again and again through a file system of their own that
//! lies over it: lists of mappings show that one's number then, and attaching visits them all.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::attacked::{AttackedRecorder, Bounds};
use super::context::{Context, NOBODY, text};
use super::hostile_files::{Running, longest_fork};
use super::zones::{numbers_in, run_numbered};
use crate::report::Outcome;

/// How often it is mapped: the kernel would take half a minute for one place in it.
const OFTEN: &str = "20000";
/// While a place is attached to, nobody can fork.
const LONGEST_FORK: Duration = Duration::from_secs(1);
/// A stop waits for what is detached no longer than a moment, and names what it recorded.
const LONGEST_STOP: Duration = Duration::from_secs(10);

/// Runs it.
pub(crate) fn overlay(context: &Context) -> Result<Outcome> {
    let [folder, space] = ["below", "above"].map(|name| context.path(name));
    for folder in [&folder, &space] {
        fs::create_dir(folder)?;
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
    }
    fs::set_permissions(folder.parent().unwrap_or(&folder), fs::Permissions::from_mode(0o755))?;
    let honest = folder.join("honest");
    fs::copy(&context.load, &honest)?;
    let mount = format!(
        "mount -t tmpfs none {0} && cd {0} && mkdir upper work over && \
         mount -t overlay overlay -o lowerdir={1},upperdir=upper,workdir=work,userxattr over && ",
        text(&space)?,
        text(&folder)?
    );
    let offers = in_namespaces(&format!("({mount} true) 2>&-")).status();
    if !offers.is_ok_and(|status| status.success()) {
        let why = "users may not mount a file system over another".to_owned();
        return Ok(Outcome::NotOffered(why));
    }
    let map = format!("{mount} exec {} map-often over/honest {OFTEN}", text(&context.load)?);
    let mut hostile = Running::start(&mut in_namespaces(&map))?;
    hostile.line()?;

    let capture = context.path("hostile-overlay.syscap");
    let recorder = AttackedRecorder::start_attacked(context, &capture, &[])?;
    let longest = longest_fork(Duration::from_secs(2))?;
    // Its first process was attached to by itself, and so is the next.
    let pid = run_numbered(context, &honest, "honest-numbers")?;
    let longest = longest.max(longest_fork(Duration::from_secs(1))?);
    let recorder = recorder.stop(context)?;
    drop(hostile);
    ensure!(longest <= LONGEST_FORK, "a fork took {longest:?} while the program was attached to");
    let used = recorder.within(&Bounds { to_stop: LONGEST_STOP, ..Bounds::USUAL })?;
    let (first, last) = numbers_in(&capture, pid)?;
    ensure!(
        last > first + context.times(1_000),
        "of the program's zones only {first} to {last} are there"
    );
    Ok(Outcome::Passed(format!(
        "the longest fork took {longest:.1?}; of the program's zones {first} to {last}; {used}"
    )))
}

fn in_namespaces(script: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["-Urm", "sh", "-c", script]).uid(NOBODY).gid(NOBODY);
    command
}
