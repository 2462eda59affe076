//! A thread that waits for announced rings: an instrumented program that starts, or
//! that sees a recording begin, is to be read soon, for it may end soon.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use syscollect_records::RingRecord;

use crate::priority::FirstForPart;
use crate::ring_buffers::{Records as _, Ring};
use crate::worker::Worker;
use crate::zones::ZoneNotice;

/// How long the end of a recording waits for the last announcements.
const LONGEST_GOODBYE: Duration = Duration::from_secs(1);

/// The thread. Dropping it ends it, after what was announced until then.
pub(super) struct Announcements {
    wake: Arc<OwnedFd>,
    worker: Worker<()>,
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
            forward(ring, &ready, &woken, &zones);
        };
        let worker = Worker::start("announcements", work)?;
        Ok(Self { wake, worker })
    }
}

impl Drop for Announcements {
    fn drop(&mut self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: the buffer has the length given. An eventfd that was never
        // written to takes a 1.
        unsafe { libc::write(self.wake.as_raw_fd(), one.as_ptr().cast(), one.len()) };
        // A panic there has been printed; the recording goes on.
        let _ = self.worker.wait(LONGEST_GOODBYE);
    }
}

fn forward(mut ring: Ring, ready: &OwnedFd, wake: &OwnedFd, zones: &Sender<ZoneNotice>) {
    let mut limit = Limit::new(Instant::now());
    // Who announces may end within a millisecond, on a busy machine.
    let mut priority = FirstForPart::begin();
    loop {
        let wait =
            |fd: &OwnedFd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let mut fds = [wait(wake), wait(ready)];
        let (count, most) = match limit.is_crowded(Instant::now()) {
            // What comes in meanwhile is read together: it would wake this thread one by one.
            true => (1, CROWDED_PAUSE.as_millis() as libc::c_int),
            false => (2, priority.wait().map_or(-1, |time| time.as_millis() as libc::c_int + 1)),
        };
        // SAFETY: two live structures, of which the first or both are given.
        let result = unsafe { libc::poll(fds.as_mut_ptr(), count, most) };
        priority.follow();
        let interrupted =
            result < 0 && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted;
        ring.read(|record| {
            let Some((pid, notice)) = notice(record) else { return true };
            // Nobody listens when zones cannot be recorded.
            !limit.allows(pid, Instant::now()) || zones.send(notice).is_ok()
        });
        if fds[0].revents != 0 || (result < 0 && !interrupted) {
            return;
        }
    }
}

/// Announcements that are heard in a window, of all processes together: this thread, and the one
/// that it tells, go before everything else. Rings that go unheard are found by who looks for them.
const ANNOUNCEMENTS_MAX: u32 = 512;
/// As many of each process are heard in any case: that it is there, and the next ring.
const ALWAYS_HEARD: u32 = 2;
/// As many of one process at most: others have theirs while it hits the probe without end.
const OF_A_PROCESS_MAX: u32 = 128;
const WINDOW: Duration = Duration::from_millis(100);
/// While more is announced than is heard, the ring is read at most this often. It has room for
/// 5,461 announcements.
const CROWDED_PAUSE: Duration = Duration::from_millis(1);

/// Counts what each process announces.
struct Limit {
    since: Instant,
    heard: u32,
    /// Something of this window went unheard.
    is_crowded: bool,
    counts: FxHashMap<u32, u32>,
}

impl Limit {
    fn new(now: Instant) -> Self {
        Self { since: now, heard: 0, is_crowded: false, counts: FxHashMap::default() }
    }

    /// Whether one more of this process is to be heard.
    fn allows(&mut self, pid: u32, now: Instant) -> bool {
        self.refill(now);
        let count = self.counts.entry(pid).or_default();
        let allowed =
            *count < ALWAYS_HEARD || (*count < OF_A_PROCESS_MAX && self.heard < ANNOUNCEMENTS_MAX);
        *count += u32::from(allowed);
        self.heard += u32::from(allowed);
        self.is_crowded |= !allowed;
        allowed
    }

    /// Whether more is announced in this window than is heard.
    fn is_crowded(&mut self, now: Instant) -> bool {
        self.refill(now);
        self.is_crowded
    }

    fn refill(&mut self, now: Instant) {
        if now.duration_since(self.since) >= WINDOW {
            (self.since, self.heard, self.is_crowded) = (now, 0, false);
            self.counts.clear();
        }
    }
}

/// What a record says, and of which process.
fn notice(record: &[u8]) -> Option<(u32, ZoneNotice)> {
    let record = RingRecord::from_bytes(record)?;
    let notice = ZoneNotice::Announcement {
        ticks: record.stamp.split().0,
        pid: record.tgid,
        tid: record.tid,
        descriptor: record.descriptor,
        ring: record.ring,
    };
    Some((record.tgid, notice))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_announces_without_end_is_heard_again_after_a_while() {
        let start = Instant::now();
        let mut limit = Limit::new(start);
        let heard = |limit: &mut Limit, pid| {
            (0..10_000).filter(|_| limit.allows(pid, start)).count() as u32
        };
        assert_eq!(heard(&mut limit, 7), OF_A_PROCESS_MAX);
        (100..200).for_each(|pid| assert!(heard(&mut limit, pid) >= ALWAYS_HEARD));
        assert_eq!(
            heard(&mut limit, 8),
            ALWAYS_HEARD,
            "another process is heard whatever others do"
        );
        assert!(limit.allows(7, start + WINDOW));
    }

    #[test]
    fn the_ring_is_read_less_often_only_while_something_goes_unheard() {
        let start = Instant::now();
        let mut limit = Limit::new(start);
        assert!((0..OF_A_PROCESS_MAX).all(|_| limit.allows(7, start)) && !limit.is_crowded(start));
        assert!(!limit.allows(7, start) && limit.is_crowded(start));
        assert!(!limit.is_crowded(start + WINDOW));
    }

    #[test]
    fn a_record_that_is_cut_is_no_announcement() {
        assert_eq!(notice(&[0; 39]), None);
    }
}
