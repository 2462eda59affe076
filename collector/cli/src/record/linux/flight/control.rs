//! The socket on which a flight recorder is asked for snapshots.
//!
//! It takes datagrams, one request each, which come with a socket for the answer: nobody holds a
//! connection, and a request costs at most [`MOST_BYTES`] of memory and two descriptors. Who may
//! ask is who may write to the socket's file: root, and the members of a group.

use super::message::{Answer, MOST_BYTES, MOST_REASON, Request};
use anyhow::{Context, Result, bail};
use std::ffi::CString;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;
use syscollect_capture::receive_descriptors;

/// How long the end of the recorder may go unnoticed.
const LOOK_UP: Duration = Duration::from_millis(200);
/// Whoever does not read its answer is not waited for longer.
const LONGEST_ANSWER: Duration = Duration::from_secs(1);

/// The socket.
pub(super) struct ControlSocket(UnixDatagram);

/// Its file, which goes with this.
pub(super) struct SocketFile(PathBuf);

/// A request, and where its answer goes.
pub(super) struct Asked {
    pub(super) request: Request,
    pub(super) file: Option<File>,
    pub(super) answer: AnswerSocket,
}

/// Where an answer goes.
pub(super) struct AnswerSocket(UnixStream);

impl AnswerSocket {
    /// Answers; whoever has left is not answered.
    pub(super) fn send(mut self, answer: &Answer) {
        let sent = self.0.set_write_timeout(Some(LONGEST_ANSWER)).and_then(|()| {
            let answer = serde_json::to_vec(answer)?;
            self.0.write_all(&answer)
        });
        drop(sent);
    }
}

impl ControlSocket {
    /// Listens at that path; members of `group` may ask, too.
    ///
    /// # Errors
    ///
    /// Another recorder listens there, or a file lies there that is none's.
    pub(super) fn bind(path: &Path, group: Option<&str>) -> Result<(Self, SocketFile)> {
        let group = group.map(group_id).transpose()?;
        if std::fs::symlink_metadata(path).is_ok_and(|data| data.file_type().is_socket()) {
            let probe = UnixDatagram::unbound().context("cannot make a socket")?;
            if probe.connect(path).is_ok() {
                bail!(
                    "another flight recorder listens at {}: stop it with `syscollect stop`, or \
                     give this one another --socket",
                    path.display()
                );
            }
            std::fs::remove_file(path)
                .with_context(|| format!("cannot remove the socket {}", path.display()))?;
        }
        let socket = UnixDatagram::bind(path)
            .with_context(|| format!("cannot listen at {} (--socket)", path.display()))?;
        let file = SocketFile(path.to_owned());
        // Until here its owner alone may write to it, as umask wants it.
        let mode = if group.is_some() { 0o660 } else { 0o600 };
        let permitted = std::os::unix::fs::chown(path, None, group)
            .and_then(|()| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)));
        permitted.with_context(|| format!("cannot give {} its rights", path.display()))?;
        socket.set_read_timeout(Some(LOOK_UP)).context("cannot listen")?;
        Ok((Self(socket), file))
    }

    /// The next request, if one comes soon. What is none is answered here.
    ///
    /// # Errors
    ///
    /// The socket is of no use any more.
    pub(super) fn next(&self) -> io::Result<Option<Asked>> {
        let mut bytes = [0; MOST_BYTES + 1];
        let (length, descriptors) = match receive_descriptors(&self.0, &mut bytes) {
            Ok(received) => received,
            Err(error) if is_no_request(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut descriptors = descriptors.into_iter();
        let Some(answer) = descriptors.next().map(UnixStream::from) else { return Ok(None) };
        let answer = AnswerSocket(answer);
        match request(&bytes[..length], descriptors.next()) {
            Ok((request, file)) => Ok(Some(Asked { request, file, answer })),
            Err(why) => {
                answer.send(&Answer::Refused { why });
                Ok(None)
            }
        }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Who may not remove it leaves it to the next recorder.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn is_no_request(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// What is asked for, and the file that came with it.
fn request(bytes: &[u8], file: Option<OwnedFd>) -> Result<(Request, Option<File>), String> {
    if bytes.len() > MOST_BYTES {
        return Err(format!("the request has more than {MOST_BYTES} bytes"));
    }
    let request = serde_json::from_slice(bytes)
        .map_err(|error| format!("the request cannot be read ({error}): of another version?"))?;
    if let Request::Snapshot { reason, .. } = &request
        && reason.len() > MOST_REASON
    {
        return Err(format!("the reason has more than {MOST_REASON} bytes"));
    }
    let file = file.map(File::from);
    let is_regular = |file: &File| file.metadata().is_ok_and(|data| data.is_file());
    if !file.as_ref().is_none_or(is_regular) {
        return Err("a snapshot is written into a regular file only".into());
    }
    Ok((request, file))
}

/// The number of a group.
fn group_id(name: &str) -> Result<u32> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let asked = CString::new(std::ffi::OsStr::new(name).as_bytes())?;
    // SAFETY: the string ends with a zero byte. The answer is read before anything else asks: this
    // is done before the recorder has threads.
    let found = unsafe { libc::getgrnam(asked.as_ptr()).as_ref().map(|group| group.gr_gid) };
    found.with_context(|| format!("there is no group {name:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::AsFd;
    use syscollect_capture::send_descriptors;

    struct Asker {
        folder: tempfile::TempDir,
        control: ControlSocket,
        file: SocketFile,
    }

    impl Asker {
        fn new() -> Self {
            let folder = tempfile::tempdir().expect("there is room for it");
            let bound = ControlSocket::bind(&folder.path().join("socket"), None);
            let (control, file) = bound.expect("nobody listens there");
            Self { folder, control, file }
        }

        /// Asks for what these bytes say; what comes of it, and the answer if there was one.
        fn ask(&self, bytes: &[u8], file: Option<&File>) -> (Option<Asked>, String) {
            let (mut ours, theirs) = UnixStream::pair().expect("sockets can be made");
            let socket = UnixDatagram::unbound().expect("sockets can be made");
            socket.connect(&self.file.0).expect("somebody listens");
            let descriptors: Vec<_> =
                std::iter::once(theirs.as_fd()).chain(file.map(AsFd::as_fd)).collect();
            send_descriptors(&socket, bytes, &descriptors).expect("it has room");
            drop(theirs);
            let asked = self.control.next().expect("it listens");
            let mut answer = String::new();
            if asked.is_none() {
                ours.read_to_string(&mut answer).expect("it answers or closes");
            }
            (asked, answer)
        }
    }

    #[test]
    fn a_request_comes_with_its_file_and_is_answered() {
        let asker = Asker::new();
        let file = tempfile::tempfile().unwrap();
        let (asked, _) = asker.ask(br#"{"ask":"snapshot","reason":"p99"}"#, Some(&file));
        let Asked { request, file, answer } = asked.unwrap();
        assert_eq!(request, Request::Snapshot { last_ns: None, reason: "p99".into() });
        assert!(file.is_some());
        answer.send(&Answer::Stopping);
        let (asked, _) = asker.ask(br#"{"ask":"status"}"#, None);
        assert_eq!(asked.unwrap().request, Request::Status);
        assert!(asker.control.next().unwrap().is_none(), "nobody asks for more");
    }

    #[test]
    fn what_is_no_request_is_refused_with_a_reason() {
        let asker = Asker::new();
        let long = format!(r#"{{"ask":"snapshot","reason":"{}"}}"#, "x".repeat(2000));
        let longer = format!(r#"{{"ask":"snapshot","reason":"{}"}}"#, "x".repeat(9000));
        for (bytes, why) in [
            (&b"nonsense"[..], "cannot be read"),
            (br#"{"ask":"format-the-disk"}"#, "cannot be read"),
            (long.as_bytes(), "the reason has more than 1024 bytes"),
            (longer.as_bytes(), "more than 4096 bytes"),
        ] {
            let (asked, answer) = asker.ask(bytes, None);
            assert!(asked.is_none() && answer.contains(why), "{answer}");
        }
        let pipe = io::pipe().unwrap().1;
        let pipe = File::from(OwnedFd::from(pipe));
        let (asked, answer) = asker.ask(br#"{"ask":"snapshot"}"#, Some(&pipe));
        assert!(asked.is_none() && answer.contains("regular file"), "{answer}");
    }

    #[test]
    fn two_recorders_do_not_listen_at_one_place_and_a_dead_ones_is_taken_over() {
        let asker = Asker::new();
        let path = asker.folder.path().join("socket");
        let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        let message = ControlSocket::bind(&path, None).err().unwrap().to_string();
        assert!(message.contains("another flight recorder"), "{message}");
        // Killed, it leaves its file.
        let dead = asker.folder.path().join("dead");
        drop(UnixDatagram::bind(&dead).unwrap());
        let taken = ControlSocket::bind(&dead, None).unwrap();
        drop(taken);
        assert!(!dead.exists(), "its file goes with it");
        let plain = asker.folder.path().join("plain");
        std::fs::write(&plain, "precious").unwrap();
        assert!(ControlSocket::bind(&plain, None).is_err());
        assert_eq!(std::fs::read(&plain).unwrap(), b"precious");
    }
}
