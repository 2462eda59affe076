//! Whether the packages work where there is nothing else.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::process::{output_of, root};
use crate::report::Outcome;

use super::client::{self, ClientLibraries};
use super::make;
use super::program::{Program, starts};

/// The static program says what this machine can record, and where that is allowed records it.
pub(super) fn records(program: &Program) -> Result<Outcome> {
    let doctor = Command::new(&program.path).arg("doctor").output()?;
    let printed = String::from_utf8_lossy(&doctor.stdout).into_owned();
    ensure!(printed.lines().count() > 3, "`doctor` says nothing:\n{printed}");
    if !doctor.status.success() {
        return Ok(Outcome::NotOffered("`doctor` says that nothing can be recorded".to_owned()));
    }
    let folder = tempfile::tempdir().context("cannot create a folder")?;
    let capture = folder.path().join("x.syscap");
    let capture = capture.to_str().context("the folder's name is not UTF-8")?;
    program.run(&["-d", "1", "-o", capture])?;
    // Whole and with names: the file is read, and the kernel's and programs' symbols were.
    let report = program.run(&["report", capture])?;
    ensure!(report.contains("syscollect"), "the recorder is missing in its report:\n{report}");
    Ok(Outcome::Passed(format!("a report of {} lines", report.lines().count())))
}

/// Both packages are the same when they are made again; installed in a folder that has nothing
/// else, the program runs with that folder as its root.
pub(super) fn packages(program: &Program) -> Result<Outcome> {
    let folder = tempfile::tempdir().context("cannot create a folder")?;
    let client = ClientLibraries::build()?;
    let first = make(program, &client, &folder.path().join("first"))?;
    let again = make(program, &client, &folder.path().join("again"))?;
    same(&first.archive, &again.archive)?;

    let unpacked = folder.path().join("unpacked");
    fs::create_dir_all(unpacked.join("usr"))?;
    output_of(
        Command::new("tar")
            .args(["--extract", "--strip-components=1", "--file"])
            .arg(&first.archive)
            .arg("--directory")
            .arg(unpacked.join("usr")),
    )?;
    let mut checked = vec![format!("tar.gz: {}", installed(program, &unpacked)?)];

    let Some(deb) = &first.deb else {
        return Ok(Outcome::Passed(format!("{}; no dpkg-deb", checked.join(""))));
    };
    same(deb, again.deb.as_deref().context("no second .deb")?)?;
    let empty = folder.path().join("empty");
    install(deb, &empty)?;
    checked.push(format!(".deb: {}", installed(program, &empty)?));
    dpkg(&empty, &["--purge", "syscollect"])?;
    ensure!(!empty.join("usr").exists(), "the removed package left something in /usr");
    Ok(Outcome::Passed(checked.join("; ")))
}

fn same(first: &Path, again: &Path) -> Result<()> {
    ensure!(fs::read(first)? == fs::read(again)?, "{} differs when made again", first.display());
    Ok(())
}

/// Installs a package as dpkg does, on a system whose only package it is.
fn install(deb: &Path, empty: &Path) -> Result<()> {
    let database = empty.join("var/lib/dpkg");
    for name in ["info", "updates"] {
        fs::create_dir_all(database.join(name))?;
    }
    fs::write(database.join("status"), "")?;
    let deb = deb.to_str().context("the folder's name is not UTF-8")?;
    dpkg(empty, &["--install", deb])?;
    let status = dpkg(empty, &["--status", "syscollect"])?;
    ensure!(status.contains("Status: install ok installed"), "dpkg says:\n{status}");
    Ok(())
}

fn dpkg(empty: &Path, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new("dpkg");
    command.arg(format!("--root={}", empty.display()));
    // Small systems are configured to leave these out; whoever is not root owns what is installed.
    command.args(["--path-include=/usr/share/*", "--force-not-root", "--force-bad-path"]);
    let output = output_of(command.args(arguments))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs what was installed below a folder, with this folder as the root.
fn installed(program: &Program, folder: &Path) -> Result<String> {
    let share = folder.join("usr/share");
    pages(&share.join("man/man1"))?;
    completions(&share)?;
    for name in ["README.md", "LICENSE-MIT", "LICENSE-APACHE", "THIRD-PARTY-LICENSES"] {
        let file = share.join("doc/syscollect").join(name);
        ensure!(file.is_file(), "{} is missing", file.display());
    }
    if let Some(file) = client::missing(&folder.join("usr")) {
        bail!("{} is missing", file.display());
    }
    // A capture of the tests shows that reading and exporting need nothing, either.
    let capture = root().join("tests/golden/gpu/fences_6_12.syscap");
    fs::copy(&capture, folder.join("x.syscap")).context("cannot copy a capture of the tests")?;
    let version = alone(folder, &["--version"])?;
    ensure!(version.contains(&program.version), "the wrong version: {version}");
    alone(folder, &["export", "/x.syscap", "-o", "/x.pftrace"])?;
    let trace = folder.join("x.pftrace");
    ensure!(fs::metadata(&trace)?.len() > 0, "the exported trace is empty");
    Ok(version.trim().to_owned())
}

/// `syscollect ARGUMENTS` with this folder as its root. Only root may ask for that; others are root
/// in a user namespace, which some containers forbid even root.
fn alone(folder: &Path, arguments: &[&str]) -> Result<String> {
    // SAFETY: asks for the own user; no memory is involved.
    let is_root = unsafe { libc::geteuid() } == 0;
    let mut command = Command::new(if is_root { "chroot" } else { "unshare" });
    if !is_root {
        command.args(["--map-root-user", "--root"]);
    }
    command.arg(folder);
    let output = output_of(command.arg("/usr/bin/syscollect").args(arguments))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// There is a page for the program and for what it can be told to do, and `man` can set each.
fn pages(folder: &Path) -> Result<()> {
    for name in ["syscollect", "syscollect-record", "syscollect-export"] {
        let page = folder.join(format!("{name}.1"));
        let text =
            fs::read_to_string(&page).with_context(|| format!("cannot read {}", page.display()))?;
        for heading in [".SH NAME", ".SH SYNOPSIS"] {
            ensure!(text.lines().any(|line| line == heading), "{} is no page", page.display());
        }
        if starts("groff") {
            let output =
                output_of(Command::new("groff").args(["-man", "-Tutf8", "-ww", "-z"]).arg(&page))?;
            let warnings = String::from_utf8_lossy(&output.stderr).into_owned();
            ensure!(warnings.is_empty(), "{name}.1:\n{warnings}");
        }
    }
    Ok(())
}

/// Each shell that is here can read the file for it; bash always is.
fn completions(share: &Path) -> Result<()> {
    let files = [
        ("bash", "bash-completion/completions/syscollect"),
        ("zsh", "zsh/site-functions/_syscollect"),
        ("zsh", "zsh/vendor-completions/_syscollect"),
        ("fish", "fish/vendor_completions.d/syscollect.fish"),
    ];
    let mut found = 0;
    for (shell, path) in files {
        let file = share.join(path);
        if !file.is_file() {
            continue;
        }
        found += 1;
        if starts(shell) {
            output_of(Command::new(shell).arg("-n").arg(&file))?;
        }
    }
    // zsh looks in one of two folders.
    if found != 3 {
        bail!("completions of {found} shells");
    }
    Ok(())
}
