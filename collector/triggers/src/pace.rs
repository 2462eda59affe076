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

    /// A cause at that time, when all before `decided` was decided on. What programs stamp may lie
    /// long before: that does not make time for more.
    pub(crate) fn on(&mut self, at: u64, decided: u64) -> PaceVerdict {
        let at = at.max(decided);
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
        let verdicts = causes.map(|at| pace.on(at, 0));
        assert_eq!(verdicts, [Fires, Paused, Paused, Fires, Limited, Limited]);
    }

    #[test]
    fn causes_that_lie_in_the_past_come_when_they_are_told() {
        use PaceVerdict::{Fires, Paused};
        let mut pace = TriggerPace::new(None, 100);
        assert_eq!([0, 200, 400].map(|at| pace.on(at, 1_000)), [Fires, Paused, Paused]);
        assert_eq!([0, 200].map(|at| pace.on(at, 1_100)), [Fires, Paused]);
    }
}
