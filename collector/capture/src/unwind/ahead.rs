//! How much time is spent on pages of tables that no walk has asked for yet.

use std::time::{Duration, Instant};

/// So much at once, and so much of each second: what a compiler and its libraries take in all. Code
/// that is costly takes as much and is not finished.
const AT_ONCE: Duration = Duration::from_millis(300);
const SHARE: u32 = 100;

/// Time for what is made ahead, of all users together.
#[derive(Debug)]
pub(super) struct TimeAhead {
    began: Instant,
    spent: Duration,
}

impl TimeAhead {
    /// None of it is spent.
    pub(super) fn begin() -> Self {
        Self { began: Instant::now(), spent: Duration::ZERO }
    }

    /// Whether there is some.
    pub(super) fn has_some(&self) -> bool {
        self.spent < AT_ONCE + self.began.elapsed() / SHARE
    }

    /// Something took so long.
    pub(super) fn took(&mut self, time: Duration) {
        self.spent += time;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_its_time_is_not_gone_on_with() {
        let mut time = TimeAhead::begin();
        assert!(time.has_some());
        time.took(AT_ONCE / 2);
        assert!(time.has_some());
        time.took(AT_ONCE * 100);
        assert!(!time.has_some());
    }
}
