//! Announcements that nobody looked at, by user: what the kernel program did not pass on, and what
//! was beyond a user's share here.

use std::collections::BTreeMap;
use std::io;
use std::ops::Add;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use syscollect_model::{LaneKind, LossCause};
use syscollect_records::RecordKind;
use syscollect_store::{LaneLoss, LostRecord};
use syscollect_untrusted_files::payer;

use crate::by_user;
use crate::ring_buffers::Mapping;

/// Users as bpf/include/announce.h tells them apart.
const ANNOUNCERS: usize = 1024;
/// Words of `struct announcer`, and of them those that are read.
const WORDS: usize = 8;
const ARENAS_DROPPED: usize = 3;
const OTHERS_DROPPED: usize = 4;
const PROCESS_AND_USER: usize = 6;
/// Users that are told apart here.
const USERS_MAX: usize = 512;
/// Under this number of no user are those beyond.
const OTHER_USERS: u32 = u32::MAX;

/// How many announcements of a user nobody looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DroppedAnnouncements {
    /// Of arenas.
    pub(super) arenas: u64,
    /// Of descriptors that were none.
    pub(super) others: u64,
}

impl Add for DroppedAnnouncements {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { arenas: self.arenas + other.arenas, others: self.others + other.others }
    }
}

/// What the kernel program counts, mapped.
pub(super) struct Announcers {
    memory: Mapping,
}

impl Announcers {
    /// Maps it.
    pub(super) fn map(map: BorrowedFd<'_>) -> io::Result<Self> {
        let memory = Mapping::new(map, 0, ANNOUNCERS * WORDS * 8, libc::PROT_READ)?;
        Ok(Self { memory })
    }

    fn word(&self, announcer: usize, index: usize) -> u64 {
        assert!(announcer < ANNOUNCERS && index < WORDS);
        // SAFETY: within the mapping by the assertion, aligned, accessed as an atomic.
        let word = unsafe {
            AtomicU64::from_ptr(
                self.memory.base.as_ptr().add((announcer * WORDS + index) * 8).cast(),
            )
        };
        word.load(Ordering::Relaxed)
    }

    /// Users with what was not passed on of theirs.
    fn all(&self) -> impl Iterator<Item = (u32, DroppedAnnouncements)> {
        let all = (0..ANNOUNCERS).map(move |announcer| {
            (
                announcer,
                DroppedAnnouncements {
                    arenas: self.word(announcer, ARENAS_DROPPED),
                    others: self.word(announcer, OTHERS_DROPPED),
                },
            )
        });
        all.filter(|(_, dropped)| *dropped != DroppedAnnouncements::default()).map(
            |(announcer, dropped)| ((self.word(announcer, PROCESS_AND_USER) >> 32) as u32, dropped),
        )
    }
}

/// What was beyond users' shares here; shared with whoever finds that out.
#[derive(Clone, Debug, Default)]
pub(super) struct OverShareCounts(Arc<Mutex<BTreeMap<u32, u64>>>);

impl OverShareCounts {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, u64>> {
        // Whole between any two statements that can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more announcement of this user was not looked at.
    pub(super) fn add(&self, user: u32) {
        let mut counts = self.lock();
        let user = payer(user);
        let is_told_apart = counts.len() < USERS_MAX || counts.contains_key(&user);
        *counts.entry(if is_told_apart { user } else { OTHER_USERS }).or_default() += 1;
    }
}

/// What nobody looked at, by the users who pay for it.
pub(super) fn by_user(
    announcers: &Announcers,
    beyond: &OverShareCounts,
) -> BTreeMap<u32, DroppedAnnouncements> {
    let mut users = BTreeMap::<u32, DroppedAnnouncements>::new();
    for (user, dropped) in announcers.all() {
        let sum = users.entry(payer(user)).or_default();
        *sum = *sum + dropped;
    }
    for (user, count) in &*beyond.lock() {
        users.entry(*user).or_default().arenas += count;
    }
    users
}

/// The same as losses: of each nobody knows how many zones its ring holds.
pub(super) fn losses(
    users: &BTreeMap<u32, DroppedAnnouncements>,
) -> impl Iterator<Item = LaneLoss> {
    users.iter().map(|(user, dropped)| LaneLoss {
        origin: LaneKind::Zone.into(),
        cpu: None,
        record: LostRecord::Kind(RecordKind::Ring),
        cause: LossCause::NotTaken,
        user: (*user != OTHER_USERS).then_some(*user),
        count: dropped.arenas + dropped.others,
    })
}

/// What to tell the user of it in the end, the most first.
pub(super) fn notes(users: &BTreeMap<u32, DroppedAnnouncements>) -> Vec<String> {
    let mut users: Vec<(u32, DroppedAnnouncements)> =
        users.iter().map(|(user, one)| (*user, *one)).collect();
    users.sort_by_key(|(user, one)| (std::cmp::Reverse(one.arenas + one.others), *user));
    by_user::notes(users.into_iter().map(|(user, one)| (whose(user), one)), words)
}

fn whose(user: u32) -> String {
    match user {
        OTHER_USERS => "of other users".to_owned(),
        user => format!("of user {user}"),
    }
}

fn words(DroppedAnnouncements { arenas, others }: &DroppedAnnouncements, whose: &str) -> String {
    format!(
        "programs {whose} announce rings of zones faster than these are looked at: {arenas} of \
         arenas and {others} of descriptors that are none were left out; what these programs wrote \
         may be missing"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_looked_at_is_told_of_its_user_and_of_many_users_together() {
        let beyond = OverShareCounts::default();
        (0..3).for_each(|_| beyond.add(1001));
        (2000..2020).for_each(|user| beyond.add(user));
        let mut users = BTreeMap::from([(1001, DroppedAnnouncements { arenas: 0, others: 70 })]);
        for (user, count) in &*beyond.lock() {
            users.entry(*user).or_default().arenas += count;
        }
        let notes = notes(&users);
        assert_eq!(notes.len(), by_user::REPORTED_MAX + 1);
        assert!(notes[0].starts_with("programs of user 1001 announce"), "{}", notes[0]);
        assert!(notes[0].contains("3 of arenas and 70 of descriptors"), "{}", notes[0]);
        assert!(
            notes[by_user::REPORTED_MAX].contains("13 more users"),
            "{}",
            notes[by_user::REPORTED_MAX]
        );
        let of_the_one = losses(&users).find(|loss| loss.user == Some(1001)).unwrap();
        assert_eq!((of_the_one.count, of_the_one.cause), (73, LossCause::NotTaken));
    }

    #[test]
    fn of_more_users_than_are_told_apart_the_rest_is_counted_together() {
        let beyond = OverShareCounts::default();
        (0..USERS_MAX as u32 + 100).for_each(|user| beyond.add(1_000_000 + user * 7));
        assert_eq!(beyond.lock().len(), USERS_MAX + 1);
        assert_eq!(beyond.lock().values().sum::<u64>(), USERS_MAX as u64 + 100);
        assert_eq!(whose(OTHER_USERS), "of other users");
    }
}
