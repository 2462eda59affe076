//! A program that claims to be another: in a mount namespace of their own everybody has the path
//! they like, and a build id is a claim.
//!
//! Where the other program is root's, its functions have their own names; where it is another
//! user's, nobody can tell whose names are meant, and there are none.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Result, ensure};
use syscollect_model::SymbolTable;
use syscollect_store::{CaptureReader, Definition};

use super::attacked::{AttackedRecorder, Bounds};
use super::context::{Context, DAEMON, NOBODY, finish, signal, text, wait};
use crate::report::Outcome;

/// A function of the program, and what the other file calls it: as long, so that all else is the
/// same.
const TRUE_NAME: &str = "burn_unit";
const FORGED_NAME: &str = "evil_unit";
/// How long the other program runs before the honest one begins, so that its file is opened first.
const BEFORE: Duration = Duration::from_secs(1);

/// Runs it.
pub(crate) fn names(context: &Context) -> Result<Outcome> {
    let own_namespaces =
        Command::new("unshare").args(["-Urm", "true"]).uid(NOBODY).gid(NOBODY).status();
    if !own_namespaces.is_ok_and(|status| status.success()) {
        return Ok(Outcome::NotOffered("users may not have namespaces of their own".to_owned()));
    }
    let of_root = recorded(context, "root", 0)?;
    ensure!(
        has(&of_root, TRUE_NAME) && !has(&of_root, FORGED_NAME),
        "the names of root's program are {of_root:?}"
    );
    let of_user = recorded(context, "user", DAEMON)?;
    ensure!(!has(&of_user, FORGED_NAME), "the names of a user's program are {of_user:?}");
    ensure!(
        of_user.iter().any(|table| table.note.contains("several files")),
        "nothing tells why there are none: {of_user:?}"
    );
    Ok(Outcome::Passed(
        "root's program has its own names, a user's none instead of forged ones".into(),
    ))
}

/// What is named of a program of this owner while somebody else shows another file as it.
fn recorded(context: &Context, case: &str, owner: u32) -> Result<Vec<SymbolTable>> {
    let [capture, honest, forged] =
        [format!("names-{case}.syscap"), format!("honest-{case}"), format!("forged-{case}")]
            .map(|name| context.path(&name));
    for folder in [&honest, &forged] {
        fs::create_dir(folder)?;
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
    }
    // The folder above is root's alone.
    fs::set_permissions(honest.parent().unwrap_or(&honest), fs::Permissions::from_mode(0o755))?;
    let (program, other) = (honest.join("program"), forged.join("program"));
    fs::copy(&context.load, &program)?;
    fs::write(&other, renamed(fs::read(&context.load)?))?;
    fs::set_permissions(&other, fs::Permissions::from_mode(0o755))?;
    chown(&program, Some(owner), Some(owner))?;
    chown(&other, Some(NOBODY), Some(NOBODY))?;

    let recorder = AttackedRecorder::start_attacked(context, &capture, &[])?;
    let mount = format!(
        "mount --bind {} {} && exec {} callers 60",
        text(&forged)?,
        text(&honest)?,
        text(&program)?
    );
    let mut hostile = Command::new("unshare");
    hostile.args(["-Urm", "sh", "-c", &mount]).uid(NOBODY).gid(NOBODY);
    let hostile = hostile.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    std::thread::sleep(BEFORE);
    let ran = finish(Command::new(&program).args(["callers", "1"]).uid(DAEMON).gid(DAEMON))?;
    ensure!(ran.status.success(), "the honest program failed:\n{}", ran.stderr);
    recorder.stop(context)?.within(&Bounds::USUAL)?;
    signal(hostile.id(), libc::SIGKILL);
    let output = wait(hostile)?;
    ensure!(output.stderr.is_empty(), "the other program failed:\n{}", output.stderr);
    symbols_of(&capture, text(&program)?)
}

/// The program with another name for one function.
fn renamed(mut program: Vec<u8>) -> Vec<u8> {
    let offsets: Vec<usize> = program
        .windows(TRUE_NAME.len())
        .enumerate()
        .filter_map(|(offset, bytes)| (bytes == TRUE_NAME.as_bytes()).then_some(offset))
        .collect();
    for offset in offsets {
        program[offset..offset + FORGED_NAME.len()].copy_from_slice(FORGED_NAME.as_bytes());
    }
    program
}

fn has(tables: &[SymbolTable], name: &str) -> bool {
    let mut symbols = tables.iter().flat_map(|table| &table.symbols);
    symbols.any(|symbol| symbol.frames.iter().any(|frame| frame.function.contains(name)))
}

/// What the capture says of names in the module that lay at this path.
pub(super) fn symbols_of(capture: &Path, path: &str) -> Result<Vec<SymbolTable>> {
    let mut tables = Vec::new();
    for definition in CaptureReader::open(capture)?.definitions() {
        if let Definition::Symbols(table) = definition?
            && table.path == path
        {
            tables.push(table);
        }
    }
    Ok(tables)
}
