//! What a service manager is told (sd_notify(3)): that the recorder runs, and that it is alive.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

/// Tells the service manager, where one asked for it.
pub(super) struct ServiceNotifier {
    socket: Option<UnixDatagram>,
    /// How often it wants to hear of us, and when it last did.
    watchdog: Option<Duration>,
    last: Instant,
}

impl ServiceNotifier {
    /// By NOTIFY_SOCKET and WATCHDOG_USEC. To be made before sockets cannot be made any more.
    pub(super) fn from_environment() -> Self {
        let socket = std::env::var_os("NOTIFY_SOCKET").and_then(|name| connected(name.as_bytes()));
        let watchdog = std::env::var("WATCHDOG_USEC").ok().and_then(|time| time.parse().ok());
        // Half of the time is what the manual advises.
        let watchdog = watchdog.map(|time: u64| Duration::from_micros(time / 2));
        Self { socket, watchdog, last: Instant::now() }
    }

    /// Events are recorded.
    pub(super) fn ready(&self) {
        self.tell("READY=1");
    }

    /// The recorder ends.
    pub(super) fn stopping(&self) {
        self.tell("STOPPING=1");
    }

    /// The recorder is alive; to be called more often than the watchdog barks.
    pub(super) fn alive(&mut self) {
        if self.watchdog.is_some_and(|every| self.last.elapsed() >= every) {
            self.last = Instant::now();
            self.tell("WATCHDOG=1");
        }
    }

    fn tell(&self, state: &str) {
        if let Some(socket) = &self.socket {
            // A manager that does not listen is none to be told.
            let _ = socket.send(state.as_bytes());
        }
    }
}

/// A socket that leads to that name; one that begins with @ is in the abstract name space.
fn connected(name: &[u8]) -> Option<UnixDatagram> {
    let address = match name.split_first()? {
        (b'@', rest) => SocketAddr::from_abstract_name(rest).ok()?,
        _ => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(name)).ok()?,
    };
    let socket = UnixDatagram::unbound().ok()?;
    socket.set_nonblocking(true).ok()?;
    socket.connect_addr(&address).ok()?;
    Some(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manager_hears_that_the_recorder_is_ready_and_alive() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        let socket = connected(path.as_os_str().as_bytes());
        assert!(socket.is_some());
        let watchdog = Some(Duration::ZERO);
        let mut notifier = ServiceNotifier { socket, watchdog, last: Instant::now() };
        notifier.ready();
        notifier.alive();
        notifier.stopping();
        let heard = || {
            let mut buffer = [0; 64];
            let length = manager.recv(&mut buffer).unwrap();
            String::from_utf8(buffer[..length].to_vec()).unwrap()
        };
        assert_eq!([heard(), heard(), heard()], ["READY=1", "WATCHDOG=1", "STOPPING=1"]);
    }

    #[test]
    fn without_a_manager_nobody_is_told() {
        assert!(connected(b"").is_none() && connected(b"/nowhere/at/all").is_none());
    }
}
