//! Shares of what is bounded, the buffer first of all: who has how much of it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use syscollect_model::Lane;

/// Who wrote the events of a chunk, where that was a program and not the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Producer {
    /// The user whose program it is.
    pub user: u32,
    /// The program's number in the recording.
    pub program: u32,
}

/// Chunks of a lane that who watches a recording did not get, because too much waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftOutChunks {
    /// Of which lane.
    pub lane: Lane,
    /// Who wrote them, where that was a program.
    pub producer: Option<Producer>,
    /// How many.
    pub chunks: u64,
}

/// What users and programs have of something that has a bound: bytes of the buffer, or what a
/// recorder follows of programs.
#[derive(Debug, Default)]
pub struct ProducerShares {
    of_users: BTreeMap<u32, usize>,
    of_programs: BTreeMap<Producer, usize>,
    of_all: usize,
}

impl ProducerShares {
    /// This producer has so much more.
    pub fn add(&mut self, producer: Producer, amount: usize) {
        *self.of_users.entry(producer.user).or_default() += amount;
        *self.of_programs.entry(producer).or_default() += amount;
        self.of_all += amount;
    }

    /// It has so much less.
    pub fn remove(&mut self, producer: Producer, amount: usize) {
        take_from(self.of_users.entry(producer.user), amount);
        take_from(self.of_programs.entry(producer), amount);
        self.of_all = self.of_all.saturating_sub(amount);
    }

    /// Of all together.
    pub fn of_all(&self) -> usize {
        self.of_all
    }

    /// How much more this producer may have where so much is free: a user's programs have as much
    /// as they leave to other users, and each of them three times what it leaves to the user's
    /// others.
    pub fn room_for(&self, producer: Producer, free: usize) -> usize {
        let of_user = free.saturating_sub(self.of_user(producer.user));
        // Half of that would be the user's if nobody else came.
        (of_user / 2 * 3).saturating_sub(self.of_program(producer)).min(of_user)
    }

    /// All that this program has is given back.
    pub fn forget(&mut self, producer: Producer) {
        self.remove(producer, self.of_program(producer));
    }

    pub(crate) fn of_user(&self, user: u32) -> usize {
        self.of_users.get(&user).copied().unwrap_or(0)
    }

    pub(crate) fn of_program(&self, producer: Producer) -> usize {
        self.of_programs.get(&producer).copied().unwrap_or(0)
    }

    /// The program with most of the user with most.
    pub fn largest(&self) -> Option<Producer> {
        let (&user, _) = self.of_users.iter().max_by_key(|(_, bytes)| **bytes)?;
        let programs = self.of_programs.iter().filter(|(producer, _)| producer.user == user);
        programs.max_by_key(|(_, bytes)| **bytes).map(|(producer, _)| *producer)
    }
}

/// Who has nothing left is no longer listed.
fn take_from<K: Ord>(share: Entry<'_, K, usize>, bytes: usize) {
    if let Entry::Occupied(mut held) = share {
        *held.get_mut() = held.get().saturating_sub(bytes);
        if *held.get() == 0 {
            held.remove();
        }
    }
}

/// The most that each may have, so that all together have at most `limit`.
pub fn fair_level(mut held: Vec<usize>, limit: usize) -> usize {
    held.sort_unstable();
    let mut left = limit;
    for (index, bytes) in held.iter().enumerate() {
        let share = left / (held.len() - index);
        if *bytes > share {
            return share;
        }
        left -= bytes;
    }
    usize::MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_leaves_as_much_to_others_as_it_has_however_many_programs_it_begins() {
        const ALL: usize = 1 << 16;
        let mut shares = ProducerShares::default();
        let mut take_all = |user, program| {
            let producer = Producer { user, program };
            let mut taken = 0;
            while shares.room_for(producer, ALL - shares.of_all()) > 0 {
                shares.add(producer, 1);
                taken += 1;
            }
            taken
        };
        let first = take_all(1001, 1);
        assert!(
            (ALL / 8 * 3 - 2..=ALL / 8 * 3).contains(&first),
            "three quarters of half: {first}"
        );
        let others: usize = (2..100).map(|program| take_all(1001, program)).sum();
        assert!((ALL / 2 - 2..=ALL / 2).contains(&(first + others)), "{first} and {others}");
        assert!(take_all(1002, 100) >= ALL / 8);
        shares.forget(Producer { user: 1001, program: 1 });
        assert_eq!(shares.of_program(Producer { user: 1001, program: 1 }), 0);
    }

    #[test]
    fn who_has_less_than_the_others_keeps_it() {
        assert_eq!(fair_level(vec![10, 1, 5], 16), usize::MAX);
        assert_eq!(fair_level(vec![10, 1, 5], 9), 4);
        assert_eq!(fair_level(vec![10, 1, 5], 2), 0);
        assert_eq!(fair_level(Vec::new(), 0), usize::MAX);
    }
}
