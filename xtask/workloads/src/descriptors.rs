//! A service that takes descriptors from whoever connects, and who sends it what looks like memory
//! that it shares with a recorder.

use std::fs;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};

use anyhow::{Context, Result, ensure};

use crate::hostile::{Arena, empty_memfd};
use crate::instrumented::numbered;

/// Descriptors of each kind that are sent: a recorder takes 16 arenas of a process.
const SENT: usize = 20;
/// Bytes of a message's descriptors: as many as the kernel takes.
const CONTROL_BYTES: usize = 1056;

/// Takes the descriptors of one who connects to `socket`, keeps them, and then marks zones as
/// [`numbered`] does.
pub(crate) fn serve(socket: &str, file: &str, seconds: u64) -> Result<()> {
    let listener = UnixListener::bind(socket)?;
    // Anybody may ask it for something.
    fs::set_permissions(socket, fs::Permissions::from_mode(0o777))?;
    let (connection, _) = listener.accept()?;
    let received = receive(&connection)?;
    println!(r#"{{"descriptors":{}}}"#, received.len());
    let done = numbered(file, seconds);
    drop(received);
    done
}

/// Sends that service empty files that are called like arenas, and arenas that say to be its own.
pub(crate) fn send_arenas(socket: &str, service: u32) -> Result<()> {
    let empty = (0..SENT).map(|_| empty_memfd()).collect::<Result<Vec<_>>>()?;
    let arenas = (0..SENT).map(|_| Arena::of(service)).collect::<Result<Vec<_>>>()?;
    let empty = empty.iter().map(AsRawFd::as_raw_fd);
    let all: Vec<RawFd> = empty.chain(arenas.iter().map(Arena::descriptor)).collect();
    send_with(&UnixStream::connect(socket)?, &[0], &all).context("cannot send descriptors")
}

/// A message, and room for what goes with it.
struct Envelope {
    bytes: Vec<u8>,
    part: libc::iovec,
    /// In words, for the alignment of what lies there.
    control: [u64; CONTROL_BYTES / 8],
}

impl Envelope {
    fn new(bytes: &[u8]) -> Box<Self> {
        let part = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: bytes.len() };
        let (bytes, control) = (bytes.to_vec(), [0; CONTROL_BYTES / 8]);
        let mut envelope = Box::new(Self { bytes, part, control });
        envelope.part.iov_base = envelope.bytes.as_mut_ptr().cast();
        envelope
    }

    /// With so many bytes of control data.
    fn header(&mut self, control: usize) -> libc::msghdr {
        // SAFETY: plain numbers and pointers, for which zero is valid.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_iov = &raw mut self.part;
        header.msg_iovlen = 1;
        header.msg_control = self.control.as_mut_ptr().cast();
        header.msg_controllen = control;
        header
    }
}

/// Sends descriptors with these bytes.
pub(crate) fn send_with(
    socket: &impl AsRawFd,
    message: &[u8],
    descriptors: &[RawFd],
) -> io::Result<()> {
    let bytes = size_of_val(descriptors) as u32;
    let mut envelope = Envelope::new(message);
    // SAFETY: computes with numbers.
    let (space, length) = unsafe { (libc::CMSG_SPACE(bytes), libc::CMSG_LEN(bytes)) };
    assert!(space as usize <= CONTROL_BYTES, "too many descriptors for a message");
    let header = envelope.header(space as usize);
    // SAFETY: the header's control data has room for one header and these descriptors, and all that
    // it points to lives through the call.
    let sent = unsafe {
        let control = libc::CMSG_FIRSTHDR(&raw const header);
        (*control).cmsg_level = libc::SOL_SOCKET;
        (*control).cmsg_type = libc::SCM_RIGHTS;
        (*control).cmsg_len = length as usize;
        std::ptr::copy_nonoverlapping(
            descriptors.as_ptr().cast(),
            libc::CMSG_DATA(control),
            bytes as usize,
        );
        libc::sendmsg(socket.as_raw_fd(), &raw const header, 0)
    };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn receive(socket: &UnixStream) -> Result<Vec<OwnedFd>> {
    let mut envelope = Envelope::new(&[0]);
    let mut header = envelope.header(CONTROL_BYTES);
    // SAFETY: all that the header points to may be written, and lives through the call.
    let received =
        unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, libc::MSG_CMSG_CLOEXEC) };
    ensure!(received == 1, "recvmsg: {}", io::Error::last_os_error());
    // SAFETY: the kernel has filled the control data, and says how much of it.
    let (data, count) = unsafe {
        let control = libc::CMSG_FIRSTHDR(&raw const header);
        ensure!(!control.is_null(), "no descriptors came");
        let bytes = (*control).cmsg_len - libc::CMSG_LEN(0) as usize;
        (libc::CMSG_DATA(control).cast::<RawFd>(), bytes / size_of::<RawFd>())
    };
    // SAFETY: so many descriptors lie there, each of which is new and nobody else's.
    Ok((0..count)
        .map(|at| unsafe { OwnedFd::from_raw_fd(data.add(at).read_unaligned()) })
        .collect())
}
