//! Shares: of what there is only so much of, no user may take away what others need. The ids that a
//! user has besides pay from one share ([`payer`]).

use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use syscollect_untrusted_files::payer;

/// Something that there is only so much of. A user may have as much of it as
/// would still be free for others, so that whoever comes later finds some: the
/// first has up to a half, the next up to half of the rest. Root may have all, unless it is
/// [to spare](Self::spared_by_root) some.
#[derive(Debug)]
pub(crate) struct Pool {
    total: u64,
    free: u64,
    /// What root leaves to others.
    spared: u64,
    held: FxHashMap<u32, u64>,
    /// Whose share a user's is.
    payer: fn(u32) -> u32,
}

impl Pool {
    /// So much of it, all free.
    pub(crate) fn new(total: u64) -> Self {
        Self { total, free: total, spared: 0, held: FxHashMap::default(), payer }
    }

    /// So much of it, of which root leaves a quarter to others: for what this program, which is
    /// root's, needs as others do.
    pub(crate) fn spared_by_root(total: u64) -> Self {
        Self { spared: total / 4, ..Self::new(total) }
    }

    /// Takes some for a user; `false` if that would be more than its share.
    pub(crate) fn take(&mut self, user: u32, amount: u64) -> bool {
        let user = (self.payer)(user);
        let held = self.held.get(&user).copied().unwrap_or(0);
        let Some(free) = self.free.checked_sub(amount) else { return false };
        let left_to_others = if user == 0 { self.spared } else { held + amount };
        if left_to_others > free {
            return false;
        }
        self.free = free;
        self.held.insert(user, held + amount);
        true
    }

    /// Gives some back, at most what the user has.
    pub(crate) fn give_back(&mut self, user: u32, amount: u64) {
        let user = (self.payer)(user);
        let Some(held) = self.held.get_mut(&user) else { return };
        let amount = amount.min(*held);
        *held -= amount;
        self.free += amount;
        if *held == 0 {
            self.held.remove(&user);
        }
    }

    /// How much more a user may take now.
    pub(crate) fn room(&self, user: u32) -> u64 {
        self.free.saturating_sub(if user == 0 { self.spared } else { self.held(user) })
    }

    /// How much there is of it.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// What a user has of it.
    pub(crate) fn held(&self, user: u32) -> u64 {
        self.held.get(&(self.payer)(user)).copied().unwrap_or(0)
    }

    /// What this user would have if all that have some, and this one, had the same.
    pub(crate) fn equal_share(&self, user: u32) -> u64 {
        let others = self.held.len() - usize::from(self.held.contains_key(&(self.payer)(user)));
        self.total / (others as u64 + 1)
    }

    /// Whether both take from one share.
    pub(crate) fn is_same(&self, one: u32, other: u32) -> bool {
        (self.payer)(one) == (self.payer)(other)
    }

    /// Gives some back of each user.
    pub(crate) fn give_back_of_each(&mut self, amount: u64) {
        let users: Vec<u32> = self.held.keys().copied().collect();
        users.into_iter().for_each(|user| self.give_back(user, amount));
    }
}

/// Who asks more often would lose what is left over of each time.
const SHORTEST_REFILL: Duration = Duration::from_millis(1);

/// Something that goes on: each user may have so much of it a second, and as
/// much as a second's at once after a pause.
pub(crate) struct UserRateLimits {
    per_second: u64,
    /// What users may still have, where that is less than a second's. Who took more waits until
    /// that is made up for.
    left: FxHashMap<u32, i64>,
    refilled: Instant,
}

impl UserRateLimits {
    /// So much of it for each user; nobody has taken any.
    pub(crate) fn new(per_second: u64) -> Self {
        Self { per_second, left: FxHashMap::default(), refilled: Instant::now() }
    }

    /// Whether the user may have more of it now.
    pub(crate) fn allows(&self, user: u32) -> bool {
        self.left.get(&payer(user)).is_none_or(|left| *left > 0)
    }

    /// A user took some.
    pub(crate) fn took(&mut self, user: u32, amount: u64) {
        let left = self.left.entry(payer(user)).or_insert(self.per_second as i64);
        *left = left.saturating_sub_unsigned(amount);
    }

    /// Gives each user what belongs to the time since the last call.
    pub(crate) fn refill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.refilled);
        if passed < SHORTEST_REFILL {
            return;
        }
        self.refilled = now;
        let passed = passed.as_secs_f64();
        let (more, most) = ((self.per_second as f64 * passed) as i64, self.per_second as i64);
        self.left.retain(|_, left| {
            *left = left.saturating_add(more);
            *left < most
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(pool: &mut Pool, user: u32) -> usize {
        (0..10_000).take_while(|_| pool.take(user, 1)).count()
    }

    #[test]
    fn who_comes_later_finds_some_whatever_others_took() {
        let mut pool = Pool::new(1000);
        assert_eq!((taken(&mut pool, 1001), pool.room(1001)), (500, 0));
        assert_eq!((pool.room(1002), pool.room(0)), (500, 500));
        assert_eq!(taken(&mut pool, 1002), 250);
        assert_eq!(taken(&mut pool, 1001), 0, "what it has is more than what is left");
        assert_eq!(taken(&mut pool, 0), 250, "root may have the rest");
        assert_eq!(taken(&mut pool, 1003), 0);
        pool.give_back(1001, 200);
        assert_eq!(taken(&mut pool, 1003), 100);
    }

    #[test]
    fn where_root_spares_some_others_find_it() {
        let mut pool = Pool::spared_by_root(1000);
        assert_eq!((taken(&mut pool, 0), pool.room(0)), (750, 0));
        assert_eq!((taken(&mut pool, 1001), taken(&mut pool, 1002)), (125, 62));
        assert_eq!(taken(&mut pool, 0), 0);
    }

    #[test]
    fn the_ids_that_a_user_has_besides_take_from_that_users_share() {
        let mut pool = Pool { payer: payer_of, ..Pool::new(1000) };
        assert_eq!(taken(&mut pool, 1001), 500);
        assert_eq!((100_000..100_100).map(|user| taken(&mut pool, user)).sum::<usize>(), 0);
        assert_eq!(pool.room(100_007), 0);
        assert_eq!(taken(&mut pool, 1002), 250, "others have theirs");
        pool.give_back(100_007, 500);
        assert_eq!(pool.room(1001), 750);
    }

    fn payer_of(user: u32) -> u32 {
        if user >= 100_000 { 1001 } else { user }
    }

    #[test]
    fn nobody_gives_back_more_than_it_has() {
        let mut pool = Pool::new(10);
        assert!(pool.take(1, 3));
        pool.give_back(1, 100);
        pool.give_back(2, 100);
        assert_eq!(taken(&mut pool, 0), 10);
    }

    #[test]
    fn who_takes_without_end_has_so_much_a_second_and_others_have_theirs() {
        let mut pace = UserRateLimits::new(1000);
        let (start, mut taken) = (pace.refilled, 0);
        for millisecond in 0..10_000 {
            pace.refill(start + Duration::from_millis(millisecond));
            // Asked in between, nothing of it is lost.
            pace.refill(start + Duration::from_millis(millisecond) + Duration::from_micros(700));
            if pace.allows(1001) {
                pace.took(1001, 50);
                taken += 50;
            }
            assert!(pace.allows(1002));
            pace.took(1002, u64::from(millisecond % 2 == 0));
        }
        assert!(
            (10_900..=11_100).contains(&taken),
            "a second's at once, then a second's each second: {taken}"
        );
    }

    #[test]
    fn what_each_gives_back_is_free_again() {
        let mut pool = Pool::new(100);
        assert!(pool.take(1, 40) && pool.take(2, 5));
        pool.give_back_of_each(10);
        assert_eq!(pool.free, 70);
    }
}
