//! Descriptors sent with the bytes that say what they are: to a process of the recorder's own, and
//! to a flight recorder by whoever asks it for something.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, SocketType, sockopt,
};

/// Most descriptors of one message of the recorder's own.
const MOST: usize = 2;
/// Most that the kernel takes of anybody (`SCM_MAX_FD`). There is room for all of them: what has
/// none is closed by the kernel within the call, for as long as whoever sent it wants that to take.
const MOST_OF_ANYBODY: u32 = 253;
/// Bytes for those, and for who sent them.
// SAFETY: both compute.
const CONTROL_BYTES: usize = unsafe {
    libc::CMSG_SPACE(MOST_OF_ANYBODY * size_of::<libc::c_int>() as u32)
        + libc::CMSG_SPACE(size_of::<libc::ucred>() as u32)
} as usize;

/// Sends these descriptors, two at most, with the first of the bytes; how many bytes were sent.
///
/// # Errors
///
/// The other end is closed, or there is no room for the message.
pub fn send(socket: &impl AsFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let sent = rustix::net::sendmsg(
        socket,
        &[IoSlice::new(bytes)],
        &mut control,
        // The standard library asks for no signal either.
        SendFlags::NOSIGNAL,
    )?;
    Ok(sent)
}

/// Receives what [`send`] sent, and how many bytes came; 0 at the end. A descriptor is absent that
/// this process had no room for.
///
/// # Errors
///
/// Nothing can be received.
pub(crate) fn receive(socket: &impl AsFd, bytes: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let received =
        rustix::net::recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut control, flags)?.bytes;
    let descriptors = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    Ok((received, descriptors.flatten().collect()))
}

/// A datagram, and who sent it.
#[derive(Debug)]
pub struct Datagram {
    /// Its bytes that there was room for.
    pub length: usize,
    /// The number of the user that the process had that sent it: the kernel says so, of whom only
    /// root may say that it is another one. Absent unless [`ask_for_senders`] came before.
    pub sender: Option<u32>,
    /// What came with it.
    pub descriptors: Vec<OwnedFd>,
}

/// From now on datagrams come with their senders.
///
/// # Errors
///
/// The system's.
pub fn ask_for_senders(socket: &impl AsFd) -> io::Result<()> {
    Ok(sockopt::set_socket_passcred(socket, true)?)
}

/// Receives what anybody sent, with all descriptors that this process has room for.
///
/// # Errors
///
/// Nothing can be received.
pub fn receive_datagram(socket: &impl AsFd, bytes: &mut [u8]) -> io::Result<Datagram> {
    let mut control = [0_u64; CONTROL_BYTES.div_ceil(8)];
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: all zeros are a header of a message, of nothing.
    let mut head: libc::msghdr = unsafe { std::mem::zeroed() };
    (head.msg_iov, head.msg_iovlen) = (&raw mut part, 1);
    head.msg_control = control.as_mut_ptr().cast();
    head.msg_controllen = size_of_val(&control) as _;
    // By hand, as a sender of another PID namespace has PID 0, which `rustix` has no value for.
    // SAFETY: the header says how long what it leads to is, and all of it lives until the end.
    let received =
        unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &raw mut head, libc::MSG_CMSG_CLOEXEC) };
    let length = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
    let mut datagram = Datagram { length, sender: None, descriptors: Vec::new() };
    // SAFETY: the kernel wrote these messages and says how long each is; the descriptors in them
    // are this process's from now on, and nobody else's.
    unsafe {
        let mut next = libc::CMSG_FIRSTHDR(&raw const head);
        while let Some(message) = next.as_ref() {
            let data = libc::CMSG_DATA(next);
            let whole: usize = message.cmsg_len as _;
            let length = whole.saturating_sub(libc::CMSG_LEN(0) as usize);
            match (message.cmsg_level, message.cmsg_type) {
                (libc::SOL_SOCKET, libc::SCM_RIGHTS) => {
                    let first = data.cast::<libc::c_int>();
                    let all = (0..length / size_of::<libc::c_int>())
                        .map(|at| OwnedFd::from_raw_fd(first.add(at).read_unaligned()));
                    datagram.descriptors.extend(all);
                }
                (libc::SOL_SOCKET, libc::SCM_CREDENTIALS) if length >= size_of::<libc::ucred>() => {
                    datagram.sender = Some(data.cast::<libc::ucred>().read_unaligned().uid);
                }
                _ => {}
            }
            next = libc::CMSG_NXTHDR(&raw const head, next);
        }
    }
    Ok(datagram)
}

/// Whether it is a Unix socket for a stream. Nothing that is asked for this can make it wait.
pub fn is_unix_stream(descriptor: &impl AsFd) -> bool {
    sockopt::socket_domain(descriptor).is_ok_and(|domain| domain == AddressFamily::UNIX)
        && sockopt::socket_type(descriptor).is_ok_and(|kind| kind == SocketType::STREAM)
}

/// Sends what there is room for now, and then the end: whoever waits for it need not wait until the
/// socket is closed. Whether all of it was sent.
pub fn send_at_once(socket: &impl AsFd, mut bytes: &[u8]) -> bool {
    // A flag of the call, as whoever has the socket, too, may change those of the socket.
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    while let Some(rest) = rustix::net::send(socket, bytes, flags)
        .ok()
        .filter(|sent| *sent > 0)
        .and_then(|sent| bytes.get(sent..))
    {
        bytes = rest;
        if bytes.is_empty() {
            break;
        }
    }
    // It is closed all the same where that fails.
    let _ = rustix::net::shutdown(socket, Shutdown::Write);
    bytes.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::{UnixDatagram, UnixStream};

    #[test]
    fn all_descriptors_that_anybody_can_send_come_and_who_sent_them() {
        let (ours, theirs) = UnixDatagram::pair().unwrap();
        ask_for_senders(&ours).unwrap();
        let descriptors = vec![theirs.as_fd(); MOST_OF_ANYBODY as usize];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
        let parts = [IoSlice::new(b"request")];
        rustix::net::sendmsg(&theirs, &parts, &mut control, SendFlags::empty()).unwrap();
        let mut bytes = [0; 16];
        let datagram = receive_datagram(&ours, &mut bytes).unwrap();
        assert_eq!(&bytes[..datagram.length], b"request");
        assert_eq!(datagram.descriptors.len(), descriptors.len());
        assert_eq!(datagram.sender, Some(rustix::process::getuid().as_raw()));

        theirs.send(b"").unwrap();
        let datagram = receive_datagram(&ours, &mut bytes).unwrap();
        assert_eq!((datagram.length, datagram.descriptors.len()), (0, 0));
        assert_eq!(datagram.sender, Some(rustix::process::getuid().as_raw()));
    }

    #[test]
    fn a_unix_stream_is_told_from_all_else() {
        let (datagram, _) = UnixDatagram::pair().unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let (reader, _) = std::io::pipe().unwrap();
        assert!(is_unix_stream(&UnixStream::pair().unwrap().0));
        assert!(!is_unix_stream(&datagram) && !is_unix_stream(&listener));
        assert!(!is_unix_stream(&reader));
    }
}
