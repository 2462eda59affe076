//! Taking announced arenas over: a thread that goes first, for a program may
//! end within a millisecond of its first zone, and that does nothing else. It goes first for a part
//! of its time, and then with all others.
//!
//! What it does for one announcement is bounded: a handful of system calls, none
//! of which any program can make wait. How many it hears is bounded where they
//! come from, and how many arenas it takes here; what is beyond that waits for
//! discovery, which goes behind everybody else and has its own bound.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use syscollect_model::ClockSource;
use syscollect_untrusted_files::payer;
use syscollect_zone_protocol::arena::MAX_RINGS;

use super::arena::{Arena, ArenaId, ArenaRefusal, FoundArena, LocatedArena};
use super::counters::PolledProgram;
use super::discovery::{self, Discovery, DiscoveryJob, DiscoveryJobs};
use super::find;
use super::taken::{Arenas, TakenArena};
use super::{AnnouncedFile, Announcement, ZoneNotice};
use crate::priority::{FirstForPart, FirstParts, go_before_most};
use crate::shares::UserRateLimits;
use crate::usage::thread_cpu_time;
use crate::worker::Worker;

/// Arenas that are taken over at once in each window, of all programs and of one user's: a fraction
/// of a millisecond's work each.
const AT_ONCE: u32 = 128;
const AT_ONCE_OF_A_USER: u32 = 64;
const WINDOW: Duration = Duration::from_millis(100);
/// A process that maps an instrumented program's file is looked at no sooner than after so long
/// again.
const LOOKED_AT_INTERVAL: Duration = Duration::from_millis(200);
const MOST_LOOKED_AT: usize = 16_384;
/// CPU time in a second for what a user's programs announce and that leads to no arena, of young
/// processes and of others; beyond it discovery looks. What leads to one has the bounds above.
const IN_VAIN: Duration = Duration::from_millis(5);

/// What was found.
pub(super) enum WatchEvent {
    /// An arena was taken.
    Client {
        /// Its number.
        number: u32,
        /// The arena.
        arena: Box<Arena>,
        /// Its process.
        subject: Box<PolledProgram>,
    },
    /// A ring of it is used.
    Ring {
        /// The client.
        client: u32,
        /// The ring's number.
        ring: u32,
    },
    /// A ring is this thread's; `None` where nobody knows it any more.
    Thread {
        /// The client.
        client: u32,
        /// The ring's number.
        ring: u32,
        /// Which of the ring's threads.
        owner: u32,
        /// In the initial pid namespace.
        tid: Option<u32>,
    },
    /// The program has ended, or runs another one.
    Gone {
        /// The client.
        client: u32,
    },
    /// A ring was announced that could not be had: how it is to be told, once for each process.
    NotTaken {
        /// Whose program it is.
        user: u32,
        /// In words.
        why: String,
    },
}

/// Takes over what is announced.
pub(super) struct Takeover {
    arenas: Arc<Arenas>,
    since: Instant,
    taken: u32,
    taken_of: FxHashMap<u32, u32>,
    looked_at: FxHashMap<u32, Instant>,
    /// Microseconds for announcements that led to no arena: of processes that have lived for a
    /// while, and of young ones, of which a user starts as many as they like.
    in_vain: [UserRateLimits; 2],
}

/// The running threads.
pub(super) struct Handle {
    notices: Sender<ZoneNotice>,
    worker: Worker<()>,
}

impl Handle {
    /// Starts them: processes are looked for in /proc below `root`, `clock` is that of
    /// announcements.
    pub(super) fn start(
        root: &Path,
        clock: ClockSource,
        found: Sender<WatchEvent>,
    ) -> std::io::Result<Self> {
        let arenas = Arc::new(Arenas::new(root, clock, found));
        let (notices, received) = channel();
        let (jobs, discovery) = discovery::start(Discovery::new(arenas.clone()))?;
        let worker = Worker::start("zones", move || {
            forward(&mut Takeover::new(arenas), &received, &jobs);
            drop(jobs);
            // A panic there has been printed.
            let _ = discovery.join();
        })?;
        Ok(Self { notices, worker })
    }

    /// Where notices go.
    pub(super) fn notices(&self) -> Sender<ZoneNotice> {
        self.notices.clone()
    }

    /// Ends them, after what was told until now. Does not wait for ever: one
    /// may stand in a read of /proc that a program holds up.
    pub(super) fn stop(self) {
        if self.notices.send(ZoneNotice::Stop).is_ok() {
            // A panic there has been printed.
            let _ = self.worker.wait(Duration::from_secs(1));
        }
    }
}

fn forward(takeover: &mut Takeover, notices: &Receiver<ZoneNotice>, jobs: &DiscoveryJobs) {
    go_before_most();
    let mut priority = FirstForPart::begin(FirstParts::HEARING);
    loop {
        let notice = match priority.wait() {
            Some(time) => notices.recv_timeout(time),
            None => notices.recv().map_err(RecvTimeoutError::from),
        };
        priority.follow();
        let notice = match notice {
            Ok(ZoneNotice::Stop) | Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => continue,
            Ok(notice) => notice,
        };
        if let Some(job) = takeover.notice(notice)
            && let Some(DiscoveryJob::Announced(announcement, _)) = jobs.send(job)
        {
            takeover.arenas.refuse_announced(
                announcement,
                &ArenaRefusal::TooMany("programs of its user have announcements,"),
            );
        }
    }
}

impl Takeover {
    /// Takes arenas over into these.
    pub(super) fn new(arenas: Arc<Arenas>) -> Self {
        Self {
            arenas,
            since: Instant::now(),
            taken: 0,
            taken_of: FxHashMap::default(),
            looked_at: FxHashMap::default(),
            in_vain: [(); 2].map(|()| UserRateLimits::new(IN_VAIN.as_micros() as u64)),
        }
    }

    /// Sees to one notice; what takes longer comes back.
    pub(super) fn notice(&mut self, notice: ZoneNotice) -> Option<DiscoveryJob> {
        match notice {
            ZoneNotice::Announcement(announcement) => self.announced(announcement),
            ZoneNotice::ClientFile { pid, user } => {
                self.is_time_to_look_at(pid).then_some(DiscoveryJob::Process(pid, user))
            }
            ZoneNotice::Stop => None,
        }
    }

    fn announced(&mut self, announcement: Announcement) -> Option<DiscoveryJob> {
        let Announcement { user, file, is_young, .. } = announcement;
        match file {
            AnnouncedFile::Arena(inode) => {
                if let Some(taken) = self.arenas.known(ArenaId::of_inode(inode)) {
                    announced_ring(&self.arenas, &taken, announcement);
                    return None;
                }
            }
            // What there may be takes longer to find.
            AnnouncedFile::Other => return Some(DiscoveryJob::Announced(announcement, None)),
            AnnouncedFile::Unknown => {}
        }
        let in_vain = &mut self.in_vain[usize::from(is_young)];
        in_vain.refill(Instant::now());
        if user != 0 && !in_vain.allows(user) {
            return Some(DiscoveryJob::Announced(announcement, None));
        }
        let before = thread_cpu_time();
        let looked = self.inspect(announcement);
        if !matches!(looked, InspectOutcome::Known) {
            let took = thread_cpu_time().saturating_sub(before);
            self.in_vain[usize::from(is_young)].took(user, took.as_micros() as u64 + 1);
        }
        match looked {
            InspectOutcome::Later(job) => Some(job),
            InspectOutcome::Known | InspectOutcome::InVain => None,
        }
    }

    fn inspect(&mut self, announcement: Announcement) -> InspectOutcome {
        let Announcement { pid, tid, descriptor, .. } = announcement;
        let paths = find::descriptor_paths(&self.arenas.root(), pid, tid, descriptor);
        for path in &paths {
            let found = match FoundArena::at(path) {
                Ok(found) => found,
                Err(ArenaRefusal::Gone) => continue,
                Err(why) => {
                    self.arenas.refuse_announced(announcement, &why);
                    return InspectOutcome::InVain;
                }
            };
            if let Some(taken) = self.arenas.known(found.id) {
                announced_ring(&self.arenas, &taken, announcement);
                return InspectOutcome::Known;
            }
            if self.is_at_once(found.user) {
                match take(&self.arenas, path, &found, announcement) {
                    TakeoverOutcome::Yes => return InspectOutcome::Known,
                    TakeoverOutcome::No => return InspectOutcome::InVain,
                    TakeoverOutcome::NoRoom => {}
                }
            }
            // The file is held: it does not go with the program.
            return InspectOutcome::Later(DiscoveryJob::Announced(
                announcement,
                Some(Box::new(LocatedArena { path: path.clone(), found })),
            ));
        }
        if self.arenas.knew(&paths, announcement) {
            return InspectOutcome::Known;
        }
        InspectOutcome::Later(DiscoveryJob::Announced(announcement, None))
    }

    /// A process that maps a file again and again is not looked at each time.
    fn is_time_to_look_at(&mut self, pid: u32) -> bool {
        let now = Instant::now();
        if self.looked_at.len() >= MOST_LOOKED_AT {
            self.looked_at.clear();
        }
        let before = self.looked_at.get(&pid);
        let is_time = before.is_none_or(|before| now.duration_since(*before) >= LOOKED_AT_INTERVAL);
        if is_time {
            self.looked_at.insert(pid, now);
        }
        is_time
    }

    /// Whether another arena of that user may be taken over in this window.
    fn is_at_once(&mut self, user: u32) -> bool {
        if self.since.elapsed() >= WINDOW {
            (self.since, self.taken) = (Instant::now(), 0);
            self.taken_of.clear();
        }
        let of_user = self.taken_of.entry(payer(user)).or_default();
        let may = self.taken < AT_ONCE && *of_user < AT_ONCE_OF_A_USER;
        self.taken += u32::from(may);
        *of_user += u32::from(may);
        may
    }
}

/// What a look at an announced descriptor came to.
enum InspectOutcome {
    /// Its arena is read, or was.
    Known,
    /// It is none that can be had.
    InVain,
    /// Somebody else is to look.
    Later(DiscoveryJob),
}

/// Whether an arena was taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TakeoverOutcome {
    Yes,
    /// The process or its user has too many.
    NoRoom,
    /// It cannot be had, which is counted.
    No,
}

/// Takes over the arena that was found there, and has the ring read that was
/// announced.
pub(super) fn take(
    arenas: &Arenas,
    path: &Path,
    found: &FoundArena,
    announcement: Announcement,
) -> TakeoverOutcome {
    match arenas.take(announcement.pid, path, found, Some(announcement.ring)) {
        Ok(taken) => announced_ring(arenas, &taken, announcement),
        Err(ArenaRefusal::TooMany(_)) => return TakeoverOutcome::NoRoom,
        Err(why) => {
            arenas.refuse_announced(announcement, &why);
            return TakeoverOutcome::No;
        }
    }
    TakeoverOutcome::Yes
}

/// A thread has announced its ring; it still has it, for a ring is given to
/// another only when it was emptied, which waits for this. Where another recorder empties it, the
/// ring may be the next thread's already: then it was that of the thread who had it after the last
/// one that was told, for each announces it once.
pub(super) fn announced_ring(
    arenas: &Arenas,
    taken: &TakenArena,
    Announcement { tid, ring, .. }: Announcement,
) {
    let Some(ring) = u32::try_from(ring).ok().filter(|ring| *ring < MAX_RINGS as u32) else {
        return;
    };
    let header = taken.arena.memory.ring(ring);
    let mut owner = header.owner.load(Ordering::Acquire);
    let may_be_late = taken.arena.was_held && taken.same_numbers;
    if may_be_late && header.tid.load(Ordering::Acquire) != tid {
        let next = taken.last_told(ring).wrapping_add(1);
        if next >= owner {
            return;
        }
        owner = next;
    }
    arenas.report_owner(taken, ring, owner, Some(tid));
}
