//! Tells the network that viewers may connect.

use anyhow::{Context, Result};
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::time::{Duration, Instant};
use syscollect_tracy_protocol::announcement;

/// Where viewers listen for it.
const PORT: u16 = 8086;
/// How often.
const EVERY: Duration = Duration::from_secs(3);

/// Sends announcements.
pub(super) struct Announcer {
    socket: UdpSocket,
    port: u16,
    begun: Instant,
    last: Option<Instant>,
}

impl Announcer {
    pub(super) fn new(port: u16) -> Result<Self> {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0));
        let socket = socket.context("cannot make a socket for announcements")?;
        socket.set_broadcast(true).context("cannot broadcast announcements")?;
        socket.set_nonblocking(true).context("cannot broadcast announcements")?;
        Ok(Self { socket, port, begun: Instant::now(), last: None })
    }

    /// Announces it, if it is time for that and no viewer is there.
    pub(super) fn step(&mut self, is_watched: bool) {
        let now = Instant::now();
        let is_due = self.last.is_none_or(|last| now - last >= EVERY);
        if is_watched || !is_due {
            return;
        }
        self.last = Some(now);
        self.send(i32::try_from((now - self.begun).as_secs()).unwrap_or(i32::MAX));
    }

    fn send(&self, seconds: i32) {
        let bytes = announcement(self.port, seconds, "syscollect");
        // Without a network nobody hears it; that ends nothing.
        let everybody = SocketAddrV4::new(Ipv4Addr::BROADCAST, PORT);
        let _ = self.socket.send_to(&bytes, everybody);
    }
}

impl Drop for Announcer {
    fn drop(&mut self) {
        // It is gone.
        self.send(-1);
    }
}
