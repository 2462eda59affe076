//! Attaching to files piece by piece, so that none of them keeps all others waiting.
//!
//! How long the kernel takes for a point is decided by whoever has the file mapped: each list of
//! mappings is locked, and who changes theirs all the time keeps the lock. So a file is attached to
//! in pieces, the first of one point, and as many points at once as their time allows. What takes
//! longer than a turn goes on when nothing else is to be done, and so does what belongs to an owner
//! whose files have had their share: those who had least come first.

use std::collections::VecDeque;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use syscollect_untrusted_files::payer;

use super::attach::{Point, RefusedPoints, attach};
use super::keeper::{OneProcess, UprobeKeeper};
use super::manager::{AttachContext, ManagerReport};

/// As long may a piece take, and the files of a turn.
const PIECE: Duration = Duration::from_millis(100);
const TURN: Duration = Duration::from_millis(300);
/// What takes longer for a single point is given up, unless the user asked for its probes: rings
/// come first, so that most instrumented programs are recorded all the same.
const SLOW: Duration = Duration::from_secs(1);
/// A piece that was quick is followed by one of so many times as many points.
const GROWTH: usize = 16;
/// No piece has more points.
const SLOTS_MAX: usize = 16_384;
/// What an owner's files may take before they wait, and which part of all time thereafter; the same
/// part is used for those that wait, but more where the user asked for what they have.
const SHARE: Duration = Duration::from_secs(1);
const PART: u32 = 10;
/// The part for those that wait and that the user asked for.
const PART_ASKED_FOR: u32 = 2;
/// Whose files took so long waits for no more of them; and files that may wait, of one owner and in
/// all: each is an open file.
const WAITING_TIME: Duration = Duration::from_secs(5);
const WAITING_OF_OWNER: usize = 512;
const WAITING_MAX: usize = 4096;
/// What is said of those for which there is no room.
pub(super) const NO_ROOM: &str =
    "more files of this user are to be attached to than there is room and time for";
/// Owners whose times are remembered.
const OWNERS_MAX: usize = 4096;

/// A file to attach to.
#[derive(Debug)]
pub(super) struct AttachJob {
    /// As long as it is open, no other file gets its number.
    pub(super) file: OwnedFd,
    pub(super) path: String,
    /// Who owns it.
    pub(super) owner: u32,
    /// Who pays for the time that it takes: its owner, or whose process it is attached to.
    pub(super) payer: u32,
    /// In all processes or in one.
    pub(super) process: Option<OneProcess>,
    /// Leases that are let go for it: behind rings, so that no program finds itself without a
    /// recorder, and before all else, so that nothing is recorded twice.
    pub(super) replaces: Vec<u64>,
    pub(super) rings: Vec<Point>,
    pub(super) hits: Vec<Point>,
    /// Whether the user of the recorder asked for its probes.
    pub(super) is_asked_for: bool,
    pub(super) progress: Progress,
}

/// How far a job has come.
#[derive(Debug)]
pub(super) struct Progress {
    /// Places of the next piece.
    next: usize,
    attached: usize,
    refused: Vec<RefusedPoints>,
    waits_since: Option<Instant>,
}

impl Default for Progress {
    fn default() -> Self {
        Self { next: 1, attached: 0, refused: Vec::new(), waits_since: None }
    }
}

impl Progress {
    /// So many points took so long; how long each of them did.
    fn took(&mut self, points: usize, time: Duration) -> Duration {
        let each = time / points.max(1) as u32;
        self.next = match time <= PIECE / 2 {
            true => points * GROWTH,
            false => (PIECE.as_nanos() / each.as_nanos().max(1)) as usize,
        };
        self.next = self.next.clamp(1, SLOTS_MAX);
        each
    }
}

impl AttachJob {
    /// The next points, and whether rings are announced there.
    fn next_piece(&mut self) -> Option<(bool, Vec<Point>)> {
        let of_rings = !self.rings.is_empty();
        let from = if of_rings { &mut self.rings } else { &mut self.hits };
        let points = self.progress.next.min(from.len());
        (points > 0).then(|| (of_rings, from.drain(..points).collect()))
    }

    fn left(&self) -> usize {
        self.rings.len() + self.hits.len()
    }

    /// Whether it need not wait for others. What is attached to single processes waits, whoever
    /// they are of: who maps the file again and again makes each of these as slow as all of them.
    fn is_awaited(&self, work: &AttachContext) -> bool {
        self.process.is_none() && work.awaits(self.payer)
    }
}

/// Attaches. Dropping it detaches everything.
pub(super) struct Attaching {
    pub(super) keeper: UprobeKeeper,
    waiting: WaitingJobs<AttachJob>,
}

impl Attaching {
    pub(super) fn new(keeper: UprobeKeeper) -> Self {
        Self { keeper, waiting: WaitingJobs::new() }
    }

    /// Whether there is room for one more file of this owner, now or later.
    pub(super) fn has_room(&self, owner: u32) -> bool {
        let now = Instant::now();
        self.waiting.used_by(owner, now) < WAITING_TIME && self.waiting.has_room(owner)
    }

    /// Whether another file of this owner would be attached to at once.
    pub(super) fn has_share(&self, owner: u32) -> bool {
        self.waiting.has_share(owner, Instant::now())
    }

    /// Something else was done for a file of this owner, and took so long.
    pub(super) fn used(&mut self, owner: u32, time: Duration) {
        self.waiting.used(owner, time, Instant::now());
    }

    /// Attaches, or has it done later; whether anything of the file is attached or will be.
    pub(super) fn begin(
        &mut self,
        job: AttachJob,
        work: &AttachContext,
        reported: &ManagerReport,
    ) -> bool {
        match job.is_awaited(work) || self.waiting.has_share(job.payer, Instant::now()) {
            true => self.turn(job, work, reported),
            false => self.wait(job, reported),
        }
    }

    /// How long until one of those that wait has a turn; `None` if none does.
    pub(super) fn next_turn(&self) -> Option<Duration> {
        self.waiting.due_in(Instant::now())
    }

    /// Gives one of those that wait a turn, if it is time.
    pub(super) fn go_on(&mut self, work: &AttachContext, reported: &ManagerReport) {
        let Some(job) = self.waiting.next(Instant::now()) else { return };
        let began = Instant::now();
        let part = if job.is_asked_for { PART_ASKED_FOR } else { PART };
        self.turn(job, work, reported);
        self.waiting.rest(began.elapsed(), part);
    }

    /// Has what was attached under these leases, or is still to be, taken out by and by.
    pub(super) fn let_go(&mut self, leases: &[u64], reported: &ManagerReport) {
        self.take_out(leases, false, reported);
    }

    fn take_out(&mut self, leases: &[u64], at_once: bool, reported: &ManagerReport) {
        for job in
            self.waiting.remove(|job| job.process.is_some_and(|one| leases.contains(&one.lease)))
        {
            finish(&job, reported);
        }
        if !leases.is_empty() {
            // Without a keeper nothing is attached, which is told.
            let _ = self.keeper.let_go(leases, at_once);
        }
    }

    fn turn(&mut self, mut job: AttachJob, work: &AttachContext, reported: &ManagerReport) -> bool {
        // Who is no longer attached to by itself is to be attached to with all others at once.
        let mut is_urgent = self.replace(&mut job, reported);
        let began = Instant::now();
        while !reported.is_stopping()
            && let Some((of_rings, points)) = job.next_piece()
        {
            let program = if of_rings { &work.on_ring } else { &work.on_probe };
            reported.unattached().begin(job.owner, &job.path);
            let began_piece = Instant::now();
            let file = job.file.as_fd();
            let refused = attach(&mut self.keeper, work.way, program, file, &points, job.process);
            let took = began_piece.elapsed();
            reported.unattached().end();
            is_urgent |= self.replace(&mut job, reported);
            self.waiting.used(job.payer, took, Instant::now());
            let lost: usize = refused.iter().map(|refused| refused.points).sum();
            job.progress.attached += points.len() - lost;
            job.progress.refused.extend(refused);
            let each = job.progress.took(points.len(), took);
            if each >= SLOW && !job.is_asked_for && job.left() > 0 {
                reported.unattached().refuse(job.owner, &job.path, too_slow(each, &job));
                self.take_out(&std::mem::take(&mut job.replaces), false, reported);
                return finish(&job, reported);
            }
            // Whoever is attached to by itself until then would find nobody while it waits.
            let may_wait = !is_urgent && job.replaces.is_empty() && !job.is_awaited(work);
            let is_over = each >= SLOW || (may_wait && began.elapsed() >= TURN);
            if is_over && job.left() > 0 {
                return self.wait(job, reported);
            }
        }
        if job.left() > 0 {
            return self.wait(job, reported);
        }
        finish(&job, reported)
    }

    /// Lets go what the job replaces, if it is time; whether anything was.
    fn replace(&mut self, job: &mut AttachJob, reported: &ManagerReport) -> bool {
        let is_time = job.rings.is_empty() && !job.replaces.is_empty();
        if is_time {
            self.take_out(&std::mem::take(&mut job.replaces), true, reported);
        }
        is_time
    }

    fn wait(&mut self, mut job: AttachJob, reported: &ManagerReport) -> bool {
        let owner = job.owner;
        if job.progress.waits_since.is_none() {
            job.progress.waits_since = Some(Instant::now());
            reported.unattached().wait(owner);
        }
        let Err(job) = self.waiting.add(job.payer, job) else { return true };
        reported.unattached().refuse(owner, &job.path, NO_ROOM.to_owned());
        finish(&job, reported)
    }
}

fn too_slow(each: Duration, job: &AttachJob) -> String {
    format!(
        "the processes that run it kept the kernel waiting for {:.1} s at one place, and no \
         process could fork meanwhile: {} more places are left out",
        each.as_secs_f64(),
        job.left()
    )
}

/// Tells what became of a file; whether anything is attached.
fn finish(job: &AttachJob, reported: &ManagerReport) -> bool {
    let Progress { attached, refused, waits_since, .. } = &job.progress;
    if let Some(since) = waits_since {
        reported.unattached().waited(job.owner, *since);
    }
    reported.attached(*attached);
    let lost: usize = refused.iter().map(|refused| refused.points).sum();
    // Who was attached to alone may have ended before.
    let is_gone =
        |of: &&RefusedPoints| job.process.is_some() && of.why.raw_os_error() == Some(libc::ESRCH);
    if let Some(first) = refused.iter().find(|of| !is_gone(of)) {
        let (path, all) = (&job.path, attached + lost + job.left());
        let note = format!("{lost} of {all} places in {path} cannot be probed: {}", first.why);
        reported.note_of(job.payer, note);
    }
    *attached > 0
}

/// What waits, and how much time each owner's files took.
struct WaitingJobs<T> {
    waiting: VecDeque<(u32, T)>,
    /// What each has used beyond the part that it may always use, and when that was so.
    used: FxHashMap<u32, (Duration, Instant)>,
    not_before: Instant,
}

impl<T> WaitingJobs<T> {
    fn new() -> Self {
        Self { waiting: VecDeque::new(), used: FxHashMap::default(), not_before: Instant::now() }
    }

    fn used_by(&self, owner: u32, now: Instant) -> Duration {
        self.used.get(&payer(owner)).map_or(Duration::ZERO, |used| left(used, now))
    }

    fn used(&mut self, owner: u32, time: Duration, now: Instant) {
        let owner = payer(owner);
        let used = self.used_by(owner, now) + time;
        if self.used.len() >= OWNERS_MAX {
            self.used.retain(|_, used| !left(used, now).is_zero());
        }
        if self.used.len() < OWNERS_MAX || self.used.contains_key(&owner) {
            self.used.insert(owner, (used, now));
        }
    }

    /// Whether the files of this owner need not wait.
    fn has_share(&self, owner: u32, now: Instant) -> bool {
        self.used_by(owner, now) < SHARE
            && !self.waiting.iter().any(|(of, _)| payer(*of) == payer(owner))
    }

    /// One more waits; it is given back where there is no room for it.
    fn add(&mut self, owner: u32, what: T) -> Result<(), T> {
        if !self.has_room(owner) {
            return Err(what);
        }
        self.waiting.push_back((owner, what));
        Ok(())
    }

    /// Takes out what waits no longer.
    fn remove(&mut self, is_over: impl Fn(&T) -> bool) -> Vec<T> {
        let all = std::mem::take(&mut self.waiting);
        let (over, stay): (VecDeque<_>, _) = all.into_iter().partition(|(_, what)| is_over(what));
        self.waiting = stay;
        over.into_iter().map(|(_, what)| what).collect()
    }

    fn has_room(&self, owner: u32) -> bool {
        let of_owner = self.waiting.iter().filter(|(of, _)| payer(*of) == payer(owner)).count();
        of_owner < WAITING_OF_OWNER && self.waiting.len() < WAITING_MAX
    }

    fn due_in(&self, now: Instant) -> Option<Duration> {
        (!self.waiting.is_empty()).then(|| self.not_before.saturating_duration_since(now))
    }

    /// The first of the owner who used least, if it is time.
    fn next(&mut self, now: Instant) -> Option<T> {
        if now < self.not_before {
            return None;
        }
        let owners = self.waiting.iter().enumerate();
        let first = owners.min_by_key(|(index, (owner, _))| (self.used_by(*owner, now), *index))?;
        let first = first.0;
        self.waiting.remove(first).map(|(_, what)| what)
    }

    /// A turn took so long.
    fn rest(&mut self, took: Duration, part: u32) {
        self.not_before = Instant::now() + took * (part - 1);
    }
}

/// What is left of a time that was used then.
fn left((used, at): &(Duration, Instant), now: Instant) -> Duration {
    used.saturating_sub(now.saturating_duration_since(*at) / PART)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: u32 = 1001;
    const HONEST: u32 = 1002;

    #[test]
    fn who_used_more_than_a_share_waits_and_nobody_else_does() {
        let (mut waiting, now) = (WaitingJobs::new(), Instant::now());
        waiting.used(HOSTILE, SHARE * 2, now);
        assert!(!waiting.has_share(HOSTILE, now) && waiting.has_share(HONEST, now));
        (0..9).for_each(|job| waiting.add(HOSTILE, job).unwrap());
        waiting.add(HONEST, 100).unwrap();
        let next: Vec<_> = (0..3).filter_map(|_| waiting.next(now)).collect();
        assert_eq!(next, [100, 0, 1], "who used least comes first, then what came first");
        assert!(!waiting.has_share(HOSTILE, now + SHARE * PART), "its files come in their order");
        while waiting.next(now).is_some() {}
        assert!(waiting.has_share(HOSTILE, now + SHARE * PART + SHARE));
        assert_eq!(waiting.due_in(now), None);
    }

    #[test]
    fn those_that_wait_use_a_part_of_all_time() {
        let mut waiting = WaitingJobs::new();
        (0..2).for_each(|job| waiting.add(HOSTILE, job).unwrap());
        assert_eq!(waiting.next(Instant::now()), Some(0));
        waiting.rest(SHARE, PART);
        assert_eq!(waiting.next(Instant::now()), None);
        let due = waiting.due_in(Instant::now()).unwrap();
        assert!(due > SHARE * (PART - 2) && due <= SHARE * (PART - 1), "{due:?}");
        assert_eq!(waiting.next(Instant::now() + due), Some(1));
    }

    #[test]
    fn neither_files_that_wait_nor_owners_are_without_end() {
        let (mut waiting, now) = (WaitingJobs::new(), Instant::now());
        let of_one = (0..1000).filter(|job| waiting.add(HOSTILE, *job).is_ok()).count();
        assert_eq!(of_one, WAITING_OF_OWNER);
        let of_all = (0..5_000).filter(|job| waiting.add(*job, *job).is_ok()).count();
        assert_eq!(of_all + of_one, WAITING_MAX);
        (0..5_000).for_each(|owner| waiting.used(owner, SHARE, now));
        assert_eq!(waiting.used.len(), OWNERS_MAX);
        waiting.used(HONEST + 200_000, SHARE, now + SHARE * PART * 2);
        assert_eq!(waiting.used.len(), 1, "who used nothing for long is forgotten");
    }

    #[test]
    fn pieces_grow_while_they_are_quick_and_shrink_when_they_are_not() {
        let mut progress = Progress::default();
        assert_eq!(progress.took(1, Duration::from_millis(20)), Duration::from_millis(20));
        assert_eq!(progress.next, GROWTH);
        progress.took(16, Duration::from_millis(800));
        assert_eq!(progress.next, 2);
        progress.took(2, Duration::from_secs(5));
        assert_eq!(progress.next, 1);
        progress.took(10_000, Duration::ZERO);
        assert_eq!(progress.next, SLOTS_MAX);
    }
}
