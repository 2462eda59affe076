//! What was not taken over, by user: counts, and what is told of it. Any user makes as much of both
//! as they like, so each has room of its own.

use rustc_hash::FxHashMap;
use syscollect_untrusted_files::payer;

/// Users that are told apart; all others are one.
pub(super) const USERS_MAX: usize = 64;
/// Under this number of no user are those beyond.
const OTHER_USERS: u32 = u32::MAX;
/// What is told of a user's programs one by one.
const OF_A_USER_MAX: usize = 8;

/// Notes about programs, each once, and how many rings of each user could not be had.
#[derive(Default)]
pub(super) struct Refusals {
    notes: Vec<String>,
    users: FxHashMap<u32, UserRefusals>,
}

/// Something to tell of a user's program.
pub(super) struct UserNote {
    pub(super) user: u32,
    pub(super) note: String,
}

#[derive(Default)]
struct UserRefusals {
    notes: usize,
    not_taken: u64,
}

impl Refusals {
    /// A ring or an arena of a user's program could not be had.
    pub(super) fn count(&mut self, user: u32) {
        self.user(user).1.not_taken += 1;
    }

    /// Tells something of a user's program.
    pub(super) fn note(&mut self, user: u32, note: &str) {
        let (user, of_user) = self.user(user);
        if of_user.notes > OF_A_USER_MAX {
            return;
        }
        let whose = match user {
            OTHER_USERS => "other users".to_owned(),
            user => format!("user {user}"),
        };
        let note = match of_user.notes == OF_A_USER_MAX {
            true => format!("{whose}: the same of more programs; what was lost is counted"),
            false => format!("{whose}: {note}"),
        };
        if !self.notes.contains(&note) {
            self.user(user).1.notes += 1;
            self.notes.push(note);
        }
    }

    fn user(&mut self, user: u32) -> (u32, &mut UserRefusals) {
        let user = payer(user);
        let is_told_apart = self.users.len() < USERS_MAX || self.users.contains_key(&user);
        let user = if is_told_apart { user } else { OTHER_USERS };
        (user, self.users.entry(user).or_default())
    }

    /// What is told.
    pub(super) fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Rings and arenas that could not be had, by user; nobody's number where these are several.
    pub(super) fn not_taken(&self) -> impl Iterator<Item = (Option<u32>, u64)> {
        self.users
            .iter()
            .map(|(user, of_user)| ((*user != OTHER_USERS).then_some(*user), of_user.not_taken))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_fills_their_notes_leaves_room_for_those_of_others() {
        let mut refusals = Refusals::default();
        for pid in 0..10_000 {
            refusals.count(1001);
            refusals.note(1001, &format!("process {pid}: its zones are not recorded"));
        }
        refusals.count(1002);
        refusals.note(1002, "process 7: its zones are not recorded");
        refusals.note(1002, "process 7: its zones are not recorded");
        assert_eq!(refusals.notes().len(), OF_A_USER_MAX + 2);
        assert!(refusals.notes()[OF_A_USER_MAX].starts_with("user 1001: the same of more"));
        let last = refusals.notes().last().map(String::as_str);
        assert_eq!(last, Some("user 1002: process 7: its zones are not recorded"));
        let counted: FxHashMap<_, _> = refusals.not_taken().collect();
        assert_eq!((counted[&Some(1001)], counted[&Some(1002)]), (10_000, 1));
    }

    #[test]
    fn more_users_than_are_told_apart_have_room_together() {
        let mut refusals = Refusals::default();
        for user in 0..1000 {
            refusals.count(2_000_000 + user);
            refusals.note(2_000_000 + user, "it is gone");
        }
        assert!(refusals.notes().len() <= USERS_MAX + OF_A_USER_MAX + 1);
        assert!(refusals.notes().contains(&"other users: it is gone".to_owned()));
        assert_eq!(refusals.not_taken().map(|(_, count)| count).sum::<u64>(), 1000);
    }
}
