//! How thoroughly a module may be named still, and whose CPU time that takes.
//!
//! A file may be built so that each look-up in its debug information takes long. So CPU time is
//! counted by file and by the files' owner: what is beyond a share is named from symbol tables
//! alone, which is quick, and what is far beyond it keeps its offsets.

use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;
use syscollect_untrusted_files::payer;

/// The system's own files, and those of the user who asks, may take so many times the share of
/// another user's: nobody builds them against who asks, and honest ones may be large.
const TRUSTED: u32 = 8;

/// How thoroughly a module may be named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NamingPace {
    /// With inlined functions and lines.
    #[default]
    Thorough,
    /// From symbol tables.
    Quick,
    /// Not any further.
    Over,
}

/// A module's turn: whoever names it asks, whoever watches the clocks answers.
#[derive(Debug)]
pub(crate) struct NamingTurn {
    owner: AtomicU64,
    pace: AtomicU8,
    /// CPU time that another process took for it, nanoseconds.
    elsewhere_ns: AtomicU64,
}

impl Default for NamingTurn {
    fn default() -> Self {
        Self {
            owner: AtomicU64::new(u64::MAX),
            pace: AtomicU8::new(NamingPace::Thorough as u8),
            elsewhere_ns: AtomicU64::new(0),
        }
    }
}

impl NamingTurn {
    /// Whose file it is, once it was found.
    pub(crate) fn belongs_to(&self, user: u32) {
        self.owner.store(user.into(), Ordering::Relaxed);
    }

    pub(crate) fn owner(&self) -> Option<u32> {
        u32::try_from(self.owner.load(Ordering::Relaxed)).ok()
    }

    /// Another process took so much CPU time for it.
    pub(crate) fn spend_elsewhere(&self, time: Duration) {
        self.elsewhere_ns.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    /// CPU time that other processes took for it.
    pub(crate) fn spent_elsewhere(&self) -> Duration {
        Duration::from_nanos(self.elsewhere_ns.load(Ordering::Relaxed))
    }

    /// No more than this from now on.
    pub(crate) fn slow_to(&self, pace: NamingPace) {
        self.pace.fetch_max(pace as u8, Ordering::Relaxed);
    }

    pub(crate) fn pace(&self) -> NamingPace {
        match self.pace.load(Ordering::Relaxed) {
            0 => NamingPace::Thorough,
            1 => NamingPace::Quick,
            _ => NamingPace::Over,
        }
    }
}

/// CPU time that naming took, by the owner of the files; `None` stands for files that nobody has
/// looked at yet.
#[derive(Debug)]
pub(crate) struct Accounts {
    spent: FxHashMap<Option<u32>, Duration>,
    of_module: Duration,
    of_owner: Duration,
    /// Who asks for the names.
    asked_by: Option<u32>,
}

impl Accounts {
    /// With the shares of a module and of all modules of a user, for the user `asked_by`.
    pub(crate) fn new(of_module: Duration, of_owner: Duration, asked_by: Option<u32>) -> Self {
        Self { spent: FxHashMap::default(), of_module, of_owner, asked_by }
    }

    pub(crate) fn spend(&mut self, owner: Option<u32>, time: Duration) {
        *self.spent.entry(owner.map(payer)).or_default() += time;
    }

    pub(crate) fn spent(&self, owner: Option<u32>) -> Duration {
        self.spent.get(&owner.map(payer)).copied().unwrap_or_default()
    }

    /// Whether nobody would build that user's files against who asks.
    pub(crate) fn is_trusted(owner: u32, asked_by: Option<u32>) -> bool {
        owner == 0 || asked_by == Some(owner)
    }

    /// What a module that took `spent` is left with.
    pub(crate) fn pace(&self, owner: Option<u32>, spent: Duration) -> NamingPace {
        let is_trusted = owner.is_some_and(|user| Self::is_trusted(user, self.asked_by));
        let times = if is_trusted { TRUSTED } else { 1 };
        pace(spent, self.of_module * times).max(pace(self.spent(owner), self.of_owner * times))
    }
}

fn pace(spent: Duration, share: Duration) -> NamingPace {
    match spent {
        _ if spent > share + share / 4 => NamingPace::Over,
        _ if spent > share => NamingPace::Quick,
        _ => NamingPace::Thorough,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn one_users_files_take_nothing_from_another_users() {
        let mut accounts = Accounts::new(4 * SECOND, 8 * SECOND, None);
        accounts.spend(Some(1000), 9 * SECOND);
        assert_eq!(accounts.pace(Some(1000), SECOND), NamingPace::Quick);
        accounts.spend(Some(1000), 2 * SECOND);
        assert_eq!(accounts.pace(Some(1000), Duration::ZERO), NamingPace::Over);
        accounts.spend(Some(0), 60 * SECOND);
        for other in [Some(1001), Some(0), None] {
            assert_eq!(accounts.pace(other, SECOND), NamingPace::Thorough);
        }
    }

    #[test]
    fn a_module_loses_its_lines_before_its_names() {
        let accounts = Accounts::new(4 * SECOND, 80 * SECOND, Some(1000));
        // The system's may be large, and so may those of who asks.
        for (user, seconds) in [(1001, [4, 5, 6]), (0, [32, 33, 41]), (1000, [32, 33, 41])] {
            let paces = seconds.map(|spent| accounts.pace(Some(user), spent * SECOND));
            assert_eq!(
                paces,
                [NamingPace::Thorough, NamingPace::Quick, NamingPace::Over],
                "{user}"
            );
        }
        let turn = NamingTurn::default();
        assert_eq!((turn.pace(), turn.owner()), (NamingPace::Thorough, None));
        turn.slow_to(NamingPace::Over);
        turn.slow_to(NamingPace::Quick);
        assert_eq!(turn.pace(), NamingPace::Over, "nobody gets time back");
        turn.belongs_to(7);
        assert_eq!(turn.owner(), Some(7));
    }
}
