//! What takes its time: finding arenas that nobody announced, and whose rings
//! are whose; noticing programs that are gone. A thread that goes behind all
//! that is urgent, and takes at most a few hundredths of a CPU, whatever there
//! is to look at.
//!
//! It costs what changes, not what exists: of an arena in which nothing
//! happens one word is read. What is to be done comes as jobs; the jobs of each
//! user are done in turn, and the user who has had the least time is next. So
//! one who has thousands of programs, each as slow to look at as can be, waits
//! for himself.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use syscollect_untrusted_files::payer;
use syscollect_zone_protocol::arena::RingState;

use super::Announcement;
use super::arena::{ArenaRefusal, LocatedArena};
use super::find::{self, ArenaMaker, Numbering};
use super::mapped::MappingLooks;
use super::taken::{Arenas, MOST_OF_A_PROCESS, TakenArena};
use super::watch::{TakeoverOutcome, announced_ring, take};
use crate::shares::Pool;

/// Changes are looked for this often.
const INTERVAL: Duration = Duration::from_millis(100);
/// Programs that are gone are looked for this often.
const ROLL_CALL_INTERVAL: Duration = Duration::from_secs(1);
/// Of a CPU this takes one part in so many.
const PART_OF_A_CPU: u32 = 60;
/// What it may take at once, if it has taken little before.
const MOST_CREDIT: Duration = Duration::from_millis(20);
/// While nothing may be done, it is looked again after so long whether something may.
const SHORTEST_SLEEP: Duration = Duration::from_millis(1);
const LONGEST_SLEEP: Duration = Duration::from_millis(20);
/// Jobs that come without end, each of which costs something to add, make others wait no longer.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// How long the last discovery of a recording may take.
const LONGEST_END: Duration = Duration::from_millis(300);
/// Jobs that wait to be looked at, and those of a user that wait to be done, at most.
const MOST_NEW_JOBS: usize = 1024;
/// Of the room for new ones, what doubtful ones leave to the user's others.
const ROOM_FOR_OTHERS: u64 = MOST_NEW_JOBS as u64 / 2;
const MOST_JOBS: usize = 2 * super::taken::MOST_ARENAS as usize;
/// Rings of an arena whose threads are looked up at a time; each needs a look into /proc.
const RINGS_AT_A_TIME: usize = 64;
/// Under this number of no user are those of whom nothing is known.
const NOBODY: u32 = u32::MAX;

/// Something that takes its time.
pub(super) enum DiscoveryJob {
    /// An arena was announced that is not where it should be, or was found (there) and not taken at
    /// once.
    Announced(Announcement, Option<Box<LocatedArena>>),
    /// This process may have arenas from an earlier recording; and whose it is, as far as that is
    /// known.
    Process(u32, Option<u32>),
    /// Threads have taken rings in it.
    Rings(Arc<TakenArena>),
    /// Its program may be gone.
    RollCall(Arc<TakenArena>),
}

/// What looks and waits for its turn.
pub(super) struct Discovery {
    arenas: Arc<Arenas>,
    mapped: MappingLooks,
    watched: Vec<WatchedArena>,
    users: Vec<UserJobs>,
    last_roll_call: Instant,
}

/// An arena that was taken.
struct WatchedArena {
    taken: Arc<TakenArena>,
    /// Its count of rings that were taken, when they were last looked for.
    claims: u32,
}

/// What is to be done for a user.
struct UserJobs {
    user: u32,
    jobs: VecDeque<DiscoveryJob>,
    /// What comes when nothing else is to be done for this user: announcements that lead to no
    /// arena at once.
    doubtful: VecDeque<DiscoveryJob>,
    spent: Duration,
}

/// Where jobs wait until the thread looks at them: a user has as much room as is left to others.
pub(super) struct DiscoveryJobs {
    jobs: SyncSender<NewJob>,
    room: Arc<Mutex<Pool>>,
    ended: Arc<AtomicBool>,
}

struct NewJob {
    /// Whose room it has.
    user: u32,
    job: DiscoveryJob,
}

impl DiscoveryJobs {
    /// Leaves a job to the thread; returns one that finds no room.
    pub(super) fn send(&self, job: DiscoveryJob) -> Option<DiscoveryJob> {
        let user = job.known_user().unwrap_or(NOBODY);
        let mut room = room_of(&self.room);
        let may = !job.is_doubtful() || room.room(user) > ROOM_FOR_OTHERS;
        if !may || !room.take(user, 1) {
            return Some(job);
        }
        drop(room);
        // There is as much room as that is divided.
        self.jobs.try_send(NewJob { user, job }).err().map(|error| {
            let (TrySendError::Full(new) | TrySendError::Disconnected(new)) = error;
            new.job
        })
    }
}

impl Drop for DiscoveryJobs {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
    }
}

fn room_of(room: &Mutex<Pool>) -> MutexGuard<'_, Pool> {
    // Whole between any two statements that can panic.
    room.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts the thread; it ends when nobody sends jobs any more.
pub(super) fn start(discovery: Discovery) -> std::io::Result<(DiscoveryJobs, JoinHandle<()>)> {
    let (send, jobs) = sync_channel(MOST_NEW_JOBS);
    let room = Arc::new(Mutex::new(Pool::new(MOST_NEW_JOBS as u64)));
    let ended = Arc::new(AtomicBool::new(false));
    let jobs_sent = DiscoveryJobs { jobs: send, room: room.clone(), ended: ended.clone() };
    let thread = std::thread::Builder::new().name("zones-discovery".into()).spawn(move || {
        run(discovery, &jobs, &room, &ended);
    })?;
    Ok((jobs_sent, thread))
}

/// Takes a job on, which makes room for another one of its user.
fn add(discovery: &mut Discovery, NewJob { user, job }: NewJob, room: &Mutex<Pool>) {
    room_of(room).give_back(user, 1);
    discovery.add(job);
}

fn run(mut discovery: Discovery, jobs: &Receiver<NewJob>, room: &Mutex<Pool>, ended: &AtomicBool) {
    let mut allowance = Allowance::new();
    let mut next_look = Instant::now();
    loop {
        let pause = allowance.pause(next_look, discovery.has_jobs());
        if !allowance.is_left() {
            if ended.load(Ordering::Acquire) {
                break;
            }
            // What comes meanwhile waits where it is: to add it costs something, too.
            std::thread::sleep(pause.clamp(SHORTEST_SLEEP, LONGEST_SLEEP));
            continue;
        }
        match jobs.recv_timeout(pause) {
            Ok(job) => allowance.spend(|| add(&mut discovery, job, room)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if allowance.is_left() && Instant::now() >= next_look {
            allowance.spend(|| discovery.poll_arenas());
            next_look = Instant::now() + INTERVAL;
        }
        while allowance.is_left() && discovery.has_jobs() {
            let elsewhere = allowance.spend(|| discovery.do_next());
            allowance.pay(elsewhere);
        }
        while allowance.is_left()
            && let Ok(job) = jobs.try_recv()
        {
            allowance.spend(|| add(&mut discovery, job, room));
        }
    }
    let end = Instant::now() + LONGEST_END;
    while Instant::now() < end
        && let Ok(job) = jobs.try_recv()
    {
        add(&mut discovery, job, room);
    }
    discovery.poll_arenas();
    while Instant::now() < end && discovery.has_jobs() {
        discovery.do_next();
    }
}

/// How much time this thread may take.
struct Allowance {
    credit: Duration,
    last: Instant,
}

impl Allowance {
    fn new() -> Self {
        Self { credit: MOST_CREDIT, last: Instant::now() }
    }

    fn refill(&mut self) {
        let now = Instant::now();
        if now < self.last {
            return;
        }
        self.credit = (self.credit + (now - self.last) / PART_OF_A_CPU).min(MOST_CREDIT);
        self.last = now;
    }

    fn is_left(&mut self) -> bool {
        self.refill();
        !self.credit.is_zero() && self.last <= Instant::now()
    }

    /// Does something; what it costs beyond the credit is waited for afterwards.
    fn spend<T>(&mut self, act: impl FnOnce() -> T) -> T {
        let before = crate::usage::thread_cpu_time();
        let result = act();
        self.pay(crate::usage::thread_cpu_time().saturating_sub(before));
        result
    }

    /// Pays for what was done.
    fn pay(&mut self, cost: Duration) {
        let excess = cost.saturating_sub(self.credit);
        self.credit = self.credit.saturating_sub(cost);
        if !excess.is_zero() {
            // Time that has not passed yet counts for nothing. What is waited for already goes on:
            // jobs are added meanwhile, each at little cost.
            let now = Instant::now();
            self.last = (self.last.max(now) + excess * PART_OF_A_CPU).min(now + LONGEST_WAIT);
        }
    }

    fn pause(&self, next_look: Instant, has_jobs: bool) -> Duration {
        let now = Instant::now();
        let due = if has_jobs { now + Duration::from_millis(5) } else { next_look };
        due.max(self.last).saturating_duration_since(now)
    }
}

/// Why an announced arena was not found.
enum Unlocated {
    /// It is read.
    Known,
    /// It is not there.
    Gone,
}

impl DiscoveryJob {
    /// Whether it may come of nothing: any program makes as many as it likes.
    fn is_doubtful(&self) -> bool {
        matches!(self, Self::Announced(_, None))
    }

    /// Whose it is, as far as that was told.
    fn known_user(&self) -> Option<u32> {
        match self {
            Self::Announced(announcement, _) => Some(announcement.user),
            Self::Process(_, user) => *user,
            Self::Rings(taken) | Self::RollCall(taken) => Some(taken.arena.user),
        }
    }
}

impl UserJobs {
    fn has_jobs(&self) -> bool {
        !(self.jobs.is_empty() && self.doubtful.is_empty())
    }
}

impl Discovery {
    /// Looks after these arenas.
    pub(super) fn new(arenas: Arc<Arenas>) -> Self {
        Self {
            arenas,
            mapped: MappingLooks::new(),
            watched: Vec::new(),
            users: Vec::new(),
            last_roll_call: Instant::now(),
        }
    }

    /// With other looks at mappings.
    #[cfg(test)]
    pub(super) fn looking(self, mapped: MappingLooks) -> Self {
        Self { mapped, ..self }
    }

    /// Whether there is something to do.
    pub(super) fn has_jobs(&self) -> bool {
        self.users.iter().any(UserJobs::has_jobs)
    }

    /// Something is to be done for the user whom it concerns.
    pub(super) fn add(&mut self, job: DiscoveryJob) {
        let user = job.known_user().unwrap_or_else(|| match &job {
            DiscoveryJob::Process(pid, _) => find::user_of(&self.arenas.root(), *pid),
            _ => NOBODY,
        });
        let user = payer(user);
        let least = self.users.iter().map(|user| user.spent).min().unwrap_or_default();
        let index = self.users.iter().position(|known| known.user == user).unwrap_or_else(|| {
            // Who comes now has had no time because there was nothing to do.
            let (jobs, doubtful) = (VecDeque::new(), VecDeque::new());
            self.users.push(UserJobs { user, jobs, doubtful, spent: least });
            self.users.len() - 1
        });
        let of_user = &mut self.users[index];
        if let DiscoveryJob::Process(pid, _) = job {
            let is_it =
                |job: &DiscoveryJob| matches!(job, DiscoveryJob::Process(of, _) if *of == pid);
            if of_user.jobs.iter().any(is_it) {
                return;
            }
        }
        let jobs = match job.is_doubtful() {
            true => &mut of_user.doubtful,
            false => &mut of_user.jobs,
        };
        if jobs.len() < MOST_JOBS {
            jobs.push_back(job);
        } else if let DiscoveryJob::Announced(announcement, _) = job {
            let why = ArenaRefusal::TooMany("its user has announcements,");
            self.arenas.refuse_announced(announcement, &why);
        }
    }

    /// Looks for what has changed: one word of each arena, and of those that another recorder
    /// holds whether it still does.
    pub(super) fn poll_arenas(&mut self) {
        self.watch_new();
        let mut jobs = Vec::new();
        for WatchedArena { taken, claims } in &mut self.watched {
            taken.arena.take_over();
            let now = taken.claims();
            if std::mem::replace(claims, now) != now
                && !taken.rings_wait.swap(true, Ordering::Relaxed)
            {
                jobs.push(DiscoveryJob::Rings(taken.clone()));
            }
        }
        if self.last_roll_call.elapsed() >= ROLL_CALL_INTERVAL {
            self.last_roll_call = Instant::now();
            jobs.extend(self.roll_call());
        }
        jobs.into_iter().for_each(|job| self.add(job));
    }

    /// Arenas that were taken since: threads may have rings in them already.
    fn watch_new(&mut self) {
        for taken in self.arenas.take_new() {
            taken.rings_wait.store(true, Ordering::Relaxed);
            self.add(DiscoveryJob::Rings(taken.clone()));
            self.watched.push(WatchedArena { claims: taken.claims(), taken });
        }
    }

    /// Finds programs that are gone.
    pub(super) fn roll_call(&self) -> Vec<DiscoveryJob> {
        let all = self.watched.iter().map(|watched| &watched.taken);
        let asked = all.filter(|taken| !taken.roll_call_waits.swap(true, Ordering::Relaxed));
        asked.map(|taken| DiscoveryJob::RollCall(taken.clone())).collect()
    }

    /// Does what is next; what that took on other threads.
    pub(super) fn do_next(&mut self) -> Duration {
        let waiting = self.users.iter_mut().filter(|user| user.has_jobs());
        let Some(of_user) = waiting.min_by_key(|user| user.spent) else { return Duration::ZERO };
        let job = of_user.jobs.pop_front().or_else(|| of_user.doubtful.pop_front());
        let Some(job) = job else { return Duration::ZERO };
        let (user, before) = (of_user.user, crate::usage::thread_cpu_time());
        self.act(user, job);
        let elsewhere = self.mapped.take_unpaid();
        let cost = crate::usage::thread_cpu_time().saturating_sub(before) + elsewhere;
        if let Some(of_user) = self.users.iter_mut().find(|known| known.user == user) {
            of_user.spent += cost;
        }
        if !self.has_jobs() {
            self.users.clear();
        }
        elsewhere
    }

    fn act(&mut self, user: u32, job: DiscoveryJob) {
        match job {
            DiscoveryJob::Announced(announcement, found) => {
                self.announced(user, announcement, found);
            }
            DiscoveryJob::Process(pid, _) => self.look_for_arenas(user, pid),
            DiscoveryJob::Rings(taken) => {
                if report_rings(&self.arenas, &taken, RINGS_AT_A_TIME) {
                    taken.rings_wait.store(false, Ordering::Relaxed);
                } else {
                    self.add(DiscoveryJob::Rings(taken));
                }
            }
            DiscoveryJob::RollCall(taken) => {
                taken.roll_call_waits.store(false, Ordering::Relaxed);
                if self.is_gone(&taken) {
                    forget(&self.arenas, &taken);
                    self.watched.retain(|watched| !Arc::ptr_eq(&watched.taken, &taken));
                }
            }
        }
        self.watch_new();
    }

    /// An arena that was announced and not taken at once.
    fn announced(
        &mut self,
        user: u32,
        announcement: Announcement,
        found: Option<Box<LocatedArena>>,
    ) {
        let Announcement { pid, .. } = announcement;
        let located = match found {
            Some(found) => *found,
            None => match self.locate(user, announcement) {
                Ok(located) => located,
                Err(Unlocated::Known) => return,
                Err(Unlocated::Gone) => {
                    return self.arenas.refuse_announced(announcement, &ArenaRefusal::Gone);
                }
            },
        };
        let LocatedArena { path, found } = located;
        if let Some(taken) = self.arenas.known(found.id) {
            return announced_ring(&self.arenas, &taken, announcement);
        }
        if take(&self.arenas, &path, &found, announcement) != TakeoverOutcome::NoRoom {
            return;
        }
        // Of a program that ran others in its place within a second most are gone.
        for taken in self.arenas.of_process(pid) {
            if self.is_gone(&taken) {
                forget(&self.arenas, &taken);
            }
        }
        if take(&self.arenas, &path, &found, announcement) == TakeoverOutcome::NoRoom {
            let why = ArenaRefusal::TooMany("it, or its user, has arenas,");
            self.arenas.refuse_announced(announcement, &why);
        }
    }

    /// Where an arena is that was announced and that nobody has found yet.
    fn locate(&mut self, user: u32, announcement: Announcement) -> Result<LocatedArena, Unlocated> {
        let Announcement { pid, tid, descriptor, .. } = announcement;
        let root = self.arenas.root();
        let paths = find::descriptor_paths(&root, pid, tid, descriptor);
        if let Some(located) = paths.iter().find_map(|path| LocatedArena::at(path.clone())) {
            return Ok(located);
        }
        if self.arenas.knew(&paths, announcement) {
            return Err(Unlocated::Known);
        }
        if !find::is_there(&root, pid) {
            return Err(Unlocated::Gone);
        }
        // Its descriptor is closed, but it may be mapped.
        let mapped = self.mapped.arenas(&root, pid, user);
        // Rings of those that are read are found there.
        let is_known = !mapped.is_empty();
        let mut new =
            mapped.into_iter().filter(|located| self.arenas.known(located.found.id).is_none());
        new.next().ok_or(if is_known { Unlocated::Known } else { Unlocated::Gone })
    }

    /// Arenas that a process made before this recording began. A descriptor
    /// that a child has inherited is not its own.
    fn look_for_arenas(&mut self, user: u32, pid: u32) {
        let root = self.arenas.root();
        let Some(maker) = ArenaMaker::of(&root, pid) else { return };
        let descriptors = find::arena_descriptors(&root, pid).into_iter();
        // Others may have sent it as many descriptors as it takes.
        let own = descriptors.filter_map(LocatedArena::at).filter(|arena| maker.made(&arena.found));
        let mut arenas: Vec<_> = own.take(MOST_OF_A_PROCESS as usize).collect();
        if arenas.is_empty() {
            arenas = self.mapped.arenas(&root, pid, user);
            arenas.retain(|arena| maker.made(&arena.found));
        }
        for LocatedArena { path, found } in arenas.iter().take(MOST_OF_A_PROCESS as usize) {
            if self.arenas.known(found.id).is_some() {
                continue;
            }
            match self.arenas.take(pid, path, found, None) {
                // Nothing of it was announced to this recording.
                Ok(_) | Err(ArenaRefusal::Gone) => {}
                Err(why) => self.arenas.refuse(user, pid, (0, 0), &why),
            }
        }
    }

    fn is_gone(&mut self, taken: &TakenArena) -> bool {
        !self.mapped.still_has(&self.arenas.root(), &taken.place, taken.arena.user)
    }
}

fn forget(arenas: &Arenas, taken: &TakenArena) {
    report_rings(arenas, taken, usize::MAX);
    arenas.forget(taken);
}

/// Looks for rings in use that nobody announced: those of a program that was
/// recorded before, or whose announcement was lost. Tells of so many of them,
/// and returns whether those were all.
fn report_rings(arenas: &Arenas, taken: &TakenArena, most: usize) -> bool {
    let Ok(identities) = taken.arena.memory.identities(taken.arena.rings()) else { return true };
    let used =
        (0..).zip(identities).filter(|(_, identity)| identity.state != RingState::Free as u32);
    let mut untold = used
        .filter(|(ring, identity)| identity.owner != 0 && taken.is_untold(*ring, identity.owner));
    let (root, mut numbering) = (arenas.root(), None);
    for (ring, identity) in untold.by_ref().take(most) {
        let numbering = numbering.get_or_insert_with(|| match taken.same_numbers {
            true => Some(Numbering::Same),
            false => Numbering::of(&root, taken.pid),
        });
        let tid = numbering
            .as_ref()
            .and_then(|numbering| numbering.host_tid(&root, taken.pid, identity.tid));
        arenas.report_owner(taken, ring, identity.owner, tid);
    }
    untold.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::super::AnnouncedFile;
    use super::super::fake::{FakeProcess, FakeProgram};
    use super::super::tests::alone;
    use super::super::watch::WatchEvent;
    use super::*;
    use crate::usage::thread_cpu_time;
    use std::path::Path;
    use std::sync::mpsc::{Receiver, channel};
    use syscollect_model::ClockSource;

    /// A process whose mappings somebody holds for ever.
    const HELD: u32 = 8001;

    /// The other one has closed its descriptor, and has the arena mapped.
    fn find(root: &Path, pid: u32) -> Vec<LocatedArena> {
        match pid {
            HELD => loop {
                std::thread::park();
            },
            _ => {
                let path = root.join(format!("proc/{pid}/fd/3"));
                LocatedArena::at(path).into_iter().collect()
            }
        }
    }

    /// The arenas of a recorder on whose machine the process runs the program.
    fn arenas_of(
        process: &FakeProcess,
        program: &FakeProgram,
    ) -> (Arc<Arenas>, Receiver<WatchEvent>) {
        process.runs(program);
        let user = find::user_of(Path::new("/"), std::process::id());
        let status = format!("Uid:\t{user}\nNSpid:\t{}\n", program.pid());
        std::fs::write(process.root().join("proc/7001/status"), status).unwrap();
        let (found, events) = channel();
        (Arc::new(Arenas::new(process.root(), ClockSource::Tsc, found)), events)
    }

    #[test]
    fn who_holds_the_lock_of_their_mappings_holds_up_nobody_else() {
        let _alone = alone();
        let (process, program) = (FakeProcess::new(), FakeProgram::new());
        let (arenas, events) = arenas_of(&process, &program);
        let patience = Duration::from_millis(20);
        let mut discovery = Discovery::new(arenas).looking(MappingLooks::fake(patience, find));
        for _ in 0..100 {
            discovery.add(DiscoveryJob::Process(HELD, None));
            discovery.do_next();
        }
        discovery.add(DiscoveryJob::Process(7001, None));
        while discovery.has_jobs() {
            discovery.do_next();
        }
        let taken = events.try_iter().any(|event| matches!(event, WatchEvent::Client { .. }));
        assert!(taken, "the arena of the other process was taken");
    }

    /// Announcements of a user's processes that have ended.
    fn announced(user: u32, pid: u32) -> DiscoveryJob {
        let (ticks, descriptor, ring, is_young) = (0, 999, 0, true);
        let file = AnnouncedFile::Other;
        let announcement =
            Announcement { ticks, pid, tid: pid, descriptor, ring, user, file, is_young };
        DiscoveryJob::Announced(announcement, None)
    }

    #[test]
    fn announcements_without_arenas_wait_behind_whatever_else_is_of_their_user() {
        let _alone = alone();
        let (process, program) = (FakeProcess::new(), FakeProgram::new());
        let (arenas, events) = arenas_of(&process, &program);
        let patience = Duration::from_secs(1);
        let mut discovery = Discovery::new(arenas).looking(MappingLooks::fake(patience, find));
        (10_000..12_000).for_each(|pid| discovery.add(announced(1001, pid)));
        discovery.add(DiscoveryJob::Process(7001, Some(1001)));
        discovery.do_next();
        let taken = events.try_iter().any(|event| matches!(event, WatchEvent::Client { .. }));
        assert!(taken, "the arena of the user's other program was taken first");
        while discovery.has_jobs() {
            discovery.do_next();
        }
        let refused: Vec<u32> = events
            .try_iter()
            .filter_map(|event| match event {
                WatchEvent::NotTaken { user, .. } => Some(user),
                _ => None,
            })
            .collect();
        assert_eq!(refused, [1001; 2000]);
    }

    #[test]
    fn new_jobs_of_a_user_leave_room_for_those_of_others_and_doubtful_ones_for_the_rest() {
        let (send, _jobs) = sync_channel(MOST_NEW_JOBS);
        let room = Arc::new(Mutex::new(Pool::new(MOST_NEW_JOBS as u64)));
        let jobs = DiscoveryJobs { jobs: send, room, ended: Arc::default() };
        let sent = (0..10_000).filter(|pid| jobs.send(announced(1001, *pid)).is_none()).count();
        assert!(sent <= MOST_NEW_JOBS / 4, "{sent}");
        assert!(jobs.send(DiscoveryJob::Process(7001, Some(1001))).is_none());
        assert!((0..100).all(|pid| jobs.send(announced(1002, pid)).is_none()));
    }

    fn work(time: Duration) {
        let end = thread_cpu_time() + time;
        while thread_cpu_time() < end {}
    }

    #[test]
    fn what_a_job_has_cost_is_waited_for_whatever_is_added_meanwhile() {
        let mut allowance = Allowance::new();
        let begun = Instant::now();
        // Once what may be taken at once is used up.
        allowance.spend(|| work(MOST_CREDIT + Duration::from_millis(20)));
        for _ in 0..10 {
            allowance.spend(|| work(Duration::from_micros(20)));
        }
        assert!(!allowance.is_left());
        let until = Instant::now() + allowance.pause(begun, true);
        let waits = until.duration_since(begun);
        assert!(waits >= Duration::from_millis(20) * PART_OF_A_CPU, "it waits for {waits:?} only");
    }
}
