//! Where the time goes after a recording and in an export, for `--timings`.

use std::time::{Duration, Instant};
use syscollect_model::{duration, grouped};

/// How long each part of some work took, one after the other.
#[derive(Debug)]
pub(crate) struct Timings {
    /// When the present part began.
    since: Instant,
    parts: Vec<(&'static str, Duration)>,
}

impl Timings {
    /// The first part begins now.
    pub(crate) fn start() -> Self {
        Self { since: Instant::now(), parts: Vec::new() }
    }

    /// The present part, called so, ends, and the next begins.
    pub(crate) fn end(&mut self, part: &'static str) {
        let now = Instant::now();
        self.parts.push((part, now - self.since));
        self.since = now;
    }

    /// `Time: stopping 80.0 ms; exporting 1.20 s; in all 1.28 s, 4,687,500 events a second`.
    pub(crate) fn text(&self, events: u64) -> String {
        let parts: Vec<String> = self
            .parts
            .iter()
            .map(|(part, time)| format!("{part} {}", duration(nanoseconds(*time))))
            .collect();
        let all: Duration = self.parts.iter().map(|(_, time)| *time).sum();
        let rate = events as f64 / all.as_secs_f64().max(1e-9);
        format!(
            "Time: {}; in all {}, {} events a second",
            parts.join("; "),
            duration(nanoseconds(all)),
            grouped(rate as u64)
        )
    }
}

fn nanoseconds(time: Duration) -> u64 {
    time.as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_told_in_their_order_and_together() {
        let (ms, since) = (Duration::from_millis, Instant::now());
        let parts = vec![("stopping", ms(500)), ("exporting", ms(1_500))];
        let text = Timings { since, parts }.text(9_000_000);
        assert_eq!(
            text,
            "Time: stopping 500 ms; exporting 1.50 s; in all 2.00 s, 4,500,000 events a second"
        );
    }
}
