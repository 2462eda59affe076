//! The socket on which a flight recorder is asked for snapshots.
//!
//! It takes datagrams, one request each, which come with a socket for the answer: nobody holds a
//! connection, and a request costs at most [`MOST_BYTES`] of memory and two descriptors. Requests
//! without end are heard at a [pace](super::hearing_pace). Who may
//! ask is who may write to the socket's file: root, and the members of a group. Who of them asks is
//! what the kernel says of whoever sent the datagram. What it says of the answer's socket is who
//! made that, and a socket that root made may be in somebody else's hands (a service's standard
//! output).

use super::asked::{AnswerSocket, Asked, Asker};
use super::closing::{Brought, Closer};
use super::hearing_pace::HearingPace;
use super::message::{MOST_BYTES, MOST_REASON, Request};
use super::socket_entry::SocketEntry;
use anyhow::{Context, Result, bail};
use std::cell::Cell;
use std::ffi::CString;
use std::fs::Permissions;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use syscollect_capture::{Datagram, ask_for_senders, receive_datagram};

/// How long the end of the recorder may go unnoticed.
const LOOK_UP: Duration = Duration::from_millis(200);

/// The socket.
pub(super) struct ControlSocket {
    socket: UnixDatagram,
    closer: Closer,
    pace: Cell<HearingPace>,
}

/// Its file, which goes with this.
pub(super) struct SocketFile(PathBuf);

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
        ask_for_senders(&socket).context("cannot learn who asks")?;
        // Until here its owner alone may write to it, as umask wants it.
        let mode = Permissions::from_mode(if group.is_some() { 0o660 } else { 0o600 });
        // Whoever may change the folder may have put a link to something else there.
        let permitted = SocketEntry::open_unlinked(path).and_then(|entry| {
            std::os::unix::fs::chown(entry.path(), None, group)?;
            std::fs::set_permissions(entry.path(), mode)
        });
        permitted.with_context(|| format!("cannot give {} its rights", path.display()))?;
        socket.set_read_timeout(Some(LOOK_UP)).context("cannot listen")?;
        let closer = Closer::start().context("cannot start a thread")?;
        let pace = Cell::new(HearingPace::new());
        Ok((Self { socket, closer, pace }, file))
    }

    /// The next request, if one comes soon. What is none is answered here.
    ///
    /// # Errors
    ///
    /// The socket is of no use any more.
    pub(super) fn next(&self) -> io::Result<Option<Asked>> {
        if !self.closer.has_room(LOOK_UP) {
            return Ok(None);
        }
        let mut bytes = [0; MOST_BYTES + 1];
        let Datagram { length, sender, descriptors } =
            match receive_datagram(&self.socket, &mut bytes) {
                Ok(received) => received,
                Err(error) if is_no_request(&error) => return Ok(None),
                Err(error) => return Err(error),
            };
        let mut pace = self.pace.get();
        std::thread::sleep(pace.heard(descriptors.len(), Instant::now()));
        self.pace.set(pace);
        let mut descriptors = descriptors.into_iter();
        let answer = descriptors.next().and_then(|socket| AnswerSocket::of(socket, &self.closer));
        let file = descriptors.next().map(|file| Brought::new(file, &self.closer));
        let are_too_many = descriptors.len() > 0;
        descriptors.for_each(|more| self.closer.close(more));
        let Some(answer) = answer else { return Ok(None) };
        let request = match are_too_many {
            true => Err("more than a socket and a file came with the request".into()),
            false => request(bytes.get(..length).unwrap_or_default()),
        };
        match request {
            Ok(request) => Ok(Some(Asked { asker: Asker::of(sender), request, file, answer })),
            Err(why) => {
                answer.refuse(&why);
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

/// What is asked for.
fn request(bytes: &[u8]) -> Result<Request, String> {
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
    Ok(request)
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
    use super::super::message::Answer;
    use super::*;
    use std::fs::File;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::{AsFd, AsRawFd};
    use std::os::unix::net::UnixStream;
    use syscollect_capture::send_descriptors;

    struct SocketUser {
        folder: tempfile::TempDir,
        control: ControlSocket,
        file: SocketFile,
    }

    impl SocketUser {
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
        let asker = SocketUser::new();
        let file = tempfile::tempfile().unwrap();
        let (asked, _) = asker.ask(br#"{"ask":"snapshot","reason":"p99"}"#, Some(&file));
        let Asked { request, file, answer, .. } = asked.unwrap();
        assert_eq!(request, Request::Snapshot { last_ns: None, reason: "p99".into() });
        assert!(file.is_some());
        answer.send(&Answer::Stopping);
        let (asked, _) = asker.ask(br#"{"ask":"status"}"#, None);
        assert_eq!(asked.unwrap().request, Request::Status);
        assert!(asker.control.next().unwrap().is_none(), "nobody asks for more");
    }

    #[test]
    fn what_is_no_request_is_refused_with_a_reason() {
        let asker = SocketUser::new();
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
    }

    #[test]
    fn who_asks_is_whoever_the_kernel_says_sent_the_request() {
        let asker = SocketUser::new();
        let (asked, _) = asker.ask(br#"{"ask":"status"}"#, None);
        assert_eq!(asked.unwrap().asker, Asker::Owner);
        assert_eq!(Asker::of(Some(0)), Asker::Owner);
        assert_eq!(Asker::of(Some(4_000_000_000)), Asker::Member(4_000_000_000));
        assert!(matches!(Asker::of(None), Asker::Member(_)), "nobody is root unasked");
    }

    /// A connection with data that nobody takes, whose close waits for that for a minute.
    fn lingering() -> (TcpListener, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        stream.set_nonblocking(true).unwrap();
        while stream.write(&[0; 65536]).is_ok() {}
        stream.set_nonblocking(false).unwrap();
        let minute = libc::linger { l_onoff: 1, l_linger: 60 };
        // SAFETY: the kernel reads the value, of that size.
        let set = unsafe {
            let (value, size) = ((&raw const minute).cast(), size_of_val(&minute) as u32);
            libc::setsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, value, size)
        };
        assert_eq!(set, 0);
        (listener, stream)
    }

    #[test]
    fn descriptors_that_take_long_to_close_do_not_hold_who_listens() {
        let asker = SocketUser::new();
        let began = Instant::now();
        let mut listeners = Vec::new();
        for place in 0..2 {
            let (listener, stream) = lingering();
            listeners.push(listener);
            let (_ours, theirs) = UnixStream::pair().unwrap();
            let socket = UnixDatagram::unbound().unwrap();
            socket.connect(&asker.file.0).unwrap();
            // As the socket for the answer, and as the file.
            let mut descriptors = [theirs.as_fd(); 2];
            descriptors[place] = stream.as_fd();
            send_descriptors(&socket, br#"{"ask":"status"}"#, &descriptors).unwrap();
            drop((stream, theirs));
            assert_eq!(asker.control.next().unwrap().is_some(), place == 1);
        }
        let (asked, _) = asker.ask(br#"{"ask":"status"}"#, None);
        assert!(asked.is_some(), "others are heard");
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    }

    #[test]
    fn an_answer_that_nobody_reads_is_not_waited_for() {
        let asker = SocketUser::new();
        let (ours, theirs) = UnixStream::pair().unwrap();
        theirs.set_nonblocking(true).unwrap();
        while (&theirs).write(&[0; 65536]).is_ok() {}
        theirs.set_nonblocking(false).unwrap();
        let began = Instant::now();
        let answer = AnswerSocket::of(theirs.into(), &asker.control.closer).unwrap();
        answer.send(&Answer::Stopping);
        assert!(began.elapsed() < Duration::from_millis(900), "{:?}", began.elapsed());
        drop(ours);
    }

    #[test]
    fn two_recorders_do_not_listen_at_one_place_and_a_dead_ones_is_taken_over() {
        let asker = SocketUser::new();
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
