//! What programs lost.

use std::collections::BTreeMap;

use syscollect_zone_protocol::arena::MAX_RINGS;

use super::refusals::USERS_MAX;

/// An event that is counted as lost costs its thread an addition to memory that others see, which
/// takes longer than so many nanoseconds: a program that claims more was not instrumented, but
/// invents, or writes over its own counts.
const SHORTEST_EVENT_NS: u64 = 1;
/// What may have been counted before the recording began, by programs that were recorded before.
const MOST_BEFORE: u64 = 1 << 32;

/// What a program lost, and what was given up of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Losses {
    /// Items that found their ring full.
    pub(super) ring_full: u64,
    /// Events of threads that had no ring.
    pub(super) without_ring: u64,
    /// Events of threads whose rings others took before anybody came to read them.
    pub(super) unread: u64,
    /// Definitions that found the log full.
    pub(super) definitions: u64,
    /// Definitions beyond the share of its program or user.
    pub(super) excess_definitions: u64,
    /// Rings and logs that were not read to their end when the recording ended.
    pub(super) unfinished: u64,
    /// Rings and logs that made no sense.
    pub(super) broken: u64,
    /// Items of threads that nobody knows any more.
    pub(super) nobodys: u64,
    /// Rings of which another recorder had taken nobody knows how much.
    pub(super) gaps: u64,
    /// Times that the program said it lost more than it can have.
    pub(super) unbelievable: u64,
}

impl Losses {
    /// Adds up; numbers of programs may be anything.
    pub(super) fn add(&mut self, other: &Self) {
        self.ring_full = bounded_sum(self.ring_full, other.ring_full);
        self.without_ring = bounded_sum(self.without_ring, other.without_ring);
        self.unread = bounded_sum(self.unread, other.unread);
        self.definitions = bounded_sum(self.definitions, other.definitions);
        self.excess_definitions = bounded_sum(self.excess_definitions, other.excess_definitions);
        self.unfinished = bounded_sum(self.unfinished, other.unfinished);
        self.broken = bounded_sum(self.broken, other.broken);
        self.nobodys = bounded_sum(self.nobodys, other.nobodys);
        self.gaps = bounded_sum(self.gaps, other.gaps);
        self.unbelievable = bounded_sum(self.unbelievable, other.unbelievable);
    }

    /// Without what cannot be of what a program has counted for all its threads since so many
    /// nanoseconds ago; and the largest of that, if any.
    pub(super) fn believable(self, elapsed_ns: u64) -> (Self, Option<u64>) {
        let of_all = most_lost(elapsed_ns);
        // A thread that ends adds at once what it lost; names are those of recordings before, too.
        let of_threads = of_all.saturating_mul(MAX_RINGS as u64).saturating_add(MOST_BEFORE);
        let (mut times, mut largest) = (0, None);
        let mut believed = |claimed: u64, most: u64| {
            if claimed <= most {
                return claimed;
            }
            times += 1;
            largest = largest.max(Some(claimed));
            0
        };
        let without_ring = believed(self.without_ring, of_all);
        let unread = believed(self.unread, of_threads);
        let definitions = believed(self.definitions, of_all.saturating_add(MOST_BEFORE));
        let unbelievable = self.unbelievable + times;
        (Self { without_ring, unread, definitions, unbelievable, ..self }, largest)
    }
}

/// How many events one after the other can have been lost in that time.
pub(super) fn most_lost(elapsed_ns: u64) -> u64 {
    elapsed_ns / SHORTEST_EVENT_NS
}

/// What each user's programs lost: nobody's losses are mixed with what others claim. Beyond a
/// number of users all others are one.
#[derive(Clone, Debug, Default)]
pub(super) struct LossesOfUsers(BTreeMap<Option<u32>, Losses>);

impl LossesOfUsers {
    /// A program of this user lost so much.
    pub(super) fn add(&mut self, user: u32, losses: &Losses) {
        let user = Some(user);
        let is_told_apart = self.0.len() < USERS_MAX || self.0.contains_key(&user);
        self.0.entry(user.filter(|_| is_told_apart)).or_default().add(losses);
    }

    /// By user; nobody's number where these are several.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Option<u32>, &Losses)> {
        self.0.iter().map(|(user, losses)| (*user, losses))
    }
}

fn bounded_sum(a: u64, b: u64) -> u64 {
    const MOST: u64 = 1 << 48;
    a.saturating_add(b).min(MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_user_loses_is_not_another_users_and_more_users_than_are_told_apart_are_one() {
        let mut of_users = LossesOfUsers::default();
        let full = |ring_full| Losses { ring_full, ..Losses::default() };
        of_users.add(1000, &full(3));
        of_users.add(1000, &full(4));
        (2000..3000).for_each(|user| of_users.add(user, &full(1)));
        let found: BTreeMap<_, _> =
            of_users.iter().map(|(user, of)| (user, of.ring_full)).collect();
        assert_eq!((found.len(), found[&Some(1000)]), (USERS_MAX + 1, 7));
        assert_eq!(found.values().sum::<u64>(), 1007);
        assert_eq!(found[&None], 1000 - (USERS_MAX as u64 - 1));
    }

    #[test]
    fn a_program_is_not_believed_that_it_lost_more_than_it_can_have_written() {
        let second = 1_000_000_000;
        let honest = Losses { without_ring: 9_000, unread: 1, definitions: 2, ..Losses::default() };
        assert_eq!(honest.believable(second), (honest, None));
        let invented = Losses { without_ring: 1 << 40, definitions: u64::MAX, ..honest };
        let (believed, largest) = invented.believable(second);
        assert_eq!(largest, Some(u64::MAX));
        assert_eq!(believed, Losses { unread: 1, unbelievable: 2, ..Losses::default() });
    }
}
