//! How much of a CPU the thread that makes unwind tables takes.

use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use syscollect_untrusted_files::payer;

use crate::priority::{FirstForPart, FirstParts, go_before_most, go_behind_others};
use crate::usage::thread_cpu_time;

/// So much CPU time at once, and so much of each second, for all users together. One alone has half
/// of it.
const AT_ONCE: Duration = Duration::from_secs(1);
const SHARE: u32 = 10;
/// A part of it in the real-time class: a nice value counts only within a session.
const FIRST: FirstParts = FirstParts::of(Duration::from_millis(10));
/// Who pays for what is done for nobody.
const ROOT: u32 = 0;

/// Stacks are cut as long as their tables are not there, most of them when a recording begins, and
/// on a busy machine whoever goes behind others comes too late. So the thread goes before them, but
/// for part of the time only, and for each user as much of that as the user leaves to others: whose
/// files are costly waits.
pub(super) struct SharedBoost {
    began: Instant,
    is_on: bool,
    first: FirstForPart,
    /// Whom the thread works for, and its CPU time when it began to.
    user: u32,
    since: Duration,
    /// CPU time before others, by who pays for it.
    spent: Spent,
}

impl SharedBoost {
    /// From now on the calling thread is boosted, which is to be the one that calls all the rest.
    pub(super) fn begin() -> Self {
        go_before_most();
        let (began, since) = (Instant::now(), thread_cpu_time());
        let first = FirstForPart::begin(FIRST);
        Self { began, is_on: true, first, user: ROOT, since, spent: Spent::default() }
    }

    /// What comes now is done for this user.
    pub(super) fn serve(&mut self, user: u32) {
        let now = thread_cpu_time();
        if self.is_on {
            self.spent.add(self.user, now.saturating_sub(self.since));
        }
        (self.user, self.since) = (payer(user), now);
        let may = self.spent.allows(self.user, AT_ONCE + self.began.elapsed() / SHARE);
        match (self.is_on, may) {
            (false, true) => go_before_most(),
            (true, false) => {
                self.first.stand_back();
                go_behind_others();
            }
            _ => {}
        }
        self.is_on = may;
        if may {
            self.first.follow();
        }
    }

    /// What comes now is done for nobody: looking whether there is something to do, soon.
    pub(super) fn idle(&mut self) {
        self.serve(ROOT);
    }
}

#[derive(Debug, Default)]
struct Spent {
    all: Duration,
    of_users: FxHashMap<u32, Duration>,
}

impl Spent {
    fn add(&mut self, user: u32, time: Duration) {
        self.all += time;
        *self.of_users.entry(user).or_default() += time;
    }

    /// Whether a user may have more of what all may have. As with a [`Pool`](crate::shares::Pool),
    /// root may have all.
    fn allows(&self, user: u32, all: Duration) -> bool {
        let had = self.of_users.get(&user).copied().unwrap_or_default();
        let left = all.saturating_sub(self.all);
        if user == ROOT { !left.is_zero() } else { had < left }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_costly_leaves_as_much_to_others_as_it_takes() {
        let (mut spent, all) = (Spent::default(), Duration::from_millis(1000));
        for (user, expected) in [(1001, 500), (1002, 250), (1001, 0), (ROOT, 250)] {
            let mut taken = 0;
            while spent.allows(user, all) {
                spent.add(user, Duration::from_millis(1));
                taken += 1;
            }
            assert_eq!(taken, expected, "{user}");
        }
    }
}
