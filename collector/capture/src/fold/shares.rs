//! Who has how much of what is kept of lifetimes, when there is no room for all of it.
//!
//! Everything that ended belongs to the nearest process that still runs and from which it descends:
//! a shell that begins thousands of programs in a second, a program that begins threads without
//! end. A chain of processes, of which each begins the next and ends, belongs to where it began.
//! All users have the same share of the room, or what they need if that is less, and so have the
//! processes of a user. What a process has beyond its share gives way: the mappings of what ended
//! first, then its names, then its own mappings; the oldest first, and of what ended all or nothing.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use syscollect_store::{UserOf, fair_level};

use super::lives::{LifeOwner, ProcessLives};

/// What gives way last comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ClaimRank {
    /// A thread that runs, or a process that does, and what it is called.
    Running,
    /// What is mapped by a process that runs.
    MappingOfRunning,
    /// A thread that has ended, and what it was called.
    Ended,
    /// What was mapped by a process that has ended.
    MappingOfEnded,
}

/// Something that needs room: whose it is, and when it gives way before others of its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Claim {
    rank: ClaimRank,
    last: Reverse<u64>,
}

impl Claim {
    /// Of claims of one rank that which is `last` stays longest: ticks or nanoseconds, which is the
    /// same within a rank.
    pub(super) fn new(rank: ClaimRank, last: u64) -> Self {
        Self { rank, last: Reverse(last) }
    }
}

/// What a process claims.
#[derive(Debug, Default)]
struct Claims {
    bytes: usize,
    by_age: BTreeMap<Claim, usize>,
    /// The first for which there is no room.
    beyond: Option<Claim>,
}

impl Claims {
    fn limit(&mut self, bytes: usize) {
        let mut left = bytes;
        let beyond = self.by_age.iter().find(|(_, claimed)| {
            let fits = **claimed <= left;
            left = left.saturating_sub(**claimed);
            !fits
        });
        self.beyond = beyond.map(|(claim, _)| *claim);
    }
}

/// Bytes that a process claims alike.
#[derive(Clone, Copy, Debug)]
struct ClaimedBytes {
    process: LifeOwner,
    claim: Claim,
    bytes: usize,
}

/// The claims of all processes that run.
pub(super) struct LifetimeShares<'a> {
    lives: &'a ProcessLives,
    owners: FxHashMap<LifeOwner, LifeOwner>,
    claims: BTreeMap<LifeOwner, Claims>,
    /// What was claimed last, and is not in there yet: a process's mappings come in a row.
    last: Option<ClaimedBytes>,
}

impl<'a> LifetimeShares<'a> {
    pub(super) fn of(lives: &'a ProcessLives) -> Self {
        Self { lives, owners: FxHashMap::default(), claims: BTreeMap::new(), last: None }
    }

    /// So many bytes of a process are to be kept.
    pub(super) fn claim(&mut self, process: LifeOwner, claim: Claim, bytes: usize) {
        match &mut self.last {
            Some(last) if last.process == process && last.claim == claim => last.bytes += bytes,
            last => {
                let before = last.replace(ClaimedBytes { process, claim, bytes });
                before.into_iter().for_each(|before| self.enter(before));
            }
        }
    }

    fn enter(&mut self, ClaimedBytes { process, claim, bytes }: ClaimedBytes) {
        let owner = self.owner(process);
        let claims = self.claims.entry(owner).or_default();
        claims.bytes += bytes;
        *claims.by_age.entry(claim).or_default() += bytes;
    }

    /// Divides the room; `user_of` is asked for each process that has something.
    pub(super) fn divide(&mut self, room: usize, user_of: UserOf) {
        self.last.take().into_iter().for_each(|last| self.enter(last));
        let mut users = BTreeMap::<Option<u32>, Vec<&mut Claims>>::new();
        for (owner, claims) in &mut self.claims {
            users.entry(user_of(self.lives.pid(*owner))).or_default().push(claims);
        }
        let held = |claims: &[&mut Claims]| claims.iter().map(|one| one.bytes).collect::<Vec<_>>();
        let of_users = users.values().map(|claims| held(claims).iter().sum()).collect();
        let of_user = fair_level(of_users, room);
        for mut claims in users.into_values() {
            let of_process = fair_level(held(&claims), of_user);
            claims.iter_mut().for_each(|claims| claims.limit(of_process));
        }
    }

    /// Whether there is room for what a process claimed.
    pub(super) fn has_room(&mut self, process: LifeOwner, claim: Claim) -> bool {
        let owner = self.owner(process);
        let beyond = self.claims.get(&owner).and_then(|claims| claims.beyond);
        beyond.is_none_or(|beyond| claim < beyond)
    }

    /// The nearest process that runs, from which that one descends, as far as is known.
    fn owner(&mut self, process: LifeOwner) -> LifeOwner {
        if let Some(owner) = self.owners.get(&process) {
            return *owner;
        }
        let (mut owner, mut passed) = (process, Vec::new());
        loop {
            if let Some(known) = self.owners.get(&owner) {
                owner = *known;
                break;
            }
            let parent = self.lives.heir(owner);
            let Some(parent) = parent else { break };
            passed.push(owner);
            owner = parent;
        }
        passed.push(process);
        self.owners.extend(passed.into_iter().map(|passed| (passed, owner)));
        owner
    }
}
