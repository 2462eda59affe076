//! Whose the other end of a connection within this machine is.
//!
//! The kernel is asked for the one socket (`NETLINK_SOCK_DIAG`, since Linux 3.3:
//! `include/uapi/linux/inet_diag.h`); how many connections there are does not matter, as it would in
//! `/proc/net/tcp`.

use rustix::fd::OwnedFd;
use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with,
};
use std::io;
use std::net::{IpAddr, SocketAddr};

/// `SOCK_DIAG_BY_FAMILY`, `NLM_F_REQUEST` and `NLMSG_ERROR`.
const BY_FAMILY: u16 = 20;
const REQUEST: u16 = 1;
const ERROR: u16 = 2;
/// Bytes of `struct nlmsghdr` and of `struct inet_diag_req_v2`.
const HEADER: usize = 16;
const QUESTION: usize = 56;
/// Where `idiag_state` and `idiag_uid` lie in `struct inet_diag_msg`.
const STATE: usize = 1;
const USER: usize = 64;
/// `TCP_ESTABLISHED` and `TCP_LISTEN` (`include/net/tcp_states.h`).
const ESTABLISHED: u8 = 1;
const LISTEN: u8 = 10;

/// A socket by its two ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct SocketEnds {
    /// Its own.
    pub(super) own: SocketAddr,
    /// That of whom it is connected to.
    pub(super) other: SocketAddr,
}

/// Asks the kernel whose sockets are.
pub(super) struct SocketOwners {
    kernel: OwnedFd,
}

impl SocketOwners {
    /// Opens the way to the kernel.
    ///
    /// # Errors
    ///
    /// Those of `socket`.
    pub(super) fn open() -> io::Result<Self> {
        let kernel = socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            Some(SOCK_DIAG),
        )?;
        Ok(Self { kernel })
    }

    /// The user that made a TCP socket of this machine.
    ///
    /// # Errors
    ///
    /// There is none with these ends, [`io::ErrorKind::NotConnected`] if it was closed, or the
    /// kernel does not tell.
    pub(super) fn user_of(&self, socket: SocketEnds) -> io::Result<u32> {
        let kernel = SocketAddrNetlink::new(0, 0);
        sendto(&self.kernel, &question(socket), SendFlags::DONTWAIT, &kernel)?;
        let mut answer = [0; 4096];
        // It has answered before `sendto` returned (net/netlink/af_netlink.c, netlink_rcv_skb).
        let (read, _) = recv(&self.kernel, &mut answer[..], RecvFlags::DONTWAIT)?;
        user_in(&answer[..read])
    }
}

/// What is sent for a socket.
fn question(SocketEnds { own, other }: SocketEnds) -> Vec<u8> {
    let family = if own.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let mut bytes = Vec::with_capacity(HEADER + QUESTION);
    bytes.extend(((HEADER + QUESTION) as u32).to_ne_bytes());
    bytes.extend([BY_FAMILY.to_ne_bytes(), REQUEST.to_ne_bytes()].concat());
    // Its number and who asks.
    bytes.extend([0; 8]);
    // No extensions; sockets in all states.
    bytes.extend([family.as_raw() as u8, rustix::net::ipproto::TCP.as_raw().get() as u8, 0, 0]);
    bytes.extend(u32::MAX.to_ne_bytes());
    bytes.extend([own.port().to_be_bytes(), other.port().to_be_bytes()].concat());
    for end in [own, other] {
        let mut address = [0; 16];
        match end.ip() {
            IpAddr::V4(ip) => address[..4].copy_from_slice(&ip.octets()),
            IpAddr::V6(ip) => address = ip.octets(),
        }
        bytes.extend(address);
    }
    // Any interface, and no cookie (`INET_DIAG_NOCOOKIE`).
    bytes.extend([0; 4]);
    bytes.extend([0xff; 8]);
    bytes
}

/// The user that an answer tells.
fn user_in(answer: &[u8]) -> io::Result<u32> {
    let word = |at: usize| answer.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
    let kind = answer.get(4..6).and_then(|bytes| Some(u16::from_ne_bytes(bytes.try_into().ok()?)));
    let told = match kind {
        Some(BY_FAMILY) => word(HEADER + USER),
        Some(ERROR) => {
            let code = word(HEADER).map_or(0, |code| code.cast_signed().saturating_neg());
            return Err(io::Error::from_raw_os_error(code));
        }
        _ => None,
    };
    let user = told.ok_or(io::ErrorKind::InvalidData)?;
    // Of a socket that its program closed the kernel tells root, whosever it was
    // (net/core/sock.c, sock_i_uid); it is in neither of these states any more by then.
    match answer.get(HEADER + STATE) {
        Some(&(ESTABLISHED | LISTEN)) => Ok(user),
        _ => Err(io::ErrorKind::NotConnected.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_connection_from_this_process_is_its_users() {
        let owners = SocketOwners::open().unwrap();
        let (mut asked, user) = (0, rustix::process::geteuid().as_raw());
        for address in ["127.0.0.1:0", "[::1]:0"] {
            // Some machines have one of them alone.
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let at = listener.local_addr().unwrap();
            let client = TcpStream::connect(at).unwrap();
            let own = client.local_addr().unwrap();
            let ends = SocketEnds { own, other: at };
            assert_eq!(owners.user_of(ends).unwrap(), user, "{ends:?}");
            let nobody = SocketEnds { own: SocketAddr::new(own.ip(), 1), other: at };
            assert_eq!(owners.user_of(nobody).unwrap_err().kind(), io::ErrorKind::NotFound);
            asked += 1;
        }
        assert_ne!(asked, 0);
    }

    #[test]
    fn a_connection_that_was_closed_is_nobodys_although_the_kernel_says_roots() {
        let owners = SocketOwners::open().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let client = TcpStream::connect(at).unwrap();
        let ends = SocketEnds { own: client.local_addr().unwrap(), other: at };
        // Who accepts it keeps its end, so that the closed one waits for that.
        let _accepted = listener.accept().unwrap();
        assert!(owners.user_of(ends).is_ok());
        drop(client);
        assert_eq!(owners.user_of(ends).unwrap_err().kind(), io::ErrorKind::NotConnected);
    }

    #[test]
    fn what_is_no_answer_tells_nobody() {
        // It has the type of an answer, and ends before the user.
        let [own, other] = ["127.0.0.1:1", "127.0.0.1:2"].map(|end| end.parse().unwrap());
        let cut = &question(SocketEnds { own, other })[..];
        for answer in [&[][..], &[0; 200], cut] {
            assert_eq!(user_in(answer).unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
    }
}
