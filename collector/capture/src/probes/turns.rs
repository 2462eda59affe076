//! Whose files are looked into next.
//!
//! Every user of the machine decides how much there is to look at. So what waits is kept apart for
//! each user: who was looked at for the shortest time comes next, and a user has so much of each
//! second. Who floods waits behind their own files only. What was late, and what was not looked at
//! at all, is told of each user.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use crate::zones::Pace;

/// Looks of one user that wait; what is beyond is counted.
const WAITING_MAX: usize = 8192;
/// Users that are told apart; all others are one.
const USERS_MAX: usize = 512;
/// How much of a second is spent on the files of one user. A usual look takes a millisecond.
const MICROSECONDS_PER_SECOND: u64 = 250_000;
/// What waited for so long is told of.
const LATE: Duration = Duration::from_secs(1);
/// What had waited for so long in the end is told of: a look takes its time on a quiet machine, too.
const NEVER: Duration = Duration::from_millis(200);
/// Users who are told of by their numbers.
const TOLD_MAX: usize = 8;

/// What waits to be looked at, in turns of users.
pub(super) struct Turns<T> {
    users: FxHashMap<Whose, OfUser<T>>,
    pace: Pace,
    /// The user who asked for the recording, who may have all the time that others leave.
    asked_by: Option<u32>,
    /// What whoever was looked at last had had before: who comes anew begins there.
    reached: Duration,
}

/// A user, or those of whom nobody knows who they are: their processes have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Whose {
    /// A user's.
    Of(u32),
    /// Nobody knows.
    Unknown,
}

struct OfUser<T> {
    waiting: VecDeque<(T, Instant)>,
    /// How long this user's files were looked at.
    had: Duration,
    account: Account,
}

/// What was not looked at in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Account {
    /// There was no room for them.
    pub(super) left_out: u64,
    /// They wait, and did so for a while.
    pub(super) waiting: u64,
    /// They were looked at late, and there was something to attach to.
    pub(super) late: u64,
    /// The longest that one waited.
    longest: Duration,
}

/// What is looked at now.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Turn<T> {
    pub(super) whose: Whose,
    pub(super) what: T,
    since: Instant,
}

/// What came of a look.
#[derive(Clone, Copy, Debug)]
pub(super) struct LookOutcome {
    /// How many times it counts: one at a file that changes again and again costs its user more
    /// than the first.
    pub(super) times: u32,
    /// Something was attached to.
    pub(super) is_new: bool,
}

impl LookOutcome {
    /// Nothing new.
    pub(super) const NOTHING: Self = Self { times: 1, is_new: false };
}

impl<T> Turns<T> {
    /// Nothing waits.
    pub(super) fn new(asked_by: Option<u32>) -> Self {
        Self {
            users: FxHashMap::default(),
            pace: Pace::new(MICROSECONDS_PER_SECOND),
            asked_by,
            reached: Duration::ZERO,
        }
    }

    /// Something more to look at, since then; `false` if there is no room for it.
    pub(super) fn add(&mut self, whose: Whose, what: T, since: Instant) -> bool {
        if self.users.len() >= USERS_MAX && !self.users.contains_key(&whose) {
            let is_of_use =
                |user: &OfUser<T>| !user.waiting.is_empty() || user.account != Account::default();
            self.users.retain(|_, user| is_of_use(user));
        }
        let is_told_apart = self.users.len() < USERS_MAX || self.users.contains_key(&whose);
        let whose = if is_told_apart { whose } else { Whose::Unknown };
        let user = self.users.entry(whose).or_insert_with(|| OfUser {
            waiting: VecDeque::new(),
            had: Duration::ZERO,
            account: Account::default(),
        });
        if user.waiting.is_empty() {
            // Nobody saves up time in which there was nothing to look at.
            user.had = user.had.max(self.reached);
        }
        let has_room = user.waiting.len() < WAITING_MAX;
        match has_room {
            true => user.waiting.push_back((what, since)),
            false => user.account.left_out += 1,
        }
        has_room
    }

    /// What to look at now; `None` if nothing waits, or all who wait have had their share.
    pub(super) fn next(&mut self, now: Instant) -> Option<Turn<T>> {
        self.pace.refill(now);
        let Self { users, pace, asked_by, reached } = self;
        let may = |whose: Whose| match whose {
            Whose::Of(uid) => uid == 0 || Some(uid) == *asked_by || pace.allows(uid),
            Whose::Unknown => pace.allows(UNKNOWN),
        };
        let (whose, user) = users
            .iter_mut()
            .filter(|(whose, user)| !user.waiting.is_empty() && may(**whose))
            .min_by_key(|(whose, user)| (user.had, **whose))?;
        *reached = user.had;
        let (what, since) = user.waiting.pop_front()?;
        Some(Turn { whose: *whose, what, since })
    }

    /// A look that began then took so long.
    pub(super) fn took(
        &mut self,
        turn: &Turn<()>,
        began: Instant,
        took: Duration,
        outcome: LookOutcome,
    ) {
        let Some(user) = self.users.get_mut(&turn.whose) else { return };
        let LookOutcome { times, is_new } = outcome;
        user.had += took.saturating_mul(times);
        let waited = began.saturating_duration_since(turn.since);
        if waited >= LATE && is_new {
            user.account.late += 1;
            user.account.longest = user.account.longest.max(waited);
        }
        let uid = match turn.whose {
            Whose::Of(uid) => uid,
            Whose::Unknown => UNKNOWN,
        };
        let microseconds = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.pace.took(uid, microseconds.saturating_mul(u64::from(times)));
    }

    /// Whether something waits.
    pub(super) fn is_empty(&self) -> bool {
        self.users.values().all(|user| user.waiting.is_empty())
    }

    /// What was not looked at in time, of each user; the most first.
    fn accounts(&self, now: Instant) -> Vec<(Whose, Account)> {
        let account = |(whose, user): (&Whose, &OfUser<T>)| {
            let waited = |since: &Instant| now.saturating_duration_since(*since);
            // What came first waits first.
            let long = user.waiting.partition_point(|(_, since)| waited(since) >= NEVER);
            let oldest = user.waiting.front().map_or(Duration::ZERO, |(_, since)| waited(since));
            let longest = user.account.longest.max(oldest);
            (*whose, Account { waiting: long as u64, longest, ..user.account })
        };
        let mut accounts: Vec<_> = self.users.iter().map(account).collect();
        accounts.retain(|(_, account)| account.left_out + account.waiting + account.late > 0);
        accounts.sort_by_key(|(whose, account)| {
            (std::cmp::Reverse(account.left_out + account.waiting), *whose)
        });
        accounts
    }

    /// The sum of what was not looked at in time.
    pub(super) fn account(&self, now: Instant) -> Account {
        self.accounts(now).into_iter().fold(Account::default(), |sum, (_, one)| sum + one)
    }

    /// What to tell the user of it in the end.
    pub(super) fn notes(&self, now: Instant) -> Vec<String> {
        let accounts = self.accounts(now);
        let (told, others) = accounts.split_at(accounts.len().min(TOLD_MAX));
        let mut notes: Vec<String> = told
            .iter()
            .map(|(whose, account)| match whose {
                Whose::Of(uid) => account.words(&format!("of user {uid}")),
                Whose::Unknown => account.words("that ended at once"),
            })
            .collect();
        if !others.is_empty() {
            let sum = others.iter().fold(Account::default(), |sum, (_, account)| sum + *account);
            notes.push(sum.words(&format!("of {} more users", others.len())));
        }
        notes
    }
}

/// Under this number of no user the pace knows those of whom nothing is known.
const UNKNOWN: u32 = u32::MAX;

impl Account {
    fn words(&self, whose: &str) -> String {
        let Self { left_out, waiting, late, longest } = *self;
        format!(
            "programs {whose} map files faster than they are looked into for zones and probes: {} files were not looked \
             into, {late} late, the longest wait was {:.1} s; what they mark is missing, or begins late, unless their \
             file was known (other users do not wait for this)",
            left_out + waiting,
            longest.as_secs_f64()
        )
    }
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
    /// What to look at, and the rest, to say later how long it took.
    pub(super) fn take(self) -> (T, Turn<()>) {
        (self.what, Turn { whose: self.whose, what: (), since: self.since })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: Whose = Whose::Of(1001);
    const HONEST: Whose = Whose::Of(1002);
    const ROOT: Whose = Whose::Of(0);

    /// Turns, and a clock that goes on with each look.
    struct World {
        turns: Turns<u32>,
        now: Instant,
    }

    impl World {
        fn new() -> Self {
            let turns = Turns::new(None);
            Self { turns, now: Instant::now() }
        }

        fn add(&mut self, whose: Whose, what: u32) -> bool {
            self.turns.add(whose, what, self.now)
        }

        fn look(&mut self, takes: Duration, times: u32) -> Option<(Whose, u32)> {
            let (what, turn) = self.turns.next(self.now)?.take();
            self.turns.took(&turn, self.now, takes, LookOutcome { times, is_new: true });
            self.now += takes;
            Some((turn.whose, what))
        }
    }

    const MILLISECOND: Duration = Duration::from_millis(1);

    #[test]
    fn who_comes_after_a_flood_waits_for_one_look() {
        let mut world = World::new();
        (0..5_000).for_each(|what| assert!(world.add(HOSTILE, what)));
        (0..100).for_each(|what| assert_eq!(world.look(MILLISECOND, 1), Some((HOSTILE, what))));
        world.add(HONEST, 7);
        assert_eq!(world.look(MILLISECOND, 1), Some((HONEST, 7)));
        assert_eq!(world.look(MILLISECOND, 1), Some((HOSTILE, 100)));
    }

    #[test]
    fn who_brings_slow_files_has_as_much_time_as_others_and_not_as_many_looks() {
        let mut world = World::new();
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
                world.turns.took(&turn, world.now, takes, LookOutcome::NOTHING);
                world.now += takes;
                is_slow
            });
            slow += u32::from(is_slow == Some(true));
        }
        assert!((17..=20).contains(&slow), "{slow} of 200");
    }

    #[test]
    fn a_user_has_so_much_of_a_second_and_root_what_it_needs() {
        let mut world = World::new();
        let begin = world.now;
        let mut looks = [0u32; 2];
        (0..3_000).for_each(|what| {
            world.add(ROOT, what);
        });
        while world.now - begin < Duration::from_secs(10) {
            world.add(HOSTILE, 0);
            match world.look(MILLISECOND, 1) {
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
        let mut world = World::new();
        let begin = world.now;
        let mut looks = 0;
        while world.now - begin < Duration::from_secs(20) {
            world.add(HOSTILE, 0);
            match world.look(MILLISECOND * 250, 8) {
                Some(_) => looks += 1,
                None => world.now += MILLISECOND * 10,
            }
        }
        assert!((2..=4).contains(&looks), "{looks}");
    }

    #[test]
    fn what_has_no_room_what_waits_and_what_was_late_is_told_of_its_user() {
        let mut world = World::new();
        (0..WAITING_MAX as u32 + 5).for_each(|what| {
            world.add(HOSTILE, what);
        });
        world.now += Duration::from_secs(3);
        world.look(MILLISECOND, 1).unwrap();
        world.add(HONEST, 1);
        world.look(MILLISECOND, 1).unwrap();
        let account = world.turns.account(world.now);
        assert_eq!((account.left_out, account.late), (5, 1));
        assert_eq!(account.waiting, WAITING_MAX as u64 - 1);
        let notes = world.turns.notes(world.now);
        assert_eq!(notes.len(), 1, "nothing is told of the honest: {notes:?}");
        assert!(notes[0].starts_with("programs of user 1001 "), "{notes:?}");
        assert!(notes[0].contains("8196 files") && notes[0].contains("1 late"), "{notes:?}");
    }

    #[test]
    fn of_many_users_a_few_are_told_apart() {
        let mut world = World::new();
        (1..=USERS_MAX as u32 + 100).for_each(|uid| {
            world.add(Whose::Of(uid), uid);
        });
        world.now += Duration::from_secs(1);
        let notes = world.turns.notes(world.now);
        assert_eq!(notes.len(), TOLD_MAX + 1);
        assert!(notes[0].starts_with("programs that ended at once "), "{notes:?}");
        assert_eq!(world.turns.account(world.now).waiting, USERS_MAX as u64 + 100);
    }

    #[test]
    fn what_waits_for_a_moment_in_the_end_is_not_worth_a_word() {
        let mut world = World::new();
        world.add(HONEST, 1);
        world.now += MILLISECOND * 20;
        assert!(!world.turns.is_empty() && world.turns.notes(world.now).is_empty());
    }
}
