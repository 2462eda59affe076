//! What was not attached to, or late, of each owner of files.
//!
//! Anybody can own files by the thousand, so that what is told of them is summed up: of each user
//! one line, and of few users. It is told beside all other notes, which a user can make many of.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Users that are told apart; what all others have counts for one.
const USERS_MAX: usize = 256;
/// Users who are told of by their numbers.
const TOLD_MAX: usize = 4;
/// What waited for so long is told of.
const LATE: Duration = Duration::from_secs(1);
/// Those whom there was no room to tell apart.
const OTHERS: u32 = u32::MAX;

/// What is known of all of them.
#[derive(Debug, Default)]
pub(super) struct Unattached {
    users: BTreeMap<u32, UserBacklog>,
    /// What the kernel attaches to now.
    now: Option<Attachment>,
}

/// A file that the kernel attaches to.
#[derive(Debug)]
struct Attachment {
    user: u32,
    path: String,
    since: Instant,
}

#[derive(Debug, Default)]
struct UserBacklog {
    /// Files that are not, or not wholly, attached to; the first of them, and why it is not.
    files: u64,
    first: Option<(String, String)>,
    /// Files that wait.
    waiting: u64,
    /// Files that waited, and the longest that one did.
    late: u64,
    longest: Duration,
}

impl Unattached {
    fn of(&mut self, user: u32) -> &mut UserBacklog {
        let has_room = self.users.len() < USERS_MAX || self.users.contains_key(&user);
        self.users.entry(if has_room { user } else { OTHERS }).or_default()
    }

    /// A file of this user is not attached to, or not wholly.
    pub(super) fn refuse(&mut self, user: u32, path: &str, why: String) {
        let of = self.of(user);
        of.files += 1;
        of.first.get_or_insert_with(|| (path.to_owned(), why));
    }

    /// One more file of this user waits.
    pub(super) fn wait(&mut self, user: u32) {
        self.of(user).waiting += 1;
    }

    /// One that waited since then does so no longer.
    pub(super) fn waited(&mut self, user: u32, since: Instant) {
        let (of, waited) = (self.of(user), since.elapsed());
        of.waiting = of.waiting.saturating_sub(1);
        if waited >= LATE {
            of.late += 1;
            of.longest = of.longest.max(waited);
        }
    }

    /// The kernel begins to attach to a file of this user.
    pub(super) fn begin(&mut self, user: u32, path: &str) {
        self.now = Some(Attachment { user, path: path.to_owned(), since: Instant::now() });
    }

    /// It is through.
    pub(super) fn end(&mut self) {
        self.now = None;
    }

    /// What to tell the user of the recorder.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let late = self.now.as_ref().filter(|now| now.since.elapsed() >= LATE);
        if let Some(Attachment { user, path, since }) = late {
            notes.push(format!(
                "the kernel has been attaching to {path} ({}) for {:.1} s, and had not done so \
                 when the recording ended: meanwhile nothing else was attached to, and no process \
                 could fork most of that time",
                name(*user),
                since.elapsed().as_secs_f64()
            ));
        }
        let mut users: Vec<_> = self.users.iter().filter(|(_, of)| of.sum() > 0).collect();
        users.sort_by_key(|(user, of)| (std::cmp::Reverse(of.sum()), **user));
        let (reported, others) = users.split_at(users.len().min(TOLD_MAX));
        notes.extend(reported.iter().map(|(user, of)| format!("{}: {}", name(**user), of.words())));
        if !others.is_empty() {
            let files: u64 = others.iter().map(|(_, of)| of.sum()).sum();
            notes.push(format!(
                "{files} files of {} more users were attached to late or not at all",
                others.len()
            ));
        }
        notes
    }

    /// All files that were not attached to.
    pub(super) fn missing(&self) -> u64 {
        self.users.values().map(|of| of.files + of.waiting).sum()
    }
}

impl UserBacklog {
    fn sum(&self) -> u64 {
        self.files + self.waiting + self.late
    }

    fn words(&self) -> String {
        let mut parts = Vec::new();
        if let Some((path, why)) = &self.first {
            let more = match self.files {
                0 | 1 => String::new(),
                many => format!(" (and {} more files)", many - 1),
            };
            parts.push(format!("of {path}{more} zones and probes are missing, or some are: {why}"));
        }
        if self.waiting > 0 {
            parts.push(format!(
                "{} files still waited to be attached to when the recording ended, for their \
                 owner's files took more than a share of the time",
                self.waiting
            ));
        }
        if self.late > 0 {
            parts.push(format!(
                "{} files were attached to late, by up to {:.1} s",
                self.late,
                self.longest.as_secs_f64()
            ));
        }
        parts.join("; ")
    }
}

fn name(user: u32) -> String {
    match user {
        OTHERS => "files of further users".to_owned(),
        user => format!("files of user {user}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_each_user_one_line_tells_how_many_files_are_missing_and_why_the_first() {
        let mut unattached = Unattached::default();
        (0..500).for_each(|file| unattached.refuse(1001, &format!("/a/{file}"), "too much".into()));
        unattached.wait(1002);
        unattached.wait(1002);
        unattached.waited(1002, Instant::now());
        let notes = unattached.notes();
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(notes[0].starts_with("files of user 1001: of /a/0 (and 499 more"));
        assert!(notes[0].ends_with("too much"), "{notes:?}");
        assert!(notes[1].contains("1 files still waited"), "{notes:?}");
        assert_eq!(unattached.missing(), 501);
    }

    #[test]
    fn what_was_attached_in_time_is_not_worth_a_word() {
        let mut unattached = Unattached::default();
        unattached.wait(1001);
        unattached.waited(1001, Instant::now());
        unattached.begin(1001, "/a");
        assert!(unattached.notes().is_empty());
        let long_ago = Instant::now().checked_sub(LATE).unwrap();
        unattached.now = Some(Attachment { user: 1001, path: "/a".to_owned(), since: long_ago });
        assert!(unattached.notes()[0].contains("/a (files of user 1001)"));
        unattached.end();
        unattached.waited(1001, long_ago);
        assert!(unattached.notes()[0].contains("1 files were attached to late"));
    }

    #[test]
    fn a_user_with_many_numbers_makes_few_lines() {
        let mut unattached = Unattached::default();
        (0..100_000).for_each(|user| unattached.refuse(user, "/a", "no".into()));
        assert_eq!(unattached.notes().len(), TOLD_MAX + 1);
        assert_eq!(unattached.users.len(), USERS_MAX + 1);
        assert_eq!(unattached.missing(), 100_000);
    }
}
