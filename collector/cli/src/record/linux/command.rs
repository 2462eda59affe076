//! The command that is launched with a recording.
//!
//! The process is made before the recording begins and waits at a gate, so
//! that its id is known to the filter, nothing of the recorder (descriptors,
//! raised limits) reaches it, and its first instruction is recorded.

use crate::owner::{Account, Owner};
use crate::signals::StopEvent;
use anyhow::{Context, Result, bail};
use std::ffi::{OsStr, OsString};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::Sender;

/// A process that waits to become the command. Dropping it ends the process.
#[derive(Debug)]
pub(crate) struct Gated {
    pid: u32,
    name: OsString,
    gate: PipeWriter,
}

/// The command, running or ended.
#[derive(Debug)]
pub(crate) struct Launched {
    pid: u32,
    name: OsString,
}

/// Makes the process for `command`, if there is one. How it ends goes to `stop_events`.
///
/// # Errors
///
/// When the program is not found, or no process can be made.
pub(crate) fn prepare(
    command: &[OsString],
    owner: Option<Owner>,
    keep_off_standard_output: bool,
    stop_events: Sender<StopEvent>,
) -> Result<Option<Gated>> {
    let Some((program, arguments)) = command.split_first() else { return Ok(None) };
    find_program(program, std::env::var_os("PATH").as_deref())?;
    let (gate_reader, gate) = io::pipe().context("cannot make a pipe")?;
    let (mut pid_reader, pid_writer) = io::pipe().context("cannot make a pipe")?;

    let mut process = Command::new(program);
    process.args(arguments);
    if keep_off_standard_output {
        process
            .stdout(io::stderr().as_fd().try_clone_to_owned().map_or(Stdio::null(), Stdio::from));
    }
    let account = owner.map(Account::of);
    if let Some(account) = &account {
        set_environment(&mut process, account);
    }
    let gate_number = gate.as_raw_fd();
    // SAFETY: the closure only makes system calls on what it was given, all of
    // them async-signal-safe, and does not allocate. It closes a descriptor of
    // the new process that nothing there uses.
    unsafe {
        process.pre_exec(move || {
            // The new process has a copy of the gate's other end, and would
            // otherwise never see it close.
            libc::close(gate_number);
            wait_and_become(&gate_reader, &pid_writer, account.as_ref())
        })
    };

    // spawn() returns only when the gate has opened, so it needs a thread.
    let thread = std::thread::Builder::new().name("command".into());
    thread
        .spawn(move || {
            let status = process.spawn().and_then(|mut child| {
                // The command has begun, with all that its user has; who waits for it needs
                // nothing.
                crate::confine::to_waiting();
                // The pipe's other end, kept by the closure, would keep the pid reader waiting.
                drop(process);
                child.wait()
            });
            // Nobody listens any more when the recording was stopped before.
            let _ = stop_events.send(StopEvent::CommandEnded(status));
        })
        .context("cannot start a thread")?;

    let mut pid = [0; 4];
    pid_reader
        .read_exact(&mut pid)
        .with_context(|| format!("cannot make a process for {}", program.display()))?;
    Ok(Some(Gated { pid: u32::from_ne_bytes(pid), name: program.clone(), gate }))
}

impl Gated {
    /// The process id.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Opens the gate.
    pub(crate) fn start(mut self) -> Launched {
        // A failure means that the process is gone, which its waiter reports.
        let _ = self.gate.write_all(&[1]);
        Launched { pid: self.pid, name: self.name }
    }
}

impl Launched {
    /// The process id.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// The program.
    pub(crate) fn name(&self) -> std::path::Display<'_> {
        Path::new(&self.name).display()
    }

    /// Whether it has not ended yet; its waiter leaves no zombie.
    pub(crate) fn is_running(&self) -> bool {
        Path::new(&format!("/proc/{}", self.pid)).exists()
    }

    /// Asks the command to end.
    pub(crate) fn terminate(&mut self) {
        // SAFETY: no memory is involved. The process is our child and, as its
        // end has not been reported, most likely still has this id.
        unsafe { libc::kill(self.pid as libc::pid_t, libc::SIGTERM) };
    }
}

/// Runs in the new process: tells its id, waits for the gate, becomes the user.
fn wait_and_become(
    gate: &PipeReader,
    pid: &PipeWriter,
    account: Option<&Account>,
) -> io::Result<()> {
    // SAFETY: getpid has no preconditions.
    let own = unsafe { libc::getpid() }.to_ne_bytes();
    // SAFETY: the descriptor is open and the four bytes are valid.
    if unsafe { libc::write(pid.as_raw_fd(), own.as_ptr().cast(), own.len()) } != own.len() as isize
    {
        return Err(io::Error::last_os_error());
    }
    let mut byte = 0u8;
    loop {
        // SAFETY: the descriptor is open and there is room for one byte.
        match unsafe { libc::read(gate.as_raw_fd(), std::ptr::from_mut(&mut byte).cast(), 1) } {
            1 => break,
            // The gate was dropped: there is no recording.
            0 => return Err(io::Error::from_raw_os_error(libc::ECANCELED)),
            _ if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            _ => return Err(io::Error::last_os_error()),
        }
    }
    // What the recorder itself was started with and does not use goes no further
    // than to us. Kernels before 5.11 lack the flag; everything of ours is marked anyway.
    // SAFETY: no memory is involved; the descriptors stay open until exec.
    unsafe { libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    account.map_or(Ok(()), become_user)
}

/// Groups first and the user last, because after that nothing else is allowed.
fn become_user(account: &Account) -> io::Result<()> {
    // SAFETY: the pointer and the length are of one slice.
    checked(unsafe { libc::setgroups(account.groups.len(), account.groups.as_ptr()) })?;
    // SAFETY: no memory is involved.
    checked(unsafe { libc::setresgid(account.owner.gid, account.owner.gid, account.owner.gid) })?;
    // SAFETY: no memory is involved.
    checked(unsafe { libc::setresuid(account.owner.uid, account.owner.uid, account.owner.uid) })
}

fn checked(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The environment as the user's own: what sudo says of itself is taken out.
fn set_environment(process: &mut Command, account: &Account) {
    for name in ["SUDO_UID", "SUDO_GID", "SUDO_USER", "SUDO_COMMAND", "MAIL"] {
        process.env_remove(name);
    }
    let variables = [
        ("HOME", &account.home),
        ("USER", &account.name),
        ("LOGNAME", &account.name),
        ("SHELL", &account.shell),
    ];
    for (variable, value) in variables {
        match value {
            Some(value) => process.env(variable, value),
            None => process.env_remove(variable),
        };
    }
}

/// The file of a program. It is looked for before the recording, so that a mistyped name is told
/// first.
pub(super) fn find_program(program: &OsStr, path: Option<&OsStr>) -> Result<PathBuf> {
    if program.as_encoded_bytes().contains(&b'/') {
        let file = Path::new(program);
        if !file.exists() {
            bail!("there is no program {}", file.display());
        }
        if !is_executable(file) {
            bail!("{} is not executable", file.display());
        }
        return Ok(file.to_owned());
    }
    let files = path.into_iter().flat_map(std::env::split_paths).map(|folder| folder.join(program));
    files.into_iter().find(|file| is_executable(file)).with_context(|| {
        format!(
            "there is no program {} in PATH: write its full path (sudo may use another PATH)",
            program.display()
        )
    })
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// The exit code that stands for how a command ended, as shells tell it.
pub(crate) fn exit_code(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, Some(signal)) => 128 + signal as u8,
        (None, None) => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, channel};
    use std::time::Duration;

    fn shell(script: &str) -> (Gated, Receiver<StopEvent>) {
        let (sender, receiver) = channel();
        let command = ["/bin/sh", "-c", script].map(OsString::from);
        (prepare(&command, None, true, sender).unwrap().unwrap(), receiver)
    }

    fn ended(receiver: &Receiver<StopEvent>) -> io::Result<ExitStatus> {
        match receiver.recv_timeout(Duration::from_secs(20)).unwrap() {
            StopEvent::CommandEnded(status) => status,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_command_runs_only_when_the_gate_opens() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ran");
        let (gated, receiver) = shell(&format!("echo $$ > {}; exit 7", file.display()));
        let pid = gated.pid();
        assert!(receiver.recv_timeout(Duration::from_millis(50)).is_err());
        assert!(!file.exists());
        gated.start();
        assert_eq!(exit_code(ended(&receiver).unwrap()), 7);
        assert_eq!(
            std::fs::read_to_string(file).unwrap().trim(),
            pid.to_string(),
            "the filter knew its id"
        );
    }

    #[test]
    fn a_gate_that_never_opens_leaves_no_process() {
        let (gated, receiver) = shell("exit 0");
        let pid = gated.pid();
        drop(gated);
        assert_eq!(ended(&receiver).unwrap_err().raw_os_error(), Some(libc::ECANCELED));
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn a_command_that_a_signal_ends_has_the_status_that_shells_give() {
        let (gated, receiver) = shell("kill -TERM $$");
        gated.start();
        assert_eq!(exit_code(ended(&receiver).unwrap()), 128 + 15);
    }

    #[test]
    fn no_descriptor_of_ours_reaches_the_command() {
        let leaked = tempfile::tempfile().unwrap();
        // SAFETY: the descriptor is open; the call only clears its close-on-exec flag.
        unsafe { libc::fcntl(leaked.as_raw_fd(), libc::F_SETFD, 0) };
        let (gated, receiver) = shell(&format!("test ! -e /proc/$$/fd/{}", leaked.as_raw_fd()));
        gated.start();
        assert_eq!(exit_code(ended(&receiver).unwrap()), 0);
    }

    #[test]
    fn root_starts_the_command_as_the_user_behind_sudo() {
        // SAFETY: no preconditions.
        if unsafe { libc::geteuid() } != 0 {
            return; // Only root can become another user.
        }
        let (sender, receiver) = channel();
        let script =
            r#"test "$(id -u) $(id -g) $(id -G)" = "4321 1234 1234" && test -z "$SUDO_UID$HOME""#;
        let command = ["/bin/sh", "-c", script].map(OsString::from);
        let gated =
            prepare(&command, Some(Owner { uid: 4321, gid: 1234 }), true, sender).unwrap().unwrap();
        gated.start();
        assert_eq!(exit_code(ended(&receiver).unwrap()), 0);
    }

    #[test]
    fn a_program_that_is_not_there_is_told_before_anything_begins() {
        let (sender, _receiver) = channel();
        let missing = [OsString::from("no-such-program-anywhere")];
        let message = prepare(&missing, None, false, sender).unwrap_err().to_string();
        assert!(message.contains("no-such-program-anywhere in PATH"), "{message}");
        assert!(
            find_program("/etc/passwd".as_ref(), None)
                .unwrap_err()
                .to_string()
                .contains("not executable")
        );
        assert!(
            find_program("/nowhere/x".as_ref(), None)
                .unwrap_err()
                .to_string()
                .contains("no program")
        );
    }
}
