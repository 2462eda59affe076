//! What the recorder itself takes.

use crate::record::flight::ViewedStatus;
use std::time::{Duration, Instant};

/// Less than that is too short for a share.
const SHORTEST: Duration = Duration::from_millis(500);

/// What it takes, and what it has lost.
#[derive(Clone, Debug, Default)]
pub(super) struct OwnCost {
    /// CPU time of the whole program since the last look, per cent of one CPU; what the kernel does
    /// for it while others run is theirs.
    pub(super) cpu_percent: f64,
    /// Of it, the thread that makes this view.
    pub(super) view_percent: f64,
    /// The most memory that it had.
    pub(super) peak_bytes: u64,
    /// How far back events are held, and what they take.
    pub(super) held: Duration,
    pub(super) held_bytes: u64,
    /// Events that were lost since the beginning.
    pub(super) lost: u64,
    /// Chunks that came faster than this view took them.
    pub(super) unseen_chunks: u64,
    pub(super) before: Option<LastLook>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct LastLook {
    at: Instant,
    cpu: Duration,
    viewer_cpu: Duration,
}

impl OwnCost {
    /// Notes how the recorder is.
    pub(super) fn note(&mut self, status: &ViewedStatus, unseen_chunks: u64, now: Instant) {
        (self.peak_bytes, self.lost) = (status.peak_bytes, status.lost);
        (self.held, self.held_bytes) = (status.held, status.held_bytes);
        self.unseen_chunks = unseen_chunks;
        let look = LastLook { at: now, cpu: status.cpu, viewer_cpu: status.viewer_cpu };
        let Some(before) = self.before else {
            self.before = Some(look);
            return;
        };
        let passed = now.saturating_duration_since(before.at);
        if passed < SHORTEST {
            return;
        }
        let percent = |now: Duration, before: Duration| {
            now.saturating_sub(before).as_secs_f64() * 100.0 / passed.as_secs_f64()
        };
        self.cpu_percent = percent(look.cpu, before.cpu);
        self.view_percent = percent(look.viewer_cpu, before.viewer_cpu);
        self.before = Some(look);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_the_time_between_two_looks() {
        let start = Instant::now();
        let mut cost = OwnCost::default();
        let status = |ms, viewer_ms| ViewedStatus {
            cpu: Duration::from_millis(ms),
            viewer_cpu: Duration::from_millis(viewer_ms),
            ..ViewedStatus::default()
        };
        cost.note(&status(500, 100), 0, start);
        assert_eq!((cost.cpu_percent, cost.view_percent), (0.0, 0.0));
        cost.note(&status(600, 110), 0, start + Duration::from_secs(2));
        assert!((cost.cpu_percent - 5.0).abs() < 1e-9, "{}", cost.cpu_percent);
        assert!((cost.view_percent - 0.5).abs() < 1e-9);
        cost.note(&status(700, 110), 3, start + Duration::from_millis(2010));
        assert!((cost.cpu_percent - 5.0).abs() < 1e-9, "too short to say");
        assert_eq!(cost.unseen_chunks, 3);
    }
}
