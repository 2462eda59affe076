//! A thread that waits for announced rings: an instrumented program that starts, or
//! that sees a recording begin, is to be read soon, for it may end soon.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use rustc_hash::{FxHashMap, FxHashSet};
use syscollect_records::{RingRecord, announced};

use super::dropped_announcements::OverShareCounts;
use crate::priority::{FirstForPart, FirstParts, go_before_most};
use crate::ring_buffers::{Records as _, Ring};
use crate::shares::Pool;
use crate::worker::Worker;
use crate::zones::{AnnouncedFile, Announcement, ZoneNotice};

/// How long the end of a recording waits for the last announcements.
const LONGEST_GOODBYE: Duration = Duration::from_secs(1);

/// The thread. Dropping it ends it, after what was announced until then.
pub(super) struct Announcements {
    wake: Arc<OwnedFd>,
    worker: Worker<()>,
}

impl Announcements {
    /// Forwards announcements from `ring`, whose descriptor is `ready`; counts those that are
    /// beyond a user's share.
    pub(super) fn start(
        ring: Ring,
        ready: OwnedFd,
        zones: Sender<ZoneNotice>,
        beyond: OverShareCounts,
    ) -> io::Result<Self> {
        // SAFETY: no memory is involved.
        let wake = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
        if wake < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call returned a new descriptor that nobody else owns.
        let wake = Arc::new(unsafe { OwnedFd::from_raw_fd(wake) });
        let woken = wake.clone();
        let worker = Worker::start("announcements", move || {
            forward(ring, (&ready, &woken), &zones, &beyond);
        })?;
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

fn forward(
    mut ring: Ring,
    (ready, wake): (&OwnedFd, &OwnedFd),
    zones: &Sender<ZoneNotice>,
    beyond: &OverShareCounts,
) {
    let mut limit = Limit::new(Instant::now());
    // Who announces may end within a millisecond, on a busy machine.
    go_before_most();
    let mut priority = FirstForPart::begin(FirstParts::HEARING);
    loop {
        let mut fds = [readable(wake), readable(ready)];
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
            let Some(record) = RingRecord::from_bytes(record) else { return true };
            match limit.receive(&record, Instant::now()) {
                // Nobody listens when zones cannot be recorded.
                AnnouncementOutcome::Yes => zones.send(notice(&record)).is_ok(),
                AnnouncementOutcome::BeyondShare => {
                    beyond.add(record.user);
                    true
                }
                AnnouncementOutcome::FoundAnyway => true,
            }
        });
        if fds[0].revents != 0 || (result < 0 && !interrupted) {
            return;
        }
    }
}

fn readable(fd: &OwnedFd) -> libc::pollfd {
    libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 }
}

/// Announcements that are heard in a window, of all processes together: this thread, and the one
/// that it tells, go before everything else. A user's programs have as many of them as are left to
/// others.
const ANNOUNCEMENTS_MAX: u64 = 512;
/// As many of each process go before what other processes of its user announce besides: that it is
/// there, and the next ring.
const FIRST_OF_A_PROCESS: u32 = 2;
/// What a user's processes announce beyond that is heard while so many more are left to the user.
const ROOM_FOR_OTHERS: u64 = ANNOUNCEMENTS_MAX / 2;
/// What processes announce that have only just begun is heard while so many are left to the user's
/// others.
const ROOM_FOR_OLDER: u64 = ANNOUNCEMENTS_MAX / 4;
/// As many of one process at most: others have theirs while it hits the probe without end.
const OF_A_PROCESS_MAX: u32 = 128;
/// Arenas of which is remembered that they were heard of.
const HEARD_OF_MAX: usize = 16_384;
const WINDOW: Duration = Duration::from_millis(100);
/// While more is announced than is heard, the ring is read at most this often. It has room for
/// 5,461 announcements.
const CROWDED_PAUSE: Duration = Duration::from_millis(1);

/// What becomes of an announcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AnnouncementOutcome {
    /// It is passed on.
    Yes,
    /// It is not, and nobody else finds what was announced.
    BeyondShare,
    /// It is not. Whoever looks after arenas finds further rings of one that was heard of.
    FoundAnyway,
}

/// Counts what each user and process announces.
struct Limit {
    since: Instant,
    /// Something of this window went unheard.
    is_crowded: bool,
    room: Pool,
    counts: FxHashMap<u32, u32>,
    /// Inodes of arenas.
    heard_of: FxHashSet<u64>,
}

impl Limit {
    fn new(now: Instant) -> Self {
        Self {
            since: now,
            is_crowded: false,
            room: Pool::new(ANNOUNCEMENTS_MAX),
            counts: FxHashMap::default(),
            heard_of: FxHashSet::default(),
        }
    }

    /// Whether this one is to be heard.
    fn receive(&mut self, record: &RingRecord, now: Instant) -> AnnouncementOutcome {
        self.refill(now);
        let &RingRecord { tgid, user, inode, is_young, .. } = record;
        let kept = if is_young != 0 { ROOM_FOR_OLDER } else { 0 };
        let count = self.counts.entry(tgid).or_default();
        let may = match *count {
            0..FIRST_OF_A_PROCESS => self.room.room(user) > kept,
            FIRST_OF_A_PROCESS..OF_A_PROCESS_MAX => self.room.room(user) > ROOM_FOR_OTHERS,
            _ => false,
        };
        if may && self.room.take(user, 1) {
            *count += 1;
            if self.heard_of.len() >= HEARD_OF_MAX {
                self.heard_of.clear();
            }
            self.heard_of.insert(inode);
            return AnnouncementOutcome::Yes;
        }
        self.is_crowded = true;
        // Of one without an arena nobody knows which it is.
        match inode != 0 && self.heard_of.contains(&inode) {
            true => AnnouncementOutcome::FoundAnyway,
            false => AnnouncementOutcome::BeyondShare,
        }
    }

    /// Whether more is announced in this window than is heard.
    fn is_crowded(&mut self, now: Instant) -> bool {
        self.refill(now);
        self.is_crowded
    }

    fn refill(&mut self, now: Instant) {
        if now.duration_since(self.since) >= WINDOW {
            (self.since, self.is_crowded) = (now, false);
            self.room = Pool::new(ANNOUNCEMENTS_MAX);
            self.counts.clear();
        }
    }
}

/// What a record says.
fn notice(record: &RingRecord) -> ZoneNotice {
    let file = match record.announced {
        announced::ARENA => AnnouncedFile::Arena(record.inode),
        announced::OTHER => AnnouncedFile::Other,
        _ => AnnouncedFile::Unknown,
    };
    ZoneNotice::Announcement(Announcement {
        ticks: record.stamp.split().0,
        pid: record.tgid,
        tid: record.tid,
        descriptor: record.descriptor.into(),
        ring: record.ring.into(),
        user: record.user,
        file,
        is_young: record.is_young != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A user who floods, and another.
    const HOSTILE: u32 = 1001;
    const HONEST: u32 = 1002;

    /// Of a process that has only just begun.
    fn record(user: u32, pid: u32, inode: u64) -> RingRecord {
        let announced = if inode == 0 { announced::OTHER } else { announced::ARENA };
        let bytes = [0; RingRecord::SIZE];
        let record = RingRecord::from_bytes(&bytes).unwrap();
        RingRecord { user, tgid: pid, tid: pid, inode, announced, is_young: 1, ..record }
    }

    #[test]
    fn a_process_that_announces_without_end_is_heard_again_after_a_while() {
        let start = Instant::now();
        let mut limit = Limit::new(start);
        let heard = (0..10_000)
            .filter(|_| limit.receive(&record(HOSTILE, 7, 70), start) == AnnouncementOutcome::Yes);
        assert_eq!(heard.count() as u32, OF_A_PROCESS_MAX);
        assert_eq!(limit.receive(&record(HOSTILE, 7, 70), start), AnnouncementOutcome::FoundAnyway);
        for pid in 100..120 {
            assert_eq!(
                limit.receive(&record(HOSTILE, pid, pid.into()), start),
                AnnouncementOutcome::Yes
            );
        }
        assert_eq!(
            limit.receive(&record(HOSTILE, 7, 70), start + WINDOW),
            AnnouncementOutcome::Yes
        );
    }

    #[test]
    fn processes_without_end_take_nothing_from_other_users_and_are_counted_for_their_own() {
        let start = Instant::now();
        let mut limit = Limit::new(start);
        let hostile: Vec<AnnouncementOutcome> = (0..100_000u32)
            .map(|one| limit.receive(&record(HOSTILE, 1 + one / 200, 0), start))
            .collect();
        let heard =
            hostile.iter().filter(|heard| **heard == AnnouncementOutcome::Yes).count() as u64;
        assert!(heard <= ANNOUNCEMENTS_MAX / 2, "{heard}");
        let beyond =
            hostile.iter().filter(|heard| **heard == AnnouncementOutcome::BeyondShare).count()
                as u64;
        assert_eq!(beyond, 100_000 - heard);
        for pid in 200_000..200_064u64 {
            let honest = record(HONEST, pid as u32, pid);
            assert_eq!(limit.receive(&honest, start), AnnouncementOutcome::Yes, "process {pid}");
        }
    }

    #[test]
    fn new_processes_without_end_leave_room_for_an_older_one_of_their_user() {
        let start = Instant::now();
        let mut limit = Limit::new(start);
        for pid in 1..10_000 {
            limit.receive(&record(HOSTILE, pid, 70), start);
        }
        for pid in 20_000..20_032 {
            assert_eq!(limit.receive(&older(pid), start), AnnouncementOutcome::Yes);
        }
        assert_eq!(
            limit.receive(&record(HOSTILE, 30_000, 30_000), start),
            AnnouncementOutcome::BeyondShare
        );
    }

    fn older(pid: u32) -> RingRecord {
        RingRecord { is_young: 0, ..record(HOSTILE, pid, pid.into()) }
    }

    #[test]
    fn the_ring_is_read_less_often_only_while_something_goes_unheard() {
        let start = Instant::now();
        let mut limit = Limit::new(start);
        let record = record(HOSTILE, 7, 70);
        assert!(
            (0..OF_A_PROCESS_MAX)
                .all(|_| limit.receive(&record, start) == AnnouncementOutcome::Yes)
        );
        assert!(!limit.is_crowded(start));
        assert_eq!(limit.receive(&record, start), AnnouncementOutcome::FoundAnyway);
        assert!(limit.is_crowded(start));
        assert!(!limit.is_crowded(start + WINDOW));
    }
}
