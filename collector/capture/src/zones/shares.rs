//! Shares: of what there is only so much of, no user may take away what others need.

use rustc_hash::FxHashMap;

/// Something that there is only so much of. A user may have as much of it as
/// would still be free for others, so that whoever comes later finds some: the
/// first has up to a half, the next up to half of the rest. Root may have all.
pub(super) struct Pool {
    free: u64,
    held: FxHashMap<u32, u64>,
}

impl Pool {
    /// So much of it, all free.
    pub(super) fn new(total: u64) -> Self {
        Self { free: total, held: FxHashMap::default() }
    }

    /// Takes some for a user; `false` if that would be more than its share.
    pub(super) fn take(&mut self, user: u32, amount: u64) -> bool {
        let held = self.held.get(&user).copied().unwrap_or(0);
        let Some(free) = self.free.checked_sub(amount) else { return false };
        if user != 0 && held + amount > free {
            return false;
        }
        self.free = free;
        self.held.insert(user, held + amount);
        true
    }

    /// Gives some back, at most what the user has.
    pub(super) fn give_back(&mut self, user: u32, amount: u64) {
        let Some(held) = self.held.get_mut(&user) else { return };
        let amount = amount.min(*held);
        *held -= amount;
        self.free += amount;
        if *held == 0 {
            self.held.remove(&user);
        }
    }

    /// Gives some back of each user.
    pub(super) fn give_back_of_each(&mut self, amount: u64) {
        let users: Vec<u32> = self.held.keys().copied().collect();
        users.into_iter().for_each(|user| self.give_back(user, amount));
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
        assert_eq!(taken(&mut pool, 1001), 500);
        assert_eq!(taken(&mut pool, 1002), 250);
        assert_eq!(taken(&mut pool, 1001), 0, "what it has is more than what is left");
        assert_eq!(taken(&mut pool, 0), 250, "root may have the rest");
        assert_eq!(taken(&mut pool, 1003), 0);
        pool.give_back(1001, 200);
        assert_eq!(taken(&mut pool, 1003), 100);
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
    fn what_each_gives_back_is_free_again() {
        let mut pool = Pool::new(100);
        assert!(pool.take(1, 40) && pool.take(2, 5));
        pool.give_back_of_each(10);
        assert_eq!(pool.free, 70);
    }
}
