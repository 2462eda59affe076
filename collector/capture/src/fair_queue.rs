//! A fair queue of what users of the machine decide on.
//!
//! Every user decides how much there is to look into and to open. So what waits is kept apart for
//! each user: whoever took the shortest time comes next, and a user has so much of each second. Who
//! floods waits behind their own files only. What was late, and what was left out, is told of each
//! user.

use std::collections::{BTreeMap, VecDeque};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use syscollect_untrusted_files::payer;

use crate::shares::UserRateLimits;
use crate::snapshot::user_of;
use crate::{by_user, snapshot};

/// What waits of one user; what is beyond is counted.
const WAITING_MAX: usize = 8192;
/// Users that are told apart; all others are one.
const USERS_MAX: usize = 512;
/// What waited for so long is told of.
const LATE: Duration = Duration::from_secs(1);
/// What had waited for so long in the end is told of: each takes its time on a quiet machine, too.
const NEVER: Duration = Duration::from_millis(200);
/// Whose a process is, is read anew after so long: its number may be another's by then.
const OWNERS_HOLD: Duration = Duration::from_millis(100);

/// Something that waits for turns.
pub(crate) trait QueuedWork {
    /// How many files, programs and processes it is of.
    fn count(&self) -> u64;
}

/// What waits, in turns of users.
pub(crate) struct FairQueue<T> {
    users: FxHashMap<ProcessUser, UserQueue<T>>,
    pace: UserRateLimits,
    /// The user who asked for the recording, who may have all the time that others leave.
    asked_by: Option<u32>,
    /// What whoever came last had had before: who comes anew begins there.
    reached: Duration,
    /// Who pays for a user's turn.
    payer: fn(u32) -> u32,
}

/// A user, or those of whom nobody knows who they are: their processes have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum ProcessUser {
    /// A user's.
    Of(u32),
    /// Nobody knows.
    Unknown,
}

impl ProcessUser {
    /// Who pays for the time that is taken.
    fn paying(self, payer: fn(u32) -> u32) -> Self {
        match self {
            Self::Of(uid) => Self::Of(payer(uid)),
            Self::Unknown => Self::Unknown,
        }
    }

    /// The user who pays for this one's time.
    pub(crate) fn payer(self) -> Self {
        self.paying(payer)
    }

    /// The user's number, as far as it is known.
    pub(crate) fn uid(self) -> Option<u32> {
        match self {
            Self::Of(uid) => Some(uid),
            Self::Unknown => None,
        }
    }
}

struct UserQueue<T> {
    waiting: VecDeque<(T, ProcessUser, Instant)>,
    /// How much time this user took.
    had: Duration,
    account: Account,
}

impl<T: QueuedWork> UserQueue<T> {
    /// Whether what waits first is root's or that of the user who asked, who have all there is.
    fn has_all(&self, asked_by: Option<u32>) -> bool {
        match self.waiting.front() {
            Some((_, ProcessUser::Of(uid), _)) => *uid == 0 || Some(*uid) == asked_by,
            _ => false,
        }
    }

    /// What was not done in time, and what waits too long now.
    fn account_at(&self, now: Instant) -> Account {
        let waits = self
            .waiting
            .iter()
            .map(|(what, _, since)| (what, now.saturating_duration_since(*since)));
        // What came first waits first.
        let oldest = waits.clone().next().map_or(Duration::ZERO, |(_, waited)| waited);
        let longest = self.account.longest.max(oldest);
        let long = waits.take_while(|(_, waited)| *waited >= NEVER);
        let waiting = long.map(|(what, _)| what.count()).sum();
        Account { waiting, longest, ..self.account }
    }
}

/// What was not done in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Account {
    /// There was no room for them, or no time.
    pub(crate) left_out: u64,
    /// They wait, and did so for a while.
    pub(crate) waiting: u64,
    /// They were done late, and that changed something.
    pub(crate) late: u64,
    /// The longest that one waited.
    pub(crate) longest: Duration,
}

impl Account {
    /// `2 not noted, 10 came late by up to 2.1 s`, with the words for what is left out.
    pub(crate) fn shortcomings(&self, not_done: &str) -> String {
        let left_out = self.left_out + self.waiting;
        let left_out = (left_out > 0).then(|| format!("{left_out} {not_done}"));
        let longest = self.longest.as_secs_f64();
        let late =
            (self.late > 0).then(|| format!("{} came late by up to {longest:.1} s", self.late));
        left_out.into_iter().chain(late).collect::<Vec<_>>().join(", ")
    }
}

/// What is done now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Turn<T> {
    pub(crate) whose: ProcessUser,
    pub(crate) what: T,
    /// Whose turn it is: who pays for it.
    of: ProcessUser,
    since: Instant,
}

/// What came of a turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TurnOutcome {
    /// How many times it counts: a look at a file that changes again and again costs its user more
    /// than the first.
    pub(crate) times: u32,
    /// If it was late, that changed something: a probe was attached to late, or what there was to
    /// open is gone.
    pub(crate) tells_if_late: bool,
}

impl TurnOutcome {
    /// Nothing that depends on when it was.
    pub(crate) const NOTHING: Self = Self { times: 1, tells_if_late: false };
}

impl<T: QueuedWork> FairQueue<T> {
    /// Nothing waits. A user may take `share` of each second, but for root and the one who asked
    /// for the recording.
    pub(crate) fn new(asked_by: Option<u32>, share: Duration) -> Self {
        Self {
            users: FxHashMap::default(),
            pace: UserRateLimits::new(microseconds(share)),
            asked_by,
            reached: Duration::ZERO,
            payer,
        }
    }

    /// Something more waits, since then; `false` if there is no room for it.
    pub(crate) fn add(&mut self, whose: ProcessUser, what: T, since: Instant) -> bool {
        let reached = self.reached;
        let user = self.user(whose);
        if user.waiting.is_empty() {
            // Nobody saves up time in which there was nothing to do.
            user.had = user.had.max(reached);
        }
        let has_room = user.waiting.len() < WAITING_MAX;
        match has_room {
            true => user.waiting.push_back((what, whose, since)),
            false => user.account.left_out += what.count(),
        }
        has_room
    }

    /// There is no room elsewhere for something of a user's.
    pub(crate) fn refuse(&mut self, whose: ProcessUser, what: &T) {
        self.user(whose).account.left_out += what.count();
    }

    /// Work of another kind was done for a user: it counts for whose turn is next, and is none of
    /// the share of each second.
    pub(crate) fn took_besides(&mut self, whose: ProcessUser, took: Duration) {
        self.user(whose).had += took;
    }

    /// How much time a user took, with all that was done [besides](Self::took_besides).
    pub(crate) fn had(&self, whose: ProcessUser) -> Duration {
        let user = self.users.get(&whose.paying(self.payer));
        user.map_or(Duration::ZERO, |user| user.had)
    }

    /// Who pays for what is of this user, among those that are told apart.
    fn user(&mut self, whose: ProcessUser) -> &mut UserQueue<T> {
        let paying = whose.paying(self.payer);
        if self.users.len() >= USERS_MAX && !self.users.contains_key(&paying) {
            self.users
                .retain(|_, user| !user.waiting.is_empty() || user.account != Account::default());
        }
        let is_told_apart = self.users.len() < USERS_MAX || self.users.contains_key(&paying);
        let paying = if is_told_apart { paying } else { ProcessUser::Unknown };
        self.users.entry(paying).or_insert_with(|| UserQueue {
            waiting: VecDeque::new(),
            had: Duration::ZERO,
            account: Account::default(),
        })
    }

    /// What was begun in this turn goes on in its user's next one.
    pub(crate) fn go_on(&mut self, turn: &Turn<()>, what: T) {
        if let Some(user) = self.users.get_mut(&turn.of) {
            user.waiting.push_front((what, turn.whose, turn.since));
        }
    }

    /// What to do now; `None` if nothing waits, or all who wait have had their share.
    pub(crate) fn next(&mut self, now: Instant) -> Option<Turn<T>> {
        self.pace.refill(now);
        let Self { users, pace, asked_by, reached, .. } = self;
        // What runs as another id of the user who asked has no more than that of others.
        let allowed = users.iter_mut().filter(|(of, user)| {
            user.has_all(*asked_by) || pace.allows(of.uid().unwrap_or(UNKNOWN))
        });
        next_of(allowed, reached)
    }

    /// What to do now, whoever had their share; `None` if nothing waits.
    pub(crate) fn next_of_all(&mut self) -> Option<Turn<T>> {
        next_of(self.users.iter_mut(), &mut self.reached)
    }

    /// A turn that began then took so long.
    pub(crate) fn took(
        &mut self,
        turn: &Turn<()>,
        began: Instant,
        took: Duration,
        outcome: TurnOutcome,
    ) {
        let Some(user) = self.users.get_mut(&turn.of) else { return };
        let TurnOutcome { times, tells_if_late } = outcome;
        user.had += took.saturating_mul(times);
        let waited = began.saturating_duration_since(turn.since);
        if waited >= LATE && tells_if_late {
            user.account.late += 1;
            user.account.longest = user.account.longest.max(waited);
        }
        let uid = turn.of.uid().unwrap_or(UNKNOWN);
        self.pace.took(uid, microseconds(took).saturating_mul(u64::from(times)));
    }

    /// So much of what came in this turn is left out.
    pub(crate) fn left_out(&mut self, turn: &Turn<()>, count: u64) {
        if let Some(user) = self.users.get_mut(&turn.of) {
            user.account.left_out += count;
        }
    }

    /// Nothing waits any more; `each` gets what is left out.
    pub(crate) fn leave_out(&mut self, now: Instant, mut each: impl FnMut(T)) {
        for user in self.users.values_mut() {
            for (what, _, since) in user.waiting.drain(..) {
                let waited = now.saturating_duration_since(since);
                user.account.longest = user.account.longest.max(waited);
                user.account.left_out += what.count();
                each(what);
            }
        }
    }

    /// Whether something waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.users.values().all(|user| user.waiting.is_empty())
    }

    /// What was not done in time, of each user; the most first.
    fn accounts(&self, now: Instant) -> Vec<(ProcessUser, Account)> {
        let mut accounts: Vec<_> =
            self.users.iter().map(|(whose, user)| (*whose, user.account_at(now))).collect();
        accounts.retain(|(_, account)| account.left_out + account.waiting + account.late > 0);
        accounts.sort_by_key(|(whose, account)| {
            (std::cmp::Reverse(account.left_out + account.waiting), *whose)
        });
        accounts
    }

    /// The sum of what was not done in time.
    pub(crate) fn account(&self, now: Instant) -> Account {
        self.accounts(now).into_iter().fold(Account::default(), |sum, (_, one)| sum + one)
    }

    /// What to tell the user of it in the end, each in the `words` for an account and whose
    /// programs it is of.
    pub(crate) fn notes(&self, now: Instant, words: fn(&Account, &str) -> String) -> Vec<String> {
        let accounts = self.accounts(now).into_iter().map(|(whose, account)| match whose {
            ProcessUser::Of(uid) => (format!("of user {uid}"), account),
            ProcessUser::Unknown => ("that ended at once".to_owned(), account),
        });
        by_user::notes(accounts, words)
    }
}

/// Under this number of no user the pace knows those of whom nothing is known.
const UNKNOWN: u32 = u32::MAX;

/// The first that waits, of whoever took the least.
fn next_of<'a, T: 'a>(
    users: impl Iterator<Item = (&'a ProcessUser, &'a mut UserQueue<T>)>,
    reached: &mut Duration,
) -> Option<Turn<T>> {
    let (of, user) = users
        .filter(|(_, user)| !user.waiting.is_empty())
        .min_by_key(|(of, user)| (user.had, **of))?;
    *reached = user.had;
    let (what, whose, since) = user.waiting.pop_front()?;
    Some(Turn { whose, what, of: *of, since })
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl std::ops::Add for Account {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            left_out: self.left_out + other.left_out,
            waiting: self.waiting + other.waiting,
            late: self.late + other.late,
            longest: self.longest.max(other.longest),
        }
    }
}

impl<T> Turn<T> {
    /// What to do, and the rest, to say later how long it took.
    pub(crate) fn take(self) -> (T, Turn<()>) {
        let Self { whose, what, of, since } = self;
        (what, Turn { whose, what: (), of, since })
    }
}

/// Whose processes are, as was read a moment ago: a program that starts maps many files.
pub(crate) struct ProcessUsers {
    /// Below which /proc is.
    root: PathBuf,
    read: Option<Instant>,
    known: FxHashMap<u32, ProcessUser>,
}

impl Default for ProcessUsers {
    fn default() -> Self {
        Self::below(Path::new("/"))
    }
}

impl ProcessUsers {
    /// Of processes below `root`/proc.
    pub(crate) fn below(root: &Path) -> Self {
        Self { root: root.to_path_buf(), read: None, known: FxHashMap::default() }
    }

    /// All processes, by who pays for what they take, each user's newest last. Of most it is told
    /// by who owns what the kernel shows of them, without reading it: only of programs with other
    /// rights than their user's that is root.
    pub(crate) fn processes(&mut self) -> BTreeMap<ProcessUser, Vec<u32>> {
        let mut pids = snapshot::pids(&self.root);
        pids.sort_unstable();
        let mut by_user = BTreeMap::<ProcessUser, Vec<u32>>::new();
        for pid in pids {
            let shown = std::fs::metadata(self.root.join(format!("proc/{pid}/stat")));
            let whose = match shown.map(|data| data.uid()) {
                Ok(0) => self.whose(pid),
                Ok(uid) => ProcessUser::Of(uid),
                // It has ended.
                Err(_) => continue,
            };
            by_user.entry(whose.payer()).or_default().push(pid);
        }
        by_user
    }

    /// Whose a process is.
    pub(crate) fn whose(&mut self, pid: u32) -> ProcessUser {
        if self.read.is_none_or(|read| read.elapsed() >= OWNERS_HOLD) {
            self.read = Some(Instant::now());
            self.known.clear();
        }
        let Self { root, known, .. } = self;
        *known
            .entry(pid)
            .or_insert_with(|| user_of(root, pid).map_or(ProcessUser::Unknown, ProcessUser::Of))
    }
}

/// Who pays for what a process takes; `None` if it has ended.
pub fn payer_of(pid: u32) -> Option<u32> {
    payer_below(Path::new("/"), pid)
}

/// The same below another root.
pub(crate) fn payer_below(root: &Path, pid: u32) -> Option<u32> {
    user_of(root, pid).map(payer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::real_user;

    const HOSTILE: ProcessUser = ProcessUser::Of(1001);
    const HONEST: ProcessUser = ProcessUser::Of(1002);
    const ROOT: ProcessUser = ProcessUser::Of(0);
    const SHARE: Duration = Duration::from_millis(250);

    impl QueuedWork for u32 {
        fn count(&self) -> u64 {
            1
        }
    }

    /// A queue, and a clock that goes on with each turn.
    struct QueueScenario {
        turns: FairQueue<u32>,
        now: Instant,
    }

    impl QueueScenario {
        fn new() -> Self {
            let turns = FairQueue::new(None, SHARE);
            Self { turns, now: Instant::now() }
        }

        fn add(&mut self, whose: ProcessUser, what: u32) -> bool {
            self.turns.add(whose, what, self.now)
        }

        fn notes(&self) -> Vec<String> {
            self.turns.notes(self.now, |account, whose| {
                let Account { left_out, waiting, late, .. } = account;
                format!("programs {whose}: {} not, {late} late", left_out + waiting)
            })
        }

        fn serve(&mut self, takes: Duration, times: u32) -> Option<(ProcessUser, u32)> {
            let (what, turn) = self.turns.next(self.now)?.take();
            self.turns.took(&turn, self.now, takes, TurnOutcome { times, tells_if_late: true });
            self.now += takes;
            Some((turn.whose, what))
        }
    }

    const MILLISECOND: Duration = Duration::from_millis(1);

    #[test]
    fn who_comes_after_a_flood_waits_for_one_look() {
        let mut world = QueueScenario::new();
        (0..5_000).for_each(|what| assert!(world.add(HOSTILE, what)));
        (0..100).for_each(|what| assert_eq!(world.serve(MILLISECOND, 1), Some((HOSTILE, what))));
        world.add(HONEST, 7);
        assert_eq!(world.serve(MILLISECOND, 1), Some((HONEST, 7)));
        assert_eq!(world.serve(MILLISECOND, 1), Some((HOSTILE, 100)));
    }

    #[test]
    fn who_floods_as_many_users_has_the_turns_of_one() {
        let mut world = QueueScenario::new();
        world.turns.payer = |user| if user >= 100_000 { 1001 } else { user };
        (0..USERS_MAX as u32 + 100).for_each(|user| {
            assert!(world.add(ProcessUser::Of(100_000 + user), user));
        });
        world.add(HONEST, 7);
        // Whose each is stays known: it is looked into with that user's rights.
        assert_eq!(world.serve(MILLISECOND, 1), Some((ProcessUser::Of(100_000), 0)));
        assert_eq!(world.serve(MILLISECOND, 1), Some((HONEST, 7)));
        assert_eq!(world.serve(MILLISECOND, 1), Some((ProcessUser::Of(100_001), 1)));
    }

    #[test]
    fn who_brings_slow_files_has_as_much_time_as_others_and_not_as_many_looks() {
        let mut world = QueueScenario::new();
        (0..1000).for_each(|what| {
            world.add(ROOT, what);
            world.add(HONEST, what);
        });
        let mut slow = 0;
        for _ in 0..200 {
            let is_slow = world.turns.next(world.now).map(|turn| {
                let (what, turn) = turn.take();
                let (is_slow, takes) = match turn.whose {
                    ROOT => (true, MILLISECOND * 10),
                    _ => (false, MILLISECOND),
                };
                assert!(what < 1000);
                world.turns.took(&turn, world.now, takes, TurnOutcome::NOTHING);
                world.now += takes;
                is_slow
            });
            slow += u32::from(is_slow == Some(true));
        }
        assert!((17..=20).contains(&slow), "{slow} of 200");
    }

    #[test]
    fn a_user_has_so_much_of_a_second_and_root_what_it_needs() {
        let mut world = QueueScenario::new();
        let begin = world.now;
        let mut looks = [0u32; 2];
        (0..3_000).for_each(|what| {
            world.add(ROOT, what);
        });
        while world.now - begin < Duration::from_secs(10) {
            world.add(HOSTILE, 0);
            match world.serve(MILLISECOND, 1) {
                Some((whose, _)) => looks[usize::from(whose == ROOT)] += 1,
                None => world.now += MILLISECOND,
            }
        }
        assert_eq!(looks[1], 3_000);
        assert!(
            (2_700..=2_800).contains(&looks[0]),
            "a second's at once, then each second's: {looks:?}"
        );
    }

    #[test]
    fn a_look_that_counts_many_times_is_followed_by_a_long_wait() {
        let mut world = QueueScenario::new();
        let begin = world.now;
        let mut looks = 0;
        while world.now - begin < Duration::from_secs(20) {
            world.add(HOSTILE, 0);
            match world.serve(MILLISECOND * 250, 8) {
                Some(_) => looks += 1,
                None => world.now += MILLISECOND * 10,
            }
        }
        assert!((2..=4).contains(&looks), "{looks}");
    }

    #[test]
    fn what_has_no_room_what_waits_and_what_was_late_is_told_of_its_user() {
        let mut world = QueueScenario::new();
        (0..WAITING_MAX as u32 + 5).for_each(|what| {
            world.add(HOSTILE, what);
        });
        world.now += Duration::from_secs(3);
        world.serve(MILLISECOND, 1).unwrap();
        world.add(HONEST, 1);
        world.serve(MILLISECOND, 1).unwrap();
        let account = world.turns.account(world.now);
        assert_eq!((account.left_out, account.late), (5, 1));
        assert_eq!(account.waiting, WAITING_MAX as u64 - 1);
        let notes = world.notes();
        assert_eq!(notes.len(), 1, "nothing is told of the honest: {notes:?}");
        assert_eq!(notes[0], "programs of user 1001: 8196 not, 1 late");
    }

    #[test]
    fn of_many_users_a_few_are_told_apart() {
        let mut world = QueueScenario::new();
        (1..=USERS_MAX as u32 + 100).for_each(|uid| {
            world.add(ProcessUser::Of(uid), uid);
        });
        world.now += Duration::from_secs(1);
        let notes = world.notes();
        assert_eq!(notes.len(), by_user::REPORTED_MAX + 1);
        assert!(notes[0].starts_with("programs that ended at once: "), "{notes:?}");
        assert_eq!(world.turns.account(world.now).waiting, USERS_MAX as u64 + 100);
    }

    #[test]
    fn what_waits_for_a_moment_in_the_end_is_not_worth_a_word() {
        let mut world = QueueScenario::new();
        world.add(HONEST, 1);
        world.now += MILLISECOND * 20;
        assert!(!world.turns.is_empty() && world.notes().is_empty());
    }

    #[test]
    fn what_was_begun_goes_on_before_what_its_user_brought_later_and_after_others() {
        let mut world = QueueScenario::new();
        world.add(HOSTILE, 1);
        world.add(HOSTILE, 2);
        world.add(HONEST, 3);
        let (what, turn) = world.turns.next(world.now).unwrap().take();
        world.turns.took(&turn, world.now, MILLISECOND, TurnOutcome::NOTHING);
        world.turns.go_on(&turn, what);
        assert_eq!(world.serve(MILLISECOND, 1), Some((HONEST, 3)));
        assert_eq!(world.serve(MILLISECOND, 1), Some((HOSTILE, 1)));
        assert_eq!(world.serve(MILLISECOND, 1), Some((HOSTILE, 2)));
    }

    #[test]
    fn what_was_begun_needs_no_room_to_go_on() {
        let mut world = QueueScenario::new();
        assert!((0..WAITING_MAX as u32).all(|what| world.add(HOSTILE, what)));
        let (what, turn) = world.turns.next(world.now).unwrap().take();
        assert!(world.add(HOSTILE, 1) && !world.add(HOSTILE, 2));
        world.turns.go_on(&turn, what);
        assert_eq!(world.serve(MILLISECOND, 1), Some((HOSTILE, what)));
        world.turns.left_out(&turn, 10);
        assert_eq!(world.notes()[0], "programs of user 1001: 11 not, 0 late");
    }

    #[test]
    fn in_the_end_a_share_that_was_had_stops_nobody_and_what_is_left_out_is_told() {
        let mut world = QueueScenario::new();
        (0..3).for_each(|what| {
            world.add(HOSTILE, what);
        });
        assert!(world.serve(SHARE * 4, 1).is_some() && world.serve(MILLISECOND, 1).is_none());
        assert_eq!(world.turns.next_of_all().map(|turn| turn.what), Some(1));
        let mut left_out = Vec::new();
        world.turns.leave_out(world.now, |what| left_out.push(what));
        assert!(world.turns.is_empty());
        assert_eq!(left_out, [2]);
        assert_eq!(world.notes(), ["programs of user 1001: 1 not, 0 late"]);
    }

    #[test]
    fn work_of_another_kind_counts_for_whose_turn_is_next_and_not_for_the_share() {
        let mut world = QueueScenario::new();
        world.add(HOSTILE, 1);
        world.add(HONEST, 2);
        world.turns.took_besides(HOSTILE, SHARE * 4);
        assert_eq!(
            (world.turns.had(HOSTILE), world.turns.had(HONEST)),
            (SHARE * 4, Duration::ZERO)
        );
        assert_eq!(world.serve(MILLISECOND, 1), Some((HONEST, 2)));
        assert_eq!(world.serve(MILLISECOND, 1), Some((HOSTILE, 1)));
        world.turns.refuse(HOSTILE, &3);
        assert_eq!(world.notes(), ["programs of user 1001: 1 not, 0 late"]);
    }

    #[test]
    fn who_runs_a_program_is_not_whose_rights_it_has() {
        assert_eq!(real_user("Name:\tsu\nUid:\t1001\t0\t0\t0\nGid:\t5\t5\t5\t5\n"), Some(1001));
        assert_eq!(real_user("Name:\tsu\n"), None);
        let mut owners = ProcessUsers::default();
        assert!(matches!(owners.whose(std::process::id()), ProcessUser::Of(_)));
        assert_eq!(owners.whose(u32::MAX), ProcessUser::Unknown);
    }
}
