//! Runs a command and notes what the kernel says it used.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::system::rusage_ns;

/// Runs the command and appends one line to `log`: its process id, its CPU time
/// and that of the descendants it waited for, as `wait4` gives it. Exits as the command did.
pub(crate) fn run(log: &str, program: &str, arguments: &[&str]) -> Result<ExitCode> {
    let child = Command::new(program)
        .args(arguments)
        .spawn()
        .with_context(|| format!("cannot start {program}"))?;
    let pid = child.id();
    let mut status = 0;
    // SAFETY: rusage is plain data; `status` and `usage` are valid for writing.
    // `child` is not waited for in any other way.
    let (waited, usage) = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        (libc::wait4(pid as libc::pid_t, &mut status, 0, &mut usage), usage)
    };
    if waited != pid as libc::pid_t {
        return Err(io::Error::last_os_error()).context("cannot wait for the command");
    }
    let cpu = rusage_ns(&usage);
    let line = format!("{{\"pid\":{pid},\"cpu_ns\":{cpu}}}\n");
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(log)
        .with_context(|| format!("cannot open {log}"))?;
    file.write_all(line.as_bytes())?;
    let code = if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 1 };
    Ok(ExitCode::from(code as u8))
}
