//! Processes of the recorder's own, for what it must not do itself, or must outlive it.
//!
//! Each is forked while the recorder is small and has few threads, in a session of its own, blocks
//! all signals, and keeps no descriptor but the three that every program expects and one socket, to
//! the recorder. What it may do it gives up itself.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::net::Shutdown;
use std::os::fd::{AsRawFd as _, FromRawFd as _, RawFd};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};

use syscollect_untrusted_files::FixedPath;

use crate::usage;

/// Where the socket lies: behind the three that every program expects.
const SOCKET: RawFd = 3;
/// Descriptors from here on are free while others are moved.
const OUT_OF_THE_WAY: RawFd = 10;

/// A process of the recorder's own, and the socket that leads to it.
#[derive(Debug)]
pub(crate) struct ChildProcess {
    pub(crate) socket: UnixStream,
    pub(crate) pid: libc::pid_t,
}

impl ChildProcess {
    /// Starts one that does this `work` and ends. To be called while this process is small and has
    /// few threads: the new one is its copy. Its name is not the recorder's: who ends all processes
    /// of that name shall not end this one.
    ///
    /// # Errors
    ///
    /// No process or no socket can be had.
    pub(crate) fn start(
        name: &CStr,
        work: impl FnOnce(UnixStream) -> io::Result<()>,
    ) -> io::Result<Self> {
        let (socket, of_child) = UnixStream::pair()?;
        let null = FixedPath::new("/dev/null").open_with(File::options().read(true).write(true))?;
        // What is blocked before stays blocked in the child from its first instruction on.
        let before = block_all_signals()?;
        // SAFETY: the child runs `run`, which never returns, so that no destructor of this
        // process's state runs twice. It allocates and may start a thread, which C libraries allow
        // in a child (they take their own locks around the fork), and touches no other lock that a
        // thread of this process may have held.
        let pid = match unsafe { libc::fork() } {
            0 => run(name, &of_child, &null, work),
            -1 => Err(io::Error::last_os_error()),
            pid => Ok(pid),
        };
        set_signals(&before)?;
        Ok(Self { socket, pid: pid? })
    }

    /// Tells it that there is no more work, and waits for its end; the CPU time that it used,
    /// nanoseconds.
    pub(crate) fn end(&self) -> Option<u64> {
        // It reads the end of its work.
        let _ = self.socket.shutdown(Shutdown::Write);
        wait_for(self.pid)
    }
}

/// Does the work and ends this process.
fn run(
    name: &CStr,
    socket: &UnixStream,
    null: &File,
    work: impl FnOnce(UnixStream) -> io::Result<()>,
) -> ! {
    let ended = catch_unwind(AssertUnwindSafe(|| work(alone(name, socket, null)?)));
    let code = i32::from(!matches!(ended, Ok(Ok(()))));
    // SAFETY: ends this process and runs nothing of the recorder's, whose copy this is.
    unsafe { libc::_exit(code) }
}

/// Leaves the recorder's terminal and session, its folder, and its files; the socket.
fn alone(name: &CStr, socket: &UnixStream, null: &File) -> io::Result<UnixStream> {
    rustix::process::chdir("/")?;
    // SAFETY: no memory is involved; this process leads no group, being a child that was just made.
    unsafe { libc::setsid() };
    // SAFETY: the name ends with NUL.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    let [socket, null] = [socket.as_raw_fd(), null.as_raw_fd()].map(|fd| {
        // SAFETY: no memory is involved.
        unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, OUT_OF_THE_WAY) }
    });
    for (from, to) in [(null, 0), (null, 1), (null, 2), (socket, SOCKET)] {
        // SAFETY: no memory is involved. What the number stood for belongs to the recorder, which
        // has its own: nothing that owned it here is used or dropped any more.
        if unsafe { libc::dup2(from, to) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    // SAFETY: the same holds for all others.
    if unsafe { libc::syscall(libc::SYS_close_range, SOCKET + 1, u32::MAX, 0) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the socket was put there, and nobody else owns that number.
    Ok(unsafe { UnixStream::from_raw_fd(SOCKET) })
}

/// Waits for a child; the CPU time that it used, nanoseconds.
fn wait_for(pid: libc::pid_t) -> Option<u64> {
    let mut status = 0;
    loop {
        // SAFETY: rusage is plain numbers, for which zero is valid.
        let mut used: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: both may be written; the child is ours, and nobody else waits for it.
        if unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut used) } == pid {
            return Some(usage::time_of(&used).as_nanos() as u64);
        }
        if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return None;
        }
    }
}

/// The calling thread gets no signal any more; what was blocked before.
fn block_all_signals() -> io::Result<libc::sigset_t> {
    // SAFETY: a set of signals is plain bits, and the calls write the sets they are given.
    let result = unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut all);
        (libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before), before)
    };
    if result.0 == 0 { Ok(result.1) } else { Err(io::Error::from_raw_os_error(result.0)) }
}

/// The calling thread blocks these signals and no others.
fn set_signals(blocked: &libc::sigset_t) -> io::Result<()> {
    // SAFETY: the set is valid, and the old one is not asked for.
    let error = unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, blocked, std::ptr::null_mut()) };
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
}
