//! A thread that waits for announced rings: a marked program that starts, or
//! that sees a recording begin, is to be read soon, for it may end soon.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;

use syscollect_records::RingRecord;

use super::rings::Ring;
use crate::zones::ZoneNotice;

/// The thread. Dropping it ends it, after what was announced until then.
pub(super) struct Announcements {
    wake: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Announcements {
    /// Forwards announcements from `ring`, whose descriptor is `ready`.
    pub(super) fn start(ring: Ring, ready: OwnedFd, zones: Sender<ZoneNotice>) -> io::Result<Self> {
        // SAFETY: no memory is involved.
        let wake = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
        if wake < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call returned a new descriptor that nobody else owns.
        let wake = Arc::new(unsafe { OwnedFd::from_raw_fd(wake) });
        let woken = wake.clone();
        let work = move || {
            // Who announces may end within a millisecond, on a busy machine.
            crate::collector::go_first();
            forward(ring, &ready, &woken, &zones);
        };
        let thread = std::thread::Builder::new().name("announcements".into()).spawn(work)?;
        Ok(Self { wake, thread: Some(thread) })
    }
}

impl Drop for Announcements {
    fn drop(&mut self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: the buffer has the length given. An eventfd that was never
        // written to takes a 1.
        unsafe { libc::write(self.wake.as_raw_fd(), one.as_ptr().cast(), one.len()) };
        if let Some(thread) = self.thread.take() {
            // A panic there has been printed; the recording goes on.
            let _ = thread.join();
        }
    }
}

fn forward(mut ring: Ring, ready: &OwnedFd, wake: &OwnedFd, zones: &Sender<ZoneNotice>) {
    loop {
        let wait = |fd: &OwnedFd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let mut fds = [wait(ready), wait(wake)];
        // SAFETY: two live structures, as the count says.
        let result = unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, -1) };
        let interrupted = result < 0 && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted;
        ring.read(|record| notice(record).is_none_or(|notice| zones.send(notice).is_ok()));
        if fds[1].revents != 0 || (result < 0 && !interrupted) {
            return;
        }
    }
}

fn notice(record: &[u8]) -> Option<ZoneNotice> {
    let record = RingRecord::from_bytes(record)?;
    Some(ZoneNotice::Announcement {
        ticks: record.stamp.split().0,
        pid: record.tgid,
        tid: record.tid,
        descriptor: record.descriptor,
        ring: record.ring,
    })
}
