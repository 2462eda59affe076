//! How often a trigger may fire: each user's causes as often as if there were no others.

use crate::payers::{Payer, PayerTable};
use serde::{Deserialize, Serialize};

/// Users whose pace is told apart.
const MOST_USERS: usize = 256;

/// Whether a cause fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PaceVerdict {
    Fires,
    /// It comes too soon behind the last one that did.
    Paused,
    /// There were as many as there may be.
    Limited,
}

/// How often a user's causes came, and what came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UserCounts {
    /// The user who pays for them; `None` of what is nobody's.
    pub user: Option<u32>,
    /// How often they came.
    pub events: u64,
    /// How often the trigger fired.
    pub fired: u64,
    /// How often it did not because it rested.
    pub paused: u64,
    /// How often it did not because there were as many snapshots as there may be.
    pub limited: u64,
    /// How often nothing came of it because more waited to be taken than may.
    pub crowded: u64,
}

/// The pace of a trigger: ticks.
#[derive(Debug)]
pub(crate) struct TriggerPace {
    limit: Option<u32>,
    pause: u64,
    users: PayerTable<UserPace>,
}

/// What is left to one user.
#[derive(Debug)]
pub(crate) struct UserPace {
    left: Option<u32>,
    not_before: u64,
    /// Firings that wait.
    pub(crate) waiting: u32,
    pub(crate) counts: UserCounts,
}

impl TriggerPace {
    pub(crate) fn new(limit: Option<u32>, pause: u64) -> Self {
        Self { limit, pause, users: PayerTable::new(MOST_USERS) }
    }

    /// A user's cause at that time, when all before `decided` was decided on. What programs stamp
    /// may lie long before: that does not make time for more.
    pub(crate) fn on(
        &mut self,
        payer: Payer,
        at: u64,
        decided: u64,
    ) -> (PaceVerdict, &mut UserPace) {
        let (limit, at) = (self.limit, at.max(decided));
        let new = || UserPace {
            left: limit,
            not_before: 0,
            waiting: 0,
            counts: UserCounts { user: payer.user(), ..UserCounts::default() },
        };
        let is_over = |of: &UserPace| limit.is_none() && of.not_before <= at && of.waiting == 0;
        let user = self.users.of(payer, new, is_over);
        user.counts.events += 1;
        let verdict = if user.left == Some(0) {
            user.counts.limited += 1;
            PaceVerdict::Limited
        } else if at < user.not_before {
            user.counts.paused += 1;
            PaceVerdict::Paused
        } else {
            user.left = user.left.map(|left| left - 1);
            user.not_before = at.saturating_add(self.pause);
            PaceVerdict::Fires
        };
        (verdict, user)
    }

    /// No firing waits any more.
    pub(crate) fn taken(&mut self) {
        self.users.values_mut().for_each(|user| user.waiting = 0);
    }

    /// What came of each user's causes, of so many users: those with most first.
    pub(crate) fn counts(&self, most: usize) -> Vec<UserCounts> {
        let mut counts: Vec<&UserCounts> = self.users.iter().map(|(_, of)| &of.counts).collect();
        counts.sort_by_key(|of| (std::cmp::Reverse(of.events), of.user));
        counts.into_iter().take(most).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::PaceVerdict::{Fires, Limited, Paused};
    use super::*;

    const ALICE: Payer = Payer::User(1001);
    const MALLORY: Payer = Payer::User(1002);

    #[test]
    fn a_trigger_rests_after_it_fired_and_fires_no_more_than_it_may() {
        let mut pace = TriggerPace::new(Some(2), 100);
        let causes = [10, 50, 109, 110, 150, 900];
        let verdicts = causes.map(|at| pace.on(ALICE, at, 0).0);
        assert_eq!(verdicts, [Fires, Paused, Paused, Fires, Limited, Limited]);
    }

    #[test]
    fn what_one_user_causes_takes_neither_anothers_pause_nor_its_limit() {
        let mut pace = TriggerPace::new(Some(2), 100);
        for at in 0..900 {
            pace.on(MALLORY, at, 0);
        }
        let verdicts = [900, 950, 1000, 1100].map(|at| pace.on(ALICE, at, 0).0);
        assert_eq!(verdicts, [Fires, Paused, Fires, Limited]);
        assert_eq!(pace.on(Payer::Unknown, 1100, 0).0, Fires);
        let counts = pace.counts(2);
        let limited = UserCounts {
            user: Some(1002),
            events: 900,
            paused: 99,
            limited: 799,
            ..UserCounts::default()
        };
        assert_eq!((&counts[0], counts[1].user), (&limited, Some(1001)));
    }

    #[test]
    fn users_without_number_have_one_limit_beyond_those_that_are_told_apart() {
        let mut pace = TriggerPace::new(Some(1), 0);
        let fired = (1..10_000).filter(|user| pace.on(Payer::User(*user), 5, 0).0 == Fires);
        assert_eq!(fired.count(), MOST_USERS + 1);
        assert_eq!(pace.on(Payer::User(0), 5, 0).0, Fires, "root has its own");
        // Without a limit who rests no longer makes room.
        let mut pace = TriggerPace::new(None, 10);
        let fired = (1..10_000).filter(|user| {
            let at = u64::from(*user);
            pace.on(Payer::User(*user), at, 0).0 == Fires
        });
        assert_eq!(fired.count(), 9_999);
    }

    #[test]
    fn causes_that_lie_in_the_past_come_when_they_are_told() {
        let mut pace = TriggerPace::new(None, 100);
        assert_eq!([0, 200, 400].map(|at| pace.on(ALICE, at, 1_000).0), [Fires, Paused, Paused]);
        assert_eq!([0, 200].map(|at| pace.on(ALICE, at, 1_100).0), [Fires, Paused]);
    }
}
