//! How often a trigger may fire.

/// Whether a cause fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PaceVerdict {
    Fires,
    /// It comes too soon behind the last one that did.
    Paused,
    /// There were as many as there may be.
    Limited,
}

/// The pace of a trigger: ticks.
#[derive(Debug)]
pub(crate) struct TriggerPace {
    left: Option<u32>,
    pause: u64,
    not_before: u64,
}

impl TriggerPace {
    pub(crate) fn new(limit: Option<u32>, pause: u64) -> Self {
        Self { left: limit, pause, not_before: 0 }
    }

    /// A cause at that time.
    pub(crate) fn on(&mut self, at: u64) -> PaceVerdict {
        if self.left == Some(0) {
            return PaceVerdict::Limited;
        }
        if at < self.not_before {
            return PaceVerdict::Paused;
        }
        self.left = self.left.map(|left| left - 1);
        self.not_before = at.saturating_add(self.pause);
        PaceVerdict::Fires
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trigger_rests_after_it_fired_and_fires_no_more_than_it_may() {
        use PaceVerdict::{Fires, Limited, Paused};
        let mut pace = TriggerPace::new(Some(2), 100);
        let causes = [10, 50, 109, 110, 150, 900];
        assert_eq!(causes.map(|at| pace.on(at)), [Fires, Paused, Paused, Fires, Limited, Limited]);
    }
}
