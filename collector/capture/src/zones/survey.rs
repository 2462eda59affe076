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
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use syscollect_zone_protocol::arena::RingState;

use super::arena::{LocatedArena, NotTaken};
use super::find::{self, Numbering};
use super::mapped::MappingLooks;
use super::taken::{Arenas, MOST_OF_A_PROCESS, TakenArena};
use super::watch::{Announcement, refused, take};

/// Changes are looked for this often.
const INTERVAL: Duration = Duration::from_millis(100);
/// Programs that are gone, and arenas that another recorder held, are looked at this often.
const ROLL_CALL_INTERVAL: Duration = Duration::from_secs(1);
/// Of a CPU this takes one part in so many.
const PART_OF_A_CPU: u32 = 60;
/// What it may take at once, if it has taken little before.
const MOST_CREDIT: Duration = Duration::from_millis(20);
/// Jobs that come without end, each of which costs something to add, make others wait no longer.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// How long the last survey of a recording may take.
const LONGEST_END: Duration = Duration::from_millis(300);
/// Jobs that wait to be looked at, and those of a user that wait to be done, at most.
const MOST_NEW_JOBS: usize = 1024;
const MOST_JOBS: usize = 2 * super::taken::MOST_ARENAS as usize;
/// Rings of an arena whose threads are looked up at a time; each needs a look into /proc.
const RINGS_AT_A_TIME: usize = 64;

/// Something that takes its time.
pub(super) enum SurveyJob {
    /// An arena was announced that is not where it should be, or was found (there) and not taken at
    /// once.
    Announced(Announcement, Option<Box<LocatedArena>>),
    /// This process may have arenas from an earlier recording.
    Process(u32),
    /// Threads have taken rings in it.
    Rings(Arc<TakenArena>),
    /// Its program may be gone.
    RollCall(Arc<TakenArena>),
    /// Another recorder had it.
    Held(u32, PathBuf),
}

/// What looks and waits for its turn.
pub(super) struct Survey {
    arenas: Arc<Arenas>,
    mapped: MappingLooks,
    watched: Vec<Watched>,
    users: Vec<OfUser>,
    last_roll_call: Instant,
}

/// An arena that was taken.
struct Watched {
    taken: Arc<TakenArena>,
    /// Its count of rings that were taken, when they were last looked for.
    claims: u32,
}

/// What is to be done for a user.
struct OfUser {
    user: u32,
    jobs: VecDeque<SurveyJob>,
    spent: Duration,
}

/// Starts the thread; it ends when nobody sends jobs any more.
pub(super) fn start(survey: Survey) -> std::io::Result<(SyncSender<SurveyJob>, JoinHandle<()>)> {
    let (send, jobs) = sync_channel(MOST_NEW_JOBS);
    let thread = std::thread::Builder::new()
        .name("zones-survey".into())
        .spawn(move || run(survey, &jobs))?;
    Ok((send, thread))
}

fn run(mut survey: Survey, jobs: &Receiver<SurveyJob>) {
    let mut allowance = Allowance::new();
    let mut next_look = Instant::now();
    loop {
        match jobs.recv_timeout(allowance.pause(next_look, survey.has_jobs())) {
            Ok(job) => allowance.spend(|| survey.add(job)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if allowance.is_left() && Instant::now() >= next_look {
            allowance.spend(|| survey.look());
            next_look = Instant::now() + INTERVAL;
        }
        while allowance.is_left() && survey.has_jobs() {
            let elsewhere = allowance.spend(|| survey.do_next());
            allowance.pay(elsewhere);
        }
        while allowance.is_left()
            && let Ok(job) = jobs.try_recv()
        {
            allowance.spend(|| survey.add(job));
        }
    }
    let end = Instant::now() + LONGEST_END;
    survey.look();
    while Instant::now() < end && survey.has_jobs() {
        survey.do_next();
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

impl Survey {
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
        self.users.iter().any(|user| !user.jobs.is_empty())
    }

    /// Something is to be done for the user whom it concerns.
    pub(super) fn add(&mut self, job: SurveyJob) {
        let user = match &job {
            SurveyJob::Announced(_, Some(located)) => located.found.user,
            SurveyJob::Announced(Announcement { pid, .. }, None)
            | SurveyJob::Process(pid)
            | SurveyJob::Held(pid, _) => find::user_of(&self.arenas.root(), *pid),
            SurveyJob::Rings(taken) | SurveyJob::RollCall(taken) => taken.arena.user,
        };
        let least = self.users.iter().map(|user| user.spent).min().unwrap_or_default();
        let index = self.users.iter().position(|known| known.user == user).unwrap_or_else(|| {
            // Who comes now has had no time because there was nothing to do.
            self.users.push(OfUser { user, jobs: VecDeque::new(), spent: least });
            self.users.len() - 1
        });
        let of_user = &mut self.users[index];
        if matches!(job, SurveyJob::Process(pid) if of_user.jobs.iter().any(|job| matches!(job, SurveyJob::Process(p) if *p == pid)))
        {
            return;
        }
        if of_user.jobs.len() < MOST_JOBS {
            of_user.jobs.push_back(job);
        } else if let SurveyJob::Announced(Announcement { pid, tid, ring, .. }, _) = job {
            self.arenas.refuse(pid, (tid, ring), &NotTaken::TooMany("its user has announcements,"));
        }
    }

    /// Looks for what has changed: one word of each arena.
    pub(super) fn look(&mut self) {
        self.watch_new();
        let mut jobs = Vec::new();
        for Watched { taken, claims } in &mut self.watched {
            let now = taken.claims();
            if std::mem::replace(claims, now) != now
                && !taken.rings_wait.swap(true, Ordering::Relaxed)
            {
                jobs.push(SurveyJob::Rings(taken.clone()));
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
            self.add(SurveyJob::Rings(taken.clone()));
            self.watched.push(Watched { claims: taken.claims(), taken });
        }
    }

    /// Finds programs that are gone, and takes what another recorder has left.
    pub(super) fn roll_call(&self) -> Vec<SurveyJob> {
        let all = self.watched.iter().map(|watched| &watched.taken);
        let asked = all.filter(|taken| !taken.roll_call_waits.swap(true, Ordering::Relaxed));
        let held =
            self.arenas.take_held().into_iter().map(|(pid, path)| SurveyJob::Held(pid, path));
        asked.map(|taken| SurveyJob::RollCall(taken.clone())).chain(held).collect()
    }

    /// Does what is next; what that took on other threads.
    pub(super) fn do_next(&mut self) -> Duration {
        let waiting = self.users.iter_mut().filter(|user| !user.jobs.is_empty());
        let Some(of_user) = waiting.min_by_key(|user| user.spent) else { return Duration::ZERO };
        let Some(job) = of_user.jobs.pop_front() else { return Duration::ZERO };
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

    fn act(&mut self, user: u32, job: SurveyJob) {
        match job {
            SurveyJob::Announced(announcement, found) => self.announced(user, announcement, found),
            SurveyJob::Process(pid) => self.look_for_arenas(user, pid),
            SurveyJob::Rings(taken) => {
                if tell_rings(&self.arenas, &taken, RINGS_AT_A_TIME) {
                    taken.rings_wait.store(false, Ordering::Relaxed);
                } else {
                    self.add(SurveyJob::Rings(taken));
                }
            }
            SurveyJob::RollCall(taken) => {
                taken.roll_call_waits.store(false, Ordering::Relaxed);
                if self.is_gone(&taken) {
                    forget(&self.arenas, &taken);
                    self.watched.retain(|watched| !Arc::ptr_eq(&watched.taken, &taken));
                }
            }
            SurveyJob::Held(pid, path) => {
                let found = self.mapped.at(&path, user);
                let taken = found.map(|found| self.arenas.take(pid, &path, &found));
                if matches!(taken, Some(Err(NotTaken::Held))) {
                    self.arenas.hold_on(pid, path);
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
        let Announcement { pid, tid, ring, .. } = announcement;
        let found = found.map(|found| *found).or_else(|| {
            // Its descriptor is closed, but it may be mapped.
            let mut mapped = self.mapped.arenas(&self.arenas.root(), pid, user).into_iter();
            mapped.find(|located| self.arenas.known(located.found.id).is_none())
        });
        let Some(LocatedArena { path, found }) = found else {
            return self.arenas.refuse(pid, (tid, ring), &NotTaken::Gone);
        };
        if take(&self.arenas, &path, &found, announcement) {
            return;
        }
        // Of a program that ran others in its place within a second most are gone.
        for taken in self.arenas.of_process(pid) {
            if self.is_gone(&taken) {
                forget(&self.arenas, &taken);
            }
        }
        if !take(&self.arenas, &path, &found, announcement) {
            self.arenas.refuse(
                pid,
                (tid, ring),
                &NotTaken::TooMany("it, or its user, has arenas,"),
            );
        }
    }

    /// Arenas that a process made before this recording began. A descriptor
    /// that a child has inherited is not its own.
    fn look_for_arenas(&mut self, user: u32, pid: u32) {
        let root = self.arenas.root();
        let descriptors = find::arena_descriptors(&root, pid).into_iter();
        let places = descriptors.take(MOST_OF_A_PROCESS as usize);
        let mut places: Vec<_> = places.filter_map(LocatedArena::at).collect();
        if places.is_empty() {
            places = self.mapped.arenas(&root, pid, user);
        }
        let own_id = find::own_id(&root, pid);
        for LocatedArena { path, found } in places.iter().take(MOST_OF_A_PROCESS as usize) {
            if self.arenas.known(found.id).is_some() || found.owner() != own_id {
                continue;
            }
            match self.arenas.take(pid, path, found) {
                // Nothing of it was announced to this recording.
                Ok(_) | Err(NotTaken::Gone) => {}
                Err(why) => refused(&self.arenas, pid, path, (0, 0), &why),
            }
        }
    }

    fn is_gone(&mut self, taken: &TakenArena) -> bool {
        !self.mapped.still_has(&self.arenas.root(), &taken.place, taken.arena.user)
    }
}

fn forget(arenas: &Arenas, taken: &TakenArena) {
    tell_rings(arenas, taken, usize::MAX);
    arenas.forget(taken);
}

/// Looks for rings in use that nobody announced: those of a program that was
/// recorded before, or whose announcement was lost. Tells of so many of them,
/// and returns whether those were all.
fn tell_rings(arenas: &Arenas, taken: &TakenArena, most: usize) -> bool {
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
        arenas.tell(taken, ring, identity.owner, tid);
    }
    untold.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::super::fake::{FakeProcess, FakeProgram};
    use super::super::watch::WatchEvent;
    use super::*;
    use crate::usage::thread_cpu_time;
    use std::path::Path;
    use std::sync::mpsc::channel;
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

    #[test]
    fn who_holds_the_lock_of_their_mappings_holds_up_nobody_else() {
        let (process, program) = (FakeProcess::new(), FakeProgram::new());
        process.runs(&program);
        let status = format!("NSpid:\t{}\n", program.pid());
        std::fs::write(process.root().join("proc/7001/status"), status).unwrap();
        let (found, events) = channel();
        let arenas = Arc::new(Arenas::new(process.root(), ClockSource::Tsc, found));
        let patience = Duration::from_millis(20);
        let mut survey = Survey::new(arenas).looking(MappingLooks::fake(patience, find));
        for _ in 0..100 {
            survey.add(SurveyJob::Process(HELD));
            survey.do_next();
        }
        survey.add(SurveyJob::Process(7001));
        while survey.has_jobs() {
            survey.do_next();
        }
        let taken = events.try_iter().any(|event| matches!(event, WatchEvent::Client { .. }));
        assert!(taken, "the arena of the other process was taken");
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
