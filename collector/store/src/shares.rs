//! Shares of the buffer: who wrote what it holds.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Who wrote the events of a chunk, where that was a program and not the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Producer {
    /// The user whose program it is.
    pub user: u32,
    /// The program's number in the recording.
    pub program: u32,
}

/// Bytes of events that users and programs have in the buffer.
#[derive(Default)]
pub(crate) struct Shares {
    of_users: BTreeMap<u32, usize>,
    of_programs: BTreeMap<Producer, usize>,
    pub(crate) of_all: usize,
}

impl Shares {
    pub(crate) fn add(&mut self, producer: Option<Producer>, bytes: usize) {
        let Some(producer) = producer else { return };
        *self.of_users.entry(producer.user).or_default() += bytes;
        *self.of_programs.entry(producer).or_default() += bytes;
        self.of_all += bytes;
    }

    pub(crate) fn remove(&mut self, producer: Option<Producer>, bytes: usize) {
        let Some(producer) = producer else { return };
        take_from(self.of_users.entry(producer.user), bytes);
        take_from(self.of_programs.entry(producer), bytes);
        self.of_all = self.of_all.saturating_sub(bytes);
    }

    pub(crate) fn of_user(&self, user: u32) -> usize {
        self.of_users.get(&user).copied().unwrap_or(0)
    }

    pub(crate) fn of_program(&self, producer: Producer) -> usize {
        self.of_programs.get(&producer).copied().unwrap_or(0)
    }

    /// The program with most of the user with most.
    pub(crate) fn largest(&self) -> Option<Producer> {
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
    fn who_has_less_than_the_others_keeps_it() {
        assert_eq!(fair_level(vec![10, 1, 5], 16), usize::MAX);
        assert_eq!(fair_level(vec![10, 1, 5], 9), 4);
        assert_eq!(fair_level(vec![10, 1, 5], 2), 0);
        assert_eq!(fair_level(Vec::new(), 0), usize::MAX);
    }
}
