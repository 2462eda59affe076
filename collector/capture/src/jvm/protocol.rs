//! HotSpot's way of taking commands ("attach"), spoken with the rights of its user.
//!
//! Who has a command makes an empty file that says so (`.attach_pidPID`, in the machine's working
//! folder or its `/tmp`) and sends SIGQUIT, once: the machine opens a socket (`.java_pidPID`, in
//! its `/tmp`), which stays. A command is a version, a name and three arguments, each with a zero
//! behind it; the answer a number in a line, 0 where it was done, and text behind it, up to the
//! end. The numbers are those by which the machine knows itself, the files have to belong to its
//! user, and so has who connects.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::answer::Answer;

const COMMAND: &[u8] = b"1\0jcmd\0Compiler.perfmap\0\0\0";
/// What a machine says that has no such command.
const UNKNOWN: &[u8] = b"Unknown diagnostic command";
/// An answer is a few lines.
const ANSWER_MAX: u64 = 64 << 10;
/// How often to see whether the socket is there.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// A machine, as the one who asks it sees it.
#[derive(Debug)]
pub(super) struct Machine {
    /// Its `/tmp` and its working folder, as places.
    pub(super) tmp: File,
    pub(super) folder: Option<File>,
    /// The number by which it knows itself, and by which this process knows it.
    pub(super) own_pid: u32,
    pub(super) pid: u32,
    /// Its user, whose rights this process has.
    pub(super) uid: u32,
}

impl Machine {
    /// Has it write its perf map; `signal` sends SIGQUIT.
    pub(super) fn ask(&self, signal: impl FnOnce() -> io::Result<()>, limit: Duration) -> Answer {
        let end = Instant::now() + limit;
        let connected = self.connect_within(signal, end);
        connected.map_or_else(|why| why, |stream| converse(stream, end).unwrap_or(Answer::Silent))
    }

    /// The socket, which the machine opens if it has none.
    fn connect_within(
        &self,
        signal: impl FnOnce() -> io::Result<()>,
        end: Instant,
    ) -> Result<UnixStream, Answer> {
        if let Some(stream) = self.connect()? {
            return Ok(stream);
        }
        // Taken away when this returns.
        let _asks = self.make_request()?;
        signal().map_err(|error| match error.raw_os_error() {
            Some(libc::ESRCH) => Answer::Gone,
            _ => Answer::NotPermitted,
        })?;
        while Instant::now() < end {
            if let Some(stream) = self.connect()? {
                return Ok(stream);
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        Err(Answer::Silent)
    }

    /// The file that asks for the socket; `None` if one was there.
    fn make_request(&self) -> Result<Option<RequestFile<'_>>, Answer> {
        let mut outcome = Answer::OutOfReach;
        for folder in [Some(&self.tmp), self.folder.as_ref()].into_iter().flatten() {
            let name = name(".attach_pid", self.own_pid);
            match RequestFile::make(folder, name) {
                Ok(file) => return Ok(Some(file)),
                Err((name, error)) if error.kind() == io::ErrorKind::AlreadyExists => {
                    // Somebody else asks, or did and was killed: it does as well.
                    match stat(folder, &name) {
                        Ok(found) if found.st_uid == self.uid => return Ok(None),
                        _ => outcome = Answer::Occupied,
                    }
                }
                Err(_) => {}
            }
        }
        Err(outcome)
    }

    /// Connects to the socket; `None` if there is none yet, or nobody listens to it.
    fn connect(&self) -> Result<Option<UnixStream>, Answer> {
        let name = name(".java_pid", self.own_pid);
        let flags = libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        let Some(socket) = open_at(&self.tmp, &name, flags).ok() else { return Ok(None) };
        let found = stat(&socket, c"").map_err(|_| Answer::OutOfReach)?;
        if found.st_mode & libc::S_IFMT != libc::S_IFSOCK || found.st_uid != self.uid {
            return Err(Answer::Occupied);
        }
        // That very socket, whatever lies at its name by now.
        let path = syscollect_untrusted_files::path_of(&socket);
        match connect(&path) {
            Ok(stream) if peer(&stream).is_ok_and(|peer| peer == self.pid) => Ok(Some(stream)),
            Ok(_) => Err(Answer::Occupied),
            Err(error) => match error.raw_os_error() {
                // An ended machine's, or one with too many who ask.
                Some(libc::ECONNREFUSED | libc::EAGAIN | libc::ENOENT) => Ok(None),
                _ => Err(Answer::OutOfReach),
            },
        }
    }
}

/// Sends the command and reads the answer to its end, behind which it has been done.
fn converse(mut stream: UnixStream, end: Instant) -> io::Result<Answer> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(left_until(end)?))?;
    stream.write_all(COMMAND)?;
    let (mut answer, mut some) = (Vec::new(), [0; 4096]);
    loop {
        stream.set_read_timeout(Some(left_until(end)?))?;
        match stream.read(&mut some) {
            Ok(0) => return Ok(meaning(&answer)),
            Ok(count) => answer.extend_from_slice(&some[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                return Ok(Answer::Senseless);
            }
            Err(error) => return Err(error),
        }
        if answer.len() as u64 > ANSWER_MAX {
            return Ok(Answer::Senseless);
        }
    }
}

fn left_until(end: Instant) -> io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

fn meaning(answer: &[u8]) -> Answer {
    let (number, text) = match answer.iter().position(|byte| *byte == b'\n') {
        Some(at) => answer.split_at(at),
        None => (answer, &b""[..]),
    };
    match std::str::from_utf8(number).ok().and_then(|number| number.parse::<i32>().ok()) {
        Some(0) => Answer::Written,
        Some(_) if text.windows(UNKNOWN.len()).any(|some| some == UNKNOWN) => {
            Answer::UnknownCommand
        }
        Some(_) => Answer::Failed,
        None => Answer::Senseless,
    }
}

/// The file that asks for the socket, as long as that is waited for.
struct RequestFile<'a> {
    folder: &'a File,
    name: CString,
}

impl<'a> RequestFile<'a> {
    fn make(folder: &'a File, name: CString) -> Result<Self, (CString, io::Error)> {
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
        match open_at(folder, &name, flags) {
            Ok(_) => Ok(Self { folder, name }),
            Err(error) => Err((name, error)),
        }
    }
}

impl Drop for RequestFile<'_> {
    fn drop(&mut self) {
        // SAFETY: the name is a C string that lives through the call.
        unsafe { libc::unlinkat(self.folder.as_raw_fd(), self.name.as_ptr(), 0) };
    }
}

fn name(kind: &str, own_pid: u32) -> CString {
    CString::new(format!("{kind}{own_pid}")).unwrap_or_default()
}

#[expect(clippy::disallowed_methods, reason = "/tmp of a Java machine, as its user, without links")]
fn open_at(folder: &File, name: &CString, flags: libc::c_int) -> io::Result<File> {
    const OWNERS: libc::c_uint = 0o600;
    // SAFETY: the name is a C string that lives through the call.
    let descriptor = unsafe { libc::openat(folder.as_raw_fd(), name.as_ptr(), flags, OWNERS) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is open, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }.into())
}

/// What is known of what lies there, and of `folder` itself without a name. No link is followed.
fn stat(folder: &File, name: &std::ffi::CStr) -> io::Result<libc::stat> {
    let mut found = MaybeUninit::zeroed();
    let flags = libc::AT_EMPTY_PATH | libc::AT_SYMLINK_NOFOLLOW;
    // SAFETY: the name is a C string, and `found` has room for the result.
    let result =
        unsafe { libc::fstatat(folder.as_raw_fd(), name.as_ptr(), found.as_mut_ptr(), flags) };
    // SAFETY: zeroed memory is a valid stat, and the call has filled it in where it succeeded.
    if result == 0 { Ok(unsafe { found.assume_init() }) } else { Err(io::Error::last_os_error()) }
}

/// Connects without waiting until somebody accepts.
fn connect(path: &std::path::Path) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket.into())
}

/// Who listens at the other end.
fn peer(stream: &UnixStream) -> io::Result<u32> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut size = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: both may be written, and `size` is that of `peer`.
    let result = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut size,
        )
    };
    if result == 0 { Ok(peer.pid.cast_unsigned()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
#[path = "protocol_tests.rs"]
mod tests;
