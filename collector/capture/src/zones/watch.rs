//! Taking announced arenas over: a thread that goes first, for a program may
//! end within a millisecond of its first zone, and that does nothing else. It goes first for a part
//! of its time, and then with all others.
//!
//! What it does for one announcement is bounded: a handful of system calls, none
//! of which any program can make wait. How many it hears is bounded where they
//! come from, and how many arenas it takes here; what is beyond that waits for
//! the survey, which goes behind everybody else and has its own bound.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError, channel};
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use syscollect_model::ClockSource;
use syscollect_untrusted_files::payer;
use syscollect_zone_protocol::arena::MAX_RINGS;

use super::ZoneNotice;
use super::arena::{Arena, FoundArena, LocatedArena, NotTaken};
use super::counters::Subject;
use super::find;
use super::survey::{self, Survey, SurveyJob};
use super::taken::{Arenas, TakenArena};
use crate::priority::FirstForPart;
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

/// What was found.
pub(super) enum WatchEvent {
    /// An arena was taken.
    Client {
        /// Its number.
        number: u32,
        /// The arena.
        arena: Box<Arena>,
        /// Its process.
        subject: Box<Subject>,
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
        /// In words.
        why: String,
    },
    /// Another recorder has the arena.
    Held {
        /// The process.
        pid: u32,
    },
}

/// A ring that was announced.
#[derive(Clone, Copy, Debug)]
pub(super) struct Announcement {
    pub(super) ticks: u64,
    pub(super) pid: u32,
    pub(super) tid: u32,
    pub(super) descriptor: u64,
    pub(super) ring: u64,
}

/// Takes over what is announced.
pub(super) struct Takeover {
    arenas: Arc<Arenas>,
    since: Instant,
    taken: u32,
    taken_of: FxHashMap<u32, u32>,
    looked_at: FxHashMap<u32, Instant>,
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
        let (jobs, survey) = survey::start(Survey::new(arenas.clone()))?;
        let work = move || {
            forward(&mut Takeover::new(arenas), &received, &jobs);
            drop(jobs);
            // A panic there has been printed.
            let _ = survey.join();
        };
        let worker = Worker::start("zones", work)?;
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

fn forward(takeover: &mut Takeover, notices: &Receiver<ZoneNotice>, jobs: &SyncSender<SurveyJob>) {
    let mut priority = FirstForPart::begin();
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
            && let Err(TrySendError::Full(SurveyJob::Announced(announcement, _))) =
                jobs.try_send(job)
        {
            let Announcement { pid, tid, ring, .. } = announcement;
            takeover.arenas.refuse(
                pid,
                (tid, ring),
                &NotTaken::TooMany("programs have announcements,"),
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
        }
    }

    /// Sees to one notice; what takes longer comes back.
    pub(super) fn notice(&mut self, notice: ZoneNotice) -> Option<SurveyJob> {
        match notice {
            ZoneNotice::Announcement { ticks, pid, tid, descriptor, ring } => {
                self.announced(Announcement { ticks, pid, tid, descriptor, ring })
            }
            ZoneNotice::ClientFile { pid } => {
                self.is_time_to_look_at(pid).then_some(SurveyJob::Process(pid))
            }
            ZoneNotice::Stop => None,
        }
    }

    fn announced(&mut self, announcement: Announcement) -> Option<SurveyJob> {
        let Announcement { pid, tid, descriptor, .. } = announcement;
        let paths = find::descriptor_paths(&self.arenas.root(), pid, tid, descriptor);
        for path in &paths {
            let found = match FoundArena::at(path) {
                Ok(found) => found,
                Err(NotTaken::Gone) => continue,
                Err(why) => {
                    refused(&self.arenas, pid, path, (tid, announcement.ring), &why);
                    return None;
                }
            };
            if let Some(taken) = self.arenas.known(found.id) {
                announced_ring(&self.arenas, &taken, announcement);
                return None;
            }
            let at_once = self.is_at_once(found.user);
            if at_once && take(&self.arenas, path, &found, announcement) {
                return None;
            }
            // The file is held: it does not go with the program.
            return Some(SurveyJob::Announced(
                announcement,
                Some(Box::new(LocatedArena { path: path.clone(), found })),
            ));
        }
        match self.arenas.known_at(pid, &paths) {
            Some(taken) => announced_ring(&self.arenas, &taken, announcement),
            None if self.arenas.had(pid, &paths, announcement.ticks) => {}
            None => return Some(SurveyJob::Announced(announcement, None)),
        }
        None
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

/// Takes over the arena that was found there, and has the ring read that was
/// announced; `false` where the process or its user has too many.
pub(super) fn take(
    arenas: &Arenas,
    path: &Path,
    found: &FoundArena,
    announcement: Announcement,
) -> bool {
    let Announcement { pid, tid, ring, .. } = announcement;
    match arenas.take(pid, path, found) {
        Ok(taken) => announced_ring(arenas, &taken, announcement),
        Err(NotTaken::TooMany(_)) => return false,
        Err(why) => refused(arenas, pid, path, (tid, ring), &why),
    }
    true
}

/// A thread has announced its ring; it still has it, for a ring is given to
/// another only when it was emptied, which waits for this.
fn announced_ring(
    arenas: &Arenas,
    taken: &TakenArena,
    Announcement { tid, ring, .. }: Announcement,
) {
    let Some(ring) = u32::try_from(ring).ok().filter(|ring| *ring < MAX_RINGS as u32) else {
        return;
    };
    let owner = taken.arena.memory.ring(ring).owner.load(Ordering::Acquire);
    arenas.tell(taken, ring, owner, Some(tid));
}

/// An arena could not be had.
pub(super) fn refused(arenas: &Arenas, pid: u32, path: &Path, ring: (u32, u64), why: &NotTaken) {
    match why {
        NotTaken::Held => arenas.hold(pid, path),
        why => arenas.refuse(pid, ring, why),
    }
}
