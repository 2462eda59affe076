//! Room for what viewers are told of by numbers: of plots, locks and the like there may be any
//! number, and a recording may go on for weeks.

use rustc_hash::{FxHashMap, FxHashSet};
use std::hash::Hash;
use syscollect_model::{ProcessId, Tables};

/// One in so many gives way at a time where there is no room.
const PART: usize = 8;

/// Who runs the process with that id, if it is there and that is known.
pub(super) type UserOf = fn(u32) -> Option<u32>;

/// Whose a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) process: ProcessId,
    pub(super) pid: u32,
}

impl Owner {
    /// A process; the idle process for what is the machine's.
    pub(super) fn new(process: ProcessId, tables: &Tables) -> Self {
        Self { process, pid: tables.process(process).pid }
    }
}

/// What a number is known of.
#[derive(Debug)]
struct KnownRow<V> {
    value: V,
    owner: ProcessId,
    /// When it was used last, counted in uses.
    used: u64,
}

/// Numbers of rows, of which there are so many at most. Where one more comes, rows of processes
/// that have ended give way, and else rows of the process that has most, of the user who has most,
/// the least recently used first; those of the machine itself last.
#[derive(Debug)]
pub(super) struct SharedRoom<K, V> {
    most: usize,
    known: FxHashMap<K, KnownRow<V>>,
    /// How many of them are of whom.
    counts: FxHashMap<ProcessId, usize>,
    /// Who runs these; nobody knows it of all others.
    users: FxHashMap<ProcessId, u32>,
    user_of: UserOf,
    /// Who of these has ended.
    ended: FxHashSet<ProcessId>,
    uses: u64,
    /// How many rows gave way.
    gave_way: u64,
}

impl<K: Copy + Eq + Hash, V: Copy> SharedRoom<K, V> {
    /// Without rows.
    pub(super) fn new(most: usize) -> Self {
        let (known, counts, users, ended) = Default::default();
        Self { most, known, counts, users, user_of: |_| None, ended, uses: 0, gave_way: 0 }
    }

    /// Asks this for who runs a process.
    pub(super) fn ask(&mut self, user_of: UserOf) {
        self.user_of = user_of;
    }

    /// The row's number, which is used now.
    pub(super) fn get(&mut self, key: K) -> Option<V> {
        let known = self.known.get_mut(&key)?;
        self.uses += 1;
        known.used = self.uses;
        Some(known.value)
    }

    /// Adds a row; what gives way for it.
    pub(super) fn add(&mut self, key: K, value: V, owner: Owner) -> Vec<V> {
        let gives_way = match self.known.len() < self.most {
            true => Vec::new(),
            false => self.make_room(),
        };
        self.uses += 1;
        let Owner { process: owner, pid } = owner;
        self.known.insert(key, KnownRow { value, owner, used: self.uses });
        let rows = self.counts.entry(owner).or_default();
        *rows += 1;
        if *rows == 1
            && let Some(user) = (self.user_of)(pid)
        {
            self.users.insert(owner, user);
        }
        gives_way
    }

    /// The process has ended.
    pub(super) fn ended(&mut self, owner: ProcessId) {
        // Of most processes there is nothing.
        if self.counts.contains_key(&owner) {
            self.ended.insert(owner);
        }
    }

    /// The process has ended, and its rows are gone.
    pub(super) fn remove_of(&mut self, owner: ProcessId) -> Vec<V> {
        if self.counts.remove(&owner).is_none() {
            return Vec::new();
        }
        self.ended.remove(&owner);
        let gone = self.known.extract_if(|_, row| row.owner == owner);
        gone.map(|(_, row)| row.value).collect()
    }

    /// How many rows gave way since the last call.
    pub(super) fn take_gave_way(&mut self) -> u64 {
        std::mem::take(&mut self.gave_way)
    }

    #[cold]
    fn make_room(&mut self) -> Vec<V> {
        let mut candidates = self.rows_of(|owner| self.ended.contains(&owner));
        if candidates.is_empty() {
            let most = self.with_most();
            candidates = self.rows_of(|owner| owner == most);
        }
        candidates.sort_unstable_by_key(|(used, _)| *used);
        candidates.truncate((self.most / PART).max(1));
        let gives_way = candidates.iter().filter_map(|(_, key)| self.known.remove(key));
        let gives_way: Vec<KnownRow<V>> = gives_way.collect();
        for KnownRow { owner, .. } in &gives_way {
            if let Some(rows) = self.counts.get_mut(owner) {
                *rows -= 1;
            }
        }
        self.counts.retain(|_, rows| *rows > 0);
        let counts = &self.counts;
        self.ended.retain(|owner| counts.contains_key(owner));
        self.users.retain(|owner, _| counts.contains_key(owner));
        self.gave_way += gives_way.len() as u64;
        gives_way.into_iter().map(|row| row.value).collect()
    }

    /// The process with most rows, of the user with most; the machine where no process has any.
    fn with_most(&self) -> ProcessId {
        let programs = || self.counts.iter().filter(|(owner, _)| **owner != Tables::IDLE_PROCESS);
        let user = |owner: &ProcessId| self.users.get(owner).copied();
        let mut of_users = FxHashMap::<Option<u32>, usize>::default();
        programs().for_each(|(owner, rows)| *of_users.entry(user(owner)).or_default() += rows);
        let most = of_users.into_iter().max_by_key(|(user, rows)| (*rows, *user));
        let theirs = programs().filter(|(owner, _)| most.is_some_and(|(of, _)| user(owner) == of));
        let most = theirs.max_by_key(|(owner, rows)| (**rows, owner.0));
        most.map_or(Tables::IDLE_PROCESS, |(owner, _)| *owner)
    }

    /// When rows of some owners were used last, and which they are.
    fn rows_of(&self, is_one: impl Fn(ProcessId) -> bool) -> Vec<(u64, K)> {
        let rows = self.known.iter().filter(|(_, row)| is_one(row.owner));
        rows.map(|(key, row)| (row.used, *key)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HONEST: Owner = program(1);
    const HOSTILE: Owner = program(2);
    const MACHINE: Owner = Owner { process: Tables::IDLE_PROCESS, pid: 0 };

    const fn program(number: u32) -> Owner {
        Owner { process: ProcessId(number), pid: number }
    }

    #[test]
    fn a_user_of_many_programs_with_few_rows_each_loses_its_own_and_nobody_elses() {
        let mut room = SharedRoom::new(64);
        room.ask(|pid| Some(if pid == 1 { 1000 } else { 1001 }));
        (0..20).for_each(|key| drop(room.add(key, key, HONEST)));
        let programs = (2..1_000).flat_map(|pid| [(pid, 2 * pid), (pid, 2 * pid + 1)]);
        let gave_way: Vec<u32> =
            programs.flat_map(|(pid, key)| room.add(1_000 + key, key, program(pid))).collect();
        assert!(gave_way.len() > 1_900 && !gave_way.contains(&0), "{}", gave_way.len());
        assert!((0..20).all(|key| room.get(key) == Some(key)));
    }

    #[test]
    fn who_adds_rows_without_end_loses_its_own_and_nobody_elses() {
        let mut room = SharedRoom::new(64);
        (0..10).for_each(|key| drop(room.add(key, key, HONEST)));
        drop(room.add(10, 10, MACHINE));
        let gave_way: Vec<u32> =
            (1_000..100_000).flat_map(|key| room.add(key, key, HOSTILE)).collect();
        assert!(gave_way.iter().all(|key| *key >= 1_000), "{:?}", gave_way.iter().min());
        assert!((0..=10).all(|key| room.get(key) == Some(key)));
        assert_eq!(room.take_gave_way(), gave_way.len() as u64);
        assert!(room.known.len() <= 64);
    }

    #[test]
    fn rows_of_ended_processes_go_first_and_those_that_were_used_last() {
        let mut room = SharedRoom::new(16);
        (0..4).for_each(|key| drop(room.add(key, key, HONEST)));
        (4..16).for_each(|key| drop(room.add(key, key, HOSTILE)));
        room.get(0);
        room.ended(HONEST.process);
        assert_eq!(room.add(16, 16, HOSTILE), [1, 2]);
        room.add(17, 17, HOSTILE);
        assert_eq!(room.add(18, 18, HOSTILE), [3, 0]);
        room.add(19, 19, HOSTILE);
        assert_eq!(room.add(20, 20, HOSTILE), [4, 5], "nobody else has ended");
    }

    proptest! {
        /// What the room holds is what a list of all that was added and gave way says.
        #[test]
        fn rows_are_there_until_they_give_way(
            steps in prop::collection::vec((0u32..200, 0u32..6, 0u32..8), 1..400),
        ) {
            let (mut room, mut model) = (SharedRoom::new(32), FxHashMap::default());
            let mut ended = FxHashSet::default();
            for (key, owner, kind) in steps {
                let owner = ProcessId(owner);
                if kind == 0 {
                    room.ended(owner);
                    ended.insert(owner);
                } else if room.get(key).is_none() {
                    prop_assert!(!model.contains_key(&key));
                    let gives_way = room.add(key, key, program(owner.0));
                    let dead = model.values().any(|owner| ended.contains(owner));
                    let owners: FxHashSet<ProcessId> =
                        gives_way.iter().filter_map(|key| model.remove(key)).collect();
                    prop_assert!(owners.len() <= 1 || dead);
                    model.insert(key, owner);
                } else {
                    prop_assert!(model.contains_key(&key));
                }
                prop_assert_eq!(room.known.len(), model.len());
                prop_assert!(model.len() <= 32);
            }
        }
    }
}
